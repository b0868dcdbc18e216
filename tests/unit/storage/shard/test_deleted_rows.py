"""Deleted rows in the state: in the log, in rollups, in objects of their own; what keeps them, and what sweeps them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.storage.deleting import (
    DELETE_ALL,
    DELETE_HIGH,
    DELETE_LOW,
    DELETE_ODD,
    RAISE_EVEN,
    SCHEMA,
    History,
    RowChange,
    read,
    run_change,
    tasks_of,
)
from tests.unit.storage.shard.test_append import Meddling
from tests.unit.storage.shards import World
from tidegate.errors import CorruptError, TidegateError
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.distribute import LocalTaskRunner, backfill_shard_statistics
from tidegate.storage.maintain.repair import repair_shard
from tidegate.storage.maintain.sweep import Swept, sweep_shard
from tidegate.storage.part.checksum import unseal
from tidegate.storage.part.deletion_records import deletion_records
from tidegate.storage.shard import changes as log
from tidegate.storage.shard import machine, rollup
from tidegate.storage.shard import shard as writer
from tidegate.storage.shard.changes import AddStatistics, Append, DropShard, LogEntry, Replace
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.state import Conflict

TWO_PARTS = RowChange("DELETE FROM t WHERE id IN (1, 5)", lambda row: row[0] in (1, 5))
ROWS = [(i, i * 10, f"r{i}") for i in range(12)]


@pytest.fixture
def in_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bitmaps are objects of their own."""
    monkeypatch.setattr(writer, "MAX_INLINE_BYTES", 10)


def filled(**knobs: Any) -> tuple[World, Shard, History]:
    """Three parts of four rows, each a time later."""
    world, history = World(), History()
    shard = world.create(SCHEMA, **knobs)
    for i in range(3):
        history.append(shard, ROWS[4 * i : 4 * i + 4])
        world.clock.advance(10)
    return world, shard, history


def body(world: World) -> dict[str, Any]:
    """The newest rollup."""
    name = max(world.objects("roll/"))
    data = world.blob.get(name)
    assert data is not None
    found: dict[str, Any] = json.loads(unseal(name, data))
    return found


def deleted(part: int, *places: int, time: int = 10_500) -> pa.Table:
    return deletion_records({part: (np.array(places), np.ones(len(places), np.int64))}, time)


# ---------------------------------------------------------------- the log


def test_an_entry_without_deletions_is_one_that_earlier_versions_read() -> None:
    entry = LogEntry("t", 5, Append(0, 6, (), "x"))
    record = json.loads(unseal("e", log.encode_entry(entry)))
    assert (record["change"], set(record["body"])) == (
        "append",
        {"lower", "upper", "parts", "token", "positions"},
    )
    entry = LogEntry("t", 5, Replace((1,), (), ended=3))
    record = json.loads(unseal("e", log.encode_entry(entry)))
    assert (record["change"], set(record["body"])) == ("replace", {"removed", "added", "expired", "ended"})


@pytest.mark.parametrize(
    "change",
    [
        Append(0, 6, (), "x", deletions=deleted(3, 1, 7)),
        Replace((1,), (), ended=3, deletions=deleted(0, 2)),
        Replace((1,), (), ended=3, applied=3),
    ],
)
def test_an_entry_with_deletions_is_refused_by_a_version_that_does_not_know_them(
    change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = log.encode_entry(LogEntry("t", 5, change))
    again = log.decode_entry("e", data).change
    assert isinstance(again, Append | Replace)
    assert again.deletions.equals(change.deletions)
    assert replace(again, deletions=None) == replace(change, deletions=None)
    monkeypatch.setattr(log, "_WITH_DELETIONS", "/")  # as if there were no such kind
    with pytest.raises(
        CorruptError, match=rf"a change called '{change.kind}/2', which this version does not"
    ):
        log.decode_entry("e", data)


def test_a_version_that_does_not_know_deletions_cannot_open_the_shard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, shard, history = filled()
    history.change(shard, DELETE_ODD)
    monkeypatch.setattr(log, "_WITH_DELETIONS", "/")
    with pytest.raises(CorruptError, match="append/2"):
        read(world.open())


# ---------------------------------------------------------------- what the state refuses


@pytest.mark.parametrize(
    ("records", "says"),
    [
        (deleted(9, 0), r"parts \[9\] are not there"),
        (deleted(1, 0, 1, 2, 3, 4), r"parts \[1\] have fewer rows than are deleted"),
    ],
)
def test_a_deletion_that_does_not_fit_the_state_is_refused(records: pa.Table, says: str) -> None:
    _, shard, history = filled()
    with pytest.raises(Conflict, match=says):
        shard.machine.update(lambda s: Append(s.upper, s.upper + 1, (), "x", deletions=records))
    history.check(shard)


def test_rows_that_are_deleted_twice_are_refused() -> None:
    _, shard, history = filled()
    history.change(shard, DELETE_LOW)  # all rows of the first part
    with pytest.raises(Conflict, match="fewer rows than are deleted"):
        shard.machine.update(lambda s: Append(s.upper, s.upper + 1, (), "x", deletions=deleted(0, 2)))


@pytest.mark.parametrize("claim", [{}, {"applied": 1}, {"applied": 3}, {"deletions": deleted(0, 0)}])
def test_a_replacement_that_loses_a_deletion_is_refused(claim: dict[str, Any]) -> None:
    """Two rows of part 1 are deleted: what takes its place must have two, deleted or left out."""
    world, shard, history = filled()
    history.change(shard, DELETE_ODD)
    part = next(part for part in shard.machine.fetch().parts.all() if part.id == 1)
    with pytest.raises(Conflict, match="rows of 2 diffs are deleted in the parts to be replaced"):
        shard.machine.update(lambda _: Replace((1,), (part,), **claim))
    history.check(shard, world.open())


# ---------------------------------------------------------------- rollups


def test_a_rollup_has_deletions_and_says_so_by_its_format() -> None:
    world, shard, history = filled()
    shard.machine.roll(shard.machine.fetch())
    assert (body(world)["format"], body(world)["deletions"]) == (1, None), "earlier versions can read it"
    history.change(shard, DELETE_ODD)
    shard.machine.roll(shard.machine.fetch())
    assert body(world)["format"] == 2
    assert body(world)["deletions"] in shard.machine.fetch().segments
    history.check(world.open())
    history.change(world.open(), DELETE_HIGH)  # an entry after the rollup
    history.check(shard, world.open())


def test_when_all_deletions_are_applied_earlier_versions_can_read_it_again() -> None:
    world, shard, history = filled(compact_fanout=2)
    history.change(shard, DELETE_ODD)
    shard.machine.update(lambda s: log.Configure({"retention_ms": 0}))
    world.clock.advance(1_000)
    compact_shard(shard, full=True)
    state = shard.machine.fetch()
    assert (bool(state.parts.deletions), [part.rows for part in state.parts.all()]) == (False, [6])
    shard.machine.roll(state)
    assert body(world)["format"] == 1
    history.check(shard, world.open())


def test_many_rollups_keep_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "ROLL_EVERY", 2)
    monkeypatch.setattr(machine, "TRUNCATION_LAG", 1)
    monkeypatch.setattr(rollup, "FANOUT", 2)
    world, shard, history = filled()
    for change in (DELETE_ODD, RAISE_EVEN, DELETE_LOW):
        history.change(shard, change)
        history.append(shard, [(5, 0, "new"), (6, None, None)])
        history.check(shard, world.open())
    assert len(world.log.scan("shard/s1", 0)) < 8, "the log was truncated: what is known is in rollups"
    world.clock.advance(10_000)
    assert sweep_shard(shard).garbage > 3
    history.check(shard, world.open())


@pytest.mark.parametrize("place", [3, 60, -1])
def test_a_flipped_byte_in_the_deletions_of_a_rollup_is_an_error_that_names_it(place: int) -> None:
    world, shard, history = filled()
    history.change(shard, DELETE_ODD)
    shard.machine.roll(shard.machine.fetch())
    name = body(world)["deletions"]
    data = bytearray(world.blob.get(name) or b"")
    data[place] ^= 1
    world.blob.put(name, bytes(data))
    with pytest.raises(CorruptError, match=f"{name} is damaged"):
        read(world.open())


# ---------------------------------------------------------------- objects


def test_large_deletions_are_objects_and_read_from_there(in_objects: None) -> None:
    world, shard, history = filled()
    history.change(shard, DELETE_ODD)
    assert len(world.objects("del/")) == 1
    assert shard.machine.fetch().parts.deletions.objects == world.objects("del/")
    history.check(shard, world.open())
    shard.machine.roll(shard.machine.fetch())
    history.check(world.open())


def test_a_flipped_byte_in_an_object_is_an_error_that_names_it(in_objects: None) -> None:
    world, shard, history = filled()
    history.change(shard, DELETE_ODD)
    (name,) = world.objects("del/")
    data = bytearray(world.blob.get(name) or b"")
    data[len(data) // 2] ^= 1
    world.blob.put(name, bytes(data))
    other = world.open()
    with pytest.raises(CorruptError, match=f"{name} is damaged"):
        read(other)
    with pytest.raises(CorruptError, match=f"{name} is damaged"):
        compact_shard(other, full=True)
    assert read(other, 10_020) == history.rows_at(10_020), "an earlier time needs no bitmap"


def test_sweep_keeps_objects_that_are_referred_to_and_deletes_orphans_after_the_grace(
    in_objects: None,
) -> None:
    world, shard, history = filled()
    history.change(shard, DELETE_ODD)
    (kept,) = world.objects("del/")
    orphan = shard.store_deletions(shard.machine.fetch(), deleted(1, 0, 2))
    world.clock.advance(1_999)
    sweep_shard(shard)
    assert world.objects("del/") == {kept, *orphan.objects}, "the grace is not over"
    world.clock.advance(2)
    assert sweep_shard(shard) == Swept(orphans=1)
    assert world.objects("del/") == {kept}
    history.check(shard, world.open())


def test_an_object_is_garbage_when_no_part_needs_it_any_more(in_objects: None) -> None:
    """One object holds the deletions of two parts; they are rewritten one after the other."""
    world, shard, history = filled(compact_fanout=100)
    history.change(shard, DELETE_HIGH)
    history.change(shard, TWO_PARTS)
    first = shard.machine.fetch().parts.deletions.objects
    assert len(first) == 2
    shard.machine.update(lambda s: log.Configure({"retention_ms": 0}))
    world.clock.advance(1_000)
    compact_shard(shard)
    state = shard.machine.fetch()
    assert not state.parts.deletions
    assert {item.name for item in state.garbage} >= first
    world.clock.advance(10_000)
    sweep_shard(shard)
    assert world.objects("del/") == set()
    history.check(shard, world.open())


def test_an_object_that_sweep_took_for_an_orphan_is_written_again(in_objects: None) -> None:
    """The DELETE slept between its object and its entry, for longer than the grace."""
    world, _, history = filled()
    world.log = Meddling(world.log, "compare_and_set")
    slow, other = world.open(), world.open()
    store = Shard.store_deletions
    swept = []

    def sleep() -> None:
        world.clock.advance(5_000)
        swept.append(sweep_shard(other).orphans)

    def store_and_sleep(self: Shard, *args: Any) -> Any:
        done = store(self, *args)
        if not swept:
            world.log.first = sleep
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shard, "store_deletions", store_and_sleep)
        assert history.change(slow, DELETE_ODD) == 6
    assert swept == [1]
    assert world.objects("del/") == slow.machine.fetch().parts.deletions.objects
    history.check(slow, world.open())


def test_a_dropped_collection_leaves_no_object(in_objects: None) -> None:
    world, shard, history = filled()
    history.change(shard, DELETE_ODD)
    shard.machine.roll(shard.machine.fetch())
    shard.machine.update(lambda _: DropShard())
    assert not shard.machine.fetch().parts.deletions
    for _ in range(2):
        world.clock.advance(10_000)
        sweep_shard(shard)
    assert (world.objects("del/"), world.objects("part/"), world.objects("seg/")) == (set(), set(), set())
    with pytest.raises(TidegateError, match="dropped"):
        run_change(shard, DELETE_ALL.sql)


# ---------------------------------------------------------------- parts that get other numbers


def test_statistics_that_come_later_keep_deletions(in_objects: None) -> None:
    world, shard, history = filled()
    history.change(shard, DELETE_ODD)
    history.change(shard, RAISE_EVEN)
    before = shard.machine.fetch()
    shard.machine.update(lambda _: AddStatistics((2, 0), (b"", b"")))
    state = shard.machine.fetch()
    assert sorted(part.id for part in state.parts.all()) == [1, 3, 4, 5]
    assert state.parts.deletions.objects == before.parts.deletions.objects
    assert state.parts.deletions.records.num_rows == before.parts.deletions.records.num_rows == 6
    history.check(shard, world.open())
    assert backfill_shard_statistics(LocalTaskRunner(), shard, tasks_of(world)).described == 4
    history.check(shard, world.open())


@pytest.mark.parametrize("to", [10_005, 10_015, 10_025, 10_032])
def test_a_repair_moves_deletions_with_everything_else(to: int) -> None:
    """Into the middle of the parts, and between two deletions of one part: rows are deleted at `to` that were later."""
    world, shard, history = filled(max_ahead_ms=0)
    history.change(shard, DELETE_ODD)
    world.clock.advance(5)
    history.change(shard, RAISE_EVEN)
    history.learn(shard.machine.fetch())
    assert repair_shard(shard, to).upper == to + 1
    history.move_back(to)
    history.check(shard, world.open())
    shard.machine.roll(shard.machine.fetch())
    history.append(shard, [(100, 1, "after")])
    history.change(shard, DELETE_LOW)
    history.check(shard, world.open())
