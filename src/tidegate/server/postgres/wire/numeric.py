"""Encodes a column of numeric values in PostgreSQL's binary format: digits in base 10,000.

A value is four two-byte integers and then its digits:

    12345.67  →  digits 1 2345 6700; their number: 3; weight of the first: 1 (it counts 10,000s); sign; digits after the point: 2

Arrow stores a decimal as an integer, 1234567, and its type says that two digits follow the point. So its text is padded on both
sides until the point falls between groups of four; numpy converts the groups to integers, and drops the zero groups at either end.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model import Type, types

DIGITS_PER_GROUP = 4
_POSITIVE, _NEGATIVE = 0x0000, 0x4000


def encode_numeric(array: pa.Array, type_: Type) -> pa.Array:
    """Returns the bytes of each value; NULL stays NULL."""
    scale = type_.scale or 0
    before = -(-(types.MAX_PRECISION - scale) // DIGITS_PER_GROUP)
    after = -(-scale // DIGITS_PER_GROUP)
    whole = pa.Array.from_buffers(
        pa.decimal128(types.MAX_PRECISION, 0), len(array), array.buffers(), array.null_count, array.offset
    )
    digits = whole.cast(pa.string()).fill_null("0")
    negative = pc.starts_with(digits, "-").to_numpy(zero_copy_only=False)
    padded = pc.binary_join_element_wise(
        pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), before * DIGITS_PER_GROUP + scale, "0"),
        "0" * (after * DIGITS_PER_GROUP - scale),
        "",
    )
    groups = _groups(padded, before + after)
    shown = _shown_scale(groups, before, scale) if type_ == types.NUMERIC else np.full(len(array), scale)
    cells = _assemble(groups, before, negative, shown)
    return cells if array.null_count == 0 else pc.if_else(array.is_valid(), cells, None)


def _groups(padded: pa.Array, count: int) -> np.ndarray:
    """Returns the digits as integers below 10,000: a row per value, a column per group."""
    letters = np.frombuffer(padded.cast(pa.binary(count * DIGITS_PER_GROUP)).buffers()[1], np.uint8)
    digits = letters[: len(padded) * count * DIGITS_PER_GROUP].reshape(
        len(padded), count, DIGITS_PER_GROUP
    ) - ord("0")
    groups: np.ndarray = digits @ np.array([1000, 100, 10, 1], np.int32)
    return groups


def _shown_scale(groups: np.ndarray, before: int, scale: int) -> np.ndarray:
    """Returns the digits after the point without trailing zeros: a numeric without a scale shows no more."""
    fraction = groups[:, before:]
    if not fraction.shape[1]:
        return np.zeros(len(groups), np.int64)
    last = fraction.shape[1] - 1 - np.argmax(fraction[:, ::-1] != 0, axis=1)
    group = fraction[np.arange(len(groups)), last]
    zeros = (group % 10 == 0).astype(int) + (group % 100 == 0) + (group % 1000 == 0)
    shown: np.ndarray = np.where(
        fraction.any(axis=1), np.minimum((last + 1) * DIGITS_PER_GROUP - zeros, scale), 0
    )
    return shown


def _assemble(groups: np.ndarray, before: int, negative: np.ndarray, scale: np.ndarray) -> pa.Array:
    """Joins the headers and the digits."""
    count, width = groups.shape
    nonzero = groups != 0
    has_digits = nonzero.any(axis=1)
    first = np.where(has_digits, np.argmax(nonzero, axis=1), 0)
    end = np.where(has_digits, width - np.argmax(nonzero[:, ::-1], axis=1), 0)
    places = np.arange(width)
    used = (places >= first[:, None]) & (places < end[:, None])
    lengths = used.sum(axis=1)
    head = np.empty(count, np.dtype([("n", ">i2"), ("weight", ">i2"), ("sign", ">u2"), ("scale", ">i2")]))
    head["n"], head["weight"] = lengths, np.where(has_digits, before - 1 - first, 0)
    head["sign"], head["scale"] = np.where(negative, _NEGATIVE, _POSITIVE), scale
    offsets = np.concatenate(([0], np.cumsum(lengths * 2))).astype(np.int32)
    digits = groups[used].astype(">i2").tobytes()
    body = pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(digits)]
    )
    heads = pa.Array.from_buffers(pa.binary(8), count, [None, pa.py_buffer(head.tobytes())])
    return pc.binary_join_element_wise(heads.cast(pa.binary()), body, b"")
