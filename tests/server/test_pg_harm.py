"""Clients that mean harm, or are broken: each is shown the door, and whoever else is there notices nothing."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

import tidegate
from tests.server.pg_server import Serving, serving, wait
from tests.server.pg_wire import Wire, hello, message
from tidegate.server.postgres.listener import ConnectionLimits


@pytest.fixture(scope="module")
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://") as found:
        found.sql("CREATE TABLE orders (id int8, name text)")
        found.sql("INSERT INTO orders VALUES (1, 'ham'), (2, 'eggs')")
        yield found


QUICK = ConnectionLimits(connections=20, startup=1.0, body=1.0, message=1 << 20, held=4 << 20)
HARM = {
    "garbage": os.urandom(5000),
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "zeros": b"\0" * 1000,
    "a hello of 2 GB": struct.pack(">II", 0x7FFFFFFF, 3 << 16),
    "a hello without an end": struct.pack(">II", 30, 3 << 16) + b"user\0ann\0database\0lakelake",
    "an old protocol": struct.pack(">II", 8, 2 << 16),
    "no user": struct.pack(">II", 9, 3 << 16) + b"\0",
    "SSL for ever": struct.pack(">II", 8, 80877103) * 100,
    "a message of 2 GB": hello() + b"Q" + struct.pack(">I", 0x7FFFFFFF) + b"SELECT 1",
    "a message of less than nothing": hello() + b"Q" + struct.pack(">I", 0) + b"SELECT 1",
    "no such message": hello() + message("?", b"what"),
    "a password that nobody asked for": hello() + message("p", b"pencil\0"),
    "a text without an end": hello() + message("Q", b"SELECT 1"),
    "more than it says": hello() + message("Q", b"SELECT 1\0SELECT 2"),
    "65,535 values in no bytes": hello() + message("B", b"\0\0" + struct.pack(">HH", 0, 65535)),
    "a value of 2 GB": hello() + message("B", b"\0\0" + struct.pack(">HHi", 0, 1, 0x7FFFFFFF)),
    "a value of -2 bytes": hello() + message("B", b"\0\0" + struct.pack(">HHi", 0, 1, -2)),
    "half a message": hello() + b"Q\0\0\1\0SELECT",
    "half a head": hello() + b"Q\0\0",
}


def test_harm_is_shown_the_door(db: tidegate.Database) -> None:
    """Each is closed, whatever it sent; and whoever was there before notices nothing."""
    with serving(db, limits=QUICK) as at, psycopg.connect(at.conninfo(), autocommit=True) as good:
        for name, data in HARM.items():
            with socket.create_connection(("127.0.0.1", at.port), 30) as raw:
                raw.settimeout(30)
                try:
                    raw.sendall(data)
                    if name == "half a head":  # it may be on its way for ever; until it hangs up
                        raw.shutdown(socket.SHUT_WR)
                    while raw.recv(4096):
                        pass
                except ConnectionError:
                    pass
            assert good.execute("SELECT count(*) FROM orders").fetchone() == (2,), name
        wait(lambda: len(at.server.connections) == 1)
        assert at.server._held == 0


def test_messages_that_are_wrong_but_messages(db: tidegate.Database) -> None:
    """They are errors, and the connection goes on."""
    with serving(db, limits=QUICK) as at, Wire(at.port) as wire:
        wrong = [
            message("Q", b"SELECT '\xff'\0"),
            message("P", b"\0SELECT $70000\0" + struct.pack(">H", 0)) + message("S"),
            message("P", b"\0SELECT $1\0" + struct.pack(">HI", 1, 424242)) + message("S"),
            message("B", b"p\0nothing\0" + struct.pack(">HHH", 0, 0, 0)) + message("S"),
            message("E", b"nothing\0" + struct.pack(">i", 0)) + message("S"),
            message("D", b"Snothing\0") + message("S"),
            message("F", b"\0\0\0\1"),
            message("P", b"\0SELECT 1; SELECT 2\0" + struct.pack(">H", 0)) + message("S"),
            message("Q", b"SELECT " + b"(" * 100_000 + b"\0"),
            message("Q", b"SELECT $1\0"),
            message("P", b"\0SELECT 'a' $1\0" + struct.pack(">H", 0)) + message("S"),
        ]
        for one in wrong:
            wire.send(one)
            found = wire.until("Z")
            assert [kind for kind, _ in found if kind in "EZ"] == ["E", "Z"], one[:80]
        assert [kind for kind, _ in wire.ask("SELECT 1").until("Z")] == list("TDCZ")


def test_a_small_text_that_would_be_large(db: tidegate.Database) -> None:
    """A hundred thousand times $1, and a megabyte for it, are refused before they are put together."""
    holes = ",".join(["$1"] * 100_000)
    with serving(db) as at, Wire(at.port) as wire:
        value = b"x" * (1 << 20)
        bind = message("B", b"\0\0" + struct.pack(">HHi", 0, 1, len(value)) + value + struct.pack(">H", 0))
        wire.parse(f"SELECT {holes}").send(bind).execute().sync()
        found = wire.until("Z")
        assert "".join(kind for kind, _ in found) == "12EZ"
        assert b"54000" in found[2][1]


def test_too_many_clients(db: tidegate.Database) -> None:
    with serving(db, limits=QUICK) as at:
        wires = [Wire(at.port) for _ in range(QUICK.connections)]
        with pytest.raises(psycopg.OperationalError, match="too many"):
            psycopg.connect(at.conninfo())
        wires.pop().__exit__(None, None, None)
        wait(lambda: len(at.server.connections) < QUICK.connections)
        with psycopg.connect(at.conninfo()) as conn:
            assert conn.execute("SELECT 1").fetchone() == (1,)
        for wire in wires:
            wire.__exit__(None, None, None)


def test_a_crowd_that_says_nothing_keeps_nobody_out(db: tidegate.Database) -> None:
    with serving(db, limits=replace(QUICK, unauthenticated=5, startup=600)) as at:
        crowd = [socket.create_connection(("127.0.0.1", at.port), 30) for _ in range(50)]
        wait(lambda: len(at.server._tasks) <= 5)
        with psycopg.connect(at.conninfo()) as conn:
            assert conn.execute("SELECT 1").fetchone() == (1,)
        for raw in crowd:
            raw.close()


def test_whoever_is_slow_to_say_hello_goes(db: tidegate.Database) -> None:
    with serving(db, limits=QUICK) as at, socket.create_connection(("127.0.0.1", at.port), 30) as raw:
        raw.sendall(hello()[:5])
        assert raw.recv(1) == b""
        assert at.server.connections == {}


def test_portals_are_bounded(db: tidegate.Database) -> None:
    """In a transaction they stay; there is a number of them, and of bytes, beyond which none is made."""
    with serving(db) as at, Wire(at.port) as wire:
        wire.ask("BEGIN").until("Z")
        wire.parse("SELECT 1").sync().until("Z")
        codes = []
        for i in range(70):
            wire.bind(f"p{i}").sync()
            codes += [kind for kind, _ in wire.until("Z") if kind in "2E"]
            if codes[-1] == "E":
                break
        assert codes == ["2"] * 64 + ["E"]


def test_large_messages_of_many(db: tidegate.Database) -> None:
    """All messages together have a bound, which those that never end do not hold for ever."""
    with serving(db, limits=QUICK) as at:
        wires = [Wire(at.port) for _ in range(5)]
        for wire in wires:
            wire.send(b"Q" + struct.pack(">I", 1 << 20) + b"SELECT")
        ends = [wire.rest() for wire in wires]
        assert sum(b"53200" in body for found in ends for _, body in found) == 1
        for wire in wires:
            wire.__exit__(None, None, None)
        wait(lambda: at.server._held == 0)
        with psycopg.connect(at.conninfo()) as conn:
            assert conn.execute("SELECT 1").fetchone() == (1,)


def test_the_server_ends_with_clients_in_it(db: tidegate.Database) -> None:
    told: list[str] = []

    def wait_for_end(conn: psycopg.Connection[tuple[object, ...]]) -> None:
        try:
            while True:
                conn.execute("SELECT 1")
        except psycopg.OperationalError as error:
            told.append(str(error))

    with serving(db) as at:
        conns = [psycopg.connect(at.conninfo(), autocommit=True) for _ in range(3)]
        threads = [threading.Thread(target=wait_for_end, args=(conn,)) for conn in conns]
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join(30)
    for conn in conns:
        conn.close()
    assert len(told) == 3


def test_it_is_imported_with_nothing_of_spark() -> None:
    code = "import sys, tidegate.server.postgres.listener; print([m for m in ('pyspark', 'duckdb') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_serving_is_for_tests(db: tidegate.Database) -> None:
    """What other tests lean upon: a server that was left is gone."""
    with serving(db) as at:
        port = at.port
        assert isinstance(at, Serving)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)


def test_a_client_that_only_reads_changes_nothing_for_others(db: tidegate.Database) -> None:
    """Leases, grace and statistics are everybody's: SET, options at the start and OPTIONS of a query are refused."""
    own = db.sql("SHOW ALL").rows()
    with serving(db, write=False) as at:
        with psycopg.connect(at.conninfo(), autocommit=True) as conn:
            for statement in (
                "SET lease_ms = 1",
                "SET SESSION sweep_grace_ms = 0",
                "SELECT count(*) FROM orders OPTIONS (stats_collection = off)",
                "SELECT set_config('lease_ms', '1', false)",
                "SELECT pg_catalog.set_config('sweep_grace_ms'::text, '0', true)",
            ):
                with pytest.raises(psycopg.Error, match="setting of the database") as caught:
                    conn.execute(statement)
                assert caught.value.sqlstate == "55P02"
            with pytest.raises(psycopg.Error, match="setting of the database"):
                conn.execute("SELECT set_config(%s, %s, false)", ("lease_ms", "1"))
            conn.execute("SET stats_filter = off")
            assert conn.execute("SELECT count(*) FROM orders").fetchall() == [(2,)]
            conn.execute("DISCARD ALL")
            assert conn.execute("SHOW stats_filter").fetchall() == [("on",)]
        with pytest.raises(psycopg.OperationalError, match="lease_ms is a setting of the database"):
            psycopg.connect(at.conninfo(options="'-c lease_ms=1'"))
    assert db.sql("SHOW ALL").rows() == own
    assert db.context.collection("orders").config == db.context.config
