"""An upstream made by hand, of which a test decides everything: JSON records in numbered partitions; and a source of it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.clock import ManualClock
from tidegate.config import Config
from tidegate.expr.model.build import call, cast, literal
from tidegate.expr.model.tree import Column
from tidegate.expr.model.types import BYTEA, INT8, JSONB, TEXT, Type
from tidegate.ingest.batch.planning import BatchPlanner
from tidegate.ingest.definition import ERRORS_COLUMNS, UPSERT_KEY, SourceDefinition, SourceOutput
from tidegate.ingest.formats.json.format import JsonFormat
from tidegate.ingest.protocol import (
    BatchLimit,
    Columns,
    IncludedColumn,
    InputSplit,
    Lag,
    ReadRequest,
    RecordChunk,
    RecordFormat,
    Upstream,
    UpstreamPosition,
)
from tidegate.plan.mfp import MapFilterProject
from tidegate.storage.catalog.root import open_root
from tidegate.storage.location import Location, parse_location
from tidegate.storage.part.schema import Schema
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.snapshot import open_snapshot


@dataclass
class Numbers(Upstream):
    """Partitions of records; a split is at most `step` of one. What was asked of it is noted."""

    partitions: dict[str, list[bytes]]
    step: int = 10
    first: int = 0
    asked: list[tuple[str, Any]] = field(default_factory=list)
    retracting: bool = False
    """Whether a record may have `"diff": -1`."""

    @property
    def retracts(self) -> bool:
        return self.retracting

    def tables(self) -> dict[str, RecordFormat]:
        return {}

    def includes(self, included: IncludedColumn) -> Type:
        return INT8

    def start(self) -> UpstreamPosition:
        self.asked.append(("start", None))
        return dict.fromkeys(self.partitions, self.first)

    def latest(self, after: UpstreamPosition, limit: BatchLimit) -> UpstreamPosition:
        most = limit.rows or 10**9
        found = {}
        for key, records in self.partitions.items():
            found[key] = min(len(records), after.get(key, 0) + most)
            most -= found[key] - after.get(key, 0)
        return found

    def splits(self, after: UpstreamPosition, upto: UpstreamPosition) -> list[InputSplit]:
        return [
            InputSplit(key, begin, min(begin + self.step, end))
            for key, end in upto.items()
            for begin in range(after.get(key, 0), end, self.step)
        ]

    def read(
        self, split: InputSplit, wanted: Sequence[ReadRequest], included: Sequence[IncludedColumn]
    ) -> Iterator[tuple[int, RecordChunk]]:
        self.asked.append(("read", (split.key, split.start, split.end, len(wanted))))
        some = self.partitions[split.key][split.start : split.end]
        offsets = pa.array(np.arange(split.start, split.end))
        read = [json.loads(one) for one in some]
        keys = pa.array([one.get("key", "").encode() for one in read], pa.binary())
        gone = np.array([one.get("gone", False) for one in read], bool)
        diffs = np.array([one.get("diff", 1) for one in read], np.int64)

        def position(record: int) -> UpstreamPosition:
            return {"partition": split.key, "offset": split.start + record}

        for number, one in enumerate(wanted):
            decoded = one.decode.records(pa.array(some, pa.binary()))
            yield (
                number,
                RecordChunk(
                    decoded,
                    [offsets for _ in included],
                    position,
                    keys=keys,
                    gone=gone if gone.any() else None,
                    diffs=diffs if self.retracting else None,
                ),
            )

    def acknowledge(self, upto: UpstreamPosition) -> None:
        self.asked.append(("acknowledge", dict(upto)))

    def lag(self, at: UpstreamPosition) -> Lag:
        return Lag(records=sum(len(r) - at.get(k, 0) for k, r in self.partitions.items()))

    def drop(self) -> None:
        pass


def records(first: int, last: int, bad: Sequence[int] = (), **more: str) -> list[bytes]:
    """`{"n": 7}`; those in `bad` have a text there."""
    return [json.dumps({"n": f"x{n}" if n in bad else n, **more}).encode() for n in range(first, last)]


@dataclass
class Lab:
    """A database that holds the shards of one source, and nothing else."""

    place: Location
    clock: ManualClock
    source: SourceDefinition
    upstream: Numbers
    config: Config = field(default_factory=Config)

    def shards(self, name: str) -> Shard:
        """As a process does that has just been started."""
        machine = open_root(self.place, self.clock).catalog.shard_machine(name)
        return Shard.open(machine, self.config)

    def planning(self, *, once: bool = False) -> BatchPlanner:
        return BatchPlanner(self.source, self.shards, self.place, self.config, self.clock, once=once)

    def rows(self, shard: str) -> list[tuple[Any, ...]]:
        """All rows of a shard, each as often as it is there, sorted."""
        with open_snapshot(self.shards(shard)) as found:
            pieces = [batch.to_pydict() for batch in found.batches()]
        return sorted(row for piece in pieces for row in zip(*piece.values(), strict=True))

    def numbers(self, output: str) -> list[int]:
        shard = next(one.shard for one in self.source.outputs if one.name == output)
        return [row[0] for row in self.rows(shard)]


_N = cast(call("->>", Column(0, JSONB), literal("n", TEXT)), INT8)


def lab(folder: Path, partitions: dict[str, list[bytes]], **more: Any) -> Lab:
    """A source with two collections: `all` (n, the offset) and `even` (n)."""
    inputs = MapFilterProject.identity([JSONB, INT8])
    every = inputs.map(_N).project([2, 1])
    even = inputs.map(_N).filter(call("=", call("%", _N, literal(2, INT8)), literal(0, INT8))).project([2])
    shapes: dict[str, tuple[MapFilterProject, Columns]] = {
        "all": (every, (("n", INT8), ("at", INT8))),
        "even": (even, (("n", INT8),)),
    }
    return _made(folder, partitions, shapes, (IncludedColumn("offset", "offset"),), {}, more)


def upserting(folder: Path, partitions: dict[str, list[bytes]]) -> Lab:
    """A source with ENVELOPE UPSERT: n by key."""
    plan = MapFilterProject.identity([JSONB]).map(_N).project([1])
    columns: Columns = (("n", INT8), ("key", BYTEA))
    return _made(folder, partitions, {"last": (plan, columns)}, (), {UPSERT_KEY: 1}, {"envelope": "upsert"})


def retracting(folder: Path, partitions: dict[str, list[bytes]]) -> Lab:
    """A source whose records are rows or retract some, as those of PostgreSQL: n."""
    plan = MapFilterProject.identity([JSONB]).map(_N).project([1])
    made = _made(folder, partitions, {"rows": (plan, (("n", INT8),))}, (), {}, {})
    made.upstream.retracting = True
    return made


def _made(
    folder: Path,
    partitions: dict[str, list[bytes]],
    shapes: dict[str, tuple[MapFilterProject, Columns]],
    included: tuple[IncludedColumn, ...],
    options: dict[str, Any],
    more: dict[str, Any],
) -> Lab:
    place, clock = parse_location(folder / "lake"), ManualClock(1_000_000)
    catalog = open_root(place, clock).catalog

    def created(columns: Columns, given: dict[str, Any]) -> str:
        name = secrets.token_hex(8)
        Shard.create(catalog.shard_machine(name), Schema.of(list(columns)), given)
        return name

    hidden = len(options)
    outputs = tuple(
        SourceOutput(name, created(columns, options), JsonFormat(), plan, hidden=hidden)
        for name, (plan, columns) in shapes.items()
    )
    upstream = Numbers(partitions)
    source = SourceDefinition("s", "kafka", upstream, outputs, created(ERRORS_COLUMNS, {}), included, **more)
    return Lab(place, clock, source, upstream)
