"""Reading a shard: what it holds at a time, and what changed between two.

    with snapshot(shard, as_of=5_000) as found:
        for batch in found.batches(["id", "price"]):     Arrow batches, each row as often as it is there
            …

    with updates(shard, 5_001, 6_000) as changes:         from_time ≤ time < to_time
        for batch in changes.batches(["id"]):             the columns, `_time` and `_diff`
            …

`since ≤ as_of < upper` is exact and repeatable. Before `since` is an error that names both times; at `upper` or after it the read
waits, up to a time-out. A lease, which all readers of a process share, keeps what is read from being deleted; it is renewed as
batches are read (`lease.py`).

Of a collection whose rows come and go by themselves (`validity.py`) a snapshot gives those that have not ended by `as_of`; that
they have begun, and not ended by the time that is asked for, is for the plan above it. Changes tell both, each at its time.

A shard without retractions is read part by part, and nothing is compared. With retractions, rows must meet what retracts them:

| | memory | reads |
|---|---|---|
| `_beside`: few retractions | their keys, the rows with these keys | narrow columns of the parts that retract, then every part |
| `_merged`: many, all parts sorted | a block of each part | every part, and once more to verify it |

Blocks have `batch_rows` rows, and fewer where rows are wide. What retracts is held, and so are the rows that it may retract: memory
grows with the retractions that compaction has not made one yet, up to `retractions_in_memory`, and never with the rows.

`_beside` rests on this: a row of which no equal one was ever retracted is there as often as its diffs say. A key is a row's narrow
columns (those of a fixed width): rows of equal keys may differ elsewhere, so they are only *suspects*, and added up in full.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import TimeError
from tidegate.shard.change import Part
from tidegate.shard.known import of_each
from tidegate.shard.lease import Lease, share
from tidegate.shard.leased import LeasedState, record_batch, wait_for
from tidegate.shard.merge import Block, common_prefix, concat, growing, merge, repeated, settled, summed
from tidegate.shard.part import ROW_GROUP_ROWS
from tidegate.shard.parts import SCHEMA, from_table
from tidegate.shard.rowkey import row_keys
from tidegate.shard.state import State
from tidegate.shard.times import check_time
from tidegate.shard.validity import lives, still_valid
from tidegate.shard.writer import Shard, is_narrow
from tidegate.stats.frame import Frame

Where: TypeAlias = Callable[[list[pa.Array], int], np.ndarray]
"""Of columns and a number of rows, the places of those that are wanted."""


def snapshot(
    shard: Shard,
    as_of: int | None = None,
    timeout_ms: int | None = None,
    check: Callable[[], None] | None = None,
) -> Snapshot:
    """What the shard holds at time `as_of`; None: everything that is committed.

    While it waits for a time that is not complete, `check` is called again and again, and may raise.
    """
    if as_of is None:
        lease = share(shard, lambda state: max(state.upper - 1, state.since))
        return Snapshot(shard, lease, lease.since)
    lease = share(shard, lambda state: _checked(shard, state, as_of))
    wait_for(shard, lease, as_of + 1, timeout_ms, check)
    return Snapshot(shard, lease, as_of)


def _checked(shard: Shard, state: State, as_of: int) -> int:
    """A time to read at. One that is not complete yet is waited for, but not if it is far ahead of the clock."""
    if as_of >= state.upper:
        check_time(as_of, shard.clock.now(), shard.config, "read")
    return as_of


def updates(
    shard: Shard,
    from_time: int,
    to_time: int | None = None,
    timeout_ms: int | None = None,
    repaired: int | None = None,
) -> Changes:
    """What changed at times `from_time ≤ t < to_time`; None: up to what is committed.

    Who goes on from a state that it read before says when that was last `repaired`: times that were taken back tell nothing.
    """

    def pick(state: State) -> int:
        if repaired not in (None, state.repaired) or (state.repaired and from_time > state.upper):
            raise TimeError(
                f"cannot tell changes from time {from_time} on: the collection is complete up to {state.upper}",
                hint="later times were taken back by a repair: read a snapshot, and changes from there on",
            )
        # Times up to `since` have been made one, so the first that can be told apart is the one behind it.
        if from_time <= state.since and state.since > 0:
            raise TimeError(
                f"cannot tell changes from time {from_time} on: the collection is kept from {state.since} on",
                hint=f"read a snapshot at {state.since}, and changes from {state.since + 1}",
            )
        return max(from_time - 1, 0)

    lease = share(shard, pick)
    if to_time is not None:
        wait_for(shard, lease, to_time, timeout_ms)
    return Changes(shard, lease, from_time, lease.state.upper if to_time is None else to_time)


class Snapshot(LeasedState):
    """What a shard holds at one time."""

    def __init__(self, shard: Shard, lease: Lease, as_of: int) -> None:
        super().__init__(shard, lease)
        self.as_of = as_of

    @cached_property
    def _there(self) -> list[np.ndarray]:
        """The places, in each table of the state, of the parts that have begun and have not ended."""
        return of_each(self.state.parts).get(("there", self.as_of), self._find_there)

    def _find_there(self) -> list[np.ndarray]:
        places = []
        for table in self.state.parts.tables(["first", "expires"]):
            begun = pc.less_equal(table.column("first"), self.as_of)
            lasting = pc.fill_null(pc.greater(table.column("expires"), self.as_of), True)
            places.append(np.flatnonzero(pc.and_(begun, lasting).to_numpy()))
        return places

    def table(self, columns: Sequence[str]) -> pa.Table:
        """Columns of `parts.SCHEMA` for the parts that may hold rows at this time, told from the state alone."""
        found = []
        for table, places in zip(self.state.parts.tables(columns), self._there, strict=True):
            found.append(table if len(places) == table.num_rows else table.take(pa.array(places)))
        if not found:
            return SCHEMA.empty_table().select(columns)
        return found[0] if len(found) == 1 else pa.concat_tables(found)

    def frames(self) -> Iterator[Frame]:
        """The statistics of these parts, in the same order, in stretches that fit the cache."""
        for whole, places in zip(self.state.parts.frames(), self._there, strict=True):
            if len(places) == len(whole):
                yield from (frame for _, frame in whole.blocks())
                continue
            mask = np.zeros(len(whole), bool)
            mask[places] = True
            for begin, frame in whole.blocks():
                yield frame.filter(mask[begin : begin + len(frame)])

    def rows_of(self, kept: np.ndarray | None) -> pa.Table:
        """All columns of `parts.SCHEMA` for some of these parts, by their places in `table`, which must rise; None: for all."""
        if kept is None:
            return self.state.parts.pick(self._there)
        ends = np.cumsum([0, *(len(places) for places in self._there)])
        cuts = np.searchsorted(kept, ends)
        some = [
            places[kept[begin:end] - start]
            for places, begin, end, start in zip(self._there, cuts[:-1], cuts[1:], ends[:-1], strict=True)
        ]
        return self.state.parts.pick(some)

    def pick(self, kept: np.ndarray) -> list[Part]:
        """Some of these parts as values, by their places in `table`, which must rise."""
        return from_table(self.rows_of(kept))

    def parts(self) -> list[Part]:
        """All of them as values."""
        return from_table(self.rows_of(None))

    def batches(
        self,
        columns: Sequence[str] | None = None,
        parts: Sequence[Part] | None = None,
        where: Where | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows, each as often as it is there, in batches of these columns; of these `parts` alone, if given.

        Parts may only be left out if none of the snapshot retracts, as a row must meet what retracts it; or if they hold
        nothing that is wanted by `where`, which is asked before rows meet: of equal rows it must want all or none.
        """
        ids = self._ids(columns)
        fields = pa.schema([pa.field(name, self.schema.find(name).type.arrow) for name in self._names(ids)])
        for block in self.rows(ids, parts, where):
            if len(block):
                yield record_batch(repeated(block), fields, int(block.diffs.sum()))

    def rows(
        self, ids: Sequence[int], parts: Sequence[Part] | None = None, where: Where | None = None
    ) -> Iterator[Block]:
        """The rows with the columns of these ids, the diff saying how often each is there; see `batches` for `where`."""
        parts = self.parts() if parts is None else parts
        retracting = [part for part in parts if part.retracts]
        if not retracting:
            for part in parts:
                for block in self.visible(part, ids):
                    yield _wanted(block, ids, where)
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
        """The part's updates that have happened and have not ended."""
        validity = self.validity
        extra = [validity.upper] if validity is not None and validity.upper not in ids else []
        for block in self._blocks(part, [*ids, *extra], rows, ranged=ranged):
            keep = block.times <= self.as_of
            if validity is not None:
                keep &= still_valid(block.columns[[*ids, *extra].index(validity.upper)], self.as_of)
            wanted = Block(block.columns[: len(ids)], block.times, block.diffs)
            yield wanted if keep.all() else wanted.take(keep)

    def _beside(self, parts: Sequence[Part], ids: Sequence[int], where: Where | None) -> Iterator[Block]:
        """Rows that nothing retracts as they come, and at last what is left of the others."""
        narrow = [column.id for column in self.schema.columns if is_narrow(column.type)]
        narrow = narrow or [column.id for column in self.schema.columns]
        retracted = self._retracted([part for part in parts if part.retracts], narrow)
        both = [*ids, *(id_ for id_ in narrow if id_ not in ids)]
        at = [both.index(id_) for id_ in narrow]
        suspects: list[Block] = []
        enough = batch = self.shard.config.batch_rows
        # `is_in` makes its table of the retracted keys for each block: blocks as large as the table make up for it, so the blocks
        # of small parts are put together.
        rows = max(batch, min(len(retracted), ROW_GROUP_ROWS))
        waiting = 0
        seen = (_wanted(block, ids, where) for part in parts for block in self.visible(part, both, rows))
        for block in growing(seen, rows):
            keys = row_keys([block.columns[i] for i in at], len(block))
            suspect = pc.is_in(keys, value_set=retracted).to_numpy(zero_copy_only=False)
            wanted = Block(block.columns[: len(ids)], block.times, block.diffs)
            suspects.append(wanted.take(suspect))
            waiting += len(suspects[-1])
            plain = wanted.take(~suspect)
            yield from (plain.slice(i, min(i + batch, len(plain))) for i in range(0, len(plain), batch))
            if waiting > enough:
                suspects = [summed(concat(suspects), by_time=False)]
                waiting = len(suspects[0])
                enough = 2 * waiting + batch
        if suspects:
            left = settled(concat(suspects), self._names(ids))
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
        self, parts: Sequence[Part], ids: Sequence[int], prefix: Sequence[int], where: Where | None
    ) -> Iterator[Block]:
        """All parts as sorted runs, merged; equal rows are in the same window and added up there."""
        both = [*ids, *(id_ for id_ in prefix if id_ not in ids)]
        rows = max(1024, self.shard.config.batch_rows * 8 // len(parts))
        runs = [
            map(partial(_wanted, ids=ids, where=where), self.visible(part, both, rows, ranged=True))
            for part in parts
        ]
        for window in merge(runs, [both.index(id_) for id_ in prefix]):
            block = settled(window, self._names(both))
            yield Block(block.columns[: len(ids)], block.times, block.diffs)


class Changes(LeasedState):
    """What changed in a shard between two times."""

    def __init__(self, shard: Shard, lease: Lease, from_time: int, to_time: int) -> None:
        super().__init__(shard, lease)
        self.from_time, self.to_time = from_time, to_time

    def parts(self) -> Iterator[Part]:
        """The parts that may hold, or by the end of their rows cause, changes in this time."""

        def keep(table: pa.Table) -> pa.Array:
            begun = pc.less(table.column("first"), self.to_time)
            if self.validity is None:
                return pc.and_(begun, pc.greater_equal(table.column("last"), self.from_time))
            return pc.and_(
                begun, pc.fill_null(pc.greater_equal(table.column("expires"), self.from_time), True)
            )

        return self._select(keep)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The changes, in batches of these columns, `_time` and `_diff`."""
        ids = self._ids(columns)
        fields = [pa.field(name, self.schema.find(name).type.arrow) for name in self._names(ids)]
        schema = pa.schema([*fields, pa.field("_time", pa.int64()), pa.field("_diff", pa.int64())])
        for block in self.rows(ids):
            if len(block):
                yield record_batch(
                    [*block.columns, pa.array(block.times), pa.array(block.diffs)], schema, len(block)
                )

    def rows(self, ids: Sequence[int]) -> Iterator[Block]:
        """The changes with the columns of these ids. A row that ends by itself is retracted at its time."""
        bounds = [] if self.validity is None else [self.validity.lower, self.validity.upper]
        for part in self.parts():
            for block in self._blocks(part, [*ids, *bounds]):
                wanted = Block(block.columns[: len(ids)], block.times, block.diffs)
                if bounds:
                    wanted = lives(wanted, *block.columns[-2:])
                inside = (wanted.times >= self.from_time) & (wanted.times < self.to_time)
                yield wanted if inside.all() else wanted.take(inside)


def _wanted(block: Block, ids: Sequence[int], where: Where | None) -> Block:
    """The rows of a block, whose first columns are those of `ids`, that are wanted."""
    return block if where is None else block.take(where(block.columns[: len(ids)], len(block)))
