"""The changes that can be made to a shard: a closed union, each one entry of its log.

| change | made by | effect |
|---|---|---|
| `Create` | CREATE TABLE | the first entry: the schema, and an empty collection from time 0 on |
| `Append` | writers | new parts and deleted rows for times `lower ≤ t < upper`, and source positions: all or none |
| `Replace` | compaction, expiry | parts for others that hold the same updates (or for none, if all their rows have ended) |
| `Replace` | settling | the same, but retractions among the updates become deletions of the rows that they retract |
| `AddStatistics` | statistics back-fill | the same parts, now with statistics; their files stay |
| `Advance` | retention | `since` moves on: earlier times can no longer be read |
| `Repair` | `db.repair` | updates after a time move to it, and `upper` goes back |
| `Hold`, `Release` | readers | a lease: what the state holds now may not be deleted, and `since` may not pass it |
| `Evolve` | ALTER TABLE | another version of the schema |
| `Alter` | ALTER TABLE | the same together with options; old parts are read in another way: widened, or with a default |
| `Configure` | SET, KEEP STATISTICS | options |
| `Roll` | any writer | the whole state up to some number is in an object, where readers can start |
| `Forget` | sweep | objects that were deleted; and *orphans*, which no state may name from now on |
| `DropShard` | DROP TABLE | nothing is left but the names of objects to sweep |

An entry is sealed JSON: `{"token": …, "at": ms, "change": "append", …}`. The token identifies its writer: after a lost answer the
writer finds its own token in the log, or knows that the change was not made.

An entry with deletions has the kind `append/2` or `replace/2`. A version that does not know deletions refuses it: it would show
rows that are deleted. An append with inline parts, which hold their file themselves, is an `append/4`.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa

from tidegate.errors import CorruptError
from tidegate.storage.part.checksum import seal, unseal
from tidegate.storage.part.deletion_records import DELETIONS_SCHEMA, records_from_json, records_to_json
from tidegate.storage.part.part import Part

_WITH_DELETIONS, _WITH_INLINE_PARTS = "/2", "/4"
_OF_DELETIONS = frozenset({"deletions", "applied", "settled", "retracted"})
"""Fields that an entry without deletions does not have."""


@dataclass(frozen=True)
class Create:
    """The first entry."""

    kind: ClassVar[str] = "create"
    format: int
    shard: str
    schema: dict[str, Any]
    options: dict[str, Any]


@dataclass(frozen=True)
class Append:
    """New parts for the times `lower ≤ t < upper`."""

    kind: ClassVar[str] = "append"
    lower: int
    upper: int
    parts: tuple[Part, ...]
    token: str
    """A second append with the same token changes nothing."""
    positions: dict[str, Any] = field(default_factory=dict)
    """Source → how far it was read, including these parts; None removes the position."""
    deletions: pa.Table = field(default_factory=DELETIONS_SCHEMA.empty_table)
    """Rows of earlier parts that are deleted (`storage/part/deletions.py`)."""


@dataclass(frozen=True)
class Replace:
    """Parts for others with the same updates."""

    kind: ClassVar[str] = "replace"
    removed: tuple[int, ...]
    added: tuple[Part, ...]
    expired: bool = False
    """No row of the removed parts is still valid, so the sum of diffs may change."""
    ended: int = 0
    """The sum of diffs of rows that were left out because they have ended or are deleted."""
    deletions: pa.Table = field(default_factory=DELETIONS_SCHEMA.empty_table)
    """The deletions of the removed parts, moved to the added ones: `part` is the place in `added`."""
    applied: int = 0
    """The sum of diffs of deleted rows that were left out."""
    settled: pa.Table = field(default_factory=DELETIONS_SCHEMA.empty_table)
    """Rows of other parts that are deleted instead of being retracted by updates of the removed parts: `part` is an id."""
    retracted: int = 0
    """By how much the sum of diffs grows because such retractions are left out."""


@dataclass(frozen=True)
class AddStatistics:
    """Statistics for existing parts.

    They keep their objects, but get new numbers, because parts are only ever added and removed.
    """

    kind: ClassVar[str] = "describe"
    ids: tuple[int, ...]
    stats: tuple[bytes, ...]
    """For each of the ids."""


@dataclass(frozen=True)
class Advance:
    """Moves `since` on."""

    kind: ClassVar[str] = "advance"
    since: int


@dataclass(frozen=True)
class Repair:
    """Moves updates after the time `to` to that time; nothing else changes (`repair.py`)."""

    kind: ClassVar[str] = "repair"
    to: int


@dataclass(frozen=True)
class Hold:
    """Makes or renews a reader's lease."""

    kind: ClassVar[str] = "hold"
    reader: str
    since: int
    until: int
    """When it ends unless renewed, in ms."""
    number: int | None = None
    """A renewal no longer needs what left the state up to this entry; None: it protects what it did."""


@dataclass(frozen=True)
class Release:
    """Ends leases."""

    kind: ClassVar[str] = "release"
    readers: tuple[str, ...]


@dataclass(frozen=True)
class Evolve:
    """Another version of the schema."""

    kind: ClassVar[str] = "evolve"
    schema: dict[str, Any]


@dataclass(frozen=True)
class Alter:
    """Another version of the schema, and options; None removes one.

    Versions that know no `Alter` would read NULL, or another type, from parts of earlier versions: they refuse it.
    """

    kind: ClassVar[str] = "alter"
    schema: dict[str, Any]
    options: dict[str, Any]


@dataclass(frozen=True)
class Configure:
    """Sets options; None removes one."""

    kind: ClassVar[str] = "configure"
    options: dict[str, Any]


@dataclass(frozen=True)
class Roll:
    """The state as of entry `number` is in object `name`."""

    kind: ClassVar[str] = "roll"
    name: str
    number: int
    segments: tuple[str, ...] = ()
    """The segments that it refers to; those that only the rollup before it referred to become garbage."""


@dataclass(frozen=True)
class Forget:
    """Removes names of objects that were deleted; and declares `orphans` garbage.

    No state may name an orphan from now on.
    """

    kind: ClassVar[str] = "forget"
    names: tuple[str, ...]
    orphans: tuple[str, ...] = ()
    """Objects that no state has named: a *fence* for a writer that is about to propose them (`Shard.check_parts`)."""


@dataclass(frozen=True)
class DropShard:
    """Drops the collection."""

    kind: ClassVar[str] = "drop"


Change: TypeAlias = (
    Create
    | Append
    | Replace
    | AddStatistics
    | Advance
    | Repair
    | Hold
    | Release
    | Evolve
    | Alter
    | Configure
    | Roll
    | Forget
    | DropShard
)
_KINDS: dict[str, type[Any]] = {
    cls.kind: cls
    for cls in (
        Create,
        Append,
        Replace,
        AddStatistics,
        Advance,
        Repair,
        Hold,
        Release,
        Evolve,
        Alter,
        Configure,
        Roll,
        Forget,
        DropShard,
    )
}


@dataclass(frozen=True)
class LogEntry:
    """A change, with the token of its writer and the time."""

    token: str
    at: int
    change: Change


def encode_entry(entry: LogEntry) -> bytes:
    """The bytes of an entry in the log."""
    body = {field_.name: _plain(getattr(entry.change, field_.name)) for field_ in fields(entry.change)}
    kind = entry.change.kind
    if isinstance(entry.change, Append | Replace):
        if entry.change.deletions.num_rows or body.get("applied") or body.get("retracted"):
            kind += _WITH_DELETIONS
        else:
            body = {name: value for name, value in body.items() if name not in _OF_DELETIONS}
    if isinstance(entry.change, Append) and any(part.data for part in entry.change.parts):
        kind = entry.change.kind + _WITH_INLINE_PARTS
    record = {"token": entry.token, "at": entry.at, "change": kind, "body": body}
    return seal(json.dumps(record, separators=(",", ":")).encode())


def decode_entry(name: str, data: bytes) -> LogEntry:
    """The entry from its bytes in the log; `name` is for errors."""
    record = json.loads(unseal(name, data))
    cls = _KINDS.get(record["change"].removesuffix(_WITH_DELETIONS).removesuffix(_WITH_INLINE_PARTS))
    if cls is None:
        raise CorruptError(
            f"{name} holds a change called {record['change']!r}, which this version does not support",
            hint="the database was used by a newer version of Tidegate; upgrade this one",
        )
    given = {k: v for k, v in record["body"].items() if k in {f.name for f in fields(cls)}}
    for key in ("parts", "added"):
        if key in given:
            given[key] = tuple(Part.from_json(value) for value in given[key])
    for key in ("removed", "ids", "readers", "names", "orphans", "segments"):
        if key in given:
            given[key] = tuple(given[key])
    for key in ("deletions", "settled"):
        if key in given:
            given[key] = records_from_json(given[key])
    if "stats" in given:
        given["stats"] = tuple(base64.b85decode(value) for value in given["stats"])
    return LogEntry(record["token"], record["at"], cls(**given))


def _plain(value: Any) -> Any:
    if isinstance(value, Part):
        return value.to_json()
    if isinstance(value, pa.Table):
        return records_to_json(value)
    if isinstance(value, bytes):
        return base64.b85encode(value).decode()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def commit_fields(change: Change) -> dict[str, Any] | None:
    """What a log record says of a change to rows; None of changes that serve readers and maintenance.

    Names of parts and counts, never options or positions: those hold passwords of connections and what an upstream calls its
    records.
    """
    match change:
        case Append():
            return {**_parts_fields(change.parts), "upper": change.upper, "deleted": _deleted_rows(change)}
        case Replace():
            return {**_parts_fields(change.added), "removed": len(change.removed), "expired": change.expired}
        case Repair(to):
            return {"to": to}
        case Evolve() | Alter() | DropShard() | Create():
            return {}
        case _:
            return None


LOGGED_PARTS = 8
"""Parts that a log record names; of more it has the number alone."""


def _parts_fields(parts: tuple[Part, ...]) -> dict[str, Any]:
    return {
        "parts": [part.name for part in parts[:LOGGED_PARTS]],
        "parts_added": len(parts),
        "rows": sum(part.rows for part in parts),
        "bytes": sum(part.size for part in parts),
    }


def _deleted_rows(change: Append) -> int:
    return sum(change.deletions.column("rows").to_pylist())
