"""Compaction: merges small parts into large ones, and times that can no longer be read into one.

Parts in the order of their times, sizes in MiB, fanout 4 (8 by default):

    150 | 32  34  33  30 | 4  4  1        four neighbours of about one size become one of 129
    150 | 129            | 4  4  1        three are not enough

Only neighbours are merged, so a part covers a short time, and filters on time still select few parts. Each row is rewritten about
once a tier, of which there are few. Rows are sorted by CLUSTER BY, or else, in a collection in which rows are deleted, by the
column that rises in its largest part, or from part to part (`natural_order.py`). There rows of an UPDATE go back to where the old
ones were: a part that is small, or of which much is deleted, is rewritten together with the small parts whose values lie among its
own, as soon as these have enough rows (`_fold`). Rewritten rows get the newest schema, and times below `since` become `since`.
Retractions that are rows are turned into deletions first (`settle.py`); if some are left, identical rows of one time are
consolidated. Rows that ended before `since` are left out; a part whose rows have mostly ended is rewritten for that reason alone,
so the stored size stays in proportion to what is valid. The sum of diffs, including that of rows left out, stays the same: that is
checked here and again by the state.

A compaction that is killed leaves orphans; one that conflicts with another discards what it wrote. In both cases the parts that it
read still exist. `full=True` merges all small neighbours however few, and in a shard with retractions the large parts too.

Each group is independent of the others, so groups can be written anywhere, by `merged_blocks`, and replaced by `swap` one by one:
`spark/tasks/maintain.py` does so in the tasks of a cluster, and divides a group that is too large for one task by key
(`key_ranges.py`).

The option `retention_ms` says how long past times can be read: `since` follows `upper` and the clock at that distance, but never
passes a lease. Parts whose rows have all ended are dropped without being read (`expire.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.progress import Meter
from tidegate.storage.maintain.expire import advance, drop_expired, follow
from tidegate.storage.maintain.merge_parts import (
    by_time,
    hold_planned_parts,
    level_of,
    merged_blocks,
    parts_of,
)
from tidegate.storage.maintain.natural_order import (
    can_fold,
    compaction_order,
    folded_blocks,
    group_order,
    ranges_of,
)
from tidegate.storage.maintain.rewrite import Aging, swap, write_parts
from tidegate.storage.maintain.settle import settle_retractions
from tidegate.storage.part.deletions import NEVER
from tidegate.storage.part.merge import Block
from tidegate.storage.part.part import Part
from tidegate.storage.shard.leases.lease import Lease, release_expired_leases
from tidegate.storage.shard.shard import PartSwept, Shard
from tidegate.storage.shard.state import Conflict, State
from tidegate.storage.shard.validity import Validity, end_times

SMALLEST_TIER = 64 << 10
"""Parts up to this size belong to one tier."""
MIN_DELETED_SHARE = 0.1
"""The share of rows that must be deleted before a part is rewritten without them."""
MIN_FOLDED_SHARE = 0.005
"""The share of rows that must be scattered before other parts are rewritten to take them in."""
MIN_FOLDED_WHILE_RUNNING = 0.125
"""The same for a source that runs on, which may have written parts of its own in each second."""
MAX_FOLDED_PARTS = 8
"""Parts of full size up to which parts and those scattered among them are rewritten as one group."""
MAX_FULLY_FOLDED_PARTS = 256
"""The same of a full compaction, which rewrites all parts with deleted rows anyway."""
SCATTERED_FANOUT = 2
"""How many scattered parts of similar size are merged: each costs every look-up."""
MAX_RECORDS = 256
"""Commits that may have deleted rows of a part before it is rewritten without them, however few they are."""
MIN_ENDED_SHARE = 0.5
"""The share of rows that must have ended before a part is rewritten without them: each rewrite at least halves it."""


@dataclass
class Compacted:
    """The result of a compaction: `db.compact("orders").removed`."""

    since: int = 0
    removed: int = 0
    """Parts that were replaced."""
    added: int = 0
    """Parts that took their place."""
    expired: int = 0
    """Parts that were dropped because all of their rows had ended."""
    conflicts: int = 0
    """Merges that were abandoned because another compaction was faster."""
    settled: int = 0
    """Rows that were retracted by rows, and are deleted by their position now."""


def compact_shard(
    shard: Shard, *, full: bool = False, max_bytes: int | None = None, meter: Meter | None = None
) -> Compacted:
    """Moves `since`, drops expired parts, settles retractions, merges small parts: see above.

    With `max_bytes`, no further group is merged once so many bytes were: the next compaction goes on. `meter` counts groups.
    """
    done, size = advance_and_settle(shard), 0
    folded = MIN_FOLDED_SHARE if max_bytes is None else MIN_FOLDED_WHILE_RUNNING
    with hold_planned_parts(shard) as lease:
        order = compaction_order(shard, lease.state)
        groups = plan_groups(shard, lease.state, full=full, order=order, folded=folded)
        for planned in groups if meter is None else _metered(groups, meter):
            if max_bytes is not None and size >= max_bytes:
                break
            group = parts_of(lease.state, planned.ids)
            size += planned.size
            try:
                added = rewrite(shard, lease, group, order)
            except (Conflict, PartSwept):
                done.conflicts += 1
                continue
            if added is not None:
                done.removed += len(group)
                done.added += added
    return done


def store_inline_parts(shard: Shard) -> int:
    """Makes files of the parts that are in the log, for readers of files; how many parts there were.

    Few are stored as they are, and more than `compact_fanout` as one.
    """
    if not shard.machine.fetch().parts.inline_bytes:
        return 0
    with hold_planned_parts(shard) as lease:
        inline = sorted(lease.state.parts.inline(), key=lambda part: (part.first, part.last, part.id))
        order = compaction_order(shard, lease.state)
        few = len(inline) <= shard.config.compact_fanout
        for group in ([part] for part in inline) if few else [inline]:
            with suppress(
                Conflict, PartSwept
            ):  # others merge them just now, or sweep took the file: they stay
                rewrite(shard, lease, group, order, anyway=True)
    return len(inline)


def _metered(groups: Iterable[PartGroup], meter: Meter) -> Iterator[PartGroup]:
    """The groups; each counts as done when the next one is asked for."""
    planned = list(groups)
    meter.expect(len(planned), sum(group.rows for group in planned), sum(group.size for group in planned))
    for group in planned:
        yield group
        meter.add(1, group.rows, group.size)


def advance_since_and_expire(shard: Shard) -> Compacted:
    """The steps that need only metadata: moves `since`, and drops parts that have ended."""
    release_expired_leases(shard)
    follow(shard)
    return Compacted(since=advance(shard).since, expired=drop_expired(shard))


def advance_and_settle(shard: Shard) -> Compacted:
    """The steps before a merge: moves `since`, drops parts that ended, settles retractions."""
    done = advance_since_and_expire(shard)
    done.settled = settle_retractions(shard)
    if done.settled:
        done.expired += drop_expired(shard)  # parts of which all rows are deleted now
    return done


@dataclass(frozen=True, eq=False)
class PartGroup:
    """A group by the ids of its parts: no values are made of a million parts before they are needed."""

    ids: np.ndarray
    rows: int
    size: int


def plan_groups(
    shard: Shard, state: State, *, full: bool, order: tuple[int, ...] = (), folded: float = MIN_FOLDED_SHARE
) -> Iterator[PartGroup]:
    """The groups to be merged, from metadata alone; `order` is what the rows of groups will be sorted by.

    Parts of which all rows are deleted are merged among themselves: only AS OF an earlier time shows them. Alone they are rewritten
    for those of their rows that no time shows any more.
    """
    table = by_time(state)
    ids, rows = (table.column(name).to_numpy() for name in ("id", "rows"))
    deleted, _ = state.parts.deletions.totals(ids, NEVER)
    past = (deleted >= rows) & (deleted > 0)
    gone = state.parts.deletions.totals(ids, min(state.since, state.upper - 1))[0] if past.any() else deleted
    deleted = np.where(past, gone, deleted)
    alone = (deleted > (0 if full else MIN_DELETED_SHARE) * rows) & (deleted < rows)
    if state.parts.deletions:
        changed, records = state.parts.deletions.record_counts
        alone |= np.isin(ids, changed[records > MAX_RECORDS]) & ~past
    fold, scattered = np.zeros(len(ids), bool), np.zeros(len(ids), bool)
    if order and state.parts.deletions and (state.monotonic or not full):
        free = ~past & (full | alone | (table.column("size").to_numpy() < shard.config.part_bytes / 2))
        fold, scattered = _fold(shard, state, table, free, order[0], folded, full=full)
    if fold.any():
        yield PartGroup(
            ids[fold], int(rows[fold].sum()), int(pc.sum(table.column("size").filter(pa.array(fold))).as_py())
        )
    fanout = shard.config.compact_fanout
    for some, whole, most in (
        (past, False, fanout),
        (scattered & ~fold, full, min(fanout, SCATTERED_FANOUT)),
        (~past & ~scattered & ~fold, full, fanout),
    ):
        if some.any():
            yield from _plan_groups(
                shard, state, table.filter(pa.array(some)), alone[some], full=whole, fanout=most
            )


def _fold(
    shard: Shard, state: State, table: pa.Table, free: np.ndarray, column: int, least: float, *, full: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Of the parts in a table: those to rewrite as one, and all that are scattered among others.

        ids 1-900  1-900  901-1800      a small part of an UPDATE, and two larger ones: the first two are rewritten

    Only parts that are `free` to be rewritten count. Those that few scattered rows lie among are left alone, unless they are few
    and the compaction is full.
    """
    ids, sizes, target = (
        table.column("id").to_numpy(),
        table.column("size").to_numpy(),
        shard.config.part_bytes,
    )
    fold, scattered, at = np.zeros(len(ids), bool), np.zeros(len(ids), bool), np.flatnonzero(free)
    ranges = ranges_of(state, ids[at], column)
    among = ranges.scattered()
    scattered[at] = among
    meeting = among | ranges.meeting(among)
    enough = ranges.rows[among].sum() >= least * ranges.rows[meeting & ~among].sum()
    few = sizes[at[meeting]].sum() <= MAX_FOLDED_PARTS * target
    if among.any() and full and (enough or few):
        # Small parts are merged in any case: together with these, so that no part lies between others.
        chosen = meeting | (sizes[at] < target / 2)
        fold[at[chosen]] = sizes[at[chosen]].sum() <= MAX_FULLY_FOLDED_PARTS * target
    elif among.any() and not full and enough and few:
        fold[at[meeting]] = True
    return fold, scattered


def _plan_groups(
    shard: Shard, state: State, table: pa.Table, alone: np.ndarray, *, full: bool, fanout: int
) -> Iterator[PartGroup]:
    """The groups of some parts, given by time; `alone`: those to rewrite even by themselves."""
    sizes, ids, target = (
        table.column("size").to_numpy(),
        table.column("id").to_numpy(),
        shard.config.part_bytes,
    )
    collapsing = pc.and_(table.column("retracts"), pc.less_equal(table.column("first"), state.since))
    if full and pc.any(collapsing).as_py():
        groups = iter([range(len(sizes))])
    elif full:
        groups = _fill(sizes, target)
    else:
        groups = _tiers(sizes, target, fanout)
    rows = table.column("rows").to_numpy()
    alone = alone | np.isin(ids, _mostly_ended(state))
    for group in groups:
        inside = slice(group.start, group.stop)
        alone[inside] = False
        yield PartGroup(ids[inside], int(rows[inside].sum()), int(sizes[inside].sum()))
    for at in np.flatnonzero(alone):
        yield PartGroup(ids[at : at + 1], int(rows[at]), int(sizes[at]))


def _mostly_ended(state: State) -> np.ndarray:
    """The ids of the parts whose rows have mostly ended, by their statistics.

    Ends are assumed to be spread evenly.
    """
    validity, found = Validity.of(state.options), [np.zeros(0, np.int64)]
    if validity is None:
        return found[0]
    for table, frame in zip(state.parts.tables(["id"]), state.parts.frames(), strict=True):
        low, high = (frame.fact(side, (validity.upper,)) for side in ("low", "high"))
        if low is not None and high is not None:
            first, last = end_times(low).astype(np.float64), end_times(high).astype(np.float64)
            share = np.minimum((state.since - first + 1) / np.maximum(last - first + 1, 1), 1)
            endless = frame.nulls(validity.upper).to_numpy(zero_copy_only=False).astype(np.float64)
            share *= 1 - endless / np.maximum(frame.rows, 1)
            found.append(table.column("id").to_numpy()[share >= MIN_ENDED_SHARE])
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
    """Runs of at least `fanout` parts of one tier or below it, the smallest tier with such a run first."""
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
                # Rewriting a part that is as large as all others together gains little.
                if 2 * sizes[start:stop].max() <= sizes[start:stop].sum() or limit == SMALLEST_TIER:
                    free[start:stop] = False
                    yield range(start, stop)
                start = stop
        if limit == target // 2:
            return
        limit *= fanout


def _runs(mask: np.ndarray) -> list[range]:
    """The ranges in which the mask is true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [range(start, stop) for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)]


def rewrite(
    shard: Shard, lease: Lease, group: Sequence[Part], order: tuple[int, ...], *, anyway: bool = False
) -> int | None:
    """Replaces parts by others with the same updates; returns how many, or None if nothing was gained.

    With `anyway` it replaces them even then.
    """
    state, aging = lease.state, aging_of(shard, lease.state, group)
    ranges = ranges_of(state, np.array([part.id for part in group]), order[0]) if order else None
    order = order if ranges is None else group_order(order, state, ranges)
    with shard.writing() as written:
        if order and ranges is not None and state.monotonic and can_fold(group, ranges):
            blocks = folded_blocks(shard, aging, group, order, ranges)
        else:
            blocks = merged_blocks(shard, aging, group, order)
        made = write_parts(shard, aging, _kept_alive(lease, blocks), order, level_of(group), written)
        return swap(shard, group, made, state, anyway=anyway)


def aging_of(shard: Shard, state: State, group: Sequence[Part]) -> Aging:
    """What is applied to the updates of a group."""
    deletions = state.parts.deletions.only(np.array([part.id for part in group], np.int64))
    return Aging(state, state.schema, deletions, shard.machine.objects.get)


def _kept_alive(lease: Lease, blocks: Iterator[Block]) -> Iterator[Block]:
    for block in blocks:
        lease.keep()
        yield block
