"""`df.writeStream.format("tidegate")`: each micro-batch is appended exactly once.

    df.writeStream.format("tidegate").option("checkpointLocation", "/cp/orders").start("lake:orders")

Spark replays a batch if it was killed before it recorded that the batch is done. So the collection stores the progress of each
stream in the same log entry as the rows:

    positions    stream/5f0c…  {"query": "5f0c…", "batch": 41, "at": ms}

A batch at or below its stream's position was appended before and is skipped; its tasks do not even write. That is exactly once for
ever, however late a replay comes, and costs one small value per stream.

**What identifies a stream?** The query, by the id that Spark stores in the checkpoint and finds there at each restart.

| | |
|---|---|
| the same checkpoint | continues: nothing is lost, nothing is doubled |
| a new checkpoint | is a new query: batch 0 has other rows than the old batch 0, and is appended |
| the same, with `.option("sink", "orders")` | refused: only the user knows whether its rows are in the collection |
| the same, and `.option("takeover", "true")` | the user says that they are new rows. The old query is refused from then on |

So `sink` protects against a checkpoint that was deleted or moved by mistake, which would read its source again from the beginning.
In complete mode each batch replaces the rows of the collection; only the difference is written. Spark refuses update mode for
sources in Python: use `foreachBatch` with a `diffColumn`. The positions of the 256 most recently active streams are stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tidegate.errors import BindError, ConflictError, TidegateError
from tidegate.spark.task_errors import errors_to_driver
from tidegate.spark.write.batch import STREAM_PREFIX, plan_write
from tidegate.storage.shard import (
    AlreadyCommitted,
    AppendOptions,
    BuiltParts,
    State,
    commit_built_parts,
    discard_built_parts,
)

MAX_STREAMS = 256
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's properties of a task: the query and the batch that it works for."""


@dataclass(frozen=True)
class StreamCommitMessage(WriterCommitMessage):
    """The result of a task of a micro-batch."""

    gathered: BuiltParts
    schema: int
    query: str


@dataclass(frozen=True)
class StreamSink:
    """A stream that writes to the collection."""

    query: str
    sink: str | None
    takeover: bool

    @property
    def key(self) -> str:
        """The name of its position in the state."""
        return STREAM_PREFIX + (self.sink or self.query)

    def is_appended(self, positions: Mapping[str, Any], batch: int) -> bool:
        """Whether the batch was appended before. An error if the sink belongs to another query."""
        position = positions.get(self.key)
        if position is None:
            return False
        if position["query"] == self.query:
            return bool(batch <= position["batch"])
        if self.takeover:
            return False
        raise ConflictError(
            f'the sink "{self.sink}" is written by another query, whose last batch is {position["batch"]}; this query is new',
            hint="start it with its previous checkpoint; if its rows are not in the collection yet, "
            'use another sink, or option("takeover", "true")',
        )

    def next_positions(self, state: State, batch: int, now: int) -> dict[str, Any]:
        """Returns the positions to store with a batch: its own, and None for the least recent of too many."""
        others = [key for key in state.positions if key.startswith(STREAM_PREFIX) and key != self.key]
        by_age = sorted(others, key=lambda key: state.positions[key]["at"])
        dropped = by_age[: max(0, len(others) + 1 - MAX_STREAMS)]
        return {**dict.fromkeys(dropped), self.key: {"query": self.query, "batch": batch, "at": now}}


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes one micro-batch: Spark creates one for its tasks and another for its commit."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        for name in ("at", "token"):
            if name in options:
                raise BindError(
                    f'the option "{name}" applies to one batch, not to a stream', hint="leave it out"
                )
        self.options, self.overwrite = dict(options), overwrite
        self.plan = plan_write(options, schema, overwrite=overwrite)

    @errors_to_driver()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamCommitMessage:
        """Turns the rows of a task into parts, unless the batch was appended before."""
        context = TaskContext.get()
        assert context is not None
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if query is None or batch is None:
            raise TidegateError(
                "Spark does not name the query that a task works for",
                hint="use micro-batches, not a continuous trigger",
            )
        if self._stream(query).is_appended(self.plan.state.positions, int(batch)):
            return StreamCommitMessage(BuiltParts((), b""), self.plan.schema.id, query)
        gathered = self.plan.gathering().all(iterator, context.partitionId())
        return StreamCommitMessage(gathered, self.plan.schema.id, query)

    @errors_to_driver()
    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803  # as Spark calls it
        """Appends the parts of the batch to the collection, once, in the driver."""
        gathered = [message.gathered for message in messages]
        if not self.overwrite and not any(output.parts or output.inline for output in gathered):
            return
        shard = self.plan.shard()
        stream = self._stream(messages[0].query)

        def check(state: State) -> None:
            if stream.is_appended(state.positions, batchId):
                raise AlreadyCommitted("the batch was appended before")

        batch = AppendOptions(
            token=f"{stream.key}:{stream.query}:{batchId}",
            schema=messages[0].schema,
            overwrite=self.overwrite,
            positions=lambda state: stream.next_positions(state, batchId, shard.clock.now()),
            check=check,
        )
        commit_built_parts(shard, gathered, batch)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803, ARG002  # as Spark calls it
        """Deletes the parts of a batch that failed, in the driver."""
        discard_built_parts(self.plan.shard(), [message and message.gathered for message in messages])

    def _stream(self, query: str) -> StreamSink:
        takeover = self.options.get("takeover", "").lower() == "true"
        return StreamSink(query, self.options.get("sink"), takeover)
