"""Small parts that are asked for single values again are not read if they have none of them."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate
from tidegate.config import Config
from tidegate.errors import AuditError, EvaluationError
from tidegate.expr.model import types
from tidegate.query.late import row_index
from tidegate.query.late.row_index import NO_INDEX, RowIndex, numbers_of
from tidegate.storage.stats import PAGE_ROWS

START = dt.datetime(2026, 1, 1)  # noqa: DTZ001  # a timestamp without a time zone


def filled(audit: float = 0.0, rows: int = 900) -> tidegate.Database:
    """A table of three parts over the same range of each column: its statistics tell nothing."""
    db = tidegate.open("memory://", config=Config(audit=audit))
    db.sql("CREATE TABLE t (id int8, small int2, day date, at timestamp, n int8, d int8)")
    for part in range(3):
        ids = np.arange(rows) * 3 + part
        db.append(
            "t",
            pa.table(
                {
                    "id": np.random.default_rng(part).permutation(ids),
                    "small": pa.array(ids % 97, pa.int16()),
                    "day": pa.array([START.date() + dt.timedelta(int(i) * 7 % 991) for i in ids]),
                    "at": pa.array([START + dt.timedelta(minutes=int(i)) for i in ids]),
                    "n": pa.array([None if i % 50 == 0 else i for i in ids], pa.int64()),
                    "d": ids % 5,
                }
            ),
        )
    return db


def indexes_of(db: tidegate.Database) -> list[RowIndex]:
    """What is kept of its parts."""
    entries = db.context.table("t").machine.files.indexes._entries.values()
    return [one for one in entries if isinstance(one, RowIndex)]


@pytest.mark.parametrize(
    ("where", "parts"),
    [
        ("id = 301", 1),
        ("301 = id", 1),
        ("id = 301 AND d >= 0", 1),
        ("id IN (301, 302, 601)", 2),
        ("id IN (301, 2698)", 1),
        ("id = 301 OR id = 302", 2),  # the binder makes a list of it
        ("at = TIMESTAMP '2026-01-01 05:01:00'", 1),
        ("day = DATE '2026-01-08'", 3),
        ("small = 4", 3),
        ("n = 301", 3),  # a column with NULL
        ("id + 0 = 301", 3),
    ],
)
def test_parts_without_the_value_are_not_read(where: str, parts: int) -> None:
    with filled() as db:
        sql = f"SELECT id, small FROM t WHERE {where} ORDER BY id"
        db.set("stats_filter", False)
        plain = db.sql(sql).rows()
        db.set("stats_filter", True)
        found = [db.sql(sql) for _ in range(3)]
        assert [one.rows() for one in found] == [plain] * 3
        assert found[-1].scan.rows_read == parts * 900


def test_nothing_is_made_of_a_column_that_is_asked_once() -> None:
    with filled() as db:
        db.sql("SELECT * FROM t WHERE id = 301").rows()
        assert indexes_of(db) == [NO_INDEX] * 3
        db.sql("SELECT * FROM t WHERE id = 301").rows()
        assert sum(one.usable for one in indexes_of(db)) == 3


def test_pages_of_a_part_without_the_value_are_not_read() -> None:
    with filled(rows=3 * PAGE_ROWS) as db:
        for _ in range(2):
            found = db.sql("SELECT id FROM t WHERE id = 301")
        assert (found.rows(), found.scan.rows_read) == ([(301,)], PAGE_ROWS)


def pages_of_every_tenth() -> tidegate.Database:
    """One part of three pages whose ids rise by ten: bounds leave one page, and nine of ten ids are on none."""
    db = tidegate.open("memory://", config=Config(audit=1.0))
    db.sql("CREATE TABLE t (id int8, d int8)")
    ids = np.arange(3 * PAGE_ROWS) * 10
    db.append("t", pa.table({"id": ids, "d": ids % 7}))
    return db


def look_up(db: tidegate.Database, id_: int) -> tuple[list[tuple[object, ...]], int]:
    found = db.sql(f"SELECT id FROM t WHERE id = {id_}")
    return found.rows(), found.scan.rows_read


def test_a_part_in_which_most_look_ups_find_nothing_gets_an_index() -> None:
    with pages_of_every_tenth() as db:
        assert [look_up(db, 90_000 + i) for i in (1, 2)] == [([], PAGE_ROWS)] * 2
        assert [look_up(db, 90_000 + i) for i in (3, 4)] == [([], 0)] * 2
        assert look_up(db, 90_010) == ([(90_010,)], PAGE_ROWS)


def test_a_part_in_which_most_look_ups_find_a_row_gets_none() -> None:
    with pages_of_every_tenth() as db:
        for i in range(4):
            assert look_up(db, 90_000 + 10 * i) == ([(90_000 + 10 * i,)], PAGE_ROWS)
            assert look_up(db, 90_001 + 10 * i) == ([], PAGE_ROWS)
        assert not indexes_of(db)


def test_pages_whose_rows_with_the_value_are_deleted_are_not_read() -> None:
    with pages_of_every_tenth() as db:
        at = db.context.table("t").machine.fetch().upper - 1
        db.sql("DELETE FROM t WHERE id IN (90000, 90010)")
        assert [look_up(db, 90_000)[0] for _ in range(2)] == [[]] * 2
        assert look_up(db, 90_010) == ([], 0)
        assert db.sql("SELECT id FROM t WHERE id = 90010", as_of=at).rows() == [(90_010,)]


def test_large_parts_have_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_index, "MAX_ROWS", 899)
    monkeypatch.setattr(row_index, "MAX_SPARSE_ROWS", 899)
    with filled() as db:
        for _ in range(3):
            found = db.sql("SELECT id FROM t WHERE id = 301")
        assert (found.rows(), found.scan.rows_read) == ([(301,)], 2700)


def test_errors_are_those_of_a_full_read() -> None:
    """FALSE beats an error; NULL does not."""
    with filled() as db:
        for use in (False, True):
            db.set("stats_filter", use)
            for _ in range(3):
                assert db.sql("SELECT id FROM t WHERE 1 / (id - 302) < 0 AND id = 301").rows() == [(301,)]
                with pytest.raises(EvaluationError):
                    db.sql("SELECT id FROM t WHERE 1 / (d - 0) = 0 AND n = 301").rows()


def test_deleted_and_added_rows_are_seen() -> None:
    with filled() as db:
        sql = "SELECT id, d FROM t WHERE id = 301"
        before = [db.sql(sql).rows() for _ in range(3)]
        at = db.context.table("t").machine.fetch().upper - 1
        db.sql("UPDATE t SET d = 99 WHERE id % 7 = 0")
        for _ in range(3):
            assert db.sql(sql).rows() == [(301, 99)]
            assert db.sql(sql, as_of=at).rows() == before[0]
        db.sql("DELETE FROM t WHERE id = 301")
        assert [db.sql(sql).rows() for _ in range(3)] == [[]] * 3


def test_an_index_that_lies_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with filled(audit=1.0) as db:
        db.sql("SELECT id FROM t WHERE id = 301").rows()
        monkeypatch.setattr(RowIndex, "find", lambda self, wanted: self.positions[:0])
        with pytest.raises(AuditError):
            db.sql("SELECT id FROM t WHERE id = 301").rows()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=1), st.lists(st.integers(-6, 6), max_size=5, unique=True))
def test_find_is_a_search(values: list[int], wanted: list[int]) -> None:
    """Whatever is equal is found, and nothing else; small numbers, so that many are equal."""
    index = RowIndex.of([pa.array(values, pa.int64())], types.INT8)
    found = index.find(numbers_of(pa.array(wanted, pa.int64()), types.INT8))
    assert sorted(found.tolist()) == [at for at, value in enumerate(values) if value in wanted]
