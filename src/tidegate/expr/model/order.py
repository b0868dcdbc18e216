"""The order relation of every type, shared by evaluation, statistics, sorting and merging.

Arrow's comparison kernels follow it for most types, but not for floats (NaN must equal itself and be greatest; in Arrow it is
neither less than, equal to nor greater than anything), intervals, arrays and records (no kernels), and decimals of different
scale. All code that compares values calls this module, so a bound means the same everywhere.

The Arrow type determines the order (text and unknown share one), so no `Type` is needed. jsonb has the Arrow type of text, and here
its order: what must order documents as PostgreSQL does orders their keys (`sort_keys.py`).

>>> import pyarrow as pa
>>> less(pa.array([1.0, float("nan")]), pa.array([float("nan"), 1.0])).to_pylist()
[True, False]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model.outcome import Datum, length, raw_numbers, spread

MICROS_A_DAY = 86_400_000_000
INTERVAL_LAYOUT = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])


def less(a: Datum, b: Datum) -> pa.Array:
    """a < b, null where either is null."""
    if pa.types.is_floating(a.type):
        return _float_less(a, b)
    return _compare(a, b, pc.less, lambda sign: sign < 0)


def equal(a: Datum, b: Datum) -> pa.Array:
    """a = b, null where either is null."""
    if pa.types.is_floating(a.type):
        same = pc.equal(a, b)
        if _has_nan(a) and _has_nan(b):
            same = pc.or_(same, pc.and_(pc.is_nan(a), pc.is_nan(b)))
        return same
    return _compare(a, b, pc.equal, lambda sign: sign == 0)


def less_equal(a: Datum, b: Datum) -> pa.Array:
    """a <= b, null where either is null."""
    if pa.types.is_floating(a.type):
        return pc.invert(_float_less(b, a))
    return _compare(a, b, pc.less_equal, lambda sign: sign <= 0)


def smaller(a: pa.Array, b: pa.Array) -> pa.Array:
    """The smaller value of each row, null where either is null."""
    return pc.if_else(less_equal(a, b), a, b)


def greater(a: pa.Array, b: pa.Array) -> pa.Array:
    """The greater value of each row, null where either is null."""
    return pc.if_else(less_equal(a, b), b, a)


def sign(a: Datum, b: Datum) -> np.ndarray:
    """-1, 0 or 1 as a is less than, equal to or greater than b.

    Here a null equals a null and is greater than all else, as PostgreSQL sorts inside arrays and records.
    """
    n = length(a, b)
    a, b = spread(a, n), spread(b, n)
    null_a, null_b = _bools(a.is_null()), _bools(b.is_null())
    if pa.types.is_list(a.type):
        result = _sign_of_lists(a, b)
    elif pa.types.is_struct(a.type):
        result = _sign_of_records(a, b)
    else:
        below = _bools(pc.fill_null(less(a, b), False))
        above = _bools(pc.fill_null(less(b, a), False))
        result = above.astype(np.int8) - below.astype(np.int8)
    result = np.where(null_a | null_b, null_a.astype(np.int8) - null_b.astype(np.int8), result)
    return result.astype(np.int8)


def interval_parts(arg: Datum) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Months, days and microseconds of intervals; zeros where null. 0-d for a scalar."""
    if isinstance(arg, pa.Scalar):
        value = arg.as_py()
        months, days, nanos = value if value is not None else (0, 0, 0)
        return np.asarray(months, np.int64), np.asarray(days, np.int64), np.asarray(nanos // 1000, np.int64)
    raw = np.frombuffer(arg.buffers()[1], INTERVAL_LAYOUT, count=len(arg) + arg.offset)[arg.offset :]
    if arg.null_count:
        raw = np.where(_bools(arg.is_valid()), raw, np.zeros((), INTERVAL_LAYOUT))
    return raw["months"].astype(np.int64), raw["days"].astype(np.int64), raw["nanos"] // 1000


def make_intervals(
    months: np.ndarray, days: np.ndarray, micros: np.ndarray, valid: pa.Array | None = None
) -> pa.Array:
    """Intervals from their parts, null where `valid` is false."""
    raw = np.zeros(len(micros), INTERVAL_LAYOUT)
    raw["months"], raw["days"], raw["nanos"] = months, days, micros * 1000
    array = pa.Array.from_buffers(pa.month_day_nano_interval(), len(raw), [None, pa.py_buffer(raw)])
    return array if valid is None else pc.if_else(valid, array, pa.scalar(None, array.type))


def interval_key(arg: Datum) -> Datum:
    """The sort key of intervals: their length in microseconds with months of 30 days."""
    months, days, micros = interval_parts(arg)
    key = (months * 30 + days) * MICROS_A_DAY + micros
    if isinstance(arg, pa.Scalar):
        return pa.scalar(int(key) if arg.is_valid else None, pa.int64())
    return pa.array(key, mask=_bools(arg.is_null())) if arg.null_count else pa.array(key)


def _compare(a: Datum, b: Datum, kernel: Any, by_sign: Callable[[np.ndarray], np.ndarray]) -> pa.Array:
    if pa.types.is_interval(a.type):
        return kernel(interval_key(a), interval_key(b))
    if pa.types.is_decimal(a.type):
        return kernel(*align(a, b))
    if pa.types.is_nested(a.type):
        n = length(a, b)
        a, b = spread(a, n), spread(b, n)
        return pc.if_else(
            pc.and_(a.is_valid(), b.is_valid()), pa.array(by_sign(sign(a, b))), pa.scalar(None, pa.bool_())
        )
    return kernel(a, b)


def align(a: Datum, b: Datum) -> tuple[Datum, Datum]:
    """Two decimals at a common scale, in 256 bits where 128 cannot hold both."""
    if a.type == b.type:
        return a, b
    scale = max(a.type.scale, b.type.scale)
    whole = max(a.type.precision - a.type.scale, b.type.precision - b.type.scale)
    common = pa.decimal128(whole + scale, scale) if whole + scale <= 38 else pa.decimal256(76, scale)
    return a.cast(common), b.cast(common)


def _float_less(a: Datum, b: Datum) -> pa.Array:
    result = pc.less(a, b)
    if not _has_nan(b):
        return result
    return pc.or_(result, pc.and_(pc.is_nan(b), pc.invert(pc.is_nan(a))))


def _has_nan(a: Datum) -> bool:
    """Whether the buffer holds a NaN, possibly under a null. In numpy NaN is greatest, as here."""
    if isinstance(a, pa.Scalar):
        return bool(a.is_valid and math.isnan(a.as_py()))
    return len(a) > 0 and bool(np.isnan(raw_numbers(a).max()))


def _bools(array: pa.Array) -> np.ndarray:
    result: np.ndarray = array.to_numpy(zero_copy_only=False)
    return result


def _sign_of_records(a: pa.Array, b: pa.Array) -> np.ndarray:
    result = np.zeros(len(a), np.int8)
    for i in range(a.type.num_fields):
        step = sign(pc.struct_field(a, [i]), pc.struct_field(b, [i]))
        result = np.where(result == 0, step, result)
    return result


def _sign_of_lists(a: pa.Array, b: pa.Array) -> np.ndarray:
    """The sign of the first pair of elements that differ; without one, the shorter list is less."""
    size_a = pc.fill_null(pc.list_value_length(a), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    size_b = pc.fill_null(pc.list_value_length(b), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    common = np.minimum(size_a, size_b)
    row = np.repeat(np.arange(len(a)), common)
    within = np.arange(len(row)) - np.repeat(np.cumsum(common) - common, common)
    start_a, start_b = _starts(size_a), _starts(size_b)
    left = a.flatten().take(pa.array(start_a[row] + within))
    right = b.flatten().take(pa.array(start_b[row] + within))
    step = sign(left, right) if len(row) else np.zeros(0, np.int8)
    result: np.ndarray = np.sign(size_a - size_b).astype(np.int8)
    differs = np.flatnonzero(step)
    rows, first = np.unique(row[differs], return_index=True)
    result[rows] = step[differs[first]]
    return result


def _starts(sizes: np.ndarray) -> np.ndarray:
    # `flatten` omits the elements of null lists, so positions are computed from the sizes.
    starts: np.ndarray = np.cumsum(sizes) - sizes
    return starts
