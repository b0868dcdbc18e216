r"""Functions of regular expressions: replace, extract, count.

    regexp_replace('2024-06-01', '(\d+)-(\d+)', '\2/\1')   -> '06/2024-01'
    regexp_match('key=value', '(\w+)=(\w+)')                 -> {key,value}
    substring('order 4711' from '\d+')                        -> '4711'

They run on RE2 (`primitives/regex.py`). Of several matches at one position RE2 takes the first alternative of the
pattern, PostgreSQL the longest: 'foo|foobar' finds 'foo' in 'foobar'.
"""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import constant
from tidegate.expr.domain.specs import NO, YES, Specs
from tidegate.expr.domain.text_prefix import non_negative
from tidegate.expr.domain.transfer import any_of, by_trend
from tidegate.expr.functions.text.pattern import (
    fail_valid_rows,
    match_regex,
    regex_transfer,
    run_per_constant,
)
from tidegate.expr.model.function import HEAVY, BoundTransfer, Function, scalar
from tidegate.expr.model.outcome import Datum, Outcome
from tidegate.expr.model.types import BOOL, INT4, TEXT, Type, array
from tidegate.expr.primitives.regex import Regex, compile_regex

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
    return compile_regex(pattern.as_py(), flags.replace(ignored, "") if ignored else flags)


# ---------------------------------------------------------------- matching and counting


@BoundTransfer
def regexp_like_transfer(function: Function, out: Type, a: Specs, pattern: Specs) -> Specs:
    """regexp_like over containers, as the operator `~`."""
    return regex_transfer(function, a, pattern, "")


@scalar("regexp_like", (TEXT, TEXT), BOOL, transfer=regexp_like_transfer, cost=HEAVY, stable=True)
def regexp_like(a: Datum, pattern: Datum) -> Outcome:
    """Whether a regular expression matches anywhere in the text."""
    return match_regex(a, pattern)


@scalar("regexp_like", (TEXT, TEXT, TEXT), BOOL, cost=HEAVY, stable=True)
def regexp_like_options(a: Datum, pattern: Datum, options: Datum) -> Outcome:
    """Whether a regular expression matches anywhere; option i ignores case, n matches line by line."""
    return run_per_constant(lambda a, p, o: match_regex(a, p, o.as_py()), pa.bool_(), a, pattern, options)


def _count_one(text: pa.Array, pattern: pa.Scalar) -> Outcome:
    regex = _compiled(pattern, PLAIN)
    if regex.error:
        return fail_valid_rows(text, regex.error, pa.int32())
    # Appends one byte to each match and counts the bytes: `count_substring_regex` counts empty matches at
    # every byte.
    marked = pc.replace_substring_regex(text, regex.re2, r"\0.")
    return Outcome(pc.subtract(pc.binary_length(marked), pc.binary_length(text)))


@BoundTransfer
def count_transfer(function: Function, out: Type, a: Specs, pattern: Specs) -> Specs:
    """regexp_count over containers: never below 0; a valid constant pattern never fails."""
    return non_negative(function, out, a, pattern).may_fail(_fails(pattern, None))


@scalar("regexp_count", (TEXT, TEXT), INT4, cost=HEAVY, stable=True, transfer=count_transfer)
def regexp_count(a: Datum, pattern: Datum) -> Outcome:
    """The number of matches of a regular expression, without overlaps."""
    return run_per_constant(_count_one, pa.int32(), a, pattern)


# ---------------------------------------------------------------- replacing


def _rewrite_replacement(replacement: str, groups: int) -> str:
    r"""A replacement in RE2's syntax: `\&` is `\0`, and a group that does not exist is empty."""

    def rewrite(match: re.Match[str]) -> str:
        what = match[1]
        if what == "&":
            return r"\0"
        if what and what in "123456789":
            return f"\\{what}" if int(what) <= groups else ""
        return "\\\\" + ("" if what == "\\" else what)

    return re.sub(r"(?s)\\(.|$)", rewrite, replacement)


def _replace_one(text: pa.Array, pattern: pa.Scalar, new: pa.Scalar, options: pa.Scalar) -> Outcome:
    regex = _compiled(pattern, options, ignored="g")
    if regex.error:
        return fail_valid_rows(text, regex.error, pa.string())
    rewrite = _rewrite_replacement(new.as_py(), len(regex.bodies))
    if "g" in options.as_py():
        return Outcome(pc.replace_substring_regex(text, regex.re2, rewrite))
    return Outcome(pc.replace_substring_regex(text, regex.re2, rewrite, max_replacements=1))


@BoundTransfer
def replace_transfer(
    function: Function, out: Type, a: Specs, pattern: Specs, new: Specs, *options: Specs
) -> Specs:
    """regexp_replace over containers: a valid constant pattern never fails."""
    base = by_trend(function.claiming(), (a, pattern, new, *options), out)
    return base.may_fail(_fails(pattern, options[0] if options else None, ignored="g"))


_replaces = partial(scalar, "regexp_replace", result=TEXT, transfer=replace_transfer, cost=HEAVY, stable=True)


@_replaces((TEXT, TEXT, TEXT))
def regexp_replace(a: Datum, pattern: Datum, new: Datum) -> Outcome:
    r"""The text with the first match replaced; \1 to \9 are its groups, \& the whole match."""
    return run_per_constant(_replace_one, pa.string(), a, pattern, new, PLAIN)


@_replaces((TEXT, TEXT, TEXT, TEXT))
def regexp_replace_options(a: Datum, pattern: Datum, new: Datum, options: Datum) -> Outcome:
    """The text with the first match replaced, or every match with option g; option i ignores case."""
    return run_per_constant(_replace_one, pa.string(), a, pattern, new, options)


# ---------------------------------------------------------------- extracting


def _groups(text: pa.Array, regex: Regex) -> tuple[pa.Array, list[pa.Array]]:
    """Where the pattern matches, and its groups; the whole match if it has no groups."""
    if regex.bodies:
        match = pc.extract_regex(text, regex.re2)
        groups = [null_if_unmatched(pc.struct_field(match, [i]), body) for i, body in enumerate(regex.bodies)]
    else:
        match = pc.extract_regex(text, f"(?P<g0>{regex.re2})")
        groups = [pc.struct_field(match, [0])]
    return match.is_valid(), groups


def null_if_unmatched(group: pa.Array, body: str) -> pa.Array:
    """A group with NULL where it took no part in the match.

    RE2 returns an empty text for it, which is unambiguous unless the group's own pattern matches the empty text.
    """
    matches_nothing = pc.match_substring_regex(pa.array([""]), rf"\A(?:{body})\z")[0].as_py()
    return group if matches_nothing else pc.if_else(pc.equal(group, ""), pa.scalar(None, pa.string()), group)


def match_groups(text: pa.Array, pattern: pa.Scalar, options: pa.Scalar) -> Outcome:
    """The groups of the first match of each text, NULL without a match."""
    if "g" in options.as_py():
        return fail_valid_rows(text, 'regexp_match() does not support the "global" option', TEXTS.arrow)
    regex = _compiled(pattern, options)
    if regex.error:
        return fail_valid_rows(text, regex.error, TEXTS.arrow)
    matched, groups = _groups(text, regex)
    n, width = len(text), len(groups)
    # Row by row: g1 of row 0, g2 of row 0, g1 of row 1, …
    order = (np.arange(n)[:, None] + np.arange(width) * n).reshape(-1)
    values = pa.concat_arrays(groups).take(pa.array(order))
    offsets = pa.array(np.arange(n + 1) * width, pa.int32())
    return Outcome(pa.ListArray.from_arrays(offsets, values, mask=pc.invert(matched)).cast(TEXTS.arrow))


def match_transfer(out: Type, a: Specs, pattern: Specs, *options: Specs) -> Specs:
    """regexp_match over containers: unknown values, but a valid constant pattern never fails."""
    args = (a, pattern, *options)
    error, empty = any_of([arg.error for arg in args]), any_of([arg.empty for arg in args])
    known = Specs.anything(out, null=YES, error=error, empty=empty)
    if any("g" in flags.as_py() for flags in map(constant, options) if flags is not None):
        return known.may_fail()
    return known.may_fail(_fails(pattern, options[0] if options else None))


_extracts = partial(scalar, makes_null=True, transfer=match_transfer, cost=HEAVY, stable=True)


@_extracts("regexp_match", (TEXT, TEXT), TEXTS)
def regexp_match(a: Datum, pattern: Datum) -> Outcome:
    """The groups of the first match, or the whole match if there are none; NULL without a match."""
    return run_per_constant(match_groups, TEXTS.arrow, a, pattern, PLAIN)


@_extracts("regexp_match", (TEXT, TEXT, TEXT), TEXTS)
def regexp_match_options(a: Datum, pattern: Datum, options: Datum) -> Outcome:
    """The groups of the first match, with options as in regexp_like."""
    return run_per_constant(match_groups, TEXTS.arrow, a, pattern, options)


def _substring_one(text: pa.Array, pattern: pa.Scalar) -> Outcome:
    regex = _compiled(pattern, PLAIN)
    if regex.error:
        return fail_valid_rows(text, regex.error, pa.string())
    return Outcome(_groups(text, regex)[1][0])


@_extracts("substring", (TEXT, TEXT), TEXT)
def substring_of_pattern(a: Datum, pattern: Datum) -> Outcome:
    """`substring(text from pattern)`: the first group of the first match, or the match; NULL without one."""
    return run_per_constant(_substring_one, pa.string(), a, pattern)
