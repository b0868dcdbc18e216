"""Sources on Spark: a stream of ours whose rows describe parts that its tasks have stored.

    reader (a Python process of Spark's)   asks upstream how far it is, cuts splits          `Splits.latestOffset`, `partitions`
    tasks                                  read, decode, transform, store parts              `Splits.read`, `ingest/pipeline.py`
    driver (this process)                  collects a descriptor a task, commits them        `foreachBatch`, `ingest/settle.py`

What flows through the stream is one small row for each task. The driver commits all of a batch by one entry for each collection,
with the source's position in it. That position is the only truth:

- No `checkpointLocation` is given. Spark makes a temporary one and forgets it; each start asks the collections where they stand. A
  checkpoint that is ahead of a database (one restored from a backup) would ingest nothing, and say nothing.
- Offsets are counted from 0 at each start, and mean nothing but to the reader, which keeps the jobs of the batch that is next.
- Upstream is told what it may forget by the reader, before it asks for more, and so after our commit. Spark's own word for it
  comes a batch late, and never for the last.

An error of a task or of the reader travels as a row too, pickled, so that the driver raises the very same one; Spark's exceptions
would carry its text alone. Only where another attempt of the same task may help does a task fail as Spark sees it.
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
from tidegate.ingest.definition import Source
from tidegate.ingest.pipeline import Descriptor, Job, run
from tidegate.session.ingest import Ingestion
from tidegate.session.planning import Planning
from tidegate.spark.attempt import attempted, attempts
from tidegate.spark.failure import failed, told
from tidegate.spark.session import active, beside
from tidegate.spark.splits import FORMAT, PLAN, SplitsSource, unpickled
from tidegate.store.place import Place

WAIT_S: Any = 0.2  # pyspark takes fractions of a second, and is typed as if it did not
SETTINGS = {
    # Half the time of an empty batch: there is nothing in these files that we would want back.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
    "spark.sql.adaptive.enabled": "false",
}


class SparkTasks:
    """The executors of a session. A `Crew`."""

    def __init__(self, spark: SparkSession, place: Place) -> None:
        if place.kind == "memory":
            raise UnsupportedError(
                "a database in memory cannot be reached by Spark's tasks",
                hint="db.ingest(…, spark=False); or open a folder or a bucket",
            )
        try:
            self._attempts = attempts(spark.sparkContext)
        except (PySparkException, AttributeError):
            raise UnsupportedError(
                "sources need a session in this process, and not one of Spark Connect",
                hint="db.ingest(…, spark=False) reads them here; or run it where the driver is",
            ) from None
        self._spark = spark

    def work(self, ingestion: Ingestion, source: Source) -> None:
        """Reads batches by one streaming query, until it ends or is not wanted any more."""
        batches = _Batches(self._spark, ingestion, source)
        try:
            query = self._start(ingestion, source, batches)
            try:
                _watch(query, ingestion, batches)
            finally:
                query.stop()
                with batches.lock:
                    pass  # a commit that is under way is made to its end
        except (PySparkException, Py4JError, OSError) as error:
            raise batches.failure or self._meant(error) from None
        if batches.failure is not None and ingestion.wanted():
            raise batches.failure

    def _start(self, ingestion: Ingestion, source: Source, batches: _Batches) -> StreamingQuery:
        lake, own = ingestion.lake, beside(self._spark)
        for name, value in SETTINGS.items():
            own.conf.set(name, value)
        own.conf.set("spark.sql.streaming.pollingDelay", f"{lake.config.ingest_poll_ms}ms")
        plan = pickle.dumps((source, lake.root.place, lake.config, ingestion.once, self._attempts))
        with active(own):
            own.dataSource.register(SplitsSource)
            rows = own.readStream.format(FORMAT).option(PLAN, base64.b64encode(plan).decode()).load()
            writer = rows.writeStream.foreachBatch(batches.commit).queryName(f"tidegate {source.name}")
            if ingestion.once:
                writer = writer.trigger(availableNow=True)
            return writer.start()

    def _meant(self, error: Exception) -> Exception:
        """What an exception of Spark's is about."""
        gone = isinstance(error, Py4JNetworkError | OSError) or self._spark.sparkContext._jsc is None
        if gone or "stopped SparkContext" in str(error):
            return SourceError(
                "Spark is not there any more, and with it the ingestion",
                again=False,
                hint="start it again, in a new process if this one's Spark was killed: it goes on where it was",
            )
        return told(error) or failed(
            "the Spark stream of the ingestion", error, "what was committed stays; run it again"
        )


def _watch(query: StreamingQuery, ingestion: Ingestion, batches: _Batches) -> None:
    """Waits for the end of a query, or until it is to end."""
    looked, many = time.monotonic(), -1
    while not query.awaitTermination(WAIT_S):
        if not ingestion.wanted() or batches.failure is not None:
            return
        if time.monotonic() - looked >= 1:
            looked, before, many = time.monotonic(), many, ingestion.batches
            if many == before and "Waiting" in str(query.status["message"]):
                ingestion.idle()


class _Batches:
    """Commits the batches of one query, in the driver."""

    def __init__(self, spark: SparkSession, ingestion: Ingestion, source: Source) -> None:
        self.ingestion, self.source = ingestion, source
        self.lock = fork.lock()
        self.failure: Exception | None = None
        self._spark = spark
        lake = ingestion.lake
        self._planning = Planning(
            source, lake.shard, lake.root.place, lake.config, lake.clock, once=ingestion.once
        )

    def commit(self, rows: DataFrame, _: int) -> None:
        """A batch: collected once, as each action would run its tasks again.

        A failure is kept and not raised: whoever waits ends the query, and Spark does not print what we will tell better.
        """
        if self.failure is not None:
            return
        found = [unpickled(row[0]) for row in rows.collect()]
        with self.lock:
            if not found or not self.ingestion.wanted():
                return
            try:
                self.ingestion.commit(self.source, _good(found), self._planning, self._alone)
            except Exception as error:  # noqa: BLE001  # it is raised by the one who waits
                self.failure = error

    def _alone(self, job: Job) -> Descriptor:
        """Runs one job."""
        context = self._spark.sparkContext
        work = partial(attempted, attempts(context))
        (found,) = _good(context.parallelize([partial(run, job)], 1).map(work).collect())
        return found


def _good(found: Sequence[Any]) -> list[Descriptor]:
    """What tasks have made, none of which failed."""
    for one in found:
        if isinstance(one, Exception):
            raise one
    return list(found)
