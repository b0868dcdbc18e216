"""What an output makes of the records of a split: the words between the pipeline and the envelopes.

    step = envelope.step(source, output, now, stored)
    for _, chunk in upstream.read(split, [Wanted(output.table, step.decode)], asked(source)):
        write(step.chunk(chunk))                    rows with their diffs; records that failed; counts
    write(step.finish())                            what could only be said once all records were seen (UPSERT)

A `Made` is good by itself: its failures hold the bytes of their records, so the next chunk may be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from tidegate.ingest.bad import kept
from tidegate.ingest.definition import Source
from tidegate.ingest.source import Bad, Chunk, Decode, Included, Position
from tidegate.shard.merge import Block

INGESTED = "ingestion timestamp"
"""What INCLUDE calls the time at which a batch was begun: no upstream knows it."""


class Failed(NamedTuple):
    """A record that is a row of `<source>_errors`."""

    raw: bytes
    position: Position
    message: str
    included: bytes = b""
    """What else there is to the record (`bad.py`), so that it can be tried again."""


class Counts(NamedTuple):
    """What became of records: `records = kept + filtered + expired + bad`, whatever the envelope."""

    records: int = 0
    bytes: int = 0
    """That the records had before decoding."""
    kept: int = 0
    filtered: int = 0
    """Not wanted by the transform; tombstones; of UPSERT what a later record of the key replaced."""
    expired: int = 0
    """Whose upper bound was past already."""
    bad: int = 0

    def plus(self, other: Counts) -> Counts:
        """Both."""
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))


@dataclass(frozen=True, eq=False)
class Made:
    """Rows for the shard of an output, and records for the errors."""

    columns: list[pa.Array]
    """The shard's columns, hidden ones included, in its exact types."""
    diffs: np.ndarray | None
    """Of each row; None: all +1."""
    failures: list[Failed]
    counts: Counts
    keys: np.ndarray | None = None
    """UPSERT, from `finish`: a hash of each key that the split held, sorted. Two splits of one batch that share one hold records
    of one key, and only reading them as one split tells which is the last."""

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0


class Step(Protocol):
    """One output's work on the chunks of one split, in order. Holds what it has seen: one for each split."""

    @property
    def decode(self) -> Decode:
        """What the upstream is to decode."""
        ...

    def chunk(self, chunk: Chunk) -> Made:
        """What can be said of a chunk."""
        ...

    def finish(self) -> Made:
        """What can be said now that there are no more."""
        ...


class Stored(Protocol):
    """The rows of a shard as they were when the batch began, found by the raw key of UPSERT. Can be pickled."""

    def rows(self, keys: pa.Array) -> Block:
        """The rows that the shard holds under these keys (distinct, no NULL): all its columns, and how often each is there."""
        ...


def asked(source: Source) -> tuple[Included, ...]:
    """The included columns that the upstream is asked for."""
    return tuple(included for included in source.included if included.what != INGESTED)


def failed(chunk: Chunk, bad: Iterable[Bad]) -> list[Failed]:
    """The records that failed, with their bytes."""
    return [
        Failed(chunk.decoded.raw(i), chunk.position(i), message, kept(chunk, i)) for i, message in sorted(bad)
    ]


def nothing(types: Iterable[pa.DataType], counts: Counts | None = None) -> Made:
    """No rows."""
    return Made([pa.array([], type_) for type_ in types], None, [], counts or Counts())


@dataclass(frozen=True)
class Given:
    """Rows that a plan is asked about."""

    columns: list[pa.Array]
    records: np.ndarray
    """Of each row (rising) the record that it came from."""
    bad: list[Bad] = field(default_factory=list)
    """Records that failed before."""

    def __len__(self) -> int:
        return len(self.records)
