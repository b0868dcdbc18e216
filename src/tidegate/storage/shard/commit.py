"""The end of a write: what all tasks gathered becomes part of the collection, by one entry of its log.

    append(shard, gathered, Batch(token, schema))

Rows that travelled inside of messages are written first, together. Then the parts of all tasks are appended at one time.

**Overwriting** retracts what is there and adds what is new in the same entry: a reader sees the old rows or the new ones, and
AS OF before it the old ones for ever. What is there is read in stretches of a part's size and written with its diffs negated. The
entry is only made if the collection's `upper` is still the one that was read. If others were faster, what they appended is
retracted as well, and it is tried again:

    read at upper 10           -a -b            written
    somebody appends c at 10
    entry for 11               refused: read what came from 10 on, -c; entry for 12: +x +y -a -b -c

If all of it is little (a stream in complete mode, a small dimension) old and new rows are added up first, and only what differs
is written.
"""

from __future__ import annotations

import itertools
import random
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tidegate.errors import ConflictError, CorruptError, StoreError, TidegateError, TimeError
from tidegate.shard.change import Part
from tidegate.shard.gather import Gathered, size_of, unpacked
from tidegate.shard.merge import Block, concat, summed
from tidegate.shard.reader import Snapshot, snapshot, updates
from tidegate.shard.schema import Schema
from tidegate.shard.seal import digest
from tidegate.shard.state import State
from tidegate.shard.writer import INFLATION, Appended, PartSwept, Shard, schema_of

ATTEMPTS = 100
LONGEST_PAUSE_S = 0.25
LITTLE = 64 << 20
"""Bytes of rows that are added up with those that replace them."""


def _anything(_: State) -> None:
    """No objection."""


@dataclass(frozen=True)
class Batch:
    """How a batch is appended."""

    token: str
    schema: int
    """The version of the schema that its rows are of."""
    at: int | Callable[[State], int] | None = None
    overwrite: bool = False
    positions: Callable[[State], Mapping[str, Any]] | None = None
    check: Callable[[State], None] = _anything
    """Is shown the state that the entry would follow, and may raise: `Done` if there is nothing to do."""


class Done(TidegateError):  # noqa: N818  # reads as what it is; never reaches a user
    """The batch was appended before."""


class _Moved(TidegateError):  # noqa: N818  # reads as what it is; never leaves this module
    """The collection is not as it was read."""

    def __init__(self, upper: int) -> None:
        super().__init__("the collection was changed meanwhile")
        self.upper = upper


def append(shard: Shard, gathered: Sequence[Gathered], batch: Batch) -> None:
    """Makes what tasks gathered part of the collection. With the same token again, nothing happens."""
    state = shard.machine.fetch()
    if batch.token in state.tokens:
        return
    schema = next(found for found in map(Schema.from_json, state.schemas) if found.id == batch.schema)
    few = [unpacked(one.inline, state.upper) for one in gathered if one.inline]
    with shard.writing() as parts, shard.writing() as own:
        parts += [part for one in gathered for part in one.parts]
        try:
            if batch.overwrite:
                done = _overwritten(shard, parts, own, _Fresh(schema, few), batch)
            else:
                for block in heaps(shard, few):
                    own += shard.write(state, schema, block)
                done = committed(shard, parts, own, batch)
        except Done:
            # The parts of tasks stay: if this is the second try of a commit, they are in the collection.
            shard.discard(own)
            return
        if not done.parts:
            shard.discard(own)  # another try with this token was faster


def abandoned(shard: Shard, gathered: Sequence[Gathered | None]) -> None:
    """Deletes what the tasks of a failed write stored, where it is certain that nothing was appended.

    That is so where some task has failed: then no commit was tried. A commit that failed may have been made all the same, with its
    answer lost; then what it left is found by `sweep`.
    """
    if any(one is None for one in gathered):
        shard.discard([part for one in gathered if one is not None for part in one.parts])


def committed(shard: Shard, parts: list[Part], own: list[Part], batch: Batch) -> Appended:
    """Appends parts, those among them that sweep is about to delete by a new copy."""
    while True:
        try:
            return shard.commit(
                [*parts, *own],
                at=batch.at,
                token=batch.token,
                positions=batch.positions,
                check=batch.check,
            )
        except PartSwept:
            state = shard.machine.fetch()
            garbage = {item.name for item in state.garbage}
            parts[:] = [_rescued(shard, state, part, garbage) for part in parts]
            own[:] = [_rescued(shard, state, part, garbage) for part in own]


def _rescued(shard: Shard, state: State, part: Part, garbage: set[str]) -> Part:
    """A part that sweep does not delete: itself, or a copy if sweep took it for an orphan."""
    if part.base >= state.fence:
        return part
    data = shard.machine.attempt(lambda: shard.machine.blob.get(part.name))
    if data is None:
        raise StoreError(
            f"{part.name} was swept before it could be appended",
            hint="the write took longer than sweep_grace_ms: nothing was changed; write less at once, or set it higher",
        )
    if part.name not in garbage:
        return part
    if digest(data) != part.digest:
        raise CorruptError(f"{part.name} is not what was written")
    name = f"{part.name.rpartition('/')[0]}/{secrets.token_hex(12)}"
    shard.machine.attempt(lambda: shard.machine.blob.put(name, data))
    return replace(part, name=name, written=shard.clock.now(), base=state.number)


def heaps(shard: Shard, blocks: Iterable[Block]) -> Iterator[Block]:
    """Blocks put together until they fill a part."""
    gathered: list[Block] = []
    size = 0
    for block in blocks:
        if len(block):
            gathered.append(block)
            size += size_of(block)
        if size >= INFLATION * shard.config.part_bytes:
            yield concat(gathered)
            gathered, size = [], 0
    if gathered:
        yield concat(gathered)


# ---------------------------------------------------------------------------------------------- overwriting


@dataclass(frozen=True)
class _Fresh:
    """The new rows that are not in parts."""

    schema: Schema
    blocks: list[Block]


def _overwritten(shard: Shard, parts: list[Part], own: list[Part], fresh: _Fresh, batch: Batch) -> Appended:
    """Retracts all that is there, and appends `parts` and what is fresh. What is written here is noted in `own`."""
    for attempt in range(ATTEMPTS):
        shard.discard(own)
        own.clear()
        with snapshot(shard) as found:
            done = _tried(shard, parts, own, found, fresh, batch)
        if done is not None:
            return done
        time.sleep(random.uniform(0, min(0.002 * 2 ** min(attempt, 10), LONGEST_PAUSE_S)))
    shard.discard(own)
    raise ConflictError(
        f"others changed the collection each of the {ATTEMPTS} times that it was about to be overwritten",
        hint="nothing was changed; try again, or with fewer writers at once",
    )


def _tried(
    shard: Shard, parts: list[Part], own: list[Part], found: Snapshot, fresh: _Fresh, batch: Batch
) -> Appended | None:
    """One attempt, following what others append; None if all must be read again."""
    upper = found.state.upper
    for schema, block in _exchanged(found, fresh, alone=not parts):
        own += shard.write(found.state, schema, block)
    for _ in range(ATTEMPTS):
        try:
            return committed(shard, parts, own, replace(batch, check=_unmoved(batch, upper, found)))
        except _Moved as moved:
            if found.validity is not None or moved.upper == upper:
                return None
            news = _negated_news(shard, found, upper, moved.upper)
            if news is None:
                return None
            own += news
            upper = moved.upper
    return None


def _unmoved(batch: Batch, upper: int, found: Snapshot) -> Callable[[State], None]:
    """Raises if the collection is not the one that was read."""

    def check(state: State) -> None:
        batch.check(state)
        read = upper, found.schema.id, found.state.repaired
        if (state.upper, schema_of(state).id, state.repaired) != read:
            raise _Moved(state.upper)

    return check


def _exchanged(found: Snapshot, fresh: _Fresh, *, alone: bool) -> Iterator[tuple[Schema, Block]]:
    """What is to be written: all that is there with its diffs negated, and what is fresh; if that is little, what differs."""
    ids = [column.id for column in found.schema.columns]
    stamp = found.state.upper
    gone = (Block(b.columns, np.full(len(b), stamp), -b.diffs) for b in found.rows(ids))
    if alone and fresh.schema.id == found.schema.id:
        little: list[Block] = list(fresh.blocks)
        size = sum(map(size_of, little))
        for block in gone:
            little.append(block)
            size += size_of(block)
            if size > LITTLE:
                break
        else:
            left = summed(concat(little), by_time=False) if little else None
            if left is not None and len(left):
                yield found.schema, left
            return
        shown = little[len(fresh.blocks) :]
        yield from ((found.schema, block) for block in heaps(found.shard, itertools.chain(shown, gone)))
    else:
        yield from ((found.schema, block) for block in heaps(found.shard, gone))
    yield from ((fresh.schema, block) for block in heaps(found.shard, fresh.blocks))


def _negated_news(shard: Shard, found: Snapshot, lower: int, upper: int) -> list[Part] | None:
    """What others appended at these times, retracted; None if it can no longer be told."""
    ids = [column.id for column in found.schema.columns]
    written: list[Part] = []
    try:
        with updates(shard, lower, upper, repaired=found.state.repaired) as changes:
            if changes.schema.id != found.schema.id:
                return None
            blocks = (Block(b.columns, np.full(len(b), upper), -b.diffs) for b in changes.rows(ids))
            for block in heaps(shard, blocks):
                written += shard.write(found.state, found.schema, block)
    except TimeError:
        shard.discard(written)
        return None
    return written
