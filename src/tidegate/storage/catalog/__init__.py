"""The catalog: names of tables, views, connections and sources; and the root object of a database.

    root = open_root(parse_location("lake"), SystemClock())
    root.catalog.create_table("orders", schema, options={})
    root.catalog.find("orders")                            TableItem(shard="3f…")

| module | contents |
|---|---|
| `catalog` | items by name, in a log like that of a shard |
| `items` | what a name may mean |
| `root` | opens the database at a location, or creates it |
| `adopt` | a database with metadata in PostgreSQL that was moved or copied |
"""

from tidegate.storage.catalog.adopt import Adoption, adopt_lake
from tidegate.storage.catalog.catalog import Catalog, already_exists, new_shard_name
from tidegate.storage.catalog.items import (
    CatalogItem,
    ConnectionItem,
    SourceItem,
    SubsourceItem,
    TableItem,
    ViewItem,
    kind_of,
    shard_of,
    view_of,
)
from tidegate.storage.catalog.root import ROOT_OBJECT, Root, RootMarker, open_root

__all__ = [
    "ROOT_OBJECT",
    "Adoption",
    "Catalog",
    "CatalogItem",
    "ConnectionItem",
    "Root",
    "RootMarker",
    "SourceItem",
    "SubsourceItem",
    "TableItem",
    "ViewItem",
    "adopt_lake",
    "already_exists",
    "kind_of",
    "new_shard_name",
    "open_root",
    "shard_of",
    "view_of",
]
