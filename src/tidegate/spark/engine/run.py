"""Running a DataFrame for a user: its rows as Arrow, in bounded memory, until it is done or stopped.

    rows = run(df, types, watch, most)
    for columns, count in rows.batches(watch):
        …

Little is collected: all partitions at the same time, as `df.toArrow()` does. As soon as more than `most` bytes have come, that is
given up, and the DataFrame is read partition by partition, each when its rows are asked for (`toLocalIterator`): what was shuffled
for it is used again, and only the last stage is run anew. Spark's driver holds a partition at a time, and this process a batch.

A thread looks at the `Watch` while Spark works: when that is over, the jobs are cancelled by their tag, and what is raised is what
the watch says. So are they when anything else ends the work, such as Ctrl-C, or a reader that wants no more. On a terminal the
thread also draws a bar to stderr, for jobs that take more than a second.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.serializers import NoOpSerializer, UTF8Deserializer, read_int
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.util import _load_from_socket, _local_iterator_from_socket

from tidegate.errors import EvaluationError, TidegateError, UnsupportedError
from tidegate.expr.types import Type
from tidegate.scan.stream import Batch
from tidegate.scan.watch import Watch
from tidegate.spark.arrow import from_spark
from tidegate.spark.failure import told

_read_int: Any = read_int
_text: Any = UTF8Deserializer
_bytes: Any = NoOpSerializer  # all without types in pyspark
POLL_S = 0.05
BAR_AFTER_S = 1.0
_WIDTH = 40
_INTERRUPT = "spark.job.interruptOnCancel"
"""Tasks of ours that wait for a store are woken up when they are cancelled."""
_SAID = {
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
"""What errors of rows are called here."""


@contextmanager
def watched(spark: SparkSession, watch: Watch) -> Iterator[str]:
    """What runs in here ends when the watch does. Its jobs have the tag that is given."""
    watch.check()
    context = spark.sparkContext
    logging.getLogger("SQLQueryContextLogger").disabled = True  # it prints texts that no user has ever seen
    tag = f"tidegate-{uuid.uuid4().hex}"
    context.addJobTag(tag)
    context.setLocalProperty(_INTERRUPT, "true")
    try:
        with _looked_after(context, watch, tag):
            yield tag
    finally:
        context.removeJobTag(tag)
        context.setLocalProperty(_INTERRUPT, "false")


@contextmanager
def _looked_after(context: Any, watch: Watch, tag: str) -> Iterator[None]:
    """Jobs with this tag end when the watch does, or when what is in here fails; the error is one of ours."""
    looking = _Looking(context, watch, tag)
    looking.start()
    try:
        yield
        watch.check()
    except BaseException as error:
        if looking.stopped is not None:
            raise looking.stopped from None
        if not isinstance(error, Exception) or isinstance(error, TidegateError):
            context.cancelJobsWithTag(tag)
        elif (ours := translated(error)) is not error:
            raise ours from None
        raise
    finally:
        looking.over.set()
        looking.join()


class _Looking(threading.Thread):
    """Looks at a watch while jobs run, and draws how far they are."""

    def __init__(self, context: Any, watch: Watch, tag: str) -> None:
        super().__init__(name="tidegate-watch", daemon=True)
        self.context, self.watch, self.tag = context, watch, tag
        self.over = threading.Event()
        self.stopped: TidegateError | None = None

    def run(self) -> None:
        """Until all is over: a job may begin after others were cancelled."""
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
    """A bar of the tasks of the stages that run now."""
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


def translated(error: Exception) -> Exception:
    """An error of Spark's as one of ours, if it is about the query; else itself."""
    ours = told(error)
    if ours is not None:
        return ours
    text = str(error)
    for name in re.findall(r"\[([A-Z_]+)(?:\.[A-Z_]+)?\]", text):
        if name in _SAID:
            return EvaluationError(_SAID[name])
    if isinstance(error, PySparkException) and type(error).__name__ in (
        "AnalysisException",
        "ParseException",
    ):
        first = text.strip().split("\n", 1)[0]
        return UnsupportedError(
            f"Spark cannot run this query: {first}",
            hint="a correlated subquery can often be written as a join",
        )
    return error


@dataclass
class Rows:
    """The rows of a DataFrame: those that were collected, or a socket that gives the others when it is asked."""

    types: Sequence[Type]
    collected: list[pa.RecordBatch] | None
    left: Iterator[bytes] | None = None
    schema: pa.Schema | None = None
    context: Any = None
    tag: str = ""

    def batches(self, watch: Watch) -> Iterator[Batch]:
        """The rows, in our types."""
        if self.collected is not None:
            yield from map(self._ours, self.collected)
            return
        assert self.left is not None
        with _looked_after(self.context, watch, self.tag), unwrap_spark_exception():
            for data in self.left:
                yield self._ours(pa.ipc.read_record_batch(pa.py_buffer(data), self.schema))

    def _ours(self, batch: pa.RecordBatch) -> Batch:
        return [from_spark(batch.column(i), type_) for i, type_ in enumerate(self.types)], batch.num_rows


def run(df: DataFrame, types: Sequence[Type], watch: Watch, most: int) -> Rows:
    """Collects up to `most` bytes of rows; if there are more, none of them: they come when they are asked for."""
    spark, java = df.sparkSession, cast("Any", df._jdf)
    try:
        with watched(spark, watch):
            return Rows(types, _collected(df, most))
    except _TooMany as many:
        schema = many.schema
    context: Any = spark.sparkContext
    with (
        watched(spark, watch) as tag,
        _settings(spark),
    ):  # the thread over there that runs the jobs takes over both
        served = context._jvm.PythonRDD.toLocalIteratorAndServe(java.toArrowBatchRdd(), True)
    left = _local_iterator_from_socket(served, _bytes())
    return Rows(types, None, left, schema, context, tag)


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    """Jobs that are begun in here know the session's settings, as those of Spark's own actions do."""
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


def _collected(df: DataFrame, most: int) -> list[pa.RecordBatch]:
    """What `df.toArrow` gathers, but that more than so many bytes are not waited for."""
    java: Any = df._jdf
    port, secret, server = java.collectAsArrowToPython()
    try:
        with _load_from_socket((port, secret), Bounded(most)) as stream:
            found = list(stream)
    except _TooMany:
        raise  # the other side finds nobody listening, and what it says of that is of no interest
    except Exception:
        with unwrap_spark_exception():
            server.getResult()  # raises what failed there
        raise
    with unwrap_spark_exception():
        server.getResult()
    return found


class _TooMany(TidegateError):  # noqa: N818  # reads as what it is
    """There are more rows than are collected. A TidegateError, so that the jobs are cancelled; no user sees it."""

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__("too many rows to collect")
        self.schema = schema


class Bounded(ArrowStreamSerializer):
    """Reads batches as they come, up to so many bytes; then in which order they belong."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def load_stream(self, stream: Any) -> Iterator[pa.RecordBatch]:
        """The batches in the order of the rows."""
        batches, size = [], 0
        for one in super().load_stream(stream):
            size += one.nbytes
            if size > self.most:
                raise _TooMany(one.schema)
            batches.append(one)
        count = _read_int(stream)
        if count < 0:
            raise RuntimeError(_text().loads(stream))
        yield from (batches[_read_int(stream)] for _ in range(count))
