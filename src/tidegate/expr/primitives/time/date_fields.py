"""The fields of a date and a time as tokens fill them, by PostgreSQL's rules for `DateStyle` MDY.

A number's meaning depends on its length and on the fields that are known already:

    1999-01-08     three digits or more and nothing known: the year; then the month, then the day
    1/8/1999       one or two digits: the month first, then the day, then the year
    8-Jan-99       beside the name of a month: the day; then the year, of two digits: 1970 to 2069
    1999.008       three digits behind a year: the day of the year
    19990108       six digits or more: the last two are the day, the two before it the month
    040506         four or six digits where the date is known: hours, minutes and seconds
"""

from __future__ import annotations

import re
from calendar import isleap, monthrange

from tidegate.expr.primitives.time.calendar import (
    MICROS_A_DAY,
    MICROS_A_MINUTE,
    MICROS_A_SECOND,
    MICROS_AN_HOUR,
)
from tidegate.expr.primitives.time.tokens import MONTHS

YEAR, MONTH, DAY, DAY_OF_YEAR, HOUR, MINUTE, SECOND, FRACTION, ZONE, HALF, ERA, WEEKDAY = (
    1 << i for i in range(12)
)
"""Which fields are known, as bits."""
DATE_FIELDS = YEAR | MONTH | DAY
CLOCK_FIELDS = HOUR | MINUTE | SECOND | FRACTION
MONTH_NUMBERS = {name: i for i, full in enumerate(MONTHS, 1) for name in (full, full[:3])} | {"sept": 9}
_GREATEST = 2**31 - 1


class TimeSyntaxError(Exception):
    """The text has no form that is known."""


class TimeFieldError(Exception):
    """A field has a value that it cannot have, as month 13."""


class ZoneOffsetError(Exception):
    """The offset of a zone is too great."""


def whole(text: str) -> int:
    """Digits as a number; a field error beyond 32 bits."""
    value = int(text or "0")
    if value > _GREATEST:
        raise TimeFieldError
    return value


def fraction_micros(text: str) -> int:
    """A point and digits as microseconds."""
    return round(float(f"0{text}0") * 1e6)


class DateFields:
    """The fields of one text."""

    def __init__(self) -> None:
        self.seen = 0
        self.year = self.month = self.day = self.day_of_year = 0
        self.hour = self.minute = self.second = self.micros = 0
        self.text_month = self.two_digits = False
        self.days: int | None = None
        """The date as a number of days since 1970, if it was given as one."""

    def mark(self, fields: int) -> None:
        """Adds fields to those that are known; none may be given twice."""
        if self.seen & fields:
            raise TimeSyntaxError
        self.seen |= fields

    def knows_date(self) -> bool:
        """Whether year, month and day are known."""
        return self.seen & DATE_FIELDS == DATE_FIELDS

    def read_date(self, text: str) -> None:
        """A date in one piece: 1999-01-08, 8-jan-1999, 1/8/1999."""
        parts, at = list[str](), 0
        while at < len(text):
            at += len(re.match(r"[^a-z0-9]*", text[at:])[0])  # type: ignore[index]  # it matches nothing, too
            found = re.match(r"\d+|[a-z]+", text[at:], re.ASCII)
            if found is None:
                raise TimeSyntaxError
            parts.append(found[0])
            at += len(found[0]) + 1  # whatever stands behind a part divides it from the next
        for word in [part for part in parts if part.isalpha()]:
            if word not in MONTH_NUMBERS:
                raise TimeSyntaxError
            self.mark(MONTH)
            self.month = MONTH_NUMBERS[word]
        named = any(part.isalpha() for part in parts)
        for part in parts:
            if not part.isalpha():
                self.mark(self.read_number(part, self.seen, named))
        if self.seen & ~(DAY_OF_YEAR | ZONE) != DATE_FIELDS:  # a clock or a weekday may not stand before it
            raise TimeSyntaxError

    def read_number(self, text: str, seen: int, text_month: bool) -> int:
        """A number as the next field of a date, or as a clock where the date is known; the fields it gives."""
        head, point, tail = text.partition(".")
        if not head:
            raise TimeSyntaxError
        if point and len(head) > 2:
            return self.read_joined(text, seen | DATE_FIELDS)
        value = whole(head)
        if point:
            self.micros = fraction_micros(point + tail)
        if len(text) == 3 and seen & DATE_FIELDS == YEAR and 1 <= value <= 366:
            self.day_of_year = value
            return DAY_OF_YEAR | MONTH | DAY
        match seen & DATE_FIELDS:
            case 0:
                return self._set_year(value, text) if len(text) >= 3 else self._set_month(value)
            case fields if fields == MONTH and text_month and len(text) >= 3:
                return self._set_year(value, text)
            case fields if fields in (MONTH, YEAR | MONTH):
                return self._set_day(value, text, late_year=fields != MONTH and text_month)
            case fields if fields in (YEAR, DAY):
                return self._set_month(value)
            case fields if fields == MONTH | DAY:
                return self._set_year(value, text)
            case fields if fields == DATE_FIELDS:
                return self.read_joined(text, seen)
            case _:
                raise TimeSyntaxError

    def _set_year(self, value: int, text: str) -> int:
        self.year, self.two_digits = value, len(text) <= 2
        return YEAR

    def _set_month(self, value: int) -> int:
        self.month = value
        return MONTH

    def _set_day(self, value: int, text: str, late_year: bool) -> int:
        if late_year and len(text) >= 3 and self.two_digits:  # what was taken for the year is the day
            self.day, self.year, self.two_digits = self.year, value, False
        else:
            self.day = value
        return DAY

    def read_joined(self, text: str, seen: int) -> int:
        """Digits in one piece: YYYYMMDD while there is no date, else hhmmss or hhmm; the fields they give."""
        digits, point, tail = text.partition(".")
        if not digits.isdigit():
            raise TimeSyntaxError
        if point:
            self.micros = fraction_micros(point + tail)
        elif seen & DATE_FIELDS != DATE_FIELDS and len(digits) >= 6:
            self.year, self.month, self.day = whole(digits[:-4]), int(digits[-4:-2]), int(digits[-2:])
            self.two_digits = len(digits) == 6
            return DATE_FIELDS
        if seen & CLOCK_FIELDS == CLOCK_FIELDS or len(digits) not in (4, 6):
            raise TimeSyntaxError
        self.hour, self.minute, self.second = int(digits[:2]), int(digits[2:4]), int(digits[4:] or 0)
        return CLOCK_FIELDS

    def read_clock(self, text: str) -> None:
        """A clock hh:mm[:ss[.f]], or mm:ss.f."""
        match = _CLOCK.fullmatch(text)
        if match is None:
            raise TimeSyntaxError
        first, second, third = whole(match[1]), whole(match[2]), whole(match[3] or "")
        if match[3] is None and match[4] is not None:
            first, second, third = 0, first, second
        self.mark(CLOCK_FIELDS)
        self.hour, self.minute, self.second = first, second, third
        self.micros = fraction_micros(match[4]) if match[4] else 0
        self.check_clock()

    def check_clock(self) -> None:
        """Refuses a clock beyond 24:00:00."""
        if self.hour > 24 or self.minute > 59 or self.second > 60 or self.clock() > MICROS_A_DAY:
            raise TimeFieldError

    def clock(self) -> int:
        """Microseconds since midnight."""
        return (
            self.hour * MICROS_AN_HOUR
            + self.minute * MICROS_A_MINUTE
            + self.second * MICROS_A_SECOND
            + self.micros
        )

    def check_date(self, before_christ: bool) -> None:
        """Completes and checks year, month and day."""
        if self.seen & YEAR and self.days is None:
            if self.two_digits and not before_christ:
                self.year += 2000 if self.year < 70 else 1900 if self.year < 100 else 0
            elif self.year <= 0:
                raise TimeFieldError
        if self.seen & DAY_OF_YEAR:
            self._from_day_of_year()
        if self.days is not None:
            return
        if (self.seen & MONTH and not 1 <= self.month <= 12) or (self.seen & DAY and not 1 <= self.day <= 31):
            raise TimeFieldError
        if self.knows_date():
            # Leap years repeat every 400 years, so those beyond year 9999 are known, too.
            year = (1 - self.year if before_christ else self.year) % 400 + 400
            if self.day > monthrange(year, self.month)[1]:
                raise TimeFieldError

    def _from_day_of_year(self) -> None:
        left, leap = self.day_of_year, isleap(self.year)
        for month in range(1, 13):
            length = monthrange(4 if leap else 1, month)[1]
            if left <= length:
                self.month, self.day = month, left
                return
            left -= length
        self.year, self.month, self.day = self.year + 1, 1, left  # day 366 of a year of 365 days


_CLOCK = re.compile(r"(\d+):(\d*)(?::(\d*))?(\.\d*)?", re.ASCII)


def read_offset(text: str) -> int:
    """The offset of a zone, +hh, +hhmm, +hh:mm or +hh:mm:ss, in microseconds east."""
    match = re.fullmatch(r"([+-])(\d*)(?::(\d*)(?::(\d*))?)?", text, re.ASCII)
    if match is None:
        raise TimeSyntaxError
    hours, minutes, seconds = (whole(match[i] or "") for i in (2, 3, 4))
    if match[3] is None and len(text) > 3:
        hours, minutes = divmod(hours, 100)
    if hours > 15 or minutes > 59 or seconds > 59:
        raise ZoneOffsetError
    east = hours * MICROS_AN_HOUR + minutes * MICROS_A_MINUTE + seconds * MICROS_A_SECOND
    return -east if match[1] == "-" else east
