"""What can happen to a shard: a closed union of changes, each one entry of its log.

| change | who makes it | what it does |
|---|---|---|
| `Create` | CREATE TABLE | the first entry: the schema, and an empty collection from time 0 on |
| `Append` | writers | new parts for the times `lower ≤ t < upper`, and the source positions they came from: all of it or none |
| `Replace` | compaction, expiry | some parts for others that hold the same updates (or for none, when all their rows are past) |
| `Describe` | statistics back-fill | the same parts, now with statistics; their files stay |
| `Advance` | retention | `since` moves on: times before it can no longer be asked for |
| `Repair` | `db.repair` | updates behind a time move to it, and `upper` goes back |
| `Hold`, `Release` | readers | a lease: what the state holds now may not be deleted, and `since` may not pass it |
| `Evolve` | ALTER TABLE | another version of the schema |
| `Configure` | SET, KEEP STATISTICS | options |
| `Roll` | any writer | the whole state up to some number is in an object: readers start there |
| `Forget` | sweep | objects that are gone from the store; and *orphans*, which no state may name from here on |
| `Drop` | DROP TABLE | nothing is left but the name of what to sweep |

An entry is sealed JSON: `{"token": …, "at": ms, "change": "append", …}`. The token is its writer's: after a lost answer the writer
finds its own token in the log, or knows that it did not happen.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, TypeAlias

from tidegate.errors import CorruptError
from tidegate.shard.seal import seal, unseal


@dataclass(frozen=True)
class Part:
    """A part as the state knows it."""

    name: str
    """Its object in the blob store."""
    rows: int
    size: int
    """Bytes."""
    diffs: int
    """The sum of its rows' diffs; compaction must keep it."""
    retracts: bool
    """Whether any diff is negative."""
    first: int
    """The least time of its updates."""
    last: int
    """The greatest time of its updates."""
    schema: int
    """The version of the schema that it was written with."""
    digest: str
    written: int
    """When its object was written, in ms."""
    level: int = 0
    """How often it was compacted."""
    order: tuple[int, ...] = ()
    """The columns it is sorted by."""
    expires: int | None = None
    """From this time on none of its rows is valid; None: never, or not known."""
    tail: int = 0
    """Bytes at the end of its file that say where its pages are (`pages.py`); 0: it has no such table, and is read whole."""
    tail_digest: str = ""
    stats: bytes = field(default=b"", repr=False)
    """Encoded by `stats/codec.py`; empty: nothing is known."""
    id: int = -1
    """Its number in the shard, given when it is appended."""
    base: int = -1
    """The number of the state that its writer had seen before its object was written; not kept once it is appended."""


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
    """Whoever appends again with the same token changes nothing."""
    positions: dict[str, Any] = field(default_factory=dict)
    """Source → how far it was read, with these parts included; None: it is forgotten."""


@dataclass(frozen=True)
class Replace:
    """Parts for others with the same updates."""

    kind: ClassVar[str] = "replace"
    removed: tuple[int, ...]
    added: tuple[Part, ...]
    expired: bool = False
    """The removed parts hold nothing that is still valid: the sum of diffs may change."""
    ended: int = 0
    """The sum of diffs of rows that were left out, as none of them is valid any more."""


@dataclass(frozen=True)
class Describe:
    """Statistics for parts that are there. They are the same objects, but get new numbers, as parts only ever come and go."""

    kind: ClassVar[str] = "describe"
    ids: tuple[int, ...]
    stats: tuple[bytes, ...]
    """For each of the ids."""


@dataclass(frozen=True)
class Advance:
    """`since` moves on."""

    kind: ClassVar[str] = "advance"
    since: int


@dataclass(frozen=True)
class Repair:
    """Updates behind the time `to` are at `to` from here on; nothing else is changed (`repair.py`)."""

    kind: ClassVar[str] = "repair"
    to: int


@dataclass(frozen=True)
class Hold:
    """A reader's lease, made or renewed."""

    kind: ClassVar[str] = "hold"
    reader: str
    since: int
    until: int
    """When it ends unless renewed, in ms."""
    number: int | None = None
    """Renewed: what left the state up to this entry is needed no longer; None: what it held, it holds."""


@dataclass(frozen=True)
class Release:
    """A lease that is over."""

    kind: ClassVar[str] = "release"
    readers: tuple[str, ...]


@dataclass(frozen=True)
class Evolve:
    """Another version of the schema."""

    kind: ClassVar[str] = "evolve"
    schema: dict[str, Any]


@dataclass(frozen=True)
class Configure:
    """Options set; None removes one."""

    kind: ClassVar[str] = "configure"
    options: dict[str, Any]


@dataclass(frozen=True)
class Roll:
    """The state as of entry `number` is in object `name`."""

    kind: ClassVar[str] = "roll"
    name: str
    number: int
    segments: tuple[str, ...] = ()
    """The segments that it refers to; those that only the rollup before it referred to are garbage from here on."""


@dataclass(frozen=True)
class Forget:
    """These objects are gone from the store; `orphans` will be: they become garbage, and no state may name them any more."""

    kind: ClassVar[str] = "forget"
    names: tuple[str, ...]
    orphans: tuple[str, ...] = ()
    """Objects that no state has named: a *fence* for whoever wrote them and is about to propose them (`Shard.check_parts`)."""


@dataclass(frozen=True)
class Drop:
    """The collection is gone."""

    kind: ClassVar[str] = "drop"


Change: TypeAlias = (
    Create
    | Append
    | Replace
    | Describe
    | Advance
    | Repair
    | Hold
    | Release
    | Evolve
    | Configure
    | Roll
    | Forget
    | Drop
)
_KINDS: dict[str, type[Any]] = {
    cls.kind: cls
    for cls in (
        Create,
        Append,
        Replace,
        Describe,
        Advance,
        Repair,
        Hold,
        Release,
        Evolve,
        Configure,
        Roll,
        Forget,
        Drop,
    )
}


@dataclass(frozen=True)
class Entry:
    """A change with who made it and when."""

    token: str
    at: int
    change: Change


def encode(entry: Entry) -> bytes:
    """An entry as the bytes of the log."""
    body = {field_.name: _plain(getattr(entry.change, field_.name)) for field_ in fields(entry.change)}
    record = {"token": entry.token, "at": entry.at, "change": entry.change.kind, "body": body}
    return seal(json.dumps(record, separators=(",", ":")).encode())


def decode(name: str, data: bytes) -> Entry:
    """An entry from the bytes of the log; `name` is for errors."""
    record = json.loads(unseal(name, data))
    cls = _KINDS.get(record["change"])
    if cls is None:
        raise CorruptError(
            f"{name} holds a change called {record['change']!r}, which this version does not know",
            hint="the database was used by a newer version of Tidegate; upgrade this one",
        )
    given = {k: v for k, v in record["body"].items() if k in {f.name for f in fields(cls)}}
    for key in ("parts", "added"):
        if key in given:
            given[key] = tuple(part_from(value) for value in given[key])
    for key in ("removed", "ids", "readers", "names", "orphans", "segments"):
        if key in given:
            given[key] = tuple(given[key])
    if "stats" in given:
        given["stats"] = tuple(base64.b85decode(value) for value in given["stats"])
    return Entry(record["token"], record["at"], cls(**given))


def _plain(value: Any) -> Any:
    if isinstance(value, Part):
        return part_to(value)
    if isinstance(value, bytes):
        return base64.b85encode(value).decode()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def part_to(part: Part) -> dict[str, Any]:
    """A part as JSON."""
    plain = asdict(part)
    plain["stats"] = base64.b85encode(part.stats).decode()
    plain["order"] = list(part.order)
    return plain


def part_from(plain: dict[str, Any]) -> Part:
    """A part from JSON; fields that a newer version added are ignored."""
    known = {k: v for k, v in plain.items() if k in Part.__dataclass_fields__}
    known["stats"] = base64.b85decode(known.get("stats", ""))
    known["order"] = tuple(known.get("order", ()))
    return Part(**known)
