"""Rows that were deleted by their position are not there, however Spark reads; parts without them are read as they are."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import tidegate
from tests.spark.reading import bag, every_type, ours, parts_read, plan_text
from tidegate.config import Config
from tidegate.plan import MapFilterProject
from tidegate.spark.engine.scans import FORCED_READER, Reader
from tidegate.spark.jvm import Jvm
from tidegate.spark.read import branches as branches_module
from tidegate.spark.read import deleted_rows, late_scan
from tidegate.spark.read.branches import MAX_JOINED_ROWS, branches
from tidegate.spark.read.deleted_rows import deletion_indexes
from tidegate.spark.read.relation import pin
from tidegate.storage.part import bitmaps
from tidegate.storage.shard import shard, shard_options
from tidegate.storage.shard.changes import Configure

Rows = Mapping[int, tuple[int, int, str]]
"""The rows of the table `t`, by their id."""
Way = Callable[[tidegate.Database, SparkSession, int | None, str], list[Any]]
"""Reads the rows of `t` at a time that pass a condition."""
PARTS, EACH, LAST = 8, 40, 80
WHERE = f"id < {2 * EACH}"
"""A condition that two parts can fulfil."""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tidegate.Database]:
    with tidegate.open(tmp_path / "lake", config=Config(audit=1.0)) as found:
        yield found


def fill(db: tidegate.Database) -> dict[int, tuple[int, int, str]]:
    """A table of eight parts, at the times 10, 20, …, `LAST`; returns its rows."""
    db.sql("CREATE TABLE t (id int8, g int4, note text)")
    rows = {i: (i, i % 5, f"note {i}") for i in range(PARTS * EACH)}
    for part in range(PARTS):
        some = [rows[i] for i in range(part * EACH, (part + 1) * EACH)]
        columns = dict(zip(("id", "g", "note"), map(list, zip(*some, strict=True)), strict=True))
        db.append("t", columns, at=(part + 1) * 10)
    return rows


def change(db: tidegate.Database, rows: Rows) -> dict[int, tuple[int, int, str]]:
    """Deletes and updates rows here and there; returns what is left."""
    db.sql("DELETE FROM t WHERE id % 7 = 3")
    db.sql("UPDATE t SET g = g + 100 WHERE id % 11 = 5")
    return {i: (i, g + 100 * (i % 11 == 5), note) for i, (_, g, note) in rows.items() if i % 7 != 3}


# ---------------------------------------------------------------------------------------------- the ways to read


def by_table(db: tidegate.Database, spark: SparkSession, as_of: int | None, where: str) -> list[Any]:
    return db.table("t", spark, as_of).where(where).collect()


def by_view(_: tidegate.Database, spark: SparkSession, as_of: int | None, where: str) -> list[Any]:
    table = "t" if as_of is None else f"tidegate('t', {as_of})"
    return spark.sql(f"SELECT * FROM {table} WHERE {where}").collect()


def by_path(db: tidegate.Database, spark: SparkSession, as_of: int | None, where: str) -> list[Any]:
    reader = spark.read.format("tidegate").option("where", where)
    reader = reader if as_of is None else reader.option("as_of", str(as_of))
    return reader.load(f"{db.context.root.place.root}:t").collect()


def by_tasks(db: tidegate.Database, spark: SparkSession, as_of: int | None, where: str) -> list[Any]:
    """As a store is read that Spark has no classes for."""
    index = pin(db.context, "t", as_of).index
    columns = index.snapshot.schema.columns
    whole = MapFilterProject.identity([column.type for column in columns])
    names = [column.name for column in columns]
    df = late_scan.scan_frame(spark, db.context, index.snapshot, whole, names, index.now, in_driver=False)
    return df.where(where).collect()


def by_sql(
    reader: Reader, db: tidegate.Database, spark: SparkSession, as_of: int | None, where: str
) -> list[Any]:
    """General SQL, each of whose scans is read in this way."""
    token = FORCED_READER.set(reader)
    try:
        sql = f"SELECT *, count(*) OVER () FROM t WHERE {where} OPTIONS (engine = spark)"
        rows = db.sql(sql, as_of=as_of).rows()
    finally:
        FORCED_READER.reset(token)
    assert all(row[3] == len(rows) for row in rows)
    return [row[:3] for row in rows]


WAYS: dict[str, Way] = {
    "table": by_table, "view": by_view, "path": by_path, "tasks": by_tasks,
    **{f"sql {reader}": partial(by_sql, reader) for reader in get_args(Reader)},
}  # fmt: skip


def check(db: tidegate.Database, spark: SparkSession, way: Way, expected: Rows, as_of: int | None) -> None:
    """A way gives the rows that a plain dictionary and `db.sql` give: all of them, and those of two parts."""
    for where, few in (("id >= 0", PARTS * EACH), (WHERE, 2 * EACH)):
        found = sorted(map(tuple, way(db, spark, as_of, where)))
        assert found == sorted(row for i, row in expected.items() if i < few), where
        assert found == sorted(db.sql(f"SELECT * FROM t WHERE {where}", as_of=as_of).rows())


@pytest.mark.parametrize("way", WAYS)
def test_each_way_gives_the_rows_that_are_left(way: str, db: tidegate.Database, spark: SparkSession) -> None:
    before = fill(db)
    after = change(db, before)
    early = {i: row for i, row in before.items() if i < 3 * EACH}
    attached = db.attach(spark)
    try:
        check(db, spark, WAYS[way], after, None)
        check(db, spark, WAYS[way], before, LAST)
        db.compact("t", full=True)
        check(db, spark, WAYS[way], after, None)
        check(db, spark, WAYS[way], early, 30)  # parts now hold several times, some of them later
    finally:
        attached.detach()


# ---------------------------------------------------------------------------------------------- what Spark does


def test_only_parts_with_deleted_rows_are_read_in_another_way(
    db: tidegate.Database, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the others have many rows."""
    monkeypatch.setattr(branches_module, "MAX_JOINED_ROWS", 0)
    rows = fill(db)
    untouched = db.table("t", spark)
    assert parts_read(untouched.where("id >= 0")) == [PARTS]
    db.sql(f"DELETE FROM t WHERE id IN (3, 5, {EACH})")
    df = db.table("t", spark)
    plain, deleted = plan_text(df.where("g >= 0")).split("Location: ")[1:]
    assert f"tidegate:/t {PARTS - 2} of {PARTS} parts" in plain
    assert "ReadSchema: struct<id:bigint,g:int,note:string>" in plain
    assert f"tidegate:/t deleted 2 of {PARTS} parts" in deleted
    assert "ReadSchema: struct<id:bigint,g:int,note:string,_pos:bigint>" in deleted
    assert plan_text(df).count("Batched: true") == 2
    assert "getInt" in deleted
    assert df.columns == ["id", "g", "note"]
    assert df.count() == len(rows) - 3  # from the files' footers, but for the two
    assert untouched.count() == len(rows)  # pinned before


def test_few_rows_without_deletions_are_read_in_the_same_scan(
    db: tidegate.Database, spark: SparkSession
) -> None:
    """A second scan costs more than the condition on their rows."""
    rows = fill(db)
    db.sql(f"DELETE FROM t WHERE id IN (3, 5, {EACH})")
    df = db.table("t", spark)
    assert plan_text(df).count("Location: ") == 1
    assert f"tidegate:/t deleted {PARTS} of {PARTS} parts" in plan_text(df)
    assert sorted(row.id for row in df.collect()) == sorted(rows.keys() - {3, 5, EACH})
    assert parts_read(df.where(f"id >= {(PARTS - 1) * EACH}")) == [1]  # of which no row is deleted


def test_parts_of_which_all_rows_are_deleted_are_not_read(db: tidegate.Database, spark: SparkSession) -> None:
    rows = fill(db)
    db.sql(f"DELETE FROM t WHERE id < {2 * EACH}")
    assert parts_read(db.table("t", spark)) == [PARTS - 2]
    assert db.table("t", spark).count() == len(rows) - 2 * EACH
    assert db.table("t", spark, LAST).count() == len(rows)
    db.sql("DELETE FROM t")
    assert db.table("t", spark).toArrow().shape == (0, 3)


def test_filters_prune_parts_with_deleted_rows(db: tidegate.Database, spark: SparkSession) -> None:
    rows = fill(db)
    db.sql("DELETE FROM t WHERE id % 7 = 3")  # of every part
    df = db.table("t", spark)
    for where, parts in ((WHERE, 2), (f"id + 5 < {EACH}", 1), ("id < 0", 0), ("g < 50", PARTS)):
        assert parts_read(df.where(where)) == [parts], where
    assert df.where(f"id + 5 < {EACH}").count() == sum(i + 5 < EACH and i % 7 != 3 for i in rows)


def test_positions_are_right_where_spark_skips_pages_and_splits_files(
    db: tidegate.Database, spark: SparkSession
) -> None:
    """One part of 70,000 rows: filters that read a page of it, and tasks that read a piece of it."""
    db.sql("CREATE TABLE big (id int8, x int8, note text)")
    count = 70_000
    columns = {
        "id": np.arange(count),
        "x": np.arange(count) % 97,
        "note": [f"note {i}" for i in range(count)],
    }
    db.append("big", pa.table(columns))
    db.sql("DELETE FROM big WHERE id % 3 = 1 OR id BETWEEN 20000 AND 30000")
    left = [i for i in range(count) if i % 3 != 1 and not 20_000 <= i <= 30_000]
    df = db.table("big", spark)
    assert sorted(row.id for row in df.select("id").collect()) == left
    for low in (0, 8_191, 8_192, 29_999, 50_123, 65_535, 65_536, count - 5):
        found = sorted(row.id for row in df.where(f"id BETWEEN {low} AND {low + 40}").collect())
        assert found == [i for i in left if low <= i <= low + 40], low
    spark.conf.set("spark.sql.files.maxPartitionBytes", "100000")
    try:
        split = db.table("big", spark)
        assert split.rdd.getNumPartitions() > 1
        assert (split.count(), split.agg({"id": "sum"}).first()[0]) == (len(left), sum(left))
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


ROWS = {
    "spark.sql.parquet.enableVectorizedReader": "false",
    "spark.sql.codegen.maxFields": "2",
    "spark.sql.codegen.wholeStage": "false",
}
"""Settings by which Spark reads rows instead of batches."""


@pytest.mark.parametrize("setting", ROWS)
def test_files_carry_only_a_number_where_spark_reads_rows(
    setting: str, db: tidegate.Database, spark: SparkSession
) -> None:
    """Spark would copy the positions of all rows of a part with each of them."""
    after = change(db, fill(db))
    assert "getInt(0)" not in plan_text(db.table("t", spark))
    spark.conf.set(setting, ROWS[setting])
    try:
        check(db, spark, by_table, after, None)
        text = plan_text(db.table("t", spark))
        assert "Batched: false" in text
        assert "getInt(0)" in text  # the number
    finally:
        spark.conf.unset(setting)


def test_files_that_are_handed_over_one_by_one(
    db: tidegate.Database, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Java serialises files and bytes in another way than we know."""
    after = change(db, fill(db))
    jvm = Jvm.of(spark)
    for template in ("_directory_template", "_bytes_template"):
        assert getattr(jvm, template) is not None
        monkeypatch.setitem(vars(jvm), template, None)
    check(db, spark, by_table, after, None)
    spark.conf.set("spark.sql.codegen.maxFields", "2")
    try:
        check(db, spark, by_table, after, None)
    finally:
        spark.conf.unset("spark.sql.codegen.maxFields")


@pytest.mark.parametrize("columns", [95, 105])
def test_wide_tables(columns: int, db: tidegate.Database, spark: SparkSession) -> None:
    """Spark reads up to 100 columns in batches. Queries of fewer columns of a wider table are read in batches too."""
    names = [f"c{i}" for i in range(columns)]
    db.sql(f"CREATE TABLE w ({', '.join(f'{name} int8' for name in names)})")
    for part in range(3):
        db.append("w", {name: [100 * part + i + k for k in range(50)] for i, name in enumerate(names)})
    upper = db.context.collection("w").machine.fetch().upper - 1
    db.sql("DELETE FROM w WHERE c0 % 3 = 1")
    left = [first for part in range(3) for first in range(100 * part, 100 * part + 50) if first % 3 != 1]
    df = db.table("w", spark)
    assert f"Batched: {'true' if columns < 100 else 'false'}" in plan_text(df)
    assert sorted(map(tuple, df.collect())) == [tuple(range(c, c + columns)) for c in left]
    few = df.select("c0", "c7").where("c7 > 110")
    assert "Batched: true" in plan_text(few)
    assert sorted(map(tuple, few.collect())) == [(c, c + 7) for c in left if c > 103]
    assert (df.count(), db.table("w", spark, upper).count()) == (len(left), 150)


def test_nested_columns(db: tidegate.Database, spark: SparkSession) -> None:
    """Of records and lists, read whole and in part."""
    db.sql("CREATE TABLE nested (id int8, s row(a int8, b int8[]))")
    fields = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.int64()))])
    values = [None if i % 10 == 9 else {"a": i, "b": list(range(i % 4))} for i in range(300)]
    db.append("nested", pa.table({"id": pa.array(range(300)), "s": pa.array(values, fields)}))
    db.sql("DELETE FROM nested WHERE id % 3 = 1")
    df = db.table("nested", spark)
    expected = [values[i] for i in range(300) if i % 3 != 1]
    assert [row.s and row.s.asDict() for row in df.orderBy("id").collect()] == expected
    assert [row[0] for row in df.orderBy("id").selectExpr("s.a").collect()] == [
        v and v["a"] for v in expected
    ]


def test_positions_in_objects_of_their_own(
    db: tidegate.Database, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As large deletions are stored; at each time those of that time."""
    monkeypatch.setattr(shard, "MAX_INLINE_BYTES", 0)
    after = change(db, before := fill(db))
    assert db.context.collection("t").machine.fetch().parts.deletions.objects
    for as_of, rows in ((None, after), (LAST, before)):
        check(db, spark, by_table, rows, as_of)


# ---------------------------------------------------------------------------------------------- mixed with the rest


def same(db: tidegate.Database, spark: SparkSession, name: str, as_of: int | None = None) -> DataFrame:
    df = db.table(name, spark, as_of)
    assert bag(ours(df, db, name)) == bag(db.sql(f"SELECT * FROM {name}", as_of=as_of).arrow())
    assert df.count() == db.sql(f"SELECT count(*) FROM {name}", as_of=as_of).rows()[0][0]
    return df


@pytest.mark.parametrize("joined", [0, MAX_JOINED_ROWS])
def test_with_repeated_rows_and_pending_retractions(
    joined: int, db: tidegate.Database, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branches_module, "MAX_JOINED_ROWS", joined)
    db.set("retraction_lookup_bytes", 0)  # retractions stay rows
    rows, dice, there = every_type(db), random.Random(11), list[int]()
    times = []
    for step in range(1, 6):
        some = dice.sample(range(len(rows)), 8)
        diffs = [dice.choice([1, 2, 3]) for _ in some]
        at = db.context.collection("every").machine.fetch().upper + 10
        db.append("every", rows.take(some), at=at, diff=pa.array(diffs))
        there += [row for row, diff in zip(some, diffs, strict=True) for _ in range(diff)]
        times.append(at)
        if step == 2:
            db.sql("DELETE FROM every WHERE i2 > 0")
            times.append(db.context.collection("every").machine.fetch().upper - 1)
            there = [row for row in there if not (rows.column("i2")[row].as_py() or 0) > 0]
    state = db.context.collection("every").machine.fetch()
    assert state.parts.deletions
    gone = dice.sample(there, 3)
    db.append("every", rows.take(gone), at=state.upper + 10, diff=-1)
    kinds = {
        branch.label for branch in branches(pin(db.context, "every").index.snapshot, case_sensitive=False)
    }
    assert {" deleted consolidated", *([] if joined else [" consolidated"])} <= kinds
    assert same(db, spark, "every").count() == len(there) - 3
    for at in times:
        same(db, spark, "every", at)
    db.compact("every", full=True)
    same(db, spark, "every")
    for at in times[1:]:
        same(db, spark, "every", at)


def test_with_rows_that_end_by_themselves(db: tidegate.Database, spark: SparkSession) -> None:
    db.sql("CREATE TABLE v (id int8, lower int8, upper int8)")
    db.append("v", {"id": [1, 2, 3], "lower": [0, 0, 0], "upper": [15, 9_000_000_000_000, None]}, at=10)
    db.append("v", {"id": [4, 5], "lower": [0, 0], "upper": [100, None]}, at=20)
    db.sql("DELETE FROM v WHERE id = 3")
    db.context.table("v").machine.update(lambda _: Configure({shard_options.VALIDITY: [1, 2]}))
    same(db, spark, "v", 10)
    same(db, spark, "v", 20)
    assert sorted(row.id for row in db.table("v", spark, 20).collect()) == [2, 3, 4, 5]
    assert sorted(row.id for row in same(db, spark, "v").collect()) == [2, 5]


def test_columns_that_are_called_like_ours(db: tidegate.Database, spark: SparkSession) -> None:
    db.sql('CREATE TABLE n (id int8, "_Deleted" text, "__deleted" text)')
    db.append("n", {"id": [1, 2, 3], "_Deleted": ["a", "b", "c"], "__deleted": ["x", "y", "z"]})
    db.sql("DELETE FROM n WHERE id = 2")
    assert sorted(map(tuple, same(db, spark, "n").collect())) == [(1, "a", "x"), (3, "c", "z")]


def test_parts_of_older_schemas(db: tidegate.Database, spark: SparkSession) -> None:
    fill(db)
    db.sql("ALTER TABLE t DROP COLUMN note")
    db.sql("ALTER TABLE t ADD COLUMN note int8")
    db.append("t", {"id": [1000, 1001], "g": [1, 2], "note": [1, 2]})
    db.sql("DELETE FROM t WHERE id IN (5, 1001)")
    same(db, spark, "t")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 1.0])
@pytest.mark.parametrize("most", [1, 100_000, 1 << 30])
def test_what_is_looked_up(share: float, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python looks up as the condition does, in parts with rows at the edges of words and blocks, however many at a time."""
    monkeypatch.setattr(deleted_rows, "_MAX_EXPANDED_ROWS", most)
    dice, rows = np.random.default_rng(7), [1, 31, 1023, 1024, 1025, 2, 32 * 1024, 32 * 1024 + 1, 100_000]
    masks = [dice.random(count) < share for count in rows]
    for mask in masks[:-1]:
        mask[-1] = True
    found = deletion_indexes(
        [bitmaps.pack_positions(np.flatnonzero(m)) if m.any() else b"" for m in masks], rows
    )
    assert deletion_indexes([], []).to_pylist() == []
    for mask, count, value in zip(masks, rows, found.to_pylist(), strict=True):
        words, position = np.frombuffer(value, ">i4"), np.arange(count)
        bits = words[words[position >> 10] // 4 + ((position & 1023) >> 5)] >> (position & 31) & 1
        assert (bits.astype(bool) == mask).all()
        assert len(value) <= count / 8 * 1.05 + 384
