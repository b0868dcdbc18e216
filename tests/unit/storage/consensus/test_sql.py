"""SQLite's log: the search for new entries does not read the old ones, and older files get the index for it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tidegate.storage.consensus.sql import SqliteConsensus

OLDER = (
    "CREATE TABLE consensus "
    "(key TEXT, number INTEGER, data BLOB NOT NULL, PRIMARY KEY (key, number)) STRICT, WITHOUT ROWID"
)


def plan_of_newest(path: Path) -> str:
    with sqlite3.connect(path) as connection:
        query = "EXPLAIN QUERY PLAN SELECT max(number) FROM consensus WHERE key = 'k'"
        return str(connection.execute(query).fetchall())


def test_what_is_new_is_found_without_reading_entries(tmp_path: Path) -> None:
    log = SqliteConsensus(tmp_path / "log")
    assert log.scan("k", 0) == []
    for number in range(3):
        assert log.compare_and_set("k", number - 1 if number else None, b"x" * 100_000)
    assert [entry.number for entry in log.scan("k", 1)] == [1, 2]
    assert log.scan("k", 3) == []
    assert log.scan("other", 0) == []
    assert "COVERING INDEX consensus_numbers" in plan_of_newest(tmp_path / "log")
    log.close()


def test_a_file_of_an_older_version(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with sqlite3.connect(path) as connection:
        connection.execute(OLDER)
        connection.executemany("INSERT INTO consensus VALUES ('k', ?, ?)", [(0, b"a"), (1, b"b")])
    log = SqliteConsensus(path)
    assert [(entry.number, entry.data) for entry in log.scan("k", 0)] == [(0, b"a"), (1, b"b")]
    assert log.compare_and_set("k", 1, b"c")
    assert not log.compare_and_set("k", 1, b"d")
    log.truncate("k", 2)
    assert [(entry.number, entry.data) for entry in log.scan("k", 0)] == [(2, b"c")]
    assert "COVERING INDEX consensus_numbers" in plan_of_newest(path)
    log.close()
