"""Maintenance without Spark: which parts are sorted together, how they are cut, and what the state makes of statistics."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tests.unit.storage.shards import World, rows
from tidegate import Database
from tidegate.config import Config
from tidegate.errors import BindError, StoreError
from tidegate.progress import Progress
from tidegate.storage.location import parse_location
from tidegate.storage.maintain.compact import Compacted, compact_shard
from tidegate.storage.maintain.distribute import LocalTaskRunner, compact_distributed, lacking
from tidegate.storage.maintain.key_ranges import KeySample, _runs, key_ranges, split_points
from tidegate.storage.maintain.recluster_plan import _fold, _overlapping, _packed, unsorted
from tidegate.storage.maintain.sweep import sweep_shard
from tidegate.storage.part.page_reader import RowRange
from tidegate.storage.shard.changes import AddStatistics, Configure, LogEntry, decode_entry, encode_entry
from tidegate.storage.shard.state import Conflict

CONFIG = Config(part_bytes=120_000, audit=1.0, recluster_parts=1000, compact_fanout=4, history_ms=10**15)


def outlined(*stretches: tuple[str, str], samples: str = "", rising: bool = True) -> KeySample:
    lows, highs = ([ends[i].encode() for ends in stretches] for i in (0, 1))
    return KeySample(tuple(lows), tuple(highs), tuple(s.encode() for s in samples), rising)


def test_shares_cover_every_stretch_and_only_those_that_they_must() -> None:
    """The example of the module's docstring."""
    one = outlined(("a", "b"), ("c", "d"), ("e", "f"), samples="aabcddeff")
    two = outlined(("b", "c"), ("c", "e"), samples="bbccce")
    assert split_points([one, two], 3) == [b"c", b"d"]
    parts = World().create().write  # any value will do as a part
    shares = key_ranges([parts, parts], [one, two], [b"c", b"e"])  # type: ignore[list-item]  # they are only passed on
    assert [[list(piece.pages) for piece in s.pieces] for s in shares] == [
        [[0], [0]],
        [[1], [0, 1]],
        [[2], [1]],
    ]
    scattered = outlined(("a", "z"), ("a", "b"), ("c", "d"), rising=False)
    found = key_ranges([parts], [scattered], [b"c"])  # type: ignore[list-item]  # likewise
    assert [list(s.pieces[0].pages) for s in found] == [[0, 1], [0, 2]]


def test_cuts_where_keys_repeat() -> None:
    same = outlined(("k", "k"), samples="kkkkkkkk")
    assert split_points([same], 4) == []
    assert split_points([], 4) == []
    assert split_points([outlined(("a", "k"), samples="aakkkkkk")], 4) == [b"k"]


def test_stretches_that_follow_each_other_are_read_at_once() -> None:
    stretches = [RowRange(0, 0, 10), RowRange(0, 10, 20), RowRange(0, 20, 25), RowRange(1, 0, 10)]
    found = [(r.group, r.start, r.stop) for r in _runs(stretches, [0, 1, 2, 3], 20)]
    assert found == [(0, 0, 20), (0, 20, 25), (1, 0, 10)]
    assert [(r.start, r.stop) for r in _runs(stretches, [0, 2], 100)] == [(0, 10), (20, 25)]


def test_clumps() -> None:
    parts = [outlined(("a", "c")), outlined(("b", "d")), outlined(("d", "f")), outlined(("m", "n"))]
    assert _overlapping(parts, touching=False) == [[0, 1], [2], [3]]
    assert _overlapping(parts, touching=True) == [[0, 1, 2], [3]]
    assert list(_packed([[0], [1], [2, 3], [4]], [40, 50, 10, 80, 5], 100)) == [[0, 1], [2, 3, 4]]


def test_stretches_of_time() -> None:
    assert list(_fold([0, 1, 2, 3], [10, 10, 10, 10], 4, 25)) == [(0, 3), (3, 4)]
    # One of half the limit was made a stretch before, and stays one.
    assert list(_fold([0, 1, 8, 9], [10, 60, 10, 10], 10, 100)) == [(0, 1), (1, 8), (8, 10)]


def test_parts_that_are_not_in_order() -> None:
    shard = World().create(options={"cluster_by": [0]})
    shard.append(rows(1))
    shard.machine.update(lambda state: Configure({"cluster_by": [0, 2]}))
    shard.append(rows(2))
    state = shard.machine.fetch()
    assert unsorted(state, [0]).to_pylist() == []
    assert unsorted(state, [0, 2]).to_pylist() == [0]
    assert unsorted(state, [2]).to_pylist() == [0, 1]
    assert unsorted(World().create().machine.fetch(), [0]).to_pylist() == []


def test_statistics_come_later_and_the_files_stay() -> None:
    world = World()
    shard = world.create(compact_fanout=2)
    for i in range(3):
        shard.append(rows(i))
    shard.machine.roll(shard.machine.fetch())
    shard.append(rows(3))
    before = {part.name for part in shard.machine.fetch().parts.all()}
    change = AddStatistics((3, 0), (b"three", b"nought"))
    assert decode_entry("x", encode_entry(LogEntry("t", 1, change))).change == change
    state = shard.machine.update(lambda _: change)
    assert state.garbage == world.open().machine.fetch().garbage
    named = {part.name: part.stats for part in state.parts.all()}
    assert set(named) == before
    assert sorted(named.values()) == [b"", b"", b"nought", b"three"]
    assert sorted(part.id for part in state.parts.all()) == [1, 2, 4, 5]
    with pytest.raises(Conflict, match="are not there"):
        shard.machine.update(lambda _: AddStatistics((0,), (b"",)))
    with pytest.raises(Conflict, match="1 parts by 0 statistics"):
        shard.machine.update(lambda _: AddStatistics((1,), ()))
    world.clock.advance(100_000)
    sweep_shard(shard)
    assert world.objects("part/") == before
    assert compact_shard(shard, full=True) == Compacted(removed=4, added=1)
    world.clock.advance(100_000)
    sweep_shard(shard)
    assert len(world.objects("part/")) == 1


def filled(retracting: bool) -> Database:
    db = tidegate.open("memory://", config=CONFIG)
    db.sql("CREATE TABLE t (id int8, f float8, r row(a int4, b text), note text)")
    for i in range(8):
        dice = np.random.default_rng(i)
        ids = dice.integers(0, 50_000, 9000)
        values = {
            "id": pa.array(ids, mask=dice.random(9000) < 0.01),
            "f": dice.choice([np.nan, -0.0, 0.0, 1.0], 9000),
            "r": pa.array([{"a": int(n) % 7, "b": str(n)} for n in ids]),
            "note": pa.array(ids).cast(pa.string()),
        }
        db.append("t", pa.table(values), at=100 * (i + 1))
        if retracting and i % 3 == 2:
            db.append("t", pa.table(values).slice(1000, 3000), at=100 * (i + 1) + 50, diff=-1)
    return db


def held(db: Database, as_of: int) -> Counter[str]:
    return Counter(map(repr, db.sql("SELECT * FROM t", as_of=as_of).rows()))


@pytest.mark.parametrize("retracting", [False, True])
def test_recluster_and_full_compaction_keep_every_time(retracting: bool) -> None:
    db, times = filled(retracting), (150, 350, 600, 800)
    before = {at: held(db, at) for at in times}
    seen: list[Progress] = []
    done = db.recluster("t", by=["id"], progress=seen.append)
    assert done.added >= 4
    assert {at: held(db, at) for at in times} == before
    assert db.sql("SELECT * FROM t WHERE id = 4711").scan.parts_read <= 2
    assert not db.recluster("t").removed
    assert seen[-1].share == 1.0
    shard, place = db.context.table("t"), db.context.root.place
    shard.machine.update(lambda state: Configure({"retention_ms": 0}))
    compact_distributed(LocalTaskRunner(), shard, place, full=True)
    assert held(db, shard.machine.fetch().upper - 1) == before[800]
    if retracting:
        parts = shard.machine.fetch().parts.all()
        assert not any(part.retracts for part in parts)
        assert (
            sum(part.rows for part in parts) == len(+before[800])
            or sum(p.diffs for p in parts) == before[800].total()
        )


def test_what_is_lacking() -> None:
    db = tidegate.open("memory://", config=CONFIG)
    db.sql("CREATE TABLE t (id int8)")
    db.append("t", {"id": [1]})
    db.set("stats_collection", False)
    db.append("t", {"id": [2]})
    machine = db.context.table("t").machine
    assert lacking(machine.fetch()).tolist() == [1]
    machine.roll(machine.fetch())
    assert lacking(machine.fetch()).tolist() == [1]
    db.set("stats_collection", True)
    assert db.backfill_statistics("t").described == 1
    assert lacking(machine.fetch()).tolist() == []
    assert db.sql("SELECT * FROM t WHERE id = 1").scan.parts_read == 1


def test_bad_orders() -> None:
    db = tidegate.open("memory://")
    db.sql("CREATE TABLE t (id int8)")
    for by in ("id", []):
        with pytest.raises(BindError, match="list of columns"):
            db.recluster("t", by=by)
    with pytest.raises(BindError, match='"nope" does not exist'):
        db.recluster("t", by=["nope"])
    with pytest.raises(BindError, match="no CLUSTER BY"):
        db.recluster("t")


def test_a_place_travels_but_for_memory() -> None:
    import pickle

    place = parse_location("s3://bucket/lake?region=eu-west-1&metadata=postgresql://me@db/meta")
    assert pickle.loads(pickle.dumps(place)) == place
    with pytest.raises(StoreError, match="in memory"):
        pickle.dumps(parse_location("memory://"))


def test_progress_as_a_line() -> None:
    now = Progress("compact orders", 32, 80, 1, 2, 4_100_000_000, 10_200_000_000, 72.4)
    assert now.line() == "32 of 80 groups  4.1 GB of 10 GB"
    assert Progress("x").share == 1.0
