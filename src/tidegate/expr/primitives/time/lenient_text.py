"""Parses dates and times in any form that PostgreSQL accepts, one text at a time.

    2024-1-5  2024/01/05  20240105T100000Z  Jan 5, 2024  5 January 2024  05-Jan-2024  1/5/2024 (month first)
    Fri Jan 5 10:00:00 2024   10:00 PM   10:00:00 America/New_York   J2460315   y2024m01d05   2024.005   epoch   allballs

This is the slow path behind `text.py`: it sees only distinct texts that are not in plain ISO form. `tokens.py` divides a text,
`date_fields.py` says what a number means. Words whose meaning depends on when they are read (`now`, `today`) are errors, since a
stored row would change its meaning. So are `infinity` and years before Christ, which lie outside the calendar.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import numpy as np

from tidegate.expr.primitives.time.calendar import FIRST_DAY, LAST_DAY, MICROS_A_DAY, day_of
from tidegate.expr.primitives.time.date_fields import (
    CLOCK_FIELDS,
    DATE_FIELDS,
    DAY,
    ERA,
    FRACTION,
    HALF,
    HOUR,
    MINUTE,
    MONTH,
    MONTH_NUMBERS,
    SECOND,
    WEEKDAY,
    YEAR,
    ZONE,
    DateFields,
    TimeFieldError,
    TimeSyntaxError,
    ZoneOffsetError,
    fraction_micros,
    read_offset,
    whole,
)
from tidegate.expr.primitives.time.tokens import MAX_TEXT_LENGTH, WEEKDAYS, TimeToken, shorten, tokenize
from tidegate.expr.primitives.time.zones import ABBREVIATIONS, find_zone

_MOVING = frozenset(("now", "today", "tomorrow", "yesterday"))
_WEEKDAYS = frozenset((*WEEKDAYS, *(day[:3] for day in WEEKDAYS), "tues", "wednes", "weds", "thur", "thurs"))
_EPOCH_JULIAN = 2_440_588

Label = Literal["year", "month", "day", "hour", "minute", "second", "julian", "clock", "other"]
"""What a word says about the number behind it: `y2024`, `j2460315`, `t100000`."""
_LABELS: dict[str, Label] = {
    "y": "year", "m": "month", "d": "day", "h": "hour", "mm": "minute", "s": "second", "j": "julian", "jd": "julian",
    "julian": "julian", "doy": "other", "dow": "other", "isodow": "other", "isoyear": "other",
}  # fmt: skip


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


class _OutOfCalendarError(Exception):
    """The time is valid, but lies outside of the years 1 to 9999."""


class _MovingWordError(Exception):
    """The text means another time whenever it is read."""


def parse_lenient(text: str, kind: TimeKind) -> int | str:
    """Microseconds (since 1970; for a time, since midnight), or the error message."""
    try:
        tokens = tokenize(text) if len(text.strip()) <= MAX_TEXT_LENGTH else None
        if not tokens:
            raise TimeSyntaxError
        return _Reader(tokens, kind).result()
    except TimeSyntaxError:
        return f'invalid input syntax for type {kind.shown}: "{text}"'
    except TimeFieldError:
        return f'date/time field value out of range: "{text}"'
    except ZoneOffsetError:
        return f'time zone displacement out of range: "{text}"'
    except _OutOfCalendarError:
        return f'{kind.value.removesuffix("tz")} out of range: "{text}"'
    except _MovingWordError:
        return f'"{text}" means another time whenever it is read: write now(), current_date or a date'


class _Reader:
    """Reads the tokens of one text into fields."""

    def __init__(self, tokens: list[TimeToken], kind: TimeKind) -> None:
        self.tokens, self.kind = tokens, kind
        self.fields = DateFields()
        self.label: Label | None = None
        self.half: str | None = None
        self.before_christ = False
        self.east: int | None = None
        """The zone's offset in microseconds."""
        self.zone: str | None = None
        self.epoch = False
        for place, token in enumerate(tokens):
            self._read(place, token)

    @property
    def time_alone(self) -> bool:
        """Whether a time of day is read, and a date only beside it."""
        return self.kind is TimeKind.TIME

    def _read(self, place: int, token: TimeToken) -> None:
        match token.kind:
            case "time":
                if self.label not in (None, "clock") and not self.time_alone:
                    raise TimeSyntaxError
                self.label = None if self.label == "clock" else self.label
                self.fields.read_clock(token.text)
            case "date":
                self._date(place, token.text)
            case "signed":
                self._offset(token.text)
            case "number":
                self._number(place, token.text)
            case _:
                self._word(place, token.text)

    # ------------------------------------------------------------ dates, and what looks like one

    def _date(self, place: int, text: str) -> None:
        if self.time_alone:
            last, second = self.tokens[-1].kind, self.tokens[1].kind if len(self.tokens) > 1 else ""
            zoned = not (place == 0 and len(self.tokens) > 1 and (last == "date" or second == "time"))
        else:
            zoned = self.label is not None or self.fields.seen & (MONTH | DAY) == MONTH | DAY
        if not zoned:
            self.fields.read_date(text)
        elif text[0].isdigit() or self.label is not None:
            self._clock_with_offset(text)
        elif find_zone(text) is None:
            raise TimeSyntaxError
        else:
            self.fields.mark(ZONE)
            self.zone = text

    def _clock_with_offset(self, text: str) -> None:
        """hhmmss-zz."""
        if (
            self.label not in (None, "clock")
            or self.fields.seen & CLOCK_FIELDS == CLOCK_FIELDS
            or "-" not in text
        ):
            raise TimeSyntaxError
        self.label = None
        digits = text[: text.index("-")]
        self.east = read_offset(text[len(digits) :])
        seen = self.fields.seen | (DATE_FIELDS if self.time_alone else 0)
        self.fields.mark(self.fields.read_joined(digits, seen) | ZONE)

    def _offset(self, text: str) -> None:
        self.east = read_offset(text)
        self.fields.mark(ZONE)

    # ------------------------------------------------------------ numbers

    def _number(self, place: int, text: str) -> None:
        if self.label is not None:
            label, self.label = self.label, None
            self._labelled(label, text)
            return
        fields = self.fields
        point = text.find(".")
        if self.time_alone:
            self._number_of_time(place, text, point)
        elif point >= 0 and not fields.seen & DATE_FIELDS:
            fields.read_date(text)
        elif point > 2 or (
            point < 0 and len(text) >= 6 and not (fields.seen & DATE_FIELDS and fields.seen & CLOCK_FIELDS)
        ):
            fields.mark(fields.read_joined(text, fields.seen))
        else:
            fields.mark(fields.read_number(text, fields.seen, fields.text_month))

    def _number_of_time(self, place: int, text: str, point: int) -> None:
        fields = self.fields
        if point >= 0 and place == 0 and len(self.tokens) > 1 and self.tokens[-1].kind == "date":
            fields.read_date(text)
        elif point >= 0 and point <= 2:
            raise TimeSyntaxError
        elif point >= 0 or len(text) > 4:
            fields.mark(fields.read_joined(text, fields.seen | DATE_FIELDS))
        else:
            fields.mark(fields.read_number(text, fields.seen | DATE_FIELDS, False))

    def _labelled(self, label: Label, text: str) -> None:
        fields = self.fields
        head, point, tail = text.partition(".")
        if point and label not in ("julian", "clock", "second"):
            raise TimeSyntaxError
        if label == "clock":
            given = fields.read_joined(text, fields.seen | DATE_FIELDS)
            fields.mark(given)
            return
        value = whole(head)
        match label:
            case "year":
                fields.mark(YEAR)
                fields.year = value
            case "month" if fields.seen & MONTH and fields.seen & HOUR:
                fields.mark(MINUTE)
                fields.minute = value
            case "month" | "day" | "hour" | "minute" | "second":
                bits = {"month": MONTH, "day": DAY, "hour": HOUR, "minute": MINUTE, "second": SECOND}
                fields.mark(bits[label] | (FRACTION if point else 0))
                setattr(fields, label, value)
                fields.micros = fraction_micros(point + tail) if point else fields.micros
            case "julian":
                fields.mark(DATE_FIELDS)
                fields.days = value - _EPOCH_JULIAN
                if point:
                    fields.mark(CLOCK_FIELDS)
                    fields.micros = int(float(f"0{point}{tail}0") * MICROS_A_DAY)
            case _:
                raise TimeSyntaxError

    # ------------------------------------------------------------ words

    def _word(self, place: int, text: str) -> None:
        word, fields = shorten(text), self.fields
        if word.upper() in ABBREVIATIONS:
            fields.mark(ZONE)
            self.zone = word
        elif word in MONTH_NUMBERS and not self.time_alone:
            self._month(MONTH_NUMBERS[word])
        elif word in ("am", "pm"):
            fields.mark(HALF)
            self.half = word
        elif word in ("ad", "bc"):
            fields.mark(ERA)
            self.before_christ = word == "bc"
        elif word in _WEEKDAYS and not self.time_alone:
            fields.mark(WEEKDAY)
        elif word in _LABELS:
            self.label = _LABELS[word]
        elif word == "t":
            self._clock_follows(place)
        elif word not in ("at", "on"):
            self._reserved(word, text)

    def _reserved(self, word: str, text: str) -> None:
        fields = self.fields
        if word in _MOVING and not (self.time_alone and word != "now"):
            raise _MovingWordError
        if word == "allballs":
            fields.mark(CLOCK_FIELDS | ZONE)
            self.east = 0
        elif word in ("epoch", "infinity", "-infinity", "+infinity") and not self.time_alone:
            fields.mark(DATE_FIELDS | CLOCK_FIELDS | ZONE)
            if word != "epoch":
                raise _OutOfCalendarError
            self.epoch = True
        elif find_zone(text) is None:
            raise TimeSyntaxError
        else:
            fields.mark(ZONE)
            self.zone = text

    def _month(self, number: int) -> None:
        fields = self.fields
        numeric = fields.seen & MONTH and not fields.text_month and not fields.seen & DAY
        if numeric and 1 <= fields.month <= 31:  # the number before was the day
            fields.mark(DAY)
            fields.day = fields.month
        else:
            fields.mark(MONTH)
        fields.text_month, fields.month = True, number

    def _clock_follows(self, place: int) -> None:
        follows = self.tokens[place + 1].kind if place + 1 < len(self.tokens) else ""
        if (not self.time_alone and not self.fields.knows_date()) or follows not in (
            "number",
            "time",
            "date",
        ):
            raise TimeSyntaxError
        self.label = "clock"

    # ------------------------------------------------------------ the whole

    def result(self) -> int:
        """Microseconds."""
        if self.epoch:
            return 0
        fields = self.fields
        fields.check_date(self.before_christ)
        if self.half is not None:
            if fields.hour > 12:
                raise TimeFieldError
            fields.hour += (12 if self.half == "pm" else 0) - (12 if fields.hour == 12 else 0)
        if self.time_alone:
            return self._time_of_day()
        if not fields.knows_date():
            raise TimeSyntaxError
        day = self._day()
        micros = day * MICROS_A_DAY + (0 if self.kind is TimeKind.DATE else fields.clock())
        if self.kind is TimeKind.TIMESTAMPTZ:
            micros -= self._offset_at(micros)
        if not FIRST_DAY * MICROS_A_DAY <= micros < (LAST_DAY + 1) * MICROS_A_DAY:
            raise _OutOfCalendarError
        return micros

    def _time_of_day(self) -> int:
        fields = self.fields
        fields.check_clock()
        dated = fields.seen & DATE_FIELDS
        zone = None if self.zone is None else find_zone(self.zone)
        needs_date = zone is not None and not zone.is_fixed
        if fields.seen & CLOCK_FIELDS != CLOCK_FIELDS or (
            dated != DATE_FIELDS and (needs_date or (dated and not fields.seen & ZONE))
        ):
            raise TimeSyntaxError
        # 24:00 is a time of day in PostgreSQL; in Arrow and Spark the day ends a microsecond before.
        if fields.clock() >= MICROS_A_DAY:
            raise TimeFieldError
        return fields.clock()

    def _day(self) -> int:
        fields = self.fields
        if fields.days is not None:
            return fields.days
        if self.before_christ or fields.year > 9999:
            raise _OutOfCalendarError
        return day_of(fields.year, fields.month, fields.day)

    def _offset_at(self, local: int) -> int:
        if self.east is not None:
            return self.east
        zone = None if self.zone is None else find_zone(self.zone)
        return 0 if zone is None else int(zone.offset_of_local(np.array([local]))[0])
