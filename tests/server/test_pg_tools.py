"""What BI tools ask of the catalog: statements over the same tables, columns, functions and casts as theirs.

Metabase (its driver for PostgreSQL: tables to sync, fields, foreign keys, indexes, enums, privileges), Grafana (the query
builder of its PostgreSQL data source), DBeaver, pgAdmin and Superset. The statements are
written anew from what the public sources read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import tidegate
from tests.server.pg_server import Serving, serving

Rows = list[tuple[object, ...]]
_TEXT = (Path(__file__).parent / "clients" / "tools.sql").read_text()
STATEMENTS = dict(re.findall(r"-- name: (.+)\n((?:(?!-- ).+\n)+)", _TEXT))
"""Statements by name."""


@pytest.fixture(scope="module")
def at() -> Iterator[Serving]:
    with tidegate.open("memory://") as db:
        db.sql(
            "CREATE TABLE orders (id int8 NOT NULL, name text DEFAULT 'x', price numeric(10,2), "
            "at timestamptz NOT NULL, tags text[])"
        )
        db.sql(
            "INSERT INTO orders VALUES (1, 'ham', 1.5, '2026-01-02', NULL), (2, 'eggs', 2.25, '2026-01-03', NULL)"
        )
        db.sql('CREATE TABLE "Odd Name" (a int8)')
        db.sql("CREATE VIEW recent AS SELECT id, name FROM orders")
        with serving(db) as found:
            yield found


@pytest.fixture
def conn(at: Serving) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(at.conninfo(), autocommit=True) as found:
        yield found


def rows(conn: psycopg.Connection[tuple[object, ...]], sql: str, *values: object) -> Rows:
    return conn.execute(sql, values or None).fetchall()


# ---------------------------------------------------------------- Metabase


def test_metabase_syncs_tables_and_fields(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    assert rows(conn, STATEMENTS["metabase: relations"], 0, "information_schema", "public") == [
        ("public", "Odd Name", "TABLE", None, 0),
        ("public", "orders", "TABLE", None, 2),
        ("public", "recent", "VIEW", None, None),
    ]
    fields = rows(conn, STATEMENTS["metabase: fields"], "orders")
    assert [field[:6] for field in fields] == [
        ("id", "int8", 0, "public", "orders", False),
        ("name", "text", 1, "public", "orders", False),
        ("price", "numeric", 2, "public", "orders", False),
        ("at", "timestamptz", 3, "public", "orders", False),
        ("tags", "_text", 4, "public", "orders", False),
    ]
    assert [field[7:] for field in fields] == [
        (True, False),
        (False, False),
        (False, False),
        (True, False),
        (False, False),
    ]
    assert [field[0] for field in rows(conn, STATEMENTS["metabase: fields"], "Odd Name")] == ["a"]


def test_metabase_finds_no_keys_indexes_or_enums(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    assert rows(conn, STATEMENTS["metabase: foreign keys"], "public") == []
    assert rows(conn, STATEMENTS["metabase: indexes"]) == []
    enums = """SELECT nspname, typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
      WHERE t.oid IN (SELECT DISTINCT enumtypid FROM pg_enum e)"""
    assert rows(conn, enums) == []


def test_metabase_asks_for_privileges(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    assert [row[2:] for row in rows(conn, STATEMENTS["metabase: privileges"])] == [
        ("Odd Name", True, True, True), ("orders", True, True, True), ("recent", True, True, True),
    ]  # fmt: skip
    assert rows(conn, "show timezone;") == [("UTC",)]


def test_metabase_asks_questions(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    """As its query processor writes them: qualified and quoted names, casts, buckets of time."""
    asked = """
    SELECT DATE_TRUNC('month', "public"."orders"."at") AS "at", COUNT(*) AS "count", SUM("public"."orders"."price") AS "sum"
    FROM "public"."orders" WHERE "public"."orders"."price" > 1 GROUP BY DATE_TRUNC('month', "public"."orders"."at")
    ORDER BY DATE_TRUNC('month', "public"."orders"."at") ASC"""
    ((_, count, total),) = rows(conn, asked)
    assert (count, str(total)) == (2, "3.75")
    preview = 'SELECT "public"."orders"."id" AS "id", "public"."orders"."name" AS "name" FROM "public"."orders" LIMIT 2000'
    assert len(rows(conn, preview)) == 2
    values = """SELECT "public"."orders"."name" AS "name" FROM "public"."orders" GROUP BY "public"."orders"."name"
      ORDER BY "public"."orders"."name" ASC LIMIT 1000"""
    assert rows(conn, values) == [("eggs",), ("ham",)]
    assert rows(conn, 'SELECT TRUE AS "_" FROM "public"."orders" WHERE 1 <> 1 LIMIT 0') == []
    ((bucket,),) = rows(
        conn, 'SELECT CAST(EXTRACT(dow FROM "at") AS integer) + 1 FROM "public"."orders" WHERE "id" = 1'
    )
    assert bucket == 6


# ---------------------------------------------------------------- Grafana

IN_SEARCH_PATH = """quote_ident(table_schema) IN (
  SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
  FROM generate_series(array_lower(string_to_array(current_setting('search_path'),','),1),
    array_upper(string_to_array(current_setting('search_path'),','),1)) as i,
    string_to_array(current_setting('search_path'),',') s)"""


def test_grafana_builds_queries(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    assert rows(conn, "SELECT current_setting('server_version_num')::int/100 as version") == [(1500,)]
    assert rows(conn, "SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'") == []
    schemas = """SELECT schema_name AS "name" FROM information_schema.schemata
      WHERE schema_name NOT IN ('information_schema', 'pg_catalog') ORDER BY schema_name"""
    assert rows(conn, schemas) == [("public",)]
    tables = f"""SELECT CASE WHEN {IN_SEARCH_PATH} THEN quote_ident(table_name)
        ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table"
      FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog')
      ORDER BY CASE WHEN {IN_SEARCH_PATH} THEN 0 ELSE 1 END, 1"""
    assert rows(conn, tables) == [('"Odd Name"',), ("orders",), ("recent",)]
    in_schema = """SELECT quote_ident(table_name) AS "table" FROM information_schema.tables
      WHERE quote_ident(table_schema) = 'public' ORDER BY 1"""
    assert rows(conn, in_schema) == [('"Odd Name"',), ("orders",), ("recent",)]
    for name, expected in {
        "orders": ["id", "name", "price", "at", "tags"],
        "public.orders": ["id", "name", "price", "at", "tags"],
        '"Odd Name"': ["a"],
        'public."Odd Name"': ["a"],
        "nothing": [],
    }.items():
        columns = f"""SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns
          WHERE CASE WHEN array_length(parse_ident('{name}'),1) = 2
            THEN quote_ident(table_schema) = (parse_ident('{name}'))[1] AND quote_ident(table_name) = (parse_ident('{name}'))[2]
            ELSE quote_ident(table_name) = '{name}' AND {IN_SEARCH_PATH} END"""
        if (
            name == 'public."Odd Name"'
        ):  # parse_ident drops the quotes, so that PostgreSQL finds nothing either
            expected = []
        assert [str(row[0]).strip('"') for row in rows(conn, columns)] == expected, name


def test_grafana_draws_a_series(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    """As its macros expand: __timeFilter, __timeGroup."""
    series = """SELECT floor(extract(epoch from "at")/86400)*86400 AS "time", avg(price) AS "value" FROM orders
      WHERE "at" BETWEEN '2026-01-01T00:00:00Z' AND '2026-01-31T00:00:00Z' GROUP BY time ORDER BY time"""
    assert [(int(str(time)), float(str(value))) for time, value in rows(conn, series)] == [
        (1767312000, 1.5), (1767398400, 2.25),
    ]  # fmt: skip


# ---------------------------------------------------------------- DBeaver, pgAdmin, Superset

COUNTS = {
    "dbeaver: databases": 1,
    "dbeaver: schemas": 3,
    "dbeaver: sizes": 3,
    "pgadmin: tables": 2,
    "pgadmin: columns": 5,
    "superset: views": 1,
    "superset: primary key": 0,
}


@pytest.mark.parametrize("what", [name for name in STATEMENTS if not name.startswith("metabase")])
def test_tools_ask(conn: psycopg.Connection[tuple[object, ...]], what: str) -> None:
    found = rows(conn, STATEMENTS[what])
    if what in COUNTS:
        assert len(found) == COUNTS[what]
    else:
        assert found
