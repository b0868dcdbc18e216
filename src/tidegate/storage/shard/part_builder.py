"""Builds parts from the rows of one task, inside of the task.

    Spark          record batches of 10,000 rows
    collected      until they have 4 × `part_bytes`: about the size of a part when compressed
    conform        to the exact types of the collection (`storage/part/conform.py`), each column copied once, into one array
    sorted         by CLUSTER BY; then statistics, Parquet, the blob store (`Shard.store`)

A task holds the rows of one part in memory, and a second copy while they are concatenated or sorted.

**Few rows are sent, not stored.** 400 partitions of 50 rows must not become 400 files. A task that collected little sends its rows
inside of its message, as compressed Arrow, and the committer writes those of all tasks together. The limit falls with the number of
the partition, because tasks do not know how many there are:

| partition | may send |
|---|---|
| 0 to 63 | 512 KiB |
| 999 | 32 KiB |
| 99,999 | 335 bytes |

So the driver holds at most 32 MiB × (1 + ln(n / 64)) for n partitions: 121 MiB for 1,000.

**Retractions are sent apart**, if `retractions_apart` is set: the committer looks their rows up, and deletes these where they are
(`retractions/at_append.py`). A retraction and an identical row of the same task cancel out. More of them than the committer looks
up, or than may be sent, are stored with the other rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.config import Config
from tidegate.errors import EvaluationError
from tidegate.storage.consensus.protocol import MemoryConsensus
from tidegate.storage.location import Location
from tidegate.storage.part.conform import conform, conform_diffs
from tidegate.storage.part.encode import one_chunk
from tidegate.storage.part.merge import Block, cancel_out, concat, sort_block
from tidegate.storage.part.part import Part
from tidegate.storage.part.schema import Schema
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.retractions.at_append import MAX_ROWS
from tidegate.storage.shard.retractions.located import LocatedDeletions
from tidegate.storage.shard.shard import INFLATION, Shard
from tidegate.storage.shard.state import State

INLINE = 512 << 10
INLINE_ALL = 32 << 20
INLINE_RETRACTIONS = 8 << 20
"""Bytes of retractions that a task may send: they are worth more than a file less."""
_DIFF = "_diff"


@dataclass(frozen=True)
class BuiltParts:
    """The result of a task."""

    parts: tuple[Part, ...]
    inline: bytes
    """Rows that are not in a part, as an Arrow stream; empty if there are none."""
    retractions: bytes = b""
    """Retractions whose rows are to be looked up, in the same form."""
    deletions: LocatedDeletions | None = None
    """Stored rows that the task has located, to be deleted."""


@dataclass(eq=False)
class PartBuilder:
    """Collects rows and stores them as parts."""

    shard: Shard
    state: State
    schema: Schema
    order: tuple[int, ...]
    time: int
    diff_column: str | None = None
    retractions_apart: bool = False
    """Whether rows that are `put` with a negative diff are sent, to be looked up by the committer."""

    def __post_init__(self) -> None:
        self._retractions: list[Block] = []
        self._raw: list[pa.RecordBatch] = []
        self._blocks: list[Block] = []
        self._size = 0
        self._parts: list[Part] = []

    def all(self, batches: Iterator[pa.RecordBatch], partition: int) -> BuiltParts:
        """Takes all batches of a task."""
        for batch in batches:
            if batch.num_rows:
                self._raw.append(batch)
                self._count(batch.nbytes)
        return self.finish(partition)

    def put(self, columns: Sequence[pa.Array], diffs: np.ndarray | None) -> None:
        """Adds rows in the exact types of the collection; without `diffs` each counts once."""
        rows = len(columns[0])
        if rows:
            ones = np.ones(rows, np.int64) if diffs is None else diffs.astype(np.int64)
            self._add(Block(list(columns), np.full(rows, self.time, np.int64), ones))

    def _add(self, block: Block) -> None:
        """Adds updates to those that become parts, and to the retractions."""
        retracts = block.diffs < 0
        if self.retractions_apart and retracts.any():
            self._retractions.append(block.take(retracts))
            block = block.take(~retracts)
        if len(block):
            self._blocks.append(block)
            self._count(block_bytes(block))
        if sum(map(len, self._retractions)) > MAX_ROWS:
            self._cancel_out()
            # Half, so that what is collected is compared again only after as many more.
            if sum(map(len, self._retractions)) > MAX_ROWS // 2:
                self.retractions_apart = False
                self._keep_retractions()

    def finish(self, partition: int) -> BuiltParts:
        """Stores or packs the remaining rows of the task with this partition number."""
        self._cancel_out()
        retractions = self._pack_retractions(min(INLINE_RETRACTIONS, INLINE_ALL // (partition + 1)))
        if not self._raw and not self._blocks:
            return BuiltParts(tuple(self._parts), b"", retractions)
        allowed = min(INLINE, INLINE_ALL // (partition + 1))
        is_small, block = self._size <= 16 * allowed, self._block()
        inline = pack_block(self.schema, block) if is_small else b""
        if not inline or len(inline) > allowed:
            self._store(block)
            inline = b""
        return BuiltParts(tuple(self._parts), inline, retractions)

    def _pack_retractions(self, allowed: int) -> bytes:
        """The retractions as bytes; too many are added to the other rows instead."""
        packed = pack_block(self.schema, concat(self._retractions)) if self._retractions else b""
        if len(packed) <= allowed:
            return packed
        self._keep_retractions()
        return b""

    def _keep_retractions(self) -> None:
        """Adds the retractions to the rows that become parts."""
        self._blocks += self._retractions
        self._size += sum(map(block_bytes, self._retractions))
        self._retractions = []

    def _cancel_out(self) -> None:
        """Removes collected rows that are retracted, together with their retractions."""
        if self._retractions and self._blocks:
            added, left = cancel_out(concat(self._blocks), concat(self._retractions))
            self._blocks, self._retractions = ([block] if len(block) else [] for block in (added, left))
            self._size = block_bytes(added)

    def _count(self, size: int) -> None:
        """Adds to the collected size, and stores a part when it is full."""
        self._size += size
        if self._size >= INFLATION * self.shard.config.part_bytes:
            self._cancel_out()
            if self._raw or self._blocks:
                self._store(self._block())

    def _block(self) -> Block:
        """The collected rows, as columns of the collection."""
        blocks = [*self._blocks, self._conformed()] if self._raw else self._blocks
        self._raw, self._blocks, self._size = [], [], 0
        return concat(blocks)

    def _conformed(self) -> Block:
        """The raw batches, converted to the types of the collection."""
        table = pa.Table.from_batches(self._raw)
        diffs: object = 1
        if self.diff_column is not None:
            diffs = _no_nulls(one_chunk(table.column(self.diff_column)))
            table = table.drop_columns([self.diff_column])
        columns = conform(self.schema, table)
        return Block(columns, np.full(table.num_rows, self.time), conform_diffs(diffs, table.num_rows))

    def _store(self, block: Block) -> None:
        """Stores a block as a part."""
        self._parts.append(store_sorted(self.shard, self.state, self.schema, block, self.order))


def open_in_task(place: Location, config: Config, state: State) -> Shard:
    """A shard for tasks that know only its state: they store parts, and never call consensus."""
    machine = Machine(MemoryConsensus(), place.blob(), f"shard/{state.shard}", state=state)
    return Shard.open(machine, config)


def store_sorted(shard: Shard, state: State, schema: Schema, block: Block, order: tuple[int, ...]) -> Part:
    """Stores a block as one part, sorted by `order`."""
    if order:
        ids = [column.id for column in schema.columns]
        block = sort_block(block, [ids.index(id_) for id_ in order])
    return shard.store(state, schema, block, order)


def block_bytes(block: Block) -> int:
    """Bytes of a block in memory."""
    columns: int = sum(column.nbytes for column in block.columns)
    return columns + 16 * len(block)


def pack_block(schema: Schema, block: Block) -> bytes:
    """A block as bytes."""
    names = [str(column.id) for column in schema.columns]
    batch = pa.record_batch([*block.columns, pa.array(block.diffs)], names=[*names, _DIFF])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpack_block(data: bytes, time: int) -> Block:
    """The block from its bytes."""
    with pa.ipc.open_stream(data) as reader:
        batch = reader.read_next_batch()
    *columns, diffs = batch.columns
    return Block(columns, np.full(batch.num_rows, time), diffs.to_numpy())


def _no_nulls(diffs: pa.Array) -> pa.Array:
    """Raises if a diff is NULL."""
    if diffs.null_count:
        raise EvaluationError("a diff is NULL", hint="1 appends a row, -1 retracts one")
    return diffs
