"""Divides the text of a date, a time or an interval into tokens, by PostgreSQL's rules.

>>> [tuple(token) for token in tokenize("Jan 8, 1999 04:05 -8")]
[('string', 'jan'), ('number', '8'), ('number', '1999'), ('time', '04:05'), ('signed', '-8')]

| kind | form | examples |
|---|---|---|
| time | digits and a colon, then digits, colons and points | `04:05:06.7` |
| date | digits or a word, joined by `-`, `/` or `.` to more | `1999-01-08`, `jan-8-1999`, `america/new_york`, `gmt+2` |
| number | digits, perhaps with one point | `19990108`, `040506.7`, `.5` |
| string | letters | `january`, `pm`, `t` |
| signed | a sign and digits: a zone's offset, or a number of an interval | `-8`, `+04:05`, `-1.5` |
| special | a sign and letters | `-infinity` |

Other punctuation divides tokens and is skipped. A date may hold anything that starts like one: who reads it decides.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

TokenKind = Literal["time", "date", "number", "string", "signed", "special"]

MAX_TEXT_LENGTH = 128
"""PostgreSQL's limit on the characters of a time; it also bounds the digits of numbers."""
MAX_TOKENS = 25
_LONGEST_WORD = 10
"""PostgreSQL compares so many letters of a word: `microsecondly` is `microsecond`."""

MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_OTHER_WORDS = (
    "ad allballs am at bc d doy dow dst epoch h infinity isodow isoyear j jd julian m mm now on pm s sept t today tomorrow "
    "tues thur thurs weds y yesterday"
)
WORDS = frozenset((*MONTHS, *WEEKDAYS, *(n[:3] for n in (*MONTHS, *WEEKDAYS)), *_OTHER_WORDS.split()))
"""Words of dates and times. Digits behind one of them start another token: `t040506`, `j2451187`."""


class TimeToken(NamedTuple):
    """A piece of the text in lower case."""

    kind: TokenKind
    text: str


_DIGITS = re.compile(r"\d*", re.ASCII)
_LETTERS = re.compile(r"[a-z]+", re.ASCII)
_CLOCK = re.compile(r"[\d:.]*", re.ASCII)
_NAME = re.compile(r"[a-z0-9+\-/_.:]*", re.ASCII)
_OFFSET = re.compile(r"[\d:.\-]*", re.ASCII)


def tokenize(text: str) -> list[TimeToken] | None:
    """The tokens of a text; None if a character has no place in any, or there are too many."""
    text, at = text.lower(), 0
    tokens: list[TimeToken] = []
    while at < len(text):
        letter = text[at]
        if letter.isspace() and letter.isascii():
            at += 1
            continue
        token = _token_at(text, at)
        if token is None:
            return None
        if token.text:
            tokens.append(token)
            at = _end_of(text, at, token)
        else:
            at += 1
    return tokens if len(tokens) <= MAX_TOKENS else None


def _end_of(text: str, at: int, token: TimeToken) -> int:
    """Where a token ends that starts at `at`: spaces behind a sign do not belong to it."""
    if token.kind in ("signed", "special"):
        spaces = len(text[at + 1 :]) - len(text[at + 1 :].lstrip(" \t\n\r\f\v"))
        return at + len(token.text) + spaces
    return at + len(token.text)


def _token_at(text: str, at: int) -> TimeToken | None:
    """The token that starts at `at`; an empty one for punctuation, None for what is neither."""
    letter = text[at]
    if not letter.isascii() or not letter.isprintable():
        return None
    if letter.isdigit():
        return _from_digits(text, at)
    if letter == ".":
        return TimeToken("number", "." + _match(_DIGITS, text, at + 1))
    if letter.isalpha():
        return _from_letters(text, at)
    if letter in "+-":
        rest = text[at + 1 :].lstrip(" \t\n\r\f\v")
        if rest[:1].isdigit():
            return TimeToken("signed", letter + _match(_OFFSET, rest, 0))
        return TimeToken("special", letter + _match(_LETTERS, rest, 0)) if _LETTERS.match(rest) else None
    return TimeToken("string", "")


def _match(pattern: re.Pattern[str], text: str, at: int) -> str:
    found = pattern.match(text, at)
    return found[0] if found else ""


def _from_digits(text: str, at: int) -> TimeToken:
    digits = _match(_DIGITS, text, at)
    end = at + len(digits)
    delimiter = text[end : end + 1]
    if delimiter == ":":
        return TimeToken("time", digits + _match(_CLOCK, text, end))
    if delimiter not in ("-", "/", "."):
        return TimeToken("number", digits)
    more = _match(_DIGITS, text, end + 1)
    if not more:
        tail = _match(re.compile(rf"[a-z0-9{re.escape(delimiter)}]*", re.ASCII), text, end + 1)
        return TimeToken("date", digits + delimiter + tail)
    joined = digits + delimiter + more
    if text[at + len(joined) : at + len(joined) + 1] == delimiter:
        return TimeToken(
            "date", joined + _match(re.compile(rf"[0-9{re.escape(delimiter)}]*"), text, at + len(joined))
        )
    return TimeToken("number" if delimiter == "." else "date", joined)


def _from_letters(text: str, at: int) -> TimeToken:
    word = _match(_LETTERS, text, at)
    follows = text[at + len(word) : at + len(word) + 1]
    joined = follows in ("-", "/", ".") and follows != ""
    if follows == "+" or (follows.isascii() and follows.isdigit()):
        joined = shorten(word) not in WORDS
    return TimeToken("date", _match(_NAME, text, at)) if joined else TimeToken("string", word)


def shorten(word: str) -> str:
    """The letters of a word that are compared."""
    return word[:_LONGEST_WORD]
