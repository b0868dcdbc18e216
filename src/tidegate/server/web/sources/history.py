"""What sources did in the last hour: samples that the server takes in the background.

    sampler = SourceSampler(gateway)         starts a thread; it ends with the gateway
    sampler.history.of("orders")             [SourceSample(at=…, records=…, …), …], the oldest first
    rates(samples)                           records per second between samples: [(time, 5000.0), …]
    lag_series(samples)                      how far it was behind, in the unit that its upstream reports

Whether or not a page is open, a sample is taken every `IDLE_SECONDS`, and about every second while a page shows sources
(`watched`). Counts are committed ones, so they are right for sources that another process runs too. The lag is known only to the
process that runs the source; of others the time since their last batch is drawn. At most `KEPT_SECONDS` of samples are held in
memory for each source.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from tidegate import fork
from tidegate.errors import TidegateError
from tidegate.ingest import Lag
from tidegate.ingest.runtime import SourceStatus
from tidegate.server.gateway import Gateway
from tidegate.statements import source_statuses

IDLE_SECONDS = 10.0
WATCHED_SECONDS = 0.9
"""Samples are this far apart while a page is open."""
WATCH_LASTS_SECONDS = 8.0
"""A page that has not asked for so long is closed."""
TICK_SECONDS = 0.5
KEPT_SECONDS = 3_600.0
LagUnit = Literal["milliseconds", "records", "bytes", "age"]


@dataclass(frozen=True, slots=True)
class SourceSample:
    """One source at a time."""

    at: float
    """Seconds since 1970."""
    records: int
    bad: int
    lag: Lag | None
    committed: int | None
    """When its last batch was committed, in ms."""


class SourceHistory:
    """The samples of the last hour, by source. Threads may share it."""

    def __init__(self) -> None:
        self._samples: dict[str, deque[SourceSample]] = {}
        self._lock = fork.lock()

    def add(self, sources: Mapping[str, SourceStatus], at: float) -> None:
        """Records the sources now; forgets samples that are too old, and sources that were dropped."""
        with self._lock:
            for name in self._samples.keys() - sources.keys():
                del self._samples[name]
            for name, status in sources.items():
                samples = self._samples.setdefault(name, deque())
                samples.append(
                    SourceSample(at, status.total.records, status.errors, status.lag, status.committed)
                )
                while samples[0].at < at - KEPT_SECONDS:
                    samples.popleft()

    def of(self, name: str) -> list[SourceSample]:
        """Returns the samples of a source, the oldest first."""
        with self._lock:
            return list(self._samples.get(name, ()))


class SourceSampler:
    """Samples the sources of a server until its gateway is closed."""

    def __init__(self, gateway: Gateway) -> None:
        self.history = SourceHistory()
        self._gateway, self._closed = weakref.ref(gateway), gateway.closed
        self._watched_at = self._sampled_at = float("-inf")
        self.thread = threading.Thread(target=self._run, name="tidegate-sources", daemon=True)
        self.thread.start()

    def watched(self) -> None:
        """Notes that a page shows the history now."""
        self._watched_at = time.monotonic()

    def _run(self) -> None:
        while not self._closed.is_set():
            now = time.monotonic()
            watched = now - self._watched_at < WATCH_LASTS_SECONDS
            gateway = self._gateway()
            if gateway is None:  # nobody holds the server any more
                return
            if now - self._sampled_at >= (WATCHED_SECONDS if watched else IDLE_SECONDS):
                self._sampled_at = now
                self._sample(gateway)
            del gateway
            self._closed.wait(TICK_SECONDS)

    def _sample(self, gateway: Gateway) -> None:
        try:
            self.history.add(source_statuses(gateway.db.context), time.time())
        except TidegateError:  # the metadata cannot be read now: /health reports that
            return


def rates(samples: Sequence[SourceSample]) -> list[tuple[float, float]]:
    """Returns the times of samples and the records per second until then."""
    return [
        (after.at, max(after.records - before.records, 0) / max(after.at - before.at, 0.001))
        for before, after in pairwise(samples)
    ]


def lag_series(samples: Sequence[SourceSample]) -> tuple[LagUnit, list[tuple[float, float]]]:
    """Returns how far a source was behind, in the best unit that is known, and which unit that is."""
    for unit in ("milliseconds", "records", "bytes"):
        found = [
            (sample.at, float(value))
            for sample in samples
            if sample.lag is not None and (value := getattr(sample.lag, unit)) is not None
        ]
        if found:
            return unit, found
    return "age", [
        (sample.at, max(1000 * sample.at - sample.committed, 0.0))
        for sample in samples
        if sample.committed is not None
    ]
