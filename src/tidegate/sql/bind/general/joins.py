"""Joins in FROM: which rows are pairs, and what names mean behind them.

a LEFT JOIN b USING (id)      id is a's; b's own stays in reach as b.id
a FULL JOIN b USING (id)      id is whichever of the two there is
NATURAL                       USING all names that both sides have
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tidegate.errors import BindError, Position, TidegateError, UnsupportedError
from tidegate.expr import build
from tidegate.expr.tree import Column, Expr
from tidegate.sql.split import Ask, Join, Map, Rel, columns_of, free
from tidegate.sql.split_names import Entry, Names
from tidegate.sql.syntax import Ident
from tidegate.sql.syntax import Join as Written

if TYPE_CHECKING:
    from tidegate.sql.split_query import Queries

Kind = Literal["inner", "left", "right", "full"]


def joined(queries: Queries, written: Written, outer: Names | None) -> tuple[Rel, list[Entry]]:
    """Two things in FROM."""
    left, a = queries.source(written.left, outer)
    right, b = queries.source(written.right, Names.over(a, outer, beside=True))
    lateral = bool(free(right) & {column.index for column in columns_of(left)})
    kind: Kind = "inner" if written.side == "cross" else written.side
    if lateral and kind in ("right", "full"):
        raise UnsupportedError(
            f"a {written.kind} of what is LATERAL is not supported",
            position=Position(queries.sql, *written.at),
        )
    _check_tables(queries, written, a, b)
    names = _common(a, b) if written.natural else written.using
    if names:
        return _using(queries, written, kind, (left, a), (right, b), names, lateral=lateral)
    on: tuple[Expr, ...] = ()
    if written.on is not None:
        binder = queries.binder(Names.over([*a, *b], outer))
        on = tuple(build.conjuncts(binder.condition(written.on, "ON")))
        if binder.gathered.looks:
            if kind != "inner":
                raise UnsupportedError(
                    "a subquery in ON of an outer join is not supported",
                    position=Position(queries.sql, *written.on.at),
                )
            from tidegate.sql.split import Filter

            pairs = Join("inner", left, right, (), lateral)
            return Filter(Ask(pairs, tuple(binder.gathered.looks)), on), [*a, *b]
    return Join(kind, left, right, on, lateral), [*a, *b]


def _check_tables(queries: Queries, written: Written, a: list[Entry], b: list[Entry]) -> None:
    both = {entry.table for entry in a if entry.table} & {entry.table for entry in b if entry.table}
    if both:
        name = min(both)
        raise BindError(
            f'table "{name}" stands in FROM twice',
            hint=f"give one of them another name: {name} AS other",
            position=Position(queries.sql, *written.at),
        )


def _common(a: list[Entry], b: list[Entry]) -> tuple[Ident, ...]:
    from tidegate.sql.syntax import Span

    right = {entry.name for entry in b if entry.bare}
    shared = dict.fromkeys(entry.name for entry in a if entry.bare and entry.name in right)
    return tuple(Ident(name, Span(0, 0)) for name in shared)


def _using(
    queries: Queries,
    written: Written,
    kind: Kind,
    one: tuple[Rel, list[Entry]],
    other: tuple[Rel, list[Entry]],
    names: tuple[Ident, ...],
    *,
    lateral: bool,
) -> tuple[Rel, list[Entry]]:
    """A join by columns of equal names, which are one column behind it."""
    (left, a), (right, b) = one, other
    on: list[Expr] = []
    merged: list[Entry] = []
    made: list[tuple[Column, Expr]] = []
    for ident in names:
        at = ident.at if not written.natural else written.at
        try:
            x, y = (Names.over(side).find((ident,)) for side in (a, b))
            on.append(build.call("=", x, y))
            value = {"left": x, "inner": x, "right": y}.get(kind) or build.call("coalesce", x, y)
        except TidegateError as error:
            error.position = Position(queries.sql, *at)
            raise
        if not isinstance(value, Column):
            column = queries.numbers.new(value.type, ident.text)
            made.append((column, value))
            value = column
        merged.append(Entry(None, ident.text, value))
    hidden = {ident.text for ident in names}
    rest = [Entry(e.table, e.name, e.column, e.bare and e.name not in hidden) for e in (*a, *b)]
    rel: Rel = Join(kind, left, right, tuple(on), lateral)
    return (Map(rel, tuple(made)) if made else rel), [*merged, *rest]
