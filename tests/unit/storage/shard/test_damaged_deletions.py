"""Damaged bitmaps of deleted rows: every reader refuses them, by an error that names the part and the object."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.storage.deleting import (
    DELETE_ODD,
    RAISE_EVEN,
    SCHEMA,
    as_table,
    feed,
    read,
    run_change,
)
from tests.unit.storage.shard.test_deleted_rows import ROWS, body, deleted, filled
from tests.unit.storage.shards import World
from tidegate.database import Database
from tidegate.errors import CorruptError
from tidegate.storage.consensus.protocol import MemoryConsensus
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.expire import drop_expired
from tidegate.storage.maintain.settle import settle_retractions
from tidegate.storage.part.bitmaps import bitmaps_to_object, pack_positions
from tidegate.storage.part.deletion_records import with_column
from tidegate.storage.shard import shard as writer
from tidegate.storage.shard.changes import (
    Advance,
    Append,
    LogEntry,
    Release,
    Replace,
    decode_entry,
    encode_entry,
)
from tidegate.storage.shard.commit import AppendOptions, commit_built_parts
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.snapshot import open_snapshot


def packed(*positions: int) -> bytes:
    return pack_positions(np.array(positions))


WRONG: dict[str, tuple[list[bytes | None], str]] = {
    "a row that the part lacks": ([packed(1, 9)] * 3, "deletes row 9 of a part with 4 rows"),
    "a row too many": ([packed(0, 1, 3)] * 3, "deletes 3 rows, and its record says 2"),
    "a row too few": ([packed(1)] * 3, "deletes 1 rows, and its record says 2"),
    "no bitmap": ([b"nothing of the kind"] * 3, "cannot be read"),
    "a missing bitmap": ([], "is not there at place"),
    "a NULL": ([None] * 3, "is not there at place"),
}
"""Objects that are sealed as they should be, and hold something else: what a bug or another's object would be."""


def overwrite(shard: Shard) -> None:
    options = AppendOptions("whole", shard.machine.fetch().schema.id, overwrite=True)
    commit_built_parts(shard, [], options)


def retract(shard: Shard) -> None:
    """Settling looks for the row in the parts that may hold it."""
    shard.append(as_table([ROWS[4]]), diff=-1)
    settle_retractions(shard)


READERS: dict[str, Callable[[Shard], object]] = {
    "snapshot": read,
    "change feed": lambda shard: feed(shard, 10_025),
    "compaction": lambda shard: compact_shard(shard, full=True),
    "settling": retract,
    "UPDATE": lambda shard: run_change(shard, RAISE_EVEN.sql),
    "overwriting": overwrite,
}


@pytest.fixture
def in_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bitmaps are objects of their own."""
    monkeypatch.setattr(writer, "MAX_INLINE_BYTES", 10)


def forged(bitmaps: list[bytes | None]) -> bytes:
    return bitmaps_to_object(pa.table({"bitmap": pa.array(bitmaps, pa.binary())}))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_bitmap_in_an_object_is_refused(in_objects: None, reader: str, wrong: str) -> None:
    world, shard, history = filled()
    history.change(shard, DELETE_ODD)
    (name,) = world.objects("del/")
    bitmaps, says = WRONG[wrong]
    world.blob.put(name, forged(bitmaps))
    before = world.log.head("shard/s1")
    with pytest.raises(CorruptError, match=rf"the bitmap of deleted rows of part/s1/\w+, in {name}, {says}"):
        READERS[reader](world.open())
    if reader not in ("settling", "snapshot", "change feed"):
        assert not [e for e in changes_since(world, before) if isinstance(e, Append | Replace)]


def changes_since(world: World, before: Any) -> list[Any]:
    found = world.log.scan("shard/s1", before.number + 1)
    return [decode_entry("e", entry.data).change for entry in found]


@pytest.mark.parametrize("reader", [read, lambda shard: compact_shard(shard, full=True)])
def test_a_row_that_two_objects_delete_is_refused(
    in_objects: None, reader: Callable[[Shard], object]
) -> None:
    """The second entry is applied without a look at the objects; whoever reads both finds it."""
    world, shard, history = filled()
    history.change(shard, DELETE_ODD)
    stored = shard.store_deletions(shard.machine.fetch(), deleted(1, 1))
    shard.machine.update(lambda s: Append(s.upper, s.upper + 1, (), "x", deletions=stored.at(s.upper)))
    with pytest.raises(CorruptError, match=r"deletes rows more than once") as raised:
        reader(world.open())
    for name in world.objects("del/"):
        assert name in str(raised.value)


def hidden_by_counts(shard: Shard) -> None:
    """Two objects that delete half of a part's rows, both the same: by their counts all rows are deleted."""
    stored = shard.store_deletions(shard.machine.fetch(), deleted(1, 1, 3))
    shard.machine.update(lambda s: Append(s.upper, s.upper + 1, (), "x", deletions=stored.at(s.upper)))
    state = shard.machine.fetch()
    assert state.parts.deletions.totals(np.array([1]), 1 << 62)[0].tolist() == [state.parts.get(1).rows]


@pytest.mark.parametrize("reader", ["snapshot", "UPDATE"])
def test_rows_that_two_objects_hide_by_their_counts_are_not_hidden(in_objects: None, reader: str) -> None:
    world, shard, history = filled()
    history.change(shard, DELETE_ODD)
    hidden_by_counts(shard)
    before = world.log.head("shard/s1")
    with pytest.raises(CorruptError, match=r"part/s1/\w+, in .*, deletes rows more than once") as raised:
        READERS[reader](world.open())
    for name in world.objects("del/"):
        assert name in str(raised.value)
    assert not [e for e in changes_since(world, before) if isinstance(e, Append | Replace)]


def test_such_a_part_is_not_dropped(in_objects: None) -> None:
    world, shard, history = filled()
    history.change(shard, DELETE_ODD)
    hidden_by_counts(shard)
    shard.machine.update(lambda s: Release(tuple(s.leases)))
    shard.machine.update(lambda s: Advance(s.upper - 1))
    with pytest.raises(CorruptError, match="deletes rows more than once"):
        drop_expired(world.open())
    assert shard.machine.fetch().parts.holds(np.array([1]))


def test_no_object_deletes_a_row_twice(in_objects: None) -> None:
    _, shard, _ = filled()
    records = pa.concat_tables([deleted(1, 0, 1), deleted(1, 1, 2)])
    with pytest.raises(CorruptError, match="row 1 of part 1 would be deleted twice"):
        shard.store_deletions(shard.machine.fetch(), records)


def test_what_one_object_deletes_is_not_read(in_objects: None) -> None:
    world, shard, _ = filled()
    part = shard.machine.fetch().parts.get(1)
    stored = shard.store_deletions(shard.machine.fetch(), deleted(1, *range(part.rows)))
    shard.machine.update(lambda s: Append(s.upper, s.upper + 1, (), "x", deletions=stored.at(s.upper)))
    rest = sum(other.rows for other in shard.machine.fetch().parts.all()) - part.rows
    for name in world.objects("del/"):
        world.blob.delete(name)
    with open_snapshot(world.open()) as snapshot:
        assert sum(batch.num_rows for batch in snapshot.batches()) == rest


# ---------------------------------------------------------------- what the state refuses


@pytest.mark.parametrize("rolled", [False, True])
@pytest.mark.parametrize(
    ("records", "says"),
    [
        (deleted(1, 2, 3), r"deletes row 3 once more"),
        (deleted(1, 2, 4), r"deletes row 4 of a part with 4 rows"),
        (with_column(deleted(1, 0, 2), "rows", pa.array([1])), r"deletes 2 rows, and its record says 1"),
        (pa.concat_tables([deleted(1, 0), deleted(1, 0)]), r"deletes row 0 once more"),
        (with_column(deleted(1, 0), "bitmap", pa.array([b"?"])), r"cannot be read"),
    ],
)
def test_a_bitmap_that_does_not_fit_is_refused(records: pa.Table, says: str, rolled: bool) -> None:
    world, shard, history = filled()
    history.change(shard, DELETE_ODD)
    if rolled:
        shard.machine.roll(shard.machine.fetch())
        shard = world.open()
    name = shard.machine.fetch().parts.get(1).name
    for attempt in ("first", "second"):
        with pytest.raises(CorruptError, match=rf"of {name}, in the log, {says}"):
            shard.machine.update(lambda s, t=attempt: Append(s.upper, s.upper + 1, (), t, deletions=records))
    history.change(shard, RAISE_EVEN)
    history.check(shard, world.open())


def test_a_settlement_that_deletes_a_row_once_more_is_refused() -> None:
    world, shard, history = filled()
    history.change(shard, DELETE_ODD)
    state = shard.machine.fetch()
    part = replace(state.parts.get(2), diffs=5)
    with pytest.raises(CorruptError, match="deletes row 1 once more"):
        shard.machine.update(
            lambda _: Replace((2,), (part,), deletions=deleted(0, 1, 3), settled=deleted(1, 1), retracted=1)
        )
    assert shard.machine.fetch().number == state.number
    history.check(shard, world.open())


def test_an_entry_of_the_log_that_deletes_a_row_twice_is_refused_by_every_process() -> None:
    """As a writer with a bug would make it, which does not look."""
    world, shard, history = filled()
    history.change(shard, DELETE_ODD)
    state = shard.machine.fetch()
    bad = Append(state.upper, state.upper + 1, (), "x", deletions=deleted(1, 1, time=state.upper))
    assert world.log.compare_and_set("shard/s1", state.number, encode_entry(LogEntry("t", 0, bad)))
    for process in (shard, world.open()):
        with pytest.raises(CorruptError, match=r"part/s1/\w+, in the log, deletes row 1 once more"):
            read(process)


def test_a_proposal_that_lost_leaves_no_trace() -> None:
    """What is kept of deleted positions belongs to a state, not to what was tried with it."""
    _, shard, _ = filled()
    state = shard.machine.fetch()
    tried = state.parts.delete(deleted(1, 0))
    assert tried.deletions.rows == 1
    assert state.parts.delete(deleted(1, 0)).deletions.rows == 1
    twice = tried.delete(deleted(1, 1))
    with pytest.raises(CorruptError, match="row 1 once more"):
        twice.delete(deleted(1, 1))
    assert tried.delete(deleted(1, 1, 2)).deletions.rows == 3


# ---------------------------------------------------------------- flipped bytes


def places(size: int) -> list[int]:
    """The bytes to flip: all of the seal and of both ends, and every 13th."""
    return sorted({*range(min(size, 64)), *range(64, size, 13), *range(max(0, size - 16), size)})


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :]


def test_every_flipped_byte_of_an_object_is_an_error_that_names_it(in_objects: None) -> None:
    world, shard, history = filled()
    history.change(shard, DELETE_ODD)
    (name,) = world.objects("del/")
    data = world.blob.get(name) or b""
    for place in places(len(data)):
        world.blob.put(name, flipped(data, place))
        with pytest.raises(CorruptError, match=f"{name} is damaged"):
            read(world.open())
    world.blob.put(name, data)
    history.check(world.open())


def test_every_flipped_byte_of_an_entry_is_an_error_that_names_it() -> None:
    world, shard, history = filled()
    history.change(shard, DELETE_ODD)
    assert isinstance(world.log, MemoryConsensus)
    log = world.log._logs["shard/s1"]
    number = max(n for n, data in log.items() if b"append/2" in data)
    data = log[number]
    for place in places(len(data)):
        log[number] = flipped(data, place)
        with pytest.raises(CorruptError, match=f"shard/s1#{number} is damaged"):
            read(world.open())
    log[number] = data
    history.check(world.open())


def test_every_flipped_byte_of_a_rollup_is_an_error_that_names_it() -> None:
    world, shard, history = filled()
    history.change(shard, DELETE_ODD)
    shard.machine.roll(shard.machine.fetch())
    for name in (body(world)["deletions"], max(world.objects("roll/"))):
        data = world.blob.get(name) or b""
        for place in places(len(data)):
            world.blob.put(name, flipped(data, place))
            with pytest.raises(CorruptError, match=f"{name} is damaged"):
                read(world.open())
        world.blob.put(name, data)
    history.check(world.open())


# ---------------------------------------------------------------- queries


@pytest.mark.parametrize("late", ["on", "off"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM t",
        "SELECT * FROM t LIMIT 3",
        "SELECT id FROM t WHERE v > 30 LIMIT 2",
        "SELECT id FROM t WHERE v > 30",
        "SELECT id FROM t ORDER BY v DESC LIMIT 2",
        "SELECT sum(v), min(s) FROM t",
        "SELECT v % 3, count(*) FROM t GROUP BY 1",
        "SELECT count(*) FROM t WHERE v % 20 = 0",
        "SELECT a.id FROM t a JOIN t b ON a.id = b.v",
        "UPDATE t SET v = 0 WHERE v > 10",
        "DELETE FROM t WHERE s > 'r1'",
    ],
)
def test_no_query_returns_rows_by_a_wrong_bitmap(in_objects: None, sql: str, late: str) -> None:
    with Database.open(f"memory://{secrets.token_hex(6)}") as db:
        db.sql("CREATE TABLE t (id int8, v int8, s text)")
        for i in range(3):
            db.append("t", as_table(ROWS[4 * i : 4 * i + 4], SCHEMA))
        db.sql("DELETE FROM t WHERE id % 2 = 1")
        shard = db.context.table("t")
        (name,) = shard.machine.fetch().parts.deletions.objects
        shard.machine.blob.put(name, forged([packed(1, 9)] * 3))
        db.set("late_materialization", late == "on")
        with pytest.raises(CorruptError, match=f"in {name}, deletes row 9 of a part with 4 rows"):
            db.sql(sql).rows()


@pytest.mark.parametrize("wrong", WRONG)
def test_the_audit_of_a_count_finds_a_wrong_bitmap(in_objects: None, wrong: str) -> None:
    """The count itself needs no bitmap: it is what the records say."""
    with Database.open(f"memory://{secrets.token_hex(6)}") as db:
        db.sql("CREATE TABLE t (id int8, v int8, s text)")
        for i in range(3):
            db.append("t", as_table(ROWS[4 * i : 4 * i + 4], SCHEMA))
        db.sql("DELETE FROM t WHERE id % 2 = 1")
        shard = db.context.table("t")
        (name,) = shard.machine.fetch().parts.deletions.objects
        bitmaps, says = WRONG[wrong]
        shard.machine.blob.put(name, forged(bitmaps))
        db.set("audit", 0)
        assert db.sql("SELECT count(*) FROM t").rows() == [(6,)]
        db.set("audit", 1)
        with pytest.raises(CorruptError, match=f"in {name}, {says}"):
            db.sql("SELECT count(*) FROM t").rows()
