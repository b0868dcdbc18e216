"""psycopg 3, sync and async: parameters, errors, transactions, settings, cancelling, many at once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from tests.server.pg_server import SLOW, Serving, shop, wait


@pytest.fixture(scope="module")
def at() -> Iterator[Serving]:
    with shop() as found:
        yield found


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


def test_the_session_is_the_clients(at: Serving) -> None:
    with psycopg.connect(at.conninfo(), autocommit=True) as conn:
        who = conn.info.user, conn.info.dbname
        assert conn.execute("SELECT current_user, current_database(), format('%s', true)").fetchone() == (
            *who,
            "t",
        )
        assert conn.execute("SELECT user, current_catalog FROM orders LIMIT 1").fetchone() == who
        assert conn.execute("SELECT id FROM orders WHERE name = current_user").fetchall() == []


def test_a_time_as_a_parameter(at: Serving) -> None:
    at.db.sql("CREATE TABLE history (a int8)")
    at.db.append("history", {"a": [1]}, at=10)
    at.db.append("history", {"a": [2]}, at=20)
    with psycopg.connect(at.conninfo(), autocommit=True) as conn:
        for when, rows in ((15, [(1,)]), (20, [(1,), (2,)])):
            for prepare in (False, True):
                asked = conn.execute("SELECT a FROM history ORDER BY a AS OF %s", (when,), prepare=prepare)
                assert asked.fetchall() == rows
    at.db.sql("DROP TABLE history")


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
        assert notices == ["every statement is a transaction of its own: earlier writes are not rolled back"]
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


def test_set_local_ends_with_its_transaction_block(at: Serving) -> None:
    with psycopg.connect(at.conninfo(application_name="report"), autocommit=True) as conn:

        def show(name: str) -> str:
            return conn.execute(f"SHOW {name}").fetchone()[0]  # type: ignore[index]  # there is one

        warned: list[str | None] = []
        conn.add_notice_handler(lambda notice: warned.append(notice.message_primary))
        conn.execute("SET LOCAL stats_filter = off")
        assert show("stats_filter") == "on"
        assert warned == ["SET LOCAL can only be used in transaction blocks"]
        conn.execute("SET statement_timeout = '1min'")
        for end in ("COMMIT", "ROLLBACK"):
            conn.execute("BEGIN")
            for change in ("statement_timeout = '5s'", "stats_filter = off", "application_name = 'batch'"):
                conn.execute(f"SET LOCAL {change}")
            conn.execute("SET audit = 0.5")
            with pytest.raises(psycopg.errors.UndefinedObject), conn.transaction():
                conn.execute("SET LOCAL nothing = 1")
            assert (show("statement_timeout"), show("stats_filter")) == ("5s", "off")
            assert conn.info.parameter_status("application_name") == "batch"
            conn.execute(end)
            assert (show("statement_timeout"), show("stats_filter"), show("audit")) == ("1min", "on", "0.5")
            assert conn.info.parameter_status("application_name") == "report"


def test_set_config_is_set(at: Serving) -> None:
    with psycopg.connect(at.conninfo(), autocommit=True) as conn:

        def show(name: str) -> str:
            return conn.execute(f"SHOW {name}").fetchone()[0]  # type: ignore[index]  # there is one

        conn.execute("SELECT set_config('application_name', 'report', false), set_config('a.b', 'c', false)")
        assert show("application_name") == conn.info.parameter_status("application_name") == "report"
        conn.execute("SELECT set_config(%s, %s, false)", ("stats_filter", "off"))
        assert show("stats_filter") == "off"
        conn.execute("SELECT pg_catalog.set_config('statement_timeout', '5s', false)")
        assert show("statement_timeout_ms") == "5000"
        for call, message in {
            "set_config('audit', '7', false)": "audit cannot be '7'",
            "set_config('client_encoding', 'LATIN1', false)": "client_encoding cannot be",
            "set_config('nothing', '1', false)": 'there is no setting "nothing"',
            "set_config('aud' || 'it', '1', false)": "constants only",
        }.items():
            with pytest.raises(psycopg.Error, match=message):
                conn.execute(f"SELECT {call}")
        assert show("audit") == "0.01"


def test_settings_from_the_start(at: Serving) -> None:
    options = r"'-c statement_timeout=5s -c search_path=a,\\ b --stats-filter=off'"
    with psycopg.connect(at.conninfo(options=options), autocommit=True) as conn:
        assert conn.execute("SHOW statement_timeout_ms").fetchone() == ("5000",)
        assert conn.execute("SHOW search_path").fetchone() == ("a, b",)
        assert conn.execute("SHOW stats_filter").fetchone() == ("off",)
    for wrong in ("'-c nothing_such=1'", "'-c client_encoding=LATIN1'"):
        with pytest.raises(psycopg.OperationalError, match=r"nothing_such|UTF8"):
            psycopg.connect(at.conninfo(options=wrong))


def test_a_time_out(at: Serving) -> None:
    with psycopg.connect(at.conninfo(), autocommit=True) as conn:
        conn.execute("SET statement_timeout = 50")
        with pytest.raises(psycopg.errors.QueryCanceled, match="longer than 50 ms"):
            conn.execute(SLOW)


CANCELLED = """
import sys, threading, time, psycopg
conn = psycopg.connect(sys.argv[1], autocommit=True)
timer = threading.Timer(0.7, conn.cancel)
timer.start()
try:
    conn.execute(sys.argv[2])
except psycopg.errors.QueryCanceled as error:
    print(error.sqlstate, conn.execute("SELECT 'still here'").fetchone())
timer.join()
conn.close()
"""


@pytest.mark.parametrize(
    "query", [SLOW, "SELECT count(*) FROM pg_type a, pg_type b, pg_type c, pg_type d, pg_type e, pg_type f"]
)
def test_cancel(at: Serving, query: str) -> None:
    """In a process of its own: libpq's cancel holds the interpreter until the server has heard it."""
    done = subprocess.run(
        [sys.executable, "-c", CANCELLED, at.conninfo(), query],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == "57014 ('still here',)\n"
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


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_cursors_of_the_server(at: Serving, binary: bool) -> None:
    """Rows piece by piece; COMMIT lets go of them, unless the cursor holds."""
    with psycopg.connect(at.conninfo()) as conn:
        with conn.cursor("c", binary=binary) as cur:
            cur.execute("SELECT id, name FROM orders WHERE id < %s ORDER BY id", (3,))
            assert cur.description is not None
            assert [one.name for one in cur.description] == ["id", "name"]
            assert cur.fetchone() == (1, "ham")
            assert cur.fetchmany(5) == [(2, "eggs")]
            assert cur.fetchone() is None
        conn.execute("DECLARE gone CURSOR FOR SELECT 1")
        conn.execute("DECLARE held CURSOR WITH HOLD FOR SELECT s FROM big ORDER BY s LIMIT 5")
        conn.commit()
        assert conn.execute("MOVE 1 FROM held").statusmessage == "MOVE 1"
        assert len(conn.execute("FETCH FORWARD 3 IN held").fetchall()) == 3
        assert conn.execute("FETCH ALL FROM held").statusmessage == "FETCH 1"
        conn.execute("CLOSE held")
        conn.commit()
        for wrong in ("FETCH gone", "FETCH held", "CLOSE held"):
            with pytest.raises(psycopg.errors.InvalidCursorName):
                conn.execute(wrong)
            conn.rollback()
        with pytest.raises(psycopg.errors.UndefinedColumn) as caught:
            conn.execute("DECLARE wrong CURSOR FOR SELECT prise FROM orders")
        assert caught.value.diag.statement_position == str(
            "DECLARE wrong CURSOR FOR SELECT prise".index("prise") + 1
        )
        conn.rollback()


def test_what_is_not_done_says_so(at: Serving) -> None:
    with psycopg.connect(at.conninfo(), autocommit=True) as conn:
        for sql in ("COPY orders TO '/tmp/x'", "DECLARE c SCROLL CURSOR FOR SELECT 1", "LISTEN x"):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                conn.execute(sql)
        assert conn.execute("SELECT 1").fetchone() == (1,)
