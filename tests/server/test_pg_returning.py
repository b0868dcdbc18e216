"""RETURNING, ON CONFLICT and MERGE on the psql port: rows and tags, prepared or not; describing a statement does not run it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

import tidegate
from tests.server.pg_server import Serving, psql, serving


@pytest.fixture
def at() -> Iterator[Serving]:
    with tidegate.open("memory://") as db:
        db.sql(
            "CREATE TABLE t (id int8, n int4 DEFAULT 7, s text); INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')"
        )
        with serving(db) as found:
            yield found


pytestmark = pytest.mark.timeout(60)


def rows(at: Serving) -> list[tuple[object, ...]]:
    return at.db.sql("SELECT * FROM t ORDER BY id").rows()


def test_rows_and_tags(at: Serving) -> None:
    with psycopg.connect(at.conninfo(), autocommit=True) as conn:
        cursor = conn.execute("INSERT INTO t (id) VALUES (%s), (%s) RETURNING id, n", (3, 4))
        assert (cursor.fetchall(), cursor.statusmessage, cursor.rowcount) == (
            [(3, 7), (4, 7)],
            "INSERT 0 2",
            2,
        )
        cursor = conn.execute(
            "UPDATE t SET n = x.n FROM (VALUES (1, 10)) AS x (id, n) WHERE t.id = x.id RETURNING t.*"
        )
        assert (cursor.fetchall(), cursor.statusmessage) == ([(1, 10, "a")], "UPDATE 1")
        cursor = conn.execute(
            "WITH x AS (SELECT 2 AS id) DELETE FROM t USING x WHERE t.id = x.id RETURNING s", prepare=True
        )
        assert (cursor.fetchall(), cursor.statusmessage) == ([("b",)], "DELETE 1")
        merge = "MERGE INTO t USING (VALUES (%s::int8, 5)) AS x (id, n) ON t.id = x.id WHEN MATCHED THEN UPDATE SET n = x.n"
        assert conn.execute(merge, (3,)).statusmessage == "MERGE 1"
        cursor = conn.execute(f"{merge} RETURNING merge_action(), t.n", (4,), binary=True)
        assert (cursor.fetchall(), cursor.statusmessage) == ([("UPDATE", 5)], "MERGE 1")
    assert rows(at) == [(1, 10, "a"), (3, 5, None), (4, 5, None)]


def test_parameters_take_the_types_of_columns(at: Serving) -> None:
    with psycopg.connect(at.conninfo(), autocommit=True) as conn:
        for _ in range(3):  # psycopg prepares what it is asked again
            upsert = "INSERT INTO t VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n RETURNING n"
            found = conn.execute(upsert, ("1", "5", "x"), prepare=True).fetchone()
        assert found == (16,)


def test_describing_does_not_run_it(at: Serving) -> None:
    async def describe_and_run() -> None:
        conn = await asyncpg.connect(host="127.0.0.1", port=at.port, user="ann", database="lake")
        try:
            prepared = await conn.prepare("DELETE FROM t WHERE id < $1 RETURNING id, n::text AS m")
            assert [one.name for one in prepared.get_attributes()] == ["id", "m"]
            assert len(rows(at)) == 2
            assert [tuple(row) for row in await prepared.fetch(2)] == [(1, "1")]
            assert prepared.get_statusmsg() == "DELETE 1"
        finally:
            await conn.close()

    asyncio.run(describe_and_run())
    assert rows(at) == [(2, 2, "b")]


def test_errors_have_the_codes_of_postgres(at: Serving) -> None:
    with psycopg.connect(at.conninfo(), autocommit=True) as conn:
        with pytest.raises(psycopg.errors.CardinalityViolation) as raised:
            conn.execute(
                "INSERT INTO t VALUES (1, 1, 'x'), (1, 2, 'y') ON CONFLICT (id) DO UPDATE SET n = excluded.n"
            )
        assert (
            raised.value.diag.message_primary
            == "ON CONFLICT DO UPDATE command cannot affect row a second time"
        )
        assert raised.value.diag.message_hint is not None
        with pytest.raises(psycopg.errors.InvalidColumnReference):
            conn.execute("INSERT INTO t VALUES (1, 1, 'x') ON CONFLICT DO NOTHING")


def test_who_may_only_read_may_not_merge() -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (id int8)")
        with serving(db, write=False) as at, psycopg.connect(at.conninfo(), autocommit=True) as conn:
            for sql in (
                "MERGE INTO t USING (VALUES (1)) AS x (id) ON t.id = x.id WHEN NOT MATCHED THEN INSERT VALUES (x.id)",
                "WITH x AS (SELECT 1) DELETE FROM t RETURNING id",
            ):
                with pytest.raises(psycopg.Error, match=r"read-only|write"):
                    conn.execute(sql)


def test_sqlalchemy_inserts_and_upserts(at: Serving) -> None:
    columns = [sa.Column("n", sa.Integer), sa.Column("s", sa.Text)]
    table = sa.Table("t", sa.MetaData(), sa.Column("id", sa.BigInteger, primary_key=True), *columns)
    engine = sa.create_engine(
        f"postgresql+psycopg://ann@127.0.0.1:{at.port}/lake", poolclass=sa.pool.NullPool
    )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        made = conn.execute(sa.insert(table).values(id=9, s="new").returning(table.c.id, table.c.n))
        assert made.all() == [(9, 7)]
        proposed = insert(table).values([{"id": 1, "n": 50, "s": "x"}, {"id": 8, "n": 80, "s": "y"}])
        upsert = proposed.on_conflict_do_update(index_elements=["id"], set_={"n": proposed.excluded.n})
        assert conn.execute(upsert.returning(table.c.id, table.c.n, table.c.s)).all() == [
            (1, 50, "a"),
            (8, 80, "y"),
        ]
        changed = sa.update(table).where(table.c.id == 8).values(n=table.c.n + 1).returning(table.c.n)
        assert conn.execute(changed).scalar_one() == 81


def test_psql_shows_rows_and_tag(at: Serving) -> None:
    done = psql(at, "DELETE FROM t WHERE id = 1 RETURNING id, s")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n")[2:] == ["  1 | a", "(1 row)", "", "DELETE 1", ""]
