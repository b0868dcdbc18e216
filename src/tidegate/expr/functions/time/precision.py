"""Digits of seconds and fields of intervals: casts to `timestamp(3)` and `interval day to hour`.

    time_precision('2024-01-01 10:00:00.5678', 2)                     2024-01-01 10:00:00.57
    interval_precision('1 day 02:03:04', 'DAY TO HOUR', 6)            1 day 02:00:00

Seconds are rounded to the nearest; halves go away from 2000-01-01, as in PostgreSQL, which counts times from there. Smaller fields
of an interval than the last that is named are cut off towards zero.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidegate.expr.domain.claims import at_ends_where
from tidegate.expr.model import order
from tidegate.expr.model.function import UP, scalar
from tidegate.expr.model.outcome import (
    Datum,
    Outcome,
    failing,
    first_error,
    from_numpy,
    to_numpy,
    with_errors,
)
from tidegate.expr.model.types import INT4, INTERVAL, TEXT, TIME, TIMESTAMP, TIMESTAMPTZ, Type
from tidegate.expr.primitives.time import calendar as civil
from tidegate.expr.primitives.time.calendar import MICROS_A_DAY
from tidegate.expr.primitives.time.interval_text import FIELD_NAMES, adjust_intervals, parse_intervals
from tidegate.expr.primitives.time.make_interval import checked_intervals
from tidegate.expr.primitives.time.units import evaluate_by_choice, fail_all_rows

_EPOCH_2000 = 10_957 * MICROS_A_DAY
_MOST_DIGITS = 6


def _rounded(micros: np.ndarray, digits: np.ndarray) -> np.ndarray:
    """Microseconds with fewer digits, halves away from zero."""
    unit = 10 ** (_MOST_DIGITS - np.clip(digits, 0, _MOST_DIGITS).astype(np.int64))
    size = (np.abs(micros) + unit // 2) // unit * unit
    result: np.ndarray = np.where(micros < 0, -size, size)
    return result


@scalar(
    "time_precision",
    overloads=[((TIMESTAMP, INT4), TIMESTAMP), ((TIMESTAMPTZ, INT4), TIMESTAMPTZ), ((TIME, INT4), TIME)],
    trend=(UP, None),
    transfer=at_ends_where(lambda _, n: n.exact),
    stable=True,
)
def time_precision(t: Datum, digits: Datum, out: Type) -> Outcome:
    """A time rounded to so many digits of its seconds, 0 to 6, as `t::timestamp(3)` does."""
    if out == TIME:
        micros = np.atleast_1d(_rounded(to_numpy(t), to_numpy(digits)))
        late = micros >= MICROS_A_DAY
        values = from_numpy(np.where(late, 0, micros), TIME.arrow, t, digits)
        return with_errors(values, failing(late, "date/time field value out of range: 24:00:00"))
    moved = _rounded(to_numpy(t) - _EPOCH_2000, to_numpy(digits)) + _EPOCH_2000
    return civil.timestamps(np.atleast_1d(moved), out.arrow, t, digits)


@scalar(
    "interval_precision", overloads=[((INTERVAL, TEXT, INT4), INTERVAL), ((TEXT, TEXT, INT4), INTERVAL)], stable=True
)  # fmt: skip
def interval_precision(i: Datum, fields: Datum, digits: Datum) -> Outcome:
    """An interval cut to fields ('DAY TO HOUR', or '' for all) and rounded to digits of its seconds.

    A text is read with the fields: '90' is 90 hours with 'HOUR', as in INTERVAL '90' HOUR.
    """
    return evaluate_by_choice(fields, _adjust, INTERVAL.arrow, i, digits)


def _adjust(fields: str, i: pa.Array, digits: pa.Array) -> Outcome:
    if fields.upper() not in FIELD_NAMES:
        return fail_all_rows(f'"{fields}" is not a field of an interval', len(i), INTERVAL.arrow)
    intervals, errors = parse_intervals(i, fields) if pa.types.is_string(i.type) else Outcome(i)
    months, days, micros = adjust_intervals(*order.interval_parts(intervals), fields)
    outcome = checked_intervals(months, days, _rounded(micros, to_numpy(digits)), intervals, digits)
    return with_errors(outcome.values, first_error(errors, outcome.errors))
