"""Retractions that are rows concern only the parts that may hold one of the retracted rows."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

import tidegate
from tidegate.config import Config
from tidegate.query.prune import retraction_candidates
from tidegate.storage.shard import open_snapshot

PARTS, ROWS = 20, 50
FILTERS = ("true", "id < 15", "id = 21", "s IS NULL", "s > 'b2'", "f < 9", "id > 20 AND s = 'a'")


def waiting() -> tidegate.Database:
    """Parts one after the other by id; a row of the eighth is retracted by a row."""
    db = tidegate.open("memory://", config=Config(audit=0.0, retraction_lookup_bytes=0, read_threads=1))
    db.sql("CREATE TABLE t (id int8, v int8, s text)")
    for part in range(PARTS):
        ids = np.arange(ROWS) + part * ROWS
        db.append("t", {"id": ids, "v": -ids, "s": [f"s{i % 3}" for i in ids]})
    db.append("t", {"id": [351], "v": [-351], "s": ["s0"]}, diff=-1)
    return db


def test_the_parts_are_those_of_the_row_and_of_its_retraction() -> None:
    with waiting() as db, open_snapshot(db.context.table("t")) as found:
        assert np.flatnonzero(retraction_candidates(found)).tolist() == [7, PARTS]


@pytest.mark.parametrize(
    ("sql", "rows", "parts"),
    [
        ("SELECT * FROM t WHERE id >= 0 LIMIT 3", 3, 1),
        ("SELECT * FROM t LIMIT 3", 3, 1),
        ("SELECT * FROM t WHERE id < 100", 100, 2),
        ("SELECT id FROM t WHERE id < 300 ORDER BY v LIMIT 3", 3, 1),
        ("SELECT id FROM t WHERE id BETWEEN 340 AND 360", 20, 3),
        ("SELECT s, count(*) FROM t WHERE v <= 0 GROUP BY s", 3, PARTS + 1),
        ("SELECT * FROM t", PARTS * ROWS - 1, PARTS + 1),
    ],
)
def test_others_are_read_as_if_there_were_no_retraction(sql: str, rows: int, parts: int) -> None:
    with waiting() as db:
        got = db.sql(sql)
        assert (len(got.rows()), got.scan.parts_read) == (rows, parts)
        assert (
            Counter(got.rows()) == Counter(db.sql(f"{sql} OPTIONS (stats_filter = off)").rows())
            or "LIMIT" in sql
        )


def test_rows_of_other_parts_are_deleted_by_position() -> None:
    with waiting() as db:
        assert db.sql("DELETE FROM t WHERE id < 10").text() == "DELETE 10"
        assert db.context.table("t").machine.fetch().parts.deletions.rows == 10
        assert db.sql("DELETE FROM t WHERE id BETWEEN 350 AND 352").text() == "DELETE 2"
        assert db.context.table("t").machine.fetch().parts.deletions.rows == 10
        assert db.sql("SELECT count(*), min(id) FROM t").rows() == [(PARTS * ROWS - 13, 10)]


@pytest.mark.parametrize("seed", range(4))
def test_random_rows_and_retractions(seed: int) -> None:
    """Few values, so that rows are equal; floats, NULL and a column that was added, by which parts exclude nothing or all."""
    dice = random.Random(seed)
    with tidegate.open("memory://", config=Config(audit=1.0, retraction_lookup_bytes=0)) as db:
        db.sql("CREATE TABLE t (id int8, s text, f float8)")
        model: Counter[tuple[object, ...]] = Counter()
        names = ["id", "s", "f"]
        for step in range(14):
            if step == 7:
                db.sql("ALTER TABLE t ADD COLUMN more int8")
                names.append("more")
                model = Counter({(*row, None): count for row, count in model.items()})
            there = list((+model).elements())
            gone = dice.sample(there, min(len(there), 3)) if dice.random() < 0.4 else []
            base = dice.randrange(5) * 10
            rows = gone or [
                (
                    base + dice.randrange(6),
                    dice.choice([None, "a", f"b{base}"]),
                    dice.choice([0.5, float(base)]),
                )
                + ((dice.choice([None, 1]),) if step >= 7 else ())
                for _ in range(dice.randrange(1, 9))
            ]
            db.append("t", {n: [row[i] for row in rows] for i, n in enumerate(names)}, diff=-1 if gone else 1)
            for row in rows:
                model[row] += -1 if gone else 1
            for where in dice.sample(FILTERS, 2):
                sql = f"SELECT * FROM t WHERE {where}"
                plain = Counter(db.sql(f"{sql} OPTIONS (stats_filter = off, fast_path = off)").rows())
                assert Counter(db.sql(sql).rows()) == plain, where
                some = Counter(db.sql(f"{sql} LIMIT 4").rows())
                assert (some <= plain, some.total()) == (True, min(4, plain.total()))
                assert db.sql(f"SELECT count(*) FROM t WHERE {where}").rows() == [(plain.total(),)]
            assert Counter(db.sql("SELECT * FROM t").rows()) == +model
