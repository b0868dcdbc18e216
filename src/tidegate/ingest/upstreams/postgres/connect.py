"""Connects to PostgreSQL, classifies its errors, and reads rows by the million.

    with open_session(connection) as c:                        psycopg's, in autocommit, with settings that fix the text of values
        c.execute("SELECT …")
    open_connection(connection, replication=True)              a connection for replication commands (`replication=database`)
    for data, sizes in copy_blocks(c, b"COPY … TO STDOUT"):    some MB of complete rows at a time, and the length of each

Every failure is a `SourceError`. Another attempt may help if PostgreSQL cannot be reached, is starting or is busy. It does not help
if something is missing or forbidden; then the error says what the user has to do.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate.errors import SourceError, UnsupportedError
from tidegate.ingest.connection import ConnectionType, ExternalConnection
from tidegate.ingest.options import ANY, OptionSpec

if TYPE_CHECKING:
    import psycopg

Psycopg = Any
"""A psycopg connection with any type of rows."""

_LIBPQ_NAMES = {
    "host": "host", "port": "port", "database": "dbname", "user": "user", "password": "password",
    "ssl mode": "sslmode", "ssl certificate authority": "sslrootcert", "ssl certificate": "sslcert",
    "ssl key": "sslkey",
}  # fmt: skip
"""Options of CREATE CONNECTION … TO POSTGRES, and their names in libpq."""
POSTGRES_CONNECTION = ConnectionType(
    "postgres",
    (
        OptionSpec(
            "host", ANY, "the server, or the folder of its socket", required=True, example="HOST 'db'"
        ),
        OptionSpec("port", ANY, "5432 by default"),
        OptionSpec("database", ANY, "the database", required=True, example="DATABASE 'shop'"),
        OptionSpec("user", ANY, "who connects; needs REPLICATION and SELECT on the tables"),
        OptionSpec("password", ANY, "a secret; may be env:NAME or file:PATH"),
        OptionSpec("ssl mode", ANY, "disable, prefer, require, verify-ca or verify-full"),
        OptionSpec("ssl certificate authority", ANY, "a path"),
        OptionSpec("ssl certificate", ANY, "a path"),
        OptionSpec("ssl key", ANY, "a path"),
    ),
)
_SETTINGS = {
    "datestyle": "ISO", "timezone": "UTC", "intervalstyle": "postgres", "extra_float_digits": "3", "bytea_output": "hex",
    "lc_monetary": "C", "statement_timeout": "0", "idle_in_transaction_session_timeout": "0", "lock_timeout": "0",
    "row_security": "off",
}  # fmt: skip
"""Values have the same text in every session; the session that holds a snapshot may be idle for long; and if a policy would hide
rows, reading them fails."""
_CONNECT_SECONDS = 10
BUSY_SECONDS = 20.0
_BLOCK_BYTES = 8 << 20
_TRANSIENT_CLASSES = ("08", "53", "57", "40", "58")
"""Classes of transient errors: connections, resources, shutdown, serialization, the system."""
OBJECT_IN_USE = "55006"
UNDEFINED_OBJECT = "42704"
_LOGIN_REFUSALS = (
    "authentication failed",
    "does not exist",
    "no pg_hba.conf entry",
    "is not permitted",
    "no password",
)


def psycopg_module() -> Any:
    """The module psycopg, imported on first use; raises unless it is installed."""
    try:
        import psycopg
    except ImportError:
        raise UnsupportedError(
            "sources from PostgreSQL need psycopg", hint="pip install 'tidegate[ingest]'"
        ) from None
    return psycopg


def _login(connection: ExternalConnection) -> dict[str, Any]:
    login = {
        _LIBPQ_NAMES[option]: connection.get(option)
        for option in connection.options
        if option in _LIBPQ_NAMES
    }
    settings = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
    return {
        **login,
        "connect_timeout": _CONNECT_SECONDS,
        "application_name": "tidegate",
        "client_encoding": "utf8",
        "options": settings,
        "keepalives_idle": 60,
        "keepalives_interval": 10,
        "keepalives_count": 6,
    }


@contextmanager
def open_session(connection: ExternalConnection) -> Iterator[Psycopg]:
    """A connection for a `with` block; PostgreSQL errors inside the block become SourceErrors."""
    psycopg = psycopg_module()
    try:
        with closing(psycopg.connect(**_login(connection), autocommit=True)) as session:
            yield session
    except psycopg.Error as error:
        raise postgres_error(connection, error) from None


def postgres_error(connection: ExternalConnection, error: psycopg.Error) -> SourceError:
    """Converts an error of psycopg to a SourceError, with a hint where possible."""
    where = f"{connection.get('host')}:{connection.get('port', 5432)}/{connection.get('database')}"
    code, text = error.sqlstate, _error_line(error)
    message = f"PostgreSQL at {where}: {text}"
    if code is None:  # no connection, a broken one, or a refused login
        refused = any(words in text for words in _LOGIN_REFUSALS)
        return SourceError(message, again=not refused, hint=_login_hint(connection) if refused else None)
    hint = None
    if code == "42501":
        hint = "the user needs REPLICATION (ALTER ROLE … REPLICATION) and SELECT on the tables"
    if code == "53400" or "replication slots are in use" in text:
        hint = "raise max_replication_slots, or drop slots that nobody needs (SELECT * FROM pg_replication_slots)"
    return SourceError(message, again=code[:2] in _TRANSIENT_CLASSES or code == OBJECT_IN_USE, hint=hint)


def _error_line(error: psycopg.Error) -> str:
    """The line of an error message that matters; connecting to several addresses reports one for each."""
    primary = getattr(error.diag, "message_primary", None)
    lines = [line.strip() for line in str(primary or error).strip().splitlines() if line.strip()]
    return next((line for line in lines if "FATAL" in line), lines[0] if lines else type(error).__name__)


def _login_hint(connection: ExternalConnection) -> str:
    return f'look at the options of connection "{connection.name}", and at the user and pg_hba.conf of the server'


def execute_on_slot(c: Psycopg, statement: str, values: Any = None) -> list[Any]:
    """The rows of a statement about a slot; waits up to BUSY_SECONDS if another session uses the slot."""
    psycopg = psycopg_module()
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            rows: list[Any] = c.execute(statement, values).fetchall()
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return rows


# ---------------------------------------------------------------- rows


def copy_blocks(c: Psycopg, statement: bytes) -> Iterator[tuple[bytes, np.ndarray]]:
    """What COPY … TO STDOUT sends, some MB of rows at a time, and the length of each row.

    Messages are read from libpq directly, which costs a third of psycopg's loop.
    """
    psycopg = psycopg_module()
    raw = c.pgconn
    raw.send_query(statement)
    if (result := _answer(raw)).status != psycopg.pq.ExecStatus.COPY_OUT:
        raise psycopg.errors.error_from_result(result, encoding="utf-8")
    pieces: list[bytes] = []
    held = 0
    take = raw.get_copy_data
    while True:
        size, piece = take(1)
        if size > 0:
            pieces.append(bytes(piece))
            held += size
            if held >= _BLOCK_BYTES:
                yield _block(pieces)
                pieces, held = [], 0
        elif size == 0:
            _wait(raw)
        else:
            break
    if (final := _answer(raw)).status != psycopg.pq.ExecStatus.COMMAND_OK:
        raise psycopg.errors.error_from_result(final, encoding="utf-8")
    while raw.get_result() is not None:
        pass
    if pieces:
        yield _block(pieces)


def _block(pieces: list[bytes]) -> tuple[bytes, np.ndarray]:
    return b"".join(pieces), np.fromiter(map(len, pieces), np.int64, len(pieces))


def _wait(raw: Any, seconds: float | None = None) -> bool:
    """Waits for the server in Python, which can be interrupted; false after the time-out."""
    poll = select.poll()
    poll.register(raw.socket, select.POLLIN)
    if not poll.poll(None if seconds is None else seconds * 1000):
        return False
    raw.consume_input()
    return True


def _answer(raw: Any, seconds: float | None = None) -> Any:
    """The next result; raises a TimeoutError after `seconds`."""
    end = None if seconds is None else time.monotonic() + seconds
    while raw.is_busy():
        if not _wait(raw, None if end is None else max(0.0, end - time.monotonic())):
            raise TimeoutError(f"no answer within {seconds:.0f} s")
    return raw.get_result()


# ---------------------------------------------------------------- replication commands


def open_connection(connection: ExternalConnection, *, replication: bool = False) -> Psycopg:
    """A connection that the caller closes; with `replication` one for replication commands."""
    psycopg = psycopg_module()
    more = {"replication": "database"} if replication else {}
    try:
        return psycopg.connect(**_login(connection), **more, autocommit=True)
    except psycopg.Error as error:
        raise postgres_error(connection, error) from None


def run_replication_command(c: Psycopg, command: str, seconds: float) -> list[str]:
    """The row that a replication command returns; raises psycopg's errors, and TimeoutError."""
    psycopg = psycopg_module()
    c.pgconn.send_query(command.encode())
    result = _answer(c.pgconn, seconds)
    if result.status != psycopg.pq.ExecStatus.TUPLES_OK:
        raise psycopg.errors.error_from_result(result, encoding="utf-8")
    return [(result.get_value(0, i) or b"").decode() for i in range(result.nfields)]
