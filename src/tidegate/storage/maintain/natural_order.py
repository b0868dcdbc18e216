"""The order in which the rows of a collection came, so that compaction does not lose it to updates.

Rows often arrive in the order of a key or a time, without CLUSTER BY. Pages then have narrow bounds, and a look-up by key reads one
of them. An UPDATE stores the new rows elsewhere. If compaction merely appended them, each look-up would read all of them for ever:

    before        1 2 3 4 | 5 6 7 8              two pages of a part
    updated       . 2 3 . | 5 . 7 8      6 1 4   three rows are deleted, and stored anew in another part
    compacted     1 2 3 4 | 5 6 7 8              sorted by the column that rises in the largest part
    without it    2 3 5 7 | 8 6 1 4

Only collections in which rows are deleted are sorted like this; others keep the order of arrival.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from tidegate.expr.model import Kind, to_bools
from tidegate.storage.maintain.merge_parts import by_time
from tidegate.storage.maintain.rewrite import MAX_RUNS
from tidegate.storage.part.deletions import NEVER
from tidegate.storage.part.part import Part
from tidegate.storage.part.part_file import PartFile
from tidegate.storage.part.schema import SchemaColumn
from tidegate.storage.shard.shard import Shard, sort_order
from tidegate.storage.shard.state import State

MIN_PAGES = 4
"""Pages whose bounds must rise: fewer do so by chance."""
_KINDS = frozenset(
    {Kind.INT2, Kind.INT4, Kind.INT8, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TEXT, Kind.BYTEA}
)


def compaction_order(shard: Shard, state: State) -> tuple[int, ...]:
    """The ids of the columns that compacted parts are sorted by: CLUSTER BY, or the natural order."""
    order = sort_order(state, state.schema, retracts=False)
    if order or not state.parts.deletions:
        return order
    largest = _largest_part(state)
    return () if largest is None else _natural_order(shard, state, largest)


def group_order(order: tuple[int, ...], state: State, group: Sequence[Part]) -> tuple[int, ...]:
    """The order for one group: without CLUSTER BY, none if it would not be known where each row went."""
    if order == sort_order(state, state.schema, retracts=False):
        return order
    moved = sum(part.rows for part in group) - max(part.rows for part in group)
    return order if 2 * moved < MAX_RUNS else ()


def _largest_part(state: State) -> Part | None:
    """The part with most rows that are not deleted."""
    table = by_time(state)
    ids, rows = (table.column(name).to_numpy() for name in ("id", "rows"))
    if not len(ids):
        return None
    left = rows - state.parts.deletions.totals(ids, NEVER)[0]
    (part,) = state.parts.find(ids[[int(np.argmax(left))]])
    return part


def _natural_order(shard: Shard, state: State, part: Part) -> tuple[int, ...]:
    """The first column by which a part is sorted, by its metadata or by the bounds of its pages."""
    there = {column.id for column in state.schema.columns}
    if part.order:
        return part.order[:1] if part.order[0] in there else ()
    file = shard.machine.files.open(part)
    for column in state.schema.columns:
        if column.type.kind in _KINDS and file.has(column.id) and _rises(file, column):
            return (column.id,)
    return ()


def _rises(file: PartFile, column: SchemaColumn) -> bool:
    """Whether the values of each page are beyond those of the page before it."""
    if file.frame is None or len(file.frame) < MIN_PAGES:
        return False
    (specs,) = file.frame.specs([(column.id, column.type)])
    low, high = specs.bounds()
    if len(low) < MIN_PAGES or len(high) != len(low) or low.null_count or high.null_count:
        return False
    apart = pc.less_equal(high[:-1], low[1:])
    rising = pc.less(low[:-1], low[1:])
    return bool(to_bools(pc.and_(apart, rising)).all()) and not specs.null.any()
