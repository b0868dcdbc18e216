"""Rows that are there several times, or are retracted: diffs made into rows, by Spark.

    repeated(rows, columns)       each row as often as its `_diff` says
    settled(updates, columns)     equal rows added up first

Filters that a user puts on the result reach the files through all of this: the columns are what is grouped by.

**Equal is not identical.** 0.0 = -0.0 and 1 month = 30 days, yet a row that holds the one must not come back as the other. Spark's
GROUP BY takes 0.0 and -0.0 for equal, and gives 0.0 for both. So where a column has such a type, rows are added up in two steps:

| step | groups by | example |
|---|---|---|
| identical rows | all columns, and of floats their text | -0.0: +1 · 0.0: -1 |
| equal rows | columns, intervals by their length | { -0.0: +1, 0.0: -1 } |

In the second, what is negative is taken from the others; here nothing is left. A filter on such a column is not pushed below it, as
one that drops -0.0 and keeps 0.0 would leave a retraction without its row. A row that is there less than no times is an error.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody writes it

from tidegate.expr.order import MICROS_A_DAY
from tidegate.expr.types import Kind, Type, array, record
from tidegate.shard.schema import ColumnDef
from tidegate.spark.columns import quoted, substituted

_NEGATIVE = (
    "raise_error(concat('a row is there ', {0}, ' times: it was retracted more often than it was appended'))"
)


def repeated(rows: DataFrame, columns: Sequence[ColumnDef]) -> DataFrame:
    """Each row as often as `_diff` says."""
    wanted = [F.col(quoted(column.name)) for column in columns]
    times = F.expr(f"explode(array_repeat(0, cast({_checked('_diff')} as int)))").alias("_pos")
    return rows.select(*wanted, times).select(*wanted)


def settled(updates: DataFrame, columns: Sequence[ColumnDef]) -> DataFrame:
    """The rows that are left when the diffs of equal ones are added up."""
    if all(column.type.identity_is_equality for column in columns):
        names = [F.col(quoted(column.name)) for column in columns]
        return repeated(updates.groupBy(*names).agg(F.sum("_diff").alias("_diff")), columns)
    return _of_variants(_variants(_identical(updates, columns), columns), columns)


def _checked(times: str) -> str:
    return f"(CASE WHEN {times} < 0 THEN {_NEGATIVE.format(times)} ELSE {times} END)"


def _identical(updates: DataFrame, columns: Sequence[ColumnDef]) -> DataFrame:
    """Identical rows made one: plain columns as `p0`, `p1`, …, the others as `v0`, `v1`, …, and `_diff`.

    From here to the end columns have numbers for names: those of users could be the same as ours.
    """
    plain, odd = ([F.col(quoted(column.name)) for column in side] for side in _sides(columns))
    keys = [column.alias(f"p{i}") for i, column in enumerate(plain)]
    twice = [key for column in odd for key in (column, column.cast("string"))]
    keys += [key.alias(f"k{i}") for i, key in enumerate(twice)]
    values = [F.any_value(column).alias(f"v{i}") for i, column in enumerate(odd)]
    made = updates.groupBy(*keys).agg(F.sum("_diff").alias("_diff"), *values)
    return made.select(*_numbered("p", plain), *_numbered("v", odd), "_diff")


def _variants(rows: DataFrame, columns: Sequence[ColumnDef]) -> DataFrame:
    """Equal rows made one: plain columns, and `variants`, a list of how often which values."""
    plain, odd = _sides(columns)
    names = _numbered("p", plain)
    keys = [F.expr(key_of(column.type, f"v{i}")).alias(f"k{i}") for i, column in enumerate(odd)]
    listed = F.expr(f"collect_list(struct(_diff, {', '.join(_numbered('v', odd))}))").alias("variants")
    return rows.groupBy(*names, *keys).agg(listed).select(*names, "variants")


def _of_variants(rows: DataFrame, columns: Sequence[ColumnDef]) -> DataFrame:
    """A row for each value that is left of a group, with the columns under their own names."""
    plain, odd = _sides(columns)
    there = (
        "flatten(transform(array_sort(filter(variants, x -> x._diff > 0)),"
        " x -> array_repeat(x, cast(x._diff as int))))"
    )
    left = "cast(aggregate(variants, 0L, (sum, x) -> sum + x._diff) as int)"
    one = F.expr(f"explode(slice({there}, 1, {_checked(left)}))").alias("variant")
    made = rows.select(*_numbered("p", plain), one)
    at = {column.id: f"p{i}" for i, column in enumerate(plain)}
    at |= {column.id: f"variant.v{i}" for i, column in enumerate(odd)}
    return made.select(*(F.col(at[column.id]).alias(column.name) for column in columns))


def _numbered(letter: str, some: Sized) -> list[str]:
    return [f"{letter}{i}" for i in range(len(some))]


def _sides(columns: Sequence[ColumnDef]) -> tuple[list[ColumnDef], list[ColumnDef]]:
    """Columns whose equal values are identical, and the others."""
    plain = [column for column in columns if column.type.identity_is_equality]
    return plain, [column for column in columns if not column.type.identity_is_equality]


def key_of(type_: Type, sql: str, depth: int = 0) -> str:
    """An expression that Spark groups by as we compare values of a type. Spark takes care of NaN and -0, inside of lists too."""
    if substituted(type_.spark):  # a field's name that cannot stand in a text
        plain = _unnamed(type_)
        return key_of(plain, f"CAST({sql} AS {plain.spark})", depth)
    match type_.kind:
        case Kind.INTERVAL:
            days = f"CAST(CAST({sql}.months AS BIGINT) * 30 + {sql}.days AS DECIMAL(20,0))"
            return f"({days} * CAST({MICROS_A_DAY} AS DECIMAL(12,0)) + {sql}.micros)"
        case Kind.ARRAY:
            assert type_.element is not None
            inner = key_of(type_.element, f"e{depth}", depth + 1)
            return f"transform({sql}, e{depth} -> {inner})"
        case Kind.RECORD:
            fields = ", ".join(
                f"'f{i}', {key_of(inner, f'{sql}.{quoted(name)}', depth)}"
                for i, (name, inner) in enumerate(type_.fields)
            )
            return f"(CASE WHEN {sql} IS NOT NULL THEN named_struct({fields}) END)"
        case _:
            return sql


def _unnamed(type_: Type) -> Type:
    """The same type, whose fields have numbers for names."""
    if type_.element is not None:
        return array(_unnamed(type_.element))
    if type_.kind is Kind.RECORD:
        return record(*((f"f{i}", _unnamed(inner)) for i, (_, inner) in enumerate(type_.fields)))
    return type_
