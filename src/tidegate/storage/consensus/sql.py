"""Logs in a SQL database: SQLite in the folder of the database (the default), or PostgreSQL.

One statement adds an entry, and decides between concurrent writers:

    INSERT INTO consensus SELECT key, expected + 1, data
    WHERE (SELECT max(number) FROM consensus WHERE key = …) IS NOT DISTINCT FROM expected ON CONFLICT DO NOTHING

One row inserted means that we won. The primary key (key, number) is the lock, so the statement is right under any isolation level
and needs no transaction around it. SQLite runs with `synchronous = FULL`: an acknowledged entry survives a power cut.

A user without write access to the folder can still read SQLite's file (`_read_only_query`). While a writer has it open, its
write-ahead log exists (`-wal`, `-shm`), and SQLite reads through it. Without a writer SQLite would have to create the log, and
cannot. The file is then opened as one that does not change, and the result counts only if afterwards there is still no log and the
file is unchanged.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tidegate.errors import IndeterminateError, ReadOnlyError, StoreError
from tidegate.fork import PerThread
from tidegate.storage.consensus.protocol import NumberedEntry, next_number
from tidegate.text import first_line

_PROPOSE = """
INSERT INTO {table} (key, number, data) SELECT {key}, {next}, {data}
WHERE (SELECT max(number) FROM {table} WHERE key = {key}) IS NOT DISTINCT FROM {expected} ON CONFLICT DO NOTHING
"""
_BUSY_MS = 60_000
ANSWER_S = 120.0
"""How long to wait for PostgreSQL. A live server answers within the time that it waits for locks. A server that disappeared, or a
proxy that drops the answer, never does, and a writer must not wait for ever."""
_MAX_READS = 200
"""How often a file that changes while it is read is read again."""
_TICK_NS = 20_000_000
"""File systems record change times in steps of some milliseconds: two changes in one step look like one."""
_REFUSED = ("25006", "42501")
"""PostgreSQL's codes for a read-only transaction and for a missing privilege."""


def _open_sqlite(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_MS / 1000)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


class SqliteConsensus:
    """Logs in one SQLite file; any number of threads and processes on one machine."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._connections = PerThread(partial(_open_sqlite, self.path))
        self._log = Path(f"{self.path}-wal")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.path}: {os.strerror(error.errno or 0)}") from None
        self.read_only = self.path.exists() and not (
            os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        )
        if self.read_only:
            return
        self._run(
            "CREATE TABLE IF NOT EXISTS consensus "
            "(key TEXT, number INTEGER, data BLOB NOT NULL, PRIMARY KEY (key, number)) STRICT, WITHOUT ROWID"
        )
        self._run("CREATE INDEX IF NOT EXISTS consensus_numbers ON consensus (key, number)")

    def head(self, key: str) -> NumberedEntry | None:
        """The newest entry."""
        rows = self._run(
            "SELECT number, data FROM consensus WHERE key = ? ORDER BY number DESC LIMIT 1", [key]
        )
        return NumberedEntry(*rows[0]) if rows else None

    def compare_and_set(self, key: str, expected: int | None, data: bytes) -> bool:
        """Adds the entry after `expected` if that is still the newest; returns whether it did."""
        named = {"table": "consensus", "key": "?1", "next": "?2", "data": "?3", "expected": "?4"}
        return self._change(_PROPOSE.format(**named), [key, next_number(expected), data, expected]) == 1

    def scan(self, key: str, first: int, limit: int = 1_000_000) -> list[NumberedEntry]:
        """Entries from number `first` on, at most `limit`."""
        if not self.read_only and self._newest(key) < first:
            return []
        query = "SELECT number, data FROM consensus WHERE key = ? AND number >= ? ORDER BY number LIMIT ?"
        return [NumberedEntry(*row) for row in self._run(query, [key, first, limit])]

    def _newest(self, key: str) -> int:
        """The number of the newest entry, from an index without data; below all numbers if there is none.

        A search by the primary key reads whole entries. The entry of a DELETE in 100,000 parts has some megabytes, and each
        query looks for later ones.
        """
        ((newest,),) = self._run("SELECT max(number) FROM consensus WHERE key = ?", [key])
        return -1 if newest is None else int(newest)

    def truncate(self, key: str, before: int) -> None:
        """Removes entries below number `before`, but never the newest."""
        newest = "(SELECT max(number) FROM consensus WHERE key = ?1)"
        self._run(
            f"DELETE FROM consensus WHERE key = ?1 AND number < ?2 AND number < {newest}", [key, before]
        )

    def keys(self) -> list[str]:
        """Every key with entries, sorted."""
        return [key for (key,) in self._run("SELECT DISTINCT key FROM consensus ORDER BY key")]

    def remove_log(self, key: str) -> None:
        """Removes all entries of a key that nobody else uses."""
        self._change("DELETE FROM consensus WHERE key = ?1", [key])

    def close(self) -> None:
        """Closes this thread's connection."""
        connection = self._connections.drop()
        if connection is not None:
            connection.close()

    def _read_only_query(self, statement: str, values: Sequence[Any]) -> list[Any]:
        """Runs a query without write access; see the module's docstring."""
        failure: sqlite3.Error = sqlite3.OperationalError("the file keeps changing")
        for _ in range(_MAX_READS):
            logged, before = self._log.exists(), self.path.stat()
            old_enough = logged or before.st_mtime_ns < time.time_ns() - _TICK_NS
            uri = f"file:{quote(str(self.path))}?mode=ro{'' if logged else '&immutable=1'}"
            try:
                with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_MS / 1000)) as connection:
                    rows = connection.execute(statement, values).fetchall()
                after = self.path.stat()
                same = (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)
                if old_enough and (logged or (same and not self._log.exists())):
                    return rows
            except sqlite3.Error as error:
                if logged == self._log.exists() and old_enough:
                    raise
                failure = error
            time.sleep(_TICK_NS / 1e9)
        raise failure

    def _run(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            if self.read_only:
                return self._read_only_query(statement, values)
            return self._connections.get().execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise _failed(str(self.path), error) from None
        except OSError as error:
            raise StoreError(f"{self.path}: {os.strerror(error.errno or 0)}") from None

    def _change(self, statement: str, values: Sequence[Any]) -> int:
        if self.read_only:
            raise ReadOnlyError(f"{self.path} may not be written", hint=_HINT)
        try:
            return self._connections.get().execute(statement, values).rowcount
        except sqlite3.Error as error:
            raise _failed(str(self.path), error, changes=True) from None


_HINT = "the lake is read-only for this user"


_REFUSALS = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN)
"""SQLite's primary codes for changes that have surely not happened. After an input/output error that is unknown: the entry may be
in the write-ahead log, which was not made durable, and the next process that opens the file counts it as committed."""


def _failed(where: str, error: sqlite3.Error, *, changes: bool = False) -> StoreError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_IOERR) & 0xFF
    if (
        changes
        and isinstance(error, sqlite3.OperationalError)
        and code not in (*_REFUSALS, sqlite3.SQLITE_READONLY)
    ):
        return IndeterminateError(f"{where}: {error}")
    if code == sqlite3.SQLITE_READONLY:
        return ReadOnlyError(f"{where}: {error}", hint=_HINT)
    full = code == sqlite3.SQLITE_FULL
    return StoreError(
        f"{where}: {error}",
        hint="the disk is full: make room and try again; nothing was lost" if full else None,
    )


def _open_postgres(url: str) -> Any:
    import psycopg

    class TimedConnection(psycopg.Connection[Any]):
        """A connection that waits at most `ANSWER_S` for an answer."""

        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            return super().wait(gen, interval, ANSWER_S if timeout is None else timeout)

    return TimedConnection.connect(url, autocommit=True, connect_timeout=10)


class PostgresConsensus:
    """Logs in a PostgreSQL table, for any number of machines; `lake` separates databases in one table."""

    def __init__(self, url: str, lake: str = "") -> None:
        self.url, self.lake = url, lake
        self._connections = PerThread(partial(_open_postgres, url))
        if not self._run("SELECT to_regclass('tidegate_consensus')")[0][0][0]:
            # IF NOT EXISTS does not keep two sessions from creating it at once: the lock does.
            self._run(
                "BEGIN; SELECT pg_advisory_xact_lock(7433); CREATE TABLE IF NOT EXISTS tidegate_consensus "
                '(key text COLLATE "C", number bigint, data bytea NOT NULL, PRIMARY KEY (key, number)); COMMIT'
            )

    def head(self, key: str) -> NumberedEntry | None:
        """The newest entry."""
        query = "SELECT number, data FROM tidegate_consensus WHERE key = %s ORDER BY number DESC LIMIT 1"
        rows, _ = self._run(query, [self.lake + key])
        return NumberedEntry(rows[0][0], bytes(rows[0][1])) if rows else None

    def compare_and_set(self, key: str, expected: int | None, data: bytes) -> bool:
        """Adds the entry after `expected` if that is still the newest; returns whether it did."""
        named = {
            "table": "tidegate_consensus", "key": "%(key)s", "next": "%(next)s", "data": "%(data)s",
            "expected": "%(expected)s::bigint",
        }  # fmt: skip
        values = {"key": self.lake + key, "next": next_number(expected), "data": data, "expected": expected}
        return self._run(_PROPOSE.format(**named), values, changes=True)[1] == 1

    def scan(self, key: str, first: int, limit: int = 1_000_000) -> list[NumberedEntry]:
        """Entries from number `first` on, at most `limit`."""
        query = "SELECT number, data FROM tidegate_consensus WHERE key = %s AND number >= %s ORDER BY number LIMIT %s"
        rows, _ = self._run(query, [self.lake + key, first, limit])
        return [NumberedEntry(number, bytes(data)) for number, data in rows]

    def truncate(self, key: str, before: int) -> None:
        """Removes entries below number `before`, but never the newest."""
        newest = "(SELECT max(number) FROM tidegate_consensus WHERE key = %(key)s)"
        statement = f"DELETE FROM tidegate_consensus WHERE key = %(key)s AND number < %(before)s AND number < {newest}"
        self._run(statement, {"key": self.lake + key, "before": before})

    def keys(self) -> list[str]:
        """Every key with entries, sorted."""
        query = "SELECT DISTINCT key FROM tidegate_consensus WHERE starts_with(key, %s) ORDER BY key"
        return [key[len(self.lake) :] for (key,) in self._run(query, [self.lake])[0]]

    def remove_log(self, key: str) -> None:
        """Removes all entries of a key that nobody else uses."""
        self._run("DELETE FROM tidegate_consensus WHERE key = %s", [self.lake + key], changes=True)

    def now(self) -> int:
        """The present by the server's clock, in ms since 1970."""
        rows, _ = self._run("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8")
        return int(rows[0][0])

    def copy(self, lake: str) -> PostgresConsensus:
        """Copies all logs, as they are at one moment, for another database in the same PostgreSQL."""
        self._run(
            "INSERT INTO tidegate_consensus (key, number, data) "
            "SELECT %(new)s || substr(key, length(%(old)s) + 1), number, data FROM tidegate_consensus "
            "WHERE starts_with(key, %(old)s)",
            {"old": self.lake, "new": lake},
            changes=True,
        )
        return PostgresConsensus(self.url, lake)

    def remove(self) -> None:
        """Removes all logs of the lake."""
        self._run("DELETE FROM tidegate_consensus WHERE starts_with(key, %s)", [self.lake], changes=True)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Excludes other callers of this method on the same PostgreSQL; the lock ends with our connection."""
        self._run(f"SET lock_timeout = {_BUSY_MS}")
        self._run("SELECT pg_advisory_lock(7434)")
        try:
            yield
        finally:
            self._run("SELECT pg_advisory_unlock(7434)")

    def close(self) -> None:
        """Closes this thread's connection."""
        connection = self._connections.drop()
        if connection is not None:
            connection.close()

    def _connection(self) -> Any:
        connection = self._connections.get()
        if connection.closed:
            self._connections.drop()
            connection = self._connections.get()
        return connection

    def _run(self, statement: str, values: Any = (), changes: bool = False) -> tuple[list[Any], int]:
        import psycopg

        try:
            connection = self._connection()
        except psycopg.Error as error:
            raise StoreError(f"PostgreSQL cannot be reached: {first_line(error)}") from None
        try:
            cursor = connection.execute(statement, values or None)
            return (cursor.fetchall() if cursor.description else []), cursor.rowcount
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            connection.close()
            kind = IndeterminateError if changes else StoreError
            raise kind(f"PostgreSQL: {first_line(error)}") from None
        except psycopg.Error as error:
            refused = changes and error.sqlstate in _REFUSED
            raise (ReadOnlyError if refused else StoreError)(f"PostgreSQL: {first_line(error)}") from None
