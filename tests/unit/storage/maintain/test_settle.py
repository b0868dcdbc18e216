"""Settling: retractions that came as rows become deletions, and no reader at any time sees a difference."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tests.simulation.faults import Faults, FaultyBlob, FaultyConsensus
from tests.unit.storage.shard.test_append import Meddling
from tests.unit.storage.shards import World, ids, rows
from tidegate.config import Config
from tidegate.errors import StoreError
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.settle import settle_retractions
from tidegate.storage.shard.change_feed import open_changes
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.snapshot import open_snapshot

LOOKED_UP = 1 << 20
LAKES = Path(__file__).parents[3] / "data" / "lakes"


def retracts(shard: Shard) -> bool:
    return any(part.retracts for part in shard.machine.fetch().parts.all())


def at_every_time(shard: Shard) -> dict[int, Counter[str]]:
    """The rows at every time that can be read."""
    state = shard.machine.fetch()
    found = {}
    for at in range(max(state.since, min((p.first for p in state.parts.all()), default=0)), state.upper):
        with open_snapshot(shard, at) as snapshot:
            found[at] = Counter(repr(row) for batch in snapshot.batches() for row in batch.to_pylist())
    return found


def net_changes(shard: Shard) -> dict[tuple[str, int], int]:
    """The changes of each row at each time, added up."""
    since = shard.machine.fetch().since
    total: Counter[tuple[str, int]] = Counter()
    with open_changes(shard, since + 1 if since else 0) as feed:
        for batch in feed.batches():
            for row in batch.to_pylist():
                time, diff = row.pop("_time"), row.pop("_diff")
                total[repr(row), time] += diff
    return {key: diff for key, diff in total.items() if diff}


def settled_exactly(shard: Shard) -> int:
    """Settles; everything that can be read stays the same, also for another process."""
    before, changes = at_every_time(shard), net_changes(shard)
    count = settle_retractions(shard)
    assert at_every_time(shard) == before
    assert net_changes(shard) == changes
    return count


def test_a_retracted_row_is_deleted_where_it_is() -> None:
    world = World()
    shard = world.create()
    shard.append(rows(1, 2, 3))
    shard.append(rows(2), diff=-1)
    assert retracts(shard)
    assert settled_exactly(shard) == 1
    state = shard.machine.fetch()
    (part,) = state.parts.all()
    assert (part.rows, part.retracts, state.monotonic) == (3, False, True)
    assert state.parts.deletions.records.column("time").to_pylist() == [10_001]
    assert (ids(shard), ids(shard, 10_000), ids(world.open())) == ([1, 3], [1, 2, 3], [1, 3])
    assert settle_retractions(shard) == 0


def test_other_rows_of_the_retracting_part_stay_with_their_times() -> None:
    shard = World().create()
    shard.append(rows(1, 2))
    shard.append(rows(1, 5, 6), diff=[-1, 1, 1])
    shard.append(rows(5, 7), diff=[-1, 1])
    assert settled_exactly(shard) == 2
    assert not retracts(shard)
    assert sorted((part.first, part.last, part.rows) for part in shard.machine.fetch().parts.all()) == [
        (10_000, 10_000, 2),
        (10_001, 10_001, 1),  # 5 is only seen at an earlier time
        (10_001, 10_002, 2),
    ]


@pytest.mark.parametrize("diff", [2, 5])
def test_some_occurrences_of_a_row(diff: int) -> None:
    shard = World().create()
    shard.append(rows(1, 2), diff=diff)
    shard.append(rows(1, 2), diff=[-1, -diff])
    shard.append(rows(1), diff=-(diff - 1))
    assert settled_exactly(shard) == 2
    assert not retracts(shard)
    assert ids(shard) == []
    assert ids(shard, 10_001) == [1] * (diff - 1)


def test_what_finds_nothing_stays() -> None:
    shard = World().create()
    shard.append(rows(1, 2))
    shard.append(rows(1, 9), diff=-1)
    assert settle_retractions(shard) == 1
    (pending,) = (part for part in shard.machine.fetch().parts.all() if part.retracts)
    assert (pending.rows, pending.diffs) == (1, -1)
    assert settle_retractions(shard) == 0  # and is not rewritten for nothing
    assert [part.id for part in shard.machine.fetch().parts.all() if part.retracts] == [pending.id]
    shard.append(rows(9))  # later than its retraction: not the row that was meant
    assert settle_retractions(shard) == 0
    assert ids(shard) == [2]


def test_only_parts_that_may_hold_the_rows_are_read() -> None:
    with tidegate.open("memory://", config=Config(retraction_lookup_bytes=0)) as db:
        db.sql("CREATE TABLE t (id int8, note text)")
        for i in range(20):
            db.append("t", {"id": list(range(100 * i, 100 * i + 100)), "note": ["n"] * 100})
        db.append("t", {"id": [755], "note": ["n"]}, diff=-1)
        shard = db.context.table("t")
        opened: list[int] = []
        honest = shard.machine.files.open
        shard.machine.files.open = lambda part, schema: (opened.append(part.id), honest(part, schema))[1]  # type: ignore[method-assign, func-returns-value]  # counts the calls
        assert settle_retractions(shard) == 1
        assert set(opened) == {7, 20}  # the part with the row, and the retraction's own


def test_afterwards_it_reads_like_a_collection_that_only_grew() -> None:
    with tidegate.open("memory://", config=Config(retraction_lookup_bytes=0)) as db:
        db.sql("CREATE TABLE t (id int8, note text)")
        for i in range(10):
            db.append("t", {"id": list(range(100 * i, 100 * i + 100)), "note": ["n"] * 100})
        db.append("t", {"id": [5, 755], "note": ["n", "n"]}, diff=-1)
        assert db.sql("SELECT * FROM t LIMIT 10").path == "local"
        assert db.compact("t").settled == 2
        found = db.sql("SELECT * FROM t LIMIT 10")
        assert (found.path, len(found.rows())) == ("peek", 10)
        counted = db.sql("SELECT count(*) FROM t")
        assert (counted.path, counted.rows()) == ("metadata", [(998,)])
        assert db.sql("SELECT id FROM t WHERE id IN (4, 5, 6)").rows() == [(4,), (6,)]


def meddled_world() -> tuple[World, Meddling]:
    """A world in which something can come before the next part is stored."""
    world = World()
    between = Meddling(world.blob, "put")
    world.blob = between
    return world, between


def test_a_row_that_another_writer_deletes_meanwhile_is_not_deleted_twice() -> None:
    world, between = meddled_world()
    shard, other = world.create(), world.open(retraction_lookup_bytes=LOOKED_UP)
    shard.append(rows(1, 1, 2))
    shard.append(rows(1, 5), diff=[-1, 1])
    between.first = lambda: other.append(rows(1, 2), diff=-1)
    assert settle_retractions(shard) == 1
    assert (ids(shard), ids(shard, 10_001), ids(shard, 10_000)) == ([5], [1, 2, 5], [1, 1, 2])
    assert not retracts(shard)
    assert world.objects("part/") == {part.name for part in shard.machine.fetch().parts.all()} | {
        item.name for item in shard.machine.fetch().garbage
    }


def test_a_part_that_is_compacted_meanwhile_is_looked_up_again() -> None:
    world, between = meddled_world()
    shard, other = world.create(), world.open(compact_fanout=2)
    shard.append(rows(1, 2))
    shard.append(rows(3, 4))
    shard.append(rows(1, 5), diff=[-1, 1])
    before = at_every_time(shard)
    between.first = lambda: compact_shard(other, full=True)
    settle_retractions(shard)
    assert between.first is None
    assert (at_every_time(shard), retracts(shard)) == (before, False)


def test_a_deletion_of_rows_that_are_settled_meanwhile_sees_it() -> None:
    """Settling races with a compaction that has read before it: one of the two is refused, and nothing is lost."""
    world, between = meddled_world()
    shard, other = world.create(compact_fanout=2), world.open(compact_fanout=2)
    shard.append(rows(1, 2))
    shard.append(rows(3, 4))
    shard.append(rows(9), diff=-1)  # finds nothing, and so is not settled before the merge
    shard.append(rows(1, 5), diff=[-1, 1])
    before = net_changes(shard)
    between.first = lambda: settle_retractions(other)
    compact_shard(shard, full=True)
    assert net_changes(shard) == before


def test_a_settlement_that_does_not_add_up_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    shard = World().create()
    shard.append(rows(1, 2))
    shard.append(rows(1), diff=-1)
    honest = shard.machine.update

    def lose_the_deletions(propose: Callable[[Any], Any]) -> Any:
        def proposed(state: Any) -> Any:
            change = propose(state)
            if getattr(change, "retracted", 0):
                object.__setattr__(change, "settled", change.settled.slice(0, 0))
            return change

        return honest(proposed)

    monkeypatch.setattr(shard.machine, "update", lose_the_deletions)
    monkeypatch.setattr("tidegate.storage.maintain.settle.ATTEMPTS", 1)
    assert settle_retractions(shard) == 0  # a Conflict, each time
    assert ids(shard) == [2]
    assert retracts(shard)


def test_rows_of_an_older_schema_are_found() -> None:
    with tidegate.open("memory://", config=Config(retraction_lookup_bytes=0)) as db:
        db.sql("CREATE TABLE t (id int8, gone int8)")
        db.append("t", {"id": [1, 2], "gone": [7, 8]})
        db.sql("ALTER TABLE t ADD COLUMN note text")
        db.sql("ALTER TABLE t DROP COLUMN gone")
        db.append("t", {"id": [1], "note": [None]}, diff=-1)
        assert db.compact("t").settled == 1
        assert db.sql("SELECT * FROM t").rows() == [(2, None)]


def test_an_old_lake_with_retractions_is_settled_by_one_compaction(tmp_path: Path) -> None:
    before, counts = 0, dict[str, Any]()
    for lake in LAKES.glob("*/*/"):
        url = shutil.copytree(lake, tmp_path / lake.parent.name / lake.name)
        try:
            db = tidegate.open(url)
        except tidegate.TidegateError:
            continue  # one whose metadata is elsewhere: `tests/test_old_lakes.py` opens it
        with db:
            for (name,) in db.sql("SHOW TABLES").rows():
                shard = db.context.table(name)
                before += retracts(shard)
                counts[name] = db.sql(f"SELECT count(*) FROM {name}").rows()
                db.compact(name)
                assert not retracts(shard), name
                assert db.sql(f"SELECT count(*) FROM {name}").rows() == counts[name]
    assert before, "some table had retractions"


def test_a_store_that_fails_and_lies(tmp_path: Path) -> None:
    """Settling succeeds or not; whatever the store answers, readers see the same."""
    succeeded = 0
    for seed in range(20):
        world, faults = World(), Faults(seed, often=0.15, on=False)
        world.blob, world.log = FaultyBlob(world.blob, faults), FaultyConsensus(world.log, faults)
        shard = world.create()
        for i in range(3):
            shard.append(rows(i, i, 10 + i))
        shard.append(rows(0, 1, 7), diff=[-1, -2, 1])
        before = at_every_time(shard)
        faults.on = True
        with suppress(StoreError):
            succeeded += settle_retractions(world.open()) > 0
        faults.on = False
        faults.arrive_all()
        assert at_every_time(world.open()) == before, seed
    assert succeeded > 5


# -------------------------------------------------------------------------------------- at an append


def test_an_append_deletes_what_it_finds_cheaply() -> None:
    shard = World().create(retraction_lookup_bytes=LOOKED_UP)
    shard.append(rows(1, 2, 3, 3))
    done = shard.append(rows(2, 3, 9), diff=[-1, -1, 1])
    assert [part.rows for part in done.parts] == [1]
    assert (ids(shard), ids(shard, 10_000), retracts(shard)) == ([1, 3, 9], [1, 2, 3, 3], False)
    shard.append(rows(1, 3, 9), diff=-1)
    assert (ids(shard), shard.machine.fetch().parts.count) == ([], 2)
    shard.append(rows(4), diff=3)
    shard.append(rows(4), diff=-2)
    assert (ids(shard), retracts(shard)) == ([4], False)


def test_an_append_that_finds_nothing_or_too_much_stores_retractions() -> None:
    for knob in (0, 1):
        shard = World().create(retraction_lookup_bytes=knob)
        shard.append(rows(1, 2, 3))
        shard.append(rows(2), diff=-1)
        assert (retracts(shard), ids(shard)) == (True, [1, 3])
    shard = World().create(retraction_lookup_bytes=LOOKED_UP)
    shard.append(rows(1))
    shard.append(rows(5), diff=-1)
    assert retracts(shard)


def test_an_append_whose_rows_move_meanwhile_stores_retractions() -> None:
    world, between = meddled_world()
    shard, other = world.create(retraction_lookup_bytes=LOOKED_UP), world.open(compact_fanout=2)
    shard.append(rows(1, 2))
    shard.append(rows(3, 4))
    between.first = lambda: compact_shard(other, full=True)
    shard.append(rows(1, 7), diff=[-1, 1])
    assert (ids(shard), retracts(shard)) == ([2, 3, 4, 7], True)
    assert settle_retractions(shard) == 1
    assert (ids(shard), retracts(shard)) == ([2, 3, 4, 7], False)


def test_of_equal_rows_an_append_deletes_the_newest() -> None:
    """The oldest is left for an earlier retraction that is still a row."""
    world = World()
    shard, other = world.create(), world.open(retraction_lookup_bytes=LOOKED_UP)
    shard.append(rows(1))
    shard.append(rows(1), diff=-1)
    shard.append(rows(1))
    other.append(rows(1), diff=-1)
    assert settled_exactly(shard) == 1
    assert not retracts(shard)


# ------------------------------------------------------------------------------------------ the law

VALUES = [0.5, 0.0, -0.0, float("nan"), None]
NOTES = ["n", "", "ein längerer Text", None]


def random_rows(rng: random.Random, there: Counter[Any]) -> tuple[dict[str, list[Any]], list[int]]:
    """A batch: some new rows, some retractions of rows that are there."""
    chosen: list[tuple[int, Any, Any]] = []
    diffs = []
    for _ in range(rng.randrange(1, 6)):
        if there and rng.random() < 0.55:
            key = rng.choice(sorted(there, key=repr))
            diff = -rng.randint(1, there[key])
        else:
            key = rng.randrange(4), rng.randrange(len(VALUES)), rng.randrange(len(NOTES))
            diff = rng.choice([1, 1, 1, 2, 3])
        there[key] += diff
        if not there[key]:
            del there[key]
        chosen.append(key)
        diffs.append(diff)
    columns = {
        "id": [key[0] for key in chosen],
        "x": [VALUES[key[1]] for key in chosen],
        "note": [NOTES[key[2]] for key in chosen],
    }
    return columns, diffs


@pytest.mark.parametrize("seed", range(40))  # 40: half a minute
def test_no_reader_sees_a_difference(seed: int) -> None:
    rng, world = random.Random(seed), World()
    options = {"cluster_by": [0]} if seed % 2 else {}
    shard = world.create(options=options, retraction_lookup_bytes=0)
    clever = world.open(retraction_lookup_bytes=LOOKED_UP)
    there: Counter[Any] = Counter()
    for _ in range(rng.randrange(3, 14)):
        batch, diffs = random_rows(rng, there)
        rng.choice([shard, shard, clever]).append(batch, diff=diffs)
        if rng.random() < 0.15:
            settled_exactly(shard)
        if rng.random() < 0.1:
            compact_shard(shard, full=rng.random() < 0.5)
        if rng.random() < 0.1:
            shard.machine.roll(shard.machine.fetch())
    settled_exactly(shard)
    with open_snapshot(world.open()) as snapshot:
        held = Counter(repr(tuple(row.values())) for batch in snapshot.batches() for row in batch.to_pylist())
    assert held == Counter({repr((i, VALUES[x], NOTES[n])): k for (i, x, n), k in there.items()})
    assert not retracts(shard)  # every retraction has its row
    assert shard.machine.fetch().monotonic
