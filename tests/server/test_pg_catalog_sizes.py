"""Sizes, counts, functions and settings in the catalog, as psql's commands show them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

import tidegate
from tests.server.pg_server import Serving, psql, serving
from tidegate.config import Config


@pytest.fixture(scope="module")
def at() -> Iterator[Serving]:
    with tidegate.open("memory://", config=Config(stats_filter=True)) as db:
        db.sql(
            'CREATE TABLE orders (id int8, name text); CREATE TABLE empty (a int8); CREATE TABLE "Odd" (a int8)'
        )
        db.append("orders", {"id": list(range(5_000)), "name": [f"{i * 7919:x}" for i in range(5_000)]})
        db.append("Odd", {"a": [1]})
        db.sql("CREATE VIEW recent AS SELECT id FROM orders")
        with serving(db) as found:
            yield found


@pytest.fixture
def conn(at: Serving) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(at.conninfo(), autocommit=True) as found:
        yield found


def shown(at: Serving, *commands: str) -> list[list[str]]:
    """The cells that psql prints."""
    done = psql(at, *commands, flags=("-A", "-t"))
    assert done.stderr == "", commands
    return [line.split("|") for line in done.stdout.splitlines()]


def one(conn: psycopg.Connection[tuple[object, ...]], sql: str) -> object:
    row = conn.execute(sql).fetchone()
    return row and row[0]


def test_sizes(at: Serving, conn: psycopg.Connection[tuple[object, ...]]) -> None:
    stored = {name: one_.bytes for name, one_ in at.db.status().collections.items()}
    for name in ("orders", "empty"):
        for function in ("pg_table_size", "pg_relation_size", "pg_total_relation_size"):
            assert one(conn, f"SELECT {function}('{name}')") == stored[name]
            assert one(conn, f"SELECT {function}('public.{name}'::regclass)") == stored[name]
            by_oid = f"SELECT pg_catalog.{function}(oid) FROM pg_class WHERE relname = '{name}'"
            assert one(conn, by_oid) == stored[name]
    assert one(conn, """SELECT pg_table_size('"Odd"')""") == stored["Odd"]
    assert one(conn, "SELECT pg_indexes_size('orders')") == 0
    assert one(conn, "SELECT pg_database_size(current_database())") == sum(stored.values())
    sizes = {row[1]: row[6] for row in shown(at, r"\dt+")}
    assert sizes["empty"] == "0 bytes"
    assert sizes["orders"] == one(conn, "SELECT pg_size_pretty(pg_table_size('orders'))")
    assert shown(at, r"\l+")[0][8].endswith("kB")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (10_239, "10239 bytes"),
        (10_240, "10 kB"),
        (12_345_678, "12 MB"),
        (-12_345_678, "-12 MB"),
        (10_485_247, "10239 kB"),
        (10_485_248, "10 MB"),
        (5 << 40, "5120 GB"),
        (50 << 40, "50 TB"),
    ],
)
def test_pretty_sizes(conn: psycopg.Connection[tuple[object, ...]], size: int, text: str) -> None:
    """As PostgreSQL rounds them."""
    assert one(conn, f"SELECT pg_size_pretty(({size})::bigint)") == text


def test_counts_follow_writes(at: Serving, conn: psycopg.Connection[tuple[object, ...]]) -> None:
    counts = "SELECT reltuples::bigint FROM pg_class WHERE relname = 'orders'"
    assert one(conn, counts) == 5_000
    at.db.append("orders", {"id": [5_000], "name": ["x"]})
    assert one(conn, counts) == 5_001
    at.db.sql("DELETE FROM orders WHERE id >= 4000")
    assert one(conn, counts) == 4_000
    assert one(conn, "SELECT n_live_tup FROM pg_stat_user_tables WHERE relname = 'orders'") == 4_000
    assert one(conn, "SELECT reltuples FROM pg_class WHERE relname = 'recent'") == -1


def test_functions(at: Serving, conn: psycopg.Connection[tuple[object, ...]]) -> None:
    functions = {(row[1], row[2], row[3]) for row in shown(at, r"\df")}
    assert ("lower", "text", "text") in functions
    assert ("abs", "bigint", "bigint") in functions
    assert len(functions) > 300
    assert not any(name.startswith("int8") for name, _, _ in functions)
    assert {row[4] for row in shown(at, r"\df sum")} == {"agg"}
    assert "absolute" in psql(at, r"\df+ abs").stdout
    assert shown(at, r"\dfS int8recv")[0][0] == "pg_catalog"
    for name in ("lower", "lower(text)", "nothing"):
        refused = psql(at, rf"\sf {name}").stderr.splitlines()[0]
        assert refused == "ERROR:  functions are built in, and have no source text"
    assert one(conn, "SELECT 'array_in'::regproc = (SELECT typinput FROM pg_type WHERE oid = 1016)") is True
    read = (
        "SELECT oid, typname, typreceive FROM pg_type WHERE typreceive != 0 AND typreceive::TEXT = 'int8recv'"
    )
    assert conn.execute(read).fetchall() == [(20, "int8", "int8recv")]


def test_gdesc(at: Serving) -> None:
    query = "SELECT id, name, 1.5::numeric(10,2) AS price, ARRAY['a'] AS tags FROM orders \\gdesc\n"
    done = psql(at, stdin=query, flags=("-A", "-t"))
    described = [line.split("|") for line in done.stdout.splitlines()]
    assert described == [["id", "bigint"], ["name", "text"], ["price", "numeric(10,2)"], ["tags", "text[]"]]


def test_settings(at: Serving) -> None:
    changed = shown(at, "SET stats_filter = off", "SET work_mem = '8MB'", r"\dconfig")
    assert ["stats_filter", "off"] in changed
    assert ["work_mem", "8MB"] in changed
    assert not any(row[0] == "batch_rows" for row in changed)
    assert ["batch_rows", str(at.db.context.config.batch_rows)] in shown(at, r"\dconfig *")
    assert shown(at, r"\dconfig work_*") == [["work_mem", "4MB"]]


def test_other_commands(at: Serving) -> None:
    assert shown(at, r"\d+ orders")[0][:4] == ["id", "bigint", "", ""]
    assert [row[0] for row in shown(at, r"\dn+")] == ["public"]
    assert shown(at, r"\du+")[0][0] == "ann"
    assert shown(at, r"\ddp") == []
    expanded = psql(at, stdin="\\x on\nSELECT id, name FROM orders WHERE id = 1;\n")
    assert "-[ RECORD 1 ]" in expanded.stdout


WORDS = (
    "duckdb",
    "binder error",
    "catalog error",
    "parser error",
    "arrow",
    "polars",
    "spark",
    "catalyst",
    "candidate",
)


def test_errors_of_the_catalog_are_in_our_words(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    for sql, code in (
        ("SELECT nope FROM pg_class", "42703"),
        ("SELECT nofn(oid) FROM pg_class", "42P01"),
        ("SELECT * FROM pg_catalog.pg_class, orders", "42P01"),
        ("SELECT lower(oid, 3) FROM pg_class", "42703"),
        ("SELECT FROM WHERE pg_catalog.pg_class", "42601"),
        ("SELECT 'x'::bigint FROM pg_class", "0A000"),
        ("SELECT oid::nonsense FROM pg_class", "42P01"),
        ("SELECT (SELECT oid FROM pg_type) FROM pg_class", "0A000"),
        ("SELECT x.oid FROM pg_class", "42703"),
        ("SELECT relname FROM pg_class GROUP BY 7", "42703"),
        ("SELECT read_csv('/etc/passwd') FROM pg_class", "42883"),
    ):
        with pytest.raises(psycopg.Error) as caught:
            conn.execute(sql)
        error = caught.value
        assert error.sqlstate == code, (sql, str(error))
        text = " ".join(
            filter(None, (str(error), error.diag.message_detail, error.diag.message_hint))
        ).lower()
        assert not [word for word in WORDS if word in text], text
