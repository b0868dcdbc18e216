"""Dates and times from numbers: make_date, make_time, make_timestamp, make_timestamptz.

The result rises with each part, so all have the trend UP. Whether a date exists is another question: February 29
exists in 2020 and in 2024 but not between, so the ends of a range of years do not decide for such a day. Every month
has the days up to 28, for which the ends do decide.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import at_ends_where, bound_floats, container_count
from tidegate.expr.domain.specs import NO, YES, Specs
from tidegate.expr.model.function import UP, scalar
from tidegate.expr.model.outcome import (
    Datum,
    Errors,
    Outcome,
    failing,
    first_error,
    from_numpy,
    length,
    to_numpy,
    with_errors,
)
from tidegate.expr.model.types import DATE, FLOAT8, INT4, TEXT, TIME, TIMESTAMP, TIMESTAMPTZ, Type
from tidegate.expr.primitives.time import calendar as civil
from tidegate.expr.primitives.time.calendar import MICROS_A_DAY, MICROS_A_MINUTE, MICROS_AN_HOUR
from tidegate.expr.primitives.time.units import evaluate_by_choice, fail_all_rows
from tidegate.expr.primitives.time.zones import Zone, find_zone

_DATE_PARTS = (INT4, INT4, INT4)
_CLOCK_PARTS = (INT4, INT4, FLOAT8)


def _dates_exist_at_ends(year: Specs, month: Specs, day: Specs, *_: Specs) -> np.ndarray:
    """Where all dates of a box exist if its corners do."""
    high = bound_floats(day.bounds()[1], container_count(day))
    result: np.ndarray = (high <= 28) | (year.exact & month.exact)
    return result


def _columns(args: tuple[Datum, ...]) -> list[np.ndarray]:
    n = length(*args)
    return [np.broadcast_to(to_numpy(a, 0.0 if pa.types.is_floating(a.type) else 0), n) for a in args]


def _text(values: np.ndarray, width: int = 2) -> pa.Array:
    return pc.utf8_lpad(pa.array(values).cast(pa.string()), width, "0")


def _days(parts: list[np.ndarray]) -> tuple[np.ndarray, Errors]:
    """Day numbers, and errors for dates that do not exist."""
    year, month, day = (part.astype(np.int64) for part in parts)
    fine = (year >= 1) & (year <= 9999) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    year, month, day = np.where(fine, year, 1), np.where(fine, month, 1), np.where(fine, day, 1)
    days = civil.days_of(year, month, day)
    fine &= civil.year_month_day(days)[1] == month
    if fine.all():
        return days, None
    shown = pc.binary_join_element_wise(
        pa.array(parts[0]).cast(pa.string()), _text(parts[1]), _text(parts[2]), "-"
    )
    message = pc.binary_join_element_wise("date field value out of range: ", shown, "")
    return np.where(fine, days, 0), failing(~fine, message)


def _clock(parts: list[np.ndarray], whole_day: int) -> tuple[np.ndarray, Errors]:
    """Microseconds since midnight, up to `whole_day`, and errors for times that do not exist."""
    hour, minute, second = parts
    fine = (hour >= 0) & (hour <= 24) & (minute >= 0) & (minute <= 59) & (second >= 0) & (second <= 60)
    safe = np.rint(np.where(fine, second, 0.0) * 1e6).astype(np.int64)
    micros = hour.astype(np.int64) * MICROS_AN_HOUR + minute.astype(np.int64) * MICROS_A_MINUTE + safe
    fine &= micros <= whole_day
    if fine.all():
        return micros, None
    seconds = pc.utf8_lpad(pa.array(second).cast(pa.string()), 2, "0")
    shown = pc.binary_join_element_wise(pa.array(hour).cast(pa.string()), _text(minute), seconds, ":")
    message = pc.binary_join_element_wise("time field value out of range: ", shown, "")
    return np.where(fine, micros, 0), failing(~fine, message)


_dates = partial(scalar, transfer=at_ends_where(_dates_exist_at_ends), stable=True)


@_dates("make_date", _DATE_PARTS, DATE, trend=(UP, UP, UP))
def make_date(year: Datum, month: Datum, day: Datum) -> Outcome:
    """A date from year, month and day."""
    args = (year, month, day)
    days, errors = _days(_columns(args))
    return with_errors(from_numpy(days.astype(np.int32), DATE.arrow, *args), errors)


@scalar(
    "make_time", _CLOCK_PARTS, TIME, trend=(UP, UP, UP), transfer=at_ends_where(lambda *_: YES), stable=True
)
def make_time(hour: Datum, minute: Datum, second: Datum) -> Outcome:
    """A time of day from hour, minute and seconds."""
    args = (hour, minute, second)
    micros, errors = _clock(_columns(args), MICROS_A_DAY - 1)
    return with_errors(from_numpy(micros, TIME.arrow, *args), errors)


def _timestamps(args: tuple[Datum, ...], out: Type) -> Outcome:
    columns = _columns(args)
    days, no_date = _days(columns[:3])
    clock, no_time = _clock(columns[3:], MICROS_A_DAY)
    values, outside = civil.timestamps(days * MICROS_A_DAY + clock, out.arrow, *args)
    return with_errors(values, first_error(outside, no_date, no_time))


@_dates("make_timestamptz", (*_DATE_PARTS, *_CLOCK_PARTS), TIMESTAMPTZ, trend=(UP,))
@_dates("make_timestamp", (*_DATE_PARTS, *_CLOCK_PARTS), TIMESTAMP, trend=(UP,))
def make_timestamp(*args: Datum, out: Type) -> Outcome:
    """A timestamp (in UTC) from year, month, day, hour, minute and seconds."""
    return _timestamps(args, out)


def _find_zone(name: str) -> Zone | None:
    """A zone by its name or offset; `+2` lies east of Greenwich, as in the text of a timestamp.

    AT TIME ZONE reads the sign the other way around.
    """
    if name[:1].isdigit():
        return None
    return find_zone(name.translate(_OTHER_SIGN) if name[:1] in ("+", "-") else name)


_OTHER_SIGN = str.maketrans("+-", "-+")


@scalar(
    "make_timestamptz", (*_DATE_PARTS, *_CLOCK_PARTS, TEXT), TIMESTAMPTZ,
    trend=(None,), transfer=at_ends_where(lambda *_: NO), stable=True,
)  # fmt: skip
def make_timestamptz_in_zone(*args: Datum) -> Outcome:
    """An instant from year, month, day, hour, minute and seconds in a time zone."""

    def run(name: str, *parts: pa.Array) -> Outcome:
        zone = _find_zone(name)
        if zone is None:
            return fail_all_rows(f'time zone "{name}" not recognized', len(parts[0]), TIMESTAMPTZ.arrow)
        local, errors = _timestamps(parts, TIMESTAMP)
        at = to_numpy(local)
        values, outside = civil.timestamps(at - zone.offset_of_local(at), TIMESTAMPTZ.arrow, local)
        return with_errors(values, first_error(errors, outside))

    return evaluate_by_choice(args[6], run, TIMESTAMPTZ.arrow, *args[:6])
