"""Maintenance by itself: writers take small steps after their commits, and nothing that is committed depends on them."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tidegate.clock import ManualClock
from tidegate.config import Config
from tidegate.errors import StoreError
from tidegate.storage.maintain import after_commit
from tidegate.storage.maintain.after_commit import MaintenanceStep, next_step, small_parts
from tidegate.storage.part import Part
from tidegate.storage.shard import State

FEW = Config(maintenance_parts=8, compact_fanout=4, audit=1.0)


def steps(db: tidegate.Database) -> Counter[str]:
    """How many steps were taken, by name."""
    lines = [
        line for line in db.metrics().splitlines() if line.startswith("tidegate_maintenance_steps_total{")
    ]
    return Counter({line.split('"')[1]: int(float(line.split()[-1])) for line in lines})


def parts(db: tidegate.Database, name: str = "t") -> list[Part]:
    return db.context.table(name).machine.fetch().parts.all()


def append(db: tidegate.Database, numbers: range) -> None:
    for i in numbers:
        db.append("t", {"id": [i], "s": [f"row {i}"]})


@pytest.fixture
def db() -> Any:
    with tidegate.open("memory://", config=FEW) as found:
        found.sql("CREATE TABLE t (id int8, s text)")
        yield found


def state_with(sizes: list[int]) -> State:
    """A state with parts of these sizes."""
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (id int8)")
        shard = db.context.table("t")
        db.append("t", {"id": [1]})
        (part,) = shard.machine.fetch().parts.all()
        copies = [replace(part, id=-1, name=f"{part.name}{i}", size=size) for i, size in enumerate(sizes)]
        shard.commit(copies, at=None, token="copies")
        return shard.machine.fetch()


@pytest.mark.parametrize(
    ("sizes", "left", "config", "step"),
    [
        ([10] * 6, 0, FEW, None),
        ([10] * 7, 0, FEW, MaintenanceStep.MERGE),  # and the one that was appended
        ([10] * 30, 30, FEW, None),
        ([10] * 30, 22, FEW, MaintenanceStep.MERGE),
        ([1 << 30] * 30, 0, FEW, None),  # full ones
        ([1 << 30] * 30 + [10] * 7, 0, FEW, MaintenanceStep.MERGE),
        ([10] * 30, 0, Config(maintenance=False, maintenance_parts=8), None),
        ([10] * 126, 0, Config(), None),
        ([10] * 127, 0, Config(), MaintenanceStep.MERGE),
    ],
)
def test_the_step_follows_from_the_state(
    sizes: list[int], left: int, config: Config, step: MaintenanceStep | None
) -> None:
    assert next_step(state_with(sizes), config, 0, left) is step


def test_many_small_commits_leave_few_parts(db: tidegate.Database) -> None:
    most = 0
    for i in range(0, 100, 5):
        append(db, range(i, i + 5))
        most = max(most, len(parts(db)))
    assert most <= 2 * FEW.maintenance_parts + 3 * FEW.compact_fanout
    assert steps(db)["merge"] >= 5
    found = db.sql("SELECT id, s FROM t ORDER BY id")
    assert found.rows() == [(i, f"row {i}") for i in range(100)]
    assert sum(part.rows for part in parts(db)) == 100


def test_every_time_reads_as_before(db: tidegate.Database) -> None:
    counts = {}
    for i in range(40):
        at = db.append("t", {"id": [i], "s": [None]})
        counts[at] = i + 1
    assert steps(db)["merge"]
    for at, count in counts.items():
        assert db.sql("SELECT count(*), count(id) FROM t", as_of=at).rows() == [(count, count)]


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES ({i}, 'x')",
        "INSERT INTO t SELECT {i}, s FROM t LIMIT 1",
        "UPDATE t SET s = '{i}' WHERE id = 0",
    ],
)
def test_statements_maintain_too(db: tidegate.Database, sql: str) -> None:
    append(db, range(2))
    for i in range(20):
        db.sql(sql.format(i=i))
    assert steps(db)["merge"]
    assert len(parts(db)) < 20


def test_the_off_switch(db: tidegate.Database) -> None:
    db.set("maintenance", False)
    append(db, range(30))
    assert (len(parts(db)), steps(db)) == (30, Counter())
    db.sql("SET maintenance = on")
    append(db, range(30, 31))
    assert steps(db)["merge"] == 1
    assert len(parts(db)) < 10


def test_what_cannot_be_merged_is_not_tried_at_each_commit(
    db: tidegate.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []
    monkeypatch.setattr(after_commit, "compact_shard", lambda shard, **_: tried.append(len(parts(db))))
    append(db, range(40))
    assert tried == [8, 16, 24, 32, 40]
    assert small_parts(db.context.table("t").machine.fetch(), FEW) == 40


@pytest.mark.parametrize("error", [StoreError("the store does not answer"), IndexError("a fault of ours")])
@pytest.mark.parametrize("step", ["compact_shard", "collect_garbage"])
@pytest.mark.usefixtures("commits_make_files")
def test_a_step_that_fails_loses_nothing_and_is_due_again(
    db: tidegate.Database, monkeypatch: pytest.MonkeyPatch, step: str, error: Exception
) -> None:
    failing = True
    take = getattr(after_commit, step)

    def fail(*args: Any, **named: Any) -> Any:
        if failing:
            raise error
        return take(*args, **named)

    monkeypatch.setattr(after_commit, step, fail)
    db.set("sweep_grace_ms", 0)
    append(db, range(60))
    assert db.sql("SELECT count(*) FROM t").rows() == [(60,)]
    kind = "merge" if step == "compact_shard" else "delete"
    assert not steps(db)[kind]
    failing = False
    append(db, range(60, 61))
    assert steps(db)[kind] == 1


@pytest.mark.usefixtures("commits_make_files")
def test_replaced_files_are_deleted_after_the_grace(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    with tidegate.open(tmp_path / "lake", clock=clock, config=FEW) as db:
        db.sql("CREATE TABLE t (id int8, s text)")
        append(db, range(40))
        files = {path for path in (tmp_path / "lake" / "part").rglob("*") if path.is_file()}
        assert len(files) > 40
        assert not steps(db)["delete"], "readers may still need them"
        clock.advance(FEW.sweep_grace_ms + 1)
        for i in range(8):
            append(db, range(40 + i, 41 + i))
        assert steps(db)["delete"]
        there = {path.name for path in (tmp_path / "lake" / "part").rglob("*") if path.is_file()}
        assert {part.name.rpartition("/")[2] for part in parts(db)} <= there
        assert len(there) < 40
        assert db.sql("SELECT count(*), sum(id) FROM t").rows() == [(48, sum(range(48)))]


def test_readers_keep_what_they_read(tmp_path: Path) -> None:
    """A result that is read slowly holds a lease: no step deletes its parts, whatever the clock says."""
    clock = ManualClock(1_000_000)
    with tidegate.open(tmp_path / "lake", clock=clock, config=FEW) as db:
        db.sql("CREATE TABLE t (id int8, s text)")
        append(db, range(7))
        names = {part.name for part in parts(db)}
        with db.session() as reader:
            batches = reader.sql("SELECT id FROM t").batches()
            append(db, range(7, 40))
            clock.advance(60_000)
            append(db, range(40, 80))
            got = [value for batch in batches for value in batch.column(0).to_pylist()]
        assert sorted(got) == list(range(7))
        assert not names <= {part.name for part in parts(db)}, "they were merged meanwhile"


def test_many_writers_at_once(tmp_path: Path) -> None:
    """Two handles with four threads each, as two processes would: every row is there once."""
    with (
        tidegate.open(tmp_path / "lake", config=FEW) as db,
        tidegate.open(tmp_path / "lake", config=FEW) as other,
    ):
        db.sql("CREATE TABLE t (id int8, s text)")
        errors: list[BaseException] = []

        def write(to: tidegate.Database, first: int) -> None:
            try:
                append(to, range(first, first + 12))
            except BaseException as error:  # noqa: BLE001  # shown by the assertion below
                errors.append(error)

        threads = [threading.Thread(target=write, args=((db, other)[i % 2], 12 * i)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert sorted(db.sql("SELECT id FROM t").rows()) == [(i,) for i in range(96)]
        assert steps(db)["merge"] + steps(other)["merge"]
