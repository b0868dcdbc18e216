"""Retractions of a batch to be appended become deletions, if their rows are found cheaply.

    batch = as_deletions(machine, config, state, block)       what to store of the block, and what to delete instead
    shard.commit(parts of batch.rows, …, deletions=…, check=batch.check)

    +d -b -x      b is at position 1 of part 1, x is nowhere
    rows          +d -x
    deletions     part 1, position 1

A batch with many retractions, or one whose rows could be in many parts, is stored as it is: readers add up its rows, and the next
compaction settles them (`storage/maintain/settle.py`). The same is done if the rows cannot be read now, or if others change the
parts that hold them before the entry is made.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tidegate.config import Config
from tidegate.errors import TidegateError
from tidegate.storage.part.deletions import DELETIONS_SCHEMA
from tidegate.storage.part.merge import Block, concat
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.retractions.locate import LookupLimit, deletions_unchanged, locate
from tidegate.storage.shard.state import State

MAX_ROWS = 100_000
"""Retractions that are looked up at an append: their keys and rows are in memory."""
MAX_PARTS = 64
"""Parts that are opened for it: each is a request or two, one after the other."""

logger = logging.getLogger(__name__)


class RowsMoved(TidegateError):  # noqa: N818  # reads as what it is; never leaves this room
    """The parts with the rows to delete were replaced, or other rows of them deleted."""


@dataclass(frozen=True, eq=False)
class BatchUpdates:
    """What a batch changes."""

    rows: Block
    """The updates to store."""
    deletions: pa.Table = field(default_factory=DELETIONS_SCHEMA.empty_table)
    """The rows to delete; their time is set when they are committed."""
    read: State | None = None
    """The state that these were found in."""

    def check(self, state: State) -> None:
        """Raises `RowsMoved` if the rows to delete may be elsewhere by now, or deleted already."""
        ids = np.unique(self.deletions.column("part").to_numpy())
        if self.read is not None and not deletions_unchanged(self.read, state, ids):
            raise RowsMoved("the rows to be deleted were moved meanwhile")


def as_deletions(machine: Machine, config: Config, state: State, block: Block) -> BatchUpdates:
    """The batch with its retractions as deletions, as far as their rows are found cheaply.

    The block has the columns of the state's schema, and is of one time, after all that is stored.
    """
    retracts = block.diffs < 0
    count = int(np.count_nonzero(retracts))
    if not 0 < count <= MAX_ROWS or not config.retraction_lookup_bytes or not state.parts.count:
        return BatchUpdates(block)
    rows, limit = block.take(retracts), LookupLimit(MAX_PARTS, config.retraction_lookup_bytes)
    try:
        located = locate(machine, state, rows, use_statistics=config.stats_filter, limit=limit, newest=True)
    except TidegateError as error:
        logger.warning("retractions of %s are not looked up: %s", state.shard, error.message)
        return BatchUpdates(block)
    if located is None or not located.deletions.num_rows:
        return BatchUpdates(block)
    pending = replace(rows, diffs=located.left).take(located.left < 0)
    return BatchUpdates(concat([block.take(~retracts), pending, located.rest]), located.deletions, state)
