"""TPC-H at scale 0.01: the embedded engine gives the answers of DuckDB, also after rows were deleted and appended again.

`tests/spark/test_tpch.py` asks them on Spark; `make bench-tpch` measures them at scale 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidegate
from bench.tpch.__main__ import change, comparable
from bench.tpch.tables import duckdb_over, lake, queries

SCALE = 0.01


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[tidegate.Database, Any]]:
    """Our database and DuckDB over its files, as they were before rows changed."""
    folder = tmp_path_factory.mktemp("tpch")
    with lake(Path(folder), SCALE) as db:
        peer = duckdb_over(db)
        expected = {number: comparable(peer.sql(sql).to_arrow_table()) for number, sql in queries().items()}
        yield db, expected


def test_the_questions_are_those_of_tpch() -> None:
    assert list(queries()) == list(range(1, 23))
    assert all(sql.lstrip().upper().startswith(("SELECT", "WITH")) for sql in queries().values())


def ask_all(db: tidegate.Database, expected: Any) -> None:
    for number, sql in queries().items():
        result = db.sql(f"{sql} OPTIONS (engine = embedded)")
        assert comparable(result.arrow()) == expected[number], number
        assert result.path in ("embedded", "local"), number


def test_every_question(tables: tuple[tidegate.Database, Any]) -> None:
    db, expected = tables
    assert any(rows for rows in expected.values())
    ask_all(db, expected)


def test_every_question_after_changes(tables: tuple[tidegate.Database, Any]) -> None:
    db, expected = tables
    change(db)
    ask_all(db, expected)
