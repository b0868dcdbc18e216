"""Pieces of maintenance that can be done anywhere: each a value that travels, and the work that it stands for.

| task | reads | gives |
|---|---|---|
| `Merge(parts)` | whole parts | new parts with their updates, sorted, described |
| `Sketch(parts, key, stride)` | the columns of a key | an outline of each part (`ranges.py`) |
| `Gather(share, order, level)` | some stretches of some parts | new parts with the share's updates |
| `Learn(parts)` | whole parts | statistics of each |

A task carries what it needs (`Reach`): where the store of parts is, and the state without its parts. So whoever does it asks the
store of parts alone, and needs no way to the metadata. What it writes counts for nothing until the one who handed it out replaces
parts by it; a task that is killed, or done twice, leaves orphans, which `sweep` deletes. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

from tidegate.clock import Clock, SystemClock
from tidegate.config import Config
from tidegate.shard import compact, ranges
from tidegate.shard.change import Part
from tidegate.shard.machine import Machine
from tidegate.shard.merge import Block
from tidegate.shard.part import decode_part, text_bounds
from tidegate.shard.parts import Parts
from tidegate.shard.ranges import Outline, Share
from tidegate.shard.schema import Schema
from tidegate.shard.seal import verify
from tidegate.shard.state import State
from tidegate.shard.statistics import describing
from tidegate.shard.writer import Shard, order_of, schema_of
from tidegate.store.blob import missing
from tidegate.store.consensus import MemoryConsensus
from tidegate.store.place import Place


@dataclass(frozen=True)
class Reach:
    """What must be known to read and write parts of a shard in another process."""

    place: Place
    state: State
    """Without its parts."""
    config: Config
    clock: Clock

    @staticmethod
    def of(shard: Shard, place: Place, state: State) -> Reach:
        """For this state of a shard."""
        slim = replace(
            state, parts=Parts(), leases={}, positions={}, tokens={}, garbage=(), rollup=None, segments=()
        )
        clock = SystemClock() if isinstance(shard.clock, SystemClock) else shard.clock
        return Reach(place, slim, shard.config, clock)

    def shard(self) -> Shard:
        """A shard that can read and store parts, and nothing else."""
        key = f"shard/{self.state.shard}"
        machine = Machine(MemoryConsensus(), self.place.blob(), key, self.clock, state=self.state)
        return Shard(machine, self.config, describing(machine, self.config))

    @property
    def schema(self) -> Schema:
        """The newest version."""
        return schema_of(self.state)

    @property
    def order(self) -> tuple[int, ...]:
        """What parts are to be sorted by."""
        return order_of(self.state, self.schema, retracts=False)


@dataclass(frozen=True)
class Merge:
    """New parts of whole parts."""

    reach: Reach
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Sketch:
    """Outlines of parts."""

    reach: Reach
    parts: tuple[Part, ...]
    stride: int


@dataclass(frozen=True)
class Gather:
    """New parts of a share."""

    reach: Reach
    share: Share
    level: int


@dataclass(frozen=True)
class Learn:
    """Statistics of parts."""

    reach: Reach
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Written:
    """What Merge and Gather give."""

    parts: tuple[Part, ...]
    ended: int
    """The sum of diffs of the rows that were left out, as they have ended."""


Task: TypeAlias = Merge | Sketch | Gather | Learn
Made: TypeAlias = Written | list[Outline] | list[bytes]


def do(task: Task) -> Made:
    """Does a task. What it gives is in the order of what it was given."""
    shard, state, schema = task.reach.shard(), task.reach.state, task.reach.schema
    order, aging = task.reach.order, compact.Aging(state, schema)
    match task:
        case Merge(_, parts):
            blocks = compact.outputs(shard, aging, parts, order)
            return _stored(shard, task.reach, blocks, compact.level_of(parts), aging)
        case Sketch(_, parts, stride):
            key = ranges.key_of(order)
            return [ranges.outline(shard.machine, part, schema, key, stride) for part in parts]
        case Gather(_, share, level):
            return _stored(shard, task.reach, ranges.outputs(shard, aging, share, order), level, aging)
        case Learn(_, parts):
            return [_learnt(shard, state, schema, part) for part in parts]
        case _:
            assert_never(task)


def _stored(shard: Shard, reach: Reach, blocks: Iterator[Block], level: int, aging: compact.Aging) -> Written:
    with shard.writing() as written:
        for block in blocks:
            written.append(shard.store(reach.state, reach.schema, block, reach.order, level))
    return Written(tuple(written), aging.ended)


def _learnt(shard: Shard, state: State, schema: Schema, part: Part) -> bytes:
    """The statistics of a part as they would have been collected when it was written."""
    data = shard.machine.attempt(lambda: shard.machine.blob.get(part.name))
    if data is None:
        raise missing(part.name)
    version = next(Schema.from_json(s) for s in state.schemas if s["id"] == part.schema)
    there = {column.id for column in version.columns}
    # Columns that the part lacks are known to be NULL without statistics, and those that were dropped are not asked for.
    known = replace(schema, columns=tuple(column for column in schema.columns if column.id in there))
    if not known.columns:
        return b""
    wanted = [column.id for column in known.columns]
    columns, _ = decode_part(part.name, verify(part.name, data, part.digest), known, wanted)
    return shard.describe(known, columns).encoded(lambda: text_bounds(data))


def lean(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Parts without their statistics, which a task has no use for."""
    return tuple(replace(part, stats=b"") for part in parts)
