"""Aggregates, window functions and orders as Spark SQL with exactly our meaning.

| ours | in Spark |
|---|---|
| sum of int8, numeric(p,s) | a sum of decimals, wide enough; overflow is an error, as in ANSI mode |
| sum of float4 | added as doubles |
| sum of intervals | of months, days and microseconds separately |
| min, max of intervals | by length, a month being 30 days |
| string_agg | listagg … WITHIN GROUP |
| array_agg | collect_list of structs, which may hold NULL; NULL for no rows |
| row_number, rank, ntile, … | cast to our type; without ORDER BY all rows are peers |

Binding has already replaced avg, bool_and and the like by these.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.errors import UnsupportedError
from tidegate.expr.model import Expr, Kind, Literal, Type
from tidegate.expr.spark_sql import literal_sql
from tidegate.plan import logical

FRAMED = frozenset(("first_value", "last_value", "nth_value", "count", "sum", "min", "max"))
"""Window functions that use a frame; the others see the whole partition."""


def aggregate_sql(one: logical.AggregateExpr, names: Mapping[Expr, str]) -> str:
    """Returns an aggregate over a group."""
    return _call(one, names, "")


def window_sql(one: logical.AggregateExpr, span: logical.WindowSpec, names: Mapping[Expr, str]) -> str:
    """Returns a window function."""
    parts = []
    if span.partition:
        parts.append(f"PARTITION BY {', '.join(names[key] for key in span.partition)}")
    if span.order:
        parts.append(f"ORDER BY {', '.join(order_sql(order, names) for order in span.order)}")
    elif one.kind not in FRAMED or span.frame is not None:
        parts.append("ORDER BY 1")  # Spark requires an order where PostgreSQL does not
    if span.frame is not None and one.kind in FRAMED:
        parts.append(span.frame)
    return _call(one, names, f" OVER ({' '.join(parts)})")


def order_sql(order: logical.SortKey, names: Mapping[Expr, str]) -> str:
    """Returns an entry of ORDER BY."""
    text = names[order.value]
    if order.value.type.kind is Kind.INTERVAL:
        text = interval_length(text)
    direction = "DESC" if order.descending else "ASC"
    return f"{text} {direction} NULLS {'FIRST' if order.nulls_first else 'LAST'}"


def interval_length(interval: str) -> str:
    """Returns an interval in microseconds, a month being 30 days: intervals compare by it."""
    days = f"CAST({interval}.months AS DECIMAL(20,0)) * 30 + {interval}.days"
    return f"(CAST(({days}) * 86400000000 AS DECIMAL(30,0)) + {interval}.micros)"


def _call(one: logical.AggregateExpr, names: Mapping[Expr, str], over: str) -> str:
    args = [names.get(value) or constant(value) for value in one.args]
    distinct = "DISTINCT " if one.distinct else ""
    match one.kind:
        case "count":
            return f"count({distinct}{args[0] if args else '*'}){over}"
        case "sum":
            return _sum(one, args[0], distinct, over)
        case "min" | "max" if one.type.kind is Kind.INTERVAL:
            return f"{one.kind}_by({args[0]}, {interval_length(args[0])}){over}"
        case "min" | "max" | "first_value" | "last_value" | "nth_value" | "lag" | "lead":
            return f"{one.kind}({', '.join(args)}){over}"
        case "string_agg":
            keys = ", ".join(order_sql(order, names) for order in one.order)
            within = f" WITHIN GROUP (ORDER BY {keys})" if keys else ""
            return f"listagg({distinct}{args[0]}, {args[1]}){within}{over}"
        case "array_agg":
            elements = f"transform(collect_list(named_struct('v', {args[0]})){over}, s -> s.v)"
            return f"CASE WHEN count(*){over} = 0 THEN NULL ELSE {elements} END"
        case "grouping":
            bits = [f"CAST(grouping({arg}) AS INT) * {1 << i}" for i, arg in enumerate(reversed(args))]
            return f"({' + '.join(bits)})"
        case "row_number" | "rank" | "dense_rank" | "percent_rank" | "cume_dist" | "ntile":
            return f"CAST({one.kind}({', '.join(args)}){over} AS {one.type.spark})"
        case kind:
            raise UnsupportedError(f"the aggregate {kind} is not supported")


def _sum(one: logical.AggregateExpr, arg: str, distinct: str, over: str) -> str:
    source, out = one.args[0].type, one.type
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
        return f"CAST(sum({distinct}CAST({arg} AS {_decimal_to_sum(source, out)})){over} AS {out.spark})"
    return f"sum({distinct}{arg}){over}"


def _decimal_to_sum(source: Type, out: Type) -> str:
    """Returns the narrowest decimal type to add up: Spark gives a sum ten digits more, up to 38."""
    if source.is_integer:
        return "DECIMAL(19,0)" if source.kind is Kind.INT8 else "DECIMAL(10,0)"
    return source.spark if (source.precision or 38) <= 28 else out.spark


def constant(value: Expr) -> str:
    """Returns a constant argument of a call."""
    text = literal_sql(value) if isinstance(value, Literal) else None
    if text is None:
        raise UnsupportedError("this argument must be a constant that Spark SQL can express")
    return text
