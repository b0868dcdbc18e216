"""Pieces for functions that need a transfer of their own: claims under a condition, and bounds made by hand.

`date_trunc(unit, t)` can fail in the middle of a box of arguments, as the texts between 'day' and 'year' are
mostly no units. But the unit is nearly always a constant, and then it can only fail by leaving the calendar,
at the low end. So it is declared with `guarded`: AT_ENDS, but only where the unit is exact.

    @guarded("date_trunc", (TEXT, TIMESTAMP), TIMESTAMP, trend=(None, UP), told=unit_is_exact)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.expr.function import AT_ENDS, Function, Param, TrendClaim, parameters, scalar
from tidegate.expr.outcome import spread, to_numpy
from tidegate.expr.specs import Specs, to_bools
from tidegate.expr.transfer import all_of, any_of, by_trend
from tidegate.expr.types import Type


def guarded(
    name: str,
    params: Sequence[Param],
    result: Type,
    *,
    told: Callable[..., np.ndarray],
    trend: TrendClaim | Callable[..., TrendClaim],
    **claims: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares an overload whose errors are AT_ENDS only in the containers where `told(*specs)` holds."""

    def declare(kernel: Callable[..., Any]) -> Callable[..., Any]:
        wants_out = "out" in parameters(kernel)
        inner = Function(
            name, tuple(params), result, kernel, trend=trend, errors=AT_ENDS, wants_out=wants_out
        )

        def transfer(out: Type, *args: Specs) -> Specs:
            described = by_trend(inner, args, out)
            sure = told(*args) | all_of([a.exact for a in args]) | described.empty
            return described.may_fail(~sure)

        return scalar(name, params, result, trend=trend, transfer=transfer, **claims)(kernel)

    return declare


def inherited(*args: Specs) -> dict[str, np.ndarray]:
    """The flags that a strict function takes over from its arguments: `null`, `error` and `empty`."""
    return {
        "null": any_of([a.null for a in args]),
        "error": any_of([a.error for a in args]),
        "empty": any_of([a.empty for a in args]),
    }


def widest(*sizes: Specs | np.ndarray | pa.Array) -> int:
    """How many containers all of these speak of together."""
    return max(s.size if isinstance(s, Specs) else len(s) for s in sizes)


def numbers(bound: pa.Array, n: int) -> tuple[np.ndarray, np.ndarray]:
    """A bound of a temporal type as n integers (0 where unknown), and where it is known."""
    bound = spread(bound[0], n) if len(bound) == 1 else bound
    return to_numpy(bound).astype(np.int64), to_bools(bound.is_valid())


def bound(values: np.ndarray, known: np.ndarray, type_: pa.DataType) -> pa.Array:
    """A bound of a temporal type from integers, unknown elsewhere."""
    width = np.int32 if pa.types.is_date32(type_) else np.int64
    return pa.array(np.where(known, values, 0).astype(width), mask=~known).view(type_)


def constant(specs: Specs) -> Any:
    """The one value that an argument has in every container, or None if it is not one constant."""
    if len(specs.exact) != 1 or not specs.exact[0] or specs.low is None or len(specs.low) != 1:
        return None
    return specs.low[0]


def claimed(kernel: Callable[..., Any], result: Type, **claims: Any) -> Callable[..., Specs]:
    """The transfer that a function with these claims would have, for one that has more to say beside it."""
    wants_out = "out" in parameters(kernel)
    inner = Function(kernel.__name__, (), result, kernel, wants_out=wants_out, **claims)
    return lambda out, *args: by_trend(inner, args, out)


def number_bound(bound: pa.Array, n: int) -> np.ndarray:
    """A bound of a number type as n floats, NaN where unknown."""
    bound = spread(bound[0], n) if len(bound) == 1 else bound
    return to_numpy(bound.cast(pa.float64()), np.nan)
