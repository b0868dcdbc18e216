"""Snapshots and changes: times, leases, retractions, validity, damage."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.storage.shards import World, changes, ids, rows
from tidegate.errors import CorruptError, LeaseLost, StoreError, TimeError
from tidegate.expr.model.types import INT8, MZ_TIMESTAMP, TEXT
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.sweep import sweep_shard
from tidegate.storage.part.schema import Schema
from tidegate.storage.shard.change_feed import open_changes
from tidegate.storage.shard.changes import Advance, Evolve
from tidegate.storage.shard.leases.lease import release_shared_lease
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.snapshot import open_snapshot


def test_a_time_that_is_no_longer_kept_names_both() -> None:
    shard = World().create()
    shard.append(rows(1), at=100)
    shard.machine.update(lambda _: Advance(50))
    with pytest.raises(TimeError, match="cannot read at time 49: the collection is kept from 50 on"):
        open_snapshot(shard, 49)
    with pytest.raises(
        TimeError, match="cannot read changes from time 50 on: the collection is kept from 50 on"
    ):
        open_changes(shard, 50)
    assert ids(shard, 50) == []
    assert changes(shard, 51) == [(1, 100, 1)]


def test_a_time_that_is_not_complete_yet_waits_then_names_both() -> None:
    shard = World().create()
    shard.append(rows(1), at=100)
    with pytest.raises(TimeError, match="cannot read at time 101 yet: the collection is complete up to 101"):
        open_snapshot(shard, 101, timeout_ms=30)
    assert ids(shard, 100) == [1]
    release_shared_lease(shard)
    assert shard.machine.fetch().leases == {}


def test_a_new_collection_reads_as_empty() -> None:
    shard = World().create()
    assert ids(shard) == []
    assert changes(shard, 0) == []


def test_columns_are_read_by_name_or_not_at_all() -> None:
    shard = World().create()
    shard.append(rows(1, 2, x=None), diff=[1, 3])
    with open_snapshot(shard) as found:
        (batch,) = found.batches(["note", "id"])
        assert batch.to_pydict() == {"note": ["n"] * 4, "id": [1, 2, 2, 2]}
        assert [batch.num_rows for batch in found.batches([])] == [4]


@pytest.mark.parametrize("in_memory", [0, 1_000_000])
@pytest.mark.parametrize("wanted", [["id"], ["note"], [], ["note", "x", "id"]])
def test_both_ways_to_consolidate_agree(in_memory: int, wanted: list[str]) -> None:
    world = World()
    shard = world.create(retractions_in_memory=in_memory, batch_rows=3)
    shard.append(rows(99), at=0)
    shard.append(rows(99), at=1, diff=-1)  # from here on parts are sorted
    compact_shard(shard, full=True)
    for i in range(8):
        shard.append({"id": [i, i, 7], "x": [0.0, -0.0, float("nan")], "note": ["a", None, "b" * i]})
    for i in range(3):
        shard.append({"id": [i, 7], "x": [-0.0, float("nan")], "note": [None, "b" * i]}, diff=-1)
    there = [(i, "0.0", "a") for i in range(8)] + [(i, "-0.0", None) for i in range(3, 8)]
    there += [(7, "nan", "b" * i) for i in range(3, 8)]
    place = {"id": 0, "x": 1, "note": 2}
    with open_snapshot(shard) as found:
        got = Counter()  # type: ignore[var-annotated]  # rows of any width
        for batch in found.batches(wanted):
            got += Counter(
                tuple(repr(v) if k == "x" else v for k, v in row.items()) for row in batch.to_pylist()
            )
    assert got == Counter(tuple(row[place[name]] for name in wanted) for row in there)


def test_a_row_retracted_too_often_is_an_error_that_names_it() -> None:
    shard = World().create()
    shard.append(rows(5))
    shard.append(rows(5, 6), diff=-1)
    with pytest.raises(CorruptError, match="a row exists -1 times: id = 6"):
        ids(shard)
    assert ids(shard, 10_000) == [5]


def test_a_snapshot_reads_the_same_while_everything_changes() -> None:
    world = World()
    shard = world.create(options={"retention_ms": 0}, compact_fanout=2)
    for i in range(6):
        shard.append(rows(i))
    with open_snapshot(shard) as found:
        for i in range(6):
            world.open().append(rows(i), diff=-1)
            world.clock.advance(700)
            found.lease.keep()
            assert compact_shard(world.open(compact_fanout=2), full=True).settled == 1
            sweep_shard(world.open())
        assert sorted(i for b in found.batches(["id"]) for i in b.column(0).to_pylist()) == list(range(6))
    assert ids(shard) == []
    world.clock.advance(3000)
    sweep_shard(shard)
    assert len(world.objects("part/")) == shard.machine.fetch().parts.count


def test_a_lease_that_ran_out_is_an_error_and_moves_nothing() -> None:
    world = World()
    shard = world.create(options={"retention_ms": 0})
    shard.append(rows(1))
    found = open_snapshot(shard)
    world.clock.advance(1001)
    since = shard.machine.fetch().since
    assert sweep_shard(world.open()).leases == 1
    assert shard.machine.fetch().since == since
    with pytest.raises(LeaseLost, match="ran out"):
        list(found.batches())
    found.close()
    with pytest.raises(StoreError, match="was closed"):
        list(found.batches())


def test_a_lease_is_renewed_as_it_is_read_and_survives_its_time_if_nobody_looked() -> None:
    world = World()
    shard = world.create()
    shard.append(rows(1))
    with open_snapshot(shard) as found:
        world.clock.advance(5000)
        assert sum(batch.num_rows for batch in found.batches()) == 1
        assert shard.machine.fetch().leases[found.lease.reader].until == 16_000


@pytest.mark.parametrize("how", ["missing", "damaged", "cut", "foreign"])
def test_a_part_that_is_not_what_was_written_is_named(how: str) -> None:
    world = World()
    shard = world.create()
    (part,) = shard.append(rows(*range(100))).parts
    data = world.blob.get(part.name)
    assert data is not None
    changed = {
        "damaged": data[:50] + bytes([data[50] ^ 1]) + data[51:],
        "cut": data[:-1],
        "foreign": b"PAR1PAR1",
    }
    world.blob.delete(part.name)
    if how != "missing":
        world.blob.put(part.name, changed[how])
    for read in (lambda: ids(shard), lambda: changes(shard, 0)):
        with pytest.raises(
            StoreError, match=f"{part.name} is {'missing' if how == 'missing' else 'damaged'}"
        ):
            read()


def test_columns_added_dropped_and_added_again() -> None:
    shard = World().create()
    shard.append(rows(1))
    later = shard.machine.fetch().schema.drop("note").add("note", INT8)
    shard.machine.update(lambda _: Evolve(later.to_json()))
    shard.append({"id": [2], "x": [None], "note": [7]})
    for _ in range(2):
        with open_snapshot(shard) as found:
            got = [row for batch in found.batches(["id", "note"]) for row in batch.to_pylist()]
        assert got == [{"id": 1, "note": None}, {"id": 2, "note": 7}]
        assert compact_shard(shard, full=True).added in (0, 1)


LIVES = Schema.of(
    [
        ("id", INT8, False),
        ("note", TEXT, True),
        ("_lower", MZ_TIMESTAMP, True),
        ("_upper", MZ_TIMESTAMP, True),
    ]
)


def lives(*given: tuple[int, int | None, int | None]) -> dict[str, Any]:
    return {
        "id": [i for i, _, _ in given],
        "note": ["n"] * len(given),
        "_lower": [low for _, low, _ in given],
        "_upper": [high for _, _, high in given],
    }


def lively(**knobs: Any) -> Shard:
    return World().create(LIVES, {"validity": [2, 3], "retention_ms": 0}, **knobs)


def test_rows_end_and_the_feed_says_when() -> None:
    shard = lively()
    shard.append(lives((1, None, 50), (2, 30, 60), (3, None, None)), at=10)
    shard.append(lives((4, 5, 15)), at=20)  # past when it came: never there
    shard.append(lives((1, None, 50)), at=40, diff=-1)
    shard.append(lives(), at=100)
    assert (ids(shard, 20), ids(shard, 40), ids(shard, 55), ids(shard, 60)) == (
        [1, 2, 3],
        [2, 3],
        [2, 3],
        [3],
    )
    expected = [(1, 10, 1), (1, 40, -1), (1, 50, -1), (1, 50, 1), (2, 30, 1), (2, 60, -1), (3, 10, 1)]
    assert changes(shard, 0) == expected
    assert changes(shard, 45, 61) == [change for change in expected if change[1] >= 45]


def test_parts_that_have_ended_are_dropped_unread_and_their_retractions_do_no_harm() -> None:
    shard = lively()
    (first,) = shard.append(lives((1, None, 50)), at=10).parts
    shard.append(lives((1, None, 50), (2, None, 500_000)), at=20, diff=[-1, 1])
    shard.append(lives(), at=200)
    assert first.expires == 50
    shard.machine.blob.delete(first.name)  # whoever would read it would fail
    shard.machine.update(lambda _: Advance(100))
    assert compact_shard(shard).expired == 1
    assert ids(shard) == [2]
    assert shard.machine.fetch().parts.count == 1


def test_reading_streams() -> None:
    world = World()
    shard = world.create(batch_rows=1000, part_bytes=100_000)
    shard.append({"id": range(50_000), "x": [None] * 50_000, "note": [f"{i * 7919}" for i in range(50_000)]})
    with open_snapshot(shard) as found:
        sizes = [batch.num_rows for batch in found.batches()]
    assert (sum(sizes), max(sizes)) == (50_000, 1000)
    before = pa.total_allocated_bytes()
    with open_snapshot(shard) as found:
        peak = max(pa.total_allocated_bytes() - before for _ in found.batches(["id"]))
    assert peak < 3_000_000
