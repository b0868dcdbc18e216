"""How a question is asked through `db.sql` and `db.table`, and how variants that take turns are timed.

    measure(LIMITS[0], [Variant("append-only", False, by_sql(db), expected), …], Effort(), time.perf_counter)

The first turn warms up, and asks a question's probe; it never counts, since the variant that is asked first pays for what all
others find warm. In each turn another variant begins. One that took `Effort.seconds` altogether is not asked again.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tidegate
from bench.retractions.report import Cell
from bench.retractions.rows import SCAN_ON_SPARK, Question, Variant, stream_totals

SHORT_S, MOST_REPEATS = 0.03, 10
"""A variant is asked again in the same turn until it took so long, or so often."""


class TooSlow(Exception):  # noqa: N818  # reads as what it is
    """A query was stopped."""


@dataclass(frozen=True)
class Effort:
    """How long is measured."""

    rounds: int = 7
    seconds: float = 10.0
    """Time after which one variant is not asked again."""
    patience: float = 60.0
    """Time after which a query is stopped."""


# ---------------------------------------------------------------- paths


def by_sql(db: tidegate.Database) -> Callable[[Question], pa.Table]:
    """Asks through `db.sql`."""

    def ask(question: Question) -> pa.Table:
        try:
            result = db.sql(question.sql)
            return stream_totals(result.batches()) if question.is_scan else result.arrow()
        except tidegate.CancelledError as error:
            raise TooSlow from error

    return ask


def by_spark(db: tidegate.Database, spark: Any, patience: float) -> Callable[[Question], pa.Table]:
    """Asks through `db.table`, with a DataFrame that is made for each question."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    def ask(question: Question) -> pa.Table:
        sql = SCAN_ON_SPARK if question.is_scan else question.sql
        timer = threading.Timer(patience, spark.sparkContext.cancelAllJobs)
        timer.start()
        begin = time.perf_counter()
        try:
            return spark.sql(sql.replace("FROM t", "FROM {t}"), t=db.table("t", spark)).toArrow()
        except (Py4JError, PySparkException) as error:
            if time.perf_counter() - begin < patience:
                raise
            raise TooSlow from error
        finally:
            timer.cancel()

    return ask


def s3_jars() -> str:
    """The jars by which Spark reads S3, if `make hadoop` has fetched them."""
    return ",".join(map(str, sorted(Path(sys.prefix, "hadoop").glob("*.jar"))))


def session() -> Any:
    """A Spark session with two cores."""
    from tidegate.spark.session import session as started

    jars = {"spark.jars": s3_jars()} if s3_jars() else {}
    spark = started("local[2]", {"spark.driver.memory": "4g", **jars})
    spark.sparkContext.setLogLevel("ERROR")
    return spark


# ---------------------------------------------------------------- turns


def measure(
    question: Question, variants: Sequence[Variant], effort: Effort, clock: Callable[[], float]
) -> list[Cell]:
    """The median of each variant."""
    took: list[list[float]] = [[] for _ in variants]
    notes = [""] * len(variants)
    for turn in range(effort.rounds + 1):
        for i in np.roll(np.arange(len(variants)), turn).tolist():
            if notes[i] or sum(took[i]) > effort.seconds:
                continue
            times, notes[i] = take_turn(question, variants[i], effort, clock)
            if turn:
                took[i] += times
            elif question.probe is not None:
                notes[i] = notes[i] or take_turn(question.probe, variants[i], effort, clock)[1]
    return [
        Cell(variant.label, variant.compacted, None if note else 1e3 * statistics.median(times), note)
        for variant, times, note in zip(variants, took, notes, strict=True)
    ]


def take_turn(
    question: Question, variant: Variant, effort: Effort, clock: Callable[[], float]
) -> tuple[list[float], str]:
    """The times of one or more answers, and what is wrong with the last, if anything is."""
    times: list[float] = []
    while len(times) < MOST_REPEATS and sum(times) < SHORT_S:
        begin = clock()
        try:
            got = variant.ask(question)
        except TooSlow:
            return times, f"over {effort.patience:g} s"
        times.append(clock() - begin)
        if not question.is_right(got, variant.expected):
            return times, "WRONG"
    return times, ""
