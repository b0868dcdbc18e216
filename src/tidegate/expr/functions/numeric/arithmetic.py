"""Arithmetic and functions of numerics, exact to the digits of their types.

A numeric's scale is part of its type, so the result's type fixes how many digits are kept:

| operation on (p1,s1), (p2,s2) | digits after the point | rounding |
|---|---|---|
| `+ -` | max(s1, s2) | never; a sum beyond 38 digits is an error |
| `*` | s1 + s2, less if that exceeds 38 digits, see `product_type` | half away from zero |
| `/` | 18, or max(s1, s2) if greater and there is room | half away from zero |
| `%` | max(s1, s2) | never |

So a plain `numeric`, which is numeric(38,18), keeps its type under `+ - * / %`, `price * 2` has the scale of
price, and 0.1 * 0.1 is 0.01 exactly. A result that does not fit fails with "numeric field overflow"; digits are
never dropped silently. Roots, logarithms and powers are in `math.py`.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import absolute_transfer, guarded, one_sided, zero_of
from tidegate.expr.domain.specs import Specs
from tidegate.expr.functions.number.arithmetic import same_type
from tidegate.expr.model import order
from tidegate.expr.model.function import AT_ENDS, DOWN, EITHER, NEVER, UP, scalar
from tidegate.expr.model.outcome import Datum, Outcome, first_error, length, spread, to_numpy, with_errors
from tidegate.expr.model.types import DEFAULT_SCALE, INT4, MAX_PRECISION, NUMERIC, Type, numeric
from tidegate.expr.primitives.decimal import Rounding, add, multiply, rescale, round_digits
from tidegate.expr.primitives.decimal_division import quotient, remainder, whole_quotient
from tidegate.expr.spark_sql import forms as spark_form


def digits(type_: Type) -> tuple[int, int]:
    """The number of digits before and after the point."""
    assert type_.precision is not None
    assert type_.scale is not None
    return type_.precision - type_.scale, type_.scale


def sum_type(a: Type, b: Type) -> Type:
    """The type of a sum: the greater scale, and one whole digit more than either side."""
    (whole_a, scale_a), (whole_b, scale_b) = digits(a), digits(b)
    scale = max(scale_a, scale_b)
    return numeric(max(whole_a, whole_b) + scale + 1, scale)


def product_type(a: Type, b: Type) -> Type:
    """The type of a product: the sum of both scales, as far as 38 digits allow.

    Never less than the greater scale of the two, or 18 if that is less: an overflow is better than lost cents.
    """
    (whole_a, scale_a), (whole_b, scale_b) = digits(a), digits(b)
    whole, scale = whole_a + whole_b, scale_a + scale_b
    if whole + scale > MAX_PRECISION:
        scale = max(MAX_PRECISION - whole, min(max(scale_a, scale_b), DEFAULT_SCALE))
    return numeric(whole + scale, scale)


def quotient_type(a: Type, b: Type) -> Type:
    """The type of a quotient: a scale of at least 18."""
    (whole_a, scale_a), (_, scale_b) = digits(a), digits(b)
    whole, scale = whole_a + scale_b, max(scale_a, scale_b, DEFAULT_SCALE)
    if whole + scale > MAX_PRECISION:
        scale = max(MAX_PRECISION - whole, DEFAULT_SCALE)
    return numeric(whole + scale, scale)


def remainder_type(a: Type, b: Type) -> Type:
    """The type of a remainder: the greater scale, and the fewer whole digits."""
    (whole_a, scale_a), (whole_b, scale_b) = digits(a), digits(b)
    scale = max(scale_a, scale_b)
    return numeric(max(min(whole_a, whole_b) + scale, 1), scale)


def whole_type(a: Type, *_: Type) -> Type:
    """The type of a rounded number: scale 0, with room for rounding up."""
    return numeric(digits(a)[0] + 1, 0)


def whole_quotient_type(a: Type, b: Type) -> Type:
    """The type of `div`: scale 0, with all whole digits of the quotient."""
    return numeric(max(digits(a)[0] + digits(b)[1], 1), 0)


def rounded_type(a: Type, _: Type) -> Type:
    """The type of round(x, n): the same scale, with room for rounding up."""
    whole, scale = digits(a)
    return numeric(whole + scale + 1, scale)


_NUMERICS = (NUMERIC, NUMERIC)


@scalar("+", _NUMERICS, sum_type, trend=(UP, UP), errors=AT_ENDS, stable=True, spark=spark_form.sum_form("+"))
def plus(a: Datum, b: Datum, out: Type) -> Outcome:
    """The exact sum."""
    return add(a, b, out.arrow)


@scalar(
    "-", _NUMERICS, sum_type, trend=(UP, DOWN), errors=AT_ENDS, stable=True, spark=spark_form.sum_form("-")
)
def minus(a: Datum, b: Datum, out: Type) -> Outcome:
    """The exact difference."""
    return add(a, b, out.arrow, minus=True)


@scalar(
    "*", _NUMERICS, product_type, trend=(EITHER, EITHER), errors=AT_ENDS, stable=True, spark=spark_form.product_form
)  # fmt: skip
def times(a: Datum, b: Datum, out: Type) -> Outcome:
    """The product, rounded half away from zero if it needs more than 38 digits."""
    return multiply(a, b, out.arrow)


@scalar("/", _NUMERICS, quotient_type, **guarded(one_sided, EITHER, EITHER), stable=True)
def divide(a: Datum, b: Datum, out: Type) -> Outcome:
    """The quotient with 18 digits after the point, rounded half away from zero."""
    return quotient(a, b, out.arrow)


@scalar("div", _NUMERICS, whole_quotient_type, **guarded(one_sided, EITHER, EITHER), stable=True)
def div(a: Datum, b: Datum, out: Type) -> Outcome:
    """The quotient, truncated to a whole number."""
    return whole_quotient(a, b, out.arrow)


def modulo_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """`%` over containers: between zero and the dividend; only a zero divisor fails."""
    zero = zero_of(a.type)
    low, high = a.bounds()
    low = pc.if_else(order.less(low, zero), low, zero)
    high = pc.if_else(order.less(zero, high), high, zero)
    empty = a.empty | b.empty
    error = a.error | b.error | (~empty & ~one_sided(a, b))
    # A bound with too many digits for the result is dropped, since the type itself limits the result.
    bounds = (rescale(side, out.arrow).values for side in (low, high))
    return Specs.ranged(out, *bounds, null=a.null | b.null, error=error, empty=empty)


@scalar(
    "%", _NUMERICS, remainder_type, aliases=("mod",), transfer=modulo_transfer, stable=True,
    spark=spark_form.numeric_result("{0} % {1}"),
)  # fmt: skip
def modulo(a: Datum, b: Datum, out: Type) -> Outcome:
    """The remainder, with the sign of the dividend."""
    return remainder(a, b, out.arrow)


_single = partial(scalar, params=(NUMERIC,), errors=NEVER, stable=True)


@_single("-", result=same_type, trend=(DOWN,), spark=spark_form.exact_sign("(- {0})"))
def negate(a: pa.Array) -> pa.Array:
    """The negated number."""
    return pc.negate(a)


@_single("abs", result=same_type, transfer=absolute_transfer, spark=spark_form.exact_sign("abs({0})"))
def absolute(a: pa.Array) -> pa.Array:
    """The absolute value."""
    return pc.abs(a)


def sign_type(_: Type) -> Type:
    """The type of sign: one digit."""
    return numeric(1, 0)


@_single("sign", result=sign_type, trend=(UP,), spark=spark_form.cast_form("sign({0})"))
def sign(a: pa.Array) -> pa.Array:
    """-1, 0 or 1."""
    return pc.sign(a).cast(pa.int8()).cast(pa.decimal128(3, 0)).cast(pa.decimal128(1, 0))


# ---------------------------------------------------------------- rounding


def _to_whole(name: str, mode: Rounding, doc: str, aliases: tuple[str, ...] = ()) -> None:
    def whole(a: pa.Array, out: Type) -> Outcome:
        return round_digits(a, 0, out.arrow, mode)

    form = None if name == "trunc" else spark_form.whole_number(name)
    declare = partial(scalar, name, (NUMERIC,), whole_type, aliases=aliases)
    declare(trend=(UP,), errors=AT_ENDS, stable=True, doc=doc, spark=form)(whole)


_to_whole("floor", Rounding.FLOOR, "The greatest whole number that is not greater.")
_to_whole("ceil", Rounding.CEIL, "The least whole number that is not less.", aliases=("ceiling",))
_to_whole("round", Rounding.HALF_AWAY, "The nearest whole number, halves away from zero.")
_to_whole("trunc", Rounding.TRUNC, "The whole part, cut towards zero.")


def _to_digits(name: str, mode: Rounding, doc: str) -> None:
    def with_digits(a: Datum, n: Datum, out: Type) -> Outcome:
        if isinstance(n, pa.Scalar):
            return round_digits(a, n.as_py() or 0, out.arrow, mode) if n.is_valid else _nulls(a, out)
        return _by_digits(spread(a, length(a, n)), n, out, mode)

    # Only for one number of digits: the corners -2147483648 and 2147483647 give 0 and the number itself, while 0
    # in between may round it up beyond 38 digits.
    claims = guarded(lambda _, n: n.exact, UP, UP)
    form = spark_form.round_form if name == "round" else None
    scalar(name, (NUMERIC, INT4), rounded_type, **claims, stable=True, doc=doc, spark=form)(with_digits)


def _nulls(a: pa.Array, out: Type) -> Outcome:
    return Outcome(pa.nulls(len(a), out.arrow))


def _by_digits(a: pa.Array, n: pa.Array, out: Type, mode: Rounding) -> Outcome:
    """Rounds to a number of digits that differs by row: one pass per distinct number."""
    digit_counts = np.clip(to_numpy(n), -MAX_PRECISION - 1, a.type.scale)
    values, errors = pa.nulls(len(a), out.arrow), None
    for count in np.unique(digit_counts):
        here = pa.array(digit_counts == count)
        rounded = round_digits(pc.if_else(here, a, pa.scalar(None, a.type)), int(count), out.arrow, mode)
        values, errors = pc.if_else(here, rounded.values, values), first_error(errors, rounded.errors)
    valid = n.is_valid()
    return with_errors(pc.if_else(valid, values, pa.scalar(None, out.arrow)), errors)


_to_digits("round", Rounding.HALF_AWAY, "Rounded to so many digits after the point, halves away from zero.")
_to_digits("trunc", Rounding.TRUNC, "Cut to so many digits after the point, towards zero.")
