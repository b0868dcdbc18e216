"""Compaction takes parts that lie scattered among others back to where their rows came from."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate
from tests.unit.storage.maintain.test_natural_order import ROWS, filled, parts_of
from tidegate.config import Config
from tidegate.storage.maintain import compact as compaction
from tidegate.storage.maintain import natural_order
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.merge_parts import blocks_of_bytes
from tidegate.storage.maintain.natural_order import PartRanges, compaction_order, ranges_of
from tidegate.storage.maintain.rewrite import written_bytes
from tidegate.storage.part import Block

POINT = "SELECT id, c FROM t WHERE id = 4096"


def in_parts(ids: np.ndarray, parts: int) -> tidegate.Database:
    """A table with these ids in so many parts, and a column in which all parts hold the same."""
    db = tidegate.open("memory://", config=Config(audit=0.0, compact_fanout=8))
    db.sql("CREATE TABLE t (r int8, id int8, c int8)")
    for some in np.array_split(ids, parts):
        db.append("t", pa.table({"r": some % 7, "id": some, "c": np.ones(len(some), np.int64)}))
    return db


def update(db: tidegate.Database, step: int, first: int = 0) -> None:
    """Changes one row of each `step`."""
    db.sql(f"UPDATE t SET c = c + 1 WHERE id % {step} = {first}")


@pytest.mark.parametrize("running", [False, True])
def test_updated_rows_go_back_to_their_neighbours(running: bool) -> None:
    with filled(np.arange(ROWS)) as db:
        shard, before = db.context.table("t"), db.sql("SELECT * FROM t ORDER BY id").rows()
        at = shard.machine.fetch().upper - 1
        for first in range(3):
            update(db, 16, first)
        there = db.sql("SELECT * FROM t ORDER BY id").rows()
        compact_shard(shard, max_bytes=1 << 30 if running else None)
        (part,) = parts_of(db)
        assert (part.rows, len(part.order)) == (ROWS, 1)
        assert db.sql(POINT).scan.rows_read == 8192
        assert db.sql("SELECT * FROM t ORDER BY id").rows() == there
        assert db.sql("SELECT * FROM t ORDER BY id", as_of=at).rows() == before


def test_a_running_source_does_not_rewrite_all_for_a_few_rows() -> None:
    with filled(np.arange(ROWS)) as db:
        shard = db.context.table("t")
        (base,) = parts_of(db)
        for first in range(4):
            update(db, 128, first)
        compact_shard(shard, max_bytes=1 << 30)
        assert [part.name == base.name for part in parts_of(db)] == [True, False]
        compact_shard(shard)
        assert len(parts_of(db)) == 1


def test_what_was_appended_behind_is_left_where_it_is() -> None:
    with filled(np.arange(ROWS)) as db:
        db.sql("DELETE FROM t WHERE id = 17")
        (base,) = parts_of(db)
        db.append("t", pa.table({"r": [1], "id": [ROWS], "c": [0]}))
        compact_shard(db.context.table("t"))
        assert [part.name == base.name for part in parts_of(db)] == [True, False]


def test_only_parts_that_were_updated_are_rewritten() -> None:
    with in_parts(np.arange(8_000), 8) as db:
        names = [part.name for part in parts_of(db)]
        db.sql("UPDATE t SET c = 5 WHERE id % 10 = 0 AND id BETWEEN 2000 AND 3999")
        compact_shard(db.context.table("t"))
        kept = {part.name for part in parts_of(db)} & set(names)
        assert kept == set(names[:2] + names[4:])
        assert db.sql("SELECT count(*), sum(c) FROM t").rows() == [(8_000, 8_000 + 4 * 200)]
        assert db.sql("SELECT c FROM t WHERE id = 2010").scan.parts_read == 1


def test_no_group_is_larger_than_a_few_full_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "MAX_FOLDED_PARTS", 0)
    with filled(np.arange(ROWS)) as db:
        update(db, 128)
        before = [part.name for part in parts_of(db)]
        compact_shard(db.context.table("t"))
        assert [part.name for part in parts_of(db)] == before


@pytest.mark.parametrize("fits", [True, False])
def test_a_full_compaction_folds_however_many_parts(monkeypatch: pytest.MonkeyPatch, fits: bool) -> None:
    """More parts than another compaction takes at once, also where the scattered rows do not fit into memory."""
    monkeypatch.setattr(compaction, "MAX_FOLDED_PARTS", 0)
    if not fits:
        monkeypatch.setattr(natural_order, "MAX_SCATTERED_BYTES", 0)
    with in_parts(np.arange(ROWS), 20) as db:
        shard, before = db.context.table("t"), db.sql("SELECT * FROM t ORDER BY id").rows()
        at = shard.machine.fetch().upper - 1
        for first in range(3):
            update(db, 16, first)
        db.sql("DELETE FROM t WHERE id % 100 = 7")
        there = db.sql("SELECT * FROM t ORDER BY id").rows()
        assert db.sql(POINT).scan.parts_read > 1
        compact_shard(shard, full=True)
        found = parts_of(db)
        assert (len(found), sum(part.rows for part in found)) == (1, len(there))
        assert db.sql(POINT).scan.rows_read <= 8192
        assert db.sql("SELECT * FROM t ORDER BY id").rows() == there
        assert db.sql("SELECT * FROM t ORDER BY id", as_of=at).rows() == before


@pytest.mark.parametrize("id_", [2_048, 4_095, 3_000])
def test_a_single_row_of_a_part_goes_back_also_from_its_ends(id_: int) -> None:
    with in_parts(np.arange(8_192), 4) as db:
        db.sql(f"UPDATE t SET c = 9 WHERE id = {id_}")
        compact_shard(db.context.table("t"), full=True)
        assert [part.rows for part in parts_of(db)] == [8_192]
        assert db.sql(f"SELECT c FROM t WHERE id = {id_}").scan.parts_read == 1


@pytest.mark.parametrize("type_", ["int4[]", "float8", "numeric(10,2)", "jsonb", "uuid", "bool"])
def test_columns_whose_ranges_are_not_compared(type_: str) -> None:
    """CLUSTER BY of any type: nothing is folded by a column whose bounds are not ranked, or sorted otherwise than values are."""
    with tidegate.open("memory://", config=Config(audit=0.0, part_bytes=1 << 12)) as db:
        db.sql(f"CREATE TABLE t (id int8, k {type_}) CLUSTER BY (k)")
        values = {
            "int4[]": "ARRAY[i % 7]::int4[]", "jsonb": "to_jsonb(i)", "bool": "i % 2 = 0",
            "uuid": "('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid",
        }.get(type_, f"(i % 100)::{type_}")  # fmt: skip
        for first in (0, 400, 800):
            db.sql(f"INSERT INTO t SELECT i, {values} FROM generate_series({first}, {first + 399}) i")
        db.sql("INSERT INTO t VALUES (5000, NULL)")
        db.sql("UPDATE t SET id = id + 10000 WHERE id % 50 = 3")
        db.sql("DELETE FROM t WHERE id % 90 = 7")
        there = Counter(map(repr, db.sql("SELECT * FROM t").rows()))
        for full in (True, False, True):
            compact_shard(db.context.table("t"), full=full)
            assert Counter(map(repr, db.sql("SELECT * FROM t").rows())) == there


def test_folded_rows_with_text_and_without_a_value() -> None:
    """Rows without a key go behind all others, as sorting puts them."""
    with tidegate.open("memory://", config=Config(audit=0.0, part_bytes=1 << 12)) as db:
        db.sql("CREATE TABLE t (k text, c int8)")
        keys = [f"é{i:05d}" for i in range(4_000)]
        for some in np.array_split(np.arange(4_000), 8):
            db.append("t", {"k": [keys[i] for i in some], "c": [0] * len(some)})
        db.sql("UPDATE t SET c = 1 WHERE k LIKE '%7'")
        db.sql("UPDATE t SET k = NULL WHERE k LIKE '%13'")
        there = Counter(db.sql("SELECT * FROM t").rows())
        assert there[(None, 0)] == 40
        compact_shard(db.context.table("t"), full=True)
        assert Counter(db.sql("SELECT * FROM t").rows()) == there
        found = db.sql("SELECT c FROM t WHERE k = 'é02047'")
        assert (found.rows(), found.scan.parts_read) == ([(1,)], 1)


def test_few_rows_at_the_end_are_no_part_of_their_own() -> None:
    """Of blocks with 10 rows each, 4 are enough for a part."""
    block = Block([pa.array(range(10)), pa.array([0] * 10), pa.array([0] * 10)], np.zeros(10), np.ones(10))
    size = written_bytes(block)
    for blocks, rows in ((4, [40]), (5, [40, 10]), (8, [40, 40]), (3, [30]), (0, [])):
        found = blocks_of_bytes(iter([block] * blocks), 4 * size)
        assert [len(one) for one in found] == rows
    last = block.slice(0, 9)
    found = blocks_of_bytes(iter([*[block] * 8, last]), 4 * size)
    assert [len(one) for one in found] == [40, 49], "nine rows are less than a quarter"


@pytest.mark.parametrize(
    ("ids", "found"),
    [
        (np.arange(600), True),
        (np.random.default_rng(3).permutation(600), False),
        (np.arange(600) // 100, False),  # the same value in all rows of a part
    ],
)
def test_parts_that_follow_each_other_show_an_order(ids: np.ndarray, found: bool) -> None:
    with in_parts(ids, 6) as db:
        db.sql("UPDATE t SET c = 2 WHERE id % 60 = 3")
        shard = db.context.table("t")
        state = shard.machine.fetch()
        assert compaction_order(shard, state) == ((state.schema.find("id").id,) if found else ())


def test_ranges_of_parts_are_ranks_and_unknown_ones_are_wide() -> None:
    with in_parts(np.arange(40), 4) as db:
        db.append("t", pa.table({"r": [1, 1], "id": [3, None], "c": [1, 1]}))
        db.append("t", pa.table({"r": [1], "id": [5], "c": [1]}))
        state = db.context.table("t").machine.fetch()
        ids = np.array([part.id for part in state.parts.all()])
        ranges = ranges_of(state, ids, state.schema.find("id").id)
        assert ranges.known.tolist() == [True] * 4 + [False, True]
        assert ranges.scattered().tolist() == [False] * 4 + [True, True]
        assert ranges.meeting(np.arange(6) == 5).tolist() == [True, False, False, False, True, True]


INTERVALS = st.lists(
    st.tuples(st.integers(1, 20), st.integers(0, 12), st.integers(0, 6)), min_size=1, max_size=12
)


@settings(max_examples=200, deadline=None)
@given(INTERVALS)
def test_scattered_is_what_lies_among_a_denser_part(parts: list[tuple[int, int, int]]) -> None:
    """By the definition, each part with each; 200 cases meet all kinds of neighbours of three parts."""
    rows, low, wide = (np.array(some) for some in zip(*parts, strict=True))
    ranges = PartRanges(rows, low, low + wide, np.ones(len(rows), bool), pa.array(low))
    found = ranges.scattered()
    high = ranges.high
    order = sorted(range(len(rows)), key=lambda at: -rows[at] / max(1, wide[at]))
    for place, at in enumerate(order):
        denser = [one for one in order[:place] if not found[one]]
        meets = any(low[one] < high[at] and low[at] < high[one] for one in denser)
        inside = any(
            low[one] <= low[at] and high[at] <= high[one] and 8 * rows[at] <= rows[one] for one in denser
        )
        assert found[at] == (meets or inside)
    met = ranges.meeting(found)
    assert met.tolist() == [
        any(low[one] <= high[at] and low[at] <= high[one] for one in np.flatnonzero(found))
        for at in range(len(rows))
    ]
