"""ScanMetrics: what a query read, and what it did not have to read.

r = db.sql("SELECT id FROM orders WHERE id = 5")
r.scan.parts_read, r.scan.parts_total        1, 365
r.scan.stages                                what was done, one after the other: rows in and out, bytes, seconds
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tidegate.storage.part import Part


@dataclass
class Stage:
    """One kind of work of a query, over all its parts: `filter url`, `read id, price`."""

    name: str
    rows_in: int = 0
    rows_out: int = 0
    bytes: int = 0
    seconds: float = 0.0


@dataclass
class ScanMetrics:
    """What a query read. Parts that are read only to check a verdict count as audited, not as read.

    scan.add("filter url", rows_in=8_192, rows_out=3, bytes=40_000, seconds=0.001)

    with scan.stage("read id, price") as stage:          the same, timed
        stage.rows_out, stage.bytes = 3, 512
    """

    parts_total: int = 0
    parts_read: int = 0
    parts_audited: int = 0
    bytes_total: int = 0
    bytes_read: int = 0
    rows_read: int = 0
    rows_returned: int = 0
    """Rows of the result, as far as it was read."""
    parts_pruned: int = 0
    """Their statistics prove that they hold no matching row."""
    bytes_pruned: int = 0
    parts_proven: int = 0
    """Of those kept, the ones of which statistics prove that every row passes."""
    bytes_proven: int = 0
    bytes_audited: int = 0
    pages_skipped: int = 0
    """Inside of the parts read, what late materialisation did not have to fetch or decode."""
    bytes_skipped: int = 0
    stages: list[Stage] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)
    """Several threads may read parts of one query."""

    def count(self, parts: Sequence[Part]) -> None:
        """These parts are read."""
        with self._lock:
            self.parts_read += len(parts)
            self.bytes_read += sum(part.size for part in parts)
            self.rows_read += sum(part.rows for part in parts)

    def open(self, size: int = 0) -> None:
        """A part of so many bytes is read; how much of it, `close` tells."""
        with self._lock:
            self.parts_read += 1
            self.bytes_skipped += size

    def close(self, fetched: int) -> None:
        """So many bytes of it were fetched; the others were not needed."""
        with self._lock:
            self.bytes_read += fetched
            self.bytes_skipped = max(0, self.bytes_skipped - fetched)

    def see(self, rows: int) -> None:
        """So many rows were looked at."""
        with self._lock:
            self.rows_read += rows

    def skip(self, pages: int) -> None:
        """So many pages of 8,192 rows were passed over."""
        with self._lock:
            self.pages_skipped += pages

    def add(
        self,
        name: str,
        *,
        rows_in: int = 0,
        rows_out: int = 0,
        bytes: int = 0,  # noqa: A002  # the word that Stage and all of its readers use
        seconds: float = 0.0,
    ) -> None:
        """Some work of a stage; that of the same name is added up, in the order in which names first came."""
        with self._lock:
            stage = next((one for one in self.stages if one.name == name), None)
            if stage is None:
                self.stages.append(stage := Stage(name))
            stage.rows_in += rows_in
            stage.rows_out += rows_out
            stage.bytes += bytes
            stage.seconds += seconds

    def absorb(self, other: ScanMetrics) -> None:
        """What another has counted."""
        with self._lock:
            for name in ("parts_read", "bytes_read", "rows_read", "pages_skipped", "bytes_skipped"):
                setattr(self, name, getattr(self, name) + getattr(other, name))
        for one in other.stages:
            self.add(
                one.name, rows_in=one.rows_in, rows_out=one.rows_out, bytes=one.bytes, seconds=one.seconds
            )

    @contextmanager
    def stage(self, name: str) -> Iterator[Stage]:
        """Times the body, which sets rows and bytes on the Stage that it gets."""
        one, began = Stage(name), time.perf_counter()
        try:
            yield one
        finally:
            spent = time.perf_counter() - began
            self.add(name, rows_in=one.rows_in, rows_out=one.rows_out, bytes=one.bytes, seconds=spent)
