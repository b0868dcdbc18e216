"""Statements that change something, where clients do not expect it: in COPY, cursors and EXECUTE, and before a ROLLBACK."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import psycopg
import pytest

import tidegate
from tests.server.pg_server import Serving, serving


@pytest.fixture
def at() -> Iterator[Serving]:
    with tidegate.open("memory://") as db, serving(db) as found:
        db.sql("CREATE TABLE orders (id int8, name text); INSERT INTO orders VALUES (1, 'ham'), (2, 'eggs')")
        yield found


def connect(at: Serving) -> psycopg.Connection[Any]:
    return psycopg.connect(at.conninfo(), autocommit=True)


def test_a_copy_or_a_cursor_reads(at: Serving) -> None:
    deletes = "WITH x AS (SELECT 1 AS id) DELETE FROM public.orders USING x WHERE orders.id = x.id RETURNING orders.id"
    with connect(at) as connection, connection.cursor() as cursor:
        for query in (deletes, "SELECT id INTO made FROM orders"):
            with pytest.raises(psycopg.errors.FeatureNotSupported), cursor.copy(f"COPY ({query}) TO STDOUT"):
                pass
            with pytest.raises(psycopg.errors.InvalidCursorDefinition):
                cursor.execute(f"DECLARE c CURSOR FOR {query}")
        with pytest.raises(psycopg.errors.InvalidCursorDefinition):
            cursor.execute(f"DECLARE c CURSOR FOR {deletes} || %s", ("x",))
        assert cursor.execute("SELECT count(*) FROM orders").fetchall() == [(2,)]
        assert at.db.sql("SHOW TABLES LIKE 'made'").rows() == []


@pytest.mark.parametrize(
    "sql",
    [
        "WITH x AS (SELECT 9 AS id) MERGE INTO orders USING x ON false WHEN NOT MATCHED THEN INSERT (id) VALUES (x.id)",
        "EXECUTE changing (9)",
        "SELECT id INTO made FROM orders",
    ],
)
def test_a_rollback_says_that_it_undoes_nothing(at: Serving, sql: str) -> None:
    with connect(at) as connection:
        said: list[str | None] = []
        connection.add_notice_handler(lambda notice: said.append(notice.message_primary))
        connection.execute("PREPARE changing (int8) AS INSERT INTO orders (id) VALUES ($1) RETURNING id")
        for statement in ("BEGIN", sql, "ROLLBACK"):
            connection.execute(statement)
        assert len(said) == 1
        assert "earlier writes are not rolled back" in str(said[0])


def test_asyncpg_executes_and_creates(at: Serving) -> None:
    async def use() -> None:
        conn = await asyncpg.connect(host="127.0.0.1", port=at.port, user="ann", database="lake")
        try:
            await conn.execute("PREPARE w (int8) AS INSERT INTO orders (id) VALUES ($1) RETURNING id")
            described = await conn.prepare("EXECUTE w ($1)")
            assert at.db.sql("SELECT count(*) FROM orders").rows() == [(2,)], "describing it does not run it"
            assert [tuple(row) for row in await described.fetch(7)] == [(7,)]
            await conn.execute("PREPARE names AS SELECT relname FROM pg_class WHERE relname = 'orders'")
            assert await conn.execute("EXECUTE names") == "SELECT 1"
            await conn.execute("CREATE TABLE made AS SELECT id FROM orders WHERE id > $1", 6)
        finally:
            await conn.close()

    asyncio.run(use())
    assert at.db.sql("SELECT id FROM made").rows() == [(7,)]
