"""Functions that are constants of a query: the time, the session, and what everyone gets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, time

import pytest

from tidegate.clock import ManualClock
from tidegate.database import Database
from tidegate.errors import PlanError, TidegateError
from tidegate.sql.bind import session_identity

NOW = 1_700_000_000_567


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def db(clock: ManualClock) -> Iterator[Database]:
    with Database.open("memory://", clock=clock) as opened:
        opened.sql("CREATE TABLE t (id int8); INSERT INTO t VALUES (1), (2)")
        yield opened


def one(db: Database, sql: str) -> object:
    return db.sql(f"SELECT {sql}").rows()[0][0]


def test_the_session(db: Database) -> None:
    words = "current_user, session_user, user, current_role, current_database(), current_catalog, current_schema, current_schema()"
    assert db.sql(f"SELECT {words}").rows() == [("tidegate",) * 6 + ("public",) * 2]
    assert db.sql("SELECT current_user, user, current_schema").names == (
        "current_user",
        "user",
        "current_schema",
    )
    assert db.sql("SELECT version(), pi()").rows() == [("PostgreSQL 15.0 (Tidegate)", math.pi)]


def test_who_asks_is_asked_anew(db: Database) -> None:
    sql = "SELECT id, current_user, current_database() FROM t WHERE id = 1"
    assert db.sql(sql).rows() == [(1, "tidegate", "tidegate")]
    with session_identity("alice", "lake"):
        assert db.sql(sql).rows() == [(1, "alice", "lake")]
    assert db.sql(sql).rows() == [(1, "tidegate", "tidegate")]


def test_the_time(db: Database, clock: ManualClock) -> None:
    now = datetime(2023, 11, 14, 22, 13, 20, 567_000, tzinfo=UTC)
    assert one(db, "current_timestamp") == now
    assert one(db, "current_timestamp(0)") == now.replace(second=21, microsecond=0)
    assert one(db, "localtimestamp(1)") == now.replace(microsecond=600_000, tzinfo=None)
    assert one(db, "localtime") == one(db, "current_time") == time(22, 13, 20, 567_000)
    assert one(db, "current_date") == date(2023, 11, 14)
    sql = "SELECT age(timestamp '2023-11-10') = interval '4 days', age(DATE '2022-11-14') = interval '1 year'"
    assert db.sql(sql).rows() == [(True, True)]
    clock.advance(86_400_000)
    assert db.sql(sql).rows() == [(False, False)]


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("1", "integer"),
        ("'a'", "unknown"),
        ("'a'::varchar(3)", "character varying"),
        ("1.5", "numeric"),
        ("now()", "timestamp with time zone"),
        ("ARRAY[[1]]", "integer[]"),
        ("id", "bigint"),
        ("ROW(1, 2)", "record"),
    ],
)
def test_types_have_the_names_of_postgresql(db: Database, sql: str, name: str) -> None:
    assert db.sql(f"SELECT pg_typeof({sql}) FROM t LIMIT 1").rows() == [(name,)]


@pytest.mark.parametrize("sql", ["current_user", "age(at)", "localtime", "now()"])
def test_what_is_kept_refuses_them(db: Database, sql: str) -> None:
    with pytest.raises(PlanError, match=r"has no fixed value|cannot stand in a transform|another value"):
        db.sql(
            "CREATE SOURCE s FROM GENERATOR orders (ROWS 10) "
            f"TRANSFORM USING (SELECT {sql.replace('at', 'created_at')} FROM orders)"
        )


def test_arguments_by_name(db: Database) -> None:
    assert one(db, "make_interval(days => 3) = interval '3 days'") is True
    assert one(db, "make_interval(1, secs := 1.5) = interval '1 year 1.5 seconds'") is True
    assert one(db, "make_date(day => 3, year => 2020, month => 2)") == date(2020, 2, 3)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("make_interval(foo => 1)", 'parameter "foo" of make_interval does not exist'),
        ("make_interval(days => 1, days => 2)", 'parameter "days" of make_interval is given twice'),
        ("make_interval(days => 1, 2)", "a positional argument cannot follow one with a name"),
        ("make_date(year => 2020, day => 1)", 'parameter "month" of make_date is missing'),
        ("lower(x => 'A')", "the parameters of lower have no names here"),
        ("generate_series(stop => 3, start => 1)", "the parameters of generate_series have no names here"),
        ("sum(x => 1)", "the parameters of sum have no names here"),
    ],
)
def test_names_of_arguments_that_are_wrong(db: Database, sql: str, message: str) -> None:
    with pytest.raises(TidegateError) as caught:
        one(db, sql)
    assert caught.value.message == message
    assert caught.value.position is not None


def test_a_common_table_has_the_same_random_numbers_for_all_readers(db: Database) -> None:
    rows = "WITH c AS (SELECT i, random() AS r FROM generate_series(1, 5000) i) "
    both = "SELECT count(*), count(DISTINCT a.r) FROM c AS a JOIN c AS b ON a.i = b.i AND a.r = b.r"
    assert db.sql(rows + both).rows() == [(5000, 5000)]
