"""A query that is asked again means what it would mean if it were asked for the first time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tidegate.clock import ManualClock
from tidegate.database import Database
from tidegate.errors import BindError
from tidegate.sql.bind import query as bind
from tidegate.sql.prepared import MAX_TEXT_LENGTH, MAX_TEXTS, PreparedStatements


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture
def db(clock: ManualClock) -> Iterator[Database]:
    with Database.open("memory://", clock=clock) as made:
        made.sql("CREATE TABLE t (id int8, s text); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        yield made


@pytest.fixture
def binds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were bound."""
    texts: list[str] = []
    real = bind.bind_query

    def counted(parsed: Any, *more: Any) -> Any:
        texts.append(parsed.sql)
        return real(parsed, *more)

    monkeypatch.setattr(bind, "bind_query", counted)
    return texts


def test_it_is_parsed_and_bound_once(db: Database, binds: list[str]) -> None:
    sql = "SELECT s FROM t WHERE id = 2"
    assert [db.sql(sql).rows() for _ in range(3)] == [[("b",)]] * 3
    db.sql("INSERT INTO t VALUES (2, 'c')")
    assert sorted(db.sql(sql).rows()) == [("b",), ("c",)]
    assert binds.count(sql) == 1
    prepared = PreparedStatements()
    assert prepared.statements(sql) is prepared.statements(sql)


def test_columns_that_come_and_go_are_seen(db: Database) -> None:
    sql = "SELECT * FROM t ORDER BY id LIMIT 1"
    assert db.sql(sql).rows() == [(1, "a")]
    db.sql("ALTER TABLE t ADD COLUMN n int4")
    assert db.sql(sql).rows() == [(1, "a", None)]
    db.sql("ALTER TABLE t DROP COLUMN s")
    assert db.sql(sql).rows() == [(1, None)]
    db.sql("DROP TABLE t")
    with pytest.raises(BindError, match="no collection or view"):
        db.sql(sql)
    db.sql("CREATE TABLE t (other text); INSERT INTO t VALUES ('new')")
    with pytest.raises(BindError, match="id"):
        db.sql(sql)
    assert db.sql("SELECT * FROM t").rows() == [("new",)]


def test_a_view_that_is_made_anew_is_seen(db: Database) -> None:
    sql = "SELECT * FROM v"
    db.sql("CREATE VIEW v AS SELECT id FROM t WHERE id = 1")
    assert db.sql(sql).rows() == [(1,)]
    db.sql("DROP VIEW v; CREATE VIEW v AS SELECT s, id FROM t WHERE id = 2")
    assert db.sql(sql).rows() == [("b", 2)]
    db.sql("DROP VIEW v; CREATE TABLE v (x int4)")
    assert db.sql(sql).rows() == []


@pytest.mark.parametrize(
    "word", ["now()", "NOW()", "current_timestamp", "transaction_timestamp ( )", "localtimestamp"]
)
def test_now_is_asked_each_time(db: Database, clock: ManualClock, word: str) -> None:
    db.sql(f"CREATE VIEW v AS SELECT extract(epoch FROM {word}) AS at FROM t LIMIT 1")
    for sql in (f"SELECT extract(epoch FROM {word}) FROM t LIMIT 1", "SELECT at FROM v"):
        before = db.sql(sql).rows()
        clock.advance(5_000)
        assert db.sql(sql).rows()[0][0] - before[0][0] == 5


def test_mz_now_is_the_time_of_each_query(db: Database, clock: ManualClock) -> None:
    sql = "SELECT mz_now() FROM t LIMIT 1"
    before = db.sql(sql).rows()[0][0]
    clock.advance(5_000)
    assert int(db.sql(sql).rows()[0][0]) - int(before) == 5_000


def test_only_queries_are_kept_and_not_too_many() -> None:
    prepared = PreparedStatements()
    prepared.statements("CREATE TABLE t (id int8)")
    prepared.statements("SELECT 1; CREATE CONNECTION k TO KAFKA (BROKER 'h', PASSWORD = 'secret')")
    prepared.statements(f"SELECT '{'x' * MAX_TEXT_LENGTH}'")
    assert len(prepared) == 0
    for i in range(MAX_TEXTS + 10):
        prepared.statements(f"SELECT {i}")
    assert len(prepared) == MAX_TEXTS
