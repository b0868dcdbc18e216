"""DELETE and UPDATE → the query that finds their rows, and what they become.

    UPDATE t SET n = n + 1 WHERE id > 5            over t (id int8, n int8)

    read      Map (#1 + 1)  Filter (#0 > 5)         leaves id, n as they are, and behind them the new n
    places    (1,)                                  what is behind them is for column 1

A value is assigned as PostgreSQL assigns it: narrowed to the column's type if need be. All values see the row as it was, so
`SET a = b, b = a` swaps them. (That no column is assigned twice, the grammar sees to.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial

from tidegate.errors import BindError, ErrorCode, Position, TidegateError
from tidegate.expr.model import Expr, Type
from tidegate.plan import BoundQuery
from tidegate.sql.bind.catalog import Relation
from tidegate.sql.bind.expression import Binder, assignment_cast
from tidegate.sql.bind.scope import MAX_NAME_LENGTH, Scope
from tidegate.sql.parse.statement import Delete, Update
from tidegate.sql.parse.syntax import Default, Ident, Node


@dataclass(frozen=True)
class BoundChange:
    """What a DELETE or UPDATE means."""

    read: BoundQuery
    """Gives all columns that are stored of the rows that are changed, those that nobody sees too, then the new values."""
    places: tuple[int, ...] = ()
    """The stored columns that the new values are for."""


def bind_change(
    given: Delete | Update,
    table: Relation,
    default: Callable[[int], Expr],
    now_ms: int | None,
) -> BoundChange:
    """Binds over the columns of the table; `default` says what DEFAULT stands for in each that is stored."""
    columns, named = table.columns, given.alias or given.table
    binder = Binder(given.sql, Scope.of(columns, named.text), now_ms)
    plan = table.plan
    if given.where is not None:
        plan = plan.filter(binder.condition(given.where, "WHERE"))
    names = [name for name, _ in columns]
    places: list[int] = []
    values: list[Expr] = []
    for target, node in given.assignments if isinstance(given, Update) else ():
        place = column_place(names, target, given.sql)
        stored = plan.projection[place]
        values.append(assigned_value(binder, node, names[place], columns[place][1], partial(default, stored)))
        places.append(stored)
    called = dict(zip(plan.projection, names, strict=True))
    leaving = (*(called.get(i, "") for i in range(plan.arity)), *(f"new {called[place]}" for place in places))
    plan = plan.map(*values)
    whole = replace(plan, projection=(*range(plan.arity), *plan.projection[len(names) :]))
    return BoundChange(BoundQuery(given.table.text, whole, leaving), tuple(places))


def column_place(names: Sequence[str], target: Ident, sql: str) -> int:
    """The place of a column that is written to; an error if there is none."""
    if target.text in names:
        return names.index(target.text)
    close = get_close_matches(target.text, names, n=2) if len(target.text) < MAX_NAME_LENGTH else []
    hint = f"did you mean {' or '.join(close)}?" if close else f"there is {', '.join(names[:12])}"
    raise BindError(
        f'column "{target.text}" does not exist',
        code=ErrorCode.UNDEFINED_COLUMN,
        hint=hint,
        position=Position(sql, *target.at),
    )


def assigned_value(binder: Binder, node: Node, name: str, type_: Type, default: Callable[[], Expr]) -> Expr:
    """A value as its column stores it."""
    if isinstance(node, Default):
        return default()
    bound = binder.bind(node, "UPDATE")
    try:
        return assignment_cast(bound, type_)
    except TidegateError as error:
        error.message = f'column "{name}": {error.message}'
        error.position = binder.position(node.at)
        raise
