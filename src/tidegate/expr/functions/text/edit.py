"""Text: trimming, padding, repeating, replacing, splitting.

The second and third arguments are nearly always constants; then one of Arrow's kernels does the work. If they
differ from row to row, the work is done on offsets (`primitives/utf8.py`) or by DuckDB, with the same result.

Some functions make texts much longer (`repeat`, `lpad`, `rpad`). A value may have 64 MiB and the values of one
batch 1 GiB; beyond that the row fails with PostgreSQL's `requested length too large`, so that the process does not
run out of memory.

    repeat('ab', 3)      -> 'ababab'
    repeat('ab', 10^9)   -> error: requested length too large
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import constant
from tidegate.expr.domain.specs import NO, Specs
from tidegate.expr.domain.text_prefix import by_prefix, keeps_prefix, non_negative
from tidegate.expr.domain.transfer import by_trend
from tidegate.expr.functions.text.position import END, are_constants, left, slice_text, to_int64
from tidegate.expr.model.function import MODERATE, NEVER, UP, BoundTransfer, Function, scalar
from tidegate.expr.model.outcome import (
    Datum,
    Outcome,
    failing,
    length,
    null_where_any,
    spread,
    to_numpy,
    with_errors,
)
from tidegate.expr.model.types import INT4, INT8, TEXT, Type
from tidegate.expr.primitives.duckdb_kernels import duckdb_eval
from tidegate.expr.primitives.text_search import replace_text, split_text
from tidegate.expr.primitives.utf8 import (
    byte_lengths,
    char_counts,
    code_points,
    from_bytes,
    from_code_points,
    slice_chars,
    sum_by_row,
)

MAX_VALUE = 1 << 26
MAX_BATCH = 1 << 30
TOO_LARGE = "requested length too large"
SPACE = pa.scalar(" ")


def duckdb_rows(expression: str, type_: pa.DataType, *args: Datum) -> pa.Array:
    """An expression over `a`, `b`, `c`, evaluated by DuckDB."""
    n = length(*args)
    named = dict(zip("abc", (spread(arg, n) for arg in args), strict=False))
    return duckdb_eval(expression, type_, **named)


# ---------------------------------------------------------------- trimming


def _declare_trim(
    name: str,
    side: str,
    kernel: Callable[..., pa.Array],
    expression: str,
    ends: str,
    aliases: tuple[str, ...] = (),
) -> None:
    """Declares both overloads of a trim. All keep prefixes: trim(p + rest) starts with trim(p).

    If 'ab' remains of p, letters behind it either stay, and 'ab' stands before them, or go, and 'ab' is still there.
    """

    def trim(a: Datum, letters: Datum = SPACE) -> pa.Array:
        if are_constants(letters):
            return kernel(a, letters.as_py()) if letters.as_py() else spread(a, length(a, letters))
        return duckdb_rows(expression, pa.string(), a, letters)

    def trim_spaces(a: Datum) -> pa.Array:
        return trim(a)

    doc = f"The text without the spaces, or the given letters, {ends}."
    declare = partial(
        scalar, name, aliases=aliases, result=TEXT, errors=NEVER, transfer=keeps_prefix, stable=True, doc=doc
    )
    declare(params=(TEXT,), spark=f"trim({side} FROM {{0}})")(trim_spaces)
    declare(params=(TEXT, TEXT), spark=f"trim({side} {{1}} FROM {{0}})")(trim)


_declare_trim("btrim", "BOTH", pc.utf8_trim, "trim(a, b)", "at both ends", aliases=("trim",))
_declare_trim("ltrim", "LEADING", pc.utf8_ltrim, "ltrim(a, b)", "at its start")
_declare_trim("rtrim", "TRAILING", pc.utf8_rtrim, "rtrim(a, b)", "at its end")


# ---------------------------------------------------------------- making longer


def _too_large(size: np.ndarray) -> np.ndarray:
    """Which rows are refused: those above the limit, and all after the batch is full."""
    over = size > MAX_VALUE
    return over | (np.cumsum(np.where(over, 0, size)) > MAX_BATCH)


def _repeat_texts(texts: pa.Array, times: np.ndarray) -> pa.Array:
    """Each text repeated a number of times. Arrow needs 64-bit offsets for the intermediate result."""
    return pc.binary_repeat(texts.cast(pa.large_string()), pa.array(times)).cast(pa.string())


@BoundTransfer
def repeat_transfer(function: Function, out: Type, a: Specs, n: Specs) -> Specs:
    """`repeat(a, n)` over containers: starts with a for n >= 1; may fail, since texts may be long."""
    count = constant(n)
    if count is None or count.as_py() < 1:
        return by_trend(function.claiming(), (a, n), out).may_fail(~a.empty)
    return by_prefix(function, lambda p, _: p, out, (a, n)).may_fail(~a.empty)


@scalar("repeat", (TEXT, INT4), TEXT, transfer=repeat_transfer, cost=MODERATE, stable=True)
def repeat(a: Datum, count: Datum) -> Outcome:
    """The text repeated a number of times."""
    n = length(a, count)
    text = spread(a, n)
    times = np.broadcast_to(np.maximum(to_numpy(count), 0), n).astype(np.int64)
    refused = _too_large(byte_lengths(text) * times)
    values = null_where_any(_repeat_texts(text, np.where(refused, 0, times)), a, count)
    return with_errors(values, failing(refused, TOO_LARGE))


def _padding(a: pa.Array, size: Datum, fill: Datum) -> tuple[pa.Array, np.ndarray]:
    """The padding that brings each text to `size` characters, and which rows are refused."""
    n = len(a)
    fills = spread(fill, n)
    width = char_counts(fills)
    missing = np.maximum(np.broadcast_to(to_numpy(size), n).astype(np.int64) - char_counts(a), 0)
    missing = np.where(width == 0, 0, missing)
    times = -(-missing // np.maximum(width, 1))
    refused = _too_large(byte_lengths(fills) * times)
    padding = _repeat_texts(fills, np.where(refused, 0, times))
    return slice_chars(padding, np.zeros(n, np.int64), missing), refused


def _pad(a: Datum, size: Datum, fill: Datum, before: bool) -> Outcome:
    n = length(a, size, fill)
    text = spread(a, n)
    stop = np.maximum(to_numpy(size), 0).astype(np.int64)
    head = slice_text(text, np.zeros((), np.int64), stop, text, size)
    padding, refused = _padding(text, size, fill)
    values = (
        pc.binary_join_element_wise(padding, head, "")
        if before
        else pc.binary_join_element_wise(head, padding, "")
    )
    return with_errors(null_where_any(values, a, size, fill), failing(refused, TOO_LARGE))


SAFE_PAD = 100
"""Padding to so many characters never fails: at 4 bytes each, in batches of up to 2.6 million rows."""


def _pad_fails(a: Specs, size: Specs) -> np.ndarray:
    count = constant(size)
    return NO if count is not None and count.as_py() <= SAFE_PAD else ~a.empty


@BoundTransfer
def lpad_transfer(function: Function, out: Type, a: Specs, size: Specs, *fill: Specs) -> Specs:
    """Lpad over containers: known where all arguments are exact; it fails only for a large size."""
    return by_trend(function.claiming(), (a, size, *fill), out).may_fail(_pad_fails(a, size))


@BoundTransfer
def rpad_transfer(function: Function, out: Type, a: Specs, size: Specs, *fill: Specs) -> Specs:
    """Rpad over containers: it keeps prefixes up to its size."""

    def prefix_of(prefix: pa.Array, n: pa.Scalar, *_: pa.Scalar) -> pa.Array:
        return left(prefix, pa.scalar(max(n.as_py(), 0), pa.int32()))

    return by_prefix(function, prefix_of, out, (a, size, *fill)).may_fail(_pad_fails(a, size))


_lpad = partial(scalar, "lpad", result=TEXT, transfer=lpad_transfer, cost=MODERATE, stable=True)
_rpad = partial(scalar, "rpad", result=TEXT, transfer=rpad_transfer, cost=MODERATE, stable=True)


@_lpad((TEXT, INT4))
def lpad_spaces(a: Datum, size: Datum) -> Outcome:
    """The text padded with spaces on the left to a number of characters, or cut at its end."""
    return _pad(a, size, SPACE, before=True)


@_lpad((TEXT, INT4, TEXT))
def lpad(a: Datum, size: Datum, fill: Datum) -> Outcome:
    """The text padded with a filling on the left to a number of characters, or cut at its end."""
    return _pad(a, size, fill, before=True)


@_rpad((TEXT, INT4))
def rpad_spaces(a: Datum, size: Datum) -> Outcome:
    """The text padded with spaces on the right to a number of characters, or cut at its end."""
    return _pad(a, size, SPACE, before=False)


@_rpad((TEXT, INT4, TEXT))
def rpad(a: Datum, size: Datum, fill: Datum) -> Outcome:
    """The text padded with a filling on the right to a number of characters, or cut at its end."""
    return _pad(a, size, fill, before=False)


# ---------------------------------------------------------------- replacing


_replaces = partial(scalar, params=(TEXT, TEXT, TEXT), result=TEXT, errors=NEVER, cost=MODERATE, stable=True)


@_replaces("replace", spark="replace({0}, {1}, {2})")
def replace(a: Datum, old: Datum, new: Datum) -> pa.Array:
    """The text with every occurrence of one text replaced by another."""
    if isinstance(a, pa.Array) and are_constants(old, new):
        return replace_text(a, old.as_py(), new.as_py())
    return duckdb_rows("replace(a, b, c)", pa.string(), a, old, new)


# It works letter by letter, so prefixes are kept.
@_replaces("translate", transfer=keeps_prefix, spark="translate({0}, {1}, {2})")
def translate(a: Datum, old: Datum, new: Datum) -> pa.Array:
    """Each letter of the first list replaced by the one at its place in the second, or removed."""
    if not (isinstance(a, pa.Array) and are_constants(old, new)):
        return duckdb_rows("translate(a, b, c)", pa.string(), a, old, new)
    letters, others = old.as_py(), new.as_py()
    # Of several equal letters the first counts, so it is written last.
    table = {
        ord(letter): ord(others[i]) if i < len(others) else 0
        for i, letter in reversed(list(enumerate(letters)))
    }
    points, counts = code_points(a)
    if not table or not len(points):
        return a
    mapped = np.arange(max(int(points.max()), *table) + 1, dtype=np.uint32)
    mapped[list(table)] = list(table.values())
    result = mapped[points]
    stays = (result != 0) | (points == 0)
    return null_where_any(from_code_points(result[stays], sum_by_row(stays, counts)), a)


# ---------------------------------------------------------------- searching and splitting


@scalar(
    "strpos", (TEXT, TEXT), INT4, aliases=("position",), errors=NEVER, transfer=non_negative, stable=True,
    spark="instr({0}, {1})",
)  # fmt: skip
def strpos(a: Datum, part: Datum) -> pa.Array:
    """The position of the second text in the first, 0 if it does not occur; also `position(b in a)`."""
    # Arrow counts bytes, which are the characters of plain ASCII only.
    if isinstance(a, pa.Array) and are_constants(part) and pc.all(pc.string_is_ascii(a), min_count=0).as_py():
        return pc.add(pc.find_substring(a, part.as_py()), pa.scalar(1, pa.int32()))
    return duckdb_rows("strpos(a, b)", pa.int32(), a, part)


ZERO_FIELD = "field position must not be zero"


@BoundTransfer
def split_part_transfer(function: Function, out: Type, a: Specs, separator: Specs, n: Specs) -> Specs:
    """split_part over containers: the first field keeps prefixes; only a position of 0 fails.

    With the separator '--', 'ab-' may go on as 'ab--c': its last letter is unsure. 'ab--c' is sure.
    """
    count, args = constant(n), (a, separator, n)
    if count is not None and count.as_py() == 1:
        return by_prefix(function, _first_field, out, args)
    fails = ~n.empty if count is None or count.as_py() == 0 else NO
    return by_trend(function.claiming(), args, out).may_fail(fails)


def _first_field(prefix: pa.Array, separator: pa.Scalar, n: pa.Scalar) -> pa.Array:
    unsure = len(separator.as_py()) - 1
    if unsure < 1:
        return split_part(prefix, separator, n).values
    ended = pc.match_substring(prefix, separator.as_py())
    return pc.if_else(
        ended, split_part(prefix, separator, n).values, left(prefix, pa.scalar(-unsure, pa.int32()))
    )


@scalar(
    "split_part", (TEXT, TEXT, INT4), TEXT, transfer=split_part_transfer, cost=MODERATE, stable=True,
    spark="split_part({0}, {1}, {2})",
)  # fmt: skip
def split_part(a: Datum, separator: Datum, n: Datum) -> Outcome:
    """The n-th of the parts between separators, counted from the end if n is negative."""
    rows = length(a, separator, n)
    text, number = spread(a, rows), np.broadcast_to(to_numpy(n, 1), rows).astype(np.int64)
    failed = failing(number == 0, ZERO_FIELD)
    if are_constants(separator) and separator.as_py():
        values = _nth(split_text(text, separator.as_py()), number)
    elif are_constants(separator):
        # PostgreSQL does not split at the empty text: all of it is the first and last field.
        values = slice_text(text, np.zeros((), np.int64), np.where(np.abs(number) == 1, END, 0), text, n)
    else:
        whole = "CASE WHEN b = '' THEN CASE WHEN abs(c) = 1 THEN a ELSE '' END ELSE split_part(a, b, c) END"
        values = duckdb_rows(whole, pa.string(), text, separator, pa.array(np.where(number == 0, 1, number)))
    return with_errors(null_where_any(values, a, separator, n), failed)


def _nth(fields: pa.Array, number: np.ndarray) -> pa.Array:
    """The element of each list at a position from 1, or from -1 at the end; '' if there is none."""
    count = pc.fill_null(pc.list_value_length(fields), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    at = np.where(number > 0, number - 1, count + number)
    inside = (at >= 0) & (at < count)
    where = pa.array(np.cumsum(count) - count + at, mask=~inside)
    return pc.fill_null(fields.flatten().take(where), "")


# ---------------------------------------------------------------- spelling


def _hex_digits(values: np.ndarray, digits: int) -> pa.Array:
    """Unsigned numbers in base 16, without leading zeros."""
    shifts = np.arange(digits - 1, -1, -1, dtype=np.uint64) * np.uint64(4)
    nibbles = (values.astype(np.uint64)[:, None] >> shifts) & np.uint64(15)
    letters = np.frombuffer(b"0123456789abcdef", np.uint8)[nibbles]
    text = pc.utf8_ltrim(from_bytes(letters.reshape(-1), np.full(len(values), digits), pa.string()), "0")
    return pc.if_else(pc.equal(text, ""), "0", text)


@scalar("to_hex", (INT4,), TEXT, errors=NEVER, stable=True)
def to_hex4(a: Datum) -> pa.Array:
    """An integer in hexadecimal; a negative one as its 32 bits."""
    return null_where_any(_hex_digits(to_numpy(a).astype(np.int32).view(np.uint32), 8), a)


@scalar("to_hex", (INT8,), TEXT, errors=NEVER, stable=True, spark="lower(hex({0}))")
def to_hex8(a: Datum) -> pa.Array:
    """An integer in hexadecimal; a negative one as its 64 bits."""
    return null_where_any(_hex_digits(to_numpy(a).astype(np.int64).view(np.uint64), 16), a)


# ---------------------------------------------------------------- characters and numbers


@scalar("ascii", (TEXT,), INT4, errors=NEVER, trend=(UP,), stable=True, spark="ascii({0})")
def ascii_(a: Datum) -> pa.Array:
    """The code point of the first character, 0 for the empty text."""
    points, counts = code_points(pc.utf8_slice_codeunits(a, 0, 1))
    return null_where_any(pa.array(sum_by_row(points.astype(np.int64), counts), pa.int32()), a)


@scalar("chr", (INT4,), TEXT, stable=True)
def chr_(n: Datum) -> Outcome:
    """The character with a code point; fails for 0 and for surrogates."""
    # Not AT_ENDS: 0xD7FF and 0xE000 are characters, what lies between is not.
    points = to_int64(n)
    surrogate = (points >= 0xD800) & (points < 0xE000)
    wrong = (points <= 0) | (points > 0x10FFFF) | surrogate
    values = null_where_any(from_code_points(np.where(wrong, 32, points), np.ones(len(points), np.int64)), n)
    if not wrong.any():
        return Outcome(values)
    message = pc.if_else(
        pa.array(surrogate),
        "requested character not valid for encoding: ",
        "requested character too large for encoding: ",
    )
    message = pc.binary_join_element_wise(message, n.cast(pa.string()), "")
    message = pc.if_else(pa.array(points < 0), "character number must be positive", message)
    message = pc.if_else(pa.array(points == 0), "null character not permitted", message)
    return with_errors(values, failing(wrong, message))
