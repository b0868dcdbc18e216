"""The state of a shard, and how each change leads to the next: pure functions, without I/O.

    state' = apply_entry(state, entry)

A change that does not fit the state raises: `UpperMismatch` for an append that is not next, `Conflict` for a replacement of parts
that no longer exist. The writer that proposed the change then decides again with the newer state (`machine.py`).

Invariants: `since ≤ upper`; both rise, except by a `Repair`; times of parts are below `upper`; ids rise; a token is appended once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import TidegateError
from tidegate.storage.part.deletion_records import sum_of_diffs, with_column
from tidegate.storage.part.deletions import Deletions
from tidegate.storage.part.part import Part
from tidegate.storage.part.schema import Schema, StoredSchema
from tidegate.storage.shard import shard_options
from tidegate.storage.shard.changes import (
    AddStatistics,
    Advance,
    Alter,
    Append,
    Configure,
    Create,
    DropShard,
    Evolve,
    Forget,
    Hold,
    LogEntry,
    Release,
    Repair,
    Replace,
    Roll,
)
from tidegate.storage.shard.parts import Parts

FORMAT, FIRST_FORMAT = 4, 1
"""The newest format that this version reads, and the one that a shard is created with (`rollup.py`)."""
ENDED_MS = 3_600_000
"""How long past times can be read if rows have a limited life and no retention is set: for readers that are a little late."""
TOKENS = 4096
"""Appends whose tokens are remembered: a retry comes within seconds."""


class Conflict(TidegateError):  # noqa: N818  # reads as what it is
    """The state has changed, so that the change no longer fits; look at it again."""


class UpperMismatch(Conflict):
    """An append for times that are not next; `upper` is the next time."""

    def __init__(self, message: str, *, upper: int) -> None:
        super().__init__(message, hint=f"times from {upper} on can be appended")
        self.upper = upper


@dataclass(frozen=True)
class LeaseRecord:
    """A lease: keeps what the state had at entry `number`, and the times from `since` on."""

    since: int
    number: int
    until: int


@dataclass(frozen=True)
class Garbage:
    """An object that left the state at entry `number`. It is deleted when no reader can need it."""

    name: str
    number: int
    at: int


@dataclass(frozen=True)
class State:
    """One version of a shard."""

    number: int
    """The entry that made it."""
    shard: str
    schemas: tuple[StoredSchema, ...]
    """All versions of the schema, the newest last."""
    since: int = 0
    upper: int = 0
    monotonic: bool = True
    """No part has a negative diff, so rows need no consolidation."""
    parts: Parts = field(default_factory=Parts)
    next_id: int = 0
    leases: dict[str, LeaseRecord] = field(default_factory=dict)
    positions: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    """Token of an append → the `upper` after it; the oldest first."""
    garbage: tuple[Garbage, ...] = ()
    rollup: tuple[str, int] | None = None
    """The newest rollup, and the entry whose state it holds."""
    fence: int = -1
    """The newest entry by which sweep declared orphans garbage: a part that was written before it may be one of them."""
    segments: tuple[str, ...] = ()
    """The segments that the newest rollup refers to. Those in `parts` may differ, because each process has its own."""
    dropped: bool = False
    repaired: int = 0
    """The entry of the last repair, which moved times back; 0: there was none."""

    @property
    def schema(self) -> Schema:
        """The newest version of the schema."""
        return self.schemas[-1].parsed

    def schema_version(self, id_: int) -> Schema:
        """The version of the schema with this id."""
        return next(stored.parsed for stored in self.schemas if stored.json["id"] == id_)

    def without_parts(self) -> State:
        """What a task needs: everything that does not grow with the collection, without source positions."""
        return replace(
            self, parts=Parts(), leases={}, tokens={}, garbage=(), rollup=None, segments=(), positions={}
        )


def retention_start(state: State, now: int, history_ms: int | None = None) -> int:
    """The first time that retention keeps, even if the collection is not complete up to it.

    Without the option RETENTION everything is kept, unless rows were deleted: those are kept for `history_ms` before the last
    change, if it is given. (Not before now: times may be of another clock, and a collection at rest needs no more room.)
    """
    retention = state.options.get(
        shard_options.RETENTION_MS, ENDED_MS if shard_options.VALIDITY in state.options else None
    )
    if retention is None and history_ms is not None and state.parts.deletions:
        kept = min(now, state.upper - 1) - history_ms
        return max(state.since, kept) if (state.parts.deletions.times <= kept).any() else state.since
    return state.since if retention is None else max(state.since, now - retention)


def retained_since(state: State, now: int, history_ms: int | None = None) -> int:
    """The first time that is kept: where `since` moves if no lease prevents it."""
    return max(state.since, min(retention_start(state, now, history_ms), state.upper - 1))


def unreferenced(state: State, names: Sequence[str], *, garbage: bool = True) -> list[str]:
    """The objects among `names` that the state does not refer to as part, rollup or segment.

    Nor as garbage, unless `garbage` is False.
    """
    rolled = [] if state.rollup is None else [state.rollup[0]]
    waste = [item.name for item in state.garbage] if garbage else []
    bitmaps = state.parts.deletions.objects if state.parts.deletions else ()
    held = pa.array([*rolled, *state.segments, *bitmaps, *waste], pa.string())
    left = pa.array(names, pa.string())
    for known in (held, *(table.column("name") for table in state.parts.tables(["name"]))):
        left = left.filter(pc.invert(pc.is_in(left, value_set=known)))
    rest: list[str] = left.to_pylist()
    return rest


def create_state(entry: LogEntry) -> State:
    """The first state."""
    first = entry.change
    assert isinstance(first, Create)
    if first.format > FORMAT:
        raise TidegateError(
            f"the database has format {first.format}, and this version of Tidegate knows {FORMAT}",
            hint="upgrade Tidegate; an older one cannot read what a newer one wrote",
        )
    return State(number=0, shard=first.shard, schemas=(StoredSchema(first.schema),), options=first.options)


def apply_entry(state: State, entry: LogEntry) -> State:
    """The state after `entry`."""
    change, state = entry.change, replace(state, number=state.number + 1)
    if state.dropped and not isinstance(change, Forget | Roll | Release):
        raise Conflict("the collection was dropped")
    match change:
        case Append():
            return _append(state, change)
        case Replace():
            return _replace(state, change, entry.at)
        case AddStatistics():
            return _describe(state, change)
        case Advance(since):
            return replace(state, since=max(state.since, min(since, state.upper, *_held(state))))
        case Repair(to):
            return _repair(state, to)
        case Hold():
            return _hold(state, change)
        case Release(readers):
            return replace(state, leases={k: v for k, v in state.leases.items() if k not in readers})
        case Evolve(schema):
            return replace(state, schemas=(*state.schemas, StoredSchema(schema)))
        case Alter(schema, options):
            return _configured(replace(state, schemas=(*state.schemas, StoredSchema(schema))), options)
        case Configure(options):
            return _configured(state, options)
        case Roll():
            return _roll(state, change, entry.at)
        case Forget():
            return _forget(state, change, entry.at)
        case DropShard():
            return _drop(state, entry.at)
        case Create():
            raise Conflict("the collection exists already")
        case _:
            assert_never(change)


def _configured(state: State, options: dict[str, Any]) -> State:
    merged = {**state.options, **options}.items()
    return replace(state, options={name: value for name, value in merged if value is not None})


def _held(state: State) -> list[int]:
    return [lease.since for lease in state.leases.values()]


def _append(state: State, change: Append) -> State:
    if change.token in state.tokens:
        return state  # a retry of an append that was made: nothing changes
    if change.lower != state.upper or change.upper <= change.lower:
        raise UpperMismatch(
            f"cannot append times {change.lower} to {change.upper}: the collection is complete up to {state.upper}",
            upper=state.upper,
        )
    for part in change.parts:
        if part.first < change.lower or part.last >= change.upper:
            raise Conflict(f"{part.name} holds times {part.first} to {part.last}, outside of the append")
    numbered = _numbered(state, change.parts)
    parts = _deleted(state.parts, change.deletions).add(numbered)
    tokens = {**state.tokens, change.token: change.upper}
    if len(tokens) > TOKENS:
        tokens.pop(next(iter(tokens)))
    positions = {**state.positions, **change.positions}
    return replace(
        state,
        upper=change.upper,
        parts=parts,
        next_id=state.next_id + len(numbered),
        monotonic=state.monotonic and not any(part.retracts for part in numbered),
        positions={source: reached for source, reached in positions.items() if reached is not None},
        tokens=tokens,
    )


def _deleted(parts: Parts, records: pa.Table) -> Parts:
    """Parts with more rows deleted; a `Conflict` if one of them was replaced meanwhile."""
    if not records.num_rows:
        return parts
    try:
        return parts.delete(records)
    except LookupError as missing:
        raise Conflict(f"cannot delete rows: {missing}") from None


def _numbered(state: State, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple(replace(part, id=state.next_id + i) for i, part in enumerate(parts))


def _replace(state: State, change: Replace, at: int) -> State:
    try:
        parts, gone = state.parts.remove(change.removed)
    except LookupError as missing:
        raise Conflict(f"cannot replace: {missing}") from None
    deletions = state.parts.deletions.only(np.array(change.removed, np.int64))
    if not change.expired:
        _check_carried(deletions, change)
    before = sum(part.diffs for part in gone)
    after = sum(part.diffs for part in change.added) + change.ended - change.retracted
    if not change.expired and before != after:
        raise Conflict(
            f"refused: the parts to be replaced hold {before} rows by the sum of their diffs, those for them {after}",
            hint="this is a bug in compaction; nothing was changed",
        )
    numbered = _numbered(state, change.added)
    places = change.deletions.column("part").to_numpy()
    carried = with_column(change.deletions, "part", pa.array(places + state.next_id, pa.int64()))
    parts = _deleted(_deleted(parts, change.settled).add(numbered), carried)
    lost = sorted((deletions.objects if deletions else set()) - parts.deletions.objects)
    stored = (part.name for part in gone if not part.data)
    garbage = tuple(Garbage(name, state.number, at) for name in (*stored, *lost))
    return replace(
        state,
        parts=parts,
        next_id=state.next_id + len(numbered),
        monotonic=state.monotonic or (any(part.retracts for part in gone) and not _retracts(parts)),
        garbage=state.garbage + garbage,
    )


def _retracts(parts: Parts) -> bool:
    """Whether any part has a negative diff."""
    return any(pc.any(t.column("retracts"), min_count=0).as_py() for t in parts.tables(["retracts"]))


def _check_carried(deletions: Deletions, change: Replace) -> None:
    """Deleted rows of removed parts must be left out, or deleted in the added ones: none comes back.

    A retraction that is left out must be the deletion of as many rows.
    """
    before = sum_of_diffs(deletions.records) + change.retracted
    after = sum_of_diffs(change.deletions) + sum_of_diffs(change.settled) + change.applied
    if before != after:
        raise Conflict(
            f"rows of {before} diffs are deleted in the parts to be replaced, of {after} in those for them"
        )


def _describe(state: State, change: AddStatistics) -> State:
    if len(change.ids) != len(change.stats):
        raise Conflict(f"cannot describe {len(change.ids)} parts by {len(change.stats)} statistics")
    try:
        parts, found = state.parts.remove(change.ids)
    except LookupError as missing:
        raise Conflict(f"cannot describe: {missing}") from None
    known = dict(zip(change.ids, change.stats, strict=True))
    described = tuple(replace(part, stats=known[part.id]) for part in sorted(found, key=lambda part: part.id))
    numbered = _numbered(state, described)
    parts = _with_deletions_of(state.parts.deletions, found, parts.add(numbered), numbered)
    return replace(state, parts=parts, next_id=state.next_id + len(numbered))


def _with_deletions_of(
    deletions: Deletions, before: Sequence[Part], parts: Parts, after: Sequence[Part]
) -> Parts:
    """Parts with the deletions of those that got new numbers; `after` is in the order of their ids."""
    ids = np.array(sorted(part.id for part in before), np.int64)
    moved = deletions.renumber(ids, np.array([part.id for part in after], np.int64))
    return replace(parts, deletions=parts.deletions.add(moved.records)) if moved else parts


def _repair(state: State, to: int) -> State:
    """Moves all updates after `to` to `to`.

    Parts that move get new numbers, so that a concurrent replacement of one is refused.
    """
    if to + 1 >= state.upper:
        raise Conflict(f"the collection is complete up to {state.upper}: there is nothing behind {to}")
    ids: list[int] = []
    for table in state.parts.tables(["id", "last"]):
        ids += table.filter(pc.greater(table.column("last"), to)).column("id").to_pylist()
    parts, moved = state.parts.remove(tuple(ids))
    late = tuple(
        replace(part, first=min(part.first, to), last=to) for part in sorted(moved, key=lambda part: part.id)
    )
    numbered = _numbered(state, late)
    parts = _with_deletions_of(state.parts.deletions, moved, parts.add(numbered), numbered)
    return replace(
        state,
        since=min(state.since, to),
        upper=to + 1,
        parts=replace(parts, deletions=parts.deletions.moved_back(to)),
        next_id=state.next_id + len(numbered),
        tokens={token: min(upper, to + 1) for token, upper in state.tokens.items()},
        leases={reader: replace(one, since=min(one.since, to)) for reader, one in state.leases.items()},
        repaired=state.number,
    )


def _roll(state: State, change: Roll, at: int) -> State:
    old = [] if state.rollup is None else [state.rollup[0]]
    old += [name for name in state.segments if name not in change.segments]
    garbage = tuple(Garbage(name, state.number, at) for name in old)
    rolled = (change.name, change.number)
    return replace(state, rollup=rolled, segments=change.segments, garbage=state.garbage + garbage)


def _forget(state: State, change: Forget, at: int) -> State:
    gone = set(change.names)
    left = tuple(item for item in state.garbage if item.name not in gone)
    orphans = tuple(Garbage(name, state.number, at) for name in change.orphans)
    return replace(state, garbage=left + orphans, fence=state.number if orphans else state.fence)


def _hold(state: State, change: Hold) -> State:
    """A new lease protects the present state; a renewal may move up. No lease may begin before `since`."""
    if change.since < state.since:
        raise Conflict(
            f"time {change.since} can no longer be read: the collection is kept from {state.since} on"
        )
    number, known = state.number, state.leases.get(change.reader)
    if known is not None:
        number = min(number, max(known.number, change.number or 0))
    lease = LeaseRecord(change.since, number, change.until)
    return replace(state, leases={**state.leases, change.reader: lease})


def _drop(state: State, at: int) -> State:
    names = [name for table in state.parts.stored(["name"]) for name in table.column("name").to_pylist()]
    names += sorted(state.parts.deletions.objects) if state.parts.deletions else []
    garbage = tuple(Garbage(name, state.number, at) for name in names)
    return replace(state, dropped=True, parts=Parts(), garbage=state.garbage + garbage)
