"""Times moved by intervals, and the distance between two times.

An interval has months, days and microseconds, added in this order; a day that a month does not have becomes
its last. So adding days and microseconds follows the order of times, but adding months does not:

    2024-01-30 23:00 + 1 month = 2024-02-29 23:00      the earlier one
    2024-01-31 01:00 + 1 month = 2024-02-29 01:00      comes out later

Yet `created_at + '1 month'` has bounds. By whole days the sum does follow the order: a later day never lands
on an earlier one. Two times can only cross when their days land on the same day, which happens at the end of
a month that is longer than the one it is moved to. So a low end that other days of its month may join gives
way to the midnight before it, a high end that has been cut back gives way to the last microsecond of its day,
and all other ends are as exact as for days:

    created_at in 2024-01-10 08:00 .. 2024-01-31 01:00  gives  2024-02-10 08:00 .. 2024-02-29 23:59:59.999999
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import civil, order
from tidegate.expr.civil import MICROS_A_DAY
from tidegate.expr.enclose import bound, claimed, inherited, numbers, widest
from tidegate.expr.function import AT_ENDS, DOWN, NEVER, UP, TrendClaim, scalar, where
from tidegate.expr.outcome import Datum, Outcome, from_numpy, integers, raw_numbers, to_numpy, validity
from tidegate.expr.spark_form_time import moved, moved_days
from tidegate.expr.specs import Specs, to_bools
from tidegate.expr.types import DATE, INT4, INTERVAL, TIME, TIMESTAMP, TIMESTAMPTZ, Type


def micros(t: Datum) -> np.ndarray:
    """Dates and timestamps as microseconds since 1970; times as microseconds since midnight."""
    values = to_numpy(t)
    return values.astype(np.int64) * MICROS_A_DAY if pa.types.is_date32(t.type) else values


def _moved(t: Datum, i: Datum, sign: int, out: Type) -> Outcome:
    if isinstance(i, pa.Scalar) and isinstance(t, pa.Array) and pa.types.is_timestamp(t.type):
        quickly = _moved_alike(t, i, sign, out)
        if quickly is not None:
            return quickly
    months, days, span = order.interval_parts(i)
    moved, outside = civil.shift(micros(t), sign * months, sign * days, sign * span)
    return civil.timestamps(moved, out.arrow, t, i, outside=outside)


def _moved_alike(t: pa.Array, i: pa.Scalar, sign: int, out: Type) -> Outcome | None:
    """Timestamps moved by one interval without months, if none of them leaves the calendar: a single addition."""
    months, days, span = (int(part) for part in order.interval_parts(i))
    step = sign * (days * MICROS_A_DAY + span)
    if months or not i.is_valid or abs(step) > civil.LAST_MICRO - civil.FIRST_MICRO:
        return None
    # Timestamps are in the calendar, and leave it only the way they are moved. What stands where the array is
    # null takes part; if that is out of bounds, only the closer look is lost.
    raw = raw_numbers(t)
    if len(raw) and step > 0 and int(raw.max()) + step > civil.LAST_MICRO:
        return None
    if len(raw) and step < 0 and int(raw.min()) + step < civil.FIRST_MICRO:
        return None
    return Outcome(pc.add(integers(t), pa.scalar(step, pa.int64())).view(out.arrow))


def _end(
    at: np.ndarray, parts: tuple[np.ndarray, ...], high: bool, crossing: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """An end of a range moved by an interval, outwards to the end of its day where others may land there."""
    months, days, span = parts
    if not np.any(months):
        return civil.shift(at, months, days, span)
    day, within = civil.split(at)
    here = civil.months_of(day)
    target = here + months
    start, next_start = civil.first_day(here), civil.first_day(target)
    place, room = day - start + 1, civil.first_day(target + 1) - next_start
    if high:
        within = np.where(crossing & (place > room), MICROS_A_DAY - 1, within)
    else:
        joined = crossing & (place >= room) & (place < civil.first_day(here + 1) - start)
        within = np.where(joined, 0, within)
    carry, within = civil.split(within + span)
    return civil.composed(next_start + np.minimum(place, room) - 1 + days + carry, within)


def _moved_bounds(out: Type, t: Specs, i: Specs, sign: int) -> Specs:
    """A range of times moved by intervals without months, or by one known interval: see the module."""
    if i.never_has_months().all():
        return (_plus_claimed if sign > 0 else _minus_claimed)(out, t, i)
    n = widest(t, i, i.exact, i.never_has_months())
    flags = inherited(t, i)
    usable = np.broadcast_to(i.exact | i.never_has_months(), n)
    # Dates all stand at midnight, so two of them that land on one day land on one instant: nothing crosses.
    crossing = np.broadcast_to(~t.exact & (t.type != DATE), n)
    scale = MICROS_A_DAY if t.type == DATE else 1
    ends, safe = [], usable
    for side in (0, 1):
        at, known = numbers(t.bounds()[side], n)
        step = i.bounds()[side if sign > 0 else 1 - side]
        known = known & to_bools(step.is_valid()) & usable
        months, days, span = (sign * part for part in order.interval_parts(step))
        # An end of a range is a length; only the one exact interval is known to have these months.
        parts = np.where(i.exact, months, 0), np.where(i.exact, days, days + 30 * months), span
        moved, outside = _end(at * scale, parts, bool(side), crossing)
        ends.append(bound(moved, known & ~outside, out.arrow))
        safe = safe & known & ~outside
    error = flags.pop("error") | (~safe & ~flags["empty"])
    return Specs.ranged(out, ends[0], ends[1], error=error, **flags)


def _plus_bounds(out: Type, t: Specs, i: Specs) -> Specs:
    return _moved_bounds(out, t, i, 1)


def _plus_bounds_swapped(out: Type, i: Specs, t: Specs) -> Specs:
    return _moved_bounds(out, t, i, 1)


def _minus_bounds(out: Type, t: Specs, i: Specs) -> Specs:
    return _moved_bounds(out, t, i, -1)


def _plus_trend(_: Specs, i: Specs) -> TrendClaim:
    plain = i.never_has_months()
    return where(UP, plain), where(UP, plain)


def _plus_trend_swapped(i: Specs, t: Specs) -> TrendClaim:
    return _plus_trend(t, i)


def _minus_trend(_: Specs, i: Specs) -> TrendClaim:
    plain = i.never_has_months()
    return where(UP, plain), where(DOWN, plain)


def _moved_on(t: Datum, i: Datum, out: Type) -> Outcome:
    return _moved(t, i, 1, out)


def _moved_back(t: Datum, i: Datum, out: Type) -> Outcome:
    return _moved(t, i, -1, out)


# Without months the corners tell all, and cost a tenth of bounds made by hand.
_plus_claimed = claimed(_moved_on, TIMESTAMPTZ, trend=(UP, UP), errors=AT_ENDS)
_minus_claimed = claimed(_moved_back, TIMESTAMPTZ, trend=(UP, DOWN), errors=AT_ENDS)

_plus = partial(scalar, "+", trend=_plus_trend, transfer=_plus_bounds, stable=True, spark=moved(1))
_swapped = partial(
    scalar, "+", trend=_plus_trend_swapped, transfer=_plus_bounds_swapped, stable=True, spark=moved(1)
)
_minus = partial(scalar, "-", trend=_minus_trend, transfer=_minus_bounds, stable=True, spark=moved(-1))


@_plus(params=(TIMESTAMP, INTERVAL), result=TIMESTAMP)
@_plus(params=(TIMESTAMPTZ, INTERVAL), result=TIMESTAMPTZ)
@_plus(params=(DATE, INTERVAL), result=TIMESTAMP)
def time_plus_interval(t: Datum, i: Datum, out: Type) -> Outcome:
    """A time moved by months, then days, then microseconds; a day the month lacks becomes its last."""
    return _moved_on(t, i, out)


@_swapped(params=(INTERVAL, TIMESTAMP), result=TIMESTAMP)
@_swapped(params=(INTERVAL, TIMESTAMPTZ), result=TIMESTAMPTZ)
@_swapped(params=(INTERVAL, DATE), result=TIMESTAMP)
def interval_plus_time(i: Datum, t: Datum, out: Type) -> Outcome:
    """A time moved by an interval."""
    return _moved(t, i, 1, out)


@scalar(
    "-", (TIMESTAMPTZ, TIMESTAMPTZ), INTERVAL, trend=(UP, DOWN), errors=NEVER, makes_months=False, stable=True
)
@scalar(
    "-", (TIMESTAMP, TIMESTAMP), INTERVAL, trend=(UP, DOWN), errors=NEVER, makes_months=False, stable=True
)
def time_minus_time(a: Datum, b: Datum) -> pa.Array:
    """The distance between two times in days and microseconds, both of one sign."""
    distance = micros(a) - micros(b)
    days = np.where(distance < 0, -(-distance // MICROS_A_DAY), distance // MICROS_A_DAY)
    zero = np.zeros_like(distance)
    return order.make_intervals(zero, days, distance - days * MICROS_A_DAY, validity(a, b))


@_minus(params=(TIMESTAMP, INTERVAL), result=TIMESTAMP)
@_minus(params=(TIMESTAMPTZ, INTERVAL), result=TIMESTAMPTZ)
def time_minus_interval(t: Datum, i: Datum, out: Type) -> Outcome:
    """A time moved back by months, then days, then microseconds."""
    return _moved(t, i, -1, out)


@scalar("-", (DATE, DATE), INT4, trend=(UP, DOWN), errors=NEVER, stable=True, spark="datediff({0}, {1})")
def date_minus_date(a: Datum, b: Datum) -> pa.Array:
    """The distance between two dates in days."""
    return from_numpy(to_numpy(a) - to_numpy(b), pa.int32(), a, b)


@scalar(
    "-",
    (DATE, INT4),
    DATE,
    trend=(UP, DOWN),
    errors=AT_ENDS,
    stable=True,
    spark=moved_days("date_sub({0}, {1})"),
)
def date_minus_days(d: Datum, n: Datum) -> Outcome:
    """A date moved back by days."""
    return civil.dates(to_numpy(d).astype(np.int64) - to_numpy(n), d, n)


@_minus(params=(DATE, INTERVAL), result=TIMESTAMP)
def date_minus_interval(d: Datum, i: Datum, out: Type) -> Outcome:
    """A date's midnight moved back by an interval."""
    return _moved(d, i, -1, out)


@scalar(
    "+",
    (DATE, INT4),
    DATE,
    trend=(UP, UP),
    errors=AT_ENDS,
    stable=True,
    spark=moved_days("date_add({0}, {1})"),
)
@scalar(
    "+",
    (INT4, DATE),
    DATE,
    trend=(UP, UP),
    errors=AT_ENDS,
    stable=True,
    spark=moved_days("date_add({1}, {0})"),
)
def date_plus_days(a: Datum, b: Datum) -> Outcome:
    """A date moved by days."""
    return civil.dates(to_numpy(a).astype(np.int64) + to_numpy(b), a, b)


@scalar("+", (DATE, TIME), TIMESTAMP, trend=(UP, UP), errors=NEVER, stable=True)
@scalar("+", (TIME, DATE), TIMESTAMP, trend=(UP, UP), errors=NEVER, stable=True)
def date_plus_time(a: Datum, b: Datum) -> pa.Array:
    """The timestamp of a time of day on a date."""
    return from_numpy(micros(a) + micros(b), pa.timestamp("us"), a, b)


@scalar("-", (TIME, TIME), INTERVAL, trend=(UP, DOWN), errors=NEVER, makes_months=False, stable=True)
def time_of_day_minus_time_of_day(a: Datum, b: Datum) -> pa.Array:
    """The distance between two times of day."""
    distance = micros(a) - micros(b)
    zero = np.zeros_like(distance)
    return order.make_intervals(zero, zero, distance, validity(a, b))


def _turned(t: Datum, i: Datum, sign: int) -> pa.Array:
    # Past midnight it starts over, so later times may come out earlier: 23:00 + 2 hours = 01:00. No trend.
    return from_numpy((micros(t) + sign * order.interval_parts(i)[2]) % MICROS_A_DAY, TIME.arrow, t, i)


@scalar("+", (TIME, INTERVAL), TIME, errors=NEVER, stable=True)
def time_of_day_plus_interval(t: Datum, i: Datum) -> pa.Array:
    """A time of day moved by an interval's time part, round the clock."""
    return _turned(t, i, 1)


@scalar("+", (INTERVAL, TIME), TIME, errors=NEVER, stable=True)
def interval_plus_time_of_day(i: Datum, t: Datum) -> pa.Array:
    """A time of day moved by an interval's time part, round the clock."""
    return _turned(t, i, 1)


@scalar("-", (TIME, INTERVAL), TIME, errors=NEVER, stable=True)
def time_of_day_minus_interval(t: Datum, i: Datum) -> pa.Array:
    """A time of day moved back by an interval's time part, round the clock."""
    return _turned(t, i, -1)
