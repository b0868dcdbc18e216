"""A hypothesis state machine: writers, readers, a compactor, a sweeper and rollups over stores that fail by a seed.

The model is a list of (row, time, diff). After every step all that was acknowledged is there once, at several times; snapshots that
were opened long ago still read what they read then. Nothing in a run depends on anything but what hypothesis draws (the seed of
the failures too), so a failing example, or `--hypothesis-seed`, replays exactly.

TIDEGATE_SIMULATIONS says how many runs: 12 by default, some 15 s; `make prove` does 400. 40 find each of these planted bugs:
parts that are appended however old they are, times that compaction moves too far, a sweep that ignores leases, -0 taken for 0.
Bugs that need three processes to meet in one order (a fence that is missing, segments that another process merged) have
tests of their own in `tests/unit/test_shard_sweep.py`.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
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
)

from tidegate.clock import ManualClock
from tidegate.config import Config
from tidegate.errors import IndeterminateError, StoreError, TimeError
from tidegate.expr.types import FLOAT8, INT8, TEXT
from tidegate.shard import rollup
from tidegate.shard.change import Part
from tidegate.shard.compact import compact
from tidegate.shard.lease import LeaseLost
from tidegate.shard.machine import Machine, Retries
from tidegate.shard.merge import Block
from tidegate.shard.reader import Snapshot, snapshot, updates
from tidegate.shard.schema import Schema
from tidegate.shard.state import Conflict
from tidegate.shard.sweep import sweep
from tidegate.shard.writer import Shard, TooOld, schema_of
from tidegate.store.blob import MemoryBlob
from tidegate.store.consensus import MemoryConsensus
from tidegate.store.faulty import Faults, FaultyBlob, FaultyConsensus

NAN = float("nan")
SCHEMA = Schema.of([("k", INT8, False), ("x", FLOAT8, True), ("t", TEXT, True)])
CONFIG = Config(
    part_bytes=12_000, batch_rows=3, compact_fanout=3, lease_ms=5000, sweep_grace_ms=1000, as_of_timeout_ms=0
)
PATIENT, HASTY = Retries(times=50, first_s=0, longest_s=0), Retries(times=1, first_s=0, longest_s=0)
KEY = "shard/s1"
FANOUT = rollup.FANOUT
MERGING = replace(CONFIG, retractions_in_memory=0)

Row = tuple[int, float | None, str | None]
rows_ = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from([0.0, -0.0, NAN, None, 1.5]),
        st.sampled_from([None, "", "a", "b\0"]),
    ),
    max_size=6,
)
handles = st.integers(0, 2)
pauses = st.sampled_from([0, 1, 50, 400, 1100, 5100])
"""Long enough for retention, for half of the grace, for the grace, for a lease to run out."""


def table(rows: list[Row]) -> pa.Table:
    columns = [
        pa.array([row[i] for row in rows], column.type.arrow) for i, column in enumerate(SCHEMA.columns)
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA.arrow)


def named(row: dict[str, Any]) -> str:
    """A row as text: NaN is itself, and -0 is not 0."""
    return repr((row["k"], row["x"], row["t"]))


def read(found: Snapshot) -> Counter[str]:
    return Counter(named(row) for batch in found.batches() for row in batch.to_pylist())


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


class Simulation(RuleBasedStateMachine):
    """See the module's docstring."""

    held = Bundle("held")
    suspended = Bundle("suspended")

    @initialize(
        seed=st.integers(0, 2**32 - 1), often=st.sampled_from([0.0, 0.03, 0.2]), sorted_=st.booleans()
    )
    def start(self, seed: int, often: float, sorted_: bool) -> None:
        rollup.FANOUT = 2  # so that segments are merged within a few rollups
        self.clock = ManualClock(1_000_000)
        self.blob, self.log = MemoryBlob(self.clock), MemoryConsensus()
        self.faults = Faults(seed, before=often, after=often)
        self.faults.on = False
        self.shards = [self.open(handle) for handle in range(3)]
        options = {"retention_ms": 300, **({"cluster_by": [2]} if sorted_ else {})}
        Shard.create(self.shards[0].machine, SCHEMA, options)
        self.faults.on = True
        self.model: list[tuple[str, int, int]] = []
        self.rows: dict[str, Row] = {}
        self.count = 0
        self.open_snapshots: list[Held] = []

    def open(self, handle: int) -> Shard:
        """The stores as a process of its own: the last one gives up soon, and gets to know every failure."""
        blob, log = FaultyBlob(self.blob, self.faults), FaultyConsensus(self.log, self.faults)
        return Shard(Machine(log, blob, KEY, self.clock, HASTY if handle == 2 else PATIENT), CONFIG)

    def truth(self, config: Config = CONFIG) -> Shard:
        """A process that starts now, over stores that do not fail."""
        return Shard(Machine(self.log, self.blob, KEY, self.clock, PATIENT), config)

    def expected(self, as_of: int) -> Counter[str]:
        there: Counter[str] = Counter()
        for row, time, diff in self.model:
            if time <= as_of:
                there[row] += diff
        assert all(count >= 0 for count in there.values())
        return +there

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
            tokens = self.truth().machine.fetch().tokens
            must_be_told(token in tokens, error)
            if token in tokens:
                self.record(rows, diff, tokens[token] - 1)
            elif again and at is None:
                self.record(rows, diff, self.truth().append(table(rows), diff=diff, token=token).at)
        if again:  # whoever asks again changes nothing
            before = self.truth().machine.fetch()
            if token in before.tokens:
                assert self.truth().append(table(rows), at=at, diff=diff, token=token).parts == ()
                assert self.truth().machine.fetch().upper == before.upper

    @rule(handle=handles, rows=rows_, ahead=st.none() | st.integers(-2, 40), again=st.booleans())
    def append(self, handle: int, rows: list[Row], ahead: int | None, again: bool) -> None:
        at = None if ahead is None else max(0, self.truth().machine.fetch().upper + ahead)
        self.submit(handle, rows, 1, at, again)

    @rule(handle=handles, data=st.data(), again=st.booleans())
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
            parts = list(shard.write(state, schema_of(state), Block(columns[0].columns, times, ones)))
        except StoreError:
            return multiple()
        return Suspended(handle, rows, parts, f"token {self.count}")

    @rule(writer=consumes(suspended), later=pauses, swept=st.booleans())
    def wake_up(self, writer: Suspended, later: int, swept: bool) -> None:
        self.clock.advance(later)
        if swept:
            sweep(self.truth())
        try:
            done = self.shards[writer.handle].commit(writer.parts, at=None, token=writer.token)
            self.record(writer.rows, 1, done.at)
        except TooOld:
            assert self.clock.now() - min(part.written for part in writer.parts) > CONFIG.sweep_grace_ms // 2
        except StoreError as error:
            tokens = self.truth().machine.fetch().tokens
            must_be_told(writer.token in tokens, error)
            if writer.token in tokens:
                self.record(writer.rows, 1, tokens[writer.token] - 1)

    @rule(handle=handles, full=st.booleans(), later=pauses)
    def compact(self, handle: int, full: bool, later: int) -> None:
        self.clock.advance(later)
        try:
            compact(self.shards[handle], full=full)
        except LeaseLost:
            raise
        except StoreError:
            return

    @rule(handle=handles, later=pauses)
    def sweep(self, handle: int, later: int) -> None:
        self.clock.advance(later)
        try:
            sweep(self.shards[handle])
        except StoreError:
            return

    @rule(handle=handles)
    def roll_up(self, handle: int) -> None:
        machine = self.shards[handle].machine
        try:
            machine.roll(machine.fetch())
        except (StoreError, Conflict):
            return

    @rule(handle=handles)
    def restart(self, handle: int) -> None:
        self.shards[handle] = self.open(handle)

    @rule(target=held, handle=handles, back=st.integers(0, 500))
    def open_snapshot(self, handle: int, back: int) -> Any:
        state = self.truth().machine.fetch()
        as_of = max(state.since, state.upper - 1 - back)
        if as_of >= state.upper or len(self.open_snapshots) > 1:
            return multiple()
        try:
            found = snapshot(self.shards[handle], as_of)
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
            compact(self.truth(), full=True)
        self.clock.advance(later)
        if busy:
            sweep(self.truth())
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
        with updates(shard, start) as changes:
            got = [
                (named(row), row["_time"], row["_diff"]) for b in changes.batches() for row in b.to_pylist()
            ]
        sums: Counter[tuple[str, int]] = Counter()
        for name, time, diff in [*got, *((n, t, -d) for n, t, d in self.model if t >= start)]:
            sums[name, time] += diff
        assert not any(sums.values())

    @invariant()
    @precondition(lambda self: hasattr(self, "model"))
    def everything_acknowledged_is_there_once(self) -> None:
        shard = self.truth()
        state = shard.machine.fetch()
        last = max(state.upper - 1, state.since)
        for as_of in {state.since, (state.since + last) // 2, last} if state.upper else ():
            if as_of < state.upper:
                for way in (shard, self.truth(MERGING)):
                    with snapshot(way, as_of) as found:
                        assert read(found) == self.expected(as_of)
        assert sum(self.expected(last).values()) == sum(part.diffs for part in state.parts.all())

    def teardown(self) -> None:
        """At last nothing is left in the store but what the state refers to."""
        if not hasattr(self, "model"):
            return
        rollup.FANOUT = FANOUT
        self.faults.on = False
        for _ in range(2):  # the first may end with a rollup, which makes garbage of the one before
            self.clock.advance(100_000)
            sweep(self.truth())
        shard = self.truth()
        state = shard.machine.fetch()
        known = {part.name for part in state.parts.all()} | set(state.segments)
        known |= {state.rollup[0]} if state.rollup else set()
        left = {entry.name for entry in self.blob.list()}
        assert left == known
        self.everything_acknowledged_is_there_once()


def must_be_told(there: bool, error: StoreError) -> None:
    """What failed did not happen, unless it is said to be unknown."""
    assert not there or isinstance(error, IndeterminateError)


TestSimulation = Simulation.TestCase
TestSimulation.settings = settings(
    max_examples=int(os.environ.get("TIDEGATE_SIMULATIONS", "12")),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
