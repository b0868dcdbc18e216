"""Which parts are sorted together: stretches of time, and in each of them the parts whose keys overlap.

Compaction merges neighbours in time, so that filters on time find few parts. Clustering sorts by key, so that filters on the key
find few. Both are kept, by sorting within **stretches** of time: parts that follow each other in time, together about as large as
`recluster_parts` full ones.

    time    ─────────────────────────────▶
    parts   a..z a..z a..z a..z │ b..z a..y a..z a..x        each part holds nearly all keys: a filter on one key reads all 8
    after   a..f f..m m..s s..z │ a..h h..n n..t t..z        of each stretch it reads 1 or 2, and a filter on time still half

A stretch that was sorted is left alone from then on: its parts overlap in time with each other, and no longer in their keys. New
ones behind it make a stretch of their own.

Of a stretch only what must be is written again. Sorted by their least keys, parts fall into **clumps** that share no keys with
each other; one that is alone in its clump stays. Small clumps beside each other are put together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.shard.change import Part
from tidegate.shard.compact import by_time
from tidegate.shard.parts import SCHEMA
from tidegate.shard.ranges import Outline, Share, cut, share
from tidegate.shard.state import State

SAMPLES = 256
"""Keys that are looked at for each share: their sizes then differ by a few percent."""


@dataclass(frozen=True, eq=False)
class Stretch:
    """Parts that are sorted together, by their ids."""

    ids: np.ndarray
    rows: int
    size: int


@dataclass(frozen=True)
class Clump:
    """Parts that become others, and how they are cut."""

    parts: tuple[Part, ...]
    shares: tuple[Share, ...]

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(part.rows for part in self.parts)

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(part.size for part in self.parts)


def stretches(state: State, limit: int) -> Iterator[Stretch]:
    """All parts in stretches of about `limit` bytes. Parts whose times overlap are not torn apart."""
    table = by_time(state)
    if not table.num_rows:
        return
    ids, rows, sizes, first, last = (
        table.column(name).to_numpy() for name in ("id", "rows", "size", "first", "last")
    )
    begins = np.flatnonzero(np.concatenate([[True], first[1:] > np.maximum.accumulate(last)[:-1]]))
    weights = np.add.reduceat(sizes, begins)
    for start, stop in _fold(begins.tolist(), weights.tolist(), len(ids), limit):
        yield Stretch(ids[start:stop], int(rows[start:stop].sum()), int(sizes[start:stop].sum()))


def _fold(begins: list[int], weights: list[int], end: int, limit: int) -> Iterator[tuple[int, int]]:
    """Small ones gathered up to the limit; one of half of it is a stretch by itself, as it was made one before."""
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
    table = pa.concat_tables([SCHEMA.empty_table().select(columns), *state.parts.tables(columns)])
    padded = pc.list_slice(table.column("order").combine_chunks(), 0, len(order), return_fixed_size_list=True)
    found = pc.fill_null(padded.flatten(), -1).to_numpy(zero_copy_only=False).reshape(-1, len(order))
    return table.column("id").combine_chunks().filter(pa.array((found != np.array(order)).any(axis=1)))


def stride(rows: int, size: int, target: int) -> int:
    """Every how many rows one is looked at."""
    return max(1, rows // (SAMPLES * (1 + size // target)))


def clumps(
    parts: Sequence[Part],
    outlines: Sequence[Outline],
    target: int,
    *,
    touching: bool,
    needs: Callable[[Part], bool] = lambda _: False,
) -> Iterator[Clump]:
    """What is to be written again of these parts.

    With `touching`, parts that have but the key at their ends in common are in one clump: there may be rows that cancel. A part
    that `needs` it is written again even if it is alone.
    """
    for group in _packed(
        _overlapping(outlines, touching=touching), [part.size for part in parts], target // 2
    ):
        some, known = tuple(parts[i] for i in group), [outlines[i] for i in group]
        if len(some) > 1 or any(needs(part) for part in some):
            many = -(-sum(part.size for part in some) // target)
            found = share(some, known, cut(known, many))
            yield Clump(some, tuple(one for one in found if one.pieces))


def _overlapping(outlines: Sequence[Outline], *, touching: bool) -> list[list[int]]:
    """Numbers of parts, those whose keys overlap together, in the order of their keys."""
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
    """Neighbours put together as long as they are small: what was cut into shares before is not."""
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
