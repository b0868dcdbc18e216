"""The root of a database: one small object that says what lies here, so that nothing else is ever put on top of it.

    root     sealed JSON: {"format": 1, "database": "9f…", "metadata": "sqlite"}

It is written when the database is made, and never again. Whoever opens the place compares:

| found | opened with | |
|---|---|---|
| nothing | anything | a new database |
| `sqlite` | SQLite in the folder | it is opened |
| `sqlite` | `?metadata=postgresql://…` | refused: the parts here belong to other metadata |
| `postgres`, database 9f… | a PostgreSQL that knows no 9f… | refused: it is another one, or a lost one |
| `postgres`, in a copy of the folder or bucket | the same PostgreSQL | refused: two places would write to one log (`adopt.py`) |
| a newer format | anything | refused: an older version cannot read it |

Metadata in the folder or the bucket itself is copied and moved with it. PostgreSQL is not, so its catalog says where the root is:
`Location`, by what no copy has in common with it.

A new database begins with its catalog, then the root. Killed between the two, the catalog is found and used by the next one who
opens the place (in PostgreSQL, where others live too, it is one forgotten row). Of two who make it at once, the store lets one
create the root, and the other takes what the root says. A store that would let both is refused (`store/probe.py`), but where the
metadata is in PostgreSQL: there a lock lets one of them in, and the log does not depend on the store of parts.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from dataclasses import dataclass

from tidegate.clock import Clock
from tidegate.errors import CorruptError, IndeterminateError, ReadOnlyError, StoreError, TidegateError
from tidegate.shard.catalog import Catalog
from tidegate.shard.machine import Machine, Retries
from tidegate.shard.seal import seal, unseal
from tidegate.shard.state import FORMAT
from tidegate.shard.sweep import MARKS
from tidegate.store.blob import Blob
from tidegate.store.consensus import Consensus
from tidegate.store.place import Location, Place
from tidegate.store.probe import check_create
from tidegate.store.sql import PostgresConsensus

NAME = "root"


@dataclass(frozen=True)
class Marker:
    """What the root says."""

    database: str
    metadata: str
    format: int = FORMAT

    def encode(self) -> bytes:
        """As the bytes of the object."""
        body = {"format": self.format, "database": self.database, "metadata": self.metadata}
        return seal(json.dumps(body).encode())

    @staticmethod
    def decode(place: str, data: bytes) -> Marker:
        """From the bytes of the object; one of a newer format is refused."""
        body = json.loads(unseal(f"{place}/{NAME}", data))
        if body["format"] > FORMAT:
            raise TidegateError(
                f"{place} has format {body['format']}, and this version of Tidegate knows {FORMAT}",
                hint="upgrade Tidegate; an older one cannot read what a newer one wrote",
            )
        return Marker(body["database"], body["metadata"], body["format"])


@dataclass(frozen=True)
class Root:
    """An open database: its stores, and its catalog."""

    place: Place
    marker: Marker
    blob: Blob
    consensus: Consensus
    catalog: Catalog
    location: Location | None = None
    """Where the marker is, if that matters: if the metadata is elsewhere."""

    def check_location(self) -> None:
        """Raises if the metadata belongs to another place: this one is a copy, or the lake was moved away from here."""
        if self.location is None:
            return
        known = self.catalog.locations()
        if known and not any(self.location.is_same(one) for one in known):
            raise _elsewhere(self.place, known)


def open_root(place: Place, clock: Clock, retries: Retries | None = None, *, anywhere: bool = False) -> Root:
    """Opens the database at `place`, and makes it if there is none; with `anywhere` also one whose metadata belongs elsewhere."""
    blob = place.blob()
    marker = _read(place, blob)
    while marker is None:
        _make(place, blob, clock, retries)
        marker = _read(place, blob)  # as whoever was first has made it
    if marker.metadata != place.metadata:
        raise StoreError(
            f"{place.root} keeps its metadata in {marker.metadata}, and was opened with {place.metadata}",
            hint="one root holds one database: open it as it was made, or take another root",
        )
    consensus = place.consensus(blob, marker.database)
    try:
        machine = Machine(consensus, blob, Catalog.KEY, clock, retries)
        if not machine.exists():
            raise StoreError(
                f"{place.root} holds database {marker.database}, of which its {place.metadata} metadata knows nothing",
                hint="the metadata is another database's, or was lost: restore it, or take another root",
            )
        location = place.location(blob, NAME) if place.metadata == "postgres" else None
        root = _checked(Root(place, marker, blob, consensus, Catalog(machine), location))
        if location is not None and not anywhere:
            _settle(root, location)
    except TidegateError:
        consensus.close()
        raise
    return root


def _settle(root: Root, location: Location) -> None:
    """Writes down where a new database is, or one made before that was done; any other must be where it was."""
    if not root.catalog.locations():
        with contextlib.suppress(ReadOnlyError):
            root.catalog.set_locations([location])
    root.check_location()


def _elsewhere(place: Place, known: list[Location]) -> StoreError:
    return StoreError(
        f"{place.root} is not where this lake was: its metadata in PostgreSQL belongs to {known[0].url}, and an append to a copy "
        "would break the original",
        hint="if it was moved or restored: tidegate adopt --as moved; if this is another name of the same place: --as alias; if it "
        "is a copy, and shall be a lake of its own: --as copy (tidegate.adopt in Python)",
    )


def _make(place: Place, blob: Blob, clock: Clock, retries: Retries | None) -> None:
    fresh = secrets.token_hex(8)
    if place.metadata in ("sqlite", "log"):  # memory is exclusive, and in PostgreSQL a lock lets one make it
        check_create(blob, place.root, f"{MARKS}/{Catalog.KEY}/")
    consensus = place.consensus(blob, fresh)
    try:
        with consensus.alone() if isinstance(consensus, PostgresConsensus) else contextlib.nullcontext():
            if _read(place, blob) is None:
                catalog = Catalog.open(Machine(consensus, blob, Catalog.KEY, clock, retries), fresh)
                _create(blob, Marker(catalog.database, place.metadata))
    finally:
        consensus.close()


def _create(blob: Blob, marker: Marker) -> None:
    with contextlib.suppress(IndeterminateError):  # whether it was written, reading it tells
        blob.create(NAME, marker.encode())


def _read(place: Place, blob: Blob) -> Marker | None:
    data = blob.get(NAME)
    return None if data is None else Marker.decode(place.root, data)


def _checked(root: Root) -> Root:
    found = root.catalog.database
    if found != root.marker.database:
        raise CorruptError(
            f"{root.place.root} holds database {root.marker.database}, but its metadata is that of {found}",
            hint="two databases were put on one root: restore one of them elsewhere",
        )
    return root
