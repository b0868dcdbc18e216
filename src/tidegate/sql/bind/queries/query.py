"""Binds queries to the logical tree of `plan/logical.py`: the only binder of queries that there is.

    QueryBinder(sql, World(catalog, now_ms)).whole(parsed)      LogicalQuery(rel, names, columns)

A common table or a view is bound once (`common.py`), and its columns get numbers of their own wherever it is read. What is more
than a plan over one collection is noted with its place in the text (`note`); a query that is kept (TRANSFORM USING) may have
nothing of the kind, and is refused there. So is, of what engines do otherwise than we do (`refuse`), the first on the query that is
given to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, assert_never

from tidegate.errors import BindError, Position, TidegateError, UnsupportedError
from tidegate.expr.model import Column, Expr, Type, build, permute, types
from tidegate.plan import logical
from tidegate.sql.bind.catalog import Relation, RelationCatalog, ViewRelation, find_relation
from tidegate.sql.bind.constants import row_count
from tidegate.sql.bind.expression import Binder
from tidegate.sql.bind.queries.common import CommonQueries
from tidegate.sql.bind.queries.joins import joined
from tidegate.sql.bind.queries.names import (
    NestedScope,
    QueryContext,
    RowBinder,
    ScopeColumn,
    has_interval,
    surrounding,
)
from tidegate.sql.bind.queries.notes import BindingNotes, ColumnIds, RowMap, WholeRow
from tidegate.sql.bind.queries.recursive import (
    CommonSource,
    OrdinaryTable,
    RecursiveTable,
    check_recursion,
    table_names,
)
from tidegate.sql.bind.queries.select import BoundSelect, SelectBinder
from tidegate.sql.bind.queries.tables import table_function
from tidegate.sql.bind.queries.values import bound_values
from tidegate.sql.bind.scope import Scope
from tidegate.sql.bind.select_list import order_key
from tidegate.sql.bind.unknown_literals import literal_places, type_of_literal, with_literal_types
from tidegate.sql.lower.sharing import shared
from tidegate.sql.parse.from_clause import Alias, Derived, From, JoinClause, TableFunction, TableRef
from tidegate.sql.parse.grammar import statements as grammar
from tidegate.sql.parse.syntax import CommonTable, Ident, Node, Ordering, Query, Select, SetOperation, Values
from tidegate.sql.parse.syntax import Span as Place

_WORDS: dict[str, Literal["UNION", "INTERSECT", "EXCEPT"]] = {
    "UNION": "UNION", "INTERSECT": "INTERSECT", "EXCEPT": "EXCEPT",
}  # fmt: skip


@dataclass(frozen=True)
class World:
    """What names in FROM mean: common tables, then the catalog."""

    catalog: RelationCatalog
    now_ms: int | None
    lasting: bool = False
    """Whether the query is kept, and is to be nothing but map, filter and project."""
    numbers: ColumnIds = field(default_factory=ColumnIds)
    shared: CommonQueries = field(default_factory=CommonQueries)
    notes: BindingNotes = field(default_factory=BindingNotes)
    common: Mapping[str, CommonSource] | None = None
    views: tuple[str, ...] = ()


class QueryBinder:
    """Binds the queries of one SQL text."""

    def __init__(self, sql: str, world: World) -> None:
        self.sql, self.world, self.numbers = sql, world, world.numbers

    def whole(self, parsed: Query) -> logical.LogicalQuery:
        """The outermost query."""
        found = self.query(parsed, None)
        if not found.columns:
            raise self.unsupported("a query without columns, other than in EXISTS,", parsed.at)
        return self.complete(found)

    def complete(self, found: logical.LogicalQuery) -> logical.LogicalQuery:
        """A tree that is bound, with the definitions of what it reads and the notes on it."""
        notes = self.world.notes
        tree = replace(found, rel=self.world.shared.around(found.rel), count=self.numbers.count)
        return replace(shared(tree), obstacle=notes.obstacle, refusal=notes.refusal)

    def query(
        self, parsed: Query, outer: NestedScope | None, within: str | None = None
    ) -> logical.LogicalQuery:
        """A query, inside of others whose names are `outer`.

        `within` says inside of what: its order then counts only for its limits.
        """
        inner = self.with_tables(parsed.tables, parsed.recursive, outer)
        if isinstance(parsed.body, Query) and not (parsed.order_by or parsed.limit or parsed.offset):
            return inner.query(parsed.body, outer, within)
        return inner._limited(parsed, outer, within)

    def with_tables(
        self, tables: Sequence[CommonTable], recursive: Place | None, outer: NestedScope | None = None
    ) -> QueryBinder:
        """Binds what stands behind WITH."""
        if recursive is not None:
            self.note("WITH RECURSIVE", recursive)
            check_recursion(tables, self.sql)
        inner = self
        for table in tables:
            inner = inner._with(table, outer, recursive=recursive is not None)
        return inner

    def _limited(self, parsed: Query, outer: NestedScope | None, within: str | None) -> logical.LogicalQuery:
        """A query with its order and limits."""
        if parsed.ties is not None:
            self.note("WITH TIES", parsed.ties)
        bound = self._body(parsed, outer)
        limit, offset = self._count(parsed.limit, "LIMIT"), self._count(parsed.offset, "OFFSET") or 0
        rel = bound.rel
        if within is not None:
            self._note_nested(parsed, rel, within, limited=limit is not None or offset > 0)
        if parsed.ties is not None and limit is not None:
            rel, limit = self._ties(bound, limit, offset, parsed.ties)
        if limit is not None or offset or (bound.order and within is None):
            rel = logical.Sort(rel, bound.order, limit, offset)
        return logical.LogicalQuery(rel, bound.names, bound.columns, order=bound.order)

    def _note_nested(self, parsed: Query, rel: logical.Rel, within: str, *, limited: bool) -> None:
        """Notes what a query inside of another one cannot be in a plan over one collection."""
        if limited:
            node = parsed.limit or parsed.offset
            self.note(f"LIMIT in {within}", parsed.at if node is None else node.at)
        nodes = self.world.shared.nodes(rel)
        if isinstance(rel, logical.Distinct) and any(isinstance(node, logical.Group) for node in nodes):
            self.note(f"DISTINCT over groups in {within}", parsed.at)

    def note(self, construct: str, at: Place) -> None:
        """Notes what is more than a plan over one collection; a query that is kept is refused."""
        view = self.world.views[-1] if self.world.views else None
        obstacle = logical.Obstacle(construct, Position(self.sql, *at), view)
        if self.world.lasting:
            raise obstacle.error()
        self.world.notes.add(obstacle)

    def refuse(self, message: str, at: Place, hint: str | None = None) -> None:
        """Notes what engines do otherwise than we do."""
        view = self.world.views[-1] if self.world.views else None
        self.world.notes.add(logical.Refusal(message, Position(self.sql, *at), hint, view))

    def _ties(self, bound: BoundSelect, limit: int, offset: int, at: Place) -> tuple[logical.Rel, int | None]:
        """WITH TIES: the rows before which there are fewer than the limit and the offset together."""
        if not bound.order:
            raise BindError(
                "WITH TIES needs an ORDER BY", hint="or write ROWS ONLY", position=Position(self.sql, *at)
            )
        if not limit:
            return bound.rel, 0
        rank = self.numbers.new(types.INT8)
        call = logical.AggregateExpr("rank", types.INT8)
        ranked = logical.Window(bound.rel, ((rank, call, logical.WindowSpec((), bound.order)),))
        last = build.literal(min(limit + offset, 2**63 - 1), types.INT8)
        return logical.Filter(ranked, (build.call("<=", rank, last),)), None

    def _with(self, table: CommonTable, outer: NestedScope | None, *, recursive: bool) -> QueryBinder:
        common: dict[str, CommonSource] = {**(self.world.common or {})}
        loop = recursive and table.name.text in table_names(table.query)
        common[table.name.text] = (
            RecursiveTable(table, self, outer) if loop else OrdinaryTable(table, self, outer)
        )
        return self.among(common)

    def among(self, common: Mapping[str, CommonSource]) -> QueryBinder:
        """Binds queries that see these common tables."""
        return QueryBinder(self.sql, replace(self.world, common=common))

    @property
    def common(self) -> Mapping[str, CommonSource]:
        """The common tables in sight."""
        return self.world.common or {}

    def _body(self, parsed: Query, outer: NestedScope | None) -> BoundSelect:
        body = parsed.body
        match body:
            case Select():
                return SelectBinder(self, body, outer).bound(parsed.order_by)
            case Query() | Values() | SetOperation():
                found = self.operand(body, outer)
                return replace(found, order=self._order(parsed.order_by, found) or found.order)
            case _:
                assert_never(body)

    def operand(self, body: Select | Query | Values | SetOperation, outer: NestedScope | None) -> BoundSelect:
        """A query, or one side of a set operation, without its order and limits."""
        match body:
            case Select():
                return SelectBinder(self, body, outer).bound(())
            case Query():
                found = self.query(body, outer, "a subquery")
                return BoundSelect(found.rel, found.names, found.columns, found.order)
            case Values():
                return bound_values(self, body, outer)
            case SetOperation():
                self.note(body.name, body.at)
                return self._combined(body, outer)
            case _:
                assert_never(body)

    def _order(self, order_by: Sequence[Ordering], bound: BoundSelect) -> tuple[logical.SortKey, ...]:
        """ORDER BY of what has outputs only: by their names or numbers."""
        entries = [ScopeColumn(None, n, c) for n, c in zip(bound.names, bound.columns, strict=True)]
        binder = self.binder(NestedScope.over(entries))
        leaving: list[Expr] = list(bound.columns)
        order = []
        for ordering in order_by:
            key = order_key(ordering, binder, bound.names, leaving)
            order.append(logical.SortKey(leaving[key.column], key.descending, key.nulls_first))
        return tuple(order)

    def binder(self, names: NestedScope) -> RowBinder:
        """Binds expressions over names."""
        return RowBinder(self.sql, names, self.world.now_ms, QueryContext(self))

    def nested(self, parsed: Query, outer: NestedScope, in_order: bool) -> logical.LogicalQuery:
        """A query in an expression; `in_order`: its order counts."""
        return self.query(parsed, outer, None if in_order else "a subquery")

    def unsupported(self, construct: str, at: Place) -> UnsupportedError:
        """The refusal of what nobody here does."""
        return UnsupportedError(f"{construct} is not supported", position=Position(self.sql, *at))

    def _count(self, node: Node | None, clause: str) -> int | None:
        """The number in LIMIT or OFFSET."""
        if node is None:
            return None
        return row_count(Binder(self.sql, Scope(()), self.world.now_ms), node, clause)

    # ---------------------------------------------------------------- set operations

    def common_type(self, types: Sequence[Type], what: str, at: Place) -> Type:
        """The type that all of these have, in an operation that is called so in errors."""
        common = build.common_type(types)
        if common is None:
            kinds = " and ".join(dict.fromkeys(map(str, types)))
            raise BindError(f"{what} types {kinds} cannot be matched", position=Position(self.sql, *at))
        return common

    def _combined(self, body: SetOperation, outer: NestedScope | None) -> BoundSelect:
        left, right = self._operands(body, outer)
        at = Position(self.sql, *body.at)
        word, _, all_ = body.name.partition(" ")
        if len(left.columns) != len(right.columns):
            message = f"{word} of {len(left.columns)} and {len(right.columns)} columns"
            raise BindError(message, position=at)
        pairs = list(zip(left.columns, right.columns, strict=True))
        types = [self.common_type([a.type, b.type], word, body.at) for a, b in pairs]
        if not (word == "UNION" and all_) and any(map(has_interval, types)):
            raise self.unsupported(f"{word} of intervals, which must compare them,", body.at)
        columns = tuple(self.numbers.new(t, n) for t, n in zip(types, left.names, strict=True))
        sides = [self.brought(side, types) for side in (left, right)]
        (a, a_columns), (b, b_columns) = sides
        rel = logical.SetOp(_WORDS[word], bool(all_), a, b, columns, a_columns, b_columns)
        return BoundSelect(rel, left.names, columns)

    def _operands(self, body: SetOperation, outer: NestedScope | None) -> tuple[BoundSelect, BoundSelect]:
        """Both sides of a set operation; a literal without a type takes that of the other side."""
        left, right = self.operand(body.left, outer), self.operand(body.right, outer)
        places = [literal_places(side) for side in (body.left, body.right)]
        for side, (own, others) in enumerate((places, places[::-1])):
            other = (right, left)[side]
            typed = {
                i: type_of_literal(literal, other.columns[i].type)
                for i, literal in own.items()
                if i not in others and i < len(other.columns)
            }
            typed = {i: type_ for i, type_ in typed.items() if type_ != types.TEXT}
            if typed and side == 0:
                left = replace(self.operand(with_literal_types(body.left, typed), outer), names=left.names)
            elif typed:
                right = self.operand(with_literal_types(body.right, typed), outer)
        return left, right

    def brought(self, side: BoundSelect, types: Sequence[Type]) -> tuple[logical.Rel, tuple[Column, ...]]:
        """One side of a set operation, with the types of both."""
        made, columns = [], []
        for column, type_ in zip(side.columns, types, strict=True):
            value = build.cast(column, type_) if column.type.arrow != type_.arrow else column
            if isinstance(value, Column):
                columns.append(value)
                continue
            columns.append(self.numbers.new(type_, column.name))
            made.append((columns[-1], value))
        return (logical.Map(side.rel, tuple(made)) if made else side.rel), tuple(columns)

    # ---------------------------------------------------------------- FROM

    def source(self, source: From | None, outer: NestedScope | None) -> tuple[logical.Rel, list[ScopeColumn]]:
        """What stands in FROM, and the names that it brings."""
        match source:
            case None:
                return logical.SingleRow(), []
            case TableRef() | Derived():
                return self.ordered_source(source, outer)[:2]
            case TableFunction():
                self.note("a table function in FROM", source.at)
                return table_function(self, source, outer)
            case JoinClause():
                self.note(f"a {source.kind}", source.at)
                return joined(self, source, outer)
            case _:
                assert_never(source)

    def ordered_source(
        self, source: From | None, outer: NestedScope | None
    ) -> tuple[logical.Rel, list[ScopeColumn], tuple[logical.SortKey, ...]]:
        """What stands in FROM, and the order of a query that stands there alone."""
        match source:
            case TableRef():
                found = self._named(source)
                return *self._called(found, source.alias, source.name[-1].text), found.order
            case Derived():
                around = surrounding(outer) if source.lateral else _beyond(outer)
                found = self.query(source.query, around, "a subquery")
                return *self._called(found, source.alias, None), found.order
            case _:
                return *self.source(source, outer), ()

    def _called(
        self, found: logical.LogicalQuery, alias: Alias | None, table: str | None
    ) -> tuple[logical.Rel, list[ScopeColumn]]:
        names = found.names
        if alias is not None:
            table, names = alias.name.text, self.renamed(names, alias.name, alias.columns)
        entries = [ScopeColumn(table, n, c) for n, c in zip(names, found.columns, strict=True)]
        if table is None or not entries or self.world.lasting:
            return found.rel, entries
        row = WholeRow(table, names, found.columns, self.numbers.next())
        entries.append(ScopeColumn(table, "", row.placeholder, bare=False, whole=True, row=row))
        return RowMap.over(found.rel, row), entries

    def renamed(self, names: tuple[str, ...], table: Ident, given: Sequence[Ident]) -> tuple[str, ...]:
        """The names of columns, of which the first are given others."""
        if len(given) > len(names):
            message = f'"{table.text}" has {len(names)} columns, and {len(given)} names are given'
            raise BindError(message, position=Position(self.sql, *given[len(names)].at))
        return tuple(column.text for column in given) + names[len(given) :]

    def _named(self, table: TableRef) -> logical.LogicalQuery:
        """A common table, a collection or a view."""
        *schema, name = (part.text for part in table.name)
        common = self.common.get(name) if not schema else None
        if common is not None:
            return common.bound(table.at)
        entry = find_relation(self.world.catalog, table, self.sql)
        if isinstance(entry, ViewRelation):
            bind = partial(self._view, name, entry, table.at)
            return self.world.shared.read(self.numbers, name, name, bind, is_view=True)
        return self.scan(entry)

    def scan(self, entry: Relation) -> logical.LogicalQuery:
        """A collection. What it hides is among the scan's columns, and only its conditions read that."""
        names = tuple(column for column, _ in entry.columns)
        if entry.stored is None:
            columns = self.numbers.several(entry.columns, entry.scanned)
            return logical.LogicalQuery(logical.Scan(entry.name, columns), names, columns)
        plan = entry.stored
        called = dict(zip(plan.projection, names, strict=True))
        stored = self.numbers.several([(called.get(i, ""), type_) for i, type_ in enumerate(plan.inputs)])
        places = [column.index for column in stored]
        conditions = tuple(permute(condition, places) for condition in plan.conditions)
        columns = tuple(stored[i] for i in plan.projection)
        return logical.LogicalQuery(logical.Scan(entry.name, stored, conditions), names, columns)

    def _view(self, name: str, view: ViewRelation, at: Place) -> logical.LogicalQuery:
        if name in self.world.views:
            raise BindError(f'view "{name}" reads itself', position=Position(self.sql, *at))
        world = replace(self.world, common=None, views=(*self.world.views, name))
        try:
            found = QueryBinder(view.sql, world).query(grammar.parse_query(view.sql), None, "a view")
        except TidegateError as error:
            error.set_view(name)
            raise
        return replace(found, names=view.columns + found.names[len(view.columns) :])


def _beyond(outer: NestedScope | None) -> NestedScope | None:
    """What a subquery in FROM that is not LATERAL sees: nothing of the FROM that it stands in."""
    while outer is not None and outer.beside:
        outer = outer.outer
    return outer
