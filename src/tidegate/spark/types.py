"""Types of ours as Spark has them, and the columns of a part as Spark's Parquet reader is to read them.

    spark_type(parse_type("interval"))      StructType of months, days and micros
    schema_of(schema)                       StructType of a collection's columns, each of which may be NULL

| type | in Spark | differs, because |
|---|---|---|
| jsonb | string | canonical JSON text, as in the file; `get_json_object`, `from_json` and `parse_json` read it |
| uuid | binary | 16 bytes; Spark has no such type |
| interval | struct<months int, days int, micros bigint> | Spark's intervals have months or microseconds, never both |
| time | bigint | microseconds since midnight: Spark's own TIME is refused unless a session turns it on |
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

from tidegate.expr.types import Kind, Type
from tidegate.shard.schema import ColumnDef

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
    """The Spark type that holds these values."""
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


def schema_of(columns: Iterable[ColumnDef]) -> StructType:
    """These columns as Spark sees them. All may be NULL: parts that are older than a column lack it."""
    return StructType([StructField(column.name, spark_type(column.type)) for column in columns])


def quoted(name: str) -> str:
    """A name as it stands in Spark SQL, and in what `col` and `expr` take."""
    return "`" + name.replace("`", "``") + "`"


def substituted(text: str) -> bool:
    """Whether Spark replaces something in a text before it parses it: `${x}`, inside of names too, unless a session forbids it.

    No quoting helps. `col` takes such a name as it is.
    """
    return "${" in text
