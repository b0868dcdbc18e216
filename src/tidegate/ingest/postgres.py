r"""Tables of a PostgreSQL database: a consistent snapshot, and then every change that a publication publishes.

    CREATE CONNECTION pg TO POSTGRES (HOST 'db', DATABASE 'shop', USER 'tidegate', PASSWORD 'env:PGPASSWORD')
    CREATE SOURCE shop FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR TABLES (orders, customers)

A position says where in the server's log everything before is ingested (`lsn`), and of each table whether its snapshot was:

    {"lsn": 0, "snapshot/orders": 0}                        start()
    {"lsn": 24009544, "snapshot/orders": 1000}              a snapshot was committed (in thousandths: its pieces tile them)
    {"lsn": 24102208, "snapshot/orders": 1000}              and the changes up to there: one split, `lsn` from … to

**Changes** are peeked from a slot, never consumed: `acknowledge` moves the slot once they are committed here. A batch holds whole
transactions. Which are in a split is decided by where their commits begin, before or behind `after` and `upto`, whatever the slot
has: so a split that is read twice, or by a slot that is behind, gives the same.

**A snapshot** belongs to a place in the log (`postgres_snapshot.py`). It is held by this process. If that dies before all
collections are committed, those that were keep position P, and a snapshot *at P* cannot be had any more. The others then get one
at a later place L, and the changes of (P, L] with their signs turned: rows at L, less what happened since P, are the rows at P.

    orders at P      {a, b}          committed by a process that died
    items at P       ?               items at L {x, z}; since P: -y +z      →   +x +z  and  +y -z   =   {x, y}

That works as every change comes with its whole rows (REPLICA IDENTITY FULL), and as the slot keeps what was not acknowledged.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tidegate.errors import BindError, SourceError
from tidegate.expr.types import INT8, TIMESTAMPTZ, Type
from tidegate.ingest import postgres_catalog as catalog
from tidegate.ingest import postgres_snapshot as snapshot
from tidegate.ingest.connect import Connection, Given
from tidegate.ingest.pgoutput import Reading, Refused
from tidegate.ingest.postgres_catalog import lsn
from tidegate.ingest.postgres_connect import Psycopg, check, connected, patiently
from tidegate.ingest.postgres_read import changes, chunk, columns, next_position, refused
from tidegate.ingest.postgres_table import Table, TableDecode, format_from_json
from tidegate.ingest.source import Chunk, Format, Included, Lag, Limit, Position, Split, Wanted

__all__ = ["Postgres", "format_from_json"]

WHOLE = 1000
"""The position of a table whose snapshot is ingested."""
_IDLE = 16 << 20
"""Bytes of log without a change for us after which the position moves all the same: the server keeps log for the slot."""
_LSN = "lsn"
_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_AGAIN = "what happened meanwhile is lost: DROP SOURCE and create it again, it begins with a new snapshot"


@dataclass(frozen=True)
class Postgres:
    """A publication."""

    connection: Connection
    publication: str
    slot: str
    chosen: tuple[tuple[str, Table], ...]
    """The tables that are ingested, by the names that the source knows them by."""
    append_only: bool = False

    # ------------------------------------------------------------ what it is

    @staticmethod
    def create(given: Given) -> Postgres:
        """For CREATE SOURCE: everything is looked up and checked, nothing is changed on the server."""
        assert given.connection is not None
        check(given.connection)
        publication, slot, append_only = _options(given)
        with connected(given.connection) as c:
            catalog.check_server(c)
            wrong = catalog.check_publication(c, publication, append_only)
            if wrong is not None:
                hint = f"CREATE PUBLICATION {publication} FOR ALL TABLES; or ALTER PUBLICATION {publication} SET (publish = …)"
                raise BindError(wrong, hint=hint)
            published = catalog.published(c, publication)
        chosen = _chosen(published, publication, given.tables)
        for _, table in chosen:
            if not append_only:
                catalog.check_identity(published[table.oid])
        return Postgres(given.connection, publication, slot, chosen, append_only)

    def to_json(self) -> dict[str, Any]:
        """For the catalog; without the connection, which is named."""
        return {
            "connection": self.connection.name,
            "publication": self.publication,
            "slot": self.slot,
            "tables": [[name, table.to_json()] for name, table in self.chosen],
            "append_only": self.append_only,
        }

    @staticmethod
    def from_json(kept: Mapping[str, Any], connection: Connection | None) -> Postgres:
        """What `to_json` gave."""
        assert connection is not None
        chosen = tuple((name, format_from_json(table)) for name, table in kept["tables"])
        return Postgres(connection, kept["publication"], kept["slot"], chosen, kept["append_only"])

    def tables(self) -> dict[str, Format]:
        """The tables that are ingested."""
        return dict(self.chosen)

    def includes(self, included: Included) -> Type:
        """OFFSET (where its transaction was committed) and TIMESTAMP (when), of rows that are never taken back."""
        found = {"offset": INT8, "timestamp": TIMESTAMPTZ}.get(included.what)
        if found is None:
            raise BindError(f"PostgreSQL has no {included.what.upper()}", hint="it has OFFSET and TIMESTAMP")
        if not self.append_only:
            raise BindError(
                f"INCLUDE {included.what.upper()} of tables whose rows change: a row and its end would not be equal",
                hint="WITH (APPEND ONLY), if rows are only ever added",
            )
        return found

    # ------------------------------------------------------------ where it is

    def start(self) -> Position:
        """Before the snapshot."""
        return {_LSN: 0} | {_key(name): 0 for name, _ in self.chosen}

    def latest(self, after: Position, limit: Limit) -> Position:
        """Where a snapshot was taken; then the end of some transaction. A snapshot is one batch, whatever the limit."""
        with connected(self.connection) as c:
            self._check(c)
            if not after.get(_LSN):
                self._ensure_slot(c)
                held = snapshot.held(self.slot) or snapshot.hold(self.connection, self.slot, self._tables())
                return self._whole(held.lsn)
            snapshot.release(self.slot)
            self._check_slot(c, after[_LSN])
            end = catalog.end_of_log(c)
            if end < after[_LSN]:
                raise SourceError(
                    f"the server's log ends at {lsn(end)}, and {lsn(after[_LSN])} was ingested already: "
                    "it is another server, or was restored from a backup",
                    again=False,
                    hint="DROP SOURCE and create it again",
                )
            found = next_position(c, self.slot, self.publication, after[_LSN], end, limit)
        if found is None:
            found = end if end - after[_LSN] >= _IDLE else after[_LSN]
        return {**after, _LSN: found}

    def splits(self, after: Position, upto: Position) -> list[Split]:
        """Pieces of tables, for a snapshot; or all changes of a stretch of the log."""
        begin, end = after.get(_LSN, 0), upto[_LSN]
        if begin:
            return [Split(_LSN, begin, end)] if begin != end else []
        with connected(self.connection) as c:
            held = snapshot.held(self.slot)
            if held is None or held.lsn < end:
                self._check_slot(c, end)
                held = snapshot.hold(self.connection, self.slot, self._tables())
            found = [Split(_LSN, 0, end, {"back from": held.lsn})]
            for name, table in self.chosen:
                pieces = snapshot.pieces(c, table)
                many = min(len(pieces), WHOLE)
                for i in range(many):
                    mine = pieces[i * len(pieces) // many : (i + 1) * len(pieces) // many]
                    details = {"snapshot": held.name, "lsn": held.lsn, "pieces": mine}
                    found.append(
                        Split(_key(name), i * WHOLE // many, (i + 1) * WHOLE // many, details),
                    )
        return found

    def acknowledge(self, upto: Position) -> None:
        """The server may throw away its log up to here."""
        if not upto.get(_LSN):
            return
        snapshot.release(self.slot)
        with connected(self.connection) as c:
            patiently(
                c,
                "SELECT pg_replication_slot_advance(slot_name, %(to)s::pg_lsn) FROM pg_replication_slots "
                "WHERE slot_name = %(slot)s AND confirmed_flush_lsn < %(to)s::pg_lsn",
                {"to": lsn(upto[_LSN]), "slot": self.slot},
            )

    def lag(self, at: Position) -> Lag:
        """Bytes of log, of all databases of the server."""
        with connected(self.connection) as c:
            return Lag(bytes=max(0, catalog.end_of_log(c) - at.get(_LSN, 0)) if at.get(_LSN) else None)

    def drop(self) -> None:
        """Gives back the slot: the server would keep its log for it for ever."""
        snapshot.release(self.slot)
        query = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
        try:
            with connected(self.connection) as c:
                patiently(c, query, (self.slot,))
        except SourceError as error:
            raise SourceError(
                f'the replication slot "{self.slot}" could not be dropped: {error.message}',
                again=error.again,
                hint=f"SELECT pg_drop_replication_slot('{self.slot}') there, or the server keeps its log for it for ever",
            ) from None

    # ------------------------------------------------------------ its records

    def read(
        self, split: Split, wanted: Sequence[Wanted], included: Sequence[Included]
    ) -> Iterator[tuple[int, Chunk]]:
        """Rows of a snapshot, or changes."""
        if split.key == _LSN and split.start:
            yield from self._changes(split.start, split.end, wanted, included, sign=1)
        elif split.key == _LSN:
            yield from self._changes(split.end, split.details["back from"], wanted, included, sign=-1)
        else:
            mine = [(i, one) for i, one in enumerate(wanted) if one.table and _key(one.table) == split.key]
            if mine:
                yield from self._snapshot(split, mine, included)

    def _changes(
        self, after: int, upto: int, wanted: Sequence[Wanted], included: Sequence[Included], sign: int
    ) -> Iterator[tuple[int, Chunk]]:
        tables = dict(self.chosen)
        asked = {i: (tables[one.table], _decode(one)) for i, one in enumerate(wanted) if one.table in tables}
        if after >= upto or not asked:
            return
        by_oid = {table.oid: table for table, _ in asked.values()}
        reading = Reading(after, upto, by_oid.keys())
        with connected(self.connection) as c:
            for found in changes(c, self.slot, self.publication, upto, reading):
                table = by_oid[found.relation.oid]
                if isinstance(found, Refused):
                    if found.what == "TRUNCATE" and self.append_only and sign > 0:
                        continue  # what was added stays
                    raise refused(found, table, self.append_only)
                if self.append_only and (found.diffs < 0).any():
                    raise refused(found, table, self.append_only)
                for i, (of, decode) in asked.items():
                    if of.oid == table.oid:
                        decode.check(found.relation)
                        yield i, chunk(found, decode, included, str(wanted[i].table), sign)

    def _snapshot(
        self, split: Split, wanted: Sequence[tuple[int, Wanted]], included: Sequence[Included]
    ) -> Iterator[tuple[int, Chunk]]:
        decodes = [(i, _decode(one)) for i, one in wanted]
        table = decodes[0][1].table
        asked = {name for _, decode in decodes for name in decode.demand}
        names = tuple(field.name for field in table.fields if field.name in asked)
        with connected(self.connection) as c:
            snapshot.enter(c, split.details["snapshot"])
            for piece in split.details["pieces"]:
                now = catalog.relation_now(c, piece[0])
                for _, decode in decodes:
                    decode.check(now)
                for first, tuples in snapshot.rows(c, piece, names, table.condition):
                    behind = columns(included, np.full(tuples.count, split.details["lsn"]), None)
                    where = partial(_row, str(wanted[0][1].table), piece, first)
                    for i, decode in decodes:
                        yield i, Chunk(decode.tuples(tuples), behind, where)

    # ------------------------------------------------------------ checks

    def _tables(self) -> list[Table]:
        return [table for _, table in self.chosen]

    def _whole(self, position: int) -> Position:
        return {_LSN: position} | {_key(name): WHOLE for name, _ in self.chosen}

    def _check(self, c: Psycopg) -> None:
        """The publication is what it was."""
        wrong = catalog.check_publication(c, self.publication, self.append_only)
        if wrong is not None:
            raise SourceError(wrong + " any more", again=False, hint=_AGAIN)
        now = catalog.published(c, self.publication, described=False)
        catalog.check_tables(now, self._tables(), self.append_only)

    def _ensure_slot(self, c: Psycopg) -> None:
        """The slot of a source that has ingested nothing."""
        found = catalog.slot(c, self.slot)
        if found is not None and found.lost:
            patiently(c, "SELECT pg_drop_replication_slot(%s)", (self.slot,))
            found = None
        if found is None:
            c.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self.slot,))

    def _check_slot(self, c: Psycopg, after: int) -> None:
        """The slot has everything behind a position."""
        found = catalog.slot(c, self.slot)
        if found is None:
            raise SourceError(
                f'the replication slot "{self.slot}" was dropped: changes since {lsn(after)} cannot be read',
                again=False,
                hint=_AGAIN,
            )
        if found.lost:
            raise SourceError(
                f'the server has thrown away the log that the replication slot "{self.slot}" needs',
                again=False,
                hint=f"{_AGAIN}; and raise max_slot_wal_keep_size",
            )
        if found.confirmed > after:
            raise SourceError(
                f"the changes between {lsn(after)} and {lsn(found.confirmed)} were ingested and acknowledged once, "
                "and are gone: this lake was restored from a backup, or something else reads the slot",
                again=False,
                hint="DROP SOURCE and create it again, it begins with a new snapshot",
            )


def _key(name: str) -> str:
    return f"snapshot/{name}"


def _row(table: str, piece: snapshot.Piece, first: int, row: int) -> Position:
    """Where a row of a snapshot stands: in which pages, and the how manieth."""
    return {"table": table, "pages": piece[1:], "row": first + row}


def _decode(wanted: Wanted) -> TableDecode:
    assert isinstance(wanted.decode, TableDecode), "a table is its own format"
    return wanted.decode


def _options(given: Given) -> tuple[str, str, bool]:
    """The publication, the slot, and whether rows are only ever added."""
    known = ("publication", "slot")
    for option in given.options:
        if option not in known:
            raise BindError(
                f"FROM POSTGRES has no option {option.upper()}", hint="it has PUBLICATION and SLOT"
            )
    publication = given.options.get("publication")
    if not isinstance(publication, str):
        raise BindError("FROM POSTGRES needs a publication", hint="… CONNECTION pg (PUBLICATION 'p')")
    slot = given.options.get("slot", f"tidegate_{uuid.uuid4().hex[:20]}")
    if not isinstance(slot, str) or not _SLOT.fullmatch(slot):
        raise BindError("the name of a slot has lower-case letters, digits and underscores, 63 at most")
    append_only = False
    for option, value in given.more.items():
        if (option, value) not in (("append", "only"), ("append only", True), ("append only", False)):
            raise BindError(
                f"WITH has no option {option.upper()} here", hint="FROM POSTGRES takes APPEND ONLY"
            )
        append_only = bool(value)
    return publication, slot, append_only


def _chosen(
    published: Mapping[int, catalog.Published], publication: str, names: Sequence[str] | None
) -> tuple[tuple[str, Table], ...]:
    """The tables that are asked for, or all: by the names they are asked by, or `orders` and `shop.orders`."""
    tables = [found.table for found in published.values()]
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
