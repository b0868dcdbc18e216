"""All statistics of a part, as a writer wants them: a few hundred bytes for the state, and a page map for the file.

    summary = summarise([Column(0, "id", INT8, ids), …], rows)
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

from tidegate.stats import codec
from tidegate.stats.collect import PAGE_ROWS, Column, Footer, collect
from tidegate.stats.frame import Frame
from tidegate.stats.names import Place
from tidegate.stats.roster import rosters
from tidegate.stats.trim import BUDGET, named, trim

PAGES_KEY = b"tidegate.pages"
"""The name of the page map among the metadata of a file."""


@dataclass(frozen=True)
class Summary:
    """The statistics of a part."""

    part: bytes
    """Encoded; where `later` is given they are not known yet."""
    pages: bytes
    later: Callable[[Footer], bytes] | None = None
    rosters: bytes = b""

    def encoded(self, footer: Callable[[], Footer]) -> bytes:
        """The statistics of the part; `footer` is asked if it is needed."""
        return self.part if self.later is None else self.later(footer())


NOTHING = Summary(b"", b"")
"""Of a part whose statistics are not wanted."""


def summarise(
    columns: Sequence[Column], rows: int, keep: frozenset[Place] = frozenset(), budget: int = BUDGET
) -> Summary:
    """Collects; and, when the file is written, trims and encodes. `keep` names what the user marked KEEP STATISTICS."""
    collected = collect(columns, rows, keep, footed=True)
    names = {column.id: named(column.name, column.type) for column in columns}

    def later(footer: Footer) -> bytes:
        return codec.encode(trim(collected.part(footer), names, budget, keep))

    if rows <= PAGE_ROWS:
        return Summary(b"", b"", later)  # of one page there is no more to say than of the part
    pages = Frame(collected.page_rows(), collected.pages())
    return Summary(b"", base64.b85encode(pages.pack()), later, rosters(columns, rows))


def read_pages(data: bytes, rows: int) -> Frame | None:
    """The frame of a file's pages, given its page map and its number of rows; None where there is none to be read."""
    if not data:
        return None
    starts = np.minimum(np.arange(0, rows + PAGE_ROWS, PAGE_ROWS), rows)
    try:
        packed = Frame.unpack(base64.b85decode(data))
        if packed.size != len(starts) - 1:
            return None
    except (ValueError, pa.ArrowException, OSError):
        codec.unreadable["page map"] += 1
        return None
    return Frame(np.diff(starts), packed)
