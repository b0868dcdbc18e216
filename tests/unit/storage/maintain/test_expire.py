"""Parts that have ended leave the state: when, at what cost, and in whose way nothing is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tests.unit.storage.shards import World, changes, ids
from tidegate.clock import ManualClock
from tidegate.config import Config
from tidegate.errors import BindError, CorruptError, EvaluationError, TimeError
from tidegate.expr.model.types import FLOAT8, INT8, MZ_TIMESTAMP, TEXT
from tidegate.storage.location import parse_location
from tidegate.storage.maintain import compact as compaction
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.distribute import LocalTaskRunner, compact_distributed
from tidegate.storage.maintain.expire import expire_parts
from tidegate.storage.maintain.rewrite import WrittenParts, swap
from tidegate.storage.maintain.sweep import sweep_shard
from tidegate.storage.part.schema import Schema
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.snapshot import open_snapshot
from tidegate.storage.shard.state import ENDED_MS

LIVES = Schema.of([("id", INT8, False), ("_lower", MZ_TIMESTAMP, True), ("_upper", MZ_TIMESTAMP, True)])
NOW = 10_000
"""Of a `World`."""


def made(retention: int | None = 0, world: World | None = None, **knobs: Any) -> Shard:
    options = {"validity": [1, 2], **({} if retention is None else {"retention_ms": retention})}
    return (world or World()).create(LIVES, options, **knobs)


def lives(*rows: tuple[int, int | None]) -> dict[str, list[Any]]:
    return {"id": [id_ for id_, _ in rows], "_lower": [None] * len(rows), "_upper": [end for _, end in rows]}


def count(shard: Shard) -> int:
    return shard.machine.fetch().parts.count


# ---------------------------------------------------------------- when


def test_what_has_ended_is_dropped_unread_and_nothing_is_written_otherwise() -> None:
    world = World()
    shard = made(world=world)
    first, second = (shard.append(lives((i, NOW + 100 * i))).parts[0] for i in (1, 2))
    shard.append(lives((3, None)))
    number = shard.machine.fetch().number
    assert expire_parts(shard) == 0
    assert shard.machine.fetch().number == number
    world.clock.set(NOW + 100)
    shard.machine.blob.delete(first.name)  # whoever would read it would fail
    assert expire_parts(shard) == 1
    assert (count(shard), ids(shard)) == (2, [2, 3])
    assert expire_parts(shard) == 0
    world.clock.set(NOW + 200)
    shard.machine.blob.delete(second.name)
    assert (expire_parts(shard), ids(shard)) == (1, [3])


def test_retention_keeps_what_can_be_asked_for() -> None:
    world = World()
    shard = made(50, world)
    at = shard.append(lives((1, NOW + 100))).at
    world.clock.set(NOW + 149)
    shard.append(lives())
    assert (expire_parts(shard), ids(shard, at), ids(shard, NOW + 100)) == (0, [1], [])
    world.clock.set(NOW + 150)
    shard.append(lives())
    assert expire_parts(shard) == 1
    with pytest.raises(TimeError, match=f"is kept from {NOW + 100} on"):
        open_snapshot(shard, NOW + 99)


def test_without_a_word_it_is_an_hour() -> None:
    world = World()
    shard = made(None, world)
    shard.append(lives((1, NOW + 1)))
    world.clock.set(NOW + ENDED_MS)
    assert expire_parts(shard) == 0
    world.clock.advance(1)
    assert expire_parts(shard) == 1
    plain = World().create()
    assert (expire_parts(plain), compact_shard(plain).since) == (0, 0)


def test_a_collection_that_nobody_appends_to_expires_too_and_is_in_no_writers_way() -> None:
    world = World()
    shard = made(50, world)
    shard.append(lives((1, NOW + 1)))
    world.clock.set(NOW + 500)
    assert expire_parts(shard) == 1
    state = shard.machine.fetch()
    assert (state.since, state.upper) == (NOW + 450, NOW + 451)  # no further than retention needs
    assert shard.append(lives((2, None))).at == NOW + 500


def test_a_lease_holds_it_back_and_nothing_moves_for_nothing() -> None:
    world = World()
    shard, other = made(0, world), world.open()
    shard.append(lives((1, NOW + 10)))
    with open_snapshot(other) as found:
        world.clock.set(NOW + 500)
        upper = shard.machine.fetch().upper
        assert expire_parts(shard) == 0
        assert shard.machine.fetch().upper == upper
        sweep_shard(shard)
        assert [batch.num_rows for batch in found.batches()] == [1]
        found.lease.keep()
    assert compact_shard(other).expired == 1
    sweep_shard(shard)
    assert (count(shard), len(world.objects("part/"))) == (0, 1)  # its file has its grace
    world.clock.advance(10_000)
    sweep_shard(shard)
    assert world.objects("part/") == set()


def test_more_than_one_entry_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.storage.maintain.expire.DROPPED_AT_ONCE", 3)
    world = World()
    shard = made(world=world)
    for i in range(8):
        shard.append(lives((i, NOW + 20)))
    world.clock.set(NOW + 100)
    assert (expire_parts(shard), count(shard)) == (8, 0)


def test_a_retraction_that_outlives_its_row() -> None:
    """Conditions on floats are asked after rows have met what retracts them: those that have ended must be out by then."""
    clock = ManualClock(NOW)
    with tidegate.open("memory://", clock=clock, config=Config(audit=1.0)) as opened:
        schema = Schema.of([("x", FLOAT8, True), ("b", MZ_TIMESTAMP, True), ("e", MZ_TIMESTAMP, True)])
        opened.context.catalog.create_table("t", schema, {"validity": [1, 2], "retention_ms": 0})
        shard = opened.context.table("t")
        shard.append({"x": [1.5], "b": [None], "e": [NOW + 50]})
        shard.append({"x": [1.5, 2.5], "b": [None] * 2, "e": [NOW + 50, None]}, diff=[-1, 1])
        clock.set(NOW + 50)
        assert expire_parts(shard) == 1
        for sql in ("SELECT x FROM t WHERE x > 0", "SELECT * FROM t", "SELECT max(x) FROM t WHERE x < 9"):
            assert opened.sql(sql).rows() == [(2.5,)]


def test_the_feed_tells_an_end_to_whoever_begins_there() -> None:
    shard = made(1000)
    shard.append(lives((1, NOW + 7)))
    shard.append(lives(), at=NOW + 100)
    assert [changes(shard, NOW + start) for start in (6, 7, 8)] == [[(1, NOW + 7, -1)]] * 2 + [[]]


# ---------------------------------------------------------------- single rows


@pytest.mark.parametrize("by", ["compact", "crew"])
@pytest.mark.parametrize("cluster", [[], [0]])
def test_compaction_leaves_out_rows_that_have_ended(tmp_path: Path, by: str, cluster: list[int]) -> None:
    clock = ManualClock(NOW)
    with tidegate.open(
        tmp_path / "lake", clock=clock, config=Config(sweep_grace_ms=10**9, retraction_lookup_bytes=0)
    ) as db:
        options = {"validity": [1, 2], "retention_ms": 0, "cluster_by": cluster}
        db.context.catalog.create_table("t", LIVES, options)
        shard = db.context.table("t")
        for i in range(4):
            shard.append(lives((i, NOW + 1000), (10 + i, None), (20 + i, NOW + 90_000)))
        shard.append(lives((0, NOW + 1000), (20, NOW + 90_000)), diff=-1)
        clock.set(NOW + 1000)
        shard.append(lives())
        if by == "compact":
            done = compact_shard(shard, full=True)
        else:
            done = compact_distributed(LocalTaskRunner(), shard, parse_location(tmp_path / "lake"), full=True)
        assert (done.expired, done.removed, done.added, done.settled) == (0, 4, 1, 2)
        (part,) = shard.machine.fetch().parts.all()
        assert (part.rows, part.diffs) == (7, 7)  # 20 and its retraction are one time by now, and are gone
        assert ids(shard) == [10, 11, 12, 13, 21, 22, 23]
        assert changes(shard, shard.machine.fetch().since + 1) == []


def test_a_part_of_which_most_rows_have_ended_is_rewritten_alone() -> None:
    world = World()
    shard = made(world=world)
    shard = Shard.open(shard.machine, shard.config)
    shard.append(lives(*((i, NOW + 10 * i) for i in range(1, 101))))
    shard.append(lives(*((i, NOW + 100_000) for i in range(200, 250))))
    shard.append(lives((300, None), (301, NOW + 20), (302, None)))
    world.clock.set(NOW + 400)
    shard.append(lives())
    assert compact_shard(shard).removed == 0, "most of it is valid"
    world.clock.set(NOW + 700)
    shard.append(lives())
    done = compact_shard(shard)
    assert (done.removed, done.added) == (1, 1)
    assert sorted(part.rows for part in shard.machine.fetch().parts.all()) == [3, 30, 50]
    assert ids(shard) == [*range(71, 101), *range(200, 250), 300, 302]
    assert compact_shard(shard).removed == 0, "once is enough"


def test_a_part_of_which_nothing_is_left_is_no_part() -> None:
    world = World()
    shard = made(world=world)
    for end in (NOW + 10, NOW + 20):
        shard.append(lives((1, end)))
    world.clock.set(NOW + 50)
    shard.append(lives())
    compaction.advance(shard)
    with compaction.hold_planned_parts(shard) as lease:
        group = shard.machine.fetch().parts.all()
        assert compaction.rewrite(shard, lease, list(group), ()) == 0
    assert count(shard) == 0


def test_a_sum_that_does_not_add_up_is_refused() -> None:
    world = World()
    shard = made(world=world)
    parts = [shard.append(lives((i, NOW + 10))).parts[0] for i in range(2)]
    state = shard.machine.fetch()
    there = state.parts.all()
    with pytest.raises(CorruptError, match="turned a sum of diffs of 2 into 1"):
        swap(shard, there, WrittenParts((), ended=1), state)
    assert len(parts) == count(shard) == 2


# ---------------------------------------------------------------- hidden


@pytest.fixture
def db() -> Any:
    with tidegate.open("memory://", clock=ManualClock(NOW), config=Config(audit=1.0)) as opened:
        columns = [
            ("_key", TEXT),
            ("id", INT8),
            ("_lower", MZ_TIMESTAMP),
            ("x", INT8),
            ("_upper", MZ_TIMESTAMP),
        ]
        schema = Schema.of([(name, type_, True) for name, type_ in columns])
        opened.context.catalog.create_table("t", schema, {"validity": [2, 4], "hidden": [0, 2, 4]})
        shard = opened.context.table("t")
        rows = {"_key": ["a", "b", "c"], "id": [1, 2, 3], "x": [10, 20, 30]}
        shard.append({**rows, "_lower": [None, NOW + 50, None], "_upper": [NOW + 50, None, None]})
        yield opened


def test_nobody_sees_hidden_columns(db: tidegate.Database) -> None:
    assert db.sql("SELECT * FROM t").arrow().to_pydict() == {"id": [1, 3], "x": [10, 30]}
    assert [row[0] for row in db.sql("SHOW COLUMNS FROM t").rows()] == ["id", "x"]
    assert db.status().collections["t"].columns == 2
    for sql in ("SELECT _upper FROM t", "UPDATE t SET _upper = 0", "INSERT INTO t (_key) VALUES ('x')"):
        with pytest.raises(BindError, match="does not exist"):
            db.sql(sql)
    with pytest.raises(EvaluationError) as failed:
        db.sql("SELECT 1 / (x - 30) FROM t")
    assert failed.value.row == {"x": 30}
    db.sql("CREATE VIEW v AS SELECT * FROM t")
    assert db.sql("SELECT * FROM v").schema.names == ["id", "x"]


def test_explain_shows_why_rows_are_left_out(db: tidegate.Database) -> None:
    said = db.sql("EXPLAIN SELECT id FROM t").text()
    assert "_upper IS NULL OR _upper > '10000'" in " ".join(said.split())
    told = db.sql("EXPLAIN FILTER PUSHDOWN SELECT id FROM t").rows()
    assert [row[1] for row in told] == [True, True]


def test_changes_keep_what_is_hidden(db: tidegate.Database) -> None:
    """A row that is changed still ends when it would have; one that is inserted by hand does not."""
    clock = db.context.clock
    assert isinstance(clock, ManualClock)
    assert db.sql("UPDATE t SET x = x + 1").text() == "UPDATE 2"
    db.sql("INSERT INTO t VALUES (4, 40)")
    assert sorted(db.sql("SELECT * FROM t").rows()) == [(1, 11), (3, 31), (4, 40)]
    clock.set(NOW + 50)
    assert sorted(db.sql("SELECT * FROM t").rows()) == [(2, 20), (3, 31), (4, 40)]
    assert db.sql("DELETE FROM t WHERE id < 4").text() == "DELETE 2"
    assert db.sql("SELECT * FROM t").rows() == [(4, 40)]


def test_metadata_answers_where_it_can(db: tidegate.Database) -> None:
    shard = db.context.table("t")
    none: list[Any] = [None] * 2
    shard.append({"_key": none, "id": [5, 6], "_lower": none, "x": none, "_upper": [NOW + 500] * 2})
    clock = db.context.clock
    assert isinstance(clock, ManualClock)
    db.set("audit", 0.0)
    got = db.sql("SELECT count(*), max(id) FROM t")
    assert (got.rows(), got.scan.parts_read) == ([(4, 6)], 1)  # of the first part some have not begun
    clock.set(NOW + 500)
    assert (db.sql("SELECT id FROM t WHERE id > 3").path, db.sql("SELECT count(*) FROM t").rows()) == (
        "metadata",
        [(2,)],
    )


def test_bounds_are_never_trimmed() -> None:
    """However little a part may say of itself, and whatever else it has."""
    with tidegate.open("memory://", config=Config(stats_budget=1)) as opened:
        schema = Schema.of([("note", TEXT, True), ("b", MZ_TIMESTAMP, True), ("e", MZ_TIMESTAMP, True)])
        opened.context.catalog.create_table("t", schema, {"validity": [1, 2]})
        opened.context.table("t").append({"note": [json.dumps({"a": 1})], "b": [None], "e": [10]})
        assert opened.sql("SELECT note FROM t").path == "metadata"
