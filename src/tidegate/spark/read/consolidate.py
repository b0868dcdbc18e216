"""Consolidation in Spark: turns updates with diffs into rows.

    repeat_rows(rows, columns)        each row as often as its `_diff` says
    consolidate(updates, columns)     adds up equal rows first

Filters on the result still reach the files: the columns are the keys of the grouping.

**Equal is not identical.** 0.0 = -0.0 and 1 month = 30 days, yet a row with one of them must not be returned with the other.
Spark groups 0.0 and -0.0 together and returns 0.0 for both. So if a column has such a type, rows are added up in two steps:

| step | groups by | example |
|---|---|---|
| identical rows | all columns, floats also by their text | -0.0: +1 · 0.0: -1 |
| equal rows | columns, intervals by their length | { -0.0: +1, 0.0: -1 } |

In the second step negative diffs are subtracted from the others; in the example nothing is left. A filter on such a column is not
pushed below it, because one that drops -0.0 and keeps 0.0 would leave a retraction without its row. A row with a negative sum of
diffs is an error.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody writes it

from tidegate.expr.model import Kind, Type, order, types
from tidegate.spark.types import quoted, substituted
from tidegate.storage.part import SchemaColumn

_NEGATIVE = "raise_error(concat('a row occurs ', {0}, ' times: it was retracted more often than appended'))"


def repeat_rows(rows: DataFrame, columns: Sequence[SchemaColumn]) -> DataFrame:
    """Returns each row as often as `_diff` says."""
    names = [F.col(quoted(column.name)) for column in columns]
    times = F.expr(f"explode(array_repeat(0, cast({_checked('_diff')} as int)))").alias("_pos")
    return rows.select(*names, times).select(*names)


def consolidate(updates: DataFrame, columns: Sequence[SchemaColumn]) -> DataFrame:
    """Returns the rows that are left when the diffs of equal rows are added up."""
    if all(column.type.identity_is_equality for column in columns):
        names = [F.col(quoted(column.name)) for column in columns]
        return repeat_rows(updates.groupBy(*names).agg(F.sum("_diff").alias("_diff")), columns)
    return _expand_variants(_variants(_identical(updates, columns), columns), columns)


def _checked(times: str) -> str:
    return f"(CASE WHEN {times} < 0 THEN {_NEGATIVE.format(times)} ELSE {times} END)"


def _identical(updates: DataFrame, columns: Sequence[SchemaColumn]) -> DataFrame:
    """Groups identical rows: plain columns as `p0`, `p1`, …, the others as `v0`, `v1`, …, and `_diff`.

    From here on columns have numbers for names: names of users could clash with ours.
    """
    plain, odd = ([F.col(quoted(column.name)) for column in side] for side in _sides(columns))
    keys = [column.alias(f"p{i}") for i, column in enumerate(plain)]
    twice = [key for column in odd for key in (column, column.cast("string"))]
    keys += [key.alias(f"k{i}") for i, key in enumerate(twice)]
    values = [F.any_value(column).alias(f"v{i}") for i, column in enumerate(odd)]
    groups = updates.groupBy(*keys).agg(F.sum("_diff").alias("_diff"), *values)
    return groups.select(*_numbered("p", plain), *_numbered("v", odd), "_diff")


def _variants(rows: DataFrame, columns: Sequence[SchemaColumn]) -> DataFrame:
    """Groups equal rows: plain columns, and `variants`, a list of values with their diffs."""
    plain, odd = _sides(columns)
    names = _numbered("p", plain)
    keys = [F.expr(key_of(column.type, f"v{i}")).alias(f"k{i}") for i, column in enumerate(odd)]
    variants = F.expr(f"collect_list(struct(_diff, {', '.join(_numbered('v', odd))}))").alias("variants")
    return rows.groupBy(*names, *keys).agg(variants).select(*names, "variants")


def _expand_variants(rows: DataFrame, columns: Sequence[SchemaColumn]) -> DataFrame:
    """Returns a row for each value that is left of a group, with the columns under their own names."""
    plain, odd = _sides(columns)
    positive = (
        "flatten(transform(array_sort(filter(variants, x -> x._diff > 0)),"
        " x -> array_repeat(x, cast(x._diff as int))))"
    )
    total = "cast(aggregate(variants, 0L, (sum, x) -> sum + x._diff) as int)"
    variant = F.expr(f"explode(slice({positive}, 1, {_checked(total)}))").alias("variant")
    variants = rows.select(*_numbered("p", plain), variant)
    at = {column.id: f"p{i}" for i, column in enumerate(plain)}
    at |= {column.id: f"variant.v{i}" for i, column in enumerate(odd)}
    return variants.select(*(F.col(at[column.id]).alias(column.name) for column in columns))


def _numbered(letter: str, columns: Sized) -> list[str]:
    return [f"{letter}{i}" for i in range(len(columns))]


def _sides(columns: Sequence[SchemaColumn]) -> tuple[list[SchemaColumn], list[SchemaColumn]]:
    """Returns the columns whose equal values are identical, and the others."""
    plain = [column for column in columns if column.type.identity_is_equality]
    return plain, [column for column in columns if not column.type.identity_is_equality]


def key_of(type_: Type, sql: str, depth: int = 0) -> str:
    """Returns an expression by which Spark groups values as we compare them; NaN and -0 need nothing."""
    if substituted(type_.spark):  # the name of a field cannot stand in a text
        plain = _unnamed(type_)
        return key_of(plain, f"CAST({sql} AS {plain.spark})", depth)
    match type_.kind:
        case Kind.INTERVAL:
            days = f"CAST(CAST({sql}.months AS BIGINT) * 30 + {sql}.days AS DECIMAL(20,0))"
            return f"({days} * CAST({order.MICROS_A_DAY} AS DECIMAL(12,0)) + {sql}.micros)"
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
    """Returns the same type with numbers as the names of fields."""
    if type_.element is not None:
        return types.array(_unnamed(type_.element))
    if type_.kind is Kind.RECORD:
        return types.record(*((f"f{i}", _unnamed(inner)) for i, (_, inner) in enumerate(type_.fields)))
    return type_
