"""Envelopes: what a record says about the collection. NONE is here, UPSERT and DEBEZIUM have rooms of their own.

| envelope | a record says | rows |
|---|---|---|
| NONE | here is a row | the transform of it; -1 where the upstream itself retracts (POSTGRES) |
| UPSERT | the value of this key is now … | the old row of the key -1, the new one +1; a tombstone only the former |
| DEBEZIUM | the row was …, and is now … | the transform of `before` -1, that of `after` +1 |

    SELECT data->>'id' FROM s WHERE mz_now() <= (data->>'at')::timestamptz + '30 days'

    plan.take → decode    `id` and `at` of each record                       in the upstream's loop
    left                  the row and its two bounds                         here
    upper bound ≤ now     dropped, and counted as expired                    here: what is past is never stored

A record that fails is in `failures`, and gives no row. A retraction that fails retracts a row which failed when it was appended,
and so is not there: it is passed over, since the record of the appending is among the errors already.

INCLUDE INGESTION TIMESTAMP is the `now` of the batch, the same for all of its records; a batch that is read again after a crash
has another one, and nothing of the first was committed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidegate.expr.types import BYTEA, TIMESTAMPTZ, Type, record
from tidegate.ingest.definition import Envelope, Output, Source
from tidegate.ingest.made import (
    INGESTED,
    Counts,
    Failed,
    Given,
    Made,
    Step,
    Stored,
    asked,
    failed,
    nothing,
)
from tidegate.ingest.source import Bad, Chunk, Columns, Decode, Format
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.safe import Rows, SafePlan
from tidegate.shard.validity import still_valid

__all__ = ["Counts", "Failed", "Made", "Step", "Stored", "asked", "given", "key_type", "step"]

BOUNDS = 2
"""How many hidden columns a temporal transform adds."""


def step(source: Source, output: Output, now: int, stored: Stored | None) -> Step:
    """What an output does with a split. `now` is the batch's time in ms; it must be committed at that time or later."""
    match source.envelope:
        case "upsert":
            from tidegate.ingest.upsert import Upsert

            assert stored is not None
            return Upsert(source, output, now, stored)
        case "debezium":
            from tidegate.ingest.debezium import Debezium

            return Debezium(source, output, now)
        case "none":
            return Appending(source, output, now)


def given(envelope: Envelope, format_: Format) -> Columns:
    """The columns that an envelope gives of records of a format, before the included ones: what a transform reads."""
    if envelope != "debezium":
        return format_.columns
    from tidegate.ingest.debezium import payload

    return payload(format_)


def key_type(format_: Format | None) -> Type:
    """The type of INCLUDE KEY: what KEY FORMAT gives, a record if that has several columns."""
    if format_ is None:
        return BYTEA
    return format_.columns[0][1] if len(format_.columns) == 1 else record(*format_.columns)


class Inputs:
    """The rows of chunks: what was decoded, and behind it all that INCLUDE adds."""

    def __init__(self, source: Source, now: int) -> None:
        self._included = source.included
        self._now = pa.scalar(now * 1000, pa.int64()).cast(TIMESTAMPTZ.arrow)
        self._key: tuple[Decode, SafePlan] | None = None
        if source.key_format is not None and any(one.what == "key" for one in source.included):
            types = [type_ for _, type_ in source.key_format.columns]
            decode, left = source.key_format.take(MapFilterProject.identity(types))
            self._key, self._type = (decode, SafePlan(left)), key_type(source.key_format)

    def of(self, chunk: Chunk) -> Given:
        """What the plan that `Format.take` left is given."""
        decoded = chunk.decoded
        records, columns, bad = decoded.selection, list(decoded.columns), list(decoded.failures)
        asked_for = iter(chunk.included)
        behind: list[pa.Array | None] = []
        for one in self._included:
            column = None if one.what == INGESTED else next(asked_for)
            if one.what == "key" and self._key is not None:
                column, wrong = self._decoded_key(column)
                bad += wrong
            behind.append(column)
        if len(bad) > len(decoded.failures):
            bad = list({number: (number, message) for number, message in reversed(bad)}.values())
            good = np.flatnonzero(~np.isin(records, [number for number, _ in bad]))
            records, columns = records[good], [column.take(pa.array(good)) for column in columns]
        rows = None if len(records) == decoded.count else pa.array(records)
        columns += [self._for(column, rows, len(records)) for column in behind]
        return Given(columns, records, bad)

    def _for(self, column: pa.Array | None, rows: pa.Array | None, count: int) -> pa.Array:
        """An included column, of some records."""
        if column is None:
            return pa.repeat(self._now, count)
        return column if rows is None else column.take(rows)

    def _decoded_key(self, keys: pa.Array) -> tuple[pa.Array, list[Bad]]:
        """The keys of all records, decoded by KEY FORMAT; a record without a key has NULL."""
        assert self._key is not None
        decode, left = self._key
        decoded = decode.records(keys)
        rows = left.evaluate(decoded.columns, len(decoded.selection))
        bad = [*decoded.failures, *bad_records(rows, decoded.selection)]
        value = rows.columns[0]
        if len(rows.columns) > 1:
            value = pa.StructArray.from_arrays(rows.columns, fields=list(self._type.arrow))
        place = np.full(len(keys), -1)
        place[decoded.selection[rows.selection]] = np.arange(len(value))
        found = (place >= 0) & keys.is_valid().to_numpy(zero_copy_only=False)
        wrong = [(number, f"the key: {message}") for number, message in bad]
        return value.take(pa.array(place, mask=~found)), wrong


def bad_records(rows: Rows, records: np.ndarray) -> list[Bad]:
    """The records on which a plan failed; row i came from `records[i]`."""
    failures = rows.failures
    return list(zip(records[failures.rows].tolist(), failures.messages.to_pylist(), strict=True))


def current(output: Output, columns: Sequence[pa.Array], now: int) -> np.ndarray | None:
    """Which rows that leave the plan of an output have not ended at `now`; None: none can."""
    return still_valid(columns[-1], now) if bounded(output) else None


def bounded(output: Output) -> bool:
    """Whether the last two columns that leave the plan are bounds."""
    return output.hidden >= BOUNDS


def picked(columns: Sequence[pa.Array], rows: np.ndarray) -> list[pa.Array]:
    """Some rows, by number."""
    index = pa.array(rows)
    return [column.take(index) for column in columns]


def without(rows: Given, left_out: np.ndarray) -> Given:
    """The rows, and what failed, of other records than these."""
    if not left_out.any():
        return rows
    bad = [one for one in rows.bad if not left_out[one[0]]]
    keep = np.flatnonzero(~left_out[rows.records])
    return Given(picked(rows.columns, keep), rows.records[keep], bad)


def reported(bad: Sequence[Bad], diffs: np.ndarray | None) -> list[Bad]:
    """Those that failed, without retractions: see the module's docstring."""
    return [one for one in bad if diffs is None or diffs[one[0]] > 0]


class Appending:
    """ENVELOPE NONE: each record a row, or with a diff of -1 the end of one."""

    def __init__(self, source: Source, output: Output, now: int) -> None:
        self._output, self._now = output, now
        self._inputs = Inputs(source, now)
        plan = output.plan if output.before is None else output.before.then(output.plan)
        self.decode, left = output.format.take(plan)
        self._left = SafePlan(left)

    def chunk(self, chunk: Chunk) -> Made:
        """The rows of a chunk."""
        rows = self._inputs.of(chunk)
        made = self._left.evaluate(rows.columns, len(rows))
        records, columns = rows.records[made.selection], made.columns
        bad = reported([*rows.bad, *bad_records(made, rows.records)], chunk.diffs)
        passed = len(records)
        alive = current(self._output, columns, self._now)
        if alive is not None and not alive.all():
            some = np.flatnonzero(alive)
            records, columns = records[some], picked(columns, some)
        count, kept, expired = chunk.decoded.count, len(records), passed - len(records)
        counts = Counts(count, chunk.decoded.size, kept, count - kept - expired - len(bad), expired, len(bad))
        diffs = None if chunk.diffs is None else chunk.diffs[records]
        return Made(columns, diffs, failed(chunk, bad), counts)

    def finish(self) -> Made:
        """Nothing was held back."""
        return nothing(type_.arrow for type_ in self._output.plan.types)
