"""Names of several relations, and expressions over them: what a Binder needs to bind more than rows of one collection.

    FROM orders o LEFT JOIN customers c USING (id)      id → the joined column;  o.id, c.id → each side's;  name → c.name

A name that is not found here is looked for in the query around this one, and so on outwards. Subqueries and window functions in
an expression become columns of their own; what they are is gathered beside (`Gathered`), and whoever asked for the expression puts
them below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from tidegate.errors import BindError, UnsupportedError
from tidegate.expr import build
from tidegate.expr.tree import Column, Expr
from tidegate.expr.types import BOOL, Kind, Type
from tidegate.sql.express import Binder
from tidegate.sql.outputs import known
from tidegate.sql.scope import Scope
from tidegate.sql.split import General, Look, Span, Summary
from tidegate.sql.syntax import Beyond, Ident, Items, Node, Over, Query


class Numbers:
    """Gives columns their numbers."""

    def __init__(self) -> None:
        self.count = 0

    def new(self, type_: Type, name: str = "") -> Column:
        """A column that nobody else has."""
        self.count += 1
        return Column(self.count - 1, type_, name)


@dataclass(frozen=True)
class Entry:
    """A column in reach: of which table, and whether its bare name and `*` mean it."""

    table: str | None
    name: str
    column: Column
    bare: bool = True


@dataclass(frozen=True)
class Names(Scope):
    """The columns in reach of an expression, those of the queries around it behind them."""

    entries: tuple[Entry, ...] = ()
    outer: Names | None = None
    beside: bool = False
    """Whether these are what stands to the left in the same FROM, which only LATERAL sees."""

    @staticmethod
    def over(entries: Sequence[Entry], outer: Names | None = None, *, beside: bool = False) -> Names:
        """A scope of these."""
        columns = tuple((e.table, e.name, e.column.type) for e in entries)
        return Names(columns, tuple(entries), outer, beside)

    def column(self, place: int) -> Column:
        """Column `place` as an expression."""
        entry = self.entries[place]
        return Column(entry.column.index, entry.column.type, entry.name)

    def find(self, parts: Sequence[Ident]) -> Column:
        """The column that a name means."""
        name, table = parts[-1].text, parts[-2].text if len(parts) > 1 else None
        scope: Names | None = self
        while scope is not None:
            found = scope._here(name, table)
            if len({entry.column.index for entry in found}) > 1:
                raise _ambiguous(name, found)
            if found:
                return Column(found[0].column.index, found[0].column.type, name)
            if table is not None and any(entry.table == table for entry in scope.entries):
                break
            scope = scope.outer
        return super().find(parts)  # which knows what to say of a name that is not there

    def _here(self, name: str, table: str | None) -> list[Entry]:
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


def _ambiguous(name: str, found: Sequence[Entry]) -> BindError:
    tables = sorted({f"{entry.table}.{name}" for entry in found if entry.table})
    hint = f"write {' or '.join(tables)}" if len(tables) > 1 else "give the columns different names with AS"
    return BindError(f'column "{name}" is ambiguous', hint=hint)


@dataclass
class Gathered:
    """What stands in expressions that were bound, and is computed below them."""

    looks: list[tuple[Column, Look]] = field(default_factory=list)
    windows: list[tuple[Column, Summary, Span]] = field(default_factory=list)


class Around:
    """What binding an expression needs of the query that it stands in."""

    def __init__(self, numbers: Numbers, query: Callable[[Query, Names], General]) -> None:
        """`query` binds a query that stands inside of names."""
        self.numbers, self.query = numbers, query
        self.windows: dict[str, Over] = {}


class RowBinder(Binder):
    """Binds expressions over rows of several relations."""

    def __init__(self, sql: str, names: Names, now_ms: int | None, around: Around) -> None:
        super().__init__(sql, names, now_ms)
        self.names, self.around = names, around
        self.gathered = Gathered()

    def _one(self, node: Node, args: tuple[Expr, ...]) -> Expr:
        if isinstance(node, Beyond):
            return beyond(self, self.around, self.names, self.gathered, node, args)
        return super()._one(node, args)


def again(binder: Binder, node: Node) -> Expr:
    """Binds an expression while another is being bound by the same binder."""
    with aside(binder):
        return known(binder.bind(node))


@contextmanager
def aside(binder: Binder) -> Iterator[None]:
    """While an expression is being bound, others may be bound in here."""
    saved = binder._known, binder._clause
    try:
        yield
    finally:
        binder._known, binder._clause = saved


def beyond(
    binder: Binder, around: Around, names: Names, gathered: Gathered, node: Beyond, args: tuple[Expr, ...]
) -> Expr:
    """The column of a subquery or a window function."""
    if node.query is not None:
        return _look(binder, around, names, gathered, node, args)
    if node.over is not None:
        from tidegate.sql.split_window import windowed

        return windowed(binder, around, gathered, node)
    raise UnsupportedError(f"{node.construct} is not supported", position=binder.position(node.at))


# ---------------------------------------------------------------- subqueries


def _look(
    binder: Binder, around: Around, names: Names, gathered: Gathered, node: Beyond, args: tuple[Expr, ...]
) -> Expr:
    assert node.query is not None
    inner = around.query(node.query, names)
    columns = inner.columns
    if node.kind == "exists":
        look = Look("exists", inner.rel, ())
        return _asked(around, gathered, look, BOOL)
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
        return _asked(around, gathered, Look("scalar", inner.rel, columns), columns[0].type)
    return _quantified(around, gathered, node, left, inner)


def _left(binder: Binder, node: Beyond, args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """What is compared with rows of a subquery: a value, or several in parentheses."""
    if node.args and isinstance(node.args[0], Items) and node.args[0].kind == "row":
        return tuple(binder._known[id(value)] for value in node.args[0].args)
    return args


def _quantified(
    around: Around, gathered: Gathered, node: Beyond, left: tuple[Expr, ...], inner: General
) -> Expr:
    """`x op ANY (…)` and ALL; `x <> ALL (…)` is NOT IN."""
    operator = "=" if (node.operator, node.kind) == ("<>", "all") else node.operator
    tests = [build.call(operator, a, b) for a, b in zip(left, inner.columns, strict=True)]
    if len(tests) > 1 and operator != "=":
        raise UnsupportedError(f"rows cannot be compared by {node.operator} with a subquery")
    if operator == "=" and (node.operator, node.kind) != ("=", "all"):
        look = Look("any", inner.rel, inner.columns, left, tuple(tests))
        if any(has_interval(column.type) for column in (*inner.columns, *left)):
            raise UnsupportedError("IN and = ANY of intervals with a subquery are not supported")
        found = _asked(around, gathered, look, BOOL)
        return build.call("not", found) if node.kind == "all" else found
    every: Literal["any", "all"] = "all" if node.kind == "all" else "any"
    look = Look(every, inner.rel, inner.columns, left, tuple(tests), operator)
    return _asked(around, gathered, look, BOOL)


def _asked(around: Around, gathered: Gathered, look: Look, type_: Type) -> Column:
    column = around.numbers.new(type_)
    gathered.looks.append((column, look))
    return column


def has_interval(type_: Type) -> bool:
    """Whether values of a type are intervals or hold some: these are equal in ways that Spark does not know."""
    if type_.element is not None:
        return has_interval(type_.element)
    return type_.kind is Kind.INTERVAL or any(has_interval(inner) for _, inner in type_.fields)
