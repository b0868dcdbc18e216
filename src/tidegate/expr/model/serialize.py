"""Types and expressions as JSON, for plans that are stored in the catalog.

    #1 + '30 days'                        over created_at timestamptz

    [{"column": 1, "type": "timestamptz", "name": "created_at"},
     {"value": [0, 30, 0], "type": "interval"},
     {"call": "+(timestamptz, interval)", "version": 1, "args": [0, 1], "type": "timestamptz"}]

Nodes are listed arguments first and refer to their arguments by number, so shared nodes are written once and depth costs nothing.
A function is identified by its signature and version: a change of its results must raise the version (`function.py`). The version
before stays declared, so a stored plan gives the same results for ever; a plan with a version that is not declared is rejected with
the name of the function instead of running with other results.

Values are exact: floats as Python prints them (`nan`, `-0.0`), numerics as text, times as integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate
from typing import Any, assert_never

import pyarrow as pa

from tidegate.errors import PlanError, TidegateError
from tidegate.expr.model.function import REGISTRY, Function
from tidegate.expr.model.tree import Call, Column, Expr, Literal, Now, children, walk
from tidegate.expr.model.types import UNKNOWN, Kind, Type, parse_type, record

# ---------------------------------------------------------------- types


def type_to_json(type_: Type) -> Any:
    """A type as JSON: its SQL name, or for arrays and records an object."""
    if type_.element is not None:
        return {"array": type_to_json(type_.element)}
    if type_.kind is Kind.RECORD:
        return {"record": [[name, type_to_json(inner)] for name, inner in type_.fields]}
    return str(type_)


_named_type = lru_cache(parse_type)
"""Cached, since every query reads the schema of its collection and there are few types."""


def type_from_json(json: Any) -> Type:
    """A type from JSON."""
    if isinstance(json, str):
        return UNKNOWN if json == "unknown" else _named_type(json)
    if "array" in json:
        return Type(Kind.ARRAY, element=type_from_json(json["array"]))
    return record(*((name, type_from_json(inner)) for name, inner in json["record"]))


# ---------------------------------------------------------------- expressions


def to_json(exprs: Sequence[Expr]) -> tuple[list[dict[str, Any]], list[int]]:
    """The nodes of expressions, and the node number of each expression."""
    place: dict[Expr, int] = {}
    nodes: list[dict[str, Any]] = []
    for node in walk(*exprs):
        place[node] = len(nodes)
        nodes.append(_node(node, [place[arg] for arg in children(node)]))
    return nodes, [place[expr] for expr in exprs]


def from_json(nodes: Sequence[dict[str, Any]]) -> list[Expr]:
    """The expression of every node; a PlanError if a function is missing or has another version."""
    exprs: list[Expr] = []
    for node in nodes:
        exprs.append(_expr(node, exprs))
    return exprs


def _node(expr: Expr, args: list[int]) -> dict[str, Any]:
    match expr:
        case Column(index, type_, name):
            label = {"name": name} if name else {}
            return {"column": index, "type": type_to_json(type_), **label}
        case Literal(value, type_):
            return {"value": value_to_json(value, type_), "type": type_to_json(type_)}
        case Now():
            return {"now": True}
        case Call(function, _, type_):
            identity = {"call": reference(function), "version": function.version}
            return {**identity, "args": args, "type": type_to_json(type_)}
        case _:
            assert_never(expr)


def _expr(node: dict[str, Any], exprs: list[Expr]) -> Expr:
    if "now" in node:
        return Now()
    type_ = type_from_json(node["type"])
    if "column" in node:
        return Column(node["column"], type_, node.get("name", ""))
    if "call" in node:
        args = tuple(exprs[arg] for arg in node["args"])
        return Call(_function(node["call"], node["version"]), args, type_)
    return Literal(value_from_json(node["value"], type_), type_)


# ---------------------------------------------------------------- functions


def reference(function: Function) -> str:
    """The name under which a function is stored: `+(timestamptz, interval)`, `cast text to int4`."""
    if function.name == "cast":
        for (source, target), candidate in REGISTRY.casts():
            if candidate is function:
                return f"cast {source} to {target}"
    return f"{function.name}({', '.join(map(str, function.params))}{', …' if function.variadic else ''})"


@lru_cache(1)
def _references() -> dict[str, dict[int, Function]]:
    """Every function by the name under which it is stored, and by version."""
    found: dict[str, dict[int, Function]] = {}
    for function in REGISTRY:
        found.setdefault(reference(function), {})[function.version] = function
    return found


def _function(name: str, version: int) -> Function:
    versions = _references().get(name)
    if versions is None:
        raise PlanError(
            f"a stored plan uses {name}, which this version of Tidegate does not have",
            construct=name,
            hint="use the version of Tidegate that stored the plan, or a newer one",
        )
    if version not in versions:
        raise PlanError(
            f"{name} gives other results (version {max(versions)}) than when the plan was stored (version {version})",
            construct=name,
            hint="ALTER SOURCE … SET TRANSFORM USING (…) binds the transform again, for records that arrive from then on",
        )
    return versions[version]


# ---------------------------------------------------------------- values


def value_to_json(value: pa.Scalar, type_: Type) -> Any:
    """A constant as JSON."""
    if not value.is_valid:
        return None
    match type_.kind:
        case Kind.FLOAT4 | Kind.FLOAT8:
            return repr(float(value.as_py()))
        case Kind.NUMERIC:
            return str(value.as_py())
        case Kind.BYTEA | Kind.UUID:
            return value.as_py().hex()
        case Kind.DATE:
            return value.cast(pa.int32()).as_py()
        case Kind.TIME | Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return value.cast(pa.int64()).as_py()
        case Kind.INTERVAL:
            return list(value.as_py())
        case Kind.ARRAY:
            assert type_.element is not None
            return [value_to_json(item, type_.element) for item in value.values]
        case Kind.RECORD:
            return [value_to_json(value[i], inner) for i, (_, inner) in enumerate(type_.fields)]
        case _:
            return value.as_py()


def value_from_json(json: Any, type_: Type) -> pa.Scalar:
    """A constant from JSON."""
    try:
        return _array([json], type_)[0]
    except (pa.ArrowException, ValueError, TypeError, ArithmeticError) as error:
        raise TidegateError(f"a stored plan holds {json!r}, which is not a valid {type_}: {error}") from None


def _array(values: Sequence[Any], type_: Type) -> pa.Array:
    """Constants of one type."""
    present = [value is not None for value in values]
    match type_.kind:
        case Kind.FLOAT4 | Kind.FLOAT8:
            return pa.array([None if v is None else float(v) for v in values], pa.float64()).cast(type_.arrow)
        case Kind.NUMERIC:
            return pa.array([None if v is None else Decimal(v) for v in values], type_.arrow)
        case Kind.BYTEA | Kind.UUID:
            return pa.array([None if v is None else bytes.fromhex(v) for v in values], type_.arrow)
        case Kind.DATE:
            return pa.array(values, pa.int32()).cast(type_.arrow)
        case Kind.TIME | Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return pa.array(values, pa.int64()).cast(type_.arrow)
        case Kind.INTERVAL:
            months = [None if v is None else pa.MonthDayNano(v) for v in values]
            return pa.array(months, type_.arrow)
        case Kind.ARRAY:
            assert type_.element is not None
            lengths = [0 if v is None else len(v) for v in values]
            items = _array([item for v in values for item in v or ()], type_.element)
            offsets = pa.array([0, *accumulate(lengths)], pa.int32())
            mask = pa.array([not t for t in present], pa.bool_())
            return pa.ListArray.from_arrays(offsets, items, type=type_.arrow, mask=mask)
        case Kind.RECORD:
            fields = [
                _array([None if v is None else v[i] for v in values], inner)
                for i, (_, inner) in enumerate(type_.fields)
            ]
            if not fields:
                return pa.array([{} if t else None for t in present], type_.arrow)
            mask = pa.array([not t for t in present], pa.bool_())
            return pa.StructArray.from_arrays(fields, fields=list(type_.arrow), mask=mask)
        case _:
            return pa.array(values, type_.arrow)
