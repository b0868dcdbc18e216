"""Parses dates and times in any form that PostgreSQL accepts, one text at a time.

    2024-1-5  2024/01/05  20240105T100000Z  Jan 5, 2024  5 January 2024  05-Jan-2024  1/5/2024 (month first)
    Fri Jan 5 10:00:00 2024   10:00 PM   10:00:00 America/New_York   J2460315   epoch

This is the slow path behind `text.py`: it sees only distinct texts that are not in plain ISO form. Words whose meaning depends on
when they are read (`now`, `today`) are errors, since a stored row would change its meaning. So are `infinity` and years before
Christ, which lie outside the calendar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

import numpy as np

from tidegate.expr.primitives.time.calendar import (
    FIRST_DAY,
    LAST_DAY,
    MICROS_A_DAY,
    MICROS_A_MINUTE,
    MICROS_A_SECOND,
    MICROS_AN_HOUR,
    day_of,
)  # fmt: skip
from tidegate.expr.primitives.time.zones import find_zone

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


class TimeKind(StrEnum):
    """The type that a text is read as; the value names it in messages."""

    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"

    @property
    def shown(self) -> str:
        """The name of the type in PostgreSQL's syntax errors."""
        return "timestamp with time zone" if self is TimeKind.TIMESTAMPTZ else self.value


class _InvalidTimeError(Exception):
    """The text is not a valid time; the message lacks the text itself, which `parse_lenient` adds."""


def _syntax_error(kind: TimeKind) -> _InvalidTimeError:
    return _InvalidTimeError(f"invalid input syntax for type {kind.shown}")


def _field_error() -> _InvalidTimeError:
    return _InvalidTimeError("date/time field value out of range")


def _range_error(kind: TimeKind) -> _InvalidTimeError:
    return _InvalidTimeError(f"{kind.value.removesuffix('tz')} out of range")


@dataclass
class _TimeFields:
    """The fields of a time, filled token by token."""

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
    clock_next: bool = False
    """Whether six digits are hhmmss: after a T, or for a type without a date."""
    days: int | None = None
    """The whole date as a day number, from a Julian day or the epoch."""


MAX_TEXT_LENGTH = 128
"""PostgreSQL's limit on the characters of a time; it also bounds the digits of numbers."""


def parse_lenient(text: str, kind: TimeKind) -> int | str:
    """Microseconds (since 1970; for a time, since midnight), or the error message."""
    word = text.strip().lower()
    if word in _MOVING:
        return f'"{text}" means another time whenever it is read: write now(), current_date or a date'
    if word in ("infinity", "-infinity", "+infinity"):
        return f'{kind.value} out of range: "{text}"'
    try:
        if len(word) > MAX_TEXT_LENGTH:
            raise _syntax_error(kind)
        fields = _TimeFields(clock_next=kind is TimeKind.TIME)
        if not _read_tokens(word, fields):
            raise _syntax_error(kind)
        return _assemble(word, fields, kind)
    except _InvalidTimeError as error:
        return f'{error}: "{text}"'


def _read_tokens(text: str, fields: _TimeFields) -> bool:
    """Reads all tokens into `fields`; False if a token is unknown or does not fit the others."""
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or token.lastgroup is None:
            return False
        kind = next(k for k in _READERS if token[k] is not None)
        if not _READERS[kind](token, fields):
            return False
        at = token.end()
    return True


def _clock(token: re.Match[str], fields: _TimeFields) -> bool:
    if fields.clock is not None:
        return False
    main, _, tail = token["clock"].partition(".")
    hour, minute, second = [*map(int, main.split(":")), 0][:3]
    return _set_clock(fields, hour, minute, second, tail)


def _set_clock(fields: _TimeFields, hour: int, minute: int, second: int, tail: str) -> bool:
    micros = round(float("0." + tail) * 1e6) if tail else 0
    if minute > 59 or second > 60 or hour > 24 or (hour == 24 and (minute or second or micros)):
        raise _field_error()
    fields.hour = hour
    fields.clock = hour * MICROS_AN_HOUR + minute * MICROS_A_MINUTE + second * MICROS_A_SECOND + micros
    return True


def _date(token: re.Match[str], fields: _TimeFields) -> bool:
    if fields.month is not None or fields.days is not None:
        return False
    first, second, third = token["date"].split(token["sep"])
    if first.isalpha() or second.isalpha():
        name, other = (first, second) if first.isalpha() else (second, first)
        if name not in _MONTHS or not other.isdigit():
            return False
        fields.month = _MONTHS[name]
        year, day = (other, third) if len(other) > 2 else (third, other)
    elif len(first) > 2:
        year, fields.month, day = first, int(second), third
    else:
        # PostgreSQL's default: month, day, year.
        fields.month, day, year = int(first), second, third
    if len(day) > 2:
        return False
    fields.day = int(day)
    _set_year(fields, year)
    return True


def _set_year(fields: _TimeFields, digits: str) -> None:
    fields.year = int(digits)
    if len(digits) <= 2:
        fields.year += 2000 if fields.year < 70 else 1900


def _julian(token: re.Match[str], fields: _TimeFields) -> bool:
    if fields.days is not None or fields.month is not None:
        return False
    fields.days = int(token["julian"][1:]) - 2_440_588
    return True


def _compact(token: re.Match[str], fields: _TimeFields) -> bool:
    """YYYYMMDD; YYMMDD before a date is known, hhmmss after."""
    digits, fraction = token["compact"], token["fraction"]
    dated = fields.month is not None or fields.days is not None
    if len(digits) == 8 and not dated and not fraction:
        fields.month, fields.day = int(digits[4:6]), int(digits[6:])
        _set_year(fields, digits[:4])
        return True
    if len(digits) == 6 and fields.clock is None and (dated or fields.clock_next or fraction is not None):
        return _set_clock(fields, int(digits[:2]), int(digits[2:4]), int(digits[4:]), fraction or "")
    if len(digits) == 6 and not dated:
        fields.month, fields.day = int(digits[2:4]), int(digits[4:])
        _set_year(fields, digits[:2])
        return True
    return False


def _number(token: re.Match[str], fields: _TimeFields) -> bool:
    """A day or a year beside the name of a month: two digits are the day while it is unknown."""
    digits = token["number"]
    if len(digits) <= 2 and fields.day is None and fields.days is None:
        fields.day = int(digits)
        return True
    if (fields.year is None and fields.day is not None) or (len(digits) > 2 and fields.year is None):
        _set_year(fields, digits)
        return True
    return False


def _offset(token: re.Match[str], fields: _TimeFields) -> bool:
    dated = fields.month is not None or fields.days is not None
    if (fields.clock is None and not dated) or fields.east is not None or fields.zone is not None:
        return False
    digits = token["offset"][1:].replace(":", "")
    if len(digits) % 2:
        digits = "0" + digits
    hours, minutes, seconds = [*(int(digits[i : i + 2]) for i in range(0, len(digits), 2)), 0, 0][:3]
    if hours > 15 or minutes > 59 or seconds > 59:
        raise _InvalidTimeError("time zone displacement out of range")
    east = hours * MICROS_AN_HOUR + minutes * MICROS_A_MINUTE + seconds * MICROS_A_SECOND
    fields.east = -east if token["offset"][0] == "-" else east
    return True


def _word(token: re.Match[str], fields: _TimeFields) -> bool:
    word = token["word"].lower()
    if word in _MONTHS and fields.month is None:
        fields.month = _MONTHS[word]
    elif word in ("am", "pm") and fields.clock is not None:
        fields.half = word
    elif word in ("ad", "bc"):
        fields.before_christ = word == "bc"
    elif word == "epoch" and token.start() == 0 and token.end() == len(token.string):
        fields.days, fields.clock, fields.east = 0, 0, 0
    elif fields.zone is None and fields.east is None and find_zone(word) is not None:
        fields.zone = word
    else:
        return word in _WEEKDAYS or word in ("at", "on")
    return True


def _t(_: re.Match[str], fields: _TimeFields) -> bool:
    fields.clock_next = True
    return True


def _skip(_token: re.Match[str], _fields: _TimeFields) -> bool:
    return True


_READERS = {
    "clock": _clock, "date": _date, "julian": _julian, "compact": _compact, "number": _number,
    "offset": _offset,    "t": _t, "word": _word, "skip": _skip,
}  # fmt: skip


def _assemble(text: str, fields: _TimeFields, kind: TimeKind) -> int:
    clock, days = _half_day(fields), _date_of(fields, kind)
    if kind is TimeKind.TIME:
        if fields.clock is None or text == "epoch" or (fields.zone is not None and days is None):
            raise _syntax_error(kind)
        # 24:00 is a time of day in PostgreSQL; in Arrow and Spark the day ends a microsecond before.
        if clock >= MICROS_A_DAY:
            raise _field_error()
        return clock
    if days is None:
        raise _syntax_error(kind)
    micros = days * MICROS_A_DAY + clock
    if kind is TimeKind.TIMESTAMPTZ:
        micros -= _offset_of(fields, micros)
    if kind is TimeKind.DATE:
        micros = days * MICROS_A_DAY
    if not FIRST_DAY * MICROS_A_DAY <= micros < (LAST_DAY + 1) * MICROS_A_DAY:
        raise _range_error(kind)
    return micros


def _half_day(fields: _TimeFields) -> int:
    """Microseconds since midnight, AM and PM applied."""
    if fields.half is None:
        return fields.clock or 0
    if fields.hour > 12:
        raise _field_error()
    shift = (12 if fields.half == "pm" else 0) - (12 if fields.hour == 12 else 0)
    return (fields.clock or 0) + shift * MICROS_AN_HOUR


def _date_of(fields: _TimeFields, kind: TimeKind) -> int | None:
    """The day number, or None if the text has no date."""
    year, month, day = fields.year, fields.month, fields.day
    if fields.days is not None or (year is None and month is None and day is None):
        return fields.days
    if year is None or month is None or day is None:
        raise _syntax_error(kind)
    if not 1 <= month <= 12 or not 1 <= day <= 31 or year == 0:
        raise _field_error()
    if fields.before_christ or year > 9999:
        raise _range_error(kind)
    try:
        date(year, month, day)
    except ValueError:
        raise _field_error() from None
    return day_of(year, month, day)


def _offset_of(fields: _TimeFields, local: int) -> int:
    if fields.east is not None:
        return fields.east
    zone = None if fields.zone is None else find_zone(fields.zone)
    return 0 if zone is None else int(zone.offset_of_local(np.array([local]))[0])
