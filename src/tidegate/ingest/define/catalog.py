"""Sources in the catalog: loads their definitions, pauses and resumes them.

load_source(context, "clicks")        the SourceDefinition that CREATE SOURCE stored
set_paused(context, "clicks")         its ingestion stops after the current batch, in whatever process it runs
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.context import Context
from tidegate.errors import BindError, Position
from tidegate.ingest.define import connection as connections
from tidegate.ingest.define import serialize
from tidegate.ingest.definition import SourceDefinition
from tidegate.storage.catalog import SourceItem, SubsourceItem, kind_of


def load_source(context: Context, name: str, position: Position | None = None) -> SourceDefinition:
    """Loads the source with a name from the catalog; raises a BindError if it is not a source."""
    return load_source_item(context, source_item(context, name, position))


def load_source_item(context: Context, item: SourceItem) -> SourceDefinition:
    """Loads a source from its catalog item."""
    return serialize.source_from_json(
        item.definition, lambda name: connections.load_connection(context, name)
    )


def source_item(context: Context, name: str, position: Position | None = None) -> SourceItem:
    """Returns the catalog item of a source; raises a BindError if the name is not a source."""
    item = context.item(name, position)
    if isinstance(item, SourceItem):
        return item
    hint = f'its source is "{item.source}"' if isinstance(item, SubsourceItem) else "SHOW SOURCES lists them"
    raise BindError(f'"{name}" is a {kind_of(item)}, not a source', hint=hint, position=position)


def set_paused(context: Context, name: str, position: Position | None = None, *, on: bool = True) -> None:
    """Pauses or resumes a source; its ingestion checks this before each batch."""
    item = source_item(context, name, position)
    if item.paused != on:
        context.catalog.change(name, item, replace(item, paused=on))
