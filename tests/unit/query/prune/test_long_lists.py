"""`IN` with many constants: each part gets those within its bounds, and the rows are the same."""

from __future__ import annotations

import random
from typing import Any

import pytest

import tidegate
from tidegate.query.prune import long_lists

TYPES = {
    "int8": lambda i: i,
    "int2": lambda i: i % 30_000,
    "text": lambda i: f"k{i:06}" if i % 7 else f"ä{i}",
    "bytea": lambda i: f"k{i:06}".encode(),
    "date": lambda i: f"{1970 + i % 200}-01-{1 + i % 28:02}",
    "timestamptz": lambda i: f"2024-01-01 00:00:00.{i:06}+00",
    "float8": lambda i: i / 4,
    "numeric(10,2)": lambda i: f"{i}.50",
}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lists of four constants are long; how many constants each part was asked for."""
    monkeypatch.setattr(long_lists, "MIN_VALUES", 4)
    asked: list[int] = []
    narrow = long_lists._LongList.narrow

    def noting(self: long_lists._LongList, place: int) -> Any:
        condition = narrow(self, place)
        asked.append(len(condition.args[1].value.values))  # type: ignore[union-attr]  # a call with two arguments
        return condition

    monkeypatch.setattr(long_lists._LongList, "narrow", noting)
    return asked


def quoted(value: Any) -> str:
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    return f"'{value}'" if isinstance(value, str) else str(value)


def filled(type_: str, parts: int = 6, rows: int = 50) -> tidegate.Database:
    db = tidegate.open("memory://", config=tidegate.Config(audit=1.0))
    db.sql(f"CREATE TABLE t (k {type_}, n int8)")
    make = TYPES[type_]
    for part in range(parts):
        numbers = range(part * rows, (part + 1) * rows)
        values = ", ".join(f"({quoted(make(i)) if i % 11 else 'NULL'}, {i})" for i in numbers)
        db.sql(f"INSERT INTO t VALUES {values}")
    return db


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("null", [False, True])
def test_the_same_rows_as_without_statistics(short: list[int], type_: str, null: bool) -> None:
    rng = random.Random(type_)
    with filled(type_) as db:
        for count in (4, 20, 200):
            wanted = [TYPES[type_](rng.randrange(400)) for _ in range(count)]
            listed = ", ".join([*map(quoted, wanted), *(["NULL"] if null else [])])
            for where in (f"k IN ({listed})", f"k IN ({listed}) AND n % 3 = 0", f"NOT k IN ({listed})"):
                sql = f"SELECT n FROM t WHERE {where} ORDER BY n"
                db.set("stats_filter", True)
                found = db.sql(sql).rows()
                db.set("stats_filter", False)
                assert found == db.sql(sql).rows(), where
                assert found or "NOT" in where or count == 4


def test_each_part_is_asked_for_the_constants_within_its_bounds(short: list[int]) -> None:
    with filled("int8") as db:
        listed = ", ".join(str(i) for i in [1, 2, 3, 60, 61, 260, 999])
        assert len(db.sql(f"SELECT n FROM t WHERE k IN ({listed})").rows()) == 6
        assert sorted(short) == [1, 2, 3]


def test_deleted_where_in(short: list[int]) -> None:
    with filled("text") as db:
        listed = ", ".join(quoted(TYPES["text"](i)) for i in range(1, 300, 3))
        before = set(db.sql("SELECT n FROM t").rows())
        gone = {(i,) for i in range(1, 300, 3) if i % 11}
        db.sql(f"DELETE FROM t WHERE k IN ({listed})")
        assert set(db.sql("SELECT n FROM t").rows()) == before - gone
        assert short


def test_without_statistics_nothing_is_narrowed(short: list[int]) -> None:
    with filled("int8") as db:
        db.set("stats_filter", False)
        assert db.sql("SELECT n FROM t WHERE k IN (1, 2, 3, 4, 999)").rows() == [(1,), (2,), (3,), (4,)]
        assert not short
