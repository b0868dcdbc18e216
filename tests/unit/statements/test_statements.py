"""Statements over a database in memory: what each does, and what turning a knob does not change."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

import tidegate
from tidegate.config import Config
from tidegate.storage.shard.machine import ROLL_EVERY
from tidegate.storage.shard.state import Conflict


@pytest.fixture
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://") as made:
        yield made


def rows(db: tidegate.Database, sql: str) -> list[tuple[Any, ...]]:
    return db.sql(sql).rows()


# ---------------------------------------------------------------- tables and views


def test_tables_come_and_go(db: tidegate.Database) -> None:
    assert db.sql("CREATE TABLE t (a int4)").text() == "CREATE TABLE"
    with pytest.raises(tidegate.BindError, match='table "t" already exists'):
        db.sql("CREATE TABLE t (a int4)")
    assert "left as it is" in db.sql("CREATE TABLE IF NOT EXISTS t (b text)").text()
    assert rows(db, "SHOW COLUMNS FROM t") == [("a", True, "int4")]
    db.sql("INSERT INTO t VALUES (1)")
    db.sql("DROP TABLE t")
    db.sql("DROP TABLE IF EXISTS t")
    with pytest.raises(tidegate.BindError, match='there is no table or view "t"'):
        db.sql("DROP TABLE t")
    with pytest.raises(tidegate.BindError, match="there is no collection"):
        db.sql("SELECT * FROM t")
    db.sql("CREATE TABLE t (a int4)")
    assert rows(db, "SELECT * FROM t") == []  # another table of the same name


def test_a_handle_that_holds_a_dropped_table() -> None:
    one, two = tidegate.open("memory://shared"), tidegate.open("memory://shared")
    one.sql("CREATE TABLE t (a int4)")
    shard = two.context.table("t")
    one.sql("DROP TABLE t")
    with pytest.raises(Conflict, match="dropped"):
        shard.append({"a": [1]})


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CREATE TABLE u (a int4, _time int8)", "cannot be a column's name"),
        ("CREATE TABLE u (a int4) CLUSTER BY (b)", r'column "b" does not exist\nline 1, column 37'),
        ("CREATE TABLE u (a int4) KEEP STATISTICS (b.c)", 'column "b" does not exist'),
        ("CREATE TABLE u (a int4 DEFAULT 'x')", "invalid input syntax"),
        ("CREATE TABLE u (a int4) WITH (COLOUR = 'red')", 'no option "colour"'),
        ("CREATE TABLE u (a int4) WITH (RETENTION = 'soon')", "not a length of time"),
        ("CREATE VIEW u AS SELECT x FROM t", 'column "x" does not exist'),
        ("CREATE VIEW u (p, q) AS SELECT a FROM t", "2 names are given"),
        ("CREATE VIEW t AS SELECT 1", 'table "t" already exists'),
        ("DROP VIEW t", '"t" is a table'),
        ("ALTER TABLE t ADD COLUMN a int4", "already exists"),
        ("ALTER TABLE t DROP COLUMN a", "is the only one"),
        ("ALTER TABLE t DROP COLUMN x", 'column "x" does not exist'),
        ("ALTER TABLE x ADD COLUMN a int4", 'no table or view "x"'),
        ("INSERT INTO t (x) VALUES (1)", 'column "x" does not exist'),
        ("INSERT INTO t VALUES (1, 2)", "1 values are expected"),
        ("INSERT INTO t SELECT 1, 2", "1 columns are to be filled"),
        ("INSERT INTO t SELECT true", 'column "a"'),
        ("INSERT INTO t SELECT 3000000000", "integer out of range"),
        ("SET colour = 'red'", 'no setting "colour"'),
        ("SET stats_filter = 'maybe'", "stats_filter cannot be 'maybe'"),
        ("SET batch_rows = -1", "batch_rows cannot be -1"),
        ("SHOW colour", 'no setting "colour"'),
        ("SHOW COLUMNS FROM x", 'no table or view "x"'),
        ("SHOW CREATE VIEW t", "is a table, not a view"),
    ],
)
def test_refusals(db: tidegate.Database, sql: str, message: str) -> None:
    db.sql("CREATE TABLE t (a int4)")
    with pytest.raises(tidegate.TidegateError, match=message):
        db.sql(sql)
    assert rows(db, "SHOW TABLES") == [("t",)]
    assert rows(db, "SHOW VIEWS") == []


def test_columns_are_added_and_dropped(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (a int4, b text); INSERT INTO t VALUES (1, 'x')")
    db.sql("ALTER TABLE t ADD COLUMN c int8")
    db.sql("ALTER TABLE t ADD COLUMN IF NOT EXISTS c int8")
    db.sql("INSERT INTO t VALUES (2, 'y', 22)")
    assert rows(db, "SELECT * FROM t ORDER BY a") == [(1, "x", None), (2, "y", 22)]
    # The part from before knows nothing of c, and that means NULL: statistics must say so too.
    assert rows(db, "SELECT a FROM t WHERE c IS NULL") == [(1,)]
    assert db.sql("SELECT a FROM t WHERE c > 0").scan.parts_read == 1
    db.sql("ALTER TABLE t DROP COLUMN b")
    db.sql("ALTER TABLE t DROP COLUMN IF EXISTS b")
    db.sql("ALTER TABLE t ADD COLUMN b text")
    assert rows(db, "SELECT b FROM t") == [(None,), (None,)]
    db.compact("t", full=True)
    assert rows(db, "SELECT * FROM t ORDER BY a") == [(1, None, None), (2, 22, None)]


def test_views(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (a int4, b text); INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    db.sql("CREATE VIEW v (n) AS SELECT a + 1, b FROM t WHERE a > 1; CREATE VIEW w AS SELECT n FROM v")
    assert rows(db, "SELECT * FROM v") == [(3, "y")]
    assert rows(db, "SHOW COLUMNS FROM v") == [("n", True, "int4"), ("b", True, "text")]
    assert rows(db, "SHOW VIEWS LIKE 'w%'") == [("w",)]
    assert db.sql("SHOW CREATE VIEW v").text() == "CREATE VIEW v (n) AS SELECT a + 1, b FROM t WHERE a > 1"
    for sql in ("DROP TABLE t", "DROP VIEW v", "ALTER TABLE t DROP COLUMN b"):
        with pytest.raises(tidegate.BindError, match=r'view "[vw]" reads?'):
            db.sql(sql)
    with pytest.raises(tidegate.BindError, match="reads itself"):
        db.sql("CREATE OR REPLACE VIEW v AS SELECT n FROM w")
    db.sql("CREATE OR REPLACE VIEW w AS SELECT a AS n FROM t")
    assert rows(db, "SELECT * FROM w ORDER BY n") == [(1,), (2,)]
    db.sql("DROP TABLE t CASCADE")
    assert rows(db, "SHOW VIEWS") == rows(db, "SHOW TABLES") == []


def test_show_create_makes_the_same_table_again(db: tidegate.Database) -> None:
    sql = (
        'CREATE TABLE t (id int8 NOT NULL, "At" timestamptz DEFAULT now(), payload jsonb, r row(x int8, y text)) '
        'CLUSTER BY ("At", id) KEEP STATISTICS (payload.ts) WITH (RETENTION = 86400000)'
    )
    db.sql(sql)
    assert db.sql("SHOW CREATE TABLE t").text() == sql


# ---------------------------------------------------------------- rows in


def test_insert(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (a int4, b text DEFAULT 'none', j jsonb)")
    assert (
        db.sql("INSERT INTO t VALUES (1, 'x', '{\"b\":1, \"a\":2}'), (2.5, DEFAULT, NULL)").text()
        == "INSERT 0 2"
    )
    assert db.sql("INSERT INTO t (j, a) VALUES ('[1.0]', 4)").text() == "INSERT 0 1"
    assert db.sql("INSERT INTO t DEFAULT VALUES").text() == "INSERT 0 1"
    assert db.sql("INSERT INTO t VALUES (9)").text() == "INSERT 0 1"
    assert rows(db, "SELECT * FROM t ORDER BY a") == [
        (1, "x", '{"a":2,"b":1}'), (3, "none", None), (4, "none", "[1]"), (9, "none", None), (None, "none", None),
    ]  # fmt: skip
    assert db.sql("INSERT INTO t SELECT a * 100.4, upper(b) FROM t WHERE a < 4").text() == "INSERT 0 2"
    assert rows(db, "SELECT a, b, j FROM t WHERE a > 9 ORDER BY a") == [(100, "X", None), (301, "NONE", None)]
    assert db.sql("INSERT INTO t SELECT * FROM t WHERE false").text() == "INSERT 0 0"


def test_insert_nested_values(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (a int8[], r row(x int8, y text), u uuid)")
    db.sql(
        "INSERT INTO t VALUES ('{1,NULL}', row(1, 'a'), '00000000-0000-0000-0000-000000000007'), (NULL, NULL, NULL)"
    )
    assert rows(db, "SELECT a, (r).y, u FROM t ORDER BY u") == [
        ([1, None], "a", UUID(int=7)),
        (None, None, None),
    ]
    assert rows(db, "SELECT (r).x FROM t WHERE a[1] = 1") == [(1,)]


# ---------------------------------------------------------------- rows out


def test_select_without_from(db: tidegate.Database) -> None:
    r = db.sql("SELECT 1 + 1 AS two, 'x', NULL, interval '1 month 2 days 3 us'")
    assert r.rows() == [(2, "x", None, tidegate.Interval(1, 2, 3))]
    assert (r.path, r.names[0], len(r), r.text()) == ("metadata", "two", 1, "1 row")
    assert rows(db, "SELECT 1 WHERE false") == []
    assert rows(db, "SELECT 1 LIMIT 0") == []
    with pytest.raises(tidegate.EvaluationError, match="division by zero"):
        db.sql("SELECT 1 / (1 - 1)")


def test_order_limit_and_offset(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (f float8, s text)")
    nan = float("nan")
    db.append("t", {"f": [1.0, None, nan], "s": ["b", "c", "a"]})
    db.append("t", {"f": [-0.0, float("inf"), 0.0], "s": ["d", None, "e"]})
    assert [s for _, s in rows(db, "SELECT f, s FROM t ORDER BY f, s")] == ["d", "e", "b", None, "a", "c"]
    assert [s for (s,) in rows(db, "SELECT s FROM t ORDER BY f DESC, s DESC")] == [
        "c",
        "a",
        None,
        "b",
        "e",
        "d",
    ]
    assert rows(db, "SELECT s FROM t ORDER BY s NULLS FIRST LIMIT 2") == [(None,), ("a",)]
    assert rows(db, "SELECT s FROM t ORDER BY s LIMIT 2 OFFSET 1") == [("b",), ("c",)]
    assert rows(db, "SELECT s FROM t ORDER BY s OFFSET 5") == [(None,)]
    assert rows(db, "SELECT s FROM t ORDER BY s OFFSET 50") == []
    assert len(rows(db, "SELECT 1 FROM t LIMIT 4 OFFSET 1")) == 4
    r = db.sql("SELECT s FROM t LIMIT 0")
    assert (r.rows(), r.path, r.scan.parts_read, r.scan.parts_total) == ([], "metadata", 0, 2)
    assert db.sql("SELECT s FROM t LIMIT 2").scan.parts_read == 1  # the second part is not needed


def test_top_k_of_many_rows_keeps_few() -> None:
    with tidegate.open("memory://", config=Config(batch_rows=5_000)) as db:
        db.sql("CREATE TABLE t (n int8)")
        numbers = [(i * 7919) % 200_003 for i in range(200_003)]
        db.append("t", {"n": numbers})
        assert [n for (n,) in rows(db, "SELECT n FROM t ORDER BY n DESC LIMIT 3")] == [
            200_002,
            200_001,
            200_000,
        ]


def test_pruning_happens_and_changes_nothing(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (id int8, name text, payload jsonb)")
    for part in range(10):
        some = range(part * 100, part * 100 + 100)
        db.append(
            "t",
            {
                "id": list(some),
                "name": [f"n{i:04}" for i in some],
                "payload": [f'{{"ts": {i}}}' for i in some],
            },
        )
    for where, parts in {
        "id >= 850": 2,
        "(payload->>'ts')::numeric < 150": 2,
        "name LIKE 'n05%'": 1,
        "id + 1 = 500 OR id = 3": 2,
        "id < 0": 0,
        "id % 7 = 0": 10,
        "1 / (id - 1000) = 1": 0,
        "id > 5000 AND 1 / (id - 42) > 0": 0,
    }.items():
        sql = f"SELECT id, name FROM t WHERE {where} ORDER BY id"
        db.set("stats_filter", True)
        pruned = db.sql(sql)
        db.set("stats_filter", False)
        whole = db.sql(sql)
        assert pruned.rows() == whole.rows(), where
        assert (pruned.scan.parts_read, whole.scan.parts_read, pruned.scan.parts_total) == (parts, 10, 10), (
            where
        )
        assert pruned.path == ("local" if parts else "metadata")
        assert pruned.scan.bytes_read <= whole.scan.bytes_read == whole.scan.bytes_total


def test_pruning_goes_on_after_a_rollup() -> None:
    """Parts are then rows of segments, and no longer values in memory; another handle starts from the rollup."""
    with tidegate.open("memory://rolled") as db:
        db.sql("CREATE TABLE t (id int8)")
        for i in range(ROLL_EVERY + 10):
            db.append("t", {"id": [i]})
        for handle in (db, tidegate.open("memory://rolled")):
            assert handle.context.table("t").machine.fetch().rollup is not None
            r = handle.sql("SELECT id FROM t WHERE id IN (3, 130)")
            assert (sorted(r.rows()), r.scan.parts_read) == ([(3,), (130,)], 2)


def test_statistics_that_were_not_collected(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (id int8); SET stats_collection = off")
    db.append("t", {"id": [1]})
    db.sql("RESET stats_collection")
    db.append("t", {"id": [2]})
    r = db.sql("SELECT id FROM t WHERE id > 5")
    assert (r.rows(), r.scan.parts_read) == ([], 1)
    assert db.sql("SELECT id FROM t WHERE false").scan.parts_read == 0  # no statistics are needed for that


def test_retractions_and_filters(db: tidegate.Database) -> None:
    """A row and what retracts it are in different parts, and a filter could prune the one and not the other."""
    db.sql("CREATE TABLE t (id int8, s text)")
    db.append("t", {"id": [1], "s": ["a"]})
    db.append("t", {"id": [1, 9], "s": ["a", "z"]}, diff=[-1, 1])
    for switch in (True, False):
        db.set("stats_filter", switch)
        assert rows(db, "SELECT id FROM t WHERE id > 5") == [(9,)]
        assert rows(db, "SELECT id FROM t WHERE id < 5") == []
        assert rows(db, "SELECT 10 / (id - 1) FROM t") == [(1,)]  # the row that would fail is gone


def test_retractions_are_pruned_with_what_they_retract(db: tidegate.Database) -> None:
    """Random inserts and retractions, which stay rows, against a multiset; each query reads up to 30 parts twice."""
    dice = random.Random(5)
    db.set("retraction_lookup_bytes", 0)
    db.sql("CREATE TABLE t (id int8, s text, f float8)")
    model: Counter[tuple[int, str, float]] = Counter()
    for _ in range(30):
        low = dice.randrange(0, 90, 10)
        some = [(dice.randrange(low, low + 10), dice.choice("ab"), dice.choice([0.0, 1.5])) for _ in range(4)]
        live = [row for row in model.elements() if row[0] // 30 == low // 30]
        gone = dice.sample(live, min(2, len(live)))
        columns = {name: [row[i] for row in [*some, *gone]] for i, name in enumerate(("id", "s", "f"))}
        db.append("t", columns, diff=[1] * len(some) + [-1] * len(gone))
        model.update(some)
        model.subtract(gone)
    fewer = 0
    for _ in range(20):
        low = dice.randrange(90)
        where = dice.choice(
            [
                f"id > {low}",
                f"id = {low}",
                f"id < {low} AND s = 'a'",
                f"f > 1 AND id > {low}",
                f"10 / (id - {low}) > 5 AND id > {low}",
            ]
        )
        sql = f"SELECT id, s, f FROM t WHERE {where} ORDER BY id, s, f"
        db.set("stats_filter", True)
        pruned = db.sql(sql)
        db.set("stats_filter", False)
        assert pruned.rows() == db.sql(sql).rows(), where
        if "10 /" not in where:
            python = where.replace("AND", "and").replace(" = ", " == ")
            wanted = [
                row for row in model.elements() if eval(python, dict(zip(("id", "s", "f"), row, strict=True)))
            ]
            assert pruned.rows() == sorted(wanted), where
        assert "f >" not in where or pruned.scan.parts_read == 30
        fewer += pruned.scan.parts_read < pruned.scan.parts_total
    assert fewer > 5


# ---------------------------------------------------------------- settings


def test_settings(db: tidegate.Database) -> None:
    assert db.sql("SHOW stats_filter").text() == "on"
    db.sql("SET stats_filter = off")
    assert rows(db, "SHOW stats_filter") == [("off",)]
    db.set("stats_filter", None)
    assert db.sql("SHOW stats_filter").text() == "on"
    db.sql("SET batch_rows = 1000")
    assert ("batch_rows", "1000") in [row[:2] for row in rows(db, "SHOW ALL")]
    assert rows(db, "SHOW ALL LIKE 'lease%'")[0][:2] == ("lease_ms", "900000")
    with pytest.raises(tidegate.BindError, match="did you mean stats_filter"):
        db.set("stat_filter", True)


def test_options_of_one_query() -> None:
    """OPTIONS (…) turns a knob for one query, and leaves the database as it is."""
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (a int8)")
        db.append("t", {"a": [1, 2, 3]})
        assert db.sql("SELECT a FROM t WHERE a > 1 LIMIT 1").path == "peek"
        assert db.sql("SELECT a FROM t WHERE a > 1 LIMIT 1 OPTIONS (fast_path = off)").path == "local"
        assert db.sql("SELECT a FROM t LIMIT 1").path == "peek"
        text = db.sql("EXPLAIN SELECT a FROM t LIMIT 1 OPTIONS (fast_path = off, audit = 0.5)").text()
        assert "path: local" in text
        with pytest.raises(tidegate.BindError, match="no setting") as caught:
            db.sql("SELECT a FROM t OPTIONS (fast_pth = off)")
        assert "fast_path" in str(caught.value)
        assert "^^^^^^^^" in str(caught.value)


def test_a_watch_ends_a_query() -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (a int8)")
        db.append("t", {"a": [1, 2, 3]})
        watch = tidegate.Watch()
        assert len(db.sql("SELECT a FROM t", watch=watch)) == 3
        watch.cancel()
        with pytest.raises(tidegate.CancelledError, match="was cancelled"):
            db.sql("SELECT a FROM t", watch=watch)
        with pytest.raises(tidegate.CancelledError, match="longer than 1 ms"):
            db.sql("SELECT a FROM t WHERE a > 0", watch=_over())


@pytest.mark.parametrize("timeout", ["x", 1.5, None, -1])
def test_a_watch_takes_milliseconds(timeout: Any) -> None:
    with pytest.raises(tidegate.TypeMismatch, match="timeout_ms must be"):
        tidegate.Watch(timeout)


def _over() -> tidegate.Watch:
    """A watch whose time is over."""
    watch = tidegate.Watch(timeout_ms=1)
    time.sleep(0.01)
    return watch
