"""Looks up the stored rows of ENVELOPE UPSERT keys, as they were when a batch began.

    with open_snapshot(shard) as pinned:                  the driver, at the position that the batch starts from
        stored = SnapshotRowLookup(pinned, place, now)    pickled: the parts as a table, no lease, no log
        stored.rows(keys)                                 in a task: `key IN (…)`, by the same scan as any query

Parts and pages whose statistics exclude all keys are not read; in the others the key column is read first
(`query/late/staged_scan.py`). So the cost of a batch depends on how many parts its keys are spread over. It is least if the
collection is clustered by the key, which is the default. The driver keeps the snapshot open until the tasks are finished: its lease
protects the parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.config import Config
from tidegate.expr.model import Column, Literal, build, types
from tidegate.ingest.definition import UPSERT_KEY
from tidegate.plan import MapFilterProject
from tidegate.query import ResultShape, ScanMetrics, ScanRequest
from tidegate.query.paths import local
from tidegate.query.prune import prune
from tidegate.storage import Location
from tidegate.storage.part import Block
from tidegate.storage.shard import Snapshot, State, offline_snapshot, open_in_task

KEYS_PER_LOOKUP = 100_000
"""The number of keys that one scan looks up."""


class SnapshotRowLookup:
    """Looks up the rows of a snapshot by key."""

    def __init__(self, snapshot: Snapshot, place: Location, now: int) -> None:
        """`now` is the batch's time; rows that have expired by then are not returned, as no query sees them."""
        self.snapshot, self.place, self.now = snapshot, place, max(now, snapshot.as_of)
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
        )

    def rows(self, keys: pa.Array) -> Block:
        """Returns the rows of these keys with all columns, each row as often as it is stored."""
        columns = self.snapshot.schema.columns
        pieces = [[pa.array([], column.type.arrow) for column in columns]]
        for begin in range(0, len(keys), KEYS_PER_LOOKUP):
            request = self._request(keys.slice(begin, KEYS_PER_LOOKUP))
            pruned = prune(self.snapshot, request.plan, self.now, use=request.config.stats_filter)
            pieces += [list(arrays) for arrays, _ in local.stream(request, pruned, self.scan)]
        joined = [pa.concat_arrays(piece) for piece in zip(*pieces, strict=True)]
        return Block(joined, np.zeros(len(joined[0]), np.int64), np.ones(len(joined[0]), np.int64))

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


def _unpickle_lookup(
    state: State, parts: pa.Table, place: Location, config: Config, as_of: int, now: int
) -> SnapshotRowLookup:
    """Restores a lookup in another process."""
    shard = open_in_task(place, config, state)
    return SnapshotRowLookup(offline_snapshot(shard, state, parts, as_of), place, now)
