"""The rows of one task: checked, gathered until they fill a part, sorted, described and stored, all inside of the task.

    Spark          record batches of 10,000 rows
    gathered       until they have 4 × `part_bytes`: about the size of a part when compressed
    conform        in the collection's exact types (`shard/batch.py`), each column copied once, into one piece
    sorted         by CLUSTER BY; statistics, Parquet, the blob store (`Shard.store`)

What a task holds in memory is the rows of one part, and a second time while they are put together or sorted.

**Few rows travel.** 400 partitions of 50 rows must not become 400 files. A task that has gathered little sends its rows inside of
its message, as compressed Arrow, and the committer writes those of all tasks together. How much that may be falls with the
number of the partition, as tasks do not know how many there are:

| partition | may send |
|---|---|
| 0 to 63 | 512 KiB |
| 999 | 32 KiB |
| 99,999 | 335 bytes |

So the driver holds at most 32 MiB × (1 + ln(n / 64)) for n partitions: 121 MiB for 1,000.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tidegate.config import Config
from tidegate.errors import EvaluationError
from tidegate.shard.batch import conform, conform_diffs
from tidegate.shard.change import Part
from tidegate.shard.machine import Machine
from tidegate.shard.merge import Block, concat, in_order
from tidegate.shard.part import one_chunk
from tidegate.shard.parts import Parts
from tidegate.shard.schema import Schema
from tidegate.shard.state import State
from tidegate.shard.statistics import describing
from tidegate.shard.writer import INFLATION, Shard
from tidegate.store.consensus import MemoryConsensus
from tidegate.store.place import Place

INLINE = 512 << 10
INLINE_ALL = 32 << 20
_DIFF = "_diff"


@dataclass(frozen=True)
class Gathered:
    """What a task made of its rows."""

    parts: tuple[Part, ...]
    inline: bytes
    """Rows that are not in a part, as an Arrow stream; empty if there are none."""


@dataclass(eq=False)
class Gathering:
    """Rows on their way into parts."""

    shard: Shard
    state: State
    schema: Schema
    order: tuple[int, ...]
    time: int
    diff_column: str | None = None

    def __post_init__(self) -> None:
        self._raw: list[pa.RecordBatch] = []
        self._blocks: list[Block] = []
        self._size = 0
        self._parts: list[Part] = []

    def all(self, batches: Iterator[pa.RecordBatch], partition: int) -> Gathered:
        """Everything that a task is given."""
        for batch in batches:
            if batch.num_rows:
                self._raw.append(batch)
                self._count(batch.nbytes)
        return self.finish(partition)

    def put(self, columns: Sequence[pa.Array], diffs: np.ndarray | None) -> None:
        """Some rows more, in the collection's columns and exact types; without diffs they are added once."""
        rows = len(columns[0])
        if rows:
            ones = np.ones(rows, np.int64) if diffs is None else diffs.astype(np.int64)
            block = Block(list(columns), np.full(rows, self.time, np.int64), ones)
            self._blocks.append(block)
            self._count(size_of(block))

    def finish(self, partition: int) -> Gathered:
        """What became of all rows, in the task with this number."""
        if not self._raw and not self._blocks:
            return Gathered(tuple(self._parts), b"")
        allowed = min(INLINE, INLINE_ALL // (partition + 1))
        little, block = self._size <= 16 * allowed, self._block()
        inline = packed(self.schema, block) if little else b""
        if not inline or len(inline) > allowed:
            self._store(block)
            inline = b""
        return Gathered(tuple(self._parts), inline)

    def _count(self, size: int) -> None:
        """There is so much more; what fills a part leaves."""
        self._size += size
        if self._size >= INFLATION * self.shard.config.part_bytes:
            self._store(self._block())

    def _block(self) -> Block:
        """What was gathered, as columns of the collection."""
        blocks = [*self._blocks, self._conformed()] if self._raw else self._blocks
        self._raw, self._blocks, self._size = [], [], 0
        return concat(blocks)

    def _conformed(self) -> Block:
        """What came as it was, made of the collection's types."""
        table = pa.Table.from_batches(self._raw)
        diffs: object = 1
        if self.diff_column is not None:
            diffs = _no_nulls(one_chunk(table.column(self.diff_column)))
            table = table.drop_columns([self.diff_column])
        columns = conform(self.schema, table)
        return Block(columns, np.full(table.num_rows, self.time), conform_diffs(diffs, table.num_rows))

    def _store(self, block: Block) -> None:
        """A block as a part."""
        self._parts.append(stored(self.shard, self.state, self.schema, block, self.order))


def slim(state: State) -> State:
    """What tasks need of a state: all that does not grow with the collection, and none of its positions."""
    return replace(
        state, parts=Parts(), leases={}, tokens={}, garbage=(), rollup=None, segments=(), positions={}
    )


def in_task(place: Place, config: Config, state: State) -> Shard:
    """A shard of which tasks know nothing but a state: they store parts, and ask consensus for nothing."""
    machine = Machine(MemoryConsensus(), place.blob(), f"shard/{state.shard}", state=state)
    return Shard(machine, config, describing(machine, config))


def stored(shard: Shard, state: State, schema: Schema, block: Block, order: tuple[int, ...]) -> Part:
    """A block as one part, in the order that is wanted."""
    if order:
        ids = [column.id for column in schema.columns]
        block = in_order(block, [ids.index(id_) for id_ in order])
    return shard.store(state, schema, block, order)


def size_of(block: Block) -> int:
    """Bytes of a block in memory."""
    columns: int = sum(column.nbytes for column in block.columns)
    return columns + 16 * len(block)


def packed(schema: Schema, block: Block) -> bytes:
    """A block as bytes."""
    names = [str(column.id) for column in schema.columns]
    batch = pa.record_batch([*block.columns, pa.array(block.diffs)], names=[*names, _DIFF])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpacked(data: bytes, time: int) -> Block:
    """The block of these bytes."""
    with pa.ipc.open_stream(data) as reader:
        batch = reader.read_next_batch()
    *columns, diffs = batch.columns
    return Block(columns, np.full(batch.num_rows, time), diffs.to_numpy())


def _no_nulls(diffs: pa.Array) -> pa.Array:
    """Diffs, none of which is NULL."""
    if diffs.null_count:
        raise EvaluationError("a diff is NULL", hint="1 appends a row, -1 retracts one")
    return diffs
