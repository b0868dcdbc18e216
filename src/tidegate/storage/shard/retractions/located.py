"""Deletions of rows that were located in a state, and whether they still fit a newer one.

    found = LocatedDeletions.of(snapshot.state, deletions_by_part(parts, times, positions, diffs))      in a task
    every = LocatedDeletions.join(found of all tasks)                                                   in the driver
    every.check(newest)                                   `RowsMoved` if the positions may be those of other rows by now

It can be pickled, and does not hold the state: of each part it knows how many rows were deleted when it was read. Rows are never
undeleted. So if the part is still there and as many are deleted, these are the same rows, and ours are not among them:

| meanwhile | |
|---|---|
| others append | the deletions fit |
| a part was compacted | its rows are elsewhere: `RowsMoved` |
| another writer deletes rows of the part | they may be ours: `RowsMoved` |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import TidegateError
from tidegate.storage.part.deletion_records import merge_records
from tidegate.storage.part.deletions import NEVER
from tidegate.storage.shard.state import State


class RowsMoved(TidegateError):  # noqa: N818  # reads as what it is; users never see it
    """The parts with the rows to delete were replaced, or other rows of them deleted."""


@dataclass(frozen=True, eq=False)
class LocatedDeletions:
    """Rows to delete, one record for each part, by rising id."""

    records: pa.Table
    """As in `storage/part/deletions.py`; their time is set when they are committed."""
    deleted: np.ndarray
    """Of each of these parts, how many rows were deleted in the state that they were located in."""
    repaired: int
    """The `repaired` of that state."""

    @staticmethod
    def of(state: State, records: pa.Table) -> LocatedDeletions:
        """Deletions of rows that were located in a state: at most one record for each part."""
        records = records.take(pc.sort_indices(records.column("part")))
        ids = records.column("part").to_numpy()
        return LocatedDeletions(records, state.parts.deletions.totals(ids, NEVER)[0], state.repaired)

    @staticmethod
    def join(several: Iterable[LocatedDeletions]) -> LocatedDeletions | None:
        """The deletions of several tasks that read the same state; None if there are none."""
        located = [one for one in several if one.records.num_rows]
        if len(located) < 2:
            return located[0] if located else None
        ids = np.concatenate([one.records.column("part").to_numpy() for one in located])
        _, first = np.unique(ids, return_index=True)
        deleted = np.concatenate([one.deleted for one in located])[first]
        return LocatedDeletions(merge_records([one.records for one in located]), deleted, located[0].repaired)

    def check(self, newest: State) -> None:
        """Raises `RowsMoved` if the rows may be elsewhere by now, or deleted already."""
        ids = self.records.column("part").to_numpy()
        there = newest.repaired == self.repaired and newest.parts.holds(ids)
        if not there or (newest.parts.deletions.totals(ids, NEVER)[0] != self.deleted).any():
            raise RowsMoved("the rows to be deleted were moved meanwhile")
