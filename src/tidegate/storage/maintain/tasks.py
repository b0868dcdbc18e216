"""Units of maintenance that can run in any process: each is a value that can be sent.

| task | reads | returns |
|---|---|---|
| `MergeParts(parts)` | whole parts | new parts with their updates, sorted and with statistics |
| `SampleKeys(parts, stride)` | the columns of a key | a `KeySample` of each part (`key_ranges.py`) |
| `WriteKeyRange(range, level)` | some pages of some parts | new parts with the updates of the range |
| `CollectStatistics(parts)` | whole parts | statistics of each |

A task carries what it needs (`TaskContext`): the location of the parts, and the state without its parts. So a worker accesses the
blob store alone, and never the metadata. What it writes has no effect until the caller replaces parts by it; a task that is killed,
or runs twice, leaves orphans, which `sweep` deletes. Tasks decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

from tidegate.clock import Clock, SystemClock
from tidegate.config import Config
from tidegate.storage.consensus.protocol import MemoryConsensus
from tidegate.storage.location import Location
from tidegate.storage.maintain import key_ranges as ranges
from tidegate.storage.maintain.key_ranges import KeyRange, KeySample
from tidegate.storage.maintain.merge_parts import level_of, merged_blocks
from tidegate.storage.maintain.rewrite import Aging, WrittenParts, write_parts
from tidegate.storage.part.deletions import Deletions
from tidegate.storage.part.encode import decode_part, text_bounds
from tidegate.storage.part.merge import Block
from tidegate.storage.part.part import Part
from tidegate.storage.part.schema import Schema
from tidegate.storage.part.updates import whole_file
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.shard import Shard, sort_order
from tidegate.storage.shard.state import State


@dataclass(frozen=True)
class TaskContext:
    """What another process needs to read and write parts of a shard."""

    place: Location
    state: State
    """Without its parts."""
    config: Config
    clock: Clock

    @staticmethod
    def of(shard: Shard, place: Location, state: State) -> TaskContext:
        """The context for this state of a shard."""
        clock = SystemClock() if isinstance(shard.clock, SystemClock) else shard.clock
        return TaskContext(place, state.without_parts(), shard.config, clock)

    def shard(self) -> Shard:
        """A shard that can read and store parts, and nothing else."""
        key = f"shard/{self.state.shard}"
        machine = Machine(MemoryConsensus(), self.place.blob(), key, self.clock, state=self.state)
        return Shard.open(machine, self.config)

    @property
    def schema(self) -> Schema:
        """The newest version of the schema."""
        return self.state.schema

    @property
    def order(self) -> tuple[int, ...]:
        """The columns that parts are sorted by."""
        return sort_order(self.state, self.schema, retracts=False)


@dataclass(frozen=True)
class MergeParts:
    """Merges whole parts."""

    reach: TaskContext
    parts: tuple[Part, ...]
    deletions: Deletions


@dataclass(frozen=True)
class SampleKeys:
    """Samples the keys of parts."""

    reach: TaskContext
    parts: tuple[Part, ...]
    stride: int


@dataclass(frozen=True)
class WriteKeyRange:
    """Writes the updates of a range of keys."""

    reach: TaskContext
    share: KeyRange
    level: int
    deletions: Deletions


@dataclass(frozen=True)
class CollectStatistics:
    """Collects statistics of parts."""

    reach: TaskContext
    parts: tuple[Part, ...]


MaintenanceTask: TypeAlias = MergeParts | SampleKeys | WriteKeyRange | CollectStatistics
MaintenanceResult: TypeAlias = WrittenParts | list[KeySample] | list[bytes]


def run_task(task: MaintenanceTask) -> MaintenanceResult:
    """Runs a task. Results are in the order of its parts."""
    shard, state, schema = task.reach.shard(), task.reach.state, task.reach.schema
    order = task.reach.order
    match task:
        case MergeParts(_, parts, deletions):
            aging = Aging(state, schema, deletions, shard.machine.objects.get)
            blocks = merged_blocks(shard, aging, parts, order)
            return _stored(shard, aging, blocks, order, level_of(parts))
        case SampleKeys(_, parts, stride):
            key = ranges.key_of(order)
            return [ranges.sample_keys(shard.machine.files, part, schema, key, stride) for part in parts]
        case WriteKeyRange(_, share, level, deletions):
            aging = Aging(state, schema, deletions, shard.machine.objects.get)
            return _stored(shard, aging, ranges.key_range_blocks(shard, aging, share, order), order, level)
        case CollectStatistics(_, parts):
            return [_statistics_of(shard, state, schema, part) for part in parts]
        case _:
            assert_never(task)


def _stored(
    shard: Shard, aging: Aging, blocks: Iterator[Block], order: tuple[int, ...], level: int
) -> WrittenParts:
    with shard.writing() as written:
        return write_parts(shard, aging, blocks, order, level, written)


def _statistics_of(shard: Shard, state: State, schema: Schema, part: Part) -> bytes:
    """The statistics of a part, as if they had been collected when it was written."""
    data = whole_file(shard.machine.objects, part)
    version = state.schema_version(part.schema)
    there = {column.id for column in version.columns}
    # Columns that the part lacks are NULL without statistics, and dropped columns are never read.
    common = replace(schema, columns=tuple(column for column in schema.columns if column.id in there))
    if not common.columns:
        return b""
    wanted = [column.id for column in common.columns]
    columns, _ = decode_part(part.name, data, common, wanted)
    return shard.describe(common, columns).encoded(lambda: text_bounds(data))


def without_statistics(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Parts without their statistics, which a task does not need."""
    return tuple(replace(part, stats=b"") for part in parts)
