r"""What a range of texts tells about its members: all of them start with what its two ends share.

Text is ordered by code point, so every x with 'customer/0017' <= x <= 'customer/0019' starts with
'customer/001'. Turned around, the texts that start with p are exactly those from p up to, but not
including, the *successor* of p: the least text that is greater than all of them. LIKE, `starts_with` and
anchored regular expressions are comparisons with these two ends.

Many functions that follow no trend still keep prefixes. `upper` is not monotone ('B' < 'a', but 'B' > 'A'
after), yet it works letter by letter: if all x start with p, all upper(x) start with upper(p), and so lie
between upper(p) and its successor.

>>> successor("2024-06"), successor("a\U0010ffff"), successor("\ud7ff") == "\ue000", successor("")
('2024-07', 'b', True, None)
>>> common_prefix(pa.array(["customer/0017", "é", None]), pa.array(["customer/0019", "è", "b"])).to_pylist()
['customer/001', '', '']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.function import NEVER, Errors, Function, TrendClaim
from tidegate.expr.letters import CONTINUATION, CONTINUATION_MASK, opened, slice_bytes
from tidegate.expr.outcome import spread
from tidegate.expr.specs import Specs
from tidegate.expr.transfer import by_trend
from tidegate.expr.types import TEXT, Type

LAST = "\U0010ffff"
WORD = 8
MAX_PREFIX = 8 * WORD
"""Bytes of a common prefix that are looked at; what lies beyond is simply not used."""


def successor(prefix: str) -> str | None:
    """The least text greater than all that start with `prefix`; None if there is none.

    A text of U+10FFFF alone has none; behind other letters these fall off. Surrogates are no characters:
    U+E000 follows U+D7FF.
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
    """What each pair of texts starts with in common, up to 64 bytes of it; empty where either is null.

    One step takes eight bytes of all pairs that have agreed so far: the cost is that of the prefixes found.
    """
    n = max(len(low), len(high))
    low, high = (spread(b[0], n) if len(b) == 1 and n > 1 else b for b in (low, high))
    (data_a, at_a), (data_b, at_b) = opened(low), opened(high)
    words_a, words_b = _words(data_a), _words(data_b)
    size = np.zeros(n, np.int64)
    alive = np.arange(n)
    for k in range(0, MAX_PREFIX, WORD):
        difference = words_a[at_a[alive] + k] ^ words_b[at_b[alive] + k]
        size[alive] = k + _equal_bytes(difference)
        alive = alive[difference == 0]
        # What is read behind the end of a text belongs to the next one, and is cut off below.
        alive = alive[(at_a[alive + 1] - at_a[alive] > k + WORD) & (at_b[alive + 1] - at_b[alive] > k + WORD)]
        if not len(alive):
            break
    size = np.minimum(size, np.minimum(np.diff(at_a), np.diff(at_b)))
    return slice_bytes(pc.fill_null(low, ""), np.zeros(n, np.int64), _at_letter(data_a, at_a, size))


def _words(data: np.ndarray) -> np.ndarray:
    """The eight bytes from each position on as one number, the first byte lowest."""
    padded = np.concatenate([data, np.zeros(WORD, np.uint8)])
    return np.ndarray((len(data) + 1,), "<u8", padded, strides=(1,))


def _equal_bytes(difference: np.ndarray) -> np.ndarray:
    """How many bytes two words have in common from the first on, given their exclusive or."""
    lowest_bit = difference & (~difference + np.uint64(1))
    exponent = np.frexp(lowest_bit.astype(np.float64))[1] - 1
    result: np.ndarray = np.where(difference == 0, WORD, exponent // 8)
    return result


def _at_letter(data: np.ndarray, offsets: np.ndarray, size: np.ndarray) -> np.ndarray:
    """`size` moved back to where a letter ends: 'é' and 'è' share their first byte, which is no text."""
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


def claims(kernel: Callable[..., Any], trend: TrendClaim | None = None, errors: Errors = NEVER) -> Function:
    """A kernel with the claims that hold in the case at hand, for `by_trend`.

    A declaration must speak for all arguments; a transfer that has seen the constants among them may claim
    more.
    """
    return Function("", (), TEXT, kernel, trend=trend, errors=errors)


def constant(specs: Specs) -> pa.Scalar | None:
    """The one value that an argument has in all containers, if it is known."""
    if specs.size != 1 or specs.low is None or not specs.exact[0] or not specs.low[0].is_valid:
        return None
    return specs.low[0]


def constants(args: Sequence[Specs]) -> list[pa.Scalar] | None:
    """The values of arguments that are all constant; None if one is not."""
    found = [constant(arg) for arg in args]
    return None if any(value is None for value in found) else found


def filled(base: Specs, low: pa.Array | None, high: pa.Array | None) -> Specs:
    """`base` with these bounds where it has none of its own."""
    low, high = (
        _or_else(mine, other) for mine, other in zip((base.low, base.high), (low, high), strict=True)
    )
    return Specs.ranged(
        base.type, low, high, null=base.null, error=base.error, empty=base.empty, exact=base.exact
    )


def _or_else(bound: pa.Array | None, other: pa.Array | None) -> pa.Array | None:
    if bound is None or other is None:
        return other if bound is None else bound
    n = max(len(bound), len(other))
    return pc.coalesce(*(spread(b[0], n) if len(b) == 1 and n > 1 else b for b in (bound, other)))


def starting_with(base: Specs, prefixes: pa.Array) -> Specs:
    """`base` where every value starts with the prefix of its container."""
    return filled(base, prefixes, successors(prefixes))


def by_prefix(function: Function, kept: Callable[..., pa.Array], out: Type, args: Sequence[Specs]) -> Specs:
    """The transfer of a text function that keeps prefixes.

    `kept(p, *constants)` must be such that f(p + anything, *constants) starts with it. It is asked where
    the arguments behind the first are constants; a constant first argument, like every other exact box, is
    told by the kernel itself.
    """
    base = by_trend(function, args, out)
    rest = constants(args[1:])
    if rest is None or args[0].low is None or args[0].high is None:
        return base
    return starting_with(base, kept(common_prefix(args[0].low, args[0].high), *rest))


def at_least(function: Function, least: int, out: Type, args: Sequence[Specs]) -> Specs:
    """The transfer of a function whose results are never below `least`, such as a length."""
    return filled(by_trend(function, args, out), pa.array([least], out.arrow), None)
