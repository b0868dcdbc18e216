"""Rows that end by themselves: the two hidden columns that a temporal transform adds (`plan/temporal.py`).

The option `validity` of a shard names them by column id, `[lower, upper]`. A row is valid at times `lower ≤ t < upper`; NULL is no
bound. The lower bound is applied where the collection is read, by the plan; the upper one here too, before diffs are added up:

    part 1   +r, valid to 90                 dropped from the state at 100 without being read
    part 2   -r, valid to 90;  +s            its retraction is still there, and would make r be there -1 times
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.outcome import to_numpy
from tidegate.shard.merge import Block, concat
from tidegate.shard.schema import Schema

OPTION = "validity"
FOREVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Validity:
    """The ids of the columns that bound a row's validity."""

    lower: int
    upper: int

    @staticmethod
    def of(options: dict[str, Any]) -> Validity | None:
        """What a shard's options say; None: its rows stay."""
        found = options.get(OPTION)
        return None if found is None else Validity(*found)

    def expires(self, schema: Schema, columns: Sequence[pa.Array]) -> int | None:
        """From when on none of the rows is valid; None: not known."""
        upper = columns[[column.id for column in schema.columns].index(self.upper)]
        if upper.null_count or not len(upper):
            return None
        last: int = pc.max(upper).as_py()
        return last


def still_valid(upper: pa.Array, at: int) -> np.ndarray:
    """Which rows have not ended at time `at`."""
    return ends(upper) > at


def ends(upper: pa.Array) -> np.ndarray:
    """When each row ends; `FOREVER` where it does not."""
    return to_numpy(upper, fill=FOREVER)


def lives(block: Block, lower: pa.Array, upper: pa.Array) -> Block:
    """The updates of rows as their validity makes them: each appears at its lower bound, and is retracted at its upper one."""
    starts = np.maximum(block.times, to_numpy(lower, fill=np.iinfo(np.int64).min))
    stops = ends(upper)
    there = np.flatnonzero(starts < stops)
    ending = there[stops[there] != FOREVER]
    on = Block([column.take(pa.array(there)) for column in block.columns], starts[there], block.diffs[there])
    off = Block(
        [column.take(pa.array(ending)) for column in block.columns], stops[ending], -block.diffs[ending]
    )
    return concat([on, off])
