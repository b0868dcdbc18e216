"""Running a DataFrame for a user: its rows as Arrow, in bounds, until it is done or stopped.

    with watched(spark, watch):
        rows = collected(df, types, max_bytes)

A thread looks at the `Watch` while Spark works: when that is over, the jobs are cancelled by their tag, and what is raised is what
the watch says. So are they when anything else ends the work, such as Ctrl-C. On a terminal the thread also draws a bar to stderr,
for jobs that take more than a second.
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
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.util import _load_from_socket

from tidegate.errors import EvaluationError, LimitError, TidegateError, UnsupportedError
from tidegate.expr.types import Type
from tidegate.scan.watch import Watch
from tidegate.spark.arrow import from_spark
from tidegate.spark.failure import told

_read_int: Any = read_int
_text: Any = UTF8Deserializer  # both without types in pyspark
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
def watched(spark: SparkSession, watch: Watch) -> Iterator[None]:
    """What runs in here ends when the watch does."""
    watch.check()
    context = spark.sparkContext
    logging.getLogger("SQLQueryContextLogger").disabled = True  # it prints texts that no user has ever seen
    looking = _Looking(context, watch)
    context.addJobTag(looking.tag)
    context.setLocalProperty(_INTERRUPT, "true")
    looking.start()
    try:
        yield
        watch.check()
    except BaseException as error:
        if looking.stopped is not None:
            raise looking.stopped from None
        if not isinstance(error, Exception) or isinstance(error, TidegateError):
            context.cancelJobsWithTag(looking.tag)
        elif (ours := translated(error)) is not error:
            raise ours from None
        raise
    finally:
        looking.over.set()
        looking.join()
        context.removeJobTag(looking.tag)
        context.setLocalProperty(_INTERRUPT, "false")


class _Looking(threading.Thread):
    """Looks at a watch while jobs run, and draws how far they are."""

    def __init__(self, context: Any, watch: Watch) -> None:
        super().__init__(name="tidegate-watch", daemon=True)
        self.context, self.watch = context, watch
        self.tag = f"tidegate-{uuid.uuid4().hex}"
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


def collected(df: DataFrame, types: Sequence[Type], max_bytes: int) -> list[pa.ChunkedArray]:
    """The rows of a DataFrame, column by column, in our types."""
    batches = _batches(df, max_bytes)
    made = []
    for i, type_ in enumerate(types):
        chunks = [from_spark(one.column(i), type_) for one in batches if one.num_rows]
        made.append(pa.chunked_array(chunks, type_.arrow))
    return made


def _batches(df: DataFrame, max_bytes: int) -> list[pa.RecordBatch]:
    """What `df.toArrow` gathers, but that more than `max_bytes` are not waited for."""
    java: Any = df._jdf
    port, secret, server = java.collectAsArrowToPython()
    try:
        with _load_from_socket((port, secret), Bounded(max_bytes)) as stream:
            found = list(stream)
    except LimitError:
        raise  # the other side finds nobody listening, and what it says of that is of no interest
    except Exception:
        with unwrap_spark_exception():
            server.getResult()  # raises what failed there
        raise
    with unwrap_spark_exception():
        server.getResult()
    return found


class Bounded(ArrowStreamSerializer):
    """Reads batches as they come, up to so many bytes; then in which order they belong."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self.max_bytes = max_bytes

    def load_stream(self, stream: Any) -> Iterator[pa.RecordBatch]:
        """The batches in the order of the rows."""
        batches, size = [], 0
        for one in super().load_stream(stream):
            size += one.nbytes
            if size > self.max_bytes:
                raise LimitError(
                    f"the result is larger than max_result_bytes, {self.max_bytes:,}",
                    hint="SET max_result_bytes to a larger value, or ask for less: a LIMIT, fewer columns",
                )
            batches.append(one)
        count = _read_int(stream)
        if count < 0:
            raise RuntimeError(_text().loads(stream))
        yield from (batches[_read_int(stream)] for _ in range(count))
