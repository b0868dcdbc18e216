"""The outlook of maintenance is what maintenance then does."""

from __future__ import annotations

import tidegate
from tests.unit.storage.shards import World, rows
from tidegate.clock import ManualClock
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.outlook import maintenance_outlook, orphan_objects
from tidegate.storage.maintain.sweep import sweep_shard
from tidegate.storage.shard.snapshot import open_snapshot


def test_compaction_does_what_the_outlook_says() -> None:
    world = World()
    shard = world.create(compact_fanout=4)
    for i in range(9):
        shard.append(rows(i))
    before, state = maintenance_outlook(shard), shard.machine.fetch()
    assert (before.groups, before.merged, len(before.sizes), before.compacted_at) == (1, 9, 9, None)
    assert before.merged_bytes == int(before.sizes.sum())
    assert shard.machine.fetch() is state, "nothing was changed"
    assert compact_shard(shard).removed == before.merged
    after = maintenance_outlook(shard)
    assert (after.groups, after.waiting, after.sweepable) == (0, 9, 0)
    assert after.compacted_at == world.clock.now()


def test_sweep_deletes_what_the_outlook_says() -> None:
    world = World()
    shard = world.create(compact_fanout=2, sweep_grace_ms=10)
    for i in range(2):
        shard.append(rows(i))
    reader = open_snapshot(world.open())
    compact_shard(shard)
    world.clock.advance(shard.config.sweep_grace_ms + 1)
    held = maintenance_outlook(shard)
    assert (held.sweepable, held.waiting, len(held.leases)) == (0, 2, 1)
    reader.close()
    world.clock.advance(shard.config.lease_ms + 1)
    free = maintenance_outlook(shard)
    assert (free.sweepable, free.waiting) == (2, 0), "a lease that has run out protects nothing"
    assert sweep_shard(shard).garbage == free.sweepable


def test_deleted_history_is_to_be_dropped() -> None:
    clock = ManualClock(1_700_000_000_000)
    with tidegate.open("memory://", clock=clock) as db:
        db.sql("CREATE TABLE t (id int8) WITH (RETENTION = '1 s'); INSERT INTO t VALUES (1)")
        clock.advance(10)
        db.sql("INSERT INTO t VALUES (2); DELETE FROM t WHERE id = 1")
        shard = db.context.collection("t")
        assert maintenance_outlook(shard).expired == 0, "AS OF still shows the row"
        clock.advance(5_000)
        db.append("t", {"id": [3]})
        outlook = maintenance_outlook(shard)
        assert outlook.expired == 1
        assert outlook.since > shard.machine.fetch().since
        assert db.compact("t").expired == outlook.expired


def test_orphans_are_objects_without_a_state() -> None:
    world = World()
    shard = world.create()
    shard.append(rows(1))
    assert orphan_objects(shard) == []
    world.blob.put("part/s1/stray", b"xyz")
    (orphan,) = orphan_objects(shard)
    assert (orphan.name, orphan.size) == ("part/s1/stray", 3)


def test_a_compaction_in_this_process_tells_how_far_it_is() -> None:
    told: list[tidegate.Progress] = []
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (id int8)")
        for i in range(9):
            db.append("t", {"id": [i] * 10})
        assert db.compact("t", full=True, progress=told.append).added == 1
    assert (told[0].groups, told[0].groups_total, told[0].rows_total) == (0, 1, 90)
    assert (told[-1].what, told[-1].share, told[-1].is_done) == ("compact t", 1.0, True)
