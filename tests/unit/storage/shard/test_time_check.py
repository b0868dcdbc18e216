"""Times far ahead of the clock: refused with a guess why; and what was written with one can be repaired."""

from __future__ import annotations

import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tidegate.clock import ManualClock
from tidegate.config import Config
from tidegate.database import Database
from tidegate.errors import TimeError
from tidegate.storage.shard.time_check import unit_of

NOW = 1_794_954_215_000
YEAR = 365 * 86_400_000
ANY = Config(max_ahead_ms=0)
"""A version that does not look at times, as those before it."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def where() -> str:
    return f"memory://{secrets.token_hex(6)}"


def table(where: str, clock: ManualClock, config: Config | None = None) -> Database:
    db = Database.open(where, clock=clock, config=config or Config())
    db.sql("CREATE TABLE IF NOT EXISTS t (id int8, at timestamptz)")
    return db


def poisoned(where: str, clock: ManualClock, at: int = NOW + YEAR) -> Database:
    """A table with a row of now, and one that is dated ahead."""
    with table(where, clock, ANY) as older:
        older.append("t", {"id": [1], "at": [NOW * 1000]})
        older.append("t", {"id": [2], "at": [NOW * 1000]}, at=at)
    return table(where, clock)


def found(db: Database, sql: str = "SELECT id FROM t ORDER BY id", **more: Any) -> list[int]:
    return [row[0] for row in db.sql(sql, **more).rows()]


RECENT = "SELECT id FROM t WHERE mz_now() <= at + '30 days' ORDER BY id"

# ---------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("at", "hint"),
    [
        (NOW + YEAR, "set max_ahead_ms higher"),
        (NOW + 600_001, "set max_ahead_ms higher"),
        (NOW * 1000, "looks like microseconds(.|\n)*divide it by 1000"),
        (NOW * 1_000_000, "looks like nanoseconds(.|\n)*divide it by 1000000"),
        (2**63 - 2, "set max_ahead_ms higher"),
    ],
)
def test_a_time_far_ahead_is_refused_and_leaves_nothing(
    where: str, clock: ManualClock, at: int, hint: str
) -> None:
    with table(where, clock) as db:
        db.append("t", {"id": [1], "at": [None]}, at=1000)
        with pytest.raises(TimeError, match=rf"cannot append at {at}: that is .* ahead of (.|\n)*{hint}"):
            db.append("t", {"id": [2], "at": [None]}, at=at)
        assert found(db) == [1]
        assert db.status().collections["t"].upper == 1001
        db.append("t", {"id": [3], "at": [None]}, at=NOW + 600_000)  # clocks differ by minutes
        db.sql("INSERT INTO t VALUES (4, NULL)")
        assert found(db) == [1, 3, 4]


def test_seconds_are_recognised_below_the_upper(where: str, clock: ManualClock) -> None:
    with table(where, clock) as db:
        db.append("t", {"id": [1], "at": [None]})
        with pytest.raises(TimeError, match=r"looks like seconds(.|\n)*multiply it by 1000"):
            db.append("t", {"id": [2], "at": [None]}, at=NOW // 1000)


def test_the_guess_is_no_guess_for_times_that_are_just_wrong() -> None:
    assert unit_of(NOW + YEAR, NOW) is None
    assert unit_of(5, NOW) is None
    assert unit_of(1_000, 0) is None


def test_a_time_far_ahead_is_not_waited_for(where: str, clock: ManualClock) -> None:
    with table(where, clock) as db:
        db.append("t", {"id": [1], "at": [None]})
        with pytest.raises(TimeError, match="looks like microseconds"):
            db.sql("SELECT id FROM t", as_of=NOW * 1000)
        with pytest.raises(TimeError, match="cannot read at"):
            db.sql(f"SELECT id FROM t AS OF {NOW + YEAR}")


def test_the_knob(where: str, clock: ManualClock) -> None:
    with table(where, clock) as db:
        db.set("max_ahead_ms", 2 * YEAR)
        db.append("t", {"id": [1], "at": [None]}, at=NOW + YEAR)
        db.set("max_ahead_ms", 0)
        db.append("t", {"id": [2], "at": [None]}, at=NOW + 30 * YEAR)
        assert found(db) == [1, 2]


# ---------------------------------------------------------------- what got in all the same


def test_a_clock_far_behind_is_an_error_that_says_so(where: str, clock: ManualClock) -> None:
    with poisoned(where, clock) as db:
        said = "complete up to .* 365 days, .*ahead of this machine's clock(.|\n)*repair"
        for statement in (
            "INSERT INTO t VALUES (3, NULL)",
            "UPDATE t SET id = 4",
            "DELETE FROM t",
            RECENT,
            f"SELECT count(*) FROM ({RECENT}) AS q",
            "SELECT max(id), mz_now() FROM t",
            "DELETE FROM t WHERE mz_now() > at + '30 days'",
        ):
            with pytest.raises(TimeError, match=said):
                db.sql(statement)
        with pytest.raises(TimeError, match=said):
            db.append("t", {"id": [3], "at": [None]})
        # What does not depend on the time is read as ever, and so is the past.
        assert found(db) == [1, 2]
        assert db.sql("SELECT count(*) FROM t").rows() == [(2,)]
        assert found(db, as_of=NOW) == found(db, RECENT, as_of=NOW) == [1]


def test_a_repaired_collection_works_for_everybody(where: str, clock: ManualClock) -> None:
    with poisoned(where, clock) as db, table(where, clock) as other:
        assert found(other) == [1, 2]
        clock.advance(10)
        done = db.repair("t")
        assert (done.parts, done.upper_before, done.upper) == (1, NOW + YEAR + 1, NOW + 11)
        for each in (db, other):
            assert found(each) == found(each, RECENT) == [1, 2]
            assert found(each, as_of=NOW) == found(each, as_of=NOW + 9) == [1]
            assert found(each, as_of=NOW + 10) == [1, 2]
        clock.advance(10)
        other.sql("INSERT INTO t VALUES (3, NULL)")
        db.sql("UPDATE t SET id = id + 10 WHERE id = 2")
        assert found(db) == found(other) == [1, 3, 12]
        db.compact("t", full=True)
        db.sweep()
        assert found(db) == found(other) == [1, 3, 12]
        assert found(db, as_of=NOW + 10) == [1, 2]
        assert db.status().collections["t"].upper <= clock.now() + 10
        assert db.repair("t").parts == 0  # there is nothing left to repair
        assert found(db) == [1, 3, 12]


def test_nothing_is_repaired_where_nothing_is_wrong(where: str, clock: ManualClock) -> None:
    with table(where, clock) as db:
        assert db.repair("t").parts == 0
        db.append("t", {"id": [1], "at": [None]}, at=NOW + 500_000)
        before = db.status()
        assert db.repair("t").parts == 0
        assert db.status() == before


def test_a_clock_that_disagrees_with_writers_does_not_repair(where: str, clock: ManualClock) -> None:
    """The machine that is behind would give good rows a time of last year, and make one time of all since."""
    with table(where, clock) as db:
        for day in range(3):
            clock.set(NOW + day * 86_400_000)
            db.append("t", {"id": [day], "at": [None]})
        clock.set(NOW - YEAR)
        with pytest.raises(TimeError, match="one of them is wrong"):
            db.repair("t")
        assert found(db) == [0, 1, 2]
        clock.set(NOW + 3 * 86_400_000)
        assert found(db, as_of=NOW + 86_400_000) == [0, 1]


def test_a_writer_whose_clock_was_ahead(where: str, clock: ManualClock) -> None:
    with table(where, clock) as db:
        db.append("t", {"id": [1], "at": [None]})
        clock.advance(YEAR)
        db.append("t", {"id": [2], "at": [None]})
        clock.set(NOW + 5)
        with pytest.raises(TimeError, match="one of them is wrong"):
            db.repair("t")
        with pytest.raises(TimeError, match="looks like microseconds"):
            db.repair("t", to=NOW * 1000)
        assert db.repair("t", to=NOW + 5).upper == NOW + 6
        db.sql("INSERT INTO t VALUES (3, NULL)")
        assert found(db) == [1, 2, 3]
        assert found(db, as_of=NOW) == [1]


def test_killed_before_and_after_its_entry(tmp_path: Path) -> None:
    with tidegate.open(tmp_path, config=ANY) as db:
        db.sql("CREATE TABLE t (id int8)")
        db.append("t", {"id": [1]})
        db.append("t", {"id": [2]}, at=4 * NOW)
    code = (
        "import os, sys, tidegate\n"
        "from tidegate.storage.consensus.sql import SqliteConsensus as S\n"
        "propose, when = S.compare_and_set, sys.argv[2]\n"
        "def killed(self, key, expected, data):\n"
        "    if b'\"repair\"' not in data: return propose(self, key, expected, data)\n"
        "    if when == 'after': propose(self, key, expected, data)\n"
        "    os._exit(9)\n"
        "S.compare_and_set = killed\n"
        "tidegate.open(sys.argv[1]).repair('t')"
    )
    for when, wrong in (("before", True), ("after", False)):
        killed = subprocess.run([sys.executable, "-c", code, str(tmp_path), when], check=False)
        assert killed.returncode == 9
        with tidegate.open(tmp_path) as db:
            assert found(db) == [1, 2]
            assert (db.status().collections["t"].upper > 3 * NOW) == wrong
    with tidegate.open(tmp_path) as db:
        db.sql("INSERT INTO t VALUES (3)")
        assert found(db) == [1, 2, 3]
