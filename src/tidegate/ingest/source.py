"""The words of ingestion: an upstream has records, a format turns them into columns, a plan is left.

    upstream    where records are: files, topics, a replication slot.  Positions, splits, reading
    format      what a record is: BYTES, TEXT, JSON, CSV, AVRO, PARQUET.  `columns` is the source's schema
    decode      a format that has taken what it can of one plan; it travels to the tasks that read

A source offers its plan (`Q_safemfp`, a MapFilterProject over the format's columns and behind them those that
INCLUDE adds) to its format:

    decode, left = format.take(plan)
    decoded = decode.records(values)                     in a task: one binary value a record
    rows = chunk.rows()                                  decoded columns, and behind them the included ones
    SafePlan(left).evaluate(rows, len(decoded.selection))

and `left` over what was decoded is `plan` over everything, errors included: the same records give rows, the
same records fail, with the same message. A record fails in one of two ways, and both look alike: it is not of
the format (then nothing of the plan is asked), or the plan fails on it.

    SELECT data->>'id' FROM s WHERE data->>'kind' = 'pay' AND "offset" > 5       over FORMAT JSON, INCLUDE OFFSET

    take:  of each record the text at `kind`; of those where it is 'pay', the text at `id`
    left:  Filter #1 > 5, Project (#0)                   #0 is what was decoded, #1 the offset

What `take` leaves reads `decode.columns` first and then **all** the included columns, as the plan did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.expr.types import Type
from tidegate.plan.mfp import MapFilterProject

Position: TypeAlias = dict[str, Any]
"""How far a source has read, as JSON: `{"0": 1200}` by Kafka partition, `{"<file>": size}`, `{"lsn": …}`."""
Columns: TypeAlias = tuple[tuple[str, Type], ...]
"""Names and types."""
Bad: TypeAlias = tuple[int, str]
"""A record that failed, by its number in the batch, and why."""


@dataclass(frozen=True)
class Decoded:
    """What a batch of records gave. Records are counted from 0; each gives one row, none, or a failure."""

    columns: list[pa.Array]
    """As the plan that is left wants its first inputs: `Decode.columns`."""
    selection: np.ndarray
    """Of each row (rising) the record that it came from."""
    failures: list[Bad]
    """Rising by record; none of these is in `selection`."""
    count: int
    """Records in the batch, whatever became of them."""
    raw: Callable[[int], bytes]
    """The bytes of a record, for `<source>_errors`. Only good until the next batch is read, and in this process."""
    start: int = 0
    """The number of the first record in its file, from 0; for line formats the line."""
    numbers: np.ndarray | None = None
    """Of each record its line in the file, from 0, where that is not `start`, `start + 1`, …"""
    size: int = 0
    """Bytes that the records had before decoding, for progress."""

    def lines(self, records: np.ndarray) -> np.ndarray:
        """Where these records stand in their file, from 0."""
        return self.start + records if self.numbers is None else self.numbers[records]


class Decode(Protocol):
    """A format that has taken its part of a plan. Frozen, can be pickled, holds no open resource."""

    @property
    def columns(self) -> Columns:
        """What `Decoded.columns` are; the first inputs of the plan that is left."""
        ...

    def records(self, values: pa.Array) -> Decoded:
        """Binary values, each one record. A null (a tombstone) is a record whose columns are all NULL."""
        ...

    def file(self, opened: BinaryIO, name: str) -> Iterator[Decoded]:
        """All records of a file, by batches of some MB. A name that ends with .gz or .zst is unpacked.

        Raises a `CorruptError` that names the file where it ends too early or is not of the format at all.
        """
        ...


class Format(Protocol):
    """What the records of a source are. Frozen, can be pickled."""

    @property
    def columns(self) -> Columns:
        """The source's schema before any transform, without what INCLUDE adds."""
        ...

    @property
    def splittable(self) -> bool:
        """Whether any stretch of lines of a file (not packed) can be decoded without the rest of the file."""
        ...

    def take(self, plan: MapFilterProject) -> tuple[Decode, MapFilterProject]:
        """What decoding does of a plan over `columns` (and included columns behind them), and what is left."""
        ...


# ---------------------------------------------------------------- upstreams


@dataclass(frozen=True)
class Limit:
    """How much one batch may bring in; None: as much as there is."""

    rows: int | None = None
    bytes: int | None = None
    files: int | None = None


@dataclass(frozen=True)
class Lag:
    """How far behind a position is: what is known of it, else None."""

    records: int | None = None
    bytes: int | None = None
    milliseconds: int | None = None
    notes: tuple[str, ...] = ()
    """What whoever runs the source should know: a file that was written again after it had been read."""


@dataclass(frozen=True)
class Split:
    """A stretch of an upstream that one task reads: `(start, end]` of what `key` names. Made of JSON alone."""

    key: str
    """A partition, a file, …; a key of the positions."""
    start: Any
    end: Any
    details: dict[str, Any] = field(default_factory=dict, compare=False)
    """What else the upstream needs to read it."""


@dataclass(frozen=True)
class Wanted:
    """What one collection wants of the records of a split."""

    table: str | None
    """Which of the upstream's tables; None if all of its records are of one kind."""
    decode: Decode


@dataclass(frozen=True)
class Chunk:
    """Records of a split that were read and decoded together, in the order of the upstream."""

    decoded: Decoded
    included: Sequence[pa.Array]
    """The columns that INCLUDE adds, in its order, one value for each *record*."""
    position: Callable[[int], Position]
    """Where a record stands, as JSON, for `<source>_errors`: `{"partition": 0, "offset": 17}`, `{"file": …, "line": 3}`."""
    diffs: np.ndarray | None = None
    """+1 or -1 for each record; None: all +1."""
    keys: pa.Array | None = None
    """The raw bytes of each record's key (ENVELOPE UPSERT), NULL where it has none."""
    gone: np.ndarray | None = None
    """Which records are tombstones: a key without a value. None: there are none."""

    def rows(self) -> list[pa.Array]:
        """The inputs of the plan that `Format.take` left, one value for each row."""
        if len(self.decoded.selection) == self.decoded.count:
            return [*self.decoded.columns, *self.included]
        rows = pa.array(self.decoded.selection)
        return [*self.decoded.columns, *(column.take(rows) for column in self.included)]


@dataclass(frozen=True)
class Included:
    """One column of INCLUDE: what (`key`, `offset`, `header`, …), what it is called, and of HEADER which."""

    what: str
    name: str
    argument: str | None = None


class Upstream(Protocol):
    """Where records come from. Frozen, can be pickled, opens what it needs when it is asked.

    Positions only grow; what lies behind one may be gone from upstream. Whatever cannot be reached raises a `SourceError`
    that says whether trying again may help; records that are gone for good, one that says which.
    """

    def tables(self) -> dict[str, Format]:
        """Upstreams that know their columns (POSTGRES, GENERATOR): the tables they have. Else empty, and FORMAT is needed."""
        ...

    def includes(self, included: Included) -> Type:
        """The type of a column that INCLUDE asks for; a BindError if this upstream has no such thing."""
        ...

    def start(self) -> Position:
        """Where a source begins that has ingested nothing."""
        ...

    def latest(self, after: Position, limit: Limit) -> Position:
        """How far the next batch goes; equal to `after`: there is nothing new."""
        ...

    def splits(self, after: Position, upto: Position) -> list[Split]:
        """Stretches that tile what is behind `after`, up to and with `upto`: of each key whose position changes."""
        ...

    def read(
        self, split: Split, wanted: Sequence[Wanted], included: Sequence[Included]
    ) -> Iterator[tuple[int, Chunk]]:
        """The records of a split, in a task, for each of `wanted` by its number. INGESTION TIMESTAMP is not asked for here."""
        ...

    def acknowledge(self, upto: Position) -> None:
        """All up to here is committed on our side: upstream may forget it."""
        ...

    def lag(self, at: Position) -> Lag:
        """How far `at` is behind."""
        ...

    def drop(self) -> None:
        """The source was dropped: gives back what it holds upstream, such as a replication slot."""
        ...
