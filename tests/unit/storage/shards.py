"""Shards in memory for tests: small parts, no waiting, a clock that stands still."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.clock import ManualClock
from tidegate.config import Config
from tidegate.expr.model.types import FLOAT8, INT8, TEXT
from tidegate.storage.blob.protocol import Blob, MemoryBlob
from tidegate.storage.consensus.protocol import Consensus, MemoryConsensus
from tidegate.storage.part.schema import Schema
from tidegate.storage.retry import RetryPolicy
from tidegate.storage.shard.change_feed import open_changes
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.snapshot import open_snapshot

QUICK = RetryPolicy(times=3, first_s=0.0, longest_s=0.0)
CONFIG = Config(
    lease_ms=1000, sweep_grace_ms=2000, as_of_timeout_ms=0, retraction_lookup_bytes=0, inline_bytes=0
)
"""Retractions stay rows until they are settled, so that tests meet both kinds; every commit writes files."""
SCHEMA = Schema.of([("id", INT8, False), ("x", FLOAT8, True), ("note", TEXT, True)])


@dataclass
class World:
    """Stores, and a clock, that several processes share."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(10_000))
    log: Consensus = field(default_factory=MemoryConsensus)
    blob: Blob = field(init=False)

    def __post_init__(self) -> None:
        self.blob = MemoryBlob(self.clock)

    def create(self, schema: Schema = SCHEMA, options: dict[str, Any] | None = None, **knobs: Any) -> Shard:
        return Shard.create(self.machine(), schema, options, config=replace(CONFIG, **knobs))

    def open(self, **knobs: Any) -> Shard:
        """Another process."""
        return Shard(self.machine(), replace(CONFIG, **knobs))

    def machine(self) -> Machine:
        return Machine(self.log, self.blob, "shard/s1", self.clock, QUICK)

    def objects(self, prefix: str = "") -> set[str]:
        return {entry.name for entry in self.blob.list(prefix)}


def rows(*ids: int, x: float | None = 0.5, note: str | None = "n") -> dict[str, list[Any]]:
    return {"id": list(ids), "x": [x] * len(ids), "note": [note] * len(ids)}


def ids(shard: Shard, as_of: int | None = None) -> list[int]:
    """The ids that the shard holds, sorted."""
    with open_snapshot(shard, as_of) as found:
        return sorted(i for batch in found.batches(["id"]) for i in batch.column(0).to_pylist())


def changes(shard: Shard, start: int, stop: int | None = None) -> list[tuple[int, int, int]]:
    """(id, time, diff), sorted."""
    with open_changes(shard, start, stop) as found:
        return sorted(
            (row["id"], row["_time"], row["_diff"])
            for batch in found.batches(["id"])
            for row in batch.to_pylist()
        )
