"""Arithmetic of intervals: sums, multiples, fractions, and their parts brought into proportion.

Intervals are ordered by length, a month being 30 days. A sum's length is the sum of the lengths, so sums have
trends. A multiple's is not quite: PostgreSQL carries fractions of months down to days and seconds, and rounds
on the way, so a longer interval times 1.1 may come out some milliseconds shorter. `n * interval '1 day'`
still has bounds: the product of the lengths, give or take a second and a second for each unit of the factor.

    n in 1 .. 30     n * '1 day'  in  1 day - 31 s .. 30 days + 31 s
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import order
from tidegate.expr.civil import MICROS_A_DAY, MICROS_A_MINUTE, MICROS_A_SECOND, MICROS_AN_HOUR
from tidegate.expr.enclose import claimed, inherited, number_bound, numbers, widest
from tidegate.expr.function import AT_ENDS, DOWN, UP, scalar
from tidegate.expr.outcome import Datum, Outcome, failing, first_error, spread, to_numpy, with_errors
from tidegate.expr.span import MAX_DAYS, spans, toward_zero
from tidegate.expr.specs import Specs
from tidegate.expr.transfer import all_of
from tidegate.expr.types import FLOAT8, INT4, INTERVAL, Type

_LONGEST = MAX_DAYS * MICROS_A_DAY
_ODD_DAYS = 110_000
"""More days than fit a time part: how far the days of an interval without months may be from its length."""


@scalar("+", (INTERVAL, INTERVAL), INTERVAL, trend=(UP, UP), errors=AT_ENDS, makes_months=False, stable=True)
def interval_plus_interval(a: Datum, b: Datum) -> Outcome:
    """The sum, part by part."""
    parts = (x + y for x, y in zip(order.interval_parts(a), order.interval_parts(b), strict=True))
    return spans(*parts, a, b)


@scalar(
    "-", (INTERVAL, INTERVAL), INTERVAL, trend=(UP, DOWN), errors=AT_ENDS, makes_months=False, stable=True
)
def interval_minus_interval(a: Datum, b: Datum) -> Outcome:
    """The difference, part by part."""
    parts = (x - y for x, y in zip(order.interval_parts(a), order.interval_parts(b), strict=True))
    return spans(*parts, a, b)


@scalar("-", (INTERVAL,), INTERVAL, trend=(DOWN,), errors=AT_ENDS, makes_months=False, stable=True)
def minus_interval(a: Datum) -> Outcome:
    """The same length the other way."""
    months, days, micros = order.interval_parts(a)
    return spans(-months, -days, -micros, a)


def _rounded(value: np.ndarray) -> np.ndarray:
    return np.rint(value * 1e6) / 1e6


def _scaled(months: np.ndarray, days: np.ndarray, micros: np.ndarray, *args: Datum) -> Outcome:
    """An interval from parts with fractions: those of months go to days, those of days to seconds."""
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
        bad = ~((np.abs(whole_months) < 2**31) & (np.abs(whole_days) < 1e12) & (np.abs(time) < 1e18))
        parts = (np.where(bad, 0, part).astype(np.int64) for part in (whole_months, whole_days, time))
        return spans(*parts, *args, bad=np.atleast_1d(bad))


def _scaled_bounds(out: Type, i: Specs, low: np.ndarray, high: np.ndarray, f: Specs) -> Specs:
    """Bounds of an interval times a factor between `low` and `high` (NaN: unknown)."""
    n = widest(i, f, low, i.never_has_months())
    keys = [numbers(order.interval_key(b), n) for b in i.bounds()]
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
    flags = inherited(i, f)
    nan = False if f.nan is None else f.nan
    error = flags.pop("error") | ((~safe | nan) & ~flags["empty"])
    ends = [_length(x, known) for x in (least, greatest)]
    return Specs.ranged(out, *ends, error=error, months=i.months, exact=np.zeros(1, bool), **flags)


def all_below(parts: list[np.ndarray], factor: np.ndarray) -> np.ndarray:
    """Where months, days and microseconds times a factor stay well within an interval's range."""
    months, days, micros = parts
    below: np.ndarray = (months * 30 + days + micros / MICROS_A_DAY) * factor < MAX_DAYS / 2
    few: np.ndarray = months * factor < 2**30
    return all_of([below, few])


def _length(micros: np.ndarray, known: np.ndarray) -> pa.Array:
    """Bounds of the given lengths, as intervals of days and microseconds."""
    whole = np.where(known, micros, 0).astype(np.int64)
    days = toward_zero(whole, MICROS_A_DAY)
    return order.make_intervals(np.zeros_like(whole), days, whole - days * MICROS_A_DAY, pa.array(known))


def _exact_or(exact: Specs, wide: Specs) -> Specs:
    """`exact` in the containers where it is exact (or a sure failure), else `wide`."""
    n = widest(exact, wide, exact.exact)
    told = np.broadcast_to(exact.exact, n)
    ends = []
    for mine, other in zip(exact.bounds(), wide.bounds(), strict=True):
        mine, other = (spread(b[0], n) if len(b) == 1 else b for b in (mine, other))
        ends.append(pc.if_else(pa.array(told), mine, other))
    assert exact.months is not None
    assert wide.months is not None
    months = np.where(told, exact.months, wide.months)
    error = np.where(told, exact.error, wide.error)
    return Specs.ranged(
        exact.type, *ends, null=exact.null, error=error, empty=exact.empty, months=months, exact=exact.exact
    )


def _factor_bounds(f: Specs, n: int) -> tuple[np.ndarray, np.ndarray]:
    low, high = (number_bound(b, n) for b in f.bounds())
    return low, high


def _times_bounds(out: Type, i: Specs, f: Specs) -> Specs:
    exact = _times_exact(out, i, f)
    return _exact_or(exact, _scaled_bounds(out, i, *_factor_bounds(f, widest(i, f)), f))


def _times_bounds_swapped(out: Type, f: Specs, i: Specs) -> Specs:
    return _times_bounds(out, i, f)


def _by_bounds(out: Type, i: Specs, f: Specs) -> Specs:
    low, high = _factor_bounds(f, widest(i, f))
    with np.errstate(all="ignore"):
        away = (low > 0) | (high < 0)
        low, high = (np.where(away, 1 / side, np.nan) for side in (high, low))
    return _exact_or(_by_exact(out, i, f), _scaled_bounds(out, i, low, high, f))


@scalar("*", (INTERVAL, FLOAT8), INTERVAL, transfer=_times_bounds, stable=True)
def interval_times_number(i: Datum, f: Datum) -> Outcome:
    """A multiple; fractions of months become days (30 a month), and fractions of days become time."""
    factor = to_numpy(f, 0.0)
    with np.errstate(all="ignore"):
        months, days, micros = (part * factor for part in order.interval_parts(i))
    return _scaled(months, days, micros, i, f)


@scalar("*", (FLOAT8, INTERVAL), INTERVAL, transfer=_times_bounds_swapped, stable=True)
def number_times_interval(f: Datum, i: Datum) -> Outcome:
    """A multiple; fractions of months become days (30 a month), and fractions of days become time."""
    outcome: Outcome = interval_times_number(i, f)
    return outcome


@scalar("/", (INTERVAL, FLOAT8), INTERVAL, transfer=_by_bounds, stable=True)
def interval_by_number(i: Datum, f: Datum) -> Outcome:
    """A fraction; fractions of months become days (30 a month), and fractions of days become time."""
    divisor = to_numpy(f, 1.0)
    zero = np.atleast_1d(divisor == 0)
    with np.errstate(all="ignore"):
        safe = np.where(divisor == 0, 1.0, divisor)
        months, days, micros = (part / safe for part in order.interval_parts(i))
    values, errors = _scaled(months, days, micros, i, f)
    divided = failing(np.broadcast_to(zero, len(values)), "division by zero")
    return with_errors(values, first_error(divided, errors))


_times_exact = claimed(interval_times_number, INTERVAL)
_by_exact = claimed(interval_by_number, INTERVAL)


@scalar("justify_hours", (INTERVAL,), INTERVAL, trend=(UP,), errors=AT_ENDS, makes_months=False, stable=True)
def justify_hours(i: Datum) -> Outcome:
    """24 hours become a day; days and time get one sign."""
    months, days, micros = order.interval_parts(i)
    carry = toward_zero(micros, MICROS_A_DAY)
    days, micros = _one_sign(days + carry, micros - carry * MICROS_A_DAY, MICROS_A_DAY)
    return spans(months, days, micros, i)


@scalar("justify_days", (INTERVAL,), INTERVAL, trend=(UP,), errors=AT_ENDS, stable=True)
def justify_days(i: Datum) -> Outcome:
    """30 days become a month; months and days get one sign."""
    months, days, micros = order.interval_parts(i)
    carry = toward_zero(days, 30)
    months, days = _one_sign(months + carry, days - carry * 30, 30)
    return spans(months, days, micros, i)


@scalar("justify_interval", (INTERVAL,), INTERVAL, trend=(UP,), errors=AT_ENDS, stable=True)
def justify_interval(i: Datum) -> Outcome:
    """24 hours become a day and 30 days a month; all parts get one sign."""
    length = to_numpy(order.interval_key(i))
    days = toward_zero(length, MICROS_A_DAY)
    months = toward_zero(days, 30)
    return spans(months, days - months * 30, length - days * MICROS_A_DAY, i)


def _one_sign(large: np.ndarray, small: np.ndarray, unit: int) -> tuple[np.ndarray, np.ndarray]:
    step = np.where((large > 0) & (small < 0), 1, np.where((large < 0) & (small > 0), -1, 0))
    return large - step, small + step * unit


def _make_bounds(out: Type, *args: Specs) -> Specs:
    """Every part adds to the length; months come only from the first two arguments."""
    described = _make_claimed(out, *args)
    days_only = np.ones(1, bool)
    for arg in args[:2]:
        low, high = (number_bound(b, widest(*args)) for b in arg.bounds())
        days_only = days_only & (low == 0) & (high == 0)
    return Specs.ranged(
        out, described.low, described.high, null=described.null, error=described.error, empty=described.empty,
        exact=described.exact, months=~days_only,
    )  # fmt: skip


def make_interval(*args: Datum) -> Outcome:
    """An interval from years, months, weeks, days, hours, minutes and seconds; those left out are 0."""
    given: list[Any] = [to_numpy(a).astype(np.int64) for a in args[:6]]
    given += [np.asarray(0)] * (6 - len(given))
    years, months, weeks, days, hours, minutes = given
    seconds = to_numpy(args[6], 0.0) * 1e6 if len(args) == 7 else np.asarray(0.0)
    bad = ~(np.abs(seconds) < 1e18)
    micros = (
        hours * MICROS_AN_HOUR
        + minutes * MICROS_A_MINUTE
        + np.rint(np.where(bad, 0, seconds)).astype(np.int64)
    )
    return spans(years * 12 + months, weeks * 7 + days, micros, *args, bad=np.atleast_1d(bad))


_make_claimed = claimed(make_interval, INTERVAL, trend=(UP,), errors=AT_ENDS)
for _count in range(1, 8):
    scalar(
        "make_interval", (*(INT4,) * min(_count, 6), *(FLOAT8,) * (_count == 7)), INTERVAL,
        trend=(UP,) * _count, errors=AT_ENDS, transfer=_make_bounds, stable=True,
    )(make_interval)  # fmt: skip
