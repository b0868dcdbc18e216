"""Text: trimming, padding, repeating, replacing, splitting.

The second and third arguments are nearly always constants; then one of Arrow's kernels does the work. Where
they differ from row to row, the work is done on offsets (`letters.py`) or by DuckDB, with the same result.

A text can be made much longer here than it was (`repeat`, `lpad`, `rpad`). A value may have 64 MiB, and
what one batch makes 1 GiB: beyond, the row fails with PostgreSQL's `requested length too large`, instead of
the process with its memory.

    repeat('ab', 3)      -> 'ababab'
    repeat('ab', 10^9)   -> error: requested length too large
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.duck import duck
from tidegate.expr.find import replaced, split
from tidegate.expr.function import MODERATE, NEVER, UP, scalar
from tidegate.expr.functions.text import END, cut, fixed, left, wide
from tidegate.expr.letters import (
    char_counts,
    code_points,
    from_code_points,
    glued,
    nulled,
    sizes,
    slice_chars,
    sums,
)  # fmt: skip
from tidegate.expr.outcome import Datum, Outcome, failing, length, spread, to_numpy, with_errors
from tidegate.expr.prefix import at_least, by_prefix, claims, constant
from tidegate.expr.specs import NO, Specs
from tidegate.expr.transfer import by_trend
from tidegate.expr.types import INT4, INT8, TEXT, Type

MAX_VALUE = 1 << 26
MAX_BATCH = 1 << 30
TOO_LARGE = "requested length too large"
SPACE = pa.scalar(" ")


def by_duck(expression: str, type_: pa.DataType, *args: Datum) -> pa.Array:
    """An expression over `a`, `b`, `c` evaluated by DuckDB."""
    n = length(*args)
    named = dict(zip("abc", (spread(arg, n) for arg in args), strict=False))
    return duck(expression, type_, **named)


# ---------------------------------------------------------------- trimming


def _declare_trim(
    names: tuple[str, ...], side: str, kernel: Callable[..., pa.Array], expression: str, ends: str
) -> None:
    """Both overloads of a trim. All keep prefixes: trim(p + rest) starts with trim(p).

    Say 'ab' is left of p. Letters behind it either stay, and 'ab' stands before them, or go, and 'ab' is
    still there.
    """

    def trim(a: Datum, letters: Datum = SPACE) -> pa.Array:
        if fixed(letters):
            return kernel(a, letters.as_py()) if letters.as_py() else spread(a, length(a, letters))
        return by_duck(expression, pa.string(), a, letters)

    def trim_spaces(a: Datum) -> pa.Array:
        return trim(a)

    def transfer(out: Type, *args: Specs) -> Specs:
        return by_prefix(claims(trim), trim, out, args)

    doc = f"The text without spaces, or letters given, {ends}."
    for name in names:
        for params in ((TEXT,), (TEXT, TEXT)):
            said = f"trim({side} FROM {{0}})" if len(params) == 1 else f"trim({side} {{1}} FROM {{0}})"
            declare = partial(scalar, name, params, TEXT, errors=NEVER, transfer=transfer, stable=True)
            declare(doc=doc, spark=said)(trim_spaces if len(params) == 1 else trim)


_declare_trim(("btrim", "trim"), "BOTH", pc.utf8_trim, "trim(a, b)", "at both ends")
_declare_trim(("ltrim",), "LEADING", pc.utf8_ltrim, "ltrim(a, b)", "at its start")
_declare_trim(("rtrim",), "TRAILING", pc.utf8_rtrim, "rtrim(a, b)", "at its end")


# ---------------------------------------------------------------- making longer


def _too_large(size: np.ndarray) -> np.ndarray:
    """Which rows are refused: those above the limit, and all from where the batch is full."""
    over = size > MAX_VALUE
    return over | (np.cumsum(np.where(over, 0, size)) > MAX_BATCH)


def _repeated(texts: pa.Array, times: np.ndarray) -> pa.Array:
    """Each text so many times. Arrow wants room for all texts times the greatest number, and so it is given wide offsets."""
    return pc.binary_repeat(texts.cast(pa.large_string()), pa.array(times)).cast(pa.string())


def repeat_transfer(out: Type, a: Specs, n: Specs) -> Specs:
    """repeat(a, n) starts with a for n >= 1. It may fail, as no bound tells the length of a text."""
    count = constant(n)
    if count is None or count.as_py() < 1:
        return by_trend(claims(repeat), (a, n), out).may_fail(~a.empty)
    return by_prefix(claims(repeat), lambda p, _: p, out, (a, n)).may_fail(~a.empty)


@scalar(
    "repeat",
    (TEXT, INT4),
    TEXT,
    cost=MODERATE,
    stable=True,
    transfer=repeat_transfer,
)
def repeat(a: Datum, count: Datum) -> Outcome:
    """The text so many times, one behind the other."""
    n = length(a, count)
    text = spread(a, n)
    times = np.broadcast_to(np.maximum(to_numpy(count), 0), n).astype(np.int64)
    refused = _too_large(sizes(text) * times)
    values = nulled(_repeated(text, np.where(refused, 0, times)), a, count)
    return with_errors(values, failing(refused, TOO_LARGE))


def _padding(a: pa.Array, size: Datum, fill: Datum) -> tuple[pa.Array, np.ndarray]:
    """What must be added to bring each text to `size` characters, and which rows are refused."""
    n = len(a)
    fills = spread(fill, n)
    width = char_counts(fills)
    missing = np.maximum(np.broadcast_to(to_numpy(size), n).astype(np.int64) - char_counts(a), 0)
    missing = np.where(width == 0, 0, missing)
    times = -(-missing // np.maximum(width, 1))
    refused = _too_large(sizes(fills) * times)
    padding = _repeated(fills, np.where(refused, 0, times))
    return slice_chars(padding, np.zeros(n, np.int64), missing), refused


def _pad(a: Datum, size: Datum, fill: Datum, before: bool) -> Outcome:
    n = length(a, size, fill)
    text = spread(a, n)
    wanted = np.maximum(to_numpy(size), 0).astype(np.int64)
    kept = cut(text, np.zeros((), np.int64), wanted, text, size)
    padding, refused = _padding(text, size, fill)
    values = (
        pc.binary_join_element_wise(padding, kept, "")
        if before
        else pc.binary_join_element_wise(kept, padding, "")
    )
    return with_errors(nulled(values, a, size, fill), failing(refused, TOO_LARGE))


SAFE_PAD = 100
"""Characters that padding to never fails: at 4 bytes each, in batches of up to 2.6 million rows."""


def _pad_fails(a: Specs, size: Specs) -> np.ndarray:
    count = constant(size)
    return NO if count is not None and count.as_py() <= SAFE_PAD else ~a.empty


def lpad_transfer(out: Type, a: Specs, size: Specs, *fill: Specs) -> Specs:
    """What lpad gives over containers: known where exact; it fails only where much is asked for."""
    kernel = lpad if fill else lpad_spaces
    return by_trend(claims(kernel), (a, size, *fill), out).may_fail(_pad_fails(a, size))


def rpad_transfer(out: Type, a: Specs, size: Specs, *fill: Specs) -> Specs:
    """What rpad gives keeps prefixes as far as its size."""
    kernel = rpad if fill else rpad_spaces
    base = by_prefix(claims(kernel), lambda p, n, *_: left(p, _not_negative(n)), out, (a, size, *fill))
    return base.may_fail(_pad_fails(a, size))


def _not_negative(n: pa.Scalar) -> pa.Scalar:
    return pa.scalar(max(n.as_py(), 0), pa.int32())


@scalar("lpad", (TEXT, INT4), TEXT, transfer=lpad_transfer, cost=MODERATE, stable=True)
def lpad_spaces(a: Datum, size: Datum) -> Outcome:
    """The text brought to so many characters by spaces before it, or by cutting its end."""
    return _pad(a, size, SPACE, before=True)


@scalar("lpad", (TEXT, INT4, TEXT), TEXT, transfer=lpad_transfer, cost=MODERATE, stable=True)
def lpad(a: Datum, size: Datum, fill: Datum) -> Outcome:
    """The text brought to so many characters by a filling before it, or by cutting its end."""
    return _pad(a, size, fill, before=True)


@scalar("rpad", (TEXT, INT4), TEXT, transfer=rpad_transfer, cost=MODERATE, stable=True)
def rpad_spaces(a: Datum, size: Datum) -> Outcome:
    """The text brought to so many characters by spaces behind it, or by cutting its end."""
    return _pad(a, size, SPACE, before=False)


@scalar("rpad", (TEXT, INT4, TEXT), TEXT, transfer=rpad_transfer, cost=MODERATE, stable=True)
def rpad(a: Datum, size: Datum, fill: Datum) -> Outcome:
    """The text brought to so many characters by a filling behind it, or by cutting its end."""
    return _pad(a, size, fill, before=False)


# ---------------------------------------------------------------- replacing


@scalar(
    "replace",
    (TEXT, TEXT, TEXT),
    TEXT,
    errors=NEVER,
    cost=MODERATE,
    stable=True,
    spark="replace({0}, {1}, {2})",
)
def replace(a: Datum, old: Datum, new: Datum) -> pa.Array:
    """The text with every occurrence of one text replaced by another."""
    if isinstance(a, pa.Array) and fixed(old, new):
        return replaced(a, old.as_py(), new.as_py())
    return by_duck("replace(a, b, c)", pa.string(), a, old, new)


@scalar(
    "translate", (TEXT, TEXT, TEXT), TEXT, errors=NEVER, cost=MODERATE, stable=True, spark="translate({0}, {1}, {2})",
    # It works letter by letter, so prefixes are kept.
    transfer=lambda out, *args: by_prefix(claims(translate), translate, out, args),
)  # fmt: skip
def translate(a: Datum, old: Datum, new: Datum) -> pa.Array:
    """Each letter of the first list replaced by that at its place in the second, or removed without one."""
    if not (isinstance(a, pa.Array) and fixed(old, new)):
        return by_duck("translate(a, b, c)", pa.string(), a, old, new)
    letters, others = old.as_py(), new.as_py()
    # The first of several equal letters counts: so it is written last.
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
    kept = (result != 0) | (points == 0)
    return nulled(from_code_points(result[kept], sums(kept, counts)), a)


# ---------------------------------------------------------------- searching and splitting


def position_transfer(out: Type, *args: Specs) -> Specs:
    """A position is never below 0."""
    return at_least(claims(strpos), 0, out, args)


_place = partial(scalar, params=(TEXT, TEXT), result=INT4, errors=NEVER, stable=True, spark="instr({0}, {1})")


@_place("strpos", transfer=position_transfer)
@_place("position", transfer=position_transfer)
def strpos(a: Datum, part: Datum) -> pa.Array:
    """Where the second text first occurs in the first, 0 if nowhere; `position(b in a)` is strpos(a, b)."""
    # Arrow counts bytes, which are the characters of plain ASCII only.
    if isinstance(a, pa.Array) and fixed(part) and pc.all(pc.string_is_ascii(a), min_count=0).as_py():
        return pc.add(pc.find_substring(a, part.as_py()), pa.scalar(1, pa.int32()))
    return by_duck("strpos(a, b)", pa.int32(), a, part)


ZERO_FIELD = "field position must not be zero"


def split_part_transfer(out: Type, a: Specs, separator: Specs, n: Specs) -> Specs:
    """The first field keeps prefixes, as far as no separator can begin in them; only a position of 0 fails.

    With the separator '--', 'ab-' may go on as 'ab--c': its last letter is unsure. 'ab--c' is settled.
    """
    count = constant(n)
    if count is None:
        return by_trend(claims(split_part), (a, separator, n), out).may_fail(~n.empty)
    if count.as_py() != 1:
        failed = ~n.empty if count.as_py() == 0 else NO
        return by_trend(claims(split_part), (a, separator, n), out).may_fail(failed)
    return by_prefix(claims(split_part), _first_field, out, (a, separator, n))


def _first_field(prefix: pa.Array, separator: pa.Scalar, n: pa.Scalar) -> pa.Array:
    unsure = len(separator.as_py()) - 1
    if unsure < 1:
        return split_part(prefix, separator, n).values
    ended = pc.match_substring(prefix, separator.as_py())
    return pc.if_else(
        ended, split_part(prefix, separator, n).values, left(prefix, pa.scalar(-unsure, pa.int32()))
    )


@scalar(
    "split_part",
    (TEXT, TEXT, INT4),
    TEXT,
    transfer=split_part_transfer,
    cost=MODERATE,
    stable=True,
    spark="split_part({0}, {1}, {2})",
)
def split_part(a: Datum, separator: Datum, n: Datum) -> Outcome:
    """The n-th of the fields that a separator makes of the text, counted from the end if n is negative."""
    rows = length(a, separator, n)
    text, number = spread(a, rows), np.broadcast_to(to_numpy(n, 1), rows).astype(np.int64)
    failed = failing(number == 0, ZERO_FIELD)
    if fixed(separator) and separator.as_py():
        values = _nth(split(text, separator.as_py()), number)
    elif fixed(separator):
        # PostgreSQL does not split at the empty text: all of it is the first and last field.
        values = cut(text, np.zeros((), np.int64), np.where(np.abs(number) == 1, END, 0), text, n)
    else:
        whole = "CASE WHEN b = '' THEN CASE WHEN abs(c) = 1 THEN a ELSE '' END ELSE split_part(a, b, c) END"
        values = by_duck(whole, pa.string(), text, separator, pa.array(np.where(number == 0, 1, number)))
    return with_errors(nulled(values, a, separator, n), failed)


def _nth(fields: pa.Array, number: np.ndarray) -> pa.Array:
    """The element of each list at a position from 1, or from -1 at the end; the empty text outside."""
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
    text = pc.utf8_ltrim(glued(letters.reshape(-1), np.full(len(values), digits), pa.string()), "0")
    return pc.if_else(pc.equal(text, ""), "0", text)


@scalar("to_hex", (INT4,), TEXT, errors=NEVER, stable=True)
def to_hex4(a: Datum) -> pa.Array:
    """An integer in base 16; negative ones as their 32 bits."""
    return nulled(_hex_digits(to_numpy(a).astype(np.int32).view(np.uint32), 8), a)


@scalar("to_hex", (INT8,), TEXT, errors=NEVER, stable=True, spark="lower(hex({0}))")
def to_hex8(a: Datum) -> pa.Array:
    """An integer in base 16; negative ones as their 64 bits."""
    return nulled(_hex_digits(to_numpy(a).astype(np.int64).view(np.uint64), 16), a)


@scalar("quote_literal", (TEXT,), TEXT, errors=NEVER, stable=True)
def quote_literal(a: Datum) -> pa.Array:
    """The text as a string literal of SQL."""
    doubled = pc.replace_substring(pc.replace_substring(a, "'", "''"), "\\", "\\\\")
    opening = pc.if_else(pc.match_substring(a, "\\"), "E'", "'")
    return pc.binary_join_element_wise(opening, doubled, "'", "")


# ---------------------------------------------------------------- characters and numbers


@scalar("ascii", (TEXT,), INT4, errors=NEVER, trend=(UP,), stable=True, spark="ascii({0})")
def ascii_(a: Datum) -> pa.Array:
    """The code point of the first character, 0 for the empty text; UP, as text is ordered by code point."""
    points, counts = code_points(pc.utf8_slice_codeunits(a, 0, 1))
    return nulled(pa.array(sums(points.astype(np.int64), counts), pa.int32()), a)


@scalar("chr", (INT4,), TEXT, stable=True)
def chr_(n: Datum) -> Outcome:
    """The character with that code point; 0 and the surrogates are none."""
    # Not AT_ENDS: 0xD7FF and 0xE000 are characters, what lies between is not.
    points = wide(n)
    surrogate = (points >= 0xD800) & (points < 0xE000)
    wrong = (points <= 0) | (points > 0x10FFFF) | surrogate
    values = nulled(from_code_points(np.where(wrong, 32, points), np.ones(len(points), np.int64)), n)
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
