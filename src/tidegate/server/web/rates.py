"""Records per second of sources, from samples of their committed counts.

    rates.sample(status.sources)    once a second, while the page is open
    rates.of("orders")              records per second between samples: [0.0, 5000.0, 4980.0, …]

The counts are committed ones, so the rates are right for sources that another process runs too.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from tidegate import fork
from tidegate.ingest.batch import RecordCounts
from tidegate.ingest.runtime import SourceStatus

MAX_SAMPLES = 120
MIN_SECONDS_APART = 0.8
"""Samples that come sooner than this are left out: several pages may be open."""


@dataclass(frozen=True)
class RateSample:
    """The counts of sources at a time of a monotonic clock, in seconds."""

    at: float
    counts: Mapping[str, RecordCounts]


class SourceRates:
    """The last samples. Threads may share it."""

    def __init__(self) -> None:
        self._samples: deque[RateSample] = deque(maxlen=MAX_SAMPLES)
        self._lock = fork.lock()

    def sample(self, sources: Mapping[str, SourceStatus], at: float | None = None) -> None:
        """Records the counts now."""
        at = time.monotonic() if at is None else at
        with self._lock:
            if not self._samples or at - self._samples[-1].at >= MIN_SECONDS_APART:
                self._samples.append(RateSample(at, {name: status.total for name, status in sources.items()}))

    def of(self, name: str) -> list[float]:
        """Returns records per second of a source, the oldest first: one fewer than samples."""
        with self._lock:
            samples = [(s.at, s.counts[name].records) for s in self._samples if name in s.counts]
        return [
            max(after - before, 0) / (later - sooner)
            for (sooner, before), (later, after) in pairwise(samples)
        ]
