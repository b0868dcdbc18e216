"""Text for people and for SQL: quoted names, sizes, counts and times.

    identifier("price")       price
    identifier("Price")       "Price"      unquoted it would be folded to price
    identifier("order")       "order"      a reserved word of the grammar
    format_bytes(1_234_567)   1.2 MB
    plural(2, "part")         2 parts
    time_ago(milliseconds)    3 minutes ago
    first_line(error)         the first line of the message of a foreign error
    literal("it's")           'it''s'
    literal([True, 5])        (TRUE, 5)

All code that builds SQL or prints a name in it calls `identifier`. The parser takes its reserved words from here, and a law
(`tests/laws/test_names.py`) parses every word of the grammar as each kind of name.
"""

from __future__ import annotations

import datetime as dt
import re
import time


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


RESERVED = _words(
    "all analyse analyze and any array as asc asymmetric both case cast check collate column constraint "
    "create current_catalog current_date current_role current_time current_timestamp current_user default "
    "deferrable desc distinct do else end except false fetch for foreign from grant group having in "
    "initially intersect into lateral leading limit localtime localtimestamp not null offset on only or "
    "order placing primary references returning select session_user some symmetric table then to trailing "
    "true union unique user using variadic when where window with"
)
"""Words that PostgreSQL lets nobody use as a name unless it is quoted."""

JOINING = _words(
    "cross full ilike inner is isnull join left like natural notnull outer right similar tablesample"
)
"""Words that may name a function (`left(s, 2)`), but neither a table nor an alias without AS."""

CONTEXTUAL = _words("exclude generated recursive values")
"""Words that the parser reads as a clause in some places where a name may stand."""

_QUOTED = RESERVED | JOINING | CONTEXTUAL
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


def identifier(name: str) -> str:
    """A name as SQL reads it back: quoted unless it is plain and no word of the grammar."""
    if _PLAIN.fullmatch(name) and name not in _QUOTED:
        return name
    return '"' + name.replace('"', '""') + '"'


def literal(value: object) -> str:
    """The value of an option or setting as SQL writes it."""
    if isinstance(value, list | tuple):
        return f"({', '.join(map(literal, value))})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def format_bytes(count: int) -> str:
    """Bytes, to two digits or more: 812 B, 1.2 MB, 340 GB."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 999.5 or unit == "TB":
            return f"{amount:.1f} {unit}" if unit != "B" and amount < 9.95 else f"{amount:,.0f} {unit}"
        amount /= 1000
    raise AssertionError("the last unit holds any amount")


def format_count(count: int) -> str:
    """Formats a number with thousands separators: 1,234,567."""
    return f"{count:,}"


def plural(count: int, noun: str) -> str:
    """Formats a count with its noun: `1 part`, `2 parts`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


_DATES = (10**11, 10**14)
"""Milliseconds that are shown as a date: 1973 to 5138. Other numbers are shown as they are."""
_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


def format_time(milliseconds: int) -> str:
    """Formats a time: 2026-01-02 03:04:05 UTC; a number that is no date stays a number."""
    if not _DATES[0] <= milliseconds < _DATES[1]:
        return str(milliseconds)
    return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def time_ago(milliseconds: int, now: float | None = None) -> str:
    """Formats a past time relative to now, in one unit: `3 minutes ago`."""
    if not _DATES[0] <= milliseconds < _DATES[1]:
        return f"at {milliseconds}"
    seconds = (time.time() if now is None else now) - milliseconds / 1000
    for step, unit in _UNITS:
        if seconds >= step:
            return f"{plural(int(seconds // step), unit)} ago"
    return "just now"


def time_until(milliseconds: int, now: float | None = None) -> str:
    """Formats a future time relative to now, in one unit: `in 3 minutes`."""
    seconds = milliseconds / 1000 - (time.time() if now is None else now)
    for step, unit in _UNITS:
        if seconds >= step:
            return f"in {plural(int(seconds // step), unit)}"
    return "now"


def first_line(error: BaseException) -> str:
    """The first line of the message of a library's error, without the causes that follow it."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
