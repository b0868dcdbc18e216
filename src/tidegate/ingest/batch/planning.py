"""Plans the batches of a source one after another: where each ends, and the tasks that read it.

    planner = BatchPlanner(source, shards, place, config, clock, once=True)
    while (tasks := planner.next_tasks()) is not None:
        results = [run_task(task) for task in tasks]             here, or as tasks of Spark
        commit_batch(source, shards, results)

The planner holds no durable state: for each batch it reads the source's position from the shards. It acknowledges the position that
all shards have reached before it asks the upstream for more, and also at the start, since a process that was killed after a commit
could not do so. With `once` it ends at the position that the upstream had at the start, so a producer that never stops does not
keep it running.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from functools import cache

from tidegate.clock import Clock
from tidegate.config import Config
from tidegate.ingest.batch.position import (
    OpenShard,
    Positions,
    SourceBatch,
    committed_position,
    have_reached,
    initialize_positions,
    next_batch,
    read_positions,
)
from tidegate.ingest.batch.task import IngestTask, plan_tasks
from tidegate.ingest.definition import SourceDefinition
from tidegate.ingest.envelopes.output import StoredRowLookup
from tidegate.ingest.protocol import BatchLimit, UpstreamPosition
from tidegate.storage import Location
from tidegate.storage.shard import open_snapshot

MAX_JOINED_RECORDS = 1_000_000
"""Records of a batch whose splits are read as one: the last record of each key is in memory."""


class BatchPlanner:
    """Plans the batches of one source."""

    def __init__(
        self,
        source: SourceDefinition,
        shards: OpenShard,
        place: Location,
        config: Config,
        clock: Clock,
        *,
        once: bool,
    ) -> None:
        self.source, self.place, self.config, self.clock = source, place, config, clock
        self.shards: OpenShard = cache(shards)
        """Opens each shard of the source once."""
        self.once = once
        self._target: UpstreamPosition | None = None
        self._acknowledged: UpstreamPosition | None = None
        self._started = False
        self._snapshots = ExitStack()

    def next_tasks(self, *, in_turn: bool = False) -> list[IngestTask] | None:
        """Returns the tasks of the next batch, or None if there is nothing to do now.

        If tasks run `in_turn`, those of a small batch of ENVELOPE UPSERT are one: each would read the keys of the stored rows anew.
        """
        positions = self._begin()
        self.close()
        self._acknowledge(positions)
        if self._target is not None and have_reached(positions, self._target):
            return None
        batch = next_batch(self.source, positions, self.config, self.clock.now())
        if batch is None:
            return None
        as_one = in_turn and self.source.envelope == "upsert" and _count_records(batch) <= MAX_JOINED_RECORDS
        return self.tasks(batch, as_one=as_one)

    def _begin(self) -> Positions:
        """Returns the positions; the first call initializes them and, with `once`, sets the target."""
        if self._started:
            return read_positions(self.source, self.shards)
        positions = initialize_positions(self.source, self.shards)
        if self.once:
            self._target = self.source.upstream.latest(committed_position(positions), BatchLimit())
        self._started = True
        return positions

    def tasks(
        self, batch: SourceBatch, *, as_one: bool = False, by_position: bool = True
    ) -> list[IngestTask]:
        """Returns the tasks of a batch; pins the old rows they look up until `close` or the next batch.

        Without `by_position` old rows are retracted by their values, wherever they may be moved meanwhile.
        """
        stored: dict[str, StoredRowLookup] = {}
        if self.source.envelope == "upsert":
            # This imports all of query/, which other sources do not need.
            from tidegate.ingest.batch.upsert_lookup import SnapshotRowLookup

            for output in self.source.outputs:
                if output.shard in batch.shards or self.source.errors in batch.shards:
                    pinned = self._snapshots.enter_context(open_snapshot(self.shards(output.shard)))
                    stored[output.shard] = SnapshotRowLookup(
                        pinned,
                        self.place,
                        batch.now,
                        by_position=by_position and self.config.delete_by_position,
                    )
        return plan_tasks(
            self.source, batch, self.shards, self.place, self.config, stored=stored, as_one=as_one
        )

    def close(self) -> None:
        """Releases the snapshots that the tasks of the last batch needed."""
        self._snapshots.close()

    def _acknowledge(self, positions: Positions) -> None:
        """Acknowledges the position that all shards have reached; the upstream may discard older records."""
        at = committed_position(positions)
        if at != self._acknowledged:
            self.source.upstream.acknowledge(at)
            self._acknowledged = at


def _count_records(batch: SourceBatch) -> float:
    """The number of records of a batch whose positions are offsets; infinite if they are not."""
    ends = [(batch.after.get(key, 0), end) for key, end in batch.upto.items()]
    if not all(isinstance(value, int) for pair in ends for value in pair):
        return math.inf
    return float(sum(end - begin for begin, end in ends))
