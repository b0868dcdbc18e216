"""Looks up the stored rows of ENVELOPE UPSERT keys, as they were when a batch began.

    with open_snapshot(shard) as pinned:                  the driver, at the position that the batch starts from
        stored = SnapshotRowLookup(pinned, place, now)    pickled: the parts as a table, no lease, no log
        old = stored.rows(keys)                           in a task: `key IN (…)`, by the same scan as any query
        stored.deletions(old)                             their parts and positions, for the entry that replaces them

Parts and pages whose statistics exclude all keys are not read. In the others the key column is read first
(`query/late/staged_scan.py`), and compared with the keys within the part's bounds (`query/prune/long_lists.py`). So the cost of a
batch depends on how many parts its keys are spread over. It is least if the collection is clustered by the key, which is the
default. The driver keeps the snapshot open until the tasks are finished: its lease protects the parts.

Rows are looked up with their positions, as DELETE and UPDATE do. Where retractions are waiting to meet their rows, rows have no
positions of their own: then they are looked up by value, and replaced by retractions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.config import Config
from tidegate.expr.model import Column, Literal, build, types
from tidegate.ingest.definition import UPSERT_KEY
from tidegate.ingest.envelopes.output import StoredRows
from tidegate.plan import MapFilterProject
from tidegate.query import ResultShape, ScanMetrics, ScanRequest
from tidegate.query.late import Taken
from tidegate.query.paths import local
from tidegate.query.prune import prune
from tidegate.storage import Location
from tidegate.storage.part import Block, concat, deletion_records
from tidegate.storage.shard import Snapshot, State, offline_snapshot, open_in_task, retractions

KEYS_PER_LOOKUP = 100_000
"""The number of keys that one scan looks up."""


class SnapshotRowLookup:
    """Looks up the rows of a snapshot by key."""

    def __init__(
        self, snapshot: Snapshot, place: Location, now: int, *, by_position: bool | None = None
    ) -> None:
        """`now` is the batch's time; rows that have expired by then are not returned, as no query sees them.

        With `by_position`, rows come with their positions, if they have any; None: as `delete_by_position` says.
        """
        self.snapshot, self.place, self.now = snapshot, place, max(now, snapshot.as_of)
        config = snapshot.shard.config
        self.by_position = config.delete_by_position if by_position is None else by_position
        self.scan = ScanMetrics()
        """Counts what the lookups have read so far."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the state without its parts, and a table of the parts that may hold rows."""
        state, config = self.snapshot.state.without_parts(), self.snapshot.shard.config
        return _unpickle_lookup, (
            state,
            self.snapshot.rows_of(None),
            self.place,
            config,
            self.snapshot.as_of,
            self.now,
            self.by_position,
        )

    def rows(self, keys: pa.Array) -> StoredRows:
        """Returns the rows of these keys with all columns."""
        none = np.zeros(0, np.int64)
        empty = [pa.array([], column.type.arrow) for column in self.snapshot.schema.columns]
        pieces = [StoredRows(Block(empty, none, none), none, none)]
        keys = keys.take(pc.array_sort_indices(keys))  # neighbours are in the same parts
        for begin in range(0, len(keys), KEYS_PER_LOOKUP):
            request = self._request(keys.slice(begin, KEYS_PER_LOOKUP))
            pruned = prune(self.snapshot, request.plan, self.now, use=request.config.stats_filter)
            if self.by_position and not pruned.retracts:
                pieces += map(_located, local.locate_rows(request, pruned, self.scan))
            else:
                pieces += [
                    StoredRows(_block(columns, np.ones(rows, np.int64)))
                    for columns, rows in local.stream(request, pruned, self.scan)
                ]
        rows = concat([piece.rows for piece in pieces])
        if any(piece.parts is None for piece in pieces):
            return StoredRows(rows)
        parts, positions = (
            np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("parts", "positions")
        )
        return StoredRows(rows, parts, positions)

    def deletions(self, rows: StoredRows) -> retractions.LocatedDeletions:
        """Returns the deletions of rows that were looked up with their positions."""
        assert rows.parts is not None
        assert rows.positions is not None
        times = np.zeros(len(rows), np.int64)
        records = deletion_records.deletions_by_part(rows.parts, times, rows.positions, rows.rows.diffs)
        return retractions.LocatedDeletions.of(self.snapshot.state, records)

    def _request(self, keys: pa.Array) -> ScanRequest:
        snapshot = self.snapshot
        columns, options = snapshot.schema.columns, snapshot.state.options
        place = next(i for i, column in enumerate(columns) if column.id == options[UPSERT_KEY])
        offsets = pa.array([0, len(keys)], pa.int32())
        key_list = pa.ListArray.from_arrays(offsets, keys).cast(types.array(types.BYTEA).arrow)[0]
        condition = build.call("in", Column(place, types.BYTEA), Literal(key_list, types.array(types.BYTEA)))
        plan = MapFilterProject.identity([column.type for column in columns]).filter(condition)
        if snapshot.validity is not None:
            _, unexpired = snapshot.validity.conditions(snapshot.schema)
            plan = plan.filter(unexpired)
        names = tuple(column.name for column in columns)
        config = snapshot.shard.config
        return ScanRequest(snapshot, plan.at(self.now).optimise(), names, ResultShape(), self.now, config)


def _located(taken: Taken) -> StoredRows:
    """The rows of one part, with their positions."""
    assert taken.positions is not None
    diffs = np.ones(taken.rows, np.int64) if taken.diffs is None else taken.diffs
    return StoredRows(_block(taken.columns, diffs), np.full(taken.rows, taken.part.id), taken.positions)


def _block(columns: list[pa.Array], diffs: np.ndarray) -> Block:
    return Block(columns, np.zeros(len(diffs), np.int64), diffs)


def _unpickle_lookup(
    state: State,
    parts: pa.Table,
    place: Location,
    config: Config,
    as_of: int,
    now: int,
    by_position: bool,
) -> SnapshotRowLookup:
    """Restores a lookup in another process."""
    shard = open_in_task(place, config, state)
    snapshot = offline_snapshot(shard, state, parts, as_of)
    return SnapshotRowLookup(snapshot, place, now, by_position=by_position)
