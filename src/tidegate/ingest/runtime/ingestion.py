"""Running sources: the `Ingestion` that `db.ingest` returns, and the thread that drives it.

    q = db.ingest("orders")              in the background, until q.stop()
    q.progress()                         records read, kept and dropped, and the lag
    q.stop()

Each source has a thread. A `BatchRunner` (Spark's tasks, or this process) reads batch after batch for it; the thread handles
failures and changes between batches:

| event | reaction |
|---|---|
| the upstream does not answer (`SourceError(again=True)`) | retries, at growing intervals; `progress()` shows it |
| the store fails, a worker dies, another process was faster | retries, but not for ever |
| records are lost, the schema has changed (`again=False`) | ends; `q.error` is the reason |
| more bad records than MAX ERRORS | ends, after the batch that contains them |
| `ingest_merge_batches` batches are committed | merges small parts, and settles retractions; not with `once` |
| ALTER SOURCE … PAUSE, RESUME, SET TRANSFORM | applied within a second; DROP SOURCE ends it |

None of these loses or repeats a record: the position of a source is in the state of its collections (`ingest/batch/position.py`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from tidegate import fork
from tidegate.boundary import guarded, internal, outward
from tidegate.context import Context
from tidegate.errors import (
    BindError,
    ConflictError,
    CorruptError,
    ReadOnlyError,
    SourceError,
    StoreError,
    TidegateError,
)
from tidegate.ingest.batch.commit import CommittedBatch, commit_or_reread, count_bad_records, log_batch
from tidegate.ingest.batch.planning import BatchPlanner
from tidegate.ingest.batch.position import committed_position, read_positions
from tidegate.ingest.batch.task import IngestTask, TaskResult, run_task
from tidegate.ingest.define import catalog as definitions
from tidegate.ingest.definition import SourceDefinition
from tidegate.ingest.envelopes.output import RecordCounts
from tidegate.ingest.runtime.progress import (
    FINAL_STATES,
    IngestionProgress,
    IngestionState,
    ReportIngestion,
    show_progress,
    total_counts,
)
from tidegate.logs import ids, new_id
from tidegate.progress import ProgressBars
from tidegate.storage.catalog import SourceItem as Item
from tidegate.storage.maintain import compact_shard, expire_parts
from tidegate.storage.shard import Shard

logger = logging.getLogger(__name__)

MAX_FAILURES = 6
"""Consecutive failures, without a batch in between, after which an error that may be permanent ends the ingestion."""
CATALOG_CHECK_S = 1.0
"""Seconds between checks of the catalog for a source that is paused, changed or dropped."""
EXPIRE_S = 60.0
MAX_MERGED_BYTES = 64 << 20
"""Bytes of small parts that are merged between two batches: the source waits for it."""
LAG_S = 2.0
SMALL_BATCH_RECORDS = 10_000
"""After a smaller batch the next one waits for `ingest_poll_ms`, so that a slow stream does not write many tiny parts."""


class BatchRunner(Protocol):
    """Reads the batches of a source: Spark's tasks, or this process."""

    def work(self, ingestion: Ingestion, source: SourceDefinition) -> None:
        """Reads batches while `ingestion.should_continue()`; with `once` until nothing is left."""
        ...


class Ingestion:
    """A source that is being ingested. Its methods may be called from any thread.

    q = db.ingest("orders_30d")
    q.progress().records, q.progress().state
    q.stop()
    """

    def __init__(
        self, context: Context, item: Item, name: str, *, once: bool, report: ReportIngestion | None
    ) -> None:
        self.context, self.name, self.once = context, name, once
        self.error: BaseException | None = None
        """The reason for its end, if it failed."""
        self._item = item
        self._report = report or partial(show_progress, ProgressBars())
        self._source: SourceDefinition | None = None
        self._stop, self._lock = threading.Event(), fork.lock()
        self._now = IngestionProgress(name)
        self._counts: dict[str, RecordCounts] = {}
        self._began = self._expired = time.monotonic()
        self._catalog_checked = self._lag_read = 0.0
        self._unchanged, self._failures, self._unmerged = True, 0, 0
        self._thread: threading.Thread | None = None

    # ------------------------------------------------------------ for the caller of db.ingest

    @guarded
    def progress(self) -> IngestionProgress:
        """Returns the progress. It asks the upstream for the lag at most every two seconds."""
        source, now = self._source, time.monotonic()
        ended = self._now.state in FINAL_STATES
        if source is not None and not ended and now - self._lag_read >= LAG_S:
            self._lag_read = now
            self._read_lag(source)
        with self._lock:
            return self._now if ended else replace(self._now, seconds=now - self._began)

    @guarded
    def stop(self) -> None:
        """Stops it and waits for its end: abandons a batch that is being read; committed batches stay."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    @guarded
    def wait(self, timeout: float | None = None) -> bool:
        """Waits for its end; returns whether it has ended. Raises the error if it failed."""
        assert self._thread is not None
        self._thread.join(timeout)
        if self.error is not None:
            raise self.error
        return not self._thread.is_alive()

    @property
    def running(self) -> bool:
        """Whether it is still running."""
        return self._thread is not None and self._thread.is_alive()

    # ------------------------------------------------------------ for the runner

    @property
    def stopping(self) -> threading.Event:
        """The event that is set when the ingestion must end."""
        return self._stop

    @property
    def batches(self) -> int:
        """The number of batches it has committed."""
        return self._now.batches

    def should_continue(self) -> bool:
        """Whether to continue with the source as it was loaded."""
        now = time.monotonic()
        if now - self._catalog_checked >= CATALOG_CHECK_S:
            self._catalog_checked = now
            self._unchanged = self.context.catalog.find(self.name) == self._item
        return self._unchanged and not self._stop.is_set()

    def idle(self) -> None:
        """Records that the upstream has nothing new."""
        self._failures = 0
        if self._now.state != "idle":
            self._set_state("idle")

    def commit(
        self,
        source: SourceDefinition,
        results: Sequence[TaskResult],
        planner: BatchPlanner,
        run_alone: Callable[[IngestTask], TaskResult],
    ) -> None:
        """Commits the results of all tasks of a batch; `run_alone` runs a task that reads all splits."""
        began = time.monotonic()
        with ids(source=self.name, batch_id=new_id()):
            committed = commit_or_reread(source, planner, results, run_alone)
            log_batch(committed, time.monotonic() - began)
        self._count(source, committed)
        self._maintain([planner.shards(output.shard) for output in source.outputs])
        self._check_errors(source)

    def _maintain(self, shards: Sequence[Shard]) -> None:
        """Drops expired parts now and then; merges small parts after some batches, unless it ends soon."""
        if time.monotonic() - self._expired >= EXPIRE_S:
            self._expired = time.monotonic()
            for shard in shards:
                expire_parts(shard)
        interval = self.context.current().config.ingest_merge_batches
        self._unmerged += 1
        if self.once or not interval or self._unmerged < interval:
            return
        self._unmerged = 0
        for shard in shards:
            try:
                compact_shard(shard, max_bytes=MAX_MERGED_BYTES)
            except StoreError as error:  # the rows are committed, and the next merge starts anew
                logger.warning("small parts of %s are not merged: %s", self.name, error.message)

    # ------------------------------------------------------------ the thread

    def start(self, runner: BatchRunner) -> None:
        """Starts the thread."""
        self._thread = threading.Thread(
            target=self._main, args=(runner,), name=f"ingest {self.name}", daemon=True
        )
        self._thread.start()

    def _main(self, runner: BatchRunner) -> None:
        try:
            while not self._stop.is_set():
                try:
                    if self._round(runner):
                        assert self._source is not None
                        self._read_lag(self._source)
                        self._set_state("done")
                        return
                except Exception as error:  # noqa: BLE001  # a thread that dies silently would be worse
                    self._handle_failure(error)
            self._set_state("stopped")
        except Exception as error:  # noqa: BLE001  # wait() raises it
            self.error = outward(error)
            self._set_state("failed", str(self.error))
        except BaseException as error:  # noqa: BLE001  # SystemExit, of a library
            self.error = error
            self._set_state("failed", type(error).__name__)
        finally:
            if self._source is not None:
                self._source.upstream.close()

    def _round(self, runner: BatchRunner) -> bool:
        """Ingests the source as it is defined now; returns whether everything is ingested."""
        item = definitions.source_item(self.context, self.name)
        if item != self._item:
            # The source is reloaded; an unchanged one reuses what it holds open, such as a snapshot.
            self._item, self._source = item, None
        self._unchanged, self._catalog_checked = True, time.monotonic()
        if self._item.paused:
            if self.once:
                raise SourceError(
                    f'source "{self.name}" is paused', again=False, hint=f"ALTER SOURCE {self.name} RESUME"
                )
            if self._now.state != "paused":
                self._set_state("paused")
            self._stop.wait(CATALOG_CHECK_S)
            return False
        source = self._source or definitions.load_source_item(self.context, self._item)
        self._source = source
        self._check_errors(source)
        runner.work(self, source)
        return self.once and not self._stop.is_set() and self._unchanged

    def _handle_failure(self, error: Exception) -> None:
        """Waits before the next attempt; raises the error if another attempt is useless."""
        if self.context.catalog.find(self.name) is None:
            raise BindError(f'source "{self.name}" was dropped') from error
        self._failures += 1
        # A lost race means that another process has advanced the source: no reason to give up.
        lost = isinstance(error, ConflictError)
        down = isinstance(error, SourceError) and error.again
        known = isinstance(error, TidegateError) and not isinstance(error, StoreError)
        if isinstance(error, CorruptError | ReadOnlyError) or (known and not lost and not down):
            raise error
        if self._failures >= MAX_FAILURES and not lost and (self.once or not down):
            raise error
        self._set_state("retrying", str(internal(error)))
        pause = min(
            0.25 * 2 ** min(self._failures - 1, 20), self.context.current().config.ingest_retry_ms / 1000
        )
        self._stop.wait(pause)

    def _count(self, source: SourceDefinition, committed: CommittedBatch) -> None:
        self._failures = 0
        for name, counts in committed.counts.items():
            self._counts[name] = self._counts.get(name, RecordCounts()).plus(counts)
        every = total_counts(source.tables, self._counts)
        errors = count_bad_records(self.context.shard(source.errors))
        with self._lock:
            self._now = replace(
                self._now,
                batches=self._now.batches + 1,
                parts=self._now.parts + committed.parts,
                collections=dict(self._counts),
                errors=errors,
                **every._asdict(),
            )
        metrics = self.context.metrics
        metrics.add("ingest_batches")
        for what in ("kept", "filtered", "expired", "bad"):
            metrics.add(
                "ingest_records",
                sum(getattr(counts, what) for counts in committed.counts.values()),
                what=what,
            )
        metrics.add("ingest_bytes", total_counts(source.tables, committed.counts).bytes)
        self._read_lag(source)
        self._set_state("running")

    def _check_errors(self, source: SourceDefinition) -> None:
        """Raises if the source has more bad records than MAX ERRORS."""
        if source.max_errors is None:
            return
        errors = count_bad_records(self.context.shard(source.errors))
        if errors > source.max_errors:
            raise SourceError(
                f'source "{source.name}" has stopped: {source.name}_errors holds {errors} bad records, and MAX ERRORS is '
                f"{source.max_errors}",
                again=False,
                hint=f"SELECT message, position FROM {source.name}_errors; after a fix, ALTER SOURCE {source.name} REPLAY ERRORS",
            )

    def _read_lag(self, source: SourceDefinition) -> None:
        try:
            lag = source.upstream.lag(committed_position(read_positions(source, self.context.shard)))
        except TidegateError:
            return  # reading the next batch reports the error
        with self._lock:
            self._now = replace(self._now, lag=lag)

    def _set_state(self, state: IngestionState, trouble: str | None = None) -> None:
        with self._lock:
            self._now = replace(
                self._now, state=state, trouble=trouble, seconds=time.monotonic() - self._began
            )
        self._report(self._now)


class LocalRunner:
    """Runs tasks in this process, one after another."""

    def work(self, ingestion: Ingestion, source: SourceDefinition) -> None:
        """Reads batches, and waits for new records in between."""
        context = ingestion.context
        planner = BatchPlanner(
            source,
            context.shard,
            context.root.place,
            context.current().config,
            context.clock,
            once=ingestion.once,
        )
        try:
            while ingestion.should_continue():
                tasks = planner.next_tasks(in_turn=True)
                if tasks is None:
                    if ingestion.once:
                        return
                    ingestion.idle()
                    ingestion.stopping.wait(context.current().config.ingest_poll_ms / 1000)
                    continue
                began, results = time.monotonic(), []
                for task in tasks:
                    if not ingestion.should_continue():
                        return
                    results.append(run_task(task))
                ingestion.commit(source, results, planner, run_task)
                small = (
                    sum(counts.records for result in results for counts in result.counts.values())
                    < SMALL_BATCH_RECORDS
                )
                if small and not ingestion.once:
                    left = context.current().config.ingest_poll_ms / 1000 - (time.monotonic() - began)
                    ingestion.stopping.wait(max(left, 0))
        finally:
            planner.close()
