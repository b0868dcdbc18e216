"""Binds a query of one collection: a MapFilterProject, perhaps an aggregation, order and limits.

    WITH recent AS (SELECT * FROM orders WHERE at > '2024-01-01')
    SELECT id, price * 2 AS double FROM recent r WHERE r.price > 5 ORDER BY at DESC LIMIT 10

    source  orders (id int8, price numeric(10,2), at timestamptz)
    mfp     Map (#1 * 2)  Filter (#2 > '2024-01-01'…) AND (#1 > 5)  Project (#0, #3, #2)
    names   id, double                              (the third column is only there to sort by)
    order   column 2, descending; limit 10

Subqueries in FROM, common table expressions and views are composed into the plan of what they read: a select
adds a filter, maps and a projection to it. GROUP BY, aggregates and DISTINCT make a `BoundQuery` with an
aggregation, once; what is around it is composed into the plan above it. What cannot be part of that (joins, windows,
set operations, a LIMIT that is not at the top) is a `PlanError` that names it and points at it. `bind_expression`
binds a single scalar expression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import assert_never

import pyarrow as pa

from tidegate.errors import BindError, ErrorCode, LimitError, PlanError, Position, TidegateError
from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import Column, Expr, Kind, Type, build, types
from tidegate.plan import Aggregation, MapFilterProject
from tidegate.sql.bind import grouping as group
from tidegate.sql.bind.catalog import CatalogEntry, RelationCatalog, ViewRelation
from tidegate.sql.bind.expression import Binder, not_row_by_row
from tidegate.sql.bind.scope import Scope
from tidegate.sql.bind.select_list import OrderKey, by_sort_keys, order_key, outputs, resolve_unknown
from tidegate.sql.parse.from_clause import Alias, Derived, From, JoinClause, TableFunction, TableRef
from tidegate.sql.parse.grammar import statements as grammar
from tidegate.sql.parse.syntax import (
    CommonTable,
    Ident,
    Item,
    Node,
    Ordering,
    Query,
    Select,
    SetOperation,
    Span,
    Star,
    Values,
)

_SCHEMAS = ((), ("public",), ("tidegate", "public"), ("materialize", "public"))


@dataclass(frozen=True)
class BoundQuery:
    """A bound query. The plan's first `len(names)` columns are the result; others are sort keys.

    With an aggregation, what leaves the plan goes through that, and what leaves the aggregation is the result.
    `source` is None for a SELECT without FROM: the plan then maps one row without columns.
    """

    source: str | None
    mfp: MapFilterProject
    names: tuple[str, ...]
    order_by: tuple[OrderKey, ...] = ()
    limit: int | None = None
    offset: int = 0
    aggregation: Aggregation | None = None

    def plan(self, now: int) -> MapFilterProject:
        """The plan at a time, optimised."""
        return self._timeless or self.mfp.at(now).optimise()

    @cached_property
    def _timeless(self) -> MapFilterProject | None:
        """The optimised plan where `mz_now()` decides nothing."""
        return None if self.mfp.is_temporal else self.mfp.optimise()

    @property
    def last(self) -> MapFilterProject:
        """The plan whose columns are the result's."""
        return self.mfp if self.aggregation is None else self.aggregation.above

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of the result's columns."""
        return self.last.types[: len(self.names)]

    def then(
        self, last: MapFilterProject, names: tuple[str, ...], keys: tuple[OrderKey, ...] = ()
    ) -> BoundQuery:
        """With another plan at the end, which goes on from `last`."""
        if self.aggregation is None:
            return BoundQuery(self.source, last, names, keys)
        return BoundQuery(
            self.source, self.mfp, names, keys, aggregation=replace(self.aggregation, above=last)
        )


def bind_expression(sql: str, columns: Sequence[tuple[str, Type]], now_ms: int | None = None) -> Expr:
    """One scalar expression over columns: `expression("price * 2", [("price", INT8)])`."""
    bound = Binder(sql, Scope.of(columns), now_ms).bind(grammar.parse_expression(sql))
    return resolve_unknown(bound)


def bind_query(parsed: Query | str, catalog: RelationCatalog, now_ms: int | None = None) -> BoundQuery:
    """A query that is asked once; `now_ms` is the value of now()."""
    return _bind(parsed, _Tables(catalog, now_ms))


def bind_transform(parsed: Query | str, catalog: RelationCatalog) -> BoundQuery:
    """A query that is maintained: no now(), no order or limit, and only functions that are stable."""
    parsed = grammar.parse_query(parsed) if isinstance(parsed, str) else parsed
    for construct, node in (("LIMIT", parsed.limit), ("OFFSET", parsed.offset)):
        if node is not None:
            raise _beyond(construct, parsed.sql, node.at)
    if parsed.order_by:
        raise _beyond("ORDER BY", parsed.sql, parsed.order_by[0].value.at)
    return _bind(parsed, _Tables(catalog, None, lasting=True))


def bind_as_of(node: Node, sql: str, now_ms: int | None = None) -> int:
    """The time that AS OF names, in milliseconds: a number, or a timestamp."""
    binder = Binder(sql, Scope(()), now_ms)
    bound = binder.bind(node)
    timed = bound.type == types.UNKNOWN or bound.type.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
    if not timed and not bound.type.is_number:
        raise BindError(f"AS OF wants a time, not {bound.type}", position=binder.position(node.at))
    found = bind_constant(bound, types.TIMESTAMPTZ if timed else types.INT8, binder, node, "AS OF")
    if not found.is_valid:
        raise BindError("AS OF wants a time, not NULL", position=binder.position(node.at))
    return int(found.cast(pa.int64()).as_py()) // (1000 if timed else 1)


def _bind(parsed: Query | str, tables: _Tables) -> BoundQuery:
    parsed = grammar.parse_query(parsed) if isinstance(parsed, str) else parsed
    try:
        return _Queries(parsed.sql, tables).query(parsed)
    except RecursionError:
        hint = "views and subqueries can be nested some hundred levels deep"
        raise LimitError(
            "the query is nested too deep", hint=hint, position=parsed.position(parsed.at)
        ) from None


@dataclass(frozen=True)
class _Tables:
    """What names in FROM mean: common tables (or why they cannot be part of a plan), then the catalog."""

    catalog: RelationCatalog
    now_ms: int | None
    lasting: bool = False
    common: Mapping[str, BoundQuery | PlanError] | None = None
    views: tuple[str, ...] = ()
    """Those that are being opened, to find one that contains itself."""


class _Queries:
    """Binds the queries of one SQL text."""

    def __init__(self, sql: str, tables: _Tables) -> None:
        self.sql = sql
        self.tables = tables

    def query(self, parsed: Query) -> BoundQuery:
        """A whole query."""
        if parsed.recursive is not None:
            raise _beyond("WITH RECURSIVE", self.sql, parsed.recursive)
        if parsed.ties is not None:
            raise _beyond("WITH TIES", self.sql, parsed.ties)
        inner = self
        for table in parsed.tables:
            inner = inner._with(table)
        match parsed.body:
            case Select():
                bound = inner._select(parsed.body, parsed.order_by)
            case Values():
                bound = inner._values(parsed.body)
            case SetOperation(name, _, _, at):
                raise _beyond(name, self.sql, at)
            case Query() as nested if parsed.order_by or parsed.limit or parsed.offset:
                everything = (Item(Star((), nested.at), None),)
                outer = Select(everything, Derived(nested, None, nested.at), None, (), nested.at)
                bound = inner._select(outer, parsed.order_by)
            case Query() as nested:
                return inner.query(nested)
            case _:
                assert_never(parsed.body)
        limit, offset = inner._count(parsed.limit, "LIMIT"), inner._count(parsed.offset, "OFFSET") or 0
        return replace(bound, limit=limit, offset=offset)

    def _with(self, table: CommonTable) -> _Queries:
        """With one more common table; one that nobody reads may be beyond a plan."""
        common = dict(self.tables.common or {})
        try:
            found = self._reduced(table.query, f'the common table "{table.name.text}"')
            common[table.name.text] = self._renamed(found, Alias(table.name, table.columns))
        except PlanError as error:
            common[table.name.text] = error
        return _Queries(self.sql, replace(self.tables, common=common))

    def _values(self, values: Values) -> BoundQuery:
        if len(values.rows) > 1:
            raise _beyond("VALUES with several rows", self.sql, values.at)
        items = tuple(Item(value, Ident(f"column{i}", value.at)) for i, value in enumerate(values.rows[0], 1))
        return self._select(Select(items, None, None, (), values.at), ())

    def _count(self, node: Node | None, clause: str) -> int | None:
        """The number in LIMIT or OFFSET."""
        if node is None:
            return None
        binder = Binder(self.sql, Scope(()), self.tables.now_ms)
        value = bind_constant(binder.bind(node), types.INT8, binder, node, clause)
        if value.is_valid and value.as_py() < 0:
            raise BindError(f"{clause} must not be negative", position=binder.position(node.at))
        return None if not value.is_valid else int(value.as_py())

    # ---------------------------------------------------------------- SELECT

    def _select(self, select: Select, order_by: tuple[Ordering, ...]) -> BoundQuery:
        for construct, at in select.beyond:
            raise _beyond(construct, self.sql, at)
        reduced, scope = self._from(select.source)
        rows = Binder(self.sql, scope, self.tables.now_ms, lasting=self.tables.lasting)
        refusal = group.refusal(select, rows) if self.tables.lasting else None
        if refusal is not None:
            raise refusal
        plan = reduced.last
        if select.where is not None:
            plan = plan.filter(rows.condition(select.where, "WHERE"))
        groups = None if self.tables.lasting else group.group_binder(select, order_by, rows)
        binder = groups or rows
        having = None
        if groups is not None and select.having is not None:
            having = groups.condition(select.having.condition, "HAVING")
        found = [output for item in select.items for output in outputs(item, binder)]
        names, leaving = tuple(name for name, _ in found), [expr for _, expr in found]
        keys = []
        for ordering in order_by:
            keys.append(order_key(ordering, binder, names, leaving))
            if select.distinct is not None and len(leaving) > len(names):
                raise BindError(
                    "SELECT DISTINCT can be ordered only by what it selects",
                    position=rows.position(ordering.value.at),
                )
        if reduced.aggregation is not None and (groups is not None or select.distinct is not None):
            raise _beyond("an aggregation over another one", self.sql, select.at)
        if groups is None and select.distinct is not None:
            return _distinct(reduced.source, plan.select(leaving), names, keys)
        sorted_by = by_sort_keys(keys, leaving)
        if groups is None:
            return reduced.then(plan.select(leaving), names, sorted_by)
        grouped = select.group_by is not None and bool(select.group_by.keys)
        below, whole = groups.aggregation(plan, having, leaving, grouped=grouped)
        whole = whole if select.distinct is None else replace(whole, distinct=len(names))
        return BoundQuery(reduced.source, below, names, sorted_by, aggregation=whole)

    # ---------------------------------------------------------------- FROM

    def _from(self, source: From | None) -> tuple[BoundQuery, Scope]:
        """What stands in FROM, and the names that it brings."""
        match source:
            case None:
                return BoundQuery(None, MapFilterProject.identity(()), ()), Scope(())
            case TableRef():
                reduced = self._named(source)
                table: str | None = source.name[-1].text
            case Derived():
                reduced, table = self._reduced(source.query, "a subquery"), None
            case TableFunction():
                raise _beyond("a table function in FROM", self.sql, source.at)
            case JoinClause(kind, _, _, _, _, at):
                raise _beyond(f"a {kind}", self.sql, at)
            case _:
                assert_never(source)
        if source.alias is not None:
            reduced, table = self._renamed(reduced, source.alias), source.alias.name.text
        return reduced, Scope.of(zip(reduced.names, reduced.last.types, strict=True), table)

    def _reduced(self, parsed: Query, what: str) -> BoundQuery:
        """A query inside another: its order is forgotten, its limits are refused."""
        bound = self.query(parsed)
        if bound.limit is not None or bound.offset:
            node = parsed.limit or parsed.offset
            raise _beyond(f"LIMIT in {what}", self.sql, parsed.at if node is None else node.at)
        if bound.aggregation is not None and bound.aggregation.distinct is not None:
            raise _beyond(f"DISTINCT over groups in {what}", self.sql, parsed.at)
        return bound.then(bound.last.project(range(len(bound.names))), bound.names)

    def _renamed(self, reduced: BoundQuery, alias: Alias) -> BoundQuery:
        """With the column names that an alias gives to the first columns."""
        if len(alias.columns) > len(reduced.names):
            have, given = len(reduced.names), len(alias.columns)
            message = f'"{alias.name.text}" has {have} columns, and {given} names are given'
            raise BindError(message, position=Position(self.sql, *alias.columns[have].at))
        names = tuple(column.text for column in alias.columns)
        return replace(reduced, names=names + reduced.names[len(names) :])

    def _named(self, table: TableRef) -> BoundQuery:
        """A common table, a collection or a view."""
        *schema, name = (part.text for part in table.name)
        common = (self.tables.common or {}).get(name) if not schema else None
        if isinstance(common, PlanError):
            raise common
        if common is not None:
            return common
        entry = find_relation(self.tables.catalog, table, self.sql)
        if isinstance(entry, ViewRelation):
            return self._view(name, entry, table.at)
        return BoundQuery(entry.name, entry.plan, tuple(column for column, _ in entry.columns))

    def _view(self, name: str, view: ViewRelation, at: Span) -> BoundQuery:
        """A view's query, bound in its own text: it sees none of the common tables around it."""
        if name in self.tables.views:
            raise BindError(f'view "{name}" reads itself', position=Position(self.sql, *at))
        tables = replace(self.tables, common=None, views=(*self.tables.views, name))
        try:
            reduced = _Queries(view.sql, tables)._reduced(grammar.parse_query(view.sql), "a view")
        except TidegateError as error:
            error.set_view(name)
            raise
        return replace(reduced, names=view.columns + reduced.names[len(view.columns) :])


def _distinct(
    source: str | None, below: MapFilterProject, names: tuple[str, ...], keys: Sequence[OrderKey]
) -> BoundQuery:
    """SELECT DISTINCT: groups by all columns, which may be sorted."""
    leaving: list[Expr] = [Column(i, type_, names[i]) for i, type_ in enumerate(below.types)]
    sorted_by = by_sort_keys(keys, leaving)
    above = MapFilterProject.identity(below.types).select(leaving)
    return BoundQuery(
        source, below, names, sorted_by, aggregation=Aggregation(len(names), (), above, True, names)
    )


def find_relation(catalog: RelationCatalog, table: TableRef, sql: str) -> CatalogEntry:
    """The collection or view of a name in FROM; an error with its position if there is none."""
    *schema, name = (part.text for part in table.name)
    try:
        entry = catalog.relation(name) if tuple(schema) in _SCHEMAS else None
    except TidegateError as error:
        error.position = error.position or Position(sql, *table.at)
        raise
    if entry is None:
        raise BindError(
            f'there is no collection or view "{".".join((*schema, name))}"',
            code=ErrorCode.UNDEFINED_TABLE,
            hint="SHOW TABLES, SHOW SOURCES and SHOW VIEWS list them",
            position=Position(sql, *table.at),
        )
    return entry


def _beyond(construct: str, sql: str, at: Span) -> PlanError:
    error = not_row_by_row(construct)
    error.position = Position(sql, *at)
    return error


def bind_constant(expr: Expr, target: Type, binder: Binder, node: Node, clause: str) -> pa.Scalar:
    """The value of an expression that reads no columns, as `target`."""
    try:
        outcome = evaluate(build.cast(expr, target), [], 1)
    except TidegateError as error:
        error.message = f"{clause}: {error.message}"
        error.position = binder.position(node.at)
        raise
    if outcome.errors is not None and outcome.errors[0].is_valid:
        raise BindError(f"{clause}: {outcome.errors[0].as_py()}", position=binder.position(node.at))
    return outcome.values[0]
