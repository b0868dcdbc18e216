"""The state of a shard, and how each change makes the next one: pure functions, nothing is read or written here.

    state' = apply(state, entry)

A state that a change does not fit raises: `UpperMismatch` for an append that is not next, `Conflict` for a replacement of
parts that are no longer there. Whoever proposed the change then looks at the newer state and thinks again (`machine.py`).

Invariants: `since ≤ upper`; both only rise, but for a `Repair`; a part's times are below `upper`; part ids rise; a token is
appended once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import TidegateError
from tidegate.shard.change import (
    Advance,
    Append,
    Configure,
    Create,
    Describe,
    Drop,
    Entry,
    Evolve,
    Forget,
    Hold,
    Part,
    Release,
    Repair,
    Replace,
    Roll,
)  # fmt: skip
from tidegate.shard.parts import Parts

FORMAT = 1
"""The newest format that this version reads and writes."""
RETENTION = "retention_ms"
"""The option that says how long past times can be asked for."""
VALIDITY = "validity"
"""The option by which rows come and go by themselves: `validity.py` says how."""
ENDED_MS = 3_600_000
"""How long past times can be asked for where rows end by themselves and nothing is said: what has ended is to go, but a reader that
is a little late, or follows changes, is to find what it looks for."""
TOKENS = 4096
"""Appends that are remembered by their token; a retry comes within seconds, not thousands of appends later."""


class Conflict(TidegateError):  # noqa: N818  # reads as what it is
    """The state changed meanwhile, so that the change does not fit any more; look again."""


class UpperMismatch(Conflict):
    """An append for other times than the next ones; `upper` is what comes next."""

    def __init__(self, message: str, *, upper: int) -> None:
        super().__init__(message, hint=f"times from {upper} on can be appended")
        self.upper = upper


@dataclass(frozen=True)
class Lease:
    """What a reader holds: nothing that the state had at entry `number` is deleted, and `since` stays at or below."""

    since: int
    number: int
    until: int


@dataclass(frozen=True)
class Garbage:
    """An object that left the state at entry `number`; it is deleted when no reader can still want it."""

    name: str
    number: int
    at: int


@dataclass(frozen=True)
class State:
    """One version of a shard."""

    number: int
    """The entry that made it."""
    shard: str
    schemas: tuple[dict[str, Any], ...]
    since: int = 0
    upper: int = 0
    monotonic: bool = True
    """No part ever had a negative diff: rows need no consolidation."""
    parts: Parts = field(default_factory=Parts)
    next_id: int = 0
    leases: dict[str, Lease] = field(default_factory=dict)
    positions: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    """Token of an append → the upper that it made; the oldest first."""
    garbage: tuple[Garbage, ...] = ()
    rollup: tuple[str, int] | None = None
    """The newest rollup, and the entry that it holds the state of."""
    fence: int = -1
    """The newest entry by which sweep made garbage of orphans: a part that was written before it may be one of them."""
    segments: tuple[str, ...] = ()
    """The segments that the newest rollup refers to. Those in `parts` may be others: each process has its own."""
    dropped: bool = False
    repaired: int = 0
    """The entry of the last repair, which took times back; 0: there was none."""

    @property
    def schema(self) -> dict[str, Any]:
        """The newest version of the schema."""
        return self.schemas[-1]


def kept_from(state: State, now: int) -> int:
    """The first time that is to be kept, whether or not the collection has come so far."""
    retention = state.options.get(RETENTION, ENDED_MS if VALIDITY in state.options else None)
    return state.since if retention is None else max(state.since, now - retention)


def retained(state: State, now: int) -> int:
    """The first time that is to be kept: where `since` goes if no lease is in its way."""
    return max(state.since, min(kept_from(state, now), state.upper - 1))


def unnamed(state: State, names: Sequence[str], *, garbage: bool = True) -> list[str]:
    """Those of the objects that nothing in the state names: no part, rollup or segment, and no garbage unless that is let out."""
    rolled = [] if state.rollup is None else [state.rollup[0]]
    waste = [item.name for item in state.garbage] if garbage else []
    held = pa.array([*rolled, *state.segments, *waste], pa.string())
    left = pa.array(names, pa.string())
    for known in (held, *(table.column("name") for table in state.parts.tables(["name"]))):
        left = left.filter(pc.invert(pc.is_in(left, value_set=known)))
    rest: list[str] = left.to_pylist()
    return rest


def create(entry: Entry) -> State:
    """The first state."""
    first = entry.change
    assert isinstance(first, Create)
    if first.format > FORMAT:
        raise TidegateError(
            f"the database has format {first.format}, and this version of Tidegate knows {FORMAT}",
            hint="upgrade Tidegate; an older one cannot read what a newer one wrote",
        )
    return State(number=0, shard=first.shard, schemas=(first.schema,), options=first.options)


def apply(state: State, entry: Entry) -> State:
    """The state after `entry`."""
    change, state = entry.change, replace(state, number=state.number + 1)
    if state.dropped and not isinstance(change, Forget | Roll | Release):
        raise Conflict("the collection was dropped")
    match change:
        case Append():
            return _append(state, change)
        case Replace():
            return _replace(state, change, entry.at)
        case Describe():
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
            return replace(state, schemas=(*state.schemas, schema))
        case Configure(options):
            merged = {**state.options, **options}
            return replace(state, options={k: v for k, v in merged.items() if v is not None})
        case Roll():
            return _roll(state, change, entry.at)
        case Forget():
            return _forget(state, change, entry.at)
        case Drop():
            return _drop(state, entry.at)
        case Create():
            raise Conflict("the collection exists already")
        case _:
            assert_never(change)


def _held(state: State) -> list[int]:
    return [lease.since for lease in state.leases.values()]


def _append(state: State, change: Append) -> State:
    if change.token in state.tokens:
        return state  # a retry of what was done: nothing changes
    if change.lower != state.upper or change.upper <= change.lower:
        raise UpperMismatch(
            f"cannot append times {change.lower} to {change.upper}: the collection is complete up to {state.upper}",
            upper=state.upper,
        )
    for part in change.parts:
        if part.first < change.lower or part.last >= change.upper:
            raise Conflict(f"{part.name} holds times {part.first} to {part.last}, outside of the append")
    numbered = _numbered(state, change.parts)
    tokens = {**state.tokens, change.token: change.upper}
    if len(tokens) > TOKENS:
        tokens.pop(next(iter(tokens)))
    positions = {**state.positions, **change.positions}
    return replace(
        state,
        upper=change.upper,
        parts=state.parts.add(numbered),
        next_id=state.next_id + len(numbered),
        monotonic=state.monotonic and not any(part.retracts for part in numbered),
        positions={source: reached for source, reached in positions.items() if reached is not None},
        tokens=tokens,
    )


def _numbered(state: State, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple(replace(part, id=state.next_id + i) for i, part in enumerate(parts))


def _replace(state: State, change: Replace, at: int) -> State:
    try:
        parts, gone = state.parts.remove(change.removed)
    except LookupError as missing:
        raise Conflict(f"cannot replace: {missing}") from None
    before = sum(part.diffs for part in gone)
    after = sum(part.diffs for part in change.added) + change.ended
    if not change.expired and before != after:
        raise Conflict(
            f"refused: the parts to be replaced hold {before} rows by the sum of their diffs, those for them {after}",
            hint="this is a bug in compaction; nothing was changed",
        )
    numbered = _numbered(state, change.added)
    garbage = tuple(Garbage(part.name, state.number, at) for part in gone)
    return replace(
        state,
        parts=parts.add(numbered),
        next_id=state.next_id + len(numbered),
        garbage=state.garbage + garbage,
    )


def _describe(state: State, change: Describe) -> State:
    if len(change.ids) != len(change.stats):
        raise Conflict(f"cannot describe {len(change.ids)} parts by {len(change.stats)} statistics")
    try:
        parts, found = state.parts.remove(change.ids)
    except LookupError as missing:
        raise Conflict(f"cannot describe: {missing}") from None
    known = dict(zip(change.ids, change.stats, strict=True))
    described = tuple(replace(part, stats=known[part.id]) for part in sorted(found, key=lambda part: part.id))
    numbered = _numbered(state, described)
    return replace(state, parts=parts.add(numbered), next_id=state.next_id + len(numbered))


def _repair(state: State, to: int) -> State:
    """All that is behind `to` moves to `to`. Parts that move get new numbers, so that who is about to replace one is refused."""
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
    return replace(
        state,
        since=min(state.since, to),
        upper=to + 1,
        parts=parts.add(numbered),
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
    """A new lease is of the state as it is; a renewed one may move up to a later one. None may reach back before `since`."""
    if change.since < state.since:
        raise Conflict(
            f"time {change.since} can no longer be read: the collection is kept from {state.since} on"
        )
    number, known = state.number, state.leases.get(change.reader)
    if known is not None:
        number = min(number, max(known.number, change.number or 0))
    lease = Lease(change.since, number, change.until)
    return replace(state, leases={**state.leases, change.reader: lease})


def _drop(state: State, at: int) -> State:
    names = [name for table in state.parts.tables(["name"]) for name in table.column("name").to_pylist()]
    garbage = tuple(Garbage(name, state.number, at) for name in names)
    return replace(state, dropped=True, parts=Parts(), garbage=state.garbage + garbage)
