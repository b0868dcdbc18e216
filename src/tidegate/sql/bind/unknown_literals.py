"""Strings and NULLs of a select list that take their type from where their column goes.

    INSERT INTO t SELECT 1, '2024-01-01'      '2024-01-01' is a date, as the column that it fills
    SELECT 1 UNION SELECT '2'                 '2' is an int4, as the column of the other side

Only a literal that stands alone as a column is meant, as in PostgreSQL: the column of a subquery is text. Behind a `*` the places
of columns are not known before the query is bound, so literals there stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate.expr.model import Type, build
from tidegate.sql.parse.syntax import Body, Cast, Constant, Item, Query, Select, Star


def literal_places(body: Body) -> dict[int, Constant]:
    """The columns of a query that are a string or NULL without a type."""
    select = _select(body)
    places: dict[int, Constant] = {}
    for i, item in enumerate(() if select is None else select.items):
        if isinstance(item.value, Star):
            break
        if isinstance(item.value, Constant) and item.value.kind in ("string", "null"):
            places[i] = item.value
    return places


def type_of_literal(literal: Constant, beside: Type) -> Type:
    """The type as which a literal of one side of a set operation is read, by the type of the other side."""
    return beside if literal.kind == "null" else build.literal_type(literal.text, beside)


def with_literal_types(body: Body, types: Mapping[int, Type]) -> Body:
    """The query with these literals cast to types, by their places."""
    if isinstance(body, Query):
        return replace(body, body=with_literal_types(body.body, types))
    if not isinstance(body, Select) or not types:
        return body
    items = [_typed(item, types.get(i)) for i, item in enumerate(body.items)]
    return replace(body, items=tuple(items))


def _typed(item: Item, type_: Type | None) -> Item:
    if type_ is None or not isinstance(item.value, Constant):
        return item
    return replace(item, value=Cast((item.value,), type_, item.value.at))


def _select(body: Body) -> Select | None:
    while isinstance(body, Query):
        body = body.body
    return body if isinstance(body, Select) else None
