"""Arithmetic and functions of numerics, exact to the digits of their types.

A numeric's scale is part of its type, so the result's type says beforehand how many digits are kept:

| operation on (p1,s1), (p2,s2) | digits after the point | rounding |
|---|---|---|
| `+ -` | max(s1, s2) | never; a sum beyond 38 digits is an error |
| `*` | s1 + s2, less where 38 digits do not hold that, see `product_type` | half away from zero |
| `/` | 18, or max(s1, s2) if greater and there is room | half away from zero |
| `%` | max(s1, s2) | never |

So a plain `numeric`, which is numeric(38,18), stays one under `+ - * / %`, `price * 2` has the scale of
price, and 0.1 * 0.1 is 0.01 exactly. What does not fit fails with "numeric field overflow"; nothing is
silently cut. Roots, logarithms and powers are in `numeric_maths.py`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import order, spark_form
from tidegate.expr.function import AT_ENDS, DOWN, EITHER, NEVER, UP, scalar
from tidegate.expr.functions.bounded import absolute_transfer, guarded, nought, one_sided
from tidegate.expr.functions.decimals import Mode, product, rescaled, rounded, total
from tidegate.expr.functions.division import quotient, remainder, whole_quotient
from tidegate.expr.functions.number import same_type
from tidegate.expr.outcome import Datum, Outcome, first_error, length, spread, to_numpy, with_errors
from tidegate.expr.specs import Specs
from tidegate.expr.types import DEFAULT_SCALE, INT4, MAX_PRECISION, NUMERIC, Type, numeric


def digits(type_: Type) -> tuple[int, int]:
    """Digits before and after the point."""
    assert type_.precision is not None
    assert type_.scale is not None
    return type_.precision - type_.scale, type_.scale


def sum_type(a: Type, b: Type) -> Type:
    """The greater scale, and one whole digit more than either has."""
    (whole_a, scale_a), (whole_b, scale_b) = digits(a), digits(b)
    scale = max(scale_a, scale_b)
    return numeric(max(whole_a, whole_b) + scale + 1, scale)


def product_type(a: Type, b: Type) -> Type:
    """Both scales together; where 38 digits do not hold that, as many as the whole part leaves room for.

    But never less than the greater scale of the two, or 18 if that is less: an overflow beats lost cents.
    """
    (whole_a, scale_a), (whole_b, scale_b) = digits(a), digits(b)
    whole, scale = whole_a + whole_b, scale_a + scale_b
    if whole + scale > MAX_PRECISION:
        scale = max(MAX_PRECISION - whole, min(max(scale_a, scale_b), DEFAULT_SCALE))
    return numeric(whole + scale, scale)


def quotient_type(a: Type, b: Type) -> Type:
    """At least 18 digits after the point."""
    (whole_a, scale_a), (_, scale_b) = digits(a), digits(b)
    whole, scale = whole_a + scale_b, max(scale_a, scale_b, DEFAULT_SCALE)
    if whole + scale > MAX_PRECISION:
        scale = max(MAX_PRECISION - whole, DEFAULT_SCALE)
    return numeric(whole + scale, scale)


def remainder_type(a: Type, b: Type) -> Type:
    """The greater scale, and the whole digits of the shorter."""
    (whole_a, scale_a), (whole_b, scale_b) = digits(a), digits(b)
    scale = max(scale_a, scale_b)
    return numeric(max(min(whole_a, whole_b) + scale, 1), scale)


def whole_type(a: Type, *_: Type) -> Type:
    """A whole number with room for rounding up."""
    return numeric(digits(a)[0] + 1, 0)


def whole_quotient_type(a: Type, b: Type) -> Type:
    """A whole number as long as the quotient may be."""
    return numeric(max(digits(a)[0] + digits(b)[1], 1), 0)


def rounded_type(a: Type, _: Type) -> Type:
    """The same scale, with room for rounding up."""
    whole, scale = digits(a)
    return numeric(whole + scale + 1, scale)


_NUMERICS = (NUMERIC, NUMERIC)
_REMAINDER = spark_form.numeric_result("{0} % {1}")


@scalar("+", _NUMERICS, sum_type, trend=(UP, UP), errors=AT_ENDS, stable=True, spark=spark_form.total("+"))
def plus(a: Datum, b: Datum, out: Type) -> Outcome:
    """The sum, exact."""
    return total(a, b, out.arrow)


@scalar("-", _NUMERICS, sum_type, trend=(UP, DOWN), errors=AT_ENDS, stable=True, spark=spark_form.total("-"))
def minus(a: Datum, b: Datum, out: Type) -> Outcome:
    """The difference, exact."""
    return total(a, b, out.arrow, minus=True)


@scalar(
    "*",
    _NUMERICS,
    product_type,
    trend=(EITHER, EITHER),
    errors=AT_ENDS,
    stable=True,
    spark=spark_form.product,
)
def times(a: Datum, b: Datum, out: Type) -> Outcome:
    """The product, rounded half away from zero if 38 digits do not hold it."""
    return product(a, b, out.arrow)


def divide(a: Datum, b: Datum, out: Type) -> Outcome:
    """The quotient with 18 digits after the point, rounded half away from zero."""
    return quotient(a, b, out.arrow)


scalar("/", _NUMERICS, quotient_type, stable=True, **guarded(divide, (EITHER, EITHER), one_sided))(divide)


def div(a: Datum, b: Datum, out: Type) -> Outcome:
    """The quotient, cut to a whole number towards zero."""
    return whole_quotient(a, b, out.arrow)


scalar("div", _NUMERICS, whole_quotient_type, stable=True, **guarded(div, (EITHER, EITHER), one_sided))(div)


def modulo_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """% over containers: the result lies between zero and the dividend; only a zero divisor fails."""
    zero = nought(a.type)
    low, high = a.bounds()
    low = pc.if_else(order.less(low, zero), low, zero)
    high = pc.if_else(order.less(zero, high), high, zero)
    empty = a.empty | b.empty
    error = a.error | b.error | (~empty & ~one_sided(a, b))
    # A bound with too many digits for the result is dropped: the type says no less.
    bounds = (rescaled(side, out.arrow).values for side in (low, high))
    return Specs.ranged(out, *bounds, null=a.null | b.null, error=error, empty=empty)


@scalar("%", _NUMERICS, remainder_type, stable=True, transfer=modulo_transfer, spark=_REMAINDER)
@scalar("mod", _NUMERICS, remainder_type, stable=True, transfer=modulo_transfer, spark=_REMAINDER)
def modulo(a: Datum, b: Datum, out: Type) -> Outcome:
    """What division leaves, with the sign of the first argument."""
    return remainder(a, b, out.arrow)


@scalar(
    "-",
    (NUMERIC,),
    same_type,
    trend=(DOWN,),
    errors=NEVER,
    stable=True,
    spark=spark_form.exact_sign("(- {0})"),
)
def negate(a: pa.Array) -> pa.Array:
    """The same number with the other sign."""
    return pc.negate(a)


def absolute(a: pa.Array) -> pa.Array:
    """The number without its sign."""
    return pc.abs(a)


scalar(
    "abs",
    (NUMERIC,),
    same_type,
    errors=NEVER,
    stable=True,
    spark=spark_form.exact_sign("abs({0})"),
    transfer=absolute_transfer(absolute, NEVER),
)(absolute)


def sign_type(_: Type) -> Type:
    """One digit."""
    return numeric(1, 0)


@scalar(
    "sign",
    (NUMERIC,),
    sign_type,
    trend=(UP,),
    errors=NEVER,
    stable=True,
    spark=spark_form.cast_form("sign({0})"),
)
def sign(a: pa.Array) -> pa.Array:
    """-1, 0 or 1."""
    return pc.sign(a).cast(pa.int8()).cast(pa.decimal128(3, 0)).cast(pa.decimal128(1, 0))


# ---------------------------------------------------------------- rounding


def _to_whole(name: str, mode: Mode, doc: str) -> None:
    def whole(a: pa.Array, out: Type) -> Outcome:
        return rounded(a, 0, out.arrow, mode)

    said = None if name == "trunc" else spark_form.whole_number(name)
    scalar(name, (NUMERIC,), whole_type, trend=(UP,), errors=AT_ENDS, stable=True, doc=doc, spark=said)(whole)


_to_whole("floor", Mode.FLOOR, "The greatest whole number that is not greater.")
_to_whole("ceil", Mode.CEIL, "The least whole number that is not less.")
_to_whole("ceiling", Mode.CEIL, "The least whole number that is not less.")
_to_whole("round", Mode.HALF_AWAY, "The nearest whole number, halves away from zero.")
_to_whole("trunc", Mode.TRUNC, "The whole part, cut towards zero.")


def _to_digits(name: str, mode: Mode, doc: str) -> None:
    def with_digits(a: Datum, n: Datum, out: Type) -> Outcome:
        if isinstance(n, pa.Scalar):
            return rounded(a, n.as_py() or 0, out.arrow, mode) if n.is_valid else _nothing(a, out)
        return _by_digits(spread(a, length(a, n)), n, out, mode)

    # Only for one number of digits: the corners -2147483648 and 2147483647 give 0 and the number itself, while 0
    # in between may round it up beyond 38 digits.
    claims = guarded(with_digits, (UP, UP), lambda _, n: n.exact)
    said = spark_form.rounded if name == "round" else None
    scalar(name, (NUMERIC, INT4), rounded_type, stable=True, doc=doc, spark=said, **claims)(with_digits)


def _nothing(a: pa.Array, out: Type) -> Outcome:
    return Outcome(pa.nulls(len(a), out.arrow))


def _by_digits(a: pa.Array, n: pa.Array, out: Type, mode: Mode) -> Outcome:
    """Rounds to a number of digits that differs by row: once for each of the few that make a difference."""
    wanted = np.clip(to_numpy(n), -MAX_PRECISION - 1, a.type.scale)
    values, errors = pa.nulls(len(a), out.arrow), None
    for count in np.unique(wanted):
        here = pa.array(wanted == count)
        got = rounded(pc.if_else(here, a, pa.scalar(None, a.type)), int(count), out.arrow, mode)
        values, errors = pc.if_else(here, got.values, values), first_error(errors, got.errors)
    valid = n.is_valid()
    return with_errors(pc.if_else(valid, values, pa.scalar(None, out.arrow)), errors)


_to_digits("round", Mode.HALF_AWAY, "Rounded to so many digits after the point, halves away from zero.")
_to_digits("trunc", Mode.TRUNC, "Cut to so many digits after the point, towards zero.")
