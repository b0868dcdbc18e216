"""Dates and times in any of the forms that PostgreSQL reads, one text at a time.

    2024-1-5  2024/01/05  20240105T100000Z  Jan 5, 2024  5 January 2024  05-Jan-2024  1/5/2024 (month first)
    Fri Jan 5 10:00:00 2024   10:00 PM   10:00:00 America/New_York   J2460315   epoch

This is the slow path behind `time_text.py`: it sees only distinct texts that are not in the plain ISO form.
Words that mean a different time whenever they are read (`now`, `today`) are refused: a stored row would not
mean the same when it is read again. So are `infinity` and years before Christ, which lie outside the
calendar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

import numpy as np

from tidegate.expr.civil import (
    FIRST_DAY,
    LAST_DAY,
    MICROS_A_DAY,
    MICROS_A_MINUTE,
    MICROS_A_SECOND,
    MICROS_AN_HOUR,
    day_of,
)  # fmt: skip
from tidegate.expr.zones import find_zone

_MONTH_NAMES = [
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
]  # fmt: skip
_MONTHS = {name: i + 1 for i, full in enumerate(_MONTH_NAMES) for name in (full, full[:3])} | {"sept": 9}
_DAY_NAMES = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"]
_WEEKDAYS = {name for full in _DAY_NAMES for name in (full, full[:3])} | {
    "tues",
    "wednes",
    "weds",
    "thur",
    "thurs",
}
_MOVING = {"now", "today", "tomorrow", "yesterday", "allballs"}
_TOKEN = re.compile(
    r"""(?P<clock>\d{1,2}:\d{1,2}(?::\d{1,2}(?:\.\d*)?)?)
      | (?P<date>(?:\d+|[a-z]{3,9})(?P<sep>[-/.])(?:\d{1,2}|[a-z]{3,9})(?P=sep)\d+)
      | (?P<julian>j\d+)(?![a-z])
      | (?P<compact>\d{8}|\d{6})(?:\.(?P<fraction>\d*))?(?!\d)
      | (?P<number>\d+)
      | (?P<offset>[+-]\d{1,2}(?::?\d\d)?(?::?\d\d)?)(?![\d:])
      | (?P<t>t)(?=\d)
      | (?P<word>[a-z][a-z0-9_]*(?:/[a-z0-9_+-]+)*)
      | (?P<skip>[\s,]+)""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)


class Wanted(StrEnum):
    """What the text is read as; the value names the type in messages."""

    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"

    @property
    def shown(self) -> str:
        """The type's name as PostgreSQL prints it in this message."""
        return "timestamp with time zone" if self is Wanted.TIMESTAMPTZ else self.value


class _Range(Exception):  # noqa: N818  # a signal inside this module, never seen outside
    """A field is beyond its range."""


class _Displaced(Exception):  # noqa: N818  # likewise
    """A zone is further from Greenwich than any."""


@dataclass
class _Found:
    """What the tokens of one text have said so far."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    clock: int | None = None
    """Microseconds since midnight."""
    hour: int = 0
    half: str | None = None
    east: int | None = None
    """The zone's offset in microseconds."""
    zone: str | None = None
    before_christ: bool = False
    year_digits: int = 4
    clock_next: bool = False
    """Whether six digits are hhmmss: after a T, or where only a time is wanted."""
    days: int | None = None
    """The whole date at once, from a Julian day or the epoch."""


LONGEST = 128
"""Letters of a time, as in PostgreSQL: no number in it is too long to be read."""


def read_odd(text: str, wanted: Wanted) -> int | str:
    """Microseconds (since 1970; for a time, since midnight), or the message of what is wrong."""
    word = text.strip().lower()
    if len(word) > LONGEST:
        return f'invalid input syntax for type {wanted.shown}: "{text}"'
    if word in _MOVING or word in ("infinity", "-infinity", "+infinity"):
        if "infinity" in word:
            return f'{wanted.value} out of range: "{text}"'
        return f'"{text}" means another time whenever it is read: write now(), current_date or a date'
    found = _Found(clock_next=wanted is Wanted.TIME)
    try:
        if not _take(word, found):
            return f'invalid input syntax for type {wanted.shown}: "{text}"'
        return _assemble(text, found, wanted)
    except _Range:
        return f'date/time field value out of range: "{text}"'
    except _Displaced:
        return f'time zone displacement out of range: "{text}"'


def _take(text: str, found: _Found) -> bool:
    """Reads all tokens into `found`; False if the text has no sense."""
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or token.lastgroup is None:
            return False
        kind = next(k for k in _READERS if token[k] is not None)
        if not _READERS[kind](token, found):
            return False
        at = token.end()
    return True


def _clock(token: re.Match[str], found: _Found) -> bool:
    if found.clock is not None:
        return False
    main, _, tail = token["clock"].partition(".")
    hour, minute, second = [*map(int, main.split(":")), 0][:3]
    return _set_clock(found, hour, minute, second, tail)


def _set_clock(found: _Found, hour: int, minute: int, second: int, tail: str) -> bool:
    micros = round(float("0." + tail) * 1e6) if tail else 0
    if minute > 59 or second > 60 or hour > 24 or (hour == 24 and (minute or second or micros)):
        raise _Range
    found.hour = hour
    found.clock = hour * MICROS_AN_HOUR + minute * MICROS_A_MINUTE + second * MICROS_A_SECOND + micros
    return True


def _date(token: re.Match[str], found: _Found) -> bool:
    if found.month is not None or found.days is not None:
        return False
    first, second, third = token["date"].split(token["sep"])
    if first.isalpha() or second.isalpha():
        name, other = (first, second) if first.isalpha() else (second, first)
        if name not in _MONTHS or not other.isdigit():
            return False
        found.month = _MONTHS[name]
        year, day = (other, third) if len(other) > 2 else (third, other)
    elif len(first) > 2:
        year, found.month, day = first, int(second), third
    else:
        # PostgreSQL's default: month, day, year.
        found.month, day, year = int(first), second, third
    if len(day) > 2:
        return False
    found.day = int(day)
    _set_year(found, year)
    return True


def _set_year(found: _Found, digits: str) -> None:
    found.year, found.year_digits = int(digits), len(digits)
    if len(digits) <= 2:
        found.year += 2000 if found.year < 70 else 1900


def _julian(token: re.Match[str], found: _Found) -> bool:
    if found.days is not None or found.month is not None:
        return False
    found.days = int(token["julian"][1:]) - 2_440_588
    return True


def _compact(token: re.Match[str], found: _Found) -> bool:
    """YYYYMMDD, YYMMDD before a time is known, hhmmss after a date."""
    digits, fraction = token["compact"], token["fraction"]
    dated = found.month is not None or found.days is not None
    if len(digits) == 8 and not dated and not fraction:
        found.month, found.day = int(digits[4:6]), int(digits[6:])
        _set_year(found, digits[:4])
        return True
    if len(digits) == 6 and found.clock is None and (dated or found.clock_next or fraction is not None):
        return _set_clock(found, int(digits[:2]), int(digits[2:4]), int(digits[4:]), fraction or "")
    if len(digits) == 6 and not dated:
        found.month, found.day = int(digits[2:4]), int(digits[4:])
        _set_year(found, digits[:2])
        return True
    return False


def _number(token: re.Match[str], found: _Found) -> bool:
    """A day or a year beside a month's name: two digits are the day while none is known."""
    digits = token["number"]
    if len(digits) <= 2 and found.day is None and found.days is None:
        found.day = int(digits)
        return True
    if (found.year is None and found.day is not None) or (len(digits) > 2 and found.year is None):
        _set_year(found, digits)
        return True
    return False


def _offset(token: re.Match[str], found: _Found) -> bool:
    dated = found.month is not None or found.days is not None
    if (found.clock is None and not dated) or found.east is not None or found.zone is not None:
        return False
    digits = token["offset"][1:].replace(":", "")
    if len(digits) % 2:
        digits = "0" + digits
    hours, minutes, seconds = [*(int(digits[i : i + 2]) for i in range(0, len(digits), 2)), 0, 0][:3]
    if hours > 15 or minutes > 59 or seconds > 59:
        raise _Displaced
    east = hours * MICROS_AN_HOUR + minutes * MICROS_A_MINUTE + seconds * MICROS_A_SECOND
    found.east = -east if token["offset"][0] == "-" else east
    return True


def _word(token: re.Match[str], found: _Found) -> bool:
    word = token["word"].lower()
    if word in _MONTHS and found.month is None:
        found.month = _MONTHS[word]
    elif word in ("am", "pm") and found.clock is not None:
        found.half = word
    elif word in ("ad", "bc"):
        found.before_christ = word == "bc"
    elif word == "epoch" and token.start() == 0 and token.end() == len(token.string):
        found.days, found.clock, found.east = 0, 0, 0
    elif found.zone is None and found.east is None and find_zone(word) is not None:
        found.zone = word
    else:
        return word in _WEEKDAYS or word in ("at", "on")
    return True


def _t(_: re.Match[str], found: _Found) -> bool:
    found.clock_next = True
    return True


def _skip(_token: re.Match[str], _found: _Found) -> bool:
    return True


_READERS = {
    "clock": _clock, "date": _date, "julian": _julian, "compact": _compact, "number": _number,
    "offset": _offset,    "t": _t, "word": _word, "skip": _skip,
}  # fmt: skip


def _assemble(text: str, found: _Found, wanted: Wanted) -> int | str:
    bad = f'invalid input syntax for type {wanted.shown}: "{text}"'
    clock = _half_day(found)
    days: int | str | None = found.days
    if days is None and (found.month is not None or found.year is not None or found.day is not None):
        if found.year is None or found.month is None or found.day is None:
            return bad
        days = _day(found, text, wanted)
        if isinstance(days, str):
            return days
    if wanted is Wanted.TIME:
        if (
            found.clock is None
            or text.strip().lower() == "epoch"
            or (found.zone is not None and days is None)
        ):
            return bad
        # 24:00 is a time of day for PostgreSQL; Arrow and Spark end the day a microsecond before.
        return clock if clock < MICROS_A_DAY else f'date/time field value out of range: "{text}"'
    if days is None:
        return bad
    assert isinstance(days, int)
    micros = days * MICROS_A_DAY + clock
    if wanted is Wanted.TIMESTAMPTZ:
        micros -= _offset_of(found, micros)
    if wanted is Wanted.DATE:
        micros = days * MICROS_A_DAY
    if not FIRST_DAY * MICROS_A_DAY <= micros < (LAST_DAY + 1) * MICROS_A_DAY:
        return f'{wanted.value.removesuffix("tz")} out of range: "{text}"'
    return micros


def _half_day(found: _Found) -> int:
    """The clock, with AM and PM taken into account."""
    if found.half is None:
        return found.clock or 0
    if found.hour > 12:
        raise _Range
    shift = (12 if found.half == "pm" else 0) - (12 if found.hour == 12 else 0)
    return (found.clock or 0) + shift * MICROS_AN_HOUR


def _day(found: _Found, text: str, wanted: Wanted) -> int | str:
    assert found.year is not None
    assert found.month is not None
    assert found.day is not None
    if not 1 <= found.month <= 12 or not 1 <= found.day <= 31 or found.year == 0:
        raise _Range
    if found.before_christ or found.year > 9999:
        return f'{wanted.value.removesuffix("tz")} out of range: "{text}"'
    try:
        date(found.year, found.month, found.day)
    except ValueError:
        raise _Range from None
    return day_of(found.year, found.month, found.day)


def _offset_of(found: _Found, local: int) -> int:
    if found.east is not None:
        return found.east
    zone = None if found.zone is None else find_zone(found.zone)
    return 0 if zone is None else int(zone.offset_of_local(np.array([local]))[0])
