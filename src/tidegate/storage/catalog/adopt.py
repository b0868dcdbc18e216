"""A lake whose metadata is in PostgreSQL, and that is not where it was: what to do with it, as only its owner can say.

    adopt(place, clock, "moved")     it was moved here, or restored here: from now on it is here, and refused where it was
    adopt(place, clock, "alias")     this is another name of the same place, such as another mount point: both may be used
    adopt(place, clock, "copy")      it is a copy: from now on a lake of its own, with its own copy of the metadata

A copy gets the metadata of now, which may be newer than the files that were copied. So each object that it names must be there; if
one is not, nothing is changed, and the missing files are to be copied as well. The metadata is copied by one statement, under a new
database id, then the marker is replaced: killed in between, it is still a copy, and some forgotten rows.
"""

from __future__ import annotations

import secrets
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.clock import Clock
from tidegate.errors import StoreError, TidegateError
from tidegate.shard.catalog import PLACES, Catalog, shard_of
from tidegate.shard.change import Configure
from tidegate.shard.machine import Machine
from tidegate.shard.root import NAME, Marker, Root, open_root
from tidegate.shard.sweep import FOLDERS
from tidegate.store.place import Place
from tidegate.store.sql import PostgresConsensus

Adoption = Literal["moved", "alias", "copy"]


def adopt(place: Place, clock: Clock, how: Adoption) -> None:
    """Makes the lake at `place` one that can be opened there."""
    if how not in ("moved", "alias", "copy"):
        raise StoreError(f"a lake cannot be adopted as {how!r}", hint="moved, alias or copy")
    if place.metadata != "postgres":
        raise StoreError(
            f"{place.root} has its metadata beside its parts: it can be moved and copied as it is",
            hint="only a lake with ?metadata=postgresql://… is adopted",
        )
    if place.blob().get(NAME) is None:
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
    # If it is not known whether this was done, the rows stay: the marker may say by now that they are its metadata.
    root.blob.put(NAME, Marker(fresh, root.marker.metadata).encode())
    open_root(root.place, clock).consensus.close()


def _prepare(catalog: Catalog, place: Place, database: str) -> None:
    """Checks that metadata names only what is there, and gives it its own database id."""
    shards = [shard for shard in map(shard_of, catalog.items().values()) if shard is not None]
    absent = sum(_absent(machine) for machine in (catalog.machine, *map(catalog.shard_machine, shards)))
    if absent:
        raise StoreError(
            f"{absent} objects that the metadata names are not at {place.root}: it is newer than the copy of the files",
            hint="nothing was changed: copy the files that are new (none is ever changed), and adopt it again",
        )
    catalog.machine.change(lambda _: Configure({"database": database, PLACES: None}))


def _absent(machine: Machine) -> int:
    """How many objects the newest state names that are not in the store."""
    state = machine.fetch()
    rolled = [] if state.rollup is None else [state.rollup[0]]
    parts = [table.column("name").combine_chunks() for table in state.parts.tables(["name"])]
    named = pa.chunked_array([pa.array([*rolled, *state.segments], pa.string()), *parts], pa.string())
    there = [entry.name for folder in FOLDERS for entry in machine.blob.list(f"{folder}/{state.shard}/")]
    return int(pc.sum(pc.invert(pc.is_in(named, value_set=pa.array(there, pa.string())))).as_py() or 0)
