"""Stores that did the work and say that they did not, or the other way round: nothing acknowledged is lost, nothing live deleted.

Each fault is planted at each of the entries that an operation makes, one at a time; `tests/simulation` plants them at random.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.faults import CONTESTS, Fault, Faults, FaultyConsensus
from tests.unit.storage.maintain.test_sweep import write
from tests.unit.storage.shard.test_append import Meddling
from tests.unit.storage.shards import CONFIG, QUICK, SCHEMA, World, ids, rows
from tidegate.clock import ManualClock
from tidegate.errors import IndeterminateError, ReadOnlyError, StoreError
from tidegate.storage.blob import files as file
from tidegate.storage.blob.files import FileBlob
from tidegate.storage.blob.protocol import MemoryBlob
from tidegate.storage.consensus.object_log import LogConsensus
from tidegate.storage.consensus.protocol import Consensus
from tidegate.storage.consensus.sql import SqliteConsensus
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.rewrite import WrittenParts, swap
from tidegate.storage.maintain.sweep import sweep_shard
from tidegate.storage.retry import RetryPolicy
from tidegate.storage.shard.changes import Forget
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.shard import PartSwept, Shard


class FailsAt:
    """A consensus that has one fault, at the compare-and-set of this number."""

    def __init__(self, inner: Consensus, at: int, fault: Fault) -> None:
        self.inner, self.at, self.calls = inner, at, 0
        self.faulty = FaultyConsensus(inner, Faults(1, often=1.0, kinds=(fault,)))

    def compare_and_set(self, key: str, expected: int | None, data: bytes) -> bool:
        self.calls += 1
        store = self.faulty if self.calls - 1 == self.at else self.inner
        return store.compare_and_set(key, expected, data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def named_parts(world: World) -> set[str]:
    return {part.name for part in world.open().machine.fetch().parts.all()}


@pytest.mark.parametrize("fault", CONTESTS)
@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("patience", [1, 3])
def test_one_wrong_answer(fault: Fault, at: int, patience: int) -> None:
    """Of an append, and of the three entries of a compaction: its lease, its new parts, the end of its lease."""
    world = World()
    first = world.create()
    for i in range(2):
        first.append(rows(i))
    log = FailsAt(world.log, at, fault)
    machine = Machine(log, world.blob, "shard/s1", world.clock, RetryPolicy(patience, 0, 0))
    shard = Shard(machine, CONFIG)
    try:
        shard.append(rows(2), token="t")
        compact_shard(shard, full=True)
    except StoreError:
        assert patience == 1, "asked again, it is clear"
    log.faulty.faults.arrive_all()
    assert log.calls > at
    there = [0, 1, *([2] if "t" in world.open().machine.fetch().tokens else [])]
    assert ids(world.open()) == there
    assert patience == 1 or there == [0, 1, 2]
    assert named_parts(world) <= world.objects("part/")


@pytest.mark.parametrize("refusal", [StoreError, ReadOnlyError])
def test_an_error_after_the_work_is_no_failure(refusal: type[StoreError]) -> None:
    world = World()
    world.create()

    class Refusing(Meddling):
        def compare_and_set(self, key: str, expected: int | None, data: bytes) -> bool:
            self.inner.compare_and_set(key, expected, data)
            raise refusal("it is said to have failed")

    machine = Machine(Refusing(world.log, ""), world.blob, "shard/s1", world.clock, RetryPolicy(1, 0, 0))
    Shard(machine, CONFIG).append(rows(1))
    assert ids(world.open()) == [1]


def test_a_plain_error_that_nothing_contradicts_is_raised_as_it_is() -> None:
    world = World()
    world.create()

    class Full(Meddling):
        def compare_and_set(self, key: str, expected: int | None, data: bytes) -> bool:
            raise StoreError("the disk is full")

    shard = Shard(Machine(Full(world.log, ""), world.blob, "shard/s1", world.clock, QUICK), CONFIG)
    with pytest.raises(StoreError, match="the disk is full") as caught:
        shard.append(rows(1))
    assert type(caught.value) is StoreError
    assert world.objects("part/") == set(), "what was surely not appended is deleted"


def test_an_answer_that_never_comes_keeps_the_parts() -> None:
    """The request is still on its way when its writer gives up: the part must be there when it arrives."""
    world = World()
    world.create()
    log = FailsAt(world.log, 0, Fault.LATE)
    shard = Shard(Machine(log, world.blob, "shard/s1", world.clock, RetryPolicy(1, 0, 0)), CONFIG)
    with pytest.raises(IndeterminateError):
        shard.append(rows(1))
    assert world.open().machine.fetch().parts.count == 0
    log.faulty.faults.arrive_all()
    assert ids(world.open()) == [1]


def test_nobody_deletes_what_the_newest_state_names() -> None:
    world = World()
    shard = world.create()
    shard.discard(shard.append(rows(1)).parts)
    assert ids(world.open()) == [1]


# ------------------------------------------------------------------------------------------------ sweep and sleepers


@pytest.mark.parametrize("jump", [0, -100_000, 100_000])
def test_parts_that_were_swept_are_written_again(jump: int) -> None:
    """The writer sleeps between its part and its entry, sweep takes the part; the writer's clock may have jumped meanwhile."""
    world = World()
    world.create()
    sweeper, clock = world.open(), ManualClock(10_000)
    log, blob = Meddling(world.log, "scan"), Meddling(world.blob, "put")
    writer = Shard(Machine(log, blob, "shard/s1", clock, QUICK), CONFIG)

    def sleep() -> None:
        world.clock.advance(5000)
        clock.advance(jump)
        assert sweep_shard(sweeper).orphans == 1

    blob.first = lambda: setattr(log, "first", sleep)
    (part,) = writer.append(rows(1)).parts
    assert world.objects("part/") == {part.name}
    assert ids(world.open()) == [1]


def test_parts_that_waited_long_and_were_not_swept_are_appended() -> None:
    world = World()
    shard = world.create()
    shard.append(rows(1))
    parts = write(shard, 2)
    world.clock.advance(1_000_000)
    shard.commit(parts, at=None, token="t")
    assert ids(world.open()) == [1, 2]


@pytest.mark.parametrize("deleted", [False, True])
def test_a_part_that_sweep_is_about_to_delete_is_not_appended(deleted: bool) -> None:
    """The fence is there, and its part is garbage; or it is deleted, and forgotten."""
    world = World()
    shard = world.create()
    parts = write(shard, 1)
    shard.machine.update(lambda _: Forget((), (parts[0].name,)))
    if deleted:
        world.blob.delete(parts[0].name)
        shard.machine.update(lambda _: Forget((parts[0].name,)))
    with pytest.raises(PartSwept, match="was swept before it could be appended"):
        shard.commit(parts, at=None, token="t")
    with pytest.raises(PartSwept):
        swap(shard, [], WrittenParts(tuple(parts), ended=-1), shard.machine.fetch(), anyway=True)
    shard.commit(write(shard, 2), at=None, token="u")
    assert ids(world.open()) == [2]


def test_the_fence_outlives_a_rollup() -> None:
    world = World()
    shard = world.create()
    parts = write(shard, 1)
    shard.machine.update(lambda _: Forget((), (parts[0].name,)))
    shard.machine.roll(shard.machine.fetch())
    assert world.open().machine.fetch().fence == 1
    with pytest.raises(PartSwept):
        world.open().commit(parts, at=None, token="t")


# ------------------------------------------------------------------------------------------------ the stores themselves


@pytest.fixture
def fsync_fails_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Says when the next fsync of a folder is to fail."""
    fsync, failing = file._fsync_folder, [False]

    def fail(folder: Path) -> None:
        if failing[0]:
            failing[0] = False
            raise OSError(5, os.strerror(5))
        fsync(folder)

    monkeypatch.setattr(file, "_fsync_folder", fail)
    return lambda: failing.__setitem__(0, True)


def test_a_folder_whose_fsync_fails_leaves_it_unknown(
    tmp_path: Path, fsync_fails_once: Callable[[], None]
) -> None:
    blob = FileBlob(tmp_path)
    blob.create("log/0", b"x")
    fsync_fails_once()
    with pytest.raises(IndeterminateError, match="log/1: Input/output error after it was written"):
        blob.create("log/1", b"mine")
    assert blob.get("log/1") == b"mine"
    fsync_fails_once()
    with pytest.raises(IndeterminateError):
        blob.create("log/1", b"mine")  # asked again: it is made durable, or that is still unknown
    assert not blob.create("log/1", b"mine")


@pytest.mark.parametrize("what", ["append", "compact"])
def test_metadata_in_files_whose_fsync_fails(
    tmp_path: Path, what: str, fsync_fails_once: Callable[[], None]
) -> None:
    blob = FileBlob(tmp_path)
    log = LogConsensus(blob)
    shard = Shard.create(Machine(log, blob, "shard/s1", retries=QUICK), SCHEMA)
    for i in range(3):
        shard.append(rows(i))
    failing = Meddling(log, "compare_and_set")
    shard.machine.consensus = failing
    failing.first = fsync_fails_once
    if what == "append":
        shard.append(rows(3))
    else:
        compact_shard(shard, full=True)
        failing.first = fsync_fails_once
        shard.append(rows(3))
    other = Shard(Machine(LogConsensus(FileBlob(tmp_path)), FileBlob(tmp_path), "shard/s1"))
    assert ids(other) == [0, 1, 2, 3]


def test_a_link_that_is_told_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS sends a link again whose answer was lost, and is told that the name exists: by its first try."""
    link = os.link

    def twice(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    blob = FileBlob(tmp_path)
    monkeypatch.setattr(os, "link", twice)
    assert blob.create("x", b"mine")
    assert not blob.create("x", b"another's")
    assert blob.get("x") == b"mine"


def test_sqlite_whose_disk_fails_does_not_know(tmp_path: Path) -> None:
    """SQLite's own code for an input/output error: the entry may be in its log all the same."""
    import sqlite3

    log = SqliteConsensus(tmp_path / "x.sqlite")
    log.compare_and_set("k", None, b"0")

    class Failing:
        def __init__(self, code: int) -> None:
            self.error = sqlite3.OperationalError("disk I/O error")
            self.error.sqlite_errorcode = code  # type: ignore[misc]  # as SQLite sets it

        def get(self) -> Failing:
            return self

        def execute(self, *_: object) -> None:
            raise self.error

    working = log._connections
    for code, kind in ((sqlite3.SQLITE_IOERR_FSYNC, IndeterminateError), (sqlite3.SQLITE_FULL, StoreError)):
        log._connections = Failing(code)  # type: ignore[assignment]  # a disk that fails
        with pytest.raises(StoreError) as caught:
            log.compare_and_set("k", 0, b"1")
        assert type(caught.value) is kind
    log._connections = working
    log.close()


@pytest.mark.parametrize("jump_ms", [-3_600_000, -1, 3_600_000])
def test_a_clock_that_jumps_leaves_no_hole_in_a_log_of_objects(jump_ms: int) -> None:
    """Entries are dated by the store's clock, which is set back (or ahead) between two rollups; a sleeper wakes up after both."""
    clock = ManualClock(10_000_000)
    blob = MemoryBlob(clock)

    def open_machine() -> Machine:
        return Machine(LogConsensus(blob), blob, "shard/s1", ManualClock(10_000_000), QUICK)

    writer = Shard.create(open_machine(), SCHEMA)
    sleeper = Shard(open_machine())
    writer.append(rows(0))
    sleeper.append(rows(1))
    for i in range(2, 150):
        writer.append(rows(i))
    clock.advance(jump_ms)
    for i in range(150, 400):
        writer.append(rows(i))
    assert len(list(blob.list("log/"))) < 300, "rollups truncate the log whatever the clock says"
    sleeper.append(rows(400))
    assert ids(Shard(open_machine())) == list(range(401))
    assert ids(sleeper) == ids(writer) == list(range(401))
