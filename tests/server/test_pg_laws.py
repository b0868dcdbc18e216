"""Laws of the protocol's small parts, over anything that a client may send: an answer or a refusal, and never anything else."""

from __future__ import annotations

import logging
import random
import socket
import struct
from contextlib import suppress

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from tests.server.pg_server import serving, wait
from tests.server.pg_wire import hello, message
from tidegate.errors import TidegateError
from tidegate.server.postgres import parameters as holes
from tidegate.server.postgres.listener import ConnectionLimits
from tidegate.server.postgres.wire import messages, values
from tidegate.server.postgres.wire.sqlstate import PostgresError
from tidegate.sql.parse import statement_texts
from tidegate.sql.parse.lexer import tokenize
from tidegate.statements.postgres_catalog import postgres_types as types
from tidegate.statements.postgres_catalog.dialect import to_duckdb
from tidegate.statements.postgres_catalog.rewrite import is_catalog, strip_schemas

OIDS = st.sampled_from([*types.BY_OID, *types.ELEMENTS, 0, 705, 1043, 424242])
WORDS = st.sampled_from(
    ["SELECT", "FROM", "pg_catalog", "information_schema", "public", ".", "::", "regclass", "'a{b}'", "'{x}'", "(", ")", ",", "as",
     "cast", "operator", "~", "collate", "any", "version", "pg_class", "t", "extract", "$1", "$2", "[", "]", "current_user", '"q"']
)  # fmt: skip


@given(st.sampled_from("QPBDECpSHXdcfF?z\0"), st.binary(max_size=200))
def test_any_bytes_are_a_message_or_none(kind: str, body: bytes) -> None:
    with suppress(messages.ProtocolError, PostgresError):
        messages.parse_message(kind, body)


@given(OIDS, st.sampled_from([0, 1, 2, -1]), st.none() | st.binary(max_size=60))
def test_any_bytes_are_a_value_or_none(oid: int, form: int, data: bytes | None) -> None:
    try:
        found = values.parameter_text(oid, form, data)
    except PostgresError:
        return
    assert (found is None) == (data is None)


@given(
    st.text(alphabet=st.characters(exclude_categories=("Cs",), exclude_characters="\0")), st.text(max_size=5)
)
def test_a_value_in_a_text_is_read_as_itself(value: str, comment: str) -> None:
    """Whatever it holds; and of the other tokens none is another one than before."""
    text = "SELECT $1 || 'a', $2::int8, \"$1\" -- " + "".join(c for c in comment if c.isprintable())
    piece = statement_texts(text)[0]
    filled = holes.substitute(piece, [None, "int8"], [value, "5"])
    found = [one.text for one in tokenize(filled.text)]
    assert found[:4] == ["select", value, "||", "a"]
    assert found[4:] == [",", "cast", "(", "5", "as", "int8", ")", "::", "int8", ",", "$1", ""]


@given(st.lists(WORDS, min_size=1, max_size=15))
def test_any_words_are_rewritten_or_refused(words: list[str]) -> None:
    for piece in statement_texts("SELECT " + " ".join(words)):
        is_catalog(piece, lambda name: False)
        assert len(strip_schemas(piece).text) == len(piece.text)
        try:
            oids = holes.declared_types(piece, [0] * holes.parameter_count(piece))
            filled = holes.substitute(piece, [types.sql_name(one) for one in oids], [None] * len(oids))
            to_duckdb(filled.text)
        except (PostgresError, TidegateError):
            pass


@given(st.lists(st.tuples(st.text("ab ", max_size=3), st.text("xyz'", max_size=6)), min_size=1, max_size=6))
def test_places_are_found_again(parts: list[tuple[str, str]]) -> None:
    """A place in the filled text is the same place in the client's, or the parameter that it was made of."""
    text = "SELECT " + ", ".join(f"{before}+${i + 1}" for i, (before, _) in enumerate(parts)) + ", last"
    piece = statement_texts(text)[0]
    filled = holes.substitute(piece, [None] * len(parts), [value for _, value in parts])
    assert filled.origin(filled.text.index("last")) == text.index("last")
    assert filled.origin(0) == 0
    for i, start in enumerate(filled.starts):
        assert filled.origin(start + 1) == text.index(f"${i + 1}")


def _sessions() -> list[bytes]:
    """What good clients send."""
    parse = message(
        "P", b"s\0SELECT id, $1::int8 FROM orders WHERE id = $2\0" + struct.pack(">HII", 2, 20, 0)
    )
    bind = message("B", b"p\0s\0" + struct.pack(">HhhHi8si1sHh", 2, 1, 0, 2, 8, b"\0" * 8, 1, b"1", 1, 1))
    rest = message("D", b"Pp\0") + message("E", b"p\0" + struct.pack(">i", 1)) + message("S")
    return [
        hello()
        + parse
        + message("D", b"Ss\0")
        + bind
        + rest
        + message("C", b"Ss\0")
        + message("S")
        + message("X"),
        hello()
        + message("Q", b"BEGIN; SELECT * FROM orders; SELECT relname FROM pg_class; ROLLBACK\0")
        + message("X"),
        struct.pack(">II", 8, 80877103)
        + hello()
        + message("Q", b"SET a = 1\0")
        + message("Q", b"SHOW all\0")
        + message("X"),
    ]


def _said(port: int, data: bytes, *, end: bool = False) -> bytes:
    """What the server answers, until it closes."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), 30) as raw, suppress(ConnectionError):
        raw.sendall(data)
        if end:
            raw.shutdown(socket.SHUT_WR)
        while more := raw.recv(65_536):
            found += more
    return found


def test_sessions_with_bytes_changed_at_random(caplog: pytest.LogCaptureFixture) -> None:
    """150 of them, of three kinds: enough to hit each field of each message; nothing inside fails, and a good client goes on."""
    chance = random.Random(5)
    with tidegate.open("memory://") as db, caplog.at_level(logging.ERROR):
        db.sql("CREATE TABLE orders (id int8)")
        db.sql("INSERT INTO orders VALUES (1), (2)")
        limits = ConnectionLimits(startup=0.3, body=0.3, message=1 << 20)
        with serving(db, limits=limits) as at, psycopg.connect(at.conninfo(), autocommit=True) as good:
            assert [b"SELECT 1" in _said(at.port, one) for one in _sessions()] == [False, True, False]
            assert [_said(at.port, one).count(b"Z\0\0\0\5") for one in _sessions()] == [3, 2, 3]
            for turn in range(150):
                data = bytearray(chance.choice(_sessions()))
                for _ in range(chance.randint(1, 4)):
                    where = chance.randrange(len(data))
                    change = chance.randrange(3)
                    if change == 0:
                        data[where] = chance.randrange(256)
                    elif change == 1:
                        del data[where : where + chance.randint(1, 8)]
                    else:
                        data[where:where] = chance.randbytes(chance.randint(1, 8))
                _said(at.port, bytes(data), end=True)
                if turn % 30 == 0:
                    assert good.execute("SELECT count(*) FROM orders").fetchone() == (2,)
            wait(lambda: len(at.server.connections) == 1)
            assert at.server._held == 0
    assert [one.getMessage() for one in caplog.records if one.name.startswith("tidegate.server")] == []
