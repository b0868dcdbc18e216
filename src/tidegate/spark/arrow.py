"""Arrow as Spark hands it over ↔ Arrow as our evaluator wants it.

    to_spark(array, INTERVAL)        struct<months, days, micros>
    from_spark(array, UUID)          fixed_size_binary[16]
    batch(arrays, types, schema)     a RecordBatch that Spark takes for a StructType

Most types are the same on both sides. Those that differ: uuid (binary), interval (a struct), time (as `columns.py` says), and what
holds them; and Spark may send its texts with 64-bit offsets.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type
from pyspark.sql.types import StructField, StructType

from tidegate.expr.types import Kind, Type
from tidegate.shard.part import INTERVAL_STRUCT, from_storage, to_storage
from tidegate.spark.columns import spark_type


def spark_schema(names: Sequence[str], types: Sequence[Type]) -> StructType:
    """Columns of these names and types, as Spark sees them; any may be NULL."""
    return StructType(
        [StructField(name, spark_type(type_)) for name, type_ in zip(names, types, strict=True)]
    )


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects of batches of this schema."""
    return to_arrow_schema(schema, timezone="UTC")


def to_spark(array: pa.Array, type_: Type) -> pa.Array:
    """Values of ours in the Arrow type that Spark keeps them in."""
    target = to_arrow_type(spark_type(type_), timezone="UTC")
    stored = to_storage(array, type_)
    return stored if stored.type == target else stored.cast(target)


def from_spark(array: pa.Array, type_: Type) -> pa.Array:
    """Values of Spark in the Arrow type that ours are kept in."""
    stored = _stored(type_)
    plain = array if array.type == stored else array.cast(stored)
    return from_storage(plain, type_)


def batch(columns: Sequence[pa.Array], types: Sequence[Type], schema: pa.Schema) -> pa.RecordBatch:
    """A batch that Spark takes."""
    arrays = [to_spark(column, type_) for column, type_ in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(
        [a if a.type == f.type else a.cast(f.type) for a, f in zip(arrays, schema, strict=True)],
        schema=schema,
    )


def _stored(type_: Type) -> pa.DataType:
    """The Arrow type of a part's file: as ours, with structs for intervals."""
    match type_.kind:
        case Kind.INTERVAL:
            return INTERVAL_STRUCT
        case Kind.ARRAY:
            assert type_.element is not None
            return pa.list_(_stored(type_.element))
        case Kind.RECORD:
            return pa.struct([pa.field(name, _stored(inner)) for name, inner in type_.fields])
        case _:
            return type_.arrow
