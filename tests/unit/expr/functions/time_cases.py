"""Calls as text, for tables of PostgreSQL 15's answers: ("+", "2024-01-31::date", "1 month::interval")."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.laws.admits import admits
from tidegate.errors import TidegateError
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.specs import Specs
from tidegate.expr.evaluate.evaluator import evaluate
from tidegate.expr.model import order
from tidegate.expr.model.build import call, cast, text
from tidegate.expr.model.tree import Column, Expr, Literal, walk
from tidegate.expr.model.types import TEXT, Type, parse_type


def literal(written: str) -> Literal:
    """`value::type` as a constant."""
    value, _, type_ = written.rpartition("::")
    constant = cast(text(value), parse_type(type_))
    assert isinstance(constant, Literal)
    return constant


def answer(name: str, *args: str) -> str | None:
    """The text of the call's value, or `ERROR: ` and the message."""
    try:
        outcome = evaluate(cast(call(name, *map(literal, args)), TEXT), [], rows=1)
    except TidegateError as refused:
        return f"ERROR: {refused}"
    if outcome.errors is not None and outcome.errors[0].is_valid:
        return f"ERROR: {outcome.errors[0].as_py()}"
    shown: str | None = outcome.values[0].as_py()
    return shown


def column(type_: Type, *values: str) -> pa.Array:
    """Texts as an array of a type."""
    outcome = evaluate(cast(Column(0, TEXT), type_), [pa.array(values, pa.string())])
    assert outcome.errors is None, outcome.errors
    return outcome.values


def one_range(type_: Type, low: str, high: str) -> Specs:
    """A container whose values lie between two texts."""
    return Specs.ranged(type_, column(type_, low), column(type_, high))


def bounds(expr: Expr, *columns: Specs) -> tuple[str | None, str | None, bool]:
    """The bounds of an expression in the first container, as text, and whether it may fail."""
    specs = Interpretation(columns).of(expr)
    low, high = (
        evaluate(cast(Column(0, expr.type), TEXT), [end.slice(0, 1)]).values[0].as_py()
        for end in specs.bounds()
    )
    return low, high, bool(specs.error[0])


def assert_sound(expr: Expr, pools: list[pa.Array], rng: np.random.Generator, n: int = 400) -> None:
    """For n boxes of values from the pools (sorted), the description admits what a row inside gives."""
    columns, rows = [], []
    for type_, pool in zip(_types(expr, len(pools)), pools, strict=True):
        places = np.sort(rng.integers(0, len(pool), (3, n)), axis=0)
        low, row, high = (pool.take(pa.array(place)) for place in places)
        months = None
        if pa.types.is_interval(pool.type):
            months = np.any([order.interval_parts(end)[0] != 0 for end in (low, row, high)], axis=0)
        columns.append(Specs.ranged(type_, low, high, months=months, exact=places[0] == places[2]))
        rows.append(row)
    values, errors = evaluate(expr, rows)
    admitted = admits(Interpretation(columns).of(expr), values, errors)
    first = int(np.argmin(admitted))
    assert admitted.all(), [r[first] for r in rows]


def _types(expr: Expr, n: int) -> list[Type]:
    found = {node.index: node.type for node in walk(expr) if isinstance(node, Column)}
    return [found[i] for i in range(n)]


def sorted_pool(array: pa.Array) -> pa.Array:
    """Values in our order."""
    key = order.interval_key(array) if pa.types.is_interval(array.type) else array
    return array.take(pc.array_sort_indices(key))
