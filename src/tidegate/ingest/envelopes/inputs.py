"""Builds the rows that a plan evaluates from chunks: decoded columns, followed by those of INCLUDE.

INCLUDE INGESTION TIMESTAMP is the `now` of the batch, the same for all of its records. A batch that is read again after a crash has
another timestamp; nothing of the first attempt was committed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidegate.expr.model import Type, types
from tidegate.ingest.definition import SourceDefinition, SourceOutput
from tidegate.ingest.envelopes.output import INGESTION_TIMESTAMP, PlanInput
from tidegate.ingest.protocol import Decoder, RecordChunk, RecordError, RecordFormat
from tidegate.plan import MapFilterProject
from tidegate.plan.run import PlanOutput, SafePlan
from tidegate.storage.shard import validity

BOUND_COUNT = 2
"""The number of hidden columns that a temporal transform adds."""


def key_type(format_: RecordFormat | None) -> Type:
    """The type of INCLUDE KEY: the column of KEY FORMAT, or a record if it has several columns."""
    if format_ is None:
        return types.BYTEA
    return format_.columns[0][1] if len(format_.columns) == 1 else types.record(*format_.columns)


class ChunkInputs:
    """Builds the inputs of a plan from chunks: decoded columns, followed by all columns of INCLUDE."""

    def __init__(self, source: SourceDefinition, now: int) -> None:
        self._included = source.included
        self._now = pa.scalar(now * 1000, pa.int64()).cast(types.TIMESTAMPTZ.arrow)
        self._key: tuple[Decoder, SafePlan] | None = None
        if source.key_format is not None and any(column.what == "key" for column in source.included):
            inputs = [type_ for _, type_ in source.key_format.columns]
            decode, left = source.key_format.take(MapFilterProject.identity(inputs))
            self._key, self._type = (decode, SafePlan(left)), key_type(source.key_format)

    def of(self, chunk: RecordChunk) -> PlanInput:
        """Returns the inputs of the plan that `RecordFormat.take` leaves."""
        decoded = chunk.decoded
        records, columns, bad = decoded.selection, list(decoded.columns), list(decoded.failures)
        provided = iter(chunk.included)
        behind: list[pa.Array | None] = []
        for included in self._included:
            column = None if included.what == INGESTION_TIMESTAMP else next(provided)
            if included.what == "key" and self._key is not None:
                column, key_errors = self._decode_keys(column)
                bad += key_errors
            behind.append(column)
        if len(bad) > len(decoded.failures):
            bad = list({number: (number, message) for number, message in reversed(bad)}.values())
            good = np.flatnonzero(~np.isin(records, [number for number, _ in bad]))
            records, columns = records[good], [column.take(pa.array(good)) for column in columns]
        rows = None if len(records) == decoded.count else pa.array(records)
        columns += [self._column(column, rows, len(records)) for column in behind]
        return PlanInput(columns, records, bad)

    def _column(self, column: pa.Array | None, rows: pa.Array | None, count: int) -> pa.Array:
        """An included column for the given records; None means INGESTION TIMESTAMP."""
        if column is None:
            return pa.repeat(self._now, count)
        return column if rows is None else column.take(rows)

    def _decode_keys(self, keys: pa.Array) -> tuple[pa.Array, list[RecordError]]:
        """Decodes the keys of all records by KEY FORMAT; a record without a key has NULL."""
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
        present = (place >= 0) & keys.is_valid().to_numpy(zero_copy_only=False)
        errors = [(number, f"the key: {message}") for number, message in bad]
        return value.take(pa.array(place, mask=~present)), errors


def bad_records(rows: PlanOutput, records: np.ndarray) -> list[RecordError]:
    """The records on which a plan failed; row i comes from `records[i]`."""
    failures = rows.failures
    return list(zip(records[failures.rows].tolist(), failures.messages.to_pylist(), strict=True))


def unexpired(output: SourceOutput, columns: Sequence[pa.Array], now: int) -> np.ndarray | None:
    """Which output rows of a plan are not expired at `now`; None: they never expire."""
    return validity.still_valid(columns[-1], now) if has_bounds(output) else None


def has_bounds(output: SourceOutput) -> bool:
    """Whether the last two output columns of the plan are bounds of validity."""
    return output.hidden >= BOUND_COUNT


def take_rows(columns: Sequence[pa.Array], rows: np.ndarray) -> list[pa.Array]:
    """Selects rows by number."""
    index = pa.array(rows)
    return [column.take(index) for column in columns]


def without_records(rows: PlanInput, left_out: np.ndarray) -> PlanInput:
    """Removes the rows and errors of some records."""
    if not left_out.any():
        return rows
    bad = [error for error in rows.bad if not left_out[error[0]]]
    keep = np.flatnonzero(~left_out[rows.records])
    return PlanInput(take_rows(rows.columns, keep), rows.records[keep], bad)


def reportable(bad: Sequence[RecordError], diffs: np.ndarray | None) -> list[RecordError]:
    """The errors of records that are not retractions: see `append.py`."""
    return [error for error in bad if diffs is None or diffs[error[0]] > 0]
