"""Divides a plan in two: a source takes what it can do, and the rest runs above it.

    taken, rest = take(plan, lambda expr: cost(expr) == 1)     a source that evaluates cheap expressions
    taken, rest = take_demand(plan)                            one that can only leave columns out
    taken, rest = take_all(plan)                               one that does everything; `rest.is_identity`

    parts = partition(plan, {1})                       column 1 is read first, others for the remaining rows
    parts.first, parts.before                          columns to read first, and the plan over them
    parts.later, parts.after                           columns to read then; the inputs of `after` are the
                                                       outputs of `before`, followed by these

The promise: running the first plan and then the second gives the same rows and the same failures as running
the whole. Errors make that delicate, because the AND of *all* predicates decides over a row. Moving `1
/ a > 0` below a filter `b > 0` would make a row with a = 0, b = 0 fail, which the whole plan drops; moving `b
> 0` below `1 / a > 0` would drop a row with b NULL and a = 0, which the whole plan reports as failed. So

- if all predicates are taken, they are simply moved;
- if no predicate can fail, the accepted ones are moved;
- otherwise the accepted ones are *copied* down as `may pass(p)`, which drops only the rows where p is
  definitely False (`functions/planning.py`), and evaluated again above;
- map expressions are computed below only if they cannot fail: below, they also see rows that the rest drops;
- what has `random()` or another volatile function in it stays above: twice evaluated it is two values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tidegate.expr.model import REGISTRY, Call, Column, Expr, subexpressions, support, types
from tidegate.plan.mfp import MapFilterProject


class PlanSplit(NamedTuple):
    """Two plans to run one after the other."""

    taken: MapFilterProject
    left: MapFilterProject


class PlanPartition(NamedTuple):
    """Two plans to run one after the other, and the input columns of the whole that each needs."""

    first: tuple[int, ...]
    """The columns that are the inputs of `before`."""
    before: MapFilterProject
    later: tuple[int, ...]
    """The columns that are the last inputs of `after`; its first inputs are the outputs of `before`."""
    after: MapFilterProject


def take(mfp: MapFilterProject, accept: Callable[[Expr], bool]) -> PlanSplit:
    """Takes all conditions and expressions (over the input columns) that `accept` agrees to."""
    if all(map(accept, (*mfp.conditions, *(o for o in mfp.outputs if not isinstance(o, Column))))):
        return take_all(mfp)
    taken, _, rest = _divide(mfp, accept, frozenset(range(mfp.arity)))
    return PlanSplit(taken, rest)


def take_all(mfp: MapFilterProject) -> PlanSplit:
    """Takes everything."""
    return PlanSplit(mfp, MapFilterProject.identity(mfp.types))


def take_demand(mfp: MapFilterProject) -> PlanSplit:
    """Takes only the choice of columns: the demanded ones, in order."""
    return take(mfp, lambda _: False)


def partition(mfp: MapFilterProject, available: Iterable[int]) -> PlanPartition:
    """Takes all that can be done with the `available` columns."""
    columns = frozenset(available)
    later: tuple[int, ...] = ()
    before, after = take_all(mfp)
    if not mfp.demand() <= columns:
        before, later, after = _divide(mfp, lambda _: True, columns)
    first = tuple(sorted(before.demand()))
    types = [mfp.inputs[column] for column in first]
    return PlanPartition(
        first, before.permute({column: i for i, column in enumerate(first)}, types), later, after
    )


def may_pass(condition: Expr) -> Expr:
    """True unless the condition is definitely False: safe to filter by below the whole AND."""
    (function,) = REGISTRY.overloads("may pass")
    return Call(function, (condition,), types.BOOL)


def _divide(
    mfp: MapFilterProject, accept: Callable[[Expr], bool], available: frozenset[int]
) -> tuple[MapFilterProject, tuple[int, ...], MapFilterProject]:
    """The first plan (over all inputs), the columns not available to it, and the second plan."""

    def possible(expr: Expr) -> bool:
        return support(expr) <= available and accept(expr) and not subexpressions.volatile_calls(expr)

    conditions = subexpressions.sort_conditions(mfp.conditions)
    taken = frozenset(filter(possible, conditions))
    # Whether the taken conditions can be decided without the others: see the module's docstring.
    movable = taken.issuperset(conditions) or not subexpressions.may_fail(*conditions)
    first = [c if movable else may_pass(c) for c in conditions if c in taken]
    rest = [c for c in conditions if not (movable and c in taken)]
    passed_on = subexpressions.passed_on((*rest, *mfp.outputs), possible, available)
    later = tuple(sorted(support(*rest, *mfp.outputs) - available))
    before = mfp.rebuild(first, passed_on)
    inputs = (*before.types, *(mfp.inputs[column] for column in later))
    columns = [*passed_on, *(Column(column, mfp.inputs[column]) for column in later)]
    moved = subexpressions.replace_by_columns((*rest, *mfp.outputs), columns)
    return before, later, MapFilterProject.identity(inputs).rebuild(moved[: len(rest)], moved[len(rest) :])
