"""Sweep deletes what nothing can refer to, and never anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.storage.shard.test_append import Meddling
from tests.unit.storage.shards import CONFIG, QUICK, World, ids, rows
from tidegate.clock import ManualClock
from tidegate.storage.blob.files import FileBlob
from tidegate.storage.consensus.protocol import MemoryConsensus, NumberedEntry
from tidegate.storage.consensus.sql import SqliteConsensus
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.sweep import Swept, sweep_shard
from tidegate.storage.part.merge import Block
from tidegate.storage.part.part import Part
from tidegate.storage.shard.changes import DropShard
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.snapshot import open_snapshot


def write(shard: Shard, *numbers: int) -> list[Part]:
    """Parts that are written, and not appended yet."""
    state = shard.machine.fetch()
    schema = state.schema
    from tidegate.storage.part.conform import conform, conform_diffs

    columns = conform(schema, rows(*numbers))
    ones = conform_diffs(1, len(numbers))
    return list(shard.write(state, schema, Block(columns, ones * state.upper, ones)))


def test_garbage_goes_when_its_grace_is_over() -> None:
    world = World()
    shard = world.create(compact_fanout=2)
    for i in range(2):
        shard.append(rows(i))
    compact_shard(shard)
    assert (len(world.objects("part/")), sweep_shard(shard)) == (3, Swept())
    world.clock.advance(2000)
    assert sweep_shard(shard) == Swept(garbage=2)
    assert sweep_shard(shard) == Swept()
    assert (ids(shard), len(world.objects()), shard.machine.fetch().garbage) == ([0, 1], 1, ())


def test_garbage_waits_for_the_readers_that_may_read_it() -> None:
    world = World()
    shard = world.create(compact_fanout=2, lease_ms=100_000)
    for i in range(2):
        shard.append(rows(i))
    with open_snapshot(shard) as early:
        compact_shard(shard)
        world.clock.advance(5000)
        with open_snapshot(shard):
            assert sweep_shard(world.open()) == Swept()
        assert sum(batch.num_rows for batch in early.batches()) == 2
    with open_snapshot(shard):
        assert sweep_shard(world.open()) == Swept()  # the lease that both were under has not moved up yet
        world.clock.advance(25_000)
    with open_snapshot(shard):
        assert sweep_shard(world.open()) == Swept(garbage=2)


def test_orphans_go_when_their_grace_is_over() -> None:
    world = World()
    shard = world.create()
    shard.append(rows(1))
    write(shard, 2)
    world.blob.put("seg/s1/0", b"x")
    world.blob.put("roll/s1/0", b"x")
    world.blob.put("part/s10/0", b"of another shard")
    world.clock.advance(1999)
    assert sweep_shard(shard) == Swept()
    world.clock.advance(1)
    assert sweep_shard(shard) == Swept(orphans=3)
    assert world.objects() == {shard.machine.fetch().parts.all()[0].name, "part/s10/0"}


def test_the_fence_keeps_a_sleeper_from_appending_what_was_swept() -> None:
    """The writer has checked the age of its part, and sleeps before its entry arrives; sweep runs meanwhile."""
    world = World()
    world.create()
    fast = world.open()
    world.log = Meddling(world.log, "compare_and_set")
    slow = world.open()

    def sleep() -> None:
        world.clock.advance(10_000)
        assert sweep_shard(fast).orphans == 1

    world.log.first = sleep
    slow.append(rows(1, 2))
    assert ids(world.open()) == [1, 2]


def test_a_part_that_was_appended_while_sweep_looked_is_kept() -> None:
    world = World()
    shard = world.create(sweep_grace_ms=0)
    patient = world.open(sweep_grace_ms=10_000)
    parts = write(patient, 1)
    world.blob = Meddling(world.blob, "delete")
    sweeper = world.open(sweep_grace_ms=0)
    # The mark is deleted after listing, and before the fence.
    world.blob.first = lambda: patient.commit(parts, at=None, token="t")
    assert sweep_shard(sweeper).orphans == 0
    assert ids(shard) == [1]


def test_segments_that_another_process_merged_are_not_referred_to() -> None:
    """One process rolls up until its segments are merged; another still has the first of them in memory, and rolls up too."""
    world = World()
    world.create()
    often, seldom = world.open(), world.open()
    for i in range(40):
        often.append(rows(i))
        seldom.machine.fetch()  # it misses nothing of the log, and so never has to start from a rollup
        often.machine.roll(often.machine.fetch())
        seldom.machine.fetch()
        if i % 13 == 0:
            seldom.machine.roll(seldom.machine.fetch())
        world.clock.advance(2500)
        sweep_shard(world.open())
        assert ids(world.open()) == list(range(i + 1))
    world.clock.advance(2500)
    sweep_shard(world.open())
    state = world.open().machine.fetch()
    assert state.rollup is not None
    assert world.objects("seg/") == set(state.segments)
    assert world.objects("roll/") == {state.rollup[0]}


def test_two_at_once_do_no_harm() -> None:
    world = World()
    shard = world.create(compact_fanout=2)
    for i in range(2):
        shard.append(rows(i))
    write(shard, 9)
    compact_shard(shard)
    world.clock.advance(5000)
    for name in ("delete", "list", "put"):
        inner = world.blob
        world.blob = Meddling(inner, name)
        world.blob.first = lambda inner=inner: sweep_shard(
            Shard(Machine(world.log, inner, "shard/s1", world.clock, QUICK), CONFIG)
        )
        sweep_shard(world.open())
        world.blob = inner
    assert (ids(shard), len(world.objects())) == ([0, 1], 1)


def test_a_dropped_collection_is_swept_to_the_last_part() -> None:
    world = World()
    shard = world.create()
    for i in range(3):
        shard.append(rows(i))
    shard.machine.roll(shard.machine.fetch())
    shard.machine.update(lambda _: DropShard())
    for _ in range(2):
        world.clock.advance(5000)
        sweep_shard(world.open())
    assert (world.objects("part/"), world.objects("seg/")) == (set(), set())
    assert world.open().machine.fetch().dropped


@pytest.mark.usefixtures("commits_make_files")
def test_files(tmp_path: Path) -> None:
    clock = ManualClock(0)
    machine = Machine(
        SqliteConsensus(tmp_path / "log"), FileBlob(tmp_path / "blobs"), "shard/s1", clock, QUICK
    )
    shard = Shard.create(
        machine, World().create().machine.fetch() and World().create().machine.fetch().schema
    )
    shard.append(rows(1))
    write(shard, 2)
    (tmp_path / "blobs" / "part" / "s1" / ".tmp-left").write_bytes(b"half a part")
    careless = Shard(machine, CONFIG.__class__(sweep_grace_ms=0))
    assert sweep_shard(careless) == Swept(orphans=1, temporary=1)
    assert ids(shard) == [1]
    machine.consensus.close()


def test_a_log_that_is_cut_off_again_and_again_while_it_is_opened() -> None:
    """Between reading the newest rollup and what came after it, others append, roll up and truncate: twice."""
    world = World()
    fast = world.create()
    slow = world.open()
    fast.append(rows(0))
    slow.machine.fetch()
    left = [1, 2, 3]

    class Busy(MemoryConsensus):
        def scan(self, key: str, first: int, limit: int = 1_000_000) -> list[NumberedEntry]:
            if first > 0 and left:
                i = left.pop(0)
                for _ in range(3):
                    fast.append(rows(i))
                fast.machine.roll(state := fast.machine.fetch())
                world.log.truncate(key, state.number)
            return world.log.scan(key, first, limit)

    slow.machine.consensus = Busy()
    assert slow.machine.fetch().number == fast.machine.fetch().number
    assert left == []
