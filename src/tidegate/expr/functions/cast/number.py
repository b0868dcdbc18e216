"""Casts among bool, integers, floats, numerics and mz_timestamp; and numbers out of JSON statistics.

All are monotone, so a filter on a cast column prunes as one on the column does. Rounding is PostgreSQL's: a
float becomes an integer by rounding halves to even, a numeric by rounding them away from zero, and a float
becomes the numeric of its 15 leading digits. A value that does not fit its target is an error that shows at the
ends of a range: if the ends fit, everything between does.

    2.5::float8::int4 = 2      2.5::numeric::int4 = 3      40000::int4::int2: smallint out of range

`mz_timestamp` is milliseconds since 1970 as a bigint; a numeric becomes one by rounding down.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import finite, guarded, stretch
from tidegate.expr.domain.specs import NO, Specs, is_bounded
from tidegate.expr.domain.transfer import all_of, by_trend
from tidegate.expr.duckdb_sql import forms as duckdb_form
from tidegate.expr.functions.number.arithmetic import check_float_range, ends, identity, limits, out_of_range
from tidegate.expr.model import order
from tidegate.expr.model.function import AT_ENDS, NEVER, REGISTRY, UP, cast
from tidegate.expr.model.outcome import Outcome, from_numpy, to_bools, to_numpy, validity, with_errors
from tidegate.expr.model.types import (
    BOOL,
    FLOAT4,
    FLOAT8,
    FLOATS,
    INT8,
    INTEGERS,
    MZ_TIMESTAMP,
    NUMERIC,
    Kind,
    Type,
)
from tidegate.expr.primitives.decimal import (
    Rounding,
    divide_by_power,
    finish_int64,
    int64_words,
    rescale,
    to_narrow,
)
from tidegate.expr.primitives.float_digits import decimal_to_float, float_to_decimal
from tidegate.expr.spark_sql import forms as spark_form
from tidegate.expr.spark_sql.forms import cast_form

_never_fails = partial(cast, trend=(UP,), errors=NEVER, stable=True)
_fails_at_ends = partial(cast, trend=(UP,), errors=AT_ENDS, stable=True)


# ---------------------------------------------------------------- integers


def widen(a: pa.Array, out: Type) -> pa.Array:
    """The same number in a wider type, or the nearest float."""
    return a.cast(out.arrow, safe=False)


def shorten(a: pa.Array, out: Type) -> Outcome:
    """The same number in a narrower integer type; fails if it does not fit."""
    least, greatest = limits(out.arrow)
    low, high = ends(a)
    values = a.cast(out.arrow, safe=False)
    if least <= low and high <= greatest:
        return Outcome(values)
    x = to_numpy(a)
    return with_errors(values, out_of_range((x < least) | (x > greatest), out.arrow))


for _narrow, _wide in combinations(INTEGERS, 2):
    _never_fails(_narrow, _wide, implicit=True, spark=cast_form(), duckdb=duckdb_form.widening)(widen)
    _fails_at_ends(_wide, _narrow, spark=cast_form())(shorten)
_never_fails(INTEGERS, FLOATS, implicit=True, spark=cast_form())(widen)


@_fails_at_ends(
    (*INTEGERS, MZ_TIMESTAMP), NUMERIC, implicit=True, spark=cast_form(), duckdb=duckdb_form.widening
)
def integer_to_numeric(a: pa.Array, out: Type) -> Outcome:
    """The same number as a numeric; fails if it has too many digits."""
    return finish_int64(to_numpy(a).astype(np.int64), 0, out.arrow, validity(a))


# ---------------------------------------------------------------- floats


@_fails_at_ends(FLOATS, INTEGERS, spark=spark_form.float_to_integer)
def float_to_integer(a: pa.Array, out: Type) -> Outcome:
    """The nearest integer, halves to even; fails if it does not fit, and for NaN and infinities."""
    x = np.rint(to_numpy(a).astype(np.float64))
    least, greatest = limits(out.arrow)
    # 2.0**63 - 1 is no float: the test is for less than 2**63. NaN fails every comparison.
    outside = ~((x >= least) & (x < greatest + 1))
    values = np.where(outside, 0, x).astype(out.arrow.to_pandas_dtype())
    return with_errors(from_numpy(values, out.arrow, a), out_of_range(outside, out.arrow))


@_fails_at_ends(FLOATS, NUMERIC)
def float_to_numeric(a: pa.Array, out: Type) -> Outcome:
    """The numeric of the 15 (real: 6) leading digits; fails for NaN and infinities."""
    return float_to_decimal(a, out.arrow)


_never_fails(FLOAT4, FLOAT8, implicit=True, spark=cast_form())(widen)


@cast(FLOAT8, FLOAT4, **guarded(finite, UP), stable=True, spark=spark_form.float_result("CAST({0} AS float)"))
def to_real(a: pa.Array) -> Outcome:
    """The nearest real; fails if a finite number becomes infinite."""
    return check_float_range(a.cast(pa.float32(), safe=False), a)


# ---------------------------------------------------------------- numerics


@_fails_at_ends(NUMERIC, NUMERIC, implicit=True, spark=cast_form(), duckdb=duckdb_form.widening)
def numeric_to_numeric(a: pa.Array, out: Type) -> Outcome:
    """The number with other digits, rounded half away from zero; fails if it does not fit."""
    return rescale(a, out.arrow)


def to_whole_int64(a: pa.Array, mode: Rounding) -> tuple[np.ndarray, np.ndarray]:
    """Decimals rounded to int64, and where they do not fit."""
    x = to_narrow(a)
    if x is not None:
        return divide_by_power(x.values, x.scale, mode), np.zeros(len(a), bool)
    low, high = int64_words(rescale(a, pa.decimal128(38, 0), mode).values)
    return low, high != low >> 63


@_fails_at_ends(NUMERIC, INTEGERS, spark=cast_form("round({0}, 0)"))
def numeric_to_integer(a: pa.Array, out: Type) -> Outcome:
    """The nearest integer, halves away from zero; fails if it does not fit."""
    values, outside = to_whole_int64(a, Rounding.HALF_AWAY)
    least, greatest = limits(out.arrow)
    outside = outside | (values < least) | (values > greatest)
    fitting = np.where(outside, 0, values).astype(out.arrow.to_pandas_dtype())
    return with_errors(from_numpy(fitting, out.arrow, a), out_of_range(outside, out.arrow))


@_never_fails(NUMERIC, FLOATS, implicit=True, spark=cast_form())
def numeric_to_float(a: pa.Array, out: Type) -> pa.Array:
    """The nearest float."""
    return decimal_to_float(a, out.arrow)


# ---------------------------------------------------------------- mz_timestamp


@_fails_at_ends(NUMERIC, MZ_TIMESTAMP)
def numeric_to_mz_timestamp(a: pa.Array) -> Outcome:
    """Milliseconds since 1970, rounded down; fails if they do not fit."""
    values, outside = to_whole_int64(a, Rounding.FLOOR)
    return with_errors(from_numpy(values, pa.int64(), a), out_of_range(outside, pa.int64()))


@_never_fails(INTEGERS, MZ_TIMESTAMP, spark=cast_form())
def to_mz_timestamp(a: pa.Array) -> pa.Array:
    """Milliseconds since 1970."""
    return a.cast(pa.int64())


_never_fails(MZ_TIMESTAMP, INT8, implicit=True, spark="{0}")(identity)
_never_fails(MZ_TIMESTAMP, FLOAT8, implicit=True, spark=cast_form())(widen)


# ---------------------------------------------------------------- bool


@_never_fails(BOOL, INTEGERS, spark=cast_form())
def from_bool(a: pa.Array, out: Type) -> pa.Array:
    """1 for true and 0 for false."""
    return a.cast(out.arrow)


def to_bool_transfer(_: Type, a: Specs) -> Specs:
    """`x <> 0` over containers: false where the range contains zero, true unless it contains only zero."""
    low, high = a.bounds()
    zero = pa.scalar(0, a.type.arrow)
    has_rows = ~a.empty
    below = to_bools(pc.fill_null(order.less(low, zero), True))
    above = to_bools(pc.fill_null(order.less(zero, high), True))
    touches = to_bools(pc.fill_null(order.less_equal(low, zero), True)) & to_bools(
        pc.fill_null(order.less_equal(zero, high), True)
    )
    return Specs.boolean((below | above) & has_rows, touches & has_rows, a.null, a.error)


@cast(INTEGERS, BOOL, errors=NEVER, transfer=to_bool_transfer, stable=True, spark="({0} <> 0)")
def to_bool(a: pa.Array) -> pa.Array:
    """False for 0, true for every other number."""
    return pc.not_equal(a, 0)


# ---------------------------------------------------------------- numbers out of JSON


def number_from_lanes(
    out: Type, specs: Specs, *, strings: bool, fractions: bool = True, fails: np.ndarray = NO
) -> Specs:
    """The cast of a JSON value, or of the text that `->>` makes of it, to a number over containers.

    JSON numbers are cast as numeric(38,18) is: monotone. Booleans, arrays and objects fail. JSON strings may be
    read as numbers (`strings`, for text) or fail too (for jsonb); their values are unknown. Where `fractions` is
    False a number with a fraction fails, as `'1.5'::int4` does: any range may, unless statistics say that its
    numbers are whole. `fails` adds other failures: JSON null, for jsonb.
    """
    lanes = specs.json
    assert lanes is not None
    number = lanes.number
    numbers = Specs.ranged(
        NUMERIC,
        number.low,
        number.high,
        null=specs.null,
        error=specs.error,
        empty=specs.empty | ~number.present,
    )
    function = REGISTRY.cast(Kind.NUMERIC, out.kind)
    assert function is not None
    result = by_trend(function, [numbers], out)
    # A side without a bound may have numbers beyond 38 digits, for which every cast fails.
    strange = number.present & ~all_of([is_bounded(bound) for bound in numbers.bounds()])
    if not fractions:
        strange = strange | (number.present & ~number.whole)
    failing_ = lanes.true | lanes.false | lanes.list | lanes.map | lanes.text.present | strange | fails
    result = result.may_fail(failing_ & ~specs.empty)
    if out.is_float:
        # JSON -0 and 0 have equal bounds, but are not one float.
        result = replace(result, exact=NO)
    return widen_where(result, lanes.text.present & ~specs.empty) if strings else result


def widen_where(specs: Specs, mask: np.ndarray) -> Specs:
    """`specs` of a number, with any value possible where `mask` holds."""
    if not mask.any():
        return specs
    n = max(specs.size, len(mask))
    keep = pa.array(np.broadcast_to(~mask, n))
    low, high = (pc.if_else(keep, stretch(b, n), pa.scalar(None, b.type)) for b in specs.bounds())
    nan = None if specs.nan is None else specs.nan | mask
    return Specs.ranged(
        specs.type,
        low,
        high,
        null=specs.null,
        error=specs.error,
        empty=specs.empty & ~mask,
        exact=specs.exact & ~mask,
        nan=nan,
    )
