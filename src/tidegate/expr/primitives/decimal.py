"""Arithmetic on decimal128 arrays that neither raises nor loses digits silently.

Arrow's own decimal kernels fail by type, not by value: numeric(38,18) + numeric(38,18) has 39 digits in theory and is an error
before any row is read. Here a result that does not fit is the error of its row. There are two paths:

| path | when | how |
|---|---|---|
| narrow | unscaled values fit 64 bits, if need be without trailing zeros | numpy, a few ns per row |
| wide | anything else | sums and products by Arrow, quotients and rounding by `bigint.py`: some hundred ns per row |

`numeric(38,18)` stores 12.5 as 12500000000000000000, too long for 64 bits; without trailing zeros it is 12500 thousandths, and
narrow:

>>> import pyarrow as pa
>>> from decimal import Decimal
>>> to_narrow(pa.array([Decimal("12.5"), Decimal("0.25")], pa.decimal128(38, 18)))
NarrowDecimals(values=array([12500,   250]), scale=3)

Arrow decides by the *declared* precision whether a kernel may run, and does not check values against it. So `reinterpret` declares
a lower precision over the same bytes where the values are known to fit.
"""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model.outcome import (
    Datum,
    Outcome,
    failing,
    first_error,
    length,
    spread,
    validity,
    with_errors,
)
from tidegate.expr.primitives import bigint
from tidegate.expr.primitives.bigint import Limbs

NUMERIC_OVERFLOW = "numeric field overflow"
NUMERIC_UNDERFLOW = (
    "numeric field underflow: a result that is not 0 needs more digits after the point than are kept"
)
POWERS_OF_TEN = 10 ** np.arange(19, dtype=np.int64)
INT64_LIMIT = 2**63
MAX_DIGITS_256 = 76


class Rounding(Enum):
    """How digits that do not fit are rounded away."""

    HALF_AWAY = "to the nearest, halves away from zero"
    FLOOR = "down"
    CEIL = "up"
    TRUNC = "towards zero"


class NarrowDecimals(NamedTuple):
    """Decimals as int64: `values * 10 ** -scale`, zero where null; 0-d for a scalar."""

    values: np.ndarray
    scale: int


def reinterpret(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """The same bytes under another decimal type of the same width."""
    return pa.Array.from_buffers(type_, len(array), array.buffers(), array.null_count, array.offset)


def int64_words(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The low and the high 64 bits of every decimal128, both signed."""
    if len(array) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    whole = np.frombuffer(array.buffers()[1], np.int64, count=2 * (array.offset + len(array)))
    pairs = whole[2 * array.offset :].reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def from_int64(values: np.ndarray, type_: pa.DataType, valid: pa.Array | None = None) -> pa.Array:
    """Unscaled int64 values as decimal128, null where `valid` is false."""
    pairs = np.empty((len(values), 2), np.int64)
    pairs[:, 0] = values
    np.right_shift(values, 63, out=pairs[:, 1])
    array = pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(pairs)])
    return with_validity(array, valid)


def with_validity(array: pa.Array, valid: pa.Array | None) -> pa.Array:
    """`array` with nulls where `valid` is false."""
    if valid is None:
        return array
    if array.null_count == array.offset == valid.offset == valid.null_count == 0:
        # The bits of `valid` are just what Arrow keeps of nulls.
        return pa.Array.from_buffers(array.type, len(array), [valid.buffers()[1], *array.buffers()[1:]])
    return pc.if_else(valid, array, pa.scalar(None, array.type))


def magnitude(values: np.ndarray) -> int:
    """The greatest absolute value, as a Python integer so that products of magnitudes do not wrap."""
    return max(int(values.max(initial=0)), -int(values.min(initial=0)))


def unscaled(value: Decimal | None, scale: int) -> int:
    """The unscaled integer of a decimal of that scale."""
    if value is None:
        return 0
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number: int = int("".join(map(str, digits))) * 10 ** (scale + exponent)
    return -number if sign else number


def to_narrow(arg: Datum) -> NarrowDecimals | None:
    """`arg` as int64, or None if a value does not fit."""
    if isinstance(arg, pa.Scalar):
        number, scale = unscaled(arg.as_py(), arg.type.scale), arg.type.scale
        while scale and number % 10 == 0:
            number, scale = number // 10, scale - 1
        return NarrowDecimals(np.asarray(number, np.int64), scale) if abs(number) < INT64_LIMIT else None
    low, high = int64_words(arg)
    if arg.null_count:
        valid = arg.is_valid().to_numpy(zero_copy_only=False)
        low, high = np.where(valid, low, 0), np.where(valid, high, 0)
    if arg.type.precision <= 18 or ((low >> 63) == high).all():
        return NarrowDecimals(np.ascontiguousarray(low), arg.type.scale)
    return _without_zeros(low, high, arg.type.scale)


def _without_zeros(low: np.ndarray, high: np.ndarray, scale: int) -> NarrowDecimals | None:
    """128-bit values without 9 (and another 6) trailing zeros, or None if that loses digits."""
    if scale < 9:
        return None
    guess = (high * 2.0**64 + low.view(np.uint64)) / 1e9
    if not np.abs(guess).max(initial=0) < 2.0**62:
        return None
    values = guess.astype(np.int64)
    # The guess is off by at most 2**11, so the remainder is less than 2**42 and the wrapping product yields it exactly.
    rest = low - values * POWERS_OF_TEN[9]
    step = rest // POWERS_OF_TEN[9]
    if (rest != step * POWERS_OF_TEN[9]).any():
        return None
    values, scale = values + step, scale - 9
    if scale >= 6 and not (values % POWERS_OF_TEN[6]).any():
        return NarrowDecimals(values // POWERS_OF_TEN[6], scale - 6)
    return NarrowDecimals(values, scale)


def divide_by_power(values: np.ndarray, digits: int, mode: Rounding) -> np.ndarray:
    """int64 values without their last `digits` digits."""
    if digits <= 0:
        return values
    if digits > 18:
        # No int64 has more than 19 digits. Truncating first does not change which way a half is rounded, nor do two floors.
        first = Rounding.TRUNC if mode is Rounding.HALF_AWAY else mode
        return divide_by_power(divide_by_power(values, min(digits - 18, 18), first), 18, mode)
    unit = POWERS_OF_TEN[digits]
    result: np.ndarray = values // unit
    if mode is Rounding.FLOOR:
        return result
    rest = values - result * unit
    match mode:
        case Rounding.CEIL:
            result += rest > 0
        case Rounding.TRUNC:
            result += (rest > 0) & (values < 0)
        case _:
            result += rest + (values >= 0) > unit // 2
    return result


def finish_int64(
    values: np.ndarray,
    scale: int,
    out: pa.DataType,
    valid: pa.Array | None,
    mode: Rounding = Rounding.HALF_AWAY,
) -> Outcome:
    """int64 values at `scale` as decimals of type `out`, an error where they do not fit."""
    shift = out.scale - scale
    values = divide_by_power(values, -shift, mode)
    shift = max(shift, 0)
    room = out.precision - shift
    limit = 10 ** max(room, 0)
    errors = failing((values >= limit) | (values <= -limit), NUMERIC_OVERFLOW) if room <= 18 else None
    if shift <= 18 and magnitude(values) * 10**shift < INT64_LIMIT:
        return with_errors(from_int64(values * POWERS_OF_TEN[shift], out, valid), errors)
    array = from_int64(values, pa.decimal128(18, 0))
    while shift > 0:
        step = min(shift, 18)
        factor = pa.scalar(Decimal(10**step), pa.decimal128(19, 0))
        array = pc.multiply(reinterpret(array, pa.decimal128(18, 0)), factor)
        shift -= step
    return with_errors(with_validity(reinterpret(array, out), valid), errors)


def to_decimal256(arg: Datum, n: int) -> pa.Array:
    """`arg` as decimal256 of the same scale, for Arrow's products and sums; its quotients are wrong."""
    return spread(arg, n).cast(pa.decimal256(arg.type.precision, arg.type.scale))


def finish_decimal(array: pa.Array, out: pa.DataType, mode: Rounding = Rounding.HALF_AWAY) -> Outcome:
    """decimal128 or decimal256 values as type `out`, an error where they do not fit."""
    digits, negative = bigint.from_decimal(array)
    return finish_bigint(digits, negative, array.type.scale, out, validity(array), mode)


def finish_bigint(
    size: Limbs,
    negative: np.ndarray,
    scale: int,
    out: pa.DataType,
    valid: pa.Array | None,
    mode: Rounding = Rounding.HALF_AWAY,
) -> Outcome:
    """Absolute values at `scale` and their signs as type `out`, an error where they do not fit."""
    size = drop_digits(size, negative, scale - out.scale, mode)
    array, large = bigint.to_decimal(bigint.multiply_by_power(size, max(out.scale - scale, 0)), negative, out)
    return with_errors(with_validity(array, valid), failing(large, NUMERIC_OVERFLOW))


def drop_digits(size: Limbs, negative: np.ndarray, digits: int, mode: Rounding) -> Limbs:
    """Absolute values without their last `digits` digits; the signs direct floor and ceil."""
    if digits <= 0:
        return size
    unit, n = 10**digits, len(negative)
    match mode:
        case Rounding.HALF_AWAY:
            size = bigint.add(size, bigint.constant(unit // 2, n))
        case Rounding.FLOOR | Rounding.CEIL:
            away = negative if mode is Rounding.FLOOR else ~negative
            size = bigint.add(
                size, [np.where(away, limb, np.uint64(0)) for limb in bigint.constant(unit - 1, n)]
            )
        case _:
            pass
    return bigint.divide_by_power(size, digits)


def rescale(a: Datum, out: pa.DataType, mode: Rounding = Rounding.HALF_AWAY) -> Outcome:
    """Decimals as another decimal type."""
    if a.type.scale == out.scale and a.type.precision <= out.precision:
        return Outcome(reinterpret(a, out))
    x = to_narrow(a)
    if x is not None:
        return finish_int64(x.values, x.scale, out, validity(a), mode)
    return finish_decimal(a, out, mode)


def to_common_scale(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Decimals at the scale of a common type, rounded half away from zero.

    Other values are unchanged: only numerics reach a function over any type with different Arrow types. This cannot overflow: an
    argument that may have more whole digits than the common type is cast to it before (`build.call`), which fails where it does.
    """
    if values.type == target or not pa.types.is_decimal(target):
        return values
    return rescale(values, target).values


def cast_exact(array: pa.Array, out: pa.DataType) -> Outcome:
    """Decimals of any width, or integers, as type `out`; an error where a digit would be lost.

    Arrow's own cast multiplies modulo 2**128 and then checks whether the product has grown: 717445719622.6570 as
    decimal128(38, 29) yields 285274908.868….
    """
    if pa.types.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))  # Arrow requires 20 digits for a uint64, whatever its values
    elif array.type.bit_width < 128:
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    values, errors = finish_decimal(array, out, Rounding.FLOOR)
    if array.type.scale > out.scale:
        upper = finish_decimal(array, out, Rounding.CEIL)
        cut_off = pc.fill_null(pc.not_equal(values, upper.values), False)
        errors = first_error(errors, upper.errors, failing(cut_off, "too many digits after the point"))
    if errors is not None and array.null_count:
        errors = pc.if_else(array.is_valid(), errors, pa.scalar(None, errors.type))
    return with_errors(values, errors if errors is not None and errors.null_count < len(errors) else None)


def round_digits(a: Datum, digits: int, out: pa.DataType, mode: Rounding) -> Outcome:
    """Decimals with `digits` digits after the point (before it, if negative), as type `out`."""
    if digits >= a.type.scale:
        return rescale(a, out)
    x = to_narrow(a)
    if x is not None:
        digits = min(max(digits, -38), x.scale)
        return finish_int64(divide_by_power(x.values, x.scale - digits, mode), digits, out, validity(a))
    # Beyond 39 digits every result is zero (or, for floor and ceil, overflows all the same).
    digits = max(digits, a.type.scale - 39)
    size, negative = bigint.from_decimal(a)
    return finish_bigint(
        drop_digits(size, negative, a.type.scale - digits, mode), negative, digits, out, validity(a)
    )


def add(a: Datum, b: Datum, out: pa.DataType, *, minus: bool = False) -> Outcome:
    """The sum or difference, at the greater scale of the two, which is that of `out`."""
    kernel = pc.subtract if minus else pc.add
    whole = max(x.type.precision - x.type.scale for x in (a, b))
    if whole + out.scale < 38:
        return Outcome(reinterpret(kernel(a, b), out))
    n = length(a, b)
    if a.type.scale == b.type.scale:
        # Two 38-digit numbers sum to less than 2**128 - 10**38, so a sum that wraps around exceeds the limit too.
        short = pa.decimal128(37, out.scale)
        array = reinterpret(kernel(reinterpret(spread(a, n), short), reinterpret(spread(b, n), short)), out)
        return with_errors(array, failing(exceeds_precision(array, out.precision), NUMERIC_OVERFLOW))
    # Up to 76 digits each; their sum is less than 2**255, whatever the declared type.
    common = pa.decimal256(MAX_DIGITS_256 - 1, out.scale)
    return finish_decimal(
        kernel(
            *(
                reinterpret(multiply_by_power(to_decimal256(x, n), out.scale - x.type.scale), common)
                for x in (a, b)
            )
        ),
        out,
    )


def multiply_by_power(array: pa.Array, digits: int) -> pa.Array:
    """Unscaled decimal256 values times 10 ** digits."""
    if digits == 0:
        return array
    factor = pa.scalar(Decimal(10**digits), pa.decimal256(38 if digits < 38 else 39, 0))
    return pc.multiply(reinterpret(array, pa.decimal256(36, 0)), factor)


def exceeds_precision(array: pa.Array, precision: int) -> np.ndarray:
    """Where a decimal128 has more than `precision` digits, whatever its declared type."""
    _, high = int64_words(array)
    limit = 10**precision >> 64
    if magnitude(high) < limit:
        return np.zeros(len(array), bool)
    greatest = pa.scalar(Decimal(10**precision - 1), pa.decimal128(38, 0))
    least = pa.scalar(Decimal(1 - 10**precision), pa.decimal128(38, 0))
    plain = reinterpret(array, pa.decimal128(38, 0))
    outside = pc.or_(pc.greater(plain, greatest), pc.less(plain, least))
    result: np.ndarray = pc.fill_null(outside, False).to_numpy(zero_copy_only=False)
    return result


def zeros(a: pa.Array) -> np.ndarray:
    """Where a decimal is zero; undefined where it is null."""
    low, high = int64_words(a)
    result: np.ndarray = (low | high) == 0
    return result


def fail_underflow(outcome: Outcome, *factors: Datum) -> Outcome:
    """`outcome` with an error where it was rounded to zero although none of the factors is zero."""
    lost = zeros(outcome.values)
    if not lost.any():
        return outcome
    for factor in factors:
        lost = lost & ~zeros(spread(factor, len(lost)))
    return with_errors(outcome.values, first_error(outcome.errors, failing(lost, NUMERIC_UNDERFLOW)))


def multiply(a: Datum, b: Datum, out: pa.DataType) -> Outcome:
    """The product, rounded half away from zero where `out` has fewer digits after the point."""
    x, y = to_narrow(a), to_narrow(b)
    if x is not None and y is not None and magnitude(x.values) * magnitude(y.values) < INT64_LIMIT:
        return finish_int64(x.values * y.values, x.scale + y.scale, out, validity(a, b))
    n = length(a, b)
    a, b = spread(a, n), spread(b, n)
    scale = a.type.scale + b.type.scale
    if a.type.precision + b.type.precision <= 38 and scale == out.scale:
        short = pa.decimal128(18, 0)
        return Outcome(reinterpret(pc.multiply(reinterpret(a, short), reinterpret(b, short)), out))
    short = pa.decimal256(37, 0)
    array = pc.multiply(reinterpret(to_decimal256(a, n), short), reinterpret(to_decimal256(b, n), short))
    return finish_decimal(reinterpret(array, pa.decimal256(MAX_DIGITS_256, scale)), out)
