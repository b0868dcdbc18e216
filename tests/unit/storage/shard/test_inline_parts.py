"""Small commits: their parts are in the log, and make no file until they are merged."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidegate
from tests.unit.storage.shards import World, changes, ids, rows
from tidegate.config import Config
from tidegate.errors import CorruptError
from tidegate.storage.maintain import compact, sweep_shard, verify_objects
from tidegate.storage.maintain.compact import compact_shard, store_inline_parts
from tidegate.storage.part.checksum import unseal
from tidegate.storage.shard import changes as entries
from tidegate.storage.shard import machine as log
from tidegate.storage.shard import rollup
from tidegate.storage.shard import shard as writer
from tidegate.storage.shard.shard import PartSwept, Shard
from tidegate.storage.shard.state import Conflict

SMALL = Config().inline_bytes


def kinds(world: World) -> list[str]:
    """The kinds of all entries of the log, as they are stored."""
    stored = world.log.scan("shard/s1", 0)
    return [json.loads(unseal("", entry.data))["change"] for entry in stored]


def test_a_small_commit_writes_an_entry_and_nothing_else() -> None:
    world = World()
    shard = world.create(inline_bytes=SMALL)
    shard.append(rows(1, 2))
    shard.append(rows(3))
    assert world.objects() == set()
    assert kinds(world) == ["create", "append/4", "append/4"]
    parts = shard.machine.fetch().parts
    assert [bool(part.data) for part in parts.all()] == [True, True]
    assert parts.inline_bytes == parts.size > 0
    assert ids(world.open()) == [1, 2, 3]
    assert changes(world.open(), 0) == [(1, 10_000, 1), (2, 10_000, 1), (3, 10_001, 1)]


def test_a_larger_commit_writes_a_file() -> None:
    world = World()
    shard = world.create(inline_bytes=SMALL)
    shard.append(rows(*range(writer.MAX_INLINE_ROWS + 1)))
    assert kinds(world) == ["create", "append"]
    assert len(world.objects("part/")) == 1
    shard = world.open(inline_bytes=0)
    shard.append(rows(100_000))
    assert len(world.objects("part/")) == 2


def test_the_log_holds_a_bounded_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_INLINE_PARTS_BYTES", 5_000)
    world = World()
    shard = world.create(inline_bytes=SMALL)
    for i in range(12):
        shard.append(rows(i))
    parts = shard.machine.fetch().parts
    assert parts.inline_bytes < 5_000 + SMALL
    assert 1 < len(parts.inline()) < 12
    assert len(world.objects("part/")) == 12 - len(parts.inline())
    assert ids(world.open()) == list(range(12))


def test_rollups_hold_the_parts_until_they_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "ROLL_EVERY", 4)
    monkeypatch.setattr(log, "TRUNCATION_LAG", 2)
    monkeypatch.setattr(rollup, "FANOUT", 2)
    world = World()
    shard = world.create(inline_bytes=SMALL, compact_fanout=2)
    for i in range(15):
        shard.append(rows(i))
    assert kinds(world)[0] != "create", "the log was truncated: the rows are in the rollup alone"
    assert world.objects("part/") == set()
    assert formats(world) == [4]
    opened = world.open(compact_fanout=2)
    assert ids(opened) == list(range(15))
    compact_shard(opened, full=True)
    assert opened.machine.fetch().parts.inline_bytes == 0
    for i in range(15, 20):  # a rollup that has only files is one that earlier versions read
        world.open().append(rows(i))
    assert formats(world) == [1]
    assert ids(world.open()) == list(range(20))
    assert changes(world.open(), 0)[-1][0] == 19


def test_rows_that_were_merged_leave_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of a stored segment: a row that was deleted for good must not stay there."""
    monkeypatch.setattr(log, "TRUNCATION_LAG", 0)
    world = World()
    shard = world.create(inline_bytes=SMALL, compact_fanout=2)
    for i in range(4):
        shard.append(rows(i))
    parts = [part.data for part in shard.machine.fetch().parts.inline()]
    shard.machine.roll(shard.machine.fetch())
    assert any(parts[0] in inline_files(world, name) for name in world.objects("seg/"))
    shard.append(rows(9))
    compact_shard(shard, full=True)
    shard.machine.roll(shard.machine.fetch())
    world.clock.advance(100_000)
    sweep_shard(shard)
    sweep_shard(shard)
    assert world.objects("seg/")
    assert not any(data in inline_files(world, name) for data in parts for name in world.objects("seg/"))
    assert ids(world.open()) == [0, 1, 2, 3, 9]


def inline_files(world: World, name: str) -> bytes:
    """The files of inline parts that a stored segment holds."""
    data = world.blob.get(name)
    assert data is not None
    given = rollup._read_segment(name, data).given
    assert not isinstance(given, pa.Table)
    return b"".join(given.required("data").to_pylist()) if "data" in given.names else b""


def formats(world: World) -> list[int]:
    """The format of the newest rollup."""
    name = world.open().machine.fetch().rollup
    assert name is not None
    data = world.blob.get(name[0])
    assert data is not None
    return [json.loads(unseal("", data))["format"]]


def test_merging_stores_them_and_leaves_no_garbage() -> None:
    world = World()
    shard = world.create(inline_bytes=SMALL, compact_fanout=2)
    for i in range(4):
        shard.append(rows(i))
    compact_shard(shard, full=True)
    state = shard.machine.fetch()
    assert (state.parts.inline_bytes, state.parts.count) == (0, 1)
    assert state.garbage == (), "what was never an object need not be deleted"
    assert len(world.objects("part/")) == 1
    assert ids(world.open()) == [0, 1, 2, 3]


def test_they_are_stored_for_readers_of_files() -> None:
    world = World()
    shard = world.create(inline_bytes=SMALL)
    shard.append(rows(0))
    assert store_inline_parts(shard) == 1
    assert store_inline_parts(shard) == 0
    shard.append(rows(1, 2))
    shard.append(rows(1), diff=-1)
    assert store_inline_parts(shard) == 2
    assert [bool(part.data) for part in shard.machine.fetch().parts.all()] == [False] * 3
    assert ids(world.open()) == [0, 2]
    assert changes(world.open(), 0) == [(0, 10_000, 1), (1, 10_001, 1), (1, 10_002, -1), (2, 10_001, 1)]
    assert ids(world.open(), as_of=10_001) == [0, 1, 2]


@pytest.mark.parametrize("error", [Conflict("merged by others"), PartSwept("swept")])
def test_what_cannot_be_stored_now_stays_in_the_log(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    world = World()
    shard = world.create(inline_bytes=SMALL)
    shard.append(rows(1))

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(compact, "rewrite", fail)
    assert store_inline_parts(shard) == 1
    assert len(shard.machine.fetch().parts.inline()) == 1
    assert ids(world.open()) == [1]


def test_deleted_rows_of_parts_in_the_log() -> None:
    with tidegate.open("memory://", config=Config(audit=1.0)) as db:
        db.sql("CREATE TABLE t (id int8, note text)")
        for i in range(3):
            db.append("t", {"id": [i, i + 10], "note": ["a", "b"]}, at=1_000 + i)
        db.sql("DELETE FROM t WHERE id IN (1, 12)")
        db.sql("UPDATE t SET note = 'c' WHERE id = 2")
        parts = db.context.table("t").machine.fetch().parts
        assert (len(parts.inline()), parts.deletions.rows) == (4, 3)
        want = Counter([(0, "a"), (10, "b"), (11, "b"), (2, "c")])
        assert Counter(db.sql("SELECT id, note FROM t").rows()) == want
        assert db.sql("SELECT count(*), max(id) FROM t", as_of=1_001).rows() == [(4, 11)]
        store_inline_parts(db.context.table("t"))
        assert Counter(db.sql("SELECT id, note FROM t").rows()) == want
        assert db.sql("SELECT count(*), max(id) FROM t", as_of=1_001).rows() == [(4, 11)]


def test_they_are_pruned_and_answer_from_metadata() -> None:
    with tidegate.open("memory://") as db:
        db.set("audit", 0.0)
        db.sql("CREATE TABLE t (id int8, payload jsonb)")
        for i in range(20):
            db.append("t", {"id": [i], "payload": [f'{{"n": {i}}}']})
        assert len(db.context.table("t").machine.fetch().parts.inline()) == 20
        for where in ("id = 7", "(payload->>'n')::int8 = 7"):
            found = db.sql(f"SELECT id FROM t WHERE {where}")
            assert (found.rows(), found.scan.parts_read, found.scan.parts_total) == ([(7,)], 1, 20)
        found = db.sql("SELECT count(*), max(id) FROM t")
        assert (found.rows(), found.path, found.scan.parts_read) == ([(20, 19)], "metadata", 0)
        limited = db.sql("SELECT * FROM t LIMIT 3")
        assert (len(limited.rows()), limited.path) == (3, "peek")


def test_a_dropped_collection_and_a_sweep_need_no_object_of_theirs() -> None:
    world = World()
    shard = world.create(inline_bytes=SMALL)
    shard.append(rows(1))
    shard.append(rows(*range(100_000)))
    assert [(found.error, found.name[:4]) for found in verify_objects(shard.machine)] == [(None, "part")]
    sweep_shard(shard)
    assert len(ids(world.open())) == 100_001
    shard.machine.update(lambda _: entries.DropShard())
    assert [item.name for item in shard.machine.fetch().garbage] == sorted(world.objects("part/"))


def test_an_entry_of_a_newer_version_is_refused_by_name() -> None:
    """As versions before format 4 refuse `append/4`: a part without an object is missing rows."""
    part = {"token": "t", "at": 1, "change": "append/5", "body": {}}
    data = entries.seal(json.dumps(part).encode())
    with pytest.raises(CorruptError, match="append/5"):
        entries.decode_entry("shard/s1#3", data)


def test_a_part_travels_through_the_log_unchanged() -> None:
    world = World()
    shard = world.create(inline_bytes=SMALL)
    shard.append(rows(1, note="é\0"))
    (part,) = shard.machine.fetch().parts.all()
    (again,) = world.open().machine.fetch().parts.all()
    assert (again.data, again.digest, again.size) == (part.data, part.digest, len(part.data))


def test_a_loser_commits_its_rows_once_at_a_later_time() -> None:
    """Both write for the same number of the log; the loser's part is proposed again without being encoded again."""
    world = World()
    first, second = world.create(inline_bytes=SMALL), world.open(inline_bytes=SMALL)
    second.machine.fetch()
    state = second.machine.cached_state()
    parts = list(second.write(state, state.schema, _block(second, 7)))
    first.append(rows(1))
    done = second.commit(parts, at=None, token="second")
    assert done.at > 10_000
    assert second.commit(parts, at=None, token="second").parts == ()
    assert ids(world.open()) == [1, 7]


def _block(shard: Shard, id_: int) -> Any:
    import numpy as np

    from tidegate.storage.part.conform import conform
    from tidegate.storage.part.merge import Block

    columns = conform(shard.machine.fetch().schema, rows(id_))
    return Block(columns, np.array([10_000]), np.array([1]))


@pytest.mark.parametrize("metadata", ["", "?metadata=log"])
def test_a_lake_in_a_folder(tmp_path: Path, metadata: str) -> None:
    place = f"{tmp_path / 'lake'}{metadata}"
    with tidegate.open(place) as db:
        db.sql("CREATE TABLE t (id int8)")
        for i in range(5):
            db.sql(f"INSERT INTO t VALUES ({i})")
        assert not [*(tmp_path / "lake").glob("part/*/*")]
        assert db.doctor(deep=True).healthy
    with tidegate.open(place) as db:
        assert db.sql("SELECT sum(id) FROM t").rows() == [(10,)]
        db.compact("t", full=True)
        assert len([*(tmp_path / "lake").glob("part/*/*")]) == 1
        assert db.sql("SELECT sum(id) FROM t").rows() == [(10,)]
