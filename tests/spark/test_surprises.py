"""What users do without thinking of it: drop what is being read, attach two databases, close one that is in use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidegate


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tidegate.Database]:
    with tidegate.open(tmp_path / "lake") as made:
        made.sql("CREATE TABLE t (id int8)")
        made.append("t", {"id": [1, 2, 3]})
        yield made


def test_a_frame_outlives_the_table_that_it_reads(db: tidegate.Database, spark: SparkSession) -> None:
    df = db.table("t", spark)
    db.sql("DROP TABLE t")
    db.sweep()
    assert sorted(row.id for row in df.collect()) == [1, 2, 3]
    assert df.where("id > 1").count() == 2
    with pytest.raises(tidegate.BindError, match='no table or view "t"'):
        db.table("t", spark)
    db.sql("CREATE TABLE t (id int8)")
    assert (db.table("t", spark).count(), df.count()) == (0, 3)


def test_two_databases_in_one_session(db: tidegate.Database, spark: SparkSession, tmp_path: Path) -> None:
    with tidegate.open(tmp_path / "other") as other:
        other.sql("CREATE TABLE t (id int8); CREATE TABLE u (id int8)")
        other.append("t", {"id": [10]})
        other.append("u", {"id": [10, 1]})
        first, second = db.attach(spark), other.attach(spark)
        # A name means what was attached last; each database is reached by its own frames at any time.
        assert spark.sql("SELECT sum(id) FROM t").collect()[0][0] == 10
        joined = db.table("t", spark).join(other.table("u", spark), "id")
        assert [row.id for row in joined.collect()] == [1]
        db.append("t", {"id": [4]})
        first.refresh()
        assert spark.sql("SELECT count(*) FROM t").collect()[0][0] == 4
        second.detach()
        assert db.table("t", spark).count() == 4
        first.detach()


def test_a_closed_database_says_so(tmp_path: Path, spark: SparkSession) -> None:
    db = tidegate.open(tmp_path / "lake")
    db.sql("CREATE TABLE t (id int8)")
    db.close()
    with pytest.raises(tidegate.StoreError, match="was closed"):
        db.table("t", spark)
    with pytest.raises(tidegate.StoreError, match="was closed"):
        db.attach(spark)
