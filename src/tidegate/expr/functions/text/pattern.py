r"""Patterns: LIKE, ILIKE, starts_with, and regular expressions.

A constant pattern is taken apart once. What it demands of the start of a text turns into a range
(`prefix.py`), and so it prunes:

| condition | can be true only where | is true for all where |
|---|---|---|
| `x LIKE 'ab%'`, `starts_with(x, 'ab')`, `x ~ '^ab'` | the range of x meets 'ab' .. 'ac' | it lies within |
| `x LIKE 'ab'`, `x ~ '^ab$'` | it holds 'ab' | it is 'ab' |
| `x LIKE 'ab%c_'` | it meets 'ab' .. 'ac' | – |
| `x ILIKE 'ab%'`, `x ~* '^ab'` | the range of lower(x) meets 'ab' .. 'ac' | it lies within (ILIKE) |

A valid constant pattern never fails, which matters as much: a filter that may fail cannot be pruned. An
invalid one fails for every row; PostgreSQL may answer before it reaches the flaw ('a' LIKE 'b\' is false
there).

Regular expressions run on RE2 (`regex.py`). Patterns that differ from row to row are run once for each
distinct one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import spark_form
from tidegate.expr.cancel import checked
from tidegate.expr.find import contains
from tidegate.expr.function import HEAVY, MODERATE, NEVER, scalar
from tidegate.expr.functions.compare import equal_transfer
from tidegate.expr.functions.text import fixed, lower
from tidegate.expr.functions.text_edit import by_duck
from tidegate.expr.outcome import Datum, Outcome, failing, length, spread, with_errors
from tidegate.expr.prefix import by_prefix, claims, common_prefix, constants, successor
from tidegate.expr.regex import LONGEST, Ending, compiled, quoted
from tidegate.expr.specs import Specs, to_bools
from tidegate.expr.transfer import by_trend
from tidegate.expr.types import BOOL, TEXT, Type

MANY, ONE = "%", "_"
BACKSLASH = pa.scalar("\\")


class Like(NamedTuple):
    """A LIKE pattern taken apart: wildcards, and runs of plain letters between them."""

    parts: tuple[tuple[bool, str], ...] = ()
    """(True, letters) or (False, wildcard)."""
    error: str | None = None

    @property
    def prefix(self) -> str:
        """The letters that a text must start with."""
        return self.parts[0][1] if self.parts and self.parts[0][0] else ""

    @property
    def ending(self) -> Ending:
        """What may follow them."""
        rest = set(self.parts[bool(self.prefix) :])
        if not rest:
            return Ending.NOTHING
        return Ending.ANYTHING if rest == {(False, MANY)} else Ending.SOMETHING

    @property
    def canonical(self) -> str:
        """The same pattern with a backslash as its escape."""
        escaped = str.maketrans({letter: "\\" + letter for letter in "\\%_"})
        return "".join(text.translate(escaped) if plain else text for plain, text in self.parts)

    @property
    def re2(self) -> str:
        """The same pattern as a regular expression."""
        wild = {MANY: ".*", ONE: "."}
        return (
            r"(?s)\A" + "".join(quoted(text) if plain else wild[text] for plain, text in self.parts) + r"\z"
        )


def parsed(pattern: str, escape: str = "\\", *, fold: bool = False) -> Like:
    """A LIKE pattern taken apart, in lower case if `fold`; if its escape ends it, it has an `error`."""
    if len(pattern) > LONGEST:
        return Like(error="LIKE pattern is too long")
    return _parsed(pattern, escape, fold)


def sought(pattern: str) -> str | None:
    """The text that LIKE with this pattern looks for anywhere in others; None: it asks for something else."""
    match parsed(pattern):
        case Like(((False, "%"), (True, text), (False, "%")), None):
            return text
        case _:
            return None


@lru_cache(maxsize=1024)
def _parsed(pattern: str, escape: str, fold: bool) -> Like:
    if len(escape) > 1:
        return Like(error="invalid escape string")
    parts: list[tuple[bool, str]] = []
    letters = iter(pattern)
    for letter in letters:
        plain = letter not in (MANY, ONE) or letter == escape
        if letter == escape:
            letter = next(letters, "")
            if not letter:
                return Like(error="LIKE pattern must not end with escape character")
        if plain and parts and parts[-1][0]:
            parts[-1] = (True, parts[-1][1] + letter)
        else:
            parts.append((plain, letter))
    # Folded only now: the escape character is told by its case.
    return Like(tuple((plain, lower(pa.scalar(text)).as_py() if fold else text) for plain, text in parts))


# ---------------------------------------------------------------- over containers


def demanding(base: Specs, a: Specs, prefix: str, ending: Ending) -> Specs:
    """A condition that a text start with `prefix`, narrowed by the range of the texts."""
    assert base.true is not None
    assert base.false is not None
    if ending is Ending.NOTHING:
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
    may_fail_to = ~inside if ending is Ending.ANYTHING else np.ones(1, bool)
    return Specs.boolean(base.true & ~outside, base.false & may_fail_to, base.null, base.error)


def demanding_folded(base: Specs, a: Specs, prefix: str, ending: Ending) -> Specs:
    """The same for lower(a): told by what all texts start with, as lower case has no order to speak of."""
    if a.low is None or a.high is None or ending is Ending.NOTHING:
        return demanding(base, by_prefix(claims(lower), lower, TEXT, (a,)), prefix, ending)
    assert base.true is not None
    assert base.false is not None
    start = lower(common_prefix(a.low, a.high))
    inside = to_bools(pc.starts_with(start, prefix))
    # Where less is known of the start than the pattern demands, it may still go on so.
    open_ = to_bools(
        pc.is_in(start, value_set=pa.array([prefix[:size] for size in range(len(prefix))], pa.string()))
    )
    may_fail_to = ~inside if ending is Ending.ANYTHING else np.ones(1, bool)
    return Specs.boolean(base.true & (inside | open_), base.false & may_fail_to, base.null, base.error)


def _unsure(kernel: Callable[..., Outcome], args: tuple[Specs, ...]) -> Specs:
    """The condition where nothing is known of its pattern, or it is known to be wrong."""
    return by_trend(claims(kernel), args, BOOL).may_fail(~args[0].empty)


# ---------------------------------------------------------------- LIKE


def _like(a: Datum, pattern: Datum, escape: Datum = BACKSLASH, fold: bool = False) -> Outcome:
    """LIKE with any mixture of constants and arrays; `fold` compares in lower case."""
    n = length(a, pattern, escape)
    text = lower(spread(a, n)) if fold else spread(a, n)
    if not fixed(escape):
        return each_constant(lambda x, p, e: _like(x, p, e, fold), pa.bool_(), text, pattern, escape)
    if fixed(pattern):
        return _like_constant(text, parsed(pattern.as_py(), escape.as_py(), fold=fold))
    patterns = spread(pattern, n).dictionary_encode()
    likes = [parsed(p, escape.as_py(), fold=fold) for p in checked(patterns.dictionary.to_pylist())]
    canonical = pa.array([None if like.error else like.canonical for like in likes], pa.string())
    errors = pa.array([like.error for like in likes], pa.string()).take(patterns.indices)
    values = by_duck("like_escape(a, b, '\\')", pa.bool_(), text, canonical.take(patterns.indices))
    return with_errors(values, None if errors.null_count == n else errors)


def _like_constant(a: pa.Array, like: Like) -> Outcome:
    if like.error:
        return all_failed(a, like.error, pa.bool_())
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


def all_failed(a: pa.Array, message: str, type_: pa.DataType) -> Outcome:
    """The same error for every row that is not null."""
    return Outcome(pa.nulls(len(a), type_), failing(a.is_valid(), message))


def _ilike(a: Datum, pattern: Datum, escape: Datum = BACKSLASH) -> Outcome:
    return _like(a, pattern, escape, fold=True)


def like_transfer(_out: Type, a: Specs, pattern: Specs, *escape: Specs, fold: bool = False) -> Specs:
    """LIKE over containers: a constant pattern is a range of texts."""
    given = constants((pattern, *escape))
    like = None if given is None else parsed(*(value.as_py() for value in given), fold=fold)
    kernel = _ilike if fold else _like
    if like is None or like.error:
        return _unsure(kernel, (a, pattern, *escape))
    base = by_trend(claims(kernel), (a, pattern, *escape), BOOL)
    return (demanding_folded if fold else demanding)(base, a, like.prefix, like.ending)


def ilike_transfer(out: Type, a: Specs, pattern: Specs, *escape: Specs) -> Specs:
    """ILIKE is LIKE of lower-case text."""
    return like_transfer(out, a, pattern, *escape, fold=True)


@scalar("like", (TEXT, TEXT), BOOL, transfer=like_transfer, cost=MODERATE, stable=True, spark=spark_form.like)
def like(a: Datum, pattern: Datum) -> Outcome:
    """Whether the whole text has the form of a pattern, in which % is any text and _ any character."""
    return _like(a, pattern)


@scalar(
    "like",
    (TEXT, TEXT, TEXT),
    BOOL,
    transfer=like_transfer,
    cost=MODERATE,
    stable=True,
    spark=spark_form.like,
)
def like_escape(a: Datum, pattern: Datum, escape: Datum) -> Outcome:
    """LIKE … ESCAPE: the character that takes their meaning from % and _, or none if it is empty."""
    return _like(a, pattern, escape)


@scalar("ilike", (TEXT, TEXT), BOOL, transfer=ilike_transfer, cost=MODERATE, stable=True)
def ilike(a: Datum, pattern: Datum) -> Outcome:
    """LIKE that compares in lower case."""
    return _ilike(a, pattern)


@scalar("ilike", (TEXT, TEXT, TEXT), BOOL, transfer=ilike_transfer, cost=MODERATE, stable=True)
def ilike_escape(a: Datum, pattern: Datum, escape: Datum) -> Outcome:
    """ILIKE … ESCAPE."""
    return _ilike(a, pattern, escape)


def starts_with_transfer(_out: Type, a: Specs, prefix: Specs) -> Specs:
    """starts_with over containers: a constant prefix is a range of texts."""
    base = by_trend(claims(starts_with), (a, prefix), BOOL)
    given = constants((prefix,))
    return base if given is None else demanding(base, a, given[0].as_py(), Ending.ANYTHING)


@scalar(
    "starts_with",
    (TEXT, TEXT),
    BOOL,
    errors=NEVER,
    transfer=starts_with_transfer,
    stable=True,
    spark="startswith({0}, {1})",
)
def starts_with(a: Datum, prefix: Datum) -> pa.Array:
    """Whether the text starts with another."""
    if isinstance(a, pa.Array) and fixed(prefix):
        return pc.starts_with(a, prefix.as_py())
    return by_duck("starts_with(a, b)", pa.bool_(), a, prefix)


# ---------------------------------------------------------------- regular expressions


def each_constant(kernel: Callable[..., Outcome], type_: pa.DataType, a: Datum, *keys: Datum) -> Outcome:
    """`kernel(a, *keys)` for a kernel that wants its keys constant: one run a distinct combination."""
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
        some = [key.take(rows) if isinstance(key, pa.Array) else key for key in keys]
        some[varying] = value
        pieces.append(each_constant(kernel, type_, text.take(rows), *some))
    return _rejoined(pieces, pa.array(np.argsort(order)))


def _rejoined(pieces: list[Outcome], back: pa.Array) -> Outcome:
    """The outcomes of groups of rows as one, in the order of the rows."""
    values = pa.concat_arrays([piece.values for piece in pieces])
    messages = [pa.nulls(len(p.values), pa.string()) if p.errors is None else p.errors for p in pieces]
    errors = pa.concat_arrays(messages)
    return with_errors(values.take(back), None if errors.null_count == len(errors) else errors.take(back))


def matching(a: Datum, pattern: Datum, options: str = "") -> Outcome:
    """Whether the pattern matches anywhere."""

    def kernel(text: pa.Array, pattern: pa.Scalar) -> Outcome:
        regex = compiled(pattern.as_py(), options)
        if regex.error:
            return all_failed(text, regex.error, pa.bool_())
        return Outcome(pc.match_substring_regex(text, regex.re2))

    return each_constant(kernel, pa.bool_(), a, pattern)


def _declare_match(name: str, options: str, wanted: bool, doc: str) -> None:
    def kernel(a: Datum, pattern: Datum) -> Outcome:
        values, errors = matching(a, pattern, options)
        return Outcome(values if wanted else pc.invert(values), errors)

    def transfer(_out: Type, a: Specs, pattern: Specs) -> Specs:
        found = regex_transfer(a, pattern, options)
        assert found.true is not None
        assert found.false is not None
        return found if wanted else Specs.boolean(found.false, found.true, found.null, found.error)

    scalar(name, (TEXT, TEXT), BOOL, transfer=transfer, cost=HEAVY, stable=True, doc=doc)(kernel)


def regex_transfer(a: Specs, pattern: Specs, options: str) -> Specs:
    """A match over containers: a constant pattern that starts with ^ and letters is a range of texts."""
    given = constants((pattern,))
    regex = None if given is None else compiled(given[0].as_py(), options)

    def kernel(a: Datum, pattern: Datum) -> Outcome:
        return matching(a, pattern, options)

    if regex is None or regex.error:
        return _unsure(kernel, (a, pattern))
    base = by_trend(claims(kernel), (a, pattern), BOOL)
    return (demanding_folded if regex.folded else demanding)(base, a, regex.prefix, regex.ending)


_declare_match("~", "", True, "Whether a regular expression matches anywhere in the text.")
_declare_match("~*", "i", True, "Whether a regular expression matches anywhere, ignoring case.")
_declare_match("!~", "", False, "Whether a regular expression matches nowhere in the text.")
_declare_match("!~*", "i", False, "Whether a regular expression matches nowhere, ignoring case.")
