"""The result of an envelope for the records of a split: rows with diffs, failed records, counts.

    step = envelope_step(source, output, now, stored)
    for _, chunk in upstream.read(split, [ReadRequest(output.table, step.decode)], upstream_columns(source)):
        write(step.chunk(chunk))                    rows with their diffs; failed records; counts
    write(step.finish())                            rows that depend on all records of the split (UPSERT)

An `EnvelopeOutput` is self-contained: its failures hold the bytes of their records, so the next chunk may be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from tidegate.ingest.definition import SourceDefinition
from tidegate.ingest.envelopes.bad_records import FailedRecord, encode_context
from tidegate.ingest.protocol import Decoder, IncludedColumn, RecordChunk, RecordError
from tidegate.storage.part import Block
from tidegate.storage.shard import retractions

INGESTION_TIMESTAMP = "ingestion timestamp"
"""The name in INCLUDE of the time at which a batch begins; upstreams do not provide it."""


class RecordCounts(NamedTuple):
    """Counts of records by result: `records = kept + filtered + expired + bad`, for every envelope."""

    records: int = 0
    bytes: int = 0
    """The size of the records before decoding."""
    kept: int = 0
    filtered: int = 0
    """Dropped by the transform; tombstones; for UPSERT, records that a later record of the key replaces."""
    expired: int = 0
    """Dropped because the upper bound was already in the past."""
    bad: int = 0

    def plus(self, other: RecordCounts) -> RecordCounts:
        """Adds two counts."""
        return RecordCounts(*(a + b for a, b in zip(self, other, strict=True)))


def sum_counts(counts: Iterable[RecordCounts]) -> RecordCounts:
    """Adds any number of counts."""
    total = RecordCounts()
    for count in counts:
        total = total.plus(count)
    return total


@dataclass(frozen=True, eq=False)
class EnvelopeOutput:
    """Rows for the shard of an output, and records for the shard of bad records."""

    columns: list[pa.Array]
    """The shard's columns in their exact types, including hidden ones."""
    diffs: np.ndarray | None
    """The diff of each row; None: all are +1."""
    failures: list[FailedRecord]
    counts: RecordCounts
    keys: np.ndarray | None = None
    """UPSERT, from `finish`: the sorted hashes of the keys in the split. Two splits of one batch with a common hash hold records of
    the same key, and must be read as one split to determine which record is last."""
    deletions: retractions.LocatedDeletions | None = None
    """UPSERT, from `finish`: the stored rows that are replaced or deleted, if their positions are known."""

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0


class EnvelopeStep(Protocol):
    """Converts the chunks of one split, in order, into the rows of one output. It has state."""

    @property
    def decode(self) -> Decoder:
        """The decoder that the upstream uses."""
        ...

    def chunk(self, chunk: RecordChunk) -> EnvelopeOutput:
        """Returns the rows of a chunk that do not depend on later chunks."""
        ...

    def finish(self) -> EnvelopeOutput:
        """Returns the remaining rows, after the last chunk."""
        ...


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Rows that a shard holds, and where."""

    rows: Block
    """All columns; the diff says how often each row is stored."""
    parts: np.ndarray | None = None
    """The id of the part that holds each row; None: rows are not known by their positions."""
    positions: np.ndarray | None = None
    """The position of each row in its part."""

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, mask: np.ndarray) -> StoredRows:
        """The rows that a mask selects."""
        parts, positions = (None if at is None else at[mask] for at in (self.parts, self.positions))
        return StoredRows(self.rows.take(mask), parts, positions)


class StoredRowLookup(Protocol):
    """Looks up the rows that a shard held when the batch began, by the raw key of UPSERT."""

    def rows(self, keys: pa.Array) -> StoredRows:
        """Returns the rows of these keys (distinct, not NULL)."""
        ...

    def deletions(self, rows: StoredRows) -> retractions.LocatedDeletions:
        """Returns the deletions of rows that were looked up with their positions."""
        ...


def upstream_columns(source: SourceDefinition) -> tuple[IncludedColumn, ...]:
    """The columns of INCLUDE that the upstream provides."""
    return tuple(included for included in source.included if included.what != INGESTION_TIMESTAMP)


def failed_records(chunk: RecordChunk, bad: Iterable[RecordError]) -> list[FailedRecord]:
    """Builds the failed records, with their bytes."""
    return [
        FailedRecord(chunk.decoded.raw(i), chunk.position(i), message, encode_context(chunk, i))
        for i, message in sorted(bad)
    ]


def empty_output(types: Iterable[pa.DataType], counts: RecordCounts | None = None) -> EnvelopeOutput:
    """An output without rows."""
    return EnvelopeOutput([pa.array([], type_) for type_ in types], None, [], counts or RecordCounts())


@dataclass(frozen=True)
class PlanInput:
    """Rows that a plan evaluates, and the records that they come from."""

    columns: list[pa.Array]
    records: np.ndarray
    """The record of each row, ascending."""
    bad: list[RecordError] = field(default_factory=list)
    """Records that failed during decoding."""

    def __len__(self) -> int:
        return len(self.records)
