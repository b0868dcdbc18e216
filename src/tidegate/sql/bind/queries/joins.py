"""Joins in FROM: which rows are pairs, and what names mean behind them.

a LEFT JOIN b USING (id)      id is a's; b's own stays in reach as b.id
a FULL JOIN b USING (id)      id is whichever of the two there is
NATURAL                       USING all names that both sides have
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tidegate.errors import BindError, ErrorCode, Position, TidegateError, UnsupportedError
from tidegate.expr.model import Column, Expr, build, tree
from tidegate.plan import logical
from tidegate.sql.bind.queries.names import NestedScope, ScopeColumn, look_columns
from tidegate.sql.bind.queries.tables import over_left
from tidegate.sql.parse.from_clause import JoinClause
from tidegate.sql.parse.syntax import Ident, Node

if TYPE_CHECKING:
    from tidegate.sql.bind.queries.query import QueryBinder

Kind = Literal["inner", "left", "right", "full"]


def joined(
    queries: QueryBinder, written: JoinClause, outer: NestedScope | None
) -> tuple[logical.Rel, list[ScopeColumn]]:
    """Two things in FROM."""
    left, a = queries.source(written.left, outer)
    right, b = queries.source(written.right, NestedScope.over(a, outer, beside=True))
    lateral = bool(logical.outer_columns(right) & {column.index for column in logical.output_columns(left)})
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
        binder = queries.binder(NestedScope.over([*a, *b], outer))
        on = tuple(build.conjuncts(binder.condition(written.on, "ON")))
        if binder.gathered.looks:
            if kind == "inner":
                pairs = logical.Join("inner", left, right, (), lateral)
                return logical.Filter(logical.SubqueryApply(pairs, tuple(binder.gathered.looks)), on), [
                    *a,
                    *b,
                ]
            for look in binder.gathered.looks:
                left, right = _beside(queries, written.on, look, left, right)
    on = tuple(condition for condition in on if condition != tree.TRUE)
    functions = over_left(kind, left, right, on) if lateral else None
    return functions or logical.Join(kind, left, right, on, lateral), [*a, *b]


def _beside(
    queries: QueryBinder,
    on: Node,
    look: tuple[Column, logical.Subquery],
    left: logical.Rel,
    right: logical.Rel,
) -> tuple[logical.Rel, logical.Rel]:
    """A subquery in ON of an outer join, computed for the rows of the side that it reads."""
    reads = look_columns(look[1])
    sides = [reads & {column.index for column in logical.output_columns(side)} for side in (left, right)]
    if all(sides):
        raise UnsupportedError(
            "a subquery in ON of an outer join that reads both sides is not supported",
            hint="join LATERAL (SELECT … WHERE condition) ON true",
            position=Position(queries.sql, *on.at),
        )
    if sides[0]:
        return logical.SubqueryApply(left, (look,)), right
    return left, logical.SubqueryApply(right, (look,))


def _check_tables(
    queries: QueryBinder, written: JoinClause, a: list[ScopeColumn], b: list[ScopeColumn]
) -> None:
    both = {entry.table for entry in a if entry.table} & {entry.table for entry in b if entry.table}
    if both:
        name = min(both)
        raise BindError(
            f'table "{name}" stands in FROM twice',
            code=ErrorCode.DUPLICATE_ALIAS,
            hint=f"give one of them another name: {name} AS other",
            position=Position(queries.sql, *written.at),
        )


def _common(a: list[ScopeColumn], b: list[ScopeColumn]) -> tuple[Ident, ...]:
    from tidegate.sql.parse.syntax import Span

    right = {entry.name for entry in b if entry.bare}
    shared = dict.fromkeys(entry.name for entry in a if entry.bare and entry.name in right)
    return tuple(Ident(name, Span(0, 0)) for name in shared)


def _using(
    queries: QueryBinder,
    written: JoinClause,
    kind: Kind,
    one: tuple[logical.Rel, list[ScopeColumn]],
    other: tuple[logical.Rel, list[ScopeColumn]],
    names: tuple[Ident, ...],
    *,
    lateral: bool,
) -> tuple[logical.Rel, list[ScopeColumn]]:
    """A join by columns of equal names, which are one column behind it."""
    (left, a), (right, b) = one, other
    on: list[Expr] = []
    merged: list[ScopeColumn] = []
    made: list[tuple[Column, Expr]] = []
    for ident in names:
        at = ident.at if not written.natural else written.at
        try:
            x, y = (NestedScope.over(side).find((ident,)) for side in (a, b))
            on.append(build.call("=", x, y))
            value = {"left": x, "inner": x, "right": y}.get(kind) or build.call("coalesce", x, y)
        except TidegateError as error:
            error.position = Position(queries.sql, *at)
            raise
        if not isinstance(value, Column):
            column = queries.numbers.new(value.type, ident.text)
            made.append((column, value))
            value = column
        merged.append(ScopeColumn(None, ident.text, value))
    hidden = {ident.text for ident in names}
    rest = [e._replace(bare=e.bare and e.name not in hidden) for e in (*a, *b)]
    if written.using_alias is not None:
        rest += [e._replace(table=written.using_alias.text, bare=False) for e in merged]
    rel: logical.Rel = logical.Join(kind, left, right, tuple(on), lateral)
    return (logical.Map(rel, tuple(made)) if made else rel), [*merged, *rest]
