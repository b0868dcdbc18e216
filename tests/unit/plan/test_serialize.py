"""Plans as JSON: what is stored comes back the same, with constants of every type; what has changed meanwhile is refused."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tests.laws.poison import corpus
from tidegate.config import MAX_NESTING
from tidegate.errors import PlanError, TidegateError
from tidegate.expr.model import build
from tidegate.expr.model import serialize as stored
from tidegate.expr.model.function import REGISTRY
from tidegate.expr.model.tree import Column, Expr, Literal, Now
from tidegate.expr.model.types import (
    BOOL,
    INT4,
    INT8,
    INTERVAL,
    JSONB,
    SCALARS,
    TEXT,
    UNKNOWN,
    Type,
    array,
    record,
)
from tidegate.plan import MapFilterProject
from tidegate.plan import serialize as plans
from tidegate.plan.run.safe_plan import SafePlan
from tidegate.sql.bind import query as bind


def through(value: Any) -> Any:
    """As it comes out of the catalog."""
    return json.loads(json.dumps(value))


NESTED = [
    array(INTERVAL),
    array(array(INT8)),
    record(("x", INT4), ("y", TEXT)),
    array(record(("x", array(TEXT)), ("z", BOOL))),
]


@pytest.mark.parametrize("type_", [*SCALARS, *NESTED, UNKNOWN], ids=str)
def test_types(type_: Type) -> None:
    assert stored.type_from_json(through(stored.type_to_json(type_))) == type_


@pytest.mark.parametrize("type_", [*SCALARS, *NESTED[:1], NESTED[2]], ids=str)
def test_constants(type_: Type) -> None:
    for value in pa.concat_arrays([corpus(type_), pa.nulls(1, type_.arrow)]):
        literal = Literal(value, type_)
        nodes, (place,) = stored.to_json([literal])
        found = stored.from_json(through(nodes))[place]
        assert found == literal
        assert isinstance(found, Literal)
        assert found.value.type == literal.value.type


def test_nested_constants() -> None:
    values = [
        ([[1, None], [], None], NESTED[1]),
        ([{"x": ["a", None], "z": None}, None], NESTED[3]),
        ([], NESTED[3]),
    ]
    for value, type_ in values:
        literal = Literal(pa.scalar(value, type_.arrow), type_)
        nodes, (place,) = stored.to_json([literal])
        assert stored.from_json(through(nodes))[place] == literal


def test_every_function_has_a_name_of_its_own() -> None:
    names = {(stored.reference(function), function.version): function for function in REGISTRY}
    assert len(names) == sum(1 for _ in REGISTRY)
    for (name, version), function in names.items():
        assert stored._function(name, version) is function
        assert pickle.loads(pickle.dumps(function)) is function


def test_what_is_shared_is_written_once_and_depth_costs_nothing() -> None:
    made: Expr = Column(0, INT4, "a")
    while made.depth < MAX_NESTING:
        made = build.call("+", made, made)
    plan = MapFilterProject.identity((INT4,)).map(made).filter(build.call("<", Now(), Column(0, INT4)))
    kept = through(plans.to_json(plan))
    assert len(kept["nodes"]) < 2 * MAX_NESTING
    assert plans.from_json(kept) == plan


def test_a_plan() -> None:
    columns = [("a", INT8), ("j", JSONB)]
    where = bind.bind_expression("a > 5 AND j->>'k' IN ('x', 'y')", columns)
    plan = (
        MapFilterProject.identity([type_ for _, type_ in columns])
        .filter(where)
        .map(bind.bind_expression("a * 2", columns))
        .project((2, 0))
    )
    kept = through(plans.to_json(plan))
    assert kept["project"] == [2, 0]
    assert {"call": "*(int8, int8)", "version": 1, "args": [0, 1], "type": "int8"} in kept["nodes"]
    found = plans.from_json(kept)
    assert found == plan
    assert found.conditions[0] == plan.conditions[0]
    assert plans.from_json(through(plans.to_json(MapFilterProject.identity(())))).arity == 0


def test_functions_that_changed_are_refused_by_name() -> None:
    plan = MapFilterProject.identity((INT8,)).map(bind.bind_expression("a + 1", [("a", INT8)]))
    kept = through(plans.to_json(plan))
    call = next(node for node in kept["nodes"] if "call" in node)
    call["version"] = 7
    with pytest.raises(
        PlanError, match=r"\+\(int8, int8\) gives other results \(version 1\).*\(version 7\)"
    ) as error:
        plans.from_json(kept)
    assert "SET TRANSFORM" in str(error.value)
    call["call"], call["version"] = "frobnicate(int8)", 1
    with pytest.raises(
        PlanError, match=r"uses frobnicate\(int8\), which this version of Tidegate does not have"
    ):
        plans.from_json(kept)


def test_a_constant_that_is_none() -> None:
    with pytest.raises(TidegateError, match="which is not a valid int4"):
        stored.value_from_json("seven", INT4)


def test_a_later_version_of_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check is against the declaration, not against what was written beside it."""
    function = REGISTRY.overloads("+")[0]
    newer = replace(function, version=2)
    table = {**stored._references(), stored.reference(function): {2: newer}}
    monkeypatch.setattr(stored, "_references", lambda: table)
    assert stored._function(stored.reference(function), 2) is newer
    with pytest.raises(PlanError, match="version 1"):
        stored._function(stored.reference(function), 1)


def test_plans_keep_the_version_that_they_were_stored_with() -> None:
    """Version 1 of `->` found no element in a scalar; the order of jsonb was that of its text."""
    element = through(plans.to_json(plan_of("p -> 0")))
    assert [node["version"] for node in element["nodes"] if "call" in node] == [2]
    assert rows_of(element) == ["5", "1"]
    for node in element["nodes"]:
        node |= {"version": 1} if "call" in node else {}
    assert rows_of(element) == [None, "1"]
    column, nine = {"column": 0, "type": "jsonb"}, {"value": "9", "type": "jsonb"}
    less = {"call": "<(anyA, anyA)", "version": 1, "args": [0, 1], "type": "bool"}
    by_text = {"inputs": ["jsonb"], "nodes": [column, nine, less], "map": [2], "filter": [], "project": [1]}
    assert rows_of(by_text, "10") == [True]
    assert rows_of(through(plans.to_json(plan_of("p < '9'"))), "10") == [False]


def plan_of(sql: str) -> MapFilterProject:
    plan = MapFilterProject.identity((JSONB,)).map(bind.bind_expression(sql, [("p", JSONB)]))
    return plan.project((1,))


def rows_of(kept: dict[str, Any], *documents: str) -> list[Any]:
    """What a stored plan gives for documents."""
    column = pa.array(documents or ("5", "[1]"))
    (made,) = SafePlan(plans.from_json(kept)).evaluate([column], len(column)).columns
    return list(made.to_pylist())
