"""Building blocks of transfers: claims under a condition, constant arguments, bounds made by hand.

`10 / x` falls steadily and never fails while x stays on one side of zero; over -1 .. 1 it does neither. Floats behave well
while they are finite: over 0 .. ∞ both ends of `exp(x)` succeed, yet exp(1000) overflows. `guarded` makes the claims of
such functions: monotone with errors AT_ENDS in the containers where a condition holds, and nothing elsewhere.

    @scalar("/", (INT4, INT4), INT4, **guarded(one_sided, EITHER, EITHER), stable=True)

`date_trunc(unit, t)` can fail in the middle of a box of arguments, since most texts between 'day' and 'year' are no units.
But the unit is nearly always a constant, and then it fails only by leaving the calendar, at the low end. Its trend needs no
condition, so only the errors have one:

    @scalar("date_trunc", (TEXT, TIMESTAMP), TIMESTAMP, trend=(None, UP), transfer=at_ends_where(unit_is_exact))

A transfer that describes the result by the function's own kernel is a `BoundTransfer`, which receives the function:

    @BoundTransfer
    def sign_transfer(function: Function, out: Type, a: Specs) -> Specs:
        specs = by_trend(function.claiming((UP,)), [a], out)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.specs import Specs, fit
from tidegate.expr.domain.transfer import all_of, any_of, by_trend
from tidegate.expr.model import order
from tidegate.expr.model.function import AT_ENDS, UP, BoundTransfer, Function, MaskedTrend, Trend, TrendClaim
from tidegate.expr.model.outcome import spread, to_bools, to_numpy
from tidegate.expr.model.types import Kind, Type

Condition = Callable[..., np.ndarray]
"""From the Specs of all arguments, a mask of containers."""

# ---------------------------------------------------------------- claims under a condition


class GuardedClaims(TypedDict):
    """The claims that `guarded` makes."""

    trend: Callable[..., TrendClaim]
    transfer: BoundTransfer


def guarded(holds: Condition, *trends: Trend) -> GuardedClaims:
    """Claims for the containers where `holds(*args)` is true: these trends, and errors AT_ENDS."""

    def trend(*args: Specs) -> TrendClaim:
        mask = holds(*args)
        return tuple(MaskedTrend(direction, mask) for direction in trends)

    return {"trend": trend, "transfer": at_ends_where(holds)}


def at_ends_where(holds: Condition) -> BoundTransfer:
    """The transfer by the function's trend, with errors AT_ENDS in the containers where `holds(*args)`."""

    def transfer(function: Function, out: Type, *args: Specs) -> Specs:
        specs = by_trend(function.claiming(function.trend, AT_ENDS), args, out)
        sure = holds(*args) | all_of([arg.exact for arg in args]) | specs.empty
        return specs.may_fail(~sure)

    return BoundTransfer(transfer)


def finite(*args: Specs) -> np.ndarray:
    """Where both bounds of every argument are known and finite."""
    return all_of([arg.never_infinite() for arg in args])


def one_sided(_: Specs, divisor: Specs) -> np.ndarray:
    """Where the divisor is surely above zero, or surely below."""
    zero = zero_of(divisor.type)
    low, high = divisor.bounds()
    above, below = order.less(zero, low), order.less(high, zero)
    result: np.ndarray = to_bools(pc.or_kleene(*fit(above, below)))
    return result


def finite_and_one_sided(a: Specs, divisor: Specs) -> np.ndarray:
    """Where floats are finite and the divisor is surely above or surely below zero."""
    result: np.ndarray = finite(a, divisor) & one_sided(a, divisor)
    return result


# ---------------------------------------------------------------- constants


def constant(specs: Specs) -> pa.Scalar | None:
    """The value that every row of every container has; None if rows differ, or one may be NULL or fail.

    NULL and errors count, because a transfer that has found a constant need not look at the argument again: the key of
    `j -> (CASE WHEN 1 / x > 0 THEN 'a' ELSE 'a' END)` is exactly 'a', but some rows fail, and what `j -> 'a'` may be does
    not say so.
    """
    if specs.low is None or len(specs.low) != 1 or not specs.low[0].is_valid:
        return None
    certain = specs.exact.all() and not specs.null.any() and not specs.error.any()
    return specs.low[0] if certain else None


def constants(args: Sequence[Specs]) -> list[pa.Scalar] | None:
    """The values of arguments that are all constants; None if one of them is not."""
    values = [constant(arg) for arg in args]
    return None if any(value is None for value in values) else values


def zero_of(type_: Type) -> pa.Scalar:
    """Zero of a number type."""
    return pa.scalar(Decimal(0) if type_.kind is Kind.NUMERIC else 0, type_.arrow)


# ---------------------------------------------------------------- bounds


def inherited_flags(*args: Specs) -> dict[str, np.ndarray]:
    """The flags that a strict function takes over from its arguments: `null`, `error` and `empty`."""
    return {
        "null": any_of([a.null for a in args]),
        "error": any_of([a.error for a in args]),
        "empty": any_of([a.empty for a in args]),
    }


def container_count(*described: Specs | np.ndarray | pa.Array) -> int:
    """How many containers all of these describe together."""
    return max(d.size if isinstance(d, Specs) else len(d) for d in described)


def stretch(bound: pa.Array, n: int) -> pa.Array:
    """A bound with one entry for each of n containers."""
    return spread(bound[0], n) if len(bound) == 1 else bound


def bound_integers(bound: pa.Array, n: int) -> tuple[np.ndarray, np.ndarray]:
    """A bound of a temporal type as n integers (0 where unknown), and where it is known."""
    bound = stretch(bound, n)
    return to_numpy(bound).astype(np.int64), to_bools(bound.is_valid())


def bound_floats(bound: pa.Array, n: int) -> np.ndarray:
    """A bound of a number type as n floats, NaN where unknown."""
    return to_numpy(stretch(bound, n).cast(pa.float64()), np.nan)


def temporal_bound(values: np.ndarray, known: np.ndarray, type_: pa.DataType) -> pa.Array:
    """A bound of a temporal type from integers, unknown where `known` is false."""
    width = np.int32 if pa.types.is_date32(type_) else np.int64
    return pa.array(np.where(known, values, 0).astype(width), mask=~known).view(type_)


# ---------------------------------------------------------------- transfers of number functions


@BoundTransfer
def nearly_rising(function: Function, out: Type, a: Specs) -> Specs:
    """The transfer of a float function that rises, but whose results may be wrong in the last digit.

    ln and the like are not rounded correctly, so of two neighbouring floats the greater may get the smaller result.
    Bounds are moved outwards by four units in the last place, far more than any library's error.
    """
    specs = by_trend(function.claiming((UP,), function.errors), [a], out)
    low, high = specs.bounds()
    return replace(specs, low=_outwards(low, -np.inf, specs.exact), high=_outwards(high, np.inf, specs.exact))


def _outwards(bound: pa.Array, towards: float, exact: np.ndarray) -> pa.Array:
    bound = stretch(bound, max(len(bound), len(exact)))
    values = bound.to_numpy(zero_copy_only=False)
    outer = values
    for _ in range(4):
        outer = np.nextafter(outer, values.dtype.type(towards))
    return pa.array(np.where(exact, values, outer), bound.type, mask=~to_bools(bound.is_valid()))


@BoundTransfer
def absolute_transfer(function: Function, out: Type, a: Specs) -> Specs:
    """The transfer of abs: down to zero, then up again."""
    inner = function.claiming(None, function.errors)
    specs = by_trend(inner, [a], out)
    zero = zero_of(out)
    low, high = a.bounds()
    n = max(len(low), len(high))
    low, high = stretch(low, n), stretch(high, n)
    (from_low, _), (from_high, _) = inner.run([low], out), inner.run([high], out)
    above = pc.fill_null(order.less(zero, low), False)
    below = pc.fill_null(order.less(high, zero), False)
    least = pc.if_else(above, from_low, pc.if_else(below, from_high, zero))
    greatest = order.greater(from_low, from_high)
    exact = a.exact & ~specs.error
    return Specs.ranged(
        out, least, greatest, null=a.null, error=specs.error, empty=a.empty, exact=exact, nan=a.nan
    )
