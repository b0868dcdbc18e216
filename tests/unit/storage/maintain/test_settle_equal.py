"""Settling retractions of rows that are stored in an equal but not identical form: -0.0 for 0.0."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import tidegate
from tests.unit.storage.maintain.test_settle import LOOKED_UP, at_every_time, net_changes, settled_exactly
from tests.unit.storage.shards import World, ids, rows
from tidegate.config import Config
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.settle import settle_retractions


def test_an_identical_row_is_taken_before_an_equal_one() -> None:
    shard = World().create()
    shard.append(rows(1, x=0.0))
    shard.append(rows(1, x=-0.0))
    shard.append(rows(1, x=float("nan")))
    shard.append(rows(3, x=None, note=None))
    shard.append(rows(1, x=-0.0), diff=-1)
    shard.append({"id": [1, 3], "x": [float("nan"), None], "note": ["n", None]}, diff=-1)
    assert settled_exactly(shard) == 3
    assert at_every_time(shard)[10_005] == Counter({repr({"id": 1, "x": 0.0, "note": "n"}): 1})


@pytest.mark.parametrize("lookup", [0, LOOKED_UP])
def test_an_equal_row_is_taken_if_none_is_identical(lookup: int) -> None:
    world = World()
    shard = world.create(retraction_lookup_bytes=lookup)
    shard.append(rows(1, 2, x=0.0))
    shard.append(rows(1, x=-0.0), diff=-1)
    assert settle_retractions(shard) == (0 if lookup else 1)
    assert shard.machine.fetch().monotonic, "no reader compares rows"
    assert (ids(shard), ids(shard, 10_000), ids(world.open())) == ([2], [1, 2], [2])
    zero = repr({"id": 1, "x": 0.0, "note": "n"})
    assert net_changes(shard)[zero, 10_001] == -1, "the row that was there goes, in its own form"


def test_some_occurrences_of_an_equal_row() -> None:
    shard = World().create()
    shard.append(rows(1, x=0.0), diff=3)
    shard.append(rows(1, x=-0.0))
    shard.append(rows(1, x=-0.0), diff=-3)
    assert settle_retractions(shard) == 2
    assert shard.machine.fetch().monotonic
    assert at_every_time(shard)[10_002] == Counter({repr({"id": 1, "x": 0.0, "note": "n"}): 1})
    assert sum(at_every_time(shard)[10_001].values()) == 4


def test_a_month_is_thirty_days() -> None:
    with tidegate.open("memory://", config=Config(retraction_lookup_bytes=0)) as db:
        db.sql("CREATE TABLE t (i interval, a float8[])")
        db.sql("INSERT INTO t VALUES ('1 month', '{0}'), ('2 months', '{1}')")
        same = db.sql("SELECT interval '30 days' AS i, '{-0}'::float8[] AS a").arrow()
        db.append("t", same, diff=-1)
        assert not db.context.table("t").machine.fetch().monotonic
        db.compact("t")
        assert db.context.table("t").machine.fetch().monotonic
        assert db.sql("SELECT a FROM t").rows() == [([1.0],)]


def equal_form(found: dict[int, Counter[str]]) -> dict[int, Counter[str]]:
    """The same with 0.0 for -0.0."""
    same = {}
    for at, held in found.items():
        same[at] = Counter[str]()
        for row, count in held.items():
            same[at][row.replace("-0.0", "0.0")] += count
    return same


@pytest.mark.parametrize("seed", range(30))
def test_rows_retracted_in_an_equal_form(seed: int) -> None:
    """Every retraction finds a row; at every time as many equal rows are there as before.

    Half of the histories look up at append while others wait: an identical row may then be taken before an earlier retraction
    finds that it needs it. Such a retraction stays a row, until times below `since` become one.
    """
    rng, world = random.Random(seed), World()
    shard = world.create(retraction_lookup_bytes=0)
    clever = world.open(retraction_lookup_bytes=LOOKED_UP)
    there: Counter[int] = Counter()
    for _ in range(rng.randrange(3, 14)):
        batch, diffs = [], []
        for _ in range(rng.randrange(1, 5)):
            key = rng.randrange(3)
            diff = (
                -rng.randint(1, there[key]) if there[key] and rng.random() < 0.55 else rng.choice([1, 1, 2])
            )
            there[key] += diff
            batch.append((key, rng.choice([0.0, -0.0])))
            diffs.append(diff)
        columns = {"id": [key for key, _ in batch], "x": [x for _, x in batch], "note": ["n"] * len(batch)}
        writer = rng.choice([shard, shard, clever])
        (writer if seed % 2 or shard.machine.fetch().monotonic else shard).append(columns, diff=diffs)
        if rng.random() < 0.2:
            before = equal_form(at_every_time(shard))
            settle_retractions(shard)
            assert equal_form(at_every_time(shard)) == before
        if rng.random() < 0.1:
            compact_shard(shard, full=rng.random() < 0.5)
    before = equal_form(at_every_time(shard))
    settle_retractions(shard)
    assert equal_form(at_every_time(world.open())) == before
    assert before[max(before)] == Counter(
        {repr({"id": i, "x": 0.0, "note": "n"}): n for i, n in there.items() if n}
    )
    assert seed % 2 or shard.machine.fetch().monotonic
