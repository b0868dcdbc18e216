"""Protocols of ingestion: an upstream provides records, and a format decodes them into columns.

    upstream    where records come from: files, topics, a replication slot.  Positions, splits, reading
    format      the encoding of a record: BYTES, TEXT, JSON, CSV, AVRO, PARQUET.  `columns` is the source's schema
    decoder     a format that has taken over part of one plan; it is sent to the tasks that read

A source passes its plan (`Q_safemfp`, a MapFilterProject over the format's columns followed by those of INCLUDE) to its
format:

    decode, left = format.take(plan)
    decoded = decode.records(values)                     in a task: one binary value a record
    rows = chunk.rows()                                  decoded columns, then the included ones
    SafePlan(left).evaluate(rows, len(decoded.selection))

Evaluating `left` over the decoded columns is equivalent to evaluating `plan` over all columns, including errors: the same
records give rows, and the same records fail with the same message. A record fails in one of two ways, which are reported
alike: it is not valid in the format (then the plan is not evaluated), or the plan fails on it.

    SELECT data->>'id' FROM s WHERE data->>'kind' = 'pay' AND "offset" > 5       over FORMAT JSON, INCLUDE OFFSET

    take:  the text at `kind` of each record; the text at `id` of those where it is 'pay'
    left:  Filter #1 > 5, Project (#0)                   #0 is the decoded column, #1 the offset

The plan that `take` leaves reads `decode.columns` first and then **all** included columns, as the original plan did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.expr.model import Type
from tidegate.plan import MapFilterProject
from tidegate.text import identifier

UpstreamPosition: TypeAlias = dict[str, Any]
"""How far a source has read, as JSON: `{"0": 1200}` by Kafka partition, `{"<file>": size}`, `{"lsn": …}`."""
Columns: TypeAlias = tuple[tuple[str, Type], ...]
"""Column names and types."""
RecordError: TypeAlias = tuple[int, str]
"""A record that failed, by its number in the batch, and why."""


@dataclass(frozen=True)
class DecodedBatch:
    """A decoded batch of records, numbered from 0; each record gives one row, no row, or a failure."""

    columns: list[pa.Array]
    """The first inputs of the remaining plan: `Decoder.columns`."""
    selection: np.ndarray
    """The record number of each row, ascending."""
    failures: list[RecordError]
    """Ascending by record; none of these records is in `selection`."""
    count: int
    """The number of records in the batch, including those without a row."""
    raw: Callable[[int], bytes]
    """Returns the bytes of a record, for `<source>_errors`. Valid in this process, until the next batch is read."""
    start: int = 0
    """The number of the first record in its file, from 0; for line formats the line."""
    numbers: np.ndarray | None = None
    """The line of each record in the file, from 0, if that is not `start`, `start + 1`, …"""
    size: int = 0
    """The size of the records before decoding, in bytes, for progress."""

    def lines(self, records: np.ndarray) -> np.ndarray:
        """The lines of these records in their file, from 0."""
        return self.start + records if self.numbers is None else self.numbers[records]


class Decoder(Protocol):
    """A format that has taken over its part of a plan. Frozen, picklable, holds no open resource."""

    @property
    def columns(self) -> Columns:
        """Names and types of `DecodedBatch.columns`, the first inputs of the remaining plan."""
        ...

    def records(self, values: pa.Array) -> DecodedBatch:
        """Decodes binary values, one record each. A null (a tombstone) is a record with only NULLs."""
        ...

    def file(self, opened: BinaryIO, name: str) -> Iterator[DecodedBatch]:
        """Decodes all records of a file in batches of a few MB; unpacks names that end with .gz or .zst.

        Raises a `CorruptError` that names the file if it ends too early or is not in the format.
        """
        ...


class RecordFormat(Protocol):
    """The encoding of a source's records. Frozen, picklable."""

    @property
    def columns(self) -> Columns:
        """The source's schema before any transform, without the columns of INCLUDE."""
        ...

    @property
    def splittable(self) -> bool:
        """Whether any range of lines of an uncompressed file can be decoded without the rest of the file."""
        return False

    def to_json(self) -> dict[str, Any]:
        """The JSON form in the catalog; `kind` names the format."""
        ...

    def describe_reads(self, plan: MapFilterProject) -> list[str]:
        """Lists what the format decodes for a plan, for EXPLAIN; by default the columns that the plan reads."""
        demand = plan.demand()
        return [identifier(name) for i, (name, _) in enumerate(self.columns) if i in demand]

    def take(self, plan: MapFilterProject) -> tuple[Decoder, MapFilterProject]:
        """Splits a plan over `columns` and included columns into a decoder and the remaining plan."""
        ...


# ---------------------------------------------------------------- upstreams


@dataclass(frozen=True)
class BatchLimit:
    """The maximum size of one batch; None: no limit."""

    rows: int | None = None
    bytes: int | None = None
    files: int | None = None


@dataclass(frozen=True)
class Lag:
    """How far a position is behind the upstream's end; values that are not known are None."""

    records: int | None = None
    bytes: int | None = None
    milliseconds: int | None = None
    notes: tuple[str, ...] = ()
    """Warnings for the operator of the source, such as a file that was rewritten after it had been read."""


@dataclass(frozen=True)
class InputSplit:
    """The range of an upstream that one task reads: `(start, end]` of `key`. Its values are JSON."""

    key: str
    """A key of the positions: a partition, a file, …"""
    start: Any
    end: Any
    details: dict[str, Any] = field(default_factory=dict, compare=False)
    """Further data that the upstream needs to read the split."""


@dataclass(frozen=True)
class ReadRequest:
    """What one collection reads from the records of a split."""

    table: str | None
    """The upstream's table; None if all of its records are of one kind."""
    decode: Decoder


@dataclass(frozen=True)
class RecordChunk:
    """Records of a split that were read and decoded together, in the order of the upstream."""

    decoded: DecodedBatch
    included: Sequence[pa.Array]
    """The columns of INCLUDE, in its order, one value for each *record*."""
    position: Callable[[int], UpstreamPosition]
    """The position of a record, as JSON, for `<source>_errors`: `{"partition": 0, "offset": 17}`, `{"file": …, "line": 3}`."""
    diffs: np.ndarray | None = None
    """+1 or -1 for each record; None: all +1."""
    keys: pa.Array | None = None
    """The raw bytes of each record's key (ENVELOPE UPSERT); NULL if the record has none."""
    gone: np.ndarray | None = None
    """Which records are tombstones: a key without a value. None: there are none."""

    def rows(self) -> list[pa.Array]:
        """The inputs of the plan that `RecordFormat.take` leaves, one value for each row."""
        if len(self.decoded.selection) == self.decoded.count:
            return [*self.decoded.columns, *self.included]
        rows = pa.array(self.decoded.selection)
        return [*self.decoded.columns, *(column.take(rows) for column in self.included)]


@dataclass(frozen=True)
class IncludedColumn:
    """One column of INCLUDE: its kind (`key`, `offset`, `header`, …), its name, and the header's name."""

    what: str
    name: str
    argument: str | None = None


class Upstream(Protocol):
    """Where records come from: files, a topic, a publication. Frozen, picklable.

    An implementation derives from this class and inherits its defaults: no tables, no retractions, no sample files, nothing to
    release. It is registered by an `UpstreamType` (`upstreams/registry.py`).

    Positions only grow; records before a position may no longer exist upstream. An upstream that cannot be reached raises a
    `SourceError`, which states whether another attempt may help; so do records that are permanently lost.
    """

    @property
    def retracts(self) -> bool:
        """Whether its records may retract rows, by diffs of -1."""
        return False

    def to_json(self) -> dict[str, Any]:
        """The JSON form in the catalog, without secrets; the key `connection` names the connection."""
        ...

    def tables(self) -> dict[str, RecordFormat]:
        """The tables of an upstream that knows its columns; if it has none, FORMAT is required."""
        return {}

    def open_sample(self) -> tuple[BinaryIO, str] | None:
        """Opens a file from which a format may derive columns, with its name; None: it has no files."""
        return None

    def includes(self, included: IncludedColumn) -> Type:
        """Returns the type of a column of INCLUDE; raises a BindError if this upstream does not provide it."""
        ...

    def bind(
        self,
        format_: RecordFormat | None,
        envelope: str,
        included: Sequence[IncludedColumn],
    ) -> Upstream:
        """Adapts this upstream to the format, envelope and INCLUDE of a source; CREATE SOURCE calls it once."""
        del format_, envelope, included
        return self

    def start(self) -> UpstreamPosition:
        """The position of a source that has ingested nothing."""
        ...

    def latest(self, after: UpstreamPosition, limit: BatchLimit) -> UpstreamPosition:
        """The position where the next batch ends; equal to `after` if there is nothing new."""
        ...

    def splits(self, after: UpstreamPosition, upto: UpstreamPosition) -> list[InputSplit]:
        """Returns splits that cover everything after `after`, up to and including `upto`."""
        ...

    def read(
        self, split: InputSplit, wanted: Sequence[ReadRequest], included: Sequence[IncludedColumn]
    ) -> Iterator[tuple[int, RecordChunk]]:
        """Reads the records of a split, in a task; yields chunks, each with the index of its request."""
        ...

    def acknowledge(self, upto: UpstreamPosition) -> None:
        """Reports that everything up to `upto` is committed, so that the upstream may discard it."""
        del upto

    def lag(self, at: UpstreamPosition) -> Lag:
        """Returns how far `at` is behind the upstream's end."""
        ...

    def close(self) -> None:
        """Closes what this process holds open between batches, such as a snapshot, when the ingestion ends."""
        return

    def drop(self) -> None:
        """Releases what the source holds upstream, such as a replication slot, when the source is dropped."""
        return
