"""Algorithms over several expressions: costs, common subexpressions, replacements.

A row-by-row plan means its normal form: conditions and outputs over the input columns (`plan/mfp.py`). These functions write
that form
with the least work, so that the result does not depend on how the plan was built:

1. conditions are deduplicated and sorted by cost, then by their words, so that plans with the same meaning are equal more often; a
   condition that is the constant False replaces all others (`sort_conditions`);
2. an expression becomes a map column if it is an output or is used at least twice, and is inlined into its only user otherwise
   (`factor`);
3. what neither a condition nor an output uses disappears.

    Map #0 -> 'f', #1 -> 'x', #0 -> 'f', #3 -> 'y', 1 / #2           Map #0 -> 'f', #1 -> 'x', #1 -> 'y'
    Project (#2, #4)                                            →    Project (#2, #3)

None of this changes which rows pass or fail: AND does not depend on order, an error in an unused column is no error by
definition, and a
condition or output has the same value and the same error wherever its subexpressions are computed. In particular a
subexpression may be
lifted out of a CASE branch: its errors are visible only through the branch that uses it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import assert_never

from tidegate.expr.model.function import ErrorClaim
from tidegate.expr.model.tree import (
    FALSE,
    TRUE,
    Call,
    Column,
    Expr,
    Literal,
    Now,
    permute,
    rewrite,
    support,
    walk,
)
from tidegate.expr.model.types import BOOL, Type


def sort_conditions(conditions: Iterable[Expr]) -> tuple[Expr, ...]:
    """The distinct conditions, cheapest first; only False if that is one of them."""
    distinct = dict.fromkeys(condition for condition in conditions if condition != TRUE)
    if FALSE in distinct:
        return (FALSE,)
    if len(distinct) < 2:
        return tuple(distinct)
    return tuple(sorted(distinct, key=lambda condition: (cost(condition), _words(condition))))


def _words(condition: Expr) -> list[str]:
    """A sort key independent of the order in which conditions were written; `show` is far slower."""
    words = []
    for node in walk(condition):
        match node:
            case Column(index):
                words.append(f"#{index}")
            case Literal(value):
                words.append(str(value))
            case Now():
                words.append("mz_now()")
            case Call(function):
                words.append(function.name)
            case _:
                assert_never(node)
    return words


def cost(*exprs: Expr) -> int:
    """The cost of one row, with common subexpressions counted once."""
    return sum(int(node.function.cost) for node in walk(*exprs) if isinstance(node, Call))


def may_fail(*exprs: Expr) -> bool:
    """Whether some function in `exprs` can fail on some row, by its declaration alone."""
    return any(
        isinstance(node, Call) and node.function.errors is not ErrorClaim.NEVER for node in walk(*exprs)
    )


def volatile_calls(*exprs: Expr) -> list[Call]:
    """The calls that give another value for each row, as `random()`."""
    return [node for node in walk(*exprs) if isinstance(node, Call) and node.function.volatile]


def factor(
    arity: int, conditions: Sequence[Expr], outputs: Sequence[Expr]
) -> tuple[tuple[Expr, ...], tuple[Expr, ...], tuple[int, ...]]:
    """Map expressions, predicates and projection of a plan with this normal form over `arity` inputs."""
    calls = [output for output in outputs if not isinstance(output, Column)]  # most outputs are columns
    columns = _map_columns(conditions, calls)
    maps: list[Expr] = []
    rewritten: dict[Expr, Expr] = {}
    for node in walk(*conditions, *calls):
        new: Expr = node
        if isinstance(node, Call):
            args = tuple(rewritten[arg] for arg in node.args)
            new = node if args == node.args else Call(node.function, args, node.type)
        if node in columns:
            maps.append(new)
            new = Column(arity + len(maps) - 1, node.type)
        rewritten[node] = new
    return (
        tuple(maps),
        tuple(rewritten[condition] for condition in conditions),
        tuple(_index(output if isinstance(output, Column) else rewritten[output]) for output in outputs),
    )


def _map_columns(conditions: Sequence[Expr], outputs: Sequence[Expr]) -> set[Expr]:
    """The expressions that get a map column; `outputs` are the outputs that are not columns already.

    Expressions with `mz_now()` are never split, so that `mz_now() <= #3` can be read as a bound; evaluating
    them twice costs almost nothing.
    """
    nodes = list(walk(*conditions, *outputs))
    uses = Counter(arg for node in nodes if isinstance(node, Call) for arg in node.args)
    uses.update(conditions)
    temporal: set[Expr] = set()
    for node in nodes:
        if isinstance(node, Now) or (isinstance(node, Call) and not temporal.isdisjoint(node.args)):
            temporal.add(node)
    shared = {node for node in nodes if isinstance(node, Call) and uses[node] > 1 and node not in temporal}
    return {*shared, *outputs}


def _index(output: Expr) -> int:
    assert isinstance(output, Column)
    return output.index


def expand_maps(inputs: Sequence[Type], expressions: Sequence[Expr]) -> tuple[Expr, ...]:
    """The inputs of a plan, then its map expressions written over the inputs."""
    values: list[Expr] = [Column(i, type_) for i, type_ in enumerate(inputs)]
    for expression in expressions:
        values.append(_expand(expression, len(inputs), values))
    return tuple(values)


def expand(exprs: Sequence[Expr], arity: int, values: Sequence[Expr]) -> tuple[Expr, ...]:
    """`exprs` with columns from `arity` on replaced by their `values`; input columns keep their names."""
    return tuple(_expand(expr, arity, values) for expr in exprs)


def _expand(expr: Expr, arity: int, values: Sequence[Expr]) -> Expr:
    if max(support(expr), default=-1) < arity:
        return expr
    return rewrite(
        expr, lambda node: values[node.index] if isinstance(node, Column) and node.index >= arity else node
    )


def permute_all(exprs: Iterable[Expr], positions: Sequence[int] | dict[int, int]) -> tuple[Expr, ...]:
    """`exprs` with column i read from `positions[i]` instead."""
    return tuple(permute(expr, positions) for expr in exprs)


def find_fault(
    arity: int, expressions: Sequence[Expr], predicates: Sequence[Expr], projection: Iterable[int]
) -> str | None:
    """What is wrong with the columns and predicates of a plan; None if nothing is."""
    for place, expression in enumerate(expressions, arity):
        if max(support(expression), default=-1) >= place:
            return f"column #{place} uses columns that come after it"
    width = arity + len(expressions)
    read = support(*predicates) | set(projection)
    if max(read, default=-1) >= width or min(read, default=0) < 0:
        return f"there are only {width} columns"
    if any(predicate.type != BOOL for predicate in predicates):
        return "a predicate must be a condition"
    return None


def used_maps(
    arity: int, expressions: Sequence[Expr], predicates: Sequence[Expr], projection: Iterable[int]
) -> list[int]:
    """The numbers of the map expressions that a predicate, an output or another used one needs."""
    used = set(projection) | support(*predicates)
    for i in reversed(range(len(expressions))):
        if arity + i in used:
            used |= support(expressions[i])
    return [i for i in range(len(expressions)) if arity + i in used]


def largest(exprs: Sequence[Expr], accept: Callable[[Expr], bool]) -> list[Expr]:
    """The largest subexpressions that `accept` agrees to, each once, in the order of `exprs`."""
    accepted: dict[Expr, None] = {}
    visited: set[Expr] = set()
    stack = list(reversed(exprs))
    while stack:
        expr = stack.pop()
        if expr in visited:
            continue
        visited.add(expr)
        if accept(expr):
            accepted[expr] = None
        elif isinstance(expr, Call):
            stack.extend(reversed(expr.args))
    return list(accepted)


def replace_subexpressions(exprs: Iterable[Expr], replacement: dict[Expr, Expr]) -> list[Expr]:
    """`exprs` with subexpressions replaced, the largest first."""
    roots = list(exprs)
    if not replacement:
        return roots
    rewritten: dict[Expr, Expr] = {}
    for node in walk(*roots):
        new = replacement.get(node)
        if new is None and isinstance(node, Call):
            new = Call(node.function, tuple(rewritten[arg] for arg in node.args), node.type)
        rewritten[node] = node if new is None else new
    return [rewritten[expr] for expr in roots]


def replace_by_columns(exprs: Iterable[Expr], columns: Sequence[Expr]) -> list[Expr]:
    """`exprs` with each of `columns` read as the column of its place."""
    return replace_subexpressions(exprs, {expr: Column(i, expr.type) for i, expr in enumerate(columns)})


def passed_on(
    exprs: Sequence[Expr], possible: Callable[[Expr], bool], available: frozenset[int]
) -> list[Expr]:
    """What `exprs` need from an earlier plan: the largest possible infallible expressions, or columns."""

    def is_passed(expr: Expr) -> bool:
        if isinstance(expr, Column):
            return expr.index in available
        return isinstance(expr, Call) and bool(support(expr)) and not may_fail(expr) and possible(expr)

    needed = largest(exprs, is_passed)
    columns = [expr for expr in needed if isinstance(expr, Column)]
    return [
        *sorted(columns, key=lambda column: column.index),
        *(e for e in needed if not isinstance(e, Column)),
    ]
