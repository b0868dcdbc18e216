"""Arrow arrays as Spark exchanges them, from and to the types of our evaluator.

    to_spark(array, INTERVAL)        struct<months, days, micros>
    from_spark(array, UUID)          fixed_size_binary[16]
    batch(arrays, types, schema)     a RecordBatch that Spark accepts for a StructType

Most types are the same on both sides. These differ: uuid (binary), interval (a struct), time (see `types.py`), and types that
contain them; and Spark may send texts with 64-bit offsets.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type
from pyspark.sql.types import StructField, StructType

from tidegate.expr.model import Kind, Type
from tidegate.spark.types import spark_type
from tidegate.storage.part import INTERVAL_STRUCT, from_storage, to_storage


def spark_schema(names: Sequence[str], types: Sequence[Type]) -> StructType:
    """Returns a Spark schema of nullable columns with these names and types."""
    return StructType(
        [StructField(name, spark_type(type_)) for name, type_ in zip(names, types, strict=True)]
    )


def arrow_schema(schema: StructType) -> pa.Schema:
    """Returns the Arrow schema that Spark expects for batches of this schema."""
    return to_arrow_schema(schema, timezone="UTC")


def to_spark(array: pa.Array, type_: Type) -> pa.Array:
    """Converts our values to the Arrow type that Spark uses."""
    target = to_arrow_type(spark_type(type_), timezone="UTC")
    stored = to_storage(array, type_)
    return stored if stored.type == target else stored.cast(target)


def from_spark(array: pa.Array, type_: Type) -> pa.Array:
    """Converts Spark's values to the Arrow type that we use."""
    stored = _stored(type_)
    plain = array if array.type == stored else array.cast(stored)
    return from_storage(plain, type_)


def batch(columns: Sequence[pa.Array], types: Sequence[Type], schema: pa.Schema) -> pa.RecordBatch:
    """Returns a batch that Spark accepts."""
    arrays = [to_spark(column, type_) for column, type_ in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(
        [a if a.type == f.type else a.cast(f.type) for a, f in zip(arrays, schema, strict=True)],
        schema=schema,
    )


def _stored(type_: Type) -> pa.DataType:
    """Returns the Arrow type in a part's file: ours, with structs for intervals."""
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
