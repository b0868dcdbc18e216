"""What a source must know of the server: the publication and its tables, the slot, how far the log has come.

    published(c, "p")            {oid: (Table, its REPLICA IDENTITY), …}: tables as they are now
    check_publication(…)         refuses a publication that leaves out what changes rows
    slot(c, "tidegate_…")        where the slot is, or None

A table is known by its oid: it may be renamed, but one that was dropped and created again is another table. Of a partitioned
table that is published as one (`publish_via_partition_root`), its partitions must have REPLICA IDENTITY FULL as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tidegate.errors import BindError, SourceError
from tidegate.ingest.pgoutput import FULL, Relation
from tidegate.ingest.postgres_connect import Psycopg
from tidegate.ingest.postgres_table import Table, TableColumn, drifted, type_of

_TABLES = """
SELECT c.oid::int8, n.nspname, c.relname, {details},
       c.relreplident = 'f' AND NOT EXISTS (
           SELECT FROM pg_partition_tree(c.oid) AS leaf JOIN pg_class AS l ON l.oid = leaf.relid
           WHERE leaf.isleaf AND l.relreplident <> 'f')
FROM pg_publication_tables AS p
JOIN pg_namespace AS n ON n.nspname = p.schemaname
JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = p.tablename
WHERE p.pubname = %s ORDER BY n.nspname, c.relname
"""
_COLUMNS = """
SELECT a.attrelid::int8, a.attname, a.atttypid::int8, a.atttypmod, b.name, b.modifier, e.name
FROM pg_attribute AS a
CROSS JOIN LATERAL (
    WITH RECURSIVE of AS (
        SELECT t.oid, t.typtype, t.typbasetype, t.typtypmod, t.typelem, a.atttypmod AS modifier,
               CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace THEN t.typname ELSE '' END AS name
        FROM pg_type AS t WHERE t.oid = a.atttypid
        UNION ALL
        SELECT t.oid, t.typtype, t.typbasetype, t.typtypmod, t.typelem, of.typtypmod,
               CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace THEN t.typname ELSE '' END
        FROM of JOIN pg_type AS t ON t.oid = of.typbasetype WHERE of.typtype = 'd'
    )
    SELECT * FROM of WHERE typtype <> 'd') AS b
LEFT JOIN LATERAL (
    SELECT CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace THEN t.typname ELSE '' END AS name
    FROM pg_type AS t WHERE t.oid = b.typelem AND t.typarray = b.oid) AS e ON true
WHERE a.attrelid = ANY(%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped {generated}
ORDER BY a.attrelid, a.attnum
"""
_WITH_LISTS, _WITH_GENERATED = 150_000, 180_000
"""From which versions on publications choose columns and rows, and may hold generated columns."""


@dataclass(frozen=True)
class Published:
    """A table of a publication, as it is now."""

    table: Table
    full: bool
    """Whether old rows come whole."""


def published(c: Psycopg, publication: str, *, described: bool = True) -> dict[int, Published]:
    """The tables of a publication, with their columns if they are to be described."""
    version = c.info.server_version
    details = "p.attnames::text[], p.rowfilter" if version >= _WITH_LISTS else "NULL::text[], NULL::text"
    rows = c.execute(_TABLES.format(details=details), (publication,)).fetchall()
    fields = columns(c, [row[0] for row in rows]) if described else {}
    found = {}
    for oid, schema, name, listed, condition, full in rows:
        chosen = tuple(field for field in fields.get(oid, ()) if listed is None or field.name in listed)
        found[oid] = Published(Table(oid, schema, name, chosen, condition), bool(full))
    return found


def columns(c: Psycopg, oids: Iterable[int]) -> dict[int, list[TableColumn]]:
    """The columns of tables, by their oids."""
    generated = "" if c.info.server_version >= _WITH_GENERATED else "AND a.attgenerated = ''"
    found: dict[int, list[TableColumn]] = {}
    for oid, name, type_, modifier, base, base_modifier, element in c.execute(
        _COLUMNS.format(generated=generated), (list(oids),)
    ):
        ours = type_of(base, base_modifier, element)
        found.setdefault(oid, []).append(TableColumn(name, ours, type_, modifier))
    return found


def relation_now(c: Psycopg, oid: int) -> Relation:
    """A table as it is now, as pgoutput would describe it."""
    fields = columns(c, [oid]).get(oid, [])
    return Relation(oid, "", "", FULL, tuple((field.name, field.oid, field.modifier) for field in fields))


# ---------------------------------------------------------------- what a source is created for


def check_publication(c: Psycopg, publication: str, append_only: bool) -> str | None:
    """What is wrong with a publication, if anything is."""
    flags = c.execute(
        "SELECT pubinsert, pubupdate, pubdelete, pubtruncate FROM pg_publication WHERE pubname = %s",
        (publication,),
    ).fetchone()
    if flags is None:
        return f'publication "{publication}" does not exist'
    names = ("insert",) if append_only else ("insert", "update", "delete", "truncate")
    missing = [name for name, there in zip(names, flags, strict=False) if not there]
    if missing:
        return f'publication "{publication}" does not publish {" and ".join(missing)}'
    return None


def check_server(c: Psycopg) -> None:
    """Logical decoding must be possible."""
    level = c.execute("SHOW wal_level").fetchone()[0]
    if level != "logical":
        raise BindError(
            f"the server has wal_level = {level}: its changes cannot be read",
            hint="ALTER SYSTEM SET wal_level = logical, and restart the server",
        )


def check_identity(found: Published) -> None:
    """The old rows of updates and deletes must come whole."""
    if not found.full:
        raise BindError(
            f"the old rows of {found.table} are not in the log: its updates and deletes could not be taken back",
            hint=f"ALTER TABLE {found.table} REPLICA IDENTITY FULL (its partitions too); or, if rows are only ever added, "
            "WITH (APPEND ONLY)",
        )


def check_tables(now: dict[int, Published], tables: Iterable[Table], append_only: bool) -> None:
    """While a source runs: its tables are still published as they were when it was created."""
    for table in tables:
        found = now.get(table.oid)
        if found is None:
            raise SourceError(
                f"the table {table} is not published any more: it was dropped, or left out of the publication",
                again=False,
                hint="changes of it may be lost: DROP SOURCE and create it again",
            )
        if found.table.condition != table.condition:
            raise drifted(table, "the publication chooses other rows of it")
        if not found.full and not append_only:
            raise SourceError(
                f"the table {table} has no REPLICA IDENTITY FULL any more",
                again=False,
                hint=f"ALTER TABLE {table} REPLICA IDENTITY FULL; if it was updated meanwhile, create the source again",
            )


# ---------------------------------------------------------------- slots and the log


@dataclass(frozen=True)
class Slot:
    """A replication slot."""

    confirmed: int
    """What lies before is gone from it."""
    lost: bool
    """The server has thrown away what it needs (`max_slot_wal_keep_size`)."""
    plugin: str
    database: str


def slot(c: Psycopg, name: str) -> Slot | None:
    """A slot by its name."""
    row = c.execute(
        "SELECT coalesce(confirmed_flush_lsn, '0/0') - '0/0', coalesce(wal_status, '') = 'lost', plugin, database "
        "FROM pg_replication_slots WHERE slot_name = %s",
        (name,),
    ).fetchone()
    return None if row is None else Slot(int(row[0]), row[1], row[2] or "", row[3] or "")


def end_of_log(c: Psycopg) -> int:
    """How far the server's log has come."""
    return int(
        c.execute(
            "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END - '0/0'"
        ).fetchone()[0]
    )


def lsn(position: Any) -> str:
    """A place in the log as PostgreSQL writes it."""
    return f"{int(position) >> 32:X}/{int(position) & 0xFFFF_FFFF:X}"
