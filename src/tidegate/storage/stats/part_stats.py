"""PartStats: all statistics that a writer stores with a part: in the state, and in the file by page.

    summary = summarise([ColumnValues(0, "id", INT8, ids), …], rows)
    summary.pages             text for the file's own metadata: statistics of each page of 8,192 rows
    summary.rosters           likewise: which values are on which of them
    summary.encoded(footer)   goes into the state with the part's name; within the budget

Text, because the values of Parquet's metadata are text to most readers. The second waits until the file is
written, because its footer tells the bounds of text columns (`collect.py`).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.storage.stats import encode as codec
from tidegate.storage.stats.collect import PAGE_ROWS, ColumnValues, Footer, collect
from tidegate.storage.stats.counters import StatsCounters
from tidegate.storage.stats.frame import Frame
from tidegate.storage.stats.page_values import rosters
from tidegate.storage.stats.time_like import Place
from tidegate.storage.stats.trim import BUDGET, named, trim

PAGES_KEY = b"tidegate.pages"
"""The name of the page map among the metadata of a file."""


@dataclass(frozen=True)
class PartStats:
    """The statistics of a part."""

    part: bytes
    """Encoded; where `later` is given they are not known yet."""
    pages: bytes
    later: Callable[[Footer], bytes] | None = None
    rosters: bytes = b""

    def encoded(self, footer: Callable[[], Footer]) -> bytes:
        """The statistics of the part; `footer` is asked if it is needed."""
        return self.part if self.later is None else self.later(footer())


NO_STATS = PartStats(b"", b"")
"""Of a part whose statistics are not wanted."""


def summarise(
    columns: Sequence[ColumnValues],
    rows: int,
    keep: frozenset[Place] = frozenset(),
    budget: int = BUDGET,
    counters: StatsCounters | None = None,
) -> PartStats:
    """Collects now; trims and encodes when the file is written. `keep`: columns of KEEP STATISTICS."""
    collected = collect(columns, rows, keep, footed=True)
    names = {column.id: named(column.name, column.type) for column in columns}

    def later(footer: Footer) -> bytes:
        return codec.encode(trim(collected.part(footer), names, budget, keep, counters))

    if rows <= PAGE_ROWS:
        return PartStats(b"", b"", later)  # of one page there is no more to say than of the part
    pages = Frame(collected.page_rows(), collected.pages())
    return PartStats(b"", base64.b85encode(pages.pack()), later, rosters(columns, rows))


def read_pages(data: bytes, rows: int, counters: StatsCounters) -> Frame | None:
    """The frame of a file's pages from its page map; None if it has none that can be read."""
    if not data:
        return None
    starts = np.minimum(np.arange(0, rows + PAGE_ROWS, PAGE_ROWS), rows)
    try:
        packed = Frame.unpack(base64.b85decode(data))
        if packed.size != len(starts) - 1:
            return None
    except (ValueError, pa.ArrowException, OSError):
        counters.count_unreadable("page map")
        return None
    return Frame(np.diff(starts), packed)
