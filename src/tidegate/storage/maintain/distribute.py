"""Maintenance of large shards, its tasks done by a crew: here, or all over a cluster (`spark/maintain.py`).

    compact_by(crew, shard, place, full=True)     what `compact` does, many groups at once; one that is too large is cut by key
    recluster_by(crew, shard, place)              rows sorted by CLUSTER BY across parts, within stretches of time (`arrange.py`)
    learn_by(crew, shard, place)                  statistics for parts that have none, written while `stats_collection` was off

The crew does tasks (`task.py`) and decides nothing. What comes back is put into the state here, **group by group as it comes**:

| what happens | then |
|---|---|
| killed at any moment | what was put in so far stays; parts that were written and not put in are orphans, which `sweep` deletes |
| a task is killed, or done twice | the crew does it again; only what it gives back once is put in |
| two do it at once | the first replaces the parts of a group; the second finds them gone, deletes what it wrote, and counts it |
| readers, at any time they hold | see the same rows: parts are replaced by parts with the same updates |

The sum of diffs of a group must not change, here and in the state. A lease keeps what is read from being swept; who waits for the
crew renews it. What is written must be put in within half of `sweep_grace_ms`: one group is, but a full compaction of a shard with
retractions is one group however large, and says so if it took too long.
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
from tidegate.shard.arrange import Clump, clumps, stretches, stride, unsorted
from tidegate.shard.change import Describe, Part
from tidegate.shard.compact import Compacted, begin, level_of, neighbours, parts_of, planning, swap
from tidegate.shard.lease import Lease
from tidegate.shard.parts import SCHEMA
from tidegate.shard.state import Conflict, State
from tidegate.shard.task import Gather, Learn, Merge, Reach, Sketch, Task, Written, do, lean
from tidegate.shard.writer import PartSwept, Shard
from tidegate.store.place import Place

LARGE = 4
"""Groups of more than so many parts of full size are cut by key."""
BUNDLE = 64
"""Tasks that are handed out together, if they are small."""

K = TypeVar("K")


class Crew(Protocol):
    """Does tasks."""

    def do(
        self, jobs: Iterable[tuple[K, Sequence[Task]]], idle: Callable[[], None]
    ) -> Iterator[tuple[K, list[Any]]]:
        """For each job, in any order, what its tasks gave, in their order. `idle` is called every second or so meanwhile."""


class Here:
    """A crew of one: this process."""

    def do(
        self, jobs: Iterable[tuple[K, Sequence[Task]]], idle: Callable[[], None]
    ) -> Iterator[tuple[K, list[Any]]]:
        """One after the other."""
        for key, tasks in jobs:
            found = []
            for task in tasks:
                idle()
                found.append(do(task))
            yield key, found


@dataclass
class Reclustered:
    """What a re-clustering did."""

    stretches: int = 0
    """Stretches of time that were looked at."""
    removed: int = 0
    """Parts that were replaced."""
    added: int = 0
    """Parts that took their place."""
    conflicts: int = 0
    """Groups that were given up, as another was faster."""


@dataclass
class Learnt:
    """What a back-fill of statistics did."""

    lacking: int = 0
    """Parts that had none."""
    described: int = 0
    """Parts that have some now; others were replaced meanwhile, or there is nothing to say of them."""


@dataclass
class _Site:
    """What the steps of one piece of maintenance share."""

    crew: Crew
    shard: Shard
    place: Place
    lease: Lease
    meter: Meter
    done: Compacted | Reclustered
    target: int = field(init=False)

    def __post_init__(self) -> None:
        self.target = self.shard.config.part_bytes

    @property
    def reach(self) -> Reach:
        return Reach.of(self.shard, self.place, self.lease.state)

    def merge(self, groups: Iterable[Sequence[Part]], *, anyway: bool = False) -> None:
        """Each group becomes new parts."""
        reach = self.reach
        tasks = ((group, Merge(reach, lean(group))) for group in groups)
        for some, made in self.crew.do(_bundled(tasks, self.target), self.lease.keep):
            for group, written in zip(some, made, strict=True):
                self.swap(group, [written], anyway=anyway)

    def sort(self, order: Sequence[int], ids: pa.Array | None = None) -> None:
        """Sorts the parts (of these ids) that are not in order, each by itself or with small neighbours, and looks again."""
        lacking = unsorted(self.lease.state, order)
        if ids is not None:
            lacking = lacking.filter(pc.is_in(lacking, value_set=ids))
        if len(lacking):
            parts = parts_of(self.lease.state, lacking.to_numpy())
            self.meter.expect(len(groups := _piles(parts, self.target)), _rows(parts), _size(parts))
            self.merge(groups, anyway=True)
            # The lease holds whatever the state has had since it was made.
            self.lease.state = self.shard.machine.fetch()

    def arrange(
        self, groups: Iterable[Sequence[Part]], *, touching: bool, needs: Callable[[Part], bool]
    ) -> None:
        """Sorts each group of sorted parts as a whole."""
        found = list(self._clumps(groups, touching=touching, needs=needs))
        self.meter.expect(len(found), sum(c.rows for c in found), sum(c.size for c in found))
        reach = self.reach
        jobs = ((c, [Gather(reach, one, level_of(c.parts)) for one in c.shares]) for c in found)
        for clump, made in self.crew.do(jobs, self.lease.keep):
            self.swap(clump.parts, made, anyway=True)

    def _clumps(
        self, groups: Iterable[Sequence[Part]], *, touching: bool, needs: Callable[[Part], bool]
    ) -> Iterator[Clump]:
        reach = self.reach
        jobs = ((group, [Sketch(reach, lean(pile), _stride(group, self.target)) for pile in _piles(group, 4 * self.target)])
                for group in groups)  # fmt: skip
        for group, made in self.crew.do(jobs, self.lease.keep):
            outlines = [outline for some in made for outline in some]
            yield from clumps(group, outlines, self.target, touching=touching, needs=needs)

    def swap(self, group: Sequence[Part], made: Sequence[Written], *, anyway: bool) -> None:
        """Puts in what was written of a group, or gives it up."""
        self.lease.keep()
        try:
            with self.shard.writing() as parts:
                parts += [part for one in made for part in one.parts]
                ended = sum(one.ended for one in made)
                added = swap(self.shard, group, parts, ended, anyway=anyway)
        except Conflict:
            self.done.conflicts += 1
        except PartSwept:
            raise StoreError(
                f"what was written of {len(group)} parts was swept before it could take their place: they stay as they are",
                hint="raise sweep_grace_ms wherever this database is swept, or give it more workers",
            ) from None
        else:
            if added is not None:
                self.done.removed += len(group)
                self.done.added += added
        self.meter.add(1, _rows(group), _size(group))


def compact_by(
    crew: Crew,
    shard: Shard,
    place: Place,
    *,
    full: bool = False,
    report: Report | None = None,
    name: str = "",
) -> Compacted:
    """What `compact.compact` does, by a crew."""
    done = begin(shard)
    with planning(shard) as lease:
        site = _Site(crew, shard, place, lease, Meter(f"compact {name or lease.state.shard}", report), done)
        found = list(neighbours(shard, lease.state, full=full))
        order = site.reach.order
        limit = LARGE * site.target if order else float("inf")
        small = [some for some in found if some.size <= limit]
        site.meter.expect(len(small), sum(some.rows for some in small), sum(some.size for some in small))
        site.merge(parts_of(lease.state, some.ids) for some in small)
        for ids in [pa.array(some.ids) for some in found if some.size > limit]:
            _compact_large(site, order, ids)
    return done


def _compact_large(site: _Site, order: Sequence[int], ids: pa.Array) -> None:
    """A group that is too large for one task: its parts are sorted, then cut by key."""
    before = site.lease.state
    site.sort(order, ids)
    state = site.lease.state
    # Those of the group that were in order already, and what the others became: nobody else numbers parts below.
    now = _ids(state)
    ours = pc.or_(pc.is_in(now, value_set=ids), pc.greater_equal(now, before.next_id))
    since = min(state.since, state.upper - 1)
    group = parts_of(state, now.filter(ours).to_numpy())
    site.arrange([group], touching=True, needs=lambda part: part.level == 0 or part.first < since)


def recluster_by(
    crew: Crew, shard: Shard, place: Place, *, report: Report | None = None, name: str = ""
) -> Reclustered:
    """Sorts rows by CLUSTER BY across parts, within stretches of time."""
    begin(shard)
    done = Reclustered()
    with planning(shard) as lease:
        site = _Site(crew, shard, place, lease, Meter(f"recluster {name or lease.state.shard}", report), done)
        order = site.reach.order
        if not order:
            raise BindError(
                "there is nothing to cluster by: the table has no CLUSTER BY",
                hint="name columns: db.recluster(name, by=[…])",
            )
        site.sort(order)
        found = list(stretches(lease.state, shard.config.recluster_parts * site.target))
        done.stretches = len(found)
        groups = (parts_of(lease.state, some.ids) for some in found if len(some.ids) > 1)
        site.arrange(groups, touching=False, needs=lambda _: False)
    return done


def learn_by(
    crew: Crew, shard: Shard, place: Place, *, report: Report | None = None, name: str = ""
) -> Learnt:
    """Gives statistics to the parts that have none; their files are read, and stay as they are."""
    if not shard.config.stats_collection:
        raise UnsupportedError(
            "statistics are not collected in this session", hint="db.set('stats_collection', True) first"
        )
    done = Learnt()
    with planning(shard) as lease:
        ids = lacking(lease.state)
        done.lacking = len(ids)
        parts, reach = parts_of(lease.state, ids), Reach.of(shard, place, lease.state)
        target = shard.config.part_bytes
        meter = Meter(f"statistics {name or lease.state.shard}", report)
        meter.expect(len(groups := _piles(parts, target // 4)), _rows(parts), _size(parts))
        tasks = ((group, Learn(reach, lean(group))) for group in groups)
        for some, made in crew.do(_bundled(tasks, target), lease.keep):
            group = [part for each in some for part in each]
            stats = [one for each in made for one in each]
            told = {part.id: known for part, known in zip(group, stats, strict=True) if known}
            done.described += _describe(shard, told)
            meter.add(len(some), _rows(group), _size(group))
    return done


def _describe(shard: Shard, told: dict[int, bytes]) -> int:
    """Puts statistics into the state, for those of the parts that are still there; how many."""
    count = 0

    def think(told: dict[int, bytes], state: State) -> Describe | None:
        nonlocal count
        wanted = pa.array(sorted(told), pa.int64())
        there = wanted.filter(pc.is_in(wanted, value_set=_ids(state))).to_pylist()
        count = len(there)
        return Describe(tuple(there), tuple(told[id_] for id_ in there)) if there else None

    shard.machine.change(partial(think, told))
    return count


def lacking(state: State) -> np.ndarray:
    """The ids of the parts of which nothing is known."""
    found = [SCHEMA.empty_table().column("id").to_numpy()]
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
    tasks: Iterable[tuple[Sequence[Part], Task]], target: int
) -> Iterator[tuple[list[Sequence[Part]], list[Task]]]:
    """Small groups handed out together: a job costs some 50 ms."""
    groups: list[Sequence[Part]] = []
    waiting: list[Task] = []
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
    """Neighbours of about so many bytes together."""
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
