"""Columns → rows of the protocol, for all rows at once: no value is ever a Python object.

A row is `D`, its length, the number of columns, and for each of them a length (-1: NULL) and the value's bytes. Each column becomes
an Arrow array of such values, as text or binary; lengths are one more array each; and Arrow joins them row by row:

    id        name      →   values        lengths       joined
    7         'ab'          b"7", b"ab"   1, 2          D 00000011 0002 | 00000001 "7" | 00000002 "ab"
    8         NULL          b"8", NULL    1, -1         D 0000000f 0002 | 00000001 "8" | ffffffff

The rows then lie behind each other in one buffer, which is what is sent. Text is what a cast to text gives (but for booleans:
`t`, not `true`). Binary of numbers and times is their bytes, turned around by numpy; an array's are those of all elements of all
rows, cut where its lists are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.evaluate import evaluate
from tidegate.expr.tree import Expr
from tidegate.expr.types import Kind, Type
from tidegate.serve.pg.numbers import numeric
from tidegate.serve.pg.types import OID, oid
from tidegate.sql import bind

BATCH = 1 << 20
"""Bytes that are made at once, about: enough to be quick, little enough to wait for slow readers."""
_EPOCH_DAYS = 10_957  # from 1970 to 2000, where PostgreSQL counts from
_EPOCH_MICROS = _EPOCH_DAYS * 86_400_000_000


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """How a batch is cut into pieces of about `BATCH` bytes."""
    rows = batch.num_rows
    width = batch.nbytes / max(rows, 1) + 8 * batch.num_columns
    step = int(min(max(BATCH / max(width, 1), 1), 16_384))
    for at in range(0, rows, step):
        yield batch.slice(at, step)


def rows(batch: pa.RecordBatch, types: Sequence[Type], formats: Sequence[int]) -> memoryview:
    """Rows, ready to be sent."""
    count, cut = batch.num_rows, batch.columns
    cells = [values(array, type_, form) for array, type_, form in zip(cut, types, formats, strict=True)]
    sizes = [_sizes(one) for one in cells]
    head = np.empty(count, np.dtype([("kind", "S1"), ("size", ">i4"), ("columns", ">i2")]))
    head["kind"], head["columns"] = b"D", len(cells)
    head["size"] = sum((np.maximum(one, 0) for one in sizes), np.zeros(count, np.int64)) + 6 + 4 * len(cells)
    parts = [fixed(head)]
    for one, size in zip(cells, sizes, strict=True):
        parts += [fixed(size.astype(">i4")), one.fill_null(b"")]
    return contents(pc.binary_join_element_wise(*parts, b""))


def values(array: pa.Array, type_: Type, form: int) -> pa.Array:
    """The values of a column as bytes; NULL stays NULL."""
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if form == 0 or oid(type_) == 25:
        return text(array, type_).cast(pa.binary())
    return binary(array, type_)


def text(array: pa.Array, type_: Type) -> pa.Array:
    """The values as PostgreSQL spells them."""
    match type_.kind:
        case Kind.TEXT | Kind.JSONB | Kind.UNKNOWN:
            return array
        case Kind.BOOL:
            return pc.if_else(array, "t", "f")
        case Kind.INT2 | Kind.INT4 | Kind.INT8 | Kind.MZ_TIMESTAMP:
            return array.cast(pa.string())
        case _:
            found = evaluate(_to_text(type_), [array]).values
            return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


@lru_cache(256)
def _to_text(type_: Type) -> Expr:
    return bind.expression("x::text", [("x", type_)])


def binary(array: pa.Array, type_: Type) -> pa.Array:
    """The values as PostgreSQL's send functions write them."""
    match type_.kind:
        case Kind.TEXT | Kind.UNKNOWN | Kind.BYTEA | Kind.UUID:
            return array.cast(pa.binary())
        case Kind.JSONB:
            return pc.binary_join_element_wise(b"\x01", array.cast(pa.binary()), b"")
        case Kind.BOOL:
            return _numbers(array, array.cast(pa.int8()), "i1")
        case Kind.INT8 if type_ == OID:
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
            return numeric(array, type_)
        case Kind.ARRAY:
            return _arrays(array, type_)
        case Kind.RECORD:
            return _records(array, type_)


def _numbers(array: pa.Array, plain: pa.Array, form: str) -> pa.Array:
    made = np.ascontiguousarray(plain.fill_null(0).to_numpy(zero_copy_only=False)).astype(form)
    return _where(array, fixed(made))


def _intervals(array: pa.Array) -> pa.Array:
    """Arrow keeps (months int32, days int32, nanoseconds int64); PostgreSQL wants (microseconds, days, months)."""
    kept = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])
    found = np.frombuffer(array.buffers()[1], kept, len(array), array.offset * kept.itemsize)
    made = np.empty(len(array), np.dtype([("micros", ">i8"), ("days", ">i4"), ("months", ">i4")]))
    made["micros"], made["days"], made["months"] = found["nanos"] // 1000, found["days"], found["months"]
    return _where(array, fixed(made))


def _arrays(array: pa.Array, type_: Type) -> pa.Array:
    """Number of dimensions, whether there are NULLs, type of elements, length, first index, elements with their lengths."""
    assert type_.element is not None
    starts = np.asarray(array.offsets.to_numpy())  # of this slice: n + 1 of them, into the elements of all
    elements = values(array.values, type_.element, 1)
    sizes = _sizes(elements)
    joined = pc.binary_join_element_wise(fixed(sizes.astype(">i4")), elements.fill_null(b""), b"")
    ends = np.frombuffer(joined.buffers()[1], np.int32, len(joined) + 1)[starts].astype(np.int32)
    body = pa.Array.from_buffers(
        pa.binary(), len(array), [None, pa.py_buffer(np.ascontiguousarray(ends)), joined.buffers()[2]]
    )
    nulls = np.concatenate(([0], np.cumsum(sizes < 0)))[starts]
    lengths = np.diff(starts)
    head = np.empty(len(array), np.dtype([("dims", ">i4"), ("nulls", ">i4"), ("oid", ">u4")]))
    head["dims"], head["nulls"], head["oid"] = lengths > 0, np.diff(nulls) > 0, oid(type_.element)
    shape = np.empty(len(array), np.dtype([("length", ">i4"), ("first", ">i4")]))
    shape["length"], shape["first"] = lengths, 1
    bounds = pc.if_else(pa.array(lengths > 0), fixed(shape), b"")  # an empty array has no dimension
    return _where(array, pc.binary_join_element_wise(fixed(head), bounds, body, b""))


def _records(array: pa.Array, type_: Type) -> pa.Array:
    """Number of fields, and of each its type, its length and its bytes."""
    parts = [fixed(np.full(len(array), len(type_.fields), ">i4"))]
    for child, (_, inner) in zip(array.flatten(), type_.fields, strict=True):
        cells = values(child, inner, 1)
        head = np.empty(len(array), np.dtype([("oid", ">u4"), ("size", ">i4")]))
        head["oid"], head["size"] = oid(inner), _sizes(cells)
        parts += [fixed(head), cells.fill_null(b"")]
    return _where(array, pc.binary_join_element_wise(*parts, b""))


def fixed(made: np.ndarray) -> pa.Array:
    """An array of values of one width as an Arrow array of their bytes."""
    size = made.dtype.itemsize
    made = np.ascontiguousarray(made)
    return pa.Array.from_buffers(pa.binary(size), len(made), [None, pa.py_buffer(made.tobytes())]).cast(
        pa.binary()
    )


def _sizes(cells: pa.Array) -> np.ndarray:
    """The bytes of each value; -1 for NULL."""
    sizes: np.ndarray = pc.binary_length(cells).fill_null(-1).to_numpy(zero_copy_only=False)
    return sizes


def _where(array: pa.Array, cells: pa.Array) -> pa.Array:
    """NULL where the values are."""
    return cells if array.null_count == 0 else pc.if_else(array.is_valid(), cells, None)


def contents(joined: pa.Array) -> memoryview:
    """All values of an array that has no NULL, behind each other."""
    if not len(joined):
        return memoryview(b"")
    ends = np.frombuffer(joined.buffers()[1], np.int32, len(joined) + 1, joined.offset * 4)
    return memoryview(joined.buffers()[2])[ends[0] : ends[-1]]
