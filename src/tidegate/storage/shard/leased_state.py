"""A state of a shard that a lease protects: what a snapshot and a feed of changes have in common.

wait_for(shard, lease, upper, timeout_ms)     until the shard is complete up to a time
LeasedState(shard, lease)                     its columns, its parts, and the rows of a part
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from tidegate.errors import MissingObject, StoreError, TimeError
from tidegate.storage.part.merge import Block
from tidegate.storage.part.part import Part
from tidegate.storage.part.part_file import PartFile
from tidegate.storage.part.parts_table import parts_from_table
from tidegate.storage.part.updates import blocks
from tidegate.storage.shard.leases.lease import Lease
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.validity import Validity, visible_columns, visible_names

POLL_S = 0.02
BLOCK = 32 << 20
"""Bytes of a block of a part's rows, about: where they are wide it has fewer of them."""
INFLATION = 4
"""Bytes of a row in memory for each in the file, as a guess."""


def wait_for(
    shard: Shard,
    lease: Lease,
    upper: int,
    timeout_ms: int | None,
    check: Callable[[], None] | None = None,
) -> None:
    """Waits until the shard is complete up to `upper`, and lets the lease know that state."""
    timeout = shard.config.as_of_timeout_ms if timeout_ms is None else timeout_ms
    end = time.monotonic() + timeout / 1000
    try:
        while lease.state.upper < upper:
            if time.monotonic() >= end:
                raise TimeError(
                    f"cannot read at time {upper - 1} yet: the collection is complete up to {lease.state.upper}",
                    hint=f"waited for {timeout} ms; append something, or ask for a time below {lease.state.upper}",
                )
            time.sleep(min(POLL_S, timeout / 1000))
            if check is not None:
                check()
            lease.keep()
            lease.state = shard.machine.fetch()
    except BaseException:
        lease.close()
        raise


class LeasedState:
    """What snapshots and changes share: a state that is held, and its parts as streams."""

    def __init__(self, shard: Shard, lease: Lease) -> None:
        self.shard, self.lease, self.state = shard, lease, lease.state
        self.schema = self.state.schema
        self.validity = Validity.of(self.state.options)
        self.labels = visible_names(self.schema, self.state.options)

    def close(self) -> None:
        """Nothing can be read from here on, and nothing is kept for it."""
        self.lease.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open_file(self, part: Part) -> PartFile:
        """The file of a part, as this state's schema reads it."""
        return self.shard.machine.files.open(part, self.schema)

    def _ids(self, columns: Sequence[str] | None) -> list[int]:
        if columns is None:
            return [column.id for column in visible_columns(self.schema, self.state.options)]
        return [self.schema.find(name).id for name in columns]

    def _names(self, ids: Sequence[int]) -> list[str]:
        names = {column.id: column.name for column in self.schema.columns}
        return [names[id_] for id_ in ids]

    def _select(self, keep: Callable[[pa.Table], pa.Array]) -> Iterator[Part]:
        """The parts that pass, found among all of them without a loop."""
        tables = self.state.parts.tables(["first", "last", "expires"])
        places = [np.flatnonzero(keep(table).to_numpy()) for table in tables]
        yield from parts_from_table(self.state.parts.pick(places))

    def _blocks(
        self, part: Part, ids: Sequence[int], rows: int = 0, *, ranged: bool = False
    ) -> Iterator[Block]:
        rows = _fitting(part, rows or self.shard.config.batch_rows)
        if self.lease.closed:
            raise StoreError("what is read was closed", hint="read inside of the `with`, or before `close()`")
        try:
            for block in blocks(self.shard.machine.objects, part, self.schema, ids, rows, ranged=ranged):
                self.lease.keep()
                yield block
        except MissingObject as error:
            raise self.lease.vanished(error) from None


def record_batch(columns: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """Columns as a batch, which has its rows also without columns."""
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


def _fitting(part: Part, rows: int) -> int:
    """So many rows of a part, or as many as fit a block."""
    return min(rows, max(1024, BLOCK * part.rows // max(1, INFLATION * part.size)))
