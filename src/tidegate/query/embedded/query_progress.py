"""A progress bar for a query that takes long: on a terminal, until its first rows are there.

    progress = QueryProgress(duckdb.query_progress)
    progress.update()            now and then, by the thread that waits for the query
    progress.close()

Only queries of the main thread have one: those of a server's clients run in other threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tidegate.progress import ProgressBars

SHOWN_AFTER_S = 2.0
"""Queries that end sooner draw nothing."""


class QueryProgress:
    """The bar of one query."""

    def __init__(self, percentage: Callable[[], float], bars: ProgressBars | None = None) -> None:
        """`percentage` is below 0 while it is unknown."""
        self._percentage = percentage
        self._bars = ProgressBars(transient=True) if bars is None else bars
        self._began = time.monotonic()
        self._shown = self._closed = False

    def update(self) -> None:
        """Draws how much is done."""
        if self._closed or time.monotonic() - self._began < SHOWN_AFTER_S:
            return
        percent = self._percentage()
        self._shown = True
        self._bars.draw("query", None if percent < 0 else min(1.0, percent / 100), "", done=False)

    def close(self) -> None:
        """Removes the bar."""
        if self._shown and not self._closed:
            self._bars.draw("query", 1.0, "", done=True)
        self._closed = True
