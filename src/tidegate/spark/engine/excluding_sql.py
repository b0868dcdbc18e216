"""Aggregates over a frame without the rows that EXCLUDE names, as Spark SQL over lists.

    sum(x) OVER (… EXCLUDE CURRENT ROW)

    aggregate(filter(transform(filter(collect_list(named_struct('v', x, 'p', c7, 'g', c8)) OVER (…), s -> s.p <> c7), …

`window_rewrite.py` has given each row its number (p) and the number of its group of equal rows (g).
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.errors import UnsupportedError
from tidegate.expr.model import Kind, Literal
from tidegate.plan import logical

_BITS = {"bit_and": "&", "bit_or": "|", "bit_xor": "^"}


def excluding_sql(one: logical.AggregateExpr, args: Sequence[str], where: str, over: str) -> str:
    """Returns `excluding(value, row, group, kind, exclusion, …)` over a window."""
    kind, exclusion = excluded_kind(one), _word(one, 4)
    value, row, group = args[:3]
    element = f"named_struct('v', {value}, 'p', {row}, 'g', {group})"
    element = f"CASE WHEN {where} THEN {element} END" if where else element
    stays = {
        "current row": f"s.p <> {row}",
        "group": f"s.g <> {group}",
        "ties": f"(s.g <> {group} OR s.p = {row})",
    }[exclusion]
    values = f"transform(filter(collect_list({element}){over}, s -> {stays}), s -> s.v)"
    return _reduced(one, kind, values, args[5:])


def excluded_kind(one: logical.AggregateExpr) -> str | None:
    """Returns which aggregate it is that leaves out rows; None if it is another."""
    return _word(one, 3) if one.kind == "excluding" else None


def _word(one: logical.AggregateExpr, place: int) -> str:
    word = one.args[place]
    assert isinstance(word, Literal)
    return str(word.value.as_py())


def _reduced(one: logical.AggregateExpr, kind: str | None, values: str, more: Sequence[str]) -> str:
    """Returns the aggregate of a list of values."""
    present, type_ = f"filter({values}, v -> v IS NOT NULL)", one.type.spark
    match kind:
        case "count":
            return f"CAST(size({present}) AS bigint)"
        case "array_agg":
            return f"CASE WHEN size({values}) > 0 THEN {values} END"
        case "string_agg":
            return f"CASE WHEN size({present}) > 0 THEN array_join({present}, {more[0]}) END"
        case "first_value":
            return f"get({values}, 0)"
        case "last_value":
            return f"get({values}, size({values}) - 1)"
        case "nth_value":
            return f"get({values}, {more[0]} - 1)"
        case "min" | "max" if one.type.kind is not Kind.INTERVAL:
            return f"array_{kind}({values})"
        case "sum":
            start = "DOUBLE" if one.type.is_float else type_
            total = f"aggregate({present}, CAST(0 AS {start}), (a, v) -> CAST(a + v AS {start}))"
            return f"CASE WHEN size({present}) > 0 THEN CAST({total} AS {type_}) END"
        case "bit_and" | "bit_or" | "bit_xor":
            rest = f"slice({present}, 2, size({present}))"
            step = f"(a, v) -> CAST(a {_BITS[kind]} v AS {type_})"
            return f"CASE WHEN size({present}) > 0 THEN aggregate({rest}, get({present}, 0), {step}) END"
        case _:
            raise UnsupportedError(
                f"{kind} over a frame with EXCLUDE is not supported by Spark", hint="SET engine = embedded"
            )
