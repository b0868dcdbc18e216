"""Peeking at a slot: how far the next batch goes, the changes of a stretch of the log, and what they are as records.

    next_position(c, slot, publication, after, end, limit)   where a transaction ends, some way behind `after`; None: nothing new
    for found in changes(c, slot, publication, upto, reading):
        chunk(found, decode, included, "orders", sign=1)

A peek decodes the log from where the slot stands, each time. So a batch is decoded twice by the server: once to see where it ends
(only that travels), and once to be read, as it comes and without being held as a whole anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tidegate.errors import SourceError
from tidegate.expr.types import TIMESTAMPTZ
from tidegate.ingest.pgoutput import Changes, Reading, Refused
from tidegate.ingest.postgres_catalog import lsn
from tidegate.ingest.postgres_connect import BUSY_SECONDS, Psycopg, copied, patiently, psycopg_module
from tidegate.ingest.postgres_table import Table, TableDecode
from tidegate.ingest.source import Chunk, Included, Limit

_ROWS = 1_000_000
"""Changes in a batch where only its bytes are limited."""
_HEADER = 19
"""Bytes before the first row of COPY's binary form; a row is a number of fields (2 bytes), a length (4), the message."""
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
"""Where transactions end that change something for us: the first, and the last that fits; and how many messages there were."""


def _peek(slot: str, publication: str, upto: int | None, rows: int | None) -> str:
    name = publication.replace('"', '""').replace("'", "''")
    return _PEEK.format(
        slot=slot,
        upto="NULL" if upto is None else f"'{lsn(upto)}'",
        rows="NULL" if rows is None else rows,
        names=f"""'"{name}"'""",
    )


def next_position(c: Psycopg, slot: str, publication: str, after: int, end: int, limit: Limit) -> int | None:
    """The end of the last transaction that fits into the limit; of the first one if none does.

    Without a limit, the log's end: then it is enough to know that there is one.
    """
    unlimited = limit.rows is None and limit.bytes is None
    many, size = (1, 1) if unlimited else (limit.rows or _ROWS, limit.bytes or 1 << 62)
    messages = many
    while True:
        # A slot that is behind `after` gives what was ingested once more: then more must be asked for.
        peek = _peek(slot, publication, None, messages)
        query = _ENDS.format(peek=peek, after=after, rows=many, bytes=size)
        first, last, count = patiently(c, query)[0]
        if first is not None:
            found = int(first if last is None else last)
            return max(found, end) if unlimited else found
        if count is None or count < messages:
            return None
        messages *= 4


def changes(
    c: Psycopg, slot: str, publication: str, upto: int, reading: Reading
) -> Iterator[Changes | Refused]:
    """What the messages of a slot say, up to a place in the log."""
    peek = _peek(slot, publication, upto, None)
    statement = f"COPY (SELECT data FROM {peek}) TO STDOUT (FORMAT binary)".encode()
    for data, sizes in _when_free(c, statement):
        starts = np.cumsum(sizes) - sizes
        if data.startswith(b"PGCOPY\n"):
            sizes[0] -= _HEADER
            starts[0] += _HEADER
        framed = sizes > _FRAME  # the last two bytes, and a header by itself, frame nothing
        yield from reading.run(data, starts[framed] + _FRAME)


def _when_free(c: Psycopg, statement: bytes) -> Iterator[tuple[bytes, np.ndarray]]:
    """The blocks of a COPY from a slot, once others have finished with it."""
    psycopg = psycopg_module()
    end = time.monotonic() + BUSY_SECONDS
    while True:
        begun = False
        try:
            for block in copied(c, statement):
                begun = True
                yield block
        except psycopg.errors.ObjectInUse:
            if begun or time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return


# ---------------------------------------------------------------- records


def chunk(found: Changes, decode: TableDecode, included: Sequence[Included], table: str, sign: int) -> Chunk:
    """Changes as records; with a sign of -1 they are taken back."""
    return Chunk(
        decode.tuples(found.tuples),
        columns(included, found.commits, found.times),
        lambda row: {"table": table, "lsn": lsn(found.commits[row])},
        found.diffs * sign,
    )


def columns(included: Sequence[Included], commits: np.ndarray, times: np.ndarray | None) -> list[pa.Array]:
    """OFFSET and TIMESTAMP of records; of a snapshot the times are not known."""
    made = {
        "offset": lambda: pa.array(commits, pa.int64()),
        "timestamp": lambda: (
            pa.nulls(len(commits), TIMESTAMPTZ.arrow)
            if times is None
            else pa.array(times, pa.int64()).cast(TIMESTAMPTZ.arrow)
        ),
    }
    return [made[one.what]() for one in included]


def refused(found: Changes | Refused, table: Table, append_only: bool) -> SourceError:
    """Changes that cannot be followed."""
    if isinstance(found, Changes):
        first = int(np.argmax(found.diffs < 0))
        what, where = "an UPDATE or DELETE", lsn(found.commits[first])
    else:
        what, where = f"{'an' if found.what == 'UPDATE' else 'a'} {found.what}", lsn(found.commit)
    message = f"{what} of {table} was committed at {where}, and the rows that it ended are not in the log"
    if append_only:
        return SourceError(
            f"{what} of {table} was committed at {where}, but the source is APPEND ONLY",
            again=False,
            hint="to ignore such changes from now on: ALTER PUBLICATION … SET (publish = 'insert'), and create the source again",
        )
    hint = "DROP SOURCE and create it again"
    if isinstance(found, Refused) and found.what == "TRUNCATE":
        hint += "; DELETE FROM instead of TRUNCATE can be followed"
    else:
        hint += f"; ALTER TABLE {table} REPLICA IDENTITY FULL must hold all the time"
    return SourceError(message, again=False, hint=hint)
