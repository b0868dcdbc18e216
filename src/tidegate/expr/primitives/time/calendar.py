"""Calendar arithmetic over numpy arrays: days, months and years of many dates at once.

A date is a number of days since 1970-01-01, a timestamp a number of microseconds since then, and a *month number* counts months
since January 1970. Adding months keeps the day of the month, or takes the last day where the month is too short:

>>> days = np.array([day_of(2024, 1, 30), day_of(2024, 1, 31)])
>>> [tuple(int(part[i]) for part in year_month_day(add_months(days, 1))) for i in (0, 1)]
[(2024, 2, 29), (2024, 2, 29)]

The calendar spans the years 1 to 9999, where Arrow, Spark and Python agree. The arithmetic works beyond these ends too (`+ 1 month
- 40 days` may pass through year 10000); `dates` and `timestamps` check the result, and report an error of the row if it lies
outside.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.expr.model.outcome import Datum, Outcome, failing, from_numpy, null_where_any, with_errors

Ints: TypeAlias = npt.NDArray[np.int64]

MICROS_A_SECOND = 1_000_000
MICROS_A_MINUTE = 60 * MICROS_A_SECOND
MICROS_AN_HOUR = 60 * MICROS_A_MINUTE
MICROS_A_DAY = 24 * MICROS_AN_HOUR
FIRST_DAY = -719_162
"""0001-01-01"""
LAST_DAY = 2_932_896
"""9999-12-31"""
FIRST_MICRO = FIRST_DAY * MICROS_A_DAY
LAST_MICRO = (LAST_DAY + 1) * MICROS_A_DAY - 1
MONTHS_AT_YEAR_ZERO = -1970 * 12
"""The month number of January of year 0."""
_MAX_SHIFT_DAYS = 10_000_000
"""More days than the calendar and any time part span together: adding as many always leaves the calendar."""


def day_of(year: int, month: int, day: int) -> int:
    """The day number of one date."""
    return int(days_of(np.asarray(year), np.asarray(month), np.asarray(day)))


_TABLE_START = MONTHS_AT_YEAR_ZERO - 12
_STARTS = (
    np.arange(_TABLE_START, MONTHS_AT_YEAR_ZERO + 10_002 * 12)
    .astype("M8[M]")
    .astype("M8[D]")
    .astype(np.int64)
)
"""The first day of every month of years -1 to 10001: a lookup is ten times as fast as numpy's conversion."""


def months_of(days: Ints) -> Ints:
    """The month number that each day lies in."""
    months: Ints
    days = np.asarray(days, np.int64)
    if not _within(days, FIRST_DAY, LAST_DAY):
        months = days.astype("M8[D]").astype("M8[M]").astype(np.int64)
        return months
    # 400 years have 4,800 months and 146,097 days; a guess from that proportion is wrong by one month at
    # most.
    guess = np.floor_divide(days * 4_800, 146_097) - _TABLE_START
    months = guess + _TABLE_START + (days >= _STARTS[guess + 1]) - (days < _STARTS[guess])
    return months


def first_day(months: Ints) -> Ints:
    """The first day of each month."""
    days: Ints
    months = np.asarray(months, np.int64)
    if not _within(months, _TABLE_START, _TABLE_START + len(_STARTS) - 1):
        days = months.astype("M8[M]").astype("M8[D]").astype(np.int64)
        return days
    days = _STARTS[months - _TABLE_START]
    return days


def _within(values: np.ndarray, low: int, high: int) -> bool:
    return values.size > 0 and bool(values.min() >= low) and bool(values.max() <= high)


def days_of(year: Ints, month: Ints, day: Ints) -> Ints:
    """Day numbers from years, months 1 to 12 and days; a day past the end of its month counts on."""
    return first_day(MONTHS_AT_YEAR_ZERO + year * 12 + month - 1) + day - 1


def year_month_day(days: Ints) -> tuple[Ints, Ints, Ints]:
    """Year, month and day of the month."""
    months = months_of(days)
    year, month = np.divmod(months - MONTHS_AT_YEAR_ZERO, 12)
    return year, month + 1, days - first_day(months) + 1


def month_length(months: Ints) -> Ints:
    """The number of days of each month."""
    return first_day(months + 1) - first_day(months)


def add_months(days: Ints, months: Ints | int) -> Ints:
    """Each date moved by months; a day past the end of the month becomes its last."""
    month = months_of(days)
    target = month + months
    day_of_month: Ints = np.minimum(days - first_day(month), month_length(target) - 1)
    return first_day(target) + day_of_month


def week_start(days: Ints) -> Ints:
    """The Monday of each day's week; 1970-01-01 was a Thursday."""
    return days - (days + 3) % 7


def iso_year(days: Ints) -> Ints:
    """The ISO 8601 year of each day: the year of the Thursday of its week."""
    return year_month_day(week_start(days) + 3)[0]


def iso_year_start(year: Ints) -> Ints:
    """The Monday of ISO week 1, which contains January 4."""
    ones = np.ones_like(year)
    start: Ints = week_start(days_of(year, ones, 4 * ones))
    return start


def split_days(micros: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Day, and microseconds since its midnight."""
    day = np.floor_divide(micros, MICROS_A_DAY)
    return day, micros - day * MICROS_A_DAY


def shift(
    micros: np.ndarray, months: np.ndarray, days: np.ndarray, span: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Times moved by months, then days, then microseconds, and where they leave the calendar (0 there)."""
    if not np.any(months):
        moved = micros + np.clip(days, -_MAX_SHIFT_DAYS, _MAX_SHIFT_DAYS) * MICROS_A_DAY + span
        outside = (moved < FIRST_MICRO) | (moved > LAST_MICRO)
        return (np.where(outside, 0, moved) if outside.any() else moved), outside
    day, within = split_days(micros)
    carry, within = split_days(within + span)
    return compose_timestamps(add_months(day, months) + days + carry, within)


def compose_timestamps(day: np.ndarray, within: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Timestamps from days and microseconds of the day, and where they leave the calendar (0 there)."""
    outside = (day < FIRST_DAY) | (day > LAST_DAY)
    if outside.any():
        day, within = np.where(outside, 0, day), np.where(outside, 0, within)
    return day * MICROS_A_DAY + within, outside


def timestamps(
    micros: np.ndarray, type_: pa.DataType, *args: Datum, outside: np.ndarray | None = None
) -> Outcome:
    """Timestamps from microseconds, an error where they leave the calendar."""
    if outside is None:
        outside = (micros < FIRST_MICRO) | (micros > LAST_MICRO)
        micros = np.where(outside, 0, micros) if outside.any() else micros
    values = from_numpy(np.atleast_1d(micros), type_, *args)
    return with_errors(values, failing(np.atleast_1d(outside), "timestamp out of range"))


def dates(days: np.ndarray, *args: Datum) -> Outcome:
    """Dates from day numbers, an error where they leave the calendar."""
    outside = (days < FIRST_DAY) | (days > LAST_DAY)
    if outside.any():
        days = np.where(outside, 0, days)
    return with_errors(from_numpy(days, pa.date32(), *args), failing(outside, "date out of range"))


def decimals(values: np.ndarray, scale: int, type_: pa.DataType, *args: Datum) -> pa.Array:
    """Numerics of `type_` from int64 counts of 10^-scale; null where any of `args` is null."""
    low = np.ascontiguousarray(values, np.int64)
    raw = np.stack([low, low >> 63], axis=1)
    exact = pa.Array.from_buffers(
        pa.decimal128(38, scale), len(low), [None, pa.py_buffer(np.ascontiguousarray(raw))]
    )
    return null_where_any(exact.cast(type_), *args)
