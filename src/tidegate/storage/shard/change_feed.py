"""Reads the changes of a shard between two times.

    with open_changes(shard, 5_001, 6_000) as changes:       from_time ≤ time < to_time
        for batch in changes.batches(["id"]):                the columns, `_time` and `_diff`
            …

A row that was deleted by its position is read there, and retracted at the time of its deletion. A row with a limited life appears
at its lower bound, and is retracted at its upper one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import TimeError
from tidegate.storage.part.merge import Block
from tidegate.storage.part.page_reader import rows_at
from tidegate.storage.part.part import Part
from tidegate.storage.shard.leased_state import LeasedState, record_batch, wait_for
from tidegate.storage.shard.leases.lease import Lease, share_lease
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.state import State
from tidegate.storage.shard.validity import with_validity_changes


def open_changes(
    shard: Shard,
    from_time: int,
    to_time: int | None = None,
    timeout_ms: int | None = None,
    repaired: int | None = None,
) -> ChangeFeed:
    """The changes at times `from_time ≤ t < to_time`; None: up to what is committed.

    A caller that continues from an earlier state passes the `repaired` of that state: after a repair, times were moved back, and
    the changes since then are unknown.
    """

    def pick(state: State) -> int:
        if repaired not in (None, state.repaired) or (state.repaired and from_time > state.upper):
            raise TimeError(
                f"cannot read changes from time {from_time} on: the collection is complete up to {state.upper}",
                hint="a repair moved later times back: read a snapshot, and changes from there on",
            )
        # Times up to `since` are merged into one, so the first that can be distinguished is the one after it.
        if from_time <= state.since and state.since > 0:
            raise TimeError(
                f"cannot read changes from time {from_time} on: the collection is kept from {state.since} on",
                hint=f"read a snapshot at {state.since}, and changes from {state.since + 1}",
            )
        return max(from_time - 1, 0)

    lease = share_lease(shard, pick)
    if to_time is not None:
        wait_for(shard, lease, to_time, timeout_ms)
    return ChangeFeed(shard, lease, from_time, lease.state.upper if to_time is None else to_time)


class ChangeFeed(LeasedState):
    """The changes of a shard between two times."""

    def __init__(self, shard: Shard, lease: Lease, from_time: int, to_time: int) -> None:
        super().__init__(shard, lease)
        self.from_time, self.to_time = from_time, to_time

    def parts(self) -> Iterator[Part]:
        """The parts that may hold changes in this time, or cause them by the end of their rows."""

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
        """The changes with the columns of these ids. A row that ends by itself is retracted at its end."""
        bounds = [] if self.validity is None else [self.validity.lower, self.validity.upper]
        updates = (block for part in self.parts() for block in self._blocks(part, [*ids, *bounds]))
        for block in itertools.chain(updates, self._deleted([*ids, *bounds])):
            wanted = Block(block.columns[: len(ids)], block.times, block.diffs)
            if bounds:
                wanted = with_validity_changes(wanted, *block.columns[-2:])
            inside = (wanted.times >= self.from_time) & (wanted.times < self.to_time)
            yield wanted if inside.all() else wanted.take(inside)

    def _deleted(self, ids: Sequence[int]) -> Iterator[Block]:
        """The retractions of rows that were deleted by their position: they are read there.

        If rows have a limited life, earlier deletions count too: a deleted row must not be retracted again at its end.
        """
        deletions, machine = self.state.parts.deletions, self.shard.machine
        begin = self.from_time if self.validity is None else 0
        types = {column.id: column.type for column in self.schema.columns}
        wanted = deletions.between(begin, self.to_time)
        for part, time, positions in wanted.located(machine.objects.get, self.state.parts.get):
            if part.expires is not None and part.expires < self.from_time:
                continue
            file = self.open_file(part)
            for rows in rows_at(file.groups, positions):
                self.lease.keep()
                columns = file.read(ids, [types[id_] for id_ in ids], rows)
                yield Block(columns, np.full(len(rows), time), -file.diffs(rows))
