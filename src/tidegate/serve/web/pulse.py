"""How fast sources bring in records: what they had brought at each of the last looks, from which rates are told.

    pulse.feel(status)              once a second, while somebody looks at the page
    pulse.rates("orders")           records a second between the looks: [0.0, 5000.0, 4980.0, …]

Counts are those of what is committed, whoever ingests, so they are right for sources that another process runs.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from tidegate import fork
from tidegate.ingest.made import Counts
from tidegate.session.source_status import SourceStatus

LOOKS = 120
APART_S = 0.8
"""Looks that come sooner after another are left out: several pages may be open."""


@dataclass(frozen=True)
class Look:
    """What sources had brought at a time, in seconds of a clock that only rises."""

    at: float
    counts: Mapping[str, Counts]


class Pulse:
    """The last looks. Threads may share it."""

    def __init__(self) -> None:
        self._looks: deque[Look] = deque(maxlen=LOOKS)
        self._lock = fork.lock()

    def feel(self, sources: Mapping[str, SourceStatus], at: float | None = None) -> None:
        """Remembers what there is now."""
        at = time.monotonic() if at is None else at
        with self._lock:
            if not self._looks or at - self._looks[-1].at >= APART_S:
                self._looks.append(Look(at, {name: one.total for name, one in sources.items()}))

    def rates(self, name: str) -> list[float]:
        """Records a second of a source, the oldest first; there is one less than looks."""
        with self._lock:
            looks = [(look.at, look.counts[name].records) for look in self._looks if name in look.counts]
        return [
            max(after - before, 0) / (later - sooner) for (sooner, before), (later, after) in pairwise(looks)
        ]
