r"""Regular expressions: splitting a text, the first match, and SIMILAR TO.

    regexp_split_to_array('hello  world', '\s+')      {hello,world}
    regexp_substr('order 4711', '\d+')                '4711'
    'abc' SIMILAR TO '%(b|d)%'                         'abc' ~ similar_to_escape('%(b|d)%')

Splitting marks every match by RE2 and cuts the text at the marks. A match of nothing cuts too, but not at the ends of the text
nor directly behind another match: 'a b' split at `\s*` is {a,b}.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.functions.text.pattern import fail_valid_rows, run_per_constant
from tidegate.expr.model.function import HEAVY, scalar
from tidegate.expr.model.outcome import Datum, Outcome
from tidegate.expr.model.types import TEXT, array
from tidegate.expr.primitives.cancel import checked
from tidegate.expr.primitives.regex import compile_regex
from tidegate.expr.primitives.row_loop import RowFailure, each_row

TEXTS = array(TEXT)
PLAIN = pa.scalar("")
_MARKS = ("\ufdd0", "\ufdd1")
"""Around a match: code points that no text has, since Unicode reserves them; one that has them nevertheless is refused."""


def _cut(marked: str) -> list[str]:
    """A text with marked matches as the parts between them."""
    opening, closing = _MARKS
    first, *rest = marked.split(opening)
    parts = [first]
    for i, piece in enumerate(rest):
        match, _, text = piece.partition(closing)
        at_an_end = (i == 0 and not first) or (i == len(rest) - 1 and not text)
        if match or not at_an_end:
            parts.append(text)
        else:
            parts[-1] += text
    return parts


def _split_one(text: pa.Array, pattern: pa.Scalar, options: pa.Scalar) -> Outcome:
    if "g" in options.as_py():
        message = 'regexp_split_to_array() does not support the "global" option'
        return fail_valid_rows(text, message, TEXTS.arrow)
    regex = compile_regex(pattern.as_py(), options.as_py())
    if regex.error:
        return fail_valid_rows(text, regex.error, TEXTS.arrow)
    if pc.any(pc.match_substring_regex(text, f"[{''.join(_MARKS)}]"), min_count=0).as_py():
        return fail_valid_rows(text, "a text with U+FDD0 or U+FDD1 cannot be split", TEXTS.arrow)
    marked = pc.replace_substring_regex(text, regex.re2, rf"{_MARKS[0]}\0{_MARKS[1]}")
    return Outcome(
        pa.array([None if one is None else _cut(one) for one in checked(marked.to_pylist())], TEXTS.arrow)
    )


@scalar("regexp_split_to_array", (TEXT, TEXT), TEXTS, cost=HEAVY, stable=True)
def regexp_split_to_array(a: Datum, pattern: Datum) -> Outcome:
    """The parts of a text between the matches of a regular expression."""
    return run_per_constant(_split_one, TEXTS.arrow, a, pattern, PLAIN)


@scalar("regexp_split_to_array", (TEXT, TEXT, TEXT), TEXTS, cost=HEAVY, stable=True)
def regexp_split_to_array_options(a: Datum, pattern: Datum, options: Datum) -> Outcome:
    """The parts of a text between the matches, with options as in regexp_like."""
    return run_per_constant(_split_one, TEXTS.arrow, a, pattern, options)


def _substr_one(text: pa.Array, pattern: pa.Scalar) -> Outcome:
    regex = compile_regex(pattern.as_py(), "")
    if regex.error:
        return fail_valid_rows(text, regex.error, pa.string())
    return Outcome(pc.struct_field(pc.extract_regex(text, f"(?P<g0>{regex.re2})"), [0]))


@scalar("regexp_substr", (TEXT, TEXT), TEXT, makes_null=True, cost=HEAVY, stable=True)
def regexp_substr(a: Datum, pattern: Datum) -> Outcome:
    """The first match of a regular expression, all of it; NULL without one."""
    return run_per_constant(_substr_one, pa.string(), a, pattern)


# ---------------------------------------------------------------- SIMILAR TO


def _similar(pattern: str, escape: str = "\\") -> str:
    """A pattern of SIMILAR TO as a regular expression that matches whole texts."""
    if len(escape) > 1:
        raise RowFailure("invalid escape string")
    out, escaped, in_class = ["^(?:"], False, False
    for letter in pattern:
        if escaped:
            if letter == '"' and not in_class:
                raise RowFailure("the separators of SUBSTRING … SIMILAR are not supported")
            out.append("\\" + letter)
            escaped = False
        elif letter == escape:
            escaped = True
        elif in_class:
            out.append("\\\\" if letter == "\\" else letter)
            in_class = letter != "]"
        else:
            in_class = letter == "["
            out.append(_SIMILAR.get(letter, letter))
    return "".join([*out, ")$"])


_SIMILAR = {"%": ".*", "_": ".", "(": "(?:", "\\": "\\\\", ".": "\\.", "^": "\\^", "$": "\\$"}


@scalar("similar_to_escape", (TEXT,), TEXT, stable=True)
def similar_to_escape(pattern: Datum) -> Outcome:
    """The regular expression of a pattern of SIMILAR TO."""
    return each_row(_similar, pa.string(), pattern)


@scalar("similar_to_escape", (TEXT, TEXT), TEXT, stable=True)
def similar_to_escape_by(pattern: Datum, escape: Datum) -> Outcome:
    """The regular expression of a pattern of SIMILAR TO with its own escape character."""
    return each_row(_similar, pa.string(), pattern, escape)
