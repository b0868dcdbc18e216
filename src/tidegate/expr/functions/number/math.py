"""Functions of numbers: abs, sign, floor, round, sqrt, ln, power and the like, for integers and floats.

As in PostgreSQL, what has no integer form is computed in double precision: `sqrt(2)` and `floor(7)` are
float8. Numerics have their own forms, in `numeric.py`.

`abs` turns at zero, and has a transfer of its own. Functions that no library rounds correctly (ln, exp, cbrt)
are monotone only up to their last digit; their bounds are loosened by a little.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.function import AT_ENDS, NEVER, UP, Errors, scalar
from tidegate.expr.functions.bounded import absolute_transfer, finite, guarded, inner_function, loosened
from tidegate.expr.functions.number import in_range, limits, out_of_range
from tidegate.expr.outcome import (
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
from tidegate.expr.spark_form import form_failing_if
from tidegate.expr.specs import NO, Specs
from tidegate.expr.transfer import by_trend
from tidegate.expr.types import FLOAT8, FLOATS, INT4, INT8, INTEGERS, Type

_FLOAT: dict[str, Any] = {"stable": True, "exact": False}


def absolute(a: pa.Array) -> Outcome:
    """The number without its sign."""
    values = pc.abs(a)
    if pa.types.is_floating(a.type):
        return Outcome(values)
    return with_errors(values, out_of_range(to_numpy(a) == limits(a.type)[0], a.type))


for _type in (*INTEGERS, *FLOATS):
    _errors = NEVER if _type.is_float else AT_ENDS
    scalar(
        "abs",
        (_type,),
        _type,
        errors=_errors,
        stable=True,
        spark="abs({0})",
        transfer=absolute_transfer(absolute, _errors),
    )(absolute)


# ---------------------------------------------------------------- float8, and integers by way of it


def of_integer(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The same kernel for bigint."""

    @wraps(kernel)
    def converted(*args: Datum) -> Any:
        return kernel(*(arg.cast(pa.float64(), safe=False) for arg in args))

    return converted


def floor(a: pa.Array) -> pa.Array:
    """The greatest whole number that is not greater."""
    return pc.floor(a)


def ceil(a: pa.Array) -> pa.Array:
    """The least whole number that is not less."""
    return pc.ceil(a)


def round_half_even(a: pa.Array) -> pa.Array:
    """The nearest whole number; of two, the even one (numerics round halves away from zero)."""
    return from_numpy(np.rint(to_numpy(a)), a.type, a)


def trunc(a: pa.Array) -> pa.Array:
    """The whole part, cut towards zero."""
    return pc.trunc(a)


def sign(a: pa.Array) -> pa.Array:
    """-1, 0 or 1; 0 for NaN."""
    x = to_numpy(a)
    return from_numpy((x > 0).astype(x.dtype) - (x < 0), a.type, a)


def sign_transfer(out: Type, a: Specs) -> Specs:
    """Sign over containers: UP, never beyond -1 and 1, and 0 too where there may be NaN, of which it makes a number."""
    specs = by_trend(inner_function(sign, (UP,), NEVER), [a], out)
    assert a.nan is not None
    low, high = (to_numpy(bound, end) for bound, end in zip(specs.bounds(), (-1.0, 1.0), strict=True))
    low, high = np.where(a.nan, np.minimum(low, 0), low), np.where(a.nan, np.maximum(high, 0), high)
    low, high = pa.array(low), pa.array(high)
    return Specs.ranged(
        out, low, high, null=a.null, error=a.error, empty=a.empty, exact=a.exact & ~a.nan, nan=NO
    )


for _names, _kernel in (
    (("floor",), floor),
    (("ceil", "ceiling"), ceil),
    (("round",), round_half_even),
    (("trunc",), trunc),
):
    for _name in _names:
        _said = "rint({0})" if _name == "round" else None
        scalar(_name, (FLOAT8,), FLOAT8, trend=(UP,), errors=NEVER, stable=True, spark=_said)(_kernel)
        scalar(_name, (INT8,), FLOAT8, trend=(UP,), errors=NEVER, stable=True, spark="CAST({0} AS double)")(
            of_integer(_kernel)
        )
scalar("sign", (FLOAT8,), FLOAT8, transfer=sign_transfer, errors=NEVER, stable=True)(sign)
scalar("sign", (INT8,), FLOAT8, trend=(UP,), errors=NEVER, stable=True)(of_integer(sign))


def sqrt(a: pa.Array) -> Outcome:
    """The square root; an error for negative numbers."""
    values = pc.sqrt(a)
    # NaN is least for numpy, and where the array is null anything may stand: both only cost the closer look.
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
    """E to the power of the number; an error if that overflows."""
    return in_range(pc.exp(a), a)


def _exp_transfer(kernel: Callable[..., Any]) -> Callable[..., Specs]:
    """Both are needed: a finite range (exp(∞) = ∞, but exp(1000) fails), and loosened bounds."""
    near, within = loosened(kernel, (UP,)), guarded(kernel, (UP,), finite)["transfer"]

    def transfer(out: Type, a: Specs) -> Specs:
        specs, (low, high) = within(out, a), near(out, a).bounds()
        return Specs.ranged(
            out,
            low,
            high,
            null=specs.null,
            error=specs.error,
            empty=specs.empty,
            exact=specs.exact,
            nan=specs.nan,
        )

    return transfer


# A square root is rounded correctly, and so truly monotone.
_root = form_failing_if("{0} < 0", "cannot take square root of a negative number", "sqrt({0})")
scalar("sqrt", (FLOAT8,), FLOAT8, trend=(UP,), errors=AT_ENDS, spark=_root, **_FLOAT)(sqrt)
scalar("sqrt", (INT8,), FLOAT8, trend=(UP,), errors=AT_ENDS, spark=_root, **_FLOAT)(of_integer(sqrt))


def _nearly_monotone(name: str, kernel: Callable[..., Any], errors: Errors) -> None:
    for type_, form in ((FLOAT8, kernel), (INT8, of_integer(kernel))):
        scalar(name, (type_,), FLOAT8, errors=errors, transfer=loosened(form, (UP,), errors), **_FLOAT)(form)


_nearly_monotone("cbrt", cbrt, NEVER)
_nearly_monotone("ln", ln, AT_ENDS)
_nearly_monotone("log", log10, AT_ENDS)
_nearly_monotone("log10", log10, AT_ENDS)
scalar("exp", (FLOAT8,), FLOAT8, transfer=_exp_transfer(exp), **_FLOAT)(exp)
scalar("exp", (INT8,), FLOAT8, transfer=_exp_transfer(of_integer(exp)), **_FLOAT)(of_integer(exp))


def power(a: Datum, b: Datum) -> Outcome:
    """The first number to the power of the second; an error where that is complex, infinite or overflows."""
    n = length(a, b)
    # In full, since numpy squares where all exponents are one and the same 2, which rounds differently from a power.
    x, y = (np.array(np.broadcast_to(to_numpy(side, 1), n)) for side in (a, b))
    broken = (x < 0) & np.isfinite(y) & (np.trunc(y) != y)
    complex_ = failing(broken, "a negative number raised to a non-integer power yields a complex result")
    undefined = failing((x == 0) & (y < 0), "zero raised to a negative power is undefined")
    # 1 ^ NaN and NaN ^ 0 are 1, for signalling NaNs too, which the machine's power passes on.
    raised = np.where((x == 1) | (y == 0), 1, np.power(x, y))
    values, errors = with_errors(from_numpy(raised, pa.float64(), a, b), first_error(complex_, undefined))
    values, overflow = in_range(values, x, y)
    return with_errors(values, first_error(errors, overflow))


for _name in ("power", "pow", "^"):
    scalar(_name, (FLOAT8, FLOAT8), FLOAT8, **_FLOAT)(power)
    scalar(_name, (INT8, INT8), FLOAT8, **_FLOAT)(of_integer(power))


# ---------------------------------------------------------------- whole numbers, angles


def gcd(a: Datum, b: Datum) -> Outcome:
    """The greatest common divisor."""
    values = np.gcd(to_numpy(a), to_numpy(b))
    return with_errors(from_numpy(values, a.type, a, b), out_of_range(values < 0, a.type))


for _type in (INT4, INT8):
    scalar("gcd", (_type, _type), _type, stable=True)(gcd)


def _angle(name: str, kernel: Callable[[Any], Any], doc: str, limit: float = math.inf) -> None:
    """Declares a function of an angle: an error beyond `limit`, and for infinities."""

    def angle(a: pa.Array) -> Outcome:
        x = to_numpy(a)
        with np.errstate(all="ignore"):
            values = from_numpy(kernel(x), a.type, a)
        outside = (np.abs(x) > limit) | (np.isinf(x) if name not in ("atan", "radians", "degrees") else False)
        errors = failing(outside, "input is out of range")
        values, overflow = in_range(values, x)
        return with_errors(values, first_error(errors, overflow))

    scalar(name, (FLOAT8,), FLOAT8, doc=doc, **_FLOAT)(angle)


_angle("sin", np.sin, "The sine of an angle in radians.")
_angle("cos", np.cos, "The cosine of an angle in radians.")
_angle("tan", np.tan, "The tangent of an angle in radians.")
_angle("asin", np.arcsin, "The angle with that sine, in radians.", limit=1)
_angle("acos", np.arccos, "The angle with that cosine, in radians.", limit=1)
_angle("atan", np.arctan, "The angle with that tangent, in radians.")
_angle("radians", np.radians, "Degrees as radians.")
_angle("degrees", np.degrees, "Radians as degrees.")


@scalar("atan2", (FLOAT8, FLOAT8), FLOAT8, **_FLOAT, errors=NEVER)
def atan2(a: Datum, b: Datum) -> pa.Array:
    """The angle of the point (second, first), in radians."""
    return from_numpy(np.arctan2(to_numpy(a), to_numpy(b)), pa.float64(), a, b)
