"""Text for people and for SQL: quoted names, sizes, counts, times, and places in a statement.

    identifier("price")       price
    identifier("Price")       "Price"      unquoted it would be folded to price
    identifier("order")       "order"      a reserved word of the grammar
    format_bytes(1_234_567)   1.2 MB
    plural(2, "part")         2 parts
    time_ago(milliseconds)    3 minutes ago
    format_duration(0.0045)   4.5 ms
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
import unicodedata
from dataclasses import dataclass

EXCERPT = 76  # characters of a SQL line that are shown: fits a terminal of 80 with the indent
SECRET = 4_000  # characters of a secret that are hidden, and of what may stand before it


_HOLDS_SECRETS = re.compile(r"(?i)\bcreate\s+(?:connection|source)\b")
_SECRETS = re.compile(
    r"(?i)(\b(?:password|secret|token|key)\s*=?\s*'|[?&][a-z_]*(?:secret|password|token|key)=)((?:[^']|'')*)"
)
"""`PASSWORD 'this'`, and `?secret_access_key=this` to the end of the URL."""


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


class SqlText(str):
    """A name of a column that is shown as it is, such as `orders.id` or `sum(price)`."""

    __slots__ = ()


def plural(count: int, noun: str) -> str:
    """Formats a count with its noun: `1 part`, `2 parts`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_duration(seconds: float) -> str:
    """A length of time for people: `820 µs`, `4.5 ms`, `1.24 s`, `2 min 5 s`, `3 h 12 min`."""
    if seconds < 0.000_999_5:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.999_5:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{plural(hours // 24, 'day')} {hours % 24} h"


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


@dataclass(frozen=True, slots=True)
class Position:
    """A stretch `[start, end)` of a SQL text, in characters.

    Any two numbers will do: they are brought into the text when it is shown. A start at or past the end of
    the text means "here something is missing", and is shown right after the last word:

        SELECT 1 +
                  ^
    """

    sql: str
    start: int
    end: int

    @property
    def line(self) -> int:
        """The line of the start, counted from 1."""
        return self.sql.count("\n", 0, self._at()) + 1

    @property
    def column(self) -> int:
        """The column of the start in its line, in characters (a tab is one), counted from 1."""
        at = self._at()
        return at - self.sql.rfind("\n", 0, at)  # rfind gives -1 on the first line: counted from 1 there too

    def excerpt(self) -> tuple[str, str] | None:
        """The line around the start, at most `EXCERPT` characters of it, and the carets to print below.

        None when the line is blank and there is nothing to see.
        """
        at = self._at()
        first = self.sql.rfind("\n", 0, at) + 1
        # Only the window is ever copied: a generated statement may be one line of many megabytes.
        low = max(first, at - EXCERPT // 2)
        newline = self.sql.find("\n", at, low + EXCERPT)
        high = min(low + EXCERPT, len(self.sql)) if newline < 0 else newline
        if high - low < EXCERPT:  # near the end of the line: show more of what comes before
            low = max(first, high - EXCERPT)
        more = high < len(self.sql) and newline < 0 and self.sql[high] != "\n"
        shown = self._without_secrets(low, high)
        before, after = printable(shown[: at - low]), printable(shown[at - low :])
        if low > first and before:
            before = "…" + before[1:]
        if more and after:
            after = after[:-1] + "…"
        if not (before + after).strip():
            return None
        marked = after[: max(1, min(self.end, high) - at)]
        return (before + after).rstrip(), " " * _cells(before) + "^" * max(1, _cells(marked.rstrip()))

    def _without_secrets(self, low: int, high: int) -> str:
        """A slice of the text, with secrets replaced by stars of the same length."""
        if not _HOLDS_SECRETS.search(self.sql, 0, high):
            return self.sql[low:high]
        begin = max(0, low - SECRET)
        hidden = _SECRETS.sub(
            lambda found: found[1] + re.sub(r"[^\n']", "*", found[2]), self.sql[begin : high + SECRET]
        )
        return hidden[low - begin : high - begin]

    def _at(self) -> int:
        """The start, brought into the text."""
        if self.start >= len(self.sql):
            return len(self.sql.rstrip())
        return max(0, self.start)


def printable(text: str) -> str:
    """One character for one: a space for any white space, `?` for what a terminal would act upon."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def _cells(text: str) -> int:
    """How wide a terminal shows the text: two cells for a Chinese character, none for a combining accent."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)
