"""The name of an output column that was given none, as PostgreSQL would call it.

    SELECT price, lower(name), at::date, (payload->>'ts')::numeric, a + b FROM t
           price, lower,       at,       numeric,                   ?column?

Checked against PostgreSQL 15; two columns may well have the same name.
"""

from __future__ import annotations

from typing import assert_never

from tidegate.expr.model import Type
from tidegate.sql.parse.syntax import (
    AggregateCall,
    Apply,
    Body,
    Case,
    Cast,
    Constant,
    Default,
    FieldAccess,
    In,
    Items,
    Junction,
    Name,
    Node,
    NonScalar,
    Quantified,
    Query,
    SetOperation,
    Star,
    Values,
)

NAMELESS = "?column?"
_SPELLED = {"strpos": "position"}


def label(node: Node) -> str:
    """The name of a column that is `node`; casts, subscripts and ELSE take that of what is inside them."""
    weak: str | None = None  # what to fall back on if there is none inside
    while True:
        match node:
            case Cast():
                weak, node = weak or _of_type(node.type), node.args[0]
            case Case():
                weak, node = weak or "case", node.args[-1]
            case Apply() if node.name.startswith(("subscript", "slice")):
                node = node.args[0]
            case Name():
                return node.parts[-1].text
            case FieldAccess():
                return node.name.text
            case Apply(name) if node.is_function:
                return name
            case AggregateCall(name):
                return name
            case Apply(name) if _is_word(name):
                return _SPELLED.get(name, name)
            case Items():
                return node.kind
            case NonScalar(call=AggregateCall(name)):
                return name
            case NonScalar(table=str(name)):
                return name
            case NonScalar(query=Query() as query, kind=kind):
                return (weak or NAMELESS) if kind in ("any", "all") else _of_query(query, kind)
            case NonScalar() | Apply() | Constant() | Star() | Default() | Junction() | In() | Quantified():
                return weak or NAMELESS
            case _:
                assert_never(node)


def _of_query(query: Query, kind: str) -> str:
    """A subquery is called as its one column is; a test is called nothing."""
    if kind in ("exists", "array"):
        return kind
    body: Body = query
    while isinstance(body, Query | SetOperation):
        body = body.body if isinstance(body, Query) else body.left
    if isinstance(body, Values):
        return "column1"
    if not body.items:
        return NAMELESS
    item = body.items[0]
    return item.alias.text if item.alias else label(item.value)


def _of_type(type_: Type) -> str:
    """A cast is called as its type is, that to an array as the type of its elements."""
    while type_.element is not None:
        type_ = type_.element
    return type_.kind.value


def _is_word(name: str) -> bool:
    """Whether something that is not written as a call is named like one: extract, timezone, current_date."""
    return name.replace("_", "").isalpha() and name not in ("not", "like", "ilike")
