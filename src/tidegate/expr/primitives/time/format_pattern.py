"""PostgreSQL's format patterns for times, cut into pieces once: `YYYY-MM-DD` → YYYY, "-", MM, "-", DD.

>>> [piece.token or piece.literal for piece in pieces('FMDDth "of" Month')]
['DD', ' of ', 'Month']

The longest token that fits is taken. A token is written all in capitals or all in small letters, which only
matters for names (`MONTH`, `Month`, `month`) and halves of the day; what is no token stands for itself, and
so does text in double quotes. `FM` (up to four such) before a token leaves out its padding, `TH` or `th` behind it makes a
number an ordinal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from tidegate.expr.cancel import checked

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

_SPELLED = {token: token for token in (*NUMERIC, *ZONES)} | {
    token.lower(): token for token in (*NUMERIC, *ZONES)
}
_SPELLED |= {token: token for token in (*NAMES, *HALVES)}
_TOKENS = "|".join(re.escape(token) for token in sorted(_SPELLED, key=len, reverse=True))
_PIECE = re.compile(
    rf'(?P<mode>(?:FM|fm|FX|fx|TM|tm){{0,4}})(?P<token>{_TOKENS})(?P<th>TH|th)?|"(?P<quoted>(?:[^"\\]|\\.)*)"?|\\(?P<escaped>.)|(?P<other>.)',
    re.DOTALL,
)


@dataclass(frozen=True)
class Piece:
    """A token with its modifiers, or a literal text."""

    token: str = ""
    literal: str = ""
    bare: bool = False
    """FM: without padding."""
    ordinal: str = ""
    """TH or th."""


LONG = 1000
"""Letters of a pattern that nobody writes by hand: it is not kept."""


def pieces(pattern: str) -> tuple[Piece, ...]:
    """The pieces of a pattern, neighbouring literals joined."""
    return _cut(pattern) if len(pattern) > LONG else _cut_once(pattern)


def _cut(pattern: str) -> tuple[Piece, ...]:
    found: list[Piece] = []
    literal: list[str] = []
    for match in checked(_PIECE.finditer(pattern)):
        if match["token"] is None:
            quoted = match["quoted"]
            literal.append(
                match["other"] or match["escaped"] or (re.sub(r"\\(.)", r"\1", quoted) if quoted else "")
            )
            continue
        if literal:
            found.append(Piece(literal="".join(literal)))
            literal = []
        bare = "fm" in match["mode"].lower()
        found.append(Piece(_SPELLED[match["token"]], bare=bare, ordinal=match["th"] or ""))
    return (*found, Piece(literal="".join(literal))) if literal else tuple(found)


_cut_once = lru_cache(maxsize=256)(_cut)
