"""Parts of every kind: repeated, partly visible, retracted, of older schemas, ended. Spark reads what `db.sql` does."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.spark.reading import bag, every_type, ours, parts_read
from tidegate.config import Config
from tidegate.errors import TidegateError, UnsupportedError
from tidegate.query.prune import retraction_candidates
from tidegate.spark.read.relation import pin
from tidegate.storage.shard import shard_options
from tidegate.storage.shard.changes import Configure


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tidegate.Database]:
    # Retractions stay rows.
    with tidegate.open(tmp_path / "lake", config=Config(audit=1.0, retraction_lookup_bytes=0)) as made:
        yield made


def same(db: tidegate.Database, spark: SparkSession, name: str, as_of: int | None = None) -> None:
    """Spark has the rows that we have."""
    found = ours(db.table(name, spark, as_of), db, name)
    assert bag(found) == bag(db.sql(f"SELECT * FROM {name}", as_of=as_of).arrow())


def test_random_histories_of_every_type(db: tidegate.Database, spark: SparkSession) -> None:
    """Inserted, repeated, retracted, at several times; equal rows that are not identical among them."""
    rows, dice = every_type(db), random.Random(7)
    there: list[int] = []
    for at in range(1, 7):
        some = dice.sample(range(len(rows)), 8)
        diffs = [dice.choice([1, 1, 3]) for _ in some]
        db.append("every", rows.take(some), at=at * 10, diff=pa.array(diffs))
        there += [row for row, diff in zip(some, diffs, strict=True) for _ in range(diff)]
        gone = dice.sample(there, 3)
        if at > 2:
            db.append("every", rows.take(gone), at=at * 10 + 5, diff=-1)
            for row in gone:
                there.remove(row)
    same(db, spark, "every")
    same(db, spark, "every", 46)
    df = db.table("every", spark)
    assert df.count() == len(there)
    wheres = ("t = 'a'", "i8 > 0", "f8 = 0")
    counted = df.selectExpr(*(f"count_if({where})" for where in wheres)).collect()[0]
    for where, expected in zip(wheres, counted, strict=True):
        assert df.where(where).count() == expected, where


def test_equal_rows_that_differ_retract_each_other(db: tidegate.Database, spark: SparkSession) -> None:
    db.sql("CREATE TABLE z (id int8, f float8, i interval, l float8[])")
    schema = db.sql("SELECT * FROM z").schema

    def put(at: int, diff: int, *rows: tuple[Any, ...]) -> None:
        db.append("z", pa.table(list(map(list, zip(*rows, strict=True))), schema=schema), at=at, diff=diff)

    put(10, 1, (1, -0.0, (1, 0, 0), [-0.0]), (1, 0.0, (0, 30, 0), [0.0]), (2, -0.0, None, None))
    put(20, -1, (1, 0.0, (1, 0, 0), [-0.0]))  # equal to both, identical to neither: one of them goes
    put(30, -1, (2, 0.0, None, None))
    df = db.table("z", spark)
    assert [row.id for row in df.collect()] == [1]
    assert df.where("cast(f as string) = '-0.0'").count() + df.where("cast(f as string) = '0.0'").count() == 1
    assert df.where("id = 2").count() == 0
    same(db, spark, "z", 15)
    put(40, -1, (9, 1.0, None, None))
    with pytest.raises(Exception, match="retracted more often"):
        db.table("z", spark).collect()


def test_only_parts_that_a_retraction_may_meet_are_added_up(
    db: tidegate.Database, spark: SparkSession
) -> None:
    db.sql("CREATE TABLE days (day date, id int8, note text)")
    for day in range(20):
        db.append(
            "days",
            {"day": [dt.date(2024, 1, day + 1)] * 5, "id": [*range(5)], "note": ["x", None] * 2 + ["y"]},
        )
    gone = {"day": [dt.date(2024, 1, 7)] * 2, "id": [0, 1], "note": ["x", None]}
    db.set("retraction_lookup_bytes", 0)  # retractions stay rows
    db.append("days", gone, diff=-1)
    relation = pin(db.context, "days")
    assert np.flatnonzero(retraction_candidates(relation.index.snapshot)).tolist() == [6, 20]
    df = relation.frame(spark)
    assert df.count() == 98
    assert sorted(parts_read(df.where("day > DATE '2024-01-15'"))) == [0, 5]
    assert sorted(parts_read(df.where("day = DATE '2024-01-07'"))) == [0, 2]
    assert df.where("day = DATE '2024-01-07'").count() == 3
    same(db, spark, "days")
    relation.index.snapshot.close()


def test_parts_of_older_schemas_are_read_by_the_ids_of_columns(
    db: tidegate.Database, spark: SparkSession
) -> None:
    db.sql("CREATE TABLE t (id int8, note text)")
    db.append("t", {"id": [1, 2], "note": ["a", "b"]})
    db.sql("ALTER TABLE t ADD COLUMN extra int8")
    db.append("t", {"id": [3], "note": ["c"], "extra": [33]})
    same(db, spark, "t")
    assert (
        len(parts_read(db.table("t", spark).where("id > 0"))) == 1
    )  # a column that is missing needs no branch
    db.sql("ALTER TABLE t DROP COLUMN note")
    db.sql('ALTER TABLE t ADD COLUMN "NOTE" int8')
    db.append("t", {"id": [4], "extra": [44], "NOTE": [5]})
    df = db.table("t", spark)
    assert bag(ours(df, db, "t")) == bag(db.sql("SELECT * FROM t").arrow())
    assert df.where("note = 5").count() == 1
    assert df.where("note is null").count() == 3
    assert parts_read(df.where("NOTE > 0")) == [1]  # where it is NULL Spark drops the branch itself
    assert sorted(parts_read(df.where("id = 1"))) == [0, 1]


def test_columns_that_differ_in_case_only(db: tidegate.Database, spark: SparkSession) -> None:
    db.sql('CREATE TABLE c (a int8, "A" int8)')
    db.append("c", {"a": [1], "A": [2]})
    with pytest.raises(UnsupportedError, match="does not tell apart"):
        db.table("c", spark)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert db.table("c", spark).where("A = 2 and a = 1").count() == 1
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_rows_that_end_by_themselves(db: tidegate.Database, spark: SparkSession) -> None:
    db.sql("CREATE TABLE v (id int8, lower int8, upper int8)")
    shard = db.context.table("v")
    shard.machine.update(lambda _: Configure({shard_options.VALIDITY: [1, 2]}))
    db.append("v", {"id": [1, 2, 3], "lower": [0, 0, 0], "upper": [15, 25, None]}, at=10)
    db.append("v", {"id": [4], "lower": [0], "upper": [100]}, at=20)
    same(db, spark, "v", 10)
    same(db, spark, "v", 20)
    assert sorted(row.id for row in db.table("v", spark, 20).collect()) == [2, 3, 4]


def test_nothing_and_a_hundred(db: tidegate.Database, spark: SparkSession) -> None:
    db.sql("CREATE TABLE t (id int8, x text)")
    empty = db.table("t", spark)
    assert empty.collect() == []
    assert empty.columns == ["id", "x"]
    for i in range(100):
        db.append("t", {"id": [i], "x": [str(i)]}, at=i + 1)
    df = db.table("t", spark)
    assert parts_read(df.where("x is not null")) == [100]
    assert df.count() == 100
    assert len(df.inputFiles()) == 100
    assert df.where("id < 0").collect() == []
    assert parts_read(df.where("id >= 90")) == [10]
    assert db.table("t", spark, 50).count() == 50
    assert empty.count() == 0  # pinned when it was made
    with pytest.raises(TidegateError, match="no table or view"):
        db.table("nothing", spark)
    db.set("as_of_timeout_ms", 0)
    with pytest.raises(TidegateError, match="it looks like microseconds"):
        db.table("t", spark, 10**15)
