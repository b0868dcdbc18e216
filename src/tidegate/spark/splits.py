"""The stream of a source, as Spark sees it: a reader that plans batches, and tasks that do what was planned. See `ingest.py`.

Spark starts four Python processes for a stream: one makes the source, one its tasks, one plans as long as the query lives, and each
core has one for tasks. Only the last two do anything, so this module imports nothing of ours until they do.
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
    from tidegate.ingest.pipeline import Job
    from tidegate.session.planning import Planning
    from tidegate.shard.writer import Shard
    from tidegate.store.place import Place

FORMAT = "tidegate_splits"
PLAN = "secret"
"""The option with all that the reader must know. Spark does not show options whose names say that they are secret."""


class SplitsSource(DataSource):
    """The stream of one source, as Spark knows it."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(…)`."""
        return FORMAT

    def schema(self) -> StructType:
        """One descriptor, pickled."""
        return StructType().add("descriptor", BinaryType())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  # as Spark calls it
        """Plans and reads."""
        return Splits(self.options[PLAN])


class Piece(InputPartition):
    """What one task does: a job, or to tell of an error."""

    def __init__(self, job: Job | Exception, attempts: int) -> None:
        super().__init__(None)
        self.job, self.attempts = job, attempts


class Splits(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the batches of a source. Lives in a process of its own as long as the query does; `read` runs in tasks."""

    def __init__(self, plan: str) -> None:
        self._plan = plan
        self._planning: Planning | None = None
        self._attempts = 1
        self._number = 0
        self._jobs: Sequence[Job | Exception] = ()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # as Spark calls it
        """The plan says already that it is to end where upstream stands now."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  # as Spark calls it
        """Where the stream begins: nowhere. Where the source does, its collections know."""
        return {"batch": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802  # as Spark does
        """One batch further, if there is something new."""
        if self._number <= start["batch"]:
            jobs = self._following()
            if jobs is None:
                return start
            self._number, self._jobs = start["batch"] + 1, jobs
        return {"batch": self._number}

    def _following(self) -> Sequence[Job | Exception] | None:
        try:
            if self._planning is None:
                self._planning, self._attempts = _planning(unpickled(base64.b64decode(self._plan)))
            return self._planning.following()
        except Exception as error:  # noqa: BLE001  # it is raised in the driver
            return [_portable(error)]

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The jobs of the batch."""
        there = start["batch"] < end["batch"] == self._number
        return [Piece(job, self._attempts) for job in self._jobs] if there else []

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes]]:
        """In a task: a descriptor of what it has stored, or the error that it failed of."""
        from tidegate.ingest.pipeline import run
        from tidegate.spark.attempt import attempted

        assert isinstance(partition, Piece)
        job = partition.job
        done = job if isinstance(job, Exception) else attempted(partition.attempts, partial(run, job))
        yield (pickle.dumps(done),)

    def stop(self) -> None:
        """The query has ended, and the JVM has hung up, or this is about to fail of an error."""
        if self._planning is not None:
            self._planning.close()
        if isinstance(sys.exception(), EOFError):
            os._exit(0)  # pyspark would try to tell the JVM, fail, and print two tracebacks


def unpickled(data: bytes) -> Any:
    """What was pickled by this process, or by a task of its own."""
    return pickle.loads(data)  # noqa: S301  # nobody else writes to these


def _portable(error: Exception) -> Exception:
    """An error that can be pickled."""
    try:
        unpickled(pickle.dumps(error))
    except Exception:  # noqa: BLE001  # there are exceptions that pickle, and cannot be made again
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _planning(given: tuple[Any, ...]) -> tuple[Planning, int]:
    from tidegate.clock import SystemClock
    from tidegate.session.planning import Planning

    source, place, config, once, attempts = given
    return Planning(source, _shards(place, config), place, config, SystemClock(), once=once), attempts


def _shards(place: Place, config: Config) -> Callable[[str], Shard]:
    """Opens shards, each once."""
    from functools import cache

    from tidegate.clock import SystemClock
    from tidegate.shard.heart import beat
    from tidegate.shard.root import open_root
    from tidegate.shard.statistics import describing
    from tidegate.shard.writer import Shard

    catalog = open_root(place, SystemClock()).catalog

    @cache
    def opened(name: str) -> Shard:
        machine = catalog.shard_machine(name)
        return beat(Shard(machine, config, describing(machine, config)))

    return opened
