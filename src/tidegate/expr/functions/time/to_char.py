"""to_char for times and intervals: the pattern is parsed once, and each piece is one array.

    to_char(t, 'YYYY-MM-DD "at" HH24:MI')   →   '2024-01-05 at 10:00'

If patterns differ from row to row, each distinct pattern is one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model import order
from tidegate.expr.model.function import MODERATE, NEVER, scalar
from tidegate.expr.model.outcome import Datum, Outcome, null_where_any, to_numpy
from tidegate.expr.model.types import INTERVAL, TEXT, TIMESTAMP, TIMESTAMPTZ
from tidegate.expr.primitives.cancel import checked
from tidegate.expr.primitives.time import calendar as civil
from tidegate.expr.primitives.time.calendar import MICROS_A_MINUTE, MICROS_A_SECOND, MICROS_AN_HOUR, Ints
from tidegate.expr.primitives.time.format_pattern import HALVES, PatternPiece, parse_pattern
from tidegate.expr.primitives.time.make_interval import toward_zero
from tidegate.expr.primitives.time.units import evaluate_by_choice, fail_all_rows

MONTHS = [
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
]  # fmt: skip
DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
ROMAN = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"]
_TABLES = {width: pa.array([f"{i:0{width}}" for i in range(10**width)]) for width in (1, 2, 3, 4)}
_FOR_INTERVALS = (
    "HH24", "HH12", "HH", "MI", "SS", "SSSS", "SSSSS", "MS", "US", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6",
    "Y,YYY", "YYYY", "YYY", "YY", "Y", "CC", "MM", "DD",
)  # fmt: skip


_AT_ONCE = 64
"""Pieces of a pattern that are joined at once."""


class TimeFields:
    """The calendar and clock fields of times, computed on first use."""

    def __init__(self, at: Ints) -> None:
        self.day, self.within = civil.split_days(at)
        self.year, self.month, self.day_of_month = civil.year_month_day(self.day)
        self.weekday = (self.day + 4) % 7

    @property
    def hour(self) -> Ints:
        """0 to 23."""
        return self.within // MICROS_AN_HOUR

    @property
    def minute(self) -> Ints:
        """0 to 59."""
        return self.within // MICROS_A_MINUTE % 60

    @property
    def micro(self) -> Ints:
        """Microseconds of the minute."""
        return self.within % MICROS_A_MINUTE

    @property
    def day_of_year(self) -> Ints:
        """1 to 366."""
        return self.day - civil.days_of(self.year, np.ones_like(self.year), np.ones_like(self.year)) + 1

    @property
    def iso_day(self) -> Ints:
        """Days since the ISO year began."""
        return self.day - civil.iso_year_start(civil.iso_year(self.day))

    @property
    def iso_year(self) -> Ints:
        """The year that ISO weeks are counted in."""
        return civil.iso_year(self.day)


class IntervalFields(TimeFields):
    """The fields of intervals: as those of times, but they may be negative and have no limit."""

    def __init__(self, i: pa.Array) -> None:
        months, days, micros = order.interval_parts(i)
        self.year = toward_zero(months, 12)
        self.month, self.day_of_month, self.micros = months - self.year * 12, days, micros

    @property
    def hour(self) -> Ints:
        """All hours of the time part."""
        return toward_zero(self.micros, MICROS_AN_HOUR)

    @property
    def minute(self) -> Ints:
        """-59 to 59."""
        return toward_zero(self.micros - self.hour * MICROS_AN_HOUR, MICROS_A_MINUTE)

    @property
    def micro(self) -> Ints:
        """Microseconds of the minute."""
        return self.micros - toward_zero(self.micros, MICROS_A_MINUTE) * MICROS_A_MINUTE


def _twelve(hour: Ints) -> Ints:
    part = hour - toward_zero(hour, 12) * 12
    return np.where(part == 0, 12, part)


def _fraction(digits: int) -> Callable[[TimeFields], Ints]:
    return lambda c: toward_zero(_rest(c), int(10 ** (6 - digits)))


def _rest(c: TimeFields) -> Ints:
    return c.micro - toward_zero(c.micro, MICROS_A_SECOND) * MICROS_A_SECOND


def _seconds_of_day(c: TimeFields) -> Ints:
    return c.hour * 3600 + c.minute * 60 + toward_zero(c.micro, MICROS_A_SECOND)


def _century(c: TimeFields) -> Ints:
    return toward_zero(c.year, 100) if isinstance(c, IntervalFields) else (c.year + 99) // 100


_NUMBERS: dict[str, tuple[int, Callable[[TimeFields], Ints]]] = {
    "HH24": (2, lambda c: c.hour),
    "HH12": (2, lambda c: _twelve(c.hour)),
    "HH": (2, lambda c: _twelve(c.hour)),
    "MI": (2, lambda c: c.minute),
    "SS": (2, lambda c: toward_zero(c.micro, MICROS_A_SECOND)),
    "SSSS": (0, _seconds_of_day),
    "SSSSS": (0, _seconds_of_day),
    "MS": (-3, _fraction(3)),
    "US": (-6, _fraction(6)),
    **{f"FF{n}": (-n, _fraction(n)) for n in range(1, 7)},
    "YYYY": (4, lambda c: c.year),
    "YYY": (3, lambda c: np.abs(c.year) % 1000),
    "YY": (2, lambda c: np.abs(c.year) % 100),
    "Y": (1, lambda c: np.abs(c.year) % 10),
    "IYYY": (4, lambda c: c.iso_year),
    "IYY": (3, lambda c: c.iso_year % 1000),
    "IY": (2, lambda c: c.iso_year % 100),
    "I": (1, lambda c: c.iso_year % 10),
    "CC": (2, _century),
    "MM": (2, lambda c: c.month),
    "DD": (-2, lambda c: c.day_of_month),
    "DDD": (3, lambda c: c.day_of_year),
    "D": (0, lambda c: c.weekday + 1),
    "ID": (0, lambda c: (c.weekday + 6) % 7 + 1),
    "IDDD": (3, lambda c: c.iso_day + 1),
    "W": (0, lambda c: (c.day_of_month - 1) // 7 + 1),
    "WW": (2, lambda c: (c.day_of_year - 1) // 7 + 1),
    "IW": (2, lambda c: c.iso_day // 7 + 1),
    "J": (0, lambda c: c.day + 2_440_588),
    "Q": (0, lambda c: (c.month - 1) // 3 + 1),
}
"""Each token's width (see `_number`) and value."""
_NEVER_BARE = {"MS", "US"} | {f"FF{n}" for n in range(1, 7)}
"""Tokens that FM does not shorten: 5 milliseconds are not .5 seconds."""


def _number(values: Ints, width: int) -> pa.Array:
    """Numbers padded with zeros to a width; if the width is negative, a minus sign counts."""
    size = abs(width)
    if size in _TABLES and len(values) and values.min() >= 0 and values.max() < 10**size:
        return _TABLES[size].take(pa.array(values))
    negative, plain = pa.array(values < 0), pa.array(np.abs(values)).cast(pa.string())
    padded = pc.utf8_lpad(plain, size, "0") if size else plain
    if width < 0:
        padded = pc.if_else(negative, pc.utf8_lpad(plain, size - 1, "0"), padded)
    return pc.binary_join_element_wise(pc.if_else(negative, "-", ""), padded, "")


def _ordinal(values: Ints, case: str) -> pa.Array:
    last, teens = np.abs(values) % 10, np.abs(values) // 10 % 10 == 1
    endings = pa.array(["th", "st", "nd", "rd"] if case == "th" else ["TH", "ST", "ND", "RD"])
    return endings.take(pa.array(np.where((last <= 3) & ~teens, last, 0)))


def _take_names(names: list[str], index: Ints, token: str, size: int | None, padding: int) -> pa.Array:
    """Names in the token's case, cut to `size` letters and padded with blanks on the right."""
    cased = [str.upper, str.lower, str.capitalize][0 if token.isupper() else 1 if token.islower() else 2]
    return pa.array([cased(name)[:size].ljust(padding) for name in names]).take(pa.array(index))


def _name(piece: PatternPiece, c: TimeFields, zone: str) -> pa.Array | str:
    token, padding = piece.token, 0 if piece.bare else 9
    match token.upper():
        case "MONTH":
            return _take_names(MONTHS, c.month - 1, token, None, padding)
        case "MON":
            return _take_names(MONTHS, c.month - 1, token, 3, 0)
        case "DAY":
            return _take_names(DAYS, c.weekday, token, None, padding)
        case "DY":
            return _take_names(DAYS, c.weekday, token, 3, 0)
        case "RM":
            return _take_names(ROMAN, c.month - 1, token, None, 0 if piece.bare else 4)
        case "TZ":
            return zone.lower() if token == "tz" else zone
        case "TZM":
            return "00"
        case _:
            return "+00"


def _half(token: str, c: TimeFields) -> pa.Array | str:
    dots = "." in token
    first, second = (
        ("AD", "AD")
        if token[0] in "BAba" and token.replace(".", "").upper() in ("BC", "AD")
        else ("AM", "PM")
    )
    spelled = [f"{half[0]}.{half[1]}." if dots else half for half in (first, second)]
    spelled = [half.lower() for half in spelled] if token.islower() else spelled
    return pc.if_else(pa.array(c.hour - toward_zero(c.hour, 24) * 24 >= 12), spelled[1], spelled[0])


def _piece(piece: PatternPiece, c: TimeFields, zone: str) -> pa.Array | str:
    if not piece.token:
        return piece.literal
    if piece.token in HALVES:
        return _half(piece.token, c)
    if piece.token == "Y,YYY":
        thousands = toward_zero(c.year, 1000)
        return pc.binary_join_element_wise(_number(thousands, 0), _number(c.year - thousands * 1000, -3), ",")
    if piece.token not in _NUMBERS:
        return _name(piece, c, zone)
    width, read = _NUMBERS[piece.token]
    values = read(c)
    text = _number(values, 0 if piece.bare and piece.token not in _NEVER_BARE else width)
    return pc.binary_join_element_wise(text, _ordinal(values, piece.ordinal), "") if piece.ordinal else text


def _format(pattern: str, t: pa.Array, c: TimeFields, zone: str) -> Outcome:
    parts = parse_pattern(pattern)
    spelled = {piece: _piece(piece, c, zone) for piece in checked(dict.fromkeys(parts), every=1)}
    blank = pa.repeat(pa.scalar(""), len(t))
    return Outcome(null_where_any(_join_pieces(blank, [spelled[piece] for piece in parts]), t))


def _join_pieces(blank: pa.Array, texts: Sequence[pa.Array | str]) -> pa.Array:
    """All pieces of a row in one text, `_AT_ONCE` at a time."""
    while True:
        runs = [texts[i : i + _AT_ONCE] for i in range(0, len(texts), _AT_ONCE)] or [()]
        texts = [pc.binary_join_element_wise(blank, *run, "") for run in checked(runs, every=1)]
        if len(texts) == 1:
            return texts[0]


def _format_interval(pattern: str, i: pa.Array) -> Outcome:
    for piece in parse_pattern(pattern):
        if piece.token and piece.token not in _FOR_INTERVALS and piece.token not in HALVES[:8]:
            return fail_all_rows("invalid format specification for an interval value", len(i), pa.string())
    return _format(pattern, i, IntervalFields(i), "")


@scalar("to_char", (TIMESTAMP, TEXT), TEXT, errors=NEVER, cost=MODERATE, stable=True)
def timestamp_to_char(t: Datum, pattern: Datum) -> Outcome:
    """A timestamp formatted by a pattern such as `YYYY-MM-DD HH24:MI:SS` or `FMDay, FMDDth FMMonth`."""
    return evaluate_by_choice(
        pattern, lambda p, times: _format(p, times, TimeFields(to_numpy(times)), ""), pa.string(), t
    )


@scalar("to_char", (TIMESTAMPTZ, TEXT), TEXT, errors=NEVER, cost=MODERATE, stable=True)
def timestamptz_to_char(t: Datum, pattern: Datum) -> Outcome:
    """An instant, in UTC, formatted by a pattern."""
    return evaluate_by_choice(
        pattern, lambda p, times: _format(p, times, TimeFields(to_numpy(times)), "UTC"), pa.string(), t
    )


@scalar("to_char", (INTERVAL, TEXT), TEXT, cost=MODERATE, stable=True)
def interval_to_char(i: Datum, pattern: Datum) -> Outcome:
    """An interval formatted by a pattern of numbers: `HH24:MI:SS`, `DD`, `MM`, `YYYY`."""
    return evaluate_by_choice(pattern, _format_interval, pa.string(), i)
