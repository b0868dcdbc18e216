"""Appending: one batch, all of it or none, once."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.simulation.faults import Faults, FaultyBlob, FaultyConsensus
from tests.unit.storage.shards import CONFIG, SCHEMA, World, changes, ids, rows
from tidegate.errors import (
    BindError,
    EvaluationError,
    IndeterminateError,
    StoreError,
    TimeError,
    TypeMismatch,
)
from tidegate.expr.model.types import INT8, TEXT
from tidegate.storage.blob.protocol import Blob
from tidegate.storage.consensus.protocol import Consensus
from tidegate.storage.part.schema import Schema
from tidegate.storage.retry import RetryPolicy
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.shard import Shard
from tidegate.storage.stats.part_stats import PAGES_KEY, PartStats


class Meddling:
    """A store whose calls something else comes before, once each time it is asked to."""

    def __init__(self, inner: Any, name: str) -> None:
        self.inner, self.name = inner, name
        self.first: Callable[[], Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name == self.name and self.first is not None:
            first, self.first = self.first, None
            first()
        return getattr(self.inner, name)


def test_batches_have_times_and_are_read_back() -> None:
    world = World()
    shard = world.create()
    assert shard.append(rows(1, 2)).at == 10_000
    assert shard.append(rows(3)).at == 10_001  # upper has passed the clock
    assert shard.append(rows(4), at=50_000, positions={"k": 7}).at == 50_000
    assert ids(shard) == [1, 2, 3, 4]
    assert (ids(shard, 10_000), ids(shard, 49_999), ids(shard, 9)) == ([1, 2], [1, 2, 3], [])
    assert changes(shard, 0) == [(1, 10_000, 1), (2, 10_000, 1), (3, 10_001, 1), (4, 50_000, 1)]
    assert world.open().machine.fetch().positions == {"k": 7}


def test_diffs_for_each_row() -> None:
    shard = World().create()
    shard.append(rows(1, 2, 3), diff=[1, 2, 1])
    shard.append(rows(2, 3), diff=pa.array([-1, -1]))
    assert ids(shard) == [1, 2]
    assert not shard.machine.fetch().monotonic


def test_an_empty_batch_moves_upper_and_makes_no_part() -> None:
    world = World()
    shard = world.create()
    assert shard.append(rows(), at=7).parts == ()
    assert (shard.machine.fetch().upper, world.objects("part/")) == (8, set())


@pytest.mark.parametrize("at", [-1, 0, 10_000, 2**63 - 1])
def test_a_time_below_upper_is_refused_by_name(at: int) -> None:
    world = World()
    shard = world.create()
    shard.append(rows(1))
    with pytest.raises(TimeError, match=rf"cannot append at {at}: the collection is complete up to 10001"):
        shard.append(rows(2), at=at)
    assert len(world.objects("part/")) == 1


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"id": [1]}, BindError),
        ({**rows(1), "more": [1]}, BindError),
        ({**rows(1), "id": ["x"]}, TypeMismatch),
        ({**rows(1), "id": [None]}, EvaluationError),
    ],
)
def test_rows_that_do_not_fit_leave_nothing(given: Any, error: type[Exception]) -> None:
    world = World()
    shard = world.create()
    with pytest.raises(error):
        shard.append(given)
    assert world.objects("part/") == set()
    assert shard.machine.fetch().upper == 0


def test_a_token_counts_once_even_with_a_time_that_is_past() -> None:
    world = World()
    shard = world.create()
    assert len(shard.append(rows(1), at=5, token="a").parts) == 1
    for other in (shard, world.open()):
        assert other.append(rows(1), at=5, token="a") == replace(shard.append(rows(1), token="a"), parts=())
    assert ids(shard) == [1]
    assert len(world.objects("part/")) == 1


def test_the_same_parts_may_be_committed_again() -> None:
    """As the driver of a job does that was restarted: what it committed before must not be deleted, nor be there twice."""
    world = World()
    shard = world.create()
    done = shard.append(rows(1), token="a")
    assert shard.commit(done.parts, at=None, token="a") == replace(done, parts=())
    assert shard.commit(done.parts, at=5, token="a") == replace(done, parts=())
    assert ids(shard) == [1]


def test_a_lost_race_is_stamped_anew_without_writing_the_part_again() -> None:
    world = World()
    world.create()
    world.log = Meddling(world.log, "compare_and_set")
    slow, fast = world.open(), world.open()
    world.log.first = lambda: fast.append(rows(9), at=20_000)
    done = slow.append(rows(1, 2))
    assert done.at == 20_001
    assert len(world.objects("part/")) == 2
    assert (ids(slow, 20_000), ids(slow, 20_001)) == ([9], [1, 2, 9])
    assert changes(world.open(), 20_001) == [(1, 20_001, 1), (2, 20_001, 1)]
    world.log.first = lambda: fast.append(rows(8), at=30_000)
    with pytest.raises(TimeError, match="cannot append at 25000: the collection is complete up to 30001"):
        slow.append(rows(3), at=25_000)
    assert len(world.objects("part/")) == 3  # that of the loser is gone


def test_a_read_only_store_says_so_and_loses_nothing() -> None:
    world = World()
    world.create().append(rows(1))
    readable = world.blob

    class ReadOnly(Meddling):
        def __getattr__(self, name: str) -> Any:
            if name in ("put", "create", "delete"):
                raise StoreError("the file system is read-only")
            return getattr(self.inner, name)

    world.blob = ReadOnly(readable, "")
    shard = world.open()
    with pytest.raises(StoreError, match="read-only"):
        shard.append(rows(2))
    assert ids(shard) == [1]


def test_parts_stay_when_it_is_not_known_whether_they_were_appended() -> None:
    """The answer is lost and the log cannot be read: deleting the parts would lose rows that are there."""
    world = World()
    world.create()

    class Deaf:
        """Does what it is told, says that it does not know, and then hears nothing."""

        def __init__(self, inner: Consensus) -> None:
            self.inner, self.deaf = inner, False

        def compare_and_set(self, *args: Any) -> bool:
            self.inner.compare_and_set(*args)
            self.deaf = True
            raise IndeterminateError("no answer")

        def scan(self, *args: Any) -> Any:
            if self.deaf:
                raise StoreError("no answer")
            return self.inner.scan(*args)

    log = world.log
    world.log = Deaf(log)  # type: ignore[assignment]  # only what is called
    with pytest.raises(IndeterminateError):
        world.open().append(rows(1), token="a")
    world.log = log
    assert ids(world.open()) == [1]
    assert world.open().append(rows(1), token="a").parts == ()
    assert ids(world.open()) == [1]


def test_large_batches_are_split() -> None:
    world = World()
    shard = world.create(part_bytes=10_000)
    done = shard.append(rows(*range(10_000)))
    assert len(done.parts) > 3
    assert {part.first for part in done.parts} == {10_000}
    assert ids(shard) == list(range(10_000))


def test_sorted_by_cluster_and_by_row_once_there_are_retractions() -> None:
    schema = Schema.of([("id", INT8, True), ("note", TEXT, True)])
    world = World()
    shard = world.create(schema, {"cluster_by": [1]})
    given = {"id": [2, 1, 3, None], "note": ["b", "c", "a", "b"]}
    shard.append(given)
    shard.append(given, diff=-1)
    shard.append(given)
    assert [part.order for part in shard.machine.fetch().parts.all()] == [(1,), (1, 0), (1, 0)]
    last = shard.machine.fetch().parts.all()[-1]
    data = world.blob.get(last.name)
    assert data is not None
    table = pq.read_table(pa.BufferReader(data))
    assert (table["note"].to_pylist(), table["id"].to_pylist()) == (["a", "b", "b", "c"], [3, 2, None, 1])


def test_statistics_come_through_one_door() -> None:

    def describe(schema: Schema, columns: list[pa.Array]) -> PartStats:
        return PartStats(f"{schema.id} {len(columns)} {len(columns[0])}".encode(), b"pages")

    shard = replace(World().create(), describe=describe)
    (part,) = shard.append(rows(1, 2)).parts
    assert part.stats == b"0 3 2"
    data = shard.machine.blob.get(part.name)
    assert data is not None
    assert pq.read_metadata(pa.BufferReader(data)).metadata[PAGES_KEY] == b"pages"


def test_appending_costs_the_same_however_many_parts_there_are() -> None:
    """Counted in calls and bytes of the stores, which a busy machine does not change."""

    class Counting:
        def __init__(self, inner: Any) -> None:
            self.inner, self.calls, self.bytes = inner, 0, 0

        def __getattr__(self, name: str) -> Any:
            def call(*args: Any) -> Any:
                self.calls += 1
                result = getattr(self.inner, name)(*args)
                found = [data for _, data in result] if name == "scan" else [*args, result]
                self.bytes += sum(len(item) for item in found if isinstance(item, bytes))
                return result

            return call

    world = World()
    world.create()
    blob, log = Counting(world.blob), Counting(world.log)
    world.blob, world.log = blob, log
    shard = world.open()
    costs = []
    for i in range(600):
        blob.calls = blob.bytes = log.calls = log.bytes = 0
        shard.append(rows(i), token=f"{i:04}")
        costs.append((blob.calls + log.calls, blob.bytes + log.bytes))
    usual = sorted(costs[100:110])[5]
    assert sorted(costs[500:510])[5][0] == usual[0]
    assert sorted(costs[500:510])[5][1] <= usual[1] * 1.1


@pytest.mark.parametrize("seed", range(5))
def test_two_writers_over_faulty_stores(seed: int) -> None:
    world = World()
    world.create()
    faults = Faults(seed, often=0.2)
    blob: Blob = FaultyBlob(world.blob, faults)
    log: Consensus = FaultyConsensus(world.log, faults)
    patient = RetryPolicy(times=60, first_s=0, longest_s=0)
    writers = [Shard(Machine(log, blob, "shard/s1", world.clock, patient), CONFIG) for _ in range(2)]
    dice = random.Random(seed)
    for i in range(60):
        dice.choice(writers).append(rows(i), token=str(i))
    assert ids(world.open()) == list(range(60))
    assert SCHEMA.find("id").id == 0
