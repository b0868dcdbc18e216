"""Floats to decimal digits and back, each rounded once.

PostgreSQL turns a float8 into the numeric of its 15 leading digits (float4: 6), so that 0.1::float8::numeric
is 0.1 and not 0.1000000000000000055. With e the decimal exponent of x, those digits are the whole number
nearest to x * 10**(14 - e), and that product must be exact enough to tell on which side of a half it lies. It
is computed as an unevaluated sum of two floats (Dekker's product), which gives some 100 bits.

    0.3 * 3 = 0.8999999999999999  →  e = -1, 0.8999999999999999 * 10**15 = 899999999999999.9…  →  0.9

The other way round the fast path is Clinger's: both 10**scale and the unscaled value are exact floats, so
that one division is the correctly rounded result. Longer values are divided as sums of two floats; the few that
come to lie next to the middle between two floats go through their text, which Arrow reads correctly.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa

from tidegate.expr.functions.decimals import OVERFLOW, magnitude, masked, narrow, settle
from tidegate.expr.limbs import Limbs, opened, packed
from tidegate.expr.outcome import Outcome, failing, first_error, from_numpy, to_numpy, validity, with_errors

_LOWEST, _HIGHEST = -60, 60
"""Powers of ten that matter: numerics lie between 10**-38 and 10**38."""
_EXACT = [Fraction(10) ** k for k in range(_LOWEST, _HIGHEST + 1)]
_HEAD = np.array([float(x) for x in _EXACT])
_TAIL = np.array([float(x - Fraction(head)) for x, head in zip(_EXACT, _HEAD.tolist(), strict=True)])
_SPLIT = 2.0**27 + 1


def decimal_to_float(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Decimals as the nearest float."""
    bits = 53 if type_ == pa.float64() else 24
    kind = type_.to_pandas_dtype()
    x = narrow(array)
    if x is not None and x.scale == 0:
        return from_numpy(x.values.astype(kind), type_, array)
    if x is not None and x.scale <= (22 if bits == 53 else 10) and magnitude(x.values) <= 2**bits:
        return from_numpy(x.values.astype(kind) / kind(10**x.scale), type_, array)
    values, unsure = _nearest(array)
    if bits == 24:
        # Rounded twice: wrong only if the first time gave just the middle of two reals, or one of the tiniest reals.
        middle = values.view(np.int64) & (2**29 - 1) == 2**28
        unsure = unsure | middle | (np.abs(values) < 1e-37)
    values = values.astype(kind)
    rows = np.flatnonzero(unsure)
    if len(rows):
        spelled = array.take(pa.array(rows)).cast(pa.string()).cast(type_)
        values[rows] = spelled.fill_null(0).to_numpy()
    return from_numpy(values, type_, array)


def _nearest(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Decimals as floats, and where those may not be the nearest, next to the middle between two.

    Dividend and quotient are sums of two floats, right to 100 bits: of the quotient the second is that of what the
    first one leaves.
    """
    limbs, negative = opened(array)
    high, low = _two_floats(limbs)
    head, tail = _HEAD[array.type.scale - _LOWEST], _TAIL[array.type.scale - _LOWEST]
    first = high / head
    product, missing = _exact_product(first, head)
    second = (((high - product) - missing) + low - first * tail) / head
    result = first + second
    rest = np.abs(second - (result - first))
    step = np.spacing(result)
    unsure = np.abs(rest - step / 2) <= step * 2.0**-30
    # Below a power of two floats are twice as dense.
    power = (result.view(np.int64) & (2**52 - 1) == 0) & (np.abs(rest - step / 4) <= step * 2.0**-30)
    return np.where(negative, -result, result), unsure | power


def _two_floats(limbs: Limbs) -> tuple[np.ndarray, np.ndarray]:
    """Integers as sums of two floats, the second less than half a unit in the last place of the first."""
    high, low = np.zeros(len(limbs[0])), np.zeros(len(limbs[0]))
    for i in reversed(range(len(limbs))):
        term = limbs[i].astype(np.float64) * 2.0 ** (32 * i)
        total = high + term
        # `high` is zero or not less than the term, so what the sum lost is known exactly.
        high, low = total, low + (term - (total - high))
    total = high + low
    return total, low - (total - high)


def _exact_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The product rounded, and what it lacks (Dekker's)."""
    product = a * b
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def float_to_decimal(array: pa.Array, out: pa.DataType) -> Outcome:
    """Floats as decimals of their 15 (float4: 6) leading digits; NaN and infinities are errors."""
    count = 15 if array.type == pa.float64() else 6
    x = to_numpy(array).astype(np.float64, copy=False)
    few = _with_few_digits(x, count)
    if few is not None:
        return settle(few, 6, out, validity(array))
    parts = [_by_digits(array[i : i + _AT_ONCE], count, out) for i in range(0, len(array), _AT_ONCE)]
    failed = [pa.nulls(len(values), pa.string()) if errors is None else errors for values, errors in parts]
    values = pa.chunked_array([part.values for part in parts], out).combine_chunks()
    errors = pa.chunked_array(failed, pa.string()).combine_chunks()
    return Outcome(values, None if errors.null_count == len(errors) else errors)


def _with_few_digits(x: np.ndarray, count: int) -> np.ndarray | None:
    """Millionths, if they spell every value; None if not, which the first thousand values mostly tell.

    With 15 digits or less no other decimal spells the same float.
    """
    if len(x) > 1000 and _with_few_digits(x[:1000], count) is None:
        return None
    millionths = np.rint(x * 1e6)
    spelled = (np.abs(millionths) < 10.0**count).all() and (millionths / 1e6 == x).all()
    return millionths.astype(np.int64) if spelled else None


_AT_ONCE = 16_384
"""Rows in one go: some thirty steps over arrays that stay in the cache, not over ones that leave it."""


def _by_digits(array: pa.Array, count: int, out: pa.DataType) -> Outcome:
    """Floats as decimals, each by its own exponent."""
    x = to_numpy(array).astype(np.float64, copy=False)
    odd = ~np.isfinite(x)
    size = np.where(odd, 0, np.abs(x)) if odd.any() else np.abs(x)
    exponent = _exponents(size)
    whole = out.precision - out.scale
    # What is too large or vanishes is computed as zero: every shift below stays within a few words.
    small = (exponent < whole) & (exponent >= -out.scale - 1)
    if not small.all():
        size = np.where(small, size, 0)
        exponent = np.where(small, exponent, 0)
    digits = _scaled(size, count - 1 - exponent)
    values, large = _shifted(digits, exponent + (out.scale - count + 1), 19 - count, x < 0, out)
    large |= (np.abs(x) >= _HEAD[whole - _LOWEST]) & ~odd
    errors = first_error(failing(odd, _UNREPRESENTABLE), failing(large, OVERFLOW))
    return with_errors(masked(values, validity(array)), errors)


_UNREPRESENTABLE = "cannot convert NaN or infinity to numeric"


def _exponents(size: np.ndarray) -> np.ndarray:
    """The decimal exponent of each value: 0 for 1 .. 9.99 (and for 0), -1 for 0.1; at the ends any as great."""
    binary = (size.view(np.int64) >> 52) - 1023
    # 78913 / 2**18 is log10(2), a little less: the guess is the exponent, or one less than that.
    guess = np.clip(binary * 78913 >> 18, _LOWEST, _HIGHEST - 2)
    guess += size >= _HEAD[guess + (1 - _LOWEST)]
    return np.where(size == 0, 0, guess)


def _scaled(size: np.ndarray, power: np.ndarray) -> np.ndarray:
    """The whole number nearest to size * 10**power, of two the even one; the product must be below 2**50."""
    high = size * _HEAD[power - _LOWEST]
    whole = np.rint(high)
    # Up to 10**22 powers of ten are floats, so that high is right to half a unit in its last place, 2**-4: what is
    # farther than that from a half is rounded rightly. Of the others the product must be known better.
    near = np.flatnonzero((np.abs(high - whole) > 0.43) | (power > 22) | (power < 0))
    if len(near):
        whole[near] = _scaled_closely(size[near], power[near])
    result: np.ndarray = whole.astype(np.uint64)
    return result


def _scaled_closely(x: np.ndarray, power: np.ndarray) -> np.ndarray:
    """The same, with a product of some 100 bits."""
    head, tail = _HEAD[power - _LOWEST], _TAIL[power - _LOWEST]
    high, low = _exact_product(x, head)
    low += x * tail
    whole = np.rint(high)
    rest = (high - whole) + low
    # `whole` was rounded without the low part, to even where high alone looked like a half.
    nudge = (rest > 0.5).astype(np.float64) - (rest < -0.5)
    half = np.abs(rest) == 0.5
    if half.any():
        nudge += np.where(half & (np.fmod(whole, 2) != 0), np.sign(rest), 0)
    result: np.ndarray = whole + nudge
    return result


def _upper_half(x: np.ndarray) -> np.ndarray:
    """The upper 26 bits of each float: products of such halves are exact."""
    scaled = x * _SPLIT
    result: np.ndarray = scaled - (scaled - x)
    return result


def _shifted(
    digits: np.ndarray, shift: np.ndarray, first: int, negative: np.ndarray, out: pa.DataType
) -> tuple[pa.Array, np.ndarray]:
    """Digits * 10**shift with these signs as unscaled values of type `out`, and where they do not fit.

    Ten to the `first` times the digits fits 64 bits, and the digits times ten to the shift 128 bits.
    """
    down = np.flatnonzero(shift < 0)
    if len(down):
        unit = _UNITS[np.minimum(-shift[down], 18)]
        digits[down] = (digits[down] + unit // np.uint64(2)) // unit
    up = np.maximum(shift, 0)
    begun = np.minimum(up, first)
    low, high = digits * _UNITS[begun], np.zeros_like(digits)
    up = np.minimum(up - begun, 19)  # more only for zeros
    if up.any():
        low, high = _product(low, _UNITS[up])
    return packed(low, high, negative, out)


_UNITS = np.array([10**k for k in range(20)], np.uint64)
_WORD = np.uint64(32)


def _product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lower and the upper 64 bits of products of 64 bits."""
    (a_low, a_high), (b_low, b_high) = ((x & np.uint64(0xFFFF_FFFF), x >> _WORD) for x in (a, b))
    middle = a_high * b_low + (a_low * b_low >> _WORD)
    other = a_low * b_high + (middle & np.uint64(0xFFFF_FFFF))
    return a * b, a_high * b_high + (middle >> _WORD) + (other >> _WORD)
