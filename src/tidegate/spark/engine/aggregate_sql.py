"""Aggregates, window functions and orders as Spark SQL, with the meaning that they have everywhere in Tidegate.

| ours | in Spark |
|---|---|
| sum of int8, numeric(p,s) | a sum of decimals, wide enough; overflow is an error, as ANSI has it |
| sum of float4 | added as doubles |
| sum of intervals | of months, days and microseconds by themselves |
| min, max of intervals | by length, a month being 30 days |
| string_agg | listagg … WITHIN GROUP |
| array_agg | collect_list of what NULL can stand in; NULL of no rows |
| row_number, rank, ntile, … | cast to our type; without ORDER BY all rows are peers |

avg, bool_and and the like were written with these when the query was bound.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.errors import UnsupportedError
from tidegate.expr.spark_literal import literal_sql
from tidegate.expr.tree import Expr, Literal
from tidegate.expr.types import Kind, Type
from tidegate.sql.split import Order, Span, Summary

FRAMED = frozenset(("first_value", "last_value", "nth_value", "count", "sum", "min", "max"))
"""Window functions that see a frame; others see the whole partition, whatever the frame."""


def aggregate(one: Summary, names: Mapping[Expr, str]) -> str:
    """An aggregate over a group."""
    return _called(one, names, "")


def windowed(one: Summary, span: Span, names: Mapping[Expr, str]) -> str:
    """A window function."""
    parts = []
    if span.partition:
        parts.append(f"PARTITION BY {', '.join(names[key] for key in span.partition)}")
    if span.order:
        parts.append(f"ORDER BY {', '.join(order_text(order, names) for order in span.order)}")
    elif one.kind not in FRAMED or span.frame is not None:
        parts.append("ORDER BY 1")  # Spark insists on an order where PostgreSQL takes any
    if span.frame is not None and one.kind in FRAMED:
        parts.append(span.frame)
    return _called(one, names, f" OVER ({' '.join(parts)})")


def order_text(order: Order, names: Mapping[Expr, str]) -> str:
    """An entry of ORDER BY."""
    text = names[order.value]
    if order.value.type.kind is Kind.INTERVAL:
        text = length(text)
    way = "DESC" if order.descending else "ASC"
    return f"{text} {way} NULLS {'FIRST' if order.nulls_first else 'LAST'}"


def length(interval: str) -> str:
    """An interval as a number of microseconds, a month being 30 days: what it is compared by."""
    days = f"CAST({interval}.months AS DECIMAL(20,0)) * 30 + {interval}.days"
    return f"(CAST(({days}) * 86400000000 AS DECIMAL(30,0)) + {interval}.micros)"


def _called(one: Summary, names: Mapping[Expr, str], over: str) -> str:
    args = [names.get(value) or constant(value) for value in one.given]
    distinct = "DISTINCT " if one.distinct else ""
    match one.kind:
        case "count":
            return f"count({distinct}{args[0] if args else '*'}){over}"
        case "sum":
            return _sum(one, args[0], distinct, over)
        case "min" | "max" if one.type.kind is Kind.INTERVAL:
            return f"{one.kind}_by({args[0]}, {length(args[0])}){over}"
        case "min" | "max" | "first_value" | "last_value" | "nth_value" | "lag" | "lead":
            return f"{one.kind}({', '.join(args)}){over}"
        case "string_agg":
            keys = ", ".join(order_text(order, names) for order in one.order)
            within = f" WITHIN GROUP (ORDER BY {keys})" if keys else ""
            return f"listagg({distinct}{args[0]}, {args[1]}){within}{over}"
        case "array_agg":
            listed = f"transform(collect_list(named_struct('v', {args[0]})){over}, s -> s.v)"
            return f"CASE WHEN count(*){over} = 0 THEN NULL ELSE {listed} END"
        case "grouping":
            bits = [f"CAST(grouping({arg}) AS INT) * {1 << i}" for i, arg in enumerate(reversed(args))]
            return f"({' + '.join(bits)})"
        case "row_number" | "rank" | "dense_rank" | "percent_rank" | "cume_dist" | "ntile":
            return f"CAST({one.kind}({', '.join(args)}){over} AS {one.type.spark})"
        case kind:
            raise UnsupportedError(f"the aggregate {kind} is not supported")


def _sum(one: Summary, arg: str, distinct: str, over: str) -> str:
    given, out = one.given[0].type, one.type
    if out.kind is Kind.INTERVAL:
        parts = [
            f"'{name}', CAST(sum({arg}.{name}){over} AS {type_})"
            for name, type_ in (("months", "INT"), ("days", "INT"), ("micros", "BIGINT"))
        ]
        return f"CASE WHEN count({arg}){over} > 0 THEN named_struct({', '.join(parts)}) END"
    if out.is_float:
        total = f"sum({distinct}CAST({arg} AS DOUBLE)){over}"
        return total if out.kind is Kind.FLOAT8 else f"CAST({total} AS FLOAT)"
    if out.kind is Kind.NUMERIC:
        return f"CAST(sum({distinct}CAST({arg} AS {_narrow(given, out)})){over} AS {out.spark})"
    return f"sum({distinct}{arg}){over}"


def _narrow(given: Type, out: Type) -> str:
    """The narrowest decimal to add up: Spark gives a sum ten digits more, up to 38."""
    if given.is_integer:
        return "DECIMAL(19,0)" if given.kind is Kind.INT8 else "DECIMAL(10,0)"
    return given.spark if (given.precision or 38) <= 28 else out.spark


def constant(value: Expr) -> str:
    """A constant that stands in a call."""
    text = literal_sql(value) if isinstance(value, Literal) else None
    if text is None:
        raise UnsupportedError("this must be a constant that Spark can say")
    return text
