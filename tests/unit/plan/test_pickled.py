"""Plans travel to Spark's tasks: what is pickled comes back the same, however deep, with constants of every type."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from tests.laws.poison import corpus
from tidegate.config import MAX_NESTING
from tidegate.errors import LimitError
from tidegate.expr.model import build
from tidegate.expr.model.function import REGISTRY
from tidegate.expr.model.tree import Call, Column, Expr, Literal, walk
from tidegate.expr.model.types import INT4, INTERVAL, SCALARS, TEXT, Type, array, record
from tidegate.plan.mfp import MapFilterProject

ONE = build.literal(1, INT4)


def again(value: object) -> object:
    return pickle.loads(pickle.dumps(value))  # our own


def deep(levels: int) -> Expr:
    made: Expr = Column(0, INT4, "a")
    while made.depth < levels:
        made = build.call("+", made, ONE)
    return made


@pytest.mark.parametrize(
    "type_", [*SCALARS, array(INTERVAL), record(("x", INT4), ("y", TEXT))], ids=str
)  # fmt: skip
def test_constants(type_: Type) -> None:
    for value in pa.concat_arrays([corpus(type_), pa.nulls(1, type_.arrow)]):
        literal = Literal(value, type_)
        found = again(literal)
        assert found == literal
        assert isinstance(found, Literal)
        assert found.value.type == literal.value.type


def test_every_function_is_found_again() -> None:
    for function in REGISTRY:
        assert again(function) is function


def test_as_deep_as_an_expression_may_be() -> None:
    """Two trees of 400 levels are also compared without recursion: Python's own limit is 1,000 frames."""
    one = deep(MAX_NESTING)
    found = again(one)
    assert found == one
    assert found is not one
    plan = MapFilterProject.identity((INT4,)).map(one).filter(build.call(">", deep(MAX_NESTING - 1), ONE))
    assert again(plan) == plan
    assert deep(MAX_NESTING) != build.call("+", deep(MAX_NESTING - 1), Column(1, INT4))
    with pytest.raises(LimitError):
        deep(MAX_NESTING + 1)


def test_what_is_shared_is_sent_once() -> None:
    """Doubled forty times, it would be a trillion nodes."""
    made: Expr = Column(0, INT4)
    for _ in range(40):
        made = build.call("+", made, made)
    data = pickle.dumps(made)
    assert len(data) < 10_000
    found = pickle.loads(data)  # our own
    assert found == made
    assert len([node for node in walk(found) if isinstance(node, Call)]) == 40


def test_names_of_columns_are_kept() -> None:
    found = again(build.call("+", Column(0, INT4, "price"), ONE))
    assert isinstance(found, Call)
    assert found.args[0].name == "price"  # type: ignore[union-attr]  # it is the column
