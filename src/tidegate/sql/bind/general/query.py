"""A query of any shape → the tree of `split.py`: `bind.py` for what is more than rows and groups of one collection.

    general("SELECT * FROM a JOIN b USING (id)", catalog, now_ms)      General(rel, names, columns)

Names mean what they mean there; types, overloads and constants are those of `expr/build.py`; so a query means the same whichever
way it is run. A common table or a view is bound anew wherever it is read, and its columns get numbers of their own each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from tidegate.errors import BindError, LimitError, Position, TidegateError, UnsupportedError
from tidegate.expr import build
from tidegate.expr.tree import Column, Expr, permute
from tidegate.expr.types import INT8, Type
from tidegate.sql import grammar
from tidegate.sql.bind import constant, entry_of
from tidegate.sql.catalog import Catalog, Relation, View
from tidegate.sql.express import Binder
from tidegate.sql.outputs import order_key
from tidegate.sql.scope import Scope
from tidegate.sql.split import (
    Combine,
    General,
    Map,
    Order,
    Rel,
    Row,
    Rows,
    Scan,
    Sorted,
)  # fmt: skip
from tidegate.sql.split_from import joined
from tidegate.sql.split_names import Around, Entry, Names, Numbers, RowBinder, has_interval
from tidegate.sql.split_push import lowered
from tidegate.sql.split_select import Bound, SelectBinder
from tidegate.sql.syntax import (
    Alias,
    CommonTable,
    Derived,
    From,
    Join,
    Node,
    Ordering,
    Query,
    Select,
    SetOperation,
    Table,
    TableFunction,
    Values,
)  # fmt: skip
from tidegate.sql.syntax import Span as Place

_WORDS: dict[str, Literal["UNION", "INTERSECT", "EXCEPT"]] = {
    "UNION": "UNION", "INTERSECT": "INTERSECT", "EXCEPT": "EXCEPT",
}  # fmt: skip


def general(parsed: Query | str, catalog: Catalog, now_ms: int | None = None) -> General:
    """What a query means, with conditions and expressions as near to the scans as they can be."""
    parsed = grammar.select(parsed) if isinstance(parsed, str) else parsed
    try:
        return lowered(Queries(parsed.sql, _World(catalog, now_ms, Numbers())).whole(parsed))
    except RecursionError:
        hint = "views and subqueries can be nested some hundred levels deep"
        at = parsed.position(parsed.at)
        raise LimitError("the query is nested too deep", hint=hint, position=at) from None


@dataclass(frozen=True)
class _World:
    """What names in FROM mean: common tables, then the catalog."""

    catalog: Catalog
    now_ms: int | None
    numbers: Numbers
    common: Mapping[str, tuple[CommonTable, Queries]] | None = None
    views: tuple[str, ...] = ()


class Queries:
    """Binds the queries of one SQL text."""

    def __init__(self, sql: str, world: _World) -> None:
        self.sql, self.world, self.numbers = sql, world, world.numbers

    def whole(self, parsed: Query) -> General:
        """The outermost query."""
        found = self.query(parsed, None)
        return replace(found, count=self.numbers.count)

    def query(self, parsed: Query, outer: Names | None, *, nested: bool = False) -> General:
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
            rel = Sorted(rel, bound.order, limit, offset)
        return General(rel, bound.names, bound.columns)

    def _with(self, table: CommonTable) -> Queries:
        common = {**(self.world.common or {}), table.name.text: (table, self)}
        return Queries(self.sql, replace(self.world, common=common))

    def _body(self, parsed: Query, outer: Names | None) -> Bound:
        body = parsed.body
        match body:
            case Select():
                return SelectBinder(self, body, outer).bound(parsed.order_by)
            case Query() | Values() | SetOperation():
                found = self._operand(body, outer)
                return replace(found, order=self._order(parsed.order_by, found))
            case _:
                assert_never(body)

    def _operand(self, body: Select | Query | Values | SetOperation, outer: Names | None) -> Bound:
        match body:
            case Select():
                return SelectBinder(self, body, outer).bound(())
            case Query():
                found = self.query(body, outer, nested=True)
                return Bound(found.rel, found.names, found.columns)
            case Values():
                return self._values(body)
            case SetOperation():
                return self._combined(body, outer)
            case _:
                assert_never(body)

    def _order(self, order_by: Sequence[Ordering], bound: Bound) -> tuple[Order, ...]:
        """ORDER BY of what has outputs only: by their names or numbers."""
        entries = [Entry(None, n, c) for n, c in zip(bound.names, bound.columns, strict=True)]
        binder = self.binder(Names.over(entries))
        leaving: list[Expr] = list(bound.columns)
        order = []
        for ordering in order_by:
            key = order_key(ordering, binder, bound.names, leaving)
            order.append(Order(leaving[key.column], key.descending, key.nulls_first))
            self.check_order(order[-1], ordering.value.at)
        return tuple(order)

    def check_order(self, order: Order, at: Place) -> None:
        """Refuses an order that Spark has otherwise."""
        if order.value.type.is_nested:
            raise self.unsupported(f"ORDER BY of {order.value.type}", at)

    def binder(self, names: Names) -> RowBinder:
        """Binds expressions over names."""
        return RowBinder(self.sql, names, self.world.now_ms, Around(self.numbers, self._nested))

    def _nested(self, parsed: Query, outer: Names) -> General:
        return self.query(parsed, outer, nested=True)

    def unsupported(self, construct: str, at: Place) -> UnsupportedError:
        """The refusal of what nobody here does."""
        return UnsupportedError(f"{construct} is not supported", position=Position(self.sql, *at))

    def _count(self, node: Node | None, clause: str) -> int | None:
        """The number in LIMIT or OFFSET."""
        if node is None:
            return None
        binder = Binder(self.sql, Scope(()), self.world.now_ms)
        value = constant(binder.bind(node), INT8, binder, node, clause)
        if value.is_valid and value.as_py() < 0:
            raise BindError(f"{clause} must not be negative", position=binder.position(node.at))
        return None if not value.is_valid else int(value.as_py())

    # ---------------------------------------------------------------- VALUES and set operations

    def _values(self, values: Values) -> Bound:
        binder = self.binder(Names.over(()))
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
        return Bound(Rows(columns, rows), tuple(column.name for column in columns), columns)

    def _common(self, types: Sequence[Type], what: str, at: Place) -> Type:
        common = build.common_type(types)
        if common is None:
            kinds = " and ".join(dict.fromkeys(map(str, types)))
            raise BindError(f"{what} types {kinds} cannot be matched", position=Position(self.sql, *at))
        return common

    def _combined(self, body: SetOperation, outer: Names | None) -> Bound:
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
        rel = Combine(_WORDS[word], bool(all_), a, b, columns, a_columns, b_columns)
        return Bound(rel, left.names, columns)

    def _brought(self, side: Bound, types: Sequence[Type]) -> tuple[Rel, tuple[Column, ...]]:
        """One side of a set operation, with the types of both."""
        made, columns = [], []
        for column, type_ in zip(side.columns, types, strict=True):
            value = build.cast(column, type_) if column.type.arrow != type_.arrow else column
            if isinstance(value, Column):
                columns.append(value)
                continue
            columns.append(self.numbers.new(type_, column.name))
            made.append((columns[-1], value))
        return (Map(side.rel, tuple(made)) if made else side.rel), tuple(columns)

    # ---------------------------------------------------------------- FROM

    def source(self, source: From | None, outer: Names | None) -> tuple[Rel, list[Entry]]:
        """What stands in FROM, and the names that it brings."""
        match source:
            case None:
                return Row(), []
            case Table():
                found = self._named(source)
                return self._called(found, source.alias, source.name[-1].text)
            case Derived():
                around = _around(outer) if source.lateral else _beyond(outer)
                found = self.query(source.query, around, nested=True)
                return self._called(found, source.alias, None)
            case TableFunction(_, _, at):
                raise self.unsupported("a table function in FROM", at)
            case Join():
                return joined(self, source, outer)
            case _:
                assert_never(source)

    def _called(self, found: General, alias: Alias | None, table: str | None) -> tuple[Rel, list[Entry]]:
        names = found.names
        if alias is not None:
            table = alias.name.text
            if len(alias.columns) > len(names):
                message = f'"{table}" has {len(names)} columns, and {len(alias.columns)} names are given'
                raise BindError(message, position=Position(self.sql, *alias.columns[len(names)].at))
            given = tuple(column.text for column in alias.columns)
            names = given + names[len(given) :]
        return found.rel, [Entry(table, n, c) for n, c in zip(names, found.columns, strict=True)]

    def _named(self, table: Table) -> General:
        """A common table, a collection or a view."""
        *schema, name = (part.text for part in table.name)
        common = (self.world.common or {}).get(name) if not schema else None
        if common is not None:
            given, queries = common
            found = queries.query(given.query, None, nested=True)
            names = tuple(column.text for column in given.columns)
            return replace(found, names=names + found.names[len(names) :])
        entry = entry_of(self.world.catalog, table, self.sql)
        if isinstance(entry, View):
            return self._view(name, entry, table.at)
        return self._scan(entry)

    def _scan(self, entry: Relation) -> General:
        """A collection. What it hides is among the scan's columns, and only its conditions read that."""
        plan = entry.plan
        called = dict(zip(plan.projection, (column for column, _ in entry.columns), strict=True))
        stored = [self.numbers.new(type_, called.get(i, "")) for i, type_ in enumerate(plan.inputs)]
        conditions = (
            permute(condition, [column.index for column in stored]) for condition in plan.conditions
        )
        columns = tuple(stored[i] for i in plan.projection)
        scan = Scan(entry.name, tuple(stored), tuple(conditions))
        return General(scan, tuple(column.name for column in columns), columns)

    def _view(self, name: str, view: View, at: Place) -> General:
        if name in self.world.views:
            raise BindError(f'view "{name}" reads itself', position=Position(self.sql, *at))
        world = replace(self.world, common=None, views=(*self.world.views, name))
        try:
            found = Queries(view.sql, world).query(grammar.select(view.sql), None, nested=True)
        except TidegateError as error:
            if not error.message.startswith("in view "):
                error.message = f'in view "{name}": {error.message}'
            raise
        return replace(found, names=view.columns + found.names[len(view.columns) :])


def _around(outer: Names | None) -> Names | None:
    """What LATERAL sees: what stands beside it is around all that stands in it, its own subqueries in FROM included."""
    if outer is None or not outer.beside:
        return outer
    return replace(outer, beside=False, outer=_around(outer.outer))


def _beyond(outer: Names | None) -> Names | None:
    """What a subquery in FROM that is not LATERAL sees: nothing of the FROM that it stands in."""
    while outer is not None and outer.beside:
        outer = outer.outer
    return outer


def _reads_itself(parsed: Query) -> bool:
    """Whether a common table speaks of itself, as far as its text tells."""
    from tidegate.sql.lex import tokens

    return any(
        any(token.text == table.name.text for token in tokens(table.query.text)) for table in parsed.tables
    )
