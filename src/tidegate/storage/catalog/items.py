"""The items of the catalog: what a name may mean, and how it is stored.

item_to_json(TableItem("3f…"))     {"kind": "table", "shard": "3f…"}
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias, assert_never

from tidegate.errors import TidegateError


@dataclass(frozen=True)
class TableItem:
    """A table: the name of its shard."""

    kind: ClassVar[str] = "table"
    shard: str


@dataclass(frozen=True)
class ViewItem:
    """A view: its query, and the names of its columns if they were renamed."""

    kind: ClassVar[str] = "view"
    sql: str
    columns: tuple[str, ...] = ()
    comments: dict[str, str] = field(default_factory=dict, repr=False)
    """By name of the column; that of the view itself has the name ''."""


@dataclass(frozen=True)
class ConnectionItem:
    """A connection to an external system: its kind, and its options as they were written."""

    kind: ClassVar[str] = "connection"
    to: str
    options: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class SourceItem:
    """A source: an external system that is read into a collection of this name, or into subsources."""

    kind: ClassVar[str] = "source"
    shard: str | None
    """None: its collections are subsources."""
    sql: str
    """The statement that made it, and last changed it."""
    definition: dict[str, Any] = field(default_factory=dict, repr=False)
    """As `ingest/definition.py` writes it."""
    paused: bool = False
    view: ViewItem | None = None
    """WITH (SPLIT): the query over the stored collections that its name stands for."""


@dataclass(frozen=True)
class SubsourceItem:
    """A collection of a source, or its bad rows."""

    kind: ClassVar[str] = "subsource"
    shard: str
    source: str


CatalogItem: TypeAlias = TableItem | ViewItem | ConnectionItem | SourceItem | SubsourceItem


def shard_of(item: CatalogItem) -> str | None:
    """The shard with the rows of an item; None: it has none of its own."""
    return None if isinstance(item, ViewItem | ConnectionItem) else item.shard


def view_of(item: CatalogItem) -> ViewItem | None:
    """The view that an item stands for; None: none."""
    return item if isinstance(item, ViewItem) else item.view if isinstance(item, SourceItem) else None


def kind_of(item: CatalogItem) -> str:
    """The kind of an item, in the words of SQL."""
    return item.kind


def item_to_json(item: CatalogItem) -> dict[str, Any]:
    """The item as the catalog stores it."""
    match item:
        case TableItem(shard):
            return {"kind": "table", "shard": shard}
        case ViewItem(sql, columns, comments):
            shown: dict[str, Any] = {"kind": "view", "sql": sql, "columns": list(columns)}
            return {**shown, "comments": comments} if comments else shown
        case ConnectionItem(to, options):
            return {"kind": "connection", "to": to, "options": options}
        case SourceItem(shard, sql, definition, paused, view):
            entry = {"kind": "source", "shard": shard, "sql": sql, "definition": definition, "paused": paused}
            return entry if view is None else {**entry, "view": item_to_json(view)}
        case SubsourceItem(shard, source):
            return {"kind": "subsource", "shard": shard, "source": source}
        case _:
            assert_never(item)


def item_from_json(entry: dict[str, Any]) -> CatalogItem:
    """The item of what the catalog stores."""
    match entry["kind"]:
        case "table":
            return TableItem(entry["shard"])
        case "view":
            return ViewItem(entry["sql"], tuple(entry["columns"]), entry.get("comments", {}))
        case "connection":
            return ConnectionItem(entry["to"], entry["options"])
        case "source":
            view = item_from_json(entry["view"]) if "view" in entry else None
            assert view is None or isinstance(view, ViewItem)
            return SourceItem(entry["shard"], entry["sql"], entry["definition"], entry["paused"], view)
        case "subsource":
            return SubsourceItem(entry["shard"], entry["source"])
        case kind:
            raise TidegateError(
                f"the catalog holds a {kind}, which this version does not support", hint="upgrade Tidegate"
            )
