"""PostgreSQL's format patterns for times, cut into pieces once: `YYYY-MM-DD` → YYYY, "-", MM, "-", DD.

>>> [piece.token or piece.literal for piece in pieces('FMDDth "of" Month')]
['DD', ' of ', 'Month']

The longest token that fits is taken. A token is written all in capitals or all in small letters, which only
matters for names (`MONTH`, `Month`, `month`) and halves of the day; what is no token stands for itself, and
so does text in double quotes. `FM` before a token leaves out its padding, `TH` or `th` behind it makes a
number an ordinal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

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
    rf'(?P<mode>(?:FM|fm|FX|fx|TM|tm)*)(?P<token>{_TOKENS})(?P<th>TH|th)?|"(?P<quoted>(?:[^"\\]|\\.)*)"?|\\(?P<escaped>.)|(?P<other>.)',
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


@lru_cache(maxsize=256)
def pieces(pattern: str) -> tuple[Piece, ...]:
    """The pieces of a pattern, neighbouring literals joined."""
    found: list[Piece] = []
    for match in _PIECE.finditer(pattern):
        if match["token"] is not None:
            bare = "fm" in match["mode"].lower()
            found.append(Piece(_SPELLED[match["token"]], bare=bare, ordinal=match["th"] or ""))
            continue
        text = match["other"] or match["escaped"] or re.sub(r"\\(.)", r"\1", match["quoted"] or "")
        if found and not found[-1].token:
            found[-1] = Piece(literal=found[-1].literal + text)
        else:
            found.append(Piece(literal=text))
    return tuple(found)
