"""StatsCounters: what the statistics of one database's parts went through, for its metrics."""

from __future__ import annotations

import logging
import weakref
from collections import Counter
from collections.abc import Iterable

from tidegate import fork
from tidegate.storage.stats.frame import Frame

_LOG = logging.getLogger(__name__)


class StatsCounters:
    """Counts unreadable and trimmed statistics. The shards of a database share one, on any thread."""

    def __init__(self) -> None:
        self.unreadable: Counter[str] = Counter()
        """How often statistics could not be read, by reason."""
        self.trimmed: Counter[str] = Counter()
        """The `parts` whose statistics were trimmed to the budget, and the `bytes` dropped."""
        self._counted: weakref.WeakSet[Frame] = weakref.WeakSet()
        self._lock = fork.lock()

    def count_unreadable(self, reason: str, count: int = 1) -> None:
        """Counts unreadable statistics; the first of each reason is logged."""
        with self._lock:
            if reason not in self.unreadable:
                _LOG.warning("statistics of a part are %s: such parts are always read", reason)
            self.unreadable[reason] += count

    def count_frames(self, frames: Iterable[Frame]) -> None:
        """Counts the unreadable statistics of frames, of each frame once."""
        for frame in frames:
            if frame.unreadable and frame not in self._counted:
                self._counted.add(frame)
                for reason, count in frame.unreadable.items():
                    self.count_unreadable(reason, count)

    def count_trimmed(self, dropped: int) -> None:
        """Counts a part whose statistics lost so many bytes to the budget."""
        with self._lock:
            self.trimmed["parts"] += 1
            self.trimmed["bytes"] += dropped
