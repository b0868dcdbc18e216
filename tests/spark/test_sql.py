"""`db.sql` of anything, on Spark: what a user sees of it beside the rows, which test_sql_differential.py compares."""

from __future__ import annotations

import importlib.util
import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tidegate
from tidegate.query.cancellation import CancelToken
from tidegate.server.web.query.answer import AnswerHeading
from tidegate.server.web.query.plan_picture import plan_card
from tidegate.server.web.query.script import analyzed, split_script
from tidegate.spark.engine import scans as query_scan
from tidegate.spark.engine.scans import FORCED_READER, Reader

READERS: tuple[Reader, ...] = ("local", "index", "late")
SLOW = "SELECT count(*) FROM big a, big b WHERE a.x * b.x + a.id > 1000000"
"""A hundred million pairs: many seconds, of which each row of a takes a few milliseconds, after which a task can be stopped."""


@pytest.fixture(scope="module")
def db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tidegate.Database]:
    """Ten parts of a large collection by id, and a small one."""
    del spark
    with tidegate.open(Path(tmp_path_factory.mktemp("sql")) / "lake") as made:
        made.set("engine", "spark")
        made.sql("CREATE TABLE big (id int8, x numeric(12,2), j jsonb)")
        for part in range(10):
            ids = range(part * 1000, (part + 1) * 1000)
            made.append(
                "big", {"id": list(ids), "x": [i % 7 for i in ids], "j": [f'{{"k": {i % 5}}}' for i in ids]}
            )
        made.sql("CREATE TABLE small (id int8, name text)")
        made.sql("INSERT INTO small VALUES (3100, 'a'), (3200, 'b'), (3900, NULL), (NULL, 'd')")
        yield made


@contextmanager
def read_by(reader: Reader | None) -> Iterator[None]:
    token = FORCED_READER.set(reader)
    try:
        yield
    finally:
        FORCED_READER.reset(token)


def test_the_small_side_prunes_the_other(db: tidegate.Database) -> None:
    asked = {
        "SELECT b.id, name FROM big b JOIN small s ON b.id = s.id": 1 + 1,
        "SELECT name, b.x FROM small s LEFT JOIN big b ON b.id = s.id": 1 + 1,
        "SELECT s.id FROM big b RIGHT JOIN small s ON b.id = s.id": 1 + 1,
        "SELECT id FROM big WHERE id IN (SELECT id FROM small WHERE name = 'a')": 1 + 1,
        "SELECT id FROM big b WHERE EXISTS (SELECT 1 FROM small s WHERE s.id = b.id)": 1 + 1,
        "SELECT s.name, n FROM small s JOIN (SELECT id, count(*) AS n FROM big GROUP BY id) b ON b.id = s.id": 1
        + 1,
        # neither: rows without a pair stay, or a window must see all rows
        "SELECT b.id FROM big b LEFT JOIN small s ON b.id = s.id": 10 + 1,
        "SELECT count(*) FROM big WHERE id NOT IN (SELECT id FROM small)": 10 + 1,
        "SELECT s.id, n FROM small s JOIN (SELECT id, count(*) OVER () AS n FROM big) b ON b.id = s.id": 10
        + 1,
    }
    for sql, parts in asked.items():
        on = db.sql(sql)
        off = db.sql(f"{sql} OPTIONS (join_reduction = off)")
        assert (on.path, off.path) == ("spark", "spark")
        assert sorted(map(repr, on.rows())) == sorted(map(repr, off.rows())), sql
        assert (on.scan.parts_read, off.scan.parts_read) == (parts, 11), sql
        assert (on.scan.parts_total, on.scan.parts_pruned) == (11, 11 - parts), sql
    assert "tidegate_join_reductions_total" in db.metrics()


def test_a_condition_prunes_through_every_reader(db: tidegate.Database) -> None:
    sql = "SELECT a.id, b.x FROM big a JOIN big b ON a.id = b.id WHERE a.id BETWEEN 4990 AND 5009 AND a.j ->> 'k' = '1'"
    expected = [(i, i % 7) for i in range(4990, 5010) if i % 5 == 1]
    for reader in READERS:
        with read_by(reader):
            found = db.sql(f"{sql} ORDER BY 1")
            assert found.rows() == expected
            assert (found.scan.parts_total, found.scan.parts_read) == (20, 4), reader


def test_how_a_scan_is_read_is_a_matter_of_cost(
    db: tidegate.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def readers(sql: str) -> list[str]:
        text = db.sql(f"EXPLAIN ANALYZE {sql}").text()
        return [line.rpartition(" ")[2] for line in text.splitlines() if "reader:" in line]

    assert readers("SELECT 1 FROM big a, small s WHERE a.id > s.id") == ["local", "local"]
    monkeypatch.setattr(query_scan, "MAX_LOCAL_BYTES", 0)
    assert readers("SELECT a.x FROM big a, small s WHERE a.id > s.id") == ["index", "index"]
    assert readers("SELECT a.x FROM big a, small s WHERE a.id > s.id AND a.j ->> 'k' = '3'") == [
        "late",
        "index",
    ]
    assert readers("SELECT a.x FROM big a, small s WHERE a.x = 1.5 AND a.id = 17") == ["late", "index"]


def test_explain_tells_scans_and_the_plan(db: tidegate.Database) -> None:
    sql = "SELECT b.x, name FROM big b JOIN small s ON b.id = s.id WHERE b.x > 1"
    lines = [line.strip(" │├└─") for line in db.sql(f"EXPLAIN {sql}").text().splitlines()]
    assert lines[0].startswith("Spark: ")
    assert lines[0].endswith(" left after pruning")
    assert lines[1] == "Join inner  big.id = small.id"
    assert lines[2].startswith("Scan big  as of ")
    assert "pushed down filter: id >= 3100 AND id <= 3900 AND id IN (3100, 3200, 3900) AND x > 1" in lines
    assert any(line.startswith("parts: 1 of 10 kept") for line in lines)
    assert "reduced by small.id: 9 of 10 parts pruned" in lines
    assert "== Physical Plan ==" not in lines
    ran = db.sql(f"EXPLAIN ANALYZE {sql}")
    assert "== Physical Plan ==" in ran.text()
    assert "Answered from spark in" in ran.text()
    assert ran.scan.parts_read == 2


def test_an_analysis_on_spark_is_a_picture(db: tidegate.Database) -> None:
    given = split_script("EXPLAIN ANALYZE SELECT b.x, name FROM big b JOIN small s ON b.id = s.id")[0]
    asked = analyzed(given, wanted=False)
    assert asked is not None
    ran = db.sql(asked.sql)
    picture = plan_card(json.loads(ran.text())[0], ran, AnswerHeading(given.text, "box"))
    for piece in (
        '<b class="path">spark</b>',
        "<code>spark</code>",
        "Join inner",
        "Plan of Spark",
        "== Physical Plan ==",
    ):
        assert piece in picture, piece


def test_views_of_any_shape(db: tidegate.Database, spark: SparkSession) -> None:
    db.sql(
        "CREATE VIEW named (id, who, k) AS SELECT b.id, s.name, b.j ->> 'k' FROM big b JOIN small s USING (id)"
    )
    db.sql("CREATE VIEW top AS SELECT id FROM big ORDER BY id DESC LIMIT 3")
    try:
        assert db.sql("SELECT who FROM named WHERE id = 3200").rows() == [("b",)]
        assert db.sql("SELECT count(*) FROM top").rows() == [(3,)]
        with pytest.raises(tidegate.BindError, match='view "named" reads "small"'):
            db.sql("DROP TABLE small")
        df = db.table("named", spark)
        assert df.columns == ["id", "who", "k"]
        own = spark.createDataFrame(pa.table({"id": [3100, 3900], "more": ["x", "y"]}))
        joined = sorted(tuple(row) for row in df.join(own, "id").collect())
        assert joined == [(3100, "a", "0", "x"), (3900, None, "0", "y")]
    finally:
        db.sql("DROP VIEW named, top")


def test_a_view_is_read_by_tasks_in_a_session_that_has_never_done_so(
    db: tidegate.Database, spark: SparkSession
) -> None:
    db.sql("CREATE VIEW fifths AS SELECT b.id FROM big b JOIN small s ON b.id = s.id WHERE b.j ->> 'k' = '0'")
    new = spark.newSession()
    with read_by("late"):
        found = db.table("fifths", new)
    assert sorted(row.id for row in found.collect()) == [3100, 3200, 3900]
    db.sql("DROP VIEW fifths")


def test_insert_of_any_query(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE copied (id int4, name text DEFAULT 'none')")
    try:
        said = db.sql(
            "INSERT INTO copied (id) SELECT b.id FROM big b JOIN small s ON s.id = b.id UNION SELECT -1"
        )
        assert said.text() == "INSERT 0 4"
        assert sorted(db.sql("SELECT * FROM copied").rows()) == [
            (-1, "none"),
            (3100, "none"),
            (3200, "none"),
            (3900, "none"),
        ]
        db.set("max_result_bytes", 50_000)
        with pytest.raises(tidegate.LimitError, match="max_result_bytes"):
            db.sql(
                "INSERT INTO copied (id) SELECT a.id FROM big a JOIN big b ON a.id = b.id OR a.id = b.id + 1"
            )
        db.set("max_result_bytes", None)
        assert db.sql("SELECT count(*) FROM copied").rows() == [(4,)]
    finally:
        db.set("max_result_bytes", None)
        db.sql("DROP TABLE copied")


def test_all_collections_are_read_at_one_time(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE a (x int8); CREATE TABLE b (x int8)")
    try:
        db.append("a", {"x": [1]}, at=1_000)
        db.append("b", {"x": [1]}, at=2_000)
        db.append("b", {"x": [1]}, at=3_000)
        db.append("a", {"x": [1]}, at=3_000)
        sql = "SELECT count(*), max(mz_now()) FROM a JOIN b USING (x)"
        for at, count in ((1_500, 0), (2_500, 1), (3_000, 4)):
            expected = (count, at if count else None)
            assert db.sql(sql, as_of=at).rows() == [expected]
            assert db.sql(f"{sql} AS OF {at}").rows() == [expected]
        db.append("b", {"x": [1, 1]}, at=4_000, diff=-1)  # rows go again
        for reader in READERS:
            with read_by(reader):
                assert db.sql("SELECT count(*) FROM a JOIN b USING (x)").rows() == [(0,)]
    finally:
        db.sql("DROP TABLE a, b")


EVERYTHING = (
    "b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric(20,5), t text, y bytea, d date, h time, ts timestamp, "
    "tz timestamptz, iv interval, u uuid, j jsonb, arr int8[], rec row(x int4, y uuid)"
)
VALUES = (
    "(true, 1, 2, 3, 1.5, 'NaN', 12.34567, 'é', '\\x00ff', '0001-01-01', '23:59:59.999999', '2024-02-29 12:00', "
    "'9999-12-31 00:00+00', '1 month -2 days 3 seconds', '00112233-4455-6677-8899-aabbccddeeff', "
    "'{\"b\": [1, null], \"a\": 1.0}', '{1,NULL,3}', ROW(1, '00112233-4455-6677-8899-aabbccddeeff'::uuid))"
)


def test_every_type_comes_back_as_it_is(db: tidegate.Database) -> None:
    db.sql(f"CREATE TABLE every (k int4, {EVERYTHING})")
    try:
        nulls = ", ".join(["NULL"] * 18)
        db.sql(f"INSERT INTO every VALUES (1, {VALUES[1:]}, (2, {nulls})")
        plain = db.sql("SELECT * FROM every ORDER BY k")
        assert plain.path == "local"
        for reader in READERS:
            with read_by(reader):
                found = db.sql("SELECT e.* FROM every e JOIN (VALUES (1), (2)) v (k) USING (k) ORDER BY k")
                assert found.schema == plain.schema
                assert repr(found.rows()) == repr(plain.rows()), reader
        grouped = db.sql(
            "SELECT u, j, arr, y, h, count(*) FROM every, small GROUP BY 1, 2, 3, 4, 5 ORDER BY 1"
        )
        assert [row[-1] for row in grouped.rows()] == [4, 4]
        assert grouped.rows()[0][:2] == plain.rows()[0][15:17]
    finally:
        db.sql("DROP TABLE every")


def test_the_users_session_stays_as_it_is(db: tidegate.Database, spark: SparkSession) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        db.sql("SELECT count(*) FROM big a JOIN small b USING (id)")
        active: Any = SparkSession.getActiveSession()
        assert active._jsparkSession.equals(spark._jsparkSession)
        assert spark.conf.get("spark.sql.ansi.enabled") == "false"
        assert [table.name for table in spark.catalog.listTables()] == []
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_errors_are_ours(db: tidegate.Database) -> None:
    with pytest.raises(tidegate.EvaluationError, match="division by zero"):
        db.sql("SELECT 1 / (s.id - 3100) FROM big b JOIN small s USING (id)")
    with pytest.raises(tidegate.EvaluationError, match="more than one row"):
        db.sql("SELECT (SELECT name FROM small) FROM big")
    with pytest.raises(tidegate.EvaluationError, match="invalid input syntax for type json") as caught:
        db.sql("SELECT (name || b.j::text)::jsonb FROM big b JOIN small s USING (id) WHERE name = 'a'")
    assert "Traceback" not in str(caught.value)
    with pytest.raises(tidegate.UnsupportedError, match="DISTINCT"):
        db.sql("SELECT corr(DISTINCT a.id, b.id) FROM big a, big b")
    with pytest.raises(tidegate.LimitError, match="max_result_bytes"):
        db.sql(
            "SELECT a.id, b.id FROM big a JOIN small b ON a.id <> b.id OPTIONS (max_result_bytes = 50000)"
        ).arrow()


def test_more_than_is_collected_is_read_partition_by_partition(
    db: tidegate.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT a.id, s.name, a.id % 7 AS k FROM big a JOIN small s ON a.id <> s.id ORDER BY a.id, s.name"
    whole = db.sql(sql).rows()
    monkeypatch.setattr("tidegate.spark.engine.query.MAX_COLLECTED_BYTES", 20_000)
    result = db.sql(sql)
    assert result.live
    batches = result.batches()
    rows = [
        row
        for batch in batches
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]
    assert rows == whole
    assert len(rows) == len(result) == result.scan.rows_returned
    assert (result.path, result.scan.parts_read) == ("spark", db.sql(sql).scan.parts_read)
    assert not result.live

    with pytest.raises(
        tidegate.EvaluationError, match="division by zero"
    ):  # before the first row, or on the way
        db.sql("SELECT a.id, 1 / (a.id - 9999) AS x FROM big a JOIN small s ON a.id <> s.id").exhaust()

    watch = tidegate.Watch()
    rest = db.sql(sql, watch=watch).batches()
    next(rest)
    watch.cancel()
    with pytest.raises(tidegate.CancelledError, match="cancelled"):
        list(rest)
    left = db.sql(sql)
    next(left.batches())
    left.close()
    assert db.sql("SELECT count(*) FROM big a JOIN small s USING (id)").rows() == [(3,)], "Spark goes on"


def test_without_pyspark(db: tidegate.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(tidegate.UnsupportedError, match=r"pip install 'tidegate\[spark\]'"):
        db.sql("SELECT 1 FROM big, small")


def test_a_query_can_be_stopped(db: tidegate.Database, spark: SparkSession) -> None:
    watch = CancelToken()
    threading.Timer(1.0, watch.cancel).start()
    with pytest.raises(tidegate.CancelledError, match="was cancelled"):
        db.sql(SLOW, watch=watch)
    with pytest.raises(tidegate.CancelledError, match="took longer than 700 ms"):
        db.sql(f"{SLOW} OPTIONS (statement_timeout_ms = 700)")
    main: Any = threading.main_thread().ident
    threading.Timer(1.0, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        db.sql(SLOW)
    end = time.monotonic() + 60
    while spark.sparkContext.statusTracker().getActiveJobsIds():
        assert time.monotonic() < end, "a job went on"
        time.sleep(0.1)
    assert db.sql("SELECT count(*) FROM small a JOIN small b USING (id)").rows() == [(3,)]
