"""Scopes of several relations, and binding of subqueries and window functions in expressions.

    FROM orders o LEFT JOIN customers c USING (id)      id → the joined column;  o.id, c.id → each side's;  name → c.name

A name that is not in this scope is looked up in the enclosing query, and so on outwards. Subqueries and window functions in an
expression become columns of their own; `PendingColumns` collects them, and the caller adds the operators that compute them below
the expression.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from tidegate.errors import BindError, ErrorCode, UnsupportedError
from tidegate.expr.model import Column, Expr, Kind, Type, build, support, types
from tidegate.plan import logical
from tidegate.sql.bind.expression import Binder
from tidegate.sql.bind.queries.notes import ColumnIds, WholeRow
from tidegate.sql.bind.rows import compare_rows
from tidegate.sql.bind.scope import Scope
from tidegate.sql.bind.select_list import resolve_unknown
from tidegate.sql.parse.syntax import AggregateCall, Ident, Items, Name, Node, NonScalar, Over, Star, walk

if TYPE_CHECKING:
    from tidegate.sql.bind.queries.grouping import GroupBinder
    from tidegate.sql.bind.queries.query import QueryBinder


class ScopeColumn(NamedTuple):
    """A column in reach: of which table, and whether its bare name and `*` mean it."""

    table: str | None
    name: str
    column: Column
    bare: bool = True
    whole: bool = False
    """Whether it is the whole row of its table, which the table's name means where no column has it."""
    row: WholeRow | None = None
    """What makes that row when something asks for it; None: it is there."""


@dataclass(frozen=True)
class NestedScope(Scope):
    """The columns in reach of an expression, those of the queries around it behind them."""

    entries: tuple[ScopeColumn, ...] = ()
    outer: NestedScope | None = None
    beside: bool = False
    """Whether these are what stands to the left in the same FROM, which only LATERAL sees."""
    groups: GroupBinder | None = field(default=None, compare=False, repr=False)
    """What binds aggregates over these columns that stand in a subquery; None: they have no place there."""

    @staticmethod
    def over(
        entries: Sequence[ScopeColumn], outer: NestedScope | None = None, *, beside: bool = False
    ) -> NestedScope:
        """A scope of these."""
        columns = tuple([(table, name, column.type) for table, name, column, *_ in entries])
        return NestedScope(columns, tuple(entries), outer, beside)

    def column(self, place: int) -> Column:
        """Column `place` as an expression."""
        entry = self.entries[place]
        return Column(entry.column.index, entry.column.type, entry.name)

    def find(self, parts: Sequence[Ident]) -> Column:
        """The column that a name means."""
        name, table = parts[-1].text, parts[-2].text if len(parts) > 1 else None
        scope: NestedScope | None = self
        while scope is not None:
            found = scope._find_local(name, table)
            if len(found) > 1:
                raise _ambiguous(name, found)
            if found:
                return Column(found[0].column.index, found[0].column.type, name)
            if table is not None and any(entry.table == table for entry in scope.entries):
                break
            scope = scope.outer
        row = self.whole_row(name) if table is None else None
        if row is not None:
            return row
        return super().find(parts)  # which knows what to say of a name that is not there

    def grouping_of(self, names: Iterable[Sequence[Ident]]) -> GroupBinder | None:
        """What binds an aggregate of these names: that of the query around this one whose columns they are.

        In `HAVING EXISTS (SELECT … WHERE b.x = max(a.y))` the maximum is one of the outer query's.
        """
        depths = [self._depth(parts) for parts in names]
        scope: NestedScope | None = self
        for _ in range(min(depths, default=0)):
            scope = None if scope is None else scope.outer
        return None if scope is None or scope is self else scope.groups

    def _depth(self, parts: Sequence[Ident]) -> int:
        """How many queries further out the column of a name is; 0 also if there is none."""
        name, table = parts[-1].text, parts[-2].text if len(parts) > 1 else None
        depth, scope = 0, self
        while True:
            rows = table is None and any(entry.whole and entry.table == name for entry in scope.entries)
            if rows or scope._find_local(name, table):
                return depth
            if scope.outer is None:
                return 0
            depth, scope = depth + 1, scope.outer

    def whole_row(self, table: str) -> Column | None:
        """The rows of a table as values."""
        scope: NestedScope | None = self
        while scope is not None:
            for entry in scope.entries:
                if entry.whole and entry.table == table:
                    column = entry.column if entry.row is None else entry.row.column()
                    return Column(column.index, column.type, table)
            scope = scope.outer
        return None

    def _find_local(self, name: str, table: str | None) -> list[ScopeColumn]:
        wanted = [entry for i in self._places.get(name, ()) if not (entry := self.entries[i]).whole]
        if table is None:
            return [entry for entry in wanted if entry.bare]
        return [entry for entry in wanted if entry.table == table]

    def places(self, table: str | None) -> list[int]:
        """The columns that `*` or `table.*` stands for."""
        if table is not None:
            return [i for i in super().places(table) if not self.entries[i].whole]
        return [i for i, entry in enumerate(self.entries) if entry.bare]

    def numbers(self) -> frozenset[int]:
        """Of the columns of this query's own FROM."""
        return frozenset(entry.column.index for entry in self.entries)

    def outer_numbers(self) -> frozenset[int]:
        """Of the columns of all queries around this one."""
        return frozenset() if self.outer is None else self.outer.numbers() | self.outer.outer_numbers()


def _ambiguous(name: str, found: Sequence[ScopeColumn]) -> BindError:
    tables = sorted({f"{entry.table}.{name}" for entry in found if entry.table})
    hint = f"write {' or '.join(tables)}" if len(tables) > 1 else "give the columns different names with AS"
    return BindError(f'column "{name}" is ambiguous', code=ErrorCode.AMBIGUOUS_COLUMN, hint=hint)


@dataclass
class PendingColumns:
    """What stands in expressions that were bound, and is computed below them."""

    looks: list[tuple[Column, logical.Subquery]] = field(default_factory=list)
    windows: list[tuple[Column, logical.AggregateExpr, logical.WindowSpec]] = field(default_factory=list)
    tables: list[tuple[Column, Expr]] = field(default_factory=list)
    """Table functions: the column of the elements, and the array."""

    def table(self, array: Expr, numbers: ColumnIds) -> Column:
        """The column of the elements of an array; equal ones are taken apart once."""
        assert array.type.element is not None
        for column, known in self.tables:
            if known == array:
                return column
        self.tables.append((numbers.new(array.type.element), array))
        return self.tables[-1][0]


class QueryContext:
    """What binding an expression needs of the query that it stands in."""

    def __init__(self, queries: QueryBinder) -> None:
        self.numbers, self.lasting = queries.numbers, queries.world.lasting
        self.query, self.note, self.refuse = queries.nested, queries.note, queries.refuse
        self.windows: dict[str, Over] = {}


class RowBinder(Binder):
    """Binds expressions over rows of several relations."""

    def __init__(self, sql: str, names: NestedScope, now_ms: int | None, around: QueryContext) -> None:
        super().__init__(sql, names, now_ms, lasting=around.lasting)
        self.names, self.around = names, around
        self.gathered = PendingColumns()

    def _bind_node(self, node: Node, args: tuple[Expr, ...]) -> Expr:
        if (groups := outer_groups(node, self.names)) is not None:
            return groups.aggregate_of_subquery(node)
        if isinstance(node, NonScalar):
            return beyond(self, self.around, self.names, self.gathered, node, args)
        row = starred_row(self, node, args, self.names)
        return super()._bind_node(node, args) if row is None else row


def outer_groups(node: Node, names: NestedScope) -> GroupBinder | None:
    """What binds an aggregate of columns of an outer query alone; None: this is no such aggregate."""
    call = node if isinstance(node, AggregateCall) else None
    if isinstance(node, NonScalar) and node.over is None:
        call = node.call
    if call is None or names.outer is None:
        return None
    roots = [
        *call.given,
        *(one.value for one in call.order_by),
        *([] if call.where is None else [call.where]),
    ]
    inside = [one for root in roots for one in walk(root)]
    if any(isinstance(one, NonScalar | AggregateCall) for one in inside):
        return None
    return names.grouping_of([one.parts for one in inside if isinstance(one, Name)])


def starred_row(binder: Binder, node: Node, args: tuple[Expr, ...], names: NestedScope) -> Expr | None:
    """The row that `t.*` means in an expression: whole in `to_jsonb(t.*)`, its fields in `ROW(t.*)`."""
    from tidegate.sql.bind.queries.tables import check_node

    check_node(binder, node)
    if isinstance(node, Star) and node.qualifier and not node.args:
        return names.whole_row(node.qualifier[-1].text)
    if not isinstance(node, Items) or node.kind != "row" or not any(isinstance(a, Star) for a in node.args):
        return None
    values: list[Expr] = []
    for given, arg in zip(node.args, args, strict=True):
        fields = arg.type.fields if isinstance(given, Star) else ()
        values += [build.field(arg, name) for name, _ in fields] or [arg]
    return build.call("row", *values)


def again(binder: Binder, node: Node) -> Expr:
    """Binds an expression while another is being bound by the same binder."""
    with aside(binder):
        return resolve_unknown(binder.bind(node))


@contextmanager
def aside(binder: Binder) -> Iterator[None]:
    """While an expression is being bound, others may be bound in here."""
    saved = binder._known, binder._clause
    try:
        yield
    finally:
        binder._known, binder._clause = saved


def beyond(
    binder: Binder,
    around: QueryContext,
    names: NestedScope,
    gathered: PendingColumns,
    node: NonScalar,
    args: tuple[Expr, ...],
) -> Expr:
    """The column of a subquery or a window function."""
    around.note(node.construct, node.at)
    if node.query is not None:
        return _look(binder, around, names, gathered, node, args)
    if node.over is not None:
        from tidegate.sql.bind.queries.window import windowed

        return windowed(binder, around, gathered, node)
    if node.table is not None:
        from tidegate.sql.bind.queries.tables import array_of, check_clause

        check_clause(binder, binder._clause, node.at)
        return gathered.table(array_of(node.table, args), around.numbers)
    raise UnsupportedError(f"{node.construct} is not supported", position=binder.position(node.at))


# ---------------------------------------------------------------- subqueries


def _look(
    binder: Binder,
    around: QueryContext,
    names: NestedScope,
    gathered: PendingColumns,
    node: NonScalar,
    args: tuple[Expr, ...],
) -> Expr:
    assert node.query is not None
    inner = around.query(node.query, names, node.kind == "array")
    columns = inner.columns
    if node.kind == "exists":
        look = logical.Subquery("exists", inner.rel, ())
        return _subquery_column(around, gathered, look, types.BOOL)
    left = _left(binder, node, args)
    if len(columns) != max(1, len(left)):
        raise BindError(
            f"the subquery must give {max(1, len(left))} {'column' if len(left) < 2 else 'columns'}, and gives {len(columns)}"
        )
    if node.kind == "array":
        inner = _as_array(inner, around.numbers)
    if node.kind in ("scalar", "array"):
        return _subquery_column(
            around, gathered, logical.Subquery("scalar", inner.rel, inner.columns), inner.columns[0].type
        )
    return _quantified(around, gathered, node, left, inner)


def _as_array(inner: logical.LogicalQuery, numbers: ColumnIds) -> logical.LogicalQuery:
    """ARRAY(query): array_agg of its column, in its order; an empty array, not NULL, of no rows."""
    (column,) = inner.columns
    order = inner.rel.order if isinstance(inner.rel, logical.Sort) else ()
    type_ = types.array(column.type)
    together, result = numbers.new(type_), numbers.new(type_, "array")
    call = logical.AggregateExpr("array_agg", type_, (column,), order=order)
    group = logical.Group(inner.rel, (), ((together, call),))
    value = build.call("coalesce", together, build.cast(build.text("{}"), type_))
    return logical.LogicalQuery(logical.Map(group, ((result, value),)), ("array",), (result,))


def _left(binder: Binder, node: NonScalar, args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """What is compared with rows of a subquery: a value, or several in parentheses."""
    if node.args and isinstance(node.args[0], Items) and node.args[0].kind == "row":
        return tuple(binder._known[id(value)] for value in node.args[0].args)
    return args


def _quantified(
    around: QueryContext,
    gathered: PendingColumns,
    node: NonScalar,
    left: tuple[Expr, ...],
    inner: logical.LogicalQuery,
) -> Expr:
    """`x op ANY (…)` and ALL; `x <> ALL (…)` is NOT IN."""
    operator = "=" if (node.operator, node.kind) == ("<>", "all") else node.operator
    if len(left) > 1 and operator != "=":
        tests = [compare_rows(operator, left, inner.columns)]
    else:
        tests = [build.call(operator, a, b) for a, b in zip(left, inner.columns, strict=True)]
    if operator == "=" and (node.operator, node.kind) != ("=", "all"):
        look = logical.Subquery("any", inner.rel, inner.columns, left, tuple(tests))
        if any(has_interval(column.type) for column in (*inner.columns, *left)):
            raise UnsupportedError("IN and = ANY of intervals with a subquery are not supported")
        found = _subquery_column(around, gathered, look, types.BOOL)
        return build.call("not", found) if node.kind == "all" else found
    every: Literal["any", "all"] = "all" if node.kind == "all" else "any"
    look = logical.Subquery(every, inner.rel, inner.columns, left, tuple(tests), operator)
    return _subquery_column(around, gathered, look, types.BOOL)


def _subquery_column(
    around: QueryContext, gathered: PendingColumns, look: logical.Subquery, type_: Type
) -> Column:
    column = around.numbers.new(type_)
    gathered.looks.append((column, look))
    return column


def look_columns(look: logical.Subquery) -> frozenset[int]:
    """The columns outside that a subquery reads."""
    return support(*look.left, *look.tests) | logical.outer_columns(look.query)


def has_interval(type_: Type) -> bool:
    """Whether a type is or contains an interval, whose equality differs from Spark's."""
    if type_.element is not None:
        return has_interval(type_.element)
    return type_.kind is Kind.INTERVAL or any(has_interval(inner) for _, inner in type_.fields)


# ---------------------------------------------------------------- scopes of FROM


def surrounding(outer: NestedScope | None) -> NestedScope | None:
    """The scope of LATERAL: its neighbours in FROM are an outer scope of everything inside it."""
    if outer is None or not outer.beside:
        return outer
    return replace(outer, beside=False, outer=surrounding(outer.outer))
