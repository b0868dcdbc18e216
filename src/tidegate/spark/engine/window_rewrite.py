"""Window functions that Spark lacks, written with those that it has: rules over the logical tree.

    sum(x) OVER (ORDER BY y GROUPS BETWEEN 1 PRECEDING AND 2 FOLLOWING)

    Window  sum(x) OVER (ORDER BY #9 RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING)
      Window  #9 = dense_rank() OVER (ORDER BY y)

The groups of equal rows have numbers, and a distance in groups is a distance in these numbers. For EXCLUDE, each row gets its
number and that of its group; the values of the whole frame are listed with these numbers, those that are excluded are left out of
the list, and the rest is aggregated (`excluding_sql.py`): `excluding(x, row, group, 'sum', 'ties')`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegate.expr.model import Column, build, tree, types
from tidegate.plan import logical, window_frame

EXCLUDING = "excluding"
"""The kind of an aggregate over a frame some rows of which are excluded."""
_Computed = tuple[Column, logical.AggregateExpr, logical.WindowSpec]


def rewrite_windows(query: logical.LogicalQuery) -> logical.LogicalQuery:
    """The same query without GROUPS and EXCLUDE in windows."""
    numbers = _Numbers(query.count)
    rel = _rewritten(_rewritten(query.rel, numbers, _without_groups), numbers, _without_exclude)
    return replace(query, rel=rel, count=numbers.count) if numbers.count > query.count else query


class _Numbers:
    """Gives columns their numbers, and collects the ranks that they stand for, of one Window."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.ranks: dict[tuple[str, logical.WindowSpec], Column] = {}

    def rank(self, kind: str, span: logical.WindowSpec) -> Column:
        """The column of a rank in a window."""
        key = (kind, replace(span, frame=None))
        if key not in self.ranks:
            self.count += 1
            self.ranks[key] = Column(self.count - 1, types.INT8)
        return self.ranks[key]


def _rewritten(
    rel: logical.Rel,
    numbers: _Numbers,
    rule: Callable[[_Computed, _Numbers], _Computed],
) -> logical.Rel:
    below = logical.inputs(rel)
    new = tuple(_rewritten(one, numbers, rule) for one in below)
    if any(a is not b for a, b in zip(below, new, strict=True)):
        rel = logical.with_inputs(rel, new)
    if not isinstance(rel, logical.Window):
        return rel
    numbers.ranks = {}
    computed = tuple(rule(one, numbers) for one in rel.computed)
    if not numbers.ranks:
        return rel
    ranks = ((c, logical.AggregateExpr(kind, types.INT8), span) for (kind, span), c in numbers.ranks.items())
    return logical.Window(logical.Window(rel.input, tuple(ranks)), computed)


def _without_groups(one: _Computed, numbers: _Numbers) -> _Computed:
    column, call, span = one
    if span.frame is None or span.frame.unit != "groups" or call.kind in window_frame.UNFRAMED:
        return one
    key = logical.SortKey(numbers.rank("dense_rank", span), descending=False, nulls_first=False)
    return column, call, replace(span, order=(key,), frame=replace(span.frame, unit="range"))


def _without_exclude(one: _Computed, numbers: _Numbers) -> _Computed:
    column, call, span = one
    if span.frame is None or span.frame.exclude is None or call.kind in window_frame.UNFRAMED:
        return one
    row, group = numbers.rank("row_number", span), numbers.rank("dense_rank", span)
    words = (build.literal(word, types.TEXT) for word in (call.kind, span.frame.exclude))
    args = (*(call.args[:1] or (tree.TRUE,)), row, group, *words, *call.args[1:])
    frame = replace(span.frame, exclude=None)
    return column, replace(call, kind=EXCLUDING, args=args), replace(span, frame=frame)
