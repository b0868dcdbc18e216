"""extract and date_part: one number out of a time.

Years, centuries and the epoch follow the order of times. An hour does not, since it restarts every day; but within
one day it does, and it stays within 0 to 23. So every field is a row of a small table: how it is computed, the *period*
within which it follows the order, and its range. Over containers:

    t in 2024-03-10 08:00 .. 2024-03-10 11:30    extract(hour from t) in 8 .. 11    one day: read at both ends
    t in 2024-03-10 08:00 .. 2024-03-11 01:00    extract(hour from t) in 0 .. 23    two days: any hour
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import bound_integers, constant, container_count, inherited_flags
from tidegate.expr.domain.specs import NO, Specs, is_bounded
from tidegate.expr.duckdb_sql import forms as duckdb_form
from tidegate.expr.functions.time.arithmetic import micros
from tidegate.expr.model import order
from tidegate.expr.model.function import scalar
from tidegate.expr.model.outcome import Datum, Outcome, null_where_any
from tidegate.expr.model.types import (
    DATE,
    FLOAT8,
    INTERVAL,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    Type,
    numeric,
)
from tidegate.expr.primitives.time import calendar as civil
from tidegate.expr.primitives.time.calendar import (
    MICROS_A_DAY,
    MICROS_A_MINUTE,
    MICROS_A_SECOND,
    MICROS_AN_HOUR,
    Ints,
    decimals,
)
from tidegate.expr.primitives.time.make_interval import toward_zero
from tidegate.expr.primitives.time.units import evaluate_by_choice, fail_all_rows, field_of, unit_error
from tidegate.expr.spark_sql.time_forms import extract_form

Read = Callable[[Ints], Ints]
_EPOCH_JULIAN = 2_440_588


@dataclass(frozen=True)
class ExtractField:
    """How a field is computed from microseconds, and how it follows the order of times."""

    read: Read
    """Counts 10^-scale."""
    scale: int = 0
    period: Read | None = None
    """Times with the same period keep their order; None: all do."""
    low: int = 0
    high: int = 0
    """The range that the field never leaves, if it has a period; in the same unit as `read`."""


def _day(at: Ints) -> Ints:
    return np.floor_divide(at, MICROS_A_DAY)


def _month(at: Ints) -> Ints:
    return civil.months_of(_day(at))


def _year(at: Ints) -> Ints:
    return np.floor_divide(_month(at), 12) + 1970


def _hours(at: Ints) -> Ints:
    return np.floor_divide(at, MICROS_AN_HOUR)


def _minutes(at: Ints) -> Ints:
    return np.floor_divide(at, MICROS_A_MINUTE)


def _iso_year(at: Ints) -> Ints:
    return civil.iso_year(_day(at))


def _iso_week(at: Ints) -> Ints:
    day = _day(at)
    week: Ints = np.floor_divide(day - civil.iso_year_start(civil.iso_year(day)), 7) + 1
    return week


def _day_of_month(at: Ints) -> Ints:
    day = _day(at)
    return day - civil.first_day(civil.months_of(day)) + 1


def _day_of_year(at: Ints) -> Ints:
    day = _day(at)
    months = civil.months_of(day)
    return day - civil.first_day(months - months % 12) + 1


def _julian(at: Ints) -> Ints:
    # In microseconds of days; `_numbers` divides by the length of a day.
    return at + _EPOCH_JULIAN * MICROS_A_DAY


FIELDS = {
    "microseconds": ExtractField(lambda at: at % MICROS_A_MINUTE, 0, _minutes, 0, MICROS_A_MINUTE - 1),
    "milliseconds": ExtractField(lambda at: at % MICROS_A_MINUTE, 3, _minutes, 0, MICROS_A_MINUTE - 1),
    "second": ExtractField(lambda at: at % MICROS_A_MINUTE, 6, _minutes, 0, MICROS_A_MINUTE - 1),
    "minute": ExtractField(lambda at: _minutes(at) % 60, 0, _hours, 0, 59),
    "hour": ExtractField(lambda at: _hours(at) % 24, 0, _day, 0, 23),
    "day": ExtractField(_day_of_month, 0, _month, 1, 31),
    "month": ExtractField(lambda at: _month(at) % 12 + 1, 0, _year, 1, 12),
    "quarter": ExtractField(lambda at: _month(at) % 12 // 3 + 1, 0, _year, 1, 4),
    "week": ExtractField(_iso_week, 0, _iso_year, 1, 53),
    # 1970-01-01 was a Thursday; the week of `dow` starts on Sunday, the one of `isodow` on Monday.
    "dow": ExtractField(lambda at: (_day(at) + 4) % 7, 0, lambda at: np.floor_divide(_day(at) + 4, 7), 0, 6),
    "isodow": ExtractField(
        lambda at: (_day(at) + 3) % 7 + 1, 0, lambda at: np.floor_divide(_day(at) + 3, 7), 1, 7
    ),
    "doy": ExtractField(_day_of_year, 0, _year, 1, 366),
    "isoyear": ExtractField(_iso_year),
    "year": ExtractField(_year),
    "decade": ExtractField(lambda at: _year(at) // 10),
    "century": ExtractField(lambda at: (_year(at) + 99) // 100),
    "millennium": ExtractField(lambda at: (_year(at) + 999) // 1000),
    "epoch": ExtractField(lambda at: at, 6),
    "julian": ExtractField(_julian),
    "timezone": ExtractField(np.zeros_like),
    "timezone_hour": ExtractField(np.zeros_like),
    "timezone_minute": ExtractField(np.zeros_like),
}
_ZONE_FIELDS = {"timezone", "timezone_hour", "timezone_minute"}
_CLOCK_FIELDS = {"microseconds", "milliseconds", "second", "minute", "hour"}
_BY_TYPE = {
    TIMESTAMPTZ: set(FIELDS),
    TIMESTAMP: set(FIELDS) - _ZONE_FIELDS,
    DATE: set(FIELDS) - _ZONE_FIELDS - _CLOCK_FIELDS,
    TIME: _CLOCK_FIELDS | {"epoch"},
}


def _numbers(field: str, at: np.ndarray, out: Type) -> pa.Array:
    """The field's values as numeric or float8."""
    values, scale = FIELDS[field].read(at), FIELDS[field].scale
    if field == "julian":
        return _julian_numbers(values, out)
    return _scaled(values, scale, out)


def _scaled(values: np.ndarray, scale: int, out: Type) -> pa.Array:
    if not out.is_float:
        return decimals(values, scale, out.arrow)
    if scale != 3:
        return pa.array(values / 10**scale)
    # Milliseconds as PostgreSQL adds them up, which shows in the last digit.
    seconds = toward_zero(values, MICROS_A_SECOND)
    return pa.array(seconds * 1000.0 + (values - seconds * MICROS_A_SECOND) / 1000.0)


def _julian_numbers(values: np.ndarray, out: Type) -> pa.Array:
    day, rest = np.divmod(values, MICROS_A_DAY)
    if out.is_float:
        seconds = rest // MICROS_A_SECOND + rest % MICROS_A_SECOND / 1e6
        return pa.array(day + seconds / 86_400)
    # rest / 86,400,000,000 in units of 10^-18 is rest * 10^10 / 864, in two steps that fit 64 bits.
    large = rest * 10**7
    fraction = large // 864 * 1000 + (large % 864 * 1000 + 432) // 864
    return pc.add(decimals(day, 0, pa.decimal128(9, 0)), decimals(fraction, 18, pa.decimal128(18, 18))).cast(
        out.arrow
    )


def _bounds(out: Type, unit: Specs, t: Specs, allowed: set[str]) -> Specs:
    flags = inherited_flags(unit, t)
    name = constant(unit)
    field = None if name is None else field_of(name.as_py())
    if field is None or field not in allowed:
        return Specs.anything(
            out, null=flags["null"], error=flags["error"] | ~flags["empty"], empty=flags["empty"]
        )
    n = container_count(t)
    scale = MICROS_A_DAY if t.type == DATE else 1
    (low, low_known), (high, high_known) = (bound_integers(b, n) for b in t.bounds())
    low, high = low * scale, high * scale
    described = FIELDS[field]
    if described.period is None:
        ends = _ends(_numbers(field, low, out), low_known), _ends(_numbers(field, high, out), high_known)
    else:
        together = low_known & high_known & (described.period(low) == described.period(high))
        least, greatest = (_constant(end, described.scale, out) for end in (described.low, described.high))
        inside = pa.array(together)
        ends = (
            pc.if_else(inside, _numbers(field, low, out), least),
            pc.if_else(inside, _numbers(field, high, out), greatest),
        )
    exact = t.exact & is_bounded(ends[0]) if out.is_float else None
    return Specs.ranged(out, *ends, exact=exact, nan=NO if out.is_float else None, **flags)


def _ends(values: pa.Array, is_known: np.ndarray) -> pa.Array:
    return values if is_known.all() else pc.if_else(pa.array(is_known), values, pa.scalar(None, values.type))


def _constant(value: int, scale: int, out: Type) -> pa.Scalar:
    return pa.scalar(value / 10**scale if out.is_float else Decimal(value).scaleb(-scale), out.arrow)


_WHOLE_FIELD = numeric(10, 0)
_FIELD_TYPES = {"second": numeric(8, 6), "milliseconds": numeric(8, 3), "epoch": numeric(20, 6)}


def _field_type(constants: Sequence[Any], types: Sequence[Type]) -> Type | None:
    """The type of extract for a constant field: seconds have six digits after the point, years none."""
    field = None if constants[0] is None else field_of(constants[0])
    if field is None:
        return None
    if types[1] == DATE:
        return numeric(20, 0) if field == "epoch" else _WHOLE_FIELD
    return NUMERIC if field == "julian" else _FIELD_TYPES.get(field, _WHOLE_FIELD)


def _declare(name: str, source: Type, result: Type, read_as: Type) -> None:
    allowed = _BY_TYPE[read_as]

    def transfer(out: Type, unit: Specs, t: Specs) -> Specs:
        return _bounds(out, unit, t, allowed)

    def read(out: Type, text: str, t: pa.Array) -> Outcome:
        field = field_of(text)
        if field is None or field not in allowed:
            return fail_all_rows(unit_error(text, read_as), len(t), out.arrow)
        return Outcome(null_where_any(_numbers(field, micros(t), out), t))

    def kernel(unit: Datum, t: Datum, out: Type) -> Outcome:
        return evaluate_by_choice(unit, partial(read, out), out.arrow, t)

    kernel.__doc__ = f"One field of a {source}: epoch, year, month, day, hour, dow, week …, as {result}."
    exact, form = not result.is_float, None if source == TIME else extract_form
    duckdb = duckdb_form.extract(field_of) if name == "extract" and source != TIME else None
    declare = partial(scalar, name, (TEXT, source), result, constant_result=_field_type if exact else None)
    declare(transfer=transfer, stable=True, exact=exact, spark=form, duckdb=duckdb)(kernel)


for _source in _BY_TYPE:
    _declare("extract", _source, NUMERIC, _source)
    # date_part of a date is that of its midnight, so it has hours; extract has none.
    _declare("date_part", _source, FLOAT8, TIMESTAMP if _source == DATE else _source)


def _interval_field(field: str, i: Datum) -> tuple[np.ndarray, int] | None:
    """An interval's field, in units of 10^-scale."""
    months, days, span = order.interval_parts(i)
    years = toward_zero(months, 12)
    match field:
        case "microseconds" | "milliseconds" | "second":
            rest = span - toward_zero(span, MICROS_A_MINUTE) * MICROS_A_MINUTE
            return rest, FIELDS[field].scale
        case "minute":
            return toward_zero(span - toward_zero(span, MICROS_AN_HOUR) * MICROS_AN_HOUR, MICROS_A_MINUTE), 0
        case "hour":
            return toward_zero(span, MICROS_AN_HOUR), 0
        case "day":
            return days, 0
        case "month":
            return months - years * 12, 0
        case "quarter":
            return toward_zero(months - years * 12, 3) + 1, 0
        case "year" | "decade" | "century" | "millennium":
            return toward_zero(years, {"year": 1, "decade": 10, "century": 100, "millennium": 1000}[field]), 0
        case "epoch":
            # The time part alone; `_epoch` adds the rest, whose microseconds need not fit 64 bits.
            return span, 6
        case _:
            return None


def _interval_bounds(out: Type, unit: Specs, i: Specs) -> Specs:
    """extract from intervals over containers: only the epoch, and only without months, has bounds."""
    flags = inherited_flags(unit, i)
    name = constant(unit)
    field = None if name is None else field_of(name.as_py())
    fine = field is not None and _interval_field(field, pa.scalar((0, 0, 0), INTERVAL.arrow)) is not None
    if not fine:
        return Specs.anything(
            out, null=flags["null"], error=flags["error"] | ~flags["empty"], empty=flags["empty"]
        )
    if field != "epoch":
        return Specs.ranged(out, None, None, nan=NO if out.is_float else None, **flags)
    n = container_count(i, i.never_has_months())
    ends: list[pa.Array] = []
    for b in i.bounds():
        key, is_known = bound_integers(order.interval_key(b), n)
        # In floats the sum of days and time rounds differently from the whole length.
        slack = (1e-6 + np.abs(key) * 1e-21) * (1 if ends else -1)
        values = pa.array(key / 1e6 + slack) if out.is_float else decimals(key, 6, out.arrow)
        ends.append(_ends(values, is_known & i.never_has_months()))
    return Specs.ranged(out, *ends, nan=NO if out.is_float else None, **flags)


def _epoch(i: Datum, out: Type) -> pa.Array:
    """Seconds of intervals; a year has 365.25 days, other months 30."""
    months, days, span = order.interval_parts(i)
    years = toward_zero(months, 12)
    parts = years * 31_557_600, (months - years * 12) * 2_592_000, days * 86_400
    if out.is_float:
        return pa.array(span / MICROS_A_SECOND + parts[0] + parts[1] + parts[2])
    whole = decimals(parts[0] + parts[1] + parts[2], 0, pa.decimal128(20, 0))
    return pc.add(whole, decimals(span, 6, pa.decimal128(20, 6))).cast(out.arrow)


def _interval_read(text: str, i: pa.Array, result: Type) -> Outcome:
    field = _interval_field(field_of(text) or "", i)
    if field is None:
        return fail_all_rows(unit_error(text, INTERVAL), len(i), result.arrow)
    values, scale = field
    if field_of(text) == "epoch":
        return Outcome(null_where_any(_epoch(i, result), i))
    return Outcome(null_where_any(_scaled(values, scale, result), i))


@scalar(
    "extract", (TEXT, INTERVAL), NUMERIC, constant_result=_field_type, transfer=_interval_bounds, stable=True
)
@scalar("date_part", (TEXT, INTERVAL), FLOAT8, transfer=_interval_bounds, stable=True, exact=False)
def interval_part(unit: Datum, i: Datum, out: Type) -> Outcome:
    """One field of an interval: epoch, year, month, day, hour and others, as stored in it."""
    return evaluate_by_choice(
        unit, lambda text, intervals: _interval_read(text, intervals, out), out.arrow, i
    )
