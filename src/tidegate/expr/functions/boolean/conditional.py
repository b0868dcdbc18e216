"""CASE, COALESCE, NULLIF, GREATEST and LEAST: functions that choose one of their arguments.

CASE and COALESCE are lazy: all branches are computed for the whole batch, and errors of branches that a row does not take
are ignored. `CASE WHEN x <> 0 THEN 1 / x ELSE 0 END` over x = 2, 0, NULL:

| x | x <> 0 | 1 / x | taken | result |
|---|---|---|---|---|
| 2 | true | 0 | THEN | 0 |
| 0 | false | error | ELSE | 0: the error is ignored |
| NULL | NULL | NULL | ELSE | 0: a NULL condition takes the next branch |

Over containers the walk also goes branch by branch, with a mask of the containers in which a branch can be reached: a
condition that is surely true ends the walk, one that is never true drops its branch. The result is the union of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.specs import NO, YES, Specs
from tidegate.expr.domain.transfer import all_of, any_of
from tidegate.expr.duckdb_sql import forms as duckdb_form
from tidegate.expr.functions.compare.comparison import equal_transfer
from tidegate.expr.model import order
from tidegate.expr.model.function import ANY, ANY_A, NEVER, scalar
from tidegate.expr.model.outcome import (
    Datum,
    Errors,
    Outcome,
    first_error,
    length,
    only_where,
    spread,
    with_errors,
)
from tidegate.expr.model.types import Type
from tidegate.expr.primitives.cancel import check
from tidegate.expr.primitives.decimal import to_common_scale
from tidegate.expr.spark_sql import forms as spark_form

T = TypeVar("T")


def _rescale_datum(value: Datum, target: pa.DataType) -> Datum:
    """`rescale` of an array or a constant; a constant stays one, as CASE may have thousands of them."""
    return (
        to_common_scale(spread(value, 1), target)[0]
        if isinstance(value, pa.Scalar)
        else to_common_scale(value, target)
    )


def rescale_specs(specs: Specs, out: Type) -> Specs:
    """Specs of an argument in the common type; rounding keeps the order, so bounds stay bounds."""
    if specs.type == out:
        return specs
    low, high = (None if b is None else to_common_scale(b, out.arrow) for b in (specs.low, specs.high))
    return replace(specs, type=out, low=low, high=high)


def mask_specs(specs: Specs, mask: np.ndarray) -> Specs:
    """The Specs of an expression that is evaluated only where `mask` holds."""
    if specs.true is not None and specs.false is not None:
        return Specs.boolean(specs.true & mask, specs.false & mask, specs.null & mask, specs.error & mask)
    return replace(specs, null=specs.null & mask, error=specs.error & mask, empty=specs.empty | ~mask)


# ---------------------------------------------------------------- CASE


def _pairs(args: Sequence[T]) -> Iterator[tuple[T, T]]:
    """The (condition, value) branches of case(c1, v1, c2, v2, …, else)."""
    return zip(args[:-1:2], args[1:-1:2], strict=True)


def _case_type(*types: Type) -> Type:
    return types[-1]


def case_transfer(out: Type, *args: Specs) -> Specs:
    """CASE over containers: the union of the branches that can be reached and taken."""
    reached, error, parts = YES, NO, []
    for condition, value in _pairs(args):
        assert condition.true is not None
        assert condition.false is not None
        error = error | (reached & condition.error)
        parts.append(mask_specs(rescale_specs(value, out), reached & condition.true))
        reached = reached & (condition.false | condition.null)
    parts.append(mask_specs(rescale_specs(args[-1], out), reached))
    return reduce(Specs.union, parts).may_fail(error)


@scalar(
    "case", (ANY,), _case_type, variadic=True, lenient=True, sees_errors=True, sees_scalars=True, hidden=True, errors=NEVER,
    transfer=case_transfer, stable=True, spark=spark_form.case_form, duckdb=duckdb_form.case,
)  # fmt: skip
def case(*args: Outcome, out: Type) -> Outcome:
    """The value of the first branch whose condition is true, or the ELSE value."""
    n = length(*(arg.values for arg in args))
    reached = pa.repeat(pa.scalar(True), n)
    taken: list[tuple[pa.Array, Datum]] = []
    errors: list[Errors] = []
    for condition, value in _pairs(args):
        check()
        here = pc.and_(reached, pc.fill_null(spread(condition.values, n), False))
        errors += [only_where(condition.errors, reached), only_where(value.errors, here)]
        if here.true_count:
            taken.append((here, _rescale_datum(value.values, out.arrow)))
            reached = pc.and_not(reached, here)
        if condition.errors is not None:
            reached = pc.and_(reached, condition.errors.is_null())
    errors.append(only_where(args[-1].errors, reached))
    otherwise = to_common_scale(spread(args[-1].values, n), out.arrow)
    masks, values = [mask for mask, _ in taken], [value for _, value in taken]
    chosen = pc.case_when(pc.make_struct(*masks), *values, otherwise) if taken else otherwise
    # Where a reached condition failed no branch was taken, and `chosen` holds the ELSE: the error clears it.
    return with_errors(chosen, first_error(*errors))


# ---------------------------------------------------------------- COALESCE


def _common(*types: Type) -> Type:
    from tidegate.expr.model.build import common_type

    return common_type(types) or types[0]


def coalesce_transfer(out: Type, *args: Specs) -> Specs:
    """COALESCE over containers: the walk ends at an argument that is never NULL, and so do the nulls."""
    reached, parts = YES, []
    for arg in args:
        here = mask_specs(rescale_specs(arg, out), reached)
        parts.append(replace(here, null=NO))
        reached = reached & arg.null
    return reduce(Specs.union, parts).may_be_null(reached)


@scalar(
    "coalesce", (ANY_A,), _common, variadic=True, lenient=True, sees_errors=True, sees_scalars=True, errors=NEVER,
    transfer=coalesce_transfer, stable=True, spark=spark_form.choice_form("coalesce"), duckdb=duckdb_form.coalesce,
)  # fmt: skip
def coalesce(*args: Outcome, out: Type) -> Outcome:
    """The first argument that is not NULL; later arguments are not evaluated."""
    n = length(*(arg.values for arg in args))
    if all(arg.errors is None for arg in args) and not pa.types.is_decimal(out.arrow):
        return Outcome(pc.coalesce(*(arg.values for arg in args)))
    args = tuple(Outcome(spread(values, n), errors) for values, errors in args)
    errors = args[0].errors
    values = to_common_scale(args[0].values, out.arrow)
    for arg in args[1:]:
        check()
        open_ = values.is_null() if errors is None else pc.and_(values.is_null(), errors.is_null())
        errors = first_error(errors, only_where(arg.errors, open_))
        values = pc.if_else(open_, to_common_scale(arg.values, out.arrow), values)
    return Outcome(values, errors)


# ---------------------------------------------------------------- NULLIF


def _left_type(left: Type, right: Type) -> Type:
    return left


def nullif_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """NULLIF over containers: NULL where both may be equal, and only NULL where they must be."""
    same = equal_transfer(out, a, b)
    assert same.true is not None
    assert same.false is not None
    # Rows whose b is NULL or differs keep their value.
    left = mask_specs(a, same.false | b.null)
    return left.may_be_null(a.null | same.true).may_fail(a.error | b.error)


@scalar(
    "nullif", (ANY_A, ANY_A), _left_type, lenient=True, errors=NEVER, transfer=nullif_transfer, stable=True,
    spark=spark_form.comparison_form("nullif({0}, {1})"),
)  # fmt: skip
def nullif(a: Datum, b: Datum) -> pa.Array:
    """NULL if both arguments are equal, otherwise the first."""
    n = length(a, b)
    a, b = spread(a, n), spread(b, n)
    return pc.if_else(pc.fill_null(order.equal(a, b), False), pa.scalar(None, a.type), a)


# ---------------------------------------------------------------- GREATEST, LEAST


def _extreme_transfer(out: Type, args: Sequence[Specs], greatest: bool) -> Specs:
    """GREATEST or LEAST over containers: the outermost bound on one side, the tightest on the other.

    GREATEST is at least the low of every argument that is never NULL, and at most the greatest of all highs. An argument
    that may be NULL may be skipped, so it gives no tight bound. NaN is greatest: GREATEST of it is NaN, but LEAST prefers
    any number to it, so an argument that may be NaN does not bound LEAST from above.
    """
    args = [rescale_specs(arg, out) for arg in args]
    every = reduce(Specs.union, [mask_specs(arg, ~arg.empty) for arg in args])
    nan = any_of([arg.nan & ~arg.empty for arg in args if arg.nan is not None])
    tight = 0 if greatest else 1
    bounds = list(every.bounds())
    for arg in args:
        certain = ~arg.null & ~arg.empty
        if not greatest and arg.nan is not None:
            certain = certain & ~arg.nan
            nan = nan & (arg.nan | arg.null | arg.empty)
        pick = order.greater if greatest else order.smaller
        bounds[tight] = _tighten(bounds[tight], arg.bounds()[tight], certain, pick)
    null = all_of([arg.null for arg in args])
    error = any_of([arg.error for arg in args])
    low, high = bounds
    if every.true is not None:
        return Specs.ranged(out, low, high, null=null, error=error, empty=every.empty)
    # Equal intervals may differ (30 days, 1 month), and the bounds do not say which of them is returned.
    exact = None if out.identity_is_equality else NO
    return Specs.ranged(
        out, low, high, null=null, error=error, empty=every.empty, exact=exact,
        nan=nan if out.is_float else None, months=every.months,
    )  # fmt: skip


def _tighten(
    bound: pa.Array, other: pa.Array, certain: np.ndarray, pick: Callable[[pa.Array, pa.Array], pa.Array]
) -> pa.Array:
    """`bound`, or `other` where it is known, certain and tighter."""
    n = max(len(bound), len(other), len(certain))
    bound, other = (spread(b[0], n) if len(b) == 1 else b for b in (bound, other))
    both = pc.if_else(bound.is_null(), other, pick(bound, other))
    use = pc.and_(pa.array(np.broadcast_to(certain, n)), other.is_valid())
    return pc.if_else(use, both, bound)


def greatest_transfer(out: Type, *args: Specs) -> Specs:
    """GREATEST over containers, by the bounds of its arguments."""
    return _extreme_transfer(out, args, greatest=True)


def least_transfer(out: Type, *args: Specs) -> Specs:
    """LEAST over containers, by the bounds of its arguments."""
    return _extreme_transfer(out, args, greatest=False)


def _extreme(args: Sequence[Datum], out: Type, better: Callable[[pa.Array, pa.Array], pa.Array]) -> pa.Array:
    """The best argument of each row, ignoring NULL; of equal ones the first, as in PostgreSQL."""
    n = length(*args)
    arrays = [to_common_scale(spread(arg, n), out.arrow) for arg in args]
    best = arrays[0]
    for array in arrays[1:]:
        check()
        # A comparison is NULL where one side is NULL: then the other side is taken, which may be NULL too.
        best = pc.if_else(pc.fill_null(better(array, best), best.is_null()), array, best)
    return best


_chooses = partial(
    scalar, params=(ANY_A,), result=_common, variadic=True, lenient=True, errors=NEVER, stable=True
)


@_chooses("greatest", transfer=greatest_transfer, spark=spark_form.choice_form("greatest", ordered=True))
def greatest(*args: Datum, out: Type) -> pa.Array:
    """The greatest argument, ignoring NULL; NULL only if all are NULL. NaN is greatest."""
    return _extreme(args, out, lambda a, b: order.less(b, a))


@_chooses("least", transfer=least_transfer, spark=spark_form.choice_form("least", ordered=True))
def least(*args: Datum, out: Type) -> pa.Array:
    """The least argument, ignoring NULL; NULL only if all are NULL."""
    return _extreme(args, out, order.less)
