"""Text and bytes as numpy sees them: one buffer of bytes, and where each row starts.

Arrow has kernels for constant positions only (`utf8_slice_codeunits(x, 1, 3)`). Where every row has its own
start and length, the same work is arithmetic on offsets: a character starts at each byte that is not
10xxxxxx, so the byte at which the k-th character of row i starts is one lookup in the list of all starts.

>>> import numpy as np, pyarrow as pa
>>> slice_chars(pa.array(["déjà", "vu"]), np.array([1, 0]), np.array([3, 1])).to_pylist()
['éj', 'v']
>>> code_points(pa.array(["aé", ""]))
(array([ 97, 233], dtype=uint32), array([2, 0]))

All functions read a null as empty; `nulled` puts the nulls back.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.outcome import Datum, validity

CONTINUATION_MASK, CONTINUATION = 0xC0, 0x80


def opened(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of a text or bytea array and n + 1 offsets; row i is `data[offsets[i]:offsets[i + 1]]`."""
    if array.null_count:
        # What lies under a null is undefined, and need not even be UTF-8.
        array = pc.fill_null(array, "" if pa.types.is_string(array.type) else b"")
    _, offsets, data = array.buffers()
    if len(array) == 0 or offsets is None:
        return np.zeros(0, np.uint8), np.zeros(len(array) + 1, np.int64)
    within = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    return (np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)), within


def sizes(array: pa.Array) -> np.ndarray:
    """How many bytes each row has, 0 for a null."""
    _, offsets = opened(array)
    return np.diff(offsets)


def glued(data: np.ndarray, lengths: np.ndarray, type_: pa.DataType) -> pa.Array:
    """The array whose row i is the next `lengths[i]` bytes of `data`."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    packed = np.ascontiguousarray(data, np.uint8)
    return pa.Array.from_buffers(type_, len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(packed)])


def nulled(array: pa.Array, *args: Datum) -> pa.Array:
    """`array`, null where any of `args` is null."""
    valid = validity(*args)
    return array if valid is None else pc.if_else(valid, array, pa.scalar(None, array.type))


def slice_bytes(array: pa.Array, start: np.ndarray, stop: np.ndarray) -> pa.Array:
    """Bytes `start` to `stop` of each row, counted from 0; what lies outside of the row is left out."""
    data, offsets = opened(array)
    lengths = np.diff(offsets)
    start = np.clip(start, 0, lengths)
    return _gathered(data, offsets[:-1] + start, np.clip(stop, start, lengths) - start, array.type)


def slice_chars(array: pa.Array, start: np.ndarray, stop: np.ndarray) -> pa.Array:
    """Characters `start` to `stop` of each row, counted from 0; what lies outside of the row is left out."""
    data, offsets = opened(array)
    if _is_ascii(data[offsets[0] : offsets[-1]]):
        return slice_bytes(array, start, stop)
    starts, first = _char_starts(data, offsets)
    count = np.diff(first)
    start = np.clip(start, 0, count)
    begin = starts[first[:-1] + start]
    end = starts[first[:-1] + np.clip(stop, start, count)]
    return _gathered(data, begin, end - begin, array.type)


def char_counts(array: pa.Array) -> np.ndarray:
    """How many characters each row has, 0 for a null."""
    counts = pc.utf8_length(array)
    result: np.ndarray = pc.fill_null(counts, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return result


def code_points(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """All code points of all rows in one array, and how many each row has."""
    data, offsets = opened(array)
    packed = data[offsets[0] : offsets[-1]]
    if _is_ascii(packed):
        return packed.astype(np.uint32), np.diff(offsets)
    points = np.frombuffer(packed.tobytes().decode("utf-8").encode("utf-32-le"), np.uint32)
    return points, np.diff(_char_starts(data, offsets)[1])


def from_code_points(points: np.ndarray, counts: np.ndarray) -> pa.Array:
    """The text array whose row i is the next `counts[i]` code points; the inverse of `code_points`."""
    points = np.ascontiguousarray(points, np.uint32)
    if not len(points) or int(points.max()) < 0x80:
        return glued(points, counts, pa.string())
    size = np.uint8(1) + (points >= 0x80) + (points >= 0x800) + (points >= 0x10000)
    data = np.frombuffer(points.astype("<u4").tobytes().decode("utf-32-le").encode("utf-8"), np.uint8)
    return glued(data, sums(size, counts), pa.string())


def sums(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The sum of each row's values, where row i has the next `counts[i]` of them."""
    result = np.zeros(len(counts), np.int64)
    some = counts > 0
    if some.any():
        result[some] = np.add.reduceat(values, (np.cumsum(counts) - counts)[some], dtype=np.int64)
    return result


def _is_ascii(data: np.ndarray) -> bool:
    return len(data) == 0 or int(data.max()) < 0x80


def _char_starts(data: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where every character starts (and, last, where all end), and the index of each row's first one."""
    begin, end = offsets[0], offsets[-1]
    starts = np.flatnonzero((data[begin:end] & CONTINUATION_MASK) != CONTINUATION) + begin
    return np.append(starts, end), np.searchsorted(starts, offsets)


def _gathered(data: np.ndarray, begin: np.ndarray, lengths: np.ndarray, type_: pa.DataType) -> pa.Array:
    """The array whose row i is the `lengths[i]` bytes from `begin[i]` on; they lie in the order of rows."""
    # A mask costs an eighth of the positions it stands for.
    some = lengths > 0
    edges = np.zeros(len(data) + 1, np.int8)
    edges[begin[some]] = 1
    edges[(begin + lengths)[some]] -= 1
    return glued(data[np.cumsum(edges[:-1], dtype=np.int8).view(bool)], lengths, type_)
