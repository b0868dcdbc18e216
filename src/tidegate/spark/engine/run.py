"""Runs a DataFrame for a user: its rows as Arrow, in bounded memory, until it ends or is cancelled.

    rows = run(df, types, watch, limit)
    for columns, count in rows.batches(watch):
        …

A small result is collected: all partitions at the same time, as `df.toArrow()` does. As soon as more than `limit` bytes have
arrived, that is given up, and the DataFrame is read partition by partition on demand (`toLocalIterator`): shuffled data is used
again, and only the last stage runs anew. Spark's driver then holds one partition at a time, and this process one batch.

A thread checks the `Watch` while Spark works: when it is cancelled or times out, the jobs are cancelled by their tag, and the
watch's error is raised. Jobs are cancelled too when anything else ends the work, such as Ctrl-C or a reader that stops. On a
terminal the thread also draws a progress bar to stderr, for jobs that take more than a second.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.serializers import NoOpSerializer, UTF8Deserializer, read_int
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.util import _load_from_socket, _local_iterator_from_socket

from tidegate.errors import EvaluationError, TidegateError, UnsupportedError
from tidegate.expr.model import Type
from tidegate.query import Batch, CancelToken
from tidegate.spark.arrow import from_spark
from tidegate.spark.task_errors import conditions, tidegate_error
from tidegate.text import first_line

_read_int: Any = read_int
_text: Any = UTF8Deserializer
_bytes: Any = NoOpSerializer  # all without types in pyspark
POLL_S = 0.05
BAR_AFTER_S = 1.0
_WIDTH = 40
_INTERRUPT = "spark.job.interruptOnCancel"
"""Interrupts tasks of ours that wait for a store when they are cancelled."""
_ROW_ERRORS = {
    "DIVIDE_BY_ZERO": "division by zero",
    "ARITHMETIC_OVERFLOW": "a number is out of range",
    "BINARY_ARITHMETIC_OVERFLOW": "a number is out of range",
    "CAST_OVERFLOW": "a number is out of range",
    "NUMERIC_VALUE_OUT_OF_RANGE": "a number is out of range",
    "NUMERIC_OUT_OF_SUPPORTED_RANGE": "a number is out of range",
    "DATETIME_OVERFLOW": "a time is out of range",
    "CAST_INVALID_INPUT": "a text cannot be read as the type that it is cast to",
    "SCALAR_SUBQUERY_TOO_MANY_ROWS": "a subquery that stands for one value gave more than one row",
}
"""Our messages for Spark's error conditions that are caused by a row."""


@contextmanager
def cancel_with(spark: SparkSession, watch: CancelToken) -> Iterator[str]:
    """Runs Spark jobs that are cancelled with the watch; yields the tag of these jobs."""
    watch.check()
    context = spark.sparkContext
    logging.getLogger(
        "SQLQueryContextLogger"
    ).disabled = True  # it prints Spark SQL that the user has not written
    tag = f"tidegate-{uuid.uuid4().hex}"
    context.addJobTag(tag)
    context.setLocalProperty(_INTERRUPT, "true")
    try:
        with _cancel_jobs_with(context, watch, tag):
            yield tag
    finally:
        context.removeJobTag(tag)
        context.setLocalProperty(_INTERRUPT, "false")


@contextmanager
def _cancel_jobs_with(context: Any, watch: CancelToken, tag: str) -> Iterator[None]:
    """Cancels jobs with this tag when the watch ends or the body fails; translates errors of Spark."""
    watcher = _JobWatcher(context, watch, tag)
    watcher.start()
    try:
        yield
        watch.check()
    except BaseException as error:
        if watcher.stopped is not None:
            raise watcher.stopped from None
        if not isinstance(error, Exception) or isinstance(error, TidegateError):
            context.cancelJobsWithTag(tag)
        elif (ours := translate_error(error)) is not error:
            raise ours from None
        raise
    finally:
        watcher.over.set()
        watcher.join()


class _JobWatcher(threading.Thread):
    """Checks a watch while jobs run, and draws their progress."""

    def __init__(self, context: Any, watch: CancelToken, tag: str) -> None:
        super().__init__(name="tidegate-watch", daemon=True)
        self.context, self.watch, self.tag = context, watch, tag
        self.over = threading.Event()
        self.stopped: TidegateError | None = None

    def run(self) -> None:
        """Runs until the end: a job may start after others were cancelled."""
        began, drawn = time.monotonic(), False
        bar = sys.stderr is not None and sys.stderr.isatty()
        while not self.over.wait(POLL_S):
            try:
                self.watch.check()
            except TidegateError as error:
                self.stopped = error
                self.context.cancelJobsWithTag(self.tag)
                continue
            if bar and time.monotonic() - began > BAR_AFTER_S:
                drawn = _draw(self.context) or drawn
        if drawn:
            sys.stderr.write("\r" + " " * (_WIDTH + 30) + "\r")


def _draw(context: Any) -> bool:
    """Draws a bar for the tasks of the running stages; returns whether there are any."""
    tracker = context.statusTracker()
    infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    infos = [info for info in infos if info is not None]
    total = sum(info.numTasks for info in infos)
    if not total:
        return False
    done = sum(info.numCompletedTasks for info in infos)
    filled = "#" * (_WIDTH * done // total)
    sys.stderr.write(f"\r[{filled:<{_WIDTH}}] {done:,} of {total:,} tasks ")
    sys.stderr.flush()
    return True


def translate_error(error: Exception) -> Exception:
    """Translates an error of Spark that is about the query into one of ours; returns others as they are."""
    ours = tidegate_error(error)
    if ours is not None:
        return ours
    for condition, _ in conditions(error):
        message = _ROW_ERRORS.get(condition.partition(".")[0])
        if message is not None:
            return EvaluationError(message)
    if isinstance(error, AnalysisException):  # ParseException is one
        return UnsupportedError(
            f"Spark cannot run this query: {first_line(error)}",
            hint="a correlated subquery can often be written as a join",
        )
    return error


@dataclass
class SparkRows:
    """The rows of a DataFrame: collected, or read from a socket on demand."""

    types: Sequence[Type]
    collected: list[pa.RecordBatch] | None
    remaining: Iterator[bytes] | None = None
    schema: pa.Schema | None = None
    context: Any = None
    tag: str = ""

    def batches(self, watch: CancelToken) -> Iterator[Batch]:
        """Yields the rows in our types."""
        if self.collected is not None:
            yield from map(self._convert, self.collected)
            return
        assert self.remaining is not None
        with _cancel_jobs_with(self.context, watch, self.tag), unwrap_spark_exception():
            for data in self.remaining:
                yield self._convert(pa.ipc.read_record_batch(pa.py_buffer(data), self.schema))

    def _convert(self, batch: pa.RecordBatch) -> Batch:
        return [from_spark(batch.column(i), type_) for i, type_ in enumerate(self.types)], batch.num_rows


def run(df: DataFrame, types: Sequence[Type], watch: CancelToken, limit: int) -> SparkRows:
    """Collects a result of up to `limit` bytes; a larger one is read on demand."""
    spark, java = df.sparkSession, cast("Any", df._jdf)
    try:
        with cancel_with(spark, watch):
            return SparkRows(types, _collect(df, limit))
    except _TooManyRows as error:
        schema = error.schema
    context: Any = spark.sparkContext
    with (
        cancel_with(spark, watch) as tag,
        _settings(spark),
    ):  # the JVM thread that runs the jobs inherits both
        served = context._jvm.PythonRDD.toLocalIteratorAndServe(java.toArrowBatchRdd(), True)
    remaining = _local_iterator_from_socket(served, _bytes())
    return SparkRows(types, None, remaining, schema, context, tag)


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    """Passes the session's settings to jobs that start in the body, as Spark's own actions do."""
    context: Any = spark.sparkContext
    settings = {name: value for name, value in spark.conf.getAll.items() if name.startswith("spark.sql.")}
    before = {name: context.getLocalProperty(name) for name in settings}
    try:
        for name, value in settings.items():
            context.setLocalProperty(name, value)
        yield
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)


def _collect(df: DataFrame, limit: int) -> list[pa.RecordBatch]:
    """Collects batches as `df.toArrow` does, up to a number of bytes."""
    java: Any = df._jdf
    port, secret, server = java.collectAsArrowToPython()
    try:
        with _load_from_socket((port, secret), BoundedArrowSerializer(limit)) as stream:
            batches = list(stream)
    except _TooManyRows:
        raise  # the JVM then finds the socket closed, and its error for that does not matter
    except Exception:
        with unwrap_spark_exception():
            server.getResult()  # raises the JVM's error
        raise
    with unwrap_spark_exception():
        server.getResult()
    return batches


class _TooManyRows(TidegateError):  # noqa: N818  # no user sees it
    """The result is larger than the limit. It is a TidegateError so that the jobs are cancelled."""

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__("too many rows to collect")
        self.schema = schema


class BoundedArrowSerializer(ArrowStreamSerializer):
    """Reads batches as they arrive, up to a number of bytes, and then puts them in order."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def load_stream(self, stream: Any) -> Iterator[pa.RecordBatch]:
        """Yields the batches in the order of the rows."""
        batches, size = [], 0
        for batch in super().load_stream(stream):
            size += batch.nbytes
            if size > self.limit:
                raise _TooManyRows(batch.schema)
            batches.append(batch)
        count = _read_int(stream)
        if count < 0:
            raise RuntimeError(_text().loads(stream))
        yield from (batches[_read_int(stream)] for _ in range(count))
