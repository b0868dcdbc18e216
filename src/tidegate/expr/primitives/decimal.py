"""Arithmetic on decimal128 arrays that neither raises nor loses digits unseen.

Arrow's own decimal kernels refuse on types, not on values: numeric(38,18) + numeric(38,18) has 39 digits on
paper and is an error before any row is looked at. Here a result that does not fit is the error of its row.
There are two ways through:

| way | when | how |
|---|---|---|
| narrow | unscaled values fit 64 bits, perhaps without the zeros at their ends | numpy, a few ns a row |
| wide | anything else | sums and products by Arrow, quotients and rounding by `limbs.py`: some hundred ns a row |

`numeric(38,18)` keeps 12.5 as 12500000000000000000, too long for 64 bits; without zeros at the
end it is 12500 thousandths, and narrow:

>>> import pyarrow as pa
>>> from decimal import Decimal
>>> narrow(pa.array([Decimal("12.5"), Decimal("0.25")], pa.decimal128(38, 18)))
Narrow(values=array([12500,   250]), scale=3)

Arrow decides by the *declared* precision whether a kernel may run, and does not check values against it. So
`relabel` declares a lower precision over the same bytes where the values are known to fit.
"""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.limbs import Limbs, closed, constant, opened, over_power, plus, times_power
from tidegate.expr.outcome import (
    Datum,
    Outcome,
    failing,
    first_error,
    length,
    spread,
    validity,
    with_errors,
)

OVERFLOW = "numeric field overflow"
POWERS = 10 ** np.arange(19, dtype=np.int64)
WORD = 2**63
WIDEST = 76


class Mode(Enum):
    """How digits that do not fit are dropped."""

    HALF_AWAY = "to the nearest, halves away from zero"
    FLOOR = "down"
    CEIL = "up"
    TRUNC = "towards zero"


class Narrow(NamedTuple):
    """Decimals as int64: `values * 10 ** -scale`, zero where null; 0-d for a scalar."""

    values: np.ndarray
    scale: int


def relabel(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """The same bytes under another decimal type of the same width."""
    return pa.Array.from_buffers(type_, len(array), array.buffers(), array.null_count, array.offset)


def words(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The low and the high 64 bits of every decimal128, both signed."""
    if len(array) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    whole = np.frombuffer(array.buffers()[1], np.int64, count=2 * (array.offset + len(array)))
    pairs = whole[2 * array.offset :].reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def made(values: np.ndarray, type_: pa.DataType, valid: pa.Array | None = None) -> pa.Array:
    """Unscaled int64 values as decimal128, null where `valid` is false."""
    pairs = np.empty((len(values), 2), np.int64)
    pairs[:, 0] = values
    np.right_shift(values, 63, out=pairs[:, 1])
    array = pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(pairs)])
    return masked(array, valid)


def masked(array: pa.Array, valid: pa.Array | None) -> pa.Array:
    """`array` with nulls where `valid` is false."""
    if valid is None:
        return array
    if array.null_count == array.offset == valid.offset == valid.null_count == 0:
        # The bits of `valid` are just what Arrow keeps of nulls.
        return pa.Array.from_buffers(array.type, len(array), [valid.buffers()[1], *array.buffers()[1:]])
    return pc.if_else(valid, array, pa.scalar(None, array.type))


def magnitude(values: np.ndarray) -> int:
    """The greatest absolute value, as a Python integer, so that products of magnitudes do not wrap."""
    return max(int(values.max(initial=0)), -int(values.min(initial=0)))


def unscaled(value: Decimal | None, scale: int) -> int:
    """The integer behind a decimal of that scale."""
    if value is None:
        return 0
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number: int = int("".join(map(str, digits))) * 10 ** (scale + exponent)
    return -number if sign else number


def narrow(arg: Datum) -> Narrow | None:
    """`arg` as int64, or None if some value does not fit."""
    if isinstance(arg, pa.Scalar):
        number, scale = unscaled(arg.as_py(), arg.type.scale), arg.type.scale
        while scale and number % 10 == 0:
            number, scale = number // 10, scale - 1
        return Narrow(np.asarray(number, np.int64), scale) if abs(number) < WORD else None
    low, high = words(arg)
    if arg.null_count:
        valid = arg.is_valid().to_numpy(zero_copy_only=False)
        low, high = np.where(valid, low, 0), np.where(valid, high, 0)
    if arg.type.precision <= 18 or ((low >> 63) == high).all():
        return Narrow(np.ascontiguousarray(low), arg.type.scale)
    return _without_zeros(low, high, arg.type.scale)


def _without_zeros(low: np.ndarray, high: np.ndarray, scale: int) -> Narrow | None:
    """128-bit values divided by 10**9 (and 10**6 again), if no digit but zeros is lost."""
    if scale < 9:
        return None
    guess = (high * 2.0**64 + low.view(np.uint64)) / 1e9
    if not np.abs(guess).max(initial=0) < 2.0**62:
        return None
    values = guess.astype(np.int64)
    # The guess is off by at most 2**11, so what is left is less than 2**42 and the wrapping product tells it
    # exactly.
    rest = low - values * POWERS[9]
    step = rest // POWERS[9]
    if (rest != step * POWERS[9]).any():
        return None
    values, scale = values + step, scale - 9
    if scale >= 6 and not (values % POWERS[6]).any():
        return Narrow(values // POWERS[6], scale - 6)
    return Narrow(values, scale)


def divided(values: np.ndarray, digits: int, mode: Mode) -> np.ndarray:
    """int64 values without their last `digits` digits."""
    if digits <= 0:
        return values
    if digits > 18:
        # No int64 has more than 19 digits. Truncating first does not change which way a half goes, nor do two
        # floors.
        first = Mode.TRUNC if mode is Mode.HALF_AWAY else mode
        return divided(divided(values, min(digits - 18, 18), first), 18, mode)
    unit = POWERS[digits]
    result: np.ndarray = values // unit
    if mode is Mode.FLOOR:
        return result
    rest = values - result * unit
    match mode:
        case Mode.CEIL:
            result += rest > 0
        case Mode.TRUNC:
            result += (rest > 0) & (values < 0)
        case _:
            result += rest + (values >= 0) > unit // 2
    return result


def settle(
    values: np.ndarray, scale: int, out: pa.DataType, valid: pa.Array | None, mode: Mode = Mode.HALF_AWAY
) -> Outcome:
    """int64 values at `scale` as decimals of type `out`, an error where they do not fit."""
    shift = out.scale - scale
    values = divided(values, -shift, mode)
    shift = max(shift, 0)
    room = out.precision - shift
    limit = 10 ** max(room, 0)
    errors = failing((values >= limit) | (values <= -limit), OVERFLOW) if room <= 18 else None
    if shift <= 18 and magnitude(values) * 10**shift < WORD:
        return with_errors(made(values * POWERS[shift], out, valid), errors)
    array = made(values, pa.decimal128(18, 0))
    while shift > 0:
        step = min(shift, 18)
        factor = pa.scalar(Decimal(10**step), pa.decimal128(19, 0))
        array = pc.multiply(relabel(array, pa.decimal128(18, 0)), factor)
        shift -= step
    return with_errors(masked(relabel(array, out), valid), errors)


def wide(arg: Datum, n: int) -> pa.Array:
    """`arg` as decimal256 of the same scale, a way through Arrow's products and sums; its quotients are wrong."""
    return spread(arg, n).cast(pa.decimal256(arg.type.precision, arg.type.scale))


def settle_wide(array: pa.Array, out: pa.DataType, mode: Mode = Mode.HALF_AWAY) -> Outcome:
    """decimal128 or decimal256 values as decimals of type `out`, an error where they do not fit."""
    digits, negative = opened(array)
    return settle_limbs(digits, negative, array.type.scale, out, validity(array), mode)


def settle_limbs(
    size: Limbs,
    negative: np.ndarray,
    scale: int,
    out: pa.DataType,
    valid: pa.Array | None,
    mode: Mode = Mode.HALF_AWAY,
) -> Outcome:
    """Absolute values at `scale` and their signs as decimals of type `out`, an error where they do not fit."""
    size = cut(size, negative, scale - out.scale, mode)
    array, large = closed(times_power(size, max(out.scale - scale, 0)), negative, out)
    return with_errors(masked(array, valid), failing(large, OVERFLOW))


def cut(size: Limbs, negative: np.ndarray, digits: int, mode: Mode) -> Limbs:
    """Absolute values without their last `digits` digits; the signs tell which way floor and ceil go."""
    if digits <= 0:
        return size
    unit, n = 10**digits, len(negative)
    match mode:
        case Mode.HALF_AWAY:
            size = plus(size, constant(unit // 2, n))
        case Mode.FLOOR | Mode.CEIL:
            away = negative if mode is Mode.FLOOR else ~negative
            size = plus(size, [np.where(away, limb, np.uint64(0)) for limb in constant(unit - 1, n)])
        case _:
            pass
    return over_power(size, digits)


def rescaled(a: Datum, out: pa.DataType, mode: Mode = Mode.HALF_AWAY) -> Outcome:
    """Decimals as another decimal type."""
    if a.type.scale == out.scale and a.type.precision <= out.precision:
        return Outcome(relabel(a, out))
    x = narrow(a)
    if x is not None:
        return settle(x.values, x.scale, out, validity(a), mode)
    return settle_wide(a, out, mode)


def exact(array: pa.Array, out: pa.DataType) -> Outcome:
    """Decimals of any width, or integers, as type `out`; an error where a digit would be lost.

    Arrow's own cast multiplies modulo 2**128 and then looks whether the product has grown: 717445719622.6570 as
    decimal128(38, 29) comes back as 285274908.868….
    """
    if pa.types.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))  # what Arrow asks for a uint64, whatever its values are
    elif array.type.bit_width < 128:
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    values, errors = settle_wide(array, out, Mode.FLOOR)
    if array.type.scale > out.scale:
        upper = settle_wide(array, out, Mode.CEIL)
        cut_off = pc.fill_null(pc.not_equal(values, upper.values), False)
        errors = first_error(errors, upper.errors, failing(cut_off, "too many digits after the point"))
    if errors is not None and array.null_count:
        errors = pc.if_else(array.is_valid(), errors, pa.scalar(None, errors.type))
    return with_errors(values, errors if errors is not None and errors.null_count < len(errors) else None)


def rounded(a: Datum, digits: int, out: pa.DataType, mode: Mode) -> Outcome:
    """Decimals with `digits` digits after the point (before it, if negative), as type `out`."""
    if digits >= a.type.scale:
        return rescaled(a, out)
    x = narrow(a)
    if x is not None:
        digits = min(max(digits, -38), x.scale)
        return settle(divided(x.values, x.scale - digits, mode), digits, out, validity(a))
    # Beyond 39 digits all is zero (or, for floor and ceil, overflows just as well).
    digits = max(digits, a.type.scale - 39)
    size, negative = opened(a)
    return settle_limbs(cut(size, negative, a.type.scale - digits, mode), negative, digits, out, validity(a))


def total(a: Datum, b: Datum, out: pa.DataType, *, minus: bool = False) -> Outcome:
    """A + b or a - b, at the greater scale of the two, which is that of `out`."""
    kernel = pc.subtract if minus else pc.add
    whole = max(x.type.precision - x.type.scale for x in (a, b))
    if whole + out.scale < 38:
        return Outcome(relabel(kernel(a, b), out))
    n = length(a, b)
    if a.type.scale == b.type.scale:
        # Two 38-digit numbers make less than 2**128 - 10**38, so a sum that wraps around is beyond the limit
        # too.
        short = pa.decimal128(37, out.scale)
        array = relabel(kernel(relabel(spread(a, n), short), relabel(spread(b, n), short)), out)
        return with_errors(array, failing(beyond(array, out.precision), OVERFLOW))
    # Up to 76 digits each; their sum is less than 2**255, whatever the type says.
    common = pa.decimal256(WIDEST - 1, out.scale)
    return settle_wide(
        kernel(*(relabel(raised(wide(x, n), out.scale - x.type.scale), common) for x in (a, b))), out
    )


def raised(array: pa.Array, digits: int) -> pa.Array:
    """Unscaled decimal256 values times 10 ** digits."""
    if digits == 0:
        return array
    factor = pa.scalar(Decimal(10**digits), pa.decimal256(38 if digits < 38 else 39, 0))
    return pc.multiply(relabel(array, pa.decimal256(36, 0)), factor)


def beyond(array: pa.Array, precision: int) -> np.ndarray:
    """Where a decimal128 has more than `precision` digits, whatever its type says."""
    _, high = words(array)
    limit = 10**precision >> 64
    if magnitude(high) < limit:
        return np.zeros(len(array), bool)
    most = pa.scalar(Decimal(10**precision - 1), pa.decimal128(38, 0))
    least = pa.scalar(Decimal(1 - 10**precision), pa.decimal128(38, 0))
    plain = relabel(array, pa.decimal128(38, 0))
    found = pc.or_(pc.greater(plain, most), pc.less(plain, least))
    result: np.ndarray = pc.fill_null(found, False).to_numpy(zero_copy_only=False)
    return result


def product(a: Datum, b: Datum, out: pa.DataType) -> Outcome:
    """A * b, rounded half away from zero where `out` has fewer digits after the point."""
    x, y = narrow(a), narrow(b)
    if x is not None and y is not None and magnitude(x.values) * magnitude(y.values) < WORD:
        return settle(x.values * y.values, x.scale + y.scale, out, validity(a, b))
    n = length(a, b)
    a, b = spread(a, n), spread(b, n)
    scale = a.type.scale + b.type.scale
    if a.type.precision + b.type.precision <= 38 and scale == out.scale:
        short = pa.decimal128(18, 0)
        return Outcome(relabel(pc.multiply(relabel(a, short), relabel(b, short)), out))
    short = pa.decimal256(37, 0)
    array = pc.multiply(relabel(wide(a, n), short), relabel(wide(b, n), short))
    return settle_wide(relabel(array, pa.decimal256(WIDEST, scale)), out)
