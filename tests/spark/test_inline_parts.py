"""Small commits on Spark: parts in the log are merged into a file before Spark reads, or read by tasks of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.spark.reading import parts_read
from tidegate.config import Config
from tidegate.errors import ReadOnlyError
from tidegate.spark.read import relation
from tidegate.storage.shard import Shard

ROWS = [(i, f"note {i % 3}") for i in range(12)]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tidegate.Database]:
    with tidegate.open(tmp_path / "lake", config=Config(audit=1.0)) as found:
        found.sql("CREATE TABLE t (id int8, note text)")
        for row in ROWS:
            found.append("t", {"id": [row[0]], "note": [row[1]]})
        yield found


def inline(db: tidegate.Database) -> int:
    return len(db.context.table("t").machine.fetch().parts.inline())


def test_they_are_merged_first(db: tidegate.Database, spark: SparkSession) -> None:
    db.sql("DELETE FROM t WHERE id = 3")
    before = db.status().collections["t"].upper - 1
    db.sql("UPDATE t SET note = 'new' WHERE id = 4")
    assert inline(db) == 13
    want = Counter(row for row in ROWS if row[0] not in (3, 4)) + Counter([(4, "new")])
    assert Counter(map(tuple, db.table("t", spark).collect())) == want
    parts = db.context.table("t").machine.fetch().parts
    assert (parts.inline(), parts.count) == ([], 2), "the rows, and those that only AS OF shows"
    assert Counter(db.sql("SELECT * FROM t").rows()) == want
    then = Counter(row for row in ROWS if row[0] != 3)
    assert Counter(map(tuple, db.table("t", spark, as_of=before).collect())) == then
    frame = db.table("t", spark).where("id > 1000")
    assert (parts_read(frame), frame.count()) == ([0], 0)


@pytest.mark.parametrize("why", ["another commit came in between", "this process may not write"])
def test_tasks_read_those_that_are_not_stored(
    db: tidegate.Database, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    def stores_nothing(_: Shard) -> int:
        if "not write" in why:
            raise ReadOnlyError(why)
        return 0

    monkeypatch.setattr(relation, "store_inline_parts", stores_nothing)
    db.sql("DELETE FROM t WHERE id < 2")
    frame = db.table("t", spark)
    assert inline(db) == 12
    assert Counter(map(tuple, frame.where("note <> 'note 1'").collect())) == Counter(
        row for row in ROWS if row[0] >= 2 and row[1] != "note 1"
    )
    assert frame.groupBy("note").count().count() == 3


def test_general_sql_on_spark(db: tidegate.Database, spark: SparkSession) -> None:
    db.attach(spark)
    sql = "SELECT a.note, count(*) FROM t a JOIN t b ON a.note = b.note WHERE b.id > 5 GROUP BY a.note"
    want = Counter(a[1] for a in ROWS for b in ROWS if a[1] == b[1] and b[0] > 5)
    assert dict(map(tuple, spark.sql(sql).collect())) == dict(want)
    db.append("t", {"id": [100], "note": ["later"]})
    db.set("engine", "spark")
    found = db.sql("SELECT count(*), max(a.note) FROM t a JOIN t b ON a.id = b.id + 0")
    assert (found.path, found.rows()) == ("spark", [(13, "note 2")])
