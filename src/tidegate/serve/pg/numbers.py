"""Numeric as PostgreSQL sends it: digits to the base of 10,000, for all values at once.

A value is four numbers of two bytes and then its digits:

    12345.67  →  digits 1 2345 6700; how many: 3; weight of the first: 1 (it counts 10,000s); sign; digits after the point: 2

Arrow keeps a decimal as a whole number, 1234567, and says once that two of its digits stand behind the point. So its text is a row
of digits, padded on both sides until the point falls between groups of four; numpy makes numbers of the groups, and leaves out
those at either end that are zero.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.types import MAX_PRECISION, NUMERIC, Type

GROUP = 4
_POSITIVE, _NEGATIVE = 0x0000, 0x4000


def numeric(array: pa.Array, type_: Type) -> pa.Array:
    """The values' bytes; NULL stays NULL."""
    scale = type_.scale or 0
    before = -(-(MAX_PRECISION - scale) // GROUP)
    after = -(-scale // GROUP)
    whole = pa.Array.from_buffers(
        pa.decimal128(MAX_PRECISION, 0), len(array), array.buffers(), array.null_count, array.offset
    )
    spelled = whole.cast(pa.string()).fill_null("0")
    negative = pc.starts_with(spelled, "-").to_numpy(zero_copy_only=False)
    padded = pc.binary_join_element_wise(
        pc.utf8_lpad(pc.utf8_ltrim(spelled, "-"), before * GROUP + scale, "0"),
        "0" * (after * GROUP - scale),
        "",
    )
    groups = _groups(padded, before + after)
    shown = _shown_scale(groups, before, scale) if type_ == NUMERIC else np.full(len(array), scale)
    cells = _assembled(groups, before, negative, shown)
    return cells if array.null_count == 0 else pc.if_else(array.is_valid(), cells, None)


def _groups(padded: pa.Array, count: int) -> np.ndarray:
    """The digits as numbers below 10,000: a row for each value, a column for each group."""
    letters = np.frombuffer(padded.cast(pa.binary(count * GROUP)).buffers()[1], np.uint8)
    digits = letters[: len(padded) * count * GROUP].reshape(len(padded), count, GROUP) - ord("0")
    found: np.ndarray = digits @ np.array([1000, 100, 10, 1], np.int32)
    return found


def _shown_scale(groups: np.ndarray, before: int, scale: int) -> np.ndarray:
    """Digits behind the point that are not zeros at the end: a numeric without a scale is spelled with as many as it needs."""
    fraction = groups[:, before:]
    if not fraction.shape[1]:
        return np.zeros(len(groups), np.int64)
    last = fraction.shape[1] - 1 - np.argmax(fraction[:, ::-1] != 0, axis=1)
    group = fraction[np.arange(len(groups)), last]
    zeros = (group % 10 == 0).astype(int) + (group % 100 == 0) + (group % 1000 == 0)
    found: np.ndarray = np.where(fraction.any(axis=1), np.minimum((last + 1) * GROUP - zeros, scale), 0)
    return found


def _assembled(groups: np.ndarray, before: int, negative: np.ndarray, scale: np.ndarray) -> pa.Array:
    """Heads and digits, joined."""
    count, width = groups.shape
    nonzero = groups != 0
    some = nonzero.any(axis=1)
    first = np.where(some, np.argmax(nonzero, axis=1), 0)
    end = np.where(some, width - np.argmax(nonzero[:, ::-1], axis=1), 0)
    places = np.arange(width)
    kept = (places >= first[:, None]) & (places < end[:, None])
    lengths = kept.sum(axis=1)
    head = np.empty(count, np.dtype([("n", ">i2"), ("weight", ">i2"), ("sign", ">u2"), ("scale", ">i2")]))
    head["n"], head["weight"] = lengths, np.where(some, before - 1 - first, 0)
    head["sign"], head["scale"] = np.where(negative, _NEGATIVE, _POSITIVE), scale
    offsets = np.concatenate(([0], np.cumsum(lengths * 2))).astype(np.int32)
    digits = groups[kept].astype(">i2").tobytes()
    body = pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(digits)]
    )
    heads = pa.Array.from_buffers(pa.binary(8), count, [None, pa.py_buffer(head.tobytes())])
    return pc.binary_join_element_wise(heads.cast(pa.binary()), body, b"")
