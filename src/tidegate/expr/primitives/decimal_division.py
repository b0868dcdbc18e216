"""Division of decimals: quotients rounded or cut, and remainders.

The narrow way is long division as on paper, only with as many digits a step as 64 bits allow; the wide way is the
same by limbs of 32 bits (`limbs.py`), and knows the remainder, by which it rounds.

    7.00 / 3 with 18 digits: 700 / 3 = 233, rest 1; then 10**16 * 1 / 3 = 3333333333333333, rest 1; round down
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import limbs
from tidegate.expr.functions.decimals import (
    POWERS,
    WORD,
    made,
    magnitude,
    masked,
    narrow,
    relabel,
    settle,
    settle_limbs,
    words,
)
from tidegate.expr.outcome import Datum, Outcome, failing, first_error, length, spread, validity, with_errors

_BY_ZERO = "division by zero"


def _zeros(b: Datum, n: int) -> np.ndarray:
    """Where a decimal is zero."""
    low, high = words(spread(b, n))
    result: np.ndarray = (low | high) == 0
    return result


def quotient(a: Datum, b: Datum, out: pa.DataType) -> Outcome:
    """A / b, rounded half away from zero at the scale of `out`, which is at least a's scale minus b's."""
    n = length(a, b)
    zero = _zeros(b, n)
    errors = failing(zero, _BY_ZERO)
    x, y = narrow(a), narrow(b)
    if x is not None and y is not None:
        digits = out.scale - x.scale + y.scale
        divisor = np.where(zero, 1, y.values) if errors is not None else y.values
        if 0 <= digits <= 18 and magnitude(divisor) < 2**59 and magnitude(x.values) < WORD:
            whole, fraction = _long_division(x.values, divisor, digits)
            values = _joined(np.broadcast_to(whole, n), np.broadcast_to(fraction, n), digits, out)
            return with_errors(masked(values, validity(a, b)), errors)
    over, under = _long(a, n), _long(b, n, zero)
    ratio, rest = limbs.divided(
        limbs.times_power(over.size, out.scale - a.type.scale + b.type.scale), under.size
    )
    # Rounded up if twice the rest is not less than the divisor.
    up = limbs.not_less(limbs.plus(rest, rest), under.size).astype(np.uint64)
    got = settle_limbs(
        limbs.plus(ratio, [up]), over.negative != under.negative, out.scale, out, validity(a, b)
    )
    return with_errors(got.values, first_error(errors, got.errors))


class _Long(NamedTuple):
    """Unscaled decimals as absolute values and signs."""

    size: limbs.Limbs
    negative: np.ndarray


def _long(arg: Datum, n: int, zero: np.ndarray | None = None) -> _Long:
    """A column of `n` decimals, with 1 in place of zeros."""
    size, negative = limbs.opened(spread(arg, n))
    return _Long(size if zero is None else [size[0] + zero, *size[1:]], negative)


def _long_division(x: np.ndarray, y: np.ndarray, digits: int) -> tuple[np.ndarray, np.ndarray]:
    """X / y as whole part and `digits` decimal digits, the last one rounded half away from zero.

    As on paper, but as many digits a step as fit 64 bits: rest * 10**step < 2**63.
    """
    sign = np.where((x < 0) != (y < 0), -1, 1)
    size, unit = np.abs(x).astype(np.uint64), np.abs(y).astype(np.uint64)
    step = len(str(2**63 // max(magnitude(y), 1))) - 1
    whole, rest = np.divmod(size, unit)
    fraction = np.zeros_like(rest)
    done = 0
    while done < digits:
        step = min(step, digits - done)
        more, rest = np.divmod(rest * np.uint64(10**step), unit)
        fraction = fraction * np.uint64(10**step) + more
        done += step
    fraction += rest * np.uint64(2) >= unit
    return whole.astype(np.int64) * sign, fraction.astype(np.int64) * sign


def _joined(whole: np.ndarray, fraction: np.ndarray, digits: int, out: pa.DataType) -> pa.Array:
    """Whole * 10**digits + fraction."""
    if (magnitude(whole) + 1) * 10**digits < WORD:
        return made(whole * POWERS[digits] + fraction, out)
    factor = pa.scalar(Decimal(10**digits), pa.decimal128(19, 0))
    high = pc.multiply(made(whole, pa.decimal128(18, 0)), factor)
    short = pa.decimal128(37, 0)
    return relabel(pc.add(relabel(high, short), made(fraction, short)), out)


def whole_quotient(a: Datum, b: Datum, out: pa.DataType) -> Outcome:
    """A / b without its fraction, as type `out`."""
    n = length(a, b)
    zero = _zeros(b, n)
    errors = failing(zero, _BY_ZERO)
    pair = _aligned(a, b)
    if pair is not None:
        x, y, _ = pair
        y = np.where(zero, 1, y)
        quotient_ = np.abs(x).astype(np.uint64) // np.abs(y).astype(np.uint64)
        if magnitude(quotient_) < WORD:
            signed = quotient_.astype(np.int64) * np.where((x < 0) != (y < 0), -1, 1)
            values, overflow = settle(np.broadcast_to(signed, n), 0, out, validity(a, b))
            return with_errors(values, first_error(errors, overflow))
    over, under = _aligned_long(a, b, zero)
    ratio, _ = limbs.divided(over.size, under.size)
    got = settle_limbs(ratio, over.negative != under.negative, 0, out, validity(a, b))
    return with_errors(got.values, first_error(errors, got.errors))


def _aligned_long(a: Datum, b: Datum, zero: np.ndarray) -> tuple[_Long, _Long]:
    """Both at one scale, with 1 in place of divisors that are zero."""
    n, scale = length(a, b), max(a.type.scale, b.type.scale)
    over, under = _long(a, n), _long(b, n, zero)
    return (
        over._replace(size=limbs.times_power(over.size, scale - a.type.scale)),
        under._replace(size=limbs.times_power(under.size, scale - b.type.scale)),
    )


def remainder(a: Datum, b: Datum, out: pa.DataType) -> Outcome:
    """What the division of a by b leaves, with the sign of a."""
    n = length(a, b)
    zero = _zeros(b, n)
    errors = failing(zero, _BY_ZERO)
    pair = _aligned(a, b)
    if pair is not None:
        x, y, scale = pair
        left = np.broadcast_to(np.fmod(x, np.where(zero | (y == -1), 1, y)), n)
        return with_errors(settle(left, scale, out, validity(a, b)).values, errors)
    over, under = _aligned_long(a, b, zero)
    _, rest = limbs.divided(over.size, under.size)
    scale = max(a.type.scale, b.type.scale)
    got = settle_limbs(rest, over.negative, scale, out, validity(a, b))
    return with_errors(got.values, first_error(errors, got.errors))


def _aligned(a: Datum, b: Datum) -> tuple[np.ndarray, np.ndarray, int] | None:
    """Both as int64 of one scale, or None if they do not fit."""
    x, y = narrow(a), narrow(b)
    if x is None or y is None:
        return None
    scale = max(x.scale, y.scale)
    up = [scale - z.scale for z in (x, y)]
    if any(k > 18 or magnitude(z.values) * 10**k >= WORD for k, z in zip(up, (x, y), strict=True)):
        return None
    return x.values * POWERS[up[0]], y.values * POWERS[up[1]], scale
