"""Does a DataFrame fit the collection? Asked before a single task runs, with all that is wrong in one message.

    the DataFrame does not fit "orders": column "total" is numeric(10,2), and the DataFrame gives string; column "at" is missing
    hint: total: cast it to decimal(10,2); .withColumn("at", lit(None)) where it is not known

| Spark | is kept as |
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

Columns go by name, in any order. Values are checked one by one in the tasks (`shard/batch.py`): too large a number, a text that is
not JSON, a NULL where the column is NOT NULL fail the write, which then changes nothing.
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
from tidegate.expr.types import Kind, Type
from tidegate.shard.batch import accepts
from tidegate.shard.schema import Schema


def check(name: str, schema: Schema, given: StructType, diff_column: str | None) -> None:
    """Raises if the DataFrame's columns are not those of the collection."""
    there = {column.name: column for column in schema.columns}
    types = {field.name: field.dataType for field in given if field.name != diff_column}
    wrong: list[str] = []
    hints: list[str] = []
    for column in schema.columns:
        if column.name not in types:
            wrong.append(f'column "{column.name}" ({column.type}) is missing')
            other = [found for found in types if found.lower() == column.name.lower()]
            wanted = f'.withColumn("{column.name}", lit(None))'
            hints.append(
                f'rename "{other[0]}" to "{column.name}"' if other else f"{wanted} where it is not known"
            )
        elif (problem := _problem(types[column.name], column.type)) is not None:
            shown = types[column.name].simpleString()
            wrong.append(f'column "{column.name}" is {column.type}, and the DataFrame gives {shown}')
            hints.append(f"{column.name}: {problem}")
    extra = [found for found in types if found not in there]
    wrong += [f'column "{found}" ({types[found].simpleString()}) is not in the collection' for found in extra]
    if extra:
        hints.append(f"drop what is too much; there are: {', '.join(there)}")
    if diff_column is not None:
        wrong += _diff_problem(given, diff_column)
    if wrong:
        kind = TypeMismatch if not extra and all("gives" in one for one in wrong) else BindError
        raise kind(f'the DataFrame does not fit "{name}": {"; ".join(wrong)}', hint="; ".join(hints) or None)


def _diff_problem(given: StructType, name: str) -> Iterator[str]:
    found = [field.dataType for field in given if field.name == name]
    if not found:
        yield f'the option diffColumn names "{name}", which the DataFrame does not have'
    elif not pa.types.is_integer(_arrow(found[0])):
        yield f'the option diffColumn names "{name}", which is {found[0].simpleString()}, and not a whole number'


def _problem(given: DataType, type_: Type) -> str | None:
    """What to do about a column that does not fit; None if it does."""
    if _holds(given, VariantType, MapType, YearMonthIntervalType):
        if type_.kind is Kind.JSONB:
            return "write to_json(column)"
        if _holds(given, YearMonthIntervalType) and type_.kind is Kind.INTERVAL:
            return "write named_struct('months', months, 'days', 0, 'micros', 0L)"
        return f"Tidegate has no such type; make it {type_.spark}"
    if accepts(_arrow(given), type_):
        return None
    if type_.kind is Kind.JSONB:
        return "JSON comes as text: write to_json(column)"
    return f"cast it to {type_.spark}"


def _holds(given: DataType, *kinds: type[DataType]) -> bool:
    """Whether a type is, or has inside, one of these."""
    match given:
        case ArrayType():
            return _holds(given.elementType, *kinds)
        case StructType():
            return any(_holds(field.dataType, *kinds) for field in given)
        case _:
            return isinstance(given, kinds)


def _arrow(given: DataType) -> pa.DataType:
    """The Arrow type that Spark sends values of a type in; a type that nothing accepts where it has none."""
    try:
        return to_arrow_type(given, timezone="UTC")
    except PySparkException:
        return pa.list_(pa.month_day_nano_interval())
