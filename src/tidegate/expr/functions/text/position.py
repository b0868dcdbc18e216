"""Text: measuring, case, and cutting by position.

Positions count characters (code points) from 1, as in SQL. Statistics of a text pass through more of these functions
than their trends allow, because the functions keep prefixes (`domain/text_prefix.py`). In a part whose names lie
between 'Miller, A' and 'Miller, J':

| expression | is known to lie in | because |
|---|---|---|
| `left(name, 3)`, `substring(name, 1, 3)` | 'Mil' .. 'Mil' | cutting to a length keeps the order |
| `substring(name, 9, 1)` | 'A' .. 'J' | what is cut off is the same for all |
| `upper(name)` | 'MILLER, ' .. 'MILLER,!' | all names start alike |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import constant
from tidegate.expr.domain.specs import NO, YES, Specs, is_bounded
from tidegate.expr.domain.text_prefix import common_prefix, keeps_prefix, non_negative
from tidegate.expr.domain.transfer import by_trend
from tidegate.expr.duckdb_sql import forms as duckdb_form
from tidegate.expr.model.function import (
    MODERATE,
    NEVER,
    UP,
    BoundTransfer,
    Function,
    MaskedTrend,
    TrendClaim,
    scalar,
)
from tidegate.expr.model.outcome import (
    Datum,
    Outcome,
    failing,
    first_error,
    length,
    null_where_any,
    raw_bytes,
    spread,
    to_numpy,
    with_errors,
)
from tidegate.expr.model.types import INT4, TEXT, Type
from tidegate.expr.primitives.utf8 import char_counts, code_points, from_code_points, slice_chars
from tidegate.expr.spark_sql.forms import minimum_form

END = 2**31
"""A position behind the end of every text: Arrow's texts have less than 2 GiB."""
SHARP_S = 0xDF
WORD = r"[\p{L}\p{Nd}\p{Nl}]"
"""A letter or digit, as PostgreSQL's initcap and `\\w` see them."""


def are_constants(*args: Datum) -> bool:
    """Whether all of `args` are constants and not NULL, as Arrow's kernels need."""
    return all(isinstance(arg, pa.Scalar) and arg.is_valid for arg in args)


# ---------------------------------------------------------------- measuring


_measure = partial(scalar, params=(TEXT,), result=INT4, errors=NEVER, transfer=non_negative, stable=True)


@_measure("length", aliases=("char_length", "character_length"), spark="char_length({0})")
def text_length(a: Datum) -> pa.Array:
    """The number of characters."""
    return pc.utf8_length(a)


@_measure("octet_length", spark="octet_length({0})")
def octet_length(a: Datum) -> pa.Array:
    """The number of bytes in UTF-8."""
    return pc.binary_length(a)


@_measure("bit_length", spark="bit_length({0})")
def bit_length(a: Datum) -> pa.Array:
    """The number of bits in UTF-8."""
    return pc.multiply(pc.binary_length(a), pa.scalar(8, pa.int32()))


# ---------------------------------------------------------------- case


def map_letters(points: np.ndarray, mapping: Callable[[pa.Array], pa.Array]) -> np.ndarray:
    """Each code point mapped by a kernel with one value per letter, which sees distinct letters only."""
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


@scalar("upper", (TEXT,), TEXT, errors=NEVER, transfer=keeps_prefix, stable=True)
def upper(a: Datum) -> pa.Array:
    """The text in upper case, letter by letter ('ß' has no single capital letter and stays)."""
    # utf8proc makes ẞ of ß; PostgreSQL, and Unicode's table of simple mappings, leave it.
    # Its second byte in UTF-8 is 0x9F: without that byte, the letter does not occur.
    if (
        isinstance(a, pa.Array)
        and (raw_bytes(a) == 0x9F).any()
        and pc.any(pc.match_substring(a, chr(SHARP_S))).as_py()
    ):
        points, counts = code_points(a)
        return null_where_any(from_code_points(map_letters(points, _upper_points), counts), a)
    return pc.utf8_upper(a)


@scalar("lower", (TEXT,), TEXT, errors=NEVER, transfer=keeps_prefix, stable=True)
def lower(a: Datum) -> pa.Array:
    """The text in lower case, letter by letter."""
    return pc.utf8_lower(a)


# How a letter comes out depends only on the letters before it, so prefixes are kept.
@scalar("initcap", (TEXT,), TEXT, errors=NEVER, transfer=keeps_prefix, cost=MODERATE, stable=True)
def initcap(a: Datum) -> pa.Array:
    """The first letter of each word in upper case, the rest in lower case."""
    points, counts = code_points(a)
    in_word = map_letters(points, lambda letters: pc.match_substring_regex(letters, WORD))
    after_word = np.zeros(len(points), bool)
    after_word[1:] = in_word[:-1]
    starts = (np.cumsum(counts) - counts)[counts > 0]
    after_word[starts] = False
    lowered = map_letters(points, lambda letters: pa.array(code_points(pc.utf8_lower(letters))[0]))
    raised = map_letters(points, _upper_points)
    return null_where_any(from_code_points(np.where(after_word, lowered, raised), counts), a)


# ---------------------------------------------------------------- cutting


def slice_text(a: Datum, start: np.ndarray, stop: np.ndarray, *args: Datum) -> pa.Array:
    """The characters from `start` to `stop` (from 0), null where any of `args` is."""
    if isinstance(a, pa.Array) and start.ndim == 0 and stop.ndim == 0:
        first = min(max(int(start), 0), END)
        sliced = pc.utf8_slice_codeunits(a, first, max(first, min(int(stop), END)))
        return null_where_any(sliced, *args)
    n = length(*args)
    return null_where_any(
        slice_chars(spread(a, n), np.broadcast_to(start, n), np.broadcast_to(stop, n)), *args
    )


def to_int64(n: Datum) -> np.ndarray:
    """Integers with room for sums; 0-d for a constant."""
    return np.asarray(to_numpy(n)).astype(np.int64)


def _left_trend(_a: Specs, n: Specs) -> TrendClaim:
    """Cutting to n characters keeps the order; cutting off the last n does not: 'ab' < 'b', but 'a' > ''."""
    up = MaskedTrend(UP, never_negative(n))
    return up, up


def never_negative(n: Specs) -> np.ndarray:
    """Where an integer is known to be 0 or more."""
    low = n.bounds()[0]
    return is_bounded(low) & (to_numpy(low) >= 0)


_cut = partial(scalar, params=(TEXT, INT4), result=TEXT, errors=NEVER, stable=True)


@_cut("left", trend=_left_trend, spark=minimum_form("left({0}, {1})", 0))
def left(a: Datum, n: Datum) -> pa.Array:
    """The first n characters; for a negative n, all but the last -n."""
    stop = to_int64(n)
    if (stop < 0).any():
        stop = np.where(stop < 0, char_counts(spread(a, length(a, n))) + stop, stop)
    return slice_text(a, np.zeros((), np.int64), stop, a, n)


def _right_trend(a: Specs, n: Specs) -> TrendClaim:
    """right(a, -n) cuts off the first n characters: ordered where these are the same in all texts."""
    count = constant(n)
    return (
        MaskedTrend(UP, same_start(a, -count.as_py())) if count is not None and count.as_py() < 0 else None
    ), None


@_cut("right", trend=_right_trend, spark=minimum_form("right({0}, {1})", 0))
def right(a: Datum, n: Datum) -> pa.Array:
    """The last n characters; for a negative n, all but the first -n."""
    start = -to_int64(n)
    if isinstance(a, pa.Array) and start.ndim == 0 and start < 0:
        return null_where_any(pc.utf8_slice_codeunits(a, int(start)), a, n)
    if (start <= 0).any():
        start = np.where(start <= 0, np.maximum(char_counts(spread(a, length(a, n))) + start, 0), start)
    return slice_text(a, start, np.array(END), a, n)


def same_start(a: Specs, count: int) -> np.ndarray:
    """Where all values have their first `count` characters in common."""
    if count <= 0:
        return YES
    if a.low is None or a.high is None:
        return NO
    return char_counts(common_prefix(a.low, a.high)) >= count


def _from_trend(a: Specs, start: Specs, *_size: Specs) -> TrendClaim:
    first = constant(start)
    return (MaskedTrend(UP, same_start(a, first.as_py() - 1)) if first is not None else None), None, UP


@_cut("substring", aliases=("substr",), trend=_from_trend, spark=minimum_form("substring({0}, {1})", 1))
def substring_from(a: Datum, start: Datum) -> pa.Array:
    """The characters from a position on; the first position is 1."""
    return slice_text(a, to_int64(start) - 1, np.array(END), a, start)


@BoundTransfer
def substring_transfer(function: Function, out: Type, a: Specs, start: Specs, size: Specs) -> Specs:
    """Substring over containers: it fails only for a negative length."""
    base = by_trend(function.claiming(_from_trend(a, start, size)), (a, start, size), out)
    return base.may_fail(~never_negative(size) & ~size.empty)


@scalar(
    "substring", (TEXT, INT4, INT4), TEXT, aliases=("substr",), transfer=substring_transfer, stable=True,
    spark=minimum_form("substring({0}, {1}, {2})", 1, 0),
    duckdb=duckdb_form.minimum("substring({0}, {1}, {2})", 1, 0),
)  # fmt: skip
def substring(a: Datum, start: Datum, size: Datum) -> Outcome:
    """A number of characters from a position on; positions before 1 count but are empty."""
    first, count = to_int64(start), to_int64(size)
    negative = count < 0
    values = slice_text(a, np.maximum(first - 1, 0), np.maximum(first - 1 + count, 0), a, start, size)
    if not negative.any():
        return Outcome(values)
    failed = failing(np.broadcast_to(negative, len(values)), "negative substring length not allowed")
    return with_errors(values, failed)


@scalar("overlay", (TEXT, TEXT, INT4, INT4), TEXT, stable=True)
def overlay(a: Datum, new: Datum, start: Datum, size: Datum) -> Outcome:
    """The text with a number of characters from a position on replaced by another text."""
    first, count = to_int64(start), to_int64(size)
    n = length(a, new, start, size)
    head = slice_text(a, np.zeros((), np.int64), np.maximum(first - 1, 0), a, new, start, size)
    tail = slice_text(a, np.maximum(first - 1 + count, 0), np.array(END), a, new, start, size)
    values = pc.binary_join_element_wise(head, new, tail, "")
    negative = failing(np.broadcast_to(first <= 0, n), "negative substring length not allowed")
    beyond = failing(np.broadcast_to((first > 0) & (first + count >= END), n), "integer out of range")
    return with_errors(values, first_error(negative, beyond))


@scalar("overlay", (TEXT, TEXT, INT4), TEXT, stable=True)
def overlay_all(a: Datum, new: Datum, start: Datum) -> Outcome:
    """The text with another text written over it from a position on."""
    return overlay(a, new, start, pc.utf8_length(new))


@scalar("reverse", (TEXT,), TEXT, errors=NEVER, stable=True, spark="reverse({0})")
def reverse(a: Datum) -> pa.Array:
    """The characters in reverse order."""
    return pc.utf8_reverse(a)
