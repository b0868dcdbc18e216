r"""Functions of regular expressions that do more than match: replace, extract, count.

    regexp_replace('2024-06-01', '(\d+)-(\d+)', '\2/\1')   -> '06/2024-01'
    regexp_match('key=value', '(\w+)=(\w+)')                 -> {key,value}
    substring('order 4711' from '\d+')                        -> '4711'

They run on RE2 (`regex.py`). Of several ways to match at one place it takes the first that the pattern
names, where PostgreSQL takes the longest: 'foo|foobar' finds 'foo' in 'foobar'.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.function import HEAVY, scalar
from tidegate.expr.functions.pattern import all_failed, each_constant, matching, regex_transfer
from tidegate.expr.outcome import Datum, Outcome
from tidegate.expr.prefix import at_least, claims, constant
from tidegate.expr.regex import Regex, compiled
from tidegate.expr.specs import NO, YES, Specs
from tidegate.expr.transfer import any_of, by_trend
from tidegate.expr.types import BOOL, INT4, TEXT, Type, array

TEXTS = array(TEXT)
PLAIN = pa.scalar("")
"""No options."""


def _fails(pattern: Specs, options: Specs | None, ignored: str = "") -> np.ndarray:
    """Where a call may fail: nowhere if pattern and options are valid constants."""
    flags = PLAIN if options is None else constant(options)
    text = constant(pattern)
    sure = text is not None and flags is not None and _compiled(text, flags, ignored).error is None
    return NO if sure else ~pattern.empty


def _compiled(pattern: pa.Scalar, options: pa.Scalar, ignored: str = "") -> Regex:
    flags = options.as_py()
    return compiled(pattern.as_py(), flags.replace(ignored, "") if ignored else flags)


# ---------------------------------------------------------------- matching and counting


@scalar(
    "regexp_like",
    (TEXT, TEXT),
    BOOL,
    cost=HEAVY,
    stable=True,
    transfer=lambda _out, a, p: regex_transfer(a, p, ""),
)
def regexp_like(a: Datum, pattern: Datum) -> Outcome:
    """Whether a regular expression matches anywhere in the text."""
    return matching(a, pattern)


@scalar("regexp_like", (TEXT, TEXT, TEXT), BOOL, cost=HEAVY, stable=True)
def regexp_like_options(a: Datum, pattern: Datum, options: Datum) -> Outcome:
    """Whether a regular expression matches anywhere, with options: i ignores case, n is line by line."""
    return each_constant(lambda a, p, o: matching(a, p, o.as_py()), pa.bool_(), a, pattern, options)


def _count_one(text: pa.Array, pattern: pa.Scalar) -> Outcome:
    regex = _compiled(pattern, PLAIN)
    if regex.error:
        return all_failed(text, regex.error, pa.int32())
    # One byte behind each match, and the bytes counted: `count_substring_regex` takes matches of nothing at
    # every byte.
    marked = pc.replace_substring_regex(text, regex.re2, r"\0.")
    return Outcome(pc.subtract(pc.binary_length(marked), pc.binary_length(text)))


def count_transfer(out: Type, a: Specs, pattern: Specs) -> Specs:
    """A count is never below 0."""
    return at_least(claims(regexp_count), 0, out, (a, pattern)).may_fail(_fails(pattern, None))


@scalar("regexp_count", (TEXT, TEXT), INT4, cost=HEAVY, stable=True, transfer=count_transfer)
def regexp_count(a: Datum, pattern: Datum) -> Outcome:
    """How often a regular expression matches, without overlaps."""
    return each_constant(_count_one, pa.int32(), a, pattern)


# ---------------------------------------------------------------- replacing


def _rewritten(replacement: str, groups: int) -> str:
    r"""A replacement as RE2 writes it: `\&` is `\0`, and a group that does not exist is empty."""

    def one(found: re.Match[str]) -> str:
        what = found[1]
        if what == "&":
            return r"\0"
        if what and what in "123456789":
            return f"\\{what}" if int(what) <= groups else ""
        return "\\\\" + ("" if what == "\\" else what)

    return re.sub(r"(?s)\\(.|$)", one, replacement)


def _replace_one(text: pa.Array, pattern: pa.Scalar, new: pa.Scalar, options: pa.Scalar) -> Outcome:
    regex = _compiled(pattern, options, ignored="g")
    if regex.error:
        return all_failed(text, regex.error, pa.string())
    rewrite = _rewritten(new.as_py(), len(regex.bodies))
    if "g" in options.as_py():
        return Outcome(pc.replace_substring_regex(text, regex.re2, rewrite))
    return Outcome(pc.replace_substring_regex(text, regex.re2, rewrite, max_replacements=1))


def replace_transfer(out: Type, a: Specs, pattern: Specs, new: Specs, *options: Specs) -> Specs:
    """regexp_replace over containers: a valid constant pattern never fails."""
    kernel = regexp_replace_options if options else regexp_replace
    base = by_trend(claims(kernel), (a, pattern, new, *options), out)
    return base.may_fail(_fails(pattern, options[0] if options else None, ignored="g"))


@scalar("regexp_replace", (TEXT, TEXT, TEXT), TEXT, cost=HEAVY, stable=True, transfer=replace_transfer)
def regexp_replace(a: Datum, pattern: Datum, new: Datum) -> Outcome:
    r"""The text with the first match replaced; \1 to \9 are its groups, \& all of it."""
    return each_constant(_replace_one, pa.string(), a, pattern, new, PLAIN)


@scalar("regexp_replace", (TEXT, TEXT, TEXT, TEXT), TEXT, cost=HEAVY, stable=True, transfer=replace_transfer)
def regexp_replace_options(a: Datum, pattern: Datum, new: Datum, options: Datum) -> Outcome:
    """The text with a match replaced, or with the option g every match; i ignores case."""
    return each_constant(_replace_one, pa.string(), a, pattern, new, options)


# ---------------------------------------------------------------- extracting


def _groups(text: pa.Array, regex: Regex) -> tuple[pa.Array, list[pa.Array]]:
    """Where the pattern matches, and its groups; all of the match where it has none."""
    if regex.bodies:
        found = pc.extract_regex(text, regex.re2)
        groups = [_participating(pc.struct_field(found, [i]), body) for i, body in enumerate(regex.bodies)]
    else:
        found = pc.extract_regex(text, f"(?P<g0>{regex.re2})")
        groups = [pc.struct_field(found, [0])]
    return found.is_valid(), groups


def _participating(group: pa.Array, body: str) -> pa.Array:
    """A group that took no part in the match is NULL.

    RE2 gives an empty text for it. That can only mean this, unless the group's own pattern matches the
    empty text.
    """
    matches_nothing = pc.match_substring_regex(pa.array([""]), rf"\A(?:{body})\z")[0].as_py()
    return group if matches_nothing else pc.if_else(pc.equal(group, ""), pa.scalar(None, pa.string()), group)


def _match_one(text: pa.Array, pattern: pa.Scalar, options: pa.Scalar) -> Outcome:
    if "g" in options.as_py():
        return all_failed(text, 'regexp_match() does not support the "global" option', TEXTS.arrow)
    regex = _compiled(pattern, options)
    if regex.error:
        return all_failed(text, regex.error, TEXTS.arrow)
    matched, groups = _groups(text, regex)
    n, width = len(text), len(groups)
    # Row by row: g1 of row 0, g2 of row 0, g1 of row 1, …
    order = (np.arange(n)[:, None] + np.arange(width) * n).reshape(-1)
    values = pa.concat_arrays(groups).take(pa.array(order))
    offsets = pa.array(np.arange(n + 1) * width, pa.int32())
    return Outcome(pa.ListArray.from_arrays(offsets, values, mask=pc.invert(matched)).cast(TEXTS.arrow))


def match_transfer(out: Type, a: Specs, pattern: Specs, *options: Specs) -> Specs:
    """Nothing is known of what is extracted, but a valid constant pattern never fails."""
    args = (a, pattern, *options)
    error, empty = any_of([arg.error for arg in args]), any_of([arg.empty for arg in args])
    known = Specs.anything(out, null=YES, error=error, empty=empty)
    if any("g" in flags.as_py() for flags in map(constant, options) if flags is not None):
        return known.may_fail()
    return known.may_fail(_fails(pattern, options[0] if options else None))


@scalar(
    "regexp_match", (TEXT, TEXT), TEXTS, cost=HEAVY, stable=True, makes_null=True, transfer=match_transfer
)
def regexp_match(a: Datum, pattern: Datum) -> Outcome:
    """The groups of the first match, or all of it if there are none; NULL without a match."""
    return each_constant(_match_one, TEXTS.arrow, a, pattern, PLAIN)


@scalar(
    "regexp_match",
    (TEXT, TEXT, TEXT),
    TEXTS,
    cost=HEAVY,
    stable=True,
    makes_null=True,
    transfer=match_transfer,
)
def regexp_match_options(a: Datum, pattern: Datum, options: Datum) -> Outcome:
    """The groups of the first match, with options."""
    return each_constant(_match_one, TEXTS.arrow, a, pattern, options)


def _substring_one(text: pa.Array, pattern: pa.Scalar) -> Outcome:
    regex = _compiled(pattern, PLAIN)
    if regex.error:
        return all_failed(text, regex.error, pa.string())
    return Outcome(_groups(text, regex)[1][0])


@scalar("substring", (TEXT, TEXT), TEXT, cost=HEAVY, stable=True, makes_null=True, transfer=match_transfer)
def substring_of_pattern(a: Datum, pattern: Datum) -> Outcome:
    """substring(text from pattern): the first group of the first match, or the match; NULL without one."""
    return each_constant(_substring_one, pa.string(), a, pattern)
