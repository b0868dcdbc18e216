"""Retractions of a batch to be appended become deletions, if their rows are found cheaply.

    batch = as_deletions(machine, config, state, block)       what to store of the block, and what to delete instead
    shard.commit_batch(parts of batch.rows, batch, …)

    +d -b -x      b is at position 1 of part 1, x is nowhere
    rows          +d -x
    deletions     part 1, position 1

A batch with many retractions, or one whose rows could be in many parts, is stored as it is: readers add up its rows, and the next
compaction settles them (`storage/maintain/settle.py`). The same is done if the rows cannot be read now, or if others change the
parts that hold them before the entry is made.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np

from tidegate.config import Config
from tidegate.errors import TidegateError
from tidegate.storage.part.merge import Block, cancel_out, concat
from tidegate.storage.part.row_keys import has_ambiguous_equality
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.retractions.locate import LookupLimit, locate
from tidegate.storage.shard.retractions.located import LocatedDeletions
from tidegate.storage.shard.state import State

MAX_ROWS = 100_000
"""Retractions that are looked up at an append: their keys and rows are in memory."""
MAX_PARTS = 64
"""Parts that are opened for it: each is a request or two, one after the other."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class BatchUpdates:
    """What a batch changes."""

    rows: Block
    """The updates to store."""
    deletions: LocatedDeletions | None = None
    """The rows to delete."""


def as_deletions(machine: Machine, config: Config, state: State, block: Block) -> BatchUpdates:
    """The batch with its retractions as deletions, as far as their rows are found cheaply.

    The block has the columns of the state's schema, and is of one time, after all that is stored.
    """
    retracts = block.diffs < 0
    count = int(np.count_nonzero(retracts))
    if not 0 < count <= MAX_ROWS or not config.retraction_lookup_bytes or not state.parts.count:
        return BatchUpdates(block)
    added, rows = block.take(~retracts), block.take(retracts)
    if has_ambiguous_equality(
        block.columns
    ):  # otherwise a retraction may take a stored row that is only equal
        added, rows = cancel_out(added, rows)
    limit = LookupLimit(MAX_PARTS, config.retraction_lookup_bytes)
    try:
        located = locate(machine, state, rows, use_statistics=config.stats_filter, limit=limit, newest=True)
    except TidegateError as error:
        logger.warning("retractions of %s are not looked up: %s", state.shard, error.message)
        return BatchUpdates(block)
    if located is None or not located.deletions.num_rows:
        return BatchUpdates(block)
    pending = replace(rows, diffs=located.left).take(located.left < 0)
    rest = concat([added, pending, located.rest])
    return BatchUpdates(rest, LocatedDeletions.of(state, located.deletions))
