"""Pushes conditions and expressions down to the scans that they read, where they prune parts.

    WHERE o.at > '2024-01-01' AND o.customer = c.id AND (c.country = 'de' OR o.price > 5)

    Scan orders      at > '2024-01-01'        reads only it
    Join             customer = id            reads both; so does the last one, which stays above

Where a condition may go:

| through | if |
|---|---|
| Filter, Map, Distinct, Sorted without limits | always, over what Map computes |
| inner Join | it reads one side: into it; else into ON |
| left Join | it reads the left side alone: a row without a pair must be judged with the NULLs that it gets |
| Group | it reads keys alone, and every set has them |
| Window | it reads columns that all of its windows partition by |
| TableFunctionApply | it reads none of the columns that are made there |
| UNION | always, into both sides |
| a common table | one that holds for every row that a reader needs (`sharing.py`) |

A condition with a volatile function, `random() < 0.1`, stays where it is written: moved or copied it would be asked of other rows.

A left join above which a condition never holds for NULLs of the right side is an inner one. Where `a.id = b.id`, what is asked of
`a.id` alone is asked of `b.id` too; and of `(a.x = 1 AND b.y = 2) OR (a.x = 3 AND b.y = 4)` each side gets its own half: `a.x = 1
OR a.x = 3`. These are copies: the condition itself stays where it is.

An expression moves into a scan if Spark cannot say it (no `spark=` in the declaration of some function), so that it is not sent
through a Python worker; and only if it cannot fail, since rows that a join drops are never evaluated above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from tidegate.expr.model import Call, Column, Expr, Literal, build, subexpressions, support, tree, walk
from tidegate.plan import equi_join_keys, logical
from tidegate.sql.lower.composite_aggregates import with_composite_aggregates
from tidegate.sql.lower.demand import narrowed
from tidegate.sql.lower.lift import lifted
from tidegate.sql.lower.sharing import readers_conditions
from tidegate.sql.lower.sort_keys import by_sort_keys


def push_down(query: logical.LogicalQuery) -> logical.LogicalQuery:
    """The same query with conditions and expressions in scans, sort keys, and no unused columns."""
    rel, count = with_composite_aggregates(query.rel, query.count)
    rel = push(by_sort_keys(rel), [])
    wanted = frozenset(column.index for column in query.columns)
    rel, count = lifted(narrowed(rel, wanted), count)
    return replace(query, rel=narrowed(rel, wanted), count=count)


def push(rel: logical.Rel, conditions: Sequence[Expr]) -> logical.Rel:
    """The rows of `rel` for which the conditions hold."""
    match rel:
        case logical.Filter():
            together = [*rel.conditions, *conditions]
            fixed = [c for c in together if subexpressions.volatile_calls(c)]
            return _filtered(push(rel.input, [c for c in together if c not in fixed]), fixed)
        case logical.Map():
            fixed = [c for c in conditions if subexpressions.volatile_calls(_over(c, rel.computed))]
            moved = [_over(c, rel.computed) for c in conditions if c not in fixed]
            return _filtered(logical.Map(push(rel.input, moved), rel.computed), fixed)
        case logical.Distinct() | logical.Sort(limit=None, offset=0):
            return replace(rel, input=push(rel.input, conditions))
        case logical.Join():
            return _join(rel, conditions)
        case logical.Group():
            return _group(rel, conditions)
        case logical.Window() | logical.SubqueryApply() | logical.TableFunctionApply():
            return _beside(rel, conditions)
        case logical.SetOp(name="UNION"):
            return _union(rel, conditions)
        case logical.Common():
            return _common(rel, conditions)
        case logical.Scan():
            return _scan(rel, conditions)
        case (
            logical.SingleRow()
            | logical.ConstantRows()
            | logical.RowNumbers()
            | logical.WorkingTable()
            | logical.CommonRows()
            | logical.Recursive()
            | logical.SetOp()
            | logical.Sort()
        ):
            below = tuple(push(one, []) for one in logical.inputs(rel))
            return _filtered(logical.with_inputs(rel, below), conditions)
        case _:
            assert_never(rel)


def _filtered(rel: logical.Rel, conditions: Sequence[Expr]) -> logical.Rel:
    return logical.Filter(rel, tuple(dict.fromkeys(conditions))) if conditions else rel


def _scan(rel: logical.Scan, conditions: Sequence[Expr]) -> logical.Rel:
    own = {column.index for column in rel.columns}
    mine = [c for c in conditions if support(c) and support(c) <= own]
    rest = [c for c in conditions if c not in mine]
    return _filtered(replace(rel, conditions=(*rel.conditions, *mine)), rest)


def _common(rel: logical.Common, conditions: Sequence[Expr]) -> logical.Common:
    """The readers first: what all of them ask is asked of the definition."""
    new = replace(rel, input=push(rel.input, conditions))
    return replace(new, definition=push(rel.definition, readers_conditions(new)))


def _over(condition: Expr, made: logical.ComputedColumns) -> Expr:
    """A condition over what a Map computes, as one over what it reads."""
    values = {column.index: value for column, value in made}
    if not support(condition) & values.keys():
        return condition
    return tree.rewrite(
        condition, lambda node: values.get(node.index, node) if isinstance(node, Column) else node
    )


def _beside(
    rel: logical.Window | logical.SubqueryApply | logical.TableFunctionApply, conditions: Sequence[Expr]
) -> logical.Rel:
    """Pushes through an operator that adds columns; for a window only what keeps its input intact."""
    if not isinstance(rel, logical.Window):
        made = {c.index for c in logical.output_columns(rel)} - {
            c.index for c in logical.output_columns(rel.input)
        }
        below = [c for c in conditions if not support(c) & made]
    else:
        parts = [
            {key.index for key in span.partition if isinstance(key, Column)} for _, _, span in rel.computed
        ]
        shared = frozenset(set.intersection(*parts))
        below = [c for c in conditions if support(c) and support(c) <= shared]
    new = (push(rel.input, below), *(push(query, []) for query in logical.inputs(rel)[1:]))
    return _filtered(logical.with_inputs(rel, new), [c for c in conditions if c not in below])


def _group(rel: logical.Group, conditions: Sequence[Expr]) -> logical.Rel:
    keys = {column.index for column, _ in rel.keys}
    below = [c for c in conditions if not rel.sets and support(c) and support(c) <= keys]
    pushed = push(rel.input, [_over(c, rel.keys) for c in below])
    return _filtered(replace(rel, input=pushed), [c for c in conditions if c not in below])


def _union(rel: logical.SetOp, conditions: Sequence[Expr]) -> logical.Rel:
    sides = []
    for side, columns in ((rel.left, rel.left_columns), (rel.right, rel.right_columns)):
        made = tuple(zip(rel.columns, columns, strict=True))
        sides.append(push(side, [_over(c, made) for c in conditions]))
    return replace(rel, left=sides[0], right=sides[1])


# ---------------------------------------------------------------- joins


def _join(rel: logical.Join, conditions: Sequence[Expr]) -> logical.Rel:
    left, right = (frozenset(c.index for c in logical.output_columns(side)) for side in (rel.left, rel.right))
    kind = rel.kind
    if kind in ("left", "full") and any(rejects_null(c, right) for c in conditions):
        kind = "inner" if kind == "left" else "right"
    if kind in ("right", "full") and any(rejects_null(c, left) for c in conditions):
        kind = "inner" if kind == "right" else "left"
    if kind == "inner":
        together = [*rel.on, *conditions]
        both = [c for c in together if _side(c, left, right) == "both"]
        one = [c for c in together if _side(c, left, right) == "left"]
        other = [c for c in together if _side(c, left, right) == "right"]
        return _inner(rel, both, one, other, left, right)
    kept, lost = (left, right) if kind == "left" else (right, left)
    below = [c for c in conditions if kind != "full" and support(c) & kept and not support(c) & lost]
    on_lost = [c for c in rel.on if kind != "full" and support(c) & lost and not support(c) & kept]
    copied = copies([c for c in rel.on if c not in on_lost], below, lost) if kind != "full" else []
    down = {"left": (below, [*on_lost, *copied]), "right": ([*on_lost, *copied], below)}.get(kind, ([], []))
    new = logical.Join(
        kind,
        push(rel.left, down[0]),
        push(rel.right, down[1]),
        tuple(c for c in rel.on if c not in on_lost),
        rel.lateral,
    )
    return _filtered(new, [c for c in conditions if c not in below])


def _side(condition: Expr, left: frozenset[int], right: frozenset[int]) -> str:
    read = support(condition)
    if read & left and read & right:
        return "both"
    if read & right:
        return "right"
    return "left" if read & left else "both"


def _inner(
    rel: logical.Join,
    both: list[Expr],
    one: list[Expr],
    other: list[Expr],
    left: frozenset[int],
    right: frozenset[int],
) -> logical.Rel:
    one, other = [*one, *_halves(both, left)], [*other, *_halves(both, right)]
    more, others = copies(both, other, left), copies(both, one, right)
    return logical.Join(
        "inner", push(rel.left, [*one, *more]), push(rel.right, [*other, *others]), tuple(both), rel.lateral
    )


def copies(on: Sequence[Expr], conditions: Sequence[Expr], onto: frozenset[int]) -> list[Expr]:
    """What is asked of one column of an equality, asked of the other, if that is one of `onto`.

    Not what can fail: the other side may hold values that have no pair, and nobody has asked it of them.
    """
    found = []
    for condition in conditions:
        read = support(condition)
        constant = any(isinstance(node, Literal) for node in walk(condition))
        fixed = subexpressions.may_fail(condition) or bool(subexpressions.volatile_calls(condition))
        if len(read) != 1 or not constant or fixed:
            continue
        for a, b in equi_join_keys(on):
            source, target = (a, b) if a.index in read else (b, a)
            same = source.type == target.type and source.type.identity_is_equality
            if source.index in read and target.index in onto and same:
                found.append(_over(condition, ((source, target),)))
    return found


def _halves(both: Sequence[Expr], side: frozenset[int]) -> list[Expr]:
    """What an OR over both sides implies for one side: the conditions of each branch on this side."""
    found = []
    for condition in both:
        if not isinstance(condition, Call) or condition.function.name != "or":
            continue
        if subexpressions.volatile_calls(condition):
            continue
        each = []
        for alternative in condition.args:
            own = [c for c in build.conjuncts(alternative) if support(c) and support(c) <= side]
            each.append(build.conjunction(own) if own else None)
        known = [one for one in each if one is not None]
        if len(known) == len(each) and not subexpressions.may_fail(*known):
            found.append(build.disjunction(known))
    return found


def rejects_null(condition: Expr, columns: frozenset[int]) -> bool:
    """Whether a condition cannot be true where all of these columns are NULL."""
    node = condition
    if isinstance(node, Call) and node.function.name == "and":
        return any(rejects_null(arg, columns) for arg in node.args)
    if isinstance(node, Call) and node.function.name == "not":
        return _strict(node.args[0], columns)
    if isinstance(node, Call) and node.function.name == "or":
        return all(rejects_null(arg, columns) for arg in node.args)
    return _strict(node, columns)


def _strict(node: Expr, columns: frozenset[int]) -> bool:
    """Whether an expression is NULL where all of these columns are."""
    if isinstance(node, Column):
        return node.index in columns
    if not isinstance(node, Call) or node.function.lenient or node.function.sees_errors:
        return False
    return any(_strict(arg, columns) for arg in tree.children(node))
