"""Faults of the rules that push conditions, demand and expressions down: what the random queries must find.

    with planted("a condition below the side of a left join that is filled with NULLs"):
        db.sql(…)                 wrong rows, or an error

Each is a mistake that one could make in `sql/lower` or in the semi-join reduction, and takes the place of the right function while
it is planted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

import pyarrow as pa
import pytest

from tidegate.expr.model import Column, Expr, build, support
from tidegate.plan import logical
from tidegate.query.relational import semi_join
from tidegate.sql.lower import demand, lift

rules = import_module("tidegate.sql.lower.push_down")  # the package has a function of this name
_push, _join, _group, _narrowed, _drops = (
    rules.push,
    rules._join,
    rules._group,
    demand.narrowed,
    semi_join.drops,
)
_reached, _pairs, _conditions, _union = lift._reached, semi_join._pairs, semi_join.conditions, rules._union


def _columns(rel: logical.Rel) -> frozenset[int]:
    return frozenset(column.index for column in logical.output_columns(rel))


def below_the_null_side(rel: logical.Join, conditions: Sequence[Expr]) -> logical.Rel:
    """`WHERE b.x IS NULL` above a LEFT JOIN b goes into b."""
    right = _columns(rel.right)
    below = [c for c in conditions if rel.kind == "left" and support(c) and support(c) <= right]
    changed = replace(rel, right=rules.push(rel.right, below)) if below else rel
    return _join(changed, [c for c in conditions if c not in below])


def on_of_the_kept_side(rel: logical.Join, conditions: Sequence[Expr]) -> logical.Rel:
    """`a LEFT JOIN b ON a.x > 3` drops rows of a."""
    left = _columns(rel.left)
    below = [c for c in rel.on if rel.kind == "left" and support(c) and support(c) <= left]
    on = tuple(c for c in rel.on if c not in below)
    return _join(replace(rel, left=rules.push(rel.left, below), on=on), conditions)


def always_rejects_null(condition: Expr, columns: frozenset[int]) -> bool:
    """An outer join becomes an inner one below `coalesce(b.x, 5) > 3`."""
    return bool(support(condition) & columns)


def through_limit(rel: logical.Rel, conditions: Sequence[Expr]) -> logical.Rel:
    """A condition is asked before the first five rows are taken."""
    if isinstance(rel, logical.Sort):
        return replace(rel, input=rules.push(rel.input, conditions))
    return _push(rel, conditions)


def through_window(rel: Any, conditions: Sequence[Expr]) -> logical.Rel:
    """A condition on what a window reads is asked before the window; of DISTINCT ON too, which is one."""
    made = _columns(rel) - _columns(rel.input)
    below = [c for c in conditions if not support(c) & made]
    new = (rules.push(rel.input, below), *(rules.push(query, []) for query in logical.inputs(rel)[1:]))
    return rules._filtered(logical.with_inputs(rel, new), [c for c in conditions if c not in below])


def through_some_partition(rel: Any, conditions: Sequence[Expr]) -> logical.Rel:
    """A condition on the order of a window passes it as one on its partition does."""
    if not isinstance(rel, logical.Window):
        return through_window(rel, conditions)
    keys = {
        key.index
        for _, _, span in rel.computed
        for key in (*span.partition, *(order.value for order in span.order))
        if isinstance(key, Column)
    }
    below = [c for c in conditions if support(c) and support(c) <= keys]
    return rules._filtered(
        replace(rel, input=rules.push(rel.input, below)), [c for c in conditions if c not in below]
    )


def through_grouping_sets(rel: logical.Group, conditions: Sequence[Expr]) -> logical.Rel:
    """`HAVING k > 2` drops rows before ROLLUP adds them to a total."""
    if not rel.sets:
        return _group(rel, conditions)
    pushed = _group(replace(rel, sets=()), conditions)
    found = pushed.input if isinstance(pushed, logical.Filter) else pushed
    assert isinstance(found, logical.Group)
    made = replace(found, sets=rel.sets)
    return replace(pushed, input=made) if isinstance(pushed, logical.Filter) else made


def into_one_side_of_union(rel: logical.SetOp, conditions: Sequence[Expr]) -> logical.Rel:
    """The second side of a UNION keeps rows that the condition drops."""
    return replace(_union(rel, conditions), right=rules.push(rel.right, []))


def half_of_an_or(both: Sequence[Expr], side: frozenset[int]) -> list[Expr]:
    """`(a.x = 1 AND b.y = 2) OR a.x = b.z` asks `b.y = 2` of b."""
    found = []
    for condition in both:
        for alternative in getattr(condition, "args", ()) if _is_or(condition) else ():
            own = [c for c in build.conjuncts(alternative) if support(c) and support(c) <= side]
            found += [build.conjunction(own)] if own else []
    return found[:1]


def _is_or(condition: Expr) -> bool:
    return getattr(getattr(condition, "function", None), "name", "") == "or"


def copied_onto_any_side(on: Sequence[Expr], conditions: Sequence[Expr], onto: frozenset[int]) -> list[Expr]:
    """Of `a.x = b.y AND a.z > 3`, `> 3` is asked of b.y, which another column is equal to."""
    return [
        rules._over(c, ((column, target),))
        for c in conditions
        for column in _read_columns(c)[:1]
        for a, b in rules.equi_join_keys(on)
        for target in (a, b)
        if target.index in onto and target.type == column.type
    ]


def _read_columns(condition: Expr) -> list[Column]:
    return list({node.index: node for node in rules.walk(condition) if isinstance(node, Column)}.values())


def demand_of_a_distinct(rel: logical.Rel, wanted: frozenset[int]) -> logical.Rel:
    """Of a DISTINCT only the columns that are used above it."""
    if isinstance(rel, logical.Distinct):
        kept = tuple(column for column in rel.columns if column.index in wanted) or rel.columns[:1]
        return _narrowed(replace(rel, columns=kept), wanted)
    return _narrowed(rel, wanted)


def demand_of_a_set_operation(rel: Any, wanted: frozenset[int]) -> logical.Rel:
    """Of EXCEPT and UNION only the columns that are used above them."""
    keep = [i for i, column in enumerate(rel.columns) if column.index in wanted] or [0]
    columns, a, b = (
        tuple(those[i] for i in keep) for those in (rel.columns, rel.left_columns, rel.right_columns)
    )
    left = demand.narrowed(rel.left, frozenset(column.index for column in a))
    right = demand.narrowed(rel.right, frozenset(column.index for column in b))
    return replace(rel, left=left, right=right, columns=columns, left_columns=a, right_columns=b)


def demand_without_conditions(rel: logical.Rel, wanted: frozenset[int]) -> logical.Rel:
    """The columns of a condition are not read."""
    if isinstance(rel, logical.Filter):
        return replace(rel, input=demand.narrowed(rel.input, wanted))
    return _narrowed(rel, wanted)


def demand_of_a_window(rel: logical.Window, wanted: frozenset[int]) -> logical.Rel:
    """What a window is ordered by is not read."""
    computed = tuple((c, one, replace(span, order=())) for c, one, span in rel.computed)
    return _window(replace(rel, computed=computed), wanted)


_window = demand._window


def lifted_across_null_sides(rel: logical.Rel) -> list[logical.Scan]:
    """`num_nulls(b.x)` above a LEFT JOIN b is computed in the scan of b."""
    if isinstance(rel, logical.Join):
        return [*lift._reached(rel.left), *lift._reached(rel.right)]
    return _reached(rel)


def one_key_too_few(keys: pa.ChunkedArray, column: Column) -> list[Expr]:
    """The semi-join reduction forgets the greatest key."""
    values = sorted({key for key in keys.to_pylist() if key is not None})
    return _conditions(pa.chunked_array([pa.array(values[:-1], keys.type)]), column)


def reduces_the_kept_side(root: logical.Rel) -> Iterator[tuple[Column, Column]]:
    """Keys of b reduce a in `a LEFT JOIN b`."""
    yield from _pairs(root)
    for rel in logical.walk(root):
        if isinstance(rel, logical.Join) and rel.kind == "left":
            left, right = set(logical.output_columns(rel.left)), set(logical.output_columns(rel.right))
            for a, b in semi_join.equi_join_keys(rel.on):
                one, other = (a, b) if a in left else (b, a)
                if one in left and other in right and _drops(rel.left, one):
                    yield other, one


def reduces_below_anything(rel: logical.Rel, column: Column) -> bool:
    """Keys reduce a scan below a LIMIT, a window and EXCEPT."""
    below = logical.inputs(rel)
    if isinstance(rel, logical.Scan):
        return column in rel.columns
    return any(reduces_below_anything(one, column) for one in below)


def reduces_by_not_in(
    ask: logical.SubqueryApply, look: logical.Subquery, *, positive: bool
) -> Iterator[tuple[Column, Column]]:
    """Keys of a subquery reduce the rows of which NOT EXISTS and NOT IN are asked."""
    del positive
    yield from _looked(ask, look, positive=True)


_looked = semi_join._looked

FAULTS: dict[str, tuple[tuple[Any, str], Callable[..., Any]]] = {
    "a condition below the side of a left join that is filled with NULLs": (
        (rules, "_join"),
        below_the_null_side,
    ),
    "a condition of ON that drops rows of the kept side": ((rules, "_join"), on_of_the_kept_side),
    "an outer join that becomes an inner one too often": ((rules, "rejects_null"), always_rejects_null),
    "a condition through LIMIT": ((rules, "push"), through_limit),
    "a condition through a window and DISTINCT ON": ((rules, "_beside"), through_window),
    "a condition on the order of a window through it": ((rules, "_beside"), through_some_partition),
    "a condition through ROLLUP": ((rules, "_group"), through_grouping_sets),
    "a condition into one side of a UNION alone": ((rules, "_union"), into_one_side_of_union),
    "one half of an OR": ((rules, "_halves"), half_of_an_or),
    "a condition that is copied to another column": ((rules, "copies"), copied_onto_any_side),
    "too few columns of a DISTINCT": ((demand, "narrowed"), demand_of_a_distinct),
    "too few columns of a set operation": ((demand, "_combine"), demand_of_a_set_operation),
    "a column of a condition that is not read": ((demand, "narrowed"), demand_without_conditions),
    "the order of a window that is not read": ((demand, "_window"), demand_of_a_window),
    "an expression that is lifted across an outer join": ((lift, "_reached"), lifted_across_null_sides),
    "a reduction with one key too few": ((semi_join, "conditions"), one_key_too_few),
    "a reduction of the kept side of a left join": ((semi_join, "_pairs"), reduces_the_kept_side),
    "a reduction below LIMIT, a window or EXCEPT": ((semi_join, "drops"), reduces_below_anything),
    "a reduction by NOT IN": ((semi_join, "_looked"), reduces_by_not_in),
}


@contextmanager
def planted(fault: str) -> Iterator[None]:
    """Plants a fault for a while."""
    (module, name), wrong = FAULTS[fault]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, wrong)
        if (module, name) == (demand, "narrowed"):
            patch.setattr(rules, name, wrong)
        yield
