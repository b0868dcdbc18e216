"""MERGE, ON CONFLICT and UPDATE … FROM while others change the table: nothing is lost, doubled, or done to a row that moved."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tests.unit.statements.test_modify import CONFIG, clock, db, done, place, rows
from tests.unit.statements.test_modify_race import changed_by, work
from tests.unit.storage.deleting import (
    MERGE_LOW,
    RAISE_JOINED,
    SCHEMA,
    History,
    before_entry,
    run_change,
)
from tests.unit.storage.shards import World
from tidegate.clock import ManualClock
from tidegate.database import Database
from tidegate.statements.modify import concurrency, general
from tidegate.storage.maintain import compact
from tidegate.storage.shard.changes import Append

pytestmark = pytest.mark.slow

__all__ = ["clock", "db", "place"]  # fixtures

UPSERT = "INSERT INTO t VALUES (6, 1, 'a') ON CONFLICT (id) DO UPDATE SET n = t.n + 1"
MERGE = (
    "MERGE INTO t USING (VALUES (6), (7)) AS x (id) ON t.id = x.id "
    "WHEN MATCHED THEN UPDATE SET n = t.n + 1 WHEN NOT MATCHED THEN INSERT VALUES (x.id, 1, 'new')"
)


def meanwhile(monkeypatch: pytest.MonkeyPatch, *works: Callable[[], object]) -> list[int]:
    """Between a statement's reading and its entry others work: one of these each time; the list counts the reads."""
    collect, left, reads = general.collect, list(works), [0]

    def collected(*args: Any) -> Any:
        reads[0] += 1
        result = collect(*args)
        if left:
            left.pop(0)()
        return result

    monkeypatch.setattr(general, "collect", collected)
    return reads


@pytest.fixture(params=["by position", "by value"])
def way(request: pytest.FixtureRequest, db: Database) -> str:
    db.set("delete_by_position", request.param == "by position")
    return str(request.param)


@pytest.mark.parametrize(
    ("theirs", "ours", "there", "reads"),
    [
        ("INSERT INTO t VALUES (3, 0, 'b')", UPSERT, [(3, 0, "b"), (6, 2, "a")], 1),
        ("UPDATE t SET n = n + 10", UPSERT, [(6, 12, "a")], 2),
        ("DELETE FROM t", UPSERT, [(6, 1, "a")], 2),
        ("INSERT INTO t VALUES (7, 5, 'b')", MERGE, [(6, 2, "a"), (7, 6, "b")], 2),
        ("INSERT INTO t VALUES (8, 5, 'b')", MERGE, [(6, 2, "a"), (7, 1, "new"), (8, 5, "b")], 1),
        ("UPDATE t SET id = 7", MERGE, [(6, 1, "new"), (7, 2, "a")], 2),
        ("ALTER TABLE t ADD COLUMN z int4", "UPDATE t SET n = 9 RETURNING *", [(6, 9, "a", None)], 2),
    ],
)
def test_what_others_do_meanwhile_is_seen(
    db: Database,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    theirs: str,
    ours: str,
    there: list[tuple[Any, ...]],
    reads: int,
) -> None:
    with Database.open(place, config=CONFIG) as other:
        db.sql("INSERT INTO t VALUES (6, 1, 'a')")
        counted = meanwhile(monkeypatch, lambda: other.sql(theirs))
        db.sql(ours)
        # By value every change of theirs makes it begin anew.
        assert counted == [reads if way == "by position" else 2]
        assert rows(other, "SELECT * FROM t ORDER BY id") == there


def test_a_change_of_the_source_alone_does_not_matter(
    db: Database, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Database.open(place, config=CONFIG) as other:
        db.sql("CREATE TABLE u (id int8); INSERT INTO u VALUES (6); INSERT INTO t VALUES (6, 1, 'a')")
        reads = meanwhile(monkeypatch, lambda: other.sql("DELETE FROM u"))
        assert done(db, "UPDATE t SET n = 2 FROM u WHERE t.id = u.id") == "UPDATE 1"
        assert reads == [1]


def test_what_reads_its_table_twice_minds_every_change(
    db: Database, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Database.open(place, config=CONFIG) as other:
        db.sql("INSERT INTO t VALUES (6, 1, 'a')")
        reads = meanwhile(monkeypatch, lambda: other.sql("INSERT INTO t VALUES (3, 50, 'b')"))
        assert done(db, "UPDATE t SET n = (SELECT max(n) + 1 FROM t AS o) WHERE id = 6") == "UPDATE 1"
        assert reads == [2]
        assert rows(db) == [(3, 50, "b"), (6, 51, "a")]


@pytest.mark.usefixtures("way")
def test_rows_that_a_compaction_moved_are_found_again(
    db: Database, place: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Database.open(place, clock=clock, config=CONFIG) as other:
        for i in range(4, 8):
            db.sql(f"INSERT INTO t VALUES ({i}, 0, 'a')")

        def housekeeping() -> None:
            assert other.compact("t", full=True).removed == 4
            clock.advance(10_000_000)
            other.sweep()

        meanwhile(monkeypatch, housekeeping)
        assert done(db, MERGE) == "MERGE 2"
        assert rows(db) == [(4, 0, "a"), (5, 0, "a"), (6, 1, "a"), (7, 1, "a")]


@pytest.mark.usefixtures("way")
@pytest.mark.usefixtures("commits_make_files")
def test_who_loses_every_race_is_told_and_leaves_nothing(
    db: Database, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrency, "CONTENTION", replace(concurrency.CONTENTION, times=3))
    with Database.open(place, config=CONFIG) as other:
        db.sql("INSERT INTO t VALUES (6, 0, 'a')")
        bump = [lambda: other.append("t", {"id": [7], "n": [0], "s": [""]})] * 3
        meanwhile(monkeypatch, *bump)
        with pytest.raises(tidegate.ConflictError, match="made all 3 attempts of this statement fail"):
            db.sql(MERGE)
        assert rows(db) == [(6, 0, "a")] + [(7, 0, "")] * 3
        parts = {entry.name for entry in db.context.root.blob.list("part/")}
        assert len(parts) == db.status().collections["t"].parts
        assert list(db.context.root.blob.list("del/")) == []


def test_processes_that_upsert_one_key_count_together(tmp_path: Path) -> None:
    """Each key is inserted once, whoever is first, and counts all that came after."""
    at = str(tmp_path / "lake")
    with tidegate.open(at) as db:
        db.sql("CREATE TABLE t (id int8, n int8)")
        upsert = "INSERT INTO t VALUES (1, 1), (2, 1) ON CONFLICT (id) DO UPDATE SET n = t.n + 1"
        workers = [work(at, upsert, 2, 3), work(at, upsert, 1, 4)]
        while any(worker.poll() is None for worker in workers):
            db.compact("t", full=True)
        assert [changed_by(worker) for worker in workers] == [12, 8]
        assert rows(db, "SELECT id, n FROM t ORDER BY id") == [(1, 10), (2, 10)]


def test_threads_that_merge_into_one_table(db: Database) -> None:
    failures: list[BaseException] = []

    def merge() -> None:
        try:
            for _ in range(6):
                db.sql(MERGE)
        except BaseException as error:  # noqa: BLE001  # shown below
            failures.append(error)

    threads = [threading.Thread(target=merge) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert rows(db, "SELECT id, n FROM t ORDER BY id") == [(6, 18), (7, 18)]


# ---------------------------------------------------------------- every time, every change, lost answers


@pytest.fixture
def world() -> World:
    return World()


def test_every_time_and_every_change_is_told(world: World) -> None:
    shard, history = world.create(SCHEMA), History()
    for start in (0, 4, 8):
        history.append(shard, [(i, i * 10, "a") for i in range(start, start + 4)])
    history.append(shard, [(2, 20, "twice")], diff=3)
    for change in (RAISE_JOINED, MERGE_LOW, RAISE_JOINED):
        assert history.change(shard, change) > 0
        history.check(shard, world.open())
    compact.compact_shard(shard, full=True)
    history.check(world.open())


def test_a_commit_whose_answer_is_lost_is_made_once(world: World) -> None:
    """Another process compacts after the entry was decided on and before it is made: its positions are others by then."""
    shard, history = world.create(SCHEMA), History()
    for start in (0, 4):
        history.append(shard, [(i, i * 10, "a") for i in range(start, start + 4)])
    other = world.open()
    met = before_entry(
        shard,
        lambda change: isinstance(change, Append),
        lambda: compact.compact_shard(other, full=True),
        lambda: run_change(other, "UPDATE t SET s = 'theirs' WHERE id = 2"),
    )
    assert history.change(shard, MERGE_LOW) == 3
    assert met[0] == 2
    assert {row[0] for row, count in history.rows_at(10**15).items() if count} <= set(range(8))
