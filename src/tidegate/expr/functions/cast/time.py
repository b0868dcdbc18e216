"""Casts among dates, times, timestamps, intervals and mz_timestamp, and between times and text.

Going to the coarser type cuts off (a timestamp's date, the milliseconds of an mz_timestamp), which keeps the
order, so all these casts have a trend; a timestamp's time of day has none, but inside one day it follows the
timestamp. Text of a timestamp follows the order of timestamps, as years have four digits; reading text
follows nothing, and may fail anywhere.

    '2024-01-05T10:00:00Z'::timestamptz::date::text   →   '2024-01-05'

The session's zone is UTC: a timestamp without time zone is the UTC clock.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import civil, order
from tidegate.expr.cancel import checked
from tidegate.expr.civil import MICROS_A_DAY, masked
from tidegate.expr.enclose import bound, inherited, numbers, widest
from tidegate.expr.function import AT_ENDS, MODERATE, NEVER, UP, cast
from tidegate.expr.interval_text import interval_texts, parse_interval
from tidegate.expr.outcome import Outcome, failing, first_error, from_numpy, to_numpy, validity, with_errors
from tidegate.expr.spark_form import cast_form, text_cast
from tidegate.expr.specs import Specs
from tidegate.expr.time_text import parse_times
from tidegate.expr.types import DATE, INTERVAL, MZ_TIMESTAMP, TEXT, TIME, TIMESTAMP, TIMESTAMPTZ, Type

MICROS_A_MILLI = 1000
_MAX_MILLIS = civil.LAST_MICRO // MICROS_A_MILLI


@cast(TEXT, DATE, cost=MODERATE, stable=True)
@cast(TEXT, TIME, cost=MODERATE, stable=True)
@cast(TEXT, TIMESTAMP, cost=MODERATE, stable=True)
@cast(TEXT, TIMESTAMPTZ, cost=MODERATE, stable=True)
def text_to_time(a: pa.Array, out: Type) -> Outcome:
    """A date or time in ISO form, or another that PostgreSQL reads; `now` and the like are refused."""
    return parse_times(a, out)


@cast(TEXT, INTERVAL, cost=MODERATE, stable=True)
def text_to_interval(a: pa.Array) -> Outcome:
    """An interval: `1 year 2 mons 3 days 04:05:06`, `P1Y2M3DT4H5M6S`, `1-2`, `3 hours ago`."""
    # Intervals in data are few different ones, so each distinct text is read once.
    encoded = a.dictionary_encode()
    parts: list[tuple[int, int, int]] = []
    messages: list[str | None] = []
    for text in checked(encoded.dictionary.to_pylist()):
        try:
            parts.append(parse_interval(text))
            messages.append(None)
        except ValueError as wrong:
            parts.append((0, 0, 0))
            messages.append(str(wrong))
    months, days, micros = np.array(parts, np.int64).reshape(-1, 3).T
    values = order.make_intervals(months, days, micros).take(encoded.indices)
    return with_errors(values, _present(pa.array(messages, pa.string()).take(encoded.indices)))


def _present(errors: pa.Array) -> pa.Array | None:
    return None if errors.null_count == len(errors) else errors


def _millis(a: pa.Array) -> pa.Array:
    return from_numpy(np.floor_divide(to_numpy(a), MICROS_A_MILLI), MZ_TIMESTAMP.arrow, a)


def _fitted(values: pa.Array, out: Type) -> pa.Array:
    return values if out.length is None else pc.utf8_slice_codeunits(values, 0, out.length)


def time_texts(a: pa.Array) -> pa.Array:
    """Dates, times and timestamps (without zone) in ISO form; a fraction without its last zeros."""
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


@cast(DATE, TEXT, trend=(UP,), errors=NEVER, stable=True, spark=text_cast("CAST({0} AS string)"))
@cast(TIME, TEXT, trend=(UP,), errors=NEVER, stable=True)
@cast(TIMESTAMP, TEXT, trend=(UP,), errors=NEVER, stable=True, spark=text_cast("CAST({0} AS string)"))
def time_to_text(a: pa.Array, out: Type) -> pa.Array:
    """The ISO form: `2024-01-05`, `10:00:00.5`, `2024-01-05 10:00:00.5`."""
    return _fitted(time_texts(a), out)


@cast(
    TIMESTAMPTZ,
    TEXT,
    trend=(UP,),
    errors=NEVER,
    stable=True,
    spark=text_cast("concat(CAST({0} AS string), '+00')"),
)
def timestamptz_to_text(a: pa.Array, out: Type) -> pa.Array:
    """The ISO form in UTC: `2024-01-05 10:00:00.5+00`."""
    return _fitted(pc.binary_join_element_wise(time_texts(a.view(pa.timestamp("us"))), "+00", ""), out)


@cast(INTERVAL, TEXT, errors=NEVER, stable=True)
def interval_to_text(a: pa.Array, out: Type) -> pa.Array:
    """PostgreSQL's form: `1 year 2 mons 3 days 04:05:06.7`."""
    return _fitted(masked(interval_texts(*order.interval_parts(a)), a), out)


@cast(DATE, TIMESTAMP, trend=(UP,), errors=NEVER, stable=True, implicit=True, spark=cast_form())
@cast(DATE, TIMESTAMPTZ, trend=(UP,), errors=NEVER, stable=True, implicit=True, spark=cast_form())
def date_to_timestamp(a: pa.Array, out: Type) -> pa.Array:
    """The midnight at which the date begins."""
    return from_numpy(to_numpy(a).astype(np.int64) * MICROS_A_DAY, out.arrow, a)


@cast(TIMESTAMP, TIMESTAMPTZ, trend=(UP,), errors=NEVER, stable=True, implicit=True, spark=cast_form())
@cast(TIMESTAMPTZ, TIMESTAMP, trend=(UP,), errors=NEVER, stable=True, spark=cast_form())
def timestamp_to_timestamp(a: pa.Array, out: Type) -> pa.Array:
    """The same clock in UTC."""
    return a.view(out.arrow)


@cast(TIMESTAMP, DATE, trend=(UP,), errors=NEVER, stable=True, spark=cast_form())
@cast(TIMESTAMPTZ, DATE, trend=(UP,), errors=NEVER, stable=True, spark=cast_form())
def timestamp_to_date(a: pa.Array) -> pa.Array:
    """The date, in UTC."""
    return from_numpy(np.floor_divide(to_numpy(a), MICROS_A_DAY).astype(np.int32), pa.date32(), a)


def time_of_day_bounds(out: Type, a: Specs) -> Specs:
    """A timestamp's time of day: in order where all of the range lies in one day, else any."""
    n = widest(a)
    (low, low_known), (high, high_known) = (numbers(b, n) for b in a.bounds())
    (first, early), (last, late) = civil.split(low), civil.split(high)
    one_day = low_known & high_known & (first == last)
    everywhere = np.ones(n, bool)
    return Specs.ranged(
        out,
        bound(np.where(one_day, early, 0), everywhere, TIME.arrow),
        bound(np.where(one_day, late, MICROS_A_DAY - 1), everywhere, TIME.arrow),
        **inherited(a),
    )


@cast(TIMESTAMP, TIME, errors=NEVER, transfer=time_of_day_bounds, stable=True)
@cast(TIMESTAMPTZ, TIME, errors=NEVER, transfer=time_of_day_bounds, stable=True)
def timestamp_to_time(a: pa.Array) -> pa.Array:
    """The time of day, in UTC."""
    return from_numpy(civil.split(to_numpy(a))[1], TIME.arrow, a)


@cast(TIME, INTERVAL, trend=(UP,), errors=NEVER, makes_months=False, stable=True, implicit=True)
def time_to_interval(a: pa.Array) -> pa.Array:
    """The time since midnight."""
    micros = to_numpy(a)
    zero = np.zeros_like(micros)
    return order.make_intervals(zero, zero, micros, validity(a))


@cast(INTERVAL, TIME, errors=NEVER, stable=True)
def interval_to_time(a: pa.Array) -> pa.Array:
    """The time part, round the clock; months and days are dropped."""
    return from_numpy(order.interval_parts(a)[2] % MICROS_A_DAY, TIME.arrow, a)


@cast(MZ_TIMESTAMP, TIMESTAMP, trend=(UP,), errors=AT_ENDS, stable=True, implicit=True)
@cast(MZ_TIMESTAMP, TIMESTAMPTZ, trend=(UP,), errors=AT_ENDS, stable=True, implicit=True)
def mz_timestamp_to_timestamp(a: pa.Array, out: Type) -> Outcome:
    """The same instant; beyond year 9999 it is out of range."""
    millis = to_numpy(a)
    outside = (millis < -_MAX_MILLIS) | (millis > _MAX_MILLIS)
    micros = np.where(outside, 0, millis) * MICROS_A_MILLI
    values, errors = civil.timestamps(micros, out.arrow, a)
    return with_errors(values, first_error(errors, failing(outside, "timestamp out of range")))


@cast(MZ_TIMESTAMP, DATE, trend=(UP,), errors=AT_ENDS, stable=True)
def mz_timestamp_to_date(a: pa.Array) -> Outcome:
    """The date of the instant, in UTC."""
    return civil.dates(np.floor_divide(to_numpy(a), MICROS_A_DAY // MICROS_A_MILLI), a)


@cast(
    TIMESTAMP,
    MZ_TIMESTAMP,
    trend=(UP,),
    errors=NEVER,
    stable=True,
    spark="unix_millis(CAST({0} AS timestamp))",
)
@cast(
    TIMESTAMPTZ,
    MZ_TIMESTAMP,
    trend=(UP,),
    errors=NEVER,
    stable=True,
    spark="unix_millis(CAST({0} AS timestamp))",
)
def timestamp_to_mz_timestamp(a: pa.Array) -> pa.Array:
    """Whole milliseconds since 1970, rounded down."""
    return _millis(a)


@cast(DATE, MZ_TIMESTAMP, trend=(UP,), errors=NEVER, stable=True, spark="unix_millis(CAST({0} AS timestamp))")
def date_to_mz_timestamp(a: pa.Array) -> pa.Array:
    """The midnight at which the date begins, in milliseconds since 1970."""
    return from_numpy(to_numpy(a).astype(np.int64) * (MICROS_A_DAY // MICROS_A_MILLI), MZ_TIMESTAMP.arrow, a)
