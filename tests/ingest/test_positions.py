"""Sources that replace rows delete them at their positions: the same rows as by retractions, at every time, in every race."""

from __future__ import annotations

import json
import os
import pickle
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.ingest.envelopes import NOW, Filled, made
from tests.ingest.numbers import Lab, records, retracting, upserting
from tidegate.errors import ConflictError
from tidegate.ingest.batch.commit import MAX_LOOKUPS, commit_batch, commit_or_reread
from tidegate.ingest.batch.task import IngestTask, TaskResult, run_task
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.part.deletion_records import deletions_by_part
from tidegate.storage.part.page_reader import RowRange
from tidegate.storage.shard.change_feed import open_changes
from tidegate.storage.shard.retractions.at_append import BatchUpdates
from tidegate.storage.shard.retractions.located import LocatedDeletions, RowsMoved
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.snapshot import open_snapshot

SEEDS = int(os.environ.get("TIDEGATE_POSITION_SEEDS", "4"))
"""Histories of 15 batches each: a second each."""
KEYS = [f"k{i}" for i in range(12)]


def travelled(task: IngestTask) -> TaskResult:
    """Runs a task as Spark does: it and its result are pickled."""
    result: TaskResult = pickle.loads(pickle.dumps(run_task(pickle.loads(pickle.dumps(task)))))
    return result


def ingest(lab: Lab, run: Callable[[IngestTask], TaskResult] = travelled) -> None:
    """Reads and commits all that there is."""
    planner = lab.planning()
    while (tasks := planner.next_tasks()) is not None:
        commit_or_reread(lab.source, planner, [run(task) for task in tasks], run)
    planner.close()


def shard_of(lab: Lab) -> Shard:
    return lab.shards(lab.source.outputs[0].shard)


def retracting_parts(shard: Shard) -> int:
    """How many parts hold retractions that are rows."""
    tables = shard.machine.fetch().parts.tables(["retracts"])
    return sum(table.column("retracts").to_pylist().count(True) for table in tables)


def at(shard: Shard, as_of: int | None) -> Counter[tuple[Any, ...]]:
    """The rows at a time."""
    with open_snapshot(shard, as_of) as found:
        return Counter(tuple(row.values()) for batch in found.batches() for row in batch.to_pylist())


def feed(shard: Shard) -> Counter[tuple[Any, ...]]:
    """All changes, added up."""
    sums: Counter[tuple[Any, ...]] = Counter()
    with open_changes(shard, 0) as found:
        for batch in found.batches():
            for row in batch.to_pylist():
                diff = row.pop("_diff")
                sums[tuple(row.values())] += diff
    return Counter({row: count for row, count in sums.items() if count})


def labs(tmp_path: Path, kind: Callable[[Path, dict[str, list[bytes]]], Lab], **config: Any) -> list[Lab]:
    """Two sources of the same records: with positions, and without."""
    found = []
    for name, by_position in (("on", True), ("off", False)):
        lab = kind(tmp_path / name, {"0": [], "1": []})
        lookup = 64 << 20 if by_position else 0
        lab.config = replace(
            lab.config, delete_by_position=by_position, retraction_lookup_bytes=lookup, **config
        )
        found.append(lab)
    return found


def same_history(on: Lab, off: Lab, times: list[int]) -> None:
    """Both hold the same rows at each of these times, and have had the same changes."""
    assert feed(shard_of(on)) == feed(shard_of(off))
    for time in [*times, None]:
        assert at(shard_of(on), time) == at(shard_of(off), time), time


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_upserts_by_position_and_by_retraction(tmp_path: Path, seed: int) -> None:
    luck, times = random.Random(seed), []
    on, off = both = labs(tmp_path, upserting, part_bytes=luck.choice([200, 128 << 20]))
    for _ in range(15):
        fresh: dict[str, list[bytes]] = {"0": [], "1": []}
        for _ in range(luck.choice([1, 5, 30])):
            key = luck.choice(KEYS)
            record = {"key": key, "n": luck.choice([0, 1, 2, "x"]), "gone": luck.random() < 0.2}
            fresh[str(int(key[1:]) % 2)].append(json.dumps(record).encode())
        compacts, full, twice = luck.random() < 0.3, luck.random() < 0.5, luck.random() < 0.1
        for lab in both:
            for partition, some in fresh.items():
                lab.upstream.partitions[partition] += some
            lab.upstream.step = 1000 if seed % 2 else 3
            lab.clock.advance(10)
            if twice:
                shard_of(lab).append({"n": [9, 9], "key": [b"k1", b"k1"]}, diff=[2, 1])
            lab.clock.advance(10)
            ingest(lab)
            if compacts:
                compact_shard(shard_of(lab), full=full)
        assert retracting_parts(shard_of(on)) == 0
        times.append(shard_of(on).machine.fetch().upper - 1)
    same_history(on, off, times)


@pytest.mark.parametrize("part_bytes", [300, 128 << 20])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_retractions_by_position_and_by_row(tmp_path: Path, seed: int, part_bytes: int) -> None:
    """Rows and retractions as PostgreSQL sends them: each retracts a row that is there, also one of the same batch."""
    luck, times = random.Random(seed), []
    on, off = both = labs(tmp_path, retracting, part_bytes=part_bytes)
    split = seed % 3 == 0
    present: list[int] = []
    for _ in range(15):
        fresh = []
        for _ in range(luck.choice([1, 10, 60])):
            if present and luck.random() < 0.45:
                fresh.append({"n": present.pop(luck.randrange(len(present))), "diff": -1})
            else:
                present.append(luck.randrange(20))
                fresh.append({"n": present[-1]})
        for lab in both:
            lab.upstream.partitions["0"] += [json.dumps(one).encode() for one in fresh]
            lab.upstream.step = 7 if split else 1000
            lab.clock.advance(10)
            ingest(lab)
        assert at(shard_of(on), None) == Counter((n,) for n in present)
        times.append(shard_of(on).machine.fetch().upper - 1)
        # A task that wrote a part does not know what later tasks retract of it.
        assert retracting_parts(shard_of(on)) == 0 or (split and part_bytes < 1000)
    same_history(on, off, times)


def prepared(tmp_path: Path, count: int = 40) -> Lab:
    """A source with keys k0 to k39 in several parts, and a batch for some of them that is not read yet."""
    lab = upserting(tmp_path, {"0": []})
    lab.upstream.step = 1000
    for begin in range(0, count, 10):
        lab.upstream.partitions["0"] += [
            json.dumps({"key": f"k{i}", "n": i}).encode() for i in range(begin, begin + 10)
        ]
        ingest(lab)
        lab.clock.advance(10)
    lab.upstream.partitions["0"] += records(100, 101, key="k3") + records(101, 102, key="k25")
    return lab


def expected(lab: Lab, *, without: int | None = None) -> None:
    rows = {f"k{i}": i for i in range(40)} | {"k3": 100, "k25": 101}
    found = {key.decode(): n for n, key in at(shard_of(lab), None)}
    assert found == {key: n for key, n in rows.items() if n != without}
    assert sum(at(shard_of(lab), None).values()) == len(found)


def delete(shard: Shard, n: int) -> None:
    """Another writer deletes the row with this number, at its position."""
    state = shard.machine.fetch()
    for part in state.parts.find(np.arange(state.next_id)):
        column = state.schema.columns[0]
        file = shard.machine.files.open(part, shard.machine.fetch().schema)
        rows = RowRange(0, 0, file.groups[0])
        values = file.read([column.id], [column.type], rows)[0].to_pylist()
        if n in values:
            one = np.ones(1, np.int64)
            where = np.array([values.index(n)])
            found = LocatedDeletions.of(state, deletions_by_part(one * part.id, one, where, one))
            shard.commit_batch([], BatchUpdates(pa.array([]), found), at=None, token=f"delete {n}")  # type: ignore[arg-type]  # has no rows


@pytest.mark.parametrize("rival", ["compacts", "deletes a row of ours", "deletes another row", "appends"])
def test_others_change_the_collection_between_look_up_and_commit(tmp_path: Path, rival: str) -> None:
    lab = prepared(tmp_path)
    planner = lab.planning()
    tasks = planner.next_tasks()
    assert tasks is not None
    results = [travelled(task) for task in tasks]
    lab.clock.advance(10)
    gone = None
    match rival:
        case "compacts":
            assert compact_shard(shard_of(lab), full=True).removed
        case "deletes a row of ours":
            delete(shard_of(lab), 3)
        case "deletes another row":
            delete(shard_of(lab), 5)
            gone = 5
        case _:
            shard_of(lab).append({"n": [7], "key": [b"another"]})
    if rival == "appends":
        commit_batch(lab.source, lab.shards, results)
        assert at(shard_of(lab), None)[(7, b"another")] == 1
        return
    with pytest.raises(RowsMoved):
        commit_batch(lab.source, lab.shards, results)
    again: list[IngestTask] = []
    commit_or_reread(lab.source, planner, results, lambda task: again.append(task) or travelled(task))
    assert len(again) == 1
    expected(lab, without=gone)
    assert retracting_parts(shard_of(lab)) == 0


def test_a_rival_that_is_faster_each_time_gets_retractions(tmp_path: Path) -> None:
    lab = prepared(tmp_path)
    # With pending positions of every part changed each time, rows are retracted by value in the end.
    victims = [0, 20, 1, 21, 2, 22, 4, 24]
    left = list(victims)

    def disturbed(task: IngestTask) -> TaskResult:
        result = travelled(task)
        for _ in range(2):
            delete(shard_of(lab), left.pop(0))
        return result

    planner = lab.planning()
    (task,) = planner.next_tasks() or []
    tries: list[int] = []
    commit_or_reread(lab.source, planner, [disturbed(task)], lambda task: tries.append(1) or disturbed(task))
    assert len(tries) == MAX_LOOKUPS
    assert not left
    rows = {key.decode(): n for n, key in at(shard_of(lab), None)}
    wanted = {f"k{i}": i for i in range(40) if i not in victims} | {"k3": 100, "k25": 101}
    assert rows == wanted


def test_killed_between_tasks_and_commit(tmp_path: Path) -> None:
    lab = prepared(tmp_path)
    planner = lab.planning()
    assert [travelled(task) for task in planner.next_tasks() or []]
    planner.close()  # and is never heard of again
    lab.clock.advance(10)
    ingest(lab)
    expected(lab)
    assert retracting_parts(shard_of(lab)) == 0


def test_two_processes_commit_the_same_batch(tmp_path: Path) -> None:
    lab = prepared(tmp_path)
    planners = [lab.planning(), lab.planning()]
    results = [[travelled(task) for task in planner.next_tasks() or []] for planner in planners]
    for planner, mine in zip(planners, results, strict=True):
        commit_or_reread(lab.source, planner, mine, travelled)
        commit_or_reread(lab.source, planner, mine, travelled)  # the answer was lost
    expected(lab)
    assert shard_of(lab).machine.fetch().parts.deletions.rows == 2
    lab.upstream.partitions["0"] += records(103, 104, key="k3")
    ingest(lab)
    with pytest.raises(ConflictError):
        commit_batch(lab.source, lab.shards, results[0])


def test_pending_retractions_are_left_to_the_merge(tmp_path: Path) -> None:
    lab = prepared(tmp_path)
    lab.config = replace(lab.config, retraction_lookup_bytes=0)
    shard_of(lab).append({"n": [5], "key": [b"k5"]}, diff=-1)
    assert retracting_parts(shard_of(lab)) == 1
    ingest(lab)
    expected(lab, without=5)
    assert compact_shard(shard_of(lab)).settled == 3
    lab.upstream.partitions["0"] += records(5, 6, key="k5")
    ingest(lab)
    expected(lab)
    assert retracting_parts(shard_of(lab)) == 0


def test_tasks_in_turn_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = upserting(tmp_path, {"0": records(0, 3, key="a"), "1": records(3, 5, key="b")})
    assert len(lab.planning().next_tasks() or []) == 2
    assert len(lab.planning().next_tasks(in_turn=True) or []) == 1
    monkeypatch.setattr("tidegate.ingest.batch.planning.MAX_JOINED_RECORDS", 4)
    assert len(lab.planning().next_tasks(in_turn=True) or []) == 2


@pytest.mark.parametrize("seed", range(SEEDS))
def test_rows_that_end_by_position_and_by_retraction(seed: int) -> None:
    sql = "SELECT data->>'v' AS v FROM s WHERE mz_now() < (data->>'until')::int8"
    luck = random.Random(seed)
    on, off = (Filled(made("upsert", sql), by_position=by_position) for by_position in (True, False))
    for turn in range(20):
        now = NOW + 10 * turn
        some = [
            (
                luck.choice([b"a", b"b", b"c", b"d"]),
                b'{"v": "%d", "until": %d}' % (luck.randrange(3), now + until),
            )
            for until in (luck.choice([-5, 5, 15, 50]) for _ in range(luck.randrange(6)))
        ]
        for filled in (on, off):
            filled.world.clock.set(now)
            filled.split([some], now)
        assert on.rows() == off.rows()
        assert on.counts == off.counts
    assert on.shard.machine.fetch().monotonic
