"""How a query is stopped: by whoever asked it, or by its time-out.

watch = Watch(timeout_ms=5_000)
watch.check()            between pieces of work: raises when it is over
watch.cancel()           from any thread
"""

from __future__ import annotations

import threading
import time

from tidegate.errors import CancelledError


class Watch:
    """One query's end. Threads may share it."""

    def __init__(self, timeout_ms: int = 0) -> None:
        """`timeout_ms`: 0 for none."""
        self.timeout_ms = timeout_ms
        self._end = time.monotonic() + timeout_ms / 1000 if timeout_ms else None
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """The query ends at its next check."""
        self._cancelled.set()

    def check(self) -> None:
        """Raises if the query is to end."""
        if self._cancelled.is_set():
            raise CancelledError("the query was cancelled")
        if self._end is not None and time.monotonic() >= self._end:
            raise CancelledError(
                f"the query took longer than {self.timeout_ms} ms",
                hint="SET statement_timeout_ms to a larger value, or to 0 for none",
            )
