"""Least, greatest and best values of parts with deleted rows: what reading gives, and little is read."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tidegate
from tests.unit.query.metadata_answers import ITEMS, LONG, WHERES, both, fill, read, told


@pytest.mark.parametrize("seed", range(4))
def test_deletions(db: tidegate.Database, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fill(db, rng, 7)
    gone = (
        "i = 9",
        "f = 0",
        "f <> f",
        f"s = '{LONG}a'",
        "b",
        "k = 3",
        "n < 0",
        "u IS NULL",
        "k % 2 = 0 AND i = -3",
    )
    for condition in rng.choice(gone, 3, replace=False):
        db.sql(f"DELETE FROM t WHERE {condition}")
        for item in ITEMS:
            both(db, f"SELECT {item} FROM t")
        both(db, f"SELECT {', '.join(ITEMS)} FROM t WHERE {WHERES[1 + int(rng.integers(len(WHERES) - 1))]}")


def test_extremes_of_parts_with_deletions_are_read_in_the_order_of_their_bounds(
    db: tidegate.Database,
) -> None:
    db.sql("CREATE TABLE t (id int8, v int8, s text)")
    for start in range(0, 100, 10):
        ids = list(range(start, start + 10))
        db.append("t", {"id": ids, "v": [i * 37 % 100 for i in ids], "s": [f"{i:02}" + LONG for i in ids]})
    db.sql("DELETE FROM t WHERE id % 10 = 4")
    told(db, "SELECT count(*) FROM t", (90,))
    read(db, "SELECT count(*), min(id) FROM t", 1, (90, 0))
    read(db, "SELECT min(id), max(id) FROM t", 2, (0, 99))
    read(db, "SELECT min(s), max(s) FROM t", 2, ("00" + LONG, "99" + LONG))
    assert both(db, "SELECT min(v), max(v), count(v) FROM t").scan.parts_read < 5
    db.sql("DELETE FROM t WHERE id < 8 OR id = 99")
    read(db, "SELECT min(id), max(id), count(*) FROM t", 2, (8, 98, 82))
    db.sql("DELETE FROM t WHERE id < 97")
    read(db, "SELECT min(id), max(s) FROM t", 2, (97, "98" + LONG))
    db.sql("DELETE FROM t")
    told(db, "SELECT min(id), max(s), count(*) FROM t", (None, None, 0))


def test_an_extreme_that_is_deleted_in_every_part_is_read_once(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (id int8, v int8)")
    for part in range(12):
        db.append("t", {"id": [part] * 4, "v": [0, 3 + part, 50, 99]})
    at = db.context.table("t").machine.fetch().upper - 1
    db.sql("DELETE FROM t WHERE v = 0 OR v = 99")
    least, greatest = "SELECT min(v) FROM t", "SELECT max(v), count(*) FROM t"
    first = db.sql(least)
    assert (first.rows(), first.scan.parts_read) == ([(3,)], 12), "any of them could hold less"
    again = db.sql(least)
    assert (again.rows(), again.scan.parts_read) == ([(3,)], 0)
    assert db.sql(greatest).rows() == db.sql(greatest).rows() == [(50, 24)]
    assert db.sql(f"{least} WHERE id >= 5").rows() == [(8,)]
    assert db.sql(least, as_of=at).rows() == [(0,)]
    db.sql("DELETE FROM t WHERE v = 3")
    changed = db.sql(least)
    assert (changed.rows(), changed.scan.parts_read > 0) == ([(4,)], True)
    db.append("t", {"id": [99], "v": [-7]})
    assert db.sql(least).rows() == [(-7,)]


@pytest.mark.parametrize("kind", ["float8", "float4"])
def test_a_part_of_which_only_nan_is_left_is_above_its_bounds(db: tidegate.Database, kind: str) -> None:
    db.sql(f"CREATE TABLE t (id int8, v {kind})")
    db.append("t", {"id": [1, 2], "v": [1.0, math.nan]})
    db.append("t", {"id": [3, 4], "v": [5.0, 6.0]})
    db.sql("DELETE FROM t WHERE id IN (1, 4)")
    assert both(db, "SELECT min(v) FROM t").rows() == [(5.0,)]
    assert both(db, "SELECT min(v) FROM t WHERE id > 0").rows() == [(5.0,)]
    assert repr(both(db, "SELECT max(v) FROM t").rows()) == "[(nan,)]"


@pytest.mark.parametrize("descending", [False, True])
def test_the_best_rows_of_a_large_part_are_found_by_its_pages(
    db: tidegate.Database, descending: bool
) -> None:
    db.set("audit", 0.0)  # it reads what is left out
    db.sql("CREATE TABLE t (id int8, v int8, s text)")
    ids = np.arange(60 * 8192)
    db.append("t", {"id": ids, "v": ids * 7919 % 1_000_003, "s": np.char.add("row ", ids.astype(str))})
    sql = f"SELECT * FROM t ORDER BY v {'DESC' if descending else 'ASC'} LIMIT 10"
    assert both(db, sql).scan.rows_read < 30 * 8192
    best = [row["id"] for row in db.sql(sql).arrow().to_pylist()]
    db.sql(f"DELETE FROM t WHERE id IN ({', '.join(map(str, best[:9]))})")
    found = both(db, sql)
    assert found.scan.rows_read < 30 * 8192
    assert found.rows()[0][0] == best[9]
    extreme = "max" if descending else "min"
    assert both(db, f"SELECT {extreme}(v), count(*) FROM t").rows() == [
        (best[9] * 7919 % 1_000_003, len(ids) - 9)
    ]
