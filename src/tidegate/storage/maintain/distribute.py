"""Maintenance of large shards in tasks.

A runner executes the tasks here or on a cluster (`spark/tasks/maintain.py`).

    compact_distributed(runner, shard, location)           as `compact_shard`, many groups at once; large ones divided by key
    recluster_shard(runner, shard, location)               sorts rows by CLUSTER BY across parts, within windows of time
    backfill_shard_statistics(runner, shard, location)     collects the statistics that parts lack

The runner executes tasks (`tasks.py`) and decides nothing. Results are put into the state here, **group by group as they arrive**:

| event | consequence |
|---|---|
| killed at any moment | what was put in so far stays; other parts that were written are orphans, which `sweep` deletes |
| a task is killed, or runs twice | the runner repeats it; only the result that it returns once is put in |
| two processes do it at once | the first replaces the parts of a group; the second finds them gone, and deletes what it wrote |
| a reader, at any time that it holds | sees the same rows: parts are replaced by parts with the same updates |

The sum of diffs of a group must not change, here and in the state. A lease keeps what is read from being swept; it is renewed
while we wait for the runner. What is written must be put in within half of `sweep_grace_ms`. One group is; but a full compaction
of a shard with retractions is one group however large, and raises an error if it took too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import BindError, StoreError, UnsupportedError
from tidegate.progress import Meter, Report
from tidegate.storage.location import Location
from tidegate.storage.maintain.compact import Compacted, advance_and_settle, plan_groups
from tidegate.storage.maintain.merge_parts import hold_planned_parts, level_of, parts_of
from tidegate.storage.maintain.recluster_plan import (
    OverlapGroup,
    overlap_groups,
    stride,
    time_windows,
    unsorted,
)
from tidegate.storage.maintain.rewrite import WrittenParts, swap
from tidegate.storage.maintain.tasks import (
    CollectStatistics,
    MaintenanceTask,
    MergeParts,
    SampleKeys,
    TaskContext,
    WriteKeyRange,
    run_task,
    without_statistics,
)
from tidegate.storage.part.deletions import Deletions
from tidegate.storage.part.part import Part
from tidegate.storage.part.parts_table import PARTS_SCHEMA
from tidegate.storage.shard.changes import AddStatistics
from tidegate.storage.shard.leases.lease import Lease
from tidegate.storage.shard.shard import PartSwept, Shard
from tidegate.storage.shard.state import Conflict, State

MAX_GROUP_PARTS = 4
"""Groups larger than this many full parts are divided by key."""
BUNDLE = 64
"""Small tasks that are sent together."""

K = TypeVar("K")


class TaskRunner(Protocol):
    """Executes tasks."""

    def run(
        self, jobs: Iterable[tuple[K, Sequence[MaintenanceTask]]], idle: Callable[[], None]
    ) -> Iterator[tuple[K, list[Any]]]:
        """The results of the tasks of each job, in their order; jobs complete in any order.

        `idle` is called about every second meanwhile.
        """


class LocalTaskRunner:
    """Runs tasks in this process."""

    def run(
        self, jobs: Iterable[tuple[K, Sequence[MaintenanceTask]]], idle: Callable[[], None]
    ) -> Iterator[tuple[K, list[Any]]]:
        """Runs one task after the other."""
        for key, tasks in jobs:
            found = []
            for task in tasks:
                idle()
                found.append(run_task(task))
            yield key, found


@dataclass
class Reclustered:
    """The result of a re-clustering: `db.recluster("orders", by=["buyer"])`."""

    stretches: int = 0
    """Windows of time that were considered."""
    removed: int = 0
    """Parts that were replaced."""
    added: int = 0
    """Parts that took their place."""
    conflicts: int = 0
    """Groups that were abandoned because another process was faster."""


@dataclass
class Learnt:
    """The result of a back-fill of statistics: `db.backfill_statistics("t").described`."""

    lacking: int = 0
    """Parts that had none."""
    described: int = 0
    """Parts that have statistics now; others were replaced meanwhile, or have no column with statistics."""


@dataclass
class _Maintenance:
    """What the steps of one maintenance run share."""

    runner: TaskRunner
    shard: Shard
    place: Location
    lease: Lease
    meter: Meter
    done: Compacted | Reclustered
    target: int = field(init=False)

    def __post_init__(self) -> None:
        self.target = self.shard.config.part_bytes

    @property
    def reach(self) -> TaskContext:
        return TaskContext.of(self.shard, self.place, self.lease.state)

    def deletions_of(self, group: Sequence[Part]) -> Deletions:
        """The deleted rows of a group."""
        return self.lease.state.parts.deletions.only(np.array([part.id for part in group], np.int64))

    def merge(self, groups: Iterable[Sequence[Part]], *, anyway: bool = False) -> None:
        """Merges each group into new parts."""
        tasks = ((group, self._merge_task(group)) for group in groups)
        for some, made in self.runner.run(_bundled(tasks, self.target), self.lease.keep):
            for group, written in zip(some, made, strict=True):
                self.swap(group, [written], anyway=anyway)

    def _merge_task(self, group: Sequence[Part]) -> MaintenanceTask:
        return MergeParts(self.reach, without_statistics(group), self.deletions_of(group))

    def sort(self, order: Sequence[int], ids: pa.Array | None = None) -> None:
        """Sorts the parts (with these ids) that are not in order, each alone or with small neighbours.

        Afterwards the lease has the newest state.
        """
        lacking = unsorted(self.lease.state, order)
        if ids is not None:
            lacking = lacking.filter(pc.is_in(lacking, value_set=ids))
        if len(lacking):
            parts = parts_of(self.lease.state, lacking.to_numpy())
            self.meter.expect(len(groups := _piles(parts, self.target)), _rows(parts), _size(parts))
            self.merge(groups, anyway=True)
            # The lease protects everything that the state has had since the lease was made.
            self.lease.state = self.shard.machine.fetch()

    def arrange(
        self, groups: Iterable[Sequence[Part]], *, touching: bool, needs: Callable[[Part], bool]
    ) -> None:
        """Sorts each group of sorted parts as a whole."""
        found = list(self._clumps(groups, touching=touching, needs=needs))
        self.meter.expect(len(found), sum(c.rows for c in found), sum(c.size for c in found))
        jobs = ((c, self._range_tasks(c)) for c in found)
        for clump, made in self.runner.run(jobs, self.lease.keep):
            self.swap(clump.parts, made, anyway=True)

    def _range_tasks(self, group: OverlapGroup) -> list[MaintenanceTask]:
        reach, level, deletions = self.reach, level_of(group.parts), self.deletions_of(group.parts)
        return [WriteKeyRange(reach, one, level, deletions) for one in group.shares]

    def _clumps(
        self, groups: Iterable[Sequence[Part]], *, touching: bool, needs: Callable[[Part], bool]
    ) -> Iterator[OverlapGroup]:
        reach = self.reach
        jobs = (
            (
                group,
                [
                    SampleKeys(reach, without_statistics(pile), _stride(group, self.target))
                    for pile in _piles(group, 4 * self.target)
                ],
            )
            for group in groups
        )
        for group, made in self.runner.run(jobs, self.lease.keep):
            outlines = [outline for some in made for outline in some]
            yield from overlap_groups(group, outlines, self.target, touching=touching, needs=needs)

    def swap(self, group: Sequence[Part], made: Sequence[WrittenParts], *, anyway: bool) -> None:
        """Puts in what was written from a group, or abandons it."""
        self.lease.keep()
        try:
            with self.shard.writing() as parts:
                written = WrittenParts.join(made)
                parts += written.parts
                added = swap(self.shard, group, written, self.lease.state, anyway=anyway)
        except Conflict:
            self.done.conflicts += 1
        except PartSwept:
            raise StoreError(
                f"the replacement of {len(group)} parts was swept before it could be put in: they stay as they are",
                hint="raise sweep_grace_ms wherever this database is swept, or use more workers",
            ) from None
        else:
            if added is not None:
                self.done.removed += len(group)
                self.done.added += added
        self.meter.add(1, _rows(group), _size(group))


def compact_distributed(
    runner: TaskRunner,
    shard: Shard,
    place: Location,
    *,
    full: bool = False,
    report: Report | None = None,
    name: str = "",
) -> Compacted:
    """As `compact_shard`, by a runner; retractions are settled in this process."""
    done = advance_and_settle(shard)
    with hold_planned_parts(shard) as lease:
        site = _Maintenance(
            runner, shard, place, lease, Meter(f"compact {name or lease.state.shard}", report), done
        )
        found = list(plan_groups(shard, lease.state, full=full))
        order = site.reach.order
        limit = MAX_GROUP_PARTS * site.target if order else float("inf")
        small = [some for some in found if some.size <= limit]
        site.meter.expect(len(small), sum(some.rows for some in small), sum(some.size for some in small))
        site.merge(parts_of(lease.state, some.ids) for some in small)
        for ids in [pa.array(some.ids) for some in found if some.size > limit]:
            _compact_large(site, order, ids)
    return done


def _compact_large(site: _Maintenance, order: Sequence[int], ids: pa.Array) -> None:
    """A group that is too large for one task: its parts are sorted, then divided by key."""
    before = site.lease.state
    site.sort(order, ids)
    state = site.lease.state
    # Parts of the group that were in order already, and what the others became, which have numbers from `next_id` on.
    now = _ids(state)
    ours = pc.or_(pc.is_in(now, value_set=ids), pc.greater_equal(now, before.next_id))
    since = min(state.since, state.upper - 1)
    group = parts_of(state, now.filter(ours).to_numpy())
    site.arrange([group], touching=True, needs=lambda part: part.level == 0 or part.first < since)


def recluster_shard(
    runner: TaskRunner, shard: Shard, place: Location, *, report: Report | None = None, name: str = ""
) -> Reclustered:
    """Sorts rows by CLUSTER BY across parts, within windows of time."""
    advance_and_settle(shard)
    done = Reclustered()
    with hold_planned_parts(shard) as lease:
        site = _Maintenance(
            runner, shard, place, lease, Meter(f"recluster {name or lease.state.shard}", report), done
        )
        order = site.reach.order
        if not order:
            raise BindError(
                "there is nothing to cluster by: the table has no CLUSTER BY",
                hint="name columns: db.recluster(name, by=[…])",
            )
        site.sort(order)
        found = list(time_windows(lease.state, shard.config.recluster_parts * site.target))
        done.stretches = len(found)
        groups = (parts_of(lease.state, some.ids) for some in found if len(some.ids) > 1)
        site.arrange(groups, touching=False, needs=lambda _: False)
    return done


def backfill_shard_statistics(
    runner: TaskRunner, shard: Shard, place: Location, *, report: Report | None = None, name: str = ""
) -> Learnt:
    """Adds statistics to the parts that have none; their files are read, and stay as they are."""
    if not shard.config.stats_collection:
        raise UnsupportedError(
            "statistics are not collected in this session", hint="db.set('stats_collection', True) first"
        )
    done = Learnt()
    with hold_planned_parts(shard) as lease:
        ids = lacking(lease.state)
        done.lacking = len(ids)
        parts, reach = parts_of(lease.state, ids), TaskContext.of(shard, place, lease.state)
        target = shard.config.part_bytes
        meter = Meter(f"statistics {name or lease.state.shard}", report)
        meter.expect(len(groups := _piles(parts, target // 4)), _rows(parts), _size(parts))
        tasks = ((group, CollectStatistics(reach, without_statistics(group))) for group in groups)
        for some, made in runner.run(_bundled(tasks, target), lease.keep):
            group = [part for each in some for part in each]
            stats = [one for each in made for one in each]
            told = {part.id: known for part, known in zip(group, stats, strict=True) if known}
            done.described += _describe(shard, told)
            meter.add(len(some), _rows(group), _size(group))
    return done


def _describe(shard: Shard, told: dict[int, bytes]) -> int:
    """Puts statistics into the state for those parts that still exist; returns how many."""
    count = 0

    def propose(told: dict[int, bytes], state: State) -> AddStatistics | None:
        nonlocal count
        wanted = pa.array(sorted(told), pa.int64())
        there = wanted.filter(pc.is_in(wanted, value_set=_ids(state))).to_pylist()
        count = len(there)
        return AddStatistics(tuple(there), tuple(told[id_] for id_ in there)) if there else None

    shard.machine.update(partial(propose, told))
    return count


def lacking(state: State) -> np.ndarray:
    """The ids of the parts without statistics."""
    found = [PARTS_SCHEMA.empty_table().column("id").to_numpy()]
    for table, frame in zip(state.parts.tables(["id"]), state.parts.frames(), strict=True):
        known = np.zeros(len(frame), bool)
        for name in frame.names:
            if known.all():
                break
            fact = frame.named(name)
            known |= (
                np.zeros(len(frame), bool)
                if fact is None
                else pc.is_valid(fact).to_numpy(zero_copy_only=False)
            )
        found.append(table.column("id").to_numpy()[~known])
    return np.concatenate(found)


def _ids(state: State) -> pa.Array:
    tables = state.parts.tables(["id"])
    return pa.concat_arrays([pa.array([], pa.int64()), *(t.column("id").combine_chunks() for t in tables)])


def _bundled(
    tasks: Iterable[tuple[Sequence[Part], MaintenanceTask]], target: int
) -> Iterator[tuple[list[Sequence[Part]], list[MaintenanceTask]]]:
    """Joins small groups into one job: a job costs some 50 ms."""
    groups: list[Sequence[Part]] = []
    waiting: list[MaintenanceTask] = []
    total = 0
    for group, task in tasks:
        groups.append(group)
        waiting.append(task)
        total += _size(group)
        if total >= target or len(waiting) == BUNDLE:
            yield groups, waiting
            groups, waiting, total = [], [], 0
    if waiting:
        yield groups, waiting


def _piles(parts: Sequence[Part], limit: int) -> list[list[Part]]:
    """Joins neighbours into piles of about `limit` bytes."""
    piles: list[list[Part]] = []
    total = limit
    for part in parts:
        if total + part.size > limit:
            piles.append([])
            total = 0
        piles[-1].append(part)
        total += part.size
    return piles


def _stride(parts: Sequence[Part], target: int) -> int:
    return stride(_rows(parts), _size(parts), target)


def _rows(parts: Sequence[Part]) -> int:
    return sum(part.rows for part in parts)


def _size(parts: Sequence[Part]) -> int:
    return sum(part.size for part in parts)
