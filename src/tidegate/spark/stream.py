"""`df.writeStream.format("tidegate")`: each micro-batch is one append, and is appended once, whatever is killed when.

    df.writeStream.format("tidegate").option("checkpointLocation", "/cp/orders").start("lake:orders")

Spark replays a batch if it was killed before it wrote down that the batch is done. So the collection itself keeps, with the rows
and by the same entry of its log, how far each stream has come:

    positions    stream/5f0c…  {"query": "5f0c…", "batch": 41, "at": ms}

A batch that is not above its stream's position was appended before, and is passed over; its tasks do not even write. That is
exactly once for ever, however late a replay comes, and costs one small value for each stream.

**Who is a stream?** The query, by the id that Spark gives it when it makes the checkpoint, and finds there at each restart.

| | |
|---|---|
| the same checkpoint | goes on: nothing is lost, nothing is doubled |
| a new checkpoint | is a new query: batch 0 is other rows than the old batch 0, and is appended |
| the same, with `.option("sink", "orders")` | refused: whether its rows are there already, only the user knows |
| the same, and `.option("takeover", "true")` | the user knows: they are new rows. The old query is refused from then on |

`sink` thus guards against a checkpoint that was deleted or moved by mistake, which would read its source again from the beginning.
In complete mode each batch replaces the collection's rows; only what differs is written. Spark refuses update mode for sources
in Python: `foreachBatch` with a `diffColumn` does that. Positions of the 256 streams that were heard of last are kept.
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
from tidegate.shard.commit import Batch, Done, abandoned, append
from tidegate.shard.gather import Gathered
from tidegate.shard.state import State
from tidegate.spark.write import STREAM, planned

STREAMS = 256
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""Where Spark tells a task which query and batch it works for."""


@dataclass(frozen=True)
class Streamed(WriterCommitMessage):
    """What a task of a micro-batch says when it is done."""

    gathered: Gathered
    schema: int
    query: str


@dataclass(frozen=True)
class Stream:
    """A stream, as the collection knows it."""

    query: str
    sink: str | None
    takeover: bool

    @property
    def key(self) -> str:
        """Under which its position is kept."""
        return STREAM + (self.sink or self.query)

    def done(self, positions: Mapping[str, Any], batch: int) -> bool:
        """Whether the batch was appended. An error if the sink is another query's."""
        known = positions.get(self.key)
        if known is None:
            return False
        if known["query"] == self.query:
            return bool(batch <= known["batch"])
        if self.takeover:
            return False
        raise ConflictError(
            f'the sink "{self.sink}" is written by another query, which came to batch {known["batch"]}; this one is new',
            hint="start with the checkpoint that it had before; or if these rows are not there yet, "
            'give another sink, or option("takeover", "true")',
        )

    def reached(self, state: State, batch: int, now: int) -> dict[str, Any]:
        """The positions to be kept with a batch: its own, and nothing for streams long silent, if there are too many."""
        others = [key for key in state.positions if key.startswith(STREAM) and key != self.key]
        silent = sorted(others, key=lambda key: state.positions[key]["at"])[
            : max(0, len(others) + 1 - STREAMS)
        ]
        mine = {"query": self.query, "batch": batch, "at": now}
        return {**dict.fromkeys(silent), self.key: mine}


class StreamWriter(DataSourceStreamArrowWriter):
    """Of one micro-batch: Spark makes a new one for each, and another for its commit."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        for name in ("at", "token"):
            if name in options:
                raise BindError(
                    f'the option "{name}" is for one batch, and a stream has many', hint="leave it out"
                )
        self.options, self.given, self.overwrite = dict(options), schema, overwrite
        self.plan = planned(options, schema, overwrite=overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Streamed:
        """In a task: its rows become parts, unless the batch was appended before."""
        context = TaskContext.get()
        assert context is not None
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if query is None or batch is None:
            raise TidegateError(
                "Spark does not say which query a task works for",
                hint="stream in micro-batches, not continuously",
            )
        if self._stream(query).done(self.plan.state.positions, int(batch)):
            return Streamed(Gathered((), b""), self.plan.schema.id, query)
        gathered = self.plan.gathering().all(iterator, context.partitionId())
        return Streamed(gathered, self.plan.schema.id, query)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803  # as Spark calls it
        """In the driver: all parts of the batch become part of the collection, once."""
        gathered = [message.gathered for message in messages]
        if not self.overwrite and not any(one.parts or one.inline for one in gathered):
            return
        shard = self.plan.shard()
        stream = self._stream(messages[0].query)

        def check(state: State) -> None:
            if stream.done(state.positions, batchId):
                raise Done("the batch was appended before")

        batch = Batch(
            token=f"{stream.key}:{stream.query}:{batchId}",
            schema=messages[0].schema,
            overwrite=self.overwrite,
            positions=lambda state: stream.reached(state, batchId, shard.clock.now()),
            check=check,
        )
        append(shard, gathered, batch)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803, ARG002  # as Spark calls it
        """In the driver: the batch has failed."""
        abandoned(self.plan.shard(), [message and message.gathered for message in messages])

    def _stream(self, query: str) -> Stream:
        takeover = self.options.get("takeover", "").lower() == "true"
        return Stream(query, self.options.get("sink"), takeover)
