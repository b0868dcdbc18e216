"""Decimals rounded down to 64-bit integers, exactly.

Arrow 26 divides large decimals wrongly: it gives 9223372036854775806 for the floor of
9223372036854775807.999999999999999999. So the 128 bits are divided by `limbs.py`.

>>> import pyarrow as pa
>>> from decimal import Decimal
>>> floors(pa.array([Decimal("-0.5"), Decimal("2.5")], pa.decimal128(38, 18)))[0].tolist()
[-1, 2]
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidegate.expr.limbs import over_power, two_words

_LOW = np.uint64(0xFFFF_FFFF)
_HALF = np.uint64(32)


def floors(array: pa.Array, minus: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The floor of each decimal less `minus` units of its last digit, and where it does not fit (0 there).

    Nulls give anything. `floors(x, minus=1)[0] + 1` is the ceiling.
    """
    if len(array) == 0:
        return np.zeros(0, np.int64), np.zeros(0, bool)
    raw = np.frombuffer(array.buffers()[1], np.uint64, 2 * (len(array) + array.offset))[2 * array.offset :]
    low, high = raw[0::2], raw[1::2]
    if minus:
        high, low = high - (low < minus).astype(np.uint64), low - np.uint64(minus)
    negative = high.view(np.int64) < 0
    # For x < 0, floor(x / d) = ~floor(~x / d), and ~x is not negative.
    low, high = np.where(negative, ~low, low), np.where(negative, ~high, high)
    low, high, _ = two_words(
        over_power([low & _LOW, low >> _HALF, high & _LOW, high >> _HALF], array.type.scale)
    )
    large = (high != 0) | (low >> np.uint64(63) != 0)
    whole = np.where(large, np.uint64(0), low).view(np.int64)
    return np.where(negative & ~large, ~whole, whole), large
