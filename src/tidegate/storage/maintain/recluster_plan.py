"""Plans re-clustering: which parts are sorted together.

Compaction merges neighbours in time, so that filters on time select few parts. Clustering sorts by key, so that filters on the
key select few. Both hold if rows are sorted within **windows** of time: parts that follow each other in time, together about as
large as `recluster_parts` full ones.

    time    ─────────────────────────────▶
    parts   a..z a..z a..z a..z │ b..z a..y a..z a..x        each part holds nearly all keys: a filter on one key reads all 8
    after   a..f f..m m..s s..z │ a..h h..n n..t t..z        it reads 1 or 2 of each window, and a filter on time still half

A window that was sorted is left alone from then on: its parts overlap in time, and no longer in their keys. New parts after it form
a window of their own.

Only the parts of a window that must be rewritten are. Sorted by their least keys, parts form **overlap groups** that share no keys
with each other; a part that is alone in its group stays. Small neighbouring groups are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.storage.maintain.compact import PartGroup
from tidegate.storage.maintain.key_ranges import KeyRange, KeySample, key_ranges, split_points
from tidegate.storage.maintain.merge_parts import by_time
from tidegate.storage.part.deletions import NEVER
from tidegate.storage.part.part import Part
from tidegate.storage.part.parts_table import PARTS_SCHEMA
from tidegate.storage.shard.state import State

SAMPLES = 256
"""Sampled keys for each range: the sizes of ranges then differ by a few percent."""


@dataclass(frozen=True)
class OverlapGroup:
    """Parts that are rewritten together, and how they are divided by key."""

    parts: tuple[Part, ...]
    shares: tuple[KeyRange, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(part.rows for part in self.parts)

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(part.size for part in self.parts)


def time_windows(state: State, limit: int) -> Iterator[PartGroup]:
    """All parts in windows of about `limit` bytes. Parts whose times overlap stay together.

    Parts of which all rows are deleted are left out: only AS OF an earlier time shows them.
    """
    table = by_time(state)
    if state.parts.deletions:
        deleted, _ = state.parts.deletions.totals(table.column("id").to_numpy(), NEVER)
        table = table.filter(pa.array(deleted < np.maximum(table.column("rows").to_numpy(), 1)))
    if not table.num_rows:
        return
    ids, rows, sizes, first, last = (
        table.column(name).to_numpy() for name in ("id", "rows", "size", "first", "last")
    )
    begins = np.flatnonzero(np.concatenate([[True], first[1:] > np.maximum.accumulate(last)[:-1]]))
    weights = np.add.reduceat(sizes, begins)
    for start, stop in _fold(begins.tolist(), weights.tolist(), len(ids), limit):
        yield PartGroup(ids[start:stop], int(rows[start:stop].sum()), int(sizes[start:stop].sum()))


def _fold(begins: list[int], weights: list[int], end: int, limit: int) -> Iterator[tuple[int, int]]:
    """Joins small windows up to the limit.

    A window of at least half the limit stays by itself, because an earlier re-clustering made it one.
    """
    start, total = 0, 0
    for begin, stop, weight in zip(begins, [*begins[1:], end], weights, strict=True):
        if 2 * weight >= limit:
            if begin > start:
                yield start, begin
            yield begin, stop
            start, total = stop, 0
        elif (total := total + weight) >= limit:
            yield start, stop
            start, total = stop, 0
    if start < end:
        yield start, end


def unsorted(state: State, order: Sequence[int]) -> pa.Array:
    """The ids of the parts that are not in this order."""
    columns = ["id", "order"]
    table = pa.concat_tables([PARTS_SCHEMA.empty_table().select(columns), *state.parts.tables(columns)])
    padded = pc.list_slice(table.column("order").combine_chunks(), 0, len(order), return_fixed_size_list=True)
    found = pc.fill_null(padded.flatten(), -1).to_numpy(zero_copy_only=False).reshape(-1, len(order))
    return table.column("id").combine_chunks().filter(pa.array((found != np.array(order)).any(axis=1)))


def stride(rows: int, size: int, target: int) -> int:
    """The distance between sampled rows."""
    return max(1, rows // (SAMPLES * (1 + size // target)))


def overlap_groups(
    parts: Sequence[Part],
    outlines: Sequence[KeySample],
    target: int,
    *,
    touching: bool,
    needs: Callable[[Part], bool] = lambda _: False,
) -> Iterator[OverlapGroup]:
    """The groups of parts to be rewritten.

    With `touching`, parts that share only the key at their ends are in one group, because rows may cancel. A part that `needs` it
    is rewritten even if it is alone.
    """
    for group in _packed(
        _overlapping(outlines, touching=touching), [part.size for part in parts], target // 2
    ):
        some, known = tuple(parts[i] for i in group), [outlines[i] for i in group]
        if len(some) > 1 or any(needs(part) for part in some):
            many = -(-sum(part.size for part in some) // target)
            found = key_ranges(some, known, split_points(known, many))
            yield OverlapGroup(some, tuple(one for one in found if one.pieces))


def _overlapping(outlines: Sequence[KeySample], *, touching: bool) -> list[list[int]]:
    """The positions of parts, grouped by overlapping keys, in the order of their keys."""
    ends = [(min(found.lows), max(found.highs), i) for i, found in enumerate(outlines) if found.lows]
    groups: list[list[int]] = []
    reached = b""
    for low, high, i in sorted(ends):
        if groups and (low < reached or (touching and low == reached)):
            groups[-1].append(i)
        else:
            groups.append([i])
        reached = max(reached, high)
    return groups


def _packed(groups: Sequence[list[int]], sizes: Sequence[int], limit: int) -> Iterator[list[int]]:
    """Joins neighbouring groups while they are small; ranges that were divided before are not small."""
    waiting: list[int] = []
    total = 0
    for group in groups:
        size = sum(sizes[i] for i in group)
        if waiting and total + size >= limit:
            yield waiting
            waiting, total = [], 0
        waiting += group
        total += size
    if waiting:
        yield waiting
