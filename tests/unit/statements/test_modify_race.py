"""DELETE and UPDATE while others change the table: nothing is lost or done twice, however many do it at once."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tests.unit.statements.test_modify import CONFIG, clock, db, done, place, rows
from tidegate.clock import ManualClock
from tidegate.database import Database
from tidegate.statements.modify import by_position, by_value, concurrency

pytestmark = pytest.mark.slow

__all__ = ["clock", "db", "place"]  # fixtures


def meanwhile(monkeypatch: pytest.MonkeyPatch, *works: Callable[[], object]) -> list[int]:
    """Between a statement's reading and its append others work: one of these each time; the list counts the reads of all."""
    find, picked, exchange, left, reads = (
        by_position._find, by_value._picked, by_value._exchange, list(works), [0]
    )  # fmt: skip

    def others() -> None:
        if left:
            left.pop(0)()

    def found(*args: Any) -> Any:
        reads[0] += 1
        result = find(*args)
        others()
        return result

    def counted(*args: Any) -> Any:
        reads[0] += 1
        return picked(*args)

    def exchanged(*args: Any) -> Any:
        result = exchange(*args)
        others()
        return result

    monkeypatch.setattr(by_position, "_find", found)
    monkeypatch.setattr(by_value, "_picked", counted)
    monkeypatch.setattr(by_value, "_exchange", exchanged)
    return reads


@pytest.fixture(params=["by position", "by value"])
def way(request: pytest.FixtureRequest, db: Database) -> str:
    """How rows are retracted: by value if retractions have not met their rows, by whose statistics they may be any."""
    if request.param == "by value":
        db.sql("INSERT INTO t VALUES (-1, -99, ''), (99, 99, 'zz')")
        db.append("t", {"id": [-1, 99], "n": [-99, 99], "s": ["", "zz"]}, diff=-1)
    return str(request.param)


def test_what_does_not_concern_it_makes_nobody_read_again(
    db: Database, place: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Database.open(place, config=CONFIG) as other:
        db.sql("INSERT INTO t VALUES (6, 1, 'a')")
        reads = meanwhile(
            monkeypatch,
            lambda: other.sql("INSERT INTO t VALUES (3, 0, 'b'); INSERT INTO t VALUES (4, 0, 'b')"),
        )
        assert done(db, "UPDATE t SET n = n + 1 WHERE id > 5") == "UPDATE 1"
        assert reads == [1]
        assert rows(other) == [(3, 0, "b"), (4, 0, "b"), (6, 2, "a")]


@pytest.mark.parametrize(
    ("theirs", "said", "there", "reads_by_value"),
    [
        ("INSERT INTO t VALUES (8, 0, 'b')", "UPDATE 2", [(6, 2, "a"), (8, 1, "b")], 1),
        ("UPDATE t SET n = n + 10", "UPDATE 1", [(6, 12, "a")], 1),
        ("UPDATE t SET id = 1", "UPDATE 0", [(1, 1, "a")], 1),
        ("DELETE FROM t", "UPDATE 0", [], 1),
        ("DELETE FROM t; INSERT INTO t VALUES (6, 1, 'a')", "UPDATE 1", [(6, 2, "a")], 1),
        ("INSERT INTO t VALUES (6, 1, 'a')", "UPDATE 2", [(6, 2, "a"), (6, 2, "a")], 1),
        ("ALTER TABLE t ADD COLUMN z int4", "UPDATE 1", [(6, 2, "a", None)], 2),
        ("ALTER TABLE t ADD COLUMN z int4; INSERT INTO t VALUES (1, 1, '', 4)", "UPDATE 1",
         [(1, 1, "", 4), (6, 2, "a", None)], 2),
        ("ALTER TABLE t DROP COLUMN s", "UPDATE 1", [(6, 2)], 2),
    ],
)  # fmt: skip
def test_what_concerns_it_is_seen(
    db: Database,
    place: str,
    way: str,
    monkeypatch: pytest.MonkeyPatch,
    theirs: str,
    said: str,
    there: list[tuple[Any, ...]],
    reads_by_value: int,
) -> None:
    """By value their changes are added to what was read; by position all is found again, because positions are others."""
    with Database.open(place, config=CONFIG) as other:
        db.sql("INSERT INTO t VALUES (6, 1, 'a')")

        def first() -> None:
            # Theirs goes the same way as ours, and meets nobody: what is left to be done is empty by now.
            other.sql(theirs)

        counted = meanwhile(monkeypatch, first)
        assert done(db, "UPDATE t SET n = n + 1 WHERE id > 5") == said
        theirs_read = sum(theirs.count(word) for word in ("UPDATE", "DELETE"))
        assert counted == [(reads_by_value if way == "by value" else 2) + theirs_read]
        assert rows(other, "SELECT * FROM t ORDER BY id") == there


@pytest.mark.usefixtures("way")
def test_a_row_of_theirs_that_fails_fails_ours(
    db: Database, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Database.open(place, config=CONFIG) as other:
        db.sql("INSERT INTO t VALUES (6, 1, 'a')")
        meanwhile(monkeypatch, lambda: other.sql("INSERT INTO t VALUES (7, 0, 'b')"))
        with pytest.raises(tidegate.EvaluationError, match="division by zero") as raised:
            db.sql("UPDATE t SET s = 'c' WHERE 10 / n > 5")
        assert raised.value.row == {"id": 7, "n": 0, "s": "b"}
        meanwhile(monkeypatch, lambda: other.sql("INSERT INTO t VALUES (8, 2147483647, 'b')"))
        with pytest.raises(tidegate.EvaluationError, match="out of range"):
            db.sql("UPDATE t SET n = n + 1")
        assert rows(db) == [(6, 1, "a"), (7, 0, "b"), (8, 2147483647, "b")]
        other.sql("DELETE FROM t WHERE id > 6")
        meanwhile(
            monkeypatch, lambda: other.sql("INSERT INTO t VALUES (7, 0, 'b'); DELETE FROM t WHERE id = 7")
        )
        assert done(db, "UPDATE t SET s = 'c' WHERE 10 / n > 5") == "UPDATE 1"  # it came and went


def test_a_retraction_of_zero_may_take_minus_zero(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Database.open(place, config=CONFIG) as db, Database.open(place, config=CONFIG) as other:
        db.sql("CREATE TABLE t (x float8); INSERT INTO t VALUES ('-0')")
        reads = meanwhile(monkeypatch, lambda: other.append("t", {"x": [0.0]}, diff=-1))
        assert done(db, "DELETE FROM t WHERE x::text = '-0'") == "DELETE 0"
        assert reads == [2]
        assert rows(db, "SELECT * FROM t") == []


def test_compaction_and_sweep_meanwhile_are_not_noticed(
    db: Database, place: str, way: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Database.open(place, clock=clock, config=CONFIG) as other:
        for i in range(3):
            db.sql(f"INSERT INTO t VALUES ({i}, 0, 'a')")

        def housekeeping() -> None:
            assert other.compact("t", full=True).removed == 3
            clock.advance(10_000_000)
            other.sweep()

        reads = meanwhile(monkeypatch, housekeeping)
        assert done(db, "UPDATE t SET n = 1") == "UPDATE 3"
        assert reads == [2 if way == "by position" else 1], "rows that were moved are found again"
        assert rows(db) == [(0, 1, "a"), (1, 1, "a"), (2, 1, "a")]


@pytest.mark.usefixtures("commits_make_files")
def test_who_loses_every_race_is_told_and_leaves_nothing(
    db: Database, place: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrency, "CONTENTION", replace(concurrency.CONTENTION, times=4))
    with Database.open(place, config=CONFIG) as other:
        db.sql("INSERT INTO t VALUES (1, 0, 'a')")
        bump = [lambda: other.append("t", {"id": [2], "n": [0], "s": [""]})] * 4
        reads = meanwhile(monkeypatch, *bump)
        with pytest.raises(
            tidegate.ConflictError, match="made all 4 attempts of this statement fail"
        ) as raised:
            db.sql("UPDATE t SET n = n + 1")
        assert (reads, raised.value.column) == ([4 if way == "by position" else 1], 8)
        assert rows(db) == [(1, 0, "a")] + [(2, 0, "")] * 4
        parts = {entry.name for entry in db.context.root.blob.list("part/")}
        assert len(parts) == db.status().collections["t"].parts
        assert list(db.context.root.blob.list("del/")) == []


WORKER = """
import sys, threading, tidegate
place, script, threads, times = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
db = tidegate.open(place)
changed = []
def work():
    for _ in range(times):
        changed.append(int(db.sql(script).text().split()[-1]))
every = [threading.Thread(target=work) for _ in range(threads)]
for thread in every: thread.start()
for thread in every: thread.join()
assert len(changed) == threads * times, changed
print(sum(changed))
db.close()
"""


def work(place: str, script: str, threads: int, times: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", WORKER, place, script, str(threads), str(times)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def changed_by(worker: subprocess.Popen[str]) -> int:
    out, said = worker.communicate(timeout=280)
    assert worker.returncode == 0, said
    assert said == ""
    return int(out)


def test_processes_and_threads_count_together(tmp_path: Path) -> None:
    place = str(tmp_path / "lake")
    with tidegate.open(place) as db:
        db.sql("CREATE TABLE t (id int8, n int8); INSERT INTO t VALUES (1, 0), (2, 5)")
        counting = "UPDATE t SET n = n + 1 WHERE id = 1"
        workers = [work(place, counting, 2, 15), work(place, counting, 1, 15), work(place, counting, 1, 15)]
        while any(worker.poll() is None for worker in workers):
            db.compact("t", full=True)  # beside them, so that each of them reads few parts
        assert [changed_by(worker) for worker in workers] == [30, 15, 15]
        assert rows(db, "SELECT id, n FROM t ORDER BY id") == [(1, 60), (2, 5)]


def test_what_some_insert_others_delete_once(tmp_path: Path) -> None:
    place = str(tmp_path / "lake")
    with tidegate.open(place) as db:
        db.sql("CREATE TABLE t (id int8, n int8)")
        inserting = work(place, "INSERT INTO t VALUES (1, 1), (2, 2)", 2, 15)
        deleting = [work(place, f"DELETE FROM t WHERE id = {i}", 2, 8) for i in (1, 2)]
        assert changed_by(inserting) == 60
        gone = sum(changed_by(worker) for worker in deleting)
        assert len(rows(db, "SELECT * FROM t")) == 60 - gone
        gone += int(done(db, "DELETE FROM t").split()[1])
        assert gone == 60
        assert rows(db, "SELECT * FROM t") == []


def test_threads_of_one_database_share_it(db: Database) -> None:
    db.sql("INSERT INTO t VALUES (1, 0, ''), (2, 0, '')")
    failures: list[BaseException] = []

    def work(id_: int) -> None:
        try:
            for _ in range(10):
                assert done(db, f"UPDATE t SET n = n + 1 WHERE id = {id_}") == "UPDATE 1"
        except BaseException as error:  # noqa: BLE001  # shown below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(1 + i % 2,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert rows(db, "SELECT id, n FROM t ORDER BY id") == [(1, 20), (2, 20)]
