"""`history_ms`: without RETENTION, compaction drops rows that were deleted long before the last change, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.storage.deleting import DELETE_ALL, DELETE_ODD, RAISE_EVEN, SCHEMA, History, feed, read
from tests.unit.storage.shards import World
from tidegate.clock import ManualClock
from tidegate.config import Config
from tidegate.errors import TimeError
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.repair import repair_shard
from tidegate.storage.maintain.sweep import sweep_shard
from tidegate.storage.shard.leases.lease import hold_lease
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.snapshot import open_snapshot

DAY = 24 * 3_600_000
KEPT = Config().history_ms
START = 1_000 * DAY
ROWS = [(i, i * 10, f"r{i}") for i in range(12)]


def deleted_once(options: dict[str, Any] | None = None) -> tuple[World, Shard, History, int]:
    """Twelve rows, of which six are deleted a day later; returns also when."""
    world, history = World(ManualClock(START)), History()
    shard = world.create(SCHEMA, options)
    history.append(shard, ROWS)
    world.clock.advance(DAY)
    history.change(shard, DELETE_ODD)
    return world, shard, history, START + DAY


def stored(shard: Shard) -> int:
    """Rows on disk, deleted ones too."""
    return sum(part.rows for part in shard.machine.fetch().parts.all())


def compacted(world: World, shard: Shard, history: History) -> int:
    """Compacts and sweeps; what can be read is right. Returns how many rows are stored."""
    compact_shard(shard, full=True)
    world.clock.advance(10_000)
    sweep_shard(shard)
    history.check(shard, world.open())
    return stored(shard)


def test_the_default_is_seven_days() -> None:
    assert KEPT == 7 * DAY


@pytest.mark.parametrize("later", [-1, 0, 1, DAY])
def test_rows_are_dropped_that_were_deleted_so_long_before_the_last_change(later: int) -> None:
    world, shard, history, at = deleted_once()
    assert compacted(world, shard, history) == 12
    world.clock.set(at + KEPT + later)
    history.append(shard, [(100, 1, "last")])
    dropped = later >= 0
    assert compacted(world, shard, history) == (7 if dropped else 13)
    state = shard.machine.fetch()
    assert state.since == (at + later if dropped else 0)
    assert bool(state.parts.deletions) is not dropped


@pytest.mark.parametrize("later", [0, 3])
def test_as_of_and_changes_just_inside_and_outside(later: int) -> None:
    world, shard, history, at = deleted_once()
    world.clock.set(at + KEPT + later)
    history.append(shard, [(100, 1, "last")])
    compacted(world, shard, history)
    since = at + later
    for process in (shard, world.open()):
        assert read(process, since) == history.rows_at(since)
        assert sum(read(process, since).values()) == 6
        with pytest.raises(TimeError, match=f"{since - 1}.*{since}"):
            read(process, since - 1)
        assert feed(process, since + 1) == {((100, 1, "last"), at + KEPT + later): 1}
        with pytest.raises(TimeError, match=f"the collection is kept from {since} on"):
            feed(process, since)


def test_what_was_deleted_later_stays_with_its_history() -> None:
    world, shard, history, at = deleted_once()
    world.clock.set(at + 3 * DAY)
    history.change(shard, RAISE_EVEN)
    world.clock.set(at + KEPT + DAY)
    history.append(shard, [(100, 1, "last")])
    assert compacted(world, shard, history) == 13, (
        "the odd rows are gone; the even ones are there before and after"
    )
    assert shard.machine.fetch().since == at + DAY
    assert read(shard, at + 3 * DAY - 1) == {row: 1 for row in ROWS if row[0] % 2 == 0}


def test_a_collection_at_rest_keeps_its_history() -> None:
    """It needs no more room: only changes make it forget."""
    world, shard, history, _ = deleted_once()
    world.clock.advance(1_000 * DAY)
    assert compacted(world, shard, history) == 12
    assert shard.machine.fetch().since == 0


def test_without_deletions_all_history_stays() -> None:
    world, history = World(ManualClock(START)), History()
    shard = world.create(SCHEMA)
    for _ in range(3):
        history.append(shard, ROWS)
        world.clock.advance(100 * DAY)
    assert compacted(world, shard, history) == 36
    assert shard.machine.fetch().since == 0


@pytest.mark.parametrize(("retention", "rows"), [(100 * DAY, 13), (DAY, 7)])
def test_a_retention_decides_alone(retention: int, rows: int) -> None:
    world, shard, history, at = deleted_once({"retention_ms": retention})
    world.clock.set(at + KEPT + DAY)
    history.append(shard, [(100, 1, "last")])
    assert compacted(world, shard, history) == rows


@pytest.mark.parametrize("by", [-1_000 * DAY, -DAY, DAY, 1_000 * DAY])
def test_a_compaction_whose_clock_is_wrong_drops_nothing_too_early(by: int) -> None:
    """Its clock says that years have passed, or that it is years ago: the last change counts, or its clock if that is earlier."""
    world, shard, history, at = deleted_once()
    world.clock.advance(DAY)
    history.append(shard, [(100, 1, "a day later")])
    wrong = world.open()
    wrong.machine.clock = ManualClock(at + DAY + by)
    assert compact_shard(wrong, full=True).since == 0
    assert stored(shard) == 13
    history.check(shard, world.open())


def test_a_row_written_far_ahead_does_not_forget_history() -> None:
    """Its writer's clock was a year ahead. The compaction goes by its own clock, and a repair changes nothing about that."""
    world, shard, history, at = deleted_once()
    ahead = world.open()
    ahead.machine.clock = ManualClock(at + 365 * DAY)
    history.append(ahead, [(100, 1, "ahead")])
    assert compact_shard(shard, full=True).since == 0
    history.check(shard, world.open())
    world.clock.advance(DAY)
    repair_shard(shard, world.clock.now())
    history.move_back(world.clock.now())
    assert compacted(world, shard, history) == 13
    world.clock.set(at + KEPT)
    history.append(shard, [(101, 1, "last")])
    assert compacted(world, shard, history) == 8


@pytest.mark.parametrize("kind", ["this process", "another"])
def test_a_reader_of_an_older_time_holds_history(kind: str) -> None:
    world, shard, history, at = deleted_once()
    world.clock.set(at + KEPT)
    history.append(shard, [(100, 1, "last")])
    reader = shard if kind == "this process" else world.open()
    with open_snapshot(reader, at - 1) as held:
        for _ in range(3):
            compact_shard(shard, full=True)
            world.clock.advance(500)  # half of a lease
            sweep_shard(shard)
            found = [row for batch in held.batches() for row in batch.to_pylist()]
            assert len(found) == 12, "what it reads is kept as long as it reads"
            assert shard.machine.fetch().since < at
            assert stored(shard) == 13
        history.check(shard)
    world.clock.advance(2_000)
    assert compacted(world, shard, history) == 7
    assert shard.machine.fetch().since >= at


def test_a_lease_of_an_older_time_holds_history_from_there_on() -> None:
    world, shard, history, at = deleted_once()
    world.clock.set(at + KEPT)
    history.append(shard, [(100, 1, "last")])
    lease = hold_lease(world.open(), lambda _: at - 5)
    for _ in range(3):
        assert compact_shard(shard, full=True).since == at - 5
        world.clock.advance(500)
        lease.keep()
        history.check(world.open())
    world.clock.advance(5_000)  # its process is gone
    assert compacted(world, shard, history) == 7


def test_a_collection_that_was_emptied_leaves_no_row() -> None:
    world, shard, history, at = deleted_once()
    history.change(shard, DELETE_ALL)
    world.clock.set(at + KEPT + DAY)
    history.append(shard, [(100, 1, "last")])
    assert compacted(world, shard, history) == 1
    assert [part.rows for part in shard.machine.fetch().parts.all()] == [1]
