"""Strings and NULLs of a select list take the type of the column that they become, as in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

import tidegate


@pytest.fixture
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://") as opened:
        opened.sql("CREATE TABLE t (id int8, day date, price numeric(10,2), name varchar(3))")
        yield opened


def test_insert_select(db: tidegate.Database) -> None:
    db.sql("INSERT INTO t SELECT 1, '2024-01-01', '1.555', 'abc'")
    db.sql("INSERT INTO t (price, id) SELECT '7', id + 1 FROM t")
    db.sql("INSERT INTO t (SELECT '3', NULL, NULL, NULL)")
    assert db.sql("SELECT * FROM t ORDER BY id").rows() == [
        (1, date(2024, 1, 1), Decimal("1.56"), "abc"),
        (2, None, Decimal("7.00"), None),
        (3, None, None, None),
    ]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("INSERT INTO t SELECT 1, 'x'", 'invalid input syntax for type date: "x"'),
        ("INSERT INTO t SELECT '1.5'", 'invalid input syntax for type bigint: "1.5"'),
        ("INSERT INTO t SELECT 1, NULL, NULL, 'abcd'", "too long"),
        ("INSERT INTO t SELECT 1, '2024-01-01' UNION ALL SELECT 2, '2024-01-02'", "expected date, got text"),
        ("SELECT 1 UNION SELECT 'a'", 'invalid input syntax for type integer: "a"'),
        ("SELECT 'a' UNION SELECT 'b' UNION SELECT 1", "UNION types text and int4 cannot be matched"),
    ],
)
def test_what_is_refused(db: tidegate.Database, sql: str, message: str) -> None:
    with pytest.raises(tidegate.TidegateError, match=message):
        db.sql(sql)


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT 1 UNION SELECT '2'", [(1,), (2,)]),
        ("SELECT '2' UNION ALL SELECT 1", [(1,), (2,)]),
        ("SELECT NULL UNION SELECT 1 UNION SELECT '3'", [(1,), (3,), (None,)]),
        ("SELECT '1' EXCEPT SELECT 2", [(1,)]),
        ("SELECT 1, 'a' INTERSECT SELECT '1', 'a'", [(1, "a")]),
        ("SELECT '2024-01-01' UNION SELECT DATE '2024-01-01'", [(date(2024, 1, 1),)]),
        ("SELECT '1' UNION SELECT 'a'", [("1",), ("a",)]),
        ("VALUES (1), ('2'), (NULL)", [(1,), (2,), (None,)]),
        ("SELECT CASE WHEN true THEN '1' ELSE 2 END", [(1,)]),
    ],
)
def test_a_literal_takes_the_type_of_the_other_side(
    db: tidegate.Database, sql: str, rows: list[tuple[Any, ...]]
) -> None:
    found = db.sql(sql).rows()
    assert sorted(found, key=lambda row: (row[0] is None, row)) == rows


def test_names_are_of_the_first_side(db: tidegate.Database) -> None:
    assert db.sql("SELECT '2' UNION SELECT 1 AS x").schema.names == ["?column?"]
    assert db.sql("SELECT '2' AS a UNION SELECT 1 AS x").schema.names == ["a"]
