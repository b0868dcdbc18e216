"""A DataFrame is one snapshot, whatever is done with it, and what it reads is not swept away while anything can still read it."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.spark.reading import parts_read
from tidegate.config import Config
from tidegate.spark.read import file_index as indexes
from tidegate.spark.read.snapshot_index import SnapshotIndex


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tidegate.Database]:
    with tidegate.open(tmp_path / "lake", config=Config(audit=1.0)) as made:
        made.sql("CREATE TABLE t (id int8, x int8)")
        for i in range(4):
            put(made, i)
        yield made


def put(db: tidegate.Database, part: int) -> None:
    """Ten rows, one part."""
    db.append("t", {"id": [*range(part * 10, part * 10 + 10)], "x": [part] * 10})


def test_one_frame_used_in_many_ways(db: tidegate.Database, spark: SparkSession) -> None:
    df = db.table("t", spark)
    low, high = df.where("id < 10"), df.where("id >= 30")
    assert (parts_read(low), parts_read(high), parts_read(df.where("x > 0"))) == ([1], [1], [3])
    assert (low.count(), df.count(), high.count(), df.where("id = 15 or id = 25").count()) == (10, 40, 10, 2)
    assert low.union(high).count() == 20
    assert parts_read(low.union(high)) == [1, 1]
    assert df.join(df.where("x = 1").withColumnRenamed("x", "y"), "id").count() == 10
    assert df.alias("a").join(df.alias("b"), "id").count() == 40
    df.createOrReplaceTempView("frozen")
    asked = "SELECT (SELECT count(*) FROM frozen WHERE id < 5), (SELECT count(*) FROM frozen), count(*) FROM frozen WHERE x = 3"
    assert tuple(spark.sql(asked).collect()[0]) == (5, 40, 10)
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(lambda i: df.where(f"x = {i % 5}").count(), range(10)))
    assert counts == [10, 10, 10, 10, 0] * 2
    put(db, 4)
    cached = df.where("x < 2").cache()
    assert (cached.count(), df.count(), db.table("t", spark).count()) == (20, 40, 50)
    assert cached.where("id < 3").count() == 3
    cached.unpersist()
    spark.catalog.dropTempView("frozen")


def test_what_a_frame_reads_outlives_compaction_and_sweep(db: tidegate.Database, spark: SparkSession) -> None:
    df = db.table("t", spark)
    child = df.where("id % 2 = 0")
    del df  # the child alone holds it
    gc.collect()
    put(db, 4)
    assert db.compact("t", full=True).removed > 0
    db.set("sweep_grace_ms", 0)
    assert db.sweep().garbage == 0
    assert child.count() == 20
    assert sorted(row.id for row in child.where("x = 3").collect()) == [30, 32, 34, 36, 38]
    assert db.table("t", spark).count() == 50
    del child
    jvm: Any = spark.sparkContext._jvm
    deadline = time.monotonic() + 60
    while not (swept := db.sweep().garbage) and time.monotonic() < deadline:
        gc.collect()
        jvm.System.gc()
        spark.range(1).count()
        time.sleep(0.2)
    assert swept >= 4, "the lease ends when the JVM has forgotten the plan"


def test_a_part_that_is_missing_is_an_error(
    db: tidegate.Database, spark: SparkSession, tmp_path: Path
) -> None:
    df = db.table("t", spark)
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        files = sorted((tmp_path / "lake" / "part").rglob("*"))
        files = [file for file in files if file.is_file()]
        files[0].write_bytes(files[0].read_bytes()[:100])
        with pytest.raises(Exception, match=r"FAILED_READ_FILE|parquet"):
            df.collect()
        for file in files:
            file.unlink()
        with pytest.raises(Exception, match="FAILED_READ_FILE"):
            df.collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")


def test_our_failures_never_lose_rows(
    db: tidegate.Database,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    df, metrics = db.table("t", spark), db.context.metrics

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("a bug of ours")

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(indexes, "translate", broken)
        assert df.where("id < 5").count() == 5
    assert metrics.value("translation_failures") > 0
    assert "a filter is not used" in caplog.text
    with monkeypatch.context() as patch:
        patch.setattr(SnapshotIndex, "_compute", broken)
        assert df.where("id < 6").count() == 6
    assert metrics.value("prune_failures") > 0
    with monkeypatch.context() as patch:
        patch.setattr(SnapshotIndex, "uris", broken)
        with pytest.raises(Exception, match="a bug of ours"):
            df.where("id < 7").count()
    assert df.where("id < 7").count() == 7


def test_pruned_parts_are_counted_and_audited(db: tidegate.Database, spark: SparkSession) -> None:
    metrics = db.context.metrics
    before = {what: metrics.value("parts", what=what) for what in ("considered", "pruned", "read", "audited")}
    assert db.table("t", spark).where("id + 1 > 31").count() == 9
    after = {what: metrics.value("parts", what=what) - count for what, count in before.items()}
    assert after == {"considered": 4, "pruned": 3, "read": 1, "audited": 3}
    assert metrics.value("bytes", what="pruned") > 0


def test_statistics_that_lie_are_found_out(
    db: tidegate.Database, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = db.table("t", spark)
    monkeypatch.setattr(SnapshotIndex, "_compute", _swapped(SnapshotIndex._compute))
    with pytest.raises(Exception, match=r"statistics of .* are wrong"):
        df.where("id >= 10 and id < 20").count()
    assert db.context.metrics.value("audit_failures") == 1


def _swapped(original: Any) -> Any:
    """Verdicts of the wrong parts."""

    def verdicts(self: SnapshotIndex, conditions: Any) -> Any:
        plan, found = original(self, conditions)
        return plan, replace(found, verdict=found.verdict[::-1])

    return verdicts


def test_explain_says_how_many_parts_are_read(
    db: tidegate.Database, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    df = db.table("t", spark)
    df.where("id < 20").explain()
    assert "tidegate:/t 2 of 4 parts" in capsys.readouterr().out
    df.where("id < 30").explain("formatted")
    assert "tidegate:/t 3 of 4 parts" in capsys.readouterr().out
    df.where("id < 10").explain("extended")
    assert "tidegate:/t 1 of 4 parts" in capsys.readouterr().out
    df.createOrReplaceTempView("shown")
    assert (
        "tidegate:/t 1 of 4 parts"
        in spark.sql("EXPLAIN FORMATTED SELECT * FROM shown WHERE x = 2").collect()[0][0]
    )
    spark.catalog.dropTempView("shown")
