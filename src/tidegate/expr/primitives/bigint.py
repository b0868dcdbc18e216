"""Integers of any length, a column of them at once: what decimals are multiplied, divided and rounded with.

Arrow 26 multiplies long decimals rightly, but divides them wrongly once the divisor exceeds 32 bits, and so
rounds them wrongly too: it gives 9223372036854775806 for the floor of 9223372036854775807.999999999999999999.
Here a column is a list of limbs, its base-2**32 digits from the lowest up, each a numpy array of 64 bits a row
(a product of two limbs and a carry always fits). Signs are kept beside.

>>> from decimal import Decimal
>>> limbs, negative = opened(pa.array([Decimal("-0.000000005")], pa.decimal128(38, 9)))
>>> [limb.tolist() for limb in limbs], negative.tolist()
([[5]], [True])
>>> [limb.tolist() for limb in over_power(constant(10**20, 1), 19)]
[[10]]
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa

Limbs: TypeAlias = list[np.ndarray]
"""Base-2**32 digits from the lowest up, one at least; arrays of one length, or of length 1 for a constant."""

_BITS = np.uint64(32)
_LOW = np.uint64(0xFFFF_FFFF)
_ONE, _ZERO = np.uint64(1), np.uint64(0)
_CHUNK = 9
"""Digits of a power of ten that fit 30 bits, so that a remainder with the next limb behind it fits 64."""


def constant(value: int, n: int) -> Limbs:
    """A number that is not negative, `n` times."""
    parts = max(1, -(-value.bit_length() // 32))
    return [np.full(n, value >> 32 * i & 0xFFFF_FFFF, np.uint64) for i in range(parts)]


def opened(array: pa.Array) -> tuple[Limbs, np.ndarray]:
    """The absolute unscaled values of decimals of 128 or 256 bits, and which are negative; nulls give anything."""
    words = array.type.bit_width // 64
    if len(array) == 0:
        return [np.zeros(0, np.uint64)], np.zeros(0, bool)
    raw = np.frombuffer(array.buffers()[1], np.uint64, count=words * (array.offset + len(array)))
    columns = raw[words * array.offset :].reshape(-1, words)
    negative = columns[:, -1].view(np.int64) < 0
    some = bool(negative.any())
    limbs, carry = [], negative
    for i in range(words):
        word = np.ascontiguousarray(columns[:, i])
        if some:
            # -x = ~x + 1; the one is carried on for as long as ~x is all ones.
            word = np.where(negative, ~word + carry, word)
            carry = carry & (word == 0)
        limbs += [word & _LOW, word >> _BITS]
    return trimmed(limbs), negative


def closed(limbs: Limbs, negative: np.ndarray, type_: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    """decimal128 values of these unscaled digits, and where they are too long for the type (anything there)."""
    low, high, more = two_words(limbs)
    array, large = packed(low, high, negative, type_)
    return array, large | more


def packed(
    low: np.ndarray, high: np.ndarray, negative: np.ndarray, type_: pa.DataType
) -> tuple[pa.Array, np.ndarray]:
    """The same from the two words of each absolute value."""
    top, rest = (np.uint64(word) for word in divmod(10**type_.precision, 2**64))
    large = (high > top) | ((high == top) & (low >= rest))
    pairs = np.empty((len(low), 2), np.uint64)
    pairs[:, 0] = np.where(negative, ~low + _ONE, low)
    pairs[:, 1] = np.where(negative, ~high + (low == 0), high)
    return pa.Array.from_buffers(type_, len(low), [None, pa.py_buffer(pairs)]), large


def two_words(limbs: Limbs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The lowest 64 bits, the next 64, and where there are more."""
    zero = np.zeros_like(limbs[0])
    large = np.zeros(len(zero), bool)
    for limb in limbs[4:]:
        large |= limb != 0
    first, second, third, fourth = (*limbs[:4], zero, zero, zero)[:4]
    return first | second << _BITS, third | fourth << _BITS, large


def trimmed(limbs: Limbs) -> Limbs:
    """Without the upper limbs that are zero in every row."""
    while len(limbs) > 1 and not limbs[-1].any():
        limbs = limbs[:-1]
    return limbs


def plus(x: Limbs, y: Limbs) -> Limbs:
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


def times(x: Limbs, y: Limbs) -> Limbs:
    """The product, as on paper."""
    result = [np.zeros(max(len(x[0]), len(y[0])), np.uint64) for _ in range(len(x) + len(y))]
    for i, a in enumerate(x):
        carry = np.zeros(1, np.uint64)
        for j, b in enumerate(y):
            total = a * b + result[i + j] + carry
            result[i + j], carry = total & _LOW, total >> _BITS
        result[i + len(y)] = result[i + len(y)] + carry
    return trimmed(result)


def times_power(x: Limbs, digits: int) -> Limbs:
    """The product with 10 ** digits."""
    return times(x, constant(10**digits, 1)) if digits else x


def over_power(x: Limbs, digits: int) -> Limbs:
    """The whole part of the quotient by 10 ** digits."""
    while digits > 0:
        x, _ = _over_limb(x, np.uint64(10 ** min(digits, _CHUNK)))
        digits -= _CHUNK
    return x


def _over_limb(x: Limbs, by: np.ndarray | np.uint64) -> tuple[Limbs, Limbs]:
    """Quotient and remainder by less than 2**32."""
    rest: np.ndarray = np.zeros_like(x[-1])
    digits = []
    for limb in reversed(x):
        value = rest << _BITS | limb
        digits.append(value // by)
        rest = value - digits[-1] * by
    return trimmed(digits[::-1]), [rest]


def divided(x: Limbs, y: Limbs) -> tuple[Limbs, Limbs]:
    """Quotient and remainder by numbers that are not zero; Knuth's algorithm D, with the columns in step.

    Every divisor is moved up until its highest bit is that of its column's highest limb, and its dividend with it.
    Then the two upper limbs of what is left tell the next limb of the quotient but for at most two too much.
    """
    x, y = trimmed(x), trimmed(y)
    if len(y) == 1:
        return _over_limb(x, y[0])
    n = max(len(x[0]), len(y[0]))
    shift = 32 * len(y) - bit_length(y)
    divisor = _shifted(y, shift, len(y))
    dividend = _shifted(x, np.broadcast_to(shift, n), len(x) + len(y))
    rest, digits = dividend[len(x) :], []
    for i in reversed(range(len(x))):
        digit, rest = _next_digit([dividend[i], *rest], divisor)
        digits.append(digit)
    return trimmed(digits[::-1]), _unshifted(rest, shift)


def _next_digit(rest: Limbs, divisor: Limbs) -> tuple[np.ndarray, Limbs]:
    """How often `divisor` goes into `rest`, which is one limb longer and less than 2**32 times it, and what is left."""
    first, second = divisor[-1], divisor[-2]
    upper = rest[-1] << _BITS | rest[-2]
    guess = np.minimum(upper // first, _LOW)
    left = upper - guess * first
    for _ in range(2):
        over = (left <= _LOW) & (guess * second > (left << _BITS | rest[-3]))
        guess, left = guess - over, left + np.where(over, first, _ZERO)
    result, carry, borrow = [], _ZERO, _ZERO
    for i, limb in enumerate(divisor):
        product = guess * limb + carry
        carry = product >> _BITS
        value = rest[i] - (product & _LOW) - borrow
        borrow = value >> np.uint64(63)
        result.append(value & _LOW)
    over = rest[-1] < carry + borrow
    if not over.any():
        return guess, result
    back = plus(result, [np.where(over, limb, _ZERO) for limb in divisor])
    # The carry out of the uppermost limb is what the subtraction had borrowed.
    return guess - over, back[: len(divisor)]


def bit_length(x: Limbs) -> np.ndarray:
    """The number of bits of each value; 0 for zero."""
    result = np.zeros(len(x[0]), np.int64)
    for i, limb in enumerate(x):
        # frexp gives the exponent of the next power of two; limbs are exact as floats.
        result = np.where(limb != 0, np.frexp(limb.astype(np.float64))[1] + 32 * i, result)
    return result


def _shifted(x: Limbs, bits: np.ndarray, size: int) -> Limbs:
    """X times 2**bits, in `size` limbs, which hold it."""
    whole, part = np.divmod(bits, 32)
    limbs = x + [np.zeros_like(x[0])] * (size - len(x))
    step = 1
    while step <= int(whole.max(initial=0)):
        moved = whole & step != 0
        limbs = [np.where(moved, limbs[i - step] if i >= step else _ZERO, limbs[i]) for i in range(size)]
        step *= 2
    up = part.astype(np.uint64)
    below = [np.zeros_like(limbs[0]), *limbs[:-1]]
    return [(limb << up | low >> (_BITS - up)) & _LOW for limb, low in zip(limbs, below, strict=True)]


def _unshifted(x: Limbs, bits: np.ndarray) -> Limbs:
    """X over 2**bits."""
    whole, part = np.divmod(bits, 32)
    limbs, size, step = x, len(x), 1
    while step <= int(whole.max(initial=0)):
        moved = whole & step != 0
        limbs = [
            np.where(moved, limbs[i + step] if i + step < size else _ZERO, limbs[i]) for i in range(size)
        ]
        step *= 2
    down = part.astype(np.uint64)
    above = [*limbs[1:], np.zeros_like(limbs[0])]
    return trimmed([a >> down | (b << (_BITS - down)) & _LOW for a, b in zip(limbs, above, strict=True)])


def not_less(x: Limbs, y: Limbs) -> np.ndarray:
    """Where x >= y."""
    result: np.ndarray = np.ones(max(len(x[0]), len(y[0])), bool)
    for i in range(max(len(x), len(y))):
        a, b = (side[i] if i < len(side) else _ZERO for side in (x, y))
        result = (a > b) | ((a == b) & result)
    return result
