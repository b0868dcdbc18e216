"""Text and bytes as numpy arrays: one buffer of bytes, and the offset of each row.

Arrow has kernels for constant positions only (`utf8_slice_codeunits(x, 1, 3)`). Where every row has its own
start and length, the same work is arithmetic on offsets: a character starts at each byte that is not
10xxxxxx, so the byte at which the k-th character of row i starts is one lookup in the list of all starts.

>>> import numpy as np, pyarrow as pa
>>> slice_chars(pa.array(["déjà", "vu"]), np.array([1, 0]), np.array([3, 1])).to_pylist()
['éj', 'v']
>>> code_points(pa.array(["aé", ""]))
(array([ 97, 233], dtype=uint32), array([2, 0]))

All functions read a null as empty; `null_where_any` (`model/outcome.py`) restores the nulls.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

CONTINUATION_MASK, CONTINUATION = 0xC0, 0x80


def bytes_and_offsets(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of a text or bytea array and n + 1 offsets; row i is `data[offsets[i]:offsets[i + 1]]`."""
    if array.null_count:
        # The bytes under a null are undefined, and need not even be UTF-8.
        array = pc.fill_null(array, "" if pa.types.is_string(array.type) else b"")
    _, offsets, data = array.buffers()
    if len(array) == 0 or offsets is None:
        return np.zeros(0, np.uint8), np.zeros(len(array) + 1, np.int64)
    within = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    return (np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)), within


def byte_lengths(array: pa.Array) -> np.ndarray:
    """The number of bytes of each row, 0 for a null."""
    _, offsets = bytes_and_offsets(array)
    return np.diff(offsets)


def from_bytes(data: np.ndarray, lengths: np.ndarray, type_: pa.DataType) -> pa.Array:
    """The array whose row i is the next `lengths[i]` bytes of `data`."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    packed = np.ascontiguousarray(data, np.uint8)
    return pa.Array.from_buffers(type_, len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(packed)])


def slice_bytes(array: pa.Array, start: np.ndarray, stop: np.ndarray) -> pa.Array:
    """Bytes `start` to `stop` of each row, counted from 0 and clipped to the row."""
    data, offsets = bytes_and_offsets(array)
    lengths = np.diff(offsets)
    start = np.clip(start, 0, lengths)
    return _gather(data, offsets[:-1] + start, np.clip(stop, start, lengths) - start, array.type)


def slice_chars(array: pa.Array, start: np.ndarray, stop: np.ndarray) -> pa.Array:
    """Characters `start` to `stop` of each row, counted from 0 and clipped to the row."""
    data, offsets = bytes_and_offsets(array)
    if _is_ascii(data[offsets[0] : offsets[-1]]):
        return slice_bytes(array, start, stop)
    starts, first = _char_starts(data, offsets)
    count = np.diff(first)
    start = np.clip(start, 0, count)
    begin = starts[first[:-1] + start]
    end = starts[first[:-1] + np.clip(stop, start, count)]
    return _gather(data, begin, end - begin, array.type)


def char_counts(array: pa.Array) -> np.ndarray:
    """The number of characters of each row, 0 for a null."""
    counts = pc.utf8_length(array)
    result: np.ndarray = pc.fill_null(counts, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return result


def code_points(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The code points of all rows in one array, and the number of each row."""
    data, offsets = bytes_and_offsets(array)
    packed = data[offsets[0] : offsets[-1]]
    if _is_ascii(packed):
        return packed.astype(np.uint32), np.diff(offsets)
    points = np.frombuffer(packed.tobytes().decode("utf-8").encode("utf-32-le"), np.uint32)
    return points, np.diff(_char_starts(data, offsets)[1])


def from_code_points(points: np.ndarray, counts: np.ndarray) -> pa.Array:
    """The text array whose row i is the next `counts[i]` code points; the inverse of `code_points`."""
    points = np.ascontiguousarray(points, np.uint32)
    if not len(points) or int(points.max()) < 0x80:
        return from_bytes(points, counts, pa.string())
    size = np.uint8(1) + (points >= 0x80) + (points >= 0x800) + (points >= 0x10000)
    data = np.frombuffer(points.astype("<u4").tobytes().decode("utf-32-le").encode("utf-8"), np.uint8)
    return from_bytes(data, sum_by_row(size, counts), pa.string())


def sum_by_row(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The sum of each row's values; row i has the next `counts[i]` of them."""
    result = np.zeros(len(counts), np.int64)
    not_empty = counts > 0
    if not_empty.any():
        result[not_empty] = np.add.reduceat(values, (np.cumsum(counts) - counts)[not_empty], dtype=np.int64)
    return result


def _is_ascii(data: np.ndarray) -> bool:
    return len(data) == 0 or int(data.max()) < 0x80


def _char_starts(data: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The start of every character and the end of all, and the index of each row's first character."""
    begin, end = offsets[0], offsets[-1]
    starts = np.flatnonzero((data[begin:end] & CONTINUATION_MASK) != CONTINUATION) + begin
    return np.append(starts, end), np.searchsorted(starts, offsets)


def _gather(data: np.ndarray, begin: np.ndarray, lengths: np.ndarray, type_: pa.DataType) -> pa.Array:
    """The array whose row i is `lengths[i]` bytes from `begin[i]`; rows are in buffer order."""
    # A mask takes an eighth of the memory of positions.
    not_empty = lengths > 0
    edges = np.zeros(len(data) + 1, np.int8)
    edges[begin[not_empty]] = 1
    edges[(begin + lengths)[not_empty]] -= 1
    return from_bytes(data[np.cumsum(edges[:-1], dtype=np.int8).view(bool)], lengths, type_)
