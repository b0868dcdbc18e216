"""Compaction keeps the order in which rows came: a collection that was updated prunes pages like one that was not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tidegate.config import Config
from tidegate.storage.maintain import natural_order
from tidegate.storage.maintain.natural_order import compaction_order
from tidegate.storage.part import Part
from tidegate.storage.stats.collect import PAGE_ROWS

ROWS = 5 * PAGE_ROWS


def filled(ids: Any, **config: Any) -> tidegate.Database:
    """A table with one part of these ids, a random column before and a constant one behind them."""
    db = tidegate.open("memory://", config=Config(audit=0.0, compact_fanout=2, **config))
    db.sql("CREATE TABLE t (r int8, id int8, c int8)")
    rng = np.random.default_rng(1)
    db.append(
        "t", pa.table({"r": rng.integers(0, 1000, len(ids)), "id": ids, "c": np.ones(len(ids), np.int64)})
    )
    return db


def parts_of(db: tidegate.Database) -> list[Part]:
    """Those of which some rows are not deleted."""
    state = db.context.table("t").machine.fetch()
    every = state.parts.all()
    deleted = state.parts.deletions.totals(np.array([part.id for part in every]), 1 << 62)[0]
    return [part for part, count in zip(every, deleted, strict=True) if count < part.rows]


def update_scattered(db: tidegate.Database) -> None:
    for rest in range(4):
        db.sql(f"UPDATE t SET c = {rest + 2} WHERE id % 16 = {rest}")


def test_an_updated_collection_is_sorted_as_before() -> None:
    with filled(np.arange(ROWS)) as db:
        point = "SELECT id, c FROM t WHERE id = 4096"
        before, start = db.sql("SELECT id, c FROM t ORDER BY id").rows(), db.sql(point).scan.rows_read
        at = db.context.table("t").machine.fetch().upper - 1
        assert start == PAGE_ROWS
        update_scattered(db)
        there = db.sql("SELECT r, id, c FROM t ORDER BY id").rows()
        db.compact("t", full=True)
        (part,) = parts_of(db)
        assert part.order == (db.context.table("t").machine.fetch().schema.find("id").id,)
        found = db.sql(point)
        assert (found.rows(), found.scan.rows_read) == ([(4096, 2)], PAGE_ROWS)
        assert db.sql("SELECT r, id, c FROM t ORDER BY id").rows() == there
        assert db.sql("SELECT id, c FROM t ORDER BY id", as_of=at).rows() == before
        update_scattered(db)
        db.compact("t", full=True)
        assert db.sql(point).scan.rows_read == PAGE_ROWS
        assert [part.order for part in parts_of(db)] == [part.order]


def test_without_deletions_rows_stay_as_they_came() -> None:
    with filled(np.arange(ROWS)) as db:
        for i in range(3):
            db.append("t", pa.table({"r": [9 - i], "id": [7], "c": [0]}))
        db.compact("t", full=True)
        assert [part.order for part in parts_of(db)] == [()]
        assert db.sql("SELECT r FROM t WHERE c = 0").rows() == [(9,), (8,), (7,)]


@pytest.mark.parametrize(
    "ids",
    [
        np.arange(ROWS)[::-1].copy(),
        np.random.default_rng(2).permutation(ROWS),
        np.arange(ROWS) // ROWS,
        np.arange(2 * PAGE_ROWS),
        pa.array([None if i == 9 else i for i in range(ROWS)]),
    ],
    ids=["falling", "random", "constant", "few pages", "with NULL"],
)
def test_no_column_rises(ids: Any) -> None:
    with filled(ids) as db:
        db.sql("DELETE FROM t WHERE r = 3")
        shard = db.context.table("t")
        assert compaction_order(shard, shard.machine.fetch()) == ()


def test_cluster_by_decides() -> None:
    with filled(np.arange(ROWS)) as db:
        db.recluster("t", by=["r"])
        db.sql("DELETE FROM t WHERE id = 3")
        shard = db.context.table("t")
        state = shard.machine.fetch()
        assert compaction_order(shard, state) == (state.schema.find("r").id,)


def test_deletions_made_meanwhile_can_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more runs of rows than are recorded, a compaction would give way to every delete."""
    monkeypatch.setattr(natural_order, "MAX_RUNS", 100)
    with filled(np.arange(ROWS)) as db:
        update_scattered(db)
        db.compact("t", full=True)
        assert [part.order for part in parts_of(db)] == [()]
