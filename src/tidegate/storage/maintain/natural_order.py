"""The order in which the rows of a collection came, so that compaction does not lose it to updates.

Rows often arrive in the order of a key or a time, without CLUSTER BY. Pages, or parts, then have narrow bounds, and a look-up by
key reads one of them. An UPDATE stores the new rows elsewhere. If compaction merely appended them, each look-up would read all of
them for ever:

    before        1 2 3 4 | 5 6 7 8              two pages of a part
    updated       . 2 3 . | 5 . 7 8      6 1 4   three rows are deleted, and stored anew in another part
    compacted     1 2 3 4 | 5 6 7 8              sorted by the column that rises in the largest part, or from part to part
    without it    2 3 5 7 | 8 6 1 4

Only collections in which rows are deleted are sorted like this; others keep the order of arrival.

Such rows are *folded* into the other parts: they are read once, and divided by the least values of these; then each part is read,
joined with its share, and sorted. So memory holds the scattered rows and one other part, however many parts there are.

A part is *scattered* if its values of that column lie among those of a denser one, as the three rows above do: a look-up must open
it besides. What was appended after all others, with larger keys, is not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model import Kind, to_bools
from tidegate.storage.maintain.merge_parts import blocks_of_bytes, by_time, part_updates
from tidegate.storage.maintain.rewrite import MAX_RUNS, Aging
from tidegate.storage.part.deletions import NEVER
from tidegate.storage.part.merge import Block, concat, sort_block
from tidegate.storage.part.part import Part
from tidegate.storage.part.part_file import PartFile
from tidegate.storage.part.schema import SchemaColumn
from tidegate.storage.shard.shard import INFLATION, Shard, sort_order
from tidegate.storage.shard.state import State

MIN_PAGES = 4
"""Pages whose bounds must rise, or parts that must lie apart: fewer do so by chance."""
MAX_MOVED_ROWS = 1 << 22
"""Rows that go back to their neighbours in one compaction: where each went is in memory, some 32 bytes for each."""
MUCH_LARGER = 8
"""How many times as many rows a part has in whose range a single value at its end lies."""
MIN_APART_SHARE = 0.6
"""The share of rows in parts that lie apart from which a column is the order that rows came in."""
MAX_SCATTERED_BYTES = 128 << 20
"""Bytes of scattered parts, as they are stored, that are held in memory to be folded."""
_KINDS = frozenset(
    {Kind.INT2, Kind.INT4, Kind.INT8, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TEXT, Kind.BYTEA}
)


def compaction_order(shard: Shard, state: State) -> tuple[int, ...]:
    """The ids of the columns that compacted parts are sorted by: CLUSTER BY, or the natural order."""
    order = sort_order(state, state.schema, retracts=False)
    if order or not state.parts.deletions:
        return order
    table = by_time(state)
    ids, rows = (table.column(name).to_numpy() for name in ("id", "rows"))
    left = rows - state.parts.deletions.totals(ids, NEVER)[0]
    if not left.any():
        return ()
    (largest,) = state.parts.find(ids[[int(np.argmax(left))]])
    return _order_of(shard, state, largest) or _order_of_parts(state, ids[left > 0])


@dataclass(frozen=True, eq=False)
class PartRanges:
    """Which values of a column some parts hold, by rank: greater values have a greater one."""

    rows: np.ndarray
    low: np.ndarray
    high: np.ndarray
    known: np.ndarray
    """Whether the bounds of a part are known, and no value is NULL; the range of others is that of all."""
    least: pa.Array
    """The least value of each part, or less; NULL if it is not known."""

    def scattered(self) -> np.ndarray:
        """Of each part, whether its range meets that of a denser one that is not scattered itself.

        Dense are many rows in a range that has few bounds of other parts: the new rows of an UPDATE may be more than a small part
        has, but they are spread over all parts. Parts that only touch do not meet; but a single value at the end of a much larger
        part's range lies in it, as after an UPDATE of its first row.
        """
        found = np.zeros(len(self.rows), bool)
        if not self.known.any():
            return found
        lows, highs, rows = list[int](), list[int](), list[int]()
        for at in np.argsort(-self.rows / np.maximum(self.high - self.low, 1), kind="stable").tolist():
            low, high = int(self.low[at]), int(self.high[at])
            place, around = bisect_right(highs, low), bisect_left(highs, high)
            meets = place < len(lows) and lows[place] < high
            inside = around < len(lows) and lows[around] <= low
            if meets or (inside and MUCH_LARGER * self.rows[at] <= rows[around]):
                found[at] = True
            else:
                for values, value in ((lows, low), (highs, high), (rows, int(self.rows[at]))):
                    values.insert(place, value)
        return found

    def meeting(self, some: np.ndarray) -> np.ndarray:
        """Of each part, whether its range meets that of one of these."""
        lows, highs = np.sort(self.low[some]), np.sort(self.high[some])
        begun = np.searchsorted(lows, self.high, side="right")
        ended = np.searchsorted(highs, self.low, side="left")
        return np.asarray(begun > ended)


def group_order(order: tuple[int, ...], state: State, ranges: PartRanges) -> tuple[int, ...]:
    """The order for a group with these ranges.

    Without CLUSTER BY there is none if it would not be known where each row went.
    """
    if order == sort_order(state, state.schema, retracts=False):
        return order
    among = ranges.scattered()
    moved, apart = int(ranges.rows[among].sum()), len(among) - int(np.count_nonzero(among))
    return order if moved <= MAX_MOVED_ROWS and 2 * moved < MAX_RUNS * apart else ()


def ranges_of(state: State, ids: np.ndarray, column: int) -> PartRanges:
    """The ranges of the parts with these ids, in their order, by their statistics."""
    empty = np.zeros(0, np.int64)
    found, rows, lows, highs, nulls = [empty], [empty], list[pa.Array](), list[pa.Array](), [empty > 0]
    there = next((one for one in state.schema.columns if one.id == column), None)
    comparable = there is not None and there.type.kind in _KINDS
    for table, frame in zip(state.parts.tables(["id", "rows"]), state.parts.frames(), strict=True):
        found.append(table.column("id").to_numpy())
        rows.append(table.column("rows").to_numpy())
        if there is None or not comparable:
            continue
        (specs,) = frame.specs([(column, there.type)])
        low, high = specs.bounds()
        lows.append(pa.nulls(len(frame), there.type.arrow) if len(low) != len(frame) else low)
        highs.append(pa.nulls(len(frame), there.type.arrow) if len(high) != len(frame) else high)
        nulls.append(np.broadcast_to(specs.null, len(frame)))
    every, counts = np.concatenate(found), np.concatenate(rows)
    order = np.argsort(every)
    at = order[np.searchsorted(every, ids, sorter=order)]
    if not lows:
        nothing = np.zeros(len(ids), np.int64)
        return PartRanges(counts[at], nothing, nothing, nothing > 0, pa.nulls(len(ids)))
    low, high = (pa.chunked_array(some).take(pa.array(at)) for some in (lows, highs))
    return _ranked(counts[at], low, high, np.concatenate(nulls)[at])


def _ranked(rows: np.ndarray, low: pa.ChunkedArray, high: pa.ChunkedArray, null: np.ndarray) -> PartRanges:
    both = pa.chunked_array([*low.chunks, *high.chunks])
    ranks = pc.rank(both, tiebreaker="dense").to_numpy().astype(np.int64)
    known = to_bools(pc.and_(low.is_valid(), high.is_valid()).combine_chunks()) & ~null
    return PartRanges(
        rows,
        np.where(known, ranks[: len(rows)], 0),
        np.where(known, ranks[len(rows) :], len(ranks) + 1),
        known,
        low.combine_chunks(),
    )


def can_fold(group: Sequence[Part], ranges: PartRanges) -> bool:
    """Whether some parts of a group are scattered among the others, and fit into memory."""
    among = ranges.scattered()
    size = sum(part.size for part, scattered in zip(group, among, strict=True) if scattered)
    return bool(among.any()) and size <= MAX_SCATTERED_BYTES


def folded_blocks(
    shard: Shard, aging: Aging, group: Sequence[Part], order: Sequence[int], ranges: PartRanges
) -> Iterator[Block]:
    """The updates of a group, sorted, as blocks of the size of a part; `ranges` are those of its parts.

    Identical updates are not consolidated: the shard has no retractions that are rows.
    """
    return blocks_of_bytes(_sorted(shard, aging, group, order, ranges), INFLATION * shard.config.part_bytes)


def _sorted(
    shard: Shard, aging: Aging, group: Sequence[Part], order: Sequence[int], ranges: PartRanges
) -> Iterator[Block]:
    """The updates of each part that is not scattered, with those that belong between them."""

    def updates(at: int) -> list[Block]:
        return [block for block in part_updates(shard, aging, group[at], ranged=False) if len(block)]

    among, places = ranges.scattered(), [aging.ids.index(id_) for id_ in order]
    apart = np.flatnonzero(~among)
    apart = apart[np.argsort(ranges.low[apart], kind="stable")]
    moved = [block for at in np.flatnonzero(among).tolist() for block in updates(at)]
    scattered = concat(moved) if moved else None
    shares = (
        None
        if scattered is None
        else _shares(scattered.columns[places[0]], ranges.least.take(pa.array(apart[1:])))
    )
    for i, at in enumerate(apart.tolist()):
        blocks = updates(at)
        if scattered is not None and shares is not None and len(share := np.flatnonzero(shares == i)):
            blocks.append(scattered.take(share))
        if blocks:
            yield sort_block(concat(blocks), places)


def _shares(values: pa.Array, starts: pa.Array) -> np.ndarray:
    """Between which of the rising `starts` each value lies: 0 is before the first; NULL is the last."""
    ranks = pc.rank(pa.concat_arrays([starts.cast(values.type), values]), tiebreaker="dense").to_numpy()
    return np.asarray(np.searchsorted(ranks[: len(starts)], ranks[len(starts) :], side="right"))


def _order_of_parts(state: State, ids: np.ndarray) -> tuple[int, ...]:
    """The first column whose ranges in most parts have no value in common, if there are enough parts."""
    if len(ids) < MIN_PAGES:
        return ()
    for column in state.schema.columns:
        if column.type.kind not in _KINDS:
            continue
        ranges = ranges_of(state, ids, column.id)
        apart = ~ranges.scattered()
        wide = (ranges.low < ranges.high) | (
            ranges.rows == 1
        )  # a column that is the same in a part is no key
        if (
            np.count_nonzero(apart) >= MIN_PAGES
            and (ranges.known & wide)[apart].all()
            and ranges.rows[apart].sum() >= MIN_APART_SHARE * ranges.rows.sum()
        ):
            return (column.id,)
    return ()


def _order_of(shard: Shard, state: State, part: Part) -> tuple[int, ...]:
    """The first column by which a part is sorted, by its metadata or by the bounds of its pages."""
    there = {column.id for column in state.schema.columns}
    if part.order:
        return part.order[:1] if part.order[0] in there else ()
    file = shard.machine.files.open(part, state.schema)
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
