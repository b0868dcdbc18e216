"""`tidegate serve` asked by the clients that people have: JDBC, node-postgres, pgx, DuckDB, ADBC, connectorx, SQLAlchemy, psycopg.

Those of other languages are programs in `clients/`, run as processes; `make clients` fetches what they need. psql, asyncpg and
more of psycopg and SQLAlchemy have tests of their own.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import adbc_driver_postgresql.dbapi as adbc
import connectorx
import psycopg
import pyarrow as pa
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from tests.server.clients.shop import ROWS, client_shop

HERE = Path(__file__).parent / "clients"
FETCHED = Path(os.environ.get("TIDEGATE_CLIENTS", Path(__file__).parents[2] / ".venv" / "clients")).resolve()
POOL = " ".join(str(i) for i in range(2, 22))

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with client_shop(tmp_path_factory.mktemp("clients") / "lake") as found:
        yield found


@pytest.fixture
def url(port: int) -> str:
    return f"postgresql://ann@127.0.0.1:{port}/lake"


def answers(*command: object, **environment: str) -> dict[str, list[str]]:
    """Runs a program that prints `what: answer`; its answers by what."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=100, env=os.environ | environment, check=False
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        what, _, answer = line.partition(": ")
        found.setdefault(what, []).append(answer)
    return found


def needed(path: Path, *programs: str) -> Path:
    """What `make clients` fetches, unless the machine has no toolchain for it."""
    missing = [name for name in programs if shutil.which(name) is None]
    if missing or not path.exists():
        pytest.skip(f"{path.name}: {', '.join(missing) or 'make clients'} is needed")
    return path


# ---------------------------------------------------------------- other languages


JDBC_METADATA = {
    "product": ["PostgreSQL 15"],
    "schemas": ["[information_schema, pg_catalog, public]"],
    "catalogs": ["[lake]"],
    "tables": ["[big, orders]"],
    "views": ["[recent]"],
    "columns": ["[id, name, price, at, tags, doc, u, b, f, d]"],
    "types": ["[int8, text, numeric, timestamptz, _text, jsonb, uuid, bool, float8, date]"],
    "nullable": ["[NO]"],
    "size": ["[10]"],
    "defaults": ["['x']"],
    "primary keys": ["[id]"],
    "imported keys": ["[]"],
    "exported keys": ["[]"],
    "cross reference": ["[]"],
    "indexes": ["[orders_pkey]"],
    "row identifier": ["[id]"],
    "procedures": ["[]"],
    "user types": ["[]"],
    "privileges": ["[DELETE, INSERT, REFERENCES, SELECT, TRIGGER, TRUNCATE, UPDATE]"],
    "functions": ["[starts_with]"],
    "table types": ["true"],
    "type info": ["true"],
    "still here": ["true"],
    "keywords": ["some"],
}
"""What JDBC says of the tables, by the name of its method."""


@pytest.mark.slow
def test_jdbc(port: int) -> None:
    driver = needed(FETCHED / "postgresql.jar", "java", "javac")
    seen = answers("java", "-cp", driver, HERE / "Jdbc.java", f"jdbc:postgresql://127.0.0.1:{port}/lake")
    rows = ['1 ham 1.50 2026-01-02T03:04:05Z 2 {"k":1} a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 true']
    assert seen == {
        **JDBC_METADATA,
        "described": ["numeric"],
        "parameters": ["numeric"],
        **{f"row {i}": rows for i in range(4)},
        "any": ["[1, 2]"],
        "result": ["price 10 "],
        "fetched": [str(ROWS)],
        "batch": ["3"],
        "updated": ["2"],
        "deleted": ["1"],
        "left": ["[x, x]"],
        "copied in": ["2"],
        "copied out": ["id,name 7,seven 8,"],
        "error": ["42703", "22012", "42601"],
        "cancelled": ["57014"],
    }


@pytest.mark.slow
def test_node_postgres(port: int) -> None:
    modules = needed(FETCHED / "node_modules", "node")
    seen = answers("node", HERE / "node.js", "127.0.0.1", port, NODE_PATH=str(modules))
    assert seen == {
        "row": [
            (
                '{"id":1,"name":"ham","price":"1.50","at":"2026-01-02T03:04:05.000Z","tags":["a","b"],"doc":{"k":1},'
                '"u":"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11","b":true}'
            )
        ],
        "prepared": ['[{"name":"eggs"}]'] * 2,
        "any": ["[1,2]"],
        "array mode": ["[[1,2]]"],
        "fields": ['[["id",20],["price",1700]]'],
        "several": ['[{"a":1},{"b":2}]'],
        "cursor": ["[[0,1,2],[3,4]]"],
        "streamed": [str(ROWS)],
        "inserted": ["2"],
        "copied": ['["1,a","2,","3,c","4,"]'],
        "error": ['["42703","8"]', '["22P02","8"]'],
        "notices": ["still here"],
        "pool": [POOL],
    }


@pytest.mark.slow
def test_pgx(port: int) -> None:
    seen = answers(needed(FETCHED / "pgx"), f"postgres://ann@127.0.0.1:{port}/lake?sslmode=disable")
    assert seen == {
        "row": ["1 ham 1.5 2026-01-02T03:04:05Z [a b] map[k:1] true"] * 2,
        "structs": ["[{1 ham} {2 eggs}]"],
        "read": [str(ROWS)],
        "mode": ["describe exec eggs", "exec eggs", "simple protocol eggs"],
        "batched": ["INSERT 0 1"] * 3,
        "count": ["3"],
        "copied in": ["100"],
        "copied out": ["COPY 2 [0,n0 1,n1]"],
        "error": ["42703 8", "22012 0"],
        "failed": ["true"],
        "answer": ["still here"],
        "pool": [f"[{POOL}]"],
    }


DUCKDB = """
import pathlib, sys, duckdb, duckdb_extension_postgres_scanner as extension
file = next(pathlib.Path(extension.__file__).parent.rglob("*.duckdb_extension"))
db = duckdb.connect(config={"allow_unsigned_extensions": "true"})
db.execute(f"LOAD '{file}'")
db.execute(f"ATTACH 'host=127.0.0.1 port={sys.argv[1]} user=ann dbname=lake' AS pg (TYPE postgres)")
tables = db.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'pg' ORDER BY 1").fetchall()
print("tables:", [row[0] for row in tables])
columns = 'id, name, price, "at"::VARCHAR, tags, doc, u::VARCHAR, b, f, d'
print("row:", db.execute(f"SELECT {columns} FROM pg.orders ORDER BY id").fetchone())
print("filter:", db.execute("SELECT name FROM pg.orders WHERE id = 2").fetchall())
print("join:", db.execute("SELECT count(*), sum(n) FROM pg.big b JOIN pg.orders o ON b.n = o.id").fetchone())
print("view:", db.execute("SELECT count(*) FROM pg.recent").fetchone())
print("query:", db.execute("SELECT * FROM postgres_query('pg', 'SELECT max(n) AS m FROM big')").fetchone())
db.execute("CREATE TABLE pg.from_duckdb AS SELECT range AS a, 'x' || range AS b FROM range(3000)")
db.execute("INSERT INTO pg.from_duckdb VALUES (5000, NULL)")
print("written:", db.execute("SELECT count(*), max(a), count(b) FROM pg.from_duckdb").fetchone())
db.execute("DROP TABLE pg.from_duckdb")
"""


@pytest.mark.slow
def test_duckdb_reads_and_writes(port: int) -> None:
    """By its postgres extension, which reads and writes by COPY in binary."""
    folder = needed(FETCHED / "duckdb")
    seen = answers(sys.executable, "-c", DUCKDB, port, PYTHONPATH=str(folder), TZ="UTC")
    uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    at, day = "2026-01-02 03:04:05+00", dt.date(2026, 1, 2)
    row = (1, "ham", Decimal("1.50"), at, ["a", "b"], '{"k":1}', uuid, True, 1.5, day)
    assert seen == {
        "tables": ["['big', 'orders', 'recent']"],
        "row": [repr(row)],
        "filter": ["[('eggs',)]"],
        "join": ["(2, 3)"],
        "view": ["(2,)"],
        "query": [f"({ROWS - 1},)"],
        "written": ["(3001, 5000, 3000)"],
    }


# ---------------------------------------------------------------- Arrow and data frames


def test_adbc(url: str) -> None:
    with adbc.connect(url, autocommit=True) as conn, conn.cursor() as cursor:
        cursor.execute("SELECT id, name, at, b, f, d, tags, u FROM orders ORDER BY id")
        table = cursor.fetch_arrow_table()
        times = [pa.timestamp("us", "UTC"), pa.date32()]
        assert table.schema.types[:6] == [
            pa.int64(),
            pa.string(),
            times[0],
            pa.bool_(),
            pa.float64(),
            times[1],
        ]
        assert table["tags"].to_pylist() == [["a", "b"], None]
        assert table["at"].to_pylist()[0] == dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
        cursor.execute("SELECT name FROM orders WHERE id = $1", (2,))
        assert cursor.fetchall() == [("eggs",)]
        cursor.execute("SELECT n FROM big")
        assert cursor.fetch_arrow_table()["n"].to_pylist() == list(range(ROWS))
        assert conn.adbc_get_table_schema("orders").names[:3] == ["id", "name", "price"]
        (catalog,) = conn.adbc_get_objects(depth="tables").read_all().to_pylist()
        (schema,) = catalog["catalog_db_schemas"]
        assert {one["table_name"] for one in schema["db_schema_tables"]} >= {"orders", "big", "recent"}
        assert cursor.adbc_ingest("from_adbc", pa.table({"a": [1, 2], "b": ["x", None]}), mode="create") == 2
        assert cursor.adbc_ingest("from_adbc", pa.table({"a": [3], "b": ["z"]}), mode="append") == 1
        cursor.execute("SELECT a, b FROM from_adbc ORDER BY a")
        assert cursor.fetchall() == [(1, "x"), (2, None), (3, "z")]
        cursor.execute("DROP TABLE from_adbc")


@pytest.mark.parametrize("protocol", ["binary", "csv", "cursor"])
def test_connectorx(url: str, protocol: str) -> None:
    query = "SELECT id, name, at, d, b, f FROM orders ORDER BY id"
    table = connectorx.read_sql(url, query, return_type="arrow", protocol=protocol)
    assert table.num_rows == 2
    assert table.to_pylist()[0] == {
        "id": 1,
        "name": "ham",
        "at": dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
        "d": dt.date(2026, 1, 2),
        "b": True,
        "f": 1.5,
    }
    assert table.to_pylist()[1]["at"] is None


def test_connectorx_in_parallel(url: str) -> None:
    table = connectorx.read_sql(
        url, "SELECT n FROM big", return_type="arrow", partition_on="n", partition_num=4
    )
    assert sorted(table["n"].to_pylist()) == list(range(ROWS))


# ---------------------------------------------------------------- SQLAlchemy and psycopg


class Base(DeclarativeBase):
    """Declares tables."""


class Order(Base):
    """A row of `orders`."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True)
    name: Mapped[str]
    price: Mapped[Decimal | None] = mapped_column(sa.Numeric(10, 2))
    tags: Mapped[list[str] | None] = mapped_column(sa.ARRAY(sa.Text))


def test_sqlalchemy_orm(url: str) -> None:
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with Session(engine) as session:
        assert session.get_one(Order, 1).tags == ["a", "b"]
        dear = session.scalars(sa.select(Order).where(Order.price > 2).order_by(Order.id)).all()
        assert [order.name for order in dear] == ["eggs"]
        counted = sa.select(sa.func.count(), sa.func.sum(Order.price)).where(Order.name.in_(["ham", "eggs"]))
        assert session.execute(counted).one() == (2, Decimal("3.75"))
        streamed = session.execute(sa.text("SELECT n FROM big"), execution_options={"yield_per": 1_000})
        assert sum(1 for _ in streamed) == ROWS
    engine.dispose()


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_sqlalchemy_async(url: str, driver: str) -> None:
    async def work() -> None:
        engine = create_async_engine(url.replace("postgresql:", f"postgresql+{driver}:"))
        async with AsyncSession(engine) as session:
            found = await session.scalars(sa.select(Order).where(Order.id < 3).order_by(Order.id.desc()))
            assert [order.name for order in found] == ["eggs", "ham"]
            stream = await session.stream(sa.text("SELECT n FROM big ORDER BY n LIMIT 100"))
            assert [row.n async for row in stream] == list(range(100))
        async with engine.connect() as conn:
            names = await conn.run_sync(lambda sync: sa.inspect(sync).get_table_names())
            assert {"orders", "big"} <= set(names)
            columns = await conn.run_sync(lambda sync: sa.inspect(sync).get_columns("orders"))
            assert [column["name"] for column in columns][:3] == ["id", "name", "price"]
        await engine.dispose()

    asyncio.run(asyncio.wait_for(work(), 60))


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_pipeline_cursor_and_copy(url: str, binary: bool) -> None:
    with psycopg.connect(url) as conn:
        with conn.pipeline():
            asked = [
                conn.execute("SELECT name FROM orders WHERE id = %s", (i,), binary=binary) for i in (1, 2)
            ]
            assert [cursor.fetchone() for cursor in asked] == [("ham",), ("eggs",)]
        with conn.cursor("named", binary=binary) as cursor:
            cursor.itersize = 1_000
            cursor.execute("SELECT n FROM big")
            assert sum(1 for _ in cursor) == ROWS
        with conn.cursor(binary=binary).copy("COPY big TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["int8"])
            assert sum(row[0] for row in copy.rows()) == ROWS * (ROWS - 1) // 2
