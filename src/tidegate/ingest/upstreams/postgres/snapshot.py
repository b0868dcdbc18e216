"""The rows that are there when a source begins: a snapshot that belongs to one place in the log, read by many tasks.

    CREATE_REPLICATION_SLOT … TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT      →   0/16B3748, "00000003-0000001B-1"

makes a slot that begins at 0/16B3748 and a snapshot that holds exactly the transactions committed before it. Both last as long
as the connection that made them, so the driver keeps it open (`held`) until the rows are committed here, or it dies. Tasks
read under the snapshot, each some pages of a table:

    BEGIN ISOLATION LEVEL REPEATABLE READ;  SET TRANSACTION SNAPSHOT '00000003-0000001B-1';
    COPY (SELECT id, item FROM ONLY orders WHERE ctid >= '(8192,0)' AND ctid < '(16384,0)') TO STDOUT

The temporary slot gives the snapshot its place and is not read from; the source's own slot is older, and has all that follows.
The driver also locks the tables as a reader does: a TRUNCATE or ALTER that rewrites a table would empty it for old snapshots.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate import fork
from tidegate.errors import SourceError
from tidegate.ingest.connect import Connection
from tidegate.ingest.postgres_connect import (
    Psycopg,
    commanded,
    copied,
    failed,
    opened,
    psycopg_module,
)
from tidegate.ingest.postgres_table import Table
from tidegate.ingest.postgres_values import Tuples
from tidegate.ingest.postgres_values import copied as cut

WAIT_SECONDS = 60.0
"""A slot begins when all transactions have ended that ran when it was asked for."""
_PAGES = 8192
"""Of 8 KiB each: what one task reads of a table."""
_BY_PAGES = 140_000
"""From this version on PostgreSQL reads a range of pages without reading the others."""
Piece = list[int | None]
"""Of a table (its oid) the pages from, and to; None: to its end."""


@dataclass(eq=False)
class Held:
    """A snapshot that this process keeps alive."""

    exporting: Psycopg
    locking: Psycopg
    name: str
    lsn: int
    process: int

    @property
    def alive(self) -> bool:
        """Whether it is ours, and both sessions are still there: the exporting one can only be asked about."""
        if self.process != os.getpid():
            return False
        query = "SELECT FROM pg_stat_activity WHERE pid = %s"
        try:
            return bool(self.locking.execute(query, (self.exporting.info.backend_pid,)).fetchall())
        except psycopg_module().Error:
            return False

    def close(self) -> None:
        """Lets go of it."""
        if self.process == os.getpid():
            self.exporting.close()
            self.locking.close()


_HELD: dict[str, Held] = {}
_LOCK = fork.lock()


def held(slot: str) -> Held | None:
    """The snapshot that is held for a source, known by its slot."""
    with _LOCK:
        found = _HELD.get(slot)
    return found if found is not None and found.alive else None


def release(slot: str) -> None:
    """Nobody reads the snapshot of a source any more."""
    with _LOCK:
        found = _HELD.pop(slot, None)
    if found is not None:
        found.close()


def hold(connection: Connection, slot: str, tables: Sequence[Table]) -> Held:
    """A new snapshot, instead of one that may be held."""
    release(slot)
    psycopg = psycopg_module()
    exporting = opened(connection, replication=True)
    locking = None
    try:
        temporary = f"{slot[:40]}_{uuid.uuid4().hex[:12]}"
        command = f'CREATE_REPLICATION_SLOT "{temporary}" TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT'
        _, begins, name, _ = commanded(exporting, command, WAIT_SECONDS)
        high, _, low = begins.partition("/")
        locking = opened(connection)
        enter(locking, name)
        locking.execute("SET LOCAL lock_timeout = '20s'")
        for table in tables:
            locking.execute(f"LOCK TABLE {_named(locking, table.oid)} IN ACCESS SHARE MODE")
        found = Held(exporting, locking, name, (int(high, 16) << 32) + int(low, 16), os.getpid())
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
            raise failed(connection, error) from None
        raise
    with _LOCK:
        _HELD[slot] = found
    return found


def enter(c: Psycopg, snapshot: str) -> None:
    """Begins a transaction that sees what the snapshot saw."""
    psycopg = psycopg_module()
    c.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        c.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
    except (psycopg.errors.UndefinedObject, psycopg.errors.InvalidParameterValue):
        raise SourceError(
            "the snapshot is gone with the process that held it; a new one will be taken", again=True
        ) from None


def pieces(c: Psycopg, table: Table) -> list[Piece]:
    """Stretches that hold all rows of a table, of its partitions where it has some."""
    leaves = c.execute(
        "SELECT c.oid::int8, pg_relation_size(c.oid) / current_setting('block_size')::int8 FROM pg_class AS c "
        "WHERE c.oid = %(oid)s AND c.relkind <> 'p' OR c.oid IN "
        "(SELECT relid FROM pg_partition_tree(%(oid)s::oid::regclass) WHERE isleaf) ORDER BY c.oid",
        {"oid": table.oid},
    ).fetchall()
    found: list[Piece] = []
    for oid, pages in leaves:
        cuts = range(0, max(1, pages), _PAGES) if c.info.server_version >= _BY_PAGES else [0]
        ends = [*cuts[1:], None]
        found += [[oid, begin, end] for begin, end in zip(cuts, ends, strict=True)]
    return found


def _named(c: Psycopg, oid: int) -> str:
    """A table's name now, quoted."""
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
    """The rows of a piece, in a transaction that `enter` began: some columns of them. And the number of the first."""
    oid, begin, end = piece
    assert oid is not None
    wanted = ", ".join('"' + name.replace('"', '""') + '"' for name in names) or "''"
    where = [] if begin == 0 else [f"ctid >= '({begin},0)'::tid"]
    where += [] if end is None else [f"ctid < '({end},0)'::tid"]
    where += [] if condition is None else [f"({condition})"]
    filtered = f" WHERE {' AND '.join(where)}" if where else ""
    statement = f"COPY (SELECT {wanted} FROM ONLY {_named(c, oid)}{filtered}) TO STDOUT"
    first = 0
    for data, _ in copied(c, statement.encode()):
        tuples = cut(data, names)
        yield first, tuples
        first += tuples.count
