"""A process that appends, deletes, updates, maintains, compacts, sweeps and rolls up for ever, and says what was acknowledged.

It is made to be killed.

    python -m tests.simulation.worker FOLDER SEED

prints `try N` before and `ack N` after the append of row N, `-N` for its retraction or deletion, `-N M` for an update of N to M,
and the names of other things it begins. By its seed, bitmaps of deleted rows are in the log or in objects, and retractions become
deletions when they are appended or when they are settled.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

from tests.unit.storage.deleting import run_change
from tidegate.clock import Clock
from tidegate.config import Config
from tidegate.expr.model.types import INT8, TEXT
from tidegate.storage.blob.files import FileBlob
from tidegate.storage.consensus.sql import SqliteConsensus
from tidegate.storage.maintain.after_commit import maintain_in_steps
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.sweep import sweep_shard
from tidegate.storage.part.schema import Schema
from tidegate.storage.shard import shard as writer
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.snapshot import open_snapshot
from tidegate.storage.shard.state import Conflict

SCHEMA = Schema.of([("n", INT8, False), ("note", TEXT, True)])
STEP = 1_000_000_000
"""By how much an update moves a number."""
CONFIG = Config(
    part_bytes=20_000, compact_fanout=3, lease_ms=3_000, sweep_grace_ms=2_000, maintenance_parts=3
)


def open_shard(folder: Path, clock: Clock | None = None, config: Config = CONFIG) -> Shard:
    """The shard in a folder, made if it is not there."""
    machine = Machine(SqliteConsensus(folder / "log.sqlite"), FileBlob(folder / "blobs"), "shard/s1", clock)
    if not machine.exists():
        try:
            return Shard.create(machine, SCHEMA, {"retention_ms": 100}, config=config)
        except Conflict:
            pass
    return Shard(machine, config)


def say(*words: object) -> None:
    print(*words, flush=True)


def run(folder: Path, seed: int) -> None:
    """Works until it is killed."""
    dice = random.Random(seed)
    writer.MAX_INLINE_BYTES = dice.choice([10, writer.MAX_INLINE_BYTES])
    knobs = {"retraction_lookup_bytes": dice.choice([0, 1 << 20]), "inline_bytes": dice.choice([0, 16_384])}
    shard = open_shard(folder, config=replace(CONFIG, **knobs))
    with open_snapshot(shard) as found:
        next_ = (
            max((n % STEP for batch in found.batches(["n"]) for n in batch.column(0).to_pylist()), default=0)
            + 1000
        )
    mine: list[int] = []
    say("ready")
    while True:
        jobs = ["append", "retract", "delete", "update", "compact", "sweep", "roll"]
        match dice.choices(jobs, [6, 1, 2, 2, 1, 1, 1])[0]:
            case "append":
                many = dice.choice([1, 1, 3, 50])
                numbers = list(range(next_, next_ + many))
                next_ += many
                put(shard, numbers, 1)
                mine += numbers
            case "retract" if mine:
                put(shard, [mine.pop(dice.randrange(len(mine)))], -1)
            case "delete" if mine:
                modify(shard, take(mine, dice), 0)
            case "update" if mine:
                mine += modify(shard, take(mine, dice), STEP)
            case "compact":
                say("compact")
                compact_shard(shard, full=dice.random() < 0.5)
            case "sweep":
                say("sweep")
                sweep_shard(shard)
            case "roll":
                say("roll")
                shard.machine.roll(shard.machine.fetch())
            case _:
                continue


def take(mine: list[int], dice: random.Random) -> list[int]:
    """Some of the rows: they may be in one part, or in many."""
    chosen = dice.sample(mine, min(len(mine), dice.choice([1, 2, 20])))
    mine[:] = [n for n in mine if n not in chosen]
    return chosen


def modify(shard: Shard, numbers: list[int], by: int) -> list[int]:
    """Deletes rows, or with `by` gives them other numbers, which are returned."""
    after = [n + by for n in numbers] if by else []
    signed = [-n for n in numbers] + after
    where = f"WHERE n IN ({', '.join(map(str, numbers))})"
    say("try", *signed)
    if by:
        run_change(shard, f"UPDATE t SET n = n + {by}, note = 'row ' || (n + {by})::text {where}")
    else:
        run_change(shard, f"DELETE FROM t {where}")
    maintain_in_steps(shard)
    say("ack", *signed)
    return after


def put(shard: Shard, numbers: list[int], diff: int) -> None:
    signed = [diff * n for n in numbers]
    say("try", *signed)
    shard.append({"n": numbers, "note": [f"row {n}" for n in numbers]}, diff=diff)
    maintain_in_steps(shard)
    say("ack", *signed)


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
