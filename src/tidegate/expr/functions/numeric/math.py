"""Roots and logarithms of numerics to 15 digits, by double precision; powers exactly where they fit.

A numeric has more digits than a double, which matters in two places. Near 1 the double nearest to x says little
about x - 1, so logarithms there are computed from the exact difference: ln(0.99999) = log1p(-0.00001). And whole powers of
short numbers are computed in integers, rounded once:

    100.01 ^ 4 = 10001 ** 4 / 10 ** 8 = 100040006.00040001       2.5 ^ -2 = 10 ** 2 / 25 ** 2 = 0.16
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.functions.number import math as maths
from tidegate.expr.model.function import AT_ENDS, UP, Claims, scalar
from tidegate.expr.model.outcome import (
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
from tidegate.expr.model.types import NUMERIC, Type
from tidegate.expr.primitives import bigint as limbs
from tidegate.expr.primitives.decimal import add, finish_bigint, to_narrow
from tidegate.expr.primitives.float_digits import decimal_to_float, float_to_decimal

_MOST_BITS = 512
"""The size of a power above which it is computed in double precision: 154 digits, while 38 are kept."""
_MOST_DIGITS = 154
_HUGE = 1e300
"""Stands for infinity: beyond every numeric, and so an overflow."""
_LN_10 = float(np.log(10.0))


def _floats(arg: Datum, n: int, fill: float = 1.0) -> np.ndarray:
    return np.broadcast_to(to_numpy(decimal_to_float(spread(arg, n), pa.float64()), fill), n)


def _to_numeric(values: np.ndarray, valid: pa.Array | None, out: Type) -> Outcome:
    """Floats as numerics of their 15 leading digits, null where not `valid`."""
    finite = pa.array(np.where(np.isfinite(values), values, _HUGE))
    return float_to_decimal(
        finite if valid is None else pc.if_else(valid, finite, pa.scalar(None, finite.type)), out.arrow
    )


def _natural(a: pa.Array) -> np.ndarray:
    """ln of positive numerics; undefined for others."""
    x = np.abs(_floats(a, len(a)))
    near = np.abs(x - 1) < 0.5
    result = np.log(np.where(near | (x == 0), 1, x))
    if not near.any():
        return result
    one = pa.scalar(Decimal(1), pa.decimal128(1, 0))
    less_one = add(pc.abs(a), one, pa.decimal128(38, a.type.scale), minus=True).values
    return np.where(near, np.log1p(np.where(near, _floats(less_one, len(a), 0.0), 0)), result)


def _logarithm(name: str, unit: float, doc: str, aliases: Sequence[str] = ()) -> None:
    def numeric_form(a: pa.Array, out: Type) -> Outcome:
        values, overflow = _to_numeric(_natural(a) / unit, validity(a), out)
        return with_errors(values, first_error(_not_positive(a), overflow))

    scalar(name, (NUMERIC,), NUMERIC, aliases=aliases, stable=True, exact=False, doc=doc)(numeric_form)


def _not_positive(a: pa.Array) -> Any:
    x = _floats(a, len(a))
    zero = failing(x == 0, "cannot take logarithm of zero")
    return first_error(zero, failing(x < 0, "cannot take logarithm of a negative number"))


_logarithm("ln", 1.0, "The natural logarithm, to 15 digits; an error unless the number is positive.")
_logarithm(
    "log",
    _LN_10,
    "The logarithm to base 10, to 15 digits; an error unless the number is positive.",
    ("log10",),
)


@scalar("log", (NUMERIC, NUMERIC), NUMERIC, stable=True, exact=False)
def log_to_base(base: Datum, a: Datum, out: Type) -> Outcome:
    """The logarithm of the second number to the base of the first, to 15 digits."""
    n = length(base, a)
    both = [spread(arg, n) for arg in (base, a)]
    below, above = (_natural(side) for side in both)
    failed = first_error(*map(_not_positive, both), failing(below == 0, "division by zero"))
    values, overflow = _to_numeric(above / np.where(below == 0, 1, below), validity(base, a), out)
    return with_errors(values, first_error(failed, overflow))


def _by_float(name: str, kernel: Callable[[pa.Array], Outcome], **claims: Unpack[Claims]) -> None:
    def numeric_form(a: pa.Array, out: Type) -> Outcome:
        values, errors = kernel(decimal_to_float(a, pa.float64()))
        decimals, overflow = float_to_decimal(values, out.arrow)
        return with_errors(decimals, first_error(errors, overflow))

    doc = f"{(kernel.__doc__ or '').rstrip('.')}; to 15 digits."
    all_claims: Claims = {"stable": True, "exact": False, "doc": doc, **claims}
    scalar(name, (NUMERIC,), NUMERIC, **all_claims)(numeric_form)


_by_float("sqrt", maths.sqrt, errors=AT_ENDS, trend=(UP,))
_by_float("exp", maths.exp)


# ---------------------------------------------------------------- powers


class _Exponents(NamedTuple):
    """The properties of exponents that decide how a power is computed."""

    negative: np.ndarray
    whole: np.ndarray
    odd: np.ndarray
    small: np.ndarray
    """The exponent itself where it is `short`."""
    short: np.ndarray
    """Whole, and below 2**31 in size."""


def _exponents(b: Datum, n: int) -> _Exponents:
    size, negative = limbs.from_decimal(spread(b, n))
    cut = limbs.divide_by_power(size, b.type.scale)
    back = limbs.multiply_by_power(cut, b.type.scale)
    whole = limbs.not_less(back, size)
    low, high, _ = limbs.two_words(cut)
    short = whole & (high == 0) & (low < 2**31)
    small = np.where(short, low, 0).astype(np.int64)
    return _Exponents(negative, whole, whole & (cut[0] % 2 == 1), np.where(negative, -small, small), short)


@scalar("power", (NUMERIC, NUMERIC), NUMERIC, aliases=("pow", "^"), stable=True, exact=False)
def power(a: Datum, b: Datum, out: Type) -> Outcome:
    """The first number to the power of the second: exact for whole exponents if it fits, else 15 digits."""
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
    result = _to_numeric(np.where(exponent.odd & (x < 0), -rough, rough), valid, out)
    result = _use_exact_powers(base, exponent, result, valid, out)
    return with_errors(result.values, first_error(complex_, undefined, result.errors))


def _use_exact_powers(
    base: pa.Array, exponent: _Exponents, rough: Outcome, valid: pa.Array | None, out: Type
) -> Outcome:
    """`rough`, replaced by exact results where integer arithmetic gives them: one pass per exponent."""
    size, scale = _without_trailing_zeros(base)
    bits = limbs.bit_length(size)
    times = np.abs(exponent.small)
    fits = (
        exponent.short
        & (bits != 0)
        & (bits * times <= _MOST_BITS)
        & (scale * times + out.arrow.scale <= _MOST_DIGITS)
    )
    _, negative = limbs.from_decimal(base)
    values, errors = rough
    for count in np.unique(exponent.small[fits]).tolist():
        rows = np.flatnonzero(fits & (exponent.small == count))
        row_size = [limb[rows] for limb in size]
        sign = negative[rows] & bool(count % 2)
        exact = _whole_power(row_size, sign, scale, count, out)
        here = pa.array(np.isin(np.arange(len(base)), rows))
        values = pc.replace_with_mask(values, here, exact.values)
        if errors is not None or exact.errors is not None:
            errors = pa.nulls(len(base), pa.string()) if errors is None else errors
            more = pa.nulls(len(rows), pa.string()) if exact.errors is None else exact.errors
            errors = pc.replace_with_mask(errors, here, more)
    masked = values if valid is None else pc.if_else(valid, values, pa.scalar(None, values.type))
    return with_errors(masked, errors)


def _without_trailing_zeros(base: pa.Array) -> tuple[limbs.Limbs, int]:
    """Absolute unscaled values without the trailing zeros that all share, and the remaining scale."""
    x = to_narrow(base)
    if x is None:
        return limbs.from_decimal(base)[0], base.type.scale
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
            result = limbs.multiply(result, square)
        left //= 2
        square = limbs.multiply(square, square) if left else square
    if count >= 0:
        return finish_bigint(result, negative, scale * count, out.arrow, None)
    unit = limbs.constant(10 ** (out.arrow.scale - scale * count), len(negative))
    ratio, rest = limbs.divide(unit, result)
    up = limbs.not_less(limbs.add(rest, rest), result).astype(np.uint64)
    return finish_bigint(limbs.add(ratio, [up]), negative, out.arrow.scale, out.arrow, None)
