"""Work that grows no faster than the parts do, counted in calls of functions: at twice as many parts at most about twice as many.

`make bench-growth` measures the same, and more, in time at 10,000 parts.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import FrameType
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tidegate.config import Config
from tidegate.storage.maintain import merge_parts
from tidegate.storage.maintain.compact import _tiers, plan_groups
from tidegate.storage.maintain.key_ranges import KeySample, key_ranges, split_points
from tidegate.storage.maintain.merge_parts import merged, together
from tidegate.storage.part.merge import Block
from tidegate.storage.part.row_keys import row_keys
from tidegate.storage.shard import snapshot as reader
from tidegate.storage.shard.state import State

pytestmark = pytest.mark.slow

Work: TypeAlias = Callable[[tidegate.Database], object]

PARTS = 40
LINEAR = 2.1
"""Twice, and something for parts that make another batch or another tier."""


def calls(work: Callable[[], object]) -> int:
    """How many functions are called, those of C too, in this thread."""
    count = 0

    def profile(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.collect()
    gc.disable()  # what is collected calls its finalisers whenever it likes
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def lake(parts: int, *, changed: bool, clustered: bool) -> tidegate.Database:
    """Small parts whose keys overlap; if `changed`, rows of every fourth are taken back by the next."""
    db = tidegate.open("memory://", config=Config(audit=0.0, read_threads=1, retraction_lookup_bytes=0))
    db.sql(f"CREATE TABLE t (id int8, name text){' CLUSTER BY (name)' if clustered else ''}")
    for part in range(parts):
        take_back = changed and part % 4 == 3
        ids = [(part - take_back) * 8 + i for i in range(8)]
        rows = pa.table({"id": ids, "name": [f"name {id_ * 7_919 % 100_003}" for id_ in ids]})
        db.append("t", rows, at=part + 1, diff=-1 if take_back else 1)
    return db


READS: dict[str, Work] = {
    "status": lambda db: db.status(),
    "count": lambda db: db.sql("SELECT count(*) FROM t WHERE id > 20").rows(),
    "peek": lambda db: db.sql("SELECT * FROM t WHERE name = 'name 5' LIMIT 3").rows(),
    "top k": lambda db: db.sql("SELECT * FROM t ORDER BY id LIMIT 3").rows(),
    "explain": lambda db: db.sql("EXPLAIN SELECT * FROM t WHERE name LIKE 'name 5%'").text(),
    "map": lambda db: db.maps.collection("t"),
    "plan": lambda db: list(
        plan_groups(shard := db.context.collection("t"), shard.machine.fetch(), full=False)
    ),
    "backfill": lambda db: db.backfill_statistics("t"),
    "sweep": lambda db: db.sweep(),
    "delete": lambda db: db.sql("DELETE FROM t WHERE id = 17"),
    "drop": lambda db: db.sql("DROP TABLE t"),
}
WRITES: dict[str, Work] = {
    "compact": lambda db: db.compact("t"),
    "compact full": lambda db: db.compact("t", full=True),
    "recluster": lambda db: db.recluster("t", by=["name"]),
}


@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("several", [[READS], *([{name: work}] for name, work in WRITES.items())])
def test_work_grows_no_faster_than_the_parts(several: list[dict[str, Work]], changed: bool) -> None:
    """A collection with retractions is clustered too: its parts are merged by their keys."""
    few, many = (_counted(parts, several[0], changed) for parts in (PARTS, 2 * PARTS))
    steep = {what: (few[what], many[what]) for what in few if many[what] > LINEAR * few[what]}
    assert not steep, f"calls for {PARTS} parts, and for twice as many: {steep}"


def _counted(parts: int, several: dict[str, Work], changed: bool) -> dict[str, int]:
    with lake(parts, changed=changed, clustered=changed) as db:
        return {name: calls(partial(work, db)) for name, work in several.items()}


def test_tiers_are_planned_in_one_pass() -> None:
    """The sizes are added up once, not once more for each group: a large collection has a hundred thousand of them."""
    sizes = np.full(20_000, 60_000)
    added: list[int] = []

    def profile(frame: FrameType, event: str, arg: object) -> None:
        if event == "c_call" and getattr(arg, "__name__", "") == "cumsum":
            added.append(1)

    sys.setprofile(profile)
    try:
        groups = list(_tiers(sizes, 1 << 19, 8))
    finally:
        sys.setprofile(None)
    assert len(groups) > 2_000
    assert len(added) <= 2
    assert [(group.start, group.stop) for group in groups[:2]] == [(0, 9), (9, 18)]
    assert sum(len(group) for group in groups) > 19_990


def test_a_share_asks_only_the_parts_that_it_meets() -> None:
    """Of 400 parts that follow each other, cut into 400 shares: each part is looked at for the shares it has keys in."""

    def outline(number: int) -> KeySample:
        keys = tuple(b"%06d" % (number * 10 + i) for i in (0, 9))
        return KeySample(keys[:1], keys[1:], keys, rising=True)

    def work(many: int) -> int:
        outlines = [outline(number) for number in range(many)]
        parts = [None] * many
        cuts = split_points(outlines, many)
        found = []
        count = calls(lambda: found.extend(key_ranges(parts, outlines, cuts)))  # type: ignore[arg-type]  # nobody looks at the parts
        assert sum(len(one.pieces) for one in found) <= 2 * many
        return count

    assert work(400) <= LINEAR * work(200)


def test_parts_smaller_than_a_batch_are_merged_as_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each window of a merge looks at every run: 10,000 small parts as runs of their own take 10,000² looks."""
    runs: list[int] = []

    def counting(state: State, places: Sequence[int], given: Sequence[Iterator[Block]]) -> Iterator[Block]:
        runs.append(len(given))
        return merged(state, places, given)

    monkeypatch.setattr(merge_parts, "merged", counting)
    with lake(PARTS, changed=True, clustered=True) as db:
        before = sorted(db.sql("SELECT * FROM t").rows())
        assert db.compact("t", full=True).removed == PARTS - PARTS // 4, "the others only retracted"
        assert set(runs) == {1}, "also where retractions are settled first, pile by pile"
        assert sorted(db.sql("SELECT * FROM t").rows()) == before


def test_retracted_keys_are_looked_up_by_the_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look-up makes a table of all retracted keys: one for each small part would take parts × retractions."""
    keyed: list[int] = []

    def counting(columns: Sequence[pa.Array], rows: int) -> pa.Array:
        keyed.append(rows)
        return row_keys(columns, rows)

    monkeypatch.setattr(reader, "row_keys", counting)
    with lake(2 * PARTS, changed=True, clustered=False) as db:
        found = db.sql("SELECT * FROM t").rows()
    retracting = 2 * PARTS // 4  # each of them is asked for its keys
    assert len(found) == 2 * retracting * 8
    assert retracting < len(keyed) <= retracting + 8


def test_piles_hold_no_more_than_a_batch() -> None:
    assert together([("a", 3), ("b", 4), ("c", 4), ("d", 9), ("e", 1)], 8) == [
        ["a", "b"],
        ["c"],
        ["d"],
        ["e"],
    ]
    assert together([], 8) == []
