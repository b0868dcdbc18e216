"""Reads the rows of a shard at a time.

    with open_snapshot(shard, as_of=5_000) as snapshot:
        for batch in snapshot.batches(["id", "price"]):      Arrow batches, each row as often as it exists
            …

A read at `since ≤ as_of < upper` is exact and repeatable. A time before `since` is an error that names both times; at `upper` or
later the read waits, up to a time-out. A lease, which all readers of a process share, keeps the files from being deleted; it is
renewed as batches are read (`leases/lease.py`).

If rows have a limited life (`validity.py`), a snapshot returns those that have not ended by `as_of`. The plan above it checks that
they have begun, and not ended by the time that was asked for.

Rows that were deleted by their position are skipped (`storage/part/deletions.py`). A shard without other retractions is read part
by part, without comparing rows. With retractions that are rows themselves, rows must meet them:

| | memory | reads |
|---|---|---|
| `_beside`: few retractions | their keys, the rows with these keys | narrow columns of the parts that retract, then every part |
| `_merged`: many, all parts sorted | a block of each part | every part, and once more to verify it |

Blocks have `batch_rows` rows, and fewer if rows are wide. Retractions are held in memory, and so are the rows that they may
retract. Memory grows with the retractions that compaction has not consolidated yet, up to `retractions_in_memory`, and never with
the rows.

`_beside` rests on this: if no row equal to a given row was ever retracted, that row exists as often as its diffs say. A key
consists of the narrow columns of a row (those of fixed width). Rows with equal keys may differ in other columns, so they are only
*suspects*, and are consolidated by all columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.storage.part.bitmaps import deletion_mask, unpack_positions
from tidegate.storage.part.deletion_records import deletion_records
from tidegate.storage.part.deletions import Deletions, PartRows
from tidegate.storage.part.encode import ROW_GROUP_ROWS
from tidegate.storage.part.merge import (
    Block,
    common_prefix,
    concat,
    consolidate,
    consolidate_rows,
    growing,
    merge,
    repeat_rows,
)
from tidegate.storage.part.part import Part
from tidegate.storage.part.parts_table import PARTS_SCHEMA, parts_from_table, without_stats
from tidegate.storage.part.row_keys import row_keys
from tidegate.storage.part.schema import is_narrow
from tidegate.storage.shard.leased_state import LeasedState, record_batch, wait_for
from tidegate.storage.shard.leases.lease import Lease, share_lease
from tidegate.storage.shard.parts import Parts
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.state import State
from tidegate.storage.shard.statistics import frames_of
from tidegate.storage.shard.time_check import check_time
from tidegate.storage.shard.validity import still_valid
from tidegate.storage.stats.frame import Frame

RowFilter: TypeAlias = Callable[[list[pa.Array], int], np.ndarray]
"""From columns and a number of rows, the places of the rows that are selected."""

MAX_VIEWED_PARTS = 4096
"""Parts of a state up to which what snapshots take of their metadata is kept for the next ones."""


def open_snapshot(
    shard: Shard,
    as_of: int | None = None,
    timeout_ms: int | None = None,
    check: Callable[[], None] | None = None,
) -> Snapshot:
    """The rows of the shard at time `as_of`; None: everything that is committed.

    While it waits for a time that is not complete, it calls `check` repeatedly, which may raise.
    """
    if as_of is None:
        lease = share_lease(shard, lambda state: max(state.upper - 1, state.since))
        return Snapshot(shard, lease, lease.since)
    lease = share_lease(shard, lambda state: _checked(shard, state, as_of))
    wait_for(shard, lease, as_of + 1, timeout_ms, check)
    return Snapshot(shard, lease, as_of)


def offline_snapshot(shard: Shard, state: State, parts: pa.Table, as_of: int) -> Snapshot:
    """A snapshot in a task; the driver holds the lease.

    `parts` are rows of `Snapshot.rows_of` of the snapshot that the driver has open.
    """
    values = parts_from_table(parts)
    whole = replace(state, parts=replace(Parts().add(values), deletions=_deletions_of(values, as_of)))
    return Snapshot(shard, Lease(shard, None, as_of, whole), as_of)


def _deletions_of(parts: Sequence[Part], time: int) -> Deletions:
    """The deletions of parts that were read from a snapshot at this time."""
    deleted = [(part, unpack_positions(part.deleted)) for part in parts if part.deleted]
    # Where diffs are not all 1 their sum is not known here; no task counts rows by metadata.
    located = {part.id: (positions, np.ones(len(positions), np.int64)) for part, positions in deleted}
    return Deletions((deletion_records(located, time),)) if located else Deletions()


def _checked(shard: Shard, state: State, as_of: int) -> int:
    """A time to read at.

    A time that is not complete yet is waited for, unless it is far ahead of the clock.
    """
    if as_of >= state.upper:
        check_time(as_of, shard.clock.now(), shard.config, "read")
    return as_of


class Snapshot(LeasedState):
    """The rows of a shard at one time."""

    def __init__(self, shard: Shard, lease: Lease, as_of: int) -> None:
        super().__init__(shard, lease)
        self.as_of = as_of

    @cached_property
    def _visible_parts(self) -> list[np.ndarray]:
        """The places, in each table of the state, of the parts that have begun and have not ended."""
        return self.state.parts.arrays.get_or_compute(("there", self.as_of), self._find_visible_parts)

    def _find_visible_parts(self) -> list[np.ndarray]:
        places, deletions = [], self.state.parts.deletions
        for table in self.state.parts.tables(["id", "rows", "name", "first", "expires"]):
            begun = pc.less_equal(table.column("first"), self.as_of)
            lasting = pc.fill_null(pc.greater(table.column("expires"), self.as_of), True)
            there = pc.and_(begun, lasting).to_numpy()
            if deletions:
                deleted, _ = deletions.totals(table.column("id").to_numpy(), self.as_of)
                whole = deleted >= np.maximum(table.column("rows").to_numpy(), 1)
                self._check_whole(table.filter(pa.array(there & whole)))
                there = there & ~whole
            places.append(np.flatnonzero(there))
        return places

    def _check_whole(self, table: pa.Table) -> None:
        """Raises if a part of which all rows are deleted, by the counts of its records, has others."""
        if table.num_rows:
            self.state.parts.deletions.check_whole(
                PartRows.of_table(table), self.as_of, self.shard.machine.objects.get
            )

    def deleted(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Of each part of `table`, how many rows are deleted, and the sum of their diffs; None: no row is."""
        deletions = self.state.parts.deletions
        if not deletions:
            return None
        ids = self.table(["id"]).column("id").to_numpy()
        return self.state.parts.arrays.get_or_compute(
            ("deleted", self.as_of), lambda: deletions.totals(ids, self.as_of)
        )

    def deleted_bitmaps(self, kept: np.ndarray) -> list[bytes]:
        """The rows of some parts that are deleted, as serialized bitmaps; `kept` has their places in `table`."""
        parts = PartRows.of_table(self.table(["id", "rows", "name"]).take(pa.array(kept)))
        return self.state.parts.deletions.bitmaps(parts, self.as_of, self.shard.machine.objects.get)

    def table(self, columns: Sequence[str]) -> pa.Table:
        """Columns of `parts.PARTS_SCHEMA` for the parts that may hold rows at this time, by the state alone."""
        if self.state.parts.count > MAX_VIEWED_PARTS:
            return self._table(columns)
        key = (self.as_of, *columns)
        return self.state.parts.views.get_or_compute(key, lambda: self._table(columns))

    def _table(self, columns: Sequence[str]) -> pa.Table:
        found = []
        for table, places in zip(self.state.parts.tables(columns), self._visible_parts, strict=True):
            found.append(table if len(places) == table.num_rows else table.take(pa.array(places)))
        if not found:
            return PARTS_SCHEMA.empty_table().select(columns)
        return found[0] if len(found) == 1 else pa.concat_tables(found)

    def frames(self) -> Iterator[Frame]:
        """The statistics of these parts, in the same order, in blocks that fit the cache."""
        self.shard.machine.files.counters.count_frames(self.state.parts.decoded_frames())
        for whole, places in zip(frames_of(self.state), self._visible_parts, strict=True):
            if len(places) == len(whole):
                yield from (frame for _, frame in whole.blocks())
                continue
            mask = np.zeros(len(whole), bool)
            mask[places] = True
            for begin, frame in whole.blocks():
                yield frame.filter(mask[begin : begin + len(frame)])

    def rows_of(self, kept: np.ndarray | None, *, statistics: bool = True) -> pa.Table:
        """All columns of `PARTS_SCHEMA`, and `deleted` if rows are, for some of these parts; None: all.

        `kept` has their places in `table`, in rising order.
        """
        table = self._pick_rows(kept)
        table = table if statistics else without_stats(table)
        deletions = self.state.parts.deletions
        if not deletions:
            return table
        fetch = self.shard.machine.objects.get
        deleted = deletions.bitmaps(PartRows.of_table(table), self.as_of, fetch)
        return table.append_column("deleted", pa.array(deleted, pa.binary()))

    def _pick_rows(self, kept: np.ndarray | None) -> pa.Table:
        if kept is None:
            return self.state.parts.pick(self._visible_parts)
        ends = np.cumsum([0, *(len(places) for places in self._visible_parts)])
        cuts = np.searchsorted(kept, ends)
        some = [
            places[kept[begin:end] - start]
            for places, begin, end, start in zip(
                self._visible_parts, cuts[:-1], cuts[1:], ends[:-1], strict=True
            )
        ]
        return self.state.parts.pick(some)

    def pick(self, kept: np.ndarray) -> list[Part]:
        """Some of these parts as values, by their places in `table`, in rising order."""
        return parts_from_table(self.rows_of(kept))

    def parts(self) -> list[Part]:
        """All of these parts as values."""
        return parts_from_table(self.rows_of(None))

    def batches(
        self,
        columns: Sequence[str] | None = None,
        parts: Sequence[Part] | None = None,
        where: RowFilter | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows, each as often as it exists, in batches of these columns; only of `parts` if given.

        Parts may be left out only if none of the snapshot retracts, because a row must meet its retraction; or if they hold no
        row that `where` selects. `where` runs before rows meet, so of equal rows it must select all or none.
        """
        ids = self._ids(columns)
        fields = pa.schema([pa.field(name, self.schema.find(name).type.arrow) for name in self._names(ids)])
        for block in self.rows(ids, parts, where):
            if len(block):
                yield record_batch(repeat_rows(block), fields, int(block.diffs.sum()))

    def rows(
        self, ids: Sequence[int], parts: Sequence[Part] | None = None, where: RowFilter | None = None
    ) -> Iterator[Block]:
        """The rows with the columns of these ids; the diff says how often each exists. See `batches`."""
        parts = self.parts() if parts is None else parts
        retracting = [part for part in parts if part.retracts]
        if not retracting:
            for part in parts:
                for block in self.visible(part, ids):
                    yield _select_rows(block, ids, where)
            return
        there = [column.id for column in self.schema.columns]
        prefix = common_prefix([part.order for part in parts])
        prefix = tuple(itertools.takewhile(lambda id_: id_ in there, prefix))  # columns can be dropped
        many = sum(part.rows for part in retracting) > self.shard.config.retractions_in_memory
        yield from (
            self._merged(parts, ids, prefix, where) if many and prefix else self._beside(parts, ids, where)
        )

    def visible(
        self, part: Part, ids: Sequence[int], rows: int = 0, *, ranged: bool = False
    ) -> Iterator[Block]:
        """The updates of a part that have happened, have not ended and are not deleted."""
        validity = self.validity
        deleted, at = deletion_mask(part.deleted, part.rows) if part.deleted else None, 0
        extra = [validity.upper] if validity is not None and validity.upper not in ids else []
        for block in self._blocks(part, [*ids, *extra], rows, ranged=ranged):
            keep = block.times <= self.as_of
            if deleted is not None:
                keep &= ~deleted[at : at + len(block)]
                at += len(block)
            if validity is not None:
                keep &= still_valid(block.columns[[*ids, *extra].index(validity.upper)], self.as_of)
            wanted = Block(block.columns[: len(ids)], block.times, block.diffs)
            yield wanted if keep.all() else wanted.take(keep)

    def _beside(self, parts: Sequence[Part], ids: Sequence[int], where: RowFilter | None) -> Iterator[Block]:
        """Yields rows that nothing retracts as they are read, and at the end what is left of the others."""
        narrow = [column.id for column in self.schema.columns if is_narrow(column.type)]
        narrow = narrow or [column.id for column in self.schema.columns]
        retracted = self._retracted([part for part in parts if part.retracts], narrow)
        both = [*ids, *(id_ for id_ in narrow if id_ not in ids)]
        at = [both.index(id_) for id_ in narrow]
        suspects: list[Block] = []
        enough = batch = self.shard.config.batch_rows
        # `is_in` builds its table of the retracted keys for each block. Blocks as large as the table make up for it, so the blocks
        # of small parts are concatenated.
        rows = max(batch, min(len(retracted), ROW_GROUP_ROWS))
        waiting = 0
        seen = (_select_rows(block, ids, where) for part in parts for block in self.visible(part, both, rows))
        for block in growing(seen, rows):
            keys = row_keys([block.columns[i] for i in at], len(block))
            suspect = pc.is_in(keys, value_set=retracted).to_numpy(zero_copy_only=False)
            wanted = Block(block.columns[: len(ids)], block.times, block.diffs)
            suspects.append(wanted.take(suspect))
            waiting += len(suspects[-1])
            plain = wanted.take(~suspect)
            yield from (plain.slice(i, min(i + batch, len(plain))) for i in range(0, len(plain), batch))
            if waiting > enough:
                suspects = [consolidate(concat(suspects), by_time=False)]
                waiting = len(suspects[0])
                enough = 2 * waiting + batch
        if suspects:
            left = consolidate_rows(concat(suspects), self._names(ids))
            yield from (left.slice(i, min(i + batch, len(left))) for i in range(0, len(left), batch))

    def _retracted(self, parts: Sequence[Part], narrow: Sequence[int]) -> pa.Array:
        """The keys of all rows that are retracted."""
        found = [pa.array([], pa.large_binary())]
        for part in parts:
            for block in self.visible(part, narrow):
                below = block.take(block.diffs < 0)
                found.append(row_keys(below.columns, len(below)).unique())
        return pa.concat_arrays(found).unique()

    def _merged(
        self, parts: Sequence[Part], ids: Sequence[int], prefix: Sequence[int], where: RowFilter | None
    ) -> Iterator[Block]:
        """Merges all parts as sorted runs; equal rows are in the same window and consolidated there."""
        both = [*ids, *(id_ for id_ in prefix if id_ not in ids)]
        rows = max(1024, self.shard.config.batch_rows * 8 // len(parts))
        runs = [
            map(partial(_select_rows, ids=ids, where=where), self.visible(part, both, rows, ranged=True))
            for part in parts
        ]
        for window in merge(runs, [both.index(id_) for id_ in prefix]):
            block = consolidate_rows(window, self._names(both))
            yield Block(block.columns[: len(ids)], block.times, block.diffs)


def _select_rows(block: Block, ids: Sequence[int], where: RowFilter | None) -> Block:
    """The rows of a block that `where` selects by its first columns, those of `ids`."""
    return block if where is None else block.take(where(block.columns[: len(ids)], len(block)))
