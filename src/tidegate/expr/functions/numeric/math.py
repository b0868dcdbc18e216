"""Roots, logarithms and powers of numerics: to 15 digits by way of double precision, and powers exactly where they fit.

A numeric has more digits than a double, which matters in two places. Next to 1 the double nearest to x says little
about x - 1, so there logarithms are taken of the exact difference: ln(0.99999) = log1p(-0.00001). And whole powers of
short numbers are computed in integers, rounded once:

    100.01 ^ 4 = 10001 ** 4 / 10 ** 8 = 100040006.00040001       2.5 ^ -2 = 10 ** 2 / 25 ** 2 = 0.16
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import limbs
from tidegate.expr.function import AT_ENDS, UP, scalar
from tidegate.expr.functions import maths
from tidegate.expr.functions.decimals import narrow, settle_limbs, total
from tidegate.expr.functions.float_digits import decimal_to_float, float_to_decimal
from tidegate.expr.outcome import (
    Datum,
    Outcome,
    failing,
    first_error,
    length,
    spread,
    to_numpy,
    validity,
    with_errors,
)
from tidegate.expr.types import NUMERIC, Type

_MOST_BITS = 512
"""How long a power may become before it is left to double precision: 154 digits, of which 38 are kept."""
_MOST_DIGITS = 154
_HUGE = 1e300
"""In place of infinity: beyond every numeric, and so an overflow."""
_LN_10 = float(np.log(10.0))


def _floats(arg: Datum, n: int, fill: float = 1.0) -> np.ndarray:
    return np.broadcast_to(to_numpy(decimal_to_float(spread(arg, n), pa.float64()), fill), n)


def _settled(values: np.ndarray, valid: pa.Array | None, out: Type) -> Outcome:
    """Floats as numerics of their 15 leading digits, null where not `valid`."""
    finite = pa.array(np.where(np.isfinite(values), values, _HUGE))
    return float_to_decimal(
        finite if valid is None else pc.if_else(valid, finite, pa.scalar(None, finite.type)), out.arrow
    )


def _natural(a: pa.Array) -> np.ndarray:
    """ln of positive numerics, of others anything."""
    x = np.abs(_floats(a, len(a)))
    near = np.abs(x - 1) < 0.5
    result = np.log(np.where(near | (x == 0), 1, x))
    if not near.any():
        return result
    one = pa.scalar(Decimal(1), pa.decimal128(1, 0))
    less_one = total(pc.abs(a), one, pa.decimal128(38, a.type.scale), minus=True).values
    return np.where(near, np.log1p(np.where(near, _floats(less_one, len(a), 0.0), 0)), result)


def _logarithm(name: str, unit: float, doc: str) -> None:
    def numeric_form(a: pa.Array, out: Type) -> Outcome:
        values, overflow = _settled(_natural(a) / unit, validity(a), out)
        return with_errors(values, first_error(_not_positive(a), overflow))

    scalar(name, (NUMERIC,), NUMERIC, stable=True, exact=False, doc=doc)(numeric_form)


def _not_positive(a: pa.Array) -> Any:
    x = _floats(a, len(a))
    zero = failing(x == 0, "cannot take logarithm of zero")
    return first_error(zero, failing(x < 0, "cannot take logarithm of a negative number"))


_logarithm("ln", 1.0, "The natural logarithm, to 15 digits; an error unless the number is positive.")
for _name in ("log", "log10"):
    _logarithm(
        _name, _LN_10, "The logarithm to base 10, to 15 digits; an error unless the number is positive."
    )


@scalar("log", (NUMERIC, NUMERIC), NUMERIC, stable=True, exact=False)
def log_to_base(base: Datum, a: Datum, out: Type) -> Outcome:
    """The logarithm of the second number to the base of the first, to 15 digits."""
    n = length(base, a)
    both = [spread(arg, n) for arg in (base, a)]
    below, above = (_natural(side) for side in both)
    failed = first_error(*map(_not_positive, both), failing(below == 0, "division by zero"))
    values, overflow = _settled(above / np.where(below == 0, 1, below), validity(base, a), out)
    return with_errors(values, first_error(failed, overflow))


def _by_float(name: str, kernel: Callable[[pa.Array], Outcome], **claims: Any) -> None:
    def numeric_form(a: pa.Array, out: Type) -> Outcome:
        values, errors = kernel(decimal_to_float(a, pa.float64()))
        decimals, overflow = float_to_decimal(values, out.arrow)
        return with_errors(decimals, first_error(errors, overflow))

    doc = f"{(kernel.__doc__ or '').rstrip('.')}; to 15 digits."
    scalar(name, (NUMERIC,), NUMERIC, stable=True, exact=False, doc=doc, **claims)(numeric_form)


_by_float("sqrt", maths.sqrt, errors=AT_ENDS, trend=(UP,))
_by_float("exp", maths.exp)


# ---------------------------------------------------------------- powers


class _Exponents(NamedTuple):
    """What decides the sign and the way of a power."""

    negative: np.ndarray
    whole: np.ndarray
    odd: np.ndarray
    small: np.ndarray
    """The exponent itself where it is `short`."""
    short: np.ndarray
    """Whole, and below 2**31 in size."""


def _exponents(b: Datum, n: int) -> _Exponents:
    size, negative = limbs.opened(spread(b, n))
    cut = limbs.over_power(size, b.type.scale)
    back = limbs.times_power(cut, b.type.scale)
    whole = limbs.not_less(back, size)
    low, high, _ = limbs.two_words(cut)
    short = whole & (high == 0) & (low < 2**31)
    small = np.where(short, low, 0).astype(np.int64)
    return _Exponents(negative, whole, whole & (cut[0] % 2 == 1), np.where(negative, -small, small), short)


def power(a: Datum, b: Datum, out: Type) -> Outcome:
    """The first number to the power of the second: exact if that is whole and the result fits, else to 15 digits."""
    n = length(a, b)
    base, valid = spread(a, n), validity(a, b)
    exponent = _exponents(b, n)
    x, y = _floats(base, n), _floats(b, n)
    complex_ = failing(
        (x < 0) & ~exponent.whole, "a negative number raised to a non-integer power yields a complex result"
    )
    undefined = failing((x == 0) & exponent.negative, "zero raised to a negative power is undefined")
    size = np.abs(x)
    near = np.exp(np.clip(y * _natural(base), -1000, 709))
    rough = np.where(np.abs(size - 1) < 0.5, near, np.power(size, np.where(size == 0, np.abs(y), y)))
    got = _settled(np.where(exponent.odd & (x < 0), -rough, rough), valid, out)
    got = _with_exact(base, exponent, got, valid, out)
    return with_errors(got.values, first_error(complex_, undefined, got.errors))


for _name in ("power", "pow", "^"):
    scalar(_name, (NUMERIC, NUMERIC), NUMERIC, stable=True, exact=False)(power)


def _with_exact(
    base: pa.Array, exponent: _Exponents, got: Outcome, valid: pa.Array | None, out: Type
) -> Outcome:
    """`got`, but exact where integers can tell: once for each exponent, of which there are few that small."""
    size, scale = _shortest(base)
    bits = limbs.bit_length(size)
    times = np.abs(exponent.small)
    fits = (
        exponent.short
        & (bits != 0)
        & (bits * times <= _MOST_BITS)
        & (scale * times + out.arrow.scale <= _MOST_DIGITS)
    )
    _, negative = limbs.opened(base)
    values, errors = got
    for count in np.unique(exponent.small[fits]).tolist():
        rows = np.flatnonzero(fits & (exponent.small == count))
        some = [limb[rows] for limb in size]
        sign = negative[rows] & bool(count % 2)
        exact = _whole_power(some, sign, scale, count, out)
        here = pa.array(np.isin(np.arange(len(base)), rows))
        values = pc.replace_with_mask(values, here, exact.values)
        if errors is not None or exact.errors is not None:
            errors = pa.nulls(len(base), pa.string()) if errors is None else errors
            more = pa.nulls(len(rows), pa.string()) if exact.errors is None else exact.errors
            errors = pc.replace_with_mask(errors, here, more)
    masked = values if valid is None else pc.if_else(valid, values, pa.scalar(None, values.type))
    return with_errors(masked, errors)


def _shortest(base: pa.Array) -> tuple[limbs.Limbs, int]:
    """Absolute unscaled values without the zeros that all have at their end, and the scale that leaves."""
    x = narrow(base)
    if x is None:
        return limbs.opened(base)[0], base.type.scale
    values, scale = x.values, x.scale
    while scale and not (values % 10).any():
        values, scale = values // 10, scale - 1
    size = np.abs(values).view(np.uint64)
    return [size & np.uint64(0xFFFF_FFFF), size >> np.uint64(32)], scale


def _whole_power(size: limbs.Limbs, negative: np.ndarray, scale: int, count: int, out: Type) -> Outcome:
    """(size / 10**scale) ** count, rounded half away from zero."""
    result, square, left = limbs.constant(1, len(negative)), size, abs(count)
    while left:
        if left % 2:
            result = limbs.times(result, square)
        left //= 2
        square = limbs.times(square, square) if left else square
    if count >= 0:
        return settle_limbs(result, negative, scale * count, out.arrow, None)
    unit = limbs.constant(10 ** (out.arrow.scale - scale * count), len(negative))
    ratio, rest = limbs.divided(unit, result)
    up = limbs.not_less(limbs.plus(rest, rest), result).astype(np.uint64)
    return settle_limbs(limbs.plus(ratio, [up]), negative, out.arrow.scale, out.arrow, None)
