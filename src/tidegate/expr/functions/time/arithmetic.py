"""Times plus and minus intervals, and the distance between two times.

An interval has months, days and microseconds, added in this order; a day that a month does not have becomes
its last. So adding days and microseconds follows the order of times, but adding months does not:

    2024-01-30 23:00 + 1 month = 2024-02-29 23:00      the earlier time
    2024-01-31 01:00 + 1 month = 2024-02-29 01:00      becomes the later one

Yet `created_at + '1 month'` has bounds. By whole days the sum does follow the order: a later day never lands
on an earlier one. Two times can only cross when their days land on the same day, which happens at the end of
a month that is longer than the one it is moved to. So a low end that other days of its month may join
moves to the midnight before it, a high end whose day was cut back moves to the last microsecond of its day, and
all other ends are as exact as for days:

    created_at in 2024-01-10 08:00 .. 2024-01-31 01:00  gives  2024-02-10 08:00 .. 2024-02-29 23:59:59.999999
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import bound_integers, container_count, inherited_flags, temporal_bound
from tidegate.expr.domain.specs import Specs
from tidegate.expr.domain.transfer import by_trend
from tidegate.expr.model import order
from tidegate.expr.model.function import (
    AT_ENDS,
    DOWN,
    NEVER,
    UP,
    BoundTransfer,
    Function,
    MaskedTrend,
    TrendClaim,
    scalar,
)
from tidegate.expr.model.outcome import (
    Datum,
    Outcome,
    from_numpy,
    integers,
    raw_numbers,
    to_bools,
    to_numpy,
    validity,
)
from tidegate.expr.model.types import DATE, INT4, INTERVAL, TIME, TIMESTAMP, TIMESTAMPTZ, Type
from tidegate.expr.primitives.time import calendar as civil
from tidegate.expr.primitives.time.calendar import MICROS_A_DAY
from tidegate.expr.spark_sql.time_forms import add_days_form, add_interval_form


def micros(t: Datum) -> np.ndarray:
    """Dates and timestamps as microseconds since 1970; times as microseconds since midnight."""
    values = to_numpy(t)
    return values.astype(np.int64) * MICROS_A_DAY if pa.types.is_date32(t.type) else values


def _move(t: Datum, i: Datum, sign: int, out: Type) -> Outcome:
    if isinstance(i, pa.Scalar) and isinstance(t, pa.Array) and pa.types.is_timestamp(t.type):
        quickly = _move_alike(t, i, sign, out)
        if quickly is not None:
            return quickly
    months, days, span = order.interval_parts(i)
    add_interval_form, outside = civil.shift(micros(t), sign * months, sign * days, sign * span)
    return civil.timestamps(add_interval_form, out.arrow, t, i, outside=outside)


def _move_alike(t: pa.Array, i: pa.Scalar, sign: int, out: Type) -> Outcome | None:
    """Timestamps plus one interval without months as a single addition; None if one leaves the calendar."""
    months, days, span = (int(part) for part in order.interval_parts(i))
    step = sign * (days * MICROS_A_DAY + span)
    if months or not i.is_valid or abs(step) > civil.LAST_MICRO - civil.FIRST_MICRO:
        return None
    # Timestamps are in the calendar, and leave it only in the direction of the step. Null slots hold arbitrary
    # values; if one is out of bounds, only the fast path is lost.
    raw = raw_numbers(t)
    if len(raw) and step > 0 and int(raw.max()) + step > civil.LAST_MICRO:
        return None
    if len(raw) and step < 0 and int(raw.min()) + step < civil.FIRST_MICRO:
        return None
    return Outcome(pc.add(integers(t), pa.scalar(step, pa.int64())).view(out.arrow))


def _end(
    at: np.ndarray, parts: tuple[np.ndarray, ...], high: bool, crossing: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """An end of a range plus an interval, moved to the edge of its day where other times may land there."""
    months, days, span = parts
    if not np.any(months):
        return civil.shift(at, months, days, span)
    day, within = civil.split_days(at)
    here = civil.months_of(day)
    target = here + months
    start, next_start = civil.first_day(here), civil.first_day(target)
    place, room = day - start + 1, civil.first_day(target + 1) - next_start
    if high:
        within = np.where(crossing & (place > room), MICROS_A_DAY - 1, within)
    else:
        joined = crossing & (place >= room) & (place < civil.first_day(here + 1) - start)
        within = np.where(joined, 0, within)
    carry, within = civil.split_days(within + span)
    return civil.compose_timestamps(next_start + np.minimum(place, room) - 1 + days + carry, within)


def _moved_bounds(function: Function, out: Type, t: Specs, i: Specs, sign: int) -> Specs:
    """A range of times plus intervals without months, or plus one known interval."""
    if i.never_has_months().all():
        # Without months the corners suffice, and cost a tenth of bounds made by hand.
        args = (t, i) if function.params[-1] == INTERVAL else (i, t)
        return by_trend(function.claiming((UP, UP if sign > 0 else DOWN), AT_ENDS), args, out)
    n = container_count(t, i, i.exact, i.never_has_months())
    flags = inherited_flags(t, i)
    usable = np.broadcast_to(i.exact | i.never_has_months(), n)
    # Dates are at midnight, so two that land on one day land on one instant: nothing crosses.
    crossing = np.broadcast_to(~t.exact & (t.type != DATE), n)
    scale = MICROS_A_DAY if t.type == DATE else 1
    ends, safe = [], usable
    for side in (0, 1):
        at, known = bound_integers(t.bounds()[side], n)
        step = i.bounds()[side if sign > 0 else 1 - side]
        known = known & to_bools(step.is_valid()) & usable
        months, days, span = (sign * part for part in order.interval_parts(step))
        # An end of a range is a length; only the one exact interval is known to have these months.
        parts = np.where(i.exact, months, 0), np.where(i.exact, days, days + 30 * months), span
        add_interval_form, outside = _end(at * scale, parts, bool(side), crossing)
        ends.append(temporal_bound(add_interval_form, known & ~outside, out.arrow))
        safe = safe & known & ~outside
    error = flags.pop("error") | (~safe & ~flags["empty"])
    return Specs.ranged(out, ends[0], ends[1], error=error, **flags)


@BoundTransfer
def plus_transfer(function: Function, out: Type, t: Specs, i: Specs) -> Specs:
    """A time plus an interval over containers."""
    return _moved_bounds(function, out, t, i, 1)


@BoundTransfer
def swapped_plus_transfer(function: Function, out: Type, i: Specs, t: Specs) -> Specs:
    """An interval plus a time over containers."""
    return _moved_bounds(function, out, t, i, 1)


@BoundTransfer
def minus_transfer(function: Function, out: Type, t: Specs, i: Specs) -> Specs:
    """A time minus an interval over containers."""
    return _moved_bounds(function, out, t, i, -1)


def _plus_trend(_: Specs, i: Specs) -> TrendClaim:
    plain = i.never_has_months()
    return MaskedTrend(UP, plain), MaskedTrend(UP, plain)


def _plus_trend_swapped(i: Specs, t: Specs) -> TrendClaim:
    return _plus_trend(t, i)


def _minus_trend(_: Specs, i: Specs) -> TrendClaim:
    plain = i.never_has_months()
    return MaskedTrend(UP, plain), MaskedTrend(DOWN, plain)


_plus = partial(scalar, "+", stable=True, spark=add_interval_form(1))
_minus = partial(
    scalar, "-", trend=_minus_trend, transfer=minus_transfer, stable=True, spark=add_interval_form(-1)
)
_days = partial(scalar, errors=AT_ENDS, stable=True)


@_plus(
    overloads=[
        ((DATE, INTERVAL), TIMESTAMP),
        ((TIMESTAMPTZ, INTERVAL), TIMESTAMPTZ),
        ((TIMESTAMP, INTERVAL), TIMESTAMP),
    ],
    trend=_plus_trend,
    transfer=plus_transfer,
)
def time_plus_interval(t: Datum, i: Datum, out: Type) -> Outcome:
    """A time plus months, then days, then microseconds; a day beyond the end of a month becomes its last."""
    return _move(t, i, 1, out)


@_plus(
    overloads=[
        ((INTERVAL, DATE), TIMESTAMP),
        ((INTERVAL, TIMESTAMPTZ), TIMESTAMPTZ),
        ((INTERVAL, TIMESTAMP), TIMESTAMP),
    ],
    trend=_plus_trend_swapped,
    transfer=swapped_plus_transfer,
)
def interval_plus_time(i: Datum, t: Datum, out: Type) -> Outcome:
    """A time plus an interval."""
    return _move(t, i, 1, out)


_distance = partial(scalar, "-", trend=(UP, DOWN), errors=NEVER, stable=True)


@_distance(
    (TIMESTAMP, TIMESTAMP), INTERVAL, overloads=[((TIMESTAMPTZ, TIMESTAMPTZ), INTERVAL)], makes_months=False
)
def time_minus_time(a: Datum, b: Datum) -> pa.Array:
    """The distance between two times in days and microseconds, both of the same sign."""
    distance = micros(a) - micros(b)
    days = np.where(distance < 0, -(-distance // MICROS_A_DAY), distance // MICROS_A_DAY)
    zero = np.zeros_like(distance)
    return order.make_intervals(zero, days, distance - days * MICROS_A_DAY, validity(a, b))


@_minus((TIMESTAMPTZ, INTERVAL), TIMESTAMPTZ, overloads=[((TIMESTAMP, INTERVAL), TIMESTAMP)])
def time_minus_interval(t: Datum, i: Datum, out: Type) -> Outcome:
    """A time minus months, then days, then microseconds."""
    return _move(t, i, -1, out)


@_distance((DATE, DATE), INT4, spark="datediff({0}, {1})")
def date_minus_date(a: Datum, b: Datum) -> pa.Array:
    """The number of days between two dates."""
    return from_numpy(to_numpy(a) - to_numpy(b), pa.int32(), a, b)


@_days("-", (DATE, INT4), DATE, trend=(UP, DOWN), spark=add_days_form("date_sub({0}, {1})"))
def date_minus_days(d: Datum, n: Datum) -> Outcome:
    """A date minus a number of days."""
    return civil.dates(to_numpy(d).astype(np.int64) - to_numpy(n), d, n)


@_minus((DATE, INTERVAL), TIMESTAMP)
def date_minus_interval(d: Datum, i: Datum, out: Type) -> Outcome:
    """A date's midnight minus an interval."""
    return _move(d, i, -1, out)


@_days("+", (DATE, INT4), DATE, trend=(UP, UP), spark=add_days_form("date_add({0}, {1})"))
@_days("+", (INT4, DATE), DATE, trend=(UP, UP), spark=add_days_form("date_add({1}, {0})"))
def date_plus_days(a: Datum, b: Datum) -> Outcome:
    """A date plus a number of days."""
    return civil.dates(to_numpy(a).astype(np.int64) + to_numpy(b), a, b)


@scalar(
    "+",
    overloads=[((TIME, DATE), TIMESTAMP), ((DATE, TIME), TIMESTAMP)],
    trend=(UP, UP),
    errors=NEVER,
    stable=True,
)
def date_plus_time(a: Datum, b: Datum) -> pa.Array:
    """The timestamp of a time of day on a date."""
    return from_numpy(micros(a) + micros(b), pa.timestamp("us"), a, b)


@_distance((TIME, TIME), INTERVAL, makes_months=False)
def time_of_day_minus_time_of_day(a: Datum, b: Datum) -> pa.Array:
    """The distance between two times of day."""
    distance = micros(a) - micros(b)
    zero = np.zeros_like(distance)
    return order.make_intervals(zero, zero, distance, validity(a, b))


def _turn_clock(t: Datum, i: Datum, sign: int) -> pa.Array:
    # The clock restarts at midnight, so a later time may become an earlier one: 23:00 + 2 hours = 01:00. No trend.
    return from_numpy((micros(t) + sign * order.interval_parts(i)[2]) % MICROS_A_DAY, TIME.arrow, t, i)


@scalar("+", (TIME, INTERVAL), TIME, errors=NEVER, stable=True)
def time_of_day_plus_interval(t: Datum, i: Datum) -> pa.Array:
    """A time of day plus an interval's time part, modulo 24 hours."""
    return _turn_clock(t, i, 1)


@scalar("+", (INTERVAL, TIME), TIME, errors=NEVER, stable=True)
def interval_plus_time_of_day(i: Datum, t: Datum) -> pa.Array:
    """A time of day plus an interval's time part, modulo 24 hours."""
    return _turn_clock(t, i, 1)


@scalar("-", (TIME, INTERVAL), TIME, errors=NEVER, stable=True)
def time_of_day_minus_interval(t: Datum, i: Datum) -> pa.Array:
    """A time of day minus an interval's time part, modulo 24 hours."""
    return _turn_clock(t, i, -1)
