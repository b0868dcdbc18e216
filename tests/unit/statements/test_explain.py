"""EXPLAIN beyond its golden texts (`tests/golden/explain.txt`): what it reads, what it leaves alone, how it is laid out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidegate
from tidegate.plan.explain import WIDTH, Step, called_apart, finish, fold, key, table, tree
from tidegate.query.scan_metrics import ScanMetrics, Stage
from tidegate.text import format_bytes

PAYLOAD = "x" * 200


@pytest.fixture
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://") as opened:
        opened.set("audit", 0.0)
        yield opened


def wide(db: tidegate.Database, parts: int = 4, rows: int = 20_000) -> None:
    """Parts that are worth reading in stages: a narrow column to filter by, and a wide one."""
    db.sql("CREATE TABLE hits (id int8, region int4, url text, payload text)")
    for i in range(parts):
        ids = range(i * rows, (i + 1) * rows)
        urls = [f"https://{id_ * 7919 % 100_003}/{id_}" for id_ in ids]
        payload = [f"{PAYLOAD}{id_ * 104_729 % 1_000_003}" for id_ in ids]
        db.append(
            "hits",
            {"id": list(ids), "region": [id_ % 1000 for id_ in ids], "url": urls, "payload": payload},
            at=i + 1,
        )


# ---------------------------------------------------------------- rows and documents


@pytest.mark.parametrize("from_", ["t WHERE id > 1", "t JOIN u USING (id)", "(VALUES (1)) v (id)"])
def test_explain_has_a_row_for_each_line(db: tidegate.Database, from_: str) -> None:
    db.sql(
        "CREATE TABLE t (id int8); CREATE TABLE u (id int8); INSERT INTO t VALUES (1), (2); INSERT INTO u VALUES (2)"
    )
    said = db.sql(f"EXPLAIN SELECT id FROM {from_}")
    assert said.schema.names == ["QUERY PLAN"]
    assert [line for (line,) in said.rows()] == said.text().split("\n")
    assert len(said.rows()) > 1


@pytest.mark.parametrize(
    ("from_", "step"), [("t WHERE id > 1", "Selection"), ("t JOIN u USING (id)", "Scan t")]
)
def test_explain_as_json(db: tidegate.Database, from_: str, step: str) -> None:
    db.sql(
        "CREATE TABLE t (id int8); CREATE TABLE u (id int8); INSERT INTO t VALUES (1), (2); INSERT INTO u VALUES (2)"
    )
    ((text,),) = db.sql(f"EXPLAIN (FORMAT JSON) SELECT id FROM {from_}").rows()
    (found,) = json.loads(text)
    assert "Execution Time" not in found
    assert f'"Node Type": "{step}"' in text
    assert found["Plan"]["Plans"]
    ((text,),) = db.sql(f"EXPLAIN (ANALYZE, VERBOSE off, FORMAT JSON) SELECT id FROM {from_}").rows()
    (found,) = json.loads(text)
    assert found["Actual Rows"] == 1
    assert found["Execution Time"] > 0
    text = db.sql(f"EXPLAIN (ANALYZE true, FORMAT TEXT) SELECT id FROM {from_}").text()
    assert "Answered from" in text
    assert "Answered from" not in db.sql(f"EXPLAIN (ANALYZE false) SELECT id FROM {from_}").text()


def test_explain_of_a_query_in_parentheses_and_of_unknown_options(db: tidegate.Database) -> None:
    assert db.sql("EXPLAIN (SELECT 1)").rows()
    with pytest.raises(tidegate.ParseError, match="expected JSON or TEXT"):
        db.sql("EXPLAIN (FORMAT YAML) SELECT 1")
    with pytest.raises(tidegate.ParseError):
        db.sql("EXPLAIN (COLOUR) SELECT 1")


# ---------------------------------------------------------------- what is said is what is done


def test_pushed_down_filter_is_what_the_scan_asks_first(db: tidegate.Database) -> None:
    wide(db)
    where = "FROM hits WHERE region = 5 AND id < 30000"
    text = db.sql(f"EXPLAIN ANALYZE SELECT * {where}").text()
    pushed = re.search(r"pushed down filter: (.*?)   ", text)
    assert pushed is not None, text
    assert "region = 5" in pushed[1]
    first = re.search(r"columns: first (.*?); then", text)
    assert first is not None
    assert f"filter {first[1]} " in text, "the first stage that was run reads the columns that were announced"
    assert "at once" not in text
    rows = db.sql(f"SELECT * {where}")
    assert f"real {len(rows)} rows" in text
    assert f"Answered from local in {re.findall(r'in (.*?) ms', text)[0]} ms: {len(rows)} rows" in text
    assert "parts: 2 of 4 kept" in text
    assert db.sql(f"EXPLAIN ANALYZE SELECT * {where}").scan.parts_read == 2
    assert f"read {rows.scan.parts_read} of 4 parts" in text


def test_without_late_materialization_all_conditions_are_above_the_scan(db: tidegate.Database) -> None:
    wide(db, parts=1)
    sql = "EXPLAIN SELECT * FROM hits WHERE region = 5 AND url LIKE '%9%'"
    assert "pushed down filter: " in db.sql(sql).text()
    db.set("late_materialization", False)
    text = db.sql(sql).text()
    assert "pushed down filter" not in text
    assert "Selection  region = 5 AND url LIKE '%9%'" in text


@pytest.mark.parametrize("rows", [100, 20_000])
@pytest.mark.usefixtures("commits_make_files")
def test_explain_reads_no_rows(db: tidegate.Database, rows: int) -> None:
    wide(db, parts=2, rows=rows)
    shard = db.context.table("hits")
    for part in shard.machine.fetch().parts.all():
        shard.machine.blob.delete(part.name)
    assert "parts: 1 of 2 kept" in db.sql("EXPLAIN SELECT url FROM hits WHERE id = 5").text()
    assert db.sql("EXPLAIN FILTER PUSHDOWN SELECT url FROM hits WHERE id = 5").rows()[0][2] == 1
    assert "Scan hits" in db.sql("EXPLAIN DELETE FROM hits WHERE id = 5").text()
    with pytest.raises(tidegate.StoreError):
        db.sql("EXPLAIN ANALYZE SELECT url FROM hits WHERE id = 5")


def test_explain_changes_nothing(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (id int8); INSERT INTO t VALUES (1), (2)")
    db.sql("EXPLAIN DELETE FROM t")
    db.sql("EXPLAIN UPDATE t SET id = 7")
    assert sorted(db.sql("SELECT id FROM t").rows()) == [(1,), (2,)]
    for sql in ("EXPLAIN ANALYZE DELETE FROM t", "EXPLAIN CREATE TABLE u (id int8)"):
        with pytest.raises(tidegate.UnsupportedError):
            db.sql(sql)
    with pytest.raises(tidegate.BindError, match="as_of"):
        db.sql("EXPLAIN DELETE FROM t", as_of=5)
    assert db.sql("SHOW TABLES").rows() == [("t",)]


def test_pushdown_rows_are_structured(db: tidegate.Database) -> None:
    wide(db, parts=3, rows=10)
    r = db.sql("EXPLAIN FILTER PUSHDOWN SELECT id FROM hits WHERE id >= 20 AND md5(url) = 'x' AND region < 0")
    assert r.schema.names == ["condition", "can_prune", "parts_pruned", "parts_whole", "why"]
    assert {row[0]: row[1:] for row in r.rows()} == {
        "id >= 20": (True, 2, 1, None),
        "region < 0": (True, 3, 0, None),
        "md5(url) = 'x'": (False, 0, 0, "md5 has no trend"),
    }
    assert "parts: 0 of 3 kept" in r.text()


def test_a_path_that_was_trimmed_is_named(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (id int8, payload jsonb) KEEP STATISTICS (payload.ts)")
    keys = ", ".join(f'"key {i}": "{"value" * 5}{i}"' for i in range(30))
    db.set("stats_budget", 100)
    db.append("t", {"id": [1], "payload": [f'{{"ts": 5, {keys}}}']})
    sql = "EXPLAIN FILTER PUSHDOWN SELECT id FROM t WHERE payload ->> 'key 7' = 'x' AND (payload ->> 'ts')::int8 > 7"
    lost, kept = db.sql(sql).rows()
    assert kept[1:] == (True, 1, 0, None)
    assert lost[1:4] == (False, 0, 0)
    assert (
        lost[4] == "no statistics of payload ->> 'key 7' in the only part: the path is not among those kept"
    )


def test_every_line_of_the_golden_texts_fits() -> None:
    text = (Path(__file__).parents[2] / "golden" / "explain.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if line[:1] in "└ " or line.startswith(("Finish", "Project"))]
    assert len(lines) > 100
    assert max(map(len, lines)) <= WIDTH


# ---------------------------------------------------------------- the layout


def test_items_that_do_not_fit_go_below() -> None:
    long = "pushed down filter: " + " AND ".join(f"column_{i} = 'a  b {i}'" for i in range(9))
    lines = tree(
        [Step("Finish", ("limit 1",)), Step("Scan t", ("as of 1", long, "path: local"), "est 3 rows")]
    ).split("\n")
    assert lines[0] == "Finish  limit 1"
    assert lines[1].startswith("└─ Scan t  as of 1")
    assert lines[1].endswith("est 3 rows")
    assert len(lines[1]) == WIDTH
    assert lines[2].startswith("     pushed down filter: column_0 = 'a  b 0' AND")
    assert lines[-1] == "     path: local"
    assert all(len(line) <= WIDTH for line in lines)
    assert " ".join(line.strip() for line in lines[2:-1]) == long, "nothing is lost, and no constant is torn"


def test_a_constant_with_line_breaks_stays_on_one_line() -> None:
    assert fold("a = 'x\ny'", "  ") == ["  a = 'x y'"]
    assert tree([Step("Selection", ("a = 'x\ny'",))]).count("\n") == 0


def test_small_texts() -> None:
    assert [format_bytes(n) for n in (0, 812, 1_234, 40_000_000, 9_960_000, 999_600, 5 * 10**15)] == [
        "0 B", "812 B", "1.2 kB", "40 MB", "10 MB", "1.0 MB", "5,000 TB",
    ]  # fmt: skip
    assert finish([], None, 0) == []
    assert finish(["a desc"], None, 3)[0].items == ("order by a desc offset 3",)
    assert [key("a", descending=d, nulls_first=n) for d in (False, True) for n in (False, True)] == [
        "a", "a nulls first", "a desc nulls last", "a desc",
    ]  # fmt: skip
    assert called_apart(["sum", "id", "sum", "sum"]) == ["sum", "id", "sum_2", "sum_3"]
    assert table(("stage", "rows"), [("prune", "7"), ("read id", "1,000")]) == [
        "  stage     rows", "  prune        7", "  read id  1,000",
    ]  # fmt: skip


def test_stages_add_up_by_name() -> None:
    scan = ScanMetrics()
    scan.add("filter a", rows_in=10, rows_out=4, bytes=100, seconds=0.5)
    with scan.stage("read b") as stage:
        stage.rows_in = stage.rows_out = 4
    scan.add("filter a", rows_in=5, rows_out=1, bytes=10, seconds=0.25)
    assert scan.stages[0] == Stage("filter a", 15, 5, 110, 0.75)
    assert [stage.name for stage in scan.stages] == ["filter a", "read b"]
    assert scan.stages[1].seconds >= 0
    with pytest.raises(ValueError, match="stop"):
        _stopped(scan)
    assert scan.stages[1].rows_in == 7, "what was done before a failure counts"


def _stopped(scan: ScanMetrics) -> None:
    with scan.stage("read b") as stage:
        stage.rows_in = 3
        raise ValueError("stop")


def test_bytes_that_a_part_was_spared() -> None:
    scan = ScanMetrics()
    scan.open(1_000)
    scan.close(300)
    scan.see(50)
    scan.skip(2)
    assert (scan.parts_read, scan.bytes_read, scan.bytes_skipped, scan.rows_read, scan.pages_skipped) == (
        1,
        300,
        700,
        50,
        2,
    )


def test_estimates_leave_deleted_rows_out() -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (id int8, n int8)")
        db.append("t", {"id": list(range(1000)), "n": [i % 10 for i in range(1000)]})
        assert "est 1,000 rows" in db.sql("EXPLAIN SELECT * FROM t").text()
        db.sql("DELETE FROM t WHERE id >= 200")
        said = db.sql("EXPLAIN SELECT * FROM t").text()
        assert "est 200 rows" in said
        assert "skips 800 deleted rows" in said
        assert "est 20 rows" in db.sql("EXPLAIN SELECT * FROM t WHERE n = 3").text()
        db.sql("DELETE FROM t")
        assert "est 0 rows" in db.sql("EXPLAIN SELECT * FROM t WHERE n = 3").text()


def test_how_rows_are_deleted() -> None:
    with tidegate.open("memory://", config=tidegate.Config(retraction_lookup_bytes=0)) as db:
        db.sql("CREATE TABLE t (id int8, wide text)")
        db.append("t", {"id": [1, 2, 3], "wide": ["a", "b", "c"]})
        delete, update = "EXPLAIN DELETE FROM t WHERE id = 2", "EXPLAIN UPDATE t SET id = 7 WHERE id = 2"
        assert "Delete  deletes them by position\n" in db.sql(delete).text()
        assert "columns: id\n" in db.sql(delete).text()
        assert (
            "Update  deletes them by position, and inserts them with id = 7::int8\n" in db.sql(update).text()
        )
        db.set("delete_by_position", False)
        assert "Delete  retracts them by rows (delete_by_position is off)\n" in db.sql(delete).text()
        db.set("delete_by_position", True)
        db.append("t", {"id": [3], "wide": ["c"]}, diff=-1)
        assert "retracts them by rows (other retractions wait for `compact`)" in db.sql(update).text()
        db.compact("t")
        assert "Update  deletes them by position" in db.sql(update).text()
