r"""Patterns: LIKE, ILIKE, starts_with, and regular expressions.

A constant pattern is parsed once. The prefix that it requires of a text is a range of texts
(`domain/text_prefix.py`), by which it prunes:

| condition | can be true only where | is true for all where |
|---|---|---|
| `x LIKE 'ab%'`, `starts_with(x, 'ab')`, `x ~ '^ab'` | the range of x meets 'ab' .. 'ac' | it lies within |
| `x LIKE 'ab'`, `x ~ '^ab$'` | it holds 'ab' | it is 'ab' |
| `x LIKE 'ab%c_'` | it meets 'ab' .. 'ac' | – |
| `x ILIKE 'ab%'`, `x ~* '^ab'` | the range of lower(x) meets 'ab' .. 'ac' | it lies within (ILIKE) |

A valid constant pattern never fails, which matters as much: a filter that may fail cannot prune. An invalid
pattern fails for every row; PostgreSQL may answer before it reaches the mistake ('a' LIKE 'b\' is false there).

Regular expressions run on RE2 (`primitives/regex.py`). Patterns that differ from row to row are run once for each
distinct one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import constant, constants
from tidegate.expr.domain.specs import Specs
from tidegate.expr.domain.text_prefix import common_prefix, keeps_prefix, successor
from tidegate.expr.domain.transfer import by_trend
from tidegate.expr.duckdb_sql import forms as duckdb_form
from tidegate.expr.functions.boolean.logic import not_transfer
from tidegate.expr.functions.compare.comparison import equal_transfer
from tidegate.expr.functions.text.edit import duckdb_rows
from tidegate.expr.functions.text.position import are_constants, lower
from tidegate.expr.model.function import HEAVY, MODERATE, NEVER, REGISTRY, BoundTransfer, Function, scalar
from tidegate.expr.model.outcome import Datum, Outcome, failing, length, spread, to_bools, with_errors
from tidegate.expr.model.types import BOOL, TEXT, Type
from tidegate.expr.primitives.cancel import checked
from tidegate.expr.primitives.regex import MAX_PATTERN_LENGTH, RegexEnding, compile_regex, escape_regex
from tidegate.expr.primitives.text_search import contains
from tidegate.expr.spark_sql import forms as spark_form

PERCENT, UNDERSCORE = "%", "_"
BACKSLASH = pa.scalar("\\")


class LikePattern(NamedTuple):
    """A parsed LIKE pattern: wildcards, and runs of plain letters between them."""

    parts: tuple[tuple[bool, str], ...] = ()
    """(True, letters) or (False, wildcard)."""
    error: str | None = None

    @property
    def prefix(self) -> str:
        """The letters that a text must start with."""
        return self.parts[0][1] if self.parts and self.parts[0][0] else ""

    @property
    def ending(self) -> RegexEnding:
        """What may follow the prefix."""
        rest = set(self.parts[bool(self.prefix) :])
        if not rest:
            return RegexEnding.NOTHING
        return RegexEnding.ANYTHING if rest == {(False, PERCENT)} else RegexEnding.SOMETHING

    @property
    def canonical(self) -> str:
        """The same pattern with a backslash as its escape."""
        escaped = str.maketrans({letter: "\\" + letter for letter in "\\%_"})
        return "".join(text.translate(escaped) if plain else text for plain, text in self.parts)

    @property
    def re2(self) -> str:
        """The same pattern as a regular expression."""
        wild = {PERCENT: ".*", UNDERSCORE: "."}
        return (
            r"(?s)\A"
            + "".join(escape_regex(text) if plain else wild[text] for plain, text in self.parts)
            + r"\z"
        )


def parse_like(pattern: str, escape: str = "\\", *, fold: bool = False) -> LikePattern:
    """Parses a LIKE pattern, in lower case if `fold`; a pattern that ends with its escape has an `error`."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        return LikePattern(error="LIKE pattern is too long")
    return _parse_like(pattern, escape, fold)


def like_infix(pattern: str) -> str | None:
    """The text x of a LIKE pattern '%x%'; None for all other patterns."""
    match parse_like(pattern):
        case LikePattern(((False, "%"), (True, text), (False, "%")), None):
            return text
        case _:
            return None


@lru_cache(maxsize=1024)
def _parse_like(pattern: str, escape: str, fold: bool) -> LikePattern:
    if len(escape) > 1:
        return LikePattern(error="invalid escape string")
    parts: list[tuple[bool, str]] = []
    letters = iter(pattern)
    for letter in letters:
        plain = letter not in (PERCENT, UNDERSCORE) or letter == escape
        if letter == escape:
            letter = next(letters, "")
            if not letter:
                return LikePattern(error="LIKE pattern must not end with escape character")
        if plain and parts and parts[-1][0]:
            parts[-1] = (True, parts[-1][1] + letter)
        else:
            parts.append((plain, letter))
    # Folded only now, since the escape character is case-sensitive.
    return LikePattern(
        tuple((plain, lower(pa.scalar(text)).as_py() if fold else text) for plain, text in parts)
    )


# ---------------------------------------------------------------- over containers


def narrow_by_prefix(base: Specs, a: Specs, prefix: str, ending: RegexEnding) -> Specs:
    """A condition that requires texts to start with `prefix`, narrowed by their range."""
    assert base.true is not None
    assert base.false is not None
    if ending is RegexEnding.NOTHING:
        same = equal_transfer(BOOL, a, Specs.literal(TEXT, pa.scalar(prefix)))
        assert same.true is not None
        assert same.false is not None
        return Specs.boolean(base.true & same.true, base.false & same.false, base.null, base.error)
    low, high = a.bounds()
    ceiling = successor(prefix)
    # Unknown bounds compare as null, which counts as False on both sides: nothing is excluded, nothing is
    # sure.
    outside = to_bools(pc.less(high, prefix))
    inside = to_bools(pc.greater_equal(low, prefix)) if prefix else np.ones(1, bool)
    if prefix and ceiling is not None:
        outside = outside | to_bools(pc.greater_equal(low, ceiling))
        inside = inside & to_bools(pc.less(high, ceiling))
    may_fail_to = ~inside if ending is RegexEnding.ANYTHING else np.ones(1, bool)
    return Specs.boolean(base.true & ~outside, base.false & may_fail_to, base.null, base.error)


def narrow_by_folded_prefix(base: Specs, a: Specs, prefix: str, ending: RegexEnding) -> Specs:
    """`narrow_by_prefix` for lower(a), by the common prefix, since lower case does not keep the order."""
    if a.low is None or a.high is None or ending is RegexEnding.NOTHING:
        (function,) = REGISTRY.overloads("lower")
        return narrow_by_prefix(base, keeps_prefix(function, TEXT, a), prefix, ending)
    assert base.true is not None
    assert base.false is not None
    start = lower(common_prefix(a.low, a.high))
    inside = to_bools(pc.starts_with(start, prefix))
    # Where the common prefix is shorter than the pattern's, texts may continue with the rest of it.
    open_ = to_bools(
        pc.is_in(start, value_set=pa.array([prefix[:size] for size in range(len(prefix))], pa.string()))
    )
    may_fail_to = ~inside if ending is RegexEnding.ANYTHING else np.ones(1, bool)
    return Specs.boolean(base.true & (inside | open_), base.false & may_fail_to, base.null, base.error)


def _unsure(function: Function, args: tuple[Specs, ...]) -> Specs:
    """The condition if its pattern is unknown or invalid."""
    return by_trend(function.claiming(), args, BOOL).may_fail(~args[0].empty)


# ---------------------------------------------------------------- LIKE


def _like(a: Datum, pattern: Datum, escape: Datum = BACKSLASH, fold: bool = False) -> Outcome:
    """LIKE with any mixture of constants and arrays; `fold` compares in lower case."""
    n = length(a, pattern, escape)
    text = lower(spread(a, n)) if fold else spread(a, n)
    if not are_constants(escape):
        return run_per_constant(lambda x, p, e: _like(x, p, e, fold), pa.bool_(), text, pattern, escape)
    if are_constants(pattern):
        return _like_constant(text, parse_like(pattern.as_py(), escape.as_py(), fold=fold))
    patterns = spread(pattern, n).dictionary_encode()
    likes = [parse_like(p, escape.as_py(), fold=fold) for p in checked(patterns.dictionary.to_pylist())]
    canonical = pa.array([None if like.error else like.canonical for like in likes], pa.string())
    errors = pa.array([like.error for like in likes], pa.string()).take(patterns.indices)
    values = duckdb_rows("like_escape(a, b, '\\')", pa.bool_(), text, canonical.take(patterns.indices))
    return with_errors(values, None if errors.null_count == n else errors)


def _like_constant(a: pa.Array, like: LikePattern) -> Outcome:
    if like.error:
        return fail_valid_rows(a, like.error, pa.bool_())
    match like.parts:
        case ():
            return Outcome(pc.equal(a, ""))
        case ((True, text),):
            return Outcome(pc.equal(a, text))
        case ((True, text), (False, "%")):
            return Outcome(pc.starts_with(a, text))
        case ((False, "%"), (True, text)):
            return Outcome(pc.ends_with(a, text))
        case ((False, "%"), (True, text), (False, "%")):
            return Outcome(contains(a, text))
        case _:
            return Outcome(pc.match_substring_regex(a, like.re2))


def fail_valid_rows(a: pa.Array, message: str, type_: pa.DataType) -> Outcome:
    """The same error for every row that is not null."""
    return Outcome(pa.nulls(len(a), type_), failing(a.is_valid(), message))


def _ilike(a: Datum, pattern: Datum, escape: Datum = BACKSLASH) -> Outcome:
    return _like(a, pattern, escape, fold=True)


def _like_transfer(function: Function, a: Specs, pattern: Specs, *escape: Specs, fold: bool = False) -> Specs:
    values = constants((pattern, *escape))
    like = None if values is None else parse_like(*(value.as_py() for value in values), fold=fold)
    if like is None or like.error:
        return _unsure(function, (a, pattern, *escape))
    base = by_trend(function.claiming(), (a, pattern, *escape), BOOL)
    return (narrow_by_folded_prefix if fold else narrow_by_prefix)(base, a, like.prefix, like.ending)


@BoundTransfer
def like_transfer(function: Function, out: Type, *args: Specs) -> Specs:
    """LIKE over containers: a constant pattern is a range of texts."""
    return _like_transfer(function, *args)


@BoundTransfer
def ilike_transfer(function: Function, out: Type, *args: Specs) -> Specs:
    """ILIKE over containers: LIKE of lower-case text."""
    return _like_transfer(function, *args, fold=True)


_likes = partial(
    scalar,
    "like",
    result=BOOL,
    transfer=like_transfer,
    cost=MODERATE,
    stable=True,
    spark=spark_form.like_form,
)
_ilikes = partial(scalar, "ilike", result=BOOL, transfer=ilike_transfer, cost=MODERATE, stable=True)


@_likes((TEXT, TEXT), duckdb=duckdb_form.like)
def like(a: Datum, pattern: Datum) -> Outcome:
    """Whether the whole text matches a pattern, in which % is any text and _ any character."""
    return _like(a, pattern)


@_likes((TEXT, TEXT, TEXT))
def like_escape(a: Datum, pattern: Datum, escape: Datum) -> Outcome:
    """LIKE … ESCAPE: the character that makes % and _ plain letters; none if empty."""
    return _like(a, pattern, escape)


@_ilikes((TEXT, TEXT))
def ilike(a: Datum, pattern: Datum) -> Outcome:
    """LIKE that ignores case."""
    return _ilike(a, pattern)


@_ilikes((TEXT, TEXT, TEXT))
def ilike_escape(a: Datum, pattern: Datum, escape: Datum) -> Outcome:
    """ILIKE … ESCAPE: LIKE … ESCAPE that ignores case."""
    return _ilike(a, pattern, escape)


@BoundTransfer
def starts_with_transfer(function: Function, out: Type, a: Specs, prefix: Specs) -> Specs:
    """starts_with over containers: a constant prefix is a range of texts."""
    base, value = by_trend(function.claiming(), (a, prefix), BOOL), constant(prefix)
    return base if value is None else narrow_by_prefix(base, a, value.as_py(), RegexEnding.ANYTHING)


@scalar(
    "starts_with", (TEXT, TEXT), BOOL, errors=NEVER, transfer=starts_with_transfer, stable=True,
    spark="startswith({0}, {1})",
)  # fmt: skip
def starts_with(a: Datum, prefix: Datum) -> pa.Array:
    """Whether the text starts with another text."""
    if isinstance(a, pa.Array) and are_constants(prefix):
        return pc.starts_with(a, prefix.as_py())
    return duckdb_rows("starts_with(a, b)", pa.bool_(), a, prefix)


# ---------------------------------------------------------------- regular expressions


def run_per_constant(kernel: Callable[..., Outcome], type_: pa.DataType, a: Datum, *keys: Datum) -> Outcome:
    """`kernel(a, *keys)` for a kernel that needs constant keys: one run per distinct combination."""
    n = length(a, *keys)
    text = spread(a, n)
    if any(isinstance(key, pa.Scalar) and not key.is_valid for key in keys):
        return Outcome(pa.nulls(n, type_))
    varying = next((i for i, key in enumerate(keys) if isinstance(key, pa.Array)), None)
    if varying is None:
        return kernel(text, *keys)
    codes = keys[varying].dictionary_encode()
    indices = pc.fill_null(codes.indices, -1).to_numpy(zero_copy_only=False)
    order = np.argsort(indices, kind="stable")
    edges = np.searchsorted(indices[order], np.arange(len(codes.dictionary) + 1))
    pieces = [Outcome(pa.nulls(int(edges[0]), type_))]
    for i, value in enumerate(checked(codes.dictionary, every=1)):
        rows = pa.array(order[edges[i] : edges[i + 1]])
        row_keys = [key.take(rows) if isinstance(key, pa.Array) else key for key in keys]
        row_keys[varying] = value
        pieces.append(run_per_constant(kernel, type_, text.take(rows), *row_keys))
    return _rejoin(pieces, pa.array(np.argsort(order)))


def _rejoin(pieces: list[Outcome], back: pa.Array) -> Outcome:
    """The outcomes of groups of rows as one outcome, in the order of the rows."""
    values = pa.concat_arrays([piece.values for piece in pieces])
    messages = [pa.nulls(len(p.values), pa.string()) if p.errors is None else p.errors for p in pieces]
    errors = pa.concat_arrays(messages)
    return with_errors(values.take(back), None if errors.null_count == len(errors) else errors.take(back))


def match_regex(a: Datum, pattern: Datum, options: str = "") -> Outcome:
    """Whether the pattern matches anywhere in the text."""

    def kernel(text: pa.Array, pattern: pa.Scalar) -> Outcome:
        regex = compile_regex(pattern.as_py(), options)
        if regex.error:
            return fail_valid_rows(text, regex.error, pa.bool_())
        return Outcome(pc.match_substring_regex(text, regex.re2))

    return run_per_constant(kernel, pa.bool_(), a, pattern)


def _declare_match(name: str, options: str, wants_match: bool, doc: str) -> None:
    def kernel(a: Datum, pattern: Datum) -> Outcome:
        values, errors = match_regex(a, pattern, options)
        return Outcome(values if wants_match else pc.invert(values), errors)

    def transfer(function: Function, out: Type, a: Specs, pattern: Specs) -> Specs:
        match = regex_transfer(
            replace(function, kernel=partial(match_regex, options=options)), a, pattern, options
        )
        return match if wants_match else not_transfer(out, match)

    declare = partial(scalar, name, (TEXT, TEXT), BOOL, cost=HEAVY, stable=True, doc=doc)
    declare(transfer=BoundTransfer(transfer))(kernel)


def regex_transfer(function: Function, a: Specs, pattern: Specs, options: str) -> Specs:
    """A match over containers: a constant pattern that starts with ^ and letters is a range of texts."""
    value = constant(pattern)
    regex = None if value is None else compile_regex(value.as_py(), options)
    if regex is None or regex.error:
        return _unsure(function, (a, pattern))
    base = by_trend(function.claiming(), (a, pattern), BOOL)
    narrow = narrow_by_folded_prefix if regex.folded else narrow_by_prefix
    return narrow(base, a, regex.prefix, regex.ending)


_declare_match("~", "", True, "Whether a regular expression matches anywhere in the text.")
_declare_match("~*", "i", True, "Whether a regular expression matches anywhere, ignoring case.")
_declare_match("!~", "", False, "Whether a regular expression matches nowhere in the text.")
_declare_match("!~*", "i", False, "Whether a regular expression matches nowhere, ignoring case.")
