"""Division of decimals: rounded and truncated quotients, and remainders.

Values of 64 bits are divided by long division, with as many digits per step as 64 bits allow. Longer values are divided as
`bigint` columns, whose remainder decides the rounding.

    7.00 / 3 with 18 digits: 700 / 3 = 233, rest 1; then 10**16 * 1 / 3 = 3333333333333333, rest 1; round down
"""

from __future__ import annotations

from decimal import Decimal
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
from tidegate.expr.primitives.decimal import (
    INT64_LIMIT,
    POWERS_OF_TEN,
    finish_bigint,
    finish_int64,
    from_int64,
    magnitude,
    reinterpret,
    to_narrow,
    with_validity,
    zeros,
)

_BY_ZERO = "division by zero"


def quotient(a: Datum, b: Datum, out: pa.DataType) -> Outcome:
    """The quotient, rounded half away from zero at the scale of `out`, at least a's scale minus b's."""
    n = length(a, b)
    zero = zeros(spread(b, n))
    errors = failing(zero, _BY_ZERO)
    x, y = to_narrow(a), to_narrow(b)
    if x is not None and y is not None:
        digits = out.scale - x.scale + y.scale
        divisor = np.where(zero, 1, y.values) if errors is not None else y.values
        most = magnitude(x.values)
        # Up to 18 digits the result has at most 37; beyond, it must be known to fit.
        room = digits <= 18 or most * 10**digits < 10**out.precision
        if 0 <= digits <= 36 and room and magnitude(divisor) < 2**59 and most < INT64_LIMIT:
            dividend, divisor = np.broadcast_arrays(x.values, divisor)
            values = _divide_narrow(dividend, divisor, digits, out)
            return with_errors(with_validity(values, validity(a, b)), errors)
    over, under = _to_limbs(a, n), _to_limbs(b, n, zero)
    ratio, rest = bigint.divide(
        bigint.multiply_by_power(over.size, out.scale - a.type.scale + b.type.scale), under.size
    )
    # Round up if twice the remainder is not less than the divisor.
    up = bigint.not_less(bigint.add(rest, rest), under.size).astype(np.uint64)
    outcome = finish_bigint(
        bigint.add(ratio, [up]), over.negative != under.negative, out.scale, out, validity(a, b)
    )
    return with_errors(outcome.values, first_error(errors, outcome.errors))


class _SignedLimbs(NamedTuple):
    """Unscaled decimals as absolute values and signs."""

    size: bigint.Limbs
    negative: np.ndarray


def _to_limbs(arg: Datum, n: int, zero: np.ndarray | None = None) -> _SignedLimbs:
    """A column of `n` decimals, with 1 in place of zeros where `zero` marks them."""
    size, negative = bigint.from_decimal(spread(arg, n))
    return _SignedLimbs(size if zero is None else [size[0] + zero, *size[1:]], negative)


def _divide_narrow(x: np.ndarray, y: np.ndarray, digits: int, out: pa.DataType) -> pa.Array:
    """X / y with `digits` decimal digits, the last one rounded half away from zero."""
    sign = np.where((x < 0) != (y < 0), -1, 1)
    size, unit = np.abs(x).astype(np.uint64), np.abs(y).astype(np.uint64)
    whole, rest = np.divmod(size, unit)
    first, rest = _long_division(rest, unit, min(digits, 18))
    more, rest = _long_division(rest, unit, max(digits - 18, 0))
    up = rest * np.uint64(2) >= unit
    if digits <= 18:
        return _joined(whole.astype(np.int64) * sign, (first + up).astype(np.int64) * sign, digits, out)
    high = _joined(whole.astype(np.int64) * sign, first.astype(np.int64) * sign, 18, pa.decimal128(18, 0))
    factor = pa.scalar(Decimal(10 ** (digits - 18)), pa.decimal128(19, 0))
    short = pa.decimal128(37, 0)
    low = from_int64((more + up).astype(np.int64) * sign, short)
    return reinterpret(pc.add(reinterpret(pc.multiply(high, factor), short), low), out)


def _long_division(rest: np.ndarray, unit: np.ndarray, digits: int) -> tuple[np.ndarray, np.ndarray]:
    """The next `digits` decimal digits of a quotient, at most 18, and the remainder.

    Each step yields as many digits as fit 64 bits: rest * 10**step < 2**63.
    """
    step = len(str(2**63 // max(magnitude(unit), 1))) - 1
    fraction = np.zeros_like(rest)
    digits_done = 0
    while digits_done < digits:
        step = min(step, digits - digits_done)
        more, rest = np.divmod(rest * np.uint64(10**step), unit)
        fraction = fraction * np.uint64(10**step) + more
        digits_done += step
    return fraction, rest


def _joined(whole: np.ndarray, fraction: np.ndarray, digits: int, out: pa.DataType) -> pa.Array:
    """Whole * 10**digits + fraction."""
    if (magnitude(whole) + 1) * 10**digits < INT64_LIMIT:
        return from_int64(whole * POWERS_OF_TEN[digits] + fraction, out)
    factor = pa.scalar(Decimal(10**digits), pa.decimal128(19, 0))
    high = pc.multiply(from_int64(whole, pa.decimal128(18, 0)), factor)
    short = pa.decimal128(37, 0)
    return reinterpret(pc.add(reinterpret(high, short), from_int64(fraction, short)), out)


def whole_quotient(a: Datum, b: Datum, out: pa.DataType) -> Outcome:
    """The quotient truncated to an integer, as type `out`."""
    n = length(a, b)
    zero = zeros(spread(b, n))
    errors = failing(zero, _BY_ZERO)
    pair = _aligned(a, b)
    if pair is not None:
        x, y, _ = pair
        y = np.where(zero, 1, y)
        ratio = np.abs(x).astype(np.uint64) // np.abs(y).astype(np.uint64)
        if magnitude(ratio) < INT64_LIMIT:
            signed = ratio.astype(np.int64) * np.where((x < 0) != (y < 0), -1, 1)
            values, overflow = finish_int64(np.broadcast_to(signed, n), 0, out, validity(a, b))
            return with_errors(values, first_error(errors, overflow))
    over, under = _aligned_limbs(a, b, zero)
    ratio, _ = bigint.divide(over.size, under.size)
    outcome = finish_bigint(ratio, over.negative != under.negative, 0, out, validity(a, b))
    return with_errors(outcome.values, first_error(errors, outcome.errors))


def _aligned_limbs(a: Datum, b: Datum, zero: np.ndarray) -> tuple[_SignedLimbs, _SignedLimbs]:
    """Both operands at one scale, with 1 in place of zero divisors."""
    n, scale = length(a, b), max(a.type.scale, b.type.scale)
    over, under = _to_limbs(a, n), _to_limbs(b, n, zero)
    return (
        over._replace(size=bigint.multiply_by_power(over.size, scale - a.type.scale)),
        under._replace(size=bigint.multiply_by_power(under.size, scale - b.type.scale)),
    )


def remainder(a: Datum, b: Datum, out: pa.DataType) -> Outcome:
    """The remainder of a divided by b, with the sign of a."""
    n = length(a, b)
    zero = zeros(spread(b, n))
    errors = failing(zero, _BY_ZERO)
    pair = _aligned(a, b)
    if pair is not None:
        x, y, scale = pair
        left = np.broadcast_to(np.fmod(x, np.where(zero | (y == -1), 1, y)), n)
        return with_errors(finish_int64(left, scale, out, validity(a, b)).values, errors)
    over, under = _aligned_limbs(a, b, zero)
    _, rest = bigint.divide(over.size, under.size)
    scale = max(a.type.scale, b.type.scale)
    outcome = finish_bigint(rest, over.negative, scale, out, validity(a, b))
    return with_errors(outcome.values, first_error(errors, outcome.errors))


def _aligned(a: Datum, b: Datum) -> tuple[np.ndarray, np.ndarray, int] | None:
    """Both operands as int64 at one scale, or None if they do not fit."""
    x, y = to_narrow(a), to_narrow(b)
    if x is None or y is None:
        return None
    scale = max(x.scale, y.scale)
    up = [scale - z.scale for z in (x, y)]
    if any(k > 18 or magnitude(z.values) * 10**k >= INT64_LIMIT for k, z in zip(up, (x, y), strict=True)):
        return None
    return x.values * POWERS_OF_TEN[up[0]], y.values * POWERS_OF_TEN[up[1]], scale
