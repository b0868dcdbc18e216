"""Bugs that are planted on purpose, one at a time: the simulation must find them, or it proves nothing.

A row is found if some run of the simulation fails with it. `make test` plants those that few runs find; `make prove`
(TIDEGATE_PLANTED=all) plants all of `BUGS`, and those of `UNSEEN` too, to say what the simulation does not see.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.simulation.test_simulation import Simulation
from tidegate.errors import IndeterminateError, StoreError
from tidegate.storage.consensus.object_log import LogConsensus
from tidegate.storage.consensus.protocol import next_number
from tidegate.storage.maintain import compact, rewrite, sweep
from tidegate.storage.part.deletion_records import DELETIONS_SCHEMA
from tidegate.storage.part.deletions import NEVER, Deletions
from tidegate.storage.part.part import Part
from tidegate.storage.shard import shard as writer
from tidegate.storage.shard import state
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.parts import Parts
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.state import State

Plant = Callable[[pytest.MonkeyPatch], None]
ALL = os.environ.get("TIDEGATE_PLANTED") == "all"


def _propose(believe: Callable[[Any, StoreError | None], bool | None]) -> Plant:
    """Proposing by one's own belief of the answer; where that is None, by the log."""

    def propose(self: Machine, expected: int | None, data: bytes, token: str) -> bool:
        for attempt in range(self.retries.times):
            answer, failure = None, None
            try:
                answer = self.consensus.compare_and_set(self.key, expected, data)
            except StoreError as error:
                failure = error
            belief = believe(answer, failure)
            if belief is not None:
                return belief
            if (winner := self._token_at(next_number(expected))) is not None:
                return winner == token
            self.retries.wait(attempt)
        raise IndeterminateError("unknown")

    return lambda patch: patch.setattr(Machine, "_propose", propose)


def _raises(answer: Any, failure: StoreError | None) -> bool | None:
    if failure is not None and not isinstance(failure, IndeterminateError):
        raise failure
    return None


def _discards_unknown(patch: pytest.MonkeyPatch) -> None:
    original = Shard.commit

    def commit(self: Shard, parts: Sequence[Part], **options: Any) -> Any:
        try:
            return original(self, parts, **options)
        except IndeterminateError:
            for part in parts:
                self.machine.blob.delete(part.name)
            raise

    patch.setattr(Shard, "commit", commit)


def _truncates_too_far(patch: pytest.MonkeyPatch) -> None:
    def roll(self: Machine, state: State) -> None:
        original(self, state)
        self.consensus.truncate(self.key, state.number + 3)

    original = Machine.roll
    patch.setattr(Machine, "roll", roll)


def _sweeps_without_fence(patch: pytest.MonkeyPatch) -> None:
    def condemn(shard: Shard, names: list[str]) -> list[str]:
        orphans = state.unreferenced(shard.machine.cached_state(), names)
        for name in orphans:
            shard.machine.blob.delete(name)
        return []

    patch.setattr(sweep, "_condemn", condemn)


def _forgets_the_fence(patch: pytest.MonkeyPatch) -> None:
    original = state._forget
    patch.setattr(state, "_forget", lambda s, c, at: replace(original(s, c, at), fence=-1))


def _ignores_leases(patch: pytest.MonkeyPatch) -> None:
    original = sweep._sweep_garbage
    patch.setattr(sweep, "_sweep_garbage", lambda shard, s: original(shard, replace(s, leases={})))


def _moves_times(patch: pytest.MonkeyPatch) -> None:
    original = compact.Aging.__call__

    def age(self: compact.Aging, block: Any) -> Any:
        self.state = replace(self.state, since=self.state.upper - 1)
        return original(self, block)

    patch.setattr(compact.Aging, "__call__", age)


def _overlooks_gaps(patch: pytest.MonkeyPatch) -> None:
    original = LogConsensus.scan
    patch.setattr(
        LogConsensus,
        "scan",
        lambda self, key, first, limit=1_000_000: (
            original(self, key, first, limit)
            if first == 0
            else self._read(key, range(first, first + min(limit, 50)))
        ),
    )


def _deletes_without_a_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writer, "unreferenced", lambda _, names: list(names))


def _takes_the_bitmap_of_another_part(patch: pytest.MonkeyPatch) -> None:
    original = Deletions.bitmaps
    patch.setattr(
        Deletions,
        "bitmaps",
        lambda self, parts, as_of, fetch: original(
            self, replace(parts, ids=np.roll(parts.ids, 1)), as_of, fetch
        ),
    )


def _ignores_the_time_of_deletions(patch: pytest.MonkeyPatch) -> None:
    for name in ("bitmaps", "totals"):
        original = getattr(Deletions, name)
        patch.setattr(
            Deletions, name, lambda self, ids, as_of, *fetch, now=original: now(self, ids, NEVER, *fetch)
        )


def _loses_deletions_that_came_meanwhile(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rewrite, "_moved", lambda *_: (DELETIONS_SCHEMA.empty_table(), 0))


def _moves_a_deletion_by_one(patch: pytest.MonkeyPatch) -> None:
    """To the row after its own, of a part that was rewritten meanwhile."""
    original = rewrite._find
    patch.setattr(
        rewrite,
        "_find",
        lambda run, rows, wanted: np.unique((original(run, rows, wanted) + 1) % max(rows, 1)),
    )


def _deletes_by_one_after_a_rewrite(patch: pytest.MonkeyPatch) -> None:
    """The row after its own, when a compaction writes rows that are deleted already."""
    original = rewrite.Aging.attach

    def attach(self: rewrite.Aging, block: Any, part: Part, start: int) -> Any:
        found = original(self, block, part, start)
        ends = np.roll(found.columns[-2].to_numpy(), 1)
        return replace(found, columns=[*found.columns[:-2], pa.array(ends), found.columns[-1]])

    patch.setattr(rewrite.Aging, "attach", attach)


def _repairs_without_deletions(patch: pytest.MonkeyPatch) -> None:
    """Parts that a repair moves lose what is deleted of them."""
    patch.setattr(state, "_with_deletions_of", lambda deletions, before, parts, after: parts)


def _deletes_what_is_there(parts: Parts, records: pa.Table) -> Parts:
    """Deletions of parts that are not there are dropped."""
    there = [part.id for part in parts.all()]
    known = records.filter(pc.is_in(records.column("part"), value_set=pa.array(there, pa.int64())))
    return parts.delete(known) if known.num_rows else parts


def _both(*plants: Plant) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        for one in plants:
            one(patch)

    return plant


_believes_lost = _propose(lambda a, f: False if a is False else None)
BUGS: dict[str, tuple[str, Plant]] = {
    "lost is believed, and parts are deleted without a look at the newest state": (
        "memory",
        _both(_believes_lost, _deletes_without_a_look),
    ),
    "done is believed": ("memory", _propose(lambda a, f: True if a is True else None)),
    "an error is believed": ("memory", _propose(_raises)),
    "what is unknown is taken for lost, and parts are deleted without a look": (
        "sqlite",
        _both(_propose(lambda a, f: False if f else None), _deletes_without_a_look),
    ),
    "what is unknown is taken for done": ("memory", _propose(lambda a, f: True if f else None)),
    "parts of an unknown append are deleted": ("memory", _discards_unknown),
    "the log is truncated above its rollup": ("memory", _truncates_too_far),
    "a fence is not looked at": ("memory", lambda p: p.setattr(Shard, "check_parts", lambda *_: None)),
    "a fence is forgotten": ("memory", _forgets_the_fence),
    "sweep sets no fence": ("memory", _sweeps_without_fence),
    "sweep ignores leases": ("memory", _ignores_leases),
    "compaction moves times too far": ("memory", _moves_times),
    "a log of objects overlooks gaps": ("log on memory", _overlooks_gaps),
    "a token is not remembered": ("memory", lambda p: p.setattr(state, "TOKENS", 0)),
    "a bitmap is applied to the wrong part": ("memory", _takes_the_bitmap_of_another_part),
    "the time of a deletion is ignored": ("memory", _ignores_the_time_of_deletions),
    "a compaction loses deletions that came meanwhile, and the state does not look": (
        "memory",
        _both(
            _loses_deletions_that_came_meanwhile,
            lambda p: p.setattr(state, "_check_carried", lambda *_: None),
        ),
    ),
    "a deletion is one row off after a rewrite": ("memory", _moves_a_deletion_by_one),
    "a rewrite is one row off when it applies deletions": ("memory", _deletes_by_one_after_a_rewrite),
    "a repair leaves deletions where they are": (
        "memory",
        lambda p: p.setattr(Deletions, "moved_back", lambda self, last: self),
    ),
    "a repair loses deletions": ("memory", _repairs_without_deletions),
    "a part may have been replaced when its rows are deleted": (
        "memory",
        _both(
            lambda p: p.setattr(Parts, "holds", lambda *_: True),
            lambda p: p.setattr(state, "_deleted", _deletes_what_is_there),
        ),
    ),
}
UNSEEN: dict[str, tuple[str, Plant]] = {
    "lost is believed": ("memory", _believes_lost),
    "a log of objects reads no floor": (
        "log on memory",
        lambda p: p.setattr(LogConsensus, "_floor", lambda *_: 0),
    ),
    "parts are deleted without a look at the newest state": ("memory", _deletes_without_a_look),
    "a compaction loses deletions that came meanwhile": ("memory", _loses_deletions_that_came_meanwhile),
    "a rollup is not read back": (
        "memory",
        lambda p: p.setattr(Machine, "_put_verified", lambda self, name, data: self.blob.put(name, data)),
    ),
}
"""That lost is believed and that parts are deleted without a look cover for each other: only both together lose rows. A floor
matters to one who sleeps inside of a call: `tests/unit/storage/consensus/test_object_log.py` has those interleavings. Rollups
are read back because of
stores that lose what they acknowledged, which are not simulated. A compaction that loses deletions is refused by the state: it is
abandoned, and nothing is wrong."""
QUICK = (
    "lost is believed, and parts are deleted without a look at the newest state",
    "done is believed",
    "an error is believed",
    "a bitmap is applied to the wrong part",
    "a compaction loses deletions that came meanwhile, and the state does not look",
    "a deletion is one row off after a rewrite",
    "a rewrite is one row off when it applies deletions",
)
"""Those that are found within seconds; others may take some hundred runs."""


_OTHER_RULES = ("clock_jumps", "write_and_sleep", "wake_up", "roll_up", "restart", "sweep")
_SNAPSHOTS = ("snapshot", "read_again", "close_snapshot")
DELETIONS: dict[str, Any] = {
    "often": 0.0, "retracts": False, "repairs": False, **dict.fromkeys((*_OTHER_RULES, *_SNAPSHOTS)),
}  # fmt: skip
"""Runs of appends, changes, compactions and reads alone: all deletions are by position, nothing is repaired, and no store fails.
They are a share of all runs, in which bugs of deletions show soonest."""
FAILURES: dict[str, Any] = {"often": 0.4}
"""Runs in which stores fail often."""


def _runs_for(bug: str) -> dict[str, Any]:
    """The share of runs in which a bug that `make test` plants is found soon; `make prove` draws from all."""
    if ALL or bug not in QUICK:
        return {}
    return DELETIONS if QUICK.index(bug) > 2 else FAILURES


def finds(store: str, runs: int, share: dict[str, Any] | None = None) -> str:
    """How the simulation fails, and in which run; empty if it does not."""
    count = [0]

    def begin(self: Simulation) -> None:
        count[0] += 1
        Simulation.__init__(self)

    simulation = type(
        "Simulation", (Simulation,), {"store": store, "in_log": 0, "__init__": begin, **(share or {})}
    )
    few = settings(
        max_examples=runs,
        stateful_step_count=40,
        deadline=None,
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(simulation, settings=few)
    except Exception as error:  # noqa: BLE001  # whatever it is: the bug shows
        return f"{type(error).__name__} in run {count[0]}"
    return ""


@pytest.mark.parametrize("bug", BUGS if ALL else QUICK)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store, plant = BUGS[bug]
    plant(monkeypatch)
    failure = finds(store, 400, _runs_for(bug))
    print(f"{bug}: {failure or 'not found'}")
    assert failure


@pytest.mark.skipif(not ALL, reason="TIDEGATE_PLANTED=all: make prove")
@pytest.mark.parametrize("bug", UNSEEN)
def test_what_the_simulation_does_not_see(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Holds the list to the truth: what is found after all belongs to `BUGS`."""
    store, plant = UNSEEN[bug]
    plant(monkeypatch)
    assert not finds(store, 40)
