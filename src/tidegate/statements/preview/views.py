"""Views as the web pages show them: the definition, the columns, and what a view reads.

view_facts(context)["cheap"].reads      ("orders", "rates"): collections and views that its definition names
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.context import CatalogSnapshot, Context
from tidegate.errors import TidegateError
from tidegate.sql.bind import ViewRelation
from tidegate.statements.select import columns_of
from tidegate.storage.catalog import ViewItem
from tidegate.text import identifier


@dataclass(frozen=True)
class ViewFacts:
    """One view."""

    sql: str
    """The CREATE VIEW that makes it."""
    columns: tuple[tuple[str, str], ...]
    """Names and types."""
    collections: tuple[str, ...]
    """Collections that it reads, also through other views."""
    views: tuple[str, ...]
    """Views that it reads."""
    problem: TidegateError | None = None
    """Why it cannot be read any more, such as a table that was dropped."""


def view_facts(context: Context) -> dict[str, ViewFacts]:
    """Returns all views by name."""
    items = context.catalog.items()
    return {name: _facts(context, name, item) for name, item in items.items() if isinstance(item, ViewItem)}


def _facts(context: Context, name: str, item: ViewItem) -> ViewFacts:
    names = f" ({', '.join(map(identifier, item.columns))})" if item.columns else ""
    sql = f"CREATE VIEW {identifier(name)}{names} AS {item.sql}"
    snapshot = CatalogSnapshot(context)
    try:
        own, types = columns_of(item.sql, snapshot, context.clock.now())
    except TidegateError as error:
        return ViewFacts(sql, (), (), (), error)
    names_ = (*item.columns, *own[len(item.columns) :])
    views = tuple(key for key, entry in snapshot.entries.items() if isinstance(entry, ViewRelation))
    columns = tuple((key, str(kind)) for key, kind in zip(names_, types, strict=True))
    return ViewFacts(sql, columns, tuple(snapshot.tables), views)
