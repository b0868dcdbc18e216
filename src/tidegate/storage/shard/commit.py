"""Commits the parts that tasks built, by one entry of the log.

    commit_built_parts(shard, built, AppendOptions(token, schema))

Rows that were sent inside of messages are written first, together. Then the parts of all tasks are appended at one time.

**Overwriting** deletes the existing rows and adds the new ones in the same entry: a reader sees the old rows or the new ones,
and AS OF an earlier time always the old ones. That all rows of a part are deleted is written without reading them. Where
retractions are waiting to meet their rows, rows have no positions of their own: they are read in blocks of a part's size, and
written with negated diffs. The entry is made only if the `upper` of the collection is still the one that was read. If other writers
were faster, what they appended is retracted as well, and the entry is tried again:

    read at upper 10           a and b, to be deleted
    another appends c at 10
    entry for 11               refused: read what came from 10 on, -c; entry for 12: +x +y -c, a and b are deleted

If all of it is small (a stream in complete mode, a small dimension table), old and new rows are consolidated first, and only the
difference is written.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import ConflictError, CorruptError, StoreError, TidegateError, TimeError
from tidegate.storage.part.checksum import digest
from tidegate.storage.part.deletion_records import records_of_all_rows
from tidegate.storage.part.merge import Block, cancel_out, concat, consolidate
from tidegate.storage.part.part import Part
from tidegate.storage.part.schema import Schema
from tidegate.storage.retry import CONTENTION
from tidegate.storage.shard.change_feed import open_changes
from tidegate.storage.shard.part_builder import BuiltParts, block_bytes, unpack_block
from tidegate.storage.shard.retractions.at_append import BatchUpdates, as_deletions
from tidegate.storage.shard.retractions.located import LocatedDeletions, RowsMoved
from tidegate.storage.shard.shard import INFLATION, Appended, PartSwept, Shard
from tidegate.storage.shard.snapshot import Snapshot, open_snapshot
from tidegate.storage.shard.state import State

MAX_CONSOLIDATED_BYTES = 64 << 20
"""Bytes of rows that are consolidated with those that replace them."""


def _anything(_: State) -> None:
    """Accepts every state."""


@dataclass(frozen=True)
class AppendOptions:
    """How a batch is appended."""

    token: str
    schema: int
    """The version of the schema that its rows are of."""
    at: int | Callable[[State], int] | None = None
    overwrite: bool = False
    positions: Callable[[State], Mapping[str, Any]] | None = None
    check: Callable[[State], None] = _anything
    """Gets the state that the entry would follow, and may raise: `AlreadyCommitted` if there is nothing to do."""


class AlreadyCommitted(TidegateError):  # noqa: N818  # reads as what it is; never reaches a user
    """The batch was appended before."""


class _Moved(TidegateError):  # noqa: N818  # reads as what it is; never leaves this module
    """The collection has changed since it was read."""

    def __init__(self, upper: int) -> None:
        super().__init__("the collection was changed meanwhile")
        self.upper = upper


def commit_built_parts(shard: Shard, gathered: Sequence[BuiltParts], batch: AppendOptions) -> None:
    """Appends what tasks built. A second call with the same token does nothing."""
    state = shard.machine.fetch()
    if batch.token in state.tokens:
        return
    schema = state.schema_version(batch.schema)
    fresh = _Fresh(
        schema,
        [unpack_block(one.inline, state.upper) for one in gathered if one.inline],
        [unpack_block(one.retractions, state.upper) for one in gathered if one.retractions],
        LocatedDeletions.join(one.deletions for one in gathered if one.deletions is not None),
    )
    with shard.writing() as parts, shard.writing() as own:
        parts += [part for one in gathered for part in one.parts]
        try:
            if batch.overwrite:
                done = _overwritten(shard, parts, own, fresh, batch)
            else:
                done = _appended(shard, parts, own, fresh, batch)
        except AlreadyCommitted:
            # The parts of tasks stay: if this is the second attempt of a commit, they are in the collection.
            shard.discard(own)
            return
        if not done.parts:
            shard.discard(own)  # another attempt with this token was faster


def _appended(
    shard: Shard, parts: list[Part], own: list[Part], fresh: _Fresh, batch: AppendOptions
) -> Appended:
    """Appends `parts` and the fresh rows, and deletes what tasks located.

    Otherwise retractions become deletions if that is cheap.
    """
    state = shard.machine.fetch()
    blocks, updates = fresh.updates(shard, state)
    try:
        for block in blocks_of_part_size(shard, blocks):
            own += shard.write(state, fresh.schema, block)
        return commit_parts(shard, parts, own, batch, updates)
    except RowsMoved:
        if fresh.located is not None:
            raise
        shard.discard(own)
        own.clear()
    for block in blocks_of_part_size(shard, fresh.blocks):
        own += shard.write(state, fresh.schema, block)
    return commit_parts(shard, parts, own, batch)


def discard_built_parts(shard: Shard, gathered: Sequence[BuiltParts | None]) -> None:
    """Deletes the parts of a failed write, if it is certain that nothing was appended.

    That is the case if a task has failed: then no commit was tried. A commit that failed may have been made nevertheless, with
    its answer lost; then `sweep` finds what is left.
    """
    if any(one is None for one in gathered):
        shard.discard([part for one in gathered if one is not None for part in one.parts])


def commit_parts(
    shard: Shard,
    parts: list[Part],
    own: list[Part],
    batch: AppendOptions,
    updates: BatchUpdates | None = None,
) -> Appended:
    """Appends parts, and deletes rows; parts that sweep is about to delete are copied."""
    while True:
        try:
            return shard.commit_batch(
                [*parts, *own],
                updates,
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
    if part.base >= state.fence or part.data:
        return part
    data = shard.machine.objects.find(part.name)
    if data is None:
        raise StoreError(
            f"{part.name} was swept before it could be appended",
            hint="the write took longer than sweep_grace_ms, and nothing was changed; write less at once, or raise it",
        )
    if part.name not in garbage:
        return part
    if digest(data) != part.digest:
        raise CorruptError(f"{part.name} is not what was written")
    name = f"{part.name.rpartition('/')[0]}/{secrets.token_hex(12)}"
    shard.machine.objects.put(name, data)
    return replace(part, name=name, written=shard.clock.now(), base=state.number)


def blocks_of_part_size(shard: Shard, blocks: Iterable[Block]) -> Iterator[Block]:
    """Concatenates blocks until they fill a part."""
    gathered: list[Block] = []
    size = 0
    for block in blocks:
        if len(block):
            gathered.append(block)
            size += block_bytes(block)
        if size >= INFLATION * shard.config.part_bytes:
            yield concat(gathered)
            gathered, size = [], 0
    if gathered:
        yield concat(gathered)


# ---------------------------------------------------------------------------------------------- overwriting


@dataclass(frozen=True, eq=False)
class _Fresh:
    """The new rows that are not in parts, and the stored rows that tasks located."""

    schema: Schema
    rows: list[Block]
    retractions: list[Block]
    located: LocatedDeletions | None

    @cached_property
    def blocks(self) -> list[Block]:
        """The new rows and retractions, without those that cancel out."""
        every = [*self.rows, *self.retractions]
        if not any((block.diffs < 0).any() for block in every):
            return every
        block = concat(every)
        retracts = block.diffs < 0
        return list(cancel_out(block.take(~retracts), block.take(retracts)))

    def updates(self, shard: Shard, state: State) -> tuple[list[Block], BatchUpdates | None]:
        """The rows to store, and what to delete; only if there are retractions, in one block."""
        if self.located is not None:
            return self.blocks, BatchUpdates(_nothing(self.schema), self.located)
        retracts = any((block.diffs < 0).any() for block in self.blocks)
        if not retracts or self.schema.id != state.schema.id:
            return self.blocks, None
        updates = as_deletions(shard.machine, shard.config, state, concat(self.blocks))
        return [updates.rows], updates


def _overwritten(
    shard: Shard, parts: list[Part], own: list[Part], fresh: _Fresh, batch: AppendOptions
) -> Appended:
    """Retracts all rows, and appends `parts` and the fresh rows. `own` collects parts written here."""
    for attempt in range(CONTENTION.times):
        shard.discard(own)
        own.clear()
        with open_snapshot(shard) as found:
            done = _tried(shard, parts, own, found, fresh, batch)
        if done is not None:
            return done
        CONTENTION.wait(attempt)
    shard.discard(own)
    raise _contended("overwritten")


def _contended(what: str) -> ConflictError:
    return ConflictError(
        f"others changed the collection each of the {CONTENTION.times} times that it was about to be {what}",
        hint="nothing was changed; try again, or with fewer writers at once",
    )


def _tried(
    shard: Shard, parts: list[Part], own: list[Part], found: Snapshot, fresh: _Fresh, batch: AppendOptions
) -> Appended | None:
    """One attempt, which follows concurrent appends; None if everything must be read again."""
    upper = found.state.upper
    blocks, updates = _exchanged(found, fresh, alone=not parts)
    for schema, block in blocks:
        own += shard.write(found.state, schema, block)
    for _ in range(CONTENTION.times):
        try:
            checked = replace(batch, check=_unmoved(batch, upper, found))
            return commit_parts(shard, parts, own, checked, updates)
        except RowsMoved:
            return None
        except _Moved as moved:
            if found.validity is not None or moved.upper == upper:
                return None
            news = _negated_news(shard, found, upper, moved.upper)
            if news is None:
                return None
            own += news
            upper = moved.upper
    return None


def _unmoved(batch: AppendOptions, upper: int, found: Snapshot) -> Callable[[State], None]:
    """Raises if the collection is not the one that was read."""

    def check(state: State) -> None:
        batch.check(state)
        read = upper, found.schema.id, found.state.repaired
        if (state.upper, state.schema.id, state.repaired) != read:
            raise _Moved(state.upper)

    return check


def append_blocks(shard: Shard, schema: Schema, blocks: Iterable[Block]) -> None:
    """Appends many rows at one time, in parts of the usual size: memory is bounded."""
    state = shard.machine.fetch()
    with shard.writing() as written:
        for block in blocks_of_part_size(shard, blocks):
            written += shard.write(state, schema, block)
        if written:
            shard.commit(written, at=None, token=secrets.token_hex(16))


def truncate_shard(shard: Shard) -> None:
    """Deletes all rows without reading them, unless retractions wait for their rows."""
    token = secrets.token_hex(16)
    for attempt in range(CONTENTION.times):
        with open_snapshot(shard) as found:
            table = found.table(["retracts"])
            if not table.num_rows:
                return None
            if pc.any(table.column("retracts")).as_py():
                return commit_built_parts(shard, [], AppendOptions(token, found.schema.id, overwrite=True))
            gone = LocatedDeletions.of(found.state, _all_rows(found))
            check = _unmoved(AppendOptions(token, found.schema.id), found.state.upper, found)
            updates = BatchUpdates(_nothing(found.schema), gone)
            with suppress(RowsMoved, _Moved):
                shard.commit_batch([], updates, at=None, token=token, check=check)
                return None
        CONTENTION.wait(attempt)
    raise _contended("emptied")


def _exchanged(
    found: Snapshot, fresh: _Fresh, *, alone: bool
) -> tuple[Iterable[tuple[Schema, Block]], BatchUpdates | None]:
    """The blocks to write, and the rows to delete; only the difference if all of it is small."""
    shard, state = found.shard, found.state
    if alone and fresh.schema.id == found.schema.id:
        block = _difference(found, fresh)
        if block is not None:
            updates = as_deletions(shard.machine, shard.config, state, block)
            return ([(found.schema, updates.rows)] if len(updates.rows) else []), updates
    added = ((fresh.schema, block) for block in blocks_of_part_size(shard, fresh.blocks))
    if not pc.any(found.table(["retracts"]).column("retracts"), min_count=0).as_py():
        return added, BatchUpdates(_nothing(found.schema), LocatedDeletions.of(state, _all_rows(found)))
    negated = ((found.schema, block) for block in blocks_of_part_size(shard, _negated(found)))
    return itertools.chain(negated, added), None


def _nothing(schema: Schema) -> Block:
    none = np.zeros(0, np.int64)
    return Block([pa.array([], column.type.arrow) for column in schema.columns], none, none)


def _all_rows(found: Snapshot) -> pa.Table:
    """Deletions of all rows, from metadata alone."""
    table = found.rows_of(None, statistics=False)
    gone = found.deleted()
    diffs = table.column("diffs").to_numpy() - (0 if gone is None else gone[1])
    bitmaps = [b""] * table.num_rows if gone is None else table.column("deleted").to_pylist()
    ids, rows = (table.column(name).to_pylist() for name in ("id", "rows"))
    return records_of_all_rows(ids, rows, diffs.tolist(), bitmaps)


def _negated(found: Snapshot) -> Iterator[Block]:
    """The retractions of all existing rows."""
    for block in found.rows([column.id for column in found.schema.columns]):
        yield Block(block.columns, np.full(len(block), found.state.upper), -block.diffs)


def _difference(found: Snapshot, fresh: _Fresh) -> Block | None:
    """What the fresh rows change of the existing ones; None if there are too many to compare them."""
    blocks = [_nothing(found.schema), *fresh.blocks]
    size = sum(map(block_bytes, blocks))
    for block in _negated(found):
        blocks.append(block)
        size += block_bytes(block)
        if size > MAX_CONSOLIDATED_BYTES:
            return None
    return consolidate(concat(blocks), by_time=False)


def _negated_news(shard: Shard, found: Snapshot, lower: int, upper: int) -> list[Part] | None:
    """Retractions of what others appended at these times; None if that can no longer be read."""
    ids = [column.id for column in found.schema.columns]
    written: list[Part] = []
    try:
        with open_changes(shard, lower, upper, repaired=found.state.repaired) as changes:
            if changes.schema.id != found.schema.id:
                return None
            blocks = (Block(b.columns, np.full(len(b), upper), -b.diffs) for b in changes.rows(ids))
            for block in blocks_of_part_size(shard, blocks):
                written += shard.write(found.state, found.schema, block)
    except TimeError:
        shard.discard(written)
        return None
    return written
