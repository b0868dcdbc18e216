"""Rewrites parts: what is left out, where each row goes, and how new parts take their place.

    part 3       a b c d       b is deleted since 5, d since 90; times from `since` = 10 on can be read
    rewritten    a c           no reader sees b any more, so it is left out
                 d             rows that only AS OF an earlier time shows are parts of their own, which other readers never open

While this was written, others may have deleted rows of part 3. Rows carry where they come from, so that such deletions are moved to
where the rows went, in the entry that replaces the parts:

    meanwhile    c is deleted at 120, in part 3 at position 2
    replaced     part 3 by parts 8 (a c) and 9 (d); deleted are position 1 of part 8 since 120, and position 0 of part 9 since 90

The state checks that no deletion is lost on the way. Where rows were consolidated with their retractions, it is not known where
each went: then a replacement that meets deletions is abandoned, and tried again at the next compaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tidegate.errors import CorruptError
from tidegate.storage.part.deletion_records import DELETIONS_SCHEMA, deletion_records, deletions_by_part
from tidegate.storage.part.deletions import NEVER, Deletions, Fetch
from tidegate.storage.part.merge import Block, concat
from tidegate.storage.part.part import Part
from tidegate.storage.part.schema import Schema
from tidegate.storage.shard.changes import Replace
from tidegate.storage.shard.part_builder import block_bytes
from tidegate.storage.shard.shard import INFLATION, Shard
from tidegate.storage.shard.state import Conflict, State
from tidegate.storage.shard.validity import Validity, still_valid

ID_SHIFT = 32
"""An origin is the id of a part, shifted by this, and a position in it."""
ATTACHED_BYTES = 16
"""Bytes of the two columns that `Aging.attach` gives each row: they are not written."""
MAX_RUNS = 1 << 20
"""Runs of rows that stay together up to which it is recorded where rows went."""


class Aging:
    """Applies the passage of time to rewritten updates, and leaves out those that no reader sees."""

    def __init__(
        self, state: State, schema: Schema, deletions: Deletions | None = None, fetch: Fetch | None = None
    ) -> None:
        """`deletions`: those of the parts that are rewritten; `fetch` reads the objects with their bitmaps."""
        self.state, self.schema = state, schema
        self.ids = [column.id for column in schema.columns]
        self.ended = 0
        """The sum of diffs of the rows that were left out so far."""
        self.applied = 0
        """The same of those among them that were deleted."""
        self.traces = state.monotonic
        """Whether rows carry their origins: consolidated rows have none."""
        self._validity = Validity.of(state.options)
        self._deletions, self._fetch = deletions or Deletions(), fetch
        self._ends: tuple[int, np.ndarray] = (-1, np.zeros(0, np.int64))

    def attach(self, block: Block, part: Part, start: int) -> Block:
        """Updates of a part from `start` on, with two more columns: when each is deleted, its origin."""
        stop = start + len(block)
        ends = self._end_times(part)
        deleted = np.full(len(block), NEVER) if ends is None else ends[start:stop]
        origins = (
            np.arange(start, stop) + (part.id << ID_SHIFT) if self.traces else np.zeros(len(block), np.int64)
        )
        return replace(block, columns=[*block.columns, pa.array(deleted), pa.array(origins)])

    def _end_times(self, part: Part) -> np.ndarray | None:
        if not self._deletions:
            return None
        if self._ends[0] != part.id:
            assert self._fetch is not None
            self._ends = part.id, self._deletions.end_times(part, self._fetch)
        return self._ends[1]

    def __call__(self, block: Block) -> Block:
        """The updates that can still be read, with times before `since` moved to it."""
        # `since` can be `upper`; a part's times are below it.
        since = min(self.state.since, self.state.upper - 1)
        ends = block.columns[len(self.ids)].to_numpy()
        keep = ends > since
        if self._validity is not None:
            keep &= still_valid(block.columns[self.ids.index(self._validity.upper)], self.state.since)
        if not keep.all():
            self.ended += int(block.diffs[~keep].sum())
            self.applied += int(block.diffs[~keep & (ends != NEVER)].sum())
            block = block.take(keep)
        return replace(block, times=np.maximum(block.times, since))


def written_bytes(block: Block) -> int:
    """Bytes in memory of those columns of a block that are written."""
    return block_bytes(block) - ATTACHED_BYTES * len(block)


@dataclass(frozen=True, eq=False)
class RowRuns:
    """Where the rows of a written part come from: runs of rows that were neighbours before."""

    origins: np.ndarray
    """The origin of the first row of each run."""
    starts: np.ndarray
    """Its position in the part."""
    diffs: np.ndarray | None
    """The diffs of all rows of the part; None: each is 1."""

    @staticmethod
    def of(origins: np.ndarray, diffs: np.ndarray) -> RowRuns | None:
        """The runs of rows with these origins; None if there are too many."""
        starts = np.flatnonzero(np.concatenate([[True], np.diff(origins) != 1])[: len(origins)])
        if len(starts) > MAX_RUNS:
            return None
        return RowRuns(origins[starts], starts, None if (diffs == 1).all() else diffs)


@dataclass(frozen=True, eq=False)
class WrittenParts:
    """Parts that were written from others, and what happened to the rows of these."""

    parts: tuple[Part, ...]
    ended: int
    """The sum of diffs of the rows that were left out, because they have ended or are deleted."""
    applied: int = 0
    """The same of those among them that were deleted."""
    deletions: pa.Table = field(default_factory=DELETIONS_SCHEMA.empty_table)
    """Rows of these parts that are deleted: `part` is the place in `parts`."""
    runs: tuple[RowRuns | None, ...] = ()
    """For each part, where its rows come from; None: that is not known."""

    @staticmethod
    def join(written: Sequence[WrittenParts]) -> WrittenParts:
        """What several tasks wrote, as one."""
        first = np.cumsum([0, *(len(one.parts) for one in written)])
        tables = [_shift(one.deletions, int(begin)) for one, begin in zip(written, first, strict=False)]
        return WrittenParts(
            tuple(part for one in written for part in one.parts),
            sum(one.ended for one in written),
            sum(one.applied for one in written),
            pa.concat_tables([DELETIONS_SCHEMA.empty_table(), *tables]),
            tuple(run for one in written for run in one.runs),
        )


def _shift(records: pa.Table, places: int) -> pa.Table:
    ids = records.column("part").to_numpy() + places
    return records.set_column(0, DELETIONS_SCHEMA.field("part"), pa.array(ids, pa.int64()))


def write_parts(
    shard: Shard,
    aging: Aging,
    blocks: Iterable[Block],
    order: tuple[int, ...],
    level: int,
    written: list[Part],
) -> WrittenParts:
    """Stores rewritten updates as parts; `written` collects them, to be discarded after a failure."""
    state, width = aging.state, len(aging.ids)
    deletions, runs = [DELETIONS_SCHEMA.empty_table()], list[RowRuns | None]()

    def store(block: Block) -> None:
        ends, origins = (block.columns[width + i].to_numpy() for i in (0, 1))
        plain = replace(block, columns=block.columns[:width])
        written.append(shard.store(state, aging.schema, plain, order, level))
        runs.append(RowRuns.of(origins, block.diffs) if aging.traces else None)
        if len(gone := np.flatnonzero(ends != NEVER)):
            place = np.full(len(gone), len(written) - 1)
            deletions.append(deletions_by_part(place, ends[gone], gone, block.diffs[gone]))

    dead: list[Block] = []
    for block in blocks:
        alive = block.columns[width].to_numpy() == NEVER
        if alive.all():
            store(block)
            continue
        if alive.any():
            store(block.take(alive))
        dead.append(block.take(~alive))
        if sum(map(written_bytes, dead)) >= INFLATION * shard.config.part_bytes:
            store(concat(dead))
            dead = []
    if dead:
        store(concat(dead))
    return WrittenParts(tuple(written), aging.ended, aging.applied, pa.concat_tables(deletions), tuple(runs))


def swap(
    shard: Shard, group: Sequence[Part], written: WrittenParts, read: State, *, anyway: bool = False
) -> int | None:
    """Replaces parts by those written from them; returns how many, or None if nothing was gained.

    With `anyway` it replaces them even then. `read` is the state that they were read in. What was written is deleted if nothing was
    gained; and by the caller (`Shard.writing`), if this raises.
    """
    before, after = (
        sum(part.diffs for part in group),
        sum(part.diffs for part in written.parts) + written.ended,
    )
    if before != after:
        raise CorruptError(
            f"compaction of {shard.machine.cached_state().shard} turned a sum of diffs of {before} into {after}",
            hint="nothing was changed",
        )
    ids = np.array(sorted(part.id for part in group), np.int64)
    rows = sum(part.rows for part in written.parts)
    gained = len(written.parts) < len(group) or rows < sum(part.rows for part in group)
    if not (gained or anyway or read.parts.deletions.only(ids)):
        shard.discard(written.parts)
        return None
    stored = shard.store_deletions(read, written.deletions)

    def propose(newest: State) -> Replace:
        if newest.repaired != read.repaired:
            raise Conflict("times were moved back meanwhile, also those of deletions that were read")
        shard.check_objects(newest, {part.name: part.base for part in written.parts})
        shard.check_objects(newest, stored.objects)
        late = newest.parts.deletions.only(ids).between(read.upper, NEVER)
        moved, left_out = _moved(late, written, shard.machine.objects.get, {part.id: part for part in group})
        return Replace(
            tuple(part.id for part in group),
            written.parts,
            ended=written.ended,
            deletions=pa.concat_tables([stored.records, moved]),
            applied=written.applied + left_out,
        )

    shard.machine.update(propose)
    return len(written.parts)


def _moved(
    late: Deletions, written: WrittenParts, fetch: Fetch, group: Mapping[int, Part]
) -> tuple[pa.Table, int]:
    """Deletions that others made meanwhile, moved along; and the diffs of those of rows left out."""
    if not late:
        return DELETIONS_SCHEMA.empty_table(), 0
    if any(run is None for run in written.runs):
        raise Conflict("rows were deleted meanwhile, and it is not known where they went")
    tables, total = [DELETIONS_SCHEMA.empty_table()], 0
    for part, time, positions in late.located(fetch, group.__getitem__):
        wanted = positions + (part.id << ID_SHIFT)
        located = {}
        for place, run in enumerate(written.runs):
            assert run is not None
            at = _find(run, written.parts[place].rows, wanted)
            if len(at):
                located[place] = at, np.ones(len(at), np.int64) if run.diffs is None else run.diffs[at]
        tables.append(deletion_records(located, time))
        total += sum(int(diffs.sum()) for _, diffs in located.values())
    records = pa.concat_tables(tables)
    return records, int(sum(late.records.column("diffs").to_pylist())) - total


def _find(run: RowRuns, rows: int, wanted: np.ndarray) -> np.ndarray:
    """The positions, rising, of those rows of a part that have one of the wanted origins."""
    order = np.argsort(run.origins, kind="stable")
    lengths = np.diff(np.concatenate([run.starts, [rows]]))
    at = np.searchsorted(run.origins, wanted, side="right", sorter=order) - 1
    inside = order[np.maximum(at, 0)]
    offset = wanted - run.origins[inside]
    hit = (at >= 0) & (offset < lengths[inside])
    return np.sort(run.starts[inside[hit]] + offset[hit])
