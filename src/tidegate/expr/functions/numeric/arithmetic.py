"""Arithmetic and functions of numerics, exact to the digits of their types.

`result_types.py` says which digits a result keeps. A result that does not fit fails with "numeric field overflow", and a
product or quotient that is not 0 but would be rounded to 0 with "numeric field underflow". Roots, logarithms and powers are in
`math.py`.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import (
    absolute_transfer,
    bound_floats,
    container_count,
    guarded,
    one_sided,
    zero_of,
)
from tidegate.expr.domain.specs import Specs
from tidegate.expr.domain.transfer import by_trend
from tidegate.expr.duckdb_sql import forms as duckdb_form
from tidegate.expr.functions.number.arithmetic import same_type
from tidegate.expr.functions.numeric.result_types import (
    constant_product,
    constant_quotient,
    digits,
    product_type,
    quotient_type,
    remainder_type,
    rounded_to_constant,
    rounded_type,
    sum_type,
    whole_quotient_type,
    whole_type,
)
from tidegate.expr.model import order
from tidegate.expr.model.function import (
    AT_ENDS,
    DOWN,
    EITHER,
    NEVER,
    UP,
    BoundTransfer,
    Function,
    MaskedTrend,
    scalar,
)
from tidegate.expr.model.outcome import Datum, Outcome, first_error, length, spread, to_numpy, with_errors
from tidegate.expr.model.types import INT4, MAX_PRECISION, NUMERIC, Type, numeric
from tidegate.expr.primitives.decimal import Rounding, add, fail_underflow, multiply, rescale, round_digits
from tidegate.expr.primitives.decimal_division import quotient, remainder, whole_quotient
from tidegate.expr.spark_sql import forms as spark_form

_NUMERICS = (NUMERIC, NUMERIC)


@scalar(
    "+",
    _NUMERICS,
    sum_type,
    trend=(UP, UP),
    errors=AT_ENDS,
    stable=True,
    spark=spark_form.sum_form("+"),
    duckdb=duckdb_form.exact_sum("+"),
)
def plus(a: Datum, b: Datum, out: Type) -> Outcome:
    """The exact sum."""
    return add(a, b, out.arrow)


@scalar(
    "-",
    _NUMERICS,
    sum_type,
    trend=(UP, DOWN),
    errors=AT_ENDS,
    stable=True,
    spark=spark_form.sum_form("-"),
    duckdb=duckdb_form.exact_sum("-"),
)
def minus(a: Datum, b: Datum, out: Type) -> Outcome:
    """The exact difference."""
    return add(a, b, out.arrow, minus=True)


def _least(specs: Specs) -> np.ndarray:
    """The least size of a number that is not 0."""
    n = container_count(specs, *specs.bounds())
    low, high = (bound_floats(bound, n) for bound in specs.bounds())
    size = np.where(low > 0, low, np.where(high < 0, -high, 0.0))
    return np.maximum(size, 10.0 ** -digits(specs.type)[1])


def _greatest(specs: Specs) -> np.ndarray:
    """The greatest size of a number."""
    n = container_count(specs, *specs.bounds())
    low, high = (np.abs(bound_floats(bound, n)) for bound in specs.bounds())
    size = np.maximum(low, high)
    return np.where(np.isnan(size), 10.0 ** digits(specs.type)[0], size)


_HALF_UNIT = 0.51
"""A little more than the half of a last digit, from which on a number is not rounded to 0: floats compare roughly."""


@BoundTransfer
def product_transfer(function: Function, out: Type, a: Specs, b: Specs) -> Specs:
    """A product over containers; where digits are cut it may fail if both factors come near 0."""
    scale = digits(out)[1]
    sure = np.asarray([scale >= digits(a.type)[1] + digits(b.type)[1]])
    sure = sure | (_least(a) * _least(b) >= _HALF_UNIT * 10.0**-scale)
    specs = by_trend(function.claiming((EITHER, EITHER), AT_ENDS), (a, b), out)
    return specs.may_fail(~(sure | (a.exact & b.exact) | specs.empty))


@scalar(
    "*", _NUMERICS, product_type, constant_result=constant_product, trend=(EITHER, EITHER), transfer=product_transfer,
    stable=True, spark=spark_form.product_form, duckdb=duckdb_form.exact_product
)  # fmt: skip
def times(a: Datum, b: Datum, out: Type) -> Outcome:
    """The product: exact up to 20 digits after the point, else rounded half away from zero."""
    product = multiply(a, b, out.arrow)
    if out.scale == a.type.scale + b.type.scale:
        return product
    return fail_underflow(product, a, b)


@BoundTransfer
def quotient_transfer(function: Function, out: Type, a: Specs, b: Specs) -> Specs:
    """A quotient over containers: nothing is known where the divisor may be 0; near 0 it may be cut to 0."""
    one = one_sided(a, b)
    trends = (MaskedTrend(EITHER, one), MaskedTrend(EITHER, one))
    specs = by_trend(function.claiming(trends, AT_ENDS), (a, b), out)
    enough = _least(a) >= _greatest(b) * _HALF_UNIT * 10.0 ** -digits(out)[1]
    return specs.may_fail(~((one & enough) | (a.exact & b.exact) | specs.empty))


@scalar(
    "/", _NUMERICS, quotient_type, constant_result=constant_quotient, transfer=quotient_transfer,
    trend=lambda a, b: (MaskedTrend(EITHER, one_sided(a, b)),) * 2, stable=True,
)  # fmt: skip
def divide(a: Datum, b: Datum, out: Type) -> Outcome:
    """The quotient with at least 18 digits after the point, rounded half away from zero."""
    return fail_underflow(quotient(a, b, out.arrow), a)


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
    declare = partial(scalar, name, (NUMERIC, INT4), rounded_type, constant_result=rounded_to_constant)
    declare(**claims, stable=True, doc=doc, spark=form)(with_digits)


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
