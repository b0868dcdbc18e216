"""DELETE and UPDATE in the simulation: through the code of the statements, by processes whose stores lie and whose clocks jump.

    DELETE FROM t WHERE k = 2                 rows of the model with this key go, at the time that the log gives it
    UPDATE t SET k = k + 1 WHERE k = 2        they go, and come again with the next key

Between what a statement reads and its entry others compact, sweep, roll up, delete or repair; between what a compaction reads and
its entry others delete or repair. A repair moves the times of the model back, those of deletions too. In half of the runs nothing
is retracted by rows with negative diffs: then all deletions are by position.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.unit.storage.deleting import run_change
from tidegate.errors import LeaseLost, StoreError, TimeError
from tidegate.statements.modify import by_position, general
from tidegate.storage.maintain import compact, distribute
from tidegate.storage.maintain.distribute import (
    LocalTaskRunner,
    backfill_shard_statistics,
    compact_distributed,
    recluster_shard,
)
from tidegate.storage.maintain.repair import repair_shard
from tidegate.storage.maintain.sweep import sweep_shard
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.state import Conflict

if TYPE_CHECKING:
    from tests.simulation.test_simulation import Simulation

handles, keys = st.integers(0, 2), st.integers(0, 4)


@dataclass(frozen=True)
class KeyChange:
    """Rows of a key are deleted, or get the next one."""

    key: int
    moves: bool
    by_query: bool = False
    """Whether a query finds the rows: MERGE."""

    @property
    def sql(self) -> str:
        """The statement."""
        if self.by_query:
            done = "UPDATE SET k = t.k + 1" if self.moves else "DELETE"
            return f"MERGE INTO t USING (VALUES ({self.key})) AS x (k) ON t.k = x.k WHEN MATCHED THEN {done}"
        where = f"WHERE k = {self.key}"
        return f"UPDATE t SET k = k + 1 {where}" if self.moves else f"DELETE FROM t {where}"


changes = st.builds(KeyChange, keys, st.booleans(), st.sampled_from([False, False, False, False, True]))
IN_TASKS: dict[str, Callable[..., Any]] = {
    "compact in tasks": partial(compact_distributed, full=True),
    "recluster": recluster_shard,
    "statistics": backfill_shard_statistics,
}


class DeletingRules:
    """Rules for `Simulation`, which inherits them."""

    def submit_change(self: Simulation, handle: int, change: KeyChange) -> None:  # type: ignore[misc]  # a mixin
        """Runs a statement; if it fails, it was made as a whole, or not at all."""
        self.count += 1
        token = f"change {self.count}"
        try:
            run_change(self.shards[handle], change.sql, token)
            self.unknown[token] = change
            self.learn()
        except StoreError as error:
            self.fail(token, change, error)

    def apply(self: Simulation, change: KeyChange, at: int) -> None:  # type: ignore[misc]  # a mixin
        """Puts a change into the model."""
        for name, count in (+self.sums_so_far(at - 1)).items():
            row = self.rows[name]
            if row[0] == change.key:
                self.model.append((name, at, -count))
                self.record([(row[0] + 1, *row[1:])] * count if change.moves else [], 1, at)

    @rule(
        handle=handles,
        change=changes,
        what=st.sampled_from(
            ["", "", "compact", "compact in tasks", "sweep", "roll up", "change", "append", "repair"]
        ),
        later=st.sampled_from([0, 400, 1100]),
    )
    def change(self: Any, handle: int, change: KeyChange, what: str, later: int) -> None:
        """DELETE or UPDATE, perhaps with others between what it reads and its entry."""
        left = [what] if what else []

        def before_others(find: Callable[..., Any]) -> Callable[..., Any]:
            def found(*args: Any) -> Any:
                result = find(*args)
                if left:
                    self.clock.advance(later)
                    self.others_work(left.pop(), (handle + 1) % 3)
                return result

            return found

        with (
            mock.patch.object(by_position, "_find", before_others(by_position._find)),
            mock.patch.object(general, "collect", before_others(general.collect)),
        ):
            self.submit_change(handle, change)

    def others_work(self: Any, what: str, handle: int) -> None:
        """Another process does something."""
        shard: Shard = self.shards[handle]
        try:
            match what:
                case "compact":
                    compact.compact_shard(shard, full=True)
                case "sweep":
                    sweep_shard(shard)
                case "roll up":
                    shard.machine.roll(shard.machine.fetch())
                case "change":
                    self.submit_change(handle, KeyChange(1, moves=True))
                case "append":
                    self.submit(handle, [(1, 1.5, "a"), (2, None, "")], 1, None, again=False)
                case "repair":
                    self.move_times_back(200)
                case "recluster" if not self.sorted:
                    return
                case _:
                    # The stores of tasks do not lie.
                    IN_TASKS[what](LocalTaskRunner(), shard, SimpleNamespace(blob=lambda: self.blob))
        except LeaseLost:
            raise
        except (StoreError, Conflict):
            return

    @rule(
        handle=handles,
        change=st.none() | changes | changes | st.just("repair"),
        what=st.sampled_from(["compact", "compact", "compact in tasks", "recluster", "statistics"]),
    )
    def maintain(self: Any, handle: int, change: KeyChange | str | None, what: str) -> None:
        """Maintenance, perhaps with a DELETE, UPDATE or repair between what it reads and its entry."""
        room: Any = compact if what == "compact" else distribute
        swap, left = room.swap, [change] if change is not None else []

        def late(*args: Any, **more: Any) -> Any:
            if left:
                other = left.pop()
                if isinstance(other, KeyChange):
                    self.submit_change((handle + 1) % 3, other)
                else:
                    self.others_work(other, (handle + 1) % 3)
            return swap(*args, **more)

        with mock.patch.object(room, "swap", late):
            self.others_work(what, handle)

    @rule(back=st.sampled_from([1, 2, 30, 400]))
    @precondition(lambda self: self.repairs)
    def repair(self: Any, back: int) -> None:
        """Updates and deletions of the last so many milliseconds move back to the time before them."""
        self.move_times_back(back)

    def move_times_back(self: Any, back: int) -> None:
        """Repairs, and does the same to the model. The stores of a repair do not lie, and nothing else is on its way."""
        if not self.repairs:
            return
        self.faults.arrive_all()
        self.learn()
        shard: Shard = self.truth()
        upper = shard.machine.fetch().upper
        to = max(0, upper - 1 - back)
        try:
            done = repair_shard(shard, to)
        except TimeError:  # a clock that jumped: the time is far ahead of the clock of this one
            return
        if done.upper < upper:
            self.model = [(name, min(at, to), diff) for name, at, diff in self.model]
