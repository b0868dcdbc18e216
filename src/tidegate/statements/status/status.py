"""How a database is doing, from its metadata alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.context import Context
from tidegate.statements.status.text import status_html, status_lines
from tidegate.storage.catalog import ConnectionItem, SourceItem, ViewItem, shard_of
from tidegate.storage.shard import Shard, visible_columns
from tidegate.text import plural

if TYPE_CHECKING:
    from tidegate.ingest.runtime import SourceStatus


@dataclass(frozen=True)
class CollectionStatus:
    """One collection: `db.status().collections["orders"].parts`."""

    columns: int
    parts: int
    rows: int
    """Updates that are stored: retractions count as well as what they retract."""
    bytes: int
    since: int
    """The earliest time that can be read."""
    upper: int
    """The earliest time that can be appended at."""
    monotonic: bool
    """No retraction came as a row: no reader has to compare rows. Rows deleted by their position do not count."""
    leases: int
    """Readers that hold it now, or were not heard of since."""
    garbage: int
    """Objects that wait to be swept."""
    entries: int
    """How often it was changed."""
    deleted: int = 0
    """Stored rows that are deleted, and kept for AS OF until compaction removes them."""


@dataclass(frozen=True, repr=False)
class Status:
    """How a database is doing: its collections, views, sources and connections.

    db.status()                               a table of them, in a prompt or a notebook
    db.status().collections["orders"].rows    a number
    db.status().sources["clicks"].state       running
    """

    root: str
    database: str
    format: int
    metadata: str
    collections: dict[str, CollectionStatus] = field(default_factory=dict)
    views: tuple[str, ...] = ()
    sources: dict[str, SourceStatus] = field(default_factory=dict)
    connections: tuple[str, ...] = ()

    def text(self, width: int = 0) -> str:
        """Tables of collections and sources in so many columns; 0: as wide as they are."""
        return "\n".join(status_lines(self, width))

    def __repr__(self) -> str:
        from tidegate.query.display import terminal_width

        return self.text(terminal_width())

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return status_html(self)


def status(context: Context) -> Status:
    """How the database is doing."""
    root, items = context.root, context.catalog.items()
    return Status(
        root.place.root,
        root.marker.database,
        root.marker.format,
        root.marker.metadata,
        {name: _of(context.shard(shard)) for name, item in items.items() if (shard := shard_of(item))},
        tuple(name for name, item in items.items() if isinstance(item, ViewItem)),
        _sources(context, {name: item for name, item in items.items() if isinstance(item, SourceItem)}),
        tuple(name for name, item in items.items() if isinstance(item, ConnectionItem)),
    )


def contents(context: Context) -> str:
    """How many collections, views and sources there are, by the catalog alone: `2 collections, 1 view`."""
    items = context.catalog.items().values()
    views = sum(isinstance(item, ViewItem) for item in items)
    sources = sum(isinstance(item, SourceItem) for item in items)
    tables = sum(shard_of(item) is not None for item in items)
    counts = ((tables, "collection"), (views, "view"), (sources, "source"))
    return ", ".join(plural(count, noun) for count, noun in counts if count)


def _sources(context: Context, items: dict[str, SourceItem]) -> dict[str, SourceStatus]:
    if not items:
        return {}  # and what ingests is not imported
    from tidegate.ingest.runtime import source_status

    return {name: source_status(context, name, item) for name, item in items.items()}


def source_statuses(context: Context) -> dict[str, SourceStatus]:
    """How the sources are doing, by name."""
    items = context.catalog.items()
    return _sources(context, {name: item for name, item in items.items() if isinstance(item, SourceItem)})


def _of(shard: Shard) -> CollectionStatus:
    state = shard.machine.fetch()
    return CollectionStatus(
        len(visible_columns(state.schema, state.options)),
        state.parts.count,
        state.parts.rows,
        state.parts.size,
        state.since,
        state.upper,
        state.monotonic,
        len(state.leases),
        len(state.garbage),
        state.number,
        state.parts.deletions.rows,
    )
