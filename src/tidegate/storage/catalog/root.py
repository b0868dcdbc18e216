"""The root object of a database, which keeps another database from being put into its place.

    root     sealed JSON: {"format": 1, "database": "9f…", "metadata": "sqlite"}

It is written when the database is created, and never again. Opening a location compares:

| found | opened with | |
|---|---|---|
| nothing | anything | a new database |
| `sqlite` | SQLite in the folder | it is opened |
| `sqlite` | `?metadata=postgresql://…` | refused: the parts here belong to other metadata |
| `postgres`, database 9f… | a PostgreSQL without 9f… | refused: it is another one, or its metadata was lost |
| `postgres`, in a copy of the folder or bucket | the same PostgreSQL | refused: two places would write to one log (`adopt.py`) |
| a newer format | anything | refused: an older version cannot read it |

Metadata in the folder or the bucket itself is copied and moved with it. PostgreSQL is not, so its catalog records where the root
is: a `RootIdentity`, which no copy has in common with the original.

A new database begins with its catalog, then the root. If the process is killed between the two, the next one that opens the
location finds the catalog and uses it (in PostgreSQL, which may hold other databases, it is one forgotten row). If two processes
create the database at once, the store lets one create the root, and the other uses it. A store that would let both is refused
(`storage/blob/probe.py`), except if the metadata is in PostgreSQL: there a lock admits one of them, and the log does not depend
on the blob store.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from dataclasses import dataclass

from tidegate.clock import Clock
from tidegate.errors import CorruptError, IndeterminateError, ReadOnlyError, StoreError, TidegateError
from tidegate.storage.blob.probe import check_create
from tidegate.storage.blob.protocol import Blob
from tidegate.storage.catalog.catalog import Catalog
from tidegate.storage.consensus.protocol import Consensus
from tidegate.storage.consensus.sql import PostgresConsensus
from tidegate.storage.location import Location, RootIdentity
from tidegate.storage.maintain.sweep import MARKS
from tidegate.storage.part.checksum import seal, unseal
from tidegate.storage.retry import RetryPolicy
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.state import FIRST_FORMAT, FORMAT

ROOT_OBJECT = "root"


@dataclass(frozen=True)
class RootMarker:
    """The content of the root object."""

    database: str
    metadata: str
    format: int = FIRST_FORMAT

    def encode(self) -> bytes:
        """The bytes of the object."""
        body = {"format": self.format, "database": self.database, "metadata": self.metadata}
        return seal(json.dumps(body).encode())

    @staticmethod
    def decode(place: str, data: bytes) -> RootMarker:
        """The marker from the bytes of the object; a newer format is refused."""
        body = json.loads(unseal(f"{place}/{ROOT_OBJECT}", data))
        if body["format"] > FORMAT:
            raise TidegateError(
                f"{place} has format {body['format']}, and this version of Tidegate knows {FORMAT}",
                hint="upgrade Tidegate; an older one cannot read what a newer one wrote",
            )
        return RootMarker(body["database"], body["metadata"], body["format"])


@dataclass(frozen=True)
class Root:
    """An open database: its stores and its catalog."""

    place: Location
    marker: RootMarker
    blob: Blob
    consensus: Consensus
    catalog: Catalog
    location: RootIdentity | None = None
    """Where the marker is, if the metadata is elsewhere."""

    def check_location(self) -> None:
        """Raises if the metadata belongs to another location.

        Then this one is a copy, or the database was moved away from here.
        """
        if self.location is None:
            return
        known = self.catalog.locations()
        if known and not any(self.location.is_same(one) for one in known):
            raise _elsewhere(self.place, known)


def open_root(
    place: Location, clock: Clock, retries: RetryPolicy | None = None, *, anywhere: bool = False
) -> Root:
    """Opens the database at a location, or creates it.

    With `anywhere` it also opens one whose metadata belongs to another location.
    """
    blob = place.blob()
    marker = _read(place, blob)
    while marker is None:
        _make(place, blob, clock, retries)
        marker = _read(place, blob)  # as the process that was first has written it
    if marker.metadata != place.metadata:
        raise StoreError(
            f"{place.root} keeps its metadata in {marker.metadata}, and was opened with {place.metadata}",
            hint="one root holds one database: open it as it was created, or use another root",
        )
    consensus = place.consensus(blob, marker.database)
    try:
        machine = Machine(consensus, blob, Catalog.KEY, clock, retries)
        if not machine.exists():
            raise StoreError(
                f"{place.root} holds database {marker.database}, but its {place.metadata} metadata does not have it",
                hint="the metadata belongs to another database, or was lost: restore it, or use another root",
            )
        location = place.identity(blob, ROOT_OBJECT) if place.metadata == "postgres" else None
        root = _checked(Root(place, marker, blob, consensus, Catalog(machine), location))
        if location is not None and not anywhere:
            _record_location(root, location)
    except TidegateError:
        consensus.close()
        raise
    return root


def _record_location(root: Root, location: RootIdentity) -> None:
    """Records where a new database is, or an old one that has no record yet.

    Any other must be where it was.
    """
    if not root.catalog.locations():
        with contextlib.suppress(ReadOnlyError):
            root.catalog.set_locations([location])
    root.check_location()


def _elsewhere(place: Location, known: list[RootIdentity]) -> StoreError:
    return StoreError(
        f"{place.root} is not where this lake was: its metadata in PostgreSQL belongs to {known[0].url}, and an append to a copy "
        "would break the original",
        hint="if it was moved or restored: tidegate adopt --as moved; if this is another name of the same place: --as alias; if it "
        "is a copy, and shall be a lake of its own: --as copy (tidegate.adopt in Python)",
    )


def _make(place: Location, blob: Blob, clock: Clock, retries: RetryPolicy | None) -> None:
    fresh = secrets.token_hex(8)
    if place.metadata in ("sqlite", "log"):  # memory is exclusive, and in PostgreSQL a lock lets one make it
        check_create(blob, place.root, f"{MARKS}/{Catalog.KEY}/")
    consensus = place.consensus(blob, fresh)
    try:
        with consensus.alone() if isinstance(consensus, PostgresConsensus) else contextlib.nullcontext():
            if _read(place, blob) is None:
                catalog = Catalog.open(Machine(consensus, blob, Catalog.KEY, clock, retries), fresh)
                _create(blob, RootMarker(catalog.database, place.metadata))
    finally:
        consensus.close()


def _create(blob: Blob, marker: RootMarker) -> None:
    with contextlib.suppress(IndeterminateError):  # reading it shows whether it was written
        blob.create(ROOT_OBJECT, marker.encode())


def _read(place: Location, blob: Blob) -> RootMarker | None:
    data = blob.get(ROOT_OBJECT)
    return None if data is None else RootMarker.decode(place.root, data)


def _checked(root: Root) -> Root:
    found = root.catalog.database
    if found != root.marker.database:
        raise CorruptError(
            f"{root.place.root} holds database {root.marker.database}, but its metadata is that of {found}",
            hint="two databases were put on one root: restore one of them elsewhere",
        )
    return root
