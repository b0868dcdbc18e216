"""The stream of a source as Spark sees it: a reader that plans batches, and tasks that run them.

See `ingest.py`.

Spark starts four kinds of Python processes for a stream: one creates the source, one creates its tasks, one plans as long as the
query lives, and one for each core runs tasks. Only the last two do anything, so this module imports nothing of ours before.
"""

from __future__ import annotations

import base64
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, StructType

if TYPE_CHECKING:
    from tidegate.config import Config
    from tidegate.ingest.batch import BatchPlanner, IngestTask
    from tidegate.storage import Location
    from tidegate.storage.shard import Shard

FORMAT = "tidegate_splits"
PLAN = "secret"
"""The option with everything the reader needs. Spark hides the values of options with such names."""


class IngestStreamSource(DataSource):
    """The data source of one ingested source."""

    @classmethod
    def name(cls) -> str:
        """Returns the name for `format(…)`."""
        return FORMAT

    def schema(self) -> StructType:
        """Returns one column: a pickled task result."""
        return StructType().add("descriptor", BinaryType())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  # as Spark calls it
        """Returns the reader that plans batches."""
        return SourceStreamReader(self.options[PLAN])


class IngestPartition(InputPartition):
    """What one task does: an ingest task, or an error of planning to return."""

    def __init__(self, job: IngestTask | Exception, attempts: int) -> None:
        super().__init__(None)
        self.job, self.attempts = job, attempts


class SourceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the batches of a source in a process that lives as long as the query; `read` runs in tasks."""

    def __init__(self, plan: str) -> None:
        self._plan = plan
        self._planning: BatchPlanner | None = None
        self._attempts = 1
        self._number = 0
        self._jobs: Sequence[IngestTask | Exception] = ()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # as Spark calls it
        """Does nothing: the plan already ends at the present position of upstream."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  # as Spark calls it
        """Returns offset 0: the collections hold the position of the source, not Spark."""
        return {"batch": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802  # as Spark does
        """Returns the next offset if upstream has new data, else the same."""
        if self._number <= start["batch"]:
            jobs = self._following()
            if jobs is None:
                return start
            self._number, self._jobs = start["batch"] + 1, jobs
        return {"batch": self._number}

    def _following(self) -> Sequence[IngestTask | Exception] | None:
        try:
            if self._planning is None:
                self._planning, self._attempts = _planning(unpickle(base64.b64decode(self._plan)))
            return self._planning.next_tasks()
        except Exception as error:  # noqa: BLE001  # the driver raises it
            return [_portable(error)]

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Returns a partition for each task of the batch."""
        is_planned = start["batch"] < end["batch"] == self._number
        return [IngestPartition(job, self._attempts) for job in self._jobs] if is_planned else []

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes]]:
        """Runs one task and yields its pickled result, or its error."""
        from tidegate.ingest.batch import run_task
        from tidegate.spark.tasks.retry import run_attempt

        assert isinstance(partition, IngestPartition)
        job = partition.job
        result = (
            job if isinstance(job, Exception) else run_attempt(partition.attempts, partial(run_task, job))
        )
        yield (pickle.dumps(result),)

    def stop(self) -> None:
        """Closes the planner when the query has ended or is about to fail."""
        if self._planning is not None:
            self._planning.close()
        if isinstance(sys.exception(), EOFError):
            os._exit(0)  # the JVM has gone: pyspark would fail to report that to it, and print two tracebacks


def unpickle(data: bytes) -> Any:
    """Loads what this process or one of its tasks has pickled."""
    return pickle.loads(data)  # noqa: S301  # only our own processes write these bytes


def _portable(error: Exception) -> Exception:
    """Returns the error, or one with the same text if it cannot be pickled."""
    try:
        unpickle(pickle.dumps(error))
    except Exception:  # noqa: BLE001  # some exceptions can be pickled and not unpickled
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _planning(plan: tuple[Any, ...]) -> tuple[BatchPlanner, int]:
    from tidegate.clock import SystemClock
    from tidegate.ingest.batch import BatchPlanner

    source, place, config, once, attempts = plan
    return BatchPlanner(source, _shards(place, config), place, config, SystemClock(), once=once), attempts


def _shards(place: Location, config: Config) -> Callable[[str], Shard]:
    """Returns a function that opens shards, each once."""
    from functools import cache

    from tidegate.clock import SystemClock
    from tidegate.storage.catalog import open_root
    from tidegate.storage.shard import LeaseKeeper, Shard

    catalog, keeper = open_root(place, SystemClock()).catalog, LeaseKeeper(config.lease_ms)

    @cache
    def open_shard(name: str) -> Shard:
        machine = catalog.shard_machine(name)
        keeper.keep(machine)
        return Shard.open(machine, config)

    return open_shard
