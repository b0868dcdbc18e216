"""Ingestion on Spark: a stream whose rows describe the parts that its tasks have stored.

| process | does | |
|---|---|---|
| reader (another process) | asks upstream for its position, plans splits | `SourceStreamReader.latestOffset`, `partitions` |
| tasks | read, decode, transform, store parts | `SourceStreamReader.read`, `ingest/batch/task.py` |
| driver (this process) | collects one result per task, commits | `foreachBatch`, `ingest/batch/commit.py` |

One small row per task flows through the stream. The driver commits a batch by one log entry per collection, with the source's
position in it. That position is the only truth:

- No `checkpointLocation` is given. Spark creates a temporary one and forgets it; each start asks the collections for their
  position. A checkpoint ahead of the database (one restored from a backup) would silently ingest nothing.
- Offsets count from 0 at each start and matter only to the reader, which keeps the tasks of the next batch.
- The reader acknowledges upstream before it asks for more, and so after our commit. Spark's own acknowledgement comes one batch
  late, and never for the last batch.

An error of a task or of the reader travels as a row too, pickled, so that the driver raises the same error. A task fails in Spark's
eyes only if another attempt may help.
"""

from __future__ import annotations

import base64
import pickle
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidegate import fork
from tidegate.errors import SourceError, UnsupportedError
from tidegate.ingest import SourceDefinition
from tidegate.ingest.batch import BatchPlanner, IngestTask, TaskResult, run_task
from tidegate.ingest.runtime import Ingestion
from tidegate.spark.session import sibling_session, use_session
from tidegate.spark.task_errors import job_error, tidegate_error
from tidegate.spark.tasks.ingest_stream import FORMAT, PLAN, IngestStreamSource, unpickle
from tidegate.spark.tasks.retry import max_attempts, run_attempt
from tidegate.storage import Location

WAIT_S: Any = 0.2  # Any: pyspark accepts fractions of a second, but its annotation does not
SETTINGS = {
    # Halves the time of an empty batch; nothing in these files is needed again.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
    "spark.sql.adaptive.enabled": "false",
}


class SparkIngestCrew:
    """Runs ingest tasks on the executors of a session."""

    def __init__(self, spark: SparkSession, place: Location) -> None:
        if place.kind == "memory":
            raise UnsupportedError(
                "a database in memory cannot be reached by Spark's tasks",
                hint="db.ingest(…, spark=False); or open a folder or a bucket",
            )
        try:
            self._attempts = max_attempts(spark.sparkContext)
        except (PySparkException, AttributeError):
            raise UnsupportedError(
                "sources need a session in this process, and not one of Spark Connect",
                hint="db.ingest(…, spark=False) reads them here; or run it where the driver is",
            ) from None
        self._spark = spark

    def work(self, ingestion: Ingestion, source: SourceDefinition) -> None:
        """Runs one streaming query until the source ends or the ingestion is stopped."""
        batches = _Batches(self._spark, ingestion, source)
        try:
            query = self._start(ingestion, source, batches)
            try:
                _watch(query, ingestion, batches)
            finally:
                query.stop()
                with batches.lock:
                    pass  # waits for a commit that is under way
        except (PySparkException, Py4JError, OSError) as error:
            raise batches.failure or self._explain(error) from None
        if batches.failure is not None and ingestion.should_continue():
            raise batches.failure

    def _start(self, ingestion: Ingestion, source: SourceDefinition, batches: _Batches) -> StreamingQuery:
        context, own = ingestion.context, sibling_session(self._spark)
        for name, value in SETTINGS.items():
            own.conf.set(name, value)
        own.conf.set("spark.sql.streaming.pollingDelay", f"{context.config.ingest_poll_ms}ms")
        plan = pickle.dumps((source, context.root.place, context.config, ingestion.once, self._attempts))
        with use_session(own):
            own.dataSource.register(IngestStreamSource)
            rows = own.readStream.format(FORMAT).option(PLAN, base64.b64encode(plan).decode()).load()
            writer = rows.writeStream.foreachBatch(batches.commit).queryName(f"tidegate {source.name}")
            if ingestion.once:
                writer = writer.trigger(availableNow=True)
            return writer.start()

    def _explain(self, error: Exception) -> Exception:
        """Translates an exception of Spark."""
        if isinstance(error, Py4JNetworkError | OSError) or _has_stopped(self._spark):
            return SourceError(
                "Spark has stopped, and the ingestion with it",
                again=False,
                hint="start it again, in a new process if Spark was killed: it continues at its last position",
            )
        return tidegate_error(error) or job_error(
            "the Spark stream of the ingestion", error, "what was committed stays; run it again"
        )


def _has_stopped(spark: SparkSession) -> bool:
    context: Any = spark.sparkContext._jsc
    try:
        return context is None or bool(context.sc().isStopped())
    except Py4JError:
        return True  # the JVM does not answer


def _watch(query: StreamingQuery, ingestion: Ingestion, batches: _Batches) -> None:
    """Waits until a query ends, fails or is no longer wanted."""
    checked, count = time.monotonic(), -1
    while not query.awaitTermination(WAIT_S):
        if not ingestion.should_continue() or batches.failure is not None:
            return
        if time.monotonic() - checked >= 1:
            checked, before, count = time.monotonic(), count, ingestion.batches
            if count == before and "Waiting" in str(query.status["message"]):
                ingestion.idle()


class _Batches:
    """Commits the batches of one query, in the driver."""

    def __init__(self, spark: SparkSession, ingestion: Ingestion, source: SourceDefinition) -> None:
        self.ingestion, self.source = ingestion, source
        self.lock = fork.lock()
        self.failure: Exception | None = None
        self._spark = spark
        context = ingestion.context
        self._planning = BatchPlanner(
            source, context.shard, context.root.place, context.config, context.clock, once=ingestion.once
        )

    def commit(self, rows: DataFrame, _: int) -> None:
        """Commits a batch. It is collected once: each action would run its tasks again.

        A failure is stored and not raised: `_watch` ends the query, and Spark prints no traceback of its own.
        """
        if self.failure is not None:
            return
        results = [unpickle(row[0]) for row in rows.collect()]
        with self.lock:
            if not results or not self.ingestion.should_continue():
                return
            try:
                self.ingestion.commit(self.source, _checked(results), self._planning, self._alone)
            except Exception as error:  # noqa: BLE001  # work() raises it
                self.failure = error

    def _alone(self, job: IngestTask) -> TaskResult:
        """Runs one task in a job of its own."""
        context = self._spark.sparkContext
        work = partial(run_attempt, max_attempts(context))
        (result,) = _checked(context.parallelize([partial(run_task, job)], 1).map(work).collect())
        return result


def _checked(results: Sequence[Any]) -> list[TaskResult]:
    """Returns the results of tasks; raises the first error among them."""
    for result in results:
        if isinstance(result, Exception):
            raise result
    return list(results)
