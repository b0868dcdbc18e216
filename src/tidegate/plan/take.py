"""Dividing a plan: a source takes what it can do, and what it leaves is done above.

    taken, left = plan.take(lambda expr: cost(expr) == 1)      a source that does cheap expressions
    taken, left = plan.take_demand()                           one that can only leave columns out
    taken, left = plan.take_all()                              one that does everything; `left.is_identity`

    parts = plan.partition({1})                        column 1 is read first, others for rows that are left
    parts.first, parts.before                          columns to read first, and what is done with them
    parts.later, parts.after                           columns to read then; `after` is given what left
                                                       `before`, and behind it these

The promise: running the first and then the second gives the same rows and the same failures as running the
whole. With errors that takes care, because a row's fate is decided by the AND of *all* predicates. Moving `1
/ a > 0` below a filter `b > 0` would make a row with a = 0, b = 0 fail, which the whole plan drops; moving `b
> 0` below `1 / a > 0` would drop a row with b NULL and a = 0, which the whole plan reports as failed. So

- if all predicates are taken, they are simply moved;
- if no predicate can fail, those that are accepted are moved;
- else those that are accepted are *copied* down as `may pass(p)`, which drops only the rows where p is surely
  False (`functions/planning.py`), and asked again above;
- map expressions are computed below only if they cannot fail, for the rows that the rest would drop may fail
  without harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import NamedTuple

from tidegate.expr.function import REGISTRY
from tidegate.expr.tree import Call, Column, Expr, support, walk
from tidegate.expr.types import BOOL
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.optimise import may_fail, ordered, rebuild


class Split(NamedTuple):
    """Two plans to be run one after the other."""

    taken: MapFilterProject
    left: MapFilterProject


class Partition(NamedTuple):
    """Two plans, and the input columns of the whole that each of them needs to be given."""

    first: tuple[int, ...]
    """The columns that are the inputs of `before`."""
    before: MapFilterProject
    later: tuple[int, ...]
    """The columns that are the last inputs of `after`; its first ones are what leaves `before`."""
    after: MapFilterProject


def take(mfp: MapFilterProject, accept: Callable[[Expr], bool]) -> Split:
    """All that `accept` says yes to; it is asked about conditions and expressions over the input columns."""
    if all(map(accept, (*mfp.conditions, *(o for o in mfp.outputs if not isinstance(o, Column))))):
        return mfp.take_all()
    taken, _, left = _divide(mfp, accept, frozenset(range(mfp.arity)))
    return Split(taken, left)


def partition(mfp: MapFilterProject, available: frozenset[int]) -> Partition:
    """All that can be done with the `available` columns."""
    later: tuple[int, ...] = ()
    before, after = mfp.take_all()
    if not mfp.demand() <= available:
        before, later, after = _divide(mfp, lambda _: True, available)
    first = tuple(sorted(before.demand()))
    types = [mfp.inputs[column] for column in first]
    return Partition(
        first, before.permute({column: i for i, column in enumerate(first)}, types), later, after
    )


def extract_common(mfps: Sequence[MapFilterProject]) -> tuple[MapFilterProject, list[MapFilterProject]]:
    """What several plans over the same inputs share: common predicates, and the columns that any demands.

    Run the first once, and each of the others on what leaves it.
    """
    shared = reduce(frozenset.intersection, (frozenset(mfp.conditions) for mfp in mfps))
    inputs = mfps[0].inputs
    whole = MapFilterProject.identity(inputs)
    columns = sorted(frozenset().union(*(mfp.demand() for mfp in mfps)))
    place = {column: i for i, column in enumerate(columns)}
    types = [inputs[column] for column in columns]
    # Moved only if that is exact for every one of them: else the predicates are copies for all.
    moved = all(_movable(mfp.conditions, shared) for mfp in mfps)
    common = ordered(shared) if moved else tuple(may_pass(condition) for condition in ordered(shared))
    rests = [
        rebuild(mfp, [c for c in ordered(mfp.conditions) if not (moved and c in shared)], mfp.outputs)
        for mfp in mfps
    ]
    return whole.filter(*common).project(columns), [rest.permute(place, types) for rest in rests]


def may_pass(condition: Expr) -> Expr:
    """True unless the condition is surely False: what a filter below the whole AND may go by."""
    (function,) = REGISTRY.overloads("may pass")
    return Call(function, (condition,), BOOL)


def _movable(conditions: Iterable[Expr], taken: frozenset[Expr]) -> bool:
    """Whether `taken` can be decided without the other conditions: see the module's docstring."""
    return taken.issuperset(conditions) or not may_fail(*conditions)


def _divide(
    mfp: MapFilterProject, accept: Callable[[Expr], bool], available: frozenset[int]
) -> tuple[MapFilterProject, tuple[int, ...], MapFilterProject]:
    """What is done first (over all inputs), the columns not available to it, and what is done then."""

    def possible(expr: Expr) -> bool:
        return support(expr) <= available and accept(expr)

    conditions = ordered(mfp.conditions)
    taken = frozenset(filter(possible, conditions))
    moved = _movable(conditions, taken)
    first = [c if moved else may_pass(c) for c in conditions if c in taken]
    rest = [c for c in conditions if not (moved and c in taken)]
    given = _given((*rest, *mfp.outputs), possible, available)
    later = tuple(sorted(support(*rest, *mfp.outputs) - available))
    before = rebuild(mfp, first, given)
    inputs = (*before.types, *(mfp.inputs[column] for column in later))
    columns = [*given, *(Column(column, mfp.inputs[column]) for column in later)]
    place: dict[Expr, Expr] = {expr: Column(i, expr.type) for i, expr in enumerate(columns)}
    rest, outputs = reading(rest, place), reading(mfp.outputs, place)
    return before, later, rebuild(MapFilterProject.identity(inputs), rest, outputs)


def _given(exprs: Sequence[Expr], possible: Callable[[Expr], bool], available: frozenset[int]) -> list[Expr]:
    """What `exprs` need of the first plan: the largest possible expressions that never fail, or columns."""
    columns: set[Column] = set()
    calls: dict[Expr, None] = {}
    seen: set[Expr] = set()
    stack = list(reversed(exprs))
    while stack:
        expr = stack.pop()
        if expr in seen:
            continue
        seen.add(expr)
        if isinstance(expr, Column) and expr.index in available:
            columns.add(expr)
        elif isinstance(expr, Call):
            if support(expr) and not may_fail(expr) and possible(expr):
                calls[expr] = None
            else:
                stack.extend(reversed(expr.args))
    return [*sorted(columns, key=lambda column: column.index), *calls]


def reading(exprs: Iterable[Expr], place: dict[Expr, Expr]) -> list[Expr]:
    """`exprs` with what has a `place` read from there, the largest such subexpressions first."""
    wanted = list(exprs)
    if not place:
        return wanted
    done: dict[Expr, Expr] = {}
    for node in walk(*wanted):
        new = place.get(node)
        if new is None and isinstance(node, Call):
            new = Call(node.function, tuple(done[arg] for arg in node.args), node.type)
        done[node] = node if new is None else new
    return [done[expr] for expr in wanted]
