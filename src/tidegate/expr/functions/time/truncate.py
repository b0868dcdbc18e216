"""Times truncated to units and bins, and the age between two times.

`date_trunc('month', t)` and `date_bin('15 min', t, origin)` follow the order of times while their unit,
stride and origin are constants, which they nearly always are, so a filter on a month prunes like one on the
time itself:

    t in 2024-03-10 .. 2024-03-20        date_trunc('month', t) is 2024-03-01, exactly

Both can only fail by leaving the calendar at its low end (the decade of year 5 begins before year 1). If the
unit is a constant, this shows at the ends of a range; otherwise it does not.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import at_ends_where, bound_integers, container_count, inherited_flags
from tidegate.expr.domain.specs import Specs
from tidegate.expr.domain.transfer import all_of
from tidegate.expr.functions.time.arithmetic import micros
from tidegate.expr.model import order
from tidegate.expr.model.function import AT_ENDS, NEVER, UP, scalar
from tidegate.expr.model.outcome import (
    Datum,
    Outcome,
    failing,
    first_error,
    from_numpy,
    length,
    to_numpy,
    validity,
    with_errors,
)
from tidegate.expr.model.types import BOOL, DATE, FLOAT8, INTERVAL, TEXT, TIMESTAMP, TIMESTAMPTZ, Type
from tidegate.expr.primitives.time import calendar as civil
from tidegate.expr.primitives.time.calendar import (
    FIRST_MICRO,
    MICROS_A_DAY,
    MICROS_A_MINUTE,
    MICROS_A_SECOND,
    MICROS_AN_HOUR,
    Ints,
)
from tidegate.expr.primitives.time.make_interval import MAX_DAYS, checked_intervals, toward_zero
from tidegate.expr.primitives.time.units import evaluate_by_choice, fail_all_rows, field_of, unit_error
from tidegate.expr.spark_sql import time_forms as spark_form_time

_STEPS = {
    "microseconds": 1, "milliseconds": 1000, "second": MICROS_A_SECOND, "minute": MICROS_A_MINUTE,
    "hour": MICROS_AN_HOUR, "day": MICROS_A_DAY,
}  # fmt: skip
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
_YEARS = {"century": 100, "millennium": 1000}


def _unit_is_exact(unit: Specs, _: Specs) -> np.ndarray:
    return unit.exact


def _grid_is_exact(stride: Specs, _: Specs, origin: Specs) -> np.ndarray:
    return all_of([stride.exact, origin.exact])


def truncate_micros(field: str, at: Ints) -> Ints | None:
    """Microseconds truncated to a unit (possibly before year 1); None if there is no such unit."""
    if field in _STEPS:
        step = _STEPS[field]
        return at if step == 1 else at - at % step
    day = np.floor_divide(at, MICROS_A_DAY)
    if field == "week":
        return civil.week_start(day) * MICROS_A_DAY
    months = civil.months_of(day)
    if field in _MONTHS:
        return civil.first_day(months - (months - civil.MONTHS_AT_YEAR_ZERO) % _MONTHS[field]) * MICROS_A_DAY
    if field in _YEARS:
        # The first century began with year 1.
        past = (months - civil.MONTHS_AT_YEAR_ZERO - 12) % (12 * _YEARS[field])
        return civil.first_day(months - past) * MICROS_A_DAY
    return None


def _truncate(unit: str, t: pa.Array, out: Type, source: Type) -> Outcome:
    field = field_of(unit)
    cut = None if field is None else truncate_micros(field, micros(t))
    return (
        fail_all_rows(unit_error(unit, source, truncating=True), len(t), out.arrow)
        if cut is None
        else civil.timestamps(cut, out.arrow, t)
    )


@scalar(
    "date_trunc", (TEXT, DATE), TIMESTAMPTZ,
    overloads=[((TEXT, TIMESTAMPTZ), TIMESTAMPTZ), ((TEXT, TIMESTAMP), TIMESTAMP)],
    trend=(None, UP), transfer=at_ends_where(_unit_is_exact), stable=True, spark=spark_form_time.date_trunc_form,
)  # fmt: skip
def date_trunc(unit: Datum, t: Datum, out: Type) -> Outcome:
    """The time truncated to a unit: `hour`, `day`, `week`, `month`, `quarter`, `year` and others."""
    return evaluate_by_choice(unit, lambda name, at: _truncate(name, at, out, out), out.arrow, t)


def _truncate_interval(unit: str, i: pa.Array) -> Outcome:
    field = field_of(unit)
    months, days, span = order.interval_parts(i)
    zero = np.zeros_like(months)
    if field == "day":
        return Outcome(order.make_intervals(months, days, zero, validity(i)))
    if field in _STEPS and field is not None:
        return Outcome(
            order.make_intervals(months, days, toward_zero(span, _STEPS[field]) * _STEPS[field], validity(i))
        )
    step = {**_MONTHS, "century": 1200, "millennium": 12_000}.get(field or "")
    if step is None:
        return fail_all_rows(unit_error(unit, INTERVAL, truncating=True), len(i), INTERVAL.arrow)
    return Outcome(order.make_intervals(toward_zero(months, step) * step, zero, zero, validity(i)))


@scalar("date_trunc", (TEXT, INTERVAL), INTERVAL, stable=True)
def date_trunc_interval(unit: Datum, i: Datum) -> Outcome:
    """The interval truncated to a unit; `week` is not supported."""
    return evaluate_by_choice(unit, _truncate_interval, INTERVAL.arrow, i)


@scalar(
    "date_bin", (INTERVAL, TIMESTAMPTZ, TIMESTAMPTZ), TIMESTAMPTZ,
    overloads=[((INTERVAL, TIMESTAMP, TIMESTAMP), TIMESTAMP)],
    trend=(None, UP, None), transfer=at_ends_where(_grid_is_exact), stable=True,
)  # fmt: skip
def date_bin(stride: Datum, t: Datum, origin: Datum, out: Type) -> Outcome:
    """The start of the bin that contains a time; bins are one stride long, and one starts at the origin."""
    months, days, span = order.interval_parts(stride)
    # A stride longer than the calendar puts all times into one of two bins, whatever its length.
    size = np.clip(days, -20_000_000, 20_000_000) * MICROS_A_DAY + span
    start, at = micros(origin), micros(t)
    distance = at - start
    binned = start + distance - distance % np.maximum(size, 1)
    n = length(stride, t, origin)
    monthly = failing(
        np.broadcast_to(months != 0, n),
        "timestamps cannot be binned into intervals containing months or years",
    )
    no_size = failing(np.broadcast_to((months == 0) & (size <= 0), n), "stride must be greater than zero")
    values, errors = civil.timestamps(np.broadcast_to(binned, n), out.arrow, stride, t, origin)
    if monthly is not None or no_size is not None:
        fine = pa.array(np.broadcast_to((months == 0) & (size > 0), n))
        errors = None if errors is None else pc.if_else(fine, errors, pa.scalar(None, pa.string()))
    return with_errors(values, first_error(errors, monthly, no_size))


def age_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """age over containers, by the distance of the ends: n months have 30 n - 2 to 31 n days."""
    n = container_count(a, b)
    ends = []
    for side in (0, 1):
        (x, x_known), (y, y_known) = (
            bound_integers(a.bounds()[side], n),
            bound_integers(b.bounds()[1 - side], n),
        )
        distance = x - y
        slack = np.abs(distance) // 28 + 5 * MICROS_A_DAY
        span = distance + (slack if side else -slack)
        days = np.clip(toward_zero(span, MICROS_A_DAY), -MAX_DAYS, MAX_DAYS)
        time, known = span - days * MICROS_A_DAY, pa.array(x_known & y_known)
        ends.append(order.make_intervals(np.zeros_like(span), days, time, known))
    return Specs.ranged(out, *ends, exact=np.zeros(1, bool), **inherited_flags(a, b))


@scalar(
    "age", (TIMESTAMP, TIMESTAMP), INTERVAL, overloads=[((TIMESTAMPTZ, TIMESTAMPTZ), INTERVAL)],
    errors=NEVER, transfer=age_transfer, stable=True,
)  # fmt: skip
def age(a: Datum, b: Datum) -> Outcome:
    """The time from the second to the first argument in months, days and time, as a calendar counts it."""
    first, second = np.broadcast_arrays(np.atleast_1d(micros(a)), micros(b))
    sign = np.where(first < second, -1, 1)
    (late, late_clock), (early, early_clock) = (
        civil.split_days(np.maximum(first, second)),
        civil.split_days(np.minimum(first, second)),
    )
    clock = late_clock - early_clock
    borrow = clock < 0
    late_month, early_month = civil.months_of(late), civil.months_of(early)
    days = (late - civil.first_day(late_month)) - (early - civil.first_day(early_month)) - borrow
    # A month is borrowed with the length that the earlier month has.
    short = days < 0
    days = days + np.where(short, civil.month_length(early_month), 0)
    months = late_month - early_month - short
    return checked_intervals(sign * months, sign * days, sign * (clock + borrow * MICROS_A_DAY), a, b)


@scalar("to_timestamp", (FLOAT8,), TIMESTAMPTZ, trend=(UP,), errors=AT_ENDS, stable=True)
def to_timestamp(seconds: Datum) -> Outcome:
    """The instant a number of seconds after 1970-01-01 00:00 UTC, to the nearest microsecond."""
    since_1970 = to_numpy(seconds, 0.0)
    # As PostgreSQL does it: relative to 2000, so that rounding falls the same way.
    epoch = 946_684_800
    with np.errstate(all="ignore"):
        since = np.rint((since_1970 - epoch) * 1e6)
        outside = ~(np.abs(since) < 1e18)
        at = np.where(
            outside, FIRST_MICRO - 1, np.where(outside, 0, since).astype(np.int64) + epoch * MICROS_A_SECOND
        )
    values, errors = civil.timestamps(at, TIMESTAMPTZ.arrow, seconds)
    nan = np.isnan(since_1970)
    if errors is not None and nan.any():
        errors = pc.if_else(pa.array(nan), "timestamp cannot be NaN", errors)
    return Outcome(values, errors)


def _always(_: Type, a: Specs) -> Specs:
    """True wherever there is a value."""
    return Specs.boolean(~a.empty, np.zeros(1, bool), a.null, a.error)


@scalar(
    "isfinite", overloads=[((type_,), BOOL) for type_ in (INTERVAL, TIMESTAMPTZ, TIMESTAMP, DATE)],
    errors=NEVER, transfer=_always, stable=True,
)  # fmt: skip
def isfinite(a: Datum) -> pa.Array:
    """Always true: times and intervals have no infinities here."""
    return from_numpy(np.ones(length(a), bool), pa.bool_(), a)
