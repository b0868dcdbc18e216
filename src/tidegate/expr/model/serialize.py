"""Types and expressions as JSON: how a plan outlasts the process that bound it, and the version that it ran with.

    #1 + '30 days'                        over created_at timestamptz

    [{"column": 1, "type": "timestamptz", "name": "created_at"},
     {"value": [0, 30, 0], "type": "interval"},
     {"call": "+(timestamptz, interval)", "version": 1, "args": [0, 1], "type": "timestamptz"}]

Nodes are listed arguments first and name their arguments by number, so that what is shared is written once and depth costs
nothing. A function is named by its parameters, as documentation prints it, and with its version: whoever changes what a function
gives raises the version (`function.py`), and a plan that was stored with another one is refused by name rather than run otherwise.

Values are exact: floats as Python prints them (`nan`, `-0.0`), numerics as text, times as counts of their unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from importlib import import_module
from itertools import accumulate
from typing import Any, assert_never

import pyarrow as pa

from tidegate.errors import PlanError, TidegateError
from tidegate.expr.function import REGISTRY, Function
from tidegate.expr.tree import Call, Column, Expr, Literal, Now, children, walk
from tidegate.expr.types import UNKNOWN, Kind, Type, parse_type, record

# ---------------------------------------------------------------- types


def type_to_json(type_: Type) -> Any:
    """A type as JSON: its SQL name, or for arrays and records what they hold."""
    if type_.element is not None:
        return {"array": type_to_json(type_.element)}
    if type_.kind is Kind.RECORD:
        return {"record": [[name, type_to_json(inner)] for name, inner in type_.fields]}
    return str(type_)


_named_type = lru_cache(parse_type)
"""Every query reads its collection's schema, and there are few types."""


def type_from_json(given: Any) -> Type:
    """A type from JSON."""
    if isinstance(given, str):
        return UNKNOWN if given == "unknown" else _named_type(given)
    if "array" in given:
        return Type(Kind.ARRAY, element=type_from_json(given["array"]))
    return record(*((name, type_from_json(inner)) for name, inner in given["record"]))


# ---------------------------------------------------------------- expressions


def to_json(exprs: Sequence[Expr]) -> tuple[list[dict[str, Any]], list[int]]:
    """The nodes of expressions, and of each expression the number of its node."""
    place: dict[Expr, int] = {}
    nodes: list[dict[str, Any]] = []
    for node in walk(*exprs):
        place[node] = len(nodes)
        nodes.append(_node(node, [place[arg] for arg in children(node)]))
    return nodes, [place[expr] for expr in exprs]


def from_json(nodes: Sequence[dict[str, Any]]) -> list[Expr]:
    """The expression of every node; a PlanError that names the function, if one is not there any more as it was."""
    made: list[Expr] = []
    for node in nodes:
        made.append(_expr(node, made))
    return made


def _node(expr: Expr, args: list[int]) -> dict[str, Any]:
    match expr:
        case Column(index, type_, name):
            named = {"name": name} if name else {}
            return {"column": index, "type": type_to_json(type_), **named}
        case Literal(value, type_):
            return {"value": value_to_json(value, type_), "type": type_to_json(type_)}
        case Now():
            return {"now": True}
        case Call(function, _, type_):
            said = {"call": reference(function), "version": function.version}
            return {**said, "args": args, "type": type_to_json(type_)}
        case _:
            assert_never(expr)


def _expr(node: dict[str, Any], made: list[Expr]) -> Expr:
    if "now" in node:
        return Now()
    type_ = type_from_json(node["type"])
    if "column" in node:
        return Column(node["column"], type_, node.get("name", ""))
    if "call" in node:
        args = tuple(made[arg] for arg in node["args"])
        return Call(_function(node["call"], node["version"]), args, type_)
    return Literal(value_from_json(node["value"], type_), type_)


# ---------------------------------------------------------------- functions


def reference(function: Function) -> str:
    """What a function is called where it is stored: `+(timestamptz, interval)`, `cast text to int4`."""
    if function.name == "cast":
        for (source, target), known in REGISTRY.casts():
            if known is function:
                return f"cast {source} to {target}"
    return f"{function.name}({', '.join(map(str, function.params))}{', …' if function.variadic else ''})"


@lru_cache(1)
def _references() -> dict[str, Function]:
    import_module("tidegate.expr.functions")  # fills the registry
    return {reference(function): function for function in REGISTRY}


def _function(name: str, version: int) -> Function:
    found = _references().get(name)
    if found is None:
        raise PlanError(
            f"{name}, which a stored plan uses, is not known to this version of Tidegate",
            construct=name,
            hint="use the version that made it, or a newer one",
        )
    if found.version != version:
        raise PlanError(
            f"{name} gives other results (version {found.version}) than when the plan was stored (version {version})",
            construct=name,
            hint="ALTER SOURCE … SET TRANSFORM USING (…) binds the transform anew, for what arrives from then on",
        )
    return found


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


def value_from_json(given: Any, type_: Type) -> pa.Scalar:
    """A constant from JSON."""
    try:
        return _array([given], type_)[0]
    except (pa.ArrowException, ValueError, TypeError, ArithmeticError) as error:
        raise TidegateError(f"a stored plan holds {given!r}, which is no {type_}: {error}") from None


def _array(given: Sequence[Any], type_: Type) -> pa.Array:
    """Constants of one type."""
    there = [value is not None for value in given]
    match type_.kind:
        case Kind.FLOAT4 | Kind.FLOAT8:
            return pa.array([None if v is None else float(v) for v in given], pa.float64()).cast(type_.arrow)
        case Kind.NUMERIC:
            return pa.array([None if v is None else Decimal(v) for v in given], type_.arrow)
        case Kind.BYTEA | Kind.UUID:
            return pa.array([None if v is None else bytes.fromhex(v) for v in given], type_.arrow)
        case Kind.DATE:
            return pa.array(given, pa.int32()).cast(type_.arrow)
        case Kind.TIME | Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return pa.array(given, pa.int64()).cast(type_.arrow)
        case Kind.INTERVAL:
            months = [None if v is None else pa.MonthDayNano(v) for v in given]
            return pa.array(months, type_.arrow)
        case Kind.ARRAY:
            assert type_.element is not None
            lengths = [0 if v is None else len(v) for v in given]
            items = _array([item for v in given for item in v or ()], type_.element)
            offsets = pa.array([0, *accumulate(lengths)], pa.int32())
            mask = pa.array([not t for t in there], pa.bool_())
            return pa.ListArray.from_arrays(offsets, items, type=type_.arrow, mask=mask)
        case Kind.RECORD:
            fields = [
                _array([None if v is None else v[i] for v in given], inner)
                for i, (_, inner) in enumerate(type_.fields)
            ]
            if not fields:
                return pa.array([{} if t else None for t in there], type_.arrow)
            mask = pa.array([not t for t in there], pa.bool_())
            return pa.StructArray.from_arrays(fields, fields=list(type_.arrow), mask=mask)
        case _:
            return pa.array(given, type_.arrow)
