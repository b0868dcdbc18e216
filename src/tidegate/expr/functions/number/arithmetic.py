"""Arithmetic of integers and floats: `+ - * / %`, unary `+ -`, and the bit operators.

Integers keep their width as in PostgreSQL (`int2 + int2` is int2), and leaving it is the error of that row.
Whether any row can leave it is asked of the least and greatest argument first, which costs a fraction of the
addition itself; only then is an exact mask made. Integer division cuts towards zero, and `%` has the sign of
its first argument: -7 / 2 = -3, -7 % 2 = -1.

Floats follow IEEE, except that a finite operation which overflows to infinity is an error, as is division by
zero. Underflow to zero is none. `∞ - ∞` and `∞ * 0` are NaN, so a box of arguments with an infinite corner
may hold NaN inside; claims are made for finite boxes only.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.function import AT_ENDS, DOWN, EITHER, NEVER, UP, scalar
from tidegate.expr.functions.bounded import finite, finite_and_one_sided, guarded, one_sided
from tidegate.expr.outcome import (
    Datum,
    Errors,
    Outcome,
    failing,
    first_error,
    from_numpy,
    length,
    raw_numbers,
    spread,
    to_numpy,
    with_errors,
)
from tidegate.expr.spark_form import cast_form, float_result
from tidegate.expr.specs import Specs, fit, to_bools
from tidegate.expr.types import FLOATS, INT4, INTEGERS, NUMBERS, Type

INTEGER_NAMES = {pa.int16(): "smallint", pa.int32(): "integer", pa.int64(): "bigint"}
FLOAT_OVERFLOW = "value out of range: overflow"


# ---------------------------------------------------------------- integers


def limits(type_: pa.DataType) -> tuple[int, int]:
    """The least and the greatest integer of an Arrow integer type."""
    return -(2 ** (type_.bit_width - 1)), 2 ** (type_.bit_width - 1) - 1


def ends(arg: Datum) -> tuple[int, int]:
    """The least and the greatest value that occur; zeros if there is none."""
    if isinstance(arg, pa.Scalar):
        return (arg.as_py() or 0,) * 2
    found = pc.min_max(arg)
    return found["min"].as_py() or 0, found["max"].as_py() or 0


def out_of_range(mask: np.ndarray, type_: pa.DataType) -> Errors:
    """The error of integers that do not fit their type."""
    return failing(mask, f"{INTEGER_NAMES[type_]} out of range")


def _fits(a: Datum, b: Datum, operation: Callable[[int, int], int]) -> bool:
    least, most = limits(a.type)
    return all(least <= operation(x, y) <= most for x, y in product(ends(a), ends(b)))


def plus(a: Datum, b: Datum) -> Outcome:
    """The sum."""
    values = pc.add(a, b)
    if _fits(a, b, lambda x, y: x + y):
        return Outcome(values)
    x, y, z = to_numpy(a), to_numpy(b), to_numpy(values)
    # A sum has wrapped around exactly if its sign is neither's.
    return with_errors(values, out_of_range(((x ^ z) & (y ^ z)) < 0, a.type))


def minus(a: Datum, b: Datum) -> Outcome:
    """The difference."""
    values = pc.subtract(a, b)
    if _fits(a, b, lambda x, y: x - y):
        return Outcome(values)
    x, y, z = to_numpy(a), to_numpy(b), to_numpy(values)
    return with_errors(values, out_of_range(((x ^ y) & (x ^ z)) < 0, a.type))


def times(a: Datum, b: Datum) -> Outcome:
    """The product."""
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
    least, most = ends(b)
    if least > 0 or most < min(harmless):
        return b, None
    values = to_numpy(b, 1)
    bad = np.isin(values, harmless)
    if not bad.any():
        return b, None
    fixed = np.where(bad, values.dtype.type(1), values)
    return from_numpy(np.atleast_1d(fixed), b.type, *([b] if isinstance(b, pa.Array) else [])), values == 0


def divide(a: Datum, b: Datum) -> Outcome:
    """The quotient, cut towards zero."""
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
    """What division leaves, with the sign of the first argument."""
    n = length(a, b)
    # x % -1 is 0 as x % 1 is, and the machine traps on -2**63 % -1.
    safe, zero = _divisor(b, (0, -1))
    values = from_numpy(np.fmod(to_numpy(a), to_numpy(safe, 1)), a.type, a, b)
    return with_errors(
        values, None if zero is None else failing(np.broadcast_to(zero, n), "division by zero")
    )


def modulo_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """% over containers: order is kept within one multiple of a constant divisor; else |a % b| < |b|.

    1000 .. 1040 % 100 lies in 0 .. 40, but 1090 .. 1140 % 100 anywhere in 0 .. 99.
    """
    null, error, empty = a.null | b.null, a.error | b.error, a.empty | b.empty
    error = error | (~empty & ~one_sided(a, b))
    n = max(len(bound) for bound in (*a.bounds(), *b.bounds()))
    sides = [spread(bound[0], n) if len(bound) == 1 else bound for bound in (*a.bounds(), *b.bounds())]
    fills = (*limits(out.arrow), 1, 1)
    x, y, least, most = (
        to_numpy(side, fill).astype(np.int64) for side, fill in zip(sides, fills, strict=True)
    )
    known = to_bools(pc.and_(sides[2].is_valid(), sides[3].is_valid()))
    # Minus the greatest |b|, plus one: negative, as |-2**63| has no positive counterpart.
    floor = np.minimum(np.minimum(-np.abs(least), -np.abs(most)) + 1, 0)
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
    """The same number with the other sign."""
    values = pc.negate(a)
    least = limits(a.type)[0]
    overflow = None if ends(a)[0] != least else out_of_range(to_numpy(a) == least, a.type)
    return with_errors(values, overflow)


def same_type(a: Type) -> Type:
    """The type of the argument, with its digits."""
    return a


def same(a: pa.Array) -> pa.Array:
    """The number itself."""
    return a


for _type in INTEGERS:
    _sum: dict[str, Any] = {"errors": AT_ENDS, "stable": True}
    scalar("+", (_type, _type), _type, trend=(UP, UP), spark="({0} + {1})", **_sum)(plus)
    scalar("-", (_type, _type), _type, trend=(UP, DOWN), spark="({0} - {1})", **_sum)(minus)
    scalar("*", (_type, _type), _type, trend=(EITHER, EITHER), spark="({0} * {1})", **_sum)(times)
    _divides = guarded(divide, (EITHER, EITHER), one_sided)
    scalar("/", (_type, _type), _type, stable=True, spark=cast_form("{0} div {1}"), **_divides)(divide)
    for _name in ("%", "mod"):
        scalar(_name, (_type, _type), _type, stable=True, transfer=modulo_transfer, spark="({0} % {1})")(
            modulo
        )
    scalar("-", (_type,), _type, trend=(DOWN,), spark="(- {0})", **_sum)(negate)


# ---------------------------------------------------------------- bits


def bit_and_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """& over containers: a side that is never negative bounds the result to 0 .. its greatest value."""
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
    """The bits that are set in one but not in the other."""
    return pc.bit_wise_xor(a, b)


def bit_not(a: pa.Array) -> pa.Array:
    """Every bit turned: -1 - a."""
    return pc.bit_wise_not(a)


def _shifted(a: Datum, b: Datum, shift: Callable[[Any, Any], Any]) -> pa.Array:
    """PostgreSQL shifts as the machine does: by the count modulo the width, which is 32 for smallint too."""
    work = np.int64 if a.type == pa.int64() else np.int32
    count = np.bitwise_and(to_numpy(b).astype(work), np.dtype(work).itemsize * 8 - 1)
    values = shift(to_numpy(a).astype(work), count).astype(a.type.to_pandas_dtype())
    return from_numpy(values, a.type, a, b)


def shift_left(a: Datum, b: Datum) -> pa.Array:
    """The bits moved up; those that leave are lost."""
    return _shifted(a, b, np.left_shift)


def shift_right(a: Datum, b: Datum) -> pa.Array:
    """The bits moved down, the sign kept."""
    return _shifted(a, b, np.right_shift)


for _type in INTEGERS:
    _bits: dict[str, Any] = {"errors": NEVER, "stable": True}
    scalar("&", (_type, _type), _type, transfer=bit_and_transfer, spark="({0} & {1})", **_bits)(bit_and)
    scalar("|", (_type, _type), _type, spark="({0} | {1})", **_bits)(bit_or)
    scalar("#", (_type, _type), _type, spark="({0} ^ {1})", **_bits)(bit_xor)
    scalar("~", (_type,), _type, trend=(DOWN,), spark="(~ {0})", **_bits)(bit_not)
    scalar("<<", (_type, INT4), _type, errors=NEVER, stable=True)(shift_left)
    scalar(">>", (_type, INT4), _type, trend=(UP, None), errors=NEVER, stable=True)(shift_right)


# ---------------------------------------------------------------- floats


def in_range(values: pa.Array, *args: Datum | np.ndarray) -> Outcome:
    """An error where finite arguments gave an infinity."""
    # A sum is finite only if all of its terms are; if it overflows itself, that costs the closer look. (A dot product is
    # faster still, but OpenBLAS would start threads for it.)
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
    """The sum; an error if it overflows."""
    return in_range(pc.add(a, b), a, b)


def float_minus(a: Datum, b: Datum) -> Outcome:
    """The difference; an error if it overflows."""
    return in_range(pc.subtract(a, b), a, b)


def float_times(a: Datum, b: Datum) -> Outcome:
    """The product; an error if it overflows."""
    return in_range(pc.multiply(a, b), a, b)


def float_divide(a: Datum, b: Datum) -> Outcome:
    """The quotient; an error for a divisor of zero, and if it overflows."""
    x, y = to_numpy(a), to_numpy(b, 1)
    zero = y == 0
    if not zero.any():
        return in_range(pc.divide(a, b), a, b)
    n = length(a, b)
    failed = failing(np.broadcast_to(zero & ~np.isnan(x), n), "division by zero")
    # NaN / 0 is NaN: a divisor of 1 gives that too, and cannot overflow where the row fails already.
    with np.errstate(all="ignore"):
        values = from_numpy(x / np.where(zero, y.dtype.type(1), y), a.type, a, b)
    values, overflow = in_range(values, x, y)
    return with_errors(values, first_error(failed, overflow))


def float_negate(a: pa.Array) -> pa.Array:
    """The same number with the other sign."""
    return pc.negate(a)


for _type in FLOATS:
    _both: dict[str, Any] = {"stable": True, "exact": False}
    for _name, _trend, _kernel in (
        ("+", (UP, UP), float_plus),
        ("-", (UP, DOWN), float_minus),
        ("*", (EITHER, EITHER), float_times),
    ):
        _said = float_result(f"({{0}} {_name} {{1}})")
        scalar(_name, (_type, _type), _type, spark=_said, **_both, **guarded(_kernel, _trend, finite))(
            _kernel
        )
    _divides = guarded(float_divide, (EITHER, EITHER), finite_and_one_sided)
    _said = float_result(f"CAST({{0}} / {{1}} AS {_type.spark})", divides=True)
    scalar("/", (_type, _type), _type, spark=_said, **_both, **_divides)(float_divide)
    scalar("-", (_type,), _type, trend=(DOWN,), errors=NEVER, stable=True, spark="(- {0})")(float_negate)

for _type in NUMBERS:
    scalar("+", (_type,), same_type, trend=(UP,), errors=NEVER, stable=True, spark="{0}")(same)
