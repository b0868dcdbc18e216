"""Queries of the server's catalog: publication, tables, replication slot, end of the log.

    published_tables(c, "p")         {oid: PublishedTable(table, full), …}: the tables as they are now
    check_publication(…)             describes the problem of a publication that leaves out changes, or None
    find_slot(c, "tidegate_…")       the slot and its position, or None

A table is identified by its oid: it may be renamed, but a table that was dropped and created again is a different one. The
partitions of a table that is published as a whole (`publish_via_partition_root`) must have REPLICA IDENTITY FULL as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.errors import BindError, SourceError
from tidegate.ingest.upstreams.postgres.connect import Psycopg
from tidegate.ingest.upstreams.postgres.pgoutput import FULL, PgRelation
from tidegate.ingest.upstreams.postgres.table import (
    PostgresColumn,
    PostgresTable,
    table_changed_error,
    type_of,
)

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
"""The first versions in which publications select columns and rows, and may contain generated columns."""


@dataclass(frozen=True)
class PublishedTable:
    """A table of a publication in its present state."""

    table: PostgresTable
    full: bool
    """Whether changes contain complete old rows (REPLICA IDENTITY FULL)."""


def published_tables(c: Psycopg, publication: str, *, described: bool = True) -> dict[int, PublishedTable]:
    """The tables of a publication by oid; without columns unless `described`."""
    version = c.info.server_version
    details = "p.attnames::text[], p.rowfilter" if version >= _WITH_LISTS else "NULL::text[], NULL::text"
    rows = c.execute(_TABLES.format(details=details), (publication,)).fetchall()
    fields = table_columns(c, [row[0] for row in rows]) if described else {}
    tables = {}
    for oid, schema, name, listed, condition, full in rows:
        chosen = tuple(field for field in fields.get(oid, ()) if listed is None or field.name in listed)
        tables[oid] = PublishedTable(PostgresTable(oid, schema, name, chosen, condition), bool(full))
    return tables


def table_columns(c: Psycopg, oids: Iterable[int]) -> dict[int, list[PostgresColumn]]:
    """The columns of tables, by the oids of the tables."""
    generated = "" if c.info.server_version >= _WITH_GENERATED else "AND a.attgenerated = ''"
    by_table: dict[int, list[PostgresColumn]] = {}
    for oid, name, type_, modifier, base, base_modifier, element in c.execute(
        _COLUMNS.format(generated=generated), (list(oids),)
    ):
        ours = type_of(base, base_modifier, element)
        by_table.setdefault(oid, []).append(PostgresColumn(name, ours, type_, modifier))
    return by_table


def relation_now(c: Psycopg, oid: int) -> PgRelation:
    """The present state of a table, in the form of a pgoutput message."""
    fields = table_columns(c, [oid]).get(oid, [])
    return PgRelation(oid, "", "", FULL, tuple((field.name, field.oid, field.modifier) for field in fields))


# ---------------------------------------------------------------- checks


def check_publication(c: Psycopg, publication: str, append_only: bool) -> str | None:
    """The reason why a publication cannot be used; None if it can."""
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
    """Raises a BindError unless the server allows logical decoding."""
    level = c.execute("SHOW wal_level").fetchone()[0]
    if level != "logical":
        raise BindError(
            f"the server has wal_level = {level}: its changes cannot be read",
            hint="ALTER SYSTEM SET wal_level = logical, and restart the server",
        )


def check_identity(entry: PublishedTable) -> None:
    """Raises a BindError unless updates and deletes contain complete old rows."""
    if not entry.full:
        raise BindError(
            f"the old rows of {entry.table} are not in the log: its updates and deletes could not be taken back",
            hint=f"ALTER TABLE {entry.table} REPLICA IDENTITY FULL (its partitions too); or, if rows are only ever added, "
            "WITH (APPEND ONLY)",
        )


def check_tables(now: dict[int, PublishedTable], tables: Iterable[PostgresTable], append_only: bool) -> None:
    """Raises unless the tables of a running source are still published as when it was created."""
    for table in tables:
        entry = now.get(table.oid)
        if entry is None:
            raise SourceError(
                f"the table {table} is not published any more: it was dropped, or left out of the publication",
                again=False,
                hint="changes of it may be lost: DROP SOURCE and create it again",
            )
        if entry.table.condition != table.condition:
            raise table_changed_error(table, "the publication chooses other rows of it")
        if not entry.full and not append_only:
            raise SourceError(
                f"the table {table} has no REPLICA IDENTITY FULL any more",
                again=False,
                hint=f"ALTER TABLE {table} REPLICA IDENTITY FULL; if it was updated meanwhile, create the source again",
            )


def choose_tables(
    published: Mapping[int, PublishedTable], publication: str, names: Sequence[str] | None
) -> tuple[tuple[str, PostgresTable], ...]:
    """The tables that FOR TABLES names, by these names; or all, named `orders` or `shop.orders`."""
    tables = [entry.table for entry in published.values()]
    if not tables:
        raise BindError(f'publication "{publication}" has no tables')
    if names is None:
        return tuple((table.name if table.schema == "public" else str(table), table) for table in tables)
    by_name = {str(table): table for table in tables}
    for table in tables:
        if sum(other.name == table.name for other in tables) == 1 or table.schema == "public":
            by_name.setdefault(table.name, table)
    for name in names:
        if name not in by_name:
            raise BindError(
                f'publication "{publication}" has no table "{name}"',
                hint=f"it has {', '.join(map(str, tables))}",
            )
    return tuple((name, by_name[name]) for name in dict.fromkeys(names))


# ---------------------------------------------------------------- slots and the log


@dataclass(frozen=True)
class Slot:
    """A replication slot."""

    confirmed: int
    """The position before which the slot no longer has changes."""
    lost: bool
    """Whether the server has removed log that the slot needs (`max_slot_wal_keep_size`)."""
    plugin: str
    database: str


def find_slot(c: Psycopg, name: str) -> Slot | None:
    """The replication slot of a name, or None."""
    row = c.execute(
        "SELECT coalesce(confirmed_flush_lsn, '0/0') - '0/0', coalesce(wal_status, '') = 'lost', plugin, database "
        "FROM pg_replication_slots WHERE slot_name = %s",
        (name,),
    ).fetchone()
    return None if row is None else Slot(int(row[0]), row[1], row[2] or "", row[3] or "")


def end_of_log(c: Psycopg) -> int:
    """The position of the end of the server's log."""
    return int(
        c.execute(
            "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END - '0/0'"
        ).fetchone()[0]
    )


def format_lsn(position: Any) -> str:
    """A position in the log in PostgreSQL's notation: `0/16B3748`."""
    return f"{int(position) >> 32:X}/{int(position) & 0xFFFF_FFFF:X}"
