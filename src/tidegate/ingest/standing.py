"""Where a source stands: how far each of its shards has come, and what the next batch brings to which of them.

Each shard keeps in its state, by the same entry of its log that adds rows, how far the source had come with them:

    positions    source/0   1200                     what upstream calls a position, key by key (`definition.POSITION`)
                 source/1   900
                 ingest     {"batch": 7, "at": ms, "counts": [records, bytes, kept, filtered, expired, bad]}

A source with two collections has three shards: that of its errors, and theirs. One batch moves all of them, the errors first, by
one entry each. Whoever is killed between two entries leaves some behind, and the next who ingests sees it by the numbers:

| errors | a | b | the next stretch |
|---|---|---|---|
| 7 | 7 | 7 | all of them, from where they are to what upstream has |
| 8 | 8 | 7 | `b` alone, from where it is to where the others are |
| 8 | 8 | 8 | all of them again |

There is no other truth: no checkpoint, no offset of a consumer group. A database that was restored from a backup goes on from where
the backup stood, since rows and positions are restored together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tidegate.config import Config
from tidegate.errors import ConflictError
from tidegate.ingest.definition import POSITION, Source
from tidegate.ingest.made import Counts
from tidegate.ingest.source import Limit, Position
from tidegate.shard.commit import Done
from tidegate.shard.state import State
from tidegate.shard.writer import Shard

MARK = "ingest"
"""The key of what a shard knows of its source beside the position."""

Shards: TypeAlias = Callable[[str], Shard]
"""Opens a shard by its own name."""


@dataclass(frozen=True)
class Standing:
    """How far one shard has come."""

    batch: int
    """How many batches it has had; -1: not even a position to begin at."""
    at: Position
    counts: Counts = field(default_factory=Counts)
    """What became of all records since the source was made. Of the errors' shard: those of the source that failed."""
    when: int | None = None
    """When the last batch was committed, in ms."""

    @staticmethod
    def of(state: State) -> Standing:
        """What a state says. A source of many files has many keys, and is asked often: the last answer is kept."""
        known = _known.get(state.shard)
        if known is not None and known[0] is state.positions:
            return known[1]
        at = {k[len(POSITION) :]: v for k, v in state.positions.items() if k.startswith(POSITION)}
        mark = state.positions.get(MARK)
        found = (
            Standing(-1, at)
            if mark is None
            else Standing(mark["batch"], at, Counts(*mark["counts"]), mark["at"])
        )
        _known[state.shard] = state.positions, found
        return found


_known: dict[str, tuple[dict[str, Any], Standing]] = {}


@dataclass(frozen=True)
class Stretch:
    """What one batch brings: everything behind `after`, up to and with `upto`, to some shards of a source."""

    batch: int
    """The number of the last batch that these shards have had."""
    becomes: int
    after: Position
    upto: Position
    shards: tuple[str, ...]
    """The errors' first, if it is among them."""
    now: int
    """The time of the batch: it is committed then or later."""

    @property
    def moved(self) -> dict[str, Any]:
        """The keys of the position that change, and what they become; None: that key is gone."""
        changed = {key: value for key, value in self.upto.items() if self.after.get(key) != value}
        return {**dict.fromkeys(key for key in self.after if key not in self.upto), **changed}

    def slim(self) -> Stretch:
        """The same with only those keys of its positions that change."""
        keys = self.moved
        return replace(
            self,
            after={key: self.after[key] for key in keys if key in self.after},
            upto={key: self.upto[key] for key in keys if key in self.upto},
        )

    def check(self, state: State) -> None:
        """Raises unless a shard stands where this begins: `Done` if it stands where this ends."""
        there = Standing.of(state)
        moved = self.moved
        if there.batch == self.becomes and all(there.at.get(key) == value for key, value in moved.items()):
            raise Done("the batch was committed before")
        if there.batch != self.batch or any(there.at.get(key) != self.after.get(key) for key in moved):
            raise ConflictError(
                f"batch {self.becomes} does not follow: the collection has had {there.batch} batches",
                hint="another process ingests the same source, and was faster; nothing was added twice",
            )

    def positions(self, state: State, counts: Counts) -> dict[str, Any]:
        """What a shard keeps with the rows of this batch."""
        total = Standing.of(state).counts.plus(counts)
        mark = {"batch": self.becomes, "at": self.now, "counts": list(total)}
        return {MARK: mark, **{POSITION + key: value for key, value in self.moved.items()}}


def names(source: Source) -> list[str]:
    """The shards of a source, in the order in which a batch is committed to them."""
    return [source.errors, *(output.shard for output in source.outputs)]


def standings(source: Source, shards: Shards) -> dict[str, Standing]:
    """How far each shard has come."""
    return {name: Standing.of(shards(name).machine.fetch()) for name in names(source)}


def begin(source: Source, shards: Shards) -> None:
    """Sees to it that every shard has a position: what upstream calls the start is asked once, and kept by all."""
    found = standings(source, shards)
    if all(one.batch >= 0 for one in found.values()):
        return
    # Whoever was killed here has given a start to some of them: the others begin there too.
    start = next((one.at for one in found.values() if one.batch == 0), None)
    if start is None:
        start = _plain(source.upstream.start())
    for name, one in found.items():
        if one.batch < 0:
            _place(shards(name), start)


def _place(shard: Shard, start: Position) -> None:
    """Gives a shard its first position, unless it has one."""

    def check(state: State) -> None:
        if Standing.of(state).batch >= 0:
            raise Done("it has one")

    def positions(_: State) -> Mapping[str, Any]:
        mark = {"batch": 0, "at": shard.clock.now(), "counts": list(Counts())}
        return {MARK: mark, **{POSITION + key: value for key, value in start.items()}}

    try:
        shard.commit([], at=None, token=f"{MARK}:begin", positions=positions, check=check)
    except Done:
        return


def following(source: Source, shards: Shards, config: Config, now: int) -> Stretch | None:
    """The next stretch; None: upstream has nothing new."""
    found = standings(source, shards)
    numbers = sorted({one.batch for one in found.values()})
    behind = tuple(name for name, one in found.items() if one.batch == numbers[0])
    here = found[behind[0]]
    if len(numbers) > 1:
        further = next(one for one in found.values() if one.batch == numbers[1])
        return Stretch(here.batch, further.batch, here.at, further.at, behind, now)
    upto = _plain(source.upstream.latest(here.at, limit_of(source, config)))
    if upto == here.at:
        return None
    return Stretch(here.batch, here.batch + 1, here.at, upto, behind, now)


def limit_of(source: Source, config: Config) -> Limit:
    """How much a batch brings in: what WITH says, else what the settings say."""
    given = source.limit
    if given != Limit():
        return given
    return Limit(rows=config.ingest_batch_rows, bytes=config.ingest_batch_bytes)


def least(source: Source, shards: Shards) -> Position:
    """What all shards have: upstream may forget everything up to there."""
    return min(standings(source, shards).values(), key=lambda one: one.batch).at


def reached(at: Position, target: Position) -> bool:
    """Whether a position has come to another one, or beyond it."""
    return all(key in at and _not_before(at[key], value) for key, value in target.items())


def _not_before(a: Any, b: Any) -> bool:
    if a == b:
        return True
    return isinstance(a, int | float) and isinstance(b, int | float) and a >= b


def _plain(position: Position) -> Position:
    """A position as it will be read from the state: tuples are lists there."""
    found: Position = json.loads(json.dumps(position))
    return found
