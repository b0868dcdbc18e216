"""All statistics of a part, as a writer wants them: a few hundred bytes for the state, and a page map for the file.

    summary = summarise([Column(0, "id", INT8, ids), …], rows)
    summary.part       encoded, within the budget: goes into the state with the part's name
    summary.pages      text for the file's own metadata: the same for each page of 8,192 rows, read when the part is

Text, because the values of Parquet's metadata are text to most readers.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.stats import codec
from tidegate.stats.collect import PAGE_ROWS, Column, collect
from tidegate.stats.frame import Frame
from tidegate.stats.names import Place
from tidegate.stats.trim import BUDGET, named, trim

PAGES_KEY = b"tidegate.pages"
"""The name of the page map among the metadata of a file."""


@dataclass(frozen=True)
class Summary:
    """The statistics of a part."""

    part: bytes
    pages: bytes


NOTHING = Summary(b"", b"")
"""Of a part whose statistics are not wanted."""


def summarise(
    columns: Sequence[Column], rows: int, keep: frozenset[Place] = frozenset(), budget: int = BUDGET
) -> Summary:
    """Collects, trims and encodes; `keep` names what the user marked KEEP STATISTICS."""
    collected = collect(columns, rows, keep)
    names = {column.id: named(column.name, column.type) for column in columns}
    part = codec.encode(trim(collected.part(), names, budget, keep))
    return Summary(part, base64.b85encode(Frame(collected.page_rows(), collected.pages()).pack()))


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
