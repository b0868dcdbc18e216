"""Whether a query is a plan over one collection, asked of its tree: `single_collection(query)`.

    SELECT c, 2 * sum(p) FROM (SELECT customer AS c, price AS p FROM orders WHERE price > 0) GROUP BY c ORDER BY 2 LIMIT 3

    Sort #5, limit 3                          order   column 1; limit 3
      Map #4 * 2 as #5                        above   Map #1 * 2  Project (#0, #2)
        Group #1: sum(#2) as #4               groups  by #0: sum(#1)
          Filter #2 > 0                       mfp     Filter #2 > 0  Project (#1, #2)
            Scan orders                       source  orders

| node | becomes |
|---|---|
| Scan, SingleRow, one row of constants | the source, and the first expressions of the plan |
| Map, Filter | expressions and predicates of the plan, or of the plan over groups |
| Group, with aggregates of `plan/aggregate.py` alone | the aggregation; so does Distinct, without aggregates |
| Distinct over groups, with no more than a Sort above | `distinct` of the aggregation |
| Sort at the top | order, limit, offset |

Any other node, or an aggregation over another one: None, and engines run the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast, get_args

from tidegate.expr.model import Column, Expr, Type, build, permute
from tidegate.plan import (
    Aggregate,
    Aggregation,
    BoundQuery,
    MapFilterProject,
    OrderKey,
    aggregate,
    logical,
)

_KINDS = frozenset(get_args(aggregate.AggregateKind))
_Step: TypeAlias = logical.Map | logical.Filter | logical.Group | logical.Distinct
_Leaf: TypeAlias = logical.Scan | logical.SingleRow | logical.ConstantRows


def single_collection(query: logical.LogicalQuery) -> BoundQuery | None:
    """The query as a plan over one collection, or over a single row; None if it is more than that."""
    sort = query.rel if isinstance(query.rel, logical.Sort) else None
    rel = query.rel if sort is None else sort.input
    steps: list[_Step] = []
    while isinstance(rel, logical.Map | logical.Filter | logical.Group | logical.Distinct):
        steps.append(rel)
        rel = rel.input
    if not isinstance(rel, logical.Scan | logical.SingleRow | logical.ConstantRows):
        return None
    if isinstance(rel, logical.ConstantRows) and len(rel.rows) != 1:
        return None
    if isinstance(rel, logical.Scan) and rel.address:
        return None
    chain = _Chain.over(rel)
    if not all(map(chain.add, reversed(steps))):
        return None
    return chain.query(query, sort)


class _PlanBuilder:
    """A MapFilterProject that is being built, and where it has the columns of the tree."""

    def __init__(self, inputs: Sequence[Type], columns: Sequence[Column]) -> None:
        self.inputs = tuple(inputs)
        self.expressions: list[Expr] = []
        self.predicates: list[Expr] = []
        numbers = [column.index for column in columns]
        self.places = dict(zip(numbers, range(len(numbers)), strict=True))

    def filter(self, conditions: Sequence[Expr]) -> None:
        self.predicates += [permute(part, self.places) for c in conditions for part in build.conjuncts(c)]

    def map(self, computed: logical.ComputedColumns) -> None:
        for column, value in computed:
            self.places[column.index] = self._place(value)

    def _place(self, value: Expr) -> int:
        """Where an expression is, which is computed if it is no column."""
        if isinstance(value, Column):
            return self.places[value.index]
        self.expressions.append(permute(value, self.places))
        return len(self.inputs) + len(self.expressions) - 1

    def project(self, outputs: Sequence[Expr]) -> MapFilterProject:
        """The plan with these outputs; equal ones are computed once."""
        places: dict[Expr, int] = {}
        for output in outputs:
            if output not in places:
                places[output] = self._place(output)
        projection = tuple(places[output] for output in outputs)
        return MapFilterProject(self.inputs, tuple(self.expressions), tuple(self.predicates), projection)


@dataclass
class _Chain:
    """The nodes of a tree from its leaf upwards, as far as they are a plan."""

    source: str | None
    plan: _PlanBuilder
    """Over rows; behind an aggregation, over its groups."""
    below: MapFilterProject | None = None
    """The plan over rows, of a query with an aggregation."""
    groups: Aggregation | None = None
    """What `query` gives its plan above."""
    distinct: tuple[Column, ...] | None = field(default=None)
    """The columns of a DISTINCT over groups, above which nothing but the order may stand."""

    @staticmethod
    def over(leaf: _Leaf) -> _Chain:
        match leaf:
            case logical.Scan(source, columns, conditions):
                plan = _PlanBuilder([column.type for column in columns], columns)
                plan.filter(conditions)
                return _Chain(source, plan)
            case logical.ConstantRows(columns, rows):
                plan = _PlanBuilder((), ())
                plan.map(tuple(zip(columns, rows[0], strict=True)))
                return _Chain(None, plan)
            case logical.SingleRow():
                return _Chain(None, _PlanBuilder((), ()))

    def add(self, step: _Step) -> bool:
        """Adds the node above; False if there is no plan with it."""
        match step:
            case logical.Map(_, computed):
                self.plan.map(computed)
                return not computed or self.distinct is None
            case logical.Filter(_, conditions):
                self.plan.filter(conditions)
                return self.distinct is None
            case logical.Group():
                return self._group(step)
            case logical.Distinct(_, columns) if self.groups is None:
                self._aggregate(columns, (), columns, columns, grouped=True)
                return True
            case logical.Distinct(_, columns):
                repeated, self.distinct = self.distinct is not None, columns
                return not repeated

    def _group(self, group: logical.Group) -> bool:
        plain = all(
            one.kind in _KINDS and len(one.args) < 2 and not one.order and one.where is None
            for _, one in group.computed
        )
        if self.groups is not None or group.sets or not plain:
            return False
        keys = tuple(value for _, value in group.keys)
        given = tuple(dict.fromkeys(one.args[0] for _, one in group.computed if one.args))
        aggregates = tuple(
            Aggregate(
                cast("aggregate.AggregateKind", one.kind),
                one.type,
                len(keys) + given.index(one.args[0]) if one.args else None,
                one.distinct,
            )
            for _, one in group.computed
        )
        columns = tuple(column for column, _ in (*group.keys, *group.computed))
        self._aggregate((*keys, *given), aggregates, columns[: len(keys)], columns, grouped=bool(keys))
        return True

    def _aggregate(
        self,
        outputs: Sequence[Expr],
        aggregates: tuple[Aggregate, ...],
        keys: Sequence[Column],
        columns: Sequence[Column],
        *,
        grouped: bool,
    ) -> None:
        self.below = self.plan.project(outputs)
        self.plan = _PlanBuilder([column.type for column in columns], columns)
        labels = tuple(column.name for column in columns)
        self.groups = Aggregation(len(keys), aggregates, self.plan.project(()), grouped, labels)

    def query(self, query: logical.LogicalQuery, sort: logical.Sort | None) -> BoundQuery | None:
        """The whole query: what leaves it, and what it is sorted by."""
        if self.distinct is not None and self.distinct != query.columns:
            return None
        leaving: list[Expr] = list(query.columns)
        order = () if sort is None else _order(sort.order, leaving)
        limit, offset = (None, 0) if sort is None else (sort.limit, sort.offset)
        last = self.plan.project(leaving)
        if self.below is None or self.groups is None:
            return BoundQuery(self.source, last, query.names, order, limit, offset)
        distinct = None if self.distinct is None else len(query.names)
        groups = replace(self.groups, above=last, distinct=distinct)
        return BoundQuery(self.source, self.below, query.names, order, limit, offset, groups)


def _order(order: Sequence[logical.SortKey], leaving: list[Expr]) -> tuple[OrderKey, ...]:
    """ORDER BY as columns of what leaves the plan.

    What does not leave yet is added to it, and the sort keys of jsonb behind that.
    """
    leaving += [value for value in dict.fromkeys(key.value for key in order) if value not in leaving]
    found = []
    for key in order:
        value = build.sort_key(key.value)
        if value not in leaving:
            leaving.append(value)
        found.append(OrderKey(leaving.index(value), key.descending, key.nulls_first))
    return tuple(found)
