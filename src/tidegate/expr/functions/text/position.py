"""Text: measuring, case, and cutting by position.

Positions count characters (code points) from 1, as SQL does. What statistics say about a text carries
through more of these functions than their trends would tell, because they keep prefixes (`prefix.py`). In a
part whose names lie between 'Miller, A' and 'Miller, J':

| expression | is known to lie in | because |
|---|---|---|
| `left(name, 3)`, `substring(name, 1, 3)` | 'Mil' .. 'Mil' | cutting to a length keeps the order |
| `substring(name, 9, 1)` | 'A' .. 'J' | what is cut off is the same for all |
| `upper(name)` | 'MILLER, ' .. 'MILLER,!' | all names start alike |
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.function import MODERATE, NEVER, UP, TrendClaim, scalar, where
from tidegate.expr.letters import char_counts, code_points, from_code_points, nulled, slice_chars
from tidegate.expr.outcome import (
    Datum,
    Outcome,
    failing,
    first_error,
    length,
    raw_bytes,
    spread,
    to_numpy,
    with_errors,
)
from tidegate.expr.prefix import at_least, by_prefix, claims, common_prefix, constant
from tidegate.expr.spark_form import counted
from tidegate.expr.specs import NO, YES, Specs, known
from tidegate.expr.transfer import by_trend
from tidegate.expr.types import INT4, TEXT, Type

END = 2**31
"""A position behind every text: Arrow's have less than 2 GiB."""
SHARP_S = 0xDF
WORD = r"[\p{L}\p{Nd}\p{Nl}]"
"""A letter or digit, as PostgreSQL's initcap and `\\w` see them."""


def fixed(*args: Datum) -> bool:
    """Whether all of `args` are constants that are not NULL: the case that Arrow has kernels for."""
    return all(isinstance(arg, pa.Scalar) and arg.is_valid for arg in args)


# ---------------------------------------------------------------- measuring


@scalar(
    "length",
    (TEXT,),
    INT4,
    errors=NEVER,
    transfer=lambda out, a: _count(text_length, out, a),
    stable=True,
    spark="char_length({0})",
)
@scalar(
    "char_length",
    (TEXT,),
    INT4,
    errors=NEVER,
    transfer=lambda out, a: _count(text_length, out, a),
    stable=True,
    spark="char_length({0})",
)
@scalar(
    "character_length",
    (TEXT,),
    INT4,
    errors=NEVER,
    transfer=lambda out, a: _count(text_length, out, a),
    stable=True,
    spark="char_length({0})",
)
def text_length(a: Datum) -> pa.Array:
    """How many characters a text has."""
    return pc.utf8_length(a)


@scalar(
    "octet_length",
    (TEXT,),
    INT4,
    errors=NEVER,
    transfer=lambda out, a: _count(octet_length, out, a),
    stable=True,
    spark="octet_length({0})",
)
def octet_length(a: Datum) -> pa.Array:
    """How many bytes a text has in UTF-8."""
    return pc.binary_length(a)


@scalar(
    "bit_length",
    (TEXT,),
    INT4,
    errors=NEVER,
    transfer=lambda out, a: _count(bit_length, out, a),
    stable=True,
    spark="bit_length({0})",
)
def bit_length(a: Datum) -> pa.Array:
    """How many bits a text has in UTF-8."""
    return pc.multiply(pc.binary_length(a), pa.scalar(8, pa.int32()))


def _count(kernel: Callable[..., pa.Array], out: Type, a: Specs) -> Specs:
    return at_least(claims(kernel), 0, out, (a,))


# ---------------------------------------------------------------- case


def per_letter(points: np.ndarray, mapping: Callable[[pa.Array], pa.Array]) -> np.ndarray:
    """Each code point mapped by a kernel that gives one value a letter; it sees the distinct ones only."""
    if not len(points):
        return np.asarray(mapping(pa.array([], pa.string())).to_numpy(zero_copy_only=False))
    present = np.zeros(int(points.max()) + 1, bool)
    present[points] = True
    distinct = np.flatnonzero(present)
    mapped = mapping(from_code_points(distinct, np.ones(len(distinct), np.int64))).to_numpy(
        zero_copy_only=False
    )
    table = np.zeros(len(present), mapped.dtype)
    table[distinct] = mapped
    result: np.ndarray = table[points]
    return result


def _upper_points(letters: pa.Array) -> pa.Array:
    points = code_points(pc.utf8_upper(letters))[0]
    return pa.array(np.where(code_points(letters)[0] == SHARP_S, SHARP_S, points))


@scalar(
    "upper",
    (TEXT,),
    TEXT,
    errors=NEVER,
    transfer=lambda out, a: by_prefix(claims(upper), upper, out, (a,)),
    stable=True,
)
def upper(a: Datum) -> pa.Array:
    """The text in upper case, letter by letter ('ß' has no single capital and stays)."""
    # utf8proc makes ẞ of ß; PostgreSQL, and Unicode's table of simple mappings, leave it.
    # Its second byte in UTF-8 is 0x9F: where that is nowhere, the letter is not either.
    if (
        isinstance(a, pa.Array)
        and (raw_bytes(a) == 0x9F).any()
        and pc.any(pc.match_substring(a, chr(SHARP_S))).as_py()
    ):
        points, counts = code_points(a)
        return nulled(from_code_points(per_letter(points, _upper_points), counts), a)
    return pc.utf8_upper(a)


@scalar(
    "lower",
    (TEXT,),
    TEXT,
    errors=NEVER,
    transfer=lambda out, a: by_prefix(claims(lower), lower, out, (a,)),
    stable=True,
)
def lower(a: Datum) -> pa.Array:
    """The text in lower case, letter by letter."""
    return pc.utf8_lower(a)


@scalar(
    "initcap", (TEXT,), TEXT, errors=NEVER, cost=MODERATE, stable=True,
    # How a letter comes out depends on the letters before it only, so prefixes are kept.
    transfer=lambda out, a: by_prefix(claims(initcap), initcap, out, (a,)),
)  # fmt: skip
def initcap(a: Datum) -> pa.Array:
    """The first letter of each word in upper case, the rest in lower case; a word is letters and digits."""
    points, counts = code_points(a)
    in_word = per_letter(points, lambda letters: pc.match_substring_regex(letters, WORD))
    after_word = np.zeros(len(points), bool)
    after_word[1:] = in_word[:-1]
    starts = (np.cumsum(counts) - counts)[counts > 0]
    after_word[starts] = False
    lowered = per_letter(points, lambda letters: pa.array(code_points(pc.utf8_lower(letters))[0]))
    raised = per_letter(points, _upper_points)
    return nulled(from_code_points(np.where(after_word, lowered, raised), counts), a)


# ---------------------------------------------------------------- cutting


def cut(a: Datum, start: np.ndarray, stop: np.ndarray, *args: Datum) -> pa.Array:
    """Characters `start` to `stop` from 0 on, null where any of `args` is; constant ones by Arrow."""
    if isinstance(a, pa.Array) and start.ndim == 0 and stop.ndim == 0:
        first = min(max(int(start), 0), END)
        sliced = pc.utf8_slice_codeunits(a, first, max(first, min(int(stop), END)))
        return nulled(sliced, *args)
    n = length(*args)
    return nulled(slice_chars(spread(a, n), np.broadcast_to(start, n), np.broadcast_to(stop, n)), *args)


def wide(n: Datum) -> np.ndarray:
    """Integers with room for sums; 0-d for a constant."""
    return np.asarray(to_numpy(n)).astype(np.int64)


def _left_trend(_a: Specs, n: Specs) -> TrendClaim:
    """Cutting to n characters keeps the order. Cutting off the last n does not: 'ab' < 'b', but 'a' > ''."""
    up = where(UP, never_negative(n))
    return up, up


def never_negative(n: Specs) -> np.ndarray:
    """Where an integer is known to be 0 or more."""
    low = n.bounds()[0]
    return known(low) & (to_numpy(low) >= 0)


@scalar(
    "left",
    (TEXT, INT4),
    TEXT,
    errors=NEVER,
    trend=_left_trend,
    stable=True,
    spark=counted("left({0}, {1})", 0),
)
def left(a: Datum, n: Datum) -> pa.Array:
    """The first n characters; for a negative n, all but the last -n."""
    stop = wide(n)
    if (stop < 0).any():
        stop = np.where(stop < 0, char_counts(spread(a, length(a, n))) + stop, stop)
    return cut(a, np.zeros((), np.int64), stop, a, n)


def _right_trend(a: Specs, n: Specs) -> TrendClaim:
    """right(a, -n) cuts off the first n characters, which keeps the order where they are the same for all."""
    count = constant(n)
    return (
        where(UP, same_start(a, -count.as_py())) if count is not None and count.as_py() < 0 else None
    ), None


@scalar(
    "right",
    (TEXT, INT4),
    TEXT,
    errors=NEVER,
    trend=_right_trend,
    stable=True,
    spark=counted("right({0}, {1})", 0),
)
def right(a: Datum, n: Datum) -> pa.Array:
    """The last n characters; for a negative n, all but the first -n."""
    start = -wide(n)
    if isinstance(a, pa.Array) and start.ndim == 0 and start < 0:
        return nulled(pc.utf8_slice_codeunits(a, int(start)), a, n)
    if (start <= 0).any():
        start = np.where(start <= 0, np.maximum(char_counts(spread(a, length(a, n))) + start, 0), start)
    return cut(a, start, np.array(END), a, n)


def same_start(a: Specs, count: int) -> np.ndarray:
    """Where all values have their first `count` characters in common."""
    if count <= 0:
        return YES
    if a.low is None or a.high is None:
        return NO
    return char_counts(common_prefix(a.low, a.high)) >= count


def _from_trend(a: Specs, start: Specs, *_size: Specs) -> TrendClaim:
    first = constant(start)
    return (where(UP, same_start(a, first.as_py() - 1)) if first is not None else None), None, UP


@scalar(
    "substring",
    (TEXT, INT4),
    TEXT,
    errors=NEVER,
    trend=_from_trend,
    stable=True,
    spark=counted("substring({0}, {1})", 1),
)
@scalar(
    "substr",
    (TEXT, INT4),
    TEXT,
    errors=NEVER,
    trend=_from_trend,
    stable=True,
    spark=counted("substring({0}, {1})", 1),
)
def substring_from(a: Datum, start: Datum) -> pa.Array:
    """The characters from a position on, the first being 1."""
    return cut(a, wide(start) - 1, np.array(END), a, start)


def substring_transfer(out: Type, a: Specs, start: Specs, size: Specs) -> Specs:
    """What substring gives over containers: it fails only for a negative length, whatever the text."""
    base = by_trend(claims(substring, _from_trend(a, start, size)), (a, start, size), out)
    return base.may_fail(~never_negative(size) & ~size.empty)


@scalar(
    "substring",
    (TEXT, INT4, INT4),
    TEXT,
    transfer=substring_transfer,
    stable=True,
    spark=counted("substring({0}, {1}, {2})", 1, 0),
)
@scalar(
    "substr",
    (TEXT, INT4, INT4),
    TEXT,
    transfer=substring_transfer,
    stable=True,
    spark=counted("substring({0}, {1}, {2})", 1, 0),
)
def substring(a: Datum, start: Datum, size: Datum) -> Outcome:
    """So many characters from a position on; positions before 1 count, but hold nothing."""
    first, count = wide(start), wide(size)
    negative = count < 0
    values = cut(a, np.maximum(first - 1, 0), np.maximum(first - 1 + count, 0), a, start, size)
    if not negative.any():
        return Outcome(values)
    failed = failing(np.broadcast_to(negative, len(values)), "negative substring length not allowed")
    return with_errors(values, failed)


@scalar("overlay", (TEXT, TEXT, INT4, INT4), TEXT, stable=True)
def overlay(a: Datum, new: Datum, start: Datum, size: Datum) -> Outcome:
    """The text with so many characters from a position on replaced by others."""
    first, count = wide(start), wide(size)
    n = length(a, new, start, size)
    head = cut(a, np.zeros((), np.int64), np.maximum(first - 1, 0), a, new, start, size)
    tail = cut(a, np.maximum(first - 1 + count, 0), np.array(END), a, new, start, size)
    values = pc.binary_join_element_wise(head, new, tail, "")
    negative = failing(np.broadcast_to(first <= 0, n), "negative substring length not allowed")
    beyond = failing(np.broadcast_to((first > 0) & (first + count >= END), n), "integer out of range")
    return with_errors(values, first_error(negative, beyond))


@scalar("overlay", (TEXT, TEXT, INT4), TEXT, stable=True)
def overlay_all(a: Datum, new: Datum, start: Datum) -> Outcome:
    """The text with other characters written over it from a position on."""
    done: Outcome = overlay(a, new, start, pc.utf8_length(new))
    return done


@scalar("reverse", (TEXT,), TEXT, errors=NEVER, stable=True, spark="reverse({0})")
def reverse(a: Datum) -> pa.Array:
    """The characters in reverse order."""
    return pc.utf8_reverse(a)
