"""Leases: one for all readers of a process, which costs reads nothing, protects them, and is in nobody's way for long."""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from dataclasses import dataclass, field

import pytest

from tests.unit.storage.shards import World, changes, ids, rows
from tidegate.clock import SystemClock
from tidegate.errors import IndeterminateError, LeaseLost, ReadOnlyError, StoreError, TimeError
from tidegate.storage.consensus.protocol import Consensus, MemoryConsensus, NumberedEntry
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.sweep import Swept, sweep_shard
from tidegate.storage.shard.change_feed import open_changes
from tidegate.storage.shard.changes import Advance, DropShard, Hold
from tidegate.storage.shard.leases.keeper import LeaseKeeper
from tidegate.storage.shard.leases.lease import hold_lease, release_shared_lease, renew_leases, share_lease
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.snapshot import Snapshot, open_snapshot
from tidegate.storage.shard.state import Conflict


@dataclass
class Refusing:
    """A consensus that may, when it is told to, only be read; or that makes an entry and loses the answer."""

    inner: Consensus = field(default_factory=MemoryConsensus)
    refuses: bool = False
    loses: bool = False
    refused: int = 0

    def compare_and_set(self, key: str, expected: int | None, data: bytes) -> bool:
        if self.refuses:
            self.refused += 1
            raise ReadOnlyError("attempt to write a readonly database")
        won = self.inner.compare_and_set(key, expected, data)
        if self.loses:
            raise IndeterminateError("the answer was lost")
        return won

    def head(self, key: str) -> NumberedEntry | None:
        return self.inner.head(key)

    def scan(self, key: str, first: int, limit: int = 1_000_000) -> list[NumberedEntry]:
        if self.loses and limit == 1:
            raise StoreError("does not answer")
        return self.inner.scan(key, first, limit)

    def truncate(self, key: str, before: int) -> None:
        self.inner.truncate(key, before)

    def keys(self) -> list[str]:
        return self.inner.keys()

    def remove_log(self, key: str) -> None:
        self.inner.remove_log(key)

    def close(self) -> None:
        self.inner.close()


def read(found: Snapshot) -> list[int]:
    return sorted(i for batch in found.batches(["id"]) for i in batch.column(0).to_pylist())


def filled(world: World, **knobs: object) -> Shard:
    shard = world.create(compact_fanout=2, **knobs)
    for i in range(4):
        shard.append(rows(i))
    return shard


def test_reads_write_nothing_but_the_first() -> None:
    shard = filled(World())
    assert ids(shard) == [0, 1, 2, 3]
    number = shard.machine.fetch().number
    for _ in range(100):
        assert ids(shard) == [0, 1, 2, 3]
        assert ids(shard, 10_000) == [0]
        assert len(changes(shard, 1)) == 4
    assert shard.machine.fetch().number == number
    assert len(shard.machine.fetch().leases) == 1


def test_appends_are_seen_at_once_and_need_no_new_lease() -> None:
    world = World()
    shard = filled(world)
    ids(shard)
    world.open().append(rows(9))
    number = shard.machine.fetch().number
    assert ids(shard) == [0, 1, 2, 3, 9]
    assert shard.machine.fetch().number == number


def test_a_snapshot_of_a_later_state_is_protected_by_the_earlier_lease() -> None:
    world = World()
    shard = filled(world, lease_ms=100_000)
    ids(shard)
    shard.append(rows(4))
    number = shard.machine.fetch().number
    with open_snapshot(shard) as found:
        assert shard.machine.fetch().number == number
        other = world.open(compact_fanout=2)
        assert compact_shard(other, full=True).removed == 5
        world.clock.advance(5000)
        assert sweep_shard(other) == Swept()
        assert sweep_shard(shard) == Swept()  # our own process knows that it reads
        assert read(found) == [0, 1, 2, 3, 4]
    assert sweep_shard(shard) == Swept(garbage=5)
    assert ids(shard) == [0, 1, 2, 3, 4]


def test_since_does_not_pass_the_shared_lease_and_follows_it() -> None:
    world = World()
    shard = world.create(options={"retention_ms": 100}, lease_ms=1000)
    for at in (100, 200, 300, 10_000):
        shard.append(rows(at), at=at)
    with open_snapshot(shard, 200) as found:
        number = shard.machine.fetch().number
        assert ids(shard, 250) == [100, 200]  # after the lease's time: nothing is written
        assert shard.machine.fetch().number == number
        assert compact_shard(world.open()).since == 200
        assert ids(shard, 200) == read(found) == [100, 200]
    world.clock.advance(250)  # a quarter
    assert ids(shard) == [100, 200, 300, 10_000]
    assert compact_shard(world.open()).since == 10_000


def test_an_earlier_time_than_the_lease_has_is_asked_for_by_an_entry() -> None:
    world = World()
    shard = world.create(options={"retention_ms": 100})
    for at in (100, 200, 10_000):
        shard.append(rows(at), at=at)
    ids(shard)
    (lease,) = shard.machine.fetch().leases.values()
    assert lease.since == 9_900  # where retention would have `since`
    number = shard.machine.fetch().number
    with open_snapshot(shard, 150) as found:
        assert shard.machine.fetch().number == number + 1
        assert compact_shard(world.open()).since == 150
        with pytest.raises(TimeError, match="kept from 150 on"):
            open_snapshot(shard, 149)
        assert read(found) == [100]


def test_the_lease_moves_up_with_the_oldest_reader_that_is_open() -> None:
    world = World()
    shard = filled(world, lease_ms=1000)
    first = open_snapshot(shard)
    start = shard.machine.fetch().number
    for i in range(10, 13):  # readers overlap: there is always one
        shard.append(rows(i))
        compact_shard(world.open(compact_fanout=2), full=True)
        later = open_snapshot(shard)
        first.close()
        first = later
        world.clock.advance(300)
        assert read(later) == [0, 1, 2, 3, *range(10, i + 1)]
    (lease,) = shard.machine.fetch().leases.values()
    assert lease.number > start
    assert first.state.number >= lease.number
    first.close()


def test_a_lease_that_was_taken_away_is_lost_for_its_readers_and_replaced_for_others() -> None:
    world = World()
    shard = filled(world)
    old = open_snapshot(shard)
    world.clock.advance(1001)
    assert sweep_shard(world.open()).leases == 1
    with open_snapshot(shard) as found:
        assert found.lease.reader != old.lease.reader
        with pytest.raises(LeaseLost, match="ran out"):
            read(old)
        with pytest.raises(LeaseLost, match="ran out"):
            old.lease.keep()
        assert read(found) == [0, 1, 2, 3]
        old.close()
        assert list(shard.machine.fetch().leases) == [found.lease.reader]


def test_a_forgotten_reader_holds_nothing() -> None:
    shard = filled(World())
    found = open_snapshot(shard)
    release_shared_lease(shard)
    assert len(shard.machine.fetch().leases) == 1
    del found
    gc.collect()
    release_shared_lease(shard)
    assert shard.machine.fetch().leases == {}
    own = hold_lease(shard, lambda state: state.since)
    assert list(shard.machine.fetch().leases) == [own.reader]
    del own
    gc.collect()
    with hold_lease(shard, lambda state: state.since) as own:
        assert list(shard.machine.fetch().leases) == [own.reader]
    assert shard.machine.fetch().leases == {}


def test_compact_then_sweep_in_one_process_that_reads_deletes_garbage() -> None:
    world = World()
    shard = filled(world, lease_ms=10_000_000)
    ids(shard)
    assert compact_shard(shard, full=True).removed == 4
    ids(shard)
    world.clock.advance(2000)
    assert sweep_shard(shard) == Swept(garbage=4)


def test_an_unknown_outcome_makes_no_reader_trust_the_lease() -> None:
    """A renewal may have moved the lease up, or may yet: a reader of an earlier time must not count on it."""
    world = World(log=Refusing())
    shard = world.create(options={"retention_ms": 100})
    for at in (100, 10_000):
        shard.append(rows(at), at=at)
    with open_snapshot(shard) as early:
        world.clock.advance(500)
        world.log.loses = True  # type: ignore[attr-defined]  # it is a Refusing
        with pytest.raises(IndeterminateError):
            early.lease.keep()
        world.log.loses = False  # type: ignore[attr-defined]  # it is a Refusing
        with open_snapshot(shard, 150) as found:
            assert found.lease.reader != early.lease.reader
            assert compact_shard(world.open()).since == 150
            assert (read(found), read(early)) == ([100], [100, 10_000])
    renew_leases(shard.machine, shard.config.lease_ms)
    world.clock.advance(500)
    renew_leases(shard.machine, shard.config.lease_ms)
    assert shard.machine.fetch().leases == {}


def test_a_dropped_collection_cannot_be_read_though_its_lease_lives() -> None:
    world = World()
    shard = filled(world)
    ids(shard)
    world.machine().update(lambda _: DropShard())
    with pytest.raises(Conflict, match="dropped"):
        open_snapshot(shard)


def test_an_idle_process_lets_go_and_a_busy_one_renews() -> None:
    world = World()
    shard = filled(world)
    ids(shard)
    world.clock.advance(200)
    ids(shard)
    world.clock.advance(60)
    renew_leases(
        shard.machine, shard.config.lease_ms
    )  # a quarter of the lease is over, not of the time since the last reader
    (lease,) = shard.machine.fetch().leases.values()
    assert lease.until == world.clock.now() + 1000
    assert lease.number == shard.machine.fetch().number
    world.clock.advance(200)
    renew_leases(shard.machine, shard.config.lease_ms)
    assert shard.machine.fetch().leases == {}
    number = shard.machine.fetch().number
    renew_leases(shard.machine, shard.config.lease_ms)
    assert shard.machine.fetch().number == number
    with open_snapshot(shard) as silent:
        for _ in range(10):
            world.clock.advance(500)
            renew_leases(shard.machine, shard.config.lease_ms)
            sweep_shard(world.open())
        assert read(silent) == [0, 1, 2, 3]


def test_a_heart_beats_for_silent_readers() -> None:
    world = World()
    world.clock = SystemClock()  # type: ignore[assignment]  # real time for once
    shard = world.create(lease_ms=200)
    keeper = LeaseKeeper(200)
    keeper.keep(shard.machine)
    with open_snapshot(shard) as found:
        first = found.lease.until
        time.sleep(0.5)
        assert found.lease.until > first
        assert sweep_shard(world.open()).leases == 0
    waited = time.monotonic() + 30
    while shard.machine.fetch().leases and time.monotonic() < waited:
        time.sleep(0.02)
    assert shard.machine.fetch().leases == {}


def test_a_store_that_may_only_be_read_is_read_without_a_lease(caplog: pytest.LogCaptureFixture) -> None:
    log = Refusing()
    world = World(log=log)
    shard = filled(world)
    log.refuses = True
    reader = world.open()
    with caplog.at_level(logging.INFO, "tidegate"):
        for _ in range(5):
            assert ids(reader) == [0, 1, 2, 3]
            assert ids(reader, 10_000) == [0]
        world.clock.advance(250)
        assert ids(reader) == [0, 1, 2, 3]
    assert log.refused == 2  # once, and again after a quarter of a lease
    assert [r.getMessage() for r in caplog.records] == [
        "shard/s1 is read without a lease: the store is read-only for this process"
    ]
    with pytest.raises(ReadOnlyError):
        reader.append(rows(9))
    with open_snapshot(reader) as found:
        log.refuses = False
        compact_shard(shard, full=True)
        world.clock.advance(1999)
        sweep_shard(shard)
        assert read(found) == [0, 1, 2, 3]  # within the grace
        world.clock.advance(1)
        sweep_shard(shard)
        with pytest.raises(StoreError, match=r"part/s1/\w+ is missing") as error:
            read(found)
        assert error.value.hint == (
            "s1 was read without a lease, and compaction and sweep replaced the part meanwhile; read again"
        )
    assert ids(reader) == [0, 1, 2, 3]
    assert len(shard.machine.fetch().leases) == 1  # it may write now, so it has one


def test_a_store_that_becomes_read_only_lets_readers_go_on() -> None:
    log = Refusing()
    shard = filled(World(log=log))
    with open_snapshot(shard) as found:
        log.refuses = True
        shard.clock.advance(500)  # type: ignore[attr-defined]  # a ManualClock
        assert read(found) == [0, 1, 2, 3]
        assert ids(shard) == [0, 1, 2, 3]


def test_many_threads_read_under_one_lease() -> None:
    world = World()
    shard = filled(world)
    failures: list[BaseException] = []
    stop = threading.Event()

    def reads() -> None:
        try:
            while not stop.is_set():
                assert ids(shard)[:4] == [0, 1, 2, 3]
        except BaseException as error:  # noqa: BLE001  # shown below
            failures.append(error)

    threads = [threading.Thread(target=reads) for _ in range(4)]
    for thread in threads:
        thread.start()
    other = world.open(compact_fanout=2)
    for i in range(20):
        other.append(rows(10 + i))
        compact_shard(other, full=True)
        world.clock.advance(260)
        sweep_shard(other)
        sweep_shard(shard)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(shard.machine.fetch().leases) <= 1


def test_a_forked_process_has_a_lease_of_its_own() -> None:
    shard = filled(World())
    with share_lease(shard, lambda state: state.since) as ours:
        child = os.fork()
        if child == 0:
            with share_lease(shard, lambda state: state.since) as theirs:
                os._exit(0 if theirs.reader != ours.reader else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_state_moves_a_lease_only_where_it_protects() -> None:
    shard = filled(World())
    machine = shard.machine
    machine.update(lambda _: Hold("r", 5, 99_999))
    made = machine.fetch().leases["r"].number
    assert machine.update(lambda _: Hold("r", 5, 99_999)).leases["r"].number == made
    assert machine.update(lambda _: Hold("r", 5, 99_999, made - 1)).leases["r"].number == made
    state = machine.update(lambda _: Hold("r", 7, 99_999, 10**6))
    assert (state.leases["r"].since, state.leases["r"].number) == (7, state.number)
    assert machine.update(lambda _: Hold("r", 3, 99_999)).leases["r"].since == 3
    assert machine.update(lambda _: Advance(9)).since == 3
    with pytest.raises(Conflict, match="time 2 can no longer be read"):
        machine.update(lambda _: Hold("r", 2, 99_999))


def test_changes_are_protected_too() -> None:
    world = World()
    shard = filled(world, lease_ms=100_000)
    ids(shard)
    with open_changes(shard, 1) as found:
        compact_shard(world.open(compact_fanout=2), full=True)
        world.clock.advance(5000)
        assert sweep_shard(world.open()) == Swept()
        assert sum(batch.num_rows for batch in found.batches()) == 4
