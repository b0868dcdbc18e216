"""Adopts a database with metadata in PostgreSQL that is not where it was, as its owner decides.

    adopt_lake(location, clock, "moved")     it was moved or restored here: from now on it is here, and refused where it was
    adopt_lake(location, clock, "alias")     this is another name of the same place, such as another mount point: both may be used
    adopt_lake(location, clock, "copy")      it is a copy: from now on a database of its own, with its own copy of the metadata

A copy gets the present metadata, which may be newer than the files that were copied. So every object that the metadata names must
exist; if one does not, nothing is changed, and the missing files must be copied as well. One statement copies the metadata under a
new database id, then the marker is replaced. If the process is killed in between, it is still a copy, and some rows are left over.
"""

from __future__ import annotations

import secrets
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.clock import Clock
from tidegate.errors import StoreError, TidegateError
from tidegate.storage.catalog.catalog import PLACES, Catalog
from tidegate.storage.catalog.items import shard_of
from tidegate.storage.catalog.root import ROOT_OBJECT, Root, RootMarker, open_root
from tidegate.storage.consensus.sql import PostgresConsensus
from tidegate.storage.location import Location
from tidegate.storage.maintain.sweep import FOLDERS
from tidegate.storage.shard.changes import Configure
from tidegate.storage.shard.machine import Machine

Adoption = Literal["moved", "alias", "copy"]


def adopt_lake(place: Location, clock: Clock, how: Adoption) -> None:
    """Makes the database at a location one that can be opened there."""
    if how not in ("moved", "alias", "copy"):
        raise StoreError(f"a lake cannot be adopted as {how!r}", hint="moved, alias or copy")
    if place.metadata != "postgres":
        raise StoreError(
            f"{place.root} has its metadata beside its parts: it can be moved and copied as it is",
            hint="only a lake with ?metadata=postgresql://… is adopted",
        )
    if place.blob().get(ROOT_OBJECT) is None:
        raise StoreError(f"there is no lake at {place.root}", hint="copy or move all of its files first")
    root = open_root(place, clock, anywhere=True)
    try:
        match how:
            case "moved":
                assert root.location is not None
                root.catalog.set_locations([root.location])
            case "alias":
                _add_alias(root)
            case "copy":
                _separate(root, clock)
    finally:
        root.consensus.close()


def _add_alias(root: Root) -> None:
    here, known = root.location, root.catalog.locations()
    assert here is not None
    if not any(here.changed == one.changed or here.inode == one.inode != 0 for one in known):
        raise StoreError(
            f"{root.place.root} is not another name of {known[0].url if known else 'any place'}: its marker is another file",
            hint="it is a copy: tidegate adopt --as copy; or, if the other is no longer there: --as moved",
        )
    root.catalog.set_locations([*(one for one in known if one.url != here.url), here])


def _separate(root: Root, clock: Clock) -> None:
    """Gives a copy its own metadata."""
    known = root.catalog.locations()
    if not known or any(root.location is not None and root.location.is_same(one) for one in known):
        raise StoreError(
            f"{root.place.root} is the original, and no copy"
            if known
            else "nobody knows yet where the original is",
            hint="copy its files to another place, and adopt them there"
            if known
            else "open the original once, there",
        )
    assert isinstance(root.consensus, PostgresConsensus)
    fresh = secrets.token_hex(8)
    consensus = root.consensus.copy(f"{fresh}/")
    try:
        _prepare(Catalog(Machine(consensus, root.blob, Catalog.KEY, clock)), root.place, fresh)
    except TidegateError:
        consensus.remove()
        raise
    finally:
        consensus.close()
    # If it is unknown whether this was done, the rows stay, because the marker may already refer to them.
    root.blob.put(ROOT_OBJECT, RootMarker(fresh, root.marker.metadata).encode())
    open_root(root.place, clock).consensus.close()


def _prepare(catalog: Catalog, place: Location, database: str) -> None:
    """Checks that the metadata names only existing objects, and gives it its own database id."""
    shards = [shard for shard in map(shard_of, catalog.items().values()) if shard is not None]
    absent = sum(_absent(machine) for machine in (catalog.machine, *map(catalog.shard_machine, shards)))
    if absent:
        raise StoreError(
            f"{absent} objects that the metadata names are not at {place.root}: it is newer than the copy of the files",
            hint="nothing was changed: copy the files that are new (none is ever changed), and adopt it again",
        )
    catalog.machine.update(lambda _: Configure({"database": database, PLACES: None}))


def _absent(machine: Machine) -> int:
    """How many objects that the newest state names are not in the store."""
    state = machine.fetch()
    rolled = [] if state.rollup is None else [state.rollup[0]]
    parts = [table.column("name").combine_chunks() for table in state.parts.stored(["name"])]
    named = pa.chunked_array([pa.array([*rolled, *state.segments], pa.string()), *parts], pa.string())
    there = [entry.name for folder in FOLDERS for entry in machine.blob.list(f"{folder}/{state.shard}/")]
    return int(pc.sum(pc.invert(pc.is_in(named, value_set=pa.array(there, pa.string())))).as_py() or 0)
