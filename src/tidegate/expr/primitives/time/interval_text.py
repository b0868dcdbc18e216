"""Parses and prints intervals in PostgreSQL's style.

>>> parse_interval("1 year 2 mons 3 days 04:05:06.7")
(14, 3, 14706700000)
>>> parse_interval("P1Y2M3DT4H5M6.7S") == parse_interval("@ 14 months 3 days 4 hours 5 minutes 6.7 seconds")
True
>>> parse_interval("1", "DAY"), parse_interval("1:30", "MINUTE TO SECOND")
((0, 1, 0), (0, 0, 90000000))

A text is read from its end, since a number takes its unit from what follows: `3 days` is a number before a unit, `3 04:05` a number
before a time and so days, and a final number counts seconds (or the unit that SQL names after the literal). A fraction of a year
becomes months, of a month days (30 per month), of a day time.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model.order import make_intervals
from tidegate.expr.model.outcome import Outcome, with_errors
from tidegate.expr.primitives.cancel import checked
from tidegate.expr.primitives.time.calendar import (
    MICROS_A_DAY,
    MICROS_A_MINUTE,
    MICROS_A_SECOND,
    MICROS_AN_HOUR,
)
from tidegate.expr.primitives.time.make_interval import MAX_DAYS, MAX_MICROS, toward_zero
from tidegate.expr.primitives.time.tokens import MAX_TEXT_LENGTH, MAX_TOKENS, shorten, tokenize

_UNITS = {
    "us": "us usec usecs usecond useconds microsecon microsecond microseconds",
    "ms": "ms msec msecs msecond mseconds millisecon millisecond milliseconds",
    "s": "s sec secs second seconds",
    "min": "m min mins minute minutes",
    "h": "h hr hrs hour hours",
    "d": "d day days",
    "week": "w week weeks",
    "month": "mon mons month months",
    "y": "y yr yrs year years",
    "decade": "dec decs decade decades",
    "century": "c cent century centuries",
    "millennium": "mil mils millennia millennium",
}
UNITS = {name: unit for unit, names in _UNITS.items() for name in names.split()}
"""Every spelling of a unit, by the short name used here."""
_MICROS = {"us": 1, "ms": 1000, "s": MICROS_A_SECOND, "min": MICROS_A_MINUTE, "h": MICROS_AN_HOUR}
_DAYS = {"d": 1, "week": 7}
_YEARS = {"y": 1, "decade": 10, "century": 100, "millennium": 1000}

_ALL_SECONDS = frozenset(("s", "ms", "us"))
_CLOCK_FIELDS = _ALL_SECONDS | {"h", "min"}
_INT32, _INT64 = 2**31, 2**63

Parts = tuple[int, int, int]


class _InvalidIntervalError(Exception):
    """The text is no interval."""


def parse_interval(text: str, unit: str | None = None, precision: int | None = None) -> Parts:
    """Months, days and microseconds of a text; a ValueError with PostgreSQL's message if it is invalid.

    `unit` is the qualifier behind an SQL literal or type: 'DAY', 'DAY TO SECOND'. It is the unit of a bare number, and smaller
    units are truncated. `precision` is the number of digits that seconds are rounded to.
    """
    fields = tuple(UNITS[word.lower()] for word in (unit or "").split() if word.upper() != "TO")
    try:
        try:
            total = _Sum(fields).read(text)
        except _InvalidIntervalError:
            total = _iso(text)
        months, days, micros = _adjusted(total.parts(), unit, precision)
    except _InvalidIntervalError:
        raise ValueError(f'invalid input syntax for type interval: "{text}"') from None
    except OverflowError:
        raise ValueError(f'interval field value out of range: "{text}"') from None
    length = months * 30 + days + micros // MICROS_A_DAY
    if not -MAX_DAYS <= length < MAX_DAYS:
        raise ValueError(f'interval field value out of range: "{text}"')
    if abs(micros) > MAX_MICROS:
        carry = int(micros / MICROS_A_DAY)
        days, micros = days + carry, micros - carry * MICROS_A_DAY
    return months, days, micros


def parse_intervals(texts: pa.Array, unit: str | None = None) -> Outcome:
    """Texts as intervals; data has few distinct ones, so each distinct text is read once."""
    encoded = texts.dictionary_encode()
    parts: list[Parts] = []
    messages: list[str | None] = []
    for text in checked(encoded.dictionary.to_pylist()):
        try:
            parts.append(parse_interval(text, unit))
            messages.append(None)
        except ValueError as error:
            parts.append((0, 0, 0))
            messages.append(str(error))
    months, days, micros = np.array(parts, np.int64).reshape(-1, 3).T
    values = make_intervals(months, days, micros).take(encoded.indices)
    errors = pa.array(messages, pa.string()).take(encoded.indices)
    return with_errors(values, None if errors.null_count == len(errors) else errors)


FIELD_NAMES = frozenset(
    (
        "", "YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "YEAR TO MONTH", "DAY TO HOUR", "DAY TO MINUTE", "DAY TO SECOND",
        "HOUR TO MINUTE", "HOUR TO SECOND", "MINUTE TO SECOND",
    )
)  # fmt: skip
"""Qualifiers of an interval; the empty one is all of it."""


def adjust_intervals(
    months: np.ndarray, days: np.ndarray, micros: np.ndarray, unit: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Intervals cut to a qualifier: `DAY TO HOUR` drops minutes."""
    last = UNITS[unit.lower().split()[-1]] if unit else "s"
    if last == "y":
        months = toward_zero(months, 12) * 12
    if last in ("y", "month"):
        days = np.zeros_like(days)
    if last in ("y", "month", "d"):
        micros = np.zeros_like(micros)
    elif last in ("h", "min"):
        micros = toward_zero(micros, _MICROS[last]) * _MICROS[last]
    return months, days, micros


def _adjusted(parts: Parts, unit: str | None, precision: int | None) -> Parts:
    """One interval cut to a qualifier and rounded to digits of its seconds."""
    whole_months, whole_days, time = (np.asarray(part) for part in parts)
    cut = adjust_intervals(whole_months, whole_days, time, unit or "")
    months, days, micros = (int(part) for part in cut)
    if precision is not None:
        step = 10 ** (6 - precision)
        micros = (abs(micros) + step // 2) // step * step * (-1 if micros < 0 else 1)
    return months, days, micros


class _Sum:
    """The parts of an interval as they add up, and which fields were given: none may be given twice."""

    def __init__(self, fields: tuple[str, ...] = ()) -> None:
        self.fields = fields
        self.years = self.months = self.days = self.micros = 0
        self.seen: frozenset[str] = frozenset()

    def parts(self) -> Parts:
        """Months, days and microseconds; an OverflowError if a part does not fit."""
        months = self.years * 12 + self.months
        if abs(self.micros) >= _INT64 or any(
            abs(part) >= _INT32 for part in (self.years, self.months, self.days, months)
        ):
            raise OverflowError
        return months, self.days, self.micros

    def read(self, text: str) -> _Sum:
        """Adds all tokens of a text, from its end; an _InvalidIntervalError if one has no meaning."""
        tokens = tokenize(text)
        if not tokens or len(text) > MAX_TEXT_LENGTH + MAX_TOKENS:
            raise _InvalidIntervalError
        unit, ago = self.fields[-1] if self.fields else "s", False
        for kind, token in reversed(tokens):
            if kind in ("string", "special"):
                ago, unit = ago or token == "ago", self._unit(token)
            elif kind == "time" or (kind == "signed" and ":" in token):
                self._clock(token)
                unit = "d"
            else:
                unit = self._number(token, unit)
        if not self.seen:
            raise _InvalidIntervalError
        if ago:
            self.years, self.months, self.days, self.micros = (
                -self.years,
                -self.months,
                -self.days,
                -self.micros,
            )
        return self

    def _unit(self, word: str) -> str:
        """The unit of the number before a word; `ago` gives it none."""
        if word == "ago":
            return ""
        unit = UNITS.get(shorten(word))
        if unit is None:
            raise _InvalidIntervalError
        return unit

    def _mark(self, fields: frozenset[str]) -> None:
        if fields & self.seen:
            raise _InvalidIntervalError
        self.seen |= fields

    def _clock(self, token: str) -> None:
        """[+-]h:m[:s[.f]]; two fields are minutes and seconds with a fraction, or with MINUTE TO SECOND."""
        match = _CLOCK.fullmatch(token)
        if match is None:
            raise _InvalidIntervalError
        hours, minutes, seconds = (int(match[k] or 0) for k in ("h", "m", "s"))
        if match["s"] is None and (match["f"] is not None or self.fields == ("min", "s")):
            hours, minutes, seconds = 0, hours, minutes
        if minutes > 59 or seconds > 60:
            raise OverflowError
        fraction = _nearest(float(f"0{match['f'] or '.0'}0") * 1e6)
        self._mark(_CLOCK_FIELDS)
        size = hours * MICROS_AN_HOUR + minutes * MICROS_A_MINUTE + seconds * MICROS_A_SECOND + fraction
        # As in PostgreSQL a clock replaces what fractions of days behind it have added.
        self.micros = -size if match["sign"] == "-" else size

    def _number(self, token: str, unit: str) -> str:
        """A number with its unit, or years and months (`1-2`); the unit of a number before it."""
        match = _AMOUNT.fullmatch(token)
        if match is None:
            raise _InvalidIntervalError
        sign = -1 if match["sign"] == "-" else 1
        whole, fraction = int(match["whole"] or 0), float(f"0{match['f'] or match['g'] or '.0'}0")
        if match["months"] is not None:
            if int(match["months"] or 0) > 11:
                raise OverflowError
            whole, unit = whole * 12 + int(match["months"] or 0), "month"
        self.add(sign * whole, sign * fraction, unit)
        self._mark(_ALL_SECONDS if unit == "s" and fraction else frozenset((unit,)))
        return "d" if unit == "h" else unit

    def add(self, whole: int, fraction: float, unit: str) -> None:
        """A number of units; a fraction of a year becomes months, of a month or week days, of a day time."""
        if unit in _MICROS:
            self._add_micros(whole * _MICROS[unit], fraction * _MICROS[unit])
        elif unit in _YEARS:
            self.years += whole * _YEARS[unit]
            self.months += _nearest(fraction * 12 * _YEARS[unit])
        elif unit == "month":
            self.months += whole
            self._add_days(fraction * 30)
        elif unit in _DAYS:
            self.days += whole * _DAYS[unit]
            self._add_days(fraction * _DAYS[unit])
        else:
            raise _InvalidIntervalError
        self.parts()

    def _add_days(self, days: float) -> None:
        self.days += int(days)
        self._add_micros(0, (days - int(days)) * MICROS_A_DAY)

    def _add_micros(self, whole: int, more: float) -> None:
        rest = more - int(more)
        self.micros += whole + int(more) + (1 if rest > 0.5 else -1 if rest < -0.5 else 0)


_CLOCK = re.compile(r"(?P<sign>[+-]?)(?P<h>\d+):(?P<m>\d*)(?::(?P<s>\d*))?(?P<f>\.\d*)?", re.ASCII)
_AMOUNT = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>\d+)(?:-(?P<months>\d*)|(?P<f>\.\d*))?|(?P<g>\.\d*))", re.ASCII
)


def _nearest(value: float) -> int:
    return round(value)  # half to even, as C's rint


def _iso(text: str) -> _Sum:
    """An interval of ISO 8601: P1Y2M3DT4H5M6S, P0001-02-03T04:05:06 or P00010203T040506."""
    match = _ISO.fullmatch(text)
    if match is None or len(text) < 2:
        raise _InvalidIntervalError
    total = _Sum()
    for half, units in ((match["date"], _ISO_DATE_UNITS), (match["time"], _ISO_TIME_UNITS)):
        for unit, number in _iso_numbers(half or "", units):
            value = float(number)
            if not abs(value) <= 1e15:
                raise OverflowError
            total.add(int(value), value - int(value), unit)
    return total


_ISO_NUMBER = r"-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_ISO = re.compile(r"P(?P<date>[^T]*)(?:T(?P<time>.*))?", re.ASCII | re.DOTALL)
_ISO_DATE_UNITS = {"Y": "y", "M": "month", "W": "week", "D": "d"}
_ISO_TIME_UNITS = {"H": "h", "M": "min", "S": "s"}


def _iso_numbers(half: str, units: dict[str, str]) -> list[tuple[str, str]]:
    """The numbers of the date or the time of an ISO interval, each with its unit."""
    letters = "".join(units)
    if re.fullmatch(rf"(?:{_ISO_NUMBER}[{letters}])*", half, re.ASCII):
        return [(units[n[-1]], n[:-1]) for n in re.findall(rf"{_ISO_NUMBER}[{letters}]", half, re.ASCII)]
    dated = "Y" in units
    order = ("y", "month", "d") if dated else ("h", "min", "s")
    if re.fullmatch(r"\d{8}" if dated else r"\d{6}", half, re.ASCII):
        first = len(half) - 4
        return list(zip(order, (half[:first], half[first : first + 2], half[first + 2 :]), strict=True))
    numbers = re.fullmatch(
        rf"({_ISO_NUMBER})(?:@({_ISO_NUMBER})(?:@({_ISO_NUMBER}))?)?".replace("@", "-" if dated else ":"),
        half,
        re.ASCII,
    )
    if numbers is None:
        raise _InvalidIntervalError
    return [(unit, number) for unit, number in zip(order, numbers.groups(), strict=True) if number]


def interval_texts(months: np.ndarray, days: np.ndarray, micros: np.ndarray) -> pa.Array:
    """Intervals as PostgreSQL prints them: `1 year 2 mons -3 days +04:05:06.7`."""
    years = toward_zero(months, 12)
    before = np.zeros(len(micros), bool)
    pieces = []
    for value, name in ((years, "year"), (months - years * 12, "mon"), (days, "day")):
        # A positive part after a negative one shows its sign.
        sign = pc.if_else(pa.array(before & (value > 0)), "+", "")
        ending = pc.if_else(pa.array(value == 1), f" {name}", f" {name}s")
        piece = pc.binary_join_element_wise(sign, pa.array(value).cast(pa.string()), ending, "")
        pieces.append(pc.if_else(pa.array(value != 0), piece, pa.scalar(None, pa.string())))
        before = np.where(value != 0, value < 0, before)
    shown = (micros != 0) | ((months == 0) & (days == 0))
    sign = pc.if_else(pa.array(micros < 0), "-", pc.if_else(pa.array(before), "+", ""))
    clock = pc.binary_join_element_wise(sign, clock_texts(np.abs(micros)), "")
    pieces.append(pc.if_else(pa.array(shown), clock, pa.scalar(None, pa.string())))
    return pc.binary_join_element_wise(*pieces, " ", null_handling="skip")


def clock_texts(micros: np.ndarray) -> pa.Array:
    """hh:mm:ss with any fraction, of microseconds ≥ 0; hours may have more digits."""
    hours, rest = np.divmod(micros, MICROS_AN_HOUR)
    tail = pa.array(rest).view(pa.time64("us")).cast(pa.string())
    tail = pc.utf8_rtrim(pc.utf8_rtrim(tail, "0"), ".")
    # Of 00:10:00.000000 only the zeros of the fraction are stripped, since the point stops them.
    head = pc.utf8_lpad(pa.array(hours).cast(pa.string()), 2, "0")
    return pc.binary_join_element_wise(head, pc.utf8_slice_codeunits(tail, 2), "")
