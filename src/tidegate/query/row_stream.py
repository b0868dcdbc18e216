"""RowStream: the rows of a query as they are read, once, in order, in bounded memory.

    stream = RowStream(batches, watch)
    stream.fill(16 << 20)          reads ahead: True if that was all, and everything is closed by now
    for columns, rows in stream:   what was read ahead first, then the rest as it is asked for
        …
    stream.close()                 stops early; also done at the end, at an error, and when Python collects it

A query that gives little is over when `fill` returns: its errors were raised, its counters are final, its lease is given back. A
query that gives more goes on as its rows are taken.
The callbacks of `when_over` are called once at its end: with the error, or with None.

`shaped` puts OFFSET and LIMIT to batches as they pass. ORDER BY must hold all of them, and is bounded by `max_result_bytes`.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa

from tidegate.errors import TidegateError
from tidegate.expr.model import Type
from tidegate.query.cancellation import CancelToken, interruptible
from tidegate.query.sort import ResultShape, SortBuffer

Batch: TypeAlias = "tuple[list[pa.Array], int]"
"""Columns, and how many rows they have."""
Over: TypeAlias = Callable[[BaseException | None], None]
_BROKEN = "the query of this result failed: there are no more rows, and those that were given are not all"
SLICE = 65_536
"""Rows of a batch that is cut from what was held."""


def size_of(columns: Iterable[pa.Array]) -> int:
    """The bytes of some columns."""
    return sum(column.nbytes for column in columns)


def shaped(
    batches: Iterable[Batch], types: Sequence[Type], shape: ResultShape, max_bytes: int
) -> Iterator[Batch]:
    """The batches in their order and within their limits; no batch is asked for beyond a LIMIT."""
    if shape.limit == 0:
        return
    if shape.order:
        gathered = SortBuffer(tuple(types), shape, max_bytes)
        for columns, rows in batches:
            gathered.add(columns, rows)
        yield from sliced(gathered.finish())
        return
    skip, left = shape.offset, shape.limit
    for columns, rows in batches:
        start = min(skip, rows)
        count = rows - start if left is None else min(rows - start, left)
        skip -= start
        if count:
            yield [column.slice(start, count) for column in columns], count
        if left is not None:
            left -= count
            if not left:
                return


def sliced(columns: Sequence[pa.ChunkedArray]) -> Iterator[Batch]:
    """Columns that are held, as batches; nothing is copied."""
    for batch in pa.table(list(columns), [str(i) for i in range(len(columns))]).to_batches(SLICE):
        if batch.num_rows:
            yield batch.columns, batch.num_rows


class RowStream:
    """See the module's docstring. One thread at a time reads it; any may close it."""

    def __init__(self, batches: Iterator[Batch], watch: CancelToken) -> None:
        self._batches: Iterator[Batch] | None = batches
        self._watch = watch
        self._ahead: deque[Batch] = deque()
        self._over: list[Over] = []
        self._lock = threading.RLock()
        self.error: BaseException | None = None
        """What ended it too early."""

    @property
    def live(self) -> bool:
        """Whether there is more to be read than was read ahead."""
        return self._batches is not None

    @property
    def size(self) -> int:
        """Bytes that were read ahead."""
        return sum(size_of(columns) for columns, _ in self._ahead)

    @property
    def ready(self) -> int:
        """Rows that were read ahead."""
        return sum(rows for _, rows in self._ahead)

    def peek(self) -> list[Batch]:
        """What was read ahead, which stays to be read."""
        with self._lock:
            return list(self._ahead)

    def fill(self, size: int) -> bool:
        """Reads ahead, about so many bytes; whether there is no more. What fails is raised here."""
        held = self.size
        while held <= size:
            batch = self._read()
            if batch is None:
                break
            self._ahead.append(batch)
            held += size_of(batch[0])
        return not self.live

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        with self._lock:
            if self._ahead:
                return self._ahead.popleft()
            if self.error is not None:
                raise self.error
            batch = self._read()
        if batch is None:
            raise StopIteration
        return batch

    def _read(self) -> Batch | None:
        """The next batch; None at the end."""
        with self._lock:
            if self._batches is None:
                return None
            try:
                with interruptible(self._watch):
                    self._watch.check()
                    batch = next(self._batches, None)
            except BaseException as error:
                ours = isinstance(error, TidegateError)
                self.error = error if ours else TidegateError(_BROKEN, hint="run the query again")
                self._end(error)
                raise
            if batch is None:
                self._end(None)
            return batch

    def when_over(self, callback: Over) -> None:
        """Calls this when nothing more is read: now, if that is so."""
        with self._lock:
            if self._batches is not None:
                self._over.append(callback)
                return
        callback(self.error)

    def close(self, error: TidegateError | None = None) -> None:
        """Stops reading. Later reads raise `error`."""
        with self._lock:
            if self.error is None and self._batches is not None:
                self.error = error
            self._ahead.clear()
            self._end(None)

    def _end(self, error: BaseException | None) -> None:
        batches, self._batches = self._batches, None
        over, self._over = self._over, []
        try:
            if isinstance(batches, Generator):
                batches.close()
        finally:
            for callback in over:
                callback(error)

    def __del__(self) -> None:
        if not sys.is_finalizing() and getattr(self, "_batches", None) is not None:
            self.close()
