"""The rows of an answer on their way to the client: as many as it asks for, in bounded memory.

    rows = Rows(result, watch)        of a statement, a portal or a cursor
    rows.take(100)                    a batch of at most 100 of them; None: there are no more
    First(rows, 100)                  the next 100 of them and no others: what FETCH 100 answers

Between two messages of a client a portal or cursor waits, with its query in the middle: its snapshot stays pinned, and its time-out
does not count (`hold`). Whoever lets go of one calls `dispose`, so that nobody but a thread waits until its readers have stopped.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Protocol

import pyarrow as pa

from tidegate.scan.result import Result
from tidegate.scan.watch import Watch

LIVE = 32 << 20
"""Bytes that a query in the middle is taken to hold."""


class Source(Protocol):
    """What rows can be taken from."""

    watch: Watch

    @property
    def live(self) -> bool:
        """Whether taking some may take time."""
        ...

    def take(self, most: int | None) -> pa.RecordBatch | None:
        """At most so many of the next rows; None: there are no more."""
        ...


class Rows:
    """The rows of a result, taken once."""

    def __init__(self, result: Result, watch: Watch) -> None:
        self.result, self.watch = result, watch
        self._batches = result.batches()
        self._left: pa.RecordBatch | None = None

    @property
    def live(self) -> bool:
        """Whether taking some may take time."""
        return self.result.live

    @property
    def size(self) -> int:
        """Bytes that wait."""
        left = 0 if self._left is None else self._left.nbytes
        return self.result.size + left + (LIVE if self.live else 0)

    def take(self, most: int | None) -> pa.RecordBatch | None:
        """At most so many of the next rows; None: there are no more."""
        batch = next(self._batches, None) if self._left is None else self._left
        if batch is None or most is None or batch.num_rows <= most:
            self._left = None
            return batch
        self._left = batch.slice(most)
        return batch.slice(0, most)

    def begin(self) -> None:
        """A message asks for some: its time counts from here."""
        self.watch.restart()

    def hold(self) -> None:
        """The client has what it asked for; its own time is not counted."""
        self.watch.pause()

    def close(self) -> None:
        """No more of them is wanted."""
        self._left = None
        self.result.close()


class First:
    """The next rows of others, up to a number."""

    def __init__(self, rows: Rows, most: int | None) -> None:
        self.rows, self.left, self.watch = rows, most, rows.watch

    @property
    def live(self) -> bool:
        """Whether taking some may take time."""
        return self.rows.live

    def take(self, most: int | None) -> pa.RecordBatch | None:
        """At most so many of the next rows; None: there are no more."""
        if self.left == 0:
            return None
        bounds = [one for one in (self.left, most) if one is not None]
        batch = self.rows.take(min(bounds, default=None))
        if self.left is not None and batch is not None:
            self.left -= batch.num_rows
        return batch


def dispose(threads: Executor, rows: Iterable[Rows]) -> None:
    """Closes them where nobody waits for it."""
    for one in rows:
        if one.live:
            one.watch.cancel()
            with suppress(RuntimeError):  # the server ends, and so do its threads
                threads.submit(one.close)
