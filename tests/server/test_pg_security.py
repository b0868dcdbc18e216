"""Who may come in, and what they may do: the password, TLS, reading and writing."""

from __future__ import annotations

import base64
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from tests.server.pg_server import psql, serving
from tests.server.pg_wire import hello, message
from tidegate.server.postgres.wire import scram


@pytest.fixture(scope="module")
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://") as found:
        found.sql("CREATE TABLE orders (id int8, name text)")
        found.sql("INSERT INTO orders VALUES (1, 'ham'), (2, 'eggs')")
        yield found


# ---------------------------------------------------------------- the password


@pytest.mark.parametrize(
    "password", ["pencil", "päss wörd\u00a0①", "x" * 200, "tab\there \U0001f600", "\u0627a"]
)
def test_the_right_password(db: tidegate.Database, password: str) -> None:
    with serving(db, password=password) as at:
        with psycopg.connect(at.conninfo(), password=password) as conn:
            assert conn.execute("SELECT count(*) FROM orders").fetchone() == (2,)
            assert conn.pgconn.used_password
        for wrong in ("Pencil", password + "x", ""):
            with pytest.raises(psycopg.OperationalError, match="password"):
                psycopg.connect(at.conninfo(), password=wrong)
        assert at.server.connections == {}
        assert password not in repr(vars(at.server))


def test_psql_with_a_password(db: tidegate.Database) -> None:
    with serving(db, password="pencil") as at:
        assert "ham" in psql(at, "SELECT name FROM orders", password="pencil").stdout
        refused = psql(at, "SELECT name FROM orders", password="wrong")
        assert 'FATAL:  password authentication failed for user "ann"' in refused.stderr


def test_the_example_of_rfc_7677() -> None:
    verifier = scram.PasswordVerifier.of("pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    whole = b"rOprNGfwEbeRWgbNEkqO" + nonce.encode()
    proof = b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    exchange = scram.ScramExchange(verifier, nonce)
    first = exchange.first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=" + whole + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = exchange.final(b"c=biws,r=" + whole + b",p=" + proof)
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    other = scram.ScramExchange(verifier, nonce)
    other.first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    with pytest.raises(scram.AuthenticationFailed):
        other.final(b"c=biws,r=" + whole + b",p=a" + proof[1:])


FIRSTS = [b"", b"p=tls-unique,,n=,r=abc", b"n,,n=", b"n,,m=x,r=abc", b"garbage", b"n,,n=,r=", b"n,,n=,r=a\0b",
          b"n,a=root,n=,r=abc", b"\xff,,n=,r=abc", b"n,,n=,r=\xc3\xa4", b"n,,n=,r=abc,r=abc", b"n,,n=,r=abc,m=x"]  # fmt: skip


@pytest.mark.parametrize("first", FIRSTS)
def test_first_messages_that_are_refused(first: bytes) -> None:
    with pytest.raises(scram.AuthenticationFailed):
        scram.ScramExchange(scram.PasswordVerifier.of("pencil")).first(first)


def test_steps_that_prove_nothing() -> None:
    verifier = scram.PasswordVerifier.of("pencil")
    assert "pencil" not in repr(verifier)
    for wrong in (b"", b"c=biws,r=abc,p=AAAA", b"c=eSws,r=%s,p=AAAA", b"c=biws,r=%s,p=!!", b"c=biws,r=%s",
                  b"c=biws,r=%s,p=" + base64.b64encode(bytes(32)), b"\xff", b"c=\xc3\xa4,r=%s,p=AAAA"):  # fmt: skip
        exchange = scram.ScramExchange(verifier)
        nonce = exchange.first(b"n,,n=user,r=abc").split(b",")[0].removeprefix(b"r=")
        with pytest.raises(scram.AuthenticationFailed):
            exchange.final(wrong.replace(b"%s", nonce))


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_refused_and_not_a_fault(first: bytes, final: bytes) -> None:
    verifier = scram.PasswordVerifier(bytes(16), bytes(32), bytes(32))
    exchange = scram.ScramExchange(verifier)
    with suppress(scram.AuthenticationFailed):
        exchange.first(b"n,,n=" + first)
    with pytest.raises(scram.AuthenticationFailed):
        exchange.final(b"c=biws," + final)


@pytest.mark.parametrize(
    ("password", "prepared"),
    [("pencil", "pencil"), ("I\u00adX", "IX"), ("\u00aa", "a"), ("\u2168", "IX"), ("a\u00a0b", "a b"),
     ("\u0007", "\u0007"), ("\u0627\u0031", "\u0627\u0031"), ("\u00ad", "\u00ad"), ("\U0001f600", "\U0001f600")],
)  # fmt: skip
def test_passwords_are_prepared_as_in_postgresql(password: str, prepared: str) -> None:
    """The examples of RFC 4013; and what it forbids is taken as it is."""
    assert scram.prepare(password) == prepared


def test_nothing_is_heard_without_the_password(db: tidegate.Database) -> None:
    """A client that skips the proof, or answers with something else, is not let in."""
    for answer in (
        message("Q", b"SELECT 1\0"),
        message("p", b"MD5\0\0\0\0\0"),
        message("p", b"SCRAM-SHA-256\0" + struct.pack(">i", 5) + b"n,,n="),
        message("p", b""),
        message("p", b"SCRAM-SHA-256\0" + struct.pack(">i", -1)),
    ):
        with (
            serving(db, password="pencil") as at,
            socket.create_connection(("127.0.0.1", at.port), 30) as raw,
        ):
            raw.sendall(hello() + answer)
            got = b""
            while more := raw.recv(4096):
                got += more
            assert b"28P01" in got or b"08P01" in got
            assert b"Z\0\0\0\5" not in got


# ---------------------------------------------------------------- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return cert, context


def test_tls(db: tidegate.Database, certificate: tuple[Path, ssl.SSLContext]) -> None:
    cert, context = certificate
    with serving(db, password="pencil", tls=context) as at:
        known = at.conninfo(sslmode="verify-full", sslrootcert=cert, password="pencil")
        with psycopg.connect(known) as conn:
            assert conn.pgconn.ssl_in_use
            assert conn.execute("SELECT name FROM orders ORDER BY id").fetchall() == [("ham",), ("eggs",)]
            assert conn.execute("SELECT repeat('x', 300000)").fetchone() == ("x" * 300_000,)
        with pytest.raises(psycopg.OperationalError, match="requires TLS"):
            psycopg.connect(at.conninfo(sslmode="disable", password="pencil"))
        told = psql(at, r"\conninfo", sslmode="require", password="pencil")
        assert "SSL connection" in told.stdout
        with psycopg.connect(known, autocommit=True) as conn:
            conn.execute("SELECT 1")
    with serving(db) as at, pytest.raises(psycopg.OperationalError, match="SSL"):
        psycopg.connect(at.conninfo(sslmode="require"))


def test_bytes_before_the_handshake_are_not_taken(
    db: tidegate.Database, certificate: tuple[Path, ssl.SSLContext]
) -> None:
    """Somebody in the middle may put a hello before the handshake: it must not be heard as if it were encrypted."""
    with serving(db, tls=certificate[1]) as at:
        for more in (hello(), b"garbage"):
            with socket.create_connection(("127.0.0.1", at.port), 30) as raw:
                raw.sendall(struct.pack(">II", 8, 80877103) + more)
                got = b""
                while True:
                    try:
                        found = raw.recv(4096)
                    except ConnectionError:
                        break
                    if not found:
                        break
                    got += found
                assert b"R\0\0\0\x08" not in got
        with psycopg.connect(at.conninfo(sslmode="require")) as conn:
            assert conn.execute("SELECT 1").fetchone() == (1,)


# ---------------------------------------------------------------- reading and writing


WRITES = ("INSERT INTO orders VALUES (9, 'x')", "CREATE TABLE t (a int8)", "DROP TABLE orders", "DELETE FROM orders",
          "UPDATE orders SET id = 1", "CREATE VIEW v AS SELECT 1", "EXPLAIN ANALYZE DELETE FROM orders")  # fmt: skip


def test_read_only_unless_told(db: tidegate.Database) -> None:
    with serving(db, write=False) as at, psycopg.connect(at.conninfo(), autocommit=True) as conn:
        for sql in WRITES[:-1]:
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match="read-only"):
                conn.execute(sql)
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match="read-only"):
                conn.execute(sql, prepare=True)
        with pytest.raises(psycopg.Error):
            conn.execute(WRITES[-1])
        assert conn.execute("SELECT count(*) FROM orders").fetchone() == (2,)
    with serving(db, write=True) as at, psycopg.connect(at.conninfo(), autocommit=True) as conn:
        conn.execute("CREATE TABLE written (a int8)")
        cur = conn.execute("INSERT INTO written SELECT id FROM orders")
        assert (cur.rowcount, cur.statusmessage) == (2, "INSERT 0 2")
        assert conn.execute("DELETE FROM written WHERE a = 1").statusmessage == "DELETE 1"
        conn.execute("DROP TABLE written")


def test_no_file_is_reached(db: tidegate.Database) -> None:
    """Neither by Tidegate, nor by the engine that answers for the catalog."""
    with serving(db) as at, psycopg.connect(at.conninfo(), autocommit=True) as conn:
        for sql in (
            "CREATE SOURCE s FROM FILES '/etc/*' FORMAT TEXT",
            "SELECT version(), (SELECT content FROM read_text('/etc/passwd'))",
            "SELECT * FROM pg_catalog.pg_class, read_csv('/etc/passwd')",
            "SELECT * FROM pg_class, '/etc/passwd'",
            "SELECT getenv('HOME'), version()",
            "WITH x AS (SELECT 1) INSERT INTO pg_catalog.pg_class SELECT * FROM pg_catalog.pg_class",
            "SELECT version(), pg_read_file('/etc/passwd')",
            "SELECT * FROM pg_class, duckdb_settings()",
            'SELECT * FROM pg_class, "DuckDB_Settings"()',
        ):
            with pytest.raises(psycopg.Error) as caught:
                conn.execute(sql)
            assert "root:" not in str(caught.value)
        assert conn.execute("SELECT count(*) FROM pg_class").fetchone() == (1,)


def test_the_catalog_makes_nothing_large(db: tidegate.Database) -> None:
    """A result has a bound, and so has what is made for it."""
    with serving(db) as at, psycopg.connect(at.conninfo(), autocommit=True) as conn:
        for sql, kind in (
            ("SELECT * FROM pg_type a, pg_type b, pg_type c, pg_type d", psycopg.errors.ProgramLimitExceeded),
            (
                "SELECT string_agg(a.typname, '') FROM pg_type a, pg_type b, pg_type c, pg_type d, pg_type e",
                psycopg.Error,
            ),
            ("SELECT repeat('x', 1000000000) FROM pg_type", psycopg.errors.UndefinedFunction),
        ):
            with pytest.raises(kind):
                conn.execute(sql)
        assert conn.execute("SELECT count(*) FROM pg_class").fetchone() == (1,)
