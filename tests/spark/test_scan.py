"""Our own scan in Spark's tasks: the rows are those of the local path, whatever the types, the history, and the settings.

Parts here are small; `in_driver=False` still sends them to tasks, and `MIN_PARTITION_BYTES` is set so that there are several.
"""

from __future__ import annotations

import gc
import time
import uuid
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import tidegate
from tests import servers
from tests.laws.poison import corpus, with_nulls
from tidegate.context import CatalogSnapshot, Context
from tidegate.database import Database
from tidegate.errors import EvaluationError, PlanError, StoreError
from tidegate.expr.model.types import SCALARS, Kind
from tidegate.plan import BoundQuery, MapFilterProject
from tidegate.query import ResultShape, ScanRequest, answer
from tidegate.query.prune import prune
from tidegate.spark.arrow import from_spark
from tidegate.spark.read import late_scan as scan
from tidegate.spark.read.late_scan import fits_tasks, hold_snapshot, scan_frame
from tidegate.spark.task_errors import tidegate_error
from tidegate.sql import prepare
from tidegate.storage.shard.snapshot import Snapshot, open_snapshot

NOW = 1_800_000_000_000


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    monkeypatch.setattr(scan, "MIN_PARTITION_BYTES", 1)
    with tidegate.open(tmp_path / "lake") as found:
        yield found


def lake_of(db: Database) -> Context:
    found = db.context
    assert found is not None
    return found


def single(sql: str, seen: CatalogSnapshot) -> BoundQuery:
    """A query as a plan over one collection."""
    bound = prepare(sql, seen, NOW).single
    assert bound is not None
    return bound


def asked(db: Database, spark: SparkSession, sql: str, **how: Any) -> tuple[DataFrame, Snapshot]:
    seen = CatalogSnapshot(lake_of(db))
    bound = single(sql, seen)
    assert bound.source is not None
    pinned = open_snapshot(seen.tables[bound.source][0])
    how.setdefault("in_driver", False)
    return scan_frame(spark, lake_of(db), pinned, bound.mfp, bound.names, NOW, **how), pinned


def rows(df: DataFrame, db: Database, sql: str) -> list[str]:
    """What Spark gives, as the values that we would give, in no order."""
    found, table = db.sql(f"{sql} LIMIT 0"), df.toArrow()
    assert len(found.types) == table.num_columns
    columns = [
        from_spark(table.column(i).combine_chunks(), type_).to_pylist() for i, type_ in enumerate(found.types)
    ]
    return sorted(map(repr, zip(*columns, strict=True)))


def expected(db: Database, sql: str) -> list[str]:
    table = db.sql(sql).arrow()
    return sorted(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))


def many_types(db: Database) -> None:
    """A table with a column of every type, and one of arrays and records of them, full of poison."""
    kinds = [type_ for type_ in SCALARS if type_.kind is not Kind.MZ_TIMESTAMP]
    columns = [f"c_{type_.kind.value} {type_}" for type_ in kinds]
    db.sql(
        f"CREATE TABLE every (id int8, {', '.join(columns)}, a uuid[], i interval[], r row(x int4, t time, v interval))"
    )
    for turn in range(4):
        rng = np.random.default_rng(turn)
        given: dict[str, Any] = {"id": pa.array(range(turn * 50, turn * 50 + 50), pa.int64())}
        for type_ in kinds:
            values = corpus(type_)
            picked = values.take(pa.array(rng.integers(0, len(values), 50)))
            given[f"c_{type_.kind.value}"] = with_nulls(rng, picked, 0.2)
        uuids, spans, times = given["c_uuid"], given["c_interval"], given["c_time"]
        offsets = pa.array(range(51), pa.int32())
        given["a"] = pa.ListArray.from_arrays(offsets, uuids)
        given["i"] = pa.ListArray.from_arrays(offsets, spans)
        given["r"] = pa.StructArray.from_arrays([given["c_int4"], times, spans], ["x", "t", "v"])
        db.append("every", pa.table(given))


def test_every_type(db: Database, spark: SparkSession) -> None:
    many_types(db)
    sql = "SELECT * FROM every"
    found, _ = asked(db, spark, sql)
    assert found.rdd.getNumPartitions() > 1
    assert rows(found, db, sql) == expected(db, sql)
    here, _ = asked(db, spark, sql, in_driver=True)
    assert rows(here, db, sql) == expected(db, sql)


QUERIES = (
    "SELECT id, x, x FROM t WHERE (j->>'k')::int8 % 7 = 3",
    "SELECT upper(s) || x::text, mz_now() FROM t WHERE id BETWEEN 100 AND 2500 AND s LIKE '%7'",
    "SELECT id FROM t WHERE id > 1000000",
    "SELECT s FROM t WHERE mz_now() > at",
    "SELECT j->'k', added FROM t WHERE id < 5 OR added IS NOT NULL",
)


def filled(db: Database) -> None:
    db.sql("CREATE TABLE t (id int8, x float8, s text, at timestamptz, j jsonb)")
    for turn in range(6):
        ids = range(turn * 500, turn * 500 + 500)
        table = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "x": [i / 7 for i in ids],
                "s": [f"row {i}" for i in ids],
                "at": pa.array([(NOW + i * 60_000 - 10**8) * 1000 for i in ids], pa.timestamp("us", "UTC")),
                "j": [f'{{"k": {i}}}' for i in ids],
            }
        )
        db.append("t", table)
    db.sql("ALTER TABLE t ADD COLUMN added text")
    db.sql("INSERT INTO t (id, added) VALUES (1, 'later'), (1, 'later')")


def test_plans_run_in_tasks(db: Database, spark: SparkSession) -> None:
    filled(db)
    for sql in QUERIES:
        for setting in ("late_materialization", "stats_filter"):
            db.set(setting, False)
            found, pinned = asked(db, spark, sql)
            with pinned:
                assert rows(found, db, sql) == _local(db, sql), (sql, setting)
            db.set(setting, None)


def _local(db: Database, sql: str) -> list[str]:
    """The same in this process, at the same time."""
    seen = CatalogSnapshot(lake_of(db))
    bound = single(sql, seen)
    assert bound.source is not None
    with open_snapshot(seen.tables[bound.source][0]) as pinned:
        plan = bound.mfp.at(NOW).optimise()
        question = ScanRequest(pinned, plan, bound.names, ResultShape(), NOW, lake_of(db).config)
        table = answer(question).arrow()
    return sorted(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))


def test_rows_meet_their_retractions(
    db: Database, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(db)
    db.set("delete_by_position", False)  # retractions stay rows
    db.sql("DELETE FROM t WHERE id % 3 = 0")
    db.sql("UPDATE t SET x = -0.0 WHERE id < 40")
    for sql in (*QUERIES, "SELECT x FROM t WHERE x::text = '-0'"):
        found, pinned = asked(db, spark, sql)
        with pinned:
            assert rows(found, db, sql) == _local(db, sql), sql
    monkeypatch.setattr(scan, "MAX_CONSOLIDATED_BYTES", 10)
    with pytest.raises(PlanError, match="too large for one task"):
        asked(db, spark, "SELECT id FROM t")


def test_pages_and_bitmaps_in_tasks(db: Database, spark: SparkSession) -> None:
    """Parts large enough for a table of pages, and few rows of them: polars decodes, in workers that Spark has forked."""
    db.sql("CREATE TABLE wide (id int8, k int4, s text, t text, x float8)")
    for turn in range(3):
        ids = np.arange(turn * 50_000, turn * 50_000 + 50_000)
        texts = [f"{i * 7919 % 50_021:x} text" for i in ids.tolist()]
        db.append("wide", {"id": ids, "k": ids % 1000, "s": texts, "t": texts, "x": ids / 3})
    sql = "SELECT id, s, t, x FROM wide WHERE k = 17 AND s LIKE '%1%' AND (x * 3)::int8 % 2 = 1"
    seen = CatalogSnapshot(lake_of(db))
    bound = single(sql, seen)
    with open_snapshot(seen.tables["wide"][0]) as pinned:
        plan = bound.mfp.at(NOW).optimise()
        question = ScanRequest(pinned, plan, bound.names, ResultShape(), NOW, lake_of(db).config)
        pruned = prune(pinned, plan, NOW, use=True)
        assert scan._plans(question, pruned)[0][1], "it is read in stages"
        assert all(part.tail for part in pinned.parts()), "the parts have tables of pages"
        for _ in range(2):  # workers are used again
            found, again = asked(db, spark, sql)
            with again:
                got = rows(found, db, sql)
                assert got == _local(db, sql)
                assert len(got) > 20


def test_no_column_is_counted(db: Database, spark: SparkSession) -> None:
    filled(db)
    seen = CatalogSnapshot(lake_of(db))
    bound = single("SELECT 1 FROM t WHERE id < 700", seen)
    with open_snapshot(seen.tables["t"][0]) as pinned:
        bare = bound.mfp.project(())
        found = scan_frame(spark, lake_of(db), pinned, bare, [], NOW, in_driver=False)
        assert (found.columns, found.count()) == ([], 702)


def test_a_row_that_fails(db: Database, spark: SparkSession) -> None:
    filled(db)
    found, _ = asked(db, spark, "SELECT 10 / (id - 777), s FROM t WHERE id > 3")
    with pytest.raises(PySparkException) as failed:
        found.collect()
    error = tidegate_error(failed.value)
    assert isinstance(error, EvaluationError)
    assert str(error) == "division by zero\nin the row id = 777, s = 'row 777'"
    with pytest.raises(EvaluationError, match="division by zero"):
        asked(db, spark, "SELECT 10 / (id - 777) FROM t", in_driver=True)
    assert error.row == {"id": 777, "s": "row 777"}
    assert tidegate_error(ValueError("something else")) is None


def test_a_part_that_is_gone(db: Database, spark: SparkSession, tmp_path: Path) -> None:
    filled(db)
    found, pinned = asked(db, spark, "SELECT id FROM t")
    (tmp_path / "lake" / pinned.parts()[2].name).unlink()
    with pytest.raises(PySparkException) as failed:
        found.collect()
    error = tidegate_error(failed.value)
    assert isinstance(error, StoreError)
    assert pinned.parts()[2].name in str(error)


def test_in_memory(spark: SparkSession) -> None:
    with tidegate.open("memory://") as db:
        filled(db)
        for sql in QUERIES:
            found, pinned = asked(db, spark, sql, in_driver=None)
            with pinned:
                assert rows(found, db, sql) == _local(db, sql), sql


def test_a_bucket(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks open the store by themselves, with the credentials of the URL; these are shown nowhere."""
    monkeypatch.setattr(scan, "MIN_PARTITION_BYTES", 1)
    try:
        options = servers.s3()
    except servers.Missing as missing:
        pytest.skip(f"there is no {missing}")
    with tidegate.open(f"s3://lake/scan-{uuid.uuid4().hex}?{urlencode(options)}") as db:
        filled(db)
        found, pinned = asked(db, spark, QUERIES[0])
        with pinned:
            assert rows(found, db, QUERIES[0]) == _local(db, QUERIES[0])
        found.explain(True)
        assert options["secret_access_key"] not in capsys.readouterr().out


def test_credentials_are_not_shown(
    db: Database, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(db)
    found, _ = asked(db, spark, "SELECT id FROM t")
    found.explain(True)
    shown = capsys.readouterr().out
    assert scan.NAME in shown
    assert scan.OPTION not in shown or "redacted" in shown
    assert len(shown) < 5000


def test_the_snapshot_lives_as_long_as_the_plan(db: Database, spark: SparkSession) -> None:
    filled(db)
    found, pinned = asked(db, spark, "SELECT id FROM t WHERE id < 10")
    hold_snapshot(found, pinned)
    alive = weakref.ref(pinned)
    del pinned
    child = found.where("id > 3")
    del found
    _collect(spark)
    assert alive() is not None, "a child holds it"
    assert child.count() == 6
    child.createOrReplaceTempView("scanned")
    del child
    _collect(spark)
    assert alive() is not None, "a view holds it"
    assert spark.sql("SELECT count(*) FROM scanned").collect()[0][0] == 6
    spark.catalog.dropTempView("scanned")
    for _ in range(40):
        _collect(spark)
        if alive() is None:
            break
    assert alive() is None, "nothing refers to it any more"


def _collect(spark: SparkSession) -> None:
    gc.collect()
    spark._jvm.System.gc()  # type: ignore[attr-defined]  # over py4j
    time.sleep(0.1)
    gc.collect()


def test_splits_are_cut_by_bytes(db: Database, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(db)
    found, pinned = asked(db, spark, "SELECT id FROM t")
    sizes = [part.size for part in pinned.parts()]
    assert found.rdd.getNumPartitions() > 1
    monkeypatch.setattr(scan, "MIN_PARTITION_BYTES", 1 << 30)
    monkeypatch.setattr(scan, "MAX_PARTITION_BYTES", sum(sizes) + 1)
    found, _ = asked(db, spark, "SELECT id FROM t")
    assert found.rdd.getNumPartitions() == 1
    plan = MapFilterProject.identity([column.type for column in pinned.schema.columns])
    assert fits_tasks(pinned, prune(pinned, plan, NOW, use=True))
