"""A collection as a DataFrame holds the rows that `db.sql` says, and filters on it prune."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import tidegate
from tests.spark.reading import bag, every_type, ours, parts_read
from tidegate.config import Config


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tidegate.Database]:
    with tidegate.open(tmp_path / "a lake ü%", config=Config(audit=1.0)) as made:
        yield made


def test_every_type_is_read_as_it_was_written(db: tidegate.Database, spark: SparkSession) -> None:
    db.append("every", every_type(db))
    df = db.table("every", spark)
    assert bag(ours(df, db, "every")) == bag(db.sql("SELECT * FROM every").arrow())
    assert df.schema["ti"].dataType.simpleString() == "bigint"


WHERE = (
    "b", "NOT b", "i2 < 0", "i4 >= 2147483647", "i8 = -9223372036854775808", "f4 > 1e38", "f4 = double('NaN')", "f8 <= -0.0",
    "f8 > 1e300", "n < 0", "n = 0.000000000000000001", "d >= 9999999.99", "big = 99999999999999999999999999999999999999",
    "big < 0", "t = 'NaN'", "t > 'ä'", "t LIKE 'A%'", "t = ''", "v >= 'äöü'", "y = X'00FF'", "y > X'01'", "da = DATE '1582-10-10'",
    "da >= DATE '9999-12-31'", "ti = 86399999999", "ts < TIMESTAMP_NTZ '0001-01-02 00:00:00'", "ts >= TIMESTAMP_NTZ '1969-12-31'",
    "tz = TIMESTAMP '1582-10-20 00:00:00.000001Z'", "tz >= TIMESTAMP '9999-12-31 00:00:00Z'",
    "u = X'000102030405060708090A0B0C0D0E0F'",
    "u > X'80'", "j = '1'", "iv.days = 30", "r.x = -1", "r.y IS NULL", "rr.f = 0", "size(a) = 0",
    "get_json_object(j, '$.a[2]') = 'x'",
)  # fmt: skip


def test_what_is_skipped_holds_nothing(db: tidegate.Database, spark: SparkSession) -> None:
    """Ours by parts, Spark's by row groups and pages: with poison values, both skip only what does not pass."""
    rows = every_type(db, 30)
    for begin in range(0, 30, 3):
        db.append("every", rows.slice(begin, 3))
    df = db.table("every", spark)
    counted = df.selectExpr(*(f"count_if({where})" for where in WHERE))  # nothing can be skipped
    expected = counted.collect()[0]
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    try:
        filtered = [df.where(where).selectExpr(f"{i} AS i") for i, where in enumerate(WHERE)]
        together = reduce(DataFrame.unionAll, filtered).groupBy("i").count()
        found = {row["i"]: row["count"] for row in together.collect()}
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")
    assert [found.get(i, 0) for i in range(len(WHERE))] == list(expected)
    assert sum(count > 0 for count in expected) >= len(WHERE) - 2, expected
    left = parts_read(together)
    assert len(left) == len(WHERE)
    assert sum(parts < 10 for parts in left) >= 30, list(zip(WHERE, left, strict=True))


def test_filters_prune_and_spark_agrees_with_itself(db: tidegate.Database, spark: SparkSession) -> None:
    db.sql("CREATE TABLE days (id int8, at timestamptz, kind text, price numeric(9,2))")
    for day in range(10):
        at = [dt.datetime(2024, 1, 1 + day, hour, tzinfo=dt.UTC) for hour in range(24)]
        ids = [day * 24 + hour for hour in range(24)]
        db.append("days", {"id": ids, "at": at, "kind": [f"k{day}"] * 24, "price": ids})
    df = db.table("days", spark)
    plain = spark.createDataFrame(df.toArrow())
    for where, parts in (
        ("id < 24", 1),
        ("id + 5 < 30 or id - 3 > 230", 3),
        ("at + interval 2 days >= timestamp '2024-01-10 00:00:00Z'", 3),
        ("kind = 'k3' and price > 1", 1),
        ("id < 0", 0),
        ("hash(id) % 2 = 0", 10),
    ):
        filtered = df.where(where)
        assert parts_read(filtered) == [parts], where
        assert filtered.count() == plain.where(where).count(), where
    assert parts_read(df.where("id < 24").union(df.where("id >= 216"))) == [1, 1]
    db.set("stats_filter", False)
    assert parts_read(db.table("days", spark).where("id < 24")) == [10]


def test_a_table_shows_its_first_rows_in_a_notebook(db: tidegate.Database, spark: SparkSession) -> None:
    db.sql("CREATE TABLE shown (id int8, note text)")
    db.append("shown", {"id": [*range(50)], "note": ["<b>", None] * 25})
    html = db.table("shown", spark)._repr_html_()
    assert html is not None
    assert html.count("<tr>") == 21
    assert "&lt;b&gt;" in html
    assert 'title="NULL"' in html
    assert db.table("shown", spark).where("id = 7").count() == 1
