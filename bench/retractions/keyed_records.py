"""An upstream in memory: JSON records with keys, read by the same tasks and commits as a Kafka topic.

upstream_of(ids=np.arange(100), splits=4)      a record for each id, in four partitions
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.ingest.protocol import (
    BatchLimit,
    IncludedColumn,
    InputSplit,
    Lag,
    ReadRequest,
    RecordChunk,
    Upstream,
    UpstreamPosition,
)


@dataclass
class KeyedRecords(Upstream):
    """Records with keys, in partitions; each partition is one split."""

    partitions: dict[str, tuple[pa.Array, pa.Array]] = field(default_factory=dict)
    """Keys and values."""

    def tables(self) -> dict[str, Any]:
        """None: it has one kind of record."""
        return {}

    def includes(self, included: IncludedColumn) -> Any:
        """Nothing is included."""
        raise NotImplementedError(included.what)

    def start(self) -> UpstreamPosition:
        """The first record of each partition."""
        return dict.fromkeys(self.partitions, 0)

    def latest(self, after: UpstreamPosition, limit: BatchLimit) -> UpstreamPosition:  # noqa: ARG002  # one batch
        """All records."""
        return {name: len(keys) for name, (keys, _) in self.partitions.items()}

    def splits(self, after: UpstreamPosition, upto: UpstreamPosition) -> list[InputSplit]:
        """One for each partition."""
        return [InputSplit(name, after[name], upto[name]) for name in upto]

    def read(
        self, split: InputSplit, wanted: Sequence[ReadRequest], included: Sequence[IncludedColumn]
    ) -> Iterator[tuple[int, RecordChunk]]:
        """Chunks of 10,000 records."""
        assert not included
        keys, values = self.partitions[split.key]
        for begin in range(split.start, split.end, 10_000):
            count = min(10_000, split.end - begin)
            some = values.slice(begin, count)
            for number, one in enumerate(wanted):
                yield (
                    number,
                    RecordChunk(
                        one.decode.records(some),
                        [],
                        lambda i, begin=begin: {"offset": begin + i},
                        keys=keys.slice(begin, count),
                    ),
                )

    def acknowledge(self, upto: UpstreamPosition) -> None:
        """Nothing is discarded."""

    def lag(self, at: UpstreamPosition) -> Lag:  # noqa: ARG002  # is not asked
        """Not known."""
        return Lag()

    def drop(self) -> None:
        """Nothing to drop."""


def keys_of(ids: np.ndarray) -> pa.Array:
    """Keys in the order of the ids."""
    digits = pc.utf8_lpad(pa.array(ids).cast(pa.string()), 12, "0")
    return digits.cast(pa.binary())


def upstream_of(ids: np.ndarray, splits: int) -> KeyedRecords:
    """A record for each id, with another amount than before, partitioned by id."""
    found = {}
    for number in range(splits):
        mine = ids[number::splits]
        texts = [
            f'{{"id": {i}, "amount": {i % 1000 + 1}, "name": "name {i % 977}"}}'.encode()
            for i in mine.tolist()
        ]
        found[str(number)] = keys_of(mine), pa.array(texts, pa.binary())
    return KeyedRecords(found)
