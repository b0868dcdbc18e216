"""Compaction: few large parts instead of many small ones, and times that nobody can ask for any more made one.

Parts in the order of their times, sizes in MiB, fanout 4 (8 by default):

    150 | 32  34  33  30 | 4  4  1        four neighbours of about one size become one of 129
    150 | 129            | 4  4  1        three are not enough

Only neighbours are merged, so a part covers a short time, and filters on time still find few parts. Each row is rewritten
about once a tier, of which there are few. What is rewritten gets the newest schema, times below `since` become `since`, and in
a shard with retractions identical rows of one time are added up: what was put in and taken out is gone. Rows that have ended by
themselves before `since` are left out; a part of which most have is rewritten for that alone, so what is stored stays in
proportion to what is valid. The sum of diffs, with theirs, stays the same: that is checked here and again by the state.

A compaction that is killed leaves orphans, one that meets another gives up what it wrote; in both cases the parts it read are still
there. `full=True` merges all small neighbours however few, and in a shard with retractions the large parts too.

Each group is independent of the others, so they may be written anywhere, by `outputs`, and replaced by `swap` one by one:
`spark/maintain.py` does so in the tasks of a cluster, and cuts a group that is too large for one task by key (`ranges.py`).

The option `retention_ms` says how long past times can be asked for: `since` follows `upper` and the clock at that distance, but
never passes a lease. Parts of which all rows have ended by themselves are dropped without being read (`expire.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import CorruptError
from tidegate.shard.change import Part, Replace
from tidegate.shard.expire import advance, drop_expired, follow
from tidegate.shard.gather import size_of
from tidegate.shard.lease import Lease, hold, release_expired
from tidegate.shard.merge import Block, concat, in_order, merge, summed
from tidegate.shard.parts import SCHEMA
from tidegate.shard.schema import Schema
from tidegate.shard.state import Conflict, State
from tidegate.shard.stream import blocks
from tidegate.shard.validity import Validity, ends, still_valid
from tidegate.shard.writer import INFLATION, PartSwept, Shard, order_of, schema_of

T = TypeVar("T")

SMALLEST_TIER = 64 << 10
"""Parts up to this size are all of one tier."""
MOST = 0.5
"""The share of a part's rows that must have ended before it is rewritten without them: each rewriting halves it, or more."""


@dataclass
class Compacted:
    """What a compaction did."""

    since: int = 0
    removed: int = 0
    """Parts that were replaced."""
    added: int = 0
    """Parts that took their place."""
    expired: int = 0
    """Parts that were dropped since all of their rows had ended."""
    conflicts: int = 0
    """Merges that were given up, as another compaction was faster."""


def compact(shard: Shard, *, full: bool = False) -> Compacted:
    """Moves `since`, drops what has ended, merges what is small; see the module's docstring."""
    done = begin(shard)
    with planning(shard) as lease:
        for group in plan(shard, lease.state, full=full):
            try:
                added = rewrite(shard, lease, group)
            except (Conflict, PartSwept):
                done.conflicts += 1
                continue
            if added is not None:
                done.removed += len(group)
                done.added += added
    return done


def begin(shard: Shard) -> Compacted:
    """What needs only metadata: `since` moves, parts that have ended are dropped."""
    release_expired(shard)
    follow(shard)
    state = advance(shard)
    return Compacted(since=state.since, expired=drop_expired(shard))


def planning(shard: Shard) -> Lease:
    """A lease that keeps the parts of a plan from being swept if another compaction replaces them meanwhile."""
    return hold(shard, lambda state: max(state.since, state.upper - 1))


def plan(shard: Shard, state: State, *, full: bool) -> Iterator[list[Part]]:
    """Groups of neighbours to be merged, each given as parts in the order of their times."""
    for some in neighbours(shard, state, full=full):
        yield parts_of(state, some.ids)


@dataclass(frozen=True, eq=False)
class Neighbours:
    """A group by the ids of its parts: of a million parts no values are made before they are needed."""

    ids: np.ndarray
    rows: int
    size: int


def by_time(state: State) -> pa.Table:
    """What planning asks of the parts, in the order of their times."""
    columns = ["id", "rows", "size", "first", "last", "retracts"]
    table = pa.concat_tables([SCHEMA.empty_table().select(columns), *state.parts.tables(columns)])
    order = [("first", "ascending"), ("last", "ascending"), ("id", "ascending")]
    return table.take(pc.sort_indices(table, order))


def neighbours(shard: Shard, state: State, *, full: bool) -> Iterator[Neighbours]:
    """The groups that are to be merged, of metadata alone."""
    table = by_time(state)
    sizes, ids = table.column("size").to_numpy(), table.column("id").to_numpy()
    target, fanout = shard.config.part_bytes, shard.config.compact_fanout
    collapsing = pc.and_(table.column("retracts"), pc.less_equal(table.column("first"), state.since))
    if full and pc.any(collapsing).as_py():
        groups = iter([range(len(sizes))])
    elif full:
        groups = _fill(sizes, target)
    else:
        groups = _tiers(sizes, target, fanout)
    rows = table.column("rows").to_numpy()
    alone = np.isin(ids, _mostly_ended(state))
    for group in groups:
        inside = slice(group.start, group.stop)
        alone[inside] = False
        yield Neighbours(ids[inside], int(rows[inside].sum()), int(sizes[inside].sum()))
    for at in np.flatnonzero(alone):
        yield Neighbours(ids[at : at + 1], int(rows[at]), int(sizes[at]))


def _mostly_ended(state: State) -> np.ndarray:
    """The ids of the parts of which most rows have ended, as their statistics tell: ends are taken to be spread evenly."""
    validity, found = Validity.of(state.options), [np.zeros(0, np.int64)]
    if validity is None:
        return found[0]
    for table, frame in zip(state.parts.tables(["id"]), state.parts.frames(), strict=True):
        low, high = (frame.fact(side, (validity.upper,)) for side in ("low", "high"))
        if low is not None and high is not None:
            first, last = ends(low).astype(np.float64), ends(high).astype(np.float64)
            share = np.minimum((state.since - first + 1) / np.maximum(last - first + 1, 1), 1)
            endless = frame.nulls(validity.upper).to_numpy(zero_copy_only=False).astype(np.float64)
            share *= 1 - endless / np.maximum(frame.rows, 1)
            found.append(table.column("id").to_numpy()[share >= MOST])
    return np.concatenate(found)


def _fill(sizes: np.ndarray, target: int) -> Iterator[range]:
    """Runs of at least two small parts, cut where they are large enough together."""
    for run in _runs(sizes < target / 2):
        start, total = run.start, 0
        for at in run:
            total += int(sizes[at])
            if total >= target or at == run.stop - 1:
                if at > start:
                    yield range(start, at + 1)
                start, total = at + 1, 0


def _tiers(sizes: np.ndarray, target: int, fanout: int) -> Iterator[range]:
    """Runs of at least `fanout` parts of one tier or below it; the smallest tier with such a run goes first."""
    free = sizes < target / 2
    before = np.concatenate([[0], np.cumsum(sizes)])
    limit = SMALLEST_TIER
    while free.any():
        limit = min(limit, target // 2)
        for run in _runs(free & (sizes <= limit)):
            start = run.start
            while run.stop - start >= fanout:
                full = int(np.searchsorted(before, before[start] + target))
                stop = min(max(start + fanout, full), run.stop)
                # A part as large as all others together would be rewritten for little.
                if 2 * sizes[start:stop].max() <= sizes[start:stop].sum() or limit == SMALLEST_TIER:
                    free[start:stop] = False
                    yield range(start, stop)
                start = stop
        if limit == target // 2:
            return
        limit *= fanout


def _runs(mask: np.ndarray) -> list[range]:
    """The stretches of the mask that are true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [range(start, stop) for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)]


def parts_of(state: State, ids: np.ndarray) -> list[Part]:
    """The parts of these ids, in the order of their times."""
    return sorted(state.parts.find(ids), key=lambda part: (part.first, part.last, part.id))


def rewrite(shard: Shard, lease: Lease, group: Sequence[Part]) -> int | None:
    """Replaces parts by others with the same updates; how many, or None if nothing was to be gained."""
    state = lease.state
    schema = schema_of(state)
    order = order_of(state, schema, retracts=False)
    level = level_of(group)
    with shard.writing() as written:
        aging = Aging(state, schema)
        for block in outputs(shard, aging, group, order):
            lease.keep()
            written.append(shard.store(state, schema, block, order, level))
        return swap(shard, group, written, aging.ended)


def level_of(group: Sequence[Part]) -> int:
    """The level of what is made of these parts."""
    return max(part.level for part in group) + 1


def swap(
    shard: Shard, group: Sequence[Part], written: Sequence[Part], ended: int, *, anyway: bool = False
) -> int | None:
    """Replaces parts by those that were written of them; how many, or None if nothing was gained, unless it is done `anyway`.

    `ended` is the sum of diffs of the rows that were left out. What was written is deleted if nothing was gained; and by the
    caller (`Shard.writing`), if this raises.
    """
    before, after = sum(part.diffs for part in group), sum(part.diffs for part in written) + ended
    if before != after:
        raise CorruptError(
            f"compaction of {shard.machine.known().shard} made {after} of a sum of diffs of {before}: nothing was changed"
        )
    fewer = len(written) < len(group) or sum(part.rows for part in written) < sum(part.rows for part in group)
    if not fewer and not anyway:
        shard.discard(written)
        return None

    def think(newest: State) -> Replace:
        shard.check_parts(newest, written)
        return Replace(tuple(part.id for part in group), tuple(written), ended=ended)

    shard.machine.change(think)
    return len(written)


class Aging:
    """What time does to updates that are written again."""

    def __init__(self, state: State, schema: Schema) -> None:
        self.state, self.schema = state, schema
        self.ids = [column.id for column in schema.columns]
        self.ended = 0
        """The sum of diffs of the rows that were left out so far."""
        self._validity = Validity.of(state.options)

    def __call__(self, block: Block) -> Block:
        """The updates that can still be asked for, those of earlier times than can be at the first of these."""
        since = self.state.since
        if self._validity is not None:
            valid = still_valid(block.columns[self.ids.index(self._validity.upper)], since)
            if not valid.all():
                self.ended += int(block.diffs[~valid].sum())
                block = block.take(valid)
        # `since` can be `upper`; a part's times are below it.
        return replace(block, times=np.maximum(block.times, min(since, self.state.upper - 1)))


def outputs(shard: Shard, aging: Aging, group: Sequence[Part], order: tuple[int, ...]) -> Iterator[Block]:
    """The updates of the group, as blocks of the size of a part."""
    return gathered(_updates(shard, aging, group, order), INFLATION * shard.config.part_bytes)


def gathered(updates: Iterator[Block], limit: int) -> Iterator[Block]:
    """Blocks of at least so many bytes, but for the last."""
    waiting: list[Block] = []
    size = 0
    for block in updates:
        if len(block):
            waiting.append(block)
            size += size_of(block)
        if size >= limit:
            yield concat(waiting)
            waiting, size = [], 0
    if waiting:
        yield concat(waiting)


def _updates(shard: Shard, aging: Aging, group: Sequence[Part], order: tuple[int, ...]) -> Iterator[Block]:
    """The updates of the group in the order wanted, aged, identical ones added up if the shard retracts."""

    def stream(part: Part) -> Iterator[Block]:
        rows = shard.config.batch_rows
        for block in blocks(shard.machine, part, aging.schema, aging.ids, rows, ranged=bool(order)):
            yield aging(block)

    if not order:
        yield from itertools.chain.from_iterable(stream(part) for part in group)
        return
    places = [aging.ids.index(id_) for id_ in order]
    piles = together([(part, part.rows) for part in group], shard.config.batch_rows)
    runs = [
        sorted_run(pile, stream, lambda part: part.order[: len(order)] == order, places) for pile in piles
    ]
    yield from merged(aging.state, places, runs)


def together(items: Sequence[tuple[T, int]], most: int) -> list[list[T]]:
    """Items with how many rows they have, in piles of at most so many rows; an item that has more is a pile by itself.

    Merging takes time by the square of the number of runs, and holds a batch of each in memory. So parts that are smaller than a
    batch are sorted together into a run of about one batch.
    """
    piles: list[list[T]] = []
    total = most
    for item, rows in items:
        if total + rows > most:
            piles.append([])
            total = 0
        piles[-1].append(item)
        total += rows
    return piles


def sorted_run(
    pile: Sequence[T],
    stream: Callable[[T], Iterator[Block]],
    is_sorted: Callable[[T], bool],
    places: Sequence[int],
) -> Iterator[Block]:
    """The updates of a pile as one sorted stream: as they come if that is one sorted item, else read whole and sorted."""
    if len(pile) == 1 and is_sorted(pile[0]):
        yield from stream(pile[0])
        return
    found = [block for item in pile for block in stream(item)]
    if found:
        yield in_order(concat(found), places)


def merged(state: State, places: Sequence[int], runs: Sequence[Iterator[Block]]) -> Iterator[Block]:
    """Sorted runs as one; identical updates are added up if the shard retracts."""
    for window in merge(runs, places):
        block = window if state.monotonic else summed(window, by_time=True)
        if len(block):
            yield in_order(block, places)
