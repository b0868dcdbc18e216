"""The rows of a result as the client fetches them, in bounded memory.

    rows = ResultRows(result, watch)     the rows of a statement, a portal or a cursor
    rows.take(100)                       a batch of at most 100 of them; None: there are no more
    LimitedRows(rows, 100)               the next 100 of them and no others: what FETCH 100 answers

Between two messages of a client a portal or cursor stays open in the middle of its query: its snapshot stays pinned, and its
timeout is paused (`pause`). `close_in_background` closes one: a thread waits until its readers have stopped, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tidegate.query import CancelToken, Result
from tidegate.server.postgres.copy.statement import CopyStatement
from tidegate.server.postgres.wire.sqlstate import PostgresError

OPEN_QUERY_BYTES = 32 << 20
"""Bytes that an unfinished query is assumed to hold."""


class RowSource(Protocol):
    """Something to take rows from."""

    watch: CancelToken

    @property
    def live(self) -> bool:
        """Whether `take` may have to wait for the query."""
        ...

    def take(self, most: int | None) -> pa.RecordBatch | None:
        """Takes at most `most` of the next rows; None: there are no more."""
        ...


@dataclass(frozen=True)
class StatementResult:
    """The result of a statement, its command tag, and what else to send."""

    result: Result
    tag: str
    """What CommandComplete says; the number of rows sent is appended to SELECT, FETCH and COPY."""
    notice: PostgresError | None = None
    changed: tuple[str, ...] = ()
    """Settings to report again."""
    rows: RowSource | None = None
    """The rows to send, where they are not all rows of the result: some of a cursor's."""
    copy: CopyStatement | None = None
    """A COPY: its rows go to the client as data (TO STDOUT), or are still to be read from it (FROM STDIN)."""

    def completion_tag(self, sent: int) -> str:
        """Returns the tag after `sent` rows were sent."""
        return f"{self.tag} {sent}" if self.tag in ("SELECT", "FETCH", "COPY") else self.tag


class ResultRows:
    """The rows of a result, each taken once."""

    def __init__(self, result: Result, watch: CancelToken) -> None:
        self.result, self.watch = result, watch
        self._batches = result.batches()
        self._left: pa.RecordBatch | None = None

    @property
    def live(self) -> bool:
        """Whether `take` may have to wait for the query."""
        return self.result.live

    @property
    def size(self) -> int:
        """Bytes in memory that were not taken yet."""
        left = 0 if self._left is None else self._left.nbytes
        return self.result.size + left + (OPEN_QUERY_BYTES if self.live else 0)

    def take(self, most: int | None) -> pa.RecordBatch | None:
        """Takes at most `most` of the next rows; None: there are no more."""
        batch = next(self._batches, None) if self._left is None else self._left
        if batch is None or most is None or batch.num_rows <= most:
            self._left = None
            return batch
        self._left = batch.slice(most)
        return batch.slice(0, most)

    def pause(self) -> None:
        """Stops the timeout until the client asks for more."""
        self.watch.pause()

    def close(self) -> None:
        """Ends the query."""
        self._left = None
        self.result.close()


class LimitedRows:
    """The next rows of another source, up to a number."""

    def __init__(self, rows: ResultRows, most: int | None) -> None:
        self.rows, self.left, self.watch = rows, most, rows.watch

    @property
    def live(self) -> bool:
        """Whether `take` may have to wait for the query."""
        return self.rows.live

    def take(self, most: int | None) -> pa.RecordBatch | None:
        """Takes at most `most` of the next rows; None: there are no more."""
        if self.left == 0:
            return None
        bounds = [bound for bound in (self.left, most) if bound is not None]
        batch = self.rows.take(min(bounds, default=None))
        if self.left is not None and batch is not None:
            self.left -= batch.num_rows
        return batch


def close_in_background(threads: Executor, rows: Iterable[ResultRows]) -> None:
    """Cancels and closes unfinished queries in a thread, so that no client waits for it."""
    for source in rows:
        if source.live:
            source.watch.cancel()
            with suppress(RuntimeError):  # the server is shutting down, and so are its threads
                threads.submit(source.close)
