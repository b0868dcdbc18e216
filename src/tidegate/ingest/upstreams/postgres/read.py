"""Peeks at a replication slot: finds the end of the next batch, and reads changes as records.

    next_position(c, slot, publication, after, end, limit)   the end of a transaction after `after`; None: nothing new
    for change in changes(c, slot, publication, upto, reading):
        chunk(change, decode, included, "orders", sign=1)

Each peek decodes the log from the position of the slot. So the server decodes a batch twice: once to find its end (only that is
sent), and once to read it, as a stream that no side holds as a whole.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tidegate.errors import SourceError
from tidegate.expr.model import types
from tidegate.ingest.protocol import BatchLimit, IncludedColumn, RecordChunk
from tidegate.ingest.upstreams.postgres.catalog import format_lsn
from tidegate.ingest.upstreams.postgres.connect import (
    BUSY_SECONDS,
    Psycopg,
    copy_blocks,
    execute_on_slot,
    psycopg_module,
)
from tidegate.ingest.upstreams.postgres.pgoutput import ChangeReader, RowChanges, UnsupportedChange
from tidegate.ingest.upstreams.postgres.table import PostgresTable, PostgresTableDecoder

_DEFAULT_BATCH_ROWS = 1_000_000
"""The maximum changes of a batch if only its bytes are limited."""
_HEADER = 19
"""Bytes before the first row in COPY's binary format; a row is the number of fields (2 bytes), a length (4) and the message."""
_FRAME = 6
_PEEK = "pg_logical_slot_peek_binary_changes('{slot}', {upto}, {rows}, 'proto_version', '1', 'publication_names', {names})"
_ENDS = """
WITH counted AS (
    SELECT kind, lsn - '0/0' AS at, row_number() OVER w AS number, sum(size) OVER w AS bytes,
           count(*) FILTER (WHERE kind IN (ascii('I'), ascii('U'), ascii('D'), ascii('T'))) OVER w AS rows
    FROM (SELECT lsn, get_byte(data, 0) AS kind, length(data) AS size FROM {peek}) AS peeked
    WINDOW w AS (ROWS UNBOUNDED PRECEDING)),
ends AS MATERIALIZED (SELECT at, number, rows, bytes FROM counted WHERE kind = ascii('C')),
past AS (SELECT coalesce(max(rows), 0) AS rows, coalesce(max(bytes), 0) AS bytes FROM ends WHERE at <= {after})
SELECT min(e.at) FILTER (WHERE e.rows > past.rows),
       max(e.at) FILTER (WHERE e.rows > past.rows AND e.rows - past.rows <= {rows} AND e.bytes - past.bytes <= {bytes}),
       (SELECT max(number) FROM ends)
FROM ends AS e, past WHERE e.at > {after}
"""
"""The ends of the first transaction with changes of the source and of the last that fits, and the number of messages."""


def _peek(slot: str, publication: str, upto: int | None, rows: int | None) -> str:
    name = publication.replace('"', '""').replace("'", "''")
    return _PEEK.format(
        slot=slot,
        upto="NULL" if upto is None else f"'{format_lsn(upto)}'",
        rows="NULL" if rows is None else rows,
        names=f"""'"{name}"'""",
    )


def next_position(
    c: Psycopg, slot: str, publication: str, after: int, end: int, limit: BatchLimit
) -> int | None:
    """The end of the last transaction within the limit, or of the first one; None: nothing new.

    Without a limit it is the log's end: then it is enough to know that a transaction exists.
    """
    unlimited = limit.rows is None and limit.bytes is None
    many, size = (1, 1) if unlimited else (limit.rows or _DEFAULT_BATCH_ROWS, limit.bytes or 1 << 62)
    messages = many
    while True:
        # A slot that is behind `after` returns ingested changes again: then the number of messages must be larger.
        peek = _peek(slot, publication, None, messages)
        query = _ENDS.format(peek=peek, after=after, rows=many, bytes=size)
        first, last, count = execute_on_slot(c, query)[0]
        if first is not None:
            position = int(first if last is None else last)
            return max(position, end) if unlimited else position
        if count is None or count < messages:
            return None
        messages *= 4


def changes(
    c: Psycopg, slot: str, publication: str, upto: int, reading: ChangeReader
) -> Iterator[RowChanges | UnsupportedChange]:
    """Reads the changes of a slot, up to a position in the log."""
    peek = _peek(slot, publication, upto, None)
    statement = f"COPY (SELECT data FROM {peek}) TO STDOUT (FORMAT binary)".encode()
    for data, sizes in _copy_when_free(c, statement):
        starts = np.cumsum(sizes) - sizes
        if data.startswith(b"PGCOPY\n"):
            sizes[0] -= _HEADER
            starts[0] += _HEADER
        framed = sizes > _FRAME  # the last two bytes, and a header by itself, contain no message
        yield from reading.run(data, starts[framed] + _FRAME)


def _copy_when_free(c: Psycopg, statement: bytes) -> Iterator[tuple[bytes, np.ndarray]]:
    """The blocks of a COPY from a slot; waits if another session uses the slot."""
    psycopg = psycopg_module()
    end = time.monotonic() + BUSY_SECONDS
    while True:
        begun = False
        try:
            for block in copy_blocks(c, statement):
                begun = True
                yield block
        except psycopg.errors.ObjectInUse:
            if begun or time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return


# ---------------------------------------------------------------- records


def chunk(
    change: RowChanges,
    decode: PostgresTableDecoder,
    included: Sequence[IncludedColumn],
    table: str,
    sign: int,
) -> RecordChunk:
    """A chunk of changes as records; a sign of -1 reverts them."""
    return RecordChunk(
        decode.tuples(change.tuples),
        included_columns(included, change.commits, change.times),
        lambda row: {"table": table, "lsn": format_lsn(change.commits[row])},
        change.diffs * sign,
    )


def included_columns(
    included: Sequence[IncludedColumn], commits: np.ndarray, times: np.ndarray | None
) -> list[pa.Array]:
    """The columns OFFSET and TIMESTAMP; without times, as in a snapshot, TIMESTAMP is NULL."""
    makers = {
        "offset": lambda: pa.array(commits, pa.int64()),
        "timestamp": lambda: (
            pa.nulls(len(commits), types.TIMESTAMPTZ.arrow)
            if times is None
            else pa.array(times, pa.int64()).cast(types.TIMESTAMPTZ.arrow)
        ),
    }
    return [makers[column.what]() for column in included]


def unsupported_change_error(
    change: RowChanges | UnsupportedChange, table: PostgresTable, append_only: bool
) -> SourceError:
    """The error for changes that the source cannot apply."""
    if isinstance(change, RowChanges):
        first = int(np.argmax(change.diffs < 0))
        what, where = "an UPDATE or DELETE", format_lsn(change.commits[first])
    else:
        what, where = f"{'an' if change.what == 'UPDATE' else 'a'} {change.what}", format_lsn(change.commit)
    message = f"{what} of {table} was committed at {where}, and the rows that it ended are not in the log"
    if append_only:
        return SourceError(
            f"{what} of {table} was committed at {where}, but the source is APPEND ONLY",
            again=False,
            hint="to ignore such changes from now on: ALTER PUBLICATION … SET (publish = 'insert'), and create the source again",
        )
    hint = "DROP SOURCE and create it again"
    if isinstance(change, UnsupportedChange) and change.what == "TRUNCATE":
        hint += "; DELETE FROM instead of TRUNCATE can be followed"
    else:
        hint += f"; ALTER TABLE {table} REPLICA IDENTITY FULL must hold all the time"
    return SourceError(message, again=False, hint=hint)
