"""Transfers for functions whose good behaviour depends on where their arguments lie.

`10 / x` falls steadily and never fails while x stays on one side of zero; over -1 .. 1 it does neither.
Floats are well behaved while they are finite: over 0 .. ∞ both ends of `exp(x)` succeed, yet exp(1000)
overflows. `guarded` makes the claims of such functions: monotone with errors AT_ENDS in the containers where
a condition holds, and nothing elsewhere.

    scalar("/", (INT4, INT4), INT4, **guarded(divide, (EITHER, EITHER), one_sided))(divide)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import order
from tidegate.expr.function import AT_ENDS, Errors, Function, Trend, TrendClaim, where
from tidegate.expr.outcome import spread
from tidegate.expr.specs import Specs, fit, to_bools
from tidegate.expr.transfer import all_of, by_trend
from tidegate.expr.types import UNKNOWN, Kind, Type

Safe = Callable[..., np.ndarray]


def guarded(kernel: Callable[..., Any], trends: tuple[Trend, ...], safe: Safe) -> dict[str, Any]:
    """Claims for the containers where `safe(*args)` holds: the trends, and that errors show at the ends."""

    def trend(*args: Specs) -> TrendClaim:
        mask = safe(*args)
        return tuple(where(one, mask) for one in trends)

    inner = inner_function(kernel, trend)

    def transfer(out: Type, *args: Specs) -> Specs:
        specs = by_trend(inner, args, out)
        told = safe(*args) | all_of([a.exact for a in args])
        return specs.may_fail(~told & ~specs.empty)

    return {"trend": trend, "transfer": transfer}


def loosened(
    kernel: Callable[..., Any], trends: tuple[Trend, ...], errors: Errors = AT_ENDS
) -> Callable[..., Specs]:
    """The transfer of a float function whose results may be wrong in the last digit.

    ln and its like are not rounded correctly, so of two neighbouring floats the greater may get the smaller
    result. Bounds are moved outwards by four units in the last place, far more than any library's error.
    """
    inner = inner_function(kernel, trends, errors)

    def transfer(out: Type, *args: Specs) -> Specs:
        specs = by_trend(inner, args, out)
        low, high = specs.bounds()
        return replace(specs, low=_moved(low, -np.inf, specs.exact), high=_moved(high, np.inf, specs.exact))

    return transfer


def _moved(bound: pa.Array, towards: float, exact: np.ndarray) -> pa.Array:
    n = max(len(bound), len(exact))
    bound = spread(bound[0], n) if len(bound) == 1 else bound
    values = bound.to_numpy(zero_copy_only=False)
    moved = values
    for _ in range(4):
        moved = np.nextafter(moved, values.dtype.type(towards))
    return pa.array(np.where(exact, values, moved), bound.type, mask=~to_bools(bound.is_valid()))


def inner_function(
    kernel: Callable[..., Any],
    trend: tuple[Trend, ...] | Callable[..., TrendClaim] | None,
    errors: Errors = AT_ENDS,
) -> Function:
    """A kernel with claims that only its own transfer makes use of."""
    wants_out = "out" in inspect.signature(kernel).parameters
    return Function("inner", (), UNKNOWN, kernel, trend=trend, errors=errors, wants_out=wants_out)


def finite(*args: Specs) -> np.ndarray:
    """Where both bounds of every argument are known and finite."""
    return all_of([a.never_infinite() for a in args])


def nought(type_: Type) -> pa.Scalar:
    """Zero."""
    return pa.scalar(Decimal(0) if type_.kind is Kind.NUMERIC else 0, type_.arrow)


def one_sided(_: Specs, b: Specs) -> np.ndarray:
    """Where the divisor b is surely above zero, or surely below."""
    zero = nought(b.type)
    low, high = b.bounds()
    above, below = order.less(zero, low), order.less(high, zero)
    result: np.ndarray = to_bools(pc.or_kleene(*fit(above, below)))
    return result


def finite_and_one_sided(a: Specs, b: Specs) -> np.ndarray:
    """Where floats are finite and the divisor b is surely above or surely below zero."""
    result: np.ndarray = finite(a, b) & one_sided(a, b)
    return result


def absolute_transfer(kernel: Callable[..., Any], errors: Errors) -> Callable[..., Specs]:
    """The transfer of abs: down to zero, then up again."""
    inner = inner_function(kernel, None, errors)

    def transfer(out: Type, a: Specs) -> Specs:
        specs = by_trend(inner, [a], out)
        zero = nought(out)
        low, high = a.bounds()
        n = max(len(low), len(high))
        low, high = (spread(b[0], n) if len(b) == 1 else b for b in (low, high))
        (from_low, _), (from_high, _) = inner.run([low], out), inner.run([high], out)
        above = pc.fill_null(order.less(zero, low), False)
        below = pc.fill_null(order.less(high, zero), False)
        least = pc.if_else(above, from_low, pc.if_else(below, from_high, zero))
        most = order.greater(from_low, from_high)
        nan, exact = a.nan, a.exact & ~specs.error
        return Specs.ranged(
            out, least, most, null=a.null, error=specs.error, empty=a.empty, exact=exact, nan=nan
        )

    return transfer
