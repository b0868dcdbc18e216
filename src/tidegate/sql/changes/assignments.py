"""SET and the values of INSERT, as the values of stored columns.

    SET n = n + 1, (a, b) = (SELECT x, y FROM s WHERE s.id = t.id), c = DEFAULT

A subquery that gives several values is one record, of which each column takes a field: it is asked once for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tidegate.errors import ParseError, TidegateError
from tidegate.expr.model import Column, Expr, build
from tidegate.plan import logical
from tidegate.sql.bind.expression import assignment_cast
from tidegate.sql.bind.modification import assigned_value, column_place
from tidegate.sql.bind.queries.names import RowBinder
from tidegate.sql.bind.rows import named_row
from tidegate.sql.changes.tree import ChangeTree, TargetRows
from tidegate.sql.parse.modification import Assignments, RowAssignment
from tidegate.sql.parse.syntax import Ident, Node


def assigned_values(
    tree: ChangeTree, binder: RowBinder, given: Assignments, target: TargetRows
) -> dict[int, Expr]:
    """The new value of each stored column that SET names."""
    values: dict[int, Expr] = {}
    for name, node in given.single:
        place = target_place(tree, target, name)
        values[place] = stored_value(tree, binder, node, target, place)
    for row in given.rows:
        values |= _row_values(tree, binder, row, target)
    return values


def inserted_values(
    tree: ChangeTree,
    binder: RowBinder,
    columns: Sequence[Ident],
    nodes: Sequence[Node] | None,
    target: TargetRows,
) -> dict[int, Expr]:
    """The value of each stored column of a row of VALUES; None: DEFAULT VALUES."""
    places = [target_place(tree, target, name) for name in columns] or list(target.places)
    given = nodes or ()
    if len(given) > len(places):
        raise ParseError(
            "INSERT has more expressions than target columns", position=tree.position(given[len(places)].at)
        )
    if columns and nodes is not None and len(given) < len(places):
        raise ParseError(
            "INSERT has more target columns than expressions",
            position=tree.position(columns[len(given)].at),
        )
    values = {
        place: stored_value(tree, binder, node, target, place)
        for place, node in zip(places, given, strict=False)
    }
    return with_defaults(tree, target, values)


def with_defaults(tree: ChangeTree, target: TargetRows, values: dict[int, Expr]) -> dict[int, Expr]:
    """A value for every stored column."""
    return {
        place: values[place] if place in values else tree.target.default(place)
        for place in range(len(target.stored))
    }


def target_place(tree: ChangeTree, target: TargetRows, name: Ident) -> int:
    """Where a column that is written to is stored."""
    names = [entry.name for entry in target.entries]
    return target.places[column_place(names, name, tree.sql)]


def stored_value(tree: ChangeTree, binder: RowBinder, node: Node, target: TargetRows, place: int) -> Expr:
    """A value as a column stores it."""
    column = target.stored[place]
    return assigned_value(binder, node, column.name, column.type, partial(tree.target.default, place))


def _row_values(
    tree: ChangeTree, binder: RowBinder, row: RowAssignment, target: TargetRows
) -> dict[int, Expr]:
    inner = tree.queries.nested(row.query, binder.names, False)
    if len(inner.columns) != len(row.targets):
        raise ParseError(
            "number of columns does not match number of values", position=tree.position(row.targets[0].at)
        )
    names = [f"f{i}" for i in range(len(inner.columns))]
    whole = named_row(names, inner.columns)
    column = tree.numbers.new(whole.type)
    rel = logical.Map(inner.rel, ((column, whole),))
    result = tree.numbers.new(whole.type)
    binder.gathered.looks.append((result, logical.Subquery("scalar", rel, (column,))))
    values: dict[int, Expr] = {}
    for field, name in zip(names, row.targets, strict=True):
        place = target_place(tree, target, name)
        values[place] = _cast(tree, build.field(result, field), target.stored[place], name)
    return values


def _cast(tree: ChangeTree, value: Expr, column: Column, name: Ident) -> Expr:
    try:
        return assignment_cast(value, column.type)
    except TidegateError as error:
        error.message = f'column "{column.name}": {error.message}'
        error.position = tree.position(name.at)
        raise


def visible_value(value: Expr, column: Column) -> Expr:
    """A new value as RETURNING shows it: the spaces behind a varchar(n) that is full are not stored."""
    return build.cast(value, column.type) if column.type != column.type.without_lengths else value
