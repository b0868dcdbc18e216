"""The protocol through real clients: psql 15 and psycopg 3, sync and async."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

import tidegate
from tests.serve.pg_server import Serving, psql, serving, wait
from tidegate.config import Config

SLOW = "SELECT count(*) FROM big WHERE " + "md5(" * 60 + "s" + ")" * 60 + " = 'x'"
"""Some seconds of work in many small steps."""


@pytest.fixture(scope="module")
def at() -> Iterator[Serving]:
    with tidegate.open("memory://", config=Config(batch_rows=2_000, read_threads=1)) as db:
        db.sql("CREATE TABLE orders (id int8 NOT NULL, name text, price numeric(10,2))")
        db.sql("INSERT INTO orders VALUES (1, 'ham', 1.50), (2, 'eggs', 2.25), (3, 'O''Neill', NULL)")
        db.sql("CREATE TABLE big (s text)")
        db.append("big", {"s": [f"row {i}" for i in range(300_000)]})
        with serving(db) as found:
            yield found


# ---------------------------------------------------------------- psql


def test_psql_selects(at: Serving) -> None:
    done = psql(at, "SELECT id, name, price FROM orders ORDER BY id")
    assert done.stderr == ""
    assert done.stdout.splitlines()[2:] == [
        "  1 | ham     |  1.50", "  2 | eggs    |  2.25", "  3 | O'Neill |      ", "(3 rows)", "",
    ]  # fmt: skip


def test_psql_says_where_it_is_wrong(at: Serving) -> None:
    done = psql(at, "SELECT id,\n prise FROM orders")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        'ERROR:  column "prise" does not exist',
        "LINE 2:  prise FROM orders",
        "         ^",
        "HINT:  did you mean price?",
    ]


def test_psql_several_statements_in_one_text(at: Serving) -> None:
    """The second fails: the first has answered, the third is not run; and the place is that in the whole text."""
    done = psql(at, "SELECT 'ä;' AS a; SELECT nothing; CREATE TABLE never (a int8)")
    assert "ä;" in done.stdout
    assert "LINE 1: SELECT 'ä;' AS a; SELECT nothing; CREATE" in done.stderr
    assert done.stderr.splitlines()[2].index("^") == len("LINE 1: SELECT 'ä;' AS a; SELECT ")
    assert at.db.sql("SHOW TABLES LIKE 'never'").rows() == []


def test_psql_as_a_prompt(at: Serving) -> None:
    """Statements from stdin, with psql's own variables, conditions and timing."""
    script = """\\set x 2
SELECT name FROM orders WHERE id = :x;
\\timing on
BEGIN;
SET application_name = 'me'; SHOW application_name;
EXPLAIN SELECT * FROM public.orders WHERE id > 1;
ROLLBACK;
;
SELECT 1 AS one \\gset
\\echo got :one
"""
    done = psql(at, stdin=script)
    assert done.stderr == ""
    assert "eggs" in done.stdout
    assert "Scan orders" in done.stdout
    assert "got 1" in done.stdout
    assert " me" in done.stdout


def test_psql_ctrl_c_ends_the_query_and_not_psql(at: Serving) -> None:
    words = ["psql", "-X", at.conninfo(), "-v", "ON_ERROR_STOP=0"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdin is not None
        running.stdin.write(SLOW + ";\nSELECT 'still here';\n")
        running.stdin.flush()
        at.wait_until(busy=True)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert "canceling" in err or "cancelled" in err
    assert (
        "still here" in out or running.returncode != 0
    )  # psql stops reading a script that is not a terminal
    at.wait_until(busy=False)


# ---------------------------------------------------------------- psycopg


def test_parameters(at: Serving) -> None:
    with psycopg.connect(at.conninfo(), autocommit=True) as conn:
        for binary in (False, True):
            cur = conn.cursor(binary=binary)
            assert cur.execute("SELECT name FROM orders WHERE id = %s", (2,)).fetchall() == [("eggs",)]
            assert cur.execute("SELECT id FROM orders WHERE name = %s", ("O'Neill",)).fetchall() == [(3,)]
            assert cur.execute(
                "SELECT id FROM orders WHERE id = ANY(%s) ORDER BY 1", ([1, 3],)
            ).fetchall() == [(1,), (3,)]
            assert cur.execute("SELECT %s::text, '%%1 $1', $$ $1 $$ -- $1", ("a'b\\",)).fetchone() == (
                "a'b\\",
                "%1 $1",
                " $1 ",
            )
            assert cur.execute("SELECT id FROM orders ORDER BY id LIMIT %s OFFSET %s", (1, 1)).fetchall() == [
                (2,)
            ]
            assert cur.execute(
                "SELECT id FROM orders WHERE price IS NOT DISTINCT FROM %s", (None,)
            ).fetchall() == [(3,)]


def test_a_value_is_never_sql(at: Serving) -> None:
    """Whatever a value holds, it is that value."""
    nasty = [
        "'; DROP TABLE orders; --",
        "\\'; SELECT 1",
        "$1",
        "' || (SELECT 1) || '",
        "/*",
        "E'\\n'",
        "''",
        "$$",
        '"',
        "a\nb",
    ]
    with psycopg.connect(at.conninfo(), autocommit=True) as conn:
        for value in nasty:
            for query in ("SELECT %s::text", "SELECT %s", "SELECT 'a' || %s || 'b'"):
                got = conn.execute(query, (value,)).fetchone()
                assert got in ((value,), (f"a{value}b",))
            assert conn.execute("SELECT count(*) FROM orders WHERE name = %s", (value,)).fetchone() == (0,)
        assert conn.execute("SELECT count(*) FROM orders").fetchone() == (3,)


def test_prepared_statements(at: Serving) -> None:
    with psycopg.connect(at.conninfo(), autocommit=True, prepare_threshold=0) as conn:
        for i in (1, 2, 3, 1):
            row = conn.execute("SELECT id, %s::int4 FROM orders WHERE id = %s", (i, i)).fetchone()
            assert row == (i, i)
        conn.execute("DEALLOCATE ALL")
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            conn.execute("DEALLOCATE nothing", prepare=False)
        described = conn.pgconn.prepare(b"p", b"SELECT name, price * $1 FROM orders WHERE id = $2", [23, 20])
        assert described.status == psycopg.pq.ExecStatus.COMMAND_OK
        described = conn.pgconn.describe_prepared(b"p")
        assert [described.param_type(i) for i in range(described.nparams)] == [23, 20]
        assert [described.ftype(i) for i in range(described.nfields)] == [25, 1700]
        got = conn.pgconn.exec_prepared(b"p", [b"2", b"1"])
        assert (got.get_value(0, 0), got.get_value(0, 1)) == (b"ham", b"3.00")


def test_many_rows_by_portal(at: Serving) -> None:
    """A portal gives so many rows at a time: by the wire itself, as psycopg does not ask so."""
    from tests.serve.pg_wire import Wire

    with Wire(at.port) as wire:
        wire.parse("SELECT s FROM big ORDER BY s LIMIT 7").bind().describe("P").execute(limit=3).execute(
            limit=3
        ).execute(limit=3).sync()
        kinds = "".join(kind for kind, _ in wire.until("Z"))
        assert kinds == "12TDDDsDDDsDCZ"
        wire.parse("").bind().execute().sync()
        assert "".join(kind for kind, _ in wire.until("Z")) == "12IZ"


def test_an_error_passes_over_messages_until_sync(at: Serving) -> None:
    from tests.serve.pg_wire import Wire

    with Wire(at.port) as wire:
        wire.parse("SELECT 1/0").bind().execute().parse("SELECT 2").bind().execute().sync()
        found = wire.until("Z")
        assert "".join(kind for kind, _ in found) == "12EZ"
        wire.parse("SELECT 2").bind().execute().sync()
        assert "".join(kind for kind, _ in wire.until("Z")) == "12DCZ"
        wire.execute("nothing").sync()
        assert "".join(kind for kind, _ in wire.until("Z")) == "EZ"


def test_pipeline(at: Serving) -> None:
    with psycopg.connect(at.conninfo(), autocommit=True) as conn:
        with conn.pipeline():
            cursors = [conn.execute("SELECT %s::int4 * 2", (i,)) for i in range(100)]
        assert [cur.fetchone() for cur in cursors] == [(2 * i,) for i in range(100)]


def test_errors_have_numbers_and_places(at: Serving) -> None:
    cases = [
        ("SELECT prise FROM orders", psycopg.errors.UndefinedColumn, 8),
        ("SELECT 1 FROM nothing", psycopg.errors.UndefinedTable, 15),
        ("SELEC 1", psycopg.errors.SyntaxError, 1),
        ("SELECT nofunction(1)", psycopg.errors.UndefinedFunction, 8),
        ("SELECT 'ä', 'x", psycopg.errors.SyntaxError, 13),
        ("SELECT 1/0", psycopg.errors.DivisionByZero, None),
        ("SET nothing_such = 1", psycopg.errors.UndefinedObject, 5),
    ]
    with psycopg.connect(at.conninfo(), autocommit=True) as conn:
        for sql, kind, place in cases:
            with pytest.raises(kind) as caught:
                conn.execute(sql)
            if place is not None:
                assert caught.value.diag.statement_position == str(place), sql
        with pytest.raises(psycopg.errors.UndefinedColumn) as caught:
            conn.execute("SELECT %s::int8, id, %s, prise FROM orders", (123456, "a long text"))
        assert caught.value.diag.statement_position == str(
            "SELECT $1::int8, id, $2, prise".index("prise") + 1
        )


def test_transactions_are_taken_and_told(at: Serving) -> None:
    """Drivers begin by themselves. Each statement is its own; what fails is over until ROLLBACK."""
    notices: list[str] = []
    with psycopg.connect(at.conninfo()) as conn:
        conn.add_notice_handler(lambda one: notices.append(one.message_primary or ""))
        conn.execute("SELECT 1")
        assert conn.info.transaction_status is TransactionStatus.INTRANS
        with pytest.raises(psycopg.errors.UndefinedTable):
            conn.execute("SELECT * FROM nothing")
        assert conn.info.transaction_status is TransactionStatus.INERROR
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            conn.execute("SELECT 1")
        conn.rollback()
        assert conn.info.transaction_status is TransactionStatus.IDLE
        assert notices == []
        with conn.transaction():
            conn.execute("CREATE TABLE kept (a int8)")
        conn.execute("INSERT INTO kept VALUES (1)")
        conn.rollback()
        assert notices == ["every statement is its own transaction here: what was written stays written"]
        assert conn.execute("SELECT a FROM kept").fetchall() == [(1,)]
        conn.execute("DROP TABLE kept")
        conn.commit()


def test_settings(at: Serving) -> None:
    with (
        psycopg.connect(at.conninfo(application_name="report"), autocommit=True) as conn,
        psycopg.connect(at.conninfo(), autocommit=True) as other,
    ):

        def show(name: str) -> object:
            row = conn.execute(f"SHOW {name}").fetchone()
            return row and row[0]

        assert show("application_name") == "report"
        conn.execute("SET SESSION search_path TO a, b")
        assert show("search_path") == "a, b"
        assert show("TRANSACTION ISOLATION LEVEL") == "read committed"
        conn.execute("SET statement_timeout = '2min'")
        assert show("statement_timeout_ms") == "120000"
        conn.execute("SET stats_filter = off")
        assert show("stats_filter") == "off"
        assert other.execute("SHOW stats_filter").fetchone() == ("on",)
        assert conn.info.parameter_status("server_version") == "15.0"
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="UTF8"):
            conn.execute("SET client_encoding = 'LATIN1'")
        conn.execute("SET TIME ZONE 'Europe/Berlin'")
        assert show("TimeZone") == "UTC"
        conn.execute("DISCARD ALL")
        assert show("stats_filter") == "on"
        assert show("search_path") == '"$user", public'


def test_a_time_out(at: Serving) -> None:
    with psycopg.connect(at.conninfo(), autocommit=True) as conn:
        conn.execute("SET statement_timeout = 50")
        with pytest.raises(psycopg.errors.QueryCanceled, match="longer than 50 ms"):
            conn.execute(SLOW)


def test_cancel(at: Serving) -> None:
    with psycopg.connect(at.conninfo(), autocommit=True) as conn:
        for query in (
            SLOW,
            "SELECT count(*) FROM pg_class a, pg_type b, pg_type c, pg_type d, pg_type e, pg_type f, pg_type g",
        ):
            canceller = threading.Thread(target=lambda: (at.wait_until(busy=True), conn.cancel()))
            canceller.start()
            with pytest.raises(psycopg.errors.QueryCanceled):
                conn.execute(query)
            canceller.join()
        assert conn.execute("SELECT 1").fetchone() == (1,)
        at.wait_until(busy=False)


def test_a_client_that_hangs_up_cancels(at: Serving) -> None:
    conn = psycopg.connect(at.conninfo(), autocommit=True)
    conn.pgconn.send_query(SLOW.encode())
    conn.pgconn.flush()
    at.wait_until(busy=True)
    running = next(one for one in at.server.connections.values() if one.running is not None)
    watch = running.running
    conn.close()
    wait(lambda: watch is not None and watch._cancelled.is_set())
    wait(lambda: running.pid not in at.server.connections)


def test_a_wrong_key_cancels_nothing(at: Serving) -> None:
    from tests.serve.pg_wire import cancel

    with psycopg.connect(at.conninfo(), autocommit=True) as conn:
        cancel(at.port, conn.info.backend_pid, 1)
        cancel(at.port, 123_456, 1)
        assert conn.execute("SELECT 1").fetchone() == (1,)


def test_fifty_clients(at: Serving) -> None:
    """Each asks its own questions, all at once, and gets its own answers."""
    barrier = threading.Barrier(50)

    def client(i: int) -> list[tuple[object, ...]]:
        with psycopg.connect(at.conninfo(), autocommit=True) as conn:
            barrier.wait(60)
            got = []
            for j in range(5):
                row = conn.execute(
                    "SELECT %s::int4, name FROM orders WHERE id = %s", (100 * i + j, j % 3 + 1)
                ).fetchone()
                got.append(row or ())
            return got

    with ThreadPoolExecutor(50) as pool:
        for i, got in enumerate(pool.map(client, range(50))):
            assert got == [(100 * i + j, ("ham", "eggs", "O'Neill")[j % 3]) for j in range(5)]


def test_async(at: Serving) -> None:
    async def client(i: int) -> list[dict[str, object]]:
        async with await psycopg.AsyncConnection.connect(
            at.conninfo(), autocommit=True, row_factory=dict_row
        ) as conn:
            cur = await conn.execute("SELECT id, price FROM orders WHERE id <= %s ORDER BY id", (i % 3 + 1,))
            return await cur.fetchall()

    async def main() -> None:
        found = await asyncio.gather(*(client(i) for i in range(9)))
        assert [len(one) for one in found] == [1, 2, 3] * 3
        async with await psycopg.AsyncConnection.connect(at.conninfo(), autocommit=True) as conn:
            asked = asyncio.ensure_future(conn.execute(SLOW))
            await asyncio.to_thread(at.wait_until, True)
            await conn.cancel_safe()
            with pytest.raises(psycopg.errors.QueryCanceled):
                await asked

    asyncio.run(main())


def test_what_is_not_done_says_so(at: Serving) -> None:
    with psycopg.connect(at.conninfo(), autocommit=True) as conn:
        for sql in ("COPY orders TO STDOUT", "DECLARE c CURSOR FOR SELECT 1", "LISTEN x"):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                conn.execute(sql)
        assert conn.execute("SELECT 1").fetchone() == (1,)


def test_a_slow_reader_holds_back_the_server(at: Serving) -> None:
    """Rows are made as they are taken: while nobody reads, no more is written than buffers hold."""
    from tests.serve.pg_wire import Wire

    with Wire(at.port) as wire:
        wire.ask("SELECT s, s, s, s, s, s, s, s, s, s FROM big")
        wait(lambda: at.server.connections[wire.pid].running is None)
        connection = at.server.connections[wire.pid]
        wait(lambda: connection.writer.transport.get_write_buffer_size() > 0)
        assert connection.writer.transport.get_write_buffer_size() < 4 << 20
        rows = sum(kind == "D" for kind, _ in wire.until("Z"))
        assert rows == 300_000
