"""Repair: rows that were written with a time far ahead get a time of now, by one entry of the log.

    before   updates at 10, 20, 9_000_000      upper 9_000_001      the clock says 30
    after    updates at 10, 20, 30             upper 31

Every update behind `to` moves to `to`: none is lost, and none is read or written. Only the state changes, in which a part's `first`
and `last` have the last word on its times (`stream.py`, `file.py`): a part that says it ends at `to` has no later update, whatever
its file says.

| who | |
|---|---|
| reads all that is committed, or AS OF `to` and later | the same rows as before the repair, and all of them |
| reads AS OF before `to` | what was there then, as before |
| has a snapshot open | goes on: what it reads does not change, and its lease holds |
| follows changes from a time behind `to` | a `TimeError`: these times were taken back, read a snapshot and go on from there |
| is about to UPDATE, DELETE, overwrite | reads all again |
| compacts a part that moved | a conflict, as its parts have new numbers; nothing is changed, and it is tried again |

What was read at times between `to` and the old `upper`, which no clock has reached, can no longer be asked for.

A part's `written` is when some machine wrote it, by its own clock. If any was written far ahead of ours, either clock is wrong, and
we cannot tell which: then the time must be given.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.compute as pc

from tidegate.errors import TimeError
from tidegate.shard.change import Repair
from tidegate.shard.state import State
from tidegate.shard.times import check_time
from tidegate.shard.writer import Shard


@dataclass(frozen=True)
class Repaired:
    """What a repair did."""

    parts: int
    """Parts with a time that was too late."""
    upper_before: int
    upper: int


def repair(shard: Shard, to: int | None = None) -> Repaired:
    """Gives updates that are far ahead of the clock, or behind `to`, that time: now, if it is not given."""
    before = Repaired(0, 0, 0)

    def think(state: State) -> Repair | None:
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

    shard.machine.change(think)
    return before


def _check_clocks(state: State, now: int, bound: int) -> None:
    written = max(
        (int(pc.max(t.column("written")).as_py() or 0) for t in state.parts.tables(["written"])), default=0
    )
    if written > now + bound:
        raise TimeError(
            f"a part was written at {written} by its writer's clock, and this machine's says {now}: one of them is wrong",
            hint="set this clock right, or say by `to` which time the rows are to have, in ms",
        )
