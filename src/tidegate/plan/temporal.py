"""Filters on `mz_now()`: turns them into bounds of each row's validity, maintained as time passes.

A conjunct that compares `mz_now()` with an expression of the row bounds the times at which the row is there.
Bounds are milliseconds, the lower one inclusive and the upper one exclusive:

| conjunct | lower | upper | with e = 10.5 ms |
|---|---|---|---|
| `mz_now() < e` | | ceil(e) | gone from 11 |
| `mz_now() <= e` | | floor(e) + 1 | gone from 11 |
| `mz_now() > e` | floor(e) + 1 | | there from 11 |
| `mz_now() >= e` | ceil(e) | | there from 11 |
| `mz_now() = e` | ceil(e) | floor(e) + 1 | 11 and 11: never there |

`mz_now()` is compared in the unit of the other side and exactly, so the rounding is what makes the bounds
exact too. Whatever else is said with it (OR, `<>`, arithmetic on it, a column that shows it) has no bounds:
in a plan that is maintained it is a PlanError.

    SELECT id FROM orders WHERE mz_now() <= created_at + '30 days' AND id > 0       decompose() gives

    safe         Map step_ms(floor_ms(#1 + '30 days')), NULL      all of the work, and the two bounds
                 Filter #0 > 0 AND #2 = #2
                 Project (#0, #3, #2)
    expiration   Filter mz_now() < #2                             before persisting: what is past is not kept
    final        Project (#0)                                     at reading; a lower bound is a filter here

so that `final(PERSIST(expiration(safe(RAW))))` at every time is the filter itself, and RAW is never needed
again (seed 003): what expires is in the persisted rows, and what is still to come is there too, only hidden.

Conventions. A NULL *bound* drops the row, as the comparison is never true: `b = b` is NULL exactly then, and
an error exactly where b is one, so it stands in the AND like the comparison itself. A NULL in the *column*
`lower` or `upper` of a row that is kept means unbounded: the plan has no bound on that side, for any row.

Whether a row fails does not depend on time: predicates that are False drop it, else an error of a predicate,
a bound or an output is the row's. So an insertion and its retraction, years later, meet the same fate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidegate.errors import PlanError
from tidegate.expr.model import (
    REGISTRY,
    Call,
    Column,
    Expr,
    Function,
    Kind,
    Now,
    Type,
    build,
    show,
    subexpressions,
    tree,
    types,
    walk,
)
from tidegate.plan.mfp import MapFilterProject

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_HINT = (
    "write conjuncts of the form mz_now() <= created_at + '30 days', with mz_now() alone on one side of "
    "=, <, <=, >, >= or BETWEEN"
)


class Bounds(NamedTuple):
    """A conjunct `mz_now() op e`: the first time at which it holds, and the first after it does."""

    compared: Expr
    """The expression e."""
    lower: Expr | None
    upper: Expr | None


class Decomposition(NamedTuple):
    """Seed 003's three plans. Without temporal predicates two of them do nothing, and none adds columns."""

    safe: MapFilterProject
    expiration: MapFilterProject
    final: MapFilterProject


def bounds_of(condition: Expr) -> Bounds:
    """The times at which a temporal condition holds; a PlanError if it compares nothing with `mz_now()`."""
    if isinstance(condition, Call) and condition.function.name in _FLIPPED and len(condition.args) == 2:
        operator, (left, right) = condition.function.name, condition.args
        if _is_now(right):
            operator, left, right = _FLIPPED[operator], right, left
        if _is_now(left) and not tree.has_now(right):
            return _bounds(operator, right)
    raise PlanError(
        f"mz_now() cannot be maintained in {show(condition, names=True)}",
        construct=show(condition, names=True),
        subject="mz_now",
        hint=_HINT,
    )


def _is_now(expr: Expr) -> bool:
    """Whether this is `mz_now()`, or the exact cast of it that a comparison with another type puts in."""
    if not (isinstance(expr, Call) and expr.function.name == "cast" and expr.args == (Now(),)):
        return isinstance(expr, Now)
    match expr.type:
        case Type(Kind.NUMERIC, int(precision), int(scale)):
            return precision - scale >= 19  # fewer digits do not hold every time
        case type_:
            return type_.kind in (Kind.TIMESTAMPTZ, Kind.TIMESTAMP, Kind.INT8, Kind.FLOAT8)


def _bounds(operator: str, e: Expr) -> Bounds:
    match operator:
        case "<":
            return Bounds(e, None, _ms("ceil_ms", e))
        case "<=":
            return Bounds(e, None, _ms("step_ms", _ms("floor_ms", e)))
        case ">":
            return Bounds(e, _ms("step_ms", _ms("floor_ms", e)), None)
        case ">=":
            return Bounds(e, _ms("ceil_ms", e), None)
        case _:
            return Bounds(e, _ms("ceil_ms", e), _ms("step_ms", _ms("floor_ms", e)))


def _ms(name: str, e: Expr) -> Expr:
    """One of the hidden functions of `functions/temporal.py`, applied to whatever time-like type e has."""
    if e.type == types.MZ_TIMESTAMP and name != "step_ms":
        return e
    for function in REGISTRY.overloads(name):
        param = function.params[0]
        if isinstance(param, Type) and param.kind is e.type.kind:
            return Call(function, (e,), types.MZ_TIMESTAMP)
    raise PlanError(
        f"mz_now() cannot be compared with {e.type}", construct=show(e, names=True), subject="mz_now"
    )


def present(e: Expr) -> Expr:
    """True where e is a value, NULL where it is NULL, an error where it is one: as any comparison with e."""
    return build.call("=", e, e)


def _parted(mfp: MapFilterProject) -> tuple[list[Expr], list[Expr]]:
    """The conditions without and with `mz_now()`; a PlanError if an output shows it."""
    for output in mfp.outputs:
        if tree.has_now(output):
            raise PlanError(
                f"mz_now() cannot be maintained in the column {show(output, names=True)}",
                construct=show(output, names=True),
                subject="mz_now",
                hint="a maintained row does not change as time passes; use mz_now() in the WHERE clause only",
            )
    conditions = subexpressions.sort_conditions(mfp.conditions)
    return [c for c in conditions if not tree.has_now(c)], [c for c in conditions if tree.has_now(c)]


def decompose(mfp: MapFilterProject) -> Decomposition:
    """Safe, expiration and final: see the module's docstring."""
    plain, temporal = _parted(mfp)
    if not temporal:
        return Decomposition(mfp, *(MapFilterProject.identity(mfp.types) for _ in range(2)))
    found = [bounds_of(condition) for condition in temporal]
    lowers = list(dict.fromkeys(bound.lower for bound in found if bound.lower is not None))
    uppers = list(dict.fromkeys(bound.upper for bound in found if bound.upper is not None))
    conditions = subexpressions.sort_conditions([*plain, *map(present, (*lowers, *uppers))])
    outputs = [*mfp.outputs, _outermost("greatest", lowers), _outermost("least", uppers)]
    safe = mfp.rebuild(conditions, outputs)
    kept = MapFilterProject.identity(safe.types)
    lower, upper = (Column(len(mfp.outputs) + i, types.MZ_TIMESTAMP) for i in (0, 1))
    expiration = kept.filter(build.call("<", Now(), upper)) if uppers else kept
    final = kept.filter(build.call("<=", lower, Now())) if lowers else kept
    return Decomposition(safe, expiration, final.project(range(len(mfp.outputs))))


def _outermost(name: str, bounds: Sequence[Expr]) -> Expr:
    # greatest and least skip NULL, but `present` has dropped every row that has one.
    return (
        build.null(types.MZ_TIMESTAMP)
        if not bounds
        else bounds[0]
        if len(bounds) == 1
        else build.call(name, *bounds)
    )


def unstable(mfp: MapFilterProject, *, exact: bool = False) -> Iterator[Function]:
    """The functions whose results may change between versions; with `exact`, floating point too."""
    for node in walk(*mfp.conditions, *mfp.outputs):
        if isinstance(node, Call) and not (node.function.stable and (node.function.exact or not exact)):
            yield node.function


def check_stable(mfp: MapFilterProject, *, exact: bool = False) -> None:
    """Raises a PlanError that names the first function whose result may change between versions.

    A transform meets the retraction of a row years after the row, and must then give the same bytes. `exact`
    also refuses floating point, whose last digit may change: needed where retractions arrive, not for
    append-only sources.
    """
    for function in unstable(mfp, exact=exact):
        why = "is not exact" if function.stable else "does not promise the same result for ever"
        raise PlanError(
            f"{function.signature} {why}, so it cannot stand in a transform",
            construct=function.signature,
            hint="compute it where the collection is read, or keep its arguments as columns",
        )
