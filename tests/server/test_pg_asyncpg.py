"""asyncpg, which reads and writes all values in binary and asks the catalog for types: what is async in Python uses it."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import uuid
from collections.abc import Awaitable, Callable, Iterator
from decimal import Decimal
from typing import Any

import asyncpg
import pytest

from tests.server.pg_server import SLOW, Serving, psql, shop

# The first and last day and moment of Python are infinity to asyncpg, which is no time here.
HOUR = dt.timezone(dt.timedelta(hours=1))
VALUES: dict[str, list[Any]] = {
    "bool": [True, False],
    "int2": [-(2**15), 0, 2**15 - 1],
    "int4": [-(2**31), 2**31 - 1],
    "int8": [-(2**63), 2**63 - 1],
    "float4": [1.5, -0.0, float("inf")],
    "float8": [2.25, 5e-324, float("-inf")],
    "numeric": [Decimal("1.50"), Decimal(-(10**19)), Decimal("0.000001"), Decimal(0)],
    "numeric(10,2)": [Decimal("12.30"), Decimal("-99999999.99")],
    "text": ["", "hé 漢字 🙂", "a'b\\c\n", "x" * 5_000],
    "varchar(5)": ["abc"],
    "bytea": [b"", b"\x00\xff\\"],
    "date": [dt.date(1, 1, 2), dt.date(2024, 2, 29), dt.date(9999, 12, 30)],
    "time": [dt.time(0), dt.time(23, 59, 59, 999_999)],
    "timestamp": [dt.datetime(1, 1, 2), dt.datetime(2026, 1, 2, 3, 4, 5, 6), dt.datetime(9999, 12, 31, 23, 59, 59)],  # noqa: DTZ001  # without a zone
    "timestamptz": [dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.UTC), dt.datetime(1999, 12, 31, 23, tzinfo=HOUR)],
    "interval": [dt.timedelta(days=3, seconds=5, microseconds=7), dt.timedelta(days=-1), dt.timedelta(0)],
    "uuid": [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)],
    "jsonb": ['{"a":[1,null]}', '"x"', "null"],
    "bool[]": [[True, None, False]],
    "int4[]": [[], [1, None, -3]],
    "int8[]": [[2**63 - 1, -(2**63)]],
    "float8[]": [[1.0, -0.5]],
    "numeric[]": [[Decimal("1.5"), None]],
    "text[]": [[], ["a", 'b"c', "", None, "NULL", "{}"]],
    "uuid[]": [[uuid.UUID(int=5)]],
    "date[]": [[dt.date(2026, 1, 1), None]],
    "timestamptz[]": [[dt.datetime(2026, 1, 2, tzinfo=dt.UTC)]],
}  # fmt: skip


@pytest.fixture(scope="module")
def at() -> Iterator[Serving]:
    with shop() as found:
        yield found


def asked(at: Serving, work: Callable[[asyncpg.Connection], Awaitable[Any]], **more: Any) -> Any:
    """What some work with a connection gives."""

    async def main() -> Any:
        conn = await asyncpg.connect(**where(at), **more)
        try:
            return await asyncio.wait_for(work(conn), 60)
        finally:
            await conn.close(timeout=10)

    return asyncio.run(main())


def where(at: Serving) -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": at.port, "user": "ann", "database": "lake", "timeout": 30}


def test_connects_and_fetches(at: Serving) -> None:
    async def work(conn: asyncpg.Connection) -> None:
        assert conn.get_server_version()[:2] == (15, 0)
        found = await conn.fetch("SELECT id, name, price FROM orders ORDER BY id")
        assert [tuple(row) for row in found] == [
            (1, "ham", Decimal("1.50")), (2, "eggs", Decimal("2.25")), (3, "O'Neill", None),
        ]  # fmt: skip
        assert await conn.fetchval("SELECT count(*) FROM orders") == 3
        assert await conn.fetchrow("SELECT id FROM orders WHERE id < 0") is None
        assert await conn.execute("SELECT 1; SELECT 2") == "SELECT 1"

    asked(at, work)


@pytest.mark.parametrize("spelled", ["UTF8", "utf-8", "'utf-8'", "'UTF8'", "unicode", "UTF_8"])
def test_encodings_that_mean_utf8(at: Serving, spelled: str) -> None:
    async def work(conn: asyncpg.Connection) -> Any:
        return await conn.fetchval("SHOW client_encoding")

    assert asked(at, work, server_settings={"client_encoding": spelled}) == "UTF8"
    done = psql(
        at, f"SET client_encoding = '{spelled.strip(chr(39))}'", "SHOW client_encoding", flags=("-At",)
    )
    assert done.stdout.split() == ["SET", "UTF8"], done.stderr


@pytest.mark.parametrize("spelled", ["latin1", "'latin-1'", "utf16"])
def test_other_encodings_are_refused(at: Serving, spelled: str) -> None:
    async def work(conn: asyncpg.Connection) -> None:
        await conn.fetchval("SELECT 1")

    with pytest.raises(asyncpg.FeatureNotSupportedError, match="client_encoding cannot be"):
        asked(at, work, server_settings={"client_encoding": spelled})


def test_parameters_of_every_type(at: Serving) -> None:
    """Values go there and come back in binary, as those of one type, of a column, and as NULL."""

    async def work(conn: asyncpg.Connection) -> None:
        for type_, values in VALUES.items():
            for value in [*values, None]:
                found = await conn.fetchval(f"SELECT $1::{type_}", value)
                assert found == value, type_
                assert isinstance(found, type(value)), type_
        columns, holes = ", ".join(f"c{i} {one}" for i, one in enumerate(VALUES)), range(1, len(VALUES) + 1)
        await conn.execute(f"CREATE TABLE every ({columns})")
        rows = [[values[0] for values in VALUES.values()], [None] * len(VALUES)]
        for row in rows:
            await conn.execute(f"INSERT INTO every VALUES ({', '.join(f'${i}' for i in holes)})", *row)
        found = await conn.fetch("SELECT * FROM every")
        assert sorted(map(list, found), key=lambda row: row[0] is None) == rows
        await conn.execute("DROP TABLE every")

    asked(at, work)


def test_parameters_whose_type_the_place_tells(at: Serving) -> None:
    async def work(conn: asyncpg.Connection) -> None:
        one = await conn.fetchrow("SELECT name FROM orders WHERE id = $1 AND price > $2", 1, Decimal(1))
        assert one["name"] == "ham"
        found = await conn.fetch(
            "SELECT id FROM orders WHERE id = ANY($1) ORDER BY id LIMIT $2 OFFSET $3", [1, 2, 3], 5, 1
        )
        assert [row["id"] for row in found] == [2, 3]
        assert await conn.fetchval("SELECT (ROW(1, 'a'))") == (1, "a")
        spans = await conn.fetchval("SELECT '1 mon 3 days 04:05:06.789'::interval")
        assert spans == dt.timedelta(days=33, hours=4, minutes=5, seconds=6, milliseconds=789)

    asked(at, work)


def test_prepared_statements(at: Serving) -> None:
    async def work(conn: asyncpg.Connection) -> None:
        made = await conn.prepare("SELECT id, name, price, ARRAY[id] AS ids FROM orders WHERE id = $1")
        assert [one.name for one in made.get_parameters()] == ["int8"]
        named = [(one.name, one.type.name) for one in made.get_attributes()]
        assert named == [("id", "int8"), ("name", "text"), ("price", "numeric"), ("ids", "int8[]")]
        assert [tuple(await made.fetchrow(i)) for i in (1, 2)] == [
            (1, "ham", Decimal("1.50"), [1]), (2, "eggs", Decimal("2.25"), [2]),
        ]  # fmt: skip
        assert len(await made.fetch(1)) == 1
        assert made.get_statusmsg() == "SELECT 1"
        with pytest.raises(asyncpg.DataError):
            await made.fetch("no number")

    asked(at, work)


def test_a_cursor_in_a_transaction(at: Serving) -> None:
    async def work(conn: asyncpg.Connection) -> None:
        async with conn.transaction():
            ids = [
                row["id"]
                async for row in conn.cursor("SELECT id FROM orders WHERE id > $1 ORDER BY id", 0, prefetch=2)
            ]
            assert ids == [1, 2, 3]
            cursor = await conn.cursor("SELECT s FROM big")
            assert await cursor.forward(3) == 3
            assert [row["s"] for row in await cursor.fetch(2)] == ["row 3", "row 4"]
            assert await cursor.forward(10) == 10
            assert (await cursor.fetchrow())["s"] == "row 15"
        with pytest.raises(asyncpg.NoActiveSQLTransactionError):
            await conn.cursor("SELECT 1")
        async with conn.transaction():
            assert len([1 async for _ in conn.cursor("SELECT s FROM big LIMIT 1000")]) == 1_000

    asked(at, work)


def test_errors_and_what_comes_after(at: Serving) -> None:
    """asyncpg prepares with a Flush, not a Sync: it waits for an error that is not sent until it asks again."""
    wrong = {
        "SELECT nope FROM orders": asyncpg.UndefinedColumnError,
        "SELECT 1 FROM nope": asyncpg.UndefinedTableError,
        "SELEC 1": asyncpg.PostgresSyntaxError,
        "SELECT 1 / (id - id) FROM orders": asyncpg.DivisionByZeroError,
        "SELECT 'x'::int8": asyncpg.InvalidTextRepresentationError,
        "LISTEN orders": asyncpg.FeatureNotSupportedError,
    }

    async def work(conn: asyncpg.Connection) -> None:
        for sql, error in wrong.items():
            with pytest.raises(error):
                await conn.fetch(sql)
            assert await conn.fetchval("SELECT $1::int4", 5) == 5
            with pytest.raises(error):
                await conn.execute(sql)
        with pytest.raises(asyncpg.UndefinedColumnError):
            async with conn.transaction(isolation="repeatable_read", readonly=True):
                await conn.fetch("SELECT nope FROM orders")
        assert not conn.is_in_transaction()
        with pytest.raises(TimeoutError):
            await conn.fetch(SLOW, timeout=0.2)
        assert await conn.fetchval("SELECT 1") == 1

    asked(at, work)
    at.wait_until(busy=False)


def test_writes(at: Serving) -> None:
    async def work(conn: asyncpg.Connection) -> None:
        await conn.execute("CREATE TABLE made (id int8, at timestamptz, doc jsonb, tags text[])")
        now = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
        assert (
            await conn.execute("INSERT INTO made VALUES ($1, $2, $3, $4)", 1, now, "{}", ["a"])
            == "INSERT 0 1"
        )
        await conn.executemany(
            "INSERT INTO made VALUES ($1, $2, $3, $4)", [(i, now, None, []) for i in (2, 3)]
        )
        await conn.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
        assert (
            await conn.execute("UPDATE made SET doc = $1 WHERE id = $2 AND at <= $3", {"k": [1]}, 2, now)
            == "UPDATE 1"
        )
        assert (
            await conn.execute("INSERT INTO made SELECT id + 10, at FROM made WHERE id = $1", 3)
            == "INSERT 0 1"
        )
        assert await conn.execute("DELETE FROM made WHERE id > $1", 10) == "DELETE 1"
        found = await conn.fetch("SELECT id, at, doc, tags FROM made ORDER BY id")
        assert [tuple(row) for row in found] == [
            (1, now, {}, ["a"]),
            (2, now, {"k": [1]}, []),
            (3, now, None, []),
        ]
        await conn.execute("DROP TABLE made")

    asked(at, work)


def test_a_pool(at: Serving) -> None:
    """A pool resets connections when they come back, and clients of it run at the same time."""

    async def main() -> None:
        async with asyncpg.create_pool(**where(at), min_size=2, max_size=4) as pool:

            async def one(i: int) -> Any:
                async with pool.acquire() as conn:
                    await conn.execute("SET stats_filter = off")
                    return await conn.fetchval(
                        "SELECT $1::int8 + count(*) FROM orders WHERE id = ANY($2)", i, [1, 2]
                    )

            assert await asyncio.gather(*(one(i) for i in range(20))) == [i + 2 for i in range(20)]
            assert await pool.fetchval("SHOW stats_filter") == "on"
            with pytest.raises(asyncpg.UndefinedColumnError):
                await pool.fetch("SELECT nope FROM orders")

    asyncio.run(asyncio.wait_for(main(), 60))
