"""Scopes of several relations, and binding of subqueries and window functions in expressions.

    FROM orders o LEFT JOIN customers c USING (id)      id → the joined column;  o.id, c.id → each side's;  name → c.name

A name that is not in this scope is looked up in the enclosing query, and so on outwards. Subqueries and window functions in an
expression become columns of their own; `PendingColumns` collects them, and the caller adds the operators that compute them below
the expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from tidegate.errors import BindError, ErrorCode, UnsupportedError
from tidegate.expr.model import Column, Expr, Kind, Type, build, types
from tidegate.plan import logical
from tidegate.sql.bind.expression import Binder
from tidegate.sql.bind.scope import Scope
from tidegate.sql.bind.select_list import resolve_unknown
from tidegate.sql.parse.syntax import Ident, Items, Node, NonScalar, Over, Query


class ColumnIds:
    """Gives columns their numbers."""

    def __init__(self) -> None:
        self.count = 0

    def new(self, type_: Type, name: str = "") -> Column:
        """A column that nobody else has."""
        self.count += 1
        return Column(self.count - 1, type_, name)


@dataclass(frozen=True)
class ScopeColumn:
    """A column in reach: of which table, and whether its bare name and `*` mean it."""

    table: str | None
    name: str
    column: Column
    bare: bool = True


@dataclass(frozen=True)
class NestedScope(Scope):
    """The columns in reach of an expression, those of the queries around it behind them."""

    entries: tuple[ScopeColumn, ...] = ()
    outer: NestedScope | None = None
    beside: bool = False
    """Whether these are what stands to the left in the same FROM, which only LATERAL sees."""

    @staticmethod
    def over(
        entries: Sequence[ScopeColumn], outer: NestedScope | None = None, *, beside: bool = False
    ) -> NestedScope:
        """A scope of these."""
        columns = tuple((e.table, e.name, e.column.type) for e in entries)
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
            if len({entry.column.index for entry in found}) > 1:
                raise _ambiguous(name, found)
            if found:
                return Column(found[0].column.index, found[0].column.type, name)
            if table is not None and any(entry.table == table for entry in scope.entries):
                break
            scope = scope.outer
        return super().find(parts)  # which knows what to say of a name that is not there

    def _find_local(self, name: str, table: str | None) -> list[ScopeColumn]:
        wanted = [entry for entry in self.entries if entry.name == name]
        if table is None:
            return [entry for entry in wanted if entry.bare]
        return [entry for entry in wanted if entry.table == table]

    def places(self, table: str | None) -> list[int]:
        """The columns that `*` or `table.*` stands for."""
        if table is not None:
            return super().places(table)
        return [i for i, entry in enumerate(self.entries) if entry.bare]

    def numbers(self) -> frozenset[int]:
        """Of the columns of this query's own FROM."""
        return frozenset(entry.column.index for entry in self.entries)


def _ambiguous(name: str, found: Sequence[ScopeColumn]) -> BindError:
    tables = sorted({f"{entry.table}.{name}" for entry in found if entry.table})
    hint = f"write {' or '.join(tables)}" if len(tables) > 1 else "give the columns different names with AS"
    return BindError(f'column "{name}" is ambiguous', code=ErrorCode.AMBIGUOUS_COLUMN, hint=hint)


@dataclass
class PendingColumns:
    """What stands in expressions that were bound, and is computed below them."""

    looks: list[tuple[Column, logical.Subquery]] = field(default_factory=list)
    windows: list[tuple[Column, logical.AggregateExpr, logical.WindowSpec]] = field(default_factory=list)


class QueryContext:
    """What binding an expression needs of the query that it stands in."""

    def __init__(
        self, numbers: ColumnIds, query: Callable[[Query, NestedScope], logical.LogicalQuery]
    ) -> None:
        """`query` binds a query that stands inside of names."""
        self.numbers, self.query = numbers, query
        self.windows: dict[str, Over] = {}


class RowBinder(Binder):
    """Binds expressions over rows of several relations."""

    def __init__(self, sql: str, names: NestedScope, now_ms: int | None, around: QueryContext) -> None:
        super().__init__(sql, names, now_ms)
        self.names, self.around = names, around
        self.gathered = PendingColumns()

    def _bind_node(self, node: Node, args: tuple[Expr, ...]) -> Expr:
        if isinstance(node, NonScalar):
            return beyond(self, self.around, self.names, self.gathered, node, args)
        return super()._bind_node(node, args)


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
    if node.query is not None:
        return _look(binder, around, names, gathered, node, args)
    if node.over is not None:
        from tidegate.sql.bind.general.window import windowed

        return windowed(binder, around, gathered, node)
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
    inner = around.query(node.query, names)
    columns = inner.columns
    if node.kind == "exists":
        look = logical.Subquery("exists", inner.rel, ())
        return _subquery_column(around, gathered, look, types.BOOL)
    left = _left(binder, node, args)
    if len(columns) != max(1, len(left)):
        raise BindError(
            f"the subquery must give {max(1, len(left))} {'column' if len(left) < 2 else 'columns'}, and gives {len(columns)}"
        )
    if node.kind in ("scalar", "array"):
        if node.kind == "array":
            raise UnsupportedError(
                "ARRAY(subquery) is not supported", hint="array_agg in a scalar subquery is"
            )
        return _subquery_column(
            around, gathered, logical.Subquery("scalar", inner.rel, columns), columns[0].type
        )
    return _quantified(around, gathered, node, left, inner)


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
    tests = [build.call(operator, a, b) for a, b in zip(left, inner.columns, strict=True)]
    if len(tests) > 1 and operator != "=":
        raise UnsupportedError(f"rows cannot be compared by {node.operator} with a subquery")
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


def has_interval(type_: Type) -> bool:
    """Whether a type is or contains an interval, whose equality differs from Spark's."""
    if type_.element is not None:
        return has_interval(type_.element)
    return type_.kind is Kind.INTERVAL or any(has_interval(inner) for _, inner in type_.fields)
