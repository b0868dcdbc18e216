"""Mathematics that few use: lcm, factorial, hyperbolic functions, angles in degrees, width_bucket.

Functions of degrees are exact where their results are: sind(30) is 0.5 and tand(45) is 1, as in PostgreSQL.

    width_bucket(5.35, 0.024, 10.06, 5)      3: the third of five buckets between 0.024 and 10.06
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa

from tidegate.expr.functions.number.arithmetic import INTEGER_NAMES, check_float_range
from tidegate.expr.model.function import NEVER, scalar
from tidegate.expr.model.outcome import Datum, Outcome, failing, from_numpy, to_numpy, with_errors
from tidegate.expr.model.types import FLOAT8, INT4, INT8, NUMERIC, numeric
from tidegate.expr.primitives.decimal import NUMERIC_OVERFLOW
from tidegate.expr.primitives.row_loop import RowFailure, each_row

OUT_OF_RANGE = "input is out of range"
_WIDE = Context(prec=80)
MAX_FACTORIAL = 33
"""33! has 37 digits, and 34! has 39: more than a numeric."""


@scalar("lcm", (INT4, INT4), INT4, overloads=[((INT8, INT8), INT8)], stable=True)
def lcm(a: Datum, b: Datum) -> Outcome:
    """The least common multiple; 0 if either number is 0."""
    limit = 2 ** (a.type.bit_width - 1)

    def compute(x: int, y: int) -> int:
        multiple = math.lcm(x, y)
        if multiple >= limit:
            raise RowFailure(f"{INTEGER_NAMES[a.type]} out of range")
        return multiple

    return each_row(compute, a.type, a, b)


@scalar("factorial", (INT8,), numeric(38, 0), stable=True)
def factorial(a: Datum) -> Outcome:
    """The factorial of a number up to 33; fails for negative and greater ones."""

    def compute(number: int) -> Decimal:
        if number < 0:
            raise RowFailure("factorial of a negative number is undefined")
        if number > MAX_FACTORIAL:
            raise RowFailure(NUMERIC_OVERFLOW)
        return Decimal(math.factorial(number))

    return each_row(compute, numeric(38, 0).arrow, a)


@scalar("min_scale", (NUMERIC,), INT4, errors=NEVER, stable=True)
def min_scale(a: Datum) -> Outcome:
    """How many digits behind the point a number needs."""
    return each_row(
        lambda number: max(0, -int(number.normalize(_WIDE).as_tuple().exponent)) if number else 0,
        pa.int32(),
        a,
    )


# ---------------------------------------------------------------- hyperbolic functions and angles


def _float_function(
    name: str,
    kernel: Callable[[np.ndarray], np.ndarray],
    doc: str,
    fails: Callable[[np.ndarray], np.ndarray] | None = None,
    *,
    overflows: bool = False,
) -> None:
    """Declares a function of one float8 that fails where `fails` says, or where it overflows."""

    def compute(a: pa.Array) -> Outcome:
        x = to_numpy(a, 1.0)
        values = from_numpy(kernel(x), a.type, a)
        outside = None if fails is None else failing(fails(x), OUT_OF_RANGE)
        if overflows:
            return check_float_range(values, x)
        return with_errors(values, outside)

    errors = {"errors": NEVER} if fails is None and not overflows else {}
    scalar(name, (FLOAT8,), FLOAT8, doc=doc, stable=True, exact=False, **errors)(compute)  # type: ignore[arg-type]  # one claim


def _cot(x: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / np.tan(x))


_float_function("sinh", np.sinh, "The hyperbolic sine.")
_float_function("cosh", np.cosh, "The hyperbolic cosine.")
_float_function("tanh", np.tanh, "The hyperbolic tangent.")
_float_function("asinh", np.arcsinh, "The inverse hyperbolic sine.")
_float_function("acosh", np.arccosh, "The inverse hyperbolic cosine of a number from 1 on.", lambda x: x < 1)
_float_function(
    "atanh", np.arctanh, "The inverse hyperbolic tangent of a number from -1 to 1.", lambda x: np.abs(x) > 1
)
_float_function("cot", _cot, "The cotangent of an angle in radians.", np.isinf)

_DEGREE = math.pi / 180.0
_SIN_30, _ONE_MINUS_COS_60 = math.sin(30 * _DEGREE), 1.0 - math.cos(60 * _DEGREE)


def _sine_of_quadrant(x: np.ndarray) -> np.ndarray:
    """The sine of 0 to 90 degrees, exact at 0, 30 and 90."""
    small = np.sin(x * _DEGREE) / _SIN_30 / 2.0
    large = 1.0 - (1.0 - np.cos((90.0 - x) * _DEGREE)) / _ONE_MINUS_COS_60 / 2.0
    return np.where(x <= 30, small, large)


def _cosine_of_quadrant(x: np.ndarray) -> np.ndarray:
    """The cosine of 0 to 90 degrees, exact at 0, 60 and 90."""
    small = 1.0 - (1.0 - np.cos(x * _DEGREE)) / _ONE_MINUS_COS_60 / 2.0
    large = np.sin((90.0 - x) * _DEGREE) / _SIN_30 / 2.0
    return np.where(x <= 60, small, large)


def _sind(x: np.ndarray) -> np.ndarray:
    turned = np.fmod(x, 360.0)
    sign = np.where(turned < 0, -1.0, 1.0)
    angle = np.abs(turned)
    sign = np.where(angle > 180, -sign, sign)
    angle = np.where(angle > 180, 360 - angle, angle)
    return np.asarray(sign * _sine_of_quadrant(np.where(angle > 90, 180 - angle, angle)))


def _cosd(x: np.ndarray) -> np.ndarray:
    angle = np.abs(np.fmod(x, 360.0))
    angle = np.where(angle > 180, 360 - angle, angle)
    sign = np.where(angle > 90, -1.0, 1.0)
    return np.asarray(sign * _cosine_of_quadrant(np.where(angle > 90, 180 - angle, angle)))


_float_function("sind", _sind, "The sine of an angle in degrees.", np.isinf)
_float_function("cosd", _cosd, "The cosine of an angle in degrees.", np.isinf)


# ---------------------------------------------------------------- buckets


def _check_buckets(count: int, low: Decimal | float, high: Decimal | float) -> None:
    if count <= 0:
        raise RowFailure("count must be greater than zero")
    if low == high:
        raise RowFailure("lower bound cannot equal upper bound")


def _numeric_bucket(value: Decimal, low: Decimal, high: Decimal, count: int) -> int:
    _check_buckets(count, low, high)
    share = (Fraction(value) - Fraction(low)) / (Fraction(high) - Fraction(low))
    return _bucket(math.floor(share * count) if 0 <= share < 1 else (-1 if share < 0 else count))


def _bucket(number: int) -> int:
    if number + 1 >= 2**31:
        raise RowFailure("integer out of range")
    return number + 1


@scalar("width_bucket", (NUMERIC, NUMERIC, NUMERIC, INT4), INT4, stable=True)
def numeric_width_bucket(value: Datum, low: Datum, high: Datum, count: Datum) -> Outcome:
    """The bucket of a value among equally wide ones between two bounds: 0 before them, count + 1 behind."""
    return each_row(_numeric_bucket, pa.int32(), value, low, high, count)


def _float_bucket(value: float, low: float, high: float, count: int) -> int:
    if count <= 0:
        raise RowFailure("count must be greater than zero")
    if math.isnan(value) or math.isnan(low) or math.isnan(high):
        raise RowFailure("operand, lower bound, and upper bound cannot be NaN")
    if math.isinf(low) or math.isinf(high):
        raise RowFailure("lower and upper bounds must be finite")
    _check_buckets(count, low, high)
    rising = low < high
    if value < low if rising else value > low:
        return 0
    if value >= high if rising else value <= high:
        return _bucket(count)
    width = high - low if rising else low - high
    away = value - low if rising else low - value
    share = (
        away / width
        if math.isfinite(width)
        else (away / 2) / (high / 2 - low / 2 if rising else low / 2 - high / 2)
    )
    return _bucket(min(int(count * share), count - 1))


@scalar("width_bucket", (FLOAT8, FLOAT8, FLOAT8, INT4), INT4, stable=True)
def float_width_bucket(value: Datum, low: Datum, high: Datum, count: Datum) -> Outcome:
    """The bucket of a value among equally wide ones between two bounds: 0 before them, count + 1 behind."""
    return each_row(_float_bucket, pa.int32(), value, low, high, count)
