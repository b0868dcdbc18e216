"""Functions of integers and floats: abs, sign, floor, round, sqrt, ln, power and others.

As in PostgreSQL, functions without an integer form are computed in double precision: `sqrt(2)` and `floor(7)` are
float8. Numerics have their own forms, in `numeric/`.

`abs` turns at zero, and has a transfer of its own. Functions that no library rounds correctly (ln, exp, cbrt)
are monotone only up to their last digit; their bounds are moved outwards by a few units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import absolute_transfer, at_ends_where, finite, nearly_rising
from tidegate.expr.domain.specs import NO, Specs
from tidegate.expr.domain.transfer import by_trend
from tidegate.expr.functions.number.arithmetic import check_float_range, limits, out_of_range
from tidegate.expr.model.function import (
    AT_ENDS,
    NEVER,
    UP,
    BoundTransfer,
    Claims,
    Function,
    MaskedTrend,
    scalar,
)
from tidegate.expr.model.outcome import (
    Datum,
    Outcome,
    failing,
    first_error,
    from_numpy,
    length,
    raw_numbers,
    to_numpy,
    with_errors,
)
from tidegate.expr.model.types import FLOAT8, FLOATS, INT4, INT8, INTEGERS, Type
from tidegate.expr.spark_sql.forms import form_failing_if


def absolute(a: pa.Array) -> Outcome:
    """The absolute value; fails if it does not fit the type."""
    values = pc.abs(a)
    if pa.types.is_floating(a.type):
        return Outcome(values)
    return with_errors(values, out_of_range(to_numpy(a) == limits(a.type)[0], a.type))


sizes = partial(scalar, "abs", stable=True, spark="abs({0})", transfer=absolute_transfer)
sizes(overloads=[((type_,), type_) for type_ in INTEGERS], errors=AT_ENDS)(absolute)
sizes(overloads=[((type_,), type_) for type_ in FLOATS], errors=NEVER)(absolute)


# ---------------------------------------------------------------- float8, and integers by way of it


def through_float(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A float8 kernel for bigint arguments."""

    @wraps(kernel)
    def converted(*args: Datum) -> Any:
        return kernel(*(arg.cast(pa.float64(), safe=False) for arg in args))

    return converted


def floor(a: pa.Array) -> pa.Array:
    """The greatest whole number that is not greater than the number."""
    return pc.floor(a)


def ceil(a: pa.Array) -> pa.Array:
    """The least whole number that is not less than the number."""
    return pc.ceil(a)


def round_half_even(a: pa.Array) -> pa.Array:
    """The nearest whole number, halves to even (numerics round halves away from zero)."""
    return from_numpy(np.rint(to_numpy(a)), a.type, a)


def trunc(a: pa.Array) -> pa.Array:
    """The number without its fraction."""
    return pc.trunc(a)


def sign(a: pa.Array) -> pa.Array:
    """-1, 0 or 1; 0 for NaN."""
    x = to_numpy(a)
    return from_numpy((x > 0).astype(x.dtype) - (x < 0), a.type, a)


@BoundTransfer
def sign_transfer(function: Function, out: Type, a: Specs) -> Specs:
    """Sign over containers: rising, within -1 .. 1, and also 0 where a value may be NaN."""
    specs = by_trend(function.claiming((UP,)), [a], out)
    assert a.nan is not None
    low, high = (to_numpy(bound, end) for bound, end in zip(specs.bounds(), (-1.0, 1.0), strict=True))
    low, high = np.where(a.nan, np.minimum(low, 0), low), np.where(a.nan, np.maximum(high, 0), high)
    low, high = pa.array(low), pa.array(high)
    return Specs.ranged(
        out, low, high, null=a.null, error=a.error, empty=a.empty, exact=a.exact & ~a.nan, nan=NO
    )


float_to_whole = partial(scalar, params=(FLOAT8,), result=FLOAT8, trend=(UP,), errors=NEVER, stable=True)
float_to_whole("floor")(floor)
float_to_whole("ceil", aliases=("ceiling",))(ceil)
float_to_whole("round", spark="rint({0})")(round_half_even)
float_to_whole("trunc")(trunc)
scalar("sign", (FLOAT8,), FLOAT8, transfer=sign_transfer, errors=NEVER, stable=True)(sign)

integer_to_float = partial(scalar, params=(INT8,), result=FLOAT8, trend=(UP,), errors=NEVER, stable=True)
integer_to_float("floor", spark="CAST({0} AS double)")(through_float(floor))
integer_to_float("ceil", aliases=("ceiling",), spark="CAST({0} AS double)")(through_float(ceil))
integer_to_float("round", spark="CAST({0} AS double)")(through_float(round_half_even))
integer_to_float("trunc", spark="CAST({0} AS double)")(through_float(trunc))
integer_to_float("sign")(through_float(sign))


def sqrt(a: pa.Array) -> Outcome:
    """The square root; fails for negative numbers."""
    values = pc.sqrt(a)
    # NaN is least for numpy, and null slots hold arbitrary values: both only cost the exact check below.
    if not len(a) or raw_numbers(a).min() >= 0:
        return Outcome(values)
    return with_errors(
        values, failing(pc.less(a, pa.scalar(0, a.type)), "cannot take square root of a negative number")
    )


def cbrt(a: pa.Array) -> pa.Array:
    """The cube root."""
    return from_numpy(np.cbrt(to_numpy(a)), a.type, a)


def _logarithm(kernel: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Array], Outcome]:
    def logarithm(a: pa.Array) -> Outcome:
        x = to_numpy(a, 1)
        zero = failing(x == 0, "cannot take logarithm of zero")
        negative = failing(x < 0, "cannot take logarithm of a negative number")
        return with_errors(kernel(a), first_error(zero, negative))

    return logarithm


ln, log10 = _logarithm(pc.ln), _logarithm(pc.log10)
ln.__doc__ = "The natural logarithm; an error unless the number is positive."
log10.__doc__ = "The logarithm to base 10; an error unless the number is positive."


def exp(a: pa.Array) -> Outcome:
    """The exponential function e^x; fails if it overflows."""
    return check_float_range(pc.exp(a), a)


@BoundTransfer
def exp_transfer(function: Function, out: Type, a: Specs) -> Specs:
    """exp over containers: errors AT_ENDS while the range is finite, and bounds moved outwards."""
    rising = function.claiming(lambda a: (MaskedTrend(UP, finite(a)),), AT_ENDS)
    specs, (low, high) = at_ends_where(finite)(rising, out, a), nearly_rising(rising, out, a).bounds()
    flags = {"null": specs.null, "error": specs.error, "empty": specs.empty, "exact": specs.exact}
    return Specs.ranged(out, low, high, **flags, nan=specs.nan)


def _declare_float(
    name: str, kernel: Callable[..., Any], *, aliases: Sequence[str] = (), **claims: Unpack[Claims]
) -> None:
    """Declares a function of float8, and of bigint by way of it."""
    all_claims: Claims = {"stable": True, "exact": False, **claims}
    declare = partial(scalar, name, result=FLOAT8, aliases=aliases, **all_claims)
    count = 2 if name == "power" else 1
    declare(params=(FLOAT8,) * count)(kernel)
    declare(params=(INT8,) * count)(through_float(kernel))


# A square root is rounded correctly, and so truly monotone.
_declare_float(
    "sqrt", sqrt, trend=(UP,), errors=AT_ENDS,
    spark=form_failing_if("{0} < 0", "cannot take square root of a negative number", "sqrt({0})"),
)  # fmt: skip
_declare_float("cbrt", cbrt, errors=NEVER, transfer=nearly_rising)
_declare_float("ln", ln, errors=AT_ENDS, transfer=nearly_rising)
_declare_float("log", log10, aliases=("log10",), errors=AT_ENDS, transfer=nearly_rising)
_declare_float("exp", exp, transfer=exp_transfer)


def power(a: Datum, b: Datum) -> Outcome:
    """The first number to the power of the second; fails if that is complex, infinite or overflows."""
    n = length(a, b)
    # As full arrays: for a scalar exponent of 2 numpy squares, which rounds differently from a power.
    x, y = (np.array(np.broadcast_to(to_numpy(side, 1), n)) for side in (a, b))
    broken = (x < 0) & np.isfinite(y) & (np.trunc(y) != y)
    complex_ = failing(broken, "a negative number raised to a non-integer power yields a complex result")
    undefined = failing((x == 0) & (y < 0), "zero raised to a negative power is undefined")
    # 1 ^ NaN and NaN ^ 0 are 1, for signalling NaNs too, which the machine's power passes on.
    raised = np.where((x == 1) | (y == 0), 1, np.power(x, y))
    values, errors = with_errors(from_numpy(raised, pa.float64(), a, b), first_error(complex_, undefined))
    values, overflow = check_float_range(values, x, y)
    return with_errors(values, first_error(errors, overflow))


_declare_float("power", power, aliases=("pow", "^"))


# ---------------------------------------------------------------- whole numbers, angles


@scalar("gcd", (INT4, INT4), INT4, overloads=[((INT8, INT8), INT8)], stable=True)
def gcd(a: Datum, b: Datum) -> Outcome:
    """The greatest common divisor."""
    values = np.gcd(to_numpy(a), to_numpy(b))
    return with_errors(from_numpy(values, a.type, a, b), out_of_range(values < 0, a.type))


def _angle(name: str, kernel: Callable[[Any], Any], doc: str, limit: float = math.inf) -> None:
    """Declares a function of an angle that fails beyond `limit` and for infinities."""

    def angle(a: pa.Array) -> Outcome:
        x = to_numpy(a)
        with np.errstate(all="ignore"):
            values = from_numpy(kernel(x), a.type, a)
        outside = (np.abs(x) > limit) | (np.isinf(x) if name not in ("atan", "radians", "degrees") else False)
        errors = failing(outside, "input is out of range")
        values, overflow = check_float_range(values, x)
        return with_errors(values, first_error(errors, overflow))

    scalar(name, (FLOAT8,), FLOAT8, doc=doc, stable=True, exact=False)(angle)


_angle("sin", np.sin, "The sine of an angle in radians.")
_angle("cos", np.cos, "The cosine of an angle in radians.")
_angle("tan", np.tan, "The tangent of an angle in radians.")
_angle("asin", np.arcsin, "The angle with that sine, in radians.", limit=1)
_angle("acos", np.arccos, "The angle with that cosine, in radians.", limit=1)
_angle("atan", np.arctan, "The angle with that tangent, in radians.")
_angle("radians", np.radians, "Degrees as radians.")
_angle("degrees", np.degrees, "Radians as degrees.")


@scalar("atan2", (FLOAT8, FLOAT8), FLOAT8, errors=NEVER, stable=True, exact=False)
def atan2(a: Datum, b: Datum) -> pa.Array:
    """The angle of the point (second, first) in radians."""
    return from_numpy(np.arctan2(to_numpy(a), to_numpy(b)), pa.float64(), a, b)
