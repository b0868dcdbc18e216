"""The select list and ORDER BY: what leaves a query, and what it is sorted by.

    SELECT *, price * 2 AS double FROM orders ORDER BY double, lower(customer) DESC, 1

`*` stands for columns, an entry of ORDER BY for an output by its name or number, else for an expression, which then leaves too
but is not shown. Both are bound by whatever `Binder` the query has: over rows, or over groups (`grouping.py`).
"""

from __future__ import annotations

from tidegate.errors import BindError, ErrorCode, TidegateError
from tidegate.expr.model import Expr, Kind, build, types
from tidegate.plan import OrderKey
from tidegate.sql.bind.expression import Binder
from tidegate.sql.bind.output_name import label
from tidegate.sql.parse.syntax import Constant, Item, Name, Node, Ordering, Star


def resolve_unknown(expr: Expr) -> Expr:
    """A bare string or NULL that nothing gave a type is text."""
    return build.coerce(expr, types.TEXT) if expr.type == types.UNKNOWN else expr


def outputs(item: Item, binder: Binder) -> list[tuple[str, Expr]]:
    """The columns that an entry of the select list gives."""
    value = item.value
    if not isinstance(value, Star):
        return [(item.alias.text if item.alias else label(value), resolve_unknown(binder.bind(value)))]
    if item.alias is not None:
        raise BindError(
            "* gives many columns, which one name cannot name", position=binder.position(item.alias.at)
        )
    if value.args:
        whole = binder.bind(value.args[0])
        if whole.type.kind is not Kind.RECORD:
            raise BindError(
                f"only a record has fields, and this is {whole.type}", position=binder.position(value.at)
            )
        return [(name, build.field(whole, name)) for name, _ in whole.type.fields]
    return [(binder.scope.columns[i][1], binder.column(i, value.at)) for i in places(value, binder)]


def places(star: Star, binder: Binder) -> list[int]:
    """The columns that `*` stands for."""
    try:
        found = binder.scope.places(star.qualifier[-1].text if star.qualifier else None)
    except TidegateError as error:
        error.position = binder.position(star.at)
        raise
    if not binder.scope.columns:
        raise BindError("* has no columns to stand for: a FROM is missing", position=binder.position(star.at))
    return found


def order_key(
    ordering: Ordering,
    binder: Binder,
    names: tuple[str, ...],
    leaving: list[Expr],
    clause: str = "ORDER BY",
) -> OrderKey:
    """An entry of ORDER BY or DISTINCT ON; what is not among `leaving` yet is added to it."""
    node = ordering.value
    column = _output(node, binder, names, leaving, clause)
    if column is None:
        bound = resolve_unknown(binder.bind(node))
        if bound not in leaving:
            leaving.append(bound)
        column = leaving.index(bound)
    return OrderKey(column, ordering.descending, ordering.nulls_first)


def _output(
    node: Node, binder: Binder, names: tuple[str, ...], leaving: list[Expr], clause: str
) -> int | None:
    if isinstance(node, Constant) and node.kind == "number":
        return number(node, binder, clause, len(names))
    if not isinstance(node, Name) or len(node.parts) > 1:
        return None
    found = [i for i, name in enumerate(names) if name == node.parts[0].text]
    if len({leaving[i] for i in found}) > 1:
        raise BindError(
            f'{clause} "{node.parts[0].text}" is ambiguous',
            code=ErrorCode.AMBIGUOUS_COLUMN,
            position=binder.position(node.at),
        )
    return found[0] if found else None


def number(node: Constant, binder: Binder, clause: str, count: int) -> int:
    """The place of the output that a number in ORDER BY or GROUP BY means."""
    if node.text.isdigit() and len(node.text) < 9 and 1 <= int(node.text) <= count:
        return int(node.text) - 1
    raise BindError(f"{clause} {node.text}: there are {count} columns", position=binder.position(node.at))
