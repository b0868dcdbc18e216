"""CASE, COALESCE, NULLIF, GREATEST and LEAST: functions that choose one of their arguments.

CASE and COALESCE are lazy, which here means: all branches are computed for the whole batch, and the errors of those that
were not taken are ignored. `CASE WHEN x <> 0 THEN 1 / x ELSE 0 END` over x = 2, 0, NULL:

| x | x <> 0 | 1 / x | taken | result |
|---|---|---|---|---|
| 2 | true | 0 | THEN | 0 |
| 0 | false | error | ELSE | 0: the error is not seen |
| NULL | NULL | NULL | ELSE | 0: a NULL condition takes the next branch |

Over containers the same walk goes branch by branch, with a mask of where a branch can be reached at all: a condition that
is surely true there ends the walk, one that is never true drops its branch, and the result is the union of what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import order, spark_form
from tidegate.expr.cancel import check
from tidegate.expr.function import ANY, ANY_A, NEVER, scalar
from tidegate.expr.functions import decimals
from tidegate.expr.functions.compare import equal_transfer
from tidegate.expr.outcome import Datum, Errors, Outcome, first_error, length, only_where, spread, with_errors
from tidegate.expr.specs import NO, YES, Specs
from tidegate.expr.transfer import all_of, any_of
from tidegate.expr.types import Type

T = TypeVar("T")


def rescaled(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Decimals brought to the scale of a common type, rounded half away from zero where it has fewer digits.

    Other values as they are: only numerics reach a function over any type with different Arrow types. A common type has
    room for the whole digits of all its sources, so this cannot overflow.
    """
    if values.type == target or not pa.types.is_decimal(target):
        return values
    return decimals.rescaled(values, target).values


def _rescaled_datum(value: Datum, target: pa.DataType) -> Datum:
    """The same of a constant, too: thousands of arms with constants need not be as long as the batch."""
    return rescaled(spread(value, 1), target)[0] if isinstance(value, pa.Scalar) else rescaled(value, target)


def rescaled_specs(specs: Specs, out: Type) -> Specs:
    """Specs of an argument as one of the common type: rounding keeps the order, so bounds stay bounds."""
    if specs.type == out:
        return specs
    low, high = (None if b is None else rescaled(b, out.arrow) for b in (specs.low, specs.high))
    return replace(specs, type=out, low=low, high=high)


def masked(specs: Specs, mask: np.ndarray) -> Specs:
    """The same, of rows that exist only where `mask` holds."""
    if specs.true is not None and specs.false is not None:
        return Specs.boolean(specs.true & mask, specs.false & mask, specs.null & mask, specs.error & mask)
    return replace(specs, null=specs.null & mask, error=specs.error & mask, empty=specs.empty | ~mask)


# ---------------------------------------------------------------- CASE


def _pairs(args: Sequence[T]) -> Iterator[tuple[T, T]]:
    """The branches of case(c1, v1, c2, v2, …, else)."""
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
        parts.append(masked(rescaled_specs(value, out), reached & condition.true))
        reached = reached & (condition.false | condition.null)
    parts.append(masked(rescaled_specs(args[-1], out), reached))
    return reduce(Specs.union, parts).may_fail(error)


@scalar(
    "case", (ANY,), _case_type, variadic=True, lenient=True, sees_errors=True, sees_scalars=True, hidden=True, errors=NEVER,
    transfer=case_transfer, stable=True, spark=spark_form.case,
)  # fmt: skip
def case(*args: Outcome, out: Type) -> Outcome:
    """The value behind the first condition that is true, else the last value."""
    n = length(*(arg.values for arg in args))
    reached = pa.repeat(pa.scalar(True), n)
    taken: list[tuple[pa.Array, Datum]] = []
    errors: list[Errors] = []
    for condition, value in _pairs(args):
        check()
        here = pc.and_(reached, pc.fill_null(spread(condition.values, n), False))
        errors += [only_where(condition.errors, reached), only_where(value.errors, here)]
        if here.true_count:
            taken.append((here, _rescaled_datum(value.values, out.arrow)))
            reached = pc.and_not(reached, here)
        if condition.errors is not None:
            reached = pc.and_(reached, condition.errors.is_null())
    errors.append(only_where(args[-1].errors, reached))
    otherwise = rescaled(spread(args[-1].values, n), out.arrow)
    masks, values = [mask for mask, _ in taken], [value for _, value in taken]
    chosen = pc.case_when(pc.make_struct(*masks), *values, otherwise) if taken else otherwise
    # Where a reached condition failed no branch was taken, and `chosen` holds the ELSE: the error clears it.
    return with_errors(chosen, first_error(*errors))


# ---------------------------------------------------------------- COALESCE


def _common(*types: Type) -> Type:
    from tidegate.expr.build import common_type

    return common_type(types) or types[0]


def coalesce_transfer(out: Type, *args: Specs) -> Specs:
    """COALESCE over containers: an argument that is never NULL ends the walk, and with it the nulls."""
    reached, parts = YES, []
    for arg in args:
        here = masked(rescaled_specs(arg, out), reached)
        parts.append(replace(here, null=NO))
        reached = reached & arg.null
    return reduce(Specs.union, parts).may_be_null(reached)


@scalar(
    "coalesce", (ANY_A,), _common, variadic=True, lenient=True, sees_errors=True, sees_scalars=True, errors=NEVER,
    transfer=coalesce_transfer, stable=True, spark=spark_form.chosen("coalesce"),
)  # fmt: skip
def coalesce(*args: Outcome, out: Type) -> Outcome:
    """The first argument that is not NULL; later ones are not looked at, and may fail."""
    n = length(*(arg.values for arg in args))
    if all(arg.errors is None for arg in args) and not pa.types.is_decimal(out.arrow):
        return Outcome(pc.coalesce(*(arg.values for arg in args)))
    args = tuple(Outcome(spread(values, n), errors) for values, errors in args)
    errors = args[0].errors
    values = rescaled(args[0].values, out.arrow)
    for arg in args[1:]:
        check()
        open_ = values.is_null() if errors is None else pc.and_(values.is_null(), errors.is_null())
        errors = first_error(errors, only_where(arg.errors, open_))
        values = pc.if_else(open_, rescaled(arg.values, out.arrow), values)
    return Outcome(values, errors)


# ---------------------------------------------------------------- NULLIF


def _left_type(left: Type, right: Type) -> Type:
    return left


def nullif_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """NULLIF over containers: NULL where they may be equal, and nothing but NULL where they must be."""
    same = equal_transfer(out, a, b)
    assert same.true is not None
    assert same.false is not None
    # A value comes out of rows whose b is NULL or differs.
    left = masked(a, same.false | b.null)
    return left.may_be_null(a.null | same.true).may_fail(a.error | b.error)


@scalar(
    "nullif",
    (ANY_A, ANY_A),
    _left_type,
    lenient=True,
    errors=NEVER,
    transfer=nullif_transfer,
    stable=True,
    spark=spark_form.compared("nullif({0}, {1})"),
)
def nullif(a: Datum, b: Datum) -> pa.Array:
    """NULL if both are equal, else the first."""
    n = length(a, b)
    a, b = spread(a, n), spread(b, n)
    return pc.if_else(pc.fill_null(order.equal(a, b), False), pa.scalar(None, a.type), a)


# ---------------------------------------------------------------- GREATEST, LEAST


def _extreme_transfer(out: Type, args: Sequence[Specs], greatest: bool) -> Specs:
    """The outer bound of all arguments on one side; on the other, the best bound of those that must take part.

    GREATEST is at least what each argument that is never NULL is at least, and at most the greatest of all highs. An
    argument that may be NULL may be skipped, so alone it promises nothing. NaN is greatest: GREATEST of it is NaN,
    but LEAST skips it in favour of any number, so an argument that may be NaN bounds no LEAST from above.
    """
    args = [rescaled_specs(arg, out) for arg in args]
    every = reduce(Specs.union, [masked(arg, ~arg.empty) for arg in args])
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
    # Equal intervals may differ (30 days, 1 month), and which of them comes out the bounds do not tell.
    exact = None if out.identity_is_equality else NO
    return Specs.ranged(
        out, low, high, null=null, error=error, empty=every.empty, exact=exact,
        nan=nan if out.is_float else None, months=every.months,
    )  # fmt: skip


def _tighten(
    bound: pa.Array, other: pa.Array, certain: np.ndarray, pick: Callable[[pa.Array, pa.Array], pa.Array]
) -> pa.Array:
    """`bound`, or `other` where that is known, certain and tighter."""
    n = max(len(bound), len(other), len(certain))
    bound, other = (spread(b[0], n) if len(b) == 1 else b for b in (bound, other))
    both = pc.if_else(bound.is_null(), other, pick(bound, other))
    use = pc.and_(pa.array(np.broadcast_to(certain, n)), other.is_valid())
    return pc.if_else(use, both, bound)


def greatest_transfer(out: Type, *args: Specs) -> Specs:
    """GREATEST over containers, by the ends."""
    return _extreme_transfer(out, args, greatest=True)


def least_transfer(out: Type, *args: Specs) -> Specs:
    """LEAST over containers, by the ends."""
    return _extreme_transfer(out, args, greatest=False)


def _extreme(args: Sequence[Datum], out: Type, better: Callable[[pa.Array, pa.Array], pa.Array]) -> pa.Array:
    """The best argument of each row, nulls skipped; the first of equals, as in PostgreSQL."""
    n = length(*args)
    arrays = [rescaled(spread(arg, n), out.arrow) for arg in args]
    best = arrays[0]
    for array in arrays[1:]:
        check()
        # A comparison is NULL where one of them is: then the other is taken, if only because it is NULL too.
        best = pc.if_else(pc.fill_null(better(array, best), best.is_null()), array, best)
    return best


@scalar(
    "greatest",
    (ANY_A,),
    _common,
    variadic=True,
    lenient=True,
    errors=NEVER,
    transfer=greatest_transfer,
    stable=True,
    spark=spark_form.chosen("greatest", ordered=True),
)
def greatest(*args: Datum, out: Type) -> pa.Array:
    """The greatest argument; NULL only if all are NULL, and NaN is greatest."""
    return _extreme(args, out, lambda a, b: order.less(b, a))


@scalar(
    "least",
    (ANY_A,),
    _common,
    variadic=True,
    lenient=True,
    errors=NEVER,
    transfer=least_transfer,
    stable=True,
    spark=spark_form.chosen("least", ordered=True),
)
def least(*args: Datum, out: Type) -> pa.Array:
    """The least argument; NULL only if all are NULL."""
    return _extreme(args, out, order.less)
