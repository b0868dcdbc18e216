"""The protocol message by message: what drivers rarely do, and what they rely upon."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import psycopg
import pytest

from tests.server.pg_server import Serving, shop, wait
from tests.server.pg_wire import Wire, cancel, message


@pytest.fixture(scope="module")
def at() -> Iterator[Serving]:
    with shop() as found:
        yield found


def columns(body: bytes) -> list[tuple[str, int]]:
    """Names and types of a RowDescription."""
    found, at = [], 2
    for _ in range(struct.unpack_from(">H", body)[0]):
        end = body.index(b"\0", at)
        found.append((body[at:end].decode(), struct.unpack_from(">I", body, end + 7)[0]))
        at = end + 19
    return found


def test_describe_a_statement_before_its_values(at: Serving) -> None:
    """Its parameters as declared, as cast, or text; its columns as they will be."""
    with Wire(at.port) as wire:
        wire.parse("SELECT name, price * $1, $3, $4::date FROM orders WHERE id = $2", "p", (23, 20))
        wire.describe("S", "p").sync()
        found = dict(wire.until("Z"))
        assert struct.unpack(">H4I", found["t"]) == (4, 23, 20, 25, 1082)
        assert [oid for _, oid in columns(found["T"])] == [25, 1700, 25, 1082]
        assert [name for name, _ in columns(found["T"])] == ["name", "?column?", "?column?", "date"]
        wire.parse("INSERT INTO orders VALUES ($1, $2, $3)", "i").describe("S", "i").sync()
        assert "".join(kind for kind, _ in wire.until("Z")) == "1tnZ"
        wire.parse("SELECT relname FROM pg_class WHERE oid = $1", "c").describe("S", "c").sync()
        assert "".join(kind for kind, _ in wire.until("Z")) == "1tTZ"


def test_parameters_of_which_no_type_is_told(at: Serving) -> None:
    """Drivers that send binary ask for the types first: they are what the places of the parameters want."""
    at.db.sql(
        "CREATE TABLE kinds (i int8, n numeric(9,2), t timestamptz, b bytea, u uuid, l int8[], s text, d bool)"
    )
    cases = {
        "SELECT 1 FROM kinds WHERE i = $1 AND n > $2 AND t < $3 AND b = $4 AND u = $5": (
            20,
            1700,
            1184,
            17,
            2950,
        ),
        "SELECT 1 FROM public.kinds WHERE i = ANY($1) AND s LIKE $2 AND d = $3 LIMIT $4": (1016, 25, 16, 20),
        "SELECT $1, i + $2, $3::date FROM kinds WHERE i IN ($4, $5)": (25, 20, 1082, 20, 20),
        "INSERT INTO kinds VALUES ($1, $2, $3), ($4, 2, now())": (20, 1700, 1184, 20),
        "INSERT INTO kinds (s, l) VALUES ($1, $2)": (25, 1016),
        "SELECT count(*) FROM kinds a JOIN kinds b ON a.i = b.i WHERE a.t > $1": (1184,),
    }
    with Wire(at.port) as wire:
        for sql, oids in cases.items():
            wire.parse(sql, "k").describe("S", "k").sync()
            found = dict(wire.until("Z"))
            assert struct.unpack(f">H{len(oids)}I", found["t"]) == (len(oids), *oids), sql
            wire.send(message("C", b"Sk\0")).sync()
            wire.until("Z")
        wire.parse("SELECT $1 + 1 FROM orders LIMIT 1", "b").describe("S", "b").sync()
        wire.until("Z")
        value = struct.pack(">HHHi", 1, 1, 1, 4) + struct.pack(">iHH", 41, 1, 1)
        wire.send(message("B", b"\0b\0" + value)).execute().sync()
        assert dict(wire.until("Z"))["D"][-4:] == struct.pack(">i", 42)
    at.db.sql("DROP TABLE kinds")


def test_many_rows_by_portal(at: Serving) -> None:
    """A portal gives so many rows at a time: by the wire itself, as psycopg does not ask so."""
    with Wire(at.port) as wire:
        wire.parse("SELECT s FROM big ORDER BY s LIMIT 7").bind().describe("P").execute(limit=3).execute(
            limit=3
        ).execute(limit=3).sync()
        kinds = "".join(kind for kind, _ in wire.until("Z"))
        assert kinds == "12TDDDsDDDsDCZ"
        wire.parse("SELECT 1").bind().execute().execute().sync()
        assert "".join(kind for kind, _ in wire.until("Z")) == "12DCCZ"
        wire.parse("SET application_name = x").bind().execute().execute().sync()
        assert "".join(kind for kind, _ in wire.until("Z")) == "12SCEZ"
        wire.parse("").bind().execute().sync()
        assert "".join(kind for kind, _ in wire.until("Z")) == "12IZ"


def test_an_error_passes_over_messages_until_sync(at: Serving) -> None:
    with Wire(at.port) as wire:
        wire.parse("SELECT 1/0").bind().execute().parse("SELECT 2").bind().execute().sync()
        found = wire.until("Z")
        assert "".join(kind for kind, _ in found) == "12EZ"
        wire.parse("SELECT 2").bind().execute().sync()
        assert "".join(kind for kind, _ in wire.until("Z")) == "12DCZ"
        wire.execute("nothing").sync()
        assert "".join(kind for kind, _ in wire.until("Z")) == "EZ"


def test_a_wrong_key_cancels_nothing(at: Serving) -> None:
    with psycopg.connect(at.conninfo(), autocommit=True) as conn:
        cancel(at.port, conn.info.backend_pid, 1)
        cancel(at.port, 123_456, 1)
        assert conn.execute("SELECT 1").fetchone() == (1,)


def test_a_slow_reader_holds_back_the_server(at: Serving) -> None:
    """Rows are made as they are taken: while nobody reads, no more is written than buffers hold."""
    with Wire(at.port) as wire:
        wire.ask("SELECT s, s, s, s, s, s, s, s, s, s FROM big")
        connection = at.server.connections[wire.pid]
        wait(lambda: connection.writer.transport.get_write_buffer_size() > 0)
        assert connection.writer.transport.get_write_buffer_size() < 4 << 20
        rows = sum(kind == "D" for kind, _ in wire.until("Z"))
        assert rows == 300_000
