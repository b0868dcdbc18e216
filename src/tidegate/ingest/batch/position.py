"""Positions of a source: how far each of its shards has read, and which batch is next.

Each shard keeps the position of its source in its state, written by the same log entry that adds the rows:

    positions    source/0   1200                     the upstream's position, key by key (`definition.POSITION_PREFIX`)
                 source/1   900
                 ingest     {"batch": 7, "at": ms, "counts": [records, bytes, kept, filtered, expired, bad]}

A source with two collections has three shards: one for bad records, and one for each collection. A batch moves all of them, the
bad records first, by one entry each. A process that is killed between two entries leaves some shards behind; the next process
detects this by the batch numbers:

| errors | a | b | the next batch |
|---|---|---|---|
| 7 | 7 | 7 | all of them, from their position to the upstream's |
| 8 | 8 | 7 | `b` alone, from its position to that of the others |
| 8 | 8 | 8 | all of them again |

Nothing else records progress: no checkpoint, no consumer group offset. A database that is restored from a backup continues
from the backup's position, since rows and positions are restored together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tidegate.config import Config
from tidegate.errors import ConflictError
from tidegate.ingest.definition import POSITION_PREFIX, SourceDefinition
from tidegate.ingest.envelopes.output import RecordCounts
from tidegate.ingest.protocol import BatchLimit, UpstreamPosition
from tidegate.storage.shard import AlreadyCommitted, Shard, State

MARK = "ingest"
"""The key, among a shard's positions, of the batch number and the counts."""

OpenShard: TypeAlias = Callable[[str], Shard]
"""Opens a shard by its name."""


@dataclass(frozen=True)
class SourcePosition:
    """How far one shard of a source has read."""

    batch: int
    """The number of batches committed so far; -1: the shard has no first position yet."""
    at: UpstreamPosition
    counts: RecordCounts = field(default_factory=RecordCounts)
    """Record counts since the source was created. For the shard of bad records: how many failed."""
    committed_at: int | None = None
    """When the last batch was committed, in ms."""

    @staticmethod
    def of(state: State) -> SourcePosition:
        """Reads the position that a state records; the cost grows with the number of keys, such as files."""
        positions = state.positions
        at = {k[len(POSITION_PREFIX) :]: v for k, v in positions.items() if k.startswith(POSITION_PREFIX)}
        mark = positions.get(MARK)
        if mark is None:
            return SourcePosition(-1, at)
        return SourcePosition(mark["batch"], at, RecordCounts(*mark["counts"]), mark["at"])


@dataclass(frozen=True)
class SourceBatch:
    """One batch for some shards: everything after `after`, up to and including `upto`."""

    batch: int
    """The number of the last batch committed to these shards."""
    becomes: int
    after: UpstreamPosition
    upto: UpstreamPosition
    shards: tuple[str, ...]
    """The shard of bad records comes first, if it is included."""
    now: int
    """The time of the batch: it is committed at this time or later."""

    @property
    def changes(self) -> dict[str, Any]:
        """The position keys that change, with their new values; None: the key is removed."""
        changed = {key: value for key, value in self.upto.items() if self.after.get(key) != value}
        return {**dict.fromkeys(key for key in self.after if key not in self.upto), **changed}

    def slim(self) -> SourceBatch:
        """Returns the same batch, with only those position keys that change."""
        keys = self.changes
        return replace(
            self,
            after={key: self.after[key] for key in keys if key in self.after},
            upto={key: self.upto[key] for key in keys if key in self.upto},
        )

    def check(self, state: State) -> None:
        """Raises unless a shard is where this batch begins; `AlreadyCommitted` if it is where the batch ends."""
        changes = self.changes
        number = state.positions.get(MARK, {}).get("batch", -1)
        at = {key: state.positions.get(POSITION_PREFIX + key) for key in changes}
        if number == self.becomes and at == changes:
            raise AlreadyCommitted("the batch was committed before")
        if number != self.batch or any(at[key] != self.after.get(key) for key in changes):
            raise ConflictError(
                f"batch {self.becomes} does not follow: the collection has had {number} batches",
                hint="another process ingests the same source and was faster; nothing was added twice",
            )

    def positions(self, state: State, counts: RecordCounts) -> dict[str, Any]:
        """The position entries that a shard records with the rows of this batch."""
        mark = state.positions.get(MARK)
        total = counts if mark is None else RecordCounts(*mark["counts"]).plus(counts)
        new_mark = {"batch": self.becomes, "at": self.now, "counts": list(total)}
        return {MARK: new_mark, **{POSITION_PREFIX + key: value for key, value in self.changes.items()}}


Positions: TypeAlias = Mapping[str, SourcePosition]
"""The position of each shard of a source, in the order in which a batch is committed to them."""


def read_positions(source: SourceDefinition, shards: OpenShard) -> Positions:
    """Reads how far each shard of a source has read."""
    names = [source.errors, *(output.shard for output in source.outputs)]
    return {name: SourcePosition.of(shards(name).machine.fetch()) for name in names}


def initialize_positions(source: SourceDefinition, shards: OpenShard) -> Positions:
    """Gives each shard without a position the upstream's start as its first one; returns all positions."""
    positions = read_positions(source, shards)
    if all(position.batch >= 0 for position in positions.values()):
        return positions
    # A process that was killed here has initialized some shards: the others get the same start.
    start = next((position.at for position in positions.values() if position.batch == 0), None)
    if start is None:
        start = _as_stored(source.upstream.start())
    for name, position in positions.items():
        if position.batch < 0:
            _record_start(shards(name), start)
    return read_positions(source, shards)


def _record_start(shard: Shard, start: UpstreamPosition) -> None:
    """Records the first position of a shard, unless it already has one."""

    def check(state: State) -> None:
        if MARK in state.positions:
            raise AlreadyCommitted("the shard already has a position")

    def positions(_: State) -> Mapping[str, Any]:
        mark = {"batch": 0, "at": shard.clock.now(), "counts": list(RecordCounts())}
        return {MARK: mark, **{POSITION_PREFIX + key: value for key, value in start.items()}}

    try:
        shard.commit([], at=None, token=f"{MARK}:begin", positions=positions, check=check)
    except AlreadyCommitted:
        return


def next_batch(
    source: SourceDefinition, positions: Positions, config: Config, now: int
) -> SourceBatch | None:
    """Returns the next batch, or None if the upstream has nothing new."""
    numbers = sorted({position.batch for position in positions.values()})
    behind = tuple(name for name, position in positions.items() if position.batch == numbers[0])
    last = positions[behind[0]]
    if len(numbers) > 1:
        ahead = next(position for position in positions.values() if position.batch == numbers[1])
        return SourceBatch(last.batch, ahead.batch, last.at, ahead.at, behind, now)
    upto = _as_stored(source.upstream.latest(last.at, batch_limit(source, config)))
    if upto == last.at:
        return None
    return SourceBatch(last.batch, last.batch + 1, last.at, upto, behind, now)


def batch_limit(source: SourceDefinition, config: Config) -> BatchLimit:
    """The maximum size of a batch: from WITH, otherwise from the settings."""
    if source.limit != BatchLimit():
        return source.limit
    return BatchLimit(rows=config.ingest_batch_rows, bytes=config.ingest_batch_bytes)


def committed_position(positions: Positions) -> UpstreamPosition:
    """The position that all shards have reached; the upstream may discard everything up to it."""
    return min(positions.values(), key=lambda position: position.batch).at


def have_reached(positions: Positions, target: UpstreamPosition) -> bool:
    """Whether all shards have the same batch number and are at or beyond `target`."""
    numbers = {position.batch for position in positions.values()}
    return len(numbers) == 1 and all(_is_at(position.at, target) for position in positions.values())


def _is_at(at: UpstreamPosition, target: UpstreamPosition) -> bool:
    return all(key in at and _not_before(at[key], value) for key, value in target.items())


def _not_before(a: Any, b: Any) -> bool:
    if a == b:
        return True
    return isinstance(a, int | float) and isinstance(b, int | float) and a >= b


def _as_stored(position: UpstreamPosition) -> UpstreamPosition:
    """Converts a position to the form in which the state stores it: tuples become lists."""
    stored: UpstreamPosition = json.loads(json.dumps(position))
    return stored
