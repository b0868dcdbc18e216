"""The ingest task: reads a split, decodes and transforms its records, and writes parts.

    driver    batch ──▶ tasks: one for each split                                       `plan_tasks`
    task      read ─▶ decode ─▶ transform ─▶ sort, collect statistics, write            `run_task`
    driver    ◀── TaskResult(parts, bad records, counts); commits all of them           `commit.py`

Only a description of the parts leaves the task. An `IngestTask` can be pickled and holds everything needed: the source, its splits,
and the state of each shard without its parts. A task accesses the upstream and the blob store, not the metadata. (ENVELOPE UPSERT
looks up old rows; `IngestTask.stored` holds what it needs for that.) This module does not depend on Spark: tasks also run in this
process, one after another.

Rows go from the upstream's chunks into the columns of their collection without a copy in between, and are written when they fill a
part. A small number of rows travels inside the result, so that a thousand small splits are not a thousand files
(`storage/shard/part_builder.py`). So do retractions, and the positions of stored rows that ENVELOPE UPSERT replaces: the driver
deletes these rows in the entry that adds the new ones.

A task may run any number of times: parts have random names, and only those in the result that the driver receives are committed.
`sweep` deletes the parts of other attempts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tidegate.config import Config
from tidegate.errors import TidegateError
from tidegate.ingest.batch.position import OpenShard, SourceBatch
from tidegate.ingest.definition import SourceDefinition, SourceOutput
from tidegate.ingest.envelopes.bad_records import error_rows
from tidegate.ingest.envelopes.output import (
    EnvelopeOutput,
    EnvelopeStep,
    RecordCounts,
    StoredRowLookup,
    upstream_columns,
)
from tidegate.ingest.envelopes.step import envelope_step
from tidegate.ingest.formats.limits import apply_limits
from tidegate.ingest.protocol import InputSplit, ReadRequest
from tidegate.storage import Location
from tidegate.storage.part import Schema, conform
from tidegate.storage.shard import (
    BuiltParts,
    PartBuilder,
    State,
    open_in_task,
    retractions,
    sort_order,
)


@dataclass(frozen=True)
class IngestTask:
    """The work of one task."""

    source: SourceDefinition
    splits: tuple[InputSplit, ...]
    """Read one after another, like a single split."""
    number: int
    """Its number among the tasks of the batch."""
    task_count: int
    """How many tasks the batch has."""
    states: dict[str, State]
    """The shards to write to, without their parts."""
    now: int
    place: Location
    config: Config
    stored: Mapping[str, StoredRowLookup] = field(default_factory=dict)
    """ENVELOPE UPSERT: finds the old rows of each output, by its shard."""
    batch: SourceBatch | None = None
    """The batch; set on the first task only."""


@dataclass(frozen=True)
class TaskResult:
    """The parts that a task has written, the rows that it replaces, and the counts of its records."""

    number: int
    task_count: int
    gathered: dict[str, BuiltParts]
    """By shard."""
    schemas: dict[str, int]
    counts: dict[str, RecordCounts]
    """By the shard of each output."""
    keys: dict[str, np.ndarray] = field(default_factory=dict)
    """ENVELOPE UPSERT: hashes of the keys that the splits hold, by the shard of each output."""
    batch: SourceBatch | None = None


def plan_tasks(
    source: SourceDefinition,
    batch: SourceBatch,
    shards: OpenShard,
    place: Location,
    config: Config,
    *,
    stored: Mapping[str, StoredRowLookup] | None = None,
    as_one: bool = False,
) -> list[IngestTask]:
    """Plans the tasks of a batch, one for each split; with `as_one` a single task for all splits."""
    splits = source.upstream.splits(batch.after, batch.upto)
    _check_splits(splits, batch)
    # A position may advance without any record, and must still be committed: then one task reads nothing.
    groups = [tuple(splits)] if as_one or not splits else [(split,) for split in splits]
    states = {name: shards(name).machine.fetch().without_parts() for name in batch.shards}
    tasks = [
        IngestTask(source, group, i, len(groups), states, batch.now, place, config, stored or {})
        for i, group in enumerate(groups)
    ]
    return [replace(tasks[0], batch=batch.slim()), *tasks[1:]]


def _check_splits(splits: Sequence[InputSplit], batch: SourceBatch) -> None:
    """Checks that the splits of each numeric key follow each other up to the end of the batch."""
    by_key: dict[str, list[InputSplit]] = {}
    for split in splits:
        if all(isinstance(value, int) for value in (split.start, split.end, batch.upto.get(split.key))):
            by_key.setdefault(split.key, []).append(split)
    for key, ranges in by_key.items():
        ranges.sort(key=lambda split: (split.start, split.end))
        ends = [batch.after.get(key, ranges[0].start), *(split.end for split in ranges)]
        if [split.start for split in ranges] != ends[:-1] or ends[-1] != batch.upto[key]:
            raise TidegateError(
                f"the splits of {key} do not cover the range from {ends[0]} to {batch.upto[key]}",
                hint="this is a bug in the upstream; nothing was ingested",
            )


def run_task(task: IngestTask) -> TaskResult:
    """Reads the splits of a task and writes their rows."""
    with apply_limits(task.config):
        writer = _TaskWriter(task)
        included = upstream_columns(task.source)
        requests = [ReadRequest(output.table, step.decode) for output, step in writer.steps]
        for split in task.splits:
            for number, chunk in task.source.upstream.read(split, requests, included):
                output, step = writer.steps[number]
                writer.write(output, step.chunk(chunk))
        for output, step in writer.steps:
            writer.write(output, step.finish())
        return writer.finish()


class _TaskWriter:
    """Collects the rows of one task, and writes them as parts."""

    def __init__(self, task: IngestTask) -> None:
        self.task = task
        self.targets = {name: _part_builder(task, state) for name, state in task.states.items()}
        # To collect bad records, an output must be read even if its own rows are committed already.
        collects_errors = task.source.errors in self.targets
        outputs = [o for o in task.source.outputs if collects_errors or o.shard in self.targets]
        self.steps: list[tuple[SourceOutput, EnvelopeStep]] = [
            (output, envelope_step(task.source, output, task.now, task.stored.get(output.shard)))
            for output in outputs
        ]
        self.counts = {output.shard: RecordCounts() for output in outputs}
        self.keys: dict[str, np.ndarray] = {}
        self.deletions: dict[str, retractions.LocatedDeletions] = {}

    def write(self, output: SourceOutput, rows: EnvelopeOutput) -> None:
        """Adds the output of an envelope step to the parts and counts."""
        self.counts[output.shard] = self.counts[output.shard].plus(rows.counts)
        if rows.keys is not None:
            self.keys[output.shard] = rows.keys
        if rows.deletions is not None:
            self.deletions[output.shard] = rows.deletions
        target = self.targets.get(output.shard)
        if target is not None and len(rows):
            target.put(conform_columns(target.schema, rows.columns), rows.diffs)
        errors = self.targets.get(self.task.source.errors)
        if errors is not None and rows.failures:
            errors.put(error_rows(output.name, rows.failures, self.task.now), None)

    def finish(self) -> TaskResult:
        """Writes the remaining rows and returns the result."""
        task = self.task
        gathered = {
            name: replace(target.finish(task.number), deletions=self.deletions.get(name))
            for name, target in self.targets.items()
        }
        return TaskResult(
            task.number,
            task.task_count,
            gathered,
            {name: target.schema.id for name, target in self.targets.items()},
            self.counts,
            self.keys,
            task.batch,
        )


def _part_builder(task: IngestTask, state: State) -> PartBuilder:
    schema = state.schema
    retracts = state.shard != task.source.errors and task.source.retracts
    order = sort_order(state, schema, retracts=retracts)
    return PartBuilder(
        open_in_task(task.place, task.config, state),
        state,
        schema,
        order,
        max(task.now, state.upper),
        retractions_apart=task.config.delete_by_position and task.config.retraction_lookup_bytes > 0,
    )


def conform_columns(schema: Schema, columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Converts columns to the schema's types; columns that have them already are returned unchanged."""
    if all(
        array.type == column.type.arrow and (column.nullable or not array.null_count)
        for array, column in zip(columns, schema.columns, strict=True)
    ):
        return list(columns)
    return conform(schema, list(columns))
