"""Parses PostgreSQL's format patterns for times: `YYYY-MM-DD` → YYYY, "-", MM, "-", DD.

>>> [piece.token or piece.literal for piece in parse_pattern('FMDDth "of" Month')]
['DD', ' of ', 'Month']

The longest matching token is taken. Tokens are in upper or lower case, which matters only for names (`MONTH`, `Month`, `month`) and
AM and PM. Other text is literal, and so is text in double quotes. `FM` (up to four such) before a token omits its padding, `TH`
or `th` behind it makes a number an ordinal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from tidegate.expr.primitives.cancel import checked

NUMERIC = (
    "HH24", "HH12", "HH", "MI", "SSSSS", "SSSS", "SS", "MS", "US", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6",
    "Y,YYY", "YYYY", "YYY", "YY", "Y", "IYYY", "IYY", "IY", "I", "CC", "MM", "DDD", "DD", "D", "IDDD", "ID",
    "WW", "W", "IW", "J", "Q",
)  # fmt: skip
NAMES = (
    "MONTH", "Month", "month", "MON", "Mon", "mon", "DAY", "Day", "day", "DY", "Dy", "dy", "RM", "rm",
    "TZ", "tz",
)  # fmt: skip
HALVES = (
    "AM", "PM", "am", "pm", "A.M.", "P.M.", "a.m.", "p.m.", "BC", "AD", "bc", "ad", "B.C.", "A.D.",
    "b.c.", "a.d.",
)  # fmt: skip
ZONES = ["TZH", "TZM", "OF"]

_SPELLINGS = {token: token for token in (*NUMERIC, *ZONES)} | {
    token.lower(): token for token in (*NUMERIC, *ZONES)
}
_SPELLINGS |= {token: token for token in (*NAMES, *HALVES)}
_TOKENS = "|".join(re.escape(token) for token in sorted(_SPELLINGS, key=len, reverse=True))
_PIECE = re.compile(
    rf'(?P<mode>(?:FM|fm|FX|fx|TM|tm){{0,4}})(?P<token>{_TOKENS})(?P<th>TH|th)?|"(?P<quoted>(?:[^"\\]|\\.)*)"?|\\(?P<escaped>.)|(?P<other>.)',
    re.DOTALL,
)


@dataclass(frozen=True)
class PatternPiece:
    """A token with its modifiers, or a literal text."""

    token: str = ""
    literal: str = ""
    bare: bool = False
    """FM: without padding."""
    ordinal: str = ""
    """TH or th."""


MAX_CACHED_LENGTH = 1000
"""The longest pattern whose parsed form is cached; nobody writes longer ones by hand."""


def parse_pattern(pattern: str) -> tuple[PatternPiece, ...]:
    """The pieces of a pattern; adjacent literals are joined."""
    return _parse(pattern) if len(pattern) > MAX_CACHED_LENGTH else _parse_cached(pattern)


def _parse(pattern: str) -> tuple[PatternPiece, ...]:
    pieces: list[PatternPiece] = []
    literal: list[str] = []
    for match in checked(_PIECE.finditer(pattern)):
        if match["token"] is None:
            quoted = match["quoted"]
            literal.append(
                match["other"] or match["escaped"] or (re.sub(r"\\(.)", r"\1", quoted) if quoted else "")
            )
            continue
        if literal:
            pieces.append(PatternPiece(literal="".join(literal)))
            literal = []
        token, mode = _SPELLINGS[match["token"]], match["mode"].lower()
        bare = "fm" in mode or ("tm" in mode and token in NAMES)
        pieces.append(PatternPiece(token, bare=bare, ordinal=match["th"] or ""))
    return (*pieces, PatternPiece(literal="".join(literal))) if literal else tuple(pieces)


_parse_cached = lru_cache(maxsize=256)(_parse)
