"""Casts among bool, integers, floats, numerics and mz_timestamp; and numbers out of JSON lanes.

All are monotone, so a filter on a cast column prunes as one on the column does. Rounding is PostgreSQL's: a
float becomes an integer by rounding halves to even, a numeric by rounding them away from zero, and a float
becomes the numeric of its 15 leading digits. What does not fit its target is an error that shows at the ends
of a range: if the ends fit, everything between does.

    2.5::float8::int4 = 2      2.5::numeric::int4 = 3      40000::int4::int2: smallint out of range

`mz_timestamp` is milliseconds since 1970 as a bigint; a numeric becomes one by rounding down.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import order, spark_form
from tidegate.expr.function import AT_ENDS, NEVER, REGISTRY, UP, cast
from tidegate.expr.functions.bounded import finite, guarded
from tidegate.expr.functions.decimals import Mode, divided, narrow, rescaled, settle, words
from tidegate.expr.functions.float_digits import decimal_to_float, float_to_decimal
from tidegate.expr.functions.number import ends, in_range, limits, out_of_range, same
from tidegate.expr.outcome import Outcome, from_numpy, spread, to_numpy, validity, with_errors
from tidegate.expr.spark_form import cast_form
from tidegate.expr.specs import NO, Specs, known, to_bools
from tidegate.expr.transfer import all_of, by_trend
from tidegate.expr.types import (
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

_UP_NEVER: dict[str, Any] = {"trend": (UP,), "errors": NEVER, "stable": True}
_UP_AT_ENDS: dict[str, Any] = {"trend": (UP,), "errors": AT_ENDS, "stable": True}


# ---------------------------------------------------------------- integers


def widen(a: pa.Array, out: Type) -> pa.Array:
    """The same number in a wider type, or the nearest float."""
    return a.cast(out.arrow, safe=False)


def shorten(a: pa.Array, out: Type) -> Outcome:
    """The same number in a narrower integer type; an error if it does not fit."""
    least, most = limits(out.arrow)
    low, high = ends(a)
    values = a.cast(out.arrow, safe=False)
    if least <= low and high <= most:
        return Outcome(values)
    x = to_numpy(a)
    return with_errors(values, out_of_range((x < least) | (x > most), out.arrow))


for _i, _type in enumerate(INTEGERS):
    for _wider in INTEGERS[_i + 1 :]:
        cast(_type, _wider, implicit=True, spark=cast_form(), **_UP_NEVER)(widen)
        cast(_wider, _type, spark=cast_form(), **_UP_AT_ENDS)(shorten)
    for _float in FLOATS:
        cast(_type, _float, implicit=True, spark=cast_form(), **_UP_NEVER)(widen)


def integer_to_numeric(a: pa.Array, out: Type) -> Outcome:
    """The same number as a numeric; an error if it has too many digits."""
    return settle(to_numpy(a).astype(np.int64), 0, out.arrow, validity(a))


for _type in INTEGERS:
    cast(_type, NUMERIC, implicit=True, spark=cast_form(), **_UP_AT_ENDS)(integer_to_numeric)


# ---------------------------------------------------------------- floats


def float_to_integer(a: pa.Array, out: Type) -> Outcome:
    """The nearest integer, halves to even; an error if it does not fit, for NaN and for infinities."""
    x = np.rint(to_numpy(a).astype(np.float64))
    least, most = limits(out.arrow)
    # 2.0**63 - 1 is no float: the test is for less than 2**63. NaN fails every comparison.
    outside = ~((x >= least) & (x < most + 1))
    values = np.where(outside, 0, x).astype(out.arrow.to_pandas_dtype())
    return with_errors(from_numpy(values, out.arrow, a), out_of_range(outside, out.arrow))


def float_to_numeric(a: pa.Array, out: Type) -> Outcome:
    """The numeric of the 15 (real: 6) leading digits; an error for NaN and infinities."""
    return float_to_decimal(a, out.arrow)


for _float in FLOATS:
    for _type in INTEGERS:
        cast(_float, _type, spark=spark_form.float_to_integer, **_UP_AT_ENDS)(float_to_integer)
    cast(_float, NUMERIC, **_UP_AT_ENDS)(float_to_numeric)

cast(FLOAT4, FLOAT8, implicit=True, spark=cast_form(), **_UP_NEVER)(widen)


def to_real(a: pa.Array) -> Outcome:
    """The nearest real; an error if a finite number becomes infinite."""
    return in_range(a.cast(pa.float32(), safe=False), a)


cast(
    FLOAT8,
    FLOAT4,
    stable=True,
    spark=spark_form.float_result("CAST({0} AS float)"),
    **guarded(to_real, (UP,), finite),
)(to_real)


# ---------------------------------------------------------------- numerics


def numeric_to_numeric(a: pa.Array, out: Type) -> Outcome:
    """The number with another type's digits, rounded half away from zero; an error if it does not fit."""
    return rescaled(a, out.arrow)


cast(NUMERIC, NUMERIC, implicit=True, spark=cast_form(), **_UP_AT_ENDS)(numeric_to_numeric)


def whole(a: pa.Array, mode: Mode) -> tuple[np.ndarray, np.ndarray]:
    """Decimals rounded to whole int64, and where they do not fit."""
    x = narrow(a)
    if x is not None:
        return divided(x.values, x.scale, mode), np.zeros(len(a), bool)
    low, high = words(rescaled(a, pa.decimal128(38, 0), mode).values)
    return low, high != low >> 63


def numeric_to_integer(a: pa.Array, out: Type) -> Outcome:
    """The nearest integer, halves away from zero; an error if it does not fit."""
    values, outside = whole(a, Mode.HALF_AWAY)
    least, most = limits(out.arrow)
    outside = outside | (values < least) | (values > most)
    fitting = np.where(outside, 0, values).astype(out.arrow.to_pandas_dtype())
    return with_errors(from_numpy(fitting, out.arrow, a), out_of_range(outside, out.arrow))


def numeric_to_float(a: pa.Array, out: Type) -> pa.Array:
    """The nearest float."""
    return decimal_to_float(a, out.arrow)


for _type in INTEGERS:
    cast(NUMERIC, _type, spark=cast_form("round({0}, 0)"), **_UP_AT_ENDS)(numeric_to_integer)
for _float in FLOATS:
    cast(NUMERIC, _float, implicit=True, spark=cast_form(), **_UP_NEVER)(numeric_to_float)


# ---------------------------------------------------------------- mz_timestamp


def numeric_to_mz_timestamp(a: pa.Array) -> Outcome:
    """Milliseconds since 1970, rounded down; an error if they do not fit."""
    values, outside = whole(a, Mode.FLOOR)
    return with_errors(from_numpy(values, pa.int64(), a), out_of_range(outside, pa.int64()))


def to_mz_timestamp(a: pa.Array) -> pa.Array:
    """Milliseconds since 1970."""
    return a.cast(pa.int64())


for _type in INTEGERS:
    cast(_type, MZ_TIMESTAMP, spark=cast_form(), **_UP_NEVER)(to_mz_timestamp)
cast(NUMERIC, MZ_TIMESTAMP, **_UP_AT_ENDS)(numeric_to_mz_timestamp)
cast(MZ_TIMESTAMP, INT8, implicit=True, spark="{0}", **_UP_NEVER)(same)
cast(MZ_TIMESTAMP, NUMERIC, implicit=True, spark=cast_form(), **_UP_AT_ENDS)(integer_to_numeric)
cast(MZ_TIMESTAMP, FLOAT8, implicit=True, spark=cast_form(), **_UP_NEVER)(widen)


# ---------------------------------------------------------------- bool


def from_bool(a: pa.Array, out: Type) -> pa.Array:
    """1 for true and 0 for false."""
    return a.cast(out.arrow)


def to_bool(a: pa.Array) -> pa.Array:
    """False for 0, true for every other number."""
    return pc.not_equal(a, 0)


def to_bool_transfer(_: Type, a: Specs) -> Specs:
    """X <> 0 over containers: false where the range holds zero, true unless it holds nothing else."""
    low, high = a.bounds()
    zero = pa.scalar(0, a.type.arrow)
    some = ~a.empty
    below = to_bools(pc.fill_null(order.less(low, zero), True))
    above = to_bools(pc.fill_null(order.less(zero, high), True))
    touches = to_bools(pc.fill_null(order.less_equal(low, zero), True)) & to_bools(
        pc.fill_null(order.less_equal(zero, high), True)
    )
    return Specs.boolean((below | above) & some, touches & some, a.null, a.error)


for _type in INTEGERS:
    cast(BOOL, _type, spark=cast_form(), **_UP_NEVER)(from_bool)
    cast(_type, BOOL, errors=NEVER, stable=True, spark="({0} <> 0)", transfer=to_bool_transfer)(to_bool)


# ---------------------------------------------------------------- numbers out of JSON


def number_from_lanes(
    out: Type, specs: Specs, *, strings: bool, fractions: bool = True, fails: np.ndarray = NO
) -> Specs:
    """The cast to a number of a JSON value, or of the text that `->>` made of it, over containers.

    The number lane is cast as numeric(38,18) is: monotone. Booleans, lists and maps fail. JSON strings may be
    read as numbers (`strings`, for text) or fail too (for jsonb); what they give is not known. Where
    `fractions` is False a number with a fraction fails, as `'1.5'::int4` does: any range may, unless statistics
    say that its numbers are whole. `fails` adds what else fails: JSON null, for jsonb.
    """
    lanes = specs.lanes
    assert lanes is not None
    number = lanes.number
    numbers = Specs.ranged(
        NUMERIC, number.low, number.high, null=specs.null, error=specs.error, empty=specs.empty | ~number.some
    )
    function = REGISTRY.cast(Kind.NUMERIC, out.kind)
    assert function is not None
    result = by_trend(function, [numbers], out)
    # A side without a bound may hold numbers beyond 38 digits, which no cast takes.
    strange = number.some & ~all_of([known(bound) for bound in numbers.bounds()])
    if not fractions:
        strange = strange | (number.some & ~number.whole)
    failing_ = lanes.true | lanes.false | lanes.list | lanes.map | lanes.text.some | strange | fails
    result = result.may_fail(failing_ & ~specs.empty)
    if out.is_float:
        # JSON -0 and 0 have equal bounds, but are not one float.
        result = replace(result, exact=NO)
    return vague(result, lanes.text.some & ~specs.empty) if strings else result


def vague(specs: Specs, mask: np.ndarray) -> Specs:
    """`specs` of a number, but with any value possible where `mask` holds."""
    if not mask.any():
        return specs
    n = max(specs.size, len(mask))
    keep = pa.array(np.broadcast_to(~mask, n))
    low, high = (
        pc.if_else(keep, spread(b[0], n) if len(b) == 1 else b, pa.scalar(None, b.type))
        for b in specs.bounds()
    )
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
