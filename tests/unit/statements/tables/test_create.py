"""CREATE TABLE AS, LIKE, TRUNCATE, keys and comments: what PostgreSQL does not have, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidegate
from tidegate.statements.tables.keys import primary_key
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.state import State


@pytest.fixture
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://") as made:
        yield made


def state_of(db: tidegate.Database, name: str) -> State:
    return db.context.table(name).machine.fetch()


# ---------------------------------------------------------------- CREATE TABLE AS


def test_a_failing_query_leaves_nothing(tmp_path: Path) -> None:
    with tidegate.open(tmp_path / "lake") as db:
        db.sql("CREATE TABLE t AS SELECT g AS id FROM generate_series(1, 50000) AS g")
        before = sorted(path for path in (tmp_path / "lake").rglob("*") if "part" in path.parts)
        db.set("part_bytes", 10_000)
        with pytest.raises(tidegate.EvaluationError, match="division by zero"):
            db.sql("CREATE TABLE u AS SELECT 1 / (id - 49999) AS x FROM t")
        assert db.sql("SHOW TABLES").rows() == [("t",)]
        parts = [path for path in (tmp_path / "lake").rglob("*") if "part" in path.parts]
        assert [path for path in sorted(parts) if path.is_file()] == [p for p in before if p.is_file()]
        (loose,) = [key for key in db.context.catalog.machine.fetch().options if key.startswith("loose/")]
        assert db.context.catalog.machine.fetch().options[loose]["sweeping"], (
            "sweep forgets it after the grace"
        )
        db.sql("CREATE TABLE u AS SELECT 1 AS x")


def test_no_reader_sees_it_before_it_is_complete(
    db: tidegate.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.sql("CREATE TABLE t AS SELECT g AS id FROM generate_series(1, 1000) AS g")
    seen: list[Any] = []
    honest = Shard.commit

    def commit(*args: Any, **options: Any) -> Any:
        seen.append(db.sql("SHOW TABLES").rows())
        result = honest(*args, **options)
        seen.append(db.sql("SHOW TABLES").rows())
        return result

    monkeypatch.setattr(Shard, "commit", commit)
    db.sql("CREATE TABLE u AS SELECT * FROM t")
    assert seen == [[("t",)], [("t",)]]
    assert len(db.sql("SELECT * FROM u")) == 1000


def test_the_name_is_taken_meanwhile(db: tidegate.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    honest, others = Shard.commit, ["CREATE TABLE u (other text)"]

    def commit(*args: Any, **options: Any) -> Any:
        if others:
            db.sql(others.pop())
        return honest(*args, **options)

    monkeypatch.setattr(Shard, "commit", commit)
    with pytest.raises(tidegate.BindError, match='table "u" already exists'):
        db.sql("CREATE TABLE u AS SELECT 1 AS x")
    assert db.sql("SHOW COLUMNS FROM u").rows() == [("other", True, "text")]


def test_rows_are_streamed_into_parts(tmp_path: Path) -> None:
    with tidegate.open(tmp_path / "lake") as db:
        db.sql("CREATE TABLE t (id int8, note text)")
        db.append("t", {"id": list(range(60_000)), "note": [f"note {i} {i * i}" for i in range(60_000)]})
        db.set("max_result_bytes", 100_000)  # far less than the rows have
        db.set("part_bytes", 100_000)
        assert db.sql("CREATE TABLE u CLUSTER BY (id) AS SELECT * FROM t").text() == "SELECT 60000"
        state = state_of(db, "u")
        assert state.parts.count > 2
        assert state.monotonic
        assert db.sql("SELECT count(*), min(id), max(id) FROM u").rows() == [(60_000, 0, 59_999)]
        result = db.sql("SELECT id FROM u WHERE id = 5")
        assert result.rows() == [(5,)]
        assert result.scan.parts_read == 1, "its statistics prune"


def test_every_type_survives(db: tidegate.Database) -> None:
    db.sql(
        "CREATE TABLE t (a numeric(10, 2), b varchar(5), c jsonb, d int4[], e row(x int8, y text), f uuid, g interval, "
        "h timestamptz, i bytea, j date, k time, l bool, m float4, n int2)"
    )
    db.sql(
        "INSERT INTO t VALUES (1.25, 'abc', '{\"k\": 1}', ARRAY[1, 2], ROW(1, 'y'), "
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '1 month', now(), '\\x00ff', '2024-01-01', '10:00', true, 0.5, 3)"
    )
    db.sql("CREATE TABLE u AS SELECT * FROM t; CREATE TABLE v (LIKE t)")
    assert db.sql("SHOW COLUMNS FROM u").rows() == db.sql("SHOW COLUMNS FROM t").rows()
    assert db.sql("SHOW COLUMNS FROM v").rows() == db.sql("SHOW COLUMNS FROM t").rows()
    assert db.sql("SELECT * FROM u").arrow() == db.sql("SELECT * FROM t").arrow()


def test_as_of_options_and_into(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (id int8)")
    db.append("t", {"id": [1]}, at=10)
    db.append("t", {"id": [2]}, at=20)
    db.sql("CREATE TABLE old AS SELECT id FROM t AS OF 10")
    assert db.sql("SELECT * FROM old").rows() == [(1,)]
    db.sql("SELECT id INTO older FROM t AS OF 10 OPTIONS (fast_path = off)")
    assert db.sql("SELECT * FROM older").rows() == [(1,)]
    for sql in (
        "CREATE VIEW v AS SELECT id INTO x FROM t",
        "INSERT INTO t SELECT id INTO x FROM t",
        "SELECT * FROM (SELECT id INTO x FROM t) AS s",
    ):
        with pytest.raises(tidegate.ParseError, match=r"INTO is not allowed here|expected"):
            db.sql(sql)
    assert "t" in db.sql("EXPLAIN CREATE TABLE x AS SELECT * FROM t").text()


# ---------------------------------------------------------------- TRUNCATE


@pytest.mark.usefixtures("commits_make_files")
def test_truncate_reads_no_part_and_keeps_history(tmp_path: Path) -> None:
    with tidegate.open(tmp_path / "lake") as db:
        db.sql("CREATE TABLE t (id int8)")
        for i in range(5):
            db.append("t", {"id": list(range(i * 10, i * 10 + 10))}, at=10 + i)
        db.sql("DELETE FROM t WHERE id = 3")
        files = list((tmp_path / "lake").rglob("part/*/*"))
        assert len(files) == 5
        for path in files:
            path.write_bytes(b"nobody reads this")
        db.sql("TRUNCATE t")
        assert db.sql("SELECT count(*) FROM t").rows() == [(0,)]
        assert db.sql("SELECT count(*) FROM t AS OF 14").rows() == [(50,)]
        number = state_of(db, "t").number
        db.sql("TRUNCATE TABLE t")
        assert state_of(db, "t").number == number, "of an empty table nothing is written"


def test_truncate_where_retractions_wait_for_their_rows(db: tidegate.Database) -> None:
    db.set("delete_by_position", False)
    db.sql("CREATE TABLE t (id int8)")
    db.append("t", {"id": [1, 2, 3]})
    db.append("t", {"id": [2]}, diff=-1)
    db.sql("TRUNCATE t")
    assert db.sql("SELECT * FROM t").rows() == []
    db.sql("INSERT INTO t VALUES (4)")
    assert db.sql("SELECT * FROM t").rows() == [(4,)]


def test_what_others_append_while_a_table_is_truncated(
    db: tidegate.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.sql("CREATE TABLE t (id int8); INSERT INTO t VALUES (1)")
    honest, others = Shard.commit, [[2], [3]]

    def commit(self: Shard, *args: Any, **options: Any) -> Any:
        if others:
            rows, others[:] = others[0], others[1:]
            with monkeypatch.context() as real:
                real.setattr(Shard, "commit", honest)
                self.append({"id": rows})
        return honest(self, *args, **options)

    monkeypatch.setattr(Shard, "commit", commit)
    db.sql("TRUNCATE t")
    assert db.sql("SELECT * FROM t").rows() == []
    with pytest.raises(tidegate.BindError, match="is a view"):
        db.sql("CREATE VIEW v AS SELECT 1; TRUNCATE t, v")


# ---------------------------------------------------------------- keys, comments, prepared statements


def test_keys_are_declared_and_not_enforced(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (a int8, b text, PRIMARY KEY (b, a) NOT ENFORCED)")
    db.sql("INSERT INTO t VALUES (1, 'x'), (1, 'x')")
    with pytest.raises(tidegate.EvaluationError, match='null value in column "b"'):
        db.sql("INSERT INTO t VALUES (1, NULL)")
    shown = "CREATE TABLE t (a int8 NOT NULL, b text NOT NULL, PRIMARY KEY (b, a) NOT ENFORCED)"
    assert db.sql("SHOW CREATE TABLE t").text() == shown
    db.sql("ALTER TABLE t RENAME b TO c; ALTER TABLE t RENAME TO u")
    shown = (
        "CREATE TABLE u (a int8 NOT NULL, c text NOT NULL, CONSTRAINT t_pkey PRIMARY KEY (c, a) NOT ENFORCED)"
    )
    assert db.sql("SHOW CREATE TABLE u").text() == shown
    db.sql("DROP TABLE u")
    db.sql(shown)
    with pytest.raises(tidegate.BindError, match="multiple primary keys"):
        db.sql("ALTER TABLE u ADD PRIMARY KEY (a) NOT ENFORCED")
    with pytest.raises(tidegate.BindError, match="is in a primary key"):
        db.sql("ALTER TABLE u ALTER c DROP NOT NULL")
    db.sql("ALTER TABLE u DROP CONSTRAINT t_pkey, ADD CONSTRAINT mine PRIMARY KEY (a) NOT ENFORCED")
    state = state_of(db, "u")
    key = primary_key(state.schema, state.options)
    assert key is not None
    assert (key.name, [column.name for column in key.columns]) == ("mine", ["a"])
    db.sql("CREATE TABLE copy (LIKE u INCLUDING INDEXES); ALTER TABLE u DROP COLUMN a")
    assert "PRIMARY" not in db.sql("SHOW CREATE TABLE u").text()
    assert "PRIMARY KEY (a) NOT ENFORCED" in db.sql("SHOW CREATE TABLE copy").text()


@pytest.mark.parametrize(
    ("column", "hint"),
    [
        ("a int8 PRIMARY KEY", "write PRIMARY KEY NOT ENFORCED"),
        ("a int8, PRIMARY KEY (a)", "write PRIMARY KEY (a) NOT ENFORCED"),
        ("a int8 UNIQUE", "NOT ENFORCED declares a key"),
        ("a int8, CONSTRAINT u UNIQUE (a)", "NOT ENFORCED declares a key"),
        ("a int8 CHECK (a > 0)", "filter rows where they are written"),
        ("a int8 REFERENCES t", "joins need no key"),
        ("a int8, FOREIGN KEY (a) REFERENCES t (a)", "joins need no key"),
        ("a int8 GENERATED ALWAYS AS IDENTITY", "DEFAULT gives a value"),
    ],
)
def test_what_would_be_enforced_is_refused_with_a_hint(db: tidegate.Database, column: str, hint: str) -> None:
    with pytest.raises(tidegate.UnsupportedError) as refused:
        db.sql(f"CREATE TABLE t ({column})")
    assert hint in str(refused.value.hint)


def test_like_copies_what_it_is_told_to(db: tidegate.Database) -> None:
    db.sql(
        "CREATE TABLE t (id int8, at timestamptz DEFAULT now(), doc jsonb) CLUSTER BY (at) KEEP STATISTICS (doc.ts)"
    )
    db.sql("COMMENT ON COLUMN t.at IS 'when'; CREATE VIEW v AS SELECT id, at FROM t")
    db.sql("CREATE TABLE u (first text, LIKE t INCLUDING ALL); CREATE TABLE w (LIKE v)")
    columns = "first text, id int8, at timestamptz DEFAULT now(), doc jsonb"
    wanted = f"CREATE TABLE u ({columns}) CLUSTER BY (at) KEEP STATISTICS (doc.ts);\nCOMMENT ON COLUMN u.at IS 'when'"
    assert db.sql("SHOW CREATE TABLE u").text() == wanted
    assert db.sql("SHOW CREATE TABLE w").text() == "CREATE TABLE w (id int8, at timestamptz)"
    comment = db.sql("SELECT col_description('u'::regclass, 3)").rows()
    assert comment == [("when",)]


def test_comments_last(tmp_path: Path) -> None:
    with tidegate.open(tmp_path / "lake") as db:
        db.sql("CREATE TABLE t (id int8); CREATE VIEW v AS SELECT id FROM t")
        db.sql("COMMENT ON TABLE t IS 'of t'; COMMENT ON VIEW v IS 'of v'; COMMENT ON COLUMN v.id IS 'of id'")
        db.sql("CREATE OR REPLACE VIEW v AS SELECT id + 1 AS id FROM t")
    with tidegate.open(tmp_path / "lake") as db:
        rows = db.sql("SELECT objsubid, description FROM pg_description ORDER BY description").rows()
        assert rows == [(1, "of id"), (0, "of t"), (0, "of v")]
        db.sql("ALTER TABLE t ADD COLUMN x int4; COMMENT ON COLUMN t.x IS 'x'; ALTER TABLE t DROP x")
        assert len(db.sql("SELECT * FROM pg_description")) == 3


def test_prepared_statements_belong_to_a_session(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (id int8); INSERT INTO t VALUES (1), (2)")
    with db.session() as one, db.session() as two:
        one.sql("PREPARE p AS SELECT id FROM t WHERE id > $1")
        assert one.sql("EXECUTE p (1)").rows() == [(2,)]
        with pytest.raises(tidegate.BindError, match='prepared statement "p" does not exist'):
            two.sql("EXECUTE p (1)")
        one.sql("INSERT INTO t VALUES (3)")
        assert one.sql("EXECUTE p ('1')").rows() == [(2,), (3,)]
        assert one.sql("PREPARE q AS SELECT 1; EXECUTE q").rows() == [(1,)]
        with pytest.raises(tidegate.ParseError, match="parameters are in statements that are prepared"):
            one.sql("SELECT $1; PREPARE r AS SELECT $1")
        with pytest.raises(tidegate.ParseError, match="expected SELECT"):
            one.sql("PREPARE r AS DROP TABLE t")


def test_numeric_and_text_are_assigned_as_append_checks_them(db: tidegate.Database) -> None:
    db.sql("CREATE TABLE t (n numeric(4, 1), s varchar(3)); INSERT INTO t VALUES (1, 'a')")
    before = state_of(db, "t").upper
    for sql in (
        "INSERT INTO t VALUES (999.96, 'a')",
        "INSERT INTO t SELECT 1000, 'a'",
        "UPDATE t SET n = 12345",
        "INSERT INTO t (s) SELECT 'abcd'",
        "UPDATE t SET s = 'ab d'",
        "PREPARE p (numeric, text) AS INSERT INTO t VALUES ($1, $2); EXECUTE p (1e6, 'a')",
        "EXECUTE p (1, 'abcd')",
    ):
        with pytest.raises(tidegate.TidegateError, match=r"overflow|too long|does not fit"):
            db.sql(sql)
    with pytest.raises(tidegate.EvaluationError, match="too long"):
        db.append("t", pa.table({"n": pa.array([1], pa.int64()), "s": ["abcd"]}))
    assert state_of(db, "t").upper == before
    db.sql("INSERT INTO t VALUES (999.94, 'abc   '), (12.34::numeric(4,1), 'abcdef'::varchar(3))")
    assert db.sql("SELECT s FROM t ORDER BY n").rows() == [("a",), ("abc",), ("abc",)]
