"""Compaction: which parts, with what result, and what it leaves when it is not alone."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.storage.shard.test_append import Meddling
from tests.unit.storage.shards import World, changes, ids, rows
from tidegate.errors import CorruptError
from tidegate.storage.maintain import compact as compaction
from tidegate.storage.maintain import merge_parts
from tidegate.storage.maintain.compact import Compacted, compact_shard
from tidegate.storage.shard.leases.lease import hold_lease
from tidegate.storage.shard.snapshot import open_snapshot

MIB = 1 << 20


def tiers(*sizes: float) -> list[tuple[int, int]]:
    found = compaction._tiers(np.array(sizes) * MIB, 128 * MIB, 4)
    return sorted((group.start, group.stop) for group in found)


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ((0.01,) * 3, []),
        ((0.01,) * 4, [(0, 4)]),
        ((150, 32, 34, 33, 30, 4, 4, 1), [(1, 5)]),
        ((100, 0.01, 0.01, 100, 0.01, 0.01), []),  # only neighbours
        ((4, 0.1, 4, 0.1, 4), [(0, 5)]),  # small ones between larger ones are taken along
        ((50, 0.1, 0.1, 0.1), []),  # not a large one for the sake of a few small ones
        ((0.01,) * 3 + (60,) + (0.01,) * 4, [(4, 8)]),
        ((60,) * 9, [(0, 4), (4, 8)]),
    ],
)
def test_tiers(sizes: tuple[float, ...], groups: list[tuple[int, int]]) -> None:
    assert tiers(*sizes) == groups


def test_full_takes_whatever_is_small() -> None:
    found = compaction._fill(np.array([1, 1, 200, 1, 100, 50, 50, 50, 1]) * MIB, 128 * MIB)
    assert [(group.start, group.stop) for group in found] == [(0, 2), (5, 8)]


def test_many_small_parts_become_one_and_nothing_else_changes() -> None:
    shard = World().create(compact_fanout=4)
    for i in range(4):
        shard.append(rows(i, i + 10))
    before = changes(shard, 0)
    assert compact_shard(shard) == Compacted(since=0, removed=4, added=1)
    assert compact_shard(shard) == Compacted(since=0)
    (part,) = shard.machine.fetch().parts.all()
    assert (part.level, part.rows, part.first, part.last) == (1, 8, 10_000, 10_003)
    assert changes(shard, 0) == before
    assert (ids(shard, 10_001), ids(shard)) == ([0, 1, 10, 11], [0, 1, 2, 3, 10, 11, 12, 13])


def test_times_before_since_are_made_one_and_what_cancels_is_gone() -> None:
    world = World()
    shard = world.create(options={"retention_ms": 1000})
    for i in range(4):
        shard.append(rows(i), at=100 + i)
    shard.append(rows(0, 1), at=200, diff=-1)
    shard.append(rows(2), at=9_500, diff=-1)
    shard.append(rows(), at=10_000)
    done = compact_shard(shard, full=True)
    assert (done.since, done.settled, done.expired, done.removed, done.added) == (9_000, 3, 2, 0, 0)
    assert [(part.rows, part.retracts) for part in shard.machine.fetch().parts.all()] == [(1, False)] * 2
    assert (ids(shard, 9_000), ids(shard, 9_500)) == ([2, 3], [3])
    world.clock.advance(10_000)
    shard.append(rows())
    assert compact_shard(shard, full=True) == Compacted(since=19_000, expired=1)
    assert [part.rows for part in shard.machine.fetch().parts.all()] == [1]
    assert compact_shard(shard, full=True) == Compacted(since=19_000)
    assert ids(shard) == [3]


def test_everything_may_cancel() -> None:
    shard = World().create(options={"retention_ms": 0})
    shard.append(rows(1), at=1)
    shard.append(rows(1), at=2, diff=-1)
    shard.append(rows(), at=9)
    assert compact_shard(shard, full=True) == Compacted(since=9, expired=1, settled=1)
    assert (ids(shard), shard.machine.fetch().parts.count) == ([], 0)


def test_since_waits_for_readers() -> None:
    shard = World().create(options={"retention_ms": 0})
    shard.append(rows(1), at=5)
    shard.append(rows(2), at=9)
    with open_snapshot(shard, 5):
        assert compact_shard(shard).since == 5
    assert compact_shard(shard).since == 9


def test_outputs_keep_to_the_target_size_and_the_order() -> None:
    shard = World().create(options={"cluster_by": [0]}, part_bytes=20_000, batch_rows=100)
    for i in range(20):
        shard.append(
            {"id": range(i, 4000, 20), "x": [0.5] * 200, "note": [f"{j * 7919}" for j in range(200)]}
        )
    compact_shard(shard, full=True)
    parts = shard.machine.fetch().parts.all()
    assert 1 < len(parts) < 20
    with open_snapshot(shard) as found:
        got = [i for batch in found.batches(["id"]) for i in batch.column(0).to_pylist()]
    assert sorted(got) == list(range(4000))
    assert {part.order for part in parts} == {(0,)}


def test_two_at_once_replace_once() -> None:
    world = World()
    world.create(compact_fanout=2)
    for i in range(2):
        world.open().append(rows(i))
    world.blob = Meddling(world.blob, "put")
    slow, fast = world.open(compact_fanout=2), world.open(compact_fanout=2)
    world.blob.first = lambda: compact_shard(fast)
    assert compact_shard(slow) == Compacted(conflicts=1)
    assert ids(slow) == [0, 1]
    state = slow.machine.fetch()
    assert world.objects("part/") == {part.name for part in state.parts.all()} | {
        item.name for item in state.garbage
    }


def test_a_wrong_sum_of_diffs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    shard = world.create(compact_fanout=2)
    for i in range(2):
        shard.append(rows(i))
    honest = merge_parts._updates
    monkeypatch.setattr(
        merge_parts, "_updates", lambda *args: (block.slice(1, len(block)) for block in honest(*args))
    )
    with pytest.raises(CorruptError, match="turned a sum of diffs of 2 into 0"):
        compact_shard(shard)
    assert ids(shard) == [0, 1]
    assert len(world.objects("part/")) == 2
    hold_lease(shard, lambda state: state.since).close()
