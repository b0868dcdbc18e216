"""Repair: rows that were written with a time far ahead get a time of now, by one entry of the log.

    before   updates at 10, 20, 9_000_000      upper 9_000_001      the clock says 30
    after    updates at 10, 20, 30             upper 31

Every update after `to` moves to `to`: none is lost, and no file is read or written. Only the state changes, whose `first` and
`last` of a part override the times in its file (`updates.py`, `part_file.py`): a part that ends at `to` by the state has no later
update, whatever its file says.

| who | sees |
|---|---|
| reads everything committed, or AS OF `to` and later | the same rows as before the repair, and all of them |
| reads AS OF before `to` | the same as before |
| has a snapshot open | no change: its files do not change, and its lease holds |
| follows changes from a time after `to` | a `TimeError`: these times were moved back; read a snapshot and continue from there |
| is about to UPDATE, DELETE, overwrite | reads everything again |
| compacts a part that moved | a conflict, as its parts have new numbers; nothing changes, and it is tried again |

Times between `to` and the old `upper`, which no clock has reached, can no longer be read.

`written` of a part is when a machine wrote it, by its own clock. If a part was written far ahead of our clock, one of the clocks is
wrong, and we cannot know which: then the time must be given.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.compute as pc

from tidegate.errors import TimeError
from tidegate.storage.shard.changes import Repair
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.state import State
from tidegate.storage.shard.time_check import check_time


@dataclass(frozen=True)
class Repaired:
    """The result of a repair: `db.repair("orders").parts`."""

    parts: int
    """Parts with a time that was too late."""
    upper_before: int
    upper: int


def repair_shard(shard: Shard, to: int | None = None) -> Repaired:
    """Moves updates that are far ahead of the clock, or after `to`, to now, or to `to` if it is given."""
    before = Repaired(0, 0, 0)

    def propose(state: State) -> Repair | None:
        nonlocal before
        now, bound = shard.clock.now(), shard.config.max_ahead_ms
        target = now if to is None else to
        before = Repaired(0, state.upper, state.upper)
        if target < 0:
            raise TimeError(f"rows cannot be given the time {target}")
        check_time(target, now, shard.config, "repair")
        if (to is None and state.upper <= now + bound) or state.upper <= target + 1:
            return None
        if to is None:
            _check_clocks(state, now, bound)
        moved = sum(
            int(pc.sum(pc.greater(t.column("last"), target)).as_py() or 0)
            for t in state.parts.tables(["last"])
        )
        before = Repaired(moved, state.upper, target + 1)
        return Repair(target)

    shard.machine.update(propose)
    return before


def _check_clocks(state: State, now: int, bound: int) -> None:
    written = max(
        (int(pc.max(t.column("written")).as_py() or 0) for t in state.parts.tables(["written"])), default=0
    )
    if written > now + bound:
        raise TimeError(
            f"a part was written at {written} by its writer's clock, and this machine's says {now}: one of them is wrong",
            hint="correct this clock, or pass `to`, the time that the rows should have, in ms",
        )
