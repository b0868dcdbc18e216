"""Rows of a table that is changed, each with its address: its part, and its position there.

| | part | position | copies |
|---|---|---|---|
| rows are deleted by position | the part's id | the place in the part | the row's diff |
| rows are retracted by value | -1 | the number of the row | 1: equal rows come one by one |
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tidegate.query.paths import local
from tidegate.query.prune import PruneResult
from tidegate.query.request import ScanRequest
from tidegate.query.row_stream import Batch
from tidegate.query.scan_metrics import ScanMetrics

NO_PART = -1
"""The part of a row that has no position of its own."""


def located_rows(request: ScanRequest, pruned: PruneResult, cost: ScanMetrics) -> Iterator[Batch]:
    """The rows with their positions; no part may hold retractions."""
    for taken in local.locate_rows(request, pruned, cost):
        assert taken.positions is not None
        copies = np.ones(taken.rows, np.int64) if taken.diffs is None else taken.diffs
        part = pa.repeat(pa.scalar(taken.part.id, pa.int64()), taken.rows)
        positions = pa.array(np.asarray(taken.positions, np.int64))
        yield [*taken.columns, part, positions, pa.array(np.asarray(copies, np.int64))], taken.rows


def numbered_rows(request: ScanRequest, pruned: PruneResult, cost: ScanMetrics) -> Iterator[Batch]:
    """The rows with numbers in place of positions."""
    count = 0
    for columns, rows in local.stream(request, pruned, cost):
        part, one = (pa.repeat(pa.scalar(value, pa.int64()), rows) for value in (NO_PART, 1))
        yield [*columns, part, pa.array(np.arange(count, count + rows)), one], rows
        count += rows
