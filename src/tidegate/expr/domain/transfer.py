"""The Specs of a call, concluded from those of its arguments and the claims of its function.

The corners of a box of arguments (one range each) bound the result. Take `created_at + '30 days'` in a part whose created_at lies
in 2024-01-01 .. 2024-01-05: the function is UP in its first argument and the second is exact, so the result lies between the
two corners, 2024-01-31 .. 2024-02-04. It fails only by leaving the calendar, which is an AT_ENDS error: both corners
succeed, so no row in between fails. Without that claim every part would be kept, since a row in it might overflow.

| claim | conclusion |
|---|---|
| all arguments exact | the value, or the failure, of that one corner |
| UP / DOWN | bounds from the two corners that the trends choose |
| EITHER | bounds from the least and the greatest corner |
| no trend and not exact | no bounds |
| AT_ENDS and every corner succeeded | no error |

NaN lies outside of every range. A float function with a trend maps NaN to NaN (a law tests this), so the flag is passed on; where
the result is not a float, an argument that may be NaN voids the bounds and the claim about errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import LimitError
from tidegate.expr.domain.specs import NO, YES, Specs, fit, is_bounded
from tidegate.expr.model import order
from tidegate.expr.model.function import AT_ENDS, NEVER, Function, MaskedTrend, Trend
from tidegate.expr.model.outcome import Outcome, spread, to_bools
from tidegate.expr.model.types import Kind, Type

MAX_FREE = 4
"""How many arguments may be ranges at once: each doubles the number of corners."""


def any_of(flags: Sequence[np.ndarray]) -> np.ndarray:
    """Where at least one of the flags holds."""
    return reduce(np.logical_or, flags, NO)


def all_of(flags: Sequence[np.ndarray]) -> np.ndarray:
    """Where all of the flags hold."""
    return reduce(np.logical_and, flags, YES)


def by_trend(function: Function, args: Sequence[Specs], out: Type) -> Specs:
    """The transfer of a strict function that declares none of its own."""
    null = any_of([a.null for a in args]) | (YES if function.makes_null else NO)
    error = any_of([a.error for a in args])
    empty = any_of([a.empty for a in args])
    nan = any_of([a.nan for a in args if a.nan is not None])
    holds, trends = _trends(function, args)
    exact = all_of([a.exact for a in args])
    free = [i for i, a in enumerate(args) if not a.exact.all()]
    useful = len(free) <= MAX_FREE and (exact.any() or holds.any() or function.errors is AT_ENDS)
    corners = _corners(function, args, free, out) if useful else []
    if not corners:
        failed = NO if function.errors is NEVER else ~empty
        if out.kind is Kind.INTERVAL:
            months = _months(function, args)
            return Specs.ranged(out, None, None, null=null, error=error | failed, empty=empty, months=months)
        return Specs.anything(out, null=null, error=error | failed, empty=empty)
    if not out.is_float:
        holds = holds & ~nan
    decided = _errors_decided(function, args, corners, exact, nan if not out.is_float else NO)
    failed = any_of([_failed(c) for c in corners])
    if function.errors is not NEVER:
        error = error | (~empty & (~decided | failed))
    low, high = _bounds(corners, trends, free)
    keep = holds | exact
    low, high = _where(keep, low), _where(keep, high)
    return _finish(function, out, low, high, null, error, empty, exact, nan, args)


def _trends(function: Function, args: Sequence[Specs]) -> tuple[np.ndarray, list[Trend | None]]:
    """Where every argument that is not exact follows a trend, and the trends."""
    claim = function.trend(*args) if callable(function.trend) else function.trend
    holds, trends = [], []
    for i, arg in enumerate(args):
        argument_claim = None if claim is None else claim[i if i < len(claim) else -1]
        mask, trend = (
            (argument_claim.mask, argument_claim.trend)
            if isinstance(argument_claim, MaskedTrend)
            else (NO if argument_claim is None else YES, argument_claim)
        )
        holds.append(mask | arg.exact)
        trends.append(trend)
    return all_of(holds), trends


def _corners(
    function: Function, args: Sequence[Specs], free: Sequence[int], out: Type
) -> list[tuple[tuple[int, ...], Outcome]]:
    """The outcome at each corner, with the side (0 low, 1 high) of every free argument.

    Empty if a result exceeds Arrow's limits.
    """
    sides = [arg.bounds() for arg in args]
    result = []
    for choice in product((0, 1), repeat=len(free)):
        chosen = [low for low, _ in sides]
        for i, side in zip(free, choice, strict=True):
            chosen[i] = sides[i][side]
        try:
            outcome = function.run(fit(*chosen) if chosen else (), out, [arg.type for arg in args])
        except LimitError:
            return []
        result.append((choice, outcome))
    return result


def _failed(corner: tuple[tuple[int, ...], Outcome]) -> np.ndarray:
    errors = corner[1].errors
    return NO if errors is None else to_bools(errors.is_valid())


def _errors_decided(
    function: Function, args: Sequence[Specs], corners: Sequence[object], exact: np.ndarray, nan: np.ndarray
) -> np.ndarray:
    """Where the corners decide whether anything in the box fails."""
    if not corners or function.errors is not AT_ENDS:
        return exact
    bounded = [is_bounded(bound) for arg in args for bound in arg.bounds()]
    return np.asarray(exact | (all_of(bounded) & ~nan))


def _bounds(
    corners: Sequence[tuple[tuple[int, ...], Outcome]], trends: Sequence[Trend | None], free: Sequence[int]
) -> tuple[pa.Array, pa.Array]:
    by_choice = {choice: outcome.values for choice, outcome in corners}
    directions = [trends[i] for i in free]
    if all(d in (Trend.UP, Trend.DOWN) for d in directions):
        least = tuple(0 if d is Trend.UP else 1 for d in directions)
        greatest = tuple(1 - side for side in least)
        return by_choice[least], by_choice[greatest]
    # Where there is no trend the caller drops the bounds, unless the argument is exact and both of its corners agree.
    values = _same_length(list(by_choice.values()))
    low = reduce(order.smaller, values)
    high = reduce(order.greater, values)
    return low, high


def _same_length(arrays: list[pa.Array]) -> list[pa.Array]:
    n = max(map(len, arrays))
    return [spread(a[0], n) if len(a) == 1 else a for a in arrays]


def _where(keep: np.ndarray, bound: pa.Array) -> pa.Array:
    if keep.all():
        return bound
    n = max(len(keep), len(bound))
    bound = spread(bound[0], n) if len(bound) == 1 else bound
    return pc.if_else(pa.array(np.broadcast_to(keep, n)), bound, pa.scalar(None, bound.type))


def _months(function: Function, args: Sequence[Specs]) -> np.ndarray:
    """Where an interval that is not exact may have a months part."""
    return YES if function.makes_months else any_of([a.months for a in args if a.months is not None])


def _finish(
    function: Function, out: Type, low: pa.Array, high: pa.Array, null: np.ndarray, error: np.ndarray,
    empty: np.ndarray, exact: np.ndarray, nan: np.ndarray, args: Sequence[Specs],
) -> Specs:  # fmt: skip
    """The Specs of the result; a float bound that is NaN or unknown admits any float."""
    result_nan = months = None
    if out.is_float:
        vague = any_of([to_bools(pc.fill_null(pc.is_nan(b), True)) for b in (low, high)])
        low, high = _where(~vague, low), _where(~vague, high)
        result_nan = nan | vague
    if out.kind is Kind.INTERVAL:
        months = np.where(exact & is_bounded(low), order.interval_parts(low)[0] != 0, _months(function, args))
    identical = exact & is_bounded(low)
    if function.makes_null:
        # Exact arguments yield the same result every time: if that is a value, it is never NULL.
        null = null & ~(identical & ~any_of([a.null for a in args]))
    return Specs.ranged(
        out, low, high, null=null, error=error, empty=empty, exact=identical, nan=result_nan, months=months
    )
