"""Columns of Parquet files as ours: which type each becomes, its values, and what a footer says of it.

Widening only (uint32 to int8, uint64 to numeric(20,0)), so that no value is lost; times in nanoseconds lose what is
below a microsecond. A map becomes jsonb. Bounds of a footer are taken where its order is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import UnsupportedError
from tidegate.expr import exact_json
from tidegate.expr.specs import Specs
from tidegate.expr.types import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    JSONB,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    Type,
    array,
    numeric,
    record,
)  # fmt: skip
from tidegate.ingest.decode.avro_types import plain_json

_EXACT: dict[pa.DataType, Type] = {
    pa.bool_(): BOOL, pa.int8(): INT2, pa.uint8(): INT2, pa.int16(): INT2, pa.uint16(): INT4, pa.int32(): INT4,
    pa.uint32(): INT8, pa.int64(): INT8, pa.uint64(): numeric(20, 0), pa.float16(): FLOAT4, pa.float32(): FLOAT4,
    pa.float64(): FLOAT8, pa.string(): TEXT, pa.large_string(): TEXT, pa.binary(): BYTEA, pa.large_binary(): BYTEA,
    pa.date32(): DATE,
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
    """What a column of the file is here."""
    found = _EXACT.get(arrow)
    if found is not None:
        return found
    kinds = pa.types
    if kinds.is_dictionary(arrow):
        return type_of(arrow.value_type, name)
    if kinds.is_decimal(arrow) and arrow.precision <= 38 and 0 <= arrow.scale <= arrow.precision:
        return numeric(arrow.precision, arrow.scale)
    if kinds.is_timestamp(arrow):
        return TIMESTAMPTZ if arrow.tz else TIMESTAMP
    if kinds.is_time(arrow):
        return TIME
    if kinds.is_fixed_size_binary(arrow):
        return BYTEA
    if kinds.is_list(arrow) or kinds.is_large_list(arrow):
        return array(type_of(arrow.value_type, name))
    if kinds.is_struct(arrow):
        return record(*((field.name, type_of(field.type, name)) for field in arrow))
    if kinds.is_map(arrow):
        return JSONB
    raise UnsupportedError(f'the column "{name}" is {arrow} in its file, which has no type here')


def converted(values: pa.Array, type_: Type) -> pa.Array:
    """Values of a file as a column of ours; an ArrowInvalid if one has no place in it."""
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
    """A column in each of some row groups, by the statistics of the footer (None where there are none)."""
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
    # A writer may have shortened a text: equal bounds do not say that all values are equal.
    exact = np.zeros(len(statistics), bool)
    return Specs.ranged(type_, low, high, null=nulls, exact=None if type_ == BOOL else exact)
