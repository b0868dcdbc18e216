"""The least and greatest value of each stretch of rows, in the order of `expr/model/order.py`.

A column's rows are cut into stretches (pages of 8,192 rows; the whole part; the elements of the arrays of a
page), given by where each starts and, last, where all end. All stretches are looked at in one pass of a
numpy kernel for what is a number inside:

    values   3  1  2 | 9  7 |      | 5        starts  0 3 5 5 6
    low         1    |   7  |  –   | 5        a stretch without values has no bounds

Results are arrays in the stored form (`model.py`). Order needs care for

- floats: NaN is passed over, and kept apart;
- decimals: nearly always they fit 64 bits, and are compared so; else Arrow compares them;
- uuids: the first half decides, the second half among those that share the first;
- intervals: compared by length, but the bound is one of the values, as 30 days and 1 month are not the same
  to add;
- text: Arrow's kernel, stretch by stretch.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model import order, outcome, to_bools

Bounds: TypeAlias = tuple[pa.Array, pa.Array]

STORED_DECIMAL = pa.decimal128(38, 0)
WORD = 8
_TOP = np.uint64(2**64 - 1)


def extremes(values: pa.Array, starts: np.ndarray) -> Bounds:
    """The bounds of each stretch, null where it has no values."""
    kind = values.type
    if pa.types.is_floating(kind):
        return float_extremes(values, starts)[0]
    if pa.types.is_decimal(kind):
        return _of_decimals(values, starts)
    if pa.types.is_interval(kind):
        return _of_intervals(values, starts)
    if pa.types.is_fixed_size_binary(kind):
        return _of_uuids(values, starts)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return one_by_one(values, starts)
    return _of_integers(values, starts)


def reduced(ufunc: Any, values: np.ndarray, starts: np.ndarray, nothing: Any = 0) -> np.ndarray:
    """`ufunc` over each stretch; `nothing` for one without rows."""
    result = np.full(len(starts) - 1, nothing, values.dtype if values.dtype != bool else np.int64)
    some = np.diff(starts) > 0
    if some.any():
        # Stretches without rows take no room, so each of the others ends where the next of them starts.
        given = values if values.dtype != bool else values.view(np.int8)
        kept = ufunc.reduceat(given[: starts[-1]], starts[:-1][some], dtype=result.dtype)
        result[some] = kept
    return result


def count(mask: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """How many rows of each stretch the mask holds for."""
    return reduced(np.add, mask, starts)


def valid_counts(values: pa.Array, starts: np.ndarray) -> np.ndarray:
    """How many rows of each stretch are not null."""
    if not values.null_count:
        return np.diff(starts)
    return count(to_bools(values.is_valid()), starts)


def _of_integers(values: pa.Array, starts: np.ndarray) -> Bounds:
    is_bool = pa.types.is_boolean(values.type)
    plain = values.cast(pa.int8()) if is_bool else outcome.integers(values)
    raw = _raw(plain)
    info = np.iinfo(raw.dtype)
    low, high = _both(raw, values, starts, np.minimum, np.maximum, info.max, info.min)
    some = valid_counts(values, starts) > 0
    stored = pa.bool_() if is_bool else pa.int64()
    return _nulled(low, some, stored), _nulled(high, some, stored)


def float_extremes(values: pa.Array, starts: np.ndarray) -> tuple[Bounds, np.ndarray]:
    """The bounds of each stretch without NaN, and where there is a NaN."""
    raw = _raw(values)
    if values.null_count:
        raw = np.where(to_bools(values.is_valid()), raw, raw.dtype.type(0))
    low, high = reduced(np.minimum, raw, starts), reduced(np.maximum, raw, starts)
    nan = np.isnan(low)  # minimum passes a NaN on
    some = np.diff(starts) > 0
    if values.null_count or nan.any():
        # Not by fmin, which passes over NaN, but not over a signalling one: fmin(1, sNaN) is NaN, and 1 is lost.
        out = np.isnan(raw)
        if values.null_count:
            out |= ~to_bools(values.is_valid())
        least, most = raw.dtype.type(-np.inf), raw.dtype.type(np.inf)
        low = reduced(np.minimum, np.where(out, most, raw), starts)
        high = reduced(np.maximum, np.where(out, least, raw), starts)
        some = count(~out, starts) > 0
    return (_nulled(low, some, pa.float64()), _nulled(high, some, pa.float64())), nan


def _of_decimals(values: pa.Array, starts: np.ndarray) -> Bounds:
    unscaled = unscale(values)
    pairs = _halves(unscaled, "<i8")
    if values.null_count:
        pairs = np.where(to_bools(values.is_valid())[:, None], pairs, 0)
    halves = pairs[:, 0]
    if not (pairs[:, 1] == halves >> 63).all():
        return one_by_one(unscaled, starts)
    info = np.iinfo(np.int64)
    low, high = _both(halves, values, starts, np.minimum, np.maximum, info.max, info.min)
    some = valid_counts(values, starts) > 0
    return _widened(low, some), _widened(high, some)


def _of_uuids(values: pa.Array, starts: np.ndarray) -> Bounds:
    assert values.type.byte_width == 2 * WORD
    halves = _halves(values, ">u8").astype(np.uint64)
    some = valid_counts(values, starts) > 0
    result = []
    for ufunc, worst in ((np.minimum, _TOP), (np.maximum, np.uint64(0))):
        first, second = halves[:, 0], halves[:, 1]
        if values.null_count:
            valid = to_bools(values.is_valid())
            first, second = np.where(valid, first, worst), np.where(valid, second, worst)
        head = reduced(ufunc, first, starts)
        tie = np.flatnonzero(
            first == np.repeat(head, np.diff(starts))
        )  # few: one a stretch, if they are random
        tail = reduced(ufunc, second[tie], np.searchsorted(tie, starts))
        packed = np.stack([head, tail], axis=1).astype(">u8").tobytes()
        whole = pa.Array.from_buffers(values.type, len(head), [None, pa.py_buffer(packed)]).cast(pa.binary())
        result.append(_only(whole, some))
    return result[0], result[1]


def _of_intervals(values: pa.Array, starts: np.ndarray) -> Bounds:
    key = order.interval_key(values)
    low, high = _of_integers(key, starts)
    raw = key.fill_null(0).to_numpy(zero_copy_only=False)
    valid = to_bools(values.is_valid())
    stretch = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    result = []
    for bound in (low, high):
        wanted = bound.fill_null(0).to_numpy()
        rows = np.flatnonzero((raw[: starts[-1]] == wanted[stretch]) & valid[: starts[-1]])
        place = np.full(len(bound), -1)
        place[stretch[rows[::-1]]] = rows[::-1]
        result.append(values.take(pa.array(place, mask=place < 0)))
    return result[0], result[1]


def one_by_one(values: pa.Array, starts: np.ndarray) -> Bounds:
    """Bounds by Arrow's kernel: a call for each stretch, of which there are a hundred in a million rows."""
    found = [
        pc.min_max(values.slice(begin, end - begin))
        for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    ]
    low, high = (pa.array([pair[side].as_py() for pair in found], values.type) for side in ("min", "max"))
    return low, high


def _both(
    raw: np.ndarray, values: pa.Array, starts: np.ndarray, least: Any, most: Any, top: Any, bottom: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Two reductions, in which nulls cannot win."""
    if not values.null_count:
        return reduced(least, raw, starts), reduced(most, raw, starts)
    valid = to_bools(values.is_valid())
    return reduced(least, np.where(valid, raw, top), starts), reduced(
        most, np.where(valid, raw, bottom), starts
    )


def _halves(values: pa.Array, word: str) -> np.ndarray:
    """The two words of each value of 16 bytes."""
    if not len(values):
        return np.zeros((0, 2), word)
    return np.frombuffer(values.buffers()[1], word, 2 * len(values), values.offset * 2 * WORD).reshape(-1, 2)


def _raw(values: pa.Array) -> np.ndarray:
    """The numbers of a primitive array, undefined where null, without a copy."""
    if not len(values):
        return np.zeros(0, values.type.to_pandas_dtype())
    width = values.type.bit_width // 8
    raw: np.ndarray = np.frombuffer(
        values.buffers()[1], values.type.to_pandas_dtype(), len(values), values.offset * width
    )
    return raw


def unscale(values: pa.Array) -> pa.Array:
    """Decimals as the integers they are made of, without a copy."""
    return pa.Array.from_buffers(
        STORED_DECIMAL, len(values), values.buffers(), values.null_count, values.offset
    )


def decimals(unscaled: list[int | None]) -> pa.Array:
    """Stored decimals from Python integers."""
    raw = b"".join((0 if v is None else v).to_bytes(16, "little", signed=True) for v in unscaled)
    whole = pa.Array.from_buffers(STORED_DECIMAL, len(unscaled), [None, pa.py_buffer(raw)])
    return _only(whole, np.array([v is not None for v in unscaled], bool))


def _widened(values: np.ndarray, some: np.ndarray) -> pa.Array:
    pairs = np.stack([values, values >> 63], axis=1)
    whole = pa.Array.from_buffers(STORED_DECIMAL, len(values), [None, pa.py_buffer(pairs.tobytes())])
    return _only(whole, some)


def _nulled(values: np.ndarray, some: np.ndarray, type_: pa.DataType) -> pa.Array:
    return pa.array(values, mask=~some).cast(type_)


def _only(values: pa.Array, some: np.ndarray) -> pa.Array:
    return values if some.all() else pc.if_else(pa.array(some), values, pa.scalar(None, values.type))
