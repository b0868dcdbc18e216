"""A process dies at every moment: after each change that it makes to a store, which is before the next one.

    DELETE    put del/…     | compare_and_set the lease | compare_and_set the entry | …

Afterwards another process reads every time and every change: what was done is there as a whole or not at all, no deleted row comes
back. It then does the same again, and sweeps: no object is left that the state does not know.

`test_kill.py` kills real processes at random moments; here no moment is left out, and stores are in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.storage.deleting import DELETE_LOW, DELETE_ODD, MOVE_LOW, SCHEMA, History, as_table
from tests.unit.storage.shards import CONFIG, QUICK, World
from tidegate.config import Config
from tidegate.storage.maintain.compact import compact_shard, store_inline_parts
from tidegate.storage.maintain.distribute import (
    LocalTaskRunner,
    backfill_shard_statistics,
    compact_distributed,
)
from tidegate.storage.maintain.settle import settle_retractions
from tidegate.storage.maintain.sweep import sweep_shard
from tidegate.storage.shard import shard as writer
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.shard import Shard

CHANGING = frozenset({"put", "create", "delete", "compare_and_set", "truncate"})
RETRACTED = [(6, 60, "r6"), (8, 80, "r8")]
APPENDED = [(30, 300, "r30")]
MOMENTS_IN_LOG = {"store": 3, **dict.fromkeys(("DELETE", "UPDATE", "append", "retract"), -1)}
"""How many moments more an operation has if parts are in the log: those that write a part have one less."""
CONFIG_IN_LOG = Config().inline_bytes
ROWS = [(i, i * 10, f"r{i}") for i in range(12)]


class Killed(BaseException):
    """No `except` of ours catches it: nothing is tidied up."""


@dataclass
class Countdown:
    """Dies after so many changes."""

    left: int

    def around(self, work: Callable[..., Any], *args: Any) -> Any:
        """Makes a change of a store, or dies. The dead make none."""
        self.left -= 1
        if self.left > 0:
            return work(*args)
        if self.left == 0:
            work(*args)
        raise Killed


class Mortal:
    """A store as the process sees it that is to die."""

    def __init__(self, inner: Any, death: Countdown) -> None:
        self.inner, self.death = inner, death

    def __getattr__(self, name: str) -> Any:
        work = getattr(self.inner, name)
        if name not in CHANGING:
            return work
        return lambda *args: self.death.around(work, *args)


@dataclass
class Scene:
    """A world, what must be in it, and what is done there."""

    waiting: bool
    """Whether retractions wait to be settled: DELETE and UPDATE then write rows, not positions."""
    in_log: int = 0
    """`inline_bytes` of every process."""
    world: World = field(default_factory=World)
    history: History = field(default_factory=History)

    def __post_init__(self) -> None:
        shard = self.world.create(SCHEMA, compact_fanout=2, inline_bytes=self.in_log)
        for i in range(3):
            self.history.append(shard, ROWS[4 * i : 4 * i + 4])
            self.world.clock.advance(10)
        self.history.change(shard, DELETE_ODD)
        self.history.append(shard, [(20, 1, "x"), (21, 2, "y")])
        if self.waiting:  # of a row with a deleted neighbour, and of one that is alone in its part afterwards
            self.history.append(shard, [ROWS[4], (20, 1, "x")], diff=-1)

    def process(self, death: Countdown) -> Shard:
        """A process that is to die."""
        log, blob = Mortal(self.world.log, death), Mortal(self.world.blob, death)
        machine = Machine(log, blob, "shard/s1", self.world.clock, QUICK)
        return Shard(machine, replace(CONFIG, compact_fanout=2, inline_bytes=self.in_log))

    def open(self) -> Shard:
        """A process that starts now."""
        return self.world.open(compact_fanout=2, inline_bytes=self.in_log)

    def work(self, name: str, shard: Shard) -> None:
        """Does something by this process."""
        tasks: Any = SimpleNamespace(blob=lambda: shard.machine.blob)
        match name:
            case "DELETE":
                self.history.change(shard, DELETE_LOW)
            case "UPDATE":
                self.history.change(shard, MOVE_LOW)
            case "append":
                shard.append(as_table(APPENDED), token="append")
            case "retract":
                shard.append(as_table(RETRACTED), diff=-1, token="retract")
            case "settle":
                settle_retractions(shard)
            case "store":
                store_inline_parts(shard)
            case "compact":
                compact_shard(shard, full=True)
            case "compact in tasks":
                compact_distributed(LocalTaskRunner(), shard, tasks, full=True)
            case "statistics":
                backfill_shard_statistics(LocalTaskRunner(), shard, tasks)
            case "roll up":
                shard.machine.roll(shard.machine.fetch())
            case "sweep":
                self.world.clock.advance(10_000)
                sweep_shard(shard)

    def check(self) -> None:
        """Every time and every change, read by a process that starts now."""
        state = self.world.open().machine.fetch()
        self.history.learn(state)
        for token, rows, diff in (("retract", RETRACTED, -1), ("append", APPENDED, 1)):
            known = {time for row, time, by in self.history.updates if (row, by) == (rows[0], diff)}
            if token in state.tokens and (time := state.tokens[token] - 1) not in known:
                self.history.updates += [(row, time, diff) for row in rows]
        self.history.check(self.world.open())

    def nothing_is_left(self) -> None:
        """After the grace, sweep leaves what the state knows and nothing else."""
        for _ in range(3):
            self.world.clock.advance(10_000)
            sweep_shard(self.world.open())
        state = self.world.open().machine.fetch()
        known = (
            {part.name for part in state.parts.all() if not part.data}
            | set(state.segments)
            | state.parts.deletions.objects
        )
        known |= {state.rollup[0]} if state.rollup else set()
        assert self.world.objects() == known


def dies(name: str, moment: int, *, waiting: bool, in_log: int) -> bool:
    """Whether there is such a moment; if so, the process dies then, and everything is checked."""
    scene = Scene(waiting, in_log)
    try:
        scene.work(name, scene.process(Countdown(moment)))
    except Killed:
        scene.check()
        scene.work(name, scene.open())
        compact_shard(scene.open(), full=True)
        scene.nothing_is_left()
        scene.check()
        return True
    return False


@pytest.mark.parametrize(
    ("inline", "in_log"),
    [(10, 0), (writer.MAX_INLINE_BYTES, 0), (writer.MAX_INLINE_BYTES, CONFIG_IN_LOG)],
    ids=["objects", "inline", "parts in the log"],
)
@pytest.mark.parametrize(
    ("name", "waiting", "least"),
    [
        ("DELETE", False, 2),
        ("DELETE", True, 2),
        ("UPDATE", False, 3),
        ("append", False, 2),
        ("retract", False, 2),
        ("store", False, 0),
        ("settle", True, 3),
        ("compact", False, 4),
        ("compact", True, 6),
        ("compact in tasks", True, 6),
        ("statistics", False, 1),
        ("roll up", True, 3),
        ("sweep", False, 0),
    ],
)
def test_a_process_that_dies_at_every_moment(
    name: str, waiting: bool, least: int, inline: int, in_log: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`least`: so many moments there are at least, or the test tests nothing."""
    monkeypatch.setattr(writer, "MAX_INLINE_BYTES", inline)
    moment = 1
    while dies(name, moment, waiting=waiting, in_log=in_log):
        moment += 1
    assert moment > least + (MOMENTS_IN_LOG.get(name, 0) if in_log else 0)
