r"""regexp_matches: an array of every match of a regular expression, each an array of its groups.

    regexp_matches('a1b22', '([a-z])(\d+)', 'g')      {{a,1},{b,22}}
    regexp_matches('a1b22', '\d+')                    {{1}}: without g the first match alone
    regexp_matches('ab', '\d+')                       {}

With g every match is marked by RE2, as in `regexp_split.py`, and the texts between the marks are its groups.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.functions.cast.nested import make_lists, valid_rows
from tidegate.expr.functions.text.pattern import fail_valid_rows, run_per_constant
from tidegate.expr.functions.text.regexp import match_groups, null_if_unmatched
from tidegate.expr.model.function import HEAVY, scalar
from tidegate.expr.model.outcome import Datum, Outcome, failing, with_errors
from tidegate.expr.model.types import TEXT, array
from tidegate.expr.primitives.cancel import checked
from tidegate.expr.primitives.regex import Regex, compile_regex

MATCHES = array(array(TEXT))
PLAIN = pa.scalar("")
MAX_GROUPS = 9
"""Groups that a replacement of RE2 can name."""
_OPEN, _BETWEEN = "\ufdd0", "\ufdd1"
"""Before a match, and before each of its groups: code points that Unicode reserves, so that no text has them."""
_CLOSE = "\ufdd2"


def _matches(text: pa.Array, pattern: pa.Scalar, options: pa.Scalar) -> Outcome:
    flags = options.as_py()
    if "g" in flags:
        return _all_matches(text, compile_regex(pattern.as_py(), flags.replace("g", "")))
    first, errors = match_groups(text, pattern, options)
    found = valid_rows(first)
    lists = make_lists(first.filter(pa.array(found)), found.astype(np.int64), valid_rows(text))
    return Outcome(lists, errors)


def _all_matches(text: pa.Array, regex: Regex) -> Outcome:
    if regex.error:
        return fail_valid_rows(text, regex.error, MATCHES.arrow)
    if len(regex.bodies) > MAX_GROUPS:
        message = f"regexp_matches with the option g takes up to {MAX_GROUPS} groups"
        return fail_valid_rows(text, message, MATCHES.arrow)
    if pc.any(pc.match_substring_regex(text, f"[{_OPEN}{_BETWEEN}{_CLOSE}]"), min_count=0).as_py():
        return fail_valid_rows(text, "a text with U+FDD0, U+FDD1 or U+FDD2 cannot be searched", MATCHES.arrow)
    groups = "".join(rf"{_BETWEEN}\{i}" for i in range(1, len(regex.bodies) + 1))
    marked = pc.replace_substring_regex(text, regex.re2, rf"{_OPEN}\0{groups}{_CLOSE}")
    return _taken_apart(marked, regex)


def _taken_apart(marked: pa.Array, regex: Regex) -> Outcome:
    """Texts with marked matches as arrays of matches; a match of nothing is an error."""
    sizes, nothing = np.zeros(len(marked), np.int64), np.zeros(len(marked), bool)
    columns: list[list[str]] = [[] for _ in regex.bodies or ("whole",)]
    for row, one in enumerate(checked(marked.to_pylist())):
        for piece in (one or "").split(_OPEN)[1:]:
            whole, *groups = piece.partition(_CLOSE)[0].split(_BETWEEN)
            nothing[row] |= not whole
            sizes[row] += 1
            for column, group in zip(columns, groups or [whole], strict=True):
                column.append(group)
    arrays = [pa.array(column, pa.string()) for column in columns]
    if regex.bodies:
        arrays = [null_if_unmatched(a, body) for a, body in zip(arrays, regex.bodies, strict=True)]
    count, width = len(columns[0]), len(columns)
    order = (np.arange(count)[:, None] + np.arange(width) * count).reshape(-1)
    matches = make_lists(pa.concat_arrays(arrays).take(pa.array(order)), np.full(count, width))
    wrong = failing(nothing, "regexp_matches with a pattern that matches nothing is not supported")
    return with_errors(make_lists(matches, sizes, valid_rows(marked)), wrong)


@scalar("regexp_matches", (TEXT, TEXT), MATCHES, hidden=True, cost=HEAVY)
def regexp_matches(a: Datum, pattern: Datum) -> Outcome:
    """The groups of the first match, in an array; empty without a match."""
    return run_per_constant(_matches, MATCHES.arrow, a, pattern, PLAIN)


@scalar("regexp_matches", (TEXT, TEXT, TEXT), MATCHES, hidden=True, cost=HEAVY)
def regexp_matches_options(a: Datum, pattern: Datum, options: Datum) -> Outcome:
    """The groups of the first match, or with g of all matches, with options as in regexp_like."""
    return run_per_constant(_matches, MATCHES.arrow, a, pattern, options)
