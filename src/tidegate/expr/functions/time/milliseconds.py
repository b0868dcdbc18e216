"""Functions of temporal filters: times as whole milliseconds, and ISO text as times.

`mz_now() < e` keeps a row until e, and `mz_now()` counts whole milliseconds, so the row's upper bound is
`ceil_ms(e)`; `mz_now() <= e` keeps it one millisecond longer than the last that is not after e,
`step_ms(floor_ms(e))`. The planner creates these functions; they take every type that `mz_now()` is
compared with. A bound that does not fit 64 bits is an error of its row.

    e = 10:00:00.0005   ceil_ms(e) = 10:00:00.001   floor_ms(e) = 10:00:00   step_ms(10:00:00) = 10:00:00.001
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import container_count, stretch
from tidegate.expr.domain.specs import Specs
from tidegate.expr.model.function import AT_ENDS, NEVER, UP, Signature, scalar
from tidegate.expr.model.outcome import (
    Datum,
    Outcome,
    failing,
    from_numpy,
    to_bools,
    to_numpy,
    with_errors,
)
from tidegate.expr.model.types import FLOAT8, INT8, MZ_TIMESTAMP, NUMERIC, TEXT, TIMESTAMP, TIMESTAMPTZ, Type
from tidegate.expr.primitives.bigint import floor_to_int64
from tidegate.expr.primitives.time.text import parse_strict

OUT_OF_RANGE = "mz_timestamp out of range"
_MICROS_A_MILLI = 1000


_CLOCKS: list[Signature] = [((TIMESTAMP,), MZ_TIMESTAMP), ((TIMESTAMPTZ,), MZ_TIMESTAMP)]
_INTEGERS: list[Signature] = [((MZ_TIMESTAMP,), MZ_TIMESTAMP), ((INT8,), MZ_TIMESTAMP)]
_rises = partial(scalar, trend=(UP,), stable=True, hidden=True)


@_rises("floor_ms", overloads=_CLOCKS, errors=NEVER)
def floor_ms_of_timestamp(t: Datum) -> pa.Array:
    """The last whole millisecond that is not after a time."""
    return from_numpy(np.floor_divide(to_numpy(t), _MICROS_A_MILLI), MZ_TIMESTAMP.arrow, t)


@_rises("ceil_ms", overloads=_CLOCKS, errors=NEVER)
def ceil_ms_of_timestamp(t: Datum) -> pa.Array:
    """The first whole millisecond that is not before a time."""
    return from_numpy(-np.floor_divide(-to_numpy(t), _MICROS_A_MILLI), MZ_TIMESTAMP.arrow, t)


@_rises("ceil_ms", aliases=("floor_ms",), overloads=_INTEGERS, errors=NEVER)
def ms_of_integer(n: Datum) -> pa.Array:
    """Whole milliseconds, unchanged."""
    return from_numpy(to_numpy(n), MZ_TIMESTAMP.arrow, n)


def _from_float(rounded: np.ndarray, x: Datum) -> Outcome:
    # 2^63 is a float, the greatest int64 is not: everything below 2^63 fits.
    outside = ~((rounded >= -(2.0**63)) & (rounded < 2.0**63))
    values = from_numpy(np.where(outside, 0, rounded).astype(np.int64), MZ_TIMESTAMP.arrow, x)
    return with_errors(values, failing(outside, OUT_OF_RANGE))


@_rises("floor_ms", (FLOAT8,), MZ_TIMESTAMP, errors=AT_ENDS)
def floor_ms_of_float(x: Datum) -> Outcome:
    """The greatest whole number of milliseconds that is not above a number; NaN is out of range."""
    return _from_float(np.floor(to_numpy(x, 0.0)), x)


@_rises("ceil_ms", (FLOAT8,), MZ_TIMESTAMP, errors=AT_ENDS)
def ceil_ms_of_float(x: Datum) -> Outcome:
    """The least whole number of milliseconds that is not below a number; NaN is out of range."""
    return _from_float(np.ceil(to_numpy(x, 0.0)), x)


@_rises("floor_ms", (NUMERIC,), MZ_TIMESTAMP, errors=AT_ENDS)
def floor_ms_of_numeric(x: pa.Array) -> Outcome:
    """The greatest whole number of milliseconds that is not above a number."""
    whole, outside = floor_to_int64(x)
    return with_errors(from_numpy(whole, MZ_TIMESTAMP.arrow, x), failing(outside, OUT_OF_RANGE))


@_rises("ceil_ms", (NUMERIC,), MZ_TIMESTAMP, errors=AT_ENDS)
def ceil_ms_of_numeric(x: pa.Array) -> Outcome:
    """The least whole number of milliseconds that is not below a number."""
    whole, outside = floor_to_int64(x, minus=1)
    # The floor before the ceiling may be one below the least integer: it is refused a millisecond too early.
    outside = outside | (whole == 2**63 - 1)
    whole = np.where(outside, 0, whole + 1)
    return with_errors(from_numpy(whole, MZ_TIMESTAMP.arrow, x), failing(outside, OUT_OF_RANGE))


@_rises("step_ms", (MZ_TIMESTAMP,), MZ_TIMESTAMP, errors=AT_ENDS)
def step_ms(n: Datum) -> Outcome:
    """One millisecond later."""
    values = to_numpy(n)
    last = values == 2**63 - 1
    return with_errors(
        from_numpy(np.where(last, 0, values + ~last), MZ_TIMESTAMP.arrow, n), failing(last, OUT_OF_RANGE)
    )


def _iso_bounds(out: Type, a: Specs) -> Specs:
    """ISO text as time over containers: between two texts of the form, the others lie between in time."""
    low, high = a.bounds()
    if a.json is not None:
        # What `->>` makes of numbers, lists and maps never has the form: only the strings count.
        missing = pa.nulls(1, pa.string())
        low, high = (missing if end is None else end for end in (a.json.text.low, a.json.text.high))
    n = container_count(low, high, a.exact)
    low, high = (parse_strict(stretch(end, n)) for end in (low, high))
    both = pc.and_(low.is_valid(), high.is_valid())
    nothing = pa.scalar(None, out.arrow)
    low, high = pc.if_else(both, low, nothing), pc.if_else(both, high, nothing)
    parsed = to_bools(both)
    # One exact text always gives the same: a time, or NULL.
    null = np.where(a.exact & parsed, a.null, True)
    empty = a.empty | (a.exact & ~parsed)
    return Specs.ranged(out, low, high, null=null, error=a.error, empty=empty, exact=a.exact & parsed)


@scalar(
    "try_parse_monotonic_iso8601_timestamp", (TEXT,), TIMESTAMP,
    errors=NEVER, makes_null=True, transfer=_iso_bounds, stable=True,
)  # fmt: skip
def try_parse_monotonic_iso8601_timestamp(a: pa.Array) -> pa.Array:
    """The UTC time of `YYYY-MM-DDThh:mm:ss.sssZ`, in which text sorts as time does; NULL for other text."""
    return parse_strict(a)
