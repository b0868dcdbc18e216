"""What reads a table, and would mean something else after a change of it.

A view is bound anew by its text whenever it is read. So a change is refused if a view could not be bound any more, or, where the
caller says so, if its columns would be others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.context import CatalogSnapshot, Context, relation_of
from tidegate.errors import BindError, ErrorCode, Position, TidegateError
from tidegate.expr.model import Type
from tidegate.sql.bind import CatalogEntry
from tidegate.statements.drop import readers
from tidegate.statements.select import columns_of
from tidegate.storage.catalog import kind_of, view_of
from tidegate.storage.part import Schema


def check_views(
    context: Context, name: str, schema: Schema, options: Mapping[str, Any], *, alike: bool
) -> None:
    """Raises if a view could not be bound over the changed table; `alike`: or had other columns."""
    broken = []
    for view in readers(context, name):
        changed = _ChangedCatalog(CatalogSnapshot(context), name, schema, options)
        try:
            after = _columns(context, view, changed)
        except TidegateError:
            broken.append(view)
            continue
        if alike and after != _columns(context, view, CatalogSnapshot(context)):
            broken.append(view)
    if broken:
        raise _needed(context, broken, "that column")


def check_no_readers(context: Context, name: str, position: Position) -> None:
    """Raises if a view reads this by its name."""
    found = readers(context, name)
    if found:
        error = _needed(context, found, f'"{name}"')
        error.position = position
        raise error


def _needed(context: Context, views: list[str], what: str) -> BindError:
    kinds = [kind_of(context.item(view)) for view in views]
    named = ", ".join(f'{kind} "{view}"' for kind, view in zip(kinds, views, strict=True))
    return BindError(
        f"{named} {'reads' if len(views) == 1 else 'read'} {what}",
        code=ErrorCode.DEPENDENT_OBJECTS,
        hint="; ".join(f"DROP {kind.upper()} {view}" for kind, view in zip(kinds, views, strict=True))
        + " first",
    )


def _columns(
    context: Context, view: str, seen: CatalogSnapshot | _ChangedCatalog
) -> tuple[tuple[str, ...], tuple[Type, ...]]:
    query = view_of(context.item(view))
    return columns_of("SELECT 1" if query is None else query.sql, seen, context.clock.now())


class _ChangedCatalog:
    """The catalog as it would be with another schema for one table."""

    def __init__(self, seen: CatalogSnapshot, name: str, schema: Schema, options: Mapping[str, Any]) -> None:
        self.seen, self.name, self.schema, self.options = seen, name, schema, options

    def relation(self, name: str) -> CatalogEntry | None:
        if name == self.name:
            return relation_of(name, self.schema, self.options)
        return self.seen.relation(name)

    def relation_names(self) -> list[str]:
        return self.seen.relation_names()
