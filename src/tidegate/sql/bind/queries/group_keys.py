"""The entries of GROUP BY.

A name is a column of FROM, else an output; a number is an output; as in PostgreSQL.
"""

from __future__ import annotations

from typing import NamedTuple

from tidegate.errors import BindError, ErrorCode
from tidegate.expr.model import Expr
from tidegate.sql.bind.expression import Binder
from tidegate.sql.bind.output_name import label
from tidegate.sql.bind.select_list import number, places, resolve_unknown
from tidegate.sql.parse.syntax import Constant, Item, Name, Node, Select, Star


class GroupKey(NamedTuple):
    """An entry of GROUP BY."""

    label: str
    value: Expr


def key_of(node: Node, select: Select, rows: Binder) -> GroupKey:
    """An entry of GROUP BY, over rows."""
    if isinstance(node, Constant) and node.kind == "number":
        entries = [entry for item in select.items for entry in _entries(item, rows)]
        name, value = entries[number(node, rows, "GROUP BY", len(entries))]
        return GroupKey(
            name, value if isinstance(value, Expr) else resolve_unknown(rows.bind(value, "GROUP BY"))
        )
    if isinstance(node, Constant):
        raise BindError(
            "GROUP BY a constant makes one group", hint="leave it out", position=rows.position(node.at)
        )
    named = _named(node, select, rows)
    return GroupKey(label(node), resolve_unknown(rows.bind(node if named is None else named, "GROUP BY")))


def _entries(item: Item, rows: Binder) -> list[tuple[str, Node | Expr]]:
    """The outputs of an entry of the select list, `*` taken apart."""
    value = item.value
    if not isinstance(value, Star):
        return [(item.alias.text if item.alias else label(value), value)]
    if value.args:
        raise BindError("GROUP BY wants a name here, not a number", position=rows.position(value.at))
    return [(rows.scope.columns[i][1], rows.scope.column(i)) for i in places(value, rows)]


def _named(node: Node, select: Select, rows: Binder) -> Node | None:
    """The output that a name means which no column has."""
    if not isinstance(node, Name) or len(node.parts) > 1:
        return None
    name = node.parts[0].text
    if any(name == column for _, column, _ in rows.scope.columns):
        return None
    found = [item.value for item in select.items if item.alias is not None and item.alias.text == name]
    if len(found) > 1:
        raise BindError(
            f'GROUP BY "{name}" is ambiguous',
            code=ErrorCode.AMBIGUOUS_COLUMN,
            position=rows.position(node.at),
        )
    return found[0] if found else None
