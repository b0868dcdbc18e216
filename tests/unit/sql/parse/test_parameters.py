"""Parameters: every Python value arrives as itself, and none can change what a statement says."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import tidegate
from tidegate import Interval


@pytest.fixture(scope="module")
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://") as opened:
        opened.sql("CREATE TABLE t (id int8, day date, price numeric(10,2), payload jsonb)")
        opened.sql("INSERT INTO t VALUES (1, '2024-01-01', 1.5, '{}'), (2, '2024-01-02', 2.5, NULL)")
        yield opened


def rows(db: tidegate.Database, sql: str, values: Any) -> list[tuple[Any, ...]]:
    return db.sql(sql, values).rows()


@pytest.mark.parametrize(
    "value",
    [
        None, True, 5, -5, 2**40, 1.5, math.inf, Decimal("1.50"), Decimal(-(2**70)), "a'b; DROP TABLE t --", "", "$1", "é\n\\",
        b"\x00\xff", uuid.UUID(int=7), date(2024, 1, 2),
        datetime.fromisoformat("2024-01-02T03:04:05.000006"), datetime(2024, 1, 2, tzinfo=UTC),
        time(1, 2, 3), Interval(1, 2, 3), [1, 2, None], ["a", "'"], [[1], [2]],
    ],
    ids=repr,
)  # fmt: skip
def test_a_value_comes_back(db: tidegate.Database, value: Any) -> None:
    assert rows(db, "SELECT $1", [value]) == [(value,)]
    assert rows(db, "SELECT :v", {"v": value}) == [(value,)]


def test_values_that_become_others(db: tidegate.Database) -> None:
    east = datetime(2024, 1, 2, 3, tzinfo=timezone(timedelta(hours=2)))
    assert rows(db, "SELECT $1", [east]) == [(datetime(2024, 1, 2, 1, tzinfo=UTC),)]
    assert rows(db, "SELECT $1", [timedelta(days=-1, microseconds=3)]) == [(Interval(0, -1, 3),)]
    assert rows(db, "SELECT $1 -> 'a' ->> 1", [{"a": [1, "it's"]}]) == [("it's",)]
    assert rows(db, "SELECT $1, $2", [np.int64(4), np.float32(0.5)]) == [(4, 0.5)]
    assert rows(db, "SELECT $1", [Decimal("1E+3")]) == [(Decimal(1000),)]


def test_a_text_takes_the_type_of_its_place(db: tidegate.Database) -> None:
    assert rows(db, "SELECT id FROM t WHERE day = $1", ["2024-01-02"]) == [(2,)]
    assert rows(db, "SELECT $1::int4 + $2", ["5", "6"]) == [(11,)]
    with pytest.raises(tidegate.BindError, match='invalid input syntax for type date: "x"'):
        rows(db, "SELECT id FROM t WHERE day = $1", ["x"])


def test_in_any_place_of_a_value(db: tidegate.Database) -> None:
    assert rows(db, "SELECT id FROM t WHERE id = ANY($1) ORDER BY id LIMIT $2", [[1, 2], 1]) == [(1,)]
    assert rows(db, "SELECT id FROM t WHERE id IN ($2, $1) ORDER BY 1", [1, 2]) == [(1,), (2,)]
    assert rows(db, "SELECT a.id FROM t a JOIN t b USING (id) WHERE b.id > :low", {"low": 1}) == [(2,)]
    assert rows(db, "SELECT (ARRAY[1,2,3])[1:n] FROM (SELECT 2 AS n) s WHERE n = :k", {"k": 2}) == [([1, 2],)]
    assert rows(db, "SELECT '$1 :k', 1::int4 -- $9 :x", {"k": 2}) == [("$1 :k", 1)]


def test_statements_that_change_rows(db: tidegate.Database) -> None:
    db.sql("INSERT INTO t VALUES ($1, $2, $3, $4)", [9, "2024-02-02", Decimal("2.345"), {"k": 1}])
    db.sql("UPDATE t SET price = price + :more WHERE id = :id", {"more": 1, "id": 9})
    assert rows(db, "SELECT day, price, payload FROM t WHERE id = $1", [9]) == [
        (date(2024, 2, 2), Decimal("3.35"), '{"k":1}')
    ]
    db.sql("DELETE FROM t WHERE id = $1", [9])
    assert rows(db, "SELECT count(*) FROM t", []) == [(2,)]


@pytest.mark.parametrize(
    ("sql", "values", "message"),
    [
        ("SELECT $3", [1], r"there is no value for parameter \$3"),
        ("SELECT $0", [1], r"there is no value for parameter \$0"),
        ("SELECT :b", {"a": 1}, "there is no value for parameter :b"),
        ("SELECT $1", None, r"there is no value for \$1"),
        ("SELECT $1", [object()], "a object cannot be a parameter"),
        ("SELECT $1", [Decimal("NaN")], "a numeric is never NaN"),
        ("SELECT $1", [10**40], "a number has at most 38 digits"),
        ("SELECT $1", ["\0"], "a text cannot hold a NUL character"),
        ("SELECT $1", [{"a": object()}], "must be JSON"),
        ("SELECT 1", 5, "parameters must be a list"),
        ("SELECT 1", "abc", "parameters must be a list"),
        ("CREATE VIEW v AS SELECT $1", [1], "CREATE VIEW takes no parameters"),
        ("CREATE TABLE u (a int4 DEFAULT $1)", [1], "CREATE TABLE takes no parameters"),
    ],
)
def test_what_is_refused(db: tidegate.Database, sql: str, values: Any, message: str) -> None:
    with pytest.raises(tidegate.TidegateError, match=message):
        db.sql(sql, values)


def test_an_error_points_at_the_parameter(db: tidegate.Database) -> None:
    with pytest.raises(tidegate.BindError) as caught:
        db.sql("SELECT id FROM t WHERE day = $1", ["x"])
    assert caught.value.column == 30


def test_tables_of_queries_take_parameters() -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE made AS SELECT $1::int8 AS a", [7])
        db.sql("SELECT a, :name AS name INTO again FROM made WHERE a = :a", {"a": 7, "name": "o'"})
        assert db.sql("SELECT * FROM again").rows() == [(7, "o'")]
