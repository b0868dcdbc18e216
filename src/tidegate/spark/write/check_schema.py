"""Checks that a DataFrame fits the collection, before a task runs, and reports all problems at once.

    the DataFrame does not fit "orders": column "total" is numeric(10,2), but the DataFrame has string; column "at" is missing
    hint: total: cast it to decimal(10,2); .withColumn("at", lit(None)) if it is unknown

| Spark | is stored as |
|---|---|
| tinyint … bigint | any whole-number type, numeric or float that holds each value |
| float, double | float4 (float only), float8 |
| decimal(p, s) | numeric, if each value fits |
| string | text, varchar(n), jsonb (JSON text), uuid |
| binary | bytea, uuid (16 bytes) |
| date, time, timestamp_ntz, timestamp | date, time, timestamp, timestamptz |
| interval day to second, struct<months, days, micros> | interval |
| array, struct | array, record of the same fields |
| map, variant, interval year to month | nothing: `to_json(column)` makes JSON text |

Columns are matched by name, in any order. Tasks check each value (`storage/part/conform.py`): a number that is too large, a text
that is not JSON, a NULL in a NOT NULL column fails the write, which then changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

from tidegate.errors import BindError, TypeMismatch
from tidegate.expr.model import Kind, Type
from tidegate.storage.part import Schema, can_conform


def check_schema(name: str, schema: Schema, frame: StructType, diff_column: str | None) -> None:
    """Raises if the columns of the DataFrame do not fit those of the collection."""
    names = [column.name for column in schema.columns]
    types = {field.name: field.dataType for field in frame if field.name != diff_column}
    problems: list[str] = []
    hints: list[str] = []
    only_types = True
    for column in schema.columns:
        if column.name not in types:
            only_types = False
            problems.append(f'column "{column.name}" ({column.type}) is missing')
            other = [other for other in types if other.lower() == column.name.lower()]
            null = f'.withColumn("{column.name}", lit(None))'
            hints.append(f'rename "{other[0]}" to "{column.name}"' if other else f"{null} if it is unknown")
        elif (hint := _hint(types[column.name], column.type)) is not None:
            shown = types[column.name].simpleString()
            problems.append(f'column "{column.name}" is {column.type}, but the DataFrame has {shown}')
            hints.append(f"{column.name}: {hint}")
    extra = [other for other in types if other not in names]
    problems += [
        f'column "{other}" ({types[other].simpleString()}) is not in the collection' for other in extra
    ]
    if extra:
        hints.append(f"drop these columns; the collection has {', '.join(names)}")
    if diff_column is not None:
        diff_problems = list(_diff_problem(frame, diff_column))
        problems += diff_problems
        only_types = only_types and not diff_problems
    if problems:
        kind = TypeMismatch if only_types and not extra else BindError
        raise kind(
            f'the DataFrame does not fit "{name}": {"; ".join(problems)}', hint="; ".join(hints) or None
        )


def _diff_problem(frame: StructType, name: str) -> Iterator[str]:
    types = [field.dataType for field in frame if field.name == name]
    if not types:
        yield f'the option diffColumn names "{name}", which the DataFrame does not have'
    elif not pa.types.is_integer(_arrow(types[0])):
        yield f'the option diffColumn names "{name}", which is {types[0].simpleString()}, not a whole number'


def _hint(spark_type: DataType, type_: Type) -> str | None:
    """Returns what to do about a column that does not fit; None if it fits."""
    if _holds(spark_type, VariantType, MapType, YearMonthIntervalType):
        if type_.kind is Kind.JSONB:
            return "write to_json(column)"
        if _holds(spark_type, YearMonthIntervalType) and type_.kind is Kind.INTERVAL:
            return "write named_struct('months', months, 'days', 0, 'micros', 0L)"
        return f"Tidegate has no such type; convert it to {type_.spark}"
    if can_conform(_arrow(spark_type), type_):
        return None
    if type_.kind is Kind.JSONB:
        return "JSON is written as text: write to_json(column)"
    return f"cast it to {type_.spark}"


def _holds(spark_type: DataType, *kinds: type[DataType]) -> bool:
    """Whether a type is, or contains, one of these."""
    match spark_type:
        case ArrayType():
            return _holds(spark_type.elementType, *kinds)
        case StructType():
            return any(_holds(field.dataType, *kinds) for field in spark_type)
        case _:
            return isinstance(spark_type, kinds)


def _arrow(spark_type: DataType) -> pa.DataType:
    """Returns the Arrow type in which Spark sends values; a type that no column accepts if there is none."""
    try:
        return to_arrow_type(spark_type, timezone="UTC")
    except PySparkException:
        return pa.list_(pa.month_day_nano_interval())
