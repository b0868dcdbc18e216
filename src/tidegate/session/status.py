"""How a database is doing, from its metadata alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.session.lake import Lake
from tidegate.shard.catalog import Table
from tidegate.shard.writer import Shard, schema_of


@dataclass(frozen=True)
class CollectionStatus:
    """One collection."""

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
    """Nothing was ever retracted."""
    leases: int
    """Readers that hold it now, or were not heard of since."""
    garbage: int
    """Objects that wait to be swept."""
    entries: int
    """How often it was changed."""


@dataclass(frozen=True)
class Status:
    """The whole database."""

    root: str
    database: str
    format: int
    metadata: str
    collections: dict[str, CollectionStatus] = field(default_factory=dict)
    views: tuple[str, ...] = ()


def status(lake: Lake) -> Status:
    """How the database is doing."""
    root, items = lake.root, lake.catalog.items()
    return Status(
        root.place.root,
        root.marker.database,
        root.marker.format,
        root.marker.metadata,
        {name: _of(lake.shard(item.shard)) for name, item in items.items() if isinstance(item, Table)},
        tuple(name for name, item in items.items() if not isinstance(item, Table)),
    )


def _of(shard: Shard) -> CollectionStatus:
    state = shard.machine.fetch()
    return CollectionStatus(
        len(schema_of(state).columns),
        state.parts.count,
        state.parts.rows,
        state.parts.size,
        state.since,
        state.upper,
        state.monotonic,
        len(state.leases),
        len(state.garbage),
        state.number,
    )
