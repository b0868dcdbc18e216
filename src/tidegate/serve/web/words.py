"""Amounts and times as people read them."""

from __future__ import annotations

import datetime as dt
import time

from tidegate.plan.explain import size

__all__ = ["ago", "ahead", "amount", "moment", "plural", "size"]
_DATES = (10**11, 10**14)
"""Milliseconds between which a number is taken for a date: 1973 to 5138. Others are shown as they are."""


def amount(count: int) -> str:
    """A number, with its thousands apart."""
    return f"{count:,}"


def plural(count: int, word: str) -> str:
    """`1 part`, `2 parts`."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def moment(milliseconds: int) -> str:
    """A time: 2026-01-02 03:04:05 UTC; a number that is no date as it is."""
    if not _DATES[0] <= milliseconds < _DATES[1]:
        return str(milliseconds)
    at = dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S") + " UTC"


def ago(milliseconds: int, now: float | None = None) -> str:
    """How long since, in one unit."""
    if not _DATES[0] <= milliseconds < _DATES[1]:
        return f"at {milliseconds}"
    seconds = (time.time() if now is None else now) - milliseconds / 1000
    for step, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= step:
            return f"{plural(int(seconds // step), unit)} ago"
    return "just now"


def ahead(milliseconds: int, now: float | None = None) -> str:
    """How long until, in one unit."""
    seconds = milliseconds / 1000 - (time.time() if now is None else now)
    for step, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= step:
            return f"in {plural(int(seconds // step), unit)}"
    return "now"
