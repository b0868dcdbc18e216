"""DuckDB's SQL: scalar expressions, aggregates, window functions and orders with our meaning.

| ours | in DuckDB |
|---|---|
| sum of integers and numerics | a sum of 128 bits, cast to our type: overflow is an error |
| sum of float4 | added as doubles |
| array_agg, string_agg | lists and texts in the order that is asked for; NULL for no rows |
| row_number, rank, ntile, … | cast to our type |
| RANGE with a distance | the sort key and the distance in a type in which their sum cannot overflow |

Binding has already replaced avg, bool_and and the like by these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.errors import UnsupportedError
from tidegate.expr.duckdb_sql import duckdb_sql, duckdb_type
from tidegate.expr.model import Expr, Kind, Literal, Type
from tidegate.plan import logical, window_frame


@dataclass(frozen=True)
class DuckdbDialect:
    """DuckDB's SQL; `call` writes a call of our evaluator."""

    call: Callable[[Expr, Sequence[str]], str]
    row_limit: Callable[[], str]
    """Writes a condition that fails after so many rows of a recursion as are allowed."""
    name: str = "DuckDB's SQL"
    null_aware_in: bool = True
    correlated_rows: bool = False
    totals_of_nothing: bool = True
    common_rows_in_steps: bool = True
    calls_in_on: bool = True
    calls_in_subqueries: bool = True
    reorders_conditions: bool = True

    def scalar(self, expr: Expr, columns: Sequence[str], *, may_fail: bool) -> str | None:
        """A scalar expression, if DuckDB can express it exactly."""
        return duckdb_sql(expr, columns, may_fail=may_fail)

    def evaluated(self, expr: Expr, columns: Sequence[str]) -> str:
        """A call of our evaluator for a scalar expression."""
        return self.call(expr, columns)

    def aggregate(self, one: logical.AggregateExpr, names: Mapping[Expr, str]) -> str:
        """An aggregate over a group."""
        return self._aggregate(one, names, "")

    def window(self, one: logical.AggregateExpr, span: logical.WindowSpec, names: Mapping[Expr, str]) -> str:
        """A window function."""
        parts = []
        if span.partition:
            parts.append(f"PARTITION BY {', '.join(names[key] for key in span.partition)}")
        frame = None if one.kind in window_frame.UNFRAMED else span.frame
        if frame is not None and frame.unit == "range" and frame.has_distance:
            parts.append(_range(span.order[0], names[span.order[0].value], frame))
        elif span.order:
            parts.append(f"ORDER BY {', '.join(self.order(order, names) for order in span.order)}")
        if frame is not None and not (frame.unit == "range" and frame.has_distance):
            parts.append(frame.sql(lambda distance: str(distance.value.as_py())))
        return self._aggregate(one, names, f" OVER ({' '.join(parts)})")

    def order(self, key: logical.SortKey, names: Mapping[Expr, str]) -> str:
        """An entry of ORDER BY."""
        return _ordered(key, names[key.value])

    def cast(self, text: str, type_: Type) -> str:
        """A value cast to a type of ours."""
        return f"CAST({text} AS {duckdb_type(type_)})"

    def single_value(self, column: str) -> str:
        """The value of a column in the only row."""
        more = "error('More than one row returned by a subquery')"
        return f"CASE WHEN count(*) > 1 THEN {more} ELSE any_value({column}) END"

    def limit(self, rows: int | None, offset: int) -> str:
        """LIMIT and OFFSET."""
        return (f" LIMIT {rows}" if rows is not None else "") + (f" OFFSET {offset}" if offset else "")

    def numbered_rows(self, count: int, name: str) -> str:
        """A SELECT of numbers from 0."""
        return f"SELECT range AS {name} FROM range({count})"

    def elements(
        self,
        columns: Sequence[str],
        arrays: Sequence[tuple[str, str, Type]],
        position: str | None,
        below: str,
        *,
        outer: bool,
    ) -> str:
        """A SELECT of the elements of lists side by side."""
        count = f"greatest({', '.join(f'coalesce(len({array}), 0)' for _, array, _ in arrays)})"
        lists = [(array, name) for name, array, _ in arrays]
        if position is not None:
            lists.append((f"range(1, CAST({count} AS BIGINT) + 1)", position))
        if outer:
            lists = [(f"CASE WHEN {count} = 0 THEN [NULL] ELSE {text} END", name) for text, name in lists]
        shown = [*columns, *(f"unnest({text}) AS {name}" for text, name in lists)]
        return f"SELECT {', '.join(shown)} FROM {below}"

    def recursive(self, table: str, columns: str, first: str, step: str, *, every: bool) -> str:
        """WITH RECURSIVE, up to the SELECT that reads the table."""
        word = "UNION ALL" if every else "UNION"
        limited = f"SELECT * FROM ({step}) AS step WHERE {self.row_limit()}"
        return f"WITH RECURSIVE {table} ({columns}) AS (({first}) {word} ({limited})) "

    def common_table(self, name: str, query: str) -> str:
        """An entry of WITH whose rows are computed once."""
        return f"{name} AS MATERIALIZED ({query})"

    def _aggregate(self, one: logical.AggregateExpr, names: Mapping[Expr, str], over: str) -> str:
        args = [names.get(value) or self._constant(value) for value in one.args]
        distinct = "DISTINCT " if one.distinct else ""
        keys = ", ".join(self.order(key, names) for key in one.order)
        order = f" ORDER BY {keys}" if keys else ""
        match one.kind:
            case "count":
                return f"count({distinct}{args[0] if args else '*'}){over}"
            case "sum":
                value = f"CAST({args[0]} AS DOUBLE)" if one.type.is_float else args[0]
                return self.cast(f"sum({distinct}{value}){over}", one.type)
            case "min" | "max" | "first_value" | "last_value" | "nth_value" | "lag" | "lead":
                return f"{one.kind}({', '.join(args)}){over}"
            case "bit_and" | "bit_or" | "bit_xor" | "var_pop" | "var_samp" | "covar_pop":
                return f"{one.kind}({', '.join(args)}){over}"
            case "string_agg" | "array_agg":
                where = "" if one.where is None else f" FILTER (WHERE {names[one.where]})"
                return f"{one.kind}({distinct}{', '.join(args)}{order}){where}{over}"
            case "grouping":
                return f"CAST(grouping({', '.join(args)}) AS INTEGER)"
            case "row_number" | "rank" | "dense_rank" | "percent_rank" | "cume_dist" | "ntile":
                return self.cast(f"{one.kind}({', '.join(args)}){over}", one.type)
            case kind:
                raise UnsupportedError(f"the aggregate {kind} is not supported")

    def _constant(self, value: Expr) -> str:
        return duckdb_sql(value, []) or self.call(value, [])


def _ordered(key: logical.SortKey, text: str) -> str:
    direction = "DESC" if key.descending else "ASC"
    return f"{text} {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _range(key: logical.SortKey, text: str, frame: window_frame.FrameSpec) -> str:
    """ORDER BY and RANGE with a distance."""
    type_ = _distance_type(key.value.type, frame)
    text = f"epoch_us({text})" if key.value.type.kind is Kind.TIME else text
    ordered = _ordered(key, f"CAST({text} AS {type_})")
    return f"ORDER BY {ordered} {frame.sql(lambda distance: _distance(distance, key.value.type, type_))}"


def _distance_type(key: Type, frame: window_frame.FrameSpec) -> str:
    """The DuckDB type of a sort key to which a distance is added."""
    if key.is_integer or key.kind is Kind.TIME:
        return "HUGEINT"
    if key.kind is Kind.NUMERIC:
        ends = [end.distance.type for end in (frame.first, frame.last) if end.distance is not None]
        return f"DECIMAL(38,{max(type_.scale or 0 for type_ in (key, *ends))})"
    return "DOUBLE" if key.is_float else "TIMESTAMP"


def _distance(distance: Literal, key: Type, type_: str) -> str:
    if distance.type.kind is not Kind.INTERVAL:
        return f"CAST('{distance.value.as_py()}' AS {type_})"
    months, days, nanos = distance.value.as_py()
    if key.kind is Kind.TIME:  # of an interval that is added to a time, only its hours count
        return f"CAST({nanos // 1000} AS {type_})"
    return f"(to_months({months}) + to_days({days}) + to_microseconds({nanos // 1000}))"


def can_run(query: logical.LogicalQuery) -> bool:
    """Whether the embedded engine can run all aggregates of a query exactly."""
    del query
    return True
