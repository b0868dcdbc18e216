"""`df.write.format("tidegate")`: tasks write parts, and one log entry appends all of them.

| process | does | |
|---|---|---|
| driver | plans: finds the collection, checks that the columns fit, chooses a token | `plan_write` |
| tasks | turn rows into parts; a few rows travel to the driver as a message | `storage/shard/part_builder.py` |
| driver | turns these few rows into parts too; one append, all or nothing | `storage/shard/commit.py` |

"Driver" is a Python process that Spark starts beside the user's: the plan travels from there to the tasks and to the commit,
pickled. Tasks need only the blob store; the log is read once to plan and once to commit, however many tasks there are.

| what happens | what is in the collection |
|---|---|
| a task is retried, or two attempts race | the rows of the attempt that Spark accepts; other parts are orphans, for `sweep` |
| the job fails | nothing |
| the commit is retried | its rows once: it has the same token |
| others append meanwhile | both. `overwrite` retracts their rows too if they were appended first |

Spark itself refuses the modes `errorifexists` (its default, so a mode must be set) and `ignore` for sources in Python.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tidegate.config import Config
from tidegate.errors import BindError
from tidegate.spark.target import integer_option, lake_at, parse_target
from tidegate.spark.task_errors import errors_to_driver
from tidegate.spark.write.check_schema import check_schema
from tidegate.storage import Location
from tidegate.storage.part import Schema
from tidegate.storage.shard import (
    AppendOptions,
    BuiltParts,
    PartBuilder,
    Shard,
    State,
    commit_built_parts,
    discard_built_parts,
    open_in_task,
    sort_order,
)

STREAM_PREFIX = "stream/"
"""Prefix of the names under which streams store their positions (`stream.py`)."""


@dataclass(frozen=True)
class WritePlan:
    """What tasks and the commit need to know about a write."""

    place: Location
    config: Config
    state: State
    """The state of the collection when the write was planned, without its parts."""
    token: str
    time: int
    """The time in the files; the time in the state counts (`docs/format.md`)."""
    order: tuple[int, ...]
    """Ids of the columns that parts are sorted by."""
    overwrite: bool
    at: int | None = None
    diff_column: str | None = None

    @property
    def schema(self) -> Schema:
        """The columns of the collection."""
        return self.state.schema

    def gathering(self) -> PartBuilder:
        """Returns a builder of parts for the rows of a task."""
        shard = open_in_task(self.place, self.config, self.state)
        return PartBuilder(shard, self.state, self.schema, self.order, self.time, self.diff_column)

    def shard(self) -> Shard:
        """Returns the collection's shard, for the driver."""
        return lake_at(self.place, self.config).shard(self.state.shard)


def plan_write(options: Mapping[str, str], columns: StructType, *, overwrite: bool) -> WritePlan:
    """Finds the collection and checks that the DataFrame fits it."""
    target = parse_target(options)
    diff_column = options.get("diffColumn")
    if overwrite and diff_column is not None:
        raise BindError(
            "a write with diffColumn cannot overwrite the collection",
            hint='use mode("append") for updates with diffs; overwrite takes the complete new rows',
        )
    shard = target.lake().table(target.collection)
    state = shard.machine.fetch()
    schema = state.schema
    check_schema(target.collection, schema, columns, diff_column)
    # An overwrite retracts the present rows. An empty collection has none, and stays append-only.
    retracts = overwrite and any(table.num_rows for table in state.parts.tables(["id"]))
    token = options.get("token") or secrets.token_hex(16)
    if token not in state.tokens:
        shard.stamp(state, integer_option(options, "at"))  # refuses a bad time before a task runs
    return WritePlan(
        target.place,
        target.config,
        _slim(state),
        token,
        max(shard.clock.now(), state.upper),
        sort_order(state, schema, retracts=retracts),
        overwrite,
        integer_option(options, "at"),
        diff_column,
    )


def _slim(state: State) -> State:
    """Returns what tasks need of a state: no parts, and of the positions only those of streams."""
    streams = {key: reached for key, reached in state.positions.items() if key.startswith(STREAM_PREFIX)}
    return replace(state.without_parts(), positions=streams)


@dataclass(frozen=True)
class BatchCommitMessage(WriterCommitMessage):
    """The result of a task."""

    gathered: BuiltParts


class BatchWriter(DataSourceArrowWriter):
    """Writes one batch. It is sent, pickled, to each task and to the commit."""

    def __init__(self, plan: WritePlan) -> None:
        self.plan = plan

    @errors_to_driver()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> BatchCommitMessage:
        """Turns the rows of a task into parts."""
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        return BatchCommitMessage(self.plan.gathering().all(iterator, partition))

    @errors_to_driver()
    def commit(self, messages: list[Any]) -> None:
        """Appends all parts to the collection, in the driver."""
        plan = self.plan
        batch = AppendOptions(plan.token, plan.schema.id, at=plan.at, overwrite=plan.overwrite)
        commit_built_parts(plan.shard(), [message.gathered for message in messages], batch)

    def abort(self, messages: list[Any]) -> None:
        """Deletes the parts of a write that failed, in the driver."""
        discard_built_parts(self.plan.shard(), [message and message.gathered for message in messages])
