"""Floats to decimal digits and back, each rounded once.

PostgreSQL turns a float8 into the numeric of its 15 leading digits (float4: 6), so that 0.1::float8::numeric
is 0.1 and not 0.1000000000000000055. With e the decimal exponent of x, those digits are the whole number
nearest to x * 10**(14 - e), and that product must be exact enough to tell on which side of a half it lies. It
is computed as an unevaluated sum of two floats (Dekker's product), which gives some 100 bits.

    0.3 * 3 = 0.8999999999999999  →  e = -1, 0.8999999999999999 * 10**15 = 899999999999999.9…  →  0.9

The other way round the fast path is Clinger's: both 10**scale and the unscaled value are exact floats, so
that one division is the correctly rounded result. Longer values go through their text, which Arrow reads
correctly.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.functions.decimals import (
    OVERFLOW,
    POWERS,
    beyond,
    made,
    magnitude,
    masked,
    narrow,
    relabel,
    settle,
)
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
    x = narrow(array)
    if x is not None and x.scale <= (22 if bits == 53 else 10) and magnitude(x.values) <= 2**bits:
        kind = type_.to_pandas_dtype()
        return from_numpy(x.values.astype(kind) / kind(10**x.scale), type_, array)
    return array.cast(pa.string()).cast(type_)


def float_to_decimal(array: pa.Array, out: pa.DataType) -> Outcome:
    """Floats as decimals of their 15 (float4: 6) leading digits; NaN and infinities are errors."""
    count = 15 if array.type == pa.float64() else 6
    x = to_numpy(array).astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        few = np.rint(x * 1e6)
        if (np.abs(few) < 10.0**count).all() and (few / 1e6 == x).all():
            # Six digits after the point spell every value: with 15 digits or less no other decimal does.
            return settle(few.astype(np.int64), 6, out, validity(array))
    parts = [_by_digits(array[i : i + _AT_ONCE], count, out) for i in range(0, len(array), _AT_ONCE)]
    failed = [pa.nulls(len(values), pa.string()) if errors is None else errors for values, errors in parts]
    values = pa.chunked_array([part.values for part in parts], out).combine_chunks()
    errors = pa.chunked_array(failed, pa.string()).combine_chunks()
    return Outcome(values, None if errors.null_count == len(errors) else errors)


_AT_ONCE = 16_384
"""Rows in one go: some thirty steps over arrays that stay in the cache, not over ones that leave it."""


def _by_digits(array: pa.Array, count: int, out: pa.DataType) -> Outcome:
    """Floats as decimals, each by its own exponent."""
    x = to_numpy(array).astype(np.float64, copy=False)
    odd = ~np.isfinite(x)
    x = np.where(odd, 0, x)
    exponent = _exponents(x)
    large = exponent >= out.precision - out.scale
    # What is too large or vanishes is computed as zero: every shift below stays within a few words.
    x = np.where(large | (exponent < -out.scale - 1), 0, x)
    digits = _scaled(x, np.where(x == 0, 0, count - 1 - exponent))
    shift = np.where(x == 0, 0, out.scale - (count - 1) + exponent)
    errors = first_error(failing(odd, _UNREPRESENTABLE), failing(large, OVERFLOW))
    values, overflow = _shifted(digits, shift, out, validity(array))
    return with_errors(values, first_error(errors, overflow))


_UNREPRESENTABLE = "cannot convert NaN or infinity to numeric"


def _exponents(x: np.ndarray) -> np.ndarray:
    """The decimal exponent of each value: 0 for 1 .. 9.99, -1 for 0.1."""
    size = np.abs(x)
    with np.errstate(divide="ignore"):
        guess = np.clip(np.floor(np.log10(np.where(size == 0, 1, size))), _LOWEST + 1, _HIGHEST - 2).astype(
            np.int64
        )
    # log10 may be off by one next to a power of ten.
    guess -= size < _HEAD[guess - _LOWEST]
    guess += size >= _HEAD[guess + 1 - _LOWEST]
    return guess


def _scaled(x: np.ndarray, power: np.ndarray) -> np.ndarray:
    """The whole number nearest to x * 10**power, of two the even one; the product must be below 2**53."""
    head, tail = _HEAD[power - _LOWEST], _TAIL[power - _LOWEST]
    high = x * head
    x_high, head_high = _upper_half(x), _upper_half(head)
    x_low, head_low = x - x_high, head - head_high
    low = ((x_high * head_high - high) + x_high * head_low + x_low * head_high) + x_low * head_low + x * tail
    whole = np.rint(high)
    rest = (high - whole) + low
    # `whole` was rounded without the low part, to even where high alone looked like a half.
    nudge = (rest > 0.5).astype(np.float64) - (rest < -0.5)
    half = np.abs(rest) == 0.5
    nudge += np.where(half & (np.fmod(whole, 2) != 0), np.sign(rest), 0)
    result: np.ndarray = (whole + nudge).astype(np.int64)
    return result


def _upper_half(x: np.ndarray) -> np.ndarray:
    """The upper 26 bits of each float: products of such halves are exact."""
    scaled = x * _SPLIT
    result: np.ndarray = scaled - (scaled - x)
    return result


def _shifted(digits: np.ndarray, shift: np.ndarray, out: pa.DataType, valid: pa.Array | None) -> Outcome:
    """Digits * 10**shift as unscaled values of type `out`, rounded half away from zero."""
    down = np.clip(-shift, 0, 18)
    if down.any():
        unit = POWERS[down]
        floor = digits // unit
        rest = digits - floor * unit
        digits = floor + ((rest + (digits >= 0) > unit // 2) & (down > 0))
    up = np.clip(shift, 0, None)
    most = int(up.max(initial=0))
    if magnitude(digits) * 10**most < 2**63:
        return settle(digits * POWERS[up], out.scale, out, valid)
    short = pa.decimal128(18, 0)
    array = made(digits, short)
    while most > 0:
        step = np.minimum(up, 18)
        array = pc.multiply(relabel(array, short), made(POWERS[step], short))
        up, most = up - step, most - 18
    array = masked(relabel(array, out), valid)
    return with_errors(array, failing(beyond(array, out.precision), OVERFLOW))
