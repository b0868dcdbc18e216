"""The fused task: a split of an upstream becomes parts, and all that leaves the task is a description of them.

    driver    stretch ──▶ jobs: one for each split                                      `jobs`
    task      read ─▶ decode ─▶ transform ─▶ sort, describe, store                      `run`
    driver    ◀── Descriptor(parts, bad records, counts); commits all of them           `settle.py`

A job holds all that a task needs, and can be pickled: the source, its splits, and of each shard the state without its parts. A task
asks the upstream and the blob store, and not the metadata. (ENVELOPE UPSERT must find old rows, and brings what it needs for that:
`Job.stored`.) Here is nothing of Spark: a job runs as well in this process, one after another.

Rows go from an upstream's chunks into their collection's columns without a copy in between, and leave when they fill a part.
Little travels inside of the descriptor, so that a thousand small splits are not a thousand files (`shard/gather.py`).

A job may be run any number of times: parts have random names, and only those in a descriptor that the driver was given count. What
other attempts left is found by `sweep`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tidegate.config import Config
from tidegate.errors import TidegateError
from tidegate.ingest import bad
from tidegate.ingest.definition import Output, Source
from tidegate.ingest.envelope import asked, step
from tidegate.ingest.limits import limited
from tidegate.ingest.made import Counts, Made, Step, Stored
from tidegate.ingest.source import Split, Wanted
from tidegate.ingest.standing import Shards, Stretch
from tidegate.shard.batch import conform
from tidegate.shard.gather import Gathered, Gathering, in_task, slim
from tidegate.shard.schema import Schema
from tidegate.shard.state import State
from tidegate.shard.writer import order_of, schema_of
from tidegate.store.place import Place


@dataclass(frozen=True)
class Job:
    """What one task does."""

    source: Source
    splits: tuple[Split, ...]
    """Read one after another, as if they were one."""
    number: int
    """Which of the jobs of its batch."""
    of: int
    """How many there are."""
    states: dict[str, State]
    """The shards that are to be filled, without their parts."""
    now: int
    place: Place
    config: Config
    stored: Mapping[str, Stored] = field(default_factory=dict)
    """ENVELOPE UPSERT: what finds the old rows of each output, by its shard."""
    stretch: Stretch | None = None
    """Of the first job: what the batch brings."""


@dataclass(frozen=True)
class Descriptor:
    """What a task has done."""

    number: int
    of: int
    gathered: dict[str, Gathered]
    """By shard."""
    schemas: dict[str, int]
    counts: dict[str, Counts]
    """By the shard of each output."""
    keys: dict[str, np.ndarray] = field(default_factory=dict)
    """ENVELOPE UPSERT: by the shard of each output, hashes of the keys that were met."""
    stretch: Stretch | None = None


def jobs(
    source: Source,
    stretch: Stretch,
    shards: Shards,
    place: Place,
    config: Config,
    *,
    stored: Mapping[str, Stored] | None = None,
    as_one: bool = False,
) -> list[Job]:
    """The jobs of a batch; with `as_one` a single one for all splits."""
    splits = source.upstream.splits(stretch.after, stretch.upto)
    _check(splits, stretch)
    # A position may move without a record, and must be kept all the same: then there is one job that reads nothing.
    heaps = [tuple(splits)] if as_one or not splits else [(split,) for split in splits]
    states = {name: slim(shards(name).machine.fetch()) for name in stretch.shards}
    made = [
        Job(source, heap, i, len(heaps), states, stretch.now, place, config, stored or {})
        for i, heap in enumerate(heaps)
    ]
    return [replace(made[0], stretch=stretch.slim()), *made[1:]]


def _check(splits: Sequence[Split], stretch: Stretch) -> None:
    """Sees that the splits of a key whose positions are numbers follow each other, up to where the stretch ends."""
    by_key: dict[str, list[Split]] = {}
    for split in splits:
        if all(isinstance(value, int) for value in (split.start, split.end, stretch.upto.get(split.key))):
            by_key.setdefault(split.key, []).append(split)
    for key, some in by_key.items():
        some.sort(key=lambda split: (split.start, split.end))
        ends = [stretch.after.get(key, some[0].start), *(split.end for split in some)]
        if [split.start for split in some] != ends[:-1] or ends[-1] != stretch.upto[key]:
            raise TidegateError(
                f"the splits of {key} do not tile what is behind {ends[0]} up to {stretch.upto[key]}",
                hint="this is a bug in the upstream; nothing was ingested",
            )


def run(job: Job) -> Descriptor:
    """Does a job, in a task."""
    with limited(job.config):
        return _run(job)


def _run(job: Job) -> Descriptor:
    work = _Work(job)
    included = asked(job.source)
    wanted = [Wanted(output.table, step.decode) for output, step in work.steps]
    for split in job.splits:
        for number, chunk in job.source.upstream.read(split, wanted, included):
            output, step_ = work.steps[number]
            work.put(output, step_.chunk(chunk))
    for output, step_ in work.steps:
        work.put(output, step_.finish())
    return work.done()


class _Work:
    """The rows of one job on their way."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.targets = {name: _gathering(job, state) for name, state in job.states.items()}
        # Whose errors are wanted must be read as well, even if its own rows are there already.
        all_ = job.source.errors in self.targets
        some = [output for output in job.source.outputs if all_ or output.shard in self.targets]
        self.steps: list[tuple[Output, Step]] = [
            (output, step(job.source, output, job.now, job.stored.get(output.shard))) for output in some
        ]
        self.counts = {output.shard: Counts() for output in some}
        self.keys: dict[str, np.ndarray] = {}

    def put(self, output: Output, made: Made) -> None:
        """What a step made of some records."""
        self.counts[output.shard] = self.counts[output.shard].plus(made.counts)
        if made.keys is not None:
            self.keys[output.shard] = made.keys
        target = self.targets.get(output.shard)
        if target is not None and len(made):
            target.put(exact(target.schema, made.columns), made.diffs)
        errors = self.targets.get(self.job.source.errors)
        if errors is not None and made.failures:
            errors.put(bad.rows(output.name, made.failures, self.job.now), None)

    def done(self) -> Descriptor:
        """All parts are stored."""
        job = self.job
        return Descriptor(
            job.number,
            job.of,
            {name: target.finish(job.number) for name, target in self.targets.items()},
            {name: target.schema.id for name, target in self.targets.items()},
            self.counts,
            self.keys,
            job.stretch,
        )


def _gathering(job: Job, state: State) -> Gathering:
    schema = schema_of(state)
    retracts = state.shard != job.source.errors and retracting(job.source)
    order = order_of(state, schema, retracts=retracts)
    return Gathering(in_task(job.place, job.config, state), state, schema, order, max(job.now, state.upper))


def retracting(source: Source) -> bool:
    """Whether a source takes rows away as well."""
    changes = source.kind == "postgres" and not getattr(source.upstream, "append_only", False)
    return source.envelope != "none" or changes


def exact(schema: Schema, columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Columns in the schema's types. What a plan gives is so already, and is not looked at again."""
    if all(
        array.type == column.type.arrow and (column.nullable or not array.null_count)
        for array, column in zip(columns, schema.columns, strict=True)
    ):
        return list(columns)
    return conform(schema, list(columns))
