"""Maintenance on Spark: the tasks of `storage/maintain/distribute.py` run on executors.

    db.compact("orders", full=True, spark=spark)       merges small parts; `storage/maintain/compact.py` chooses them
    db.recluster("orders", by=["customer"], spark=spark)
    db.backfill_statistics("orders", spark=spark)

Each group of parts is a Spark job with one task per share of the group, mostly one. Several jobs run at once, each awaited by a
thread, and their results enter the state as they end: killing the driver loses only the jobs that are running. (One job for all
groups would return everything at its end.) A task returns the description of a part, never data: parts go from the task to the
store.

    driver                          executors
    plan ──▶ job 1: group 1   ──▶   read, merge, sort, describe, store
             job 2: group 2   ──▶   …
    compare-and-set  ◀── Part(…)

Spark retries a failed task up to `spark.task.maxFailures` times; tasks of an executor that dies run on another. Both may leave
parts that nothing refers to, which `sweep` deletes.

Tasks need tidegate and access to the blob store: the same folder, or a bucket with credentials from the URL or from their own
environment. They do not need the metadata store. A database in memory cannot be reached.
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
from tidegate.spark.task_errors import job_error, tidegate_error
from tidegate.spark.tasks.retry import max_attempts, run_attempt
from tidegate.storage import Location
from tidegate.storage.maintain import MaintenanceResult, MaintenanceTask, plan_groups, run_task
from tidegate.storage.shard import Shard

IDLE_S = 1.0
"""Seconds between two calls of `idle`, which renews the lease."""
MAX_JOBS = 32
"""Jobs that run at the same time."""

K = TypeVar("K")


class SparkCrew:
    """Runs maintenance tasks on the executors of a session."""

    def __init__(self, spark: SparkSession, place: Location, what: str = "tidegate maintenance") -> None:
        if place.kind == "memory":
            raise UnsupportedError(
                "a database in memory cannot be reached by Spark's tasks",
                hint="leave out spark=…; or open a folder or a bucket",
            )
        self.context, self.what = _context(spark), what

    def run(
        self, jobs: Iterable[tuple[K, Sequence[MaintenanceTask]]], idle: Callable[[], None]
    ) -> Iterator[tuple[K, list[Any]]]:
        """Yields the results of each job as it ends. Two tasks per core keep cores from waiting."""
        group = f"tidegate-{secrets.token_hex(6)}"
        waiting: dict[Future[list[Any]], tuple[K, int]] = {}
        upcoming, more = iter(jobs), True
        max_tasks = 2 * max(1, self.context.defaultParallelism)
        pool = ThreadPoolExecutor(MAX_JOBS, thread_name_prefix=group)
        try:
            while more or waiting:
                while (
                    more
                    and len(waiting) < MAX_JOBS
                    and sum(count for _, count in waiting.values()) < max_tasks
                ):
                    job = next(upcoming, None)
                    if job is None:
                        more = False
                    else:
                        waiting[pool.submit(self._run, group, job[1])] = job[0], len(job[1])
                ended, _ = wait(waiting, timeout=IDLE_S, return_when=FIRST_COMPLETED)
                idle()
                for future in ended:
                    key, _ = waiting[future]
                    results = future.result()
                    del waiting[future]
                    yield key, results
        finally:
            if waiting:
                self._cancel(group)
            pool.shutdown(cancel_futures=True)

    def _run(self, group: str, tasks: Sequence[MaintenanceTask]) -> list[Any]:
        """Runs one job, in a thread with Spark properties of its own."""
        if not tasks:
            return []
        try:
            self.context.setJobGroup(group, self.what)
            work = partial(_run_task, max_attempts(self.context))
            results = list(self.context.parallelize(tasks, len(tasks)).map(work).collect())
        except (PySparkException, Py4JError) as error:
            raise tidegate_error(error) or job_error(
                "a Spark job of the maintenance", error, "finished jobs are committed; run it again"
            ) from None
        for result in results:
            if isinstance(result, TidegateError):
                raise result
        return results

    def _cancel(self, group: str) -> None:
        try:
            self.context.cancelJobGroup(group)
        except Py4JError:
            return  # Spark has stopped


def _run_task(attempts: int, task: MaintenanceTask) -> MaintenanceResult | TidegateError:
    """Runs a task on an executor."""
    return run_attempt(attempts, partial(run_task, task))


def _context(spark: SparkSession) -> SparkContext:
    try:
        return spark.sparkContext
    except (PySparkException, AttributeError):
        raise UnsupportedError(
            "maintenance needs a Spark session in this process, not a Spark Connect session",
            hint="leave out spark=… to run in this process; or run it where the driver is",
        ) from None


def compaction_session(shard: Shard, place: Location, *, full: bool) -> SparkSession | None:
    """Returns the active session if a compaction is large enough for it; None: run it in this process."""
    spark = SparkSession.getActiveSession()
    if spark is None or place.kind == "memory":
        return None
    groups = plan_groups(shard, shard.machine.fetch(), full=full)
    return spark if sum(group.size for group in groups) >= shard.config.spark_compact_bytes else None
