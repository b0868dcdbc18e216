"""Rollups: the whole state as a few objects, so that a shard of a million parts opens quickly.

    roll/<shard>/<number>-<random>     sealed JSON: everything but the parts, and the list of segments with their dead rows
    seg/<shard>/<random>               a segment, sealed: an Arrow table of parts, and the frame of their statistics;
                                       or, once rows were deleted, the table of all deletions

A rollup writes the fresh parts as a new segment, and leaves the other segments in place. When eight segments of about the same size
are at the end, they are merged into one: each part is rewritten about log₈(n) times in the life of a shard of n parts. So a rollup
costs as much as what was added since the last one.
"""

from __future__ import annotations

import base64
import json
import secrets
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.errors import CorruptError, TidegateError
from tidegate.storage.part.checksum import seal, unseal, unseal_view
from tidegate.storage.part.deletion_records import DELETIONS_SCHEMA
from tidegate.storage.part.deletions import Deletions
from tidegate.storage.part.parts_table import without_stats
from tidegate.storage.part.schema import StoredSchema
from tidegate.storage.shard.parts import Parts, Segment
from tidegate.storage.shard.state import FIRST_FORMAT, FORMAT, Garbage, LeaseRecord, State
from tidegate.storage.stats.frame import Frame, Packed, pack

_OF_DELETIONS = 2
"""The format once rows are deleted by position, which earlier versions would show."""
_OF_ALTERED_COLUMNS = 3
"""The format once columns of old parts are defaults or of narrower types, which earlier versions would read as NULL."""
_OF_INLINE_PARTS = 4
"""The format once parts are in the log itself, whose objects earlier versions would miss."""
_LENGTH = 8
FANOUT = 8
"""Segments of about the same size that are merged into one."""
_PLAIN = ("shard", "since", "upper", "monotonic", "next_id", "positions", "options", "tokens", "dropped")
_LATER = {"repaired": 0, "fence": -1}
"""Fields that rollups of earlier versions lack, and their values there."""


def write_rollup(put: Callable[[str, bytes], None], state: State) -> tuple[str, State, tuple[str, ...]]:
    """Writes `state`; returns the rollup's name, the state with stored segments, and their names.

    Segments of `state` that have a name must be among `state.segments`, because others may have been swept (`Machine.roll`
    ensures it).
    """
    stored = _store(put, state)
    assert {s.name for s in state.parts.segments if s.name} <= set(state.segments)
    body = {name: getattr(stored, name) for name in (*_PLAIN, *_LATER)}
    deletions = _store_deletions(put, state)
    body |= {
        "format": _format(stored, deletions),
        "deletions": deletions,
        "number": stored.number,
        "schemas": [schema.json for schema in stored.schemas],
        "leases": {reader: asdict(lease) for reader, lease in stored.leases.items()},
        "garbage": [asdict(item) for item in stored.garbage],
        "rollup": stored.rollup,
        "referred": stored.segments,
        "count": [stored.parts.count, stored.parts.rows, stored.parts.size],
        "segments": [{"name": s.name, "dead": _pack(s.dead)} for s in stored.parts.segments],
    }
    name = f"roll/{state.shard}/{state.number:020d}-{secrets.token_hex(4)}"
    put(name, seal(json.dumps(body, separators=(",", ":")).encode()))
    names = [segment.name for segment in stored.parts.segments]
    return name, stored, tuple([*names, deletions] if deletions else names)


def _format(state: State, deletions: str | None) -> int:
    """The oldest format whose readers read this state rightly."""
    if state.parts.inline_bytes:
        return _OF_INLINE_PARTS
    if any(state.schema.differs_from(stored.parsed) for stored in state.schemas[:-1]):
        return _OF_ALTERED_COLUMNS
    return _OF_DELETIONS if deletions else FIRST_FORMAT


def load_rollup(
    get: Callable[[str], bytes | None], name: str, known: Mapping[str, Segment] | None = None
) -> State:
    """The state that `name` holds.

    `FileNotFoundError` if it, or a segment of it, does not exist: a newer rollup took its place. Segments in `known` are not read
    again, because segments never change.
    """
    have = known or {}
    body = json.loads(unseal(name, _get_existing(get, name)))
    if body["format"] > FORMAT:
        raise TidegateError(
            f"{name} has format {body['format']}, and this version of Tidegate knows {FORMAT}",
            hint="upgrade Tidegate; an older one cannot read what a newer one wrote",
        )
    segments = tuple(
        replace(
            have[name] if name in have else _read_segment(name, _get_existing(get, name)), dead=_unpack(dead)
        )
        for name, dead in ((item["name"], item["dead"]) for item in body["segments"])
    )
    count, rows, size = body["count"]
    stored = body.get("deletions")
    deletions = Deletions() if stored is None else _read_deletions(stored, _get_existing(get, stored))
    parts = Parts(segments, (), count, rows, size, deletions)
    parts.check(name)
    return State(
        number=body["number"],
        schemas=tuple(map(StoredSchema, body["schemas"])),
        leases={reader: LeaseRecord(**lease) for reader, lease in body["leases"].items()},
        garbage=tuple(Garbage(**item) for item in body["garbage"]),
        rollup=None if body["rollup"] is None else (body["rollup"][0], body["rollup"][1]),
        segments=tuple(body["referred"]),
        parts=parts,
        **{key: body[key] for key in _PLAIN},
        **{key: body.get(key, default) for key, default in _LATER.items()},
    )


def _store_deletions(put: Callable[[str, bytes], None], state: State) -> str | None:
    """Writes all deletions as one object; returns its name, or None if there are none."""
    if not state.parts.deletions:
        return None
    name = f"seg/{state.shard}/{secrets.token_hex(8)}"
    put(name, seal(pack(state.parts.deletions.records)))
    return name


def _read_deletions(name: str, data: bytes) -> Deletions:
    try:
        packed = Packed(pa.py_buffer(unseal_view(name, data)))
        return Deletions(
            (pa.table({c: packed.required(c) for c in DELETIONS_SCHEMA.names}, schema=DELETIONS_SCHEMA),)
        )
    except (pa.ArrowException, OSError):
        raise CorruptError(f"{name} does not hold deletions") from None


def _get_existing(get: Callable[[str], bytes | None], name: str) -> bytes:
    data = get(name)
    if data is None:
        raise FileNotFoundError(name)
    return data


def _store(put: Callable[[str, bytes], None], state: State) -> State:
    """The state with all parts in segments that are in the blob store, merged by tiers."""
    parts = state.parts.with_fresh_as_segment()
    segments = list(parts.segments)
    while (many := _mergeable(segments)) > 1:
        merged = pa.concat_tables([segment.living() for segment in segments[-many:]])
        known = Frame.concat([segment.frame() for segment in segments[-many:]])
        segments[-many:] = [Segment("", merged, known=known)]
    for i, segment in enumerate(segments):
        if segment.has_dead_files:  # rows that were merged, and perhaps deleted for good, leave the metadata
            segment = Segment("", segment.living(), known=segment.frame())
        if not segment.name:
            name = f"seg/{state.shard}/{secrets.token_hex(8)}"
            data = _segment_bytes(segment)
            put(name, data)
            segments[i] = _read_segment(name, data)
    return replace(state, parts=replace(parts, segments=tuple(segments)))


def _mergeable(segments: list[Segment]) -> int:
    """How many segments at the end should become one; 0 or 1: none.

    At least `FANOUT` segments, none of them larger than all those after it together. So a large segment is rewritten only when as
    much again was added after it. Half-dead segments at the end are merged too.
    """
    gathered = 0
    for many, segment in enumerate(reversed(segments), start=1):
        if gathered and segment.alive > gathered:
            return many - 1 if many - 1 >= FANOUT else 0
        gathered += segment.alive
    return len(segments) if len(segments) >= FANOUT else 0


def _segment_bytes(segment: Segment) -> bytes:
    """The table without its statistics, followed by the statistics as a frame.

    It lacks the column `data` if no part is inline.
    """
    table = without_stats(segment.living())
    if not segment.inline_bytes:
        table = table.drop_columns(["data"])
    rows = pack(table)
    return seal(b"".join([len(rows).to_bytes(_LENGTH, "little"), rows, segment.frame().pack()]))


def _read_segment(name: str, data: bytes) -> Segment:
    body = unseal_view(name, data)
    size = _LENGTH + int.from_bytes(body[:_LENGTH], "little")
    try:
        # Both stay packed in memory until a column or a fact is read.
        rows, facts = (Packed(pa.py_buffer(piece)) for piece in (body[_LENGTH:size], body[size:]))
        known = Frame(rows.required("rows").to_numpy(), facts)
    except (pa.ArrowException, OSError):
        raise CorruptError(f"{name} is not a segment") from None
    return Segment(name, rows, known=known)


def _pack(dead: np.ndarray | None) -> Any:
    if dead is None:
        return None
    packed = zlib.compress(np.packbits(dead).tobytes())
    return [len(dead), base64.b85encode(packed).decode()]


def _unpack(packed: Any) -> np.ndarray | None:
    if packed is None:
        return None
    size, text = packed
    bits = np.frombuffer(zlib.decompress(base64.b85decode(text)), np.uint8)
    return np.unpackbits(bits)[:size].astype(bool)
