"""Talking to PostgreSQL: connections of ours, what their errors mean, and rows by the million.

    with connected(connection) as c:                      psycopg's, in autocommit, with settings that fix how values are written
        c.execute("SELECT …")
    opened(connection, replication=True)                  one that takes replication commands (`replication=database`)
    for data, sizes in copied(c, "COPY … TO STDOUT"):     some MB of whole rows at a time, and the length of each

Whatever goes wrong is a `SourceError`. Trying again may help where PostgreSQL cannot be reached, is starting or is busy; it
does not where something is missing or forbidden, and then the error says what somebody has to do.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate.errors import BindError, SourceError, UnsupportedError
from tidegate.ingest.connect import Connection

if TYPE_CHECKING:
    import psycopg

Psycopg = Any
"""A psycopg connection, whatever its rows are."""

OPTIONS = {
    "host": "host", "port": "port", "database": "dbname", "user": "user", "password": "password",
    "ssl mode": "sslmode", "ssl certificate authority": "sslrootcert", "ssl certificate": "sslcert",
    "ssl key": "sslkey",
}  # fmt: skip
"""Options of CREATE CONNECTION … TO POSTGRES, and what libpq calls them. Certificates and keys are paths."""
_SETTINGS = {
    "datestyle": "ISO", "timezone": "UTC", "intervalstyle": "postgres", "extra_float_digits": "3", "bytea_output": "hex",
    "lc_monetary": "C", "statement_timeout": "0", "idle_in_transaction_session_timeout": "0", "lock_timeout": "0",
    "row_security": "off",
}  # fmt: skip
"""Values are written the same in every session; the session that keeps a snapshot may be idle for long; and where a policy would
hide rows from us, reading them fails."""
_CONNECT_SECONDS = 10
BUSY_SECONDS = 20.0
_BLOCK = 8 << 20
_TRANSIENT = ("08", "53", "57", "40", "58")
"""Classes of errors that pass: connections, resources, shutting down, serialization, the system."""
IN_USE = "55006"
MISSING = "42704"
_REFUSED = (
    "authentication failed",
    "does not exist",
    "no pg_hba.conf entry",
    "is not permitted",
    "no password",
)


def psycopg_module() -> Any:
    """Psycopg, imported when it is first needed."""
    try:
        import psycopg
    except ImportError:
        raise UnsupportedError(
            "sources from PostgreSQL need psycopg", hint="pip install 'tidegate[ingest]'"
        ) from None
    return psycopg


def check(connection: Connection) -> None:
    """A BindError if the connection has options that there are not, or lacks some."""
    for option in connection.options:
        if option not in OPTIONS:
            raise BindError(
                f"a connection to POSTGRES has no option {option.upper()}",
                hint=f"it has {', '.join(OPTIONS).upper()}",
            )
    for option in ("host", "database"):
        if option not in connection.options:
            raise BindError(f'connection "{connection.name}" does not say its {option.upper()}')


def _login(connection: Connection) -> dict[str, Any]:
    found = {OPTIONS[option]: connection.get(option) for option in connection.options if option in OPTIONS}
    settings = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
    return {
        **found,
        "connect_timeout": _CONNECT_SECONDS,
        "application_name": "tidegate",
        "client_encoding": "utf8",
        "options": settings,
        "keepalives_idle": 60,
        "keepalives_interval": 10,
        "keepalives_count": 6,
    }


@contextmanager
def connected(connection: Connection) -> Iterator[Psycopg]:
    """A connection for a while; errors of PostgreSQL inside of the block are SourceErrors."""
    psycopg = psycopg_module()
    try:
        with closing(psycopg.connect(**_login(connection), autocommit=True)) as opened:
            yield opened
    except psycopg.Error as error:
        raise failed(connection, error) from None


def failed(connection: Connection, error: psycopg.Error) -> SourceError:
    """What an error of PostgreSQL means to a source."""
    where = f"{connection.get('host')}:{connection.get('port', 5432)}/{connection.get('database')}"
    code, said = error.sqlstate, _said(error)
    message = f"PostgreSQL at {where}: {said}"
    if code is None:  # it could not be reached, or broke off; or it refused us before there was a session
        refused = any(words in said for words in _REFUSED)
        return SourceError(message, again=not refused, hint=_login_hint(connection) if refused else None)
    hint = None
    if code == "42501":
        hint = "the user needs REPLICATION (ALTER ROLE … REPLICATION) and SELECT on the tables"
    if code == "53400" or "replication slots are in use" in said:
        hint = "raise max_replication_slots, or drop slots that nobody needs (SELECT * FROM pg_replication_slots)"
    return SourceError(message, again=code[:2] in _TRANSIENT or code == IN_USE, hint=hint)


def _said(error: psycopg.Error) -> str:
    """The first line, which may be the last of several tries to connect."""
    primary = getattr(error.diag, "message_primary", None)
    lines = [line.strip() for line in str(primary or error).strip().splitlines() if line.strip()]
    return next((line for line in lines if "FATAL" in line), lines[0] if lines else type(error).__name__)


def _login_hint(connection: Connection) -> str:
    return f'look at the options of connection "{connection.name}", and at the user and pg_hba.conf of the server'


def patiently(c: Psycopg, statement: str, values: Any = None) -> list[Any]:
    """The rows of a statement about a slot, which one session at a time may use: waits for a while for others to finish."""
    psycopg = psycopg_module()
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            found: list[Any] = c.execute(statement, values).fetchall()
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return found


# ---------------------------------------------------------------- rows


def copied(c: Psycopg, statement: bytes) -> Iterator[tuple[bytes, np.ndarray]]:
    """What COPY … TO STDOUT sends, some MB at a time: PostgreSQL sends each row as a message, and `sizes` are their lengths.

    The messages are taken from libpq itself, which costs a third of what psycopg's own loop does.
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
            if held >= _BLOCK:
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
    """Waits for the server in Python, where it can be interrupted; False if the time is over."""
    poll = select.poll()
    poll.register(raw.socket, select.POLLIN)
    if not poll.poll(None if seconds is None else seconds * 1000):
        return False
    raw.consume_input()
    return True


def _answer(raw: Any, seconds: float | None = None) -> Any:
    """The next result."""
    end = None if seconds is None else time.monotonic() + seconds
    while raw.is_busy():
        if not _wait(raw, None if end is None else max(0.0, end - time.monotonic())):
            raise TimeoutError(f"no answer within {seconds:.0f} s")
    return raw.get_result()


# ---------------------------------------------------------------- replication commands


def opened(connection: Connection, *, replication: bool = False) -> Psycopg:
    """A connection that the caller closes; one that takes replication commands, or an ordinary one."""
    psycopg = psycopg_module()
    more = {"replication": "database"} if replication else {}
    try:
        return psycopg.connect(**_login(connection), **more, autocommit=True)
    except psycopg.Error as error:
        raise failed(connection, error) from None


def commanded(c: Psycopg, command: str, seconds: float) -> list[str]:
    """The row that a replication command answers, within a time; it raises psycopg's errors, and TimeoutError."""
    psycopg = psycopg_module()
    c.pgconn.send_query(command.encode())
    result = _answer(c.pgconn, seconds)
    if result.status != psycopg.pq.ExecStatus.TUPLES_OK:
        raise psycopg.errors.error_from_result(result, encoding="utf-8")
    return [(result.get_value(0, i) or b"").decode() for i in range(result.nfields)]
