r"""POSTGRES: reads a consistent snapshot of tables, then every change of a publication.

    CREATE CONNECTION pg TO POSTGRES (HOST 'db', DATABASE 'shop', USER 'tidegate', PASSWORD 'env:PGPASSWORD')
    CREATE SOURCE shop FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR TABLES (orders, customers)

A position has the place in the server's log up to which changes are ingested (`lsn`), and for each table whether its snapshot is:

    {"lsn": 0, "snapshot/orders": 0}                        start()
    {"lsn": 24009544, "snapshot/orders": 1000}              the snapshot is committed (in thousandths, which its pieces divide)
    {"lsn": 24102208, "snapshot/orders": 1000}              and the changes up to there: one split, a range of `lsn`

**Changes** are peeked from a slot, not consumed: `acknowledge` advances the slot once they are committed in the lake. A batch has
complete transactions. A transaction belongs to a split if its commit begins between `after` and `upto`, wherever the slot is. So a
split gives the same result when it is read twice, or from a slot that is behind.

**A snapshot** belongs to a position in the log (`snapshot.py`), and this process holds it. If the process dies before all
collections are committed, the committed ones keep position P, and no snapshot *at P* is possible any more. The others then get one
at a later position L, and the changes of (P, L] with inverted signs: rows at L minus the changes since P are the rows at P.

    orders at P      {a, b}          committed by a process that died
    items at P       ?               items at L {x, z}; since P: -y +z      →   +x +z  and  +y -z   =   {x, y}

This works because every change has complete rows (REPLICA IDENTITY FULL), and the slot keeps unacknowledged changes.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tidegate.errors import BindError, SourceError
from tidegate.expr.model import Type, types
from tidegate.ingest.connection import ExternalConnection
from tidegate.ingest.options import FLAG, OptionSpec, OptionType
from tidegate.ingest.protocol import (
    BatchLimit,
    IncludedColumn,
    InputSplit,
    Lag,
    ReadRequest,
    RecordChunk,
    RecordFormat,
    Upstream,
    UpstreamPosition,
)
from tidegate.ingest.upstreams.postgres import catalog, snapshot
from tidegate.ingest.upstreams.postgres.catalog import format_lsn
from tidegate.ingest.upstreams.postgres.connect import Psycopg, execute_on_slot, open_session
from tidegate.ingest.upstreams.postgres.pgoutput import ChangeReader, UnsupportedChange
from tidegate.ingest.upstreams.postgres.read import (
    changes,
    chunk,
    included_columns,
    next_position,
    unsupported_change_error,
)
from tidegate.ingest.upstreams.postgres.table import PostgresTable, PostgresTableDecoder, format_from_json
from tidegate.ingest.upstreams.registry import UpstreamSpec, UpstreamType

WHOLE = 1000
"""The position of a table after its snapshot is ingested."""
_IDLE_BYTES = 16 << 20
"""Bytes of log without relevant changes after which the position advances anyway, so that the server can remove log."""
_LSN = "lsn"
_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_LOST_CHANGES_HINT = (
    "what happened meanwhile is lost: DROP SOURCE and create it again, it begins with a new snapshot"
)


@dataclass(frozen=True)
class PostgresUpstream(Upstream):
    """A publication of a PostgreSQL server."""

    connection: ExternalConnection
    publication: str
    slot: str
    chosen: tuple[tuple[str, PostgresTable], ...]
    """The ingested tables, with their names in the source."""
    append_only: bool = False
    _held: snapshot.SnapshotHolder = field(default_factory=snapshot.SnapshotHolder, compare=False, repr=False)
    """The snapshot that this process keeps open until its rows are committed."""

    @property
    def retracts(self) -> bool:
        """Whether updates and deletes remove rows: yes, unless the source is APPEND ONLY."""
        return not self.append_only

    # ------------------------------------------------------------ created and stored

    @staticmethod
    def create(spec: UpstreamSpec) -> PostgresUpstream:
        """The upstream of CREATE SOURCE: checks the server and its tables, and changes nothing there."""
        if spec.connection is None:
            raise BindError(
                "POSTGRES needs a connection", hint="CREATE CONNECTION pg TO POSTGRES (HOST …, DATABASE …)"
            )
        publication, append_only = spec.options["publication"], spec.with_options["append only"]
        slot = spec.options["slot"] or f"tidegate_{uuid.uuid4().hex[:20]}"
        with open_session(spec.connection) as c:
            catalog.check_server(c)
            wrong = catalog.check_publication(c, publication, append_only)
            if wrong is not None:
                hint = f"CREATE PUBLICATION {publication} FOR ALL TABLES; or ALTER PUBLICATION {publication} SET (publish = …)"
                raise BindError(wrong, hint=hint)
            published = catalog.published_tables(c, publication)
        chosen = catalog.choose_tables(published, publication, spec.tables)
        for _, table in chosen:
            if not append_only:
                catalog.check_identity(published[table.oid])
        return PostgresUpstream(spec.connection, publication, slot, chosen, append_only)

    def to_json(self) -> dict[str, Any]:
        """Its form in the catalog; contains only the name of the connection."""
        return {
            "connection": self.connection.name,
            "publication": self.publication,
            "slot": self.slot,
            "tables": [[name, table.describe()] for name, table in self.chosen],
            "append_only": self.append_only,
        }

    @staticmethod
    def from_json(stored: Mapping[str, Any], connection: ExternalConnection | None) -> PostgresUpstream:
        """Loads the result of `to_json`."""
        assert connection is not None
        chosen = tuple((name, format_from_json(table)) for name, table in stored["tables"])
        return PostgresUpstream(
            connection, stored["publication"], stored["slot"], chosen, stored["append_only"]
        )

    def tables(self) -> dict[str, RecordFormat]:
        """The ingested tables by name."""
        return dict(self.chosen)

    def includes(self, included: IncludedColumn) -> Type:
        """The types of OFFSET and TIMESTAMP (of the commit), for sources that are APPEND ONLY."""
        type_ = {"offset": types.INT8, "timestamp": types.TIMESTAMPTZ}.get(included.what)
        if type_ is None:
            raise BindError(f"PostgreSQL has no {included.what.upper()}", hint="it has OFFSET and TIMESTAMP")
        if not self.append_only:
            raise BindError(
                f"INCLUDE {included.what.upper()} of tables whose rows change: a row and its end would not be equal",
                hint="WITH (APPEND ONLY), if rows are only ever added",
            )
        return type_

    # ------------------------------------------------------------ positions and splits

    def start(self) -> UpstreamPosition:
        """The position before the snapshot."""
        return {_LSN: 0} | {_snapshot_key(name): 0 for name, _ in self.chosen}

    def latest(self, after: UpstreamPosition, limit: BatchLimit) -> UpstreamPosition:
        """The position of the snapshot, which is one batch; after it the end of a transaction."""
        with open_session(self.connection) as c:
            self._check(c)
            if not after.get(_LSN):
                self._ensure_slot(c)
                held = self._held.current or self._held.hold(self.connection, self.slot, self._tables())
                return self._whole(held.lsn)
            self._held.release()
            self._check_slot(c, after[_LSN])
            end = catalog.end_of_log(c)
            if end < after[_LSN]:
                raise SourceError(
                    f"the server's log ends at {format_lsn(end)}, and {format_lsn(after[_LSN])} was ingested already: "
                    "it is another server, or was restored from a backup",
                    again=False,
                    hint="DROP SOURCE and create it again",
                )
            position = next_position(c, self.slot, self.publication, after[_LSN], end, limit)
        if position is None:
            position = end if end - after[_LSN] >= _IDLE_BYTES else after[_LSN]
        return {**after, _LSN: position}

    def splits(self, after: UpstreamPosition, upto: UpstreamPosition) -> list[InputSplit]:
        """Pieces of tables for a snapshot, or one split for the changes of a range of the log."""
        begin, end = after.get(_LSN, 0), upto[_LSN]
        if begin:
            return [InputSplit(_LSN, begin, end)] if begin != end else []
        with open_session(self.connection) as c:
            held = self._held.current
            if held is None or held.lsn < end:
                self._check_slot(c, end)
                held = self._held.hold(self.connection, self.slot, self._tables())
            splits = [InputSplit(_LSN, 0, end, {"back from": held.lsn})]
            for name, table in self.chosen:
                pieces = snapshot.pieces(c, table)
                many = min(len(pieces), WHOLE)
                for i in range(many):
                    mine = pieces[i * len(pieces) // many : (i + 1) * len(pieces) // many]
                    details = {"snapshot": held.name, "lsn": held.lsn, "pieces": mine}
                    start, stop = i * WHOLE // many, (i + 1) * WHOLE // many
                    splits.append(InputSplit(_snapshot_key(name), start, stop, details))
        return splits

    def acknowledge(self, upto: UpstreamPosition) -> None:
        """Allows the server to remove its log up to a position, and releases the snapshot."""
        if not upto.get(_LSN):
            return
        self._held.release()
        with open_session(self.connection) as c:
            execute_on_slot(
                c,
                "SELECT pg_replication_slot_advance(slot_name, %(to)s::pg_lsn) FROM pg_replication_slots "
                "WHERE slot_name = %(slot)s AND confirmed_flush_lsn < %(to)s::pg_lsn",
                {"to": format_lsn(upto[_LSN]), "slot": self.slot},
            )

    def lag(self, at: UpstreamPosition) -> Lag:
        """The unread bytes of the log, which has the changes of all databases of the server."""
        with open_session(self.connection) as c:
            return Lag(bytes=max(0, catalog.end_of_log(c) - at.get(_LSN, 0)) if at.get(_LSN) else None)

    def close(self) -> None:
        """Releases the snapshot."""
        self._held.release()

    def drop(self) -> None:
        """Drops the slot, for which the server would otherwise keep its log for ever."""
        self._held.release()
        query = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
        try:
            with open_session(self.connection) as c:
                execute_on_slot(c, query, (self.slot,))
        except SourceError as error:
            raise SourceError(
                f'the replication slot "{self.slot}" could not be dropped: {error.message}',
                again=error.again,
                hint=f"SELECT pg_drop_replication_slot('{self.slot}') there, or the server keeps its log for it for ever",
            ) from None

    # ------------------------------------------------------------ records

    def read(
        self, split: InputSplit, wanted: Sequence[ReadRequest], included: Sequence[IncludedColumn]
    ) -> Iterator[tuple[int, RecordChunk]]:
        """Reads the rows of a snapshot, or changes."""
        if split.key == _LSN and split.start:
            yield from self._changes(split.start, split.end, wanted, included, sign=1)
        elif split.key == _LSN:
            yield from self._changes(split.end, split.details["back from"], wanted, included, sign=-1)
        else:
            table = split.key.removeprefix(_snapshot_key(""))
            mine = [(i, request) for i, request in enumerate(wanted) if request.table == table]
            if mine:
                yield from self._snapshot(split, mine, included)

    def _changes(
        self,
        after: int,
        upto: int,
        wanted: Sequence[ReadRequest],
        included: Sequence[IncludedColumn],
        sign: int,
    ) -> Iterator[tuple[int, RecordChunk]]:
        tables = dict(self.chosen)
        requests = [(i, request) for i, request in enumerate(wanted) if request.table in tables]
        decoders = {i: (tables[str(request.table)], _table_decoder(request)) for i, request in requests}
        if after >= upto or not decoders:
            return
        by_oid = {table.oid: table for table, _ in decoders.values()}
        reading = ChangeReader(after, upto, by_oid.keys())
        with open_session(self.connection) as c:
            for change in changes(c, self.slot, self.publication, upto, reading):
                table = by_oid[change.relation.oid]
                if isinstance(change, UnsupportedChange):
                    if change.what == "TRUNCATE" and self.append_only and sign > 0:
                        continue  # rows that were added stay
                    raise unsupported_change_error(change, table, self.append_only)
                if self.append_only and (change.diffs < 0).any():
                    raise unsupported_change_error(change, table, self.append_only)
                for i, (of, decode) in decoders.items():
                    if of.oid == table.oid:
                        decode.check(change.relation)
                        yield i, chunk(change, decode, included, str(wanted[i].table), sign)

    def _snapshot(
        self, split: InputSplit, wanted: Sequence[tuple[int, ReadRequest]], included: Sequence[IncludedColumn]
    ) -> Iterator[tuple[int, RecordChunk]]:
        decodes = [(i, _table_decoder(request)) for i, request in wanted]
        table = decodes[0][1].table
        demanded = {name for _, decode in decodes for name in decode.demand}
        names = tuple(field.name for field in table.fields if field.name in demanded)
        with open_session(self.connection) as c:
            snapshot.enter(c, split.details["snapshot"])
            for piece in split.details["pieces"]:
                now = catalog.relation_now(c, piece[0])
                for _, decode in decodes:
                    decode.check(now)
                for first, tuples in snapshot.rows(c, piece, names, table.condition):
                    behind = included_columns(included, np.full(tuples.count, split.details["lsn"]), None)
                    where = partial(_row_position, str(wanted[0][1].table), piece, first)
                    for i, decode in decodes:
                        yield i, RecordChunk(decode.tuples(tuples), behind, where)

    # ------------------------------------------------------------ checks

    def _tables(self) -> list[PostgresTable]:
        return [table for _, table in self.chosen]

    def _whole(self, position: int) -> UpstreamPosition:
        return {_LSN: position} | {_snapshot_key(name): WHOLE for name, _ in self.chosen}

    def _check(self, c: Psycopg) -> None:
        """Raises unless the publication is unchanged."""
        wrong = catalog.check_publication(c, self.publication, self.append_only)
        if wrong is not None:
            raise SourceError(wrong + " any more", again=False, hint=_LOST_CHANGES_HINT)
        now = catalog.published_tables(c, self.publication, described=False)
        catalog.check_tables(now, self._tables(), self.append_only)

    def _ensure_slot(self, c: Psycopg) -> None:
        """Creates the slot of a source that has ingested nothing, unless it exists."""
        slot = catalog.find_slot(c, self.slot)
        if slot is not None and slot.lost:
            execute_on_slot(c, "SELECT pg_drop_replication_slot(%s)", (self.slot,))
            slot = None
        if slot is None:
            c.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self.slot,))

    def _check_slot(self, c: Psycopg, after: int) -> None:
        """Raises unless the slot has all changes after a position."""
        slot = catalog.find_slot(c, self.slot)
        if slot is None:
            raise SourceError(
                f'the replication slot "{self.slot}" was dropped: changes since {format_lsn(after)} cannot be read',
                again=False,
                hint=_LOST_CHANGES_HINT,
            )
        if slot.lost:
            raise SourceError(
                f'the server has thrown away the log that the replication slot "{self.slot}" needs',
                again=False,
                hint=f"{_LOST_CHANGES_HINT}; and raise max_slot_wal_keep_size",
            )
        if slot.confirmed > after:
            raise SourceError(
                f"the changes between {format_lsn(after)} and {format_lsn(slot.confirmed)} were ingested and acknowledged once, "
                "and are gone: this lake was restored from a backup, or something else reads the slot",
                again=False,
                hint="DROP SOURCE and create it again, it begins with a new snapshot",
            )


def _snapshot_key(name: str) -> str:
    return f"snapshot/{name}"


def _row_position(table: str, piece: snapshot.Piece, first: int, row: int) -> UpstreamPosition:
    """The place of a row in a snapshot: its range of pages, and its number in the range."""
    return {"table": table, "pages": piece[1:], "row": first + row}


def _table_decoder(wanted: ReadRequest) -> PostgresTableDecoder:
    assert isinstance(wanted.decode, PostgresTableDecoder), "a table is its own format"
    return wanted.decode


_PUBLICATION = OptionType("the name of a publication", lambda value: isinstance(value, str) and value != "")
_SLOT_NAME = OptionType(
    "lower-case letters, digits and underscores, 63 at most",
    lambda value: isinstance(value, str) and _SLOT.fullmatch(value) is not None,
)
POSTGRES = UpstreamType(
    "postgres",
    PostgresUpstream.create,
    PostgresUpstream.from_json,
    options=(
        OptionSpec(
            "publication",
            _PUBLICATION,
            "what is published",
            required=True,
            example="… CONNECTION pg (PUBLICATION 'p')",
        ),
        OptionSpec("slot", _SLOT_NAME, "the replication slot; by default a new name"),
    ),
    with_options=(OptionSpec("append only", FLAG, "rows are only ever added", default=False),),
    connection="postgres",
    implicit_table=False,
    table_format=format_from_json,
)
