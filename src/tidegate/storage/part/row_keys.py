r"""Keys of rows: bytes that compare as the rows do, so that sorting and grouping need not know types.

    row_keys([a, b])      a binary string for each row; memcmp of two of them is the order of (a, b)

Each value is a byte 1 and its bytes, or a byte 2 for NULL, which is greatest as PostgreSQL sorts it:

| value | bytes behind the 1 |
|---|---|
| integers, dates, times | big-endian, the sign bit flipped |
| floats | the bits of the double, so turned that they rise; -0 as 0, every NaN as the greatest |
| numeric | 16 bytes, big-endian, the sign bit flipped |
| text, bytea, jsonb | themselves, 0 as 0 255, and 0 0 behind: `'a' < 'a\0' < 'ab'` |
| interval | its length with months of 30 days |
| array | its elements one after the other, then 0: a shorter one is less |
| record | its fields one after the other |

Equal is not always identical: `0.0 = -0.0` and `1 month = 30 days`, but a row that holds the one must not be returned as the
other. `exact_keys` are equal for identical rows alone (NaN is identical to NaN), and rise with `row_keys`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model import order, outcome

_KEY = pa.large_binary()
_VALUE, _NULL = 1, 2
_EMPTY = pa.scalar(b"", _KEY)


def row_keys(columns: Sequence[pa.Array], rows: int) -> pa.Array:
    """A binary key for each row; keys compare as rows do, by the first column that differs."""
    return _joined([piece for column in columns for piece in _pieces(column, exact=False)], rows)


def exact_keys(columns: Sequence[pa.Array], rows: int) -> pa.Array:
    """Keys in the order of `row_keys` that are equal only for identical rows."""
    pieces = [piece for column in columns for piece in _pieces(column, exact=False)]
    # After the key of the order, what distinguishes rows that are equal in it.
    pieces += [
        piece for column in columns if _ambiguous(column.type) for piece in _pieces(column, exact=True)
    ]
    return _joined(pieces, rows)


def has_ambiguous_equality(columns: Sequence[pa.Array]) -> bool:
    """Whether rows of these columns can be equal without being identical."""
    return any(_ambiguous(column.type) for column in columns)


def time_key(times: np.ndarray) -> pa.Array:
    """Times as keys, to be joined to those of rows."""
    return _joined([_big_endian(times)], len(times))


def join_keys(first: pa.Array, second: pa.Array) -> pa.Array:
    """Each key of `first` followed by that of `second`."""
    return pc.binary_join_element_wise(first, second, _EMPTY)


def _ambiguous(type_: pa.DataType) -> bool:
    if pa.types.is_list(type_):
        return _ambiguous(type_.value_type)
    if pa.types.is_struct(type_):
        return any(_ambiguous(type_.field(i).type) for i in range(type_.num_fields))
    return bool(pa.types.is_floating(type_) or pa.types.is_interval(type_))


def _joined(pieces: Sequence[np.ndarray | pa.Array], rows: int) -> pa.Array:
    """Joins pieces side by side: matrices of bytes first with each other, which is cheap."""
    merged: list[np.ndarray | pa.Array] = []
    for piece in pieces:
        if merged and isinstance(piece, np.ndarray) and isinstance(merged[-1], np.ndarray):
            merged[-1] = np.hstack([merged[-1], piece])
        else:
            merged.append(piece)
    arrays = [_from_matrix(piece) if isinstance(piece, np.ndarray) else piece for piece in merged]
    if not arrays:
        return pa.repeat(_EMPTY, rows)
    return arrays[0] if len(arrays) == 1 else pc.binary_join_element_wise(*arrays, _EMPTY)


def _from_matrix(matrix: np.ndarray) -> pa.Array:
    rows, width = matrix.shape
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    data = np.ascontiguousarray(matrix)
    return pa.Array.from_buffers(_KEY, rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _pieces(array: pa.Array, exact: bool) -> list[np.ndarray | pa.Array]:
    """The bytes of a column's values: matrices for values of a fixed width, else keys."""
    type_ = array.type
    if pa.types.is_list(type_):
        return [_list_keys(array, exact)]
    if pa.types.is_struct(type_):
        fields = [pc.struct_field(array, [i]) for i in range(type_.num_fields)]
        return [_marks(array), *(piece for field in fields for piece in _pieces(field, exact))]
    if _is_bytes(type_):
        return [_text_keys(array)]
    fixed = _fixed(array, exact)
    if array.null_count:
        fixed = np.where(array.is_null().to_numpy(zero_copy_only=False)[:, None], np.uint8(0), fixed)
    return [_marks(array), fixed]


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))


def _marks(array: pa.Array) -> np.ndarray:
    """A byte for each row: whether it is a value or NULL."""
    if not array.null_count:
        return np.full((len(array), 1), _VALUE, np.uint8)
    null = array.is_null().to_numpy(zero_copy_only=False)
    return np.where(null, np.uint8(_NULL), np.uint8(_VALUE)).reshape(-1, 1)


def _fixed(array: pa.Array, exact: bool) -> np.ndarray:
    """Values of a fixed width as a matrix of bytes; anything where NULL."""
    type_ = array.type
    if pa.types.is_decimal128(type_):
        turned = _raw(array, 16)[:, ::-1].copy()
        turned[:, 0] ^= 0x80
        return turned
    if pa.types.is_fixed_size_binary(type_):
        return _raw(array, type_.byte_width)
    if pa.types.is_interval(type_):
        length = _big_endian(_numbers(order.interval_key(array)))
        months, days, _ = order.interval_parts(array)
        return np.hstack([length, _big_endian(months), _big_endian(days)]) if exact else length
    if pa.types.is_floating(type_):
        values = _numbers(array.cast(pa.float64()))
        with np.errstate(invalid="ignore"):  # a signalling NaN
            bits = (values + 0.0).view(np.int64)  # -0 + 0 is 0
        rising = np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
        key = _big_endian(np.where(np.isnan(values), np.iinfo(np.int64).max, rising))
        negative_zero = np.signbit(values) & (values == 0)
        return np.hstack([key, negative_zero[:, None].astype(np.uint8)]) if exact else key
    if pa.types.is_boolean(type_):
        return _numbers(array.cast(pa.uint8())).reshape(-1, 1)
    return _big_endian(_numbers(outcome.integers(array)))


def _numbers(array: pa.Array) -> np.ndarray:
    values: np.ndarray = (array.fill_null(0) if array.null_count else array).to_numpy(zero_copy_only=False)
    return values


def _raw(array: pa.Array, width: int) -> np.ndarray:
    """The buffer of a column of `width` bytes a value, as a matrix."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros((len(array), width), np.uint8)
    start = array.offset * width
    return np.frombuffer(buffer, np.uint8)[start : start + len(array) * width].reshape(-1, width)


def _big_endian(values: np.ndarray) -> np.ndarray:
    """Signed integers as bytes that compare as they do."""
    width = values.dtype.itemsize
    flipped = values.view(f"u{width}") ^ np.array(1 << (8 * width - 1), f"u{width}")
    matrix: np.ndarray = flipped.astype(f">u{width}").view(np.uint8).reshape(-1, width)
    return matrix


def _text_keys(array: pa.Array) -> pa.Array:
    values = array.cast(pa.binary()).cast(_KEY)
    if pc.any(pc.match_substring(values, b"\0"), min_count=0).as_py():
        values = pc.replace_substring(values, b"\0", b"\0\xff")
    keys = pc.binary_join_element_wise(
        pa.scalar(bytes([_VALUE]), _KEY), values, pa.scalar(b"\0\0", _KEY), _EMPTY
    )
    return keys.fill_null(bytes([_NULL])) if keys.null_count else keys


def _list_keys(array: pa.Array, exact: bool) -> pa.Array:
    """The keys of elements are already adjacent in one buffer: only the offsets are new."""
    inside = array.flatten()
    elements = _joined(_pieces(inside, exact), len(inside))
    sizes = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    borders = np.concatenate([[0], np.cumsum(sizes)])
    offsets = np.frombuffer(elements.buffers()[1], np.int64)[elements.offset :][borders]
    bodies = pa.Array.from_buffers(_KEY, len(array), [None, pa.py_buffer(offsets), elements.buffers()[2]])
    keys = pc.binary_join_element_wise(
        pa.scalar(bytes([_VALUE]), _KEY), bodies, pa.scalar(b"\0", _KEY), _EMPTY
    )
    if not array.null_count:
        return keys
    return pc.if_else(array.is_valid(), keys, pa.scalar(bytes([_NULL]), _KEY))
