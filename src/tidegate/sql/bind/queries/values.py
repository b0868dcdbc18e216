"""VALUES as a table: constants, or a UNION ALL of rows that are computed.

VALUES (1, 'a'), (2, 'b')      ConstantRows, with columns column1 and column2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.errors import BindError
from tidegate.expr.model import Column, Expr, Type, build, support
from tidegate.plan import logical
from tidegate.sql.bind.queries.names import NestedScope
from tidegate.sql.bind.queries.select import BoundSelect
from tidegate.sql.parse.syntax import Values

if TYPE_CHECKING:
    from tidegate.sql.bind.queries.query import QueryBinder


def bound_values(queries: QueryBinder, values: Values, outer: NestedScope | None) -> BoundSelect:
    """VALUES: rows of constants, or of what is around them."""
    if len(values.rows) > 1:
        queries.note("VALUES with several rows", values.at)
    width = len(values.rows[0])
    bound: list[list[Expr]] = []
    looks: list[tuple[tuple[Column, logical.Subquery], ...]] = []
    for row in values.rows:
        binder = queries.binder(NestedScope.over((), outer))
        if len(row) != width:
            message = f"{width} values are expected in each row, and here are {len(row)}"
            raise BindError(message, position=binder.position(row[-1].at))
        bound.append([binder.bind(value, "VALUES") for value in row])
        looks.append(tuple(binder.gathered.looks))
    by_column = [build.typed_literals(column) for column in zip(*bound, strict=True)]
    bound = [list(row) for row in zip(*by_column, strict=True)]
    types = [queries.common_type([row[i].type for row in bound], "VALUES", values.at) for i in range(width)]
    rows = tuple(tuple(build.coerce(v, t) for v, t in zip(row, types, strict=True)) for row in bound)
    if any(looks) or support(*(value for row in rows for value in row)):
        return _computed_values(queries, rows, looks, types)
    columns = tuple(queries.numbers.new(type_, f"column{i}") for i, type_ in enumerate(types, 1))
    return BoundSelect(logical.ConstantRows(columns, rows), tuple(column.name for column in columns), columns)


def _computed_values(
    queries: QueryBinder,
    rows: Sequence[tuple[Expr, ...]],
    looks: Sequence[tuple[tuple[Column, logical.Subquery], ...]],
    types: Sequence[Type],
) -> BoundSelect:
    """VALUES that read the query around them or have subqueries: a row each, joined by UNION ALL."""
    names = tuple(f"column{i}" for i in range(1, len(types) + 1))
    whole: tuple[logical.Rel, tuple[Column, ...]] | None = None
    for row, asked in zip(rows, looks, strict=True):
        columns = tuple(queries.numbers.new(t, n) for t, n in zip(types, names, strict=True))
        below: logical.Rel = logical.SingleRow()
        below = logical.SubqueryApply(below, asked) if asked else below
        one = logical.Map(below, tuple(zip(columns, row, strict=True)))
        if whole is None:
            whole = one, columns
            continue
        both = tuple(queries.numbers.new(t, n) for t, n in zip(types, names, strict=True))
        whole = logical.SetOp("UNION", True, whole[0], one, both, whole[1], columns), both
    assert whole is not None
    return BoundSelect(whole[0], names, whole[1])
