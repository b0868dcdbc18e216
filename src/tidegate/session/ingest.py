"""Running sources: what `db.ingest` gives back, and what keeps it going.

    q = db.ingest("orders")              in the background, until q.stop()
    q.progress()                         what came in, what became of it, how far behind it is
    q.stop()

A source is run by a thread, which has somebody read batch after batch (`Crew`: Spark's tasks, or this process), and deals with what
goes wrong between them:

| what | then |
|---|---|
| upstream does not answer (`SourceError(again=True)`) | it is tried again, later and later; `progress()` says so |
| the store fails, a worker dies, another process was faster | the same, but not for ever |
| records are gone, the schema has changed (`again=False`) | it ends; `q.error` says why |
| more bad records than MAX ERRORS | the same, after the batch in which they are |
| ALTER SOURCE … PAUSE, RESUME, SET TRANSFORM | noticed within a second; DROP SOURCE ends it |

Nothing is lost or doubled by any of them: where a source stands is in the state of its collections (`ingest/standing.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from tidegate import fork
from tidegate.boundary import guarded, internal, outward
from tidegate.errors import (
    BindError,
    ConflictError,
    CorruptError,
    ReadOnlyError,
    SourceError,
    StoreError,
    TidegateError,
)
from tidegate.ingest.definition import Source
from tidegate.ingest.made import Counts
from tidegate.ingest.pipeline import Descriptor, Job, run
from tidegate.ingest.settle import Overlap, Settled, errors_now, settle
from tidegate.ingest.standing import least
from tidegate.session import source as definitions
from tidegate.session.arguments import text
from tidegate.session.ingest_progress import ENDED, Progress, Report, State, shown, total
from tidegate.session.lake import Lake
from tidegate.session.planning import Planning
from tidegate.shard.catalog import Source as Item
from tidegate.shard.expire import expire

TRIES = 6
"""Failures in a row, without a batch between them, of what is not known to pass."""
LOOK_S = 1.0
"""How often it is looked whether the source was paused, changed or dropped."""
EXPIRE_S = 60.0
LAG_S = 2.0
TRICKLE = 10_000
"""Records of a batch below which the next one waits for `ingest_poll_ms`: a part for each handful would be far too many."""


class Crew(Protocol):
    """Whoever reads batches."""

    def work(self, ingestion: Ingestion, source: Source) -> None:
        """Reads batches until `ingestion.wanted()` says no, or with `once` until there is nothing more."""
        ...


class Ingestion:
    """One source that is being ingested. Its methods may be called from any thread."""

    def __init__(self, lake: Lake, item: Item, name: str, *, once: bool, report: Report | None) -> None:
        self.lake, self.name, self.once = lake, name, once
        self.error: BaseException | None = None
        """Why it ended, if it was not told to."""
        self._item, self._report = item, shown if report is None else report
        self._source: Source | None = None
        self._stop, self._lock = threading.Event(), fork.lock()
        self._now = Progress(name)
        self._counts: dict[str, Counts] = {}
        self._began = self._expired = time.monotonic()
        self._looked = self._lag_asked = 0.0
        self._same, self._failures = True, 0
        self._thread: threading.Thread | None = None

    # ------------------------------------------------------------ for whoever has started it

    @guarded
    def progress(self) -> Progress:
        """How it is doing. How far behind it is, upstream is asked, every two seconds at most."""
        source, now = self._source, time.monotonic()
        ended = self._now.state in ENDED
        if source is not None and not ended and now - self._lag_asked >= LAG_S:
            self._lag_asked = now
            self._ask_lag(source)
        with self._lock:
            return self._now if ended else replace(self._now, seconds=now - self._began)

    @guarded
    def stop(self) -> None:
        """Ends it, and waits until it has: a batch that is being read is left; what is committed stays."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    @guarded
    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it has ended; whether it has. Raises what it failed of."""
        assert self._thread is not None
        self._thread.join(timeout)
        if self.error is not None:
            raise self.error
        return not self._thread.is_alive()

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._thread is not None and self._thread.is_alive()

    # ------------------------------------------------------------ for the crew

    @property
    def stopping(self) -> threading.Event:
        """Is set when it is to end."""
        return self._stop

    @property
    def batches(self) -> int:
        """How many batches it has committed."""
        return self._now.batches

    def wanted(self) -> bool:
        """Whether to go on with the source as it was loaded."""
        now = time.monotonic()
        if now - self._looked >= LOOK_S:
            self._looked = now
            self._same = self.lake.catalog.find(self.name) == self._item
        return self._same and not self._stop.is_set()

    def idle(self) -> None:
        """There is nothing new."""
        self._failures = 0
        if self._now.state != "idle":
            self._tell("idle")

    def commit(
        self,
        source: Source,
        descriptors: Sequence[Descriptor],
        planning: Planning,
        alone: Callable[[Job], Descriptor],
    ) -> None:
        """Makes what tasks have done count. `alone` runs a job that must be read as one."""
        shards = self.lake.shard
        try:
            settled = settle(source, shards, descriptors)
        except Overlap:
            stretch = next(one.stretch for one in descriptors if one.stretch is not None)
            (job,) = planning.jobs(stretch, as_one=True)
            try:
                settled = settle(source, shards, [alone(job)])
            finally:
                planning.close()
        self._count(source, settled)
        if time.monotonic() - self._expired >= EXPIRE_S:
            self._expired = time.monotonic()
            for output in source.outputs:
                expire(shards(output.shard))
        self._check_errors(source)

    # ------------------------------------------------------------ its own thread

    def start(self, crew: Crew) -> None:
        """Begins."""
        self._thread = threading.Thread(
            target=self._main, args=(crew,), name=f"ingest {self.name}", daemon=True
        )
        self._thread.start()

    def _main(self, crew: Crew) -> None:
        try:
            while not self._stop.is_set():
                try:
                    if self._round(crew):
                        assert self._source is not None
                        self._ask_lag(self._source)
                        self._tell("done")
                        return
                except Exception as error:  # noqa: BLE001  # a thread that dies silently would be worse
                    self._failed(error)
            self._tell("stopped")
        except Exception as error:  # noqa: BLE001  # whatever it is, whoever waits is told
            self.error = outward(error)
            self._tell("failed", str(self.error))
        except BaseException as error:  # noqa: BLE001  # SystemExit, of a library
            self.error = error
            self._tell("failed", type(error).__name__)

    def _round(self, crew: Crew) -> bool:
        """Ingests the source as it is now defined; whether that was all."""
        self._item = definitions.item_of(self.lake, self.name)
        self._same, self._looked = True, time.monotonic()
        if self._item.paused:
            if self.once:
                raise SourceError(
                    f'source "{self.name}" is paused', again=False, hint=f"ALTER SOURCE {self.name} RESUME"
                )
            if self._now.state != "paused":
                self._tell("paused")
            self._stop.wait(LOOK_S)
            return False
        self._source = source = definitions.loaded(self.lake, self._item)
        self._check_errors(source)
        crew.work(self, source)
        return self.once and not self._stop.is_set() and self._same

    def _failed(self, error: Exception) -> None:
        """Waits before it is tried again; or raises the error, if that is of no use."""
        if self.lake.catalog.find(self.name) is None:
            raise BindError(f'source "{self.name}" was dropped') from error
        self._failures += 1
        # Whoever lost a race lost it to one who has brought the source further: that is no reason to give up.
        lost = isinstance(error, ConflictError)
        down = isinstance(error, SourceError) and error.again
        known = isinstance(error, TidegateError) and not isinstance(error, StoreError)
        if isinstance(error, CorruptError | ReadOnlyError) or (known and not lost and not down):
            raise error
        if self._failures >= TRIES and not lost and (self.once or not down):
            raise error
        self._tell("retrying", str(internal(error)))
        pause = min(0.25 * 2 ** min(self._failures - 1, 20), self.lake.config.ingest_retry_ms / 1000)
        self._stop.wait(pause)

    def _count(self, source: Source, settled: Settled) -> None:
        self._failures = 0
        for name, counts in settled.counts.items():
            self._counts[name] = self._counts.get(name, Counts()).plus(counts)
        every = total(source.tables, self._counts)
        errors = errors_now(self.lake.shard(source.errors))
        with self._lock:
            self._now = replace(
                self._now,
                batches=self._now.batches + 1,
                parts=self._now.parts + settled.parts,
                collections=dict(self._counts),
                errors=errors,
                **every._asdict(),
            )
        metrics = self.lake.metrics
        metrics.add("ingest_batches")
        for what in ("kept", "filtered", "expired", "bad"):
            metrics.add(
                "ingest_records", sum(getattr(one, what) for one in settled.counts.values()), what=what
            )
        metrics.add("ingest_bytes", total(source.tables, settled.counts).bytes)
        self._ask_lag(source)
        self._tell("running")

    def _check_errors(self, source: Source) -> None:
        """Raises if there are more bad records than the source may have."""
        if source.max_errors is None:
            return
        errors = errors_now(self.lake.shard(source.errors))
        if errors > source.max_errors:
            raise SourceError(
                f'source "{source.name}" has stopped: {source.name}_errors holds {errors} bad records, and MAX ERRORS is '
                f"{source.max_errors}",
                again=False,
                hint=f"SELECT message, position FROM {source.name}_errors; after a fix, ALTER SOURCE {source.name} REPLAY ERRORS",
            )

    def _ask_lag(self, source: Source) -> None:
        try:
            lag = source.upstream.lag(least(source, self.lake.shard))
        except TidegateError:
            return  # what cannot be reached is told by the one who reads
        with self._lock:
            self._now = replace(self._now, lag=lag)

    def _tell(self, state: State, trouble: str | None = None) -> None:
        with self._lock:
            self._now = replace(
                self._now, state=state, trouble=trouble, seconds=time.monotonic() - self._began
            )
        self._report(self._now)


class Here:
    """This process: jobs are run one after another."""

    def work(self, ingestion: Ingestion, source: Source) -> None:
        """Reads batches."""
        lake = ingestion.lake
        planning = Planning(source, lake.shard, lake.root.place, lake.config, lake.clock, once=ingestion.once)
        try:
            while ingestion.wanted():
                jobs = planning.following()
                if jobs is None:
                    if ingestion.once:
                        return
                    ingestion.idle()
                    ingestion.stopping.wait(lake.config.ingest_poll_ms / 1000)
                    continue
                began, descriptors = time.monotonic(), []
                for job in jobs:
                    if not ingestion.wanted():
                        return
                    descriptors.append(run(job))
                ingestion.commit(source, descriptors, planning, run)
                few = sum(counts.records for one in descriptors for counts in one.counts.values()) < TRICKLE
                if few and not ingestion.once:
                    left = lake.config.ingest_poll_ms / 1000 - (time.monotonic() - began)
                    ingestion.stopping.wait(max(left, 0))
        finally:
            planning.close()


class Ingesting:
    """Several sources that are being ingested, each by itself."""

    def __init__(self, each: Sequence[Ingestion]) -> None:
        self.each = {one.name: one for one in each}

    def progress(self) -> dict[str, Progress]:
        """How each is doing."""
        return {name: one.progress() for name, one in self.each.items()}

    def stop(self) -> None:
        """Ends all of them."""
        for one in self.each.values():
            one.stopping.set()
        for one in self.each.values():
            one.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until all have ended; whether they have. Raises what the first one failed of."""
        until = None if timeout is None else time.monotonic() + timeout
        ended = True
        for one in self.each.values():
            ended &= one.wait(None if until is None else max(0.0, until - time.monotonic()))
        return ended

    @property
    def error(self) -> BaseException | None:
        """Why the first one that failed did."""
        return next((one.error for one in self.each.values() if one.error is not None), None)

    @property
    def running(self) -> bool:
        """Whether one of them has not ended."""
        return any(one.running for one in self.each.values())


def ingest(
    lake: Lake,
    wanted: str | Sequence[str] | None,
    crew: Callable[[], Crew],
    *,
    once: bool,
    report: Report | None,
) -> Ingestion | Ingesting:
    """Starts sources: one, several, or with None all. With `once` it waits until they have read what there is."""
    names = _named(lake, wanted)
    items = {name: definitions.item_of(lake, name) for name in names}
    for name in names:
        known = lake.ingesting.get(name)
        if isinstance(known, Ingestion) and known.running:
            raise BindError(f'source "{name}" is being ingested already', hint="stop() the other first")
    found = [Ingestion(lake, items[name], name, once=once, report=report) for name in names]
    workers = crew()
    for one in found:
        lake.ingesting[one.name] = one
        one.start(workers)
    both = found[0] if isinstance(wanted, str) else Ingesting(found)
    if once:
        try:
            both.wait()
        finally:
            both.stop()
    return both


def _named(lake: Lake, wanted: str | Sequence[str] | None) -> list[str]:
    """The sources that are meant, each once."""
    if wanted is None:
        return [name for name, item in lake.catalog.items().items() if isinstance(item, Item)]
    given = [wanted] if isinstance(wanted, str) or not isinstance(wanted, Iterable) else wanted
    return list(dict.fromkeys(text(name, "the name of a source") for name in given))
