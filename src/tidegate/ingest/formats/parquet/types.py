"""Maps Parquet columns to SQL types: the type of each, its values, and its footer statistics.

Types are only widened (uint32 to int8, uint64 to numeric(20,0)), so that no value is lost; times in nanoseconds are truncated to
microseconds. A map becomes jsonb. The footer's bounds are used for types whose order in Parquet is the SQL order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import UnsupportedError
from tidegate.expr.domain import Specs
from tidegate.expr.model import Kind, Type, types
from tidegate.expr.primitives import exact_json
from tidegate.ingest.formats.avro.types import plain_json

_EXACT: dict[pa.DataType, Type] = {
    pa.bool_(): types.BOOL, pa.int8(): types.INT2, pa.uint8(): types.INT2, pa.int16(): types.INT2, pa.uint16(): types.INT4,
    pa.int32(): types.INT4, pa.uint32(): types.INT8, pa.int64(): types.INT8, pa.uint64(): types.numeric(20, 0),
    pa.float16(): types.FLOAT4,
    pa.float32(): types.FLOAT4, pa.float64(): types.FLOAT8, pa.string(): types.TEXT, pa.large_string(): types.TEXT,
    pa.binary(): types.BYTEA, pa.large_binary(): types.BYTEA, pa.date32(): types.DATE,
}  # fmt: skip
_BOUNDED = (
    Kind.BOOL,
    Kind.INT2,
    Kind.INT4,
    Kind.INT8,
    Kind.DATE,
    Kind.TIMESTAMP,
    Kind.TIMESTAMPTZ,
    Kind.TEXT,
)


def type_of(arrow: pa.DataType, name: str) -> Type:
    """The SQL type of a column of the file."""
    exact = _EXACT.get(arrow)
    if exact is not None:
        return exact
    kinds = pa.types
    if kinds.is_dictionary(arrow):
        return type_of(arrow.value_type, name)
    if kinds.is_decimal(arrow) and arrow.precision <= 38 and 0 <= arrow.scale <= arrow.precision:
        return types.numeric(arrow.precision, arrow.scale)
    if kinds.is_timestamp(arrow):
        return types.TIMESTAMPTZ if arrow.tz else types.TIMESTAMP
    if kinds.is_time(arrow):
        return types.TIME
    if kinds.is_fixed_size_binary(arrow):
        return types.BYTEA
    if kinds.is_list(arrow) or kinds.is_large_list(arrow):
        return types.array(type_of(arrow.value_type, name))
    if kinds.is_struct(arrow):
        return types.record(*((field.name, type_of(field.type, name)) for field in arrow))
    if kinds.is_map(arrow):
        return types.JSONB
    raise UnsupportedError(f'the column "{name}" is {arrow} in its file, which has no type here')


def convert_values(values: pa.Array, type_: Type) -> pa.Array:
    """Converts values of a file to an SQL type; raises an ArrowInvalid if it cannot hold one."""
    if pa.types.is_map(values.type):
        texts = [None if v is None else exact_json.encode(plain_json(dict(v))) for v in values.to_pylist()]
        return pa.array(texts, pa.string())
    if values.type == type_.arrow:
        return values
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    fine = (
        not (pa.types.is_timestamp(values.type) or pa.types.is_time(values.type)) or values.type.unit != "ns"
    )
    return pc.cast(values, type_.arrow, safe=fine)


def specs_of(statistics: Sequence[Any], arrow: pa.DataType | None, type_: Type) -> Specs:
    """The specs of a column in each row group, from the footer's statistics (None if missing)."""
    nulls = np.array([s is None or not s.has_null_count or s.null_count > 0 for s in statistics])
    if arrow is None or type_.kind not in _BOUNDED or (pa.types.is_timestamp(arrow) and arrow.unit == "ns"):
        return Specs.anything(type_, null=nulls)
    known = [s if s is not None and s.has_min_max else None for s in statistics]
    try:
        low, high = (
            pa.array([None if s is None else getattr(s, end) for s in known], arrow).cast(type_.arrow)
            for end in ("min", "max")
        )
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        pa.ArrowNotImplementedError,
        OverflowError,
        UnicodeDecodeError,
    ):
        return Specs.anything(type_, null=nulls)
    # A writer may have truncated a text: equal bounds do not mean that all values are equal.
    exact = np.zeros(len(statistics), bool)
    return Specs.ranged(type_, low, high, null=nulls, exact=None if type_ == types.BOOL else exact)
