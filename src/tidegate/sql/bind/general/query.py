"""Binds a query of any shape to the logical tree of `plan/logical.py`.

    general("SELECT * FROM a JOIN b USING (id)", catalog, now_ms)      General(rel, names, columns)

Names mean what they mean there; types, overloads and constants are those of `expr/model/build.py`; so a query means the same
whichever
way it is run. A common table or a view is bound once (`common.py`), and its columns get numbers of their own wherever it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, assert_never

from tidegate.errors import BindError, LimitError, Position, TidegateError, UnsupportedError
from tidegate.expr.model import Column, Expr, Type, build, permute, support, types
from tidegate.plan import logical
from tidegate.sql.bind.catalog import Relation, RelationCatalog, ViewRelation
from tidegate.sql.bind.expression import Binder
from tidegate.sql.bind.general.common import CommonQueries
from tidegate.sql.bind.general.joins import joined
from tidegate.sql.bind.general.names import (
    ColumnIds,
    NestedScope,
    QueryContext,
    RowBinder,
    ScopeColumn,
    has_interval,
    surrounding,
)
from tidegate.sql.bind.general.recursive import (
    CommonSource,
    RecursiveTable,
    WorkingRows,
    check_recursion,
    table_names,
)
from tidegate.sql.bind.general.select import BoundSelect, SelectBinder
from tidegate.sql.bind.general.tables import table_function
from tidegate.sql.bind.query import bind_constant, find_relation
from tidegate.sql.bind.rows import named_row
from tidegate.sql.bind.scope import Scope
from tidegate.sql.bind.select_list import order_key
from tidegate.sql.bind.unknown_literals import literal_places, type_of_literal, with_literal_types
from tidegate.sql.lower.push_down import push_down
from tidegate.sql.lower.volatility import check_volatile
from tidegate.sql.parse.from_clause import Alias, Derived, From, JoinClause, TableFunction, TableRef
from tidegate.sql.parse.grammar import statements as grammar
from tidegate.sql.parse.syntax import CommonTable, Node, Ordering, Query, Select, SetOperation, Values
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
        numbers = ColumnIds()
        world = _World(catalog, now_ms, numbers, CommonQueries(numbers))
        whole = QueryBinder(parsed.sql, world).whole(parsed)
        return check_volatile(push_down(whole))
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
    shared: CommonQueries
    common: Mapping[str, CommonSource] | None = None
    views: tuple[str, ...] = ()


class QueryBinder:
    """Binds the queries of one SQL text."""

    def __init__(self, sql: str, world: _World) -> None:
        self.sql, self.world, self.numbers = sql, world, world.numbers

    def whole(self, parsed: Query) -> logical.LogicalQuery:
        """The outermost query."""
        found = self.query(parsed, None)
        return replace(found, rel=self.world.shared.around(found.rel), count=self.numbers.count)

    def query(
        self, parsed: Query, outer: NestedScope | None, *, nested: bool = False
    ) -> logical.LogicalQuery:
        """A query, inside of others whose names are `outer`; if nested, its order counts only for its limits."""
        check_recursion(parsed, self.sql)
        inner = self
        for table in parsed.tables:
            inner = inner._with(table, recursive=parsed.recursive is not None)
        bound = inner._body(parsed, outer)
        limit, offset = inner._count(parsed.limit, "LIMIT"), inner._count(parsed.offset, "OFFSET") or 0
        rel = bound.rel
        if parsed.ties is not None and limit is not None:
            rel, limit = inner._ties(bound, limit, offset, parsed.ties)
        if limit is not None or offset or (bound.order and not nested):
            rel = logical.Sort(rel, bound.order, limit, offset)
        return logical.LogicalQuery(rel, bound.names, bound.columns)

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

    def _with(self, table: CommonTable, *, recursive: bool) -> QueryBinder:
        common: dict[str, CommonSource] = {**(self.world.common or {})}
        loop = recursive and table.name.text in table_names(table.query)
        common[table.name.text] = RecursiveTable(table, self) if loop else (table, self)
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
                return replace(found, order=self._order(parsed.order_by, found))
            case _:
                assert_never(body)

    def operand(self, body: Select | Query | Values | SetOperation, outer: NestedScope | None) -> BoundSelect:
        """A query, or one side of a set operation, without its order and limits."""
        match body:
            case Select():
                return SelectBinder(self, body, outer).bound(())
            case Query():
                found = self.query(body, outer, nested=True)
                return BoundSelect(found.rel, found.names, found.columns)
            case Values():
                return self._values(body, outer)
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

    def _nested(self, parsed: Query, outer: NestedScope, in_order: bool) -> logical.LogicalQuery:
        return self.query(parsed, outer, nested=not in_order)

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

    def _values(self, values: Values, outer: NestedScope | None) -> BoundSelect:
        width = len(values.rows[0])
        bound: list[list[Expr]] = []
        looks: list[tuple[tuple[Column, logical.Subquery], ...]] = []
        for row in values.rows:
            binder = self.binder(NestedScope.over((), outer))
            if len(row) != width:
                message = f"{width} values are expected in each row, and here are {len(row)}"
                raise BindError(message, position=binder.position(row[-1].at))
            bound.append([binder.bind(value, "VALUES") for value in row])
            looks.append(tuple(binder.gathered.looks))
        by_column = [build.typed_literals(column) for column in zip(*bound, strict=True)]
        bound = [list(row) for row in zip(*by_column, strict=True)]
        types = [self._common([row[i].type for row in bound], "VALUES", values.at) for i in range(width)]
        rows = tuple(tuple(build.coerce(v, t) for v, t in zip(row, types, strict=True)) for row in bound)
        if any(looks) or support(*(value for row in rows for value in row)):
            return self._computed_values(rows, looks, types)
        columns = tuple(self.numbers.new(type_, f"column{i}") for i, type_ in enumerate(types, 1))
        return BoundSelect(
            logical.ConstantRows(columns, rows), tuple(column.name for column in columns), columns
        )

    def _computed_values(
        self,
        rows: Sequence[tuple[Expr, ...]],
        looks: Sequence[tuple[tuple[Column, logical.Subquery], ...]],
        types: Sequence[Type],
    ) -> BoundSelect:
        """VALUES that read the query around them or have subqueries: a row each, joined by UNION ALL."""
        names = tuple(f"column{i}" for i in range(1, len(types) + 1))
        whole: tuple[logical.Rel, tuple[Column, ...]] | None = None
        for row, asked in zip(rows, looks, strict=True):
            columns = tuple(self.numbers.new(t, n) for t, n in zip(types, names, strict=True))
            below: logical.Rel = logical.SingleRow()
            below = logical.SubqueryApply(below, asked) if asked else below
            one = logical.Map(below, tuple(zip(columns, row, strict=True)))
            if whole is None:
                whole = one, columns
                continue
            both = tuple(self.numbers.new(t, n) for t, n in zip(types, names, strict=True))
            whole = logical.SetOp("UNION", True, whole[0], one, both, whole[1], columns), both
        assert whole is not None
        return BoundSelect(whole[0], names, whole[1])

    def _common(self, types: Sequence[Type], what: str, at: Place) -> Type:
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
        types = [self._common([a.type, b.type], word, body.at) for a, b in pairs]
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
            case TableRef():
                found = self._named(source)
                return self._called(found, source.alias, source.name[-1].text)
            case Derived():
                around = surrounding(outer) if source.lateral else _beyond(outer)
                found = self.query(source.query, around, nested=True)
                return self._called(found, source.alias, None)
            case TableFunction():
                return table_function(self, source, outer)
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
        entries = [ScopeColumn(table, n, c) for n, c in zip(names, found.columns, strict=True)]
        if table is None or not entries:
            return found.rel, entries
        row = named_row(names, found.columns)
        whole = self.numbers.new(row.type, table)
        rel = logical.Map(found.rel, ((whole, row),))
        return rel, [*entries, ScopeColumn(table, "", whole, bare=False, whole=True)]

    def _named(self, table: TableRef) -> logical.LogicalQuery:
        """A common table, a collection or a view."""
        *schema, name = (part.text for part in table.name)
        common = self.common.get(name) if not schema else None
        if isinstance(common, WorkingRows):
            return common.bound(table.at)
        if isinstance(common, RecursiveTable):
            return self.world.shared.read(common, name, lambda: common.bound(table.at))
        if common is not None:
            given, queries = common
            found = self.world.shared.read(
                common,
                name,
                lambda: queries.query(given.query, None, nested=True),
                wanted=given.materialized,
            )
            names = tuple(column.text for column in given.columns)
            return replace(found, names=names + found.names[len(names) :])
        entry = find_relation(self.world.catalog, table, self.sql)
        if isinstance(entry, ViewRelation):
            bind = partial(self._view, name, entry, table.at)
            return self.world.shared.read(name, name, bind, is_view=True)
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


def _beyond(outer: NestedScope | None) -> NestedScope | None:
    """What a subquery in FROM that is not LATERAL sees: nothing of the FROM that it stands in."""
    while outer is not None and outer.beside:
        outer = outer.outer
    return outer
