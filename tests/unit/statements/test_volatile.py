"""random(), gen_random_uuid() and clock_timestamp(): one value for each row and call, never folded, copied or computed twice."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tidegate.database import Database
from tidegate.errors import PlanError

ROWS = 3_000


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    with Database.open("memory://") as opened:
        opened.sql("CREATE TABLE t (id int8, g text)")
        for part in range(3):
            ids = pa.array(range(part * ROWS, (part + 1) * ROWS), pa.int64())
            opened.append("t", pa.table({"id": ids, "g": ["abc"[i % 3] for i in range(ROWS)]}))
        yield opened


def number(db: Database, sql: str) -> int:
    value = db.sql(sql).rows()[0][0]
    assert isinstance(value, int)
    return value


def test_each_row_and_each_call_has_its_own_value(db: Database) -> None:
    rows = db.sql("SELECT random(), random(), gen_random_uuid() FROM t").rows()
    firsts, seconds, uuids = (set(column) for column in zip(*rows, strict=True))
    assert len(firsts | seconds) == 6 * ROWS
    assert len(uuids) == 3 * ROWS
    assert all(0 <= a < 1 for a in firsts)
    assert {(u.version, u.variant) for u in uuids} == {(4, "specified in RFC 4122")}


def test_a_text_that_is_asked_again_gives_other_values(db: Database) -> None:
    assert db.sql("SELECT random()").rows() != db.sql("SELECT random()").rows()
    assert db.sql("SELECT clock_timestamp() >= now() - interval '1 minute'").rows() == [(True,)]


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("random() < 0.5", 3 * ROWS),
        ("random() < 0.5 AND g = 'a'", ROWS),
        ("g = 'a' AND random() < 0.5 AND 1 / (id + 1) >= 0", ROWS),
    ],
)
def test_a_condition_is_asked_once_of_each_row(db: Database, condition: str, rows: int) -> None:
    """Asked twice, a quarter of the rows would pass. 200 rows are more than six standard deviations of 4,500 in 9,000."""
    assert abs(number(db, f"SELECT count(*) FROM t WHERE {condition}") - rows / 2) < 300
    assert abs(len(db.sql(f"SELECT id, g FROM t WHERE {condition}").rows()) - rows / 2) < 300


def test_the_rows_of_a_dictionary_are_not_all_alike(db: Database) -> None:
    counts = db.sql("SELECT g, count(*) FROM t WHERE random() < 0.5 GROUP BY g").rows()
    assert sorted(g for g, _ in counts) == ["a", "b", "c"]
    assert all(abs(count - ROWS / 2) < 300 for _, count in counts)


def test_a_value_that_is_used_twice_is_one_value(db: Database) -> None:
    rows = db.sql("SELECT r, r + 1 FROM (SELECT random() AS r FROM t) AS s WHERE r < 0.1").rows()
    assert abs(len(rows) - 0.3 * ROWS) < 200
    assert all(r < 0.1 and more == r + 1 for r, more in rows)


def test_order_by_random(db: Database) -> None:
    first, second = (db.sql("SELECT id FROM t ORDER BY random() LIMIT 20").rows() for _ in range(2))
    assert len(set(first)) == len(set(second)) == 20
    assert first != second
    sorted_by = [r for _, r in db.sql("SELECT id, random() AS r FROM t ORDER BY r LIMIT 20").rows()]
    assert sorted_by == sorted(sorted_by)
    assert sorted_by[-1] < 0.02


def test_joins(db: Database) -> None:
    sql = "SELECT count(*) FROM t AS a JOIN t AS b ON a.id = b.id WHERE random() < 0.5"
    assert abs(number(db, sql) - 1.5 * ROWS) < 300
    rows = db.sql(
        "SELECT * FROM (SELECT a.id, random() AS r FROM t a JOIN t b ON a.id = b.id) s WHERE r < 0.1"
    ).rows()
    assert abs(len(rows) - 0.3 * ROWS) < 200
    assert all(r < 0.1 for _, r in rows)
    pairs = db.sql("SELECT random() FROM t AS a JOIN t AS b ON a.g = b.g AND a.id < 3 AND b.id < 30").rows()
    assert len(set(pairs)) == 30


def test_writing(db: Database) -> None:
    db.sql("CREATE TABLE u (id int8, k uuid DEFAULT gen_random_uuid(), r float8)")
    db.sql("INSERT INTO u (id, r) SELECT id, random() FROM t")
    db.sql("INSERT INTO u (id) VALUES (-1), (-2)")
    assert number(db, "SELECT count(DISTINCT k) FROM u") == 3 * ROWS + 2
    db.sql("UPDATE u SET r = 1 + random() WHERE random() < 0.5")
    assert abs(number(db, "SELECT count(*) FROM u WHERE r > 1") - 1.5 * ROWS) < 300
    assert number(db, "SELECT count(DISTINCT r) FROM u") == number(db, "SELECT count(r) FROM u")
    db.sql("DELETE FROM u WHERE random() < 0.5")
    assert abs(number(db, "SELECT count(*) FROM u") - 1.5 * ROWS) < 300
    assert number(db, "SELECT count(DISTINCT random()) FROM u") == number(db, "SELECT count(*) FROM u")


def test_it_prunes_nothing_and_explain_shows_it_as_it_is_written(db: Database) -> None:
    text = db.sql("EXPLAIN SELECT random() FROM t WHERE random() < -1").text()
    assert "random() < -1" in text
    assert "3 of 3 kept" in text


@pytest.mark.parametrize("name", ["random", "gen_random_uuid", "clock_timestamp"])
def test_transforms_refuse_it_by_name(db: Database, name: str) -> None:
    with pytest.raises(PlanError, match=rf"{name}\(\) gives another value"):
        db.sql(
            f"CREATE SOURCE s FROM GENERATOR orders (ROWS 10) TRANSFORM USING (SELECT {name}() FROM orders)"
        )
