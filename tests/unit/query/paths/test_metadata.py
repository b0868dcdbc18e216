"""Aggregates from metadata: always what reading gives, and without reading wherever statistics prove it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

import tidegate
from tests.unit.query.metadata_answers import ITEMS, LONG, OFF, WHERES, both, fill, read, told
from tests.unit.storage.shards import World
from tidegate.config import Config
from tidegate.errors import AuditError
from tidegate.expr.model.types import INT8, MZ_TIMESTAMP, Type
from tidegate.plan import Aggregate, Aggregation, MapFilterProject
from tidegate.query import Result, ResultShape, answer
from tidegate.query.request import ScanRequest
from tidegate.sql.bind.query import bind_expression
from tidegate.storage.part.schema import Schema
from tidegate.storage.shard import Shard, shard_options
from tidegate.storage.shard.snapshot import open_snapshot


@pytest.mark.parametrize("seed", range(4))
def test_metadata_and_reading_agree(db: tidegate.Database, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fill(db, rng, 7)
    paths = []
    for where in WHERES[seed % 2 :: 2]:  # all of them take half a minute, and every seed has other rows
        condition = f" WHERE {where}" if where else ""
        for some in (ITEMS[:1], [ITEMS[int(i)] for i in rng.integers(0, len(ITEMS), 4)], ITEMS[:: seed + 1]):
            paths += [both(db, f"SELECT {', '.join(some)} FROM t{condition}").path]
    assert paths.count("metadata") >= 2


@pytest.mark.parametrize("seed", range(2))
def test_retractions(db: tidegate.Database, seed: int) -> None:
    rng = np.random.default_rng(seed)
    written = fill(db, rng, 4)
    told(db, "SELECT count(*) FROM t WHERE k < 0", (0,))
    gone = written[int(rng.integers(4))]
    db.set("retraction_lookup_bytes", 0)  # the retraction stays a row
    db.append("t", {name: column.slice(0, 1) for name, column in gone.items()}, diff=-1)
    total = both(db, "SELECT count(*) FROM t")
    assert (total.path, total.scan.parts_read) == ("metadata", 0)
    for where, item in itertools.product(
        WHERES[:4], ("count(*)", "count(i)", "count(f)", "min(i)", "max(s)")
    ):
        found = both(db, f"SELECT {item} FROM t{f' WHERE {where}' if where else ''}")
        if item.startswith("m"):
            # With a condition, the parts that are left may be such that the retraction does not concern them.
            assert found.path in (("local", "metadata") if where else ("local",))


def test_what_needs_no_reading(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (id int8, x float8, s text, b bool, n numeric(6,2))")
    for start in (0, 10, 20):
        ids = list(range(start, start + 10))
        db.append("t", {"id": ids, "x": [i + 0.5 for i in ids], "s": ["same"] * 10, "b": [True] * 10,
                        "n": [Decimal(i) if i % 5 else None for i in ids]})  # fmt: skip
    told(db, "SELECT count(*) FROM t", (30,))
    told(db, "SELECT count(1), count(*) + 1, count(n), min(id), max(id) FROM t", (30, 31, 24, 0, 29))
    told(db, "SELECT min(x), max(x), min(s), max(s), bool_and(b), min(n) FROM t",
         (0.5, 29.5, "same", "same", True, Decimal("1.00")))  # fmt: skip
    told(db, "SELECT count(*) FROM t WHERE id >= 10", (20,))
    told(db, "SELECT count(*), max(id) FROM t WHERE id >= 10 AND id < 20 AND x > 0", (10, 19))
    told(db, "SELECT count(*), min(id), max(s) FROM t WHERE id < 0", (0, None, None))
    told(db, "SELECT count(*) AS c FROM t HAVING count(*) > 100")
    told(db, "SELECT count(*) FROM t LIMIT 0")
    told(db, "SELECT id FROM t LIMIT 0")
    told(db, "SELECT sum(id) FROM t WHERE id > 1000", (None,))
    told(db, "SELECT id FROM t WHERE id > 1000")


def test_what_is_not_proven_is_read_and_nothing_else(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (id int8, x float8, s text)")
    for start in (0, 10, 20):
        ids = list(range(start, start + 10))
        db.append("t", {"id": ids, "x": [0.0] * 10, "s": [f"{i:02}" + LONG for i in ids]})
    read(db, "SELECT count(*), max(id) FROM t WHERE id >= 15", 1, (15, 29))
    read(db, "SELECT count(*), count(s), min(id) FROM t WHERE id <> 15", 1, (29, 29, 0))
    read(db, "SELECT min(s), count(*) FROM t", 1, ("00" + LONG, 30))
    read(db, "SELECT max(s), count(*) FROM t WHERE id < 20", 1, ("19" + LONG, 20))
    read(db, "SELECT min(s), max(s) FROM t", 2, ("00" + LONG, "29" + LONG))
    read(db, "SELECT min(x) FROM t WHERE id < 10", 1, (0.0,))
    read(db, "SELECT sum(id)::int8 FROM t WHERE id < 10", 1, (45,))
    read(db, "SELECT min(id + 1) FROM t", 3, (1,))
    read(db, "SELECT count(DISTINCT x) FROM t", 3, (1,))
    read(db, "SELECT id / 10, count(*) FROM t GROUP BY 1 HAVING id / 10 = 0", 3, (0, 10))


def test_negative_zero_and_nan_are_told_apart_by_reading(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (x float8)")
    db.append("t", {"x": [-0.0, 0.0]})
    read(db, "SELECT min(x), max(x) FROM t", 1, (-0.0, 0.0))
    db.append("t", {"x": [-5.0, math.nan]})
    told(db, "SELECT min(x) FROM t", (-5.0,))
    read(db, "SELECT max(x) FROM t", 2, (math.nan,))


def test_a_part_of_which_a_time_is_not_yet_there_is_read(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (id int8)")
    db.append("t", {"id": [1, 2]}, at=100)
    db.append("t", {"id": [3]}, at=200)
    told(db, "SELECT count(*), max(id) FROM t", (2, 2), as_of=150)
    told(db, "SELECT count(*), max(id) FROM t", (3, 3), as_of=200)
    db.compact("t", full=True)
    read(db, "SELECT count(*), max(id) FROM t", 1, (2, 2), as_of=150)
    told(db, "SELECT count(*), max(id) FROM t", (3, 3))


def test_multiplicities(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (id int8, x int8)")
    db.append("t", {"id": [1, 2], "x": [1, 1]}, diff=[3, 2])
    told(db, "SELECT count(*), count(x), max(id) FROM t", (5, 5, 2))
    db.append("t", {"id": [3, 4], "x": [1, None]}, diff=[3, 1])
    read(db, "SELECT count(*), count(x) FROM t", 1, (9, 8))
    told(db, "SELECT count(*), count(id) FROM t", (9, 9))


def test_a_column_that_came_later_is_null_before(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (id int8)")
    db.append("t", {"id": [1, 2]})
    db.sql("ALTER TABLE t ADD COLUMN x int8")
    told(db, "SELECT count(x), min(x), count(*) FROM t", (0, None, 2))
    db.append("t", {"id": [3], "x": [7]})
    told(db, "SELECT count(x), min(x), max(x), count(*) FROM t", (1, 7, 7, 3))
    told(db, "SELECT count(*) FROM t WHERE x = 7", (1,))


def test_without_statistics_columns_are_read_and_rows_counted(db: tidegate.Database) -> None:
    db.set("stats_collection", False)
    db.sql("CREATE TABLE t (id int8, b bool)")
    db.append("t", {"id": [1, None], "b": [True, True]})
    told(db, "SELECT count(*) FROM t", (2,))
    read(db, "SELECT count(id) FROM t", 1, (1,))
    read(db, "SELECT bool_and(b), min(id) FROM t", 1, (True, 1))


def test_a_row_that_fails_makes_the_query_fail(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (id int8)")
    db.append("t", {"id": [0, 5]})
    for flag in (None, *OFF):
        if flag is not None:
            db.set(flag, False)
        with pytest.raises(tidegate.EvaluationError, match="division by zero"):
            db.sql("SELECT count(*) FROM t WHERE 1 / id < 5")
        with pytest.raises(tidegate.EvaluationError, match="division by zero"):
            db.sql("SELECT count(1 / id) FROM t")


# ---------------------------------------------------------------- rows that end by themselves


def asked(given: Any, as_of: int, *, fast: bool) -> Result:
    """Count, count(x) and max(x) of a shard whose second column is x and whose last says when a row ends."""
    with open_snapshot(given, as_of) as found:
        types: list[Type] = [column.type for column in found.schema.columns]
        assert found.validity is not None
        valid = found.validity.conditions(found.schema)
        plan = MapFilterProject.identity(types).filter(*valid, bind_expression("id >= 0", [("id", INT8)]))
        one = (Aggregate("count", INT8), Aggregate("count", INT8, 0), Aggregate("max", INT8, 0))
        above = MapFilterProject.identity([INT8, INT8, INT8])
        aggregation = Aggregation(0, one, above, False, ("count", "count", "max"))
        config = Config(fast_path=fast, audit=1.0)
        names = ("all", "ids", "most")
        return answer(
            ScanRequest(
                found,
                plan.project([0]).at(as_of).optimise(),
                names,
                ResultShape(),
                as_of,
                config,
                aggregation=aggregation,
            )
        )


@pytest.mark.parametrize(("as_of", "parts_read"), [(10, 0), (49, 0), (50, 1), (70, 1), (95, 0)])
def test_rows_that_have_ended_do_not_count(as_of: int, parts_read: int) -> None:
    schema = Schema.of([("id", INT8, False), ("lower", MZ_TIMESTAMP, True), ("upper", MZ_TIMESTAMP, True)])
    shard = World().create(schema, {shard_options.VALIDITY: [1, 2]})
    shard = Shard.open(shard.machine, shard.config)
    shard.append({"id": [1, 2], "lower": [None, None], "upper": [50, 90]}, at=5)
    shard.append({"id": [3], "lower": [None], "upper": [None]}, at=6)
    shard.append({"id": [4], "lower": [None], "upper": [200]}, at=100)
    expected = [i for i, end in ((1, 50), (2, 90), (3, 1000)) if as_of < end]
    for fast in (True, False):
        result = asked(shard, as_of, fast=fast)
        assert result.rows() == [(len(expected), len(expected), max(expected))]
        if fast:
            assert result.scan.parts_read == parts_read


# ---------------------------------------------------------------- statistics that lie


def lying(db: tidegate.Database, change: Any) -> str:
    """Appends ids 5, 6 and NULL whose statistics are those of something else; the part's name."""
    shard = db.context.table("t")
    lying = replace(shard, describe=lambda schema, columns: shard.describe(schema, [change(columns[0])]))
    done = lying.append({"id": [5, 6, None]})
    return str(done.parts[0].name)


@pytest.mark.parametrize(
    ("change", "item"),
    [
        (lambda ids: pc.add(ids, 1), "max(id)"),
        (lambda ids: pc.subtract(ids, 1), "min(id)"),
        (lambda ids: pc.fill_null(ids, 6), "count(id)"),
    ],
)
def test_audit_finds_what_was_told_wrongly(db: tidegate.Database, change: Any, item: str) -> None:
    db.sql("CREATE TABLE t (id int8)")
    db.append("t", {"id": [100, 7]})
    assert both(db, f"SELECT {item} FROM t").scan.parts_audited == 1
    part = lying(db, change)
    with pytest.raises(AuditError, match=part) as caught:
        db.sql("SELECT count(*), max(id), min(id), count(id) FROM t")
    assert caught.value.part == part
    db.set("audit", 0.0)
    assert db.sql(f"SELECT {item} FROM t").path == "metadata"


def test_audit_finds_a_verdict_that_is_wrong(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (id int8)")
    part = lying(db, lambda ids: pc.add(pc.fill_null(ids, 0), 100))
    with pytest.raises(AuditError, match=part):
        db.sql("SELECT count(*) FROM t WHERE id >= 100")


def test_audited_parts_are_not_read(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (id int8, s text)")
    for i in range(4):
        db.append("t", {"id": [i], "s": [f"{i}{LONG}"]})
    found = db.sql("SELECT count(*), min(id), min(s) FROM t")
    assert found.rows() == [(4, 0, f"0{LONG}")]
    # The first part is read for min(s) alone: its count and its id are taken from statistics, and audited.
    assert (found.scan.parts_read, found.scan.parts_audited) == (1, 4)
