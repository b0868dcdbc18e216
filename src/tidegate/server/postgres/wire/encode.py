"""Encodes Arrow columns as DataRow messages, all rows at once and without Python objects.

A row is `D`, its length, the number of columns, and for each column a length (-1: NULL) and the value's bytes. Each column becomes
an Arrow array of values, as text or binary, and an array of lengths; Arrow joins them row by row:

    id        name      →   values        lengths       joined
    7         'ab'          b"7", b"ab"   1, 2          D 00000011 0002 | 00000001 "7" | 00000002 "ab"
    8         NULL          b"8", NULL    1, -1         D 0000000f 0002 | 00000001 "8" | ffffffff

The rows then follow each other in one buffer, which is sent as it is. Text is what a cast to text gives (except booleans: `t`, not
`true`). Binary numbers and times are their bytes in big-endian order; an array column is encoded as all its elements, and cut
at its list offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import Expr, Kind, Type
from tidegate.server.postgres.wire.messages import ColumnDescription
from tidegate.server.postgres.wire.numeric import encode_numeric
from tidegate.sql.bind import bind_expression
from tidegate.statements.postgres_catalog import postgres_types

RowEncoder: TypeAlias = Callable[[pa.RecordBatch], bytes | memoryview]
BATCH_BYTES = 1 << 20
"""Bytes encoded at once, roughly: enough to be fast, few enough to wait for slow clients."""
_EPOCH_DAYS = 10_957  # from 1970 to 2000, PostgreSQL's epoch
_EPOCH_MICROS = _EPOCH_DAYS * 86_400_000_000


def column_description(name: str, type_: Type, form: int = 0) -> ColumnDescription:
    """Describes a column for RowDescription."""
    number = postgres_types.oid(type_)
    known = postgres_types.BY_OID.get(number)
    size = -1 if known is None else known.size
    return ColumnDescription(name, number, size, postgres_types.modifier(type_), form)


def split_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """How a batch is cut into pieces of about `BATCH_BYTES` bytes."""
    count = batch.num_rows
    width = batch.nbytes / max(count, 1) + 8 * batch.num_columns
    step = int(min(max(BATCH_BYTES / max(width, 1), 1), 16_384))
    for at in range(0, count, step):
        yield batch.slice(at, step)


def encode_rows(
    batch: pa.RecordBatch, types: Sequence[Type], formats: Sequence[int], kind: bytes = b"D"
) -> memoryview:
    """Encodes rows as DataRow messages; with `kind` b"d" as rows of COPY's binary format."""
    count, columns = batch.num_rows, batch.columns
    cells = [
        encode_column(array, type_, form) for array, type_, form in zip(columns, types, formats, strict=True)
    ]
    sizes = [_sizes(column) for column in cells]
    head = np.empty(count, np.dtype([("kind", "S1"), ("size", ">i4"), ("columns", ">i2")]))
    head["kind"], head["columns"] = kind, len(cells)
    head["size"] = (
        sum((np.maximum(size, 0) for size in sizes), np.zeros(count, np.int64)) + 6 + 4 * len(cells)
    )
    parts = [fixed_width_bytes(head)]
    for column, size in zip(cells, sizes, strict=True):
        parts += [fixed_width_bytes(size.astype(">i4")), column.fill_null(b"")]
    return concatenated_bytes(pc.binary_join_element_wise(*parts, b""))


def row_encoder(types: Sequence[Type], formats: Sequence[int]) -> RowEncoder:
    """Returns what encodes rows as DataRow messages."""
    return lambda batch: encode_rows(batch, types, formats)


def encode_column(array: pa.Array, type_: Type, form: int) -> pa.Array:
    """Encodes the values of a column, as text or binary; NULL stays NULL."""
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if form == 0 or postgres_types.oid(type_) == 25:
        return to_text(array, type_).cast(pa.binary())
    return to_binary(array, type_)


def to_text(array: pa.Array, type_: Type) -> pa.Array:
    """Converts values to text as PostgreSQL writes them."""
    match type_.kind:
        case Kind.TEXT | Kind.JSONB | Kind.UNKNOWN:
            return array
        case Kind.BOOL:
            return pc.if_else(array, "t", "f")
        case Kind.INT2 | Kind.INT4 | Kind.INT8 | Kind.MZ_TIMESTAMP:
            return array.cast(pa.string())
        case _:
            texts = evaluate(_cast_to_text(type_), [array]).values
            return texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts


@lru_cache(256)
def _cast_to_text(type_: Type) -> Expr:
    return bind_expression("x::text", [("x", type_)])


def to_binary(array: pa.Array, type_: Type) -> pa.Array:
    """Encodes values in PostgreSQL's binary formats."""
    match type_.kind:
        case Kind.TEXT | Kind.UNKNOWN | Kind.BYTEA | Kind.UUID:
            return array.cast(pa.binary())
        case Kind.JSONB:
            return pc.binary_join_element_wise(b"\x01", array.cast(pa.binary()), b"")
        case Kind.BOOL:
            return _numbers(array, array.cast(pa.int8()), "i1")
        case Kind.INT8 if type_ == postgres_types.OID:
            return _numbers(array, array, ">u4")
        case Kind.INT2 | Kind.INT4 | Kind.INT8 | Kind.MZ_TIMESTAMP | Kind.FLOAT4 | Kind.FLOAT8:
            return _numbers(array, array, np.dtype(array.type.to_pandas_dtype()).newbyteorder(">").str)
        case Kind.DATE:
            return _numbers(array, pc.subtract(array.cast(pa.int32()), _EPOCH_DAYS), ">i4")
        case Kind.TIME:
            return _numbers(array, array.cast(pa.int64()), ">i8")
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return _numbers(array, pc.subtract(array.cast(pa.int64()), _EPOCH_MICROS), ">i8")
        case Kind.INTERVAL:
            return _intervals(array)
        case Kind.NUMERIC:
            return encode_numeric(array, type_)
        case Kind.ARRAY:
            return _arrays(array, type_)
        case Kind.RECORD:
            return _records(array, type_)


def _numbers(array: pa.Array, plain: pa.Array, form: str) -> pa.Array:
    numbers = np.ascontiguousarray(plain.fill_null(0).to_numpy(zero_copy_only=False)).astype(form)
    return _with_nulls(array, fixed_width_bytes(numbers))


def _intervals(array: pa.Array) -> pa.Array:
    """Reorders Arrow's (months, days, nanoseconds) to PostgreSQL's (microseconds, days, months)."""
    layout = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])
    values = np.frombuffer(array.buffers()[1], layout, len(array), array.offset * layout.itemsize)
    out = np.empty(len(array), np.dtype([("micros", ">i8"), ("days", ">i4"), ("months", ">i4")]))
    out["micros"], out["days"], out["months"] = values["nanos"] // 1000, values["days"], values["months"]
    return _with_nulls(array, fixed_width_bytes(out))


def _arrays(array: pa.Array, type_: Type) -> pa.Array:
    """Encodes arrays: dimensions, has NULLs, element type, length, first index, elements with lengths."""
    assert type_.element is not None
    starts = np.asarray(array.offsets.to_numpy())  # of this slice: n + 1 of them, into the elements of all
    elements = encode_column(array.values, type_.element, 1)
    sizes = _sizes(elements)
    joined = pc.binary_join_element_wise(fixed_width_bytes(sizes.astype(">i4")), elements.fill_null(b""), b"")
    ends = np.frombuffer(joined.buffers()[1], np.int32, len(joined) + 1)[starts].astype(np.int32)
    body = pa.Array.from_buffers(
        pa.binary(), len(array), [None, pa.py_buffer(np.ascontiguousarray(ends)), joined.buffers()[2]]
    )
    nulls = np.concatenate(([0], np.cumsum(sizes < 0)))[starts]
    lengths = np.diff(starts)
    head = np.empty(len(array), np.dtype([("dims", ">i4"), ("nulls", ">i4"), ("oid", ">u4")]))
    head["dims"], head["nulls"], head["oid"] = (
        lengths > 0,
        np.diff(nulls) > 0,
        postgres_types.oid(type_.element),
    )
    shape = np.empty(len(array), np.dtype([("length", ">i4"), ("first", ">i4")]))
    shape["length"], shape["first"] = lengths, 1
    bounds = pc.if_else(
        pa.array(lengths > 0), fixed_width_bytes(shape), b""
    )  # an empty array has no dimension
    return _with_nulls(array, pc.binary_join_element_wise(fixed_width_bytes(head), bounds, body, b""))


def _records(array: pa.Array, type_: Type) -> pa.Array:
    """Encodes records: the number of fields, and the type, length and bytes of each."""
    parts = [fixed_width_bytes(np.full(len(array), len(type_.fields), ">i4"))]
    for child, (_, inner) in zip(array.flatten(), type_.fields, strict=True):
        cells = encode_column(child, inner, 1)
        head = np.empty(len(array), np.dtype([("oid", ">u4"), ("size", ">i4")]))
        head["oid"], head["size"] = postgres_types.oid(inner), _sizes(cells)
        parts += [fixed_width_bytes(head), cells.fill_null(b"")]
    return _with_nulls(array, pc.binary_join_element_wise(*parts, b""))


def fixed_width_bytes(values: np.ndarray) -> pa.Array:
    """Converts an array of fixed-width values to an Arrow array of their bytes."""
    size = values.dtype.itemsize
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.binary(size), len(values), [None, pa.py_buffer(values.tobytes())]).cast(
        pa.binary()
    )


def _sizes(cells: pa.Array) -> np.ndarray:
    """Returns the length of each value in bytes; -1 for NULL."""
    sizes: np.ndarray = pc.binary_length(cells).fill_null(-1).to_numpy(zero_copy_only=False)
    return sizes


def _with_nulls(array: pa.Array, cells: pa.Array) -> pa.Array:
    """Makes a cell NULL where the array is NULL."""
    return cells if array.null_count == 0 else pc.if_else(array.is_valid(), cells, None)


def concatenated_bytes(joined: pa.Array) -> memoryview:
    """Returns the bytes of all values after each other; the array has no NULL."""
    if not len(joined):
        return memoryview(b"")
    ends = np.frombuffer(joined.buffers()[1], np.int32, len(joined) + 1, joined.offset * 4)
    return memoryview(joined.buffers()[2])[ends[0] : ends[-1]]
