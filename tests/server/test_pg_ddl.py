"""Definitions, keys, comments and prepared statements through psql and psycopg: as they are shown, with their command tags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import tidegate
from tests.server.pg_server import Serving, psql, serving

ORDERS = "CREATE TABLE orders (id int8, name text); INSERT INTO orders VALUES (1, 'ham'), (2, 'eggs'), (3, 'O''Neill')"


@pytest.fixture(scope="module")
def at() -> Iterator[Serving]:
    with tidegate.open("memory://") as db, serving(db) as found:
        db.sql(ORDERS)
        db.sql(
            "CREATE TABLE keyed (region text, id int8, note text DEFAULT 'x', PRIMARY KEY (region, id) NOT ENFORCED); "
            "COMMENT ON TABLE keyed IS 'all that is keyed'; COMMENT ON COLUMN keyed.note IS 'a note'"
        )
        yield found


def connect(at: Serving) -> psycopg.Connection[Any]:
    return psycopg.connect(at.conninfo(), autocommit=True)


def test_psql_shows_keys_and_comments(at: Serving) -> None:
    shown = psql(at, r"\d keyed").stdout
    assert '    "keyed_pkey" PRIMARY KEY, btree (region, id) NOT ENFORCED\n' in shown
    assert "a note" in psql(at, r"\d+ keyed").stdout
    assert "all that is keyed" in psql(at, r"\dt+ keyed").stdout
    assert "keyed_pkey" in psql(at, r"\di").stdout
    assert psql(at, r"\d orders").stdout.count("PRIMARY") == 0


def test_the_catalog_has_keys(at: Serving) -> None:
    with connect(at) as connection:

        def rows(sql: str) -> list[tuple[object, ...]]:
            return list(connection.execute(sql).fetchall())

        assert rows(
            "SELECT c.conname, c.contype, c.conkey, i.indkey::text IS NOT NULL, pg_get_constraintdef(c.oid) FROM pg_constraint c "
            "JOIN pg_index i ON i.indexrelid = c.conindid WHERE c.conrelid = 'keyed'::regclass AND i.indisprimary"
        ) == [("keyed_pkey", "p", [1, 2], True, "PRIMARY KEY (region, id) NOT ENFORCED")]
        assert rows(
            "SELECT k.column_name, k.ordinal_position, t.constraint_type, t.enforced FROM information_schema.key_column_usage k "
            "JOIN information_schema.table_constraints t USING (constraint_name) ORDER BY 2"
        ) == [("region", 1, "PRIMARY KEY", "NO"), ("id", 2, "PRIMARY KEY", "NO")]
        assert rows("SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'keyed%'") == [
            ("keyed",)
        ]


def test_sqlalchemy_finds_them(at: Serving) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://ann@127.0.0.1:{at.port}/lake")
    found = sqlalchemy.inspect(engine)
    assert found.get_pk_constraint("keyed")["constrained_columns"] == ["region", "id"]
    assert found.get_table_comment("keyed") == {"text": "all that is keyed"}
    assert {one["name"]: one["comment"] for one in found.get_columns("keyed")}["note"] == "a note"
    engine.dispose()


def test_psql_prints_the_tags_of_postgres(at: Serving) -> None:
    script = """CREATE TABLE made AS SELECT id, name FROM orders;
CREATE TABLE IF NOT EXISTS made AS SELECT 1;
SELECT id INTO again FROM orders;
ALTER TABLE made ADD COLUMN n int4 DEFAULT 5, ALTER n TYPE int8;
ALTER TABLE IF EXISTS nothing RENAME TO z;
COMMENT ON TABLE made IS 'x';
PREPARE big (int8) AS SELECT id, n FROM made WHERE id > $1 ORDER BY id;
EXECUTE big (1 + 1);
PREPARE put AS INSERT INTO made (id) VALUES ($1);
EXECUTE put (9);
DEALLOCATE big;
EXECUTE big (1);
TRUNCATE made, again;
DROP TABLE made, again;
"""
    done = psql(at, stdin=script)
    assert done.stdout.splitlines() == [
        "SELECT 3", "CREATE TABLE", "SELECT 3", "ALTER TABLE", "ALTER TABLE", "COMMENT", "PREPARE", " id | n ", "----+---",
        "  3 | 5", "(1 row)", "", "PREPARE", "INSERT 0 1", "DEALLOCATE", "TRUNCATE TABLE", "DROP TABLE",
    ]  # fmt: skip
    assert done.stderr.splitlines() == [
        'NOTICE:  "made" already exists, and was left as it is',
        'NOTICE:  "nothing" does not exist, and was left so',
        'ERROR:  prepared statement "big" does not exist',
        "LINE 1: EXECUTE big (1);",
        "                ^",
    ]


def test_execute_through_the_extended_protocol(at: Serving) -> None:
    with connect(at) as connection, connection.cursor() as cursor:
        cursor.execute("PREPARE mine (int8) AS SELECT name FROM orders WHERE id = $1")
        for prepared in (False, True):
            cursor.execute("EXECUTE mine (2)", prepare=prepared)
            assert cursor.fetchall() == [("eggs",)]
        cursor.execute("DISCARD ALL")
        with pytest.raises(Exception, match='"mine" does not exist') as raised:
            cursor.execute("EXECUTE mine (2)")
        assert getattr(raised.value, "sqlstate", None) == "26000"


def test_a_read_only_server_refuses_what_writes() -> None:
    with tidegate.open("memory://") as db, serving(db, write=False) as found, connect(found) as connection:
        db.sql(ORDERS)
        for sql in (
            "SELECT id INTO x FROM orders",
            "CREATE TABLE x AS SELECT 1",
            "TRUNCATE orders",
            "COMMENT ON TABLE orders IS 'x'",
            "PREPARE p AS INSERT INTO orders (id) VALUES (1)",
            "ALTER TABLE orders RENAME TO x",
            "WITH x AS (SELECT 1 AS id) MERGE INTO orders USING x ON false WHEN NOT MATCHED THEN DO NOTHING",
            "SELECT 1; TRUNCATE orders",
        ):
            with pytest.raises(Exception, match="read-only") as raised:
                connection.execute(sql)
            assert getattr(raised.value, "sqlstate", None) == "25006", sql
        connection.execute("PREPARE p AS SELECT id FROM orders WHERE id = 1")
        assert connection.execute("EXECUTE p").fetchall() == [(1,)]
