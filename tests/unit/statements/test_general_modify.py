"""MERGE, ON CONFLICT, UPDATE … FROM, DELETE … USING, RETURNING: what they read, what they refuse, what stays.

That they mean what PostgreSQL means is shown in `tests/differential/test_modifications.py`, races in `test_general_modify_race.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tidegate
from tidegate.server.postgres.wire.sqlstate import to_postgres_error

PARTS, ROWS = 12, 50


@pytest.fixture
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://") as made:
        made.set("audit", 1.0)
        made.sql("CREATE TABLE t (id int8 NOT NULL, n int4 DEFAULT 7, s varchar(3))")
        made.sql("CREATE TABLE u (id int8, n int4)")
        yield made


@pytest.fixture(params=["appended", "updated"])
def parted(request: pytest.FixtureRequest, db: tidegate.Database) -> tidegate.Database:
    """A table of many parts, each with ids of its own; of which some rows are deleted or updated."""
    for i in range(PARTS):
        ids = list(range(i * ROWS, (i + 1) * ROWS))
        db.append("t", {"id": ids, "n": [1] * ROWS, "s": ["a"] * ROWS})
    if request.param == "updated":
        db.sql(f"DELETE FROM t WHERE id % {ROWS} = 3")
        db.sql(f"UPDATE t SET n = 2 WHERE id % {ROWS} IN (4, 5) AND id < {2 * ROWS}")
    return db


def rows(
    db: tidegate.Database, sql: str = "SELECT * FROM t ORDER BY id, n", **more: Any
) -> list[tuple[Any, ...]]:
    return db.sql(sql, **more).rows()


# ---------------------------------------------------------------- what is read

FEW = "(VALUES (120, 5), (121, 6), (5000, 7)) AS x (id, n)"


@pytest.mark.parametrize(
    ("sql", "said", "parts"),
    [
        (f"MERGE INTO t USING {FEW} ON t.id = x.id WHEN MATCHED THEN UPDATE SET n = 9 WHEN NOT MATCHED THEN INSERT VALUES (x.id)",
         "MERGE 3", 1),
        (f"MERGE INTO t USING {FEW} ON t.id = x.id WHEN MATCHED THEN DELETE", "MERGE 2", 1),
        ("MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN DO NOTHING", "MERGE 2", 3),
        ("MERGE INTO t USING (SELECT id + 100 AS id, max(n) AS n FROM u GROUP BY 1) AS x ON t.id = x.id WHEN MATCHED THEN DELETE",
         "MERGE 2", 3),
        (f"UPDATE t SET n = x.n FROM {FEW} WHERE t.id = x.id", "UPDATE 2", 1),
        ("UPDATE t SET n = u.n FROM u JOIN u AS w USING (id) WHERE t.id = u.id", "UPDATE 2", 4),
        ("UPDATE t SET n = 9 WHERE id IN (SELECT id FROM u) RETURNING id", "UPDATE 2", 3),
        (f"DELETE FROM t USING {FEW} WHERE t.id = x.id RETURNING *", "DELETE 2", 1),
        ("DELETE FROM t WHERE id = 130 RETURNING *", "DELETE 1", 1),
        ("INSERT INTO t VALUES (120, 1, 'x'), (121, 2, 'y'), (5000, 1, 'z') ON CONFLICT (id) DO UPDATE SET n = excluded.n",
         "INSERT 0 3", 1),
        ("INSERT INTO t VALUES (120, 1, 'x'), (5000, 1, 'z') ON CONFLICT (id) DO NOTHING", "INSERT 0 1", 1),
        ("INSERT INTO t (id) SELECT id FROM u ON CONFLICT (id) DO NOTHING", "INSERT 0 0", 3),
    ],
)  # fmt: skip
def test_keys_of_the_source_prune_the_parts(
    parted: tidegate.Database, sql: str, said: str, parts: int
) -> None:
    """`parts`: those of t that hold a key, and the one of u as often as it is read."""
    parted.sql(f"INSERT INTO u VALUES ({ROWS + 10}, 3), ({5 * ROWS + 20}, 4)")
    assert parted.status().collections["t"].parts >= PARTS
    result = parted.sql(sql)
    assert (result.text(), result.scan.parts_read) == (said, parts)


@pytest.mark.parametrize("other", ["int2", "int4", "int8"])
@pytest.mark.parametrize("own", ["int4", "int8"])
def test_keys_of_integers_of_any_size_prune(db: tidegate.Database, own: str, other: str) -> None:
    db.sql(f"CREATE TABLE a (id {own}, n int4); CREATE TABLE b (id {other})")
    for i in range(8):
        db.append("a", {"id": list(range(i * 50, i * 50 + 50)), "n": [0] * 50})
    db.sql("INSERT INTO b VALUES (120), (122), (NULL)")
    for sql, said in (
        ("SELECT count(*) FROM a JOIN b ON a.id = b.id", [(2,)]),
        ("SELECT count(*) FROM a WHERE id IN (SELECT id FROM b)", [(2,)]),
        ("SELECT count(*) FROM b LEFT JOIN a USING (id)", [(3,)]),
        ("SELECT count(*) FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.id = a.id)", [(2,)]),
        ("UPDATE a SET n = 1 WHERE id IN (SELECT id FROM b) RETURNING 1", [(1,), (1,)]),
        ("UPDATE a SET n = 2 FROM b WHERE b.id = a.id RETURNING 1", [(1,), (1,)]),
    ):
        result = db.sql(sql)
        assert (result.rows(), result.scan.parts_read <= 3) == (said, True), sql


def test_a_merge_by_source_reads_all(parted: tidegate.Database) -> None:
    left = len(rows(parted))
    merge = f"MERGE INTO t USING {FEW} ON t.id = x.id WHEN NOT MATCHED BY SOURCE THEN DELETE"
    assert parted.sql(merge).text() == f"MERGE {left - 2}"
    assert [row[0] for row in rows(parted)] == [120, 121]


def test_a_list_of_many_keys_prunes_too(parted: tidegate.Database) -> None:
    parted.append("u", {"id": [i % 20 + (i % 2) * 9 * ROWS for i in range(3000)], "n": list(range(3000))})
    update = "UPDATE t SET n = x.n FROM (SELECT id, max(n) AS n FROM u GROUP BY id) AS x WHERE t.id = x.id"
    result = parted.sql(update)
    assert result.scan.parts_read <= 4, "that of u, two that hold keys, and what was updated"


def test_a_source_that_is_larger_than_the_table_is_pruned_by_it(parted: tidegate.Database) -> None:
    """t is the source here, of a small table that is changed."""
    parted.sql("CREATE TABLE small (id int8, n int4); INSERT INTO small VALUES (120, 0), (121, 0)")
    result = parted.sql("UPDATE small SET n = t.n FROM t WHERE t.id = small.id")
    assert result.text() == "UPDATE 2"
    assert rows(parted, "SELECT * FROM small ORDER BY id") == [(120, 1), (121, 1)]


# ---------------------------------------------------------------- what they do


def test_the_past_stays(db: tidegate.Database) -> None:
    db.sql("INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')")
    upper = db.status().collections["t"].upper
    merge = (
        "MERGE INTO t USING (VALUES (1), (9)) AS x (id) ON t.id = x.id WHEN MATCHED THEN UPDATE SET n = 5 "
    )
    assert db.sql(f"{merge} WHEN NOT MATCHED THEN INSERT (id) VALUES (x.id)").text() == "MERGE 2"
    assert rows(db) == [(1, 5, "a"), (2, 2, "b"), (9, 7, None)]
    assert rows(db, as_of=upper - 1) == [(1, 1, "a"), (2, 2, "b")]


def test_rows_that_are_stored_several_times(db: tidegate.Database) -> None:
    db.append("t", {"id": [1, 2], "n": [1, 1], "s": ["a", "b"]}, diff=[3, 1])
    update = "UPDATE t SET n = x.n FROM (VALUES (1, 5)) AS x (id, n) WHERE t.id = x.id RETURNING t.id, t.n"
    result = db.sql(update)
    assert (result.text(), result.rows()) == ("UPDATE 3", [(1, 5)] * 3)
    assert rows(db) == [(1, 5, "a")] * 3 + [(2, 1, "b")]
    assert sorted(db.sql("DELETE FROM t RETURNING id").rows()) == [(1,)] * 3 + [(2,)]


def test_nothing_is_written_for_what_does_not_change(db: tidegate.Database) -> None:
    db.sql("INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')")
    upper = db.status().collections["t"].upper
    assert (
        db.sql("INSERT INTO t VALUES (1, 1, 'a') ON CONFLICT (id) DO UPDATE SET n = excluded.n").text()
        == "INSERT 0 1"
    )
    assert db.sql("INSERT INTO t VALUES (1, 8, 'x') ON CONFLICT (id) DO NOTHING RETURNING *").rows() == []
    merge = "MERGE INTO t USING (VALUES (2, 2), (1, 1)) AS x (id, n) ON t.id = x.id WHEN MATCHED THEN UPDATE SET n = x.n"
    assert db.sql(merge).text() == "MERGE 2"
    assert db.status().collections["t"].upper == upper


@pytest.mark.parametrize("by_position", [True, False])
def test_merge_returns_what_it_did(db: tidegate.Database, *, by_position: bool) -> None:
    """Of PostgreSQL 17: merge_action(), source columns first, new rows of UPDATE and INSERT, old ones of DELETE."""
    db.set("delete_by_position", by_position)
    db.sql("INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c'), (4, 4, 'd')")
    result = db.sql(
        "MERGE INTO t USING (VALUES (1, 10), (2, 20), (5, 50)) AS x (k, v) ON t.id = x.k "
        "WHEN MATCHED AND t.n = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET n = x.v "
        "WHEN NOT MATCHED BY TARGET THEN INSERT VALUES (x.k, x.v, 'new') "
        "WHEN NOT MATCHED BY SOURCE AND t.n = 3 THEN UPDATE SET s = 'own' "
        "WHEN NOT MATCHED BY SOURCE THEN DO NOTHING RETURNING merge_action(), *, t.n + 1 AS m"
    )  # fmt: skip
    assert result.text() == "MERGE 4"
    assert result.names == ("merge_action", "k", "v", "id", "n", "s", "m")
    assert sorted(result.rows(), key=str) == [
        ("DELETE", 2, 20, 2, 2, "b", 3),
        ("INSERT", 5, 50, 5, 50, "new", 51),
        ("UPDATE", 1, 10, 1, 10, "a", 11),
        ("UPDATE", None, None, 3, 3, "own", 4),
    ]
    assert rows(db) == [(1, 10, "a"), (3, 3, "own"), (4, 4, "d"), (5, 50, "new")]


def test_returning_of_insert_keeps_the_order(db: tidegate.Database) -> None:
    values = ", ".join(f"({i}, {i % 7}, 'x')" for i in range(400, 0, -1))
    assert [row[0] for row in db.sql(f"INSERT INTO t VALUES {values} RETURNING id").rows()] == list(
        range(400, 0, -1)
    )
    upsert = f"INSERT INTO t VALUES {values} ON CONFLICT (id) DO UPDATE SET s = 'y' RETURNING id"
    assert [row[0] for row in db.sql(upsert).rows()] == list(range(400, 0, -1))


def test_the_whole_row_of_a_table_can_be_returned(db: tidegate.Database) -> None:
    assert db.sql("INSERT INTO t VALUES (1, 2, 'a') RETURNING to_jsonb(t)").rows() == [
        ('{"n":2,"s":"a","id":1}',)
    ]
    update = "UPDATE t AS own SET n = g FROM generate_series(5, 5) AS g RETURNING (own).n, own IS NOT NULL"
    assert db.sql(update).rows() == [(5, True)]
    merge = "MERGE INTO t USING (VALUES (1)) AS x (id) ON t.id = x.id WHEN MATCHED THEN DELETE RETURNING x, t"
    assert db.sql(merge).rows() == [({"id": 1}, {"id": 1, "n": 5, "s": "a"})]


def test_values_may_be_subqueries(db: tidegate.Database) -> None:
    db.sql("INSERT INTO u VALUES (1, 10), (2, 20)")
    values = "VALUES ((SELECT max(id) FROM u), DEFAULT, 'a'), (9, 1 + (SELECT count(*) FROM u), NULL)"
    assert db.sql(f"INSERT INTO t {values}").text() == "INSERT 0 2"
    assert db.sql(
        f"INSERT INTO t (id, n, s) {values} ON CONFLICT (id) DO UPDATE SET n = 0 RETURNING n"
    ).rows() == [(0,), (0,)]
    assert rows(db) == [(2, 0, "a"), (9, 0, None)]
    with pytest.raises(tidegate.BindError, match="2 values are expected in each row, and here are 1"):
        db.sql("INSERT INTO t (id, n) VALUES ((SELECT 1), 2), (3)")


def test_texts_are_returned_as_they_are_stored(db: tidegate.Database) -> None:
    assert db.sql("INSERT INTO t VALUES (1, 1, 'abc  ') RETURNING s, length(s)").rows() == [("abc", 3)]
    assert db.sql("UPDATE t SET s = 'xyz ' RETURNING s").rows() == [("xyz",)]
    assert rows(db) == [(1, 1, "xyz")]


def test_parameters(db: tidegate.Database) -> None:
    db.sql(
        "INSERT INTO t VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET n = $2 + t.n RETURNING n",
        [1, 2, "a"],
    )
    result = db.sql(
        "INSERT INTO t VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET n = $2 + t.n RETURNING n",
        [1, 2, "a"],
    )
    assert result.rows() == [(4,)]
    merge = (
        "MERGE INTO t USING (SELECT $1::int8 AS id) AS x ON t.id = x.id WHEN MATCHED THEN UPDATE SET n = $2"
    )
    assert db.sql(merge, [1, 9]).text() == "MERGE 1"
    assert rows(db) == [(1, 9, "a")]


def test_every_type_comes_back_as_it_was(db: tidegate.Database) -> None:
    """Rows pass the engine on their way: those of a MERGE are the same to the bit, by position and by value."""
    columns = "id int8, f float8, g float4, d numeric(38,18), j jsonb, i interval, u uuid, b bytea, a int8[], r row(x int8, y text)"
    db.sql(
        f"CREATE TABLE wide ({columns}, at timestamptz, day date, c time, ts timestamp, flag bool, small int2, m int4)"
    )
    row = (
        "'-0', '1e-40', 12345678901234567890.000000000000000001, '{\"b\": 1.50, \"a\": [1e3]}', '-1 month 40 days 00:00:01', "
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '\\x00ff', '{1,NULL}', ROW(1, 'é'), '0001-01-01 00:00:00+00', '9999-12-31', "
        "'23:59:59.999999', '1969-12-31 23:59:59.999999', true, -32768"
    )
    db.sql(
        f"INSERT INTO wide VALUES (1, {row}, 0), (2, 'nan', 'inf', {', '.join(['NULL'] * 14)}), (3, {row}, 0)"
    )
    before = rows(db, "SELECT * FROM wide WHERE id < 3 ORDER BY id")
    for by_position in (True, False):
        db.set("delete_by_position", by_position)
        db.sql(
            "MERGE INTO wide USING (VALUES (1), (2)) AS x (id) ON wide.id = x.id WHEN MATCHED THEN UPDATE SET m = 5"
        )
        db.sql("UPDATE wide SET m = x.m FROM (VALUES (1, 0), (2, NULL)) AS x (id, m) WHERE wide.id = x.id")
        assert repr(rows(db, "SELECT * FROM wide WHERE id < 3 ORDER BY id")) == repr(before)
        assert db.sql("SELECT count(*) FROM wide").rows() == [(3,)]


# ---------------------------------------------------------------- what they refuse

INTO = "MERGE INTO t USING u ON t.id = u.id"


@pytest.mark.parametrize(
    ("sql", "code", "says"),
    [
        ("INSERT INTO t VALUES (1, 1, 'a'), (1, 2, 'b') ON CONFLICT (id) DO UPDATE SET n = excluded.n", "21000",
         "ON CONFLICT DO UPDATE command cannot affect row a second time"),
        ("INSERT INTO t VALUES (9, 1, 'a'), (9, 2, 'b') ON CONFLICT (id) DO UPDATE SET n = excluded.n", "21000", "a second time"),
        ("MERGE INTO t USING (VALUES (1), (1)) AS x (id) ON t.id = x.id WHEN MATCHED THEN DELETE", "21000",
         "MERGE command cannot affect row a second time"),
        ("UPDATE t SET n = (SELECT n FROM t AS o) WHERE id = 1", "21000", "more than one row"),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", "42P10", "no unique or exclusion constraint matching"),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO UPDATE SET n = 1", "42601", "requires inference specification"),
        ("INSERT INTO t VALUES (1) ON CONFLICT (x) DO NOTHING", "42703", 'column "x" does not exist'),
        ("INSERT INTO t VALUES (1, 1, 'a') ON CONFLICT (id) DO UPDATE SET n = n + 1", "42702", 'column "n" is ambiguous'),
        ("MERGE INTO t USING t ON true WHEN MATCHED THEN DELETE", "42712", 'table name "t" specified more than once'),
        ("UPDATE t SET n = 1 FROM u AS t WHERE true", "42712", 'table name "t" specified more than once'),
        ("UPDATE t SET (n, s) = (SELECT 1)", "42601", "number of columns does not match number of values"),
        ("UPDATE t SET (n, s) = (1, 'a', 2)", "42601", "number of columns does not match number of values"),
        ("UPDATE t SET (n, s) = 5", "42601", "must be a sub-SELECT or ROW() expression"),
        ("UPDATE t SET n = 1, (s, n) = (SELECT 'a', 2)", "42601", 'column "n" is given twice'),
        ("UPDATE t SET n = u.n FROM u WHERE t.id = v.id", "42P01", 'no table "v"'),
        ("DELETE FROM t RETURNING max(n)", "42803", "aggregates are not allowed in RETURNING"),
        ("DELETE FROM t RETURNING merge_action()", "42601", "can only be used in the RETURNING list of a MERGE command"),
        (f"{INTO} WHEN NOT MATCHED THEN INSERT VALUES (t.id)", "42P01", 'no table "t"'),
        (f"{INTO} WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = u.n", "42P01", 'no table "u"'),
        (f"{INTO} WHEN NOT MATCHED THEN INSERT VALUES (1, 2, 'a', 4)", "42601", "more expressions than"),
        (f"{INTO} WHEN NOT MATCHED THEN INSERT (id, n) VALUES (1)", "42601", "more target columns than"),
        (f"{INTO} WHEN MATCHED THEN DELETE WHEN MATCHED THEN DO NOTHING", "42601", "unreachable WHEN clause"),
        (f"{INTO} WHEN MATCHED THEN INSERT VALUES (1)", "42601", "expected DELETE, DO NOTHING or UPDATE"),
        (INTO, "42601", "expected WHEN"),
        ("MERGE INTO v USING u ON true WHEN MATCHED THEN DELETE", "42000", '"v" is a view'),
        ("UPDATE t SET id = NULL FROM u RETURNING *", "23502", 'null value in column "id" violates not-null constraint'),
        ("INSERT INTO t (n) VALUES (1) RETURNING *", "23502", 'null value in column "id" violates not-null constraint'),
        ("UPDATE t SET s = 'long one' FROM u", "22001", "value too long for type character varying(3)"),
        ("UPDATE t SET n = 10 / (t.n - 1) FROM u", "22012", "division by zero"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_and_changes_nothing(
    db: tidegate.Database, sql: str, code: str, says: str
) -> None:
    db.sql(
        "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b'); INSERT INTO u VALUES (1, 1); CREATE VIEW v AS SELECT * FROM t"
    )
    before = db.status().collections["t"].upper, rows(db)
    with pytest.raises(tidegate.TidegateError) as raised:
        db.sql(sql)
    assert says in str(raised.value)
    assert (db.status().collections["t"].upper, rows(db)) == before
    assert to_postgres_error(raised.value).code == code


def test_explain_says_what_is_done_and_read(db: tidegate.Database) -> None:
    db.sql("INSERT INTO t VALUES (1, 1, 'a'); INSERT INTO u VALUES (1, 1)")
    upper = db.status().collections["t"].upper
    merge = f"{INTO} WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (u.id, u.n, 'x')"
    lines = db.sql(f"EXPLAIN {merge}").text()
    assert lines.startswith("Merge: deletes rows by position, inserts rows\nEmbedded engine: ")
    assert "Join left  t.id = u.id" in lines
    with pytest.raises(tidegate.UnsupportedError, match="EXPLAIN ANALYZE would run the MERGE"):
        db.sql(f"EXPLAIN ANALYZE {merge}")
    assert db.status().collections["t"].upper == upper
