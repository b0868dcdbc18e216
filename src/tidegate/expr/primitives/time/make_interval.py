"""Builds intervals from months, days and microseconds, and checks their range.

An interval is ordered by its length with months of 30 days, which must fit 64 bits of microseconds: ±106,751,991 days, some 292,000
years. Arrow stores months and days in 32 bits and the time part in 64 bits of nanoseconds (292 years). A time or a day part that
is too large is carried to the next unit, which keeps the length: so the length alone decides what is out of range, and a sum
can only fail at the ends of a range of lengths.

>>> checked_intervals(np.array([0]), np.array([0]), np.array([300 * 365 * MICROS_A_DAY])).values[0].as_py()
MonthDayNano(months=0, days=109500, nanoseconds=0)
"""

from __future__ import annotations

import numpy as np

from tidegate.expr.model.order import make_intervals
from tidegate.expr.model.outcome import Datum, Outcome, failing, validity, with_errors
from tidegate.expr.primitives.time.calendar import MICROS_A_DAY, Ints

OUT_OF_RANGE = "interval out of range"
MAX_DAYS = 106_751_991
"""The absolute length of an interval is below this."""
MAX_MICROS = (2**63 - 1) // 1000
_MAX_PART = 2**31 - 1


def checked_intervals(
    months: np.ndarray, days: np.ndarray, micros: np.ndarray, *args: Datum, bad: np.ndarray | None = None
) -> Outcome:
    """Intervals from int64 parts; an error where they are too long or `bad` is true."""
    months, days, micros = np.broadcast_arrays(np.atleast_1d(months), days, micros)
    large = np.abs(micros) > MAX_MICROS
    if large.any():
        carry = np.where(large, toward_zero(micros, MICROS_A_DAY), 0)
        days, micros = days + carry, micros - carry * MICROS_A_DAY
    large = np.abs(days) > _MAX_PART
    if large.any():
        carry = np.where(large, toward_zero(days, 30), 0)
        months, days = months + carry, days - carry * 30
    length = months * 30 + days + np.floor_divide(micros, MICROS_A_DAY)
    wrong = (length < -MAX_DAYS) | (length >= MAX_DAYS) | (np.abs(months) > _MAX_PART)
    if bad is not None:
        wrong = wrong | bad
    if wrong.any():
        months, days, micros = (np.where(wrong, 0, part) for part in (months, days, micros))
    return with_errors(
        make_intervals(months, days, micros, validity(*args) if args else None), failing(wrong, OUT_OF_RANGE)
    )


def toward_zero(value: Ints, unit: int) -> Ints:
    """The whole units in a value, rounded toward zero: -90 minutes are -1 hour."""
    whole = np.floor_divide(np.abs(value), unit)
    result: Ints = np.where(value < 0, -whole, whole)
    return result
