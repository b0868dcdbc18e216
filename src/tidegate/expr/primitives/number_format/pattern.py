"""Parses the patterns of to_char and to_number for numbers: `9,999.99`, `FM000`, `S9.9EEEE`, `99V99`.

    parse_pattern("S9,990.99")      nodes S 9 , 9 9 0 . 9 9      pre 4, post 2, sign before the digits

A pattern is a row of nodes: keywords, and characters that stand for themselves. What the keywords say together (how many digits
stand before the point, where zeros begin, where the sign goes) is its `NumberPattern`. Combinations that contradict each other are
refused with PostgreSQL's messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias

from tidegate.expr.primitives.row_loop import RowFailure

KEYWORDS = (
    "EEEE", "FM", "MI", "PL", "PR", "RN", "SG", "TH", "SP",
    ",", ".", "0", "9", "B", "C", "D", "G", "L", "S", "V",
)  # fmt: skip
"""Longest first. `SP`, `B` and `C` are read and change nothing, as in PostgreSQL."""
MAX_PATTERN = 500
"""Letters of a pattern."""

Node: TypeAlias = tuple[Literal["word", "text"], str]
"""A keyword as it is written (case matters for RN and TH), or characters that stand for themselves."""


@dataclass
class NumberPattern:
    """A parsed pattern."""

    nodes: list[Node] = field(default_factory=list)
    pre: int = 0
    """Digits before the point."""
    post: int = 0
    """Digits behind the point."""
    multi: int = 0
    """Digits behind V: the number is multiplied by 10 to this power."""
    zero_start: int | None = None
    """Where the first 0 before the point stands."""
    zero_end: int = 0
    """How many digits there are up to the last 0."""
    sign: Literal["", "before", "behind"] = ""
    """Where S stands."""
    digits_before_sign: int = 0
    flags: set[str] = field(default_factory=set)
    """The keywords that it has, of those that matter for all of it."""

    def has(self, *words: str) -> bool:
        """Whether it has one of these keywords."""
        return not self.flags.isdisjoint(words)


def _refuse(pattern: NumberPattern, words: tuple[str, ...], message: str) -> None:
    if pattern.has(*words):
        raise RowFailure(message)


def _digit(pattern: NumberPattern, word: str) -> None:
    _refuse(pattern, ("PR",), f'"{word}" must be ahead of "PR"')
    if word == "9" and pattern.has("V"):
        pattern.multi += 1
        return
    if word == "0" and pattern.zero_start is None and not pattern.has("."):
        pattern.zero_start = pattern.pre
    if pattern.has("."):
        pattern.post += 1
    else:
        pattern.pre += 1
    if word == "0":
        pattern.zero_end = pattern.pre + pattern.post


def _point(pattern: NumberPattern, _: str) -> None:
    _refuse(pattern, (".",), "multiple decimal points")
    _refuse(pattern, ("V",), 'cannot use "V" and decimal point together')
    pattern.flags.add(".")


def _sign(pattern: NumberPattern, _: str) -> None:
    _refuse(pattern, ("S",), 'cannot use "S" twice')
    _refuse(pattern, ("PL", "MI", "SG", "PR"), 'cannot use "S" and "PL"/"MI"/"SG"/"PR" together')
    pattern.sign = "behind" if pattern.has(".") else "before"
    pattern.digits_before_sign = pattern.pre
    pattern.flags.add("S")


def _plain_sign(pattern: NumberPattern, word: str) -> None:
    _refuse(pattern, ("S",), f'cannot use "S" and "{word}" together')
    pattern.flags.add(word)


def _brackets(pattern: NumberPattern, _: str) -> None:
    _refuse(pattern, ("S", "PL", "MI", "SG"), 'cannot use "PR" and "S"/"PL"/"MI"/"SG" together')
    pattern.flags.add("PR")


def _shift(pattern: NumberPattern, _: str) -> None:
    _refuse(pattern, (".",), 'cannot use "V" and decimal point together')
    pattern.flags.add("V")


def _exponent(pattern: NumberPattern, _: str) -> None:
    _refuse(pattern, ("EEEE",), 'cannot use "EEEE" twice')
    others = ("FM", "S", "PR", "MI", "PL", "SG", "RN", "V", "B")
    _refuse(pattern, others, '"EEEE" is incompatible with other formats')
    pattern.flags.add("EEEE")


def _flag(pattern: NumberPattern, word: str) -> None:
    if word != "B" or (pattern.pre == 0 and pattern.post == 0):
        pattern.flags.add(word)


_EFFECTS: dict[str, Callable[[NumberPattern, str], None]] = {
    "9": _digit, "0": _digit, ".": _point, "D": _point, "S": _sign, "MI": _plain_sign, "PL": _plain_sign,
    "SG": _plain_sign, "PR": _brackets, "V": _shift, "EEEE": _exponent, "FM": _flag, "RN": _flag, "B": _flag,
}  # fmt: skip


@lru_cache(256)  # a column has few patterns
def parse_pattern(text: str) -> NumberPattern:
    """The pattern of a text; raises RowFailure if its keywords contradict each other."""
    if len(text) > MAX_PATTERN:
        raise RowFailure(f"a pattern of numbers has at most {MAX_PATTERN} letters")
    pattern = NumberPattern()
    at = 0
    while at < len(text):
        if text[at] == '"':
            at = _quoted(pattern, text, at + 1)
            continue
        upper = text[at : at + 4].upper()
        word = next((w for w in KEYWORDS if upper.startswith(w) and _one_case(text[at : at + len(w)])), None)
        if word is None:
            at += text.startswith('\\"', at)
            pattern.nodes.append(("text", text[at]))
            at += 1
            continue
        if pattern.has("EEEE") and word != "EEEE":
            raise RowFailure('"EEEE" must be the last pattern used')
        if word in _EFFECTS:
            _EFFECTS[word](pattern, word)
        pattern.nodes.append(("word", text[at : at + len(word)]))
        at += len(word)
    return pattern


def _one_case(written: str) -> bool:
    """Whether a keyword is written in upper or in lower case, not mixed: `Fm` is two characters."""
    return written in (written.upper(), written.lower())


def _quoted(pattern: NumberPattern, text: str, at: int) -> int:
    """Reads characters up to the closing quote; returns where it ends."""
    while at < len(text) and text[at] != '"':
        at += text[at] == "\\" and at + 1 < len(text)
        pattern.nodes.append(("text", text[at]))
        at += 1
    return at + 1
