"""Binds a query of any shape to the logical tree of `plan/logical.py`.

    general("SELECT * FROM a JOIN b USING (id)", catalog, now_ms)      General(rel, names, columns)

Names mean what they mean there; types, overloads and constants are those of `expr/model/build.py`; so a query means the same
whichever
way it is run. A common table or a view is bound anew wherever it is read, and its columns get numbers of their own each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Literal, assert_never

from tidegate.errors import BindError, LimitError, Position, TidegateError, UnsupportedError
from tidegate.expr.model import Column, Expr, Type, build, permute, types
from tidegate.plan import logical
from tidegate.sql.bind.catalog import Relation, RelationCatalog, ViewRelation
from tidegate.sql.bind.expression import Binder
from tidegate.sql.bind.general.joins import joined
from tidegate.sql.bind.general.names import (
    ColumnIds,
    NestedScope,
    QueryContext,
    RowBinder,
    ScopeColumn,
    has_interval,
)
from tidegate.sql.bind.general.select import BoundSelect, SelectBinder
from tidegate.sql.bind.query import bind_constant, find_relation
from tidegate.sql.bind.scope import Scope
from tidegate.sql.bind.select_list import order_key
from tidegate.sql.lower.push_down import push_down
from tidegate.sql.parse.grammar import statements as grammar
from tidegate.sql.parse.syntax import (
    Alias,
    CommonTable,
    Derived,
    From,
    JoinClause,
    Node,
    Ordering,
    Query,
    Select,
    SetOperation,
    TableFunction,
    TableRef,
    Values,
)  # fmt: skip
from tidegate.sql.parse.syntax import Span as Place

_WORDS: dict[str, Literal["UNION", "INTERSECT", "EXCEPT"]] = {
    "UNION": "UNION", "INTERSECT": "INTERSECT", "EXCEPT": "EXCEPT",
}  # fmt: skip


def bind_general(
    parsed: Query | str, catalog: RelationCatalog, now_ms: int | None = None
) -> logical.LogicalQuery:
    """What a query means, with conditions and expressions as near to the scans as they can be."""
    parsed = grammar.parse_query(parsed) if isinstance(parsed, str) else parsed
    try:
        return push_down(QueryBinder(parsed.sql, _World(catalog, now_ms, ColumnIds())).whole(parsed))
    except RecursionError:
        hint = "views and subqueries can be nested some hundred levels deep"
        at = parsed.position(parsed.at)
        raise LimitError("the query is nested too deep", hint=hint, position=at) from None


@dataclass(frozen=True)
class _World:
    """What names in FROM mean: common tables, then the catalog."""

    catalog: RelationCatalog
    now_ms: int | None
    numbers: ColumnIds
    common: Mapping[str, tuple[CommonTable, QueryBinder]] | None = None
    views: tuple[str, ...] = ()


class QueryBinder:
    """Binds the queries of one SQL text."""

    def __init__(self, sql: str, world: _World) -> None:
        self.sql, self.world, self.numbers = sql, world, world.numbers

    def whole(self, parsed: Query) -> logical.LogicalQuery:
        """The outermost query."""
        found = self.query(parsed, None)
        return replace(found, count=self.numbers.count)

    def query(
        self, parsed: Query, outer: NestedScope | None, *, nested: bool = False
    ) -> logical.LogicalQuery:
        """A query, inside of others whose names are `outer`; if nested, its order counts only for its limits."""
        if parsed.recursive is not None and _reads_itself(parsed):
            raise self.unsupported("WITH RECURSIVE", parsed.recursive)
        inner = self
        for table in parsed.tables:
            inner = inner._with(table)
        bound = inner._body(parsed, outer)
        limit, offset = inner._count(parsed.limit, "LIMIT"), inner._count(parsed.offset, "OFFSET") or 0
        rel = bound.rel
        if limit is not None or offset or (bound.order and not nested):
            rel = logical.Sort(rel, bound.order, limit, offset)
        return logical.LogicalQuery(rel, bound.names, bound.columns)

    def _with(self, table: CommonTable) -> QueryBinder:
        common = {**(self.world.common or {}), table.name.text: (table, self)}
        return QueryBinder(self.sql, replace(self.world, common=common))

    def _body(self, parsed: Query, outer: NestedScope | None) -> BoundSelect:
        body = parsed.body
        match body:
            case Select():
                return SelectBinder(self, body, outer).bound(parsed.order_by)
            case Query() | Values() | SetOperation():
                found = self._operand(body, outer)
                return replace(found, order=self._order(parsed.order_by, found))
            case _:
                assert_never(body)

    def _operand(
        self, body: Select | Query | Values | SetOperation, outer: NestedScope | None
    ) -> BoundSelect:
        match body:
            case Select():
                return SelectBinder(self, body, outer).bound(())
            case Query():
                found = self.query(body, outer, nested=True)
                return BoundSelect(found.rel, found.names, found.columns)
            case Values():
                return self._values(body)
            case SetOperation():
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
            self.check_order(order[-1], ordering.value.at)
        return tuple(order)

    def check_order(self, order: logical.SortKey, at: Place) -> None:
        """Refuses an order that Spark has otherwise."""
        if order.value.type.is_nested:
            raise self.unsupported(f"ORDER BY of {order.value.type}", at)

    def binder(self, names: NestedScope) -> RowBinder:
        """Binds expressions over names."""
        return RowBinder(self.sql, names, self.world.now_ms, QueryContext(self.numbers, self._nested))

    def _nested(self, parsed: Query, outer: NestedScope) -> logical.LogicalQuery:
        return self.query(parsed, outer, nested=True)

    def unsupported(self, construct: str, at: Place) -> UnsupportedError:
        """The refusal of what nobody here does."""
        return UnsupportedError(f"{construct} is not supported", position=Position(self.sql, *at))

    def _count(self, node: Node | None, clause: str) -> int | None:
        """The number in LIMIT or OFFSET."""
        if node is None:
            return None
        binder = Binder(self.sql, Scope(()), self.world.now_ms)
        value = bind_constant(binder.bind(node), types.INT8, binder, node, clause)
        if value.is_valid and value.as_py() < 0:
            raise BindError(f"{clause} must not be negative", position=binder.position(node.at))
        return None if not value.is_valid else int(value.as_py())

    # ---------------------------------------------------------------- VALUES and set operations

    def _values(self, values: Values) -> BoundSelect:
        binder = self.binder(NestedScope.over(()))
        width = len(values.rows[0])
        bound = []
        for row in values.rows:
            if len(row) != width:
                message = f"{width} values are expected in each row, and here are {len(row)}"
                raise BindError(message, position=binder.position(row[-1].at))
            bound.append([binder.bind(value) for value in row])
        if binder.gathered.looks:
            raise self.unsupported("a subquery in VALUES", values.at)
        types = [self._common([row[i].type for row in bound], "VALUES", values.at) for i in range(width)]
        columns = tuple(self.numbers.new(type_, f"column{i}") for i, type_ in enumerate(types, 1))
        rows = tuple(tuple(build.coerce(v, t) for v, t in zip(row, types, strict=True)) for row in bound)
        return BoundSelect(
            logical.ConstantRows(columns, rows), tuple(column.name for column in columns), columns
        )

    def _common(self, types: Sequence[Type], what: str, at: Place) -> Type:
        common = build.common_type(types)
        if common is None:
            kinds = " and ".join(dict.fromkeys(map(str, types)))
            raise BindError(f"{what} types {kinds} cannot be matched", position=Position(self.sql, *at))
        return common

    def _combined(self, body: SetOperation, outer: NestedScope | None) -> BoundSelect:
        left, right = self._operand(body.left, outer), self._operand(body.right, outer)
        at = Position(self.sql, *body.at)
        word, _, all_ = body.name.partition(" ")
        if len(left.columns) != len(right.columns):
            message = f"{word} of {len(left.columns)} and {len(right.columns)} columns"
            raise BindError(message, position=at)
        pairs = list(zip(left.columns, right.columns, strict=True))
        types = [self._common([a.type, b.type], word, body.at) for a, b in pairs]
        if not (word == "UNION" and all_) and any(map(has_interval, types)):
            raise self.unsupported(f"{word} of intervals, which must compare them,", body.at)
        columns = tuple(self.numbers.new(t, n) for t, n in zip(types, left.names, strict=True))
        sides = [self._brought(side, types) for side in (left, right)]
        (a, a_columns), (b, b_columns) = sides
        rel = logical.SetOp(_WORDS[word], bool(all_), a, b, columns, a_columns, b_columns)
        return BoundSelect(rel, left.names, columns)

    def _brought(self, side: BoundSelect, types: Sequence[Type]) -> tuple[logical.Rel, tuple[Column, ...]]:
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
            case TableRef():
                found = self._named(source)
                return self._called(found, source.alias, source.name[-1].text)
            case Derived():
                around = _around(outer) if source.lateral else _beyond(outer)
                found = self.query(source.query, around, nested=True)
                return self._called(found, source.alias, None)
            case TableFunction(_, _, at):
                raise self.unsupported("a table function in FROM", at)
            case JoinClause():
                return joined(self, source, outer)
            case _:
                assert_never(source)

    def _called(
        self, found: logical.LogicalQuery, alias: Alias | None, table: str | None
    ) -> tuple[logical.Rel, list[ScopeColumn]]:
        names = found.names
        if alias is not None:
            table = alias.name.text
            if len(alias.columns) > len(names):
                message = f'"{table}" has {len(names)} columns, and {len(alias.columns)} names are given'
                raise BindError(message, position=Position(self.sql, *alias.columns[len(names)].at))
            given = tuple(column.text for column in alias.columns)
            names = given + names[len(given) :]
        return found.rel, [ScopeColumn(table, n, c) for n, c in zip(names, found.columns, strict=True)]

    def _named(self, table: TableRef) -> logical.LogicalQuery:
        """A common table, a collection or a view."""
        *schema, name = (part.text for part in table.name)
        common = (self.world.common or {}).get(name) if not schema else None
        if common is not None:
            given, queries = common
            found = queries.query(given.query, None, nested=True)
            names = tuple(column.text for column in given.columns)
            return replace(found, names=names + found.names[len(names) :])
        entry = find_relation(self.world.catalog, table, self.sql)
        if isinstance(entry, ViewRelation):
            return self._view(name, entry, table.at)
        return self._scan(entry)

    def _scan(self, entry: Relation) -> logical.LogicalQuery:
        """A collection. What it hides is among the scan's columns, and only its conditions read that."""
        plan = entry.plan
        called = dict(zip(plan.projection, (column for column, _ in entry.columns), strict=True))
        stored = [self.numbers.new(type_, called.get(i, "")) for i, type_ in enumerate(plan.inputs)]
        conditions = (
            permute(condition, [column.index for column in stored]) for condition in plan.conditions
        )
        columns = tuple(stored[i] for i in plan.projection)
        scan = logical.Scan(entry.name, tuple(stored), tuple(conditions))
        return logical.LogicalQuery(scan, tuple(column.name for column in columns), columns)

    def _view(self, name: str, view: ViewRelation, at: Place) -> logical.LogicalQuery:
        if name in self.world.views:
            raise BindError(f'view "{name}" reads itself', position=Position(self.sql, *at))
        world = replace(self.world, common=None, views=(*self.world.views, name))
        try:
            found = QueryBinder(view.sql, world).query(grammar.parse_query(view.sql), None, nested=True)
        except TidegateError as error:
            error.set_view(name)
            raise
        return replace(found, names=view.columns + found.names[len(view.columns) :])


def _around(outer: NestedScope | None) -> NestedScope | None:
    """The scope of LATERAL: its neighbours in FROM are an outer scope of everything inside it."""
    if outer is None or not outer.beside:
        return outer
    return replace(outer, beside=False, outer=_around(outer.outer))


def _beyond(outer: NestedScope | None) -> NestedScope | None:
    """What a subquery in FROM that is not LATERAL sees: nothing of the FROM that it stands in."""
    while outer is not None and outer.beside:
        outer = outer.outer
    return outer


def _reads_itself(parsed: Query) -> bool:
    """Whether a common table reads itself or one that is defined after it."""
    names = [table.name.text for table in parsed.tables]
    return any(not _table_names(table.query).isdisjoint(names[i:]) for i, table in enumerate(parsed.tables))


def _table_names(parsed: Query) -> set[str]:
    """The unqualified names in every FROM of a query, subqueries included."""
    names: set[str] = set()
    stack: list[object] = [parsed]
    while stack:
        node = stack.pop()
        if isinstance(node, TableRef) and len(node.name) == 1:
            names.add(node.name[0].text)
        if is_dataclass(node):
            stack += [getattr(node, field.name) for field in fields(node)]
        elif isinstance(node, tuple):
            stack += node
    return names
