"""A hypothesis state machine: writers, readers, a compactor, a sweeper and rollups over stores that fail by a seed.

The model is a list of (row, time, diff). After every step all that was acknowledged is there once, at several times; snapshots that
were opened long ago still read what they read then. Stores fail in all the ways of `faults.py`, requests arrive after their sender
has given up, and each process has a clock of its own, which jumps. Nothing in a run depends on anything but what hypothesis draws
(the seed of the failures too), so a failing example, or `--hypothesis-seed`, replays exactly.

It runs over every store. TIDEGATE_SIMULATIONS says how many runs in all, shared out as `SHARES` says: 24 by default; `make prove`
does 400. Which planted bugs it finds, `test_planted_bugs.py` says.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.simulation.deleting import DeletingRules, KeyChange
from tests.simulation.faults import Faults, FaultyBlob, FaultyConsensus
from tests.simulation.rows import SCHEMA, Row, named, read, rows_, table
from tests.simulation.stores import SHARES, Jumping, Stores
from tidegate.config import Config
from tidegate.errors import IndeterminateError, LeaseLost, StoreError, TimeError
from tidegate.storage.blob.protocol import MemoryBlob
from tidegate.storage.consensus.object_log import LogConsensus
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.sweep import sweep_shard
from tidegate.storage.part.merge import Block
from tidegate.storage.part.part import Part
from tidegate.storage.retry import RetryPolicy
from tidegate.storage.shard import machine, rollup
from tidegate.storage.shard import shard as writer
from tidegate.storage.shard.change_feed import open_changes
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.shard import PartSwept, Shard
from tidegate.storage.shard.snapshot import Snapshot, open_snapshot
from tidegate.storage.shard.state import Conflict

CONFIG = Config(
    part_bytes=12_000, batch_rows=3, compact_fanout=3, lease_ms=5000, sweep_grace_ms=1000, as_of_timeout_ms=0
)
PATIENT, HASTY = RetryPolicy(times=50, first_s=0, longest_s=0), RetryPolicy(times=1, first_s=0, longest_s=0)
KEY = "shard/s1"
FANOUT, TRUNCATION_LAG, MAX_INLINE_BYTES = rollup.FANOUT, machine.TRUNCATION_LAG, writer.MAX_INLINE_BYTES
MERGING = replace(CONFIG, retractions_in_memory=0)

handles = st.integers(0, 2)
pauses = st.sampled_from([0, 1, 50, 400, 1100, 5100])
"""Long enough for retention, for half of the grace, for the grace, for a lease to run out."""


@dataclass
class Held:
    """A snapshot that is open, and what it must read."""

    found: Snapshot
    expected: Counter[str]


@dataclass
class Suspended:
    """A writer that wrote its parts, and sleeps before it appends them."""

    handle: int
    rows: list[Row]
    parts: list[Part]
    token: str


class Simulation(DeletingRules, RuleBasedStateMachine):
    """See the module's docstring."""

    store = "memory"
    often: float | None = None
    """How often stores fail, and (below) whether rows are retracted: None: that is drawn."""
    retracts: bool | None = None
    in_log: int | None = None
    """`inline_bytes`; None: that is drawn."""
    repairs = True
    held = Bundle("held")
    suspended = Bundle("suspended")

    @initialize(
        seed=st.integers(0, 2**32 - 1),
        often=st.sampled_from([0.0, 0.1, 0.4]),
        sorted_=st.booleans(),
        retracting=st.booleans(),
        inline=st.sampled_from([10, MAX_INLINE_BYTES]),
        lookup=st.sampled_from([0, 1 << 20]),
        in_log=st.sampled_from([0, CONFIG.inline_bytes]),
    )
    def start(
        self, seed: int, often: float, sorted_: bool, retracting: bool, inline: int, lookup: int, in_log: int
    ) -> None:
        often = often if self.often is None else self.often
        self.sorted, self.retracting = sorted_, retracting if self.retracts is None else self.retracts
        in_log = in_log if self.in_log is None else self.in_log
        # 0: retractions stay rows; 0: every commit writes files
        self.config = replace(CONFIG, retraction_lookup_bytes=lookup, inline_bytes=in_log)
        writer.MAX_INLINE_BYTES = inline  # so that bitmaps are objects of their own in half of the runs
        rollup.FANOUT = 2  # so that segments are merged within a few rollups
        machine.TRUNCATION_LAG = 3  # so that logs are truncated within a few steps
        self.stores = Stores.open(self.store)
        self.clock, self.blob, log = self.stores.clock, self.stores.blob, self.stores.log
        self.log = log or LogConsensus(self.blob)
        self.faults = Faults(seed, often)
        self.faults.on = False
        self.clocks = [Jumping(self.clock) for _ in range(3)]
        self.shards = [self.open(handle) for handle in range(3)]
        options = {"retention_ms": 300, **({"cluster_by": [2]} if sorted_ else {})}
        Shard.create(self.shards[0].machine, SCHEMA, options)
        self.faults.on = True
        self.model: list[tuple[str, int, int]] = []
        self.rows: dict[str, Row] = {}
        self.count = 0
        self.open_snapshots: list[Held] = []
        self.unknown: dict[str, tuple[list[Row], int] | KeyChange] = {}
        """By token: what may have been made, or may still be; the log says whether, and at which time."""

    def open(self, handle: int) -> Shard:
        """The stores as a process of its own: the last one gives up soon, and gets to know every failure."""
        blob = FaultyBlob(self.blob, self.faults)
        inner = LogConsensus(blob) if isinstance(self.log, LogConsensus) else self.log
        log = FaultyConsensus(inner, self.faults)
        retries = HASTY if handle == 2 else PATIENT
        return Shard(Machine(log, blob, KEY, self.clocks[handle], retries), self.config)

    def truth(self, config: Config = CONFIG) -> Shard:
        """A process that starts now, over stores that do not fail."""
        return Shard(Machine(self.log, self.blob, KEY, self.clock, PATIENT), config)

    def sums(self, as_of: int) -> Counter[str]:
        """The sum of diffs of each row. It can be below 0: a retraction that arrives late may be the second one."""
        self.learn()
        return self.sums_so_far(as_of)

    def sums_so_far(self, as_of: int) -> Counter[str]:
        """The same by what the model knows already."""
        there: Counter[str] = Counter()
        for row, at, diff in self.model:
            if at <= as_of:
                there[row] += diff
        return there

    def expected(self, as_of: int) -> Counter[str]:
        return +self.sums(as_of)

    def learn(self) -> None:
        """What was unknown, and has arrived by now, in the order of time."""
        if self.unknown:
            tokens = self.truth().machine.fetch().tokens
            for token in sorted(tokens, key=lambda token: tokens[token]):
                made, at = self.unknown.pop(token.partition("#")[0], None), tokens[token] - 1
                if isinstance(made, KeyChange):
                    self.apply(made, at)
                elif made is not None:
                    self.record(*made, at)

    def record(self, rows: list[Row], diff: int, at: int) -> None:
        for row in rows:
            name = repr(row)
            self.rows[name] = row
            self.model.append((name, at, diff))

    def submit(self, handle: int, rows: list[Row], diff: int, at: int | None, again: bool) -> None:
        """Appends; if that fails, the truth must be that it is there as a whole or not at all."""
        self.count += 1
        token = f"token {self.count}"
        shard = self.shards[handle]
        try:
            done = shard.append(table(rows), at=at, diff=diff, token=token)
            self.record(rows, diff, done.at)
        except TimeError:
            assert at is not None
            assert at < self.truth().machine.fetch().upper
            return
        except StoreError as error:
            self.fail(token, (rows, diff), error)
            if again and at is None and token not in self.truth().machine.fetch().tokens:
                self.unknown.pop(token, None)
                self.record(rows, diff, self.truth().append(table(rows), diff=diff, token=token).at)
        if again:  # whoever asks again changes nothing
            before = self.truth().machine.fetch()
            if token in before.tokens:
                assert self.truth().append(table(rows), at=at, diff=diff, token=token).parts == ()
                assert self.truth().machine.fetch().upper == before.upper

    def fail(self, token: str, made: tuple[list[Row], int] | KeyChange, error: StoreError) -> None:
        """What failed did not happen, and will not, unless it is said to be unknown."""
        if isinstance(error, IndeterminateError):
            self.unknown[token] = made
            self.learn()
        else:
            assert token not in {known.partition("#")[0] for known in self.truth().machine.fetch().tokens}

    @rule(handle=handles, by=st.sampled_from([-100_000, -3000, -600, 0, 600, 3000, 100_000]))
    def clock_jumps(self, handle: int, by: int) -> None:
        self.clocks[handle].off = by

    @rule(handle=handles, rows=rows_, ahead=st.none() | st.integers(-2, 40), again=st.booleans())
    def append(self, handle: int, rows: list[Row], ahead: int | None, again: bool) -> None:
        at = None if ahead is None else max(0, self.truth().machine.fetch().upper + ahead)
        self.submit(handle, rows, 1, at, again)

    @rule(handle=handles, data=st.data(), again=st.booleans())
    @precondition(lambda self: self.retracting)
    def retract(self, handle: int, data: st.DataObject, again: bool) -> None:
        there = sorted(self.expected(2**62).elements())
        if there:
            picked = data.draw(
                st.lists(st.sampled_from(range(len(there))), unique=True, min_size=1, max_size=4)
            )
            self.submit(handle, [self.rows[there[i]] for i in picked], -1, None, again)

    @rule(target=suspended, handle=handles, rows=rows_)
    def write_and_sleep(self, handle: int, rows: list[Row]) -> Any:
        shard = self.shards[handle]
        self.count += 1
        try:
            state = shard.machine.fetch()
            columns = table(rows).combine_chunks().to_batches()
            if not columns:
                return multiple()
            times = pa.array([state.upper] * len(rows), pa.int64()).to_numpy()
            ones = pa.array([1] * len(rows), pa.int64()).to_numpy()
            parts = list(shard.write(state, state.schema, Block(columns[0].columns, times, ones)))
        except StoreError:
            return multiple()
        return Suspended(handle, rows, parts, f"token {self.count}")

    @rule(sleeper=consumes(suspended), later=pauses, swept=st.booleans())
    def wake_up(self, sleeper: Suspended, later: int, swept: bool) -> None:
        self.clock.advance(later)
        if swept:
            sweep_shard(self.truth())
        try:
            done = self.shards[sleeper.handle].commit(sleeper.parts, at=None, token=sleeper.token)
            self.record(sleeper.rows, 1, done.at)
        except PartSwept:
            there = {entry.name for entry in self.blob.list("part/")}
            assert not {part.name for part in sleeper.parts} <= there
        except StoreError as error:
            self.fail(sleeper.token, (sleeper.rows, 1), error)

    @rule(handle=handles, full=st.booleans(), later=pauses)
    def compact(self, handle: int, full: bool, later: int) -> None:
        self.clock.advance(later)
        try:
            compact_shard(self.shards[handle], full=full)
        except LeaseLost:
            raise
        except StoreError:
            return

    @rule(handle=handles, later=pauses)
    def sweep(self, handle: int, later: int) -> None:
        self.clock.advance(later)
        try:
            sweep_shard(self.shards[handle])
        except StoreError:
            return

    @rule(handle=handles)
    def roll_up(self, handle: int) -> None:
        log = self.shards[handle].machine
        try:
            log.roll(log.fetch())
        except (StoreError, Conflict):
            return

    @rule(handle=handles)
    def restart(self, handle: int) -> None:
        self.shards[handle] = self.open(handle)

    @rule(target=held, handle=handles, back=st.integers(0, 500))
    def snapshot(self, handle: int, back: int) -> Any:
        state = self.truth().machine.fetch()
        as_of = max(state.since, state.upper - 1 - back)
        if as_of >= state.upper or len(self.open_snapshots) > 1:
            return multiple()
        try:
            found = open_snapshot(self.shards[handle], as_of)
        except StoreError:
            return multiple()
        held = Held(found, self.expected(as_of))
        self.open_snapshots.append(held)
        return held

    @rule(held=held, later=pauses, busy=st.booleans())
    def read_again(self, held: Held, later: int, busy: bool) -> None:
        if held not in self.open_snapshots:
            return
        self.faults.on = False
        if busy:
            compact_shard(self.truth(), full=True)
        self.clock.advance(later)
        if busy:
            sweep_shard(self.truth())
        try:
            assert read(held.found) == held.expected
        except StoreError:
            assert held.found.lease.reader not in self.truth().machine.fetch().leases
        self.faults.on = True

    @rule(held=consumes(held), forget=st.booleans())
    def close_snapshot(self, held: Held, forget: bool) -> None:
        if held in self.open_snapshots:
            self.open_snapshots.remove(held)
        if not forget:
            held.found.close()

    @rule(back=st.integers(1, 400))
    def changes_are_those_of_the_model(self, back: int) -> None:
        shard = self.truth()
        state = shard.machine.fetch()
        start = max(state.since + 1, state.upper - back)
        with open_changes(shard, start) as changes:
            got = [
                (named(row), row["_time"], row["_diff"]) for b in changes.batches() for row in b.to_pylist()
            ]
        sums: Counter[tuple[str, int]] = Counter()
        self.learn()
        for name, at, diff in [*got, *((n, t, -d) for n, t, d in self.model if t >= start)]:
            sums[name, at] += diff
        assert not any(sums.values())

    @invariant()
    @precondition(lambda self: hasattr(self, "model"))
    def everything_acknowledged_is_there_once(self) -> None:
        shard = self.truth()
        state = shard.machine.fetch()
        last = max(state.upper - 1, state.since)
        self.learn()
        newest = max((at for _, at, _ in self.model), default=last)
        before = max(state.since, newest - 1)  # just before the last change: what it deleted is still there
        for as_of in {state.since, (state.since + last) // 2, before, last} if state.upper else ():
            if as_of < state.upper:
                for way in (shard, self.truth(MERGING)):
                    with open_snapshot(way, as_of) as found:
                        assert read(found) == self.expected(as_of)
        deleted = sum(state.parts.deletions.records.column("diffs").to_pylist())
        assert sum(self.sums(last).values()) == sum(part.diffs for part in state.parts.all()) - deleted

    def teardown(self) -> None:
        """At last nothing is left in the store but what the state refers to."""
        if not hasattr(self, "model"):
            return
        rollup.FANOUT, machine.TRUNCATION_LAG = FANOUT, TRUNCATION_LAG
        writer.MAX_INLINE_BYTES = MAX_INLINE_BYTES
        self.faults.on = False
        self.faults.arrive_all()
        moved = isinstance(self.blob, MemoryBlob)
        for _ in range(2):  # the first may end with a rollup, which makes garbage of the one before
            self.clock.advance(1_000_000)
            sweep_shard(self.truth(CONFIG if moved else replace(CONFIG, sweep_grace_ms=0)))
        shard = self.truth()
        state = shard.machine.fetch()
        known = (
            {part.name for part in state.parts.all() if not part.data}
            | set(state.segments)
            | state.parts.deletions.objects
        )
        known |= {state.rollup[0]} if state.rollup else set()
        left = {entry.name for entry in self.blob.list() if not entry.name.startswith(("log/", "floor/"))}
        assert left == known
        self.everything_acknowledged_is_there_once()
        self.stores.close()


RUNS = int(os.environ.get("TIDEGATE_SIMULATIONS", "24"))


@pytest.mark.parametrize("store", SHARES)
def test_simulation(store: str) -> None:
    simulation = type("Simulation", (Simulation,), {"store": store})
    many = settings(
        max_examples=max(1, round(RUNS * SHARES[store])),
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(simulation, settings=many)
