"""The initial snapshot of a source: it belongs to one position in the log, and many tasks read it.

    CREATE_REPLICATION_SLOT … TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT      →   0/16B3748, "00000003-0000001B-1"

creates a slot that begins at 0/16B3748 and a snapshot with exactly the transactions committed before it. Both last as long as the
connection that created them, so the driver keeps it open (`SnapshotHolder`) until the rows are committed in the lake or the driver
dies. Tasks read in the snapshot, each some pages of a table:

    BEGIN ISOLATION LEVEL REPEATABLE READ;  SET TRANSACTION SNAPSHOT '00000003-0000001B-1';
    COPY (SELECT id, item FROM ONLY orders WHERE ctid >= '(8192,0)' AND ctid < '(16384,0)') TO STDOUT

The temporary slot only gives the snapshot its position; the source's own slot is older, and has all changes that follow. The
driver also locks the tables like a reader: a TRUNCATE or ALTER that rewrites a table would make it empty in old snapshots.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate import fork
from tidegate.errors import SourceError
from tidegate.ingest.connection import ExternalConnection
from tidegate.ingest.upstreams.postgres.connect import (
    Psycopg,
    copy_blocks,
    open_connection,
    postgres_error,
    psycopg_module,
    run_replication_command,
)
from tidegate.ingest.upstreams.postgres.table import PostgresTable
from tidegate.ingest.upstreams.postgres.values import Tuples, parse_copy

WAIT_SECONDS = 60.0
"""The time to wait for a slot: it begins once all transactions have ended that ran when it was requested."""
_PIECE_PAGES = 8192
"""The pages of a table, of 8 KiB each, that one piece has."""
_TID_RANGE_VERSION = 140_000
"""The first version of PostgreSQL that reads a range of pages without reading the others."""
Piece = list[int | None]
"""The oid of a table, its first page, and the page after the last; None: to the end."""


@dataclass(eq=False)
class HeldSnapshot:
    """A snapshot that this process keeps alive."""

    exporting: Psycopg
    locking: Psycopg
    name: str
    lsn: int
    process: int

    @property
    def alive(self) -> bool:
        """Whether this process took it and both sessions live; one is checked through the other."""
        if self.process != os.getpid():
            return False
        query = "SELECT FROM pg_stat_activity WHERE pid = %s"
        try:
            return bool(self.locking.execute(query, (self.exporting.info.backend_pid,)).fetchall())
        except psycopg_module().Error:
            return False

    def close(self) -> None:
        """Closes both sessions, which ends the snapshot."""
        if self.process == os.getpid():
            self.exporting.close()
            self.locking.close()


class SnapshotHolder:
    """Keeps at most one snapshot of a source alive in this process. It pickles as an empty one."""

    def __init__(self) -> None:
        self._snapshot: HeldSnapshot | None = None
        self._lock = fork.lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return SnapshotHolder, ()

    @property
    def current(self) -> HeldSnapshot | None:
        """The snapshot, if its sessions are still alive."""
        with self._lock:
            held = self._snapshot
        return held if held is not None and held.alive else None

    def release(self) -> None:
        """Closes the snapshot, which is no longer read."""
        with self._lock:
            held, self._snapshot = self._snapshot, None
        if held is not None:
            held.close()

    def hold(
        self, connection: ExternalConnection, slot: str, tables: Sequence[PostgresTable]
    ) -> HeldSnapshot:
        """Releases the previous snapshot and takes a new one."""
        self.release()
        taken = take_snapshot(connection, slot, tables)
        with self._lock:
            self._snapshot = taken
        return taken


def take_snapshot(connection: ExternalConnection, slot: str, tables: Sequence[PostgresTable]) -> HeldSnapshot:
    """Takes a snapshot of these tables, at one position in the log."""
    psycopg = psycopg_module()
    exporting = open_connection(connection, replication=True)
    locking = None
    try:
        temporary = f"{slot[:40]}_{uuid.uuid4().hex[:12]}"
        command = f'CREATE_REPLICATION_SLOT "{temporary}" TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT'
        _, begins, name, _ = run_replication_command(exporting, command, WAIT_SECONDS)
        high, _, low = begins.partition("/")
        locking = open_connection(connection)
        enter(locking, name)
        locking.execute("SET LOCAL lock_timeout = '20s'")
        for table in tables:
            locking.execute(f"LOCK TABLE {_quoted_name(locking, table.oid)} IN ACCESS SHARE MODE")
        return HeldSnapshot(exporting, locking, name, (int(high, 16) << 32) + int(low, 16), os.getpid())
    except BaseException as error:
        exporting.close()
        if locking is not None:
            locking.close()
        if isinstance(error, TimeoutError):
            raise SourceError(
                f"the snapshot waits for transactions of others to end, for more than {WAIT_SECONDS:.0f} s",
                again=True,
                hint="SELECT pid, xact_start, query FROM pg_stat_activity ORDER BY xact_start shows the oldest",
            ) from None
        if isinstance(error, psycopg.Error):
            raise postgres_error(connection, error) from None
        raise


def enter(c: Psycopg, snapshot: str) -> None:
    """Begins a transaction that reads in the snapshot."""
    psycopg = psycopg_module()
    c.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        c.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
    except (psycopg.errors.UndefinedObject, psycopg.errors.InvalidParameterValue):
        raise SourceError(
            "the snapshot is gone with the process that held it; a new one will be taken", again=True
        ) from None


def pieces(c: Psycopg, table: PostgresTable) -> list[Piece]:
    """Ranges of pages that contain all rows of a table, or of its partitions."""
    leaves = c.execute(
        "SELECT c.oid::int8, pg_relation_size(c.oid) / current_setting('block_size')::int8 FROM pg_class AS c "
        "WHERE c.oid = %(oid)s AND c.relkind <> 'p' OR c.oid IN "
        "(SELECT relid FROM pg_partition_tree(%(oid)s::oid::regclass) WHERE isleaf) ORDER BY c.oid",
        {"oid": table.oid},
    ).fetchall()
    table_pieces: list[Piece] = []
    for oid, pages in leaves:
        cuts = range(0, max(1, pages), _PIECE_PAGES) if c.info.server_version >= _TID_RANGE_VERSION else [0]
        ends = [*cuts[1:], None]
        table_pieces += [[oid, begin, end] for begin, end in zip(cuts, ends, strict=True)]
    return table_pieces


def _quoted_name(c: Psycopg, oid: int) -> str:
    """The present name of a table, quoted."""
    row = c.execute(
        "SELECT format('%%I.%%I', n.nspname, c.relname) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
        "WHERE c.oid = %s",
        (oid,),
    ).fetchone()
    if row is None:
        raise SourceError(f"the table of oid {oid} was dropped", again=False, hint="create the source again")
    return str(row[0])


def rows(
    c: Psycopg, piece: Piece, names: tuple[str, ...], condition: str | None
) -> Iterator[tuple[int, Tuples]]:
    """Reads columns of a piece, in a transaction of `enter`; yields the first row's number and tuples."""
    oid, begin, end = piece
    assert oid is not None
    wanted = ", ".join('"' + name.replace('"', '""') + '"' for name in names) or "''"
    where = [] if begin == 0 else [f"ctid >= '({begin},0)'::tid"]
    where += [] if end is None else [f"ctid < '({end},0)'::tid"]
    where += [] if condition is None else [f"({condition})"]
    filtered = f" WHERE {' AND '.join(where)}" if where else ""
    statement = f"COPY (SELECT {wanted} FROM ONLY {_quoted_name(c, oid)}{filtered}) TO STDOUT"
    first = 0
    for data, _ in copy_blocks(c, statement.encode()):
        tuples = parse_copy(data, names)
        yield first, tuples
        first += tuples.count
