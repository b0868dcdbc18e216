"""Converts floats to decimals and back, each rounded once.

PostgreSQL turns a float8 into the numeric of its 15 leading digits (float4: 6), so that 0.1::float8::numeric is 0.1 and not
0.1000000000000000055. With e the decimal exponent of x, those digits are the integer nearest to x * 10**(14 - e), and that
product must be exact enough to decide on which side of a half it lies. It is computed as an unevaluated sum of two floats
(Dekker's product), which has some 100 bits.

    0.3 * 3 = 0.8999999999999999  →  e = -1, 0.8999999999999999 * 10**15 = 899999999999999.9…  →  0.9

In the other direction the fast path is Clinger's: both 10**scale and the unscaled value are exact floats, so that one division is
correctly rounded. Longer values are divided as sums of two floats; the few that lie next to the middle between two floats are
converted through their text, which Arrow parses correctly.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa

from tidegate.expr.model.outcome import (
    Outcome,
    failing,
    first_error,
    from_numpy,
    to_numpy,
    validity,
    with_errors,
)
from tidegate.expr.primitives.bigint import Limbs, decimal_from_words, from_decimal
from tidegate.expr.primitives.decimal import (
    NUMERIC_OVERFLOW,
    finish_int64,
    magnitude,
    to_narrow,
    with_validity,
)

_LOWEST, _HIGHEST = -60, 60
"""Exponents of the powers of ten in the tables: numerics lie between 10**-38 and 10**38."""
_EXACT = [Fraction(10) ** k for k in range(_LOWEST, _HIGHEST + 1)]
_HEAD = np.array([float(x) for x in _EXACT])
_TAIL = np.array([float(x - Fraction(head)) for x, head in zip(_EXACT, _HEAD.tolist(), strict=True)])
_SPLIT = 2.0**27 + 1


def decimal_to_float(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Decimals as the nearest float."""
    bits = 53 if type_ == pa.float64() else 24
    kind = type_.to_pandas_dtype()
    x = to_narrow(array)
    if x is not None and x.scale == 0:
        return from_numpy(x.values.astype(kind), type_, array)
    if x is not None and x.scale <= (22 if bits == 53 else 10) and magnitude(x.values) <= 2**bits:
        return from_numpy(x.values.astype(kind) / kind(10**x.scale), type_, array)
    values, doubtful = _nearest(array)
    if bits == 24:
        # Rounded twice: wrong only if the first rounding hit the middle of two reals, or one of the tiniest reals.
        middle = values.view(np.int64) & (2**29 - 1) == 2**28
        doubtful = doubtful | middle | (np.abs(values) < 1e-37)
    values = values.astype(kind)
    rows = np.flatnonzero(doubtful)
    if len(rows):
        parsed = array.take(pa.array(rows)).cast(pa.string()).cast(type_)
        values[rows] = parsed.fill_null(0).to_numpy()
    return from_numpy(values, type_, array)


def _nearest(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Decimals as floats, and where these may not be the nearest: next to the middle between two.

    Dividend and quotient are sums of two floats, exact to 100 bits: the second float of the quotient divides the remainder of the
    first.
    """
    limbs, negative = from_decimal(array)
    high, low = _two_floats(limbs)
    head, tail = _HEAD[array.type.scale - _LOWEST], _TAIL[array.type.scale - _LOWEST]
    first = high / head
    product, missing = _exact_product(first, head)
    second = (((high - product) - missing) + low - first * tail) / head
    result = first + second
    rest = np.abs(second - (result - first))
    step = np.spacing(result)
    doubtful = np.abs(rest - step / 2) <= step * 2.0**-30
    # Just below a power of two, floats are twice as dense.
    power = (result.view(np.int64) & (2**52 - 1) == 0) & (np.abs(rest - step / 4) <= step * 2.0**-30)
    return np.where(negative, -result, result), doubtful | power


def _two_floats(limbs: Limbs) -> tuple[np.ndarray, np.ndarray]:
    """Integers as sums of two floats, the second less than half a unit in the last place of the first."""
    high, low = np.zeros(len(limbs[0])), np.zeros(len(limbs[0]))
    for i in reversed(range(len(limbs))):
        term = limbs[i].astype(np.float64) * 2.0 ** (32 * i)
        total = high + term
        # `high` is zero or not less than the term, so the rounding error of the sum is known exactly.
        high, low = total, low + (term - (total - high))
    total = high + low
    return total, low - (total - high)


def _exact_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rounded product and its rounding error (Dekker's product)."""
    product = a * b
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def float_to_decimal(array: pa.Array, out: pa.DataType) -> Outcome:
    """Floats as decimals of their 15 (float4: 6) leading digits; NaN and infinities are errors."""
    count = 15 if array.type == pa.float64() else 6
    x = to_numpy(array).astype(np.float64, copy=False)
    millionths = _as_millionths(x, count)
    if millionths is not None:
        return finish_int64(millionths, 6, out, validity(array))
    parts = [_by_digits(array[i : i + _CHUNK_ROWS], count, out) for i in range(0, len(array), _CHUNK_ROWS)]
    failed = [pa.nulls(len(values), pa.string()) if errors is None else errors for values, errors in parts]
    values = pa.chunked_array([part.values for part in parts], out).combine_chunks()
    errors = pa.chunked_array(failed, pa.string()).combine_chunks()
    return Outcome(values, None if errors.null_count == len(errors) else errors)


def _as_millionths(x: np.ndarray, count: int) -> np.ndarray | None:
    """The values as integer millionths, or None if some have more digits; samples a thousand first.

    A decimal of at most 15 digits is the only one of that length that reads as its float.
    """
    if len(x) > 1000 and _as_millionths(x[:1000], count) is None:
        return None
    millionths = np.rint(x * 1e6)
    exact = (np.abs(millionths) < 10.0**count).all() and (millionths / 1e6 == x).all()
    return millionths.astype(np.int64) if exact else None


_CHUNK_ROWS = 16_384
"""Rows per chunk, so that the arrays of some thirty steps stay in the CPU cache."""


def _by_digits(array: pa.Array, count: int, out: pa.DataType) -> Outcome:
    """Floats as decimals, each scaled by its own exponent."""
    x = to_numpy(array).astype(np.float64, copy=False)
    not_finite = ~np.isfinite(x)
    size = np.where(not_finite, 0, np.abs(x)) if not_finite.any() else np.abs(x)
    exponent = _exponents(size)
    whole = out.precision - out.scale
    # Values that overflow or vanish are computed as zero, so that every shift below stays within a few words.
    small = (exponent < whole) & (exponent >= -out.scale - 1)
    if not small.all():
        size = np.where(small, size, 0)
        exponent = np.where(small, exponent, 0)
    digits = _round_scaled(size, count - 1 - exponent)
    values, large = _shift_digits(digits, exponent + (out.scale - count + 1), 19 - count, x < 0, out)
    large |= (np.abs(x) >= _HEAD[whole - _LOWEST]) & ~not_finite
    errors = first_error(failing(not_finite, _UNREPRESENTABLE), failing(large, NUMERIC_OVERFLOW))
    return with_errors(with_validity(values, validity(array)), errors)


_UNREPRESENTABLE = "cannot convert NaN or infinity to numeric"


def _exponents(size: np.ndarray) -> np.ndarray:
    """The decimal exponent of each value: 0 for 1 .. 9.99 and for 0, -1 for 0.1; clipped to the tables."""
    binary = (size.view(np.int64) >> 52) - 1023
    # 78913 / 2**18 is slightly less than log10(2): the guess is the exponent, or one less.
    guess = np.clip(binary * 78913 >> 18, _LOWEST, _HIGHEST - 2)
    guess += size >= _HEAD[guess + (1 - _LOWEST)]
    return np.where(size == 0, 0, guess)


def _round_scaled(size: np.ndarray, power: np.ndarray) -> np.ndarray:
    """The integer nearest to size * 10**power, halves to even; the product must be below 2**50."""
    high = size * _HEAD[power - _LOWEST]
    whole = np.rint(high)
    # Powers of ten up to 10**22 are exact floats, so that `high` is exact to half a unit in its last place, 2**-4: values
    # farther than that from a half are rounded correctly. The others need a more exact product.
    near = np.flatnonzero((np.abs(high - whole) > 0.43) | (power > 22) | (power < 0))
    if len(near):
        whole[near] = _round_scaled_exactly(size[near], power[near])
    result: np.ndarray = whole.astype(np.uint64)
    return result


def _round_scaled_exactly(x: np.ndarray, power: np.ndarray) -> np.ndarray:
    """As `_round_scaled`, with a product of some 100 bits."""
    head, tail = _HEAD[power - _LOWEST], _TAIL[power - _LOWEST]
    high, low = _exact_product(x, head)
    low += x * tail
    whole = np.rint(high)
    rest = (high - whole) + low
    # `whole` was rounded without the low part, to even where `high` alone is a half.
    nudge = (rest > 0.5).astype(np.float64) - (rest < -0.5)
    half = np.abs(rest) == 0.5
    if half.any():
        nudge += np.where(half & (np.fmod(whole, 2) != 0), np.sign(rest), 0)
    result: np.ndarray = whole + nudge
    return result


def _upper_half(x: np.ndarray) -> np.ndarray:
    """The upper 26 bits of each float; products of such halves are exact."""
    scaled = x * _SPLIT
    result: np.ndarray = scaled - (scaled - x)
    return result


def _shift_digits(
    digits: np.ndarray, shift: np.ndarray, first: int, negative: np.ndarray, out: pa.DataType
) -> tuple[pa.Array, np.ndarray]:
    """Signed digits * 10**shift as unscaled values of type `out`, and where they overflow.

    `digits * 10**first` fits 64 bits, and `digits * 10**shift` fits 128 bits.
    """
    down = np.flatnonzero(shift < 0)
    if len(down):
        unit = _UNITS[np.minimum(-shift[down], 18)]
        digits[down] = (digits[down] + unit // np.uint64(2)) // unit
    up = np.maximum(shift, 0)
    first_shift = np.minimum(up, first)
    low, high = digits * _UNITS[first_shift], np.zeros_like(digits)
    up = np.minimum(up - first_shift, 19)  # larger shifts occur only for zeros
    if up.any():
        low, high = _product(low, _UNITS[up])
    return decimal_from_words(low, high, negative, out)


_UNITS = np.array([10**k for k in range(20)], np.uint64)
_WORD = np.uint64(32)


def _product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lower and the upper 64 bits of the products of 64-bit integers."""
    (a_low, a_high), (b_low, b_high) = ((x & np.uint64(0xFFFF_FFFF), x >> _WORD) for x in (a, b))
    middle = a_high * b_low + (a_low * b_low >> _WORD)
    other = a_low * b_high + (middle & np.uint64(0xFFFF_FFFF))
    return a * b, a_high * b_high + (middle >> _WORD) + (other >> _WORD)
