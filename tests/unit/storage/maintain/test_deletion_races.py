"""Who deletes rows, and who moves them, at once: every pair, in both orders.

The slow one has read, and decided on its entry of the log; then the fast one does all of its work; then the slow one goes on. In
the end every time shows what it must, changes add up, and the work of the slow one is done, or was abandoned if its module says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.unit.storage.deleting import (
    DELETE_HIGH,
    DELETE_LOW,
    DELETE_ODD,
    MOVE_LOW,
    SCHEMA,
    History,
    RowChange,
    before_entry,
    tasks_of,
)
from tests.unit.storage.shards import World
from tidegate.storage.maintain.compact import Compacted, advance_since_and_expire, compact_shard
from tidegate.storage.maintain.distribute import (
    LocalTaskRunner,
    Reclustered,
    backfill_shard_statistics,
    compact_distributed,
    recluster_shard,
)
from tidegate.storage.maintain.repair import repair_shard
from tidegate.storage.maintain.settle import settle_retractions
from tidegate.storage.shard import shard as writer
from tidegate.storage.shard.changes import AddStatistics, Append, Change, Repair, Replace
from tidegate.storage.shard.leases.lease import release_shared_lease
from tidegate.storage.shard.shard import Shard

pytestmark = pytest.mark.slow

KNOBS: dict[str, Any] = {
    "part_bytes": 12_000,
    "batch_rows": 3,
    "compact_fanout": 2,
    "max_ahead_ms": 0,
    "lease_ms": 100_000,
    "sweep_grace_ms": 100_000,
    "retraction_lookup_bytes": 0,  # retractions stay rows, until they are settled
}
TO = 10_055
"""Where a repair moves later times."""


@dataclass
class Race:
    """A shard of several processes, and what was done to it."""

    world: World = field(default_factory=World)
    history: History = field(default_factory=History)

    def open(self) -> Shard:
        return self.world.open(**KNOBS)


@dataclass(frozen=True)
class Actor:
    """Work, and the entry that it is about to make when others come between."""

    entry: Callable[[Change], bool]
    work: Callable[[Race, Shard], Any]


def rewrites(entry: Change) -> bool:
    return isinstance(entry, Replace) and not entry.expired and not settles(entry)


def settles(entry: Change) -> bool:
    return isinstance(entry, Replace) and (entry.retracted != 0 or entry.settled.num_rows > 0)


def drops(entry: Change) -> bool:
    return isinstance(entry, Replace) and entry.expired


def repairs(entry: Change) -> bool:
    return isinstance(entry, Repair)


def describes(entry: Change) -> bool:
    return isinstance(entry, AddStatistics)


def changes(*made: RowChange) -> Actor:
    return Actor(
        lambda entry: isinstance(entry, Append),
        lambda race, shard: [race.history.change(shard, one) for one in made],
    )


def retract(race: Race, shard: Shard) -> None:
    """Retracts a row that is looked up, and deleted where it is found; it is one that no other deletes."""
    looking = replace(shard, config=replace(shard.config, retraction_lookup_bytes=1 << 20))
    race.history.append(looking, [(4, 3, "r4")], diff=-1)


def compacts(full: bool) -> Actor:
    return Actor(rewrites, lambda _, shard: compact_shard(shard, full=full))


def in_tasks(work: Callable[..., Any], entry: Callable[[Change], bool], **more: Any) -> Actor:
    return Actor(entry, lambda race, shard: work(LocalTaskRunner(), shard, tasks_of(race.world), **more))


def repair(race: Race, shard: Shard) -> None:
    """Repairs; the model learns what was made until then, just before the entry that moves it (each time it is tried)."""

    def learn() -> None:
        race.history.learn(race.open().machine.fetch())

    before_entry(shard, repairs, learn, learn)
    repair_shard(shard, TO)
    race.history.move_back(TO)


ACTORS: dict[str, Actor] = {
    "DELETE of odd rows": changes(DELETE_ODD),
    "DELETE of a part": changes(DELETE_LOW),
    "DELETE twice": changes(DELETE_HIGH, DELETE_ODD),
    "UPDATE of ids": changes(MOVE_LOW),
    "retraction": Actor(lambda entry: isinstance(entry, Append), retract),
    "settling": Actor(settles, lambda _, shard: settle_retractions(shard)),
    "compaction": compacts(full=False),
    "full compaction": compacts(full=True),
    "compaction in tasks": in_tasks(compact_distributed, rewrites, full=False),
    "full compaction in tasks": in_tasks(compact_distributed, rewrites, full=True),
    "recluster": in_tasks(recluster_shard, rewrites),
    "statistics": in_tasks(backfill_shard_statistics, describes),
    "expiry": Actor(drops, lambda _, shard: advance_since_and_expire(shard)),
    "repair": Actor(repairs, repair),
}
DELETING = [name for name in ACTORS if name.startswith(("DELETE", "UPDATE", "retraction"))]
PAIRS = [(slow, fast) for slow in ACTORS for fast in ACTORS if slow in DELETING or fast in DELETING] + [
    ("settling", "settling"),
    ("settling", "full compaction"),
    ("settling", "repair"),
    ("settling", "statistics"),
    ("compaction", "full compaction"),
    ("full compaction", "compaction in tasks"),
    ("compaction in tasks", "full compaction"),
    ("full compaction in tasks", "recluster"),
    ("recluster", "compaction"),
    ("compaction", "expiry"),
    ("expiry", "full compaction"),
    ("compaction", "repair"),
    ("full compaction in tasks", "repair"),
    ("repair", "compaction"),
    ("full compaction", "statistics"),
    ("statistics", "full compaction"),
]


def begun(*, clustered: bool, retracting: bool) -> Race:
    """Parts of four rows at several times, one of rows that are there twice, and rows that are deleted already."""
    race = Race()
    options = {"retention_ms": 45, **({"cluster_by": [1]} if clustered else {})}
    shard, history = race.world.create(SCHEMA, options, **KNOBS), race.history
    for i in range(4):
        history.append(
            shard, [(j, (j * 7) % 5, f"r{j}") for j in range(4 * i, 4 * i + 4)], at=10_000 + 10 * i
        )
    history.append(shard, [(2, None, "twice"), (9, 1, "twice"), (4, 3, "r4")], diff=2, at=10_045)
    race.world.clock.set(10_050)
    history.change(shard, RowChange("DELETE FROM t WHERE id BETWEEN 12 AND 15", lambda row: row[0] > 11))
    race.world.clock.set(10_060)
    history.change(shard, RowChange("DELETE FROM t WHERE id IN (0, 5, 6)", lambda row: row[0] in (0, 5, 6)))
    if retracting:
        history.append(shard, [(3, (3 * 7) % 5, "r3")], diff=-1)
        assert not shard.machine.fetch().monotonic
    race.world.clock.set(10_100)
    release_shared_lease(shard)  # so that `since` can move
    return race


SHAPES = {"plain": 1 << 16, "clustered": 10, "retracting": 1 << 16}
"""Of the collection; and the bytes of bitmaps beyond which they are objects."""


CASES = [
    (*pair, shape)
    for pair in PAIRS
    for shape in SHAPES
    if (shape == "clustered" or "recluster" not in pair)  # else there is nothing to cluster by
    and (shape == "retracting" or "settling" not in pair)  # else there is nothing to settle
]


@pytest.mark.parametrize(("slow", "fast", "shape"), CASES)
def test_a_pair(slow: str, fast: str, shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_INLINE_BYTES", SHAPES[shape])
    race = begun(clustered=shape == "clustered", retracting=shape == "retracting")
    process = race.open()
    met = before_entry(process, ACTORS[slow].entry, lambda: ACTORS[fast].work(race, race.open()))
    done = ACTORS[slow].work(race, process)
    assert met == [1], "they did not meet"
    if fast in DELETING and isinstance(done, Compacted | Reclustered):
        gone = done.expired if slow == "expiry" and isinstance(done, Compacted) else done.removed
        assert (done.conflicts, gone > 0) == (0, True), "it was abandoned, and did not carry deletions over"
    race.history.check(process)
    process.machine.roll(process.machine.fetch())
    last = race.open()  # what follows must not undo it
    race.history.change(last, DELETE_HIGH)
    compact_shard(last, full=True)
    race.history.check(race.open())
