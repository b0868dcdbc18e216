r"""Prefixes of texts: all texts of a range start with the common prefix of its two ends.

Text is ordered by code point, so every x with 'customer/0017' <= x <= 'customer/0019' starts with
'customer/001'. Turned around, the texts that start with p are exactly those from p up to, but not
including, the *successor* of p: the least text that is greater than all of them. LIKE, `starts_with` and
anchored regular expressions are comparisons with these two ends.

Many functions that follow no trend still keep prefixes. `upper` is not monotone ('B' < 'a', but 'B' > 'A'
after upper), yet it works letter by letter: if all x start with p, all upper(x) start with upper(p), and so lie
between upper(p) and its successor.

>>> successor("2024-06"), successor("a\U0010ffff"), successor("\ud7ff") == "\ue000", successor("")
('2024-07', 'b', True, None)
>>> common_prefix(pa.array(["customer/0017", "é", None]), pa.array(["customer/0019", "è", "b"])).to_pylist()
['customer/001', '', '']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import constants, stretch
from tidegate.expr.domain.specs import Specs
from tidegate.expr.domain.transfer import by_trend
from tidegate.expr.model.function import BoundTransfer, Function
from tidegate.expr.model.outcome import spread
from tidegate.expr.model.types import Type
from tidegate.expr.primitives.utf8 import CONTINUATION, CONTINUATION_MASK, bytes_and_offsets, slice_bytes

LAST = "\U0010ffff"
WORD = 8
MAX_PREFIX = 8 * WORD
"""The longest common prefix that is computed, in bytes."""


def successor(prefix: str) -> str | None:
    """The least text greater than all that start with `prefix`; None if there is none.

    A text of U+10FFFF alone has none; behind other letters they are dropped. Surrogates are no characters: U+E000
    follows U+D7FF.
    """
    stem = prefix.rstrip(LAST)
    return stem[:-1] + _next_letter(stem[-1]) if stem else None


def successors(prefixes: pa.Array) -> pa.Array:
    """`successor` of each, null where there is none or the prefix is null."""
    stems = pc.utf8_rtrim(prefixes, LAST)
    last = pc.utf8_slice_codeunits(stems, -1).dictionary_encode()
    letters = [_next_letter(letter) if letter else None for letter in last.dictionary.to_pylist()]
    following = pa.array(letters, pa.string()).take(last.indices)
    return pc.binary_join_element_wise(pc.utf8_slice_codeunits(stems, 0, -1), following, "")


def _next_letter(letter: str) -> str:
    point = ord(letter) + 1
    return chr(0xE000 if point == 0xD800 else point)


def common_prefix(low: pa.Array, high: pa.Array) -> pa.Array:
    """The common prefix of each pair of texts, up to 64 bytes; empty where either is null.

    One step compares eight bytes of all pairs that are equal so far, so the cost is that of the prefixes.
    """
    n = max(len(low), len(high))
    low, high = (spread(b[0], n) if len(b) == 1 and n > 1 else b for b in (low, high))
    (data_a, at_a), (data_b, at_b) = bytes_and_offsets(low), bytes_and_offsets(high)
    words_a, words_b = _words(data_a), _words(data_b)
    size = np.zeros(n, np.int64)
    alive = np.arange(n)
    for k in range(0, MAX_PREFIX, WORD):
        difference = words_a[at_a[alive] + k] ^ words_b[at_b[alive] + k]
        size[alive] = k + _equal_bytes(difference)
        alive = alive[difference == 0]
        # Bytes behind the end of a text belong to the next one, and are cut off below.
        alive = alive[(at_a[alive + 1] - at_a[alive] > k + WORD) & (at_b[alive + 1] - at_b[alive] > k + WORD)]
        if not len(alive):
            break
    size = np.minimum(size, np.minimum(np.diff(at_a), np.diff(at_b)))
    return slice_bytes(pc.fill_null(low, ""), np.zeros(n, np.int64), _back_to_letter(data_a, at_a, size))


def _words(data: np.ndarray) -> np.ndarray:
    """The eight bytes from each position on as one number, the first byte lowest."""
    padded = np.concatenate([data, np.zeros(WORD, np.uint8)])
    return np.ndarray((len(data) + 1,), "<u8", padded, strides=(1,))


def _equal_bytes(difference: np.ndarray) -> np.ndarray:
    """The number of equal leading bytes of two words, from their exclusive or."""
    lowest_bit = difference & (~difference + np.uint64(1))
    exponent = np.frexp(lowest_bit.astype(np.float64))[1] - 1
    result: np.ndarray = np.where(difference == 0, WORD, exponent // 8)
    return result


def _back_to_letter(data: np.ndarray, offsets: np.ndarray, size: np.ndarray) -> np.ndarray:
    """`size` moved back to the end of a letter: 'é' and 'è' share their first byte, which is no text."""
    if not len(data):
        return size
    for _ in range(3):
        at = offsets[:-1] + size
        inside = (at < offsets[1:]) & (
            (data[np.minimum(at, len(data) - 1)] & CONTINUATION_MASK) == CONTINUATION
        )
        if not inside.any():
            break
        size = size - inside
    return size


def fill_bounds(base: Specs, low: pa.Array | None, high: pa.Array | None) -> Specs:
    """`base` with these bounds where it has none of its own."""
    low, high = (_coalesce(own, other) for own, other in ((base.low, low), (base.high, high)))
    return Specs.ranged(
        base.type, low, high, null=base.null, error=base.error, empty=base.empty, exact=base.exact
    )


def _coalesce(bound: pa.Array | None, other: pa.Array | None) -> pa.Array | None:
    if bound is None or other is None:
        return other if bound is None else bound
    n = max(len(bound), len(other))
    return pc.coalesce(stretch(bound, n), stretch(other, n))


def by_prefix(
    function: Function, prefix_of: Callable[..., pa.Array], out: Type, args: Sequence[Specs]
) -> Specs:
    """The transfer of a text function that keeps prefixes.

    f(p + anything, *constants) must start with `prefix_of(p, *constants)`, which is called where all arguments behind the
    first are constants. A constant first argument, like every other exact box, is evaluated by the kernel itself.
    """
    base = by_trend(function.claiming(), args, out)
    rest = constants(args[1:])
    if rest is None or args[0].low is None or args[0].high is None:
        return base
    prefixes = prefix_of(common_prefix(args[0].low, args[0].high), *rest)
    return fill_bounds(base, prefixes, successors(prefixes))


@BoundTransfer
def keeps_prefix(function: Function, out: Type, *args: Specs) -> Specs:
    """The transfer of a text function f for which f(p + anything) starts with f(p)."""
    return by_prefix(function, function.kernel, out, args)


@BoundTransfer
def non_negative(function: Function, out: Type, *args: Specs) -> Specs:
    """The transfer of a length, a count or a position: the result is never below 0."""
    return fill_bounds(by_trend(function.claiming(), args, out), pa.array([0], out.arrow), None)
