"""Arithmetic of integers and floats: `+ - * / %`, unary `+ -`, and the bit operators.

Integers keep their width as in PostgreSQL (`int2 + int2` is int2), and overflow is an error of that row.
The least and greatest argument show whether any row can overflow, at a fraction of the cost of the addition;
only then is an exact mask computed. Integer division truncates towards zero, and `%` has the sign of its
first argument: -7 / 2 = -3, -7 % 2 = -1.

Floats follow IEEE, except that a finite operation which overflows to infinity is an error, as is division by
zero. Underflow to zero is no error. `∞ - ∞` and `∞ * 0` are NaN, so a box of arguments with an infinite corner
may contain NaN; claims hold for finite boxes only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import finite, finite_and_one_sided, guarded, one_sided
from tidegate.expr.domain.specs import Specs, fit
from tidegate.expr.model.function import AT_ENDS, DOWN, EITHER, NEVER, UP, Signature, scalar
from tidegate.expr.model.outcome import (
    Datum,
    Errors,
    Outcome,
    failing,
    first_error,
    from_numpy,
    length,
    raw_numbers,
    spread,
    to_bools,
    to_numpy,
    with_errors,
)
from tidegate.expr.model.types import FLOATS, INT4, INTEGERS, NUMBERS, Type
from tidegate.expr.spark_sql.forms import cast_form, float_result

INTEGER_NAMES = {pa.int16(): "smallint", pa.int32(): "integer", pa.int64(): "bigint"}
FLOAT_OVERFLOW = "value out of range: overflow"
PAIRS_OF_INTEGERS: list[Signature] = [((type_, type_), type_) for type_ in INTEGERS]
SINGLE_INTEGERS: list[Signature] = [((type_,), type_) for type_ in INTEGERS]


# ---------------------------------------------------------------- integers


def limits(type_: pa.DataType) -> tuple[int, int]:
    """The least and the greatest integer of an Arrow integer type."""
    return -(2 ** (type_.bit_width - 1)), 2 ** (type_.bit_width - 1) - 1


def ends(arg: Datum) -> tuple[int, int]:
    """The least and the greatest value that occur; zeros if there are none."""
    if isinstance(arg, pa.Scalar):
        return (arg.as_py() or 0,) * 2
    least_and_greatest = pc.min_max(arg)
    return least_and_greatest["min"].as_py() or 0, least_and_greatest["max"].as_py() or 0


def out_of_range(mask: np.ndarray, type_: pa.DataType) -> Errors:
    """The error of integers that do not fit their type."""
    return failing(mask, f"{INTEGER_NAMES[type_]} out of range")


def _fits(a: Datum, b: Datum, operation: Callable[[int, int], int]) -> bool:
    least, greatest = limits(a.type)
    return all(least <= operation(x, y) <= greatest for x, y in product(ends(a), ends(b)))


def plus(a: Datum, b: Datum) -> Outcome:
    """The sum; fails if it does not fit the type."""
    values = pc.add(a, b)
    if _fits(a, b, lambda x, y: x + y):
        return Outcome(values)
    x, y, z = to_numpy(a), to_numpy(b), to_numpy(values)
    # A sum has wrapped around exactly if its sign differs from both signs.
    return with_errors(values, out_of_range(((x ^ z) & (y ^ z)) < 0, a.type))


def minus(a: Datum, b: Datum) -> Outcome:
    """The difference; fails if it does not fit the type."""
    values = pc.subtract(a, b)
    if _fits(a, b, lambda x, y: x - y):
        return Outcome(values)
    x, y, z = to_numpy(a), to_numpy(b), to_numpy(values)
    return with_errors(values, out_of_range(((x ^ y) & (x ^ z)) < 0, a.type))


def times(a: Datum, b: Datum) -> Outcome:
    """The product; fails if it does not fit the type."""
    values = pc.multiply(a, b)
    if _fits(a, b, lambda x, y: x * y):
        return Outcome(values)
    x, y, z = to_numpy(a).astype(np.int64), to_numpy(b).astype(np.int64), to_numpy(values)
    if a.type != pa.int64():
        return with_errors(values, out_of_range(x * y != z, a.type))
    # The float product is right to 52 bits. Well below 2**63 nothing wraps, well above all does; in between a
    # product that has wrapped around has the wrong sign.
    near = x.astype(np.float64) * y.astype(np.float64)
    wrapped = (np.abs(near) > 1.5 * 2.0**63) | ((np.abs(near) > 2.0**62) & ((z < 0) != (near < 0)))
    return with_errors(values, out_of_range(wrapped, a.type))


def _divisor(b: Datum, harmless: tuple[int, ...]) -> tuple[Datum, np.ndarray | None]:
    """`b` with 1 in place of the values that must not be divided by, and where it is zero."""
    least, greatest = ends(b)
    if least > 0 or greatest < min(harmless):
        return b, None
    values = to_numpy(b, 1)
    bad = np.isin(values, harmless)
    if not bad.any():
        return b, None
    fixed = np.where(bad, values.dtype.type(1), values)
    return from_numpy(np.atleast_1d(fixed), b.type, *([b] if isinstance(b, pa.Array) else [])), values == 0


def divide(a: Datum, b: Datum) -> Outcome:
    """The quotient, truncated towards zero; fails for a divisor of zero."""
    n = length(a, b)
    safe, zero = _divisor(b, (0,))
    if zero is not None and isinstance(b, pa.Scalar):
        safe = safe[0]
    values = pc.divide(a, safe)
    errors = None if zero is None else failing(np.broadcast_to(zero, n), "division by zero")
    if ends(a)[0] == limits(a.type)[0]:
        overflow = np.broadcast_to((to_numpy(a) == limits(a.type)[0]) & (to_numpy(b) == -1), n)
        errors = first_error(errors, out_of_range(overflow, a.type))
    return with_errors(values, errors)


def modulo(a: Datum, b: Datum) -> Outcome:
    """The remainder, with the sign of the dividend; fails for a divisor of zero."""
    n = length(a, b)
    # x % -1 is 0 as x % 1 is, and the machine traps on -2**63 % -1.
    safe, zero = _divisor(b, (0, -1))
    values = from_numpy(np.fmod(to_numpy(a), to_numpy(safe, 1)), a.type, a, b)
    return with_errors(
        values, None if zero is None else failing(np.broadcast_to(zero, n), "division by zero")
    )


def modulo_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """`%` over containers: ordered within one multiple of a constant divisor, else |a % b| < |b|.

    1000 .. 1040 % 100 lies in 0 .. 40, but 1090 .. 1140 % 100 anywhere in 0 .. 99.
    """
    null, error, empty = a.null | b.null, a.error | b.error, a.empty | b.empty
    error = error | (~empty & ~one_sided(a, b))
    n = max(len(bound) for bound in (*a.bounds(), *b.bounds()))
    sides = [spread(bound[0], n) if len(bound) == 1 else bound for bound in (*a.bounds(), *b.bounds())]
    fills = (*limits(out.arrow), 1, 1)
    x, y, least, greatest = (
        to_numpy(side, fill).astype(np.int64) for side, fill in zip(sides, fills, strict=True)
    )
    known = to_bools(pc.and_(sides[2].is_valid(), sides[3].is_valid()))
    # Minus the greatest |b|, plus one: negative, as |-2**63| has no positive counterpart.
    floor = np.minimum(np.minimum(-np.abs(least), -np.abs(greatest)) + 1, 0)
    low = np.where(x >= 0, 0, np.maximum(x, floor))
    high = np.where(y <= 0, 0, np.minimum(y, -floor))
    d = np.where((least == 0) | (least == -1), 1, least)
    rest_x, rest_y = np.fmod(x, d), np.fmod(y, d)
    same_block = ((x >= 0) | (y <= 0)) & ((x - rest_x) // d == (y - rest_y) // d)
    ordered = b.exact & (least != 0) & same_block
    low, high = np.where(ordered, rest_x, low), np.where(ordered, rest_y, high)
    bounds = (pa.array(side, pa.int64(), mask=~known).cast(out.arrow) for side in (low, high))
    return Specs.ranged(out, *bounds, null=null, error=error, empty=empty)


def negate(a: pa.Array) -> Outcome:
    """The negated number; fails if it does not fit the type."""
    values = pc.negate(a)
    least = limits(a.type)[0]
    overflow = None if ends(a)[0] != least else out_of_range(to_numpy(a) == least, a.type)
    return with_errors(values, overflow)


def same_type(a: Type) -> Type:
    """The type of the argument, with its digits."""
    return a


def identity(a: pa.Array) -> pa.Array:
    """The number itself."""
    return a


integers = partial(scalar, overloads=PAIRS_OF_INTEGERS, stable=True)
integers("+", trend=(UP, UP), errors=AT_ENDS, spark="({0} + {1})")(plus)
integers("-", trend=(UP, DOWN), errors=AT_ENDS, spark="({0} - {1})")(minus)
integers("*", trend=(EITHER, EITHER), errors=AT_ENDS, spark="({0} * {1})")(times)
integers("/", **guarded(one_sided, EITHER, EITHER), spark=cast_form("{0} div {1}"))(divide)
integers("%", aliases=("mod",), transfer=modulo_transfer, spark="({0} % {1})")(modulo)
integers("-", overloads=SINGLE_INTEGERS, trend=(DOWN,), errors=AT_ENDS, spark="(- {0})")(negate)


# ---------------------------------------------------------------- bits


def bit_and_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """`&` over containers: a side that is never negative bounds the result to 0 .. its greatest value."""
    zero = pa.scalar(0, out.arrow)
    highs = []
    for arg in (a, b):
        low, high = arg.bounds()
        low, high = (spread(x[0], arg.size) if len(x) == 1 else x for x in (low, high))
        positive = pc.fill_null(pc.greater_equal(low, zero), False)
        top = pc.if_else(positive, pc.fill_null(high, limits(out.arrow)[1]), pa.scalar(None, out.arrow))
        highs.append(top)
    high = pc.min_element_wise(*fit(*highs), skip_nulls=True)
    low = pc.if_else(high.is_valid(), zero, pa.scalar(None, out.arrow))
    return Specs.ranged(
        out, low, high, null=a.null | b.null, error=a.error | b.error, empty=a.empty | b.empty
    )


def bit_and(a: Datum, b: Datum) -> pa.Array:
    """The bits that are set in both."""
    return pc.bit_wise_and(a, b)


def bit_or(a: Datum, b: Datum) -> pa.Array:
    """The bits that are set in either."""
    return pc.bit_wise_or(a, b)


def bit_xor(a: Datum, b: Datum) -> pa.Array:
    """The bits that are set in exactly one of both."""
    return pc.bit_wise_xor(a, b)


def bit_not(a: pa.Array) -> pa.Array:
    """All bits inverted: -1 - a."""
    return pc.bit_wise_not(a)


def _shifted(a: Datum, b: Datum, shift: Callable[[Any, Any], Any]) -> pa.Array:
    """PostgreSQL shifts as the machine does: by the count modulo the width, which is 32 for smallint too."""
    work = np.int64 if a.type == pa.int64() else np.int32
    count = np.bitwise_and(to_numpy(b).astype(work), np.dtype(work).itemsize * 8 - 1)
    values = shift(to_numpy(a).astype(work), count).astype(a.type.to_pandas_dtype())
    return from_numpy(values, a.type, a, b)


def shift_left(a: Datum, b: Datum) -> pa.Array:
    """The bits shifted left; those that leave are lost."""
    return _shifted(a, b, np.left_shift)


def shift_right(a: Datum, b: Datum) -> pa.Array:
    """The bits shifted right; the sign is kept."""
    return _shifted(a, b, np.right_shift)


shifted = [((type_, INT4), type_) for type_ in INTEGERS]
integers("&", errors=NEVER, transfer=bit_and_transfer, spark="({0} & {1})")(bit_and)
integers("|", errors=NEVER, spark="({0} | {1})")(bit_or)
integers("#", errors=NEVER, spark="({0} ^ {1})")(bit_xor)
integers("~", overloads=SINGLE_INTEGERS, errors=NEVER, trend=(DOWN,), spark="(~ {0})")(bit_not)
integers("<<", overloads=shifted, errors=NEVER)(shift_left)
integers(">>", overloads=shifted, errors=NEVER, trend=(UP, None))(shift_right)


# ---------------------------------------------------------------- floats


def check_float_range(values: pa.Array, *args: Datum | np.ndarray) -> Outcome:
    """The values, with an error where finite arguments gave an infinity."""
    # A sum is finite only if all of its terms are; if the sum overflows itself, the values are checked one by one.
    # (A dot product is faster still, but OpenBLAS would start threads for it.)
    with np.errstate(all="ignore"):
        if np.isfinite(np.sum(raw_numbers(values))):
            return Outcome(values)
    infinite = np.isinf(to_numpy(values))
    if not infinite.any():
        return Outcome(values)
    for arg in args:
        infinite = infinite & ~np.isinf(arg if isinstance(arg, np.ndarray) else to_numpy(arg))
    return with_errors(values, failing(infinite, FLOAT_OVERFLOW))


def float_plus(a: Datum, b: Datum) -> Outcome:
    """The sum; fails if it overflows."""
    return check_float_range(pc.add(a, b), a, b)


def float_minus(a: Datum, b: Datum) -> Outcome:
    """The difference; fails if it overflows."""
    return check_float_range(pc.subtract(a, b), a, b)


def float_times(a: Datum, b: Datum) -> Outcome:
    """The product; fails if it overflows."""
    return check_float_range(pc.multiply(a, b), a, b)


def float_divide(a: Datum, b: Datum) -> Outcome:
    """The quotient; fails for a divisor of zero and if it overflows."""
    x, y = to_numpy(a), to_numpy(b, 1)
    zero = y == 0
    if not zero.any():
        return check_float_range(pc.divide(a, b), a, b)
    n = length(a, b)
    failed = failing(np.broadcast_to(zero & ~np.isnan(x), n), "division by zero")
    # NaN / 0 is NaN: a divisor of 1 gives that too, and cannot overflow where the row fails already.
    with np.errstate(all="ignore"):
        values = from_numpy(x / np.where(zero, y.dtype.type(1), y), a.type, a, b)
    values, overflow = check_float_range(values, x, y)
    return with_errors(values, first_error(failed, overflow))


def float_negate(a: pa.Array) -> pa.Array:
    """The negated number."""
    return pc.negate(a)


floats = partial(scalar, overloads=[((type_, type_), type_) for type_ in FLOATS], stable=True, exact=False)
floats("+", **guarded(finite, UP, UP), spark=float_result("({0} + {1})"))(float_plus)
floats("-", **guarded(finite, UP, DOWN), spark=float_result("({0} - {1})"))(float_minus)
floats("*", **guarded(finite, EITHER, EITHER), spark=float_result("({0} * {1})"))(float_times)
for _type in FLOATS:
    scalar(
        "/", (_type, _type), _type, **guarded(finite_and_one_sided, EITHER, EITHER), stable=True, exact=False,
        spark=float_result(f"CAST({{0}} / {{1}} AS {_type.spark})", divides=True),
    )(float_divide)  # fmt: skip
    scalar("-", (_type,), _type, trend=(DOWN,), errors=NEVER, stable=True, spark="(- {0})")(float_negate)

scalar(
    "+", overloads=[((t,), same_type) for t in NUMBERS], trend=(UP,), errors=NEVER, stable=True, spark="{0}"
)(identity)
