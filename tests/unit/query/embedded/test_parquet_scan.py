"""Parts that DuckDB reads by itself: the same rows as our own scan, at every time, after every kind of change."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

import tidegate
from tests.differential.general import TABLES, batches, rows
from tests.ingest.expiring import TRANSFORMS, World
from tidegate.query.embedded import execution, parquet_scan
from tidegate.storage.part import page_table

SQL = (
    "SELECT t.k, t.n, t.f, t.s, t.d, t.z, u.w FROM t JOIN u ON t.k % 7 = u.k",
    "SELECT s, count(*), sum(n), min(d), max(z) FROM t, u WHERE u.k = 1 GROUP BY s",
    "SELECT k FROM t WHERE n > 3 AND k NOT IN (SELECT k FROM u) AND z < '2024-01-03'",
    "SELECT count(*) FROM t a JOIN t b USING (k)",
)


@pytest.fixture(autouse=True)
def _small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of any size are written with a table of pages, and read by DuckDB."""
    monkeypatch.setattr(page_table, "MIN_TABLE_BYTES", 1)
    monkeypatch.setattr(execution, "MAX_TABLE_BYTES", 0)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tidegate.Database]:
    with tidegate.open(tmp_path / "lake") as made:
        made.sql("CREATE TABLE t (k int8, n numeric(12,3), f float8, s text, d date, z timestamptz)")
        made.sql("CREATE TABLE u (k int8, w text)")
        made.append("u", {"k": [0, 1, 2, 3], "w": ["a", "b", None, "d"]}, at=1_000)
        for part in range(4):
            made.append("t", some_rows(part), at=1_000 * (part + 1))
        made.append("u", {"k": [5], "w": ["late"]}, at=3_000)
        made.append("u", {"k": [6], "w": ["later"]}, at=5_000)
        yield made


def some_rows(seed: int) -> dict[str, list[object]]:
    r = random.Random(seed)
    count = 300
    return {
        "k": [r.randrange(500) for _ in range(count)],
        "n": [None if r.random() < 0.1 else Decimal(r.randrange(9_000)) / 1000 for _ in range(count)],
        "f": [r.choice([0.0, -0.0, float("nan"), 1.5, None]) for _ in range(count)],
        "s": [r.choice(["x", "é", "", None, "it's"]) for _ in range(count)],
        "d": [date(2024, 1, r.randrange(1, 29)) for _ in range(count)],
        "z": [
            datetime(2024, 1, r.randrange(1, 9), 10, 0, 0, r.randrange(999_999), UTC) for _ in range(count)
        ],
    }


def check(db: tidegate.Database, monkeypatch: pytest.MonkeyPatch, as_of: int | None = None) -> int:
    """Compares DuckDB's reading with ours; how many parts DuckDB read."""
    files = 0
    plan = parquet_scan.plan_parquet_scan

    def counted(scan: execution.RelationalScan) -> parquet_scan.ParquetScan | None:
        nonlocal files
        found = plan(scan)
        files += 0 if found is None else len(found.files)
        return found

    for sql in SQL:
        monkeypatch.setattr(execution, "plan_parquet_scan", counted)
        direct = db.sql(f"{sql} OPTIONS (engine = embedded)", as_of=as_of)
        monkeypatch.setattr(execution, "plan_parquet_scan", lambda scan: None)
        ours = db.sql(f"{sql} OPTIONS (engine = embedded)", as_of=as_of)
        assert sorted(map(repr, direct.rows())) == sorted(map(repr, ours.rows())), sql
        assert direct.path == "embedded"
        assert direct.scan.parts_read == ours.scan.parts_read, sql
    return files


def test_rows_that_were_only_appended(db: tidegate.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(db, monkeypatch) > 4 * len(SQL)


def test_deleted_and_updated_rows_at_every_time(
    db: tidegate.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.sql("DELETE FROM t WHERE k % 5 = 1")
    db.sql("UPDATE t SET n = n + 1 WHERE k % 7 = 2")
    db.sql("DELETE FROM t WHERE k BETWEEN 100 AND 140")
    assert db.sql("SELECT count(*) FROM t").rows() != [(1_200,)]
    assert check(db, monkeypatch) > 4 * len(SQL)
    for as_of in (1_000, 2_500, 4_500):
        assert check(db, monkeypatch, as_of) > 0
    db.compact("t")
    assert check(db, monkeypatch) > 0


def test_columns_named_as_those_that_duckdb_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "MAX_TABLE_BYTES", 0)
    with tidegate.open(tmp_path / "lake", config=tidegate.Config(audit=0.0)) as db:
        db.sql("CREATE TABLE t (k int8, file_index int8, file_row_number int8)")
        for first in (0, 100):
            ks = list(range(first, first + 100))
            db.append("t", {"k": ks, "file_index": ks, "file_row_number": ks})
        sql = "SELECT k, count(*) OVER () FROM t OPTIONS (engine = embedded)"
        assert len(db.sql(sql).rows()) == 200
        db.sql("DELETE FROM t WHERE k = 150")
        assert sorted(db.sql(sql).rows()) == [(k, 199) for k in range(200) if k != 150]


@pytest.mark.parametrize("other", ["K", "_TIME"])
def test_columns_whose_names_differ_only_in_case(tmp_path: Path, other: str) -> None:
    """DuckDB would read the first of them for both."""
    with tidegate.open(tmp_path / "lake") as db:
        db.sql(f'CREATE TABLE t (k int8, "{other}" int8)')
        db.append("t", {"k": list(range(100)), other: [-n for n in range(100)]})
        for left in (100, 99):
            found = db.sql(f'SELECT k, "{other}", count(*) OVER () FROM t OPTIONS (engine = embedded)').rows()
            assert sorted(found) == [(n, -n, left) for n in range(100 - left, 100)]
            db.sql("DELETE FROM t WHERE k = 0")


def test_more_rows_than_there_are_bits_for(db: tidegate.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.sql("DELETE FROM t WHERE k % 5 = 1")
    every = check(db, monkeypatch)
    monkeypatch.setattr(parquet_scan, "MAX_DELETED_BITS", 700)
    assert 0 < check(db, monkeypatch) < every


def test_pending_retractions_and_repeated_rows(
    db: tidegate.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.append("t", some_rows(9), diff=[1 + i % 3 for i in range(300)])
    repeated = check(db, monkeypatch)
    assert repeated > 0
    db.set("retraction_lookup_bytes", 0)
    db.append("t", some_rows(1), diff=-1)
    assert check(db, monkeypatch) < repeated, "t is read by our own scan, as its rows must meet"


def test_a_column_that_was_added(db: tidegate.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.sql("ALTER TABLE t ADD COLUMN more text")
    db.append("t", some_rows(5) | {"more": ["m"] * 300})
    assert check(db, monkeypatch) > 0
    found = db.sql("SELECT more, count(*) FROM t, u WHERE u.k = 1 GROUP BY more ORDER BY 1").rows()
    assert found == [("m", 300), (None, 1_200)]


@pytest.mark.parametrize("transform", ["upto", "window", "window retract"])
def test_rows_that_come_and_go_by_themselves(tmp_path: Path, transform: str) -> None:
    """At each time the collection holds what RAW says (`tests/ingest/expiring.py`)."""
    name, _, retracts = transform.partition(" ")
    world = World(tmp_path / "lake", random.Random(transform), TRANSFORMS[name], bool(retracts), 400)
    with world.db as db:
        for _ in range(8):
            world.ingest()
            world.clock.advance(20)
        world.ingest()
        sql = "SELECT id, x, count(*) OVER () FROM c OPTIONS (engine = embedded)"
        for as_of in (None, *world.times(2)):
            result = db.sql(sql, as_of=as_of)
            assert result.path == "embedded"
            truth = world.truth(world.now if as_of is None else as_of)
            assert Counter(row[:2] for row in result.rows()) == truth


def test_a_flipped_byte_is_an_error_that_names_the_part(db: tidegate.Database, tmp_path: Path) -> None:
    files = [file for file in (tmp_path / "lake" / "part").rglob("*") if file.is_file()]
    target = max(files, key=lambda file: file.stat().st_size)
    data = bytearray(target.read_bytes())
    sql = "SELECT t.* FROM t JOIN u ON t.k % 7 = u.k"
    db.sql(sql)
    for at in range(40, 400, 40):
        flipped = bytearray(data)
        flipped[at] ^= 1
        target.write_bytes(flipped)
        with pytest.raises(tidegate.CorruptError, match=target.name):
            db.sql(sql)
    target.write_bytes(data)
    db.sql(sql)


def test_small_files_without_a_table_of_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are verified each time: what our own scan has cached of them is not what DuckDB reads."""
    monkeypatch.setattr(page_table, "MIN_TABLE_BYTES", 1 << 16)
    with tidegate.open(tmp_path / "lake", config=tidegate.Config(inline_bytes=0)) as db:
        db.sql("CREATE TABLE t (k int8, s text)")
        for first in (0, 10):
            db.append("t", {"k": list(range(first, first + 10)), "s": ["x"] * 10})
        db.sql("DELETE FROM t WHERE k = 3")
        files, plan = 0, parquet_scan.plan_parquet_scan

        def counted(scan: execution.RelationalScan) -> parquet_scan.ParquetScan | None:
            nonlocal files
            found = plan(scan)
            files += 0 if found is None else len(found.files)
            return found

        monkeypatch.setattr(execution, "plan_parquet_scan", counted)
        sql = "SELECT k, count(*) OVER () FROM t OPTIONS (engine = embedded)"
        result = db.sql(sql)
        assert sorted(result.rows()) == [(k, 19) for k in range(20) if k != 3]
        assert (files, result.scan.parts_read) == (2, 2)
        db.set("inline_bytes", 4096)
        db.append("t", {"k": [20], "s": ["in the log"]})
        assert (len(db.sql(sql).rows()), files) == (20, 4), "DuckDB cannot read what has no file"
        for target in (file for file in (tmp_path / "lake" / "part").rglob("*") if file.is_file()):
            data = target.read_bytes()
            target.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
            with pytest.raises(tidegate.CorruptError, match=target.name):
                db.sql(sql)
            target.write_bytes(data)


def test_the_tables_of_general_sql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Types that DuckDB does not read as we do, jsonb and intervals, are read by our own scan."""
    with tidegate.open(tmp_path / "lake") as db:
        for name, columns in TABLES.items():
            db.sql(f"CREATE TABLE {name} ({columns})")
            for some in batches(name, rows()[name]):
                values = ", ".join(f"({', '.join(row)})" for row in some)
                db.sql(f"INSERT INTO {name} VALUES {values}")
        for sql in (
            "SELECT o.*, c.* FROM orders o LEFT JOIN customers c ON o.customer = c.id",
            "SELECT p.*, i.amount FROM items i JOIN products p ON i.product = p.id",
        ):
            direct = db.sql(sql).rows()
            with monkeypatch.context() as patch:
                patch.setattr(execution, "plan_parquet_scan", lambda scan: None)
                assert sorted(map(repr, direct)) == sorted(map(repr, db.sql(sql).rows()))
