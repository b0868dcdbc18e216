"""`VALUES (1, 'a'), (2, 'b')` → one Arrow array for each column: what INSERT appends.

A column of plain strings is read by one run of the cast to its type; anything else is bound and evaluated
value by value. A value may be narrowed to its column's type, as PostgreSQL does on assignment:
`INSERT INTO t (small) VALUES (3.7)` stores 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.errors import BindError, TidegateError, row_error_code
from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import Expr, Literal, Type
from tidegate.sql.bind.constants import ConstantError, read_strings
from tidegate.sql.bind.expression import Binder, assignment_cast
from tidegate.sql.bind.scope import Scope
from tidegate.sql.parse.syntax import Constant, Default, Node, Values


def bind_values(
    values: Values, sql: str, types: Sequence[Type], defaults: Sequence[Expr], now_ms: int | None = None
) -> list[pa.Array]:
    """The values of each column; `defaults` are what DEFAULT stands for."""
    binder = Binder(sql, Scope(()), now_ms)
    for row in values.rows:
        if len(row) != len(types):
            extra = row[min(len(types), len(row) - 1)]
            message = f"{len(types)} values are expected in each row, and here are {len(row)}"
            raise BindError(message, position=binder.position(extra.at))
    by_column = [[row[i] for row in values.rows] for i in range(len(types))]
    return [_column(binder, *one) for one in zip(by_column, types, defaults, strict=True)]


def _column(binder: Binder, nodes: list[Node], type_: Type, default: Expr) -> pa.Array:
    texts = [
        (i, node.text) for i, node in enumerate(nodes) if isinstance(node, Constant) and node.kind == "string"
    ]
    if len(texts) == len(nodes):
        try:
            return read_strings(texts, type_.without_lengths)
        except ConstantError as error:
            raise error.bind_error(binder.position(nodes[error.index].at)) from None
    found = [_value(binder, node, type_, default) for node in nodes]
    if pa.types.is_nested(type_.arrow):  # of which Arrow cannot make an array if one is NULL
        return pa.concat_arrays([pa.repeat(v, 1) if v.is_valid else pa.nulls(1, type_.arrow) for v in found])
    return pa.array(found, type_.arrow)


def _value(binder: Binder, node: Node, type_: Type, default: Expr) -> pa.Scalar:
    try:
        expr = assignment_cast(default if isinstance(node, Default) else binder.bind(node), type_)
        if isinstance(expr, Literal):
            return expr.value
        outcome = evaluate(expr, [], 1)
    except TidegateError as error:
        error.position = error.position or binder.position(node.at)
        raise
    if outcome.errors is not None and outcome.errors[0].is_valid:
        message = outcome.errors[0].as_py()
        raise BindError(message, code=row_error_code(message), position=binder.position(node.at))
    return outcome.values[0]
