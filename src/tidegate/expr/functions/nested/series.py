"""generate_series as an array for each row: what the table function of that name takes apart.

    generate_series(1, 10, 4)                                      {1,5,9}
    generate_series(timestamp '2024-01-31', '2024-05-01', '1 month')   {2024-01-31,2024-02-29,2024-03-29,2024-04-29}

All types are counted in whole numbers: integers as they are, numerics by their last digit, times in microseconds. A step with
months is added again and again, as PostgreSQL does: from 29 February it goes on to 29 March.

`series value` is one number of a series, for a series of constants that is never an array: ten million rows are made batch by
batch from their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from tidegate.expr.domain.specs import Specs
from tidegate.expr.domain.transfer import any_of
from tidegate.expr.functions.cast.nested import make_lists, rows_of, spread_rows, starts_of, valid_rows
from tidegate.expr.functions.time.arithmetic import time_plus_interval
from tidegate.expr.model import order
from tidegate.expr.model.function import MODERATE, scalar
from tidegate.expr.model.outcome import (
    Datum,
    Errors,
    Outcome,
    failing,
    first_error,
    from_numpy,
    null_where_any,
    to_numpy,
    with_errors,
)
from tidegate.expr.model.types import (
    INT4,
    INT8,
    INTERVAL,
    MAX_PRECISION,
    NUMERIC,
    TIMESTAMP,
    TIMESTAMPTZ,
    Type,
    array,
    numeric,
)
from tidegate.expr.primitives.cancel import checked
from tidegate.expr.primitives.decimal import POWERS_OF_TEN, add, from_int64, to_narrow

MAX_ELEMENTS = 1_000_000
"""Elements of the series of one row; a series of constants has no such limit."""
MAX_MONTH_STEPS = 4_800
"""Steps of a series whose step has months: by one month, four hundred years."""
MICROS_PER_DAY = 86_400_000_000
ZERO_STEP = "step size cannot equal zero"
TOO_LONG = f"generate_series of columns gives more than {MAX_ELEMENTS:,} rows for a row"
_TOO_WIDE = "generate_series of numerics of more than 18 digits is not supported"


def series_count(start: np.ndarray, stop: np.ndarray, step: np.ndarray) -> np.ndarray:
    """How many numbers there are from `start` to `stop`, as uint64; one less where that is 2**64."""
    first, last = start.astype(np.uint64), stop.astype(np.uint64)
    apart = np.where(step > 0, last - first, first - last)  # exact modulo 2**64
    width = np.where(step > 0, step, -(step + 1)).astype(np.uint64) + np.where(step > 0, 0, 1).astype(
        np.uint64
    )
    some = np.where(step > 0, start <= stop, start >= stop) & (step != 0)
    whole = apart // np.maximum(width, np.uint64(1))
    return np.where(some, whole + (whole != np.uint64(2**64 - 1)).astype(np.uint64), np.uint64(0))


def _numbers(
    start: np.ndarray, stop: np.ndarray, step: np.ndarray, valid: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Errors]:
    """The numbers of all series in one run, the size of each, and errors."""
    counts = np.where(valid, series_count(start, stop, step), np.uint64(0))
    wrong = first_error(
        failing(valid & (step == 0), ZERO_STEP), failing(counts > np.uint64(MAX_ELEMENTS), TOO_LONG)
    )
    sizes = np.where(counts > np.uint64(MAX_ELEMENTS), np.uint64(0), counts).astype(np.int64)
    row = rows_of(sizes)
    within = np.arange(len(row)) - starts_of(sizes)[row]
    return start[row] + within * step[row], sizes, wrong


def _numeric_array(*args: Type) -> Type:
    """Numerics with as many digits before and after the point as any argument has."""
    scale = max(arg.scale or 0 for arg in args)
    whole = max((arg.precision or MAX_PRECISION) - (arg.scale or 0) for arg in args)
    return array(numeric(min(whole + scale, MAX_PRECISION), scale))


def _first_type(start: Type, *_: Type) -> Type:
    return start


def _series_transfer(out: Type, *args: Specs) -> Specs:
    """A series over containers: nothing is known of it, and none is made to find out."""
    null, empty = any_of([a.null for a in args]), any_of([a.empty for a in args])
    return Specs.anything(out, null=null, error=any_of([a.error for a in args]) | ~empty, empty=empty)


_TIMES = [
    ((TIMESTAMP, TIMESTAMP, INTERVAL), array(TIMESTAMP)),
    ((TIMESTAMPTZ, TIMESTAMPTZ, INTERVAL), array(TIMESTAMPTZ)),
]
_series = partial(scalar, "generate_series", hidden=True, cost=MODERATE, transfer=_series_transfer)


@_series((INT4, INT4, INT4), array(INT4), overloads=[((INT8, INT8, INT8), array(INT8))])
def integer_series(start: Datum, stop: Datum, step: Datum, out: Type) -> Outcome:
    """The integers from one to another, by a step."""
    args = spread_rows(start, stop, step)
    valid = np.logical_and.reduce([valid_rows(arg) for arg in args])
    first, last, width = (to_numpy(arg).astype(np.int64) for arg in args)
    values, sizes, errors = _numbers(first, last, width, valid)
    assert out.element is not None
    return with_errors(make_lists(pa.array(values, out.element.arrow), sizes, valid), errors)


@_series((NUMERIC, NUMERIC, NUMERIC), _numeric_array)
def numeric_series(start: Datum, stop: Datum, step: Datum, out: Type) -> Outcome:
    """The numerics from one to another, by a step."""
    args = spread_rows(start, stop, step)
    valid = np.logical_and.reduce([valid_rows(arg) for arg in args])
    assert out.element is not None
    found = _one_scale(args)
    if found is None and len(valid) > 1:  # a row must not fail for the digits of another one
        return _one_by_one(args, out)
    if found is None:
        return _too_wide(valid, out.element)
    numbers, scale = found
    values, sizes, errors = _numbers(numbers[0], numbers[1], numbers[2], valid)
    try:
        flat = from_int64(values, pa.decimal128(MAX_PRECISION, scale)).cast(out.element.arrow)
    except pa.ArrowInvalid:  # more than 38 digits before and after the point
        return _too_wide(valid, out.element)
    return with_errors(make_lists(flat, sizes, valid), errors)


def _one_by_one(args: Sequence[pa.Array], out: Type) -> Outcome:
    """Each row by itself."""
    start, stop, step = args
    rows = [
        numeric_series(start.slice(i, 1), stop.slice(i, 1), step.slice(i, 1), out) for i in range(len(start))
    ]
    missing = pa.nulls(1, pa.string())
    errors = pa.concat_arrays([missing if row.errors is None else row.errors for row in rows])
    values = pa.concat_arrays([row.values for row in rows])
    return Outcome(values, None if errors.null_count == len(errors) else errors)


def _too_wide(valid: np.ndarray, element: Type) -> Outcome:
    nothing = make_lists(pa.nulls(0, element.arrow), np.zeros(len(valid), np.int64), valid)
    return with_errors(nothing, failing(valid, _TOO_WIDE))


def _one_scale(args: Sequence[pa.Array]) -> tuple[list[np.ndarray], int] | None:
    """Decimals as whole numbers of one scale, if they fit."""
    narrow = [to_narrow(arg) for arg in args]
    scale = max((one.scale for one in narrow if one is not None), default=0)
    numbers = []
    for one in narrow:
        if one is None or scale - one.scale > 18:
            return None
        power = POWERS_OF_TEN[scale - one.scale]
        values = one.values * power
        if (values // power != one.values).any():
            return None
        numbers.append(values)
    return numbers, scale


@_series(overloads=_TIMES)
def time_series(start: Datum, stop: Datum, step: Datum, out: Type) -> Outcome:
    """The times from one to another, by an interval."""
    first, last, steps = spread_rows(start, stop, step)
    valid = valid_rows(first) & valid_rows(last) & valid_rows(steps)
    months, days, micros = order.interval_parts(steps)
    assert out.element is not None
    by_months = valid & (months != 0)
    width = days * MICROS_PER_DAY + micros
    values, sizes, errors = _numbers(to_numpy(first), to_numpy(last), width, valid & ~by_months)
    if by_months.any():
        more, more_sizes, wrong = _by_months(first, last, steps, by_months, out.element)
        row = np.concatenate([rows_of(sizes), rows_of(more_sizes)])
        values = np.concatenate([values, more])[np.argsort(row, kind="stable")]
        sizes, errors = sizes + more_sizes, first_error(errors, wrong)
    return with_errors(make_lists(from_numpy(values, out.element.arrow), sizes, valid), errors)


def _by_months(
    first: pa.Array, last: pa.Array, steps: pa.Array, which: np.ndarray, element: Type
) -> tuple[np.ndarray, np.ndarray, Errors]:
    """Series of times with months in the step: one step of all rows after another."""
    months, days, micros = order.interval_parts(steps)
    length = (months * 30 + days).astype(object) * MICROS_PER_DAY + micros  # beyond 64 bits for long ones
    rising = np.array([one > 0 for one in length], bool)
    zero = which & np.array([one == 0 for one in length], bool)
    errors, going = failing(zero, ZERO_STEP), which & ~zero
    stop, now = to_numpy(last), first
    rows: list[np.ndarray] = []
    values: list[np.ndarray] = []
    for _ in checked(range(MAX_MONTH_STEPS), every=1):
        at = to_numpy(now)
        going = going & np.where(rising, at <= stop, at >= stop)
        if not going.any():
            break
        rows.append(np.flatnonzero(going))
        values.append(at[going])
        moved = time_plus_interval(now, steps, element)
        failed = going & (False if moved.errors is None else valid_rows(moved.errors))
        errors, going, now = (
            first_error(errors, failing(failed, moved.errors or "")),
            going & ~failed,
            moved.values,
        )
    errors = first_error(errors, failing(going, TOO_LONG))
    row = np.concatenate([np.zeros(0, np.int64), *rows])
    flat = np.concatenate([np.zeros(0, np.int64), *values])[np.argsort(row, kind="stable")]
    return flat, np.bincount(row, minlength=len(which)).astype(np.int64), errors


# ---------------------------------------------------------------- one number of a series


@scalar(
    "series value", (INT8, INT8, INT8), _first_type, hidden=True,
    overloads=[((INT4, INT8, INT8), _first_type), ((TIMESTAMP, INT8, INT8), _first_type),
               ((TIMESTAMPTZ, INT8, INT8), _first_type)],
)  # fmt: skip
def series_value(start: Datum, step: Datum, index: Datum, out: Type) -> pa.Array:
    """Number `index` of a series from `start` by `step`, in whole numbers of the type's unit."""
    first, width, number = spread_rows(start, step, index)
    values = to_numpy(first).astype(np.int64) + to_numpy(width) * to_numpy(number)
    narrow = values.astype(np.int32) if out == INT4 else values
    return from_numpy(narrow, out.arrow, first, width, number)


@scalar("series value", (NUMERIC, INT8, INT8), _first_type, hidden=True)
def numeric_series_value(start: Datum, step: Datum, index: Datum, out: Type) -> Outcome:
    """Number `index` of a series of numerics; `step` is in units of the last digit."""
    first, width, number = spread_rows(start, step, index)
    far = from_int64(to_numpy(width) * to_numpy(number), out.arrow)
    values, errors = add(first, null_where_any(far, width, number), out.arrow)
    return Outcome(values, errors)
