"""pg_catalog and information_schema through `db.sql`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidegate


@pytest.fixture
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE c (id int8 NOT NULL, name varchar(10), xs int8[], price numeric(10,2))")
        db.sql("CREATE VIEW v AS SELECT id FROM c")
        yield db


@pytest.mark.parametrize(
    ("sql", "names", "rows"),
    [
        (
            "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1",
            ("table_name", "table_type"),
            [("c", "BASE TABLE"), ("v", "VIEW")],
        ),
        (
            (
                "SELECT column_name, data_type, is_nullable FROM information_schema.columns WHERE table_name = 'c' "
                "ORDER BY ordinal_position"
            ),
            ("column_name", "data_type", "is_nullable"),
            [
                ("id", "bigint", "NO"),
                ("name", "character varying", "YES"),
                ("xs", "ARRAY", "YES"),
                ("price", "numeric", "YES"),
            ],
        ),
        (
            "SELECT relname, relkind FROM pg_class WHERE relname IN ('c', 'v') ORDER BY 1",
            ("relname", "relkind"),
            [("c", "r"), ("v", "v")],
        ),
        (
            (
                "SELECT attname, format_type(atttypid, atttypmod) FROM pg_catalog.pg_attribute "
                "WHERE attrelid = 'c'::regclass AND attnum = 4"
            ),
            ("attname", "format_type"),
            [("price", "numeric(10,2)")],
        ),
        ("SELECT count(*) FROM pg_class WHERE relname = 'v'", ("count",), [(1,)]),
        ("SELECT setting FROM pg_settings WHERE name = 'timezone'", ("setting",), [("UTC",)]),
        ("SELECT current_user, relname FROM pg_class WHERE relname = 'c'", None, [("tidegate", "c")]),
    ],
)
def test_queries(db: tidegate.Database, sql: str, names: tuple[str, ...] | None, rows: list[object]) -> None:
    result = db.sql(sql)
    assert result.rows() == rows
    assert names is None or result.names == names


def test_what_was_made_a_moment_ago_is_there(db: tidegate.Database) -> None:
    sql = "SELECT relname FROM pg_class WHERE relname LIKE 'new%' ORDER BY 1"
    assert db.sql(sql).rows() == []
    assert db.sql(f"CREATE TABLE new_1 (a int8); {sql}").rows() == [("new_1",)]
    with db.session() as session:
        session.sql("CREATE TABLE new_2 (a int8)")
        assert session.sql(sql).rows() == [("new_1",), ("new_2",)]
    assert db.sql(f"DROP TABLE new_1; {sql}").rows() == [("new_2",)]


def test_a_collection_of_ours_is_not_mistaken(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE pg_class (x int8); INSERT INTO pg_class VALUES (7)")
    assert db.sql("SELECT * FROM pg_class").rows() == [(7,)]
    assert db.sql("SELECT count(*) FROM pg_catalog.pg_class WHERE relname = 'pg_class'").rows() == [(1,)]
    assert db.sql("SELECT 'pg_catalog.pg_class', x FROM pg_class").rows() == [("pg_catalog.pg_class", 7)]


def test_nothing_runs_where_one_statement_cannot_be_read(db: tidegate.Database) -> None:
    with pytest.raises(tidegate.ParseError):
        db.sql("INSERT INTO c (id) VALUES (1); SELECT 1 FROM pg_class; SELEC 1")
    assert db.sql("SELECT count(*) FROM c").rows() == [(0,)]


@pytest.mark.parametrize(
    ("sql", "options", "message"),
    [
        ("SELECT nothing FROM pg_class", {}, "nothing"),
        ("SELECT relname FROM pg_class WHERE relname = $1", {"values": ["c"]}, "parameters"),
        ("SELECT relname FROM pg_class", {"as_of": 1}, "history"),
        ("SELECT * FROM pg_catalog.pg_class, read_csv('x')", {}, "read_csv"),
        ("SELECT * FROM information_schema.nothing", {}, "nothing"),
    ],
)
def test_errors(db: tidegate.Database, sql: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(tidegate.TidegateError, match=message):
        db.sql(sql, **options)  # type: ignore[arg-type]  # options of several types
    assert db.sql("SELECT count(*) FROM pg_am").rows() == [(2,)], "it goes on"


def test_a_query_is_cancelled(db: tidegate.Database) -> None:
    watch = tidegate.Watch()
    timer = threading.Timer(0.2, watch.cancel)
    timer.start()
    with pytest.raises(tidegate.CancelledError, match="cancelled"):
        db.sql(
            "SELECT count(*) FROM pg_type a, pg_type b, pg_type c, pg_type d, pg_type e, pg_type f, pg_type g WHERE "
            "a.oid + b.oid + c.oid + d.oid + e.oid + f.oid + g.oid = 1",
            watch=watch,
        )
    timer.join()


def test_it_is_counted_and_needs_no_server(tmp_path: Path) -> None:
    with tidegate.open(tmp_path / "lake") as db:
        db.sql("SELECT count(*) FROM pg_class").rows()
        assert 'kind="catalog"' in db.metrics()
