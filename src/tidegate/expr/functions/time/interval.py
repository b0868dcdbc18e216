"""Arithmetic of intervals: sums, multiples, fractions, and the justify functions.

Intervals are ordered by length, a month being 30 days. A sum's length is the sum of the lengths, so sums have
trends. For multiples this holds only roughly: PostgreSQL carries fractions of months down to days and seconds, and
rounds on the way, so a longer interval times 1.1 may become some milliseconds shorter. `n * interval '1 day'`
still has bounds: the product of the lengths, give or take a second and a second for each unit of the factor.

    n in 1 .. 30     n * '1 day'  in  1 day - 31 s .. 30 days + 31 s
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import (
    bound_floats,
    bound_integers,
    container_count,
    inherited_flags,
    stretch,
)
from tidegate.expr.domain.specs import Specs
from tidegate.expr.domain.transfer import all_of, by_trend
from tidegate.expr.model import order
from tidegate.expr.model.function import ANYWHERE, AT_ENDS, DOWN, UP, BoundTransfer, Function, scalar
from tidegate.expr.model.outcome import Datum, Outcome, failing, first_error, to_numpy, with_errors
from tidegate.expr.model.types import FLOAT8, INT4, INTERVAL, Type
from tidegate.expr.primitives.time.calendar import (
    MICROS_A_DAY,
    MICROS_A_MINUTE,
    MICROS_A_SECOND,
    MICROS_AN_HOUR,
)
from tidegate.expr.primitives.time.make_interval import MAX_DAYS, checked_intervals, toward_zero

_LONGEST = MAX_DAYS * MICROS_A_DAY
_ODD_DAYS = 110_000
"""More days than fit a time part: how far the days of an interval without months may be from its length."""

_PART_LIMIT = 2**31
"""Months and days are kept in 32 bits each."""


_sums = partial(scalar, result=INTERVAL, errors=AT_ENDS, stable=True)


@_sums("+", (INTERVAL, INTERVAL), trend=(UP, UP), makes_months=False)
def interval_plus_interval(a: Datum, b: Datum) -> Outcome:
    """The sum, part by part."""
    parts = (x + y for x, y in zip(order.interval_parts(a), order.interval_parts(b), strict=True))
    return checked_intervals(*parts, a, b)


@_sums("-", (INTERVAL, INTERVAL), trend=(UP, DOWN), makes_months=False)
def interval_minus_interval(a: Datum, b: Datum) -> Outcome:
    """The difference, part by part."""
    parts = (x - y for x, y in zip(order.interval_parts(a), order.interval_parts(b), strict=True))
    return checked_intervals(*parts, a, b)


@_sums("-", (INTERVAL,), trend=(DOWN,), makes_months=False)
def minus_interval(a: Datum) -> Outcome:
    """The negated interval."""
    months, days, micros = order.interval_parts(a)
    return checked_intervals(-months, -days, -micros, a)


def _rounded(value: np.ndarray) -> np.ndarray:
    return np.rint(value * 1e6) / 1e6


def _scaled(months: np.ndarray, days: np.ndarray, micros: np.ndarray, *args: Datum) -> Outcome:
    """An interval from fractional parts: fractions of months become days, those of days seconds."""
    with np.errstate(all="ignore"):
        whole_months, whole_days = np.trunc(months), np.trunc(days)
        of_months = _rounded((months - whole_months) * 30)
        seconds = _rounded((days - whole_days + of_months - np.trunc(of_months)) * 86_400)
        more = np.where(np.abs(seconds) >= 86_400, np.trunc(seconds / 86_400), 0)
        whole_days = whole_days + more + np.trunc(of_months)
        time = np.rint(micros + (seconds - more * 86_400) * 1e6)
        # Days of the time part leave it before it is made an integer, which could not hold them.
        carry = np.where(np.abs(time) > 9e15, np.trunc(time / MICROS_A_DAY), 0)
        whole_days, time = whole_days + carry, time - carry * MICROS_A_DAY
        # As in PostgreSQL each part must fit, although 2147483647 * '1 mon -30 days' has no length at all.
        fits = (np.abs(whole_months) < _PART_LIMIT) & (np.abs(np.trunc(days)) < _PART_LIMIT)
        bad = ~(fits & (np.abs(whole_days) < 1e12) & (np.abs(time) < 1e18))
        parts = (np.where(bad, 0, part).astype(np.int64) for part in (whole_months, whole_days, time))
        return checked_intervals(*parts, *args, bad=np.atleast_1d(bad))


def _scaled_bounds(out: Type, i: Specs, low: np.ndarray, high: np.ndarray, f: Specs) -> Specs:
    """Bounds of an interval times a factor between `low` and `high` (NaN: unknown)."""
    n = container_count(i, f, low, i.never_has_months())
    keys = [bound_integers(order.interval_key(b), n) for b in i.bounds()]
    factor = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(all="ignore"):
        products = [key.astype(float) * side for key, _ in keys for side in (low, high)]
        slack = (1 + factor) * MICROS_A_SECOND
        least, greatest = np.minimum.reduce(products) - slack, np.maximum.reduce(products) + slack
        known = keys[0][1] & keys[1][1] & (np.abs(least) < _LONGEST / 2) & (np.abs(greatest) < _LONGEST / 2)
        odd = np.maximum(np.abs(keys[0][0]), np.abs(keys[1][0])) / MICROS_A_DAY + _ODD_DAYS
        # Only an exact interval or one without months is known to have no huge parts that cancel each other.
        safe = known & i.never_has_months() & (odd * factor < MAX_DAYS / 2)
        parts = [np.abs(part) for part in order.interval_parts(i.bounds()[0])]
        fits = all_below(parts, factor)
    safe = safe | (known & i.exact & fits)
    flags = inherited_flags(i, f)
    nan = False if f.nan is None else f.nan
    error = flags.pop("error") | ((~safe | nan) & ~flags["empty"])
    ends = [_length(x, known) for x in (least, greatest)]
    return Specs.ranged(out, *ends, error=error, months=i.months, exact=np.zeros(1, bool), **flags)


def all_below(parts: list[np.ndarray], factor: np.ndarray) -> np.ndarray:
    """Where months, days and microseconds times a factor stay well within an interval's range."""
    months, days, micros = parts
    below: np.ndarray = (months * 30 + days + micros / MICROS_A_DAY) * factor < MAX_DAYS / 2
    few_months: np.ndarray = months * factor < 2**30
    return all_of([below, few_months])


def _length(micros: np.ndarray, known: np.ndarray) -> pa.Array:
    """Bounds of these lengths, as intervals of days and microseconds."""
    whole = np.where(known, micros, 0).astype(np.int64)
    days = toward_zero(whole, MICROS_A_DAY)
    return order.make_intervals(np.zeros_like(whole), days, whole - days * MICROS_A_DAY, pa.array(known))


def _exact_or(exact: Specs, wide: Specs) -> Specs:
    """`exact` in the containers where it is exact (or a sure failure), else `wide`."""
    n = container_count(exact, wide, exact.exact)
    use_exact = np.broadcast_to(exact.exact, n)
    ends = []
    for mine, other in zip(exact.bounds(), wide.bounds(), strict=True):
        ends.append(pc.if_else(pa.array(use_exact), stretch(mine, n), stretch(other, n)))
    assert exact.months is not None
    assert wide.months is not None
    months = np.where(use_exact, exact.months, wide.months)
    error = np.where(use_exact, exact.error, wide.error)
    return Specs.ranged(
        exact.type, *ends, null=exact.null, error=error, empty=exact.empty, months=months, exact=exact.exact
    )


def _factor_bounds(f: Specs, n: int) -> tuple[np.ndarray, np.ndarray]:
    low, high = (bound_floats(b, n) for b in f.bounds())
    return low, high


@BoundTransfer
def times_transfer(function: Function, out: Type, *args: Specs) -> Specs:
    """An interval times a number, or a number times an interval, over containers."""
    i, f = args if function.params[0] == INTERVAL else reversed(args)
    exact = by_trend(function.claiming(errors=ANYWHERE), args, out)
    return _exact_or(exact, _scaled_bounds(out, i, *_factor_bounds(f, container_count(i, f)), f))


@BoundTransfer
def division_transfer(function: Function, out: Type, i: Specs, f: Specs) -> Specs:
    """An interval divided by a number over containers."""
    low, high = _factor_bounds(f, container_count(i, f))
    with np.errstate(all="ignore"):
        away = (low > 0) | (high < 0)
        low, high = (np.where(away, 1 / side, np.nan) for side in (high, low))
    exact = by_trend(function.claiming(errors=ANYWHERE), (i, f), out)
    return _exact_or(exact, _scaled_bounds(out, i, low, high, f))


@scalar("*", (INTERVAL, FLOAT8), INTERVAL, transfer=times_transfer, stable=True)
def interval_times_number(i: Datum, f: Datum) -> Outcome:
    """A multiple; fractions of months become days (30 a month), fractions of days become time."""
    factor = to_numpy(f, 0.0)
    with np.errstate(all="ignore"):
        months, days, micros = (part * factor for part in order.interval_parts(i))
    return _scaled(months, days, micros, i, f)


@scalar("*", (FLOAT8, INTERVAL), INTERVAL, transfer=times_transfer, stable=True)
def number_times_interval(f: Datum, i: Datum) -> Outcome:
    """A multiple; fractions of months become days (30 a month), fractions of days become time."""
    return interval_times_number(i, f)


@scalar("/", (INTERVAL, FLOAT8), INTERVAL, transfer=division_transfer, stable=True)
def interval_by_number(i: Datum, f: Datum) -> Outcome:
    """A quotient; fractions of months become days (30 a month), fractions of days become time."""
    divisor = to_numpy(f, 1.0)
    zero = np.atleast_1d(divisor == 0)
    with np.errstate(all="ignore"):
        safe = np.where(divisor == 0, 1.0, divisor)
        months, days, micros = (part / safe for part in order.interval_parts(i))
    values, errors = _scaled(months, days, micros, i, f)
    divided = failing(np.broadcast_to(zero, len(values)), "division by zero")
    return with_errors(values, first_error(divided, errors))


@_sums("justify_hours", (INTERVAL,), trend=(UP,), makes_months=False)
def justify_hours(i: Datum) -> Outcome:
    """The interval with 24 hours as a day; days and time get the same sign."""
    months, days, micros = order.interval_parts(i)
    carry = toward_zero(micros, MICROS_A_DAY)
    days, micros = _one_sign(days + carry, micros - carry * MICROS_A_DAY, MICROS_A_DAY)
    return checked_intervals(months, days, micros, i)


@_sums("justify_days", (INTERVAL,), trend=(UP,))
def justify_days(i: Datum) -> Outcome:
    """The interval with 30 days as a month; months and days get the same sign."""
    months, days, micros = order.interval_parts(i)
    carry = toward_zero(days, 30)
    months, days = _one_sign(months + carry, days - carry * 30, 30)
    return checked_intervals(months, days, micros, i)


@_sums("justify_interval", (INTERVAL,), trend=(UP,))
def justify_interval(i: Datum) -> Outcome:
    """The interval with 24 hours as a day and 30 days as a month; all parts get the same sign."""
    length = to_numpy(order.interval_key(i))
    days = toward_zero(length, MICROS_A_DAY)
    months = toward_zero(days, 30)
    return checked_intervals(months, days - months * 30, length - days * MICROS_A_DAY, i)


def _one_sign(large: np.ndarray, small: np.ndarray, unit: int) -> tuple[np.ndarray, np.ndarray]:
    step = np.where((large > 0) & (small < 0), 1, np.where((large < 0) & (small > 0), -1, 0))
    return large - step, small + step * unit


@BoundTransfer
def make_interval_transfer(function: Function, out: Type, *args: Specs) -> Specs:
    """make_interval over containers: every part adds to the length; only years and months add months."""
    described = by_trend(function.claiming((UP,), AT_ENDS), args, out)
    days_only = np.ones(1, bool)
    for arg in args[:2]:
        low, high = (bound_floats(b, container_count(*args)) for b in arg.bounds())
        days_only = days_only & (low == 0) & (high == 0)
    return Specs.ranged(
        out, described.low, described.high, null=described.null, error=described.error, empty=described.empty,
        exact=described.exact, months=~days_only,
    )  # fmt: skip


@scalar(
    "make_interval",
    overloads=[((*(INT4,) * min(count, 6), *(FLOAT8,) * (count == 7)), INTERVAL) for count in range(1, 8)],
    trend=(UP,), errors=AT_ENDS, transfer=make_interval_transfer, stable=True,
)  # fmt: skip
def make_interval(*args: Datum) -> Outcome:
    """An interval from years, months, weeks, days, hours, minutes and seconds; missing ones are 0."""
    parts: list[Any] = [to_numpy(a).astype(np.int64) for a in args[:6]]
    parts += [np.asarray(0)] * (6 - len(parts))
    years, months, weeks, days, hours, minutes = parts
    seconds = to_numpy(args[6], 0.0) * 1e6 if len(args) == 7 else np.asarray(0.0)
    bad = ~(np.abs(seconds) < 1e18)
    micros = (
        hours * MICROS_AN_HOUR
        + minutes * MICROS_A_MINUTE
        + np.rint(np.where(bad, 0, seconds)).astype(np.int64)
    )
    return checked_intervals(years * 12 + months, weeks * 7 + days, micros, *args, bad=np.atleast_1d(bad))
