"""jsonb in statements: compared and sorted as in PostgreSQL, on every path that runs in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tidegate.errors import TypeMismatch

VALUES = [
    "[]",
    "null",
    '"10"',
    '"9"',
    "-5.5",
    "9",
    "10",
    "100",
    "false",
    "true",
    "[9]",
    "[10]",
    "[1,2]",
    "{}",
    '{"b":1}',
]
"""In the order of jsonb."""


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tidegate.Database]:
    db = tidegate.open(str(tmp_path_factory.mktemp("lake")))
    db.set("audit", 1.0)
    db.sql("CREATE TABLE t (id int8, p jsonb)")
    for part in (0, 1, 2):
        rows = [(i, f'{{"n":{value}}}') for i, value in enumerate(VALUES) if i % 3 == part]
        db.sql("INSERT INTO t VALUES " + ", ".join(f"({i}, '{p}')" for i, p in rows))
    db.sql("INSERT INTO t VALUES (99, '{}')")
    yield db
    db.close()


def ids(db: tidegate.Database, sql: str, path: str) -> list[Any]:
    result = db.sql(sql)
    rows = result.rows()
    assert result.path == path
    return [row[0] for row in rows]


def test_filters(db: tidegate.Database) -> None:
    assert sorted(ids(db, "SELECT id FROM t WHERE p->'n' > '9'", "local")) == [*range(6, 15)]
    assert sorted(ids(db, "SELECT id FROM t WHERE p->'n' BETWEEN '\"9\"' AND '10.0'", "local")) == [
        3,
        4,
        5,
        6,
    ]
    assert sorted(ids(db, "SELECT id FROM t WHERE p->'n' IN ('9.0', '1e1', '[9.0]')", "local")) == [5, 6, 10]
    assert sorted(ids(db, "SELECT id FROM t WHERE NOT p->'n' >= 'null'", "local")) == [0]
    assert sorted(
        ids(db, "SELECT id FROM t WHERE p->'n' < ANY (ARRAY['null', '\"9\"']::jsonb[])", "local")
    ) == [0, 1, 2]
    assert sorted(ids(db, "SELECT id FROM t WHERE CASE p->'n' WHEN '10.0' THEN true END", "local")) == [6]


def test_order_by(db: tidegate.Database) -> None:
    rising = [*range(15)]
    assert ids(db, "SELECT id FROM t ORDER BY p->'n'", "local") == [*rising, 99]
    assert ids(db, "SELECT id FROM t ORDER BY p->'n' DESC NULLS LAST", "local") == [*rising[::-1], 99]
    assert ids(db, "SELECT id FROM t ORDER BY p->'n' LIMIT 4", "peek") == [0, 1, 2, 3]
    assert ids(db, "SELECT id FROM t WHERE p ? 'n' ORDER BY p->'n' DESC LIMIT 4 OFFSET 2", "peek") == [
        12,
        11,
        10,
        9,
    ]
    assert ids(db, "SELECT DISTINCT p->'n' AS n FROM t WHERE id < 99 ORDER BY n", "local") == VALUES
    assert ids(db, "SELECT p->'n' FROM t WHERE id < 99 GROUP BY 1 ORDER BY 1", "local") == VALUES
    assert ids(db, "SELECT DISTINCT p->'n' FROM t GROUP BY 1 ORDER BY 1 DESC", "local") == [
        None,
        *VALUES[::-1],
    ]
    assert ids(db, "SELECT id FROM t WHERE id < 99 ORDER BY ARRAY[p->'n']", "local") == rising


def test_order_on_the_embedded_engine(db: tidegate.Database) -> None:
    rising = [*range(15)]
    join = "SELECT a.id FROM t a JOIN t b USING (id) WHERE b.p ? 'n' ORDER BY b.p->'n' DESC"
    assert ids(db, join, "embedded") == rising[::-1]
    assert (
        ids(
            db,
            "SELECT p->'n' FROM t WHERE id < 9 UNION SELECT p->'n' FROM t WHERE id < 99 ORDER BY 1",
            "embedded",
        )
        == VALUES
    )
    ranks = "SELECT r FROM (SELECT id, rank() OVER (ORDER BY p->'n') AS r FROM t) x ORDER BY id"
    assert ids(db, ranks, "embedded") == [*range(1, 17)]
    apart = "SELECT DISTINCT ON (p->'n') id FROM t ORDER BY p->'n', id"
    assert ids(db, apart, "embedded") == [*rising, 99]
    listed = "SELECT string_agg(id::text, ',' ORDER BY p->'n' DESC) FROM t WHERE id < 4"
    assert ids(db, listed, "embedded") == ["3,2,1,0"]
    pairs = "SELECT count(*) FROM t a JOIN t b ON a.p->'n' < b.p->'n'"
    assert ids(db, pairs, "embedded") == [15 * 14 // 2]
    some = "SELECT id FROM t WHERE p->'n' > ALL (SELECT p->'n' FROM t WHERE id BETWEEN 3 AND 12) ORDER BY 1"
    assert ids(db, some, "embedded") == [13, 14]


def test_least_and_greatest(db: tidegate.Database) -> None:
    assert db.sql("SELECT min(p->'n'), max(p->'n') FROM t").rows() == [("[]", '{"b":1}')]
    groups = "SELECT id % 3, min(p->'n'), max(p->'n') FILTER (WHERE id < 12) FROM t GROUP BY 1 ORDER BY 1"
    assert db.sql(groups).rows() == [(0, "[]", "true"), (1, "null", "[9]"), (2, '"10"', "[10]")]
    assert db.sql("SELECT min(ARRAY[p->'n']) FROM t WHERE id IN (5, 6)").rows() == [(["9"],)]
    window = "SELECT max(p->'n') OVER (ORDER BY id) FROM t WHERE id IN (2, 5, 6) ORDER BY id"
    assert db.sql(window).rows() == [('"10"',), ("9",), ("10",)]
    assert db.sql("SELECT greatest('9'::jsonb, '10', NULL), least('9'::jsonb, '10')").rows() == [("10", "9")]


def test_arrays_of_documents_have_no_greatest(db: tidegate.Database) -> None:
    with pytest.raises(TypeMismatch, match="greatest"):
        db.sql("SELECT greatest(ARRAY[p], ARRAY[p]) FROM t")


def test_parts_are_pruned_by_value(tmp_path: Path) -> None:
    db = tidegate.open(str(tmp_path / "lake"))
    db.set("audit", 0.0)
    db.sql("CREATE TABLE t (id int8, p jsonb)")
    for low in range(0, 100, 10):
        rows = ", ".join(f"""({n}, '{{"n":{n}}}'), ({n}, '{{"n":"{n}"}}')""" for n in range(low, low + 10))
        db.sql(f"INSERT INTO t VALUES {rows}")
    result = db.sql("SELECT id FROM t WHERE p->'n' > '89'")
    assert sorted(result.rows()) == [(n,) for n in range(90, 100)]
    assert (result.scan.parts_total, result.scan.parts_read) == (10, 1)
    text = db.sql("EXPLAIN SELECT id FROM t WHERE p->'n' > '89'").text()
    assert "parts: 1 of 10 kept" in text
    assert """p -> 'n' > '89' is true or false: p -> 'n' is "90" .. 99""" in text
    top = db.sql("SELECT p->'n' FROM t ORDER BY p->'n' DESC LIMIT 3")
    assert top.rows() == [("99",), ("98",), ("97",)]
    assert top.scan.parts_read == 1
    db.close()
