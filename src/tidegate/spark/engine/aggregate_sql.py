"""Aggregates, window functions and orders as Spark SQL with exactly our meaning.

| ours | in Spark |
|---|---|
| sum of int8, numeric(p,s) | a sum of decimals, wide enough; overflow is an error, as in ANSI mode |
| sum of float4 | added as doubles |
| min, max of intervals | by length, a month being 30 days |
| array_agg | collect_list of structs, which may hold NULL, sorted by array_sort; NULL for no rows |
| string_agg | such a list, joined |
| row_number, rank, ntile, … | cast to our type; without ORDER BY all rows are peers |

Binding has already replaced avg, bool_and and the like by these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.errors import UnsupportedError
from tidegate.expr.model import Expr, Kind, Literal, Type
from tidegate.expr.spark_sql import literal_sql
from tidegate.plan import logical, window_frame
from tidegate.spark.engine.excluding_sql import excluded_kind, excluding_sql
from tidegate.spark.engine.frame_sql import distance_key, frame_sql, is_empty
from tidegate.spark.translate.to_spark_sql import spark_sql

MAX_LIMIT = 1 << 31
"""Spark's LIMIT is less; a larger one limits nothing that Spark could return."""


@dataclass(frozen=True)
class SparkDialect:
    """The words of Spark SQL; `call` writes a call of our evaluator."""

    call: Callable[[Expr, Sequence[str]], str]
    name: str = "Spark SQL"
    correlated_rows: bool = True
    null_aware_in: bool = False
    """As a value, Spark's IN is false instead of NULL."""
    totals_of_nothing: bool = False
    common_rows_in_steps: bool = False
    """Spark computes a common table again in each step, where `random()` gives other values."""
    calls_in_on: bool = False
    calls_in_subqueries: bool = False
    """Spark 4.3 plans such an argument again in its tasks, where there is no session: a NullPointerException."""
    reorders_conditions: bool = False

    def scalar(self, expr: Expr, columns: Sequence[str], *, may_fail: bool) -> str | None:
        """Returns a scalar expression, if Spark can express it exactly; it fails where ours does."""
        del may_fail  # Spark evaluates conditions in the order in which they are written
        return spark_sql(expr, columns)

    def evaluated(self, expr: Expr, columns: Sequence[str]) -> str:
        """Returns a call of our evaluator."""
        return self.call(expr, columns)

    def aggregate(self, one: logical.AggregateExpr, names: Mapping[Expr, str]) -> str:
        """Returns an aggregate over a group."""
        return aggregate_sql(one, names)

    def window(self, one: logical.AggregateExpr, span: logical.WindowSpec, names: Mapping[Expr, str]) -> str:
        """Returns a window function."""
        return window_sql(one, span, names)

    def order(self, key: logical.SortKey, names: Mapping[Expr, str]) -> str:
        """Returns an entry of ORDER BY."""
        return order_sql(key, names)

    def cast(self, text: str, type_: Type) -> str:
        """Returns a value cast to a type of ours."""
        return f"CAST({text} AS {type_.spark})"

    def single_value(self, column: str) -> str:
        """Returns the value of a column in the only row."""
        more = "raise_error('More than one row returned by a subquery')"
        return f"CASE WHEN count(*) > 1 THEN {more} ELSE any_value({column}) END"

    def limit(self, rows: int | None, offset: int) -> str:
        """Returns LIMIT and OFFSET."""
        limit = f" LIMIT {rows}" if rows is not None and rows < MAX_LIMIT else ""
        return limit + (f" OFFSET {offset}" if offset else "")

    def numbered_rows(self, count: int, name: str) -> str:
        """Returns a SELECT of numbers from 0."""
        return f"SELECT id AS {name} FROM range({count})"

    def elements(
        self,
        columns: Sequence[str],
        arrays: Sequence[tuple[str, str, Type]],
        position: str | None,
        below: str,
        *,
        outer: bool,
    ) -> str:
        """Returns a SELECT of the elements of arrays side by side."""
        view = f"LATERAL VIEW {'OUTER ' if outer else ''}posexplode"
        place = [] if position is None else [f"CAST(p + 1 AS BIGINT) AS {position}"]
        if len(arrays) == 1:
            name, array, _ = arrays[0]
            shown = ", ".join([*columns, name, *place])
            return f"SELECT {shown} FROM {below} {view}({array}) e AS p, {name}"
        full = [f"coalesce({array}, CAST(array() AS {type_.spark})) AS {array}" for _, array, type_ in arrays]
        inner = f"(SELECT {', '.join([*columns, *full])} FROM {below}) AS {arrays[0][1]}_all"
        shown = ", ".join([*columns, *(f"e.{array} AS {name}" for name, array, _ in arrays), *place])
        zipped = f"arrays_zip({', '.join(array for _, array, _ in arrays)})"
        return f"SELECT {shown} FROM {inner} {view}({zipped}) v AS p, e"

    def recursive(self, table: str, columns: str, first: str, step: str, *, every: bool) -> str:
        """Returns WITH RECURSIVE, up to the SELECT that reads the table."""
        if not every:
            raise UnsupportedError(
                "WITH RECURSIVE … UNION is not supported on Spark",
                hint="UNION ALL is, or SET engine = embedded",
            )
        return f"WITH RECURSIVE {table} ({columns}) AS (({first}) UNION ALL ({step})) "

    def common_table(self, name: str, query: str) -> str:
        """Returns an entry of WITH; Spark computes it once where it calls what is not deterministic."""
        return f"{name} AS ({query})"


def aggregate_sql(one: logical.AggregateExpr, names: Mapping[Expr, str]) -> str:
    """Returns an aggregate over a group."""
    return _call(one, names, "")


def window_sql(one: logical.AggregateExpr, span: logical.WindowSpec, names: Mapping[Expr, str]) -> str:
    """Returns a window function."""
    frame = None if one.kind in window_frame.UNFRAMED else span.frame
    if frame is not None and is_empty(frame):
        return (
            "CAST(0 AS bigint)"
            if "count" in (one.kind, excluded_kind(one))
            else f"CAST(NULL AS {one.type.spark})"
        )
    parts = []
    if span.partition:
        parts.append(f"PARTITION BY {', '.join(names[key] for key in span.partition)}")
    if frame is not None and frame.unit == "range" and frame.has_distance:
        key = span.order[0]
        parts.append(f"ORDER BY {directed(key, distance_key(key.value.type, names[key.value], frame))}")
    elif span.order:
        parts.append(f"ORDER BY {', '.join(order_sql(order, names) for order in span.order)}")
    elif one.kind in window_frame.UNFRAMED or frame is not None:
        parts.append("ORDER BY 1")  # Spark requires an order where PostgreSQL does not
    if frame is not None:
        parts.append(frame_sql(frame, span.order))
    return _call(one, names, f" OVER ({' '.join(parts)})")


def order_sql(order: logical.SortKey, names: Mapping[Expr, str]) -> str:
    """Returns an entry of ORDER BY."""
    return directed(order, sort_value(order.value.type, names[order.value]))


def directed(order: logical.SortKey, text: str) -> str:
    """Returns a sort value with its direction."""
    direction = "DESC" if order.descending else "ASC"
    return f"{text} {direction} NULLS {'FIRST' if order.nulls_first else 'LAST'}"


def sort_value(type_: Type, text: str) -> str:
    """Returns what Spark sorts by in our order."""
    return interval_length(text) if type_.kind is Kind.INTERVAL else text


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
        case "bit_and" | "bit_or" | "bit_xor" | "var_pop" | "var_samp" | "covar_pop":
            return f"{one.kind}({', '.join(args)}){over}"
        case "string_agg":
            elements = _list(one, args[0], f"{args[0]} IS NOT NULL", names, over)
            return _unless_empty(elements, f"array_join({_values(one, elements)}, {args[1]})")
        case "array_agg":
            elements = _list(one, args[0], names[one.where] if one.where is not None else "", names, over)
            return _unless_empty(elements, _values(one, elements))
        case "excluding":
            return excluding_sql(one, args, names[one.where] if one.where is not None else "", over)
        case "grouping":
            bits = [f"CAST(grouping({arg}) AS INT) * {1 << i}" for i, arg in enumerate(reversed(args))]
            return f"({' + '.join(bits)})"
        case "row_number" | "rank" | "dense_rank" | "percent_rank" | "cume_dist" | "ntile":
            return f"CAST({one.kind}({', '.join(args)}){over} AS {one.type.spark})"
        case kind:
            raise UnsupportedError(f"the aggregate {kind} is not supported")


def _list(one: logical.AggregateExpr, value: str, where: str, names: Mapping[Expr, str], over: str) -> str:
    """Returns the values of a group with their sort keys, as structs: collect_list leaves out NULLs."""
    keys = [sort_value(key.value.type, names[key.value]) for key in one.order]
    fields = ", ".join(f"'{name}', {text}" for name, text in [("v", value), *_numbered(keys)])
    element = f"named_struct({fields})"
    element = f"CASE WHEN {where} THEN {element} END" if where else element
    return f"collect_list({'DISTINCT ' if one.distinct else ''}{element}){over}"


def _numbered(keys: Sequence[str]) -> list[tuple[str, str]]:
    return [(f"k{i}", key) for i, key in enumerate(keys)]


def _values(one: logical.AggregateExpr, elements: str) -> str:
    """Returns the values of a list of structs, in order."""
    if one.order:
        steps = [f"nullif({_compared(key, f'k{i}')}, 0)" for i, key in enumerate(one.order)]
        elements = f"array_sort({elements}, (l, r) -> coalesce({', '.join(steps)}, 0))"
    return f"transform({elements}, s -> s.v)"


def _compared(key: logical.SortKey, name: str) -> str:
    """Returns -1, 0 or 1 as the struct l comes before, with or after the struct r by a key."""
    first, last = (1, -1) if key.descending else (-1, 1)
    null = -1 if key.nulls_first else 1
    return (
        f"CASE WHEN l.{name} IS NULL AND r.{name} IS NULL THEN 0 WHEN l.{name} IS NULL THEN {null} "
        f"WHEN r.{name} IS NULL THEN {-null} WHEN l.{name} < r.{name} THEN {first} WHEN l.{name} > r.{name} THEN {last} "
        "ELSE 0 END"
    )


def _unless_empty(elements: str, text: str) -> str:
    return f"CASE WHEN size({elements}) > 0 THEN {text} END"


def _sum(one: logical.AggregateExpr, arg: str, distinct: str, over: str) -> str:
    source, out = one.args[0].type, one.type
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
