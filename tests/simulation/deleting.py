"""DELETE and UPDATE in the simulation: through the code of the statements, by processes whose stores lie and whose clocks jump.

    DELETE FROM t WHERE k = 2                 rows of the model with this key go, at the time that the log gives it
    UPDATE t SET k = k + 1 WHERE k = 2        they go, and come again with the next key

Between what a statement reads and its entry others compact, sweep, roll up or delete; between what a compaction reads and its entry
others delete. In half of the runs nothing is retracted by rows with negative diffs: then all deletions are by position.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.unit.storage.deleting import run_change
from tidegate.errors import LeaseLost, StoreError
from tidegate.statements.modify import by_position
from tidegate.storage.maintain import compact, distribute
from tidegate.storage.maintain.distribute import (
    LocalTaskRunner,
    backfill_shard_statistics,
    compact_distributed,
    recluster_shard,
)
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

    @property
    def sql(self) -> str:
        """The statement."""
        where = f"WHERE k = {self.key}"
        return f"UPDATE t SET k = k + 1 {where}" if self.moves else f"DELETE FROM t {where}"


changes = st.builds(KeyChange, keys, st.booleans())


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

    @rule(handle=handles, change=changes)
    def change(self: Any, handle: int, change: KeyChange) -> None:
        """DELETE or UPDATE."""
        self.submit_change(handle, change)

    @rule(
        handle=handles,
        change=changes,
        what=st.sampled_from(["compact", "compact in tasks", "sweep", "roll up", "change", "append"]),
        later=st.sampled_from([0, 400, 1100]),
    )
    def change_while_others_work(self: Any, handle: int, change: KeyChange, what: str, later: int) -> None:
        """DELETE or UPDATE, with others between what it reads and its entry."""
        find, left = by_position._find, [what]

        def found(*args: Any) -> Any:
            result = find(*args)
            if left:
                left.pop()
                self.clock.advance(later)
                self.others_work(what, (handle + 1) % 3)
            return result

        with mock.patch.object(by_position, "_find", found):
            self.submit_change(handle, change)

    def others_work(self: Any, what: str, handle: int) -> None:
        """Another process does something."""
        try:
            match what:
                case "compact":
                    compact.compact_shard(self.shards[handle], full=True)
                case "compact in tasks":
                    self.in_tasks(compact_distributed, handle, full=True)
                case "sweep":
                    sweep_shard(self.shards[handle])
                case "roll up":
                    self.shards[handle].machine.roll(self.shards[handle].machine.fetch())
                case "change":
                    self.submit_change(handle, KeyChange(1, moves=True))
                case _:
                    self.submit(handle, [(1, 1.5, "a"), (2, None, "")], 1, None, again=False)
        except (StoreError, Conflict):
            return

    @rule(handle=handles, change=changes, tasks=st.booleans(), full=st.booleans())
    def compact_while_others_delete(
        self: Any, handle: int, change: KeyChange, tasks: bool, full: bool
    ) -> None:
        """A compaction, with a DELETE or UPDATE between what it reads and its entry."""
        room: Any = distribute if tasks else compact
        swap, left = room.swap, [change]

        def late(*args: Any, **more: Any) -> Any:
            if left:
                self.submit_change((handle + 1) % 3, left.pop())
            return swap(*args, **more)

        with mock.patch.object(room, "swap", late):
            self.others_work("compact in tasks" if tasks else "compact", handle)

    def in_tasks(self: Any, work: Callable[..., Any], handle: int, **more: Any) -> None:
        """Maintenance in tasks; these have stores that do not lie."""
        shard: Shard = self.shards[handle]
        work(LocalTaskRunner(), shard, SimpleNamespace(blob=lambda: self.blob), **more)

    @rule(
        handle=handles,
        work=st.sampled_from([compact_distributed, recluster_shard, backfill_shard_statistics]),
    )
    @precondition(lambda self: hasattr(self, "model"))
    def maintain_in_tasks(self: Any, handle: int, work: Callable[..., Any]) -> None:
        """What is done by tasks."""
        if work is recluster_shard and not self.sorted:
            return
        try:
            self.in_tasks(work, handle)
        except LeaseLost:
            raise
        except (StoreError, Conflict):
            return
