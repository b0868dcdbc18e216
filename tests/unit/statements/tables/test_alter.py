"""ALTER TABLE over parts of several versions: every path gives the rows that a table made so from the start gives."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tidegate.storage.part import Block
from tidegate.storage.shard import changes

ROWS = 20_000
"""More than two pages, so that statistics of pages are used too."""
FILTERS = (
    "true",
    "n = 7",
    "n IS NULL OR n > 7",
    "label LIKE 'ne%' AND id >= 19990",
    "f = 'NaN'",
    "(doc->>'n')::int8 > 3",
    "doc->>'k' IS NULL",
    "tags[1] = 'a'",
    "at = '2024-02-29'",
    "price > 99.5 AND price < 100.5",
    "wide > 2147483647",
    "id IN (3, 19998, 20003)",
)
ADDED = (
    "n int8 DEFAULT 7 NOT NULL",
    "label text DEFAULT 'new'",
    "f float8 DEFAULT 'NaN'",
    'doc jsonb DEFAULT \'{"k": "v", "n": 5}\'',
    "tags text[] DEFAULT ARRAY['a', 'b']",
    "at date DEFAULT '2024-02-29'",
    "long text DEFAULT repeat('x', 300)",
    "r row(a int4, b text) DEFAULT ROW(1, 'one')",
    "span interval DEFAULT '1 month 2 days'",
    "flag bool DEFAULT false",
    "amount numeric(6, 2) DEFAULT 12.5",
)
VALUES = "7, 'new', 'NaN', '{\"k\": \"v\", \"n\": 5}', ARRAY['a', 'b'], '2024-02-29'"
LATER = "8, 'later', 0.5, '{\"n\": 1}', ARRAY['c'], '2024-03-02'"


@pytest.fixture(scope="module")
def db() -> Iterator[tidegate.Database]:
    """`t` was altered between its parts; `fresh` was made with its last definition."""
    with tidegate.open("memory://") as made:
        made.sql("CREATE TABLE t (id int4, price int4, wide int4)")
        numbers = list(range(ROWS))
        made.append("t", {"id": numbers, "price": numbers, "wide": numbers})
        made.sql(f"ALTER TABLE t {', '.join('ADD COLUMN ' + column for column in ADDED)}")
        made.sql("ALTER TABLE t ALTER price TYPE numeric(12, 2), ALTER wide TYPE int8")
        made.sql("ALTER TABLE t RENAME COLUMN id TO old, ADD COLUMN gone int4 DEFAULT 1")
        made.sql("ALTER TABLE t RENAME old TO id, DROP COLUMN gone")
        rest = "repeat('x', 300), ROW(1, 'one'), '1 month 2 days', false, 12.5"
        made.sql(f"INSERT INTO t VALUES (20003, 99.75, 3000000000, {LATER}, {rest})")
        types = "n int8, label text, f float8, doc jsonb, tags text[], at date"
        more = "long text, r row(a int4, b text), span interval, flag bool, amount numeric(6, 2)"
        made.sql(f"CREATE TABLE fresh (id int4, price numeric(12, 2), wide int8, {types}, {more})")
        made.sql(
            f"INSERT INTO fresh SELECT g, g, g, {VALUES}, {rest} FROM generate_series(0, {ROWS - 1}) AS g"
        )
        made.sql(f"INSERT INTO fresh VALUES (20003, 99.75, 3000000000, {LATER}, {rest})")
        yield made


def same(db: tidegate.Database, query: str) -> list[tuple[Any, ...]]:
    """The rows that a query of `{}` gives of both tables."""
    own, wanted = (db.sql(query.format(name)).rows() for name in ("t", "fresh"))
    assert repr(own) == repr(wanted), query
    return own


KNOBS = (
    {},
    {"stats_filter": False},
    {"late_materialization": False},
    {"fast_path": False, "audit": 1.0},
    {"engine": "embedded", "audit": 1.0},
)


@pytest.mark.parametrize("knobs", KNOBS, ids=str)
def test_every_path_reads_old_parts_as_the_table_is_now(db: tidegate.Database, knobs: dict[str, Any]) -> None:
    with db.session() as session:
        for name, value in knobs.items():
            session.set(name, value)
        for where in FILTERS:
            same(session, f"SELECT * FROM {{}} WHERE {where} ORDER BY id LIMIT 20")
            same(session, f"SELECT count(*), count(n), min(n), max(price), min(f), max(f), min(label), min(at), "
                 f"count(doc), max(wide) FROM {{}} WHERE {where}")  # fmt: skip
        same(session, "SELECT label, flag, amount, count(*) FROM {} GROUP BY 1, 2, 3 ORDER BY 1")
        same(
            session, "SELECT a.id, b.label FROM {0} a JOIN {0} b ON a.id = b.price WHERE a.id < 3 ORDER BY 1"
        )
        same(session, "SELECT * FROM {} ORDER BY n DESC, id DESC LIMIT 3")


def test_old_parts_are_pruned_by_their_constants(db: tidegate.Database) -> None:
    for where, read in (
        ("n = 8", 1),
        ("n = 7", 1),
        ("n = 9", 0),
        ("label < 'm'", 1),
        ("wide > 4000000000", 0),
    ):
        with db.session() as session:
            session.set("audit", 0.0)
            result = session.sql(f"SELECT id, f FROM t WHERE {where}")
            result.rows()
            assert (result.scan.parts_total, result.scan.parts_read) == (2, read), where


def small(db: tidegate.Database) -> None:
    """Two rows, a column that is added with a default, a third row, and a wider type."""
    db.sql("CREATE TABLE t (id int4, name varchar(3))")
    db.append("t", {"id": [1, 2], "name": ["a", "b"]}, at=10)
    db.sql("ALTER TABLE t ADD COLUMN n int4 DEFAULT 5")
    db.append("t", {"id": [3], "name": ["c"], "n": [6]}, at=20)
    db.sql("ALTER TABLE t ALTER n TYPE int8, ALTER name TYPE text")


def test_history_changes_deletions_and_compaction() -> None:
    with tidegate.open("memory://") as db:
        small(db)
        assert db.sql("SELECT * FROM t ORDER BY id AS OF 10").rows() == [(1, "a", 5), (2, "b", 5)]
        db.append("t", {"id": [1], "name": ["a"], "n": [5]}, at=30, diff=-1)
        assert db.sql("SELECT id FROM t ORDER BY id").rows() == [(2,), (3,)]
        db.sql("UPDATE t SET n = 3000000000 WHERE n = 5")
        db.sql("DELETE FROM t WHERE n = 6")
        left = [(2, "b", 3_000_000_000)]
        assert db.sql("SELECT * FROM t").rows() == left
        assert db.sql("SELECT * FROM t ORDER BY id AS OF 20").rows() == [
            (1, "a", 5),
            (2, "b", 5),
            (3, "c", 6),
        ]
        db.sql("INSERT INTO t VALUES (4, 'longer', 1)")
        db.compact("t", full=True)
        assert db.sql("SELECT * FROM t ORDER BY id").rows() == [*left, (4, "longer", 1)]
        db.recluster("t", by=["n"])
        assert db.sql("SELECT id FROM t WHERE n > 1").rows() == [(2,)]


@pytest.mark.usefixtures("commits_make_files")
def test_it_survives_reopening_from_a_rollup(tmp_path: Path) -> None:
    with tidegate.open(tmp_path / "lake") as db:
        small(db)
        for i in range(6):
            db.append("t", {"id": [10 + i], "name": ["x"], "n": [i]})
        machine = db.context.table("t").machine
        machine.roll(machine.fetch())
    with tidegate.open(tmp_path / "lake") as db:
        assert db.sql("SELECT * FROM t WHERE id < 4 ORDER BY id").rows() == [
            (1, "a", 5),
            (2, "b", 5),
            (3, "c", 6),
        ]
        assert db.sql("SELECT count(*) FROM t WHERE n = 5").rows() == [(3,)]
        db.sql("CREATE TABLE u AS SELECT * FROM t WHERE id < 3")
        assert db.sql("SELECT n FROM u").rows() == [(5,), (5,)]
        number = db.context.table("t").machine.fetch().rollup
        assert number is not None
        stored = db.context.root.blob.get(number[0])
        assert b'"format":3' in (stored or b""), "an older version must refuse it"


def test_defaults_of_every_type_are_stored(tmp_path: Path) -> None:
    more = ("u uuid DEFAULT 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "b bytea DEFAULT '\\x00ff'", "k time DEFAULT '10:20'",
            "ts timestamptz DEFAULT '2024-01-02 03:04:05.678901+01'", "z float4 DEFAULT '-0'", "e text DEFAULT ''")  # fmt: skip
    with tidegate.open(tmp_path / "lake") as db:
        db.sql("CREATE TABLE t (id int4); INSERT INTO t VALUES (1)")
        db.sql(f"ALTER TABLE t {', '.join('ADD COLUMN ' + column for column in (*ADDED, *more))}")
        found = db.sql("SELECT * FROM t").arrow()
        db.sql("CREATE TABLE u AS SELECT * FROM t")
    with tidegate.open(tmp_path / "lake") as db:
        assert repr(db.sql("SELECT * FROM t").rows()) == repr(db.sql("SELECT * FROM u").rows())
        assert repr(found.to_pylist()) == repr(db.sql("SELECT * FROM t").arrow().to_pylist())
        (row,) = db.sql("SELECT n, label, f, span, r, tags, amount, z, b FROM t").rows()
        assert repr(row) == (
            "(7, 'new', nan, Interval(months=1, days=2, microseconds=0), {'a': 1, 'b': 'one'}, ['a', 'b'], "
            "Decimal('12.50'), -0.0, b'\\x00\\xff')"
        )


def test_what_older_versions_read_rightly_stays_readable_for_them() -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (id int4)")
        machine = db.context.table("t").machine

        def last_change(sql: str) -> type:
            number = machine.fetch().number
            db.sql(sql)
            found = machine.consensus.scan(machine.key, number + 1, 2)
            (entry,) = [changes.decode_entry("", data) for _, data in found]
            return type(entry.change)

        assert last_change("ALTER TABLE t ADD COLUMN a int4") is changes.Evolve
        assert last_change("ALTER TABLE t RENAME a TO b") is changes.Evolve
        assert last_change("ALTER TABLE t ALTER b SET DEFAULT 1") is changes.Configure
        assert last_change("ALTER TABLE t ADD COLUMN c int4 DEFAULT 1") is changes.Alter
        assert last_change("ALTER TABLE t ALTER c TYPE int8") is changes.Alter


def test_a_default_is_that_of_the_alter() -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (id int4); INSERT INTO t VALUES (1)")
        db.sql("ALTER TABLE t ADD COLUMN at timestamptz DEFAULT now()")
        (first,) = db.sql("SELECT at FROM t").rows()
        assert db.sql("SELECT at FROM t").rows() == [first], "it does not move on"
        with pytest.raises(tidegate.UnsupportedError, match="differs from row to row"):
            db.sql("ALTER TABLE t ADD COLUMN u float8 DEFAULT random()")
        with pytest.raises(tidegate.EvaluationError, match="contains null values"):
            db.sql("ALTER TABLE t ADD COLUMN n int4 NOT NULL")
        db.sql("TRUNCATE t; ALTER TABLE t ADD COLUMN n int4 NOT NULL")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int8", "int4"),
        ("int8", "numeric(18, 0)"),
        ("int4", "float8"),
        ("float8", "float4"),
        ("numeric(5, 2)", "numeric(8, 3)"),
        ("numeric(5, 2)", "numeric(4, 2)"),
        ("varchar(5)", "varchar(4)"),
        ("text", "varchar(10)"),
        ("text", "jsonb"),
        ("date", "timestamp"),
    ],
)
def test_types_that_may_lose_values_are_refused(old: str, new: str) -> None:
    with tidegate.open("memory://") as db:
        db.sql(f"CREATE TABLE t (a {old})")
        with pytest.raises(tidegate.UnsupportedError, match="it may lose values"):
            db.sql(f"ALTER TABLE t ALTER a TYPE {new}")
        with pytest.raises(tidegate.UnsupportedError, match="USING"):
            db.sql(f"ALTER TABLE t ALTER a TYPE {new} USING a::{new}")


def test_all_actions_or_none() -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (a int4)")
        with pytest.raises(tidegate.BindError, match='column "x" does not exist'):
            db.sql("ALTER TABLE t ADD COLUMN b int4, RENAME a TO c, DROP COLUMN x")
        assert db.sql("SHOW COLUMNS FROM t").rows() == [("a", True, "int4")]
        db.sql("ALTER TABLE t RENAME a TO c, ADD COLUMN a text DEFAULT 'x', DROP c")
        assert db.sql("SHOW COLUMNS FROM t").rows() == [("a", True, "text")]


def test_dependants_are_named() -> None:
    with tidegate.open("memory://") as db:
        db.sql(
            "CREATE TABLE t (a int4, b int4); CREATE VIEW v AS SELECT a FROM t; CREATE VIEW w AS SELECT * FROM v"
        )
        for sql in ("RENAME a TO c", "ALTER a TYPE int8", "DROP a", "RENAME TO u"):
            with pytest.raises(tidegate.BindError, match='view "v", view "w" read') as raised:
                db.sql(f"ALTER TABLE t {sql}")
            assert raised.value.hint == "DROP VIEW v; DROP VIEW w first"
        with pytest.raises(tidegate.BindError, match='view "w" reads "v"'):
            db.sql("ALTER VIEW v RENAME TO x")
        db.sql("ALTER VIEW w RENAME TO x; ALTER TABLE t RENAME b TO c")
        assert db.sql("SELECT * FROM x").rows() == []


def test_numbers_are_compared_by_value_across_versions() -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (n int8); INSERT INTO t VALUES (1), (9223372036854775807)")
        db.sql("ALTER TABLE t ALTER n TYPE numeric(30, 3); INSERT INTO t VALUES (1.5)")
        assert db.sql("SELECT n FROM t WHERE n < 1.2").rows() == [(Decimal("1.000"),)]
        assert db.sql("SELECT max(n), min(n) FROM t").rows() == [(Decimal(9223372036854775807), Decimal(1))]
        db.append("t", {"n": [Decimal("1.000")]}, diff=-1)
        assert db.sql("SELECT count(*) FROM t").rows() == [(2,)]


def test_rows_that_were_written_before_an_alter_and_committed_after_it() -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (a int4, b int4)")
        shard = db.context.table("t")
        state = shard.machine.fetch()
        ones = np.ones(1, np.int64)
        block = Block([pa.array([1], pa.int32()), pa.nulls(1, pa.int32())], 0 * ones, ones)
        first, second = (list(shard.write(state, state.schema, block)) for _ in range(2))
        db.sql("ALTER TABLE t ADD COLUMN c int4 DEFAULT 9 NOT NULL, ALTER b TYPE int8, RENAME a TO x")
        shard.commit(first, at=None, token="first")
        assert db.sql("SELECT x, b, c FROM t").rows() == [(1, None, 9)]
        db.sql("TRUNCATE t; ALTER TABLE t ALTER b SET NOT NULL")
        with pytest.raises(tidegate.ConflictError, match="altered while rows were written"):
            shard.commit(second, at=None, token="second")
        assert db.sql("SELECT * FROM t").rows() == []
