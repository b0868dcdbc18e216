"""Binds one SELECT, from below: FROM, WHERE, GROUP BY, HAVING, windows, select list, DISTINCT.

    SELECT DISTINCT ON (a) a, b FROM t ORDER BY a, b DESC

DISTINCT ON is a window: the rows whose row_number over (a, in that order) is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.errors import BindError, Position
from tidegate.expr.model import Column, Expr, build, types
from tidegate.plan import logical, window_frame
from tidegate.sql.bind.expression import Binder
from tidegate.sql.bind.queries.grouping import GroupBinder, first_grouping, groups_of
from tidegate.sql.bind.queries.names import (
    NestedScope,
    PendingColumns,
    RowBinder,
    has_interval,
    look_columns,
)
from tidegate.sql.bind.queries.tables import levels
from tidegate.sql.bind.select_list import order_key, outputs
from tidegate.sql.parse.syntax import Ordering, Select

if TYPE_CHECKING:
    from tidegate.sql.bind.queries.query import QueryBinder


_GROUPING = logical.Group | logical.Distinct


@dataclass(frozen=True)
class BoundSelect:
    """A query before its order and limits: what ORDER BY names may not be among the outputs."""

    rel: logical.Rel
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    order: tuple[logical.SortKey, ...] = ()


class SelectBinder:
    """Binds one SELECT."""

    def __init__(self, queries: QueryBinder, select: Select, outer: NestedScope | None) -> None:
        self.queries, self.select = queries, select
        for construct, at in select.beyond:
            queries.note(construct, at)
        self.rel, entries, order = queries.ordered_source(select.source, outer)
        self.inherited = () if queries.world.lasting else order
        self.rows = queries.binder(NestedScope.over(entries, outer))
        self.rows.around.windows = {name.text: over for name, over in select.windows}

    def bound(self, order_by: Sequence[Ordering]) -> BoundSelect:
        """FROM, WHERE, GROUP BY, HAVING, windows, the select list, DISTINCT; and what ORDER BY wants."""
        select, rows = self.select, self.rows
        grouping = first_grouping(select) if self.queries.world.lasting else None
        if grouping is not None:
            self.queries.note(*grouping)
        if select.where is not None:
            self._filter(rows.condition(select.where, "WHERE"), rows.gathered)
        groups = groups_of(select, order_by, rows)
        binder: RowBinder | GroupBinder = rows if groups is None else groups
        nodes = self.queries.world.shared.nodes(self.rel)
        if (groups or select.distinct) and any(isinstance(node, _GROUPING) for node in nodes):
            self.queries.note("an aggregation over another one", select.at)
        having = None
        if groups is not None and select.having is not None:
            having = groups.condition(select.having.condition, "HAVING")
        asked = len(binder.gathered.looks)
        found = [output for item in select.items for output in outputs(item, binder)]
        names, leaving = tuple(name for name, _ in found), [expr for _, expr in found]
        order = self._order(order_by, binder, names, leaving)
        apart = self._apart(binder, names, leaving)
        if groups is not None:
            self._below(rows.gathered)
            self.rel = groups.group(self.rel, self.inherited)
            self.inherited = ()
        if having is not None:
            first = PendingColumns(binder.gathered.looks[:asked])
            self._filter(having, first)
            del binder.gathered.looks[:asked]
        several = bool(binder.gathered.tables)
        self._below(binder.gathered)
        columns = self._mapped(leaving)
        order = tuple(replace(one, value=columns.get(one.value, one.value)) for one in order)
        if select.distinct is None and not several:
            order = order or self.inherited
        apart = [columns[value] for value in apart]
        return self._distinct(names, tuple(columns[expr] for expr in leaving[: len(names)]), order, apart)

    def _order(
        self, order_by: Sequence[Ordering], binder: Binder, names: tuple[str, ...], leaving: list[Expr]
    ) -> tuple[logical.SortKey, ...]:
        order = []
        for ordering in order_by:
            key = order_key(ordering, binder, names, leaving)
            if self.select.distinct is not None and not self.select.distinct_on and len(leaving) > len(names):
                raise BindError(
                    "SELECT DISTINCT can be ordered only by what it selects",
                    position=binder.position(ordering.value.at),
                )
            order.append(logical.SortKey(leaving[key.column], key.descending, key.nulls_first))
        return tuple(order)

    def _apart(
        self, binder: RowBinder | GroupBinder, names: tuple[str, ...], leaving: list[Expr]
    ) -> list[Expr]:
        """What rows must differ in by DISTINCT ON: outputs by name or number, as in ORDER BY, or others."""
        found = []
        for node in self.select.distinct_on:
            key = order_key(Ordering(node, False, False), binder, names, leaving, "DISTINCT ON")
            found.append(leaving[key.column])
        tables = {column.index for column, _ in binder.gathered.tables}
        if found and tables:
            raise self.queries.unsupported("DISTINCT ON beside a table function", self.select.at)
        return found

    def _filter(self, condition: Expr, gathered: PendingColumns) -> None:
        self._below(gathered)
        self.rel = logical.Filter(self.rel, tuple(build.conjuncts(condition)))

    def _below(self, gathered: PendingColumns) -> None:
        """Adds the subqueries, windows and table functions that expressions need below them, in this order.

        A subquery over what a table function gives comes last.
        """
        rows = {column.index for column, _ in gathered.tables}
        later = [look for look in gathered.looks if rows & look_columns(look[1])]
        first = [look for look in gathered.looks if look not in later]
        for stage in _stages(first):
            self.rel = logical.SubqueryApply(self.rel, stage)
        if gathered.windows:
            computed = tuple(
                (c, one, _over_inherited(one, w, self.inherited)) for c, one, w in gathered.windows
            )
            self.rel = logical.Window(self.rel, computed)
            if rows & logical.columns_read(self.rel):
                raise BindError("a window function cannot be given a table function", hint="put it into FROM")
        for level in levels(gathered.tables):
            self.rel = logical.TableFunctionApply(self.rel, level)
        for stage in _stages(later):
            self.rel = logical.SubqueryApply(self.rel, stage)
        gathered.looks, gathered.windows, gathered.tables = [], [], []

    def _mapped(self, leaving: Sequence[Expr]) -> dict[Expr, Column]:
        """A column for each expression.

        A column of a query around this one gets a number of its own here: a row that an outer join fills with NULLs has NULL in
        what this query makes, and its value in the column outside: `a LEFT JOIN LATERAL (SELECT a.x) s ON false`.
        """
        columns: dict[Expr, Column] = {}
        made = []
        own = {column.index for column in logical.output_columns(self.rel)}
        for expr in leaving:
            if expr in columns:
                continue
            if isinstance(expr, Column) and expr.index in own:
                columns[expr] = expr
                continue
            columns[expr] = self.queries.numbers.new(expr.type)
            made.append((columns[expr], expr))
        if made:
            self.rel = logical.Map(self.rel, tuple(made))
        return columns

    def _distinct(
        self,
        names: tuple[str, ...],
        columns: tuple[Column, ...],
        order: tuple[logical.SortKey, ...],
        apart: list[Expr],
    ) -> BoundSelect:
        if self.select.distinct is None:
            return BoundSelect(self.rel, names, columns, order)
        for value in apart or columns:
            if has_interval(value.type):
                self.queries.refuse("DISTINCT of intervals is not supported", self.select.distinct)
        if not apart:
            called = tuple(Column(c.index, c.type, name) for c, name in zip(columns, names, strict=True))
            return BoundSelect(logical.Distinct(self.rel, called), names, called, order)
        if any(one.value not in apart for one in order[: len(set(apart))]):
            raise BindError(
                "DISTINCT ON must be of what ORDER BY begins with",
                position=Position(self.queries.sql, *self.select.distinct),
            )
        place = self.queries.numbers.new(types.INT8)
        window = logical.Window(
            self.rel,
            (
                (
                    place,
                    logical.AggregateExpr("row_number", types.INT8),
                    logical.WindowSpec(tuple(apart), (*order, *self.inherited)),
                ),
            ),
        )
        first = logical.Filter(window, (build.call("=", place, build.literal(1, types.INT8)),))
        return BoundSelect(first, names, columns, order)


_WHOLE = window_frame.FrameSpec(
    "rows", window_frame.FrameEnd("preceding"), window_frame.FrameEnd("following")
)
_BY_PLACE = frozenset(("row_number", "ntile", "lag", "lead"))
"""Window functions that ask for the places of rows even where no order is written, and see no frame."""


def _over_inherited(
    call: logical.AggregateExpr, over: logical.WindowSpec, order: tuple[logical.SortKey, ...]
) -> logical.WindowSpec:
    """A window without an order over rows that come in one: its functions see them in that order."""
    if over.order or not order:
        return over
    if call.kind in _BY_PLACE:
        return replace(over, order=order)
    if call.kind in window_frame.UNFRAMED or (over.frame is not None and over.frame.unit != "rows"):
        return over
    return replace(over, order=order, frame=over.frame or _WHOLE)


def _stages(
    looks: Sequence[tuple[Column, logical.Subquery]],
) -> list[tuple[tuple[Column, logical.Subquery], ...]]:
    """Subqueries by who reads whom: in `(a IN (…)) IN (…)` the second is compared with the first."""
    stages: list[list[tuple[Column, logical.Subquery]]] = []
    stage: dict[int, int] = {}
    for column, look in looks:
        place = 1 + max((stage[i] for i in look_columns(look) if i in stage), default=-1)
        stage[column.index] = place
        stages += [[]] if place == len(stages) else []
        stages[place].append((column, look))
    return [tuple(some) for some in stages]
