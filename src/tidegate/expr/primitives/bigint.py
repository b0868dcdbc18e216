"""Integers of any length in columns, for multiplying, dividing and rounding decimals.

Arrow 26 multiplies long decimals correctly, but divides them incorrectly once the divisor exceeds 32 bits, and so rounds them
incorrectly too: it yields 9223372036854775806 for the floor of 9223372036854775807.999999999999999999. Here a column is a list of
limbs, its base-2**32 digits from the lowest up, each a numpy array of 64 bits per row (a product of two limbs and a carry
always fits). Signs are kept separately.

>>> from decimal import Decimal
>>> limbs, negative = from_decimal(pa.array([Decimal("-0.000000005")], pa.decimal128(38, 9)))
>>> [limb.tolist() for limb in limbs], negative.tolist()
([[5]], [True])
>>> [limb.tolist() for limb in divide_by_power(constant(10**20, 1), 19)]
[[10]]
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.expr.primitives.cancel import checked

Limbs: TypeAlias = list[np.ndarray]
"""Base-2**32 digits from the lowest up, at least one; arrays of one length, or of length 1 for a constant."""

_BITS = np.uint64(32)
_LOW = np.uint64(0xFFFF_FFFF)
_UNIT, _ZERO = np.uint64(1), np.uint64(0)
_CHUNK = 9
"""Digits of a power of ten that fits 30 bits, so that a remainder followed by the next limb fits 64."""


def constant(value: int, n: int) -> Limbs:
    """A non-negative number repeated `n` times."""
    parts = max(1, -(-value.bit_length() // 32))
    return [np.full(n, value >> 32 * i & 0xFFFF_FFFF, np.uint64) for i in range(parts)]


def from_decimal(array: pa.Array) -> tuple[Limbs, np.ndarray]:
    """The absolute unscaled values of decimals, and which are negative; undefined for nulls."""
    words = array.type.bit_width // 64
    if len(array) == 0:
        return [np.zeros(0, np.uint64)], np.zeros(0, bool)
    raw = np.frombuffer(array.buffers()[1], np.uint64, count=words * (array.offset + len(array)))
    columns = raw[words * array.offset :].reshape(-1, words)
    negative = columns[:, -1].view(np.int64) < 0
    any_negative = bool(negative.any())
    limbs, carry = [], negative
    for i in range(words):
        word = np.ascontiguousarray(columns[:, i])
        if any_negative:
            # -x = ~x + 1; the 1 is carried on for as long as ~x is all ones.
            word = np.where(negative, ~word + carry, word)
            carry = carry & (word == 0)
        limbs += [word & _LOW, word >> _BITS]
    return trim(limbs), negative


def to_decimal(limbs: Limbs, negative: np.ndarray, type_: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    """decimal128 values of these unscaled digits, and where they overflow the type (undefined there)."""
    low, high, more = two_words(limbs)
    array, large = decimal_from_words(low, high, negative, type_)
    return array, large | more


def decimal_from_words(
    low: np.ndarray, high: np.ndarray, negative: np.ndarray, type_: pa.DataType
) -> tuple[pa.Array, np.ndarray]:
    """decimal128 values from the two words of each absolute value, and where they overflow."""
    top, rest = (np.uint64(word) for word in divmod(10**type_.precision, 2**64))
    large = (high > top) | ((high == top) & (low >= rest))
    pairs = np.empty((len(low), 2), np.uint64)
    pairs[:, 0] = np.where(negative, ~low + _UNIT, low)
    pairs[:, 1] = np.where(negative, ~high + (low == 0), high)
    return pa.Array.from_buffers(type_, len(low), [None, pa.py_buffer(pairs)]), large


def two_words(limbs: Limbs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The lowest 64 bits, the next 64, and where more are set."""
    zero = np.zeros_like(limbs[0])
    large = np.zeros(len(zero), bool)
    for limb in limbs[4:]:
        large |= limb != 0
    first, second, third, fourth = (*limbs[:4], zero, zero, zero)[:4]
    return first | second << _BITS, third | fourth << _BITS, large


def trim(limbs: Limbs) -> Limbs:
    """`limbs` without the upper ones that are zero in every row."""
    while len(limbs) > 1 and not limbs[-1].any():
        limbs = limbs[:-1]
    return limbs


def add(x: Limbs, y: Limbs) -> Limbs:
    """The sum."""
    if len(x) < len(y):
        x, y = y, x
    result: Limbs = []
    carry = np.zeros(1, np.uint64)
    for i, limb in enumerate(x):
        total = limb + carry + (y[i] if i < len(y) else _ZERO)
        result.append(total & _LOW)
        carry = total >> _BITS
    return [*result, carry] if carry.any() else result


def multiply(x: Limbs, y: Limbs) -> Limbs:
    """The product, by long multiplication."""
    result = [np.zeros(max(len(x[0]), len(y[0])), np.uint64) for _ in range(len(x) + len(y))]
    for i, a in enumerate(x):
        carry = np.zeros(1, np.uint64)
        for j, b in enumerate(y):
            total = a * b + result[i + j] + carry
            result[i + j], carry = total & _LOW, total >> _BITS
        result[i + len(y)] = result[i + len(y)] + carry
    return trim(result)


def multiply_by_power(x: Limbs, digits: int) -> Limbs:
    """The product with 10 ** digits."""
    return multiply(x, constant(10**digits, 1)) if digits else x


def divide_by_power(x: Limbs, digits: int) -> Limbs:
    """The whole part of the quotient by 10 ** digits."""
    while digits > 0:
        x, _ = _divide_by_limb(x, np.uint64(10 ** min(digits, _CHUNK)))
        digits -= _CHUNK
    return x


def _divide_by_limb(x: Limbs, by: np.ndarray | np.uint64) -> tuple[Limbs, Limbs]:
    """Quotient and remainder by less than 2**32."""
    rest: np.ndarray = np.zeros_like(x[-1])
    digits = []
    for limb in reversed(x):
        value = rest << _BITS | limb
        digits.append(value // by)
        rest = value - digits[-1] * by
    return trim(digits[::-1]), [rest]


def divide(x: Limbs, y: Limbs) -> tuple[Limbs, Limbs]:
    """Quotient and remainder by divisors that are not zero.

    Long division serves divisors of one limb. Longer divisors are rare and numpy has no wide division, so Python's integers divide
    them row by row, in about 1 µs.
    """
    x, y = trim(x), trim(y)
    if len(y) == 1:
        return _divide_by_limb(x, y[0])
    n = max(len(x[0]), len(y[0]))
    pairs = [divmod(a, b) for a, b in zip(checked(_to_ints(x, n)), _to_ints(y, n), strict=True)]
    return _from_ints([quotient for quotient, _ in pairs]), _from_ints([rest for _, rest in pairs])


def _to_ints(limbs: Limbs, n: int) -> list[int]:
    """Each of the `n` rows as a Python integer."""
    raw = np.stack([np.broadcast_to(limb, n).astype("<u4") for limb in limbs], axis=1).tobytes()
    width = 4 * len(limbs)
    return [int.from_bytes(raw[at : at + width], "little") for at in range(0, n * width, width)]


def _from_ints(values: list[int]) -> Limbs:
    """Python integers that are not negative as limbs."""
    size = max(1, -(-max(values, default=0).bit_length() // 32))
    raw = b"".join([value.to_bytes(4 * size, "little") for value in values])
    return list(np.frombuffer(raw, "<u4").reshape(-1, size).T.astype(np.uint64))


def bit_length(x: Limbs) -> np.ndarray:
    """The number of bits of each value; 0 for zero."""
    result = np.zeros(len(x[0]), np.int64)
    for i, limb in enumerate(x):
        # frexp gives the exponent of the next power of two; limbs are exact as floats.
        result = np.where(limb != 0, np.frexp(limb.astype(np.float64))[1] + 32 * i, result)
    return result


def not_less(x: Limbs, y: Limbs) -> np.ndarray:
    """Where x >= y."""
    result: np.ndarray = np.ones(max(len(x[0]), len(y[0])), bool)
    for i in range(max(len(x), len(y))):
        a, b = (side[i] if i < len(side) else _ZERO for side in (x, y))
        result = (a > b) | ((a == b) & result)
    return result


def floor_to_int64(array: pa.Array, minus: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The floor of each decimal less `minus` units of its last digit, and where it overflows (0 there).

    Undefined for nulls. `floors(x, minus=1)[0] + 1` is the ceiling.

    >>> from decimal import Decimal
    >>> floor_to_int64(pa.array([Decimal("-0.5"), Decimal("2.5")], pa.decimal128(38, 18)))[0].tolist()
    [-1, 2]
    """
    if len(array) == 0:
        return np.zeros(0, np.int64), np.zeros(0, bool)
    raw = np.frombuffer(array.buffers()[1], np.uint64, 2 * (len(array) + array.offset))[2 * array.offset :]
    low, high = raw[0::2], raw[1::2]
    if minus:
        high, low = high - (low < minus).astype(np.uint64), low - np.uint64(minus)
    negative = high.view(np.int64) < 0
    # For x < 0, floor(x / d) = ~floor(~x / d), where ~x is not negative.
    low, high = np.where(negative, ~low, low), np.where(negative, ~high, high)
    low, high, _ = two_words(
        divide_by_power([low & _LOW, low >> _BITS, high & _LOW, high >> _BITS], array.type.scale)
    )
    large = (high != 0) | (low >> np.uint64(63) != 0)
    whole = np.where(large, np.uint64(0), low).view(np.int64)
    return np.where(negative & ~large, ~whole, whole), large
