"""Names of every kind, of collections, columns and fields of records, through everything that Spark is asked by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import tidegate
from tidegate.config import Config
from tidegate.errors import UnsupportedError
from tidegate.spark.data_source import register
from tidegate.spark.read.file_index import PartIndex
from tidegate.spark.types import quoted

NAMES = ("a`b", "`", "a.b", 'a"b', "a'b", "a\\b", "${x}", "${env:HOME}", "select", "v0", "variants", "/* a")
"""What ends a quoted name, what separates names, what Spark replaces before it parses, and what our own texts call columns."""


NAME = " ".join(NAMES)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tidegate.Database]:
    with tidegate.open(tmp_path / "lake", config=Config(audit=1.0)) as made:
        yield made


def sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_every_name_in_every_place(db: tidegate.Database, spark: SparkSession, tmp_path: Path) -> None:
    """As columns, as fields of a record and of records in a list; all of them in one for a collection."""
    table = sql_name(NAME)
    record = ", ".join(f"{sql_name(name)} float8" for name in NAMES)
    texts = ", ".join(f"{sql_name(name)} text" for name in NAMES)
    db.sql(f"CREATE TABLE {table} (id int8, {texts}, r row({record}, i interval), l row({record})[])")
    insert(db, 1, "interval '1 month'")
    insert(db, 2, "interval '30 days'")
    check_frame(db, spark)
    check_query(db)
    attached = db.attach(spark)
    spark.conf.set("spark.sql.variable.substitute", "false")  # what users may write is Spark's matter
    try:
        assert spark.table(quoted(NAME)).count() == 2
    finally:
        spark.conf.unset("spark.sql.variable.substitute")
        attached.detach()
    register(spark)
    written = db.table(NAME, spark).write.format("tidegate").mode("append")
    written.options(database=str(tmp_path / "lake"), collection=NAME).save()
    db.sql(f"DELETE FROM {table} WHERE id = 1")
    assert sorted(map(tuple, shown(db, spark).collect())) == [expected(2), expected(2)]
    db.sql(f"ALTER TABLE {table} DROP COLUMN l")
    db.sql(f"ALTER TABLE {table} ADD COLUMN l row({record})[]")
    assert [row.l for row in db.table(NAME, spark).collect()] == [None, None]


def insert(db: tidegate.Database, id_: int, interval: str) -> None:
    """A row whose values say where they are."""
    texts = ", ".join(f"'t{id_}.{i}'" for i in range(len(NAMES)))
    numbers = ", ".join(f"{id_}.{i:02}" for i in range(len(NAMES)))
    values = f"{id_}, {texts}, row({numbers}, {interval}), array[row({numbers})]"
    db.sql(f"INSERT INTO {sql_name(NAME)} VALUES ({values})")


def expected(id_: int) -> tuple[object, ...]:
    numbers = [float(f"{id_}.{i:02}") for i in range(len(NAMES))]
    return (id_, *(f"t{id_}.{i}" for i in range(len(NAMES))), *numbers, *numbers)


def shown(db: tidegate.Database, spark: SparkSession) -> DataFrame:
    fields = [f.col(f"r.{quoted(name)}") for name in NAMES]
    listed = [f.col("l")[0][name] for name in NAMES]
    return db.table(NAME, spark).select("id", *(f.col(quoted(name)) for name in NAMES), *fields, *listed)


def check_frame(db: tidegate.Database, spark: SparkSession) -> None:
    """Rows, filters that prune, and what EXPLAIN says."""
    assert sorted(map(tuple, shown(db, spark).collect())) == [expected(1), expected(2)]
    df, before = db.table(NAME, spark), db.context.metrics.value("parts", what="read")
    for i, name in enumerate(NAMES):
        df = df.where(f.col(quoted(name)) == f"t2.{i}").where(f.col(f"r.{quoted(name)}") > 1.9)
    assert df.count() == 1
    assert db.context.metrics.value("parts", what="read") - before == 1
    assert db.context.metrics.value("translation_failures") == 0
    assert "tidegate:/" in df._jdf.queryExecution().toString()


def check_query(db: tidegate.Database) -> None:
    """General SQL: names in joins, records compared as a whole, fields taken of what was computed."""
    table = sql_name(NAME)
    same = " AND ".join(f"a.{sql_name(name)} = b.{sql_name(name)}" for name in NAMES)
    fields = ", ".join(f"max((coalesce(a.r, b.r)).{sql_name(name)})" for name in NAMES)
    sql = f"SELECT {fields} FROM {table} a JOIN {table} b ON a.r = b.r AND {same} WHERE a.id = 2"
    for engine in ("spark", "embedded"):
        found = db.sql(f"{sql} OPTIONS (engine = {engine})")
        assert found.path == engine
        assert found.rows() == [expected(2)[-len(NAMES) :]]


@pytest.mark.parametrize(
    "columns",
    ['a int8, "A" int8', 'l row(x row(a int8, "A" int8))[]', '"_Diff" text'],
)
def test_names_that_differ_by_case_alone(db: tidegate.Database, spark: SparkSession, columns: str) -> None:
    """Refused with what to do; and what to do helps."""
    db.sql(f"CREATE TABLE t (id int8, {columns})")
    db.sql("INSERT INTO t (id) VALUES (1), (2)")
    db.sql("DELETE FROM t WHERE id = 2")
    with pytest.raises(UnsupportedError, match="does not tell apart") as told:
        db.table("t", spark)
    assert "caseSensitive" in str(told.value)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert [row.id for row in db.table("t", spark).collect()] == [1]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_the_index_answers_all_that_spark_asks(
    db: tidegate.Database, spark: SparkSession, tmp_path: Path
) -> None:
    """py4j knows no default methods: what is not written in Python fails, as a plain write did beside something cached."""
    jvm = spark._jvm
    assert jvm is not None
    methods = jvm.java.lang.Class.forName(PartIndex.Java.implements[0]).getMethods()
    names = {method.getName() for method in methods}
    assert {name for name in names if not name.endswith("$")} <= set(dir(PartIndex))
    db.sql("CREATE TABLE t (id int8)")
    db.sql("INSERT INTO t VALUES (1), (2)")
    cached = db.table("t", spark).cache()
    try:
        assert cached.count() == 2
        spark.range(5).write.parquet(str(tmp_path / "out"))
        assert cached.count() == 2
    finally:
        cached.unpersist()
