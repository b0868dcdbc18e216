"""Maintenance on Spark: the tasks of `shard/maintain.py`, done by the executors of a session.

    db.compact("orders", full=True, spark=spark)       small parts merged; `shard/compact.py` says which
    db.recluster("orders", by=["customer"], spark=spark)
    db.backfill_statistics("orders", spark=spark)

Each group of parts is a Spark job of as many tasks as it has shares, mostly one. Several jobs run at once, each waited for by a
thread, and what they give is put into the state as they end, so that whoever kills the driver loses only what was under way. (One
job for all groups would give everything at its end.) A row that comes back is the description of a part, never data: parts go from
the task to the store.

    driver                          executors
    plan ──▶ job 1: group 1   ──▶   read, merge, sort, describe, store
             job 2: group 2   ──▶   …
    compare-and-set  ◀── Part(…)

A task that fails is done again, as Spark does, up to `spark.task.maxFailures` times; an executor that dies takes its tasks with it,
and they are done by another. Either may leave parts that nobody refers to; `sweep` deletes them.

Tasks need tidegate and a way to the store of parts: the same folder, or a bucket with credentials from the URL or their own
environment. They need none to the metadata. A database in memory cannot be reached.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidegate.errors import TidegateError, UnsupportedError
from tidegate.shard.compact import neighbours
from tidegate.shard.task import Made, Task, do
from tidegate.shard.writer import Shard
from tidegate.spark.attempt import attempted, attempts
from tidegate.spark.failure import failed, told
from tidegate.store.place import Place

IDLE_S = 1.0
"""How often whoever waits looks after its lease."""
MOST = 32
"""Jobs at once at most."""

K = TypeVar("K")


class SparkCrew:
    """The executors of a session. A `Crew`."""

    def __init__(self, spark: SparkSession, place: Place, what: str = "tidegate maintenance") -> None:
        if place.kind == "memory":
            raise UnsupportedError(
                "a database in memory cannot be reached by Spark's tasks",
                hint="leave out spark=…; or open a folder or a bucket",
            )
        self.context, self.what = _context(spark), what

    def do(
        self, jobs: Iterable[tuple[K, Sequence[Task]]], idle: Callable[[], None]
    ) -> Iterator[tuple[K, list[Any]]]:
        """For each job, as it ends, what its tasks gave. There are two tasks for each core, so that none waits for the driver."""
        group = f"tidegate-{secrets.token_hex(6)}"
        waiting: dict[Future[list[Any]], tuple[K, int]] = {}
        upcoming, more = iter(jobs), True
        most = 2 * max(1, self.context.defaultParallelism)
        pool = ThreadPoolExecutor(MOST, thread_name_prefix=group)
        try:
            while more or waiting:
                while more and len(waiting) < MOST and sum(many for _, many in waiting.values()) < most:
                    job = next(upcoming, None)
                    if job is None:
                        more = False
                    else:
                        waiting[pool.submit(self._run, group, job[1])] = job[0], len(job[1])
                ended, _ = wait(waiting, timeout=IDLE_S, return_when=FIRST_COMPLETED)
                idle()
                for future in ended:
                    key, _ = waiting[future]
                    found = future.result()
                    del waiting[future]
                    yield key, found
        finally:
            if waiting:
                self._cancel(group)
            pool.shutdown(cancel_futures=True)

    def _run(self, group: str, tasks: Sequence[Task]) -> list[Any]:
        """One job. In a thread of its own, whose local properties are its own too."""
        if not tasks:
            return []
        try:
            self.context.setJobGroup(group, self.what)
            work = partial(_done, attempts(self.context))
            found = list(self.context.parallelize(tasks, len(tasks)).map(work).collect())
        except (PySparkException, Py4JError) as error:
            raise told(error) or failed(
                "a Spark job of the maintenance", error, "what was done so far stays; run it again"
            ) from None
        for one in found:
            if isinstance(one, TidegateError):
                raise one
        return found

    def _cancel(self, group: str) -> None:
        try:
            self.context.cancelJobGroup(group)
        except Py4JError:
            return  # Spark itself has gone


def _done(many: int, task: Task) -> Made | TidegateError:
    """Does a task, on an executor."""
    return attempted(many, partial(do, task))


def _context(spark: SparkSession) -> SparkContext:
    try:
        return spark.sparkContext
    except (PySparkException, AttributeError):
        raise UnsupportedError(
            "maintenance needs a session in this process, and not one of Spark Connect",
            hint="leave out spark=…, and it is done here; or run it where the driver is",
        ) from None


def active(shard: Shard, place: Place, *, full: bool) -> SparkSession | None:
    """The session in which a compaction is to run if nobody said where; None: in this process, as there is little to do."""
    spark = SparkSession.getActiveSession()
    if spark is None or place.kind == "memory":
        return None
    found = neighbours(shard, shard.machine.fetch(), full=full)
    return spark if sum(some.size for some in found) >= shard.config.spark_compact_bytes else None
