"""`df.write.format("tidegate")`: tasks write parts, one entry of the log makes all of them count.

    driver     plans: finds the collection, checks that the columns fit, thinks of a token          `planned`
    tasks      rows become parts, or if they are few a message                                       `gather.py`
    driver     what was few becomes parts too; one append, all of it or none                         `commit.py`

"Driver" is a Python process that Spark starts beside the user's: what is planned travels from there to the tasks and to the
commit, pickled. Tasks need the blob store and nothing else; the log is asked once to plan and once to commit, however many tasks
there are.

| what happens | what is in the collection |
|---|---|
| a task is tried again, or two attempts race | the rows of the attempt that Spark took; other parts are orphans, for `sweep` |
| the job fails | nothing |
| the commit is tried again | once: it has the same token |
| others append meanwhile | theirs and ours. `overwrite` retracts theirs as well, if they came first |

Spark itself refuses the modes `errorifexists` (its default, so a mode must be given) and `ignore` for sources in Python.
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
from tidegate.shard.commit import Batch, abandoned, append
from tidegate.shard.gather import Gathered, Gathering, in_task, slim
from tidegate.shard.schema import Schema
from tidegate.shard.state import State
from tidegate.shard.writer import Shard, order_of, schema_of
from tidegate.spark import accept
from tidegate.spark.target import lake_at, target, whole_number
from tidegate.store.place import Place

STREAM = "stream/"
"""How the names begin under which streams keep their positions (`stream.py`)."""


@dataclass(frozen=True)
class Plan:
    """What tasks and commit know of a write."""

    place: Place
    config: Config
    state: State
    """Of the collection when it was planned, without its parts."""
    token: str
    time: int
    """What the files say; the state's word counts (`docs/format.md`)."""
    order: tuple[int, ...]
    """The columns that parts are sorted by."""
    overwrite: bool
    at: int | None = None
    diff_column: str | None = None

    @property
    def schema(self) -> Schema:
        """The collection's columns."""
        return schema_of(self.state)

    def gathering(self) -> Gathering:
        """For the rows of a task."""
        shard = in_task(self.place, self.config, self.state)
        return Gathering(shard, self.state, self.schema, self.order, self.time, self.diff_column)

    def shard(self) -> Shard:
        """The collection itself, for the driver."""
        return lake_at(self.place, self.config).shard(self.state.shard)


def planned(options: Mapping[str, str], given: StructType, *, overwrite: bool) -> Plan:
    """Finds the collection, and sees whether the DataFrame fits it."""
    found = target(options)
    diff_column = options.get("diffColumn")
    if overwrite and diff_column is not None:
        raise BindError(
            "a collection cannot be overwritten with a diffColumn",
            hint='mode("append") takes updates with diffs; an overwrite takes the rows that are to be there',
        )
    shard = found.lake().table(found.collection)
    state = shard.machine.fetch()
    schema = schema_of(state)
    accept.check(found.collection, schema, given, diff_column)
    # An overwrite retracts what is there. Of an empty collection that is nothing, and it stays monotonic.
    retracts = overwrite and any(table.num_rows for table in state.parts.tables(["id"]))
    token = options.get("token") or secrets.token_hex(16)
    if token not in state.tokens:
        shard.stamp(state, whole_number(options, "at"))  # a bad time is refused before a task runs
    return Plan(
        found.place,
        found.config,
        _slim(state),
        token,
        max(shard.clock.now(), state.upper),
        order_of(state, schema, retracts=retracts),
        overwrite,
        whole_number(options, "at"),
        diff_column,
    )


def _slim(state: State) -> State:
    """What tasks need of a state: of its positions those of streams."""
    streams = {key: reached for key, reached in state.positions.items() if key.startswith(STREAM)}
    return replace(slim(state), positions=streams)


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task says when it is done."""

    gathered: Gathered


class Writer(DataSourceArrowWriter):
    """Of one batch write. Pickled, it goes to each task and to the commit."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """In a task: its rows become parts."""
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        return Written(self.plan.gathering().all(iterator, partition))

    def commit(self, messages: list[Any]) -> None:
        """In the driver: all parts become part of the collection."""
        plan = self.plan
        batch = Batch(plan.token, plan.schema.id, at=plan.at, overwrite=plan.overwrite)
        append(plan.shard(), [message.gathered for message in messages], batch)

    def abort(self, messages: list[Any]) -> None:
        """In the driver: the write has failed."""
        abandoned(self.plan.shard(), [message and message.gathered for message in messages])
