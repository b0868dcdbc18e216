"""Commits a batch: the parts of all tasks together with the new position.

    commit_batch(source, shards, results)

Each shard gets one log entry with its rows and its new position; the shard of bad records comes first. All entries have the same
time, unless another writer has appended to a shard in the meantime. An entry is written only if the shard is at the position where
the batch begins (`position.py`). So a batch that two processes commit, or that is committed again after a lost response, is
applied once.

| the process is killed | the next process that ingests |
|---|---|
| before any entry | reads the batch again; the parts are orphans |
| between two entries | brings the shards that are behind to the position of the others |
| after all entries, before the upstream is acknowledged | continues; the upstream is acknowledged with the next batch |

**ENVELOPE UPSERT** keeps the last record of each key. If two splits of a batch hold the same key, neither task knows which record
is last: `KeyOverlapError` is raised, and the batch is read again as one split. A topic partitioned by key never needs this.

The entry also deletes the stored rows that the batch replaces, at the positions at which tasks found them. If others have moved or
deleted rows of the same parts since (`RowsMoved`), the entry is not made, and the batch is read again, with the rows where they are
now. After `MAX_LOOKUPS` times their retractions are written instead, which others cannot disturb:

    committed = commit_or_reread(source, planner, results, run_alone)
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tidegate.errors import TidegateError
from tidegate.ingest.batch.planning import BatchPlanner
from tidegate.ingest.batch.position import OpenShard, SourceBatch
from tidegate.ingest.batch.task import IngestTask, TaskResult
from tidegate.ingest.definition import SourceDefinition
from tidegate.ingest.envelopes.output import RecordCounts, sum_counts
from tidegate.storage.shard import AppendOptions, BuiltParts, Shard, State, commit_built_parts, retractions

_BATCHES = logging.getLogger("tidegate.ingest")
MAX_LOOKUPS = 3
"""How often the rows that a batch replaces are looked up with their positions."""


class KeyOverlapError(TidegateError):
    """Two splits hold records of the same key. Users never see this error."""


@dataclass(frozen=True)
class CommittedBatch:
    """The result of a committed batch."""

    batch: SourceBatch
    counts: dict[str, RecordCounts]
    """Record counts by output name. Outputs that already had the batch are left out."""
    parts: int
    at: int
    """The time of its rows."""


def commit_batch(
    source: SourceDefinition, shards: OpenShard, results: Sequence[TaskResult]
) -> CommittedBatch:
    """Commits a batch to its shards; a shard that already has it is left unchanged."""
    batch = _only_batch(results)
    _check_keys(results)
    at = max([batch.now, *(shards(name).machine.fetch().upper for name in batch.shards)])
    counts = {
        output.shard: sum_counts(result.counts.get(output.shard, RecordCounts()) for result in results)
        for output in source.outputs
    }
    failed = RecordCounts(bad=sum(count.bad for count in counts.values()))
    parts = 0
    for name in batch.shards:
        shard_counts = failed if name == source.errors else counts[name]
        gathered = [result.gathered[name] for result in results]
        _commit(shards(name), gathered, results[0].schemas[name], batch, shard_counts, at)
        parts += sum(len(written.parts) for written in gathered)
        parts += any(written.inline for written in gathered)
    committed = {
        output.name: counts[output.shard] for output in source.outputs if output.shard in batch.shards
    }
    return CommittedBatch(batch, committed, parts, at)


def commit_or_reread(
    source: SourceDefinition,
    planner: BatchPlanner,
    results: Sequence[TaskResult],
    run_alone: Callable[[IngestTask], TaskResult],
) -> CommittedBatch:
    """Commits a batch; reads it again, as one task, if splits share keys or stored rows were moved."""
    lookups = 1
    while True:
        try:
            return commit_batch(source, planner.shards, results)
        except (KeyOverlapError, retractions.RowsMoved) as error:
            lookups += isinstance(error, retractions.RowsMoved)
        batch = _only_batch(results)
        planner.close()
        (task,) = planner.tasks(batch, as_one=True, by_position=lookups <= MAX_LOOKUPS)
        try:
            results = [run_alone(task)]
        finally:
            planner.close()


def _only_batch(results: Sequence[TaskResult]) -> SourceBatch:
    """Returns the batch of these results; raises unless each of its tasks is present exactly once."""
    numbers = sorted(result.number for result in results)
    batches = [result.batch for result in results if result.batch is not None]
    if len(batches) != 1 or numbers != list(range(results[0].task_count)):
        raise TidegateError(
            f"a batch has {results[0].task_count if results else 0} tasks, but these returned results: {numbers}",
            hint="nothing was committed; the batch is read again",
        )
    return batches[0]


def _check_keys(results: Sequence[TaskResult]) -> None:
    """Raises if two splits hold the same key."""
    for shard in {shard for result in results for shard in result.keys}:
        keys = [result.keys[shard] for result in results if shard in result.keys]
        if len(keys) > 1 and len(np.unique(np.concatenate(keys))) < sum(len(np.unique(k)) for k in keys):
            raise KeyOverlapError("two splits hold records of one key")


def _commit(
    shard: Shard,
    gathered: Sequence[BuiltParts],
    schema: int,
    batch: SourceBatch,
    counts: RecordCounts,
    at: int,
) -> None:
    def time(state: State) -> int:
        return max(at, state.upper)

    options = AppendOptions(
        # The position shows whether the batch was committed before; the token only covers a lost response.
        token=f"ingest:{batch.becomes}:{secrets.token_hex(8)}",
        schema=schema,
        at=time,
        positions=partial(batch.positions, counts=counts),
        check=batch.check,
    )
    commit_built_parts(shard, gathered, options)


def count_bad_records(shard: Shard) -> int:
    """Counts the rows of the shard of bad records, from its metadata alone."""
    tables = shard.machine.fetch().parts.tables(["diffs"])
    return sum(int(np.sum(table.column("diffs").to_numpy())) for table in tables)


def log_batch(committed: CommittedBatch, seconds: float) -> None:
    """Logs a batch that was committed; `seconds` is how long the commit took."""
    counts = sum_counts(committed.counts.values())
    fields = {"batch": committed.batch.becomes, "at": committed.at, "parts": committed.parts}
    _BATCHES.info(
        "batch",
        extra={"tidegate": {**fields, **counts._asdict(), "ms": round(1000 * seconds, 3)}},
    )
