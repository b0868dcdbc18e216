"""Our types as Spark types, and names as Spark SQL.

    spark_type(parse_type("interval"))      StructType of months, days and micros
    schema_of(schema)                       StructType of a collection's columns, each of which may be NULL

| type | in Spark | differs, because |
|---|---|---|
| jsonb | string | canonical JSON text, as in the file; `get_json_object`, `from_json` and `parse_json` read it |
| uuid | binary | 16 bytes; Spark has no such type |
| interval | struct<months int, days int, micros bigint> | Spark's intervals have months or microseconds, never both |
| time | bigint | microseconds since midnight: Spark's own TIME is refused unless a session enables it |
| timestamp, timestamptz | timestamp_ntz, timestamp | |
| mz_timestamp | bigint | milliseconds |
| all others | the same | |
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidegate.expr.model import Kind, Type
from tidegate.storage.part import SchemaColumn

_PLAIN: dict[Kind, DataType] = {
    Kind.UNKNOWN: StringType(),
    Kind.BOOL: BooleanType(),
    Kind.INT2: ShortType(),
    Kind.INT4: IntegerType(),
    Kind.INT8: LongType(),
    Kind.FLOAT4: FloatType(),
    Kind.FLOAT8: DoubleType(),
    Kind.TEXT: StringType(),
    Kind.BYTEA: BinaryType(),
    Kind.DATE: DateType(),
    Kind.TIME: LongType(),
    Kind.TIMESTAMP: TimestampNTZType(),
    Kind.TIMESTAMPTZ: TimestampType(),
    Kind.INTERVAL: StructType(
        [
            StructField("months", IntegerType()),
            StructField("days", IntegerType()),
            StructField("micros", LongType()),
        ]
    ),
    Kind.UUID: BinaryType(),
    Kind.JSONB: StringType(),
    Kind.MZ_TIMESTAMP: LongType(),
}


def spark_type(type_: Type) -> DataType:
    """Returns the Spark type that holds values of a type."""
    match type_.kind:
        case Kind.NUMERIC:
            assert type_.precision is not None
            assert type_.scale is not None
            return DecimalType(type_.precision, type_.scale)
        case Kind.ARRAY:
            assert type_.element is not None
            return ArrayType(spark_type(type_.element))
        case Kind.RECORD:
            return StructType([StructField(name, spark_type(inner)) for name, inner in type_.fields])
        case kind:
            return _PLAIN[kind]


def schema_of(columns: Iterable[SchemaColumn]) -> StructType:
    """Returns columns as a Spark schema. All may be NULL: parts that are older than a column lack it."""
    return StructType([StructField(column.name, spark_type(column.type)) for column in columns])


def quoted(name: str) -> str:
    """Quotes a name for Spark SQL, and for `col` and `expr`."""
    return "`" + name.replace("`", "``") + "`"


def substituted(text: str) -> bool:
    """Whether Spark replaces something in a text before parsing: `${x}`, also inside names.

    Quoting does not help. `col` takes such a name as it is.
    """
    return "${" in text
