"""Casts among dates, times, timestamps, intervals and mz_timestamp, and between times and text.

Casts to a coarser type truncate (a timestamp's date, the milliseconds of an mz_timestamp), which keeps the
order, so all these casts have a trend. A timestamp's time of day has none, but within one day it follows the
timestamp. The text of timestamps sorts as they do, since years have four digits; the cast from text has no
trend and may fail anywhere.

    '2024-01-05T10:00:00Z'::timestamptz::date::text   →   '2024-01-05'

The session's zone is UTC: a timestamp without time zone is the UTC clock.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import bound_integers, container_count, inherited_flags, temporal_bound
from tidegate.expr.domain.specs import Specs
from tidegate.expr.functions.cast.text import fit_varchar
from tidegate.expr.model import order
from tidegate.expr.model.function import AT_ENDS, MODERATE, NEVER, UP, cast
from tidegate.expr.model.outcome import (
    Outcome,
    failing,
    first_error,
    from_numpy,
    null_where_any,
    to_numpy,
    validity,
    with_errors,
)
from tidegate.expr.model.types import DATE, INTERVAL, MZ_TIMESTAMP, TEXT, TIME, TIMESTAMP, TIMESTAMPTZ, Type
from tidegate.expr.primitives.time import calendar as civil
from tidegate.expr.primitives.time.calendar import MICROS_A_DAY
from tidegate.expr.primitives.time.interval_text import interval_texts, parse_intervals
from tidegate.expr.primitives.time.text import parse_times
from tidegate.expr.spark_sql.forms import cast_form, text_cast

MICROS_A_MILLI = 1000
_MAX_MILLIS = civil.LAST_MICRO // MICROS_A_MILLI


_rises = partial(cast, trend=(UP,), errors=NEVER, stable=True)
_CLOCKS = (TIMESTAMP, TIMESTAMPTZ)


@cast(TEXT, (DATE, TIME, *_CLOCKS), cost=MODERATE, stable=True)
def text_to_time(a: pa.Array, out: Type) -> Outcome:
    """A date or time in ISO form or another form that PostgreSQL reads; `now` and the like are refused."""
    return parse_times(a, out)


@cast(TEXT, INTERVAL, cost=MODERATE, stable=True)
def text_to_interval(a: pa.Array) -> Outcome:
    """An interval: `1 year 2 mons 3 days 04:05:06`, `P1Y2M3DT4H5M6S`, `1-2`, `3 hours ago`."""
    return parse_intervals(a)


def time_texts(a: pa.Array) -> pa.Array:
    """Dates, times and timestamps (without zone) in ISO form, without trailing zeros of the fraction."""
    texts = a.cast(pa.string())
    if pa.types.is_date32(a.type):
        return texts
    return (
        pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")
        if _has_fraction(a)
        else pc.utf8_slice_codeunits(texts, 0, -7)
    )


def _has_fraction(a: pa.Array) -> bool:
    return bool((to_numpy(a) % civil.MICROS_A_SECOND).any())


@_rises((DATE, TIMESTAMP), TEXT, spark=text_cast("CAST({0} AS string)"))
@_rises(TIME, TEXT)
def time_to_text(a: pa.Array, out: Type) -> pa.Array:
    """The ISO form: `2024-01-05`, `10:00:00.5`, `2024-01-05 10:00:00.5`."""
    return fit_varchar(time_texts(a), out)


@_rises(TIMESTAMPTZ, TEXT, spark=text_cast("concat(CAST({0} AS string), '+00')"))
def timestamptz_to_text(a: pa.Array, out: Type) -> pa.Array:
    """The ISO form in UTC: `2024-01-05 10:00:00.5+00`."""
    return fit_varchar(pc.binary_join_element_wise(time_texts(a.view(pa.timestamp("us"))), "+00", ""), out)


@cast(INTERVAL, TEXT, errors=NEVER, stable=True)
def interval_to_text(a: pa.Array, out: Type) -> pa.Array:
    """PostgreSQL's form: `1 year 2 mons 3 days 04:05:06.7`."""
    return fit_varchar(null_where_any(interval_texts(*order.interval_parts(a)), a), out)


@_rises(DATE, _CLOCKS, implicit=True, spark=cast_form(), duckdb="CAST({0} AS TIMESTAMP)")
def date_to_timestamp(a: pa.Array, out: Type) -> pa.Array:
    """The midnight at the start of the date."""
    return from_numpy(to_numpy(a).astype(np.int64) * MICROS_A_DAY, out.arrow, a)


@_rises(TIMESTAMP, TIMESTAMPTZ, implicit=True, spark=cast_form(), duckdb="{0}")
@_rises(TIMESTAMPTZ, TIMESTAMP, spark=cast_form(), duckdb="{0}")
def timestamp_to_timestamp(a: pa.Array, out: Type) -> pa.Array:
    """The same time, taken as UTC."""
    return a.view(out.arrow)


@_rises(_CLOCKS, DATE, spark=cast_form(), duckdb="CAST({0} AS DATE)")
def timestamp_to_date(a: pa.Array) -> pa.Array:
    """The date, in UTC."""
    return from_numpy(np.floor_divide(to_numpy(a), MICROS_A_DAY).astype(np.int32), pa.date32(), a)


def time_of_day_bounds(out: Type, a: Specs) -> Specs:
    """A timestamp's time of day over containers: ordered where the range lies within one day."""
    n = container_count(a)
    (low, low_known), (high, high_known) = (bound_integers(b, n) for b in a.bounds())
    (first, early), (last, late) = civil.split_days(low), civil.split_days(high)
    one_day = low_known & high_known & (first == last)
    everywhere = np.ones(n, bool)
    return Specs.ranged(
        out,
        temporal_bound(np.where(one_day, early, 0), everywhere, TIME.arrow),
        temporal_bound(np.where(one_day, late, MICROS_A_DAY - 1), everywhere, TIME.arrow),
        **inherited_flags(a),
    )


@cast(_CLOCKS, TIME, errors=NEVER, transfer=time_of_day_bounds, stable=True)
def timestamp_to_time(a: pa.Array) -> pa.Array:
    """The time of day, in UTC."""
    return from_numpy(civil.split_days(to_numpy(a))[1], TIME.arrow, a)


@_rises(TIME, INTERVAL, makes_months=False, implicit=True)
def time_to_interval(a: pa.Array) -> pa.Array:
    """The time since midnight."""
    micros = to_numpy(a)
    zero = np.zeros_like(micros)
    return order.make_intervals(zero, zero, micros, validity(a))


@cast(INTERVAL, TIME, errors=NEVER, stable=True)
def interval_to_time(a: pa.Array) -> pa.Array:
    """The time part modulo 24 hours; months and days are dropped."""
    return from_numpy(order.interval_parts(a)[2] % MICROS_A_DAY, TIME.arrow, a)


@cast(MZ_TIMESTAMP, _CLOCKS, trend=(UP,), errors=AT_ENDS, stable=True, implicit=True)
def mz_timestamp_to_timestamp(a: pa.Array, out: Type) -> Outcome:
    """The same instant; fails beyond year 9999."""
    millis = to_numpy(a)
    outside = (millis < -_MAX_MILLIS) | (millis > _MAX_MILLIS)
    micros = np.where(outside, 0, millis) * MICROS_A_MILLI
    values, errors = civil.timestamps(micros, out.arrow, a)
    return with_errors(values, first_error(errors, failing(outside, "timestamp out of range")))


@cast(MZ_TIMESTAMP, DATE, trend=(UP,), errors=AT_ENDS, stable=True)
def mz_timestamp_to_date(a: pa.Array) -> Outcome:
    """The date of the instant, in UTC."""
    return civil.dates(np.floor_divide(to_numpy(a), MICROS_A_DAY // MICROS_A_MILLI), a)


@_rises(_CLOCKS, MZ_TIMESTAMP, spark="unix_millis(CAST({0} AS timestamp))")
def timestamp_to_mz_timestamp(a: pa.Array) -> pa.Array:
    """Whole milliseconds since 1970, rounded down."""
    return from_numpy(np.floor_divide(to_numpy(a), MICROS_A_MILLI), MZ_TIMESTAMP.arrow, a)


@_rises(DATE, MZ_TIMESTAMP, spark="unix_millis(CAST({0} AS timestamp))")
def date_to_mz_timestamp(a: pa.Array) -> pa.Array:
    """The midnight at the start of the date, in milliseconds since 1970."""
    return from_numpy(to_numpy(a).astype(np.int64) * (MICROS_A_DAY // MICROS_A_MILLI), MZ_TIMESTAMP.arrow, a)
