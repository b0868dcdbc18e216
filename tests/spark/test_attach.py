"""Collections as views of a session: each query that names one reads what is committed, and one snapshot of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.spark.reading import parts_read
from tidegate.config import Config
from tidegate.errors import BindError
from tidegate.spark.read.relation import SnapshotRelation


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tidegate.Database]:
    with tidegate.open(tmp_path / "lake", config=Config(audit=1.0)) as made:
        made.sql("CREATE TABLE t (id int8, x int8)")
        for i in range(4):
            put(made, i)
        yield made


def put(db: tidegate.Database, part: int, at: int | None = None) -> None:
    """Ten rows, one part."""
    db.append("t", {"id": [*range(part * 10, part * 10 + 10)], "x": [part] * 10}, at=at)


def test_a_view_is_as_new_as_the_query(db: tidegate.Database, spark: SparkSession) -> None:
    db.sql("""CREATE TABLE "it's `odd`" (n int8)""")
    attached = db.attach(spark)
    assert set(attached.names) == {"t", "it's `odd`"}
    assert spark.sql("SELECT count(*) FROM t").collect()[0][0] == 40
    assert spark.table("`it's ``odd```").columns == ["n"]
    df = spark.sql("SELECT * FROM t WHERE id >= 30")
    assert parts_read(df) == [1]
    spark.sql("CREATE OR REPLACE TEMP VIEW mine AS SELECT id FROM t WHERE x > 2")
    put(db, 4)
    assert spark.sql("SELECT count(*) FROM t").collect()[0][0] == 50
    assert spark.sql("SELECT count(*) FROM mine").collect()[0][0] == 20
    assert spark.newSession().sql("SELECT count(*) FROM global_temp.t").collect()[0][0] == 50
    assert (df.count(), df.where("id < 32").count()) == (10, 2)  # made before, and stays what it was
    db.sql("ALTER TABLE t ADD COLUMN y text")
    assert spark.sql("SELECT y FROM t WHERE id = 0").collect()[0][0] is None
    db.sql("CREATE TABLE later (n int8)")
    assert spark.table("later").count() == 0
    db.sql("DROP TABLE later")
    assert not spark.catalog.tableExists("later")
    assert "t" in [found.name for found in spark.catalog.listTables()]
    attached.detach()
    assert not spark.catalog.tableExists("t")
    with pytest.raises(Exception, match="closed or detached"):
        spark.sql("SELECT * FROM tidegate('t')")
    spark.catalog.dropTempView("mine")


def test_one_query_reads_one_snapshot(
    db: tidegate.Database, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody appends whenever the analyser has met the name: all the same both sides of a join are one snapshot."""
    db.attach(spark)
    original, parts = SnapshotRelation.frame, [4]

    def appending(self: SnapshotRelation, session: SparkSession) -> object:
        parts[0] += 1
        put(db, parts[0])
        return original(self, session)

    monkeypatch.setattr(SnapshotRelation, "frame", appending)
    joined = "SELECT count(*), count(DISTINCT a.x), count(DISTINCT b.x) FROM t a FULL JOIN t b USING (id)"
    (rows, left, right) = spark.sql(joined).collect()[0]
    assert (rows, left, right) == (40, 4, 4)
    assert parts[0] == 6
    assert spark.sql("SELECT count(*) FROM t").collect()[0][0] == 60


def test_as_of_and_what_is_not_there(db: tidegate.Database, spark: SparkSession) -> None:
    upper = db.status().collections["t"].upper
    db.attach(spark)
    put(db, 9, at=upper + 10)
    assert spark.sql(f"SELECT count(*) FROM tidegate('t', {upper})").collect()[0][0] == 40
    assert spark.sql("SELECT count(*) FROM tidegate('t')").collect()[0][0] == 50
    for wrong, message in (
        ("tidegate('tt')", "did you mean t"),
        ("tidegate()", "takes the name"),
        ("tidegate(7)", "takes the name"),
        ("tidegate('t', 1, 2)", "takes the name"),
    ):
        with pytest.raises(Exception, match=message):
            spark.sql(f"SELECT * FROM {wrong}").collect()
    with tidegate.open("memory://twins") as other:
        other.sql("CREATE TABLE a (n int8)")
        other.sql('CREATE TABLE "A" (n int8)')
        with pytest.raises(BindError, match="the same name to Spark"):
            other.attach(spark)


def test_a_cached_view_is_used_until_something_is_appended(
    db: tidegate.Database, spark: SparkSession
) -> None:
    db.attach(spark)
    spark.catalog.cacheTable("t")
    assert spark.table("t").count() == 40
    plan = spark.sql("SELECT sum(x) FROM t WHERE id > 3")._jdf.queryExecution().executedPlan().toString()
    assert "InMemory" in plan
    put(db, 4)
    assert spark.table("t").count() == 50
    spark.catalog.clearCache()


def test_views_in_threads(db: tidegate.Database, spark: SparkSession) -> None:
    db.attach(spark)
    found: dict[int, int] = {}

    def ask(i: int) -> None:
        found[i] = spark.sql(f"SELECT count(*) FROM t WHERE x <= {i}").collect()[0][0]

    threads = [Thread(target=ask, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: 10, 1: 20, 2: 30, 3: 40}


def test_a_database_in_memory_is_read_too(spark: SparkSession) -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE m (id int8, at interval)")
        db.append("m", {"id": [1, 2, 3]} | {"at": [None] * 3})
        df = db.table("m", spark)
        assert sorted(row.id for row in df.where("id > 1").collect()) == [2, 3]
