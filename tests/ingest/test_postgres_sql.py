"""Sources from PostgreSQL as a user has them: CREATE SOURCE, ingestion, AS OF, and DROP SOURCE, with a real server and lake."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tidegate
from tests.ingest.postgres_lab import Database, database
from tests.ingest.test_postgres_history import LOCK, MOMENTS, Sessions
from tidegate.errors import SourceError, TidegateError
from tidegate.ingest.batch import commit as settle


@pytest.fixture
def db() -> Iterator[Database]:
    with database() as made:
        yield made


@pytest.fixture
def lake(tmp_path: Path, db: Database) -> Iterator[tidegate.Database]:
    with tidegate.open(tmp_path / "lake") as opened:
        options = db.connection.options
        opened.sql(
            f"CREATE CONNECTION pg TO POSTGRES (HOST '{options['host']}', DATABASE '{options['database']}', USER tidegate)"
        )
        yield opened


def ingest(lake: tidegate.Database, name: str) -> Any:
    return lake.ingest(name, once=True, spark=False, progress=lambda _: None).progress()


def rows(lake: tidegate.Database, query: str, **more: Any) -> Counter[tuple[Any, ...]]:
    return Counter(lake.sql(query, **more).rows())


def test_a_source_of_two_tables(db: Database, lake: tidegate.Database) -> None:
    """The example of the design, verbatim once its `…` is filled in; what comes back, what is bad, and what DROP gives back."""
    for table, columns in (
        ("orders", "id int8, item text, at timestamptz, note text"),
        ("customers", "id int8, name text, secret text"),
    ):
        db.run(f"CREATE TABLE {table} ({columns})", f"ALTER TABLE {table} REPLICA IDENTITY FULL")
    db.run(
        "CREATE PUBLICATION p FOR ALL TABLES",
        "INSERT INTO orders SELECT i, 'item ' || i, now() FROM generate_series(1, 100) i",
        "INSERT INTO customers SELECT i, 'name ' || i, 's' FROM generate_series(1, 10) i",
    )
    lake.sql("""
        CREATE SOURCE pg_source
        FROM POSTGRES CONNECTION pg (PUBLICATION 'p')
        FOR TABLES (
           orders TRANSFORM USING (SELECT id, item FROM orders),
           customers TRANSFORM USING (SELECT id, name FROM customers) AS customer_data,
        );
    """)
    assert ingest(lake, "pg_source").kept == 110
    db.run(
        "DELETE FROM orders WHERE id > 50",
        "UPDATE customers SET name = 'new', secret = 't' WHERE id < 3",
        "UPDATE orders SET note = 'nobody reads this'",
    )
    ingest(lake, "pg_source")
    assert rows(lake, "SELECT * FROM orders") == Counter(db.rows("SELECT id, item FROM orders"))
    assert rows(lake, "SELECT * FROM customer_data") == Counter(db.rows("SELECT id, name FROM customers"))
    slots = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
    assert len(db.rows(slots)) == 1
    db.run("TRUNCATE orders")
    with pytest.raises(SourceError, match=r"a TRUNCATE of public\.orders"):
        lake.ingest("pg_source", once=True, spark=False, progress=lambda _: None).wait(10)
    assert rows(lake, "SELECT count(*) FROM orders") == Counter([(50,)])
    lake.sql("DROP SOURCE pg_source CASCADE")
    assert db.rows(slots) == []


@pytest.mark.parametrize("part_bytes", [10_000, 128 << 20])
def test_updates_leave_no_retractions_that_are_rows(
    db: Database, lake: tidegate.Database, part_bytes: int
) -> None:
    """Also if the new rows are parts that a task wrote, and a row changes twice in one batch."""
    lake.set("part_bytes", part_bytes)
    db.run(
        "CREATE TABLE accounts (id int8 PRIMARY KEY, balance int8, note text)",
        "ALTER TABLE accounts REPLICA IDENTITY FULL",
        "CREATE PUBLICATION p FOR TABLE accounts",
        "INSERT INTO accounts SELECT i, 0, md5(i::text) FROM generate_series(1, 5000) i",
    )
    lake.sql(
        "CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR TABLES (accounts TRANSFORM USING "
        "(SELECT id, balance, note FROM accounts))"
    )
    ingest(lake, "s")
    for turn in range(4):
        db.run(
            f"UPDATE accounts SET balance = balance + 1 WHERE id % 5 = {turn}",
            f"UPDATE accounts SET note = note || 'x' WHERE id % 7 = {turn}",
            f"DELETE FROM accounts WHERE id % 50 = {turn}",
        )
        ingest(lake, "s")
        wanted = Counter(db.rows("SELECT id, balance, note FROM accounts"))
        assert rows(lake, "SELECT * FROM accounts") == wanted
        state = lake.context.shard(lake.context.catalog.find("accounts").shard).machine.fetch()
        assert state.monotonic
        assert state.parts.deletions.rows > 0


def test_rows_that_expire_and_rows_that_are_bad(db: Database, lake: tidegate.Database) -> None:
    """A temporal transform over rows that change; a bad row is in the errors once, and its end takes nothing back."""
    db.run(
        "CREATE TABLE events (id int8, at timestamptz, n text)",
        "ALTER TABLE events REPLICA IDENTITY FULL",
        "CREATE PUBLICATION p FOR TABLE events",
        "INSERT INTO events SELECT i, now() - i * interval '1 day', i FROM generate_series(0, 59) i",
        "INSERT INTO events VALUES (100, now(), 'x'), (101, 'infinity', '1')",
    )
    lake.sql("""
        CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR TABLES (events TRANSFORM USING (
            SELECT id, n::int8 AS n FROM events WHERE mz_now() <= at + '30 days'))
    """)
    done = ingest(lake, "s")
    assert (done.kept, done.expired, done.bad) == (30, 30, 2)
    assert rows(lake, "SELECT id FROM events") == Counter((i,) for i in range(30))
    messages = sorted(lake.sql("SELECT message FROM s_errors").rows())
    assert [message.split(":")[0] for (message,) in messages] == [
        'column "at"',
        "invalid input syntax for type bigint",
    ]
    db.run("DELETE FROM events WHERE id > 20")
    ingest(lake, "s")
    assert rows(lake, "SELECT id FROM events") == Counter((i,) for i in range(21))
    assert len(lake.sql("SELECT message FROM s_errors").rows()) == 2


def test_refusals(db: Database, lake: tidegate.Database) -> None:
    """Floats over rows that change, and tables without their old rows: said when the source is created."""
    db.run("CREATE TABLE t (id int8 PRIMARY KEY, x float8)", "CREATE PUBLICATION p FOR TABLE t")
    create = "CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR TABLES (t TRANSFORM USING (SELECT {} FROM t))"
    with pytest.raises(TidegateError, match=r"ALTER TABLE public\.t REPLICA IDENTITY FULL"):
        lake.sql(create.format("id"))
    db.run("ALTER TABLE t REPLICA IDENTITY FULL")
    with pytest.raises(TidegateError, match="float"):
        lake.sql(create.format("x * 3 AS y"))
    assert db.rows("SELECT * FROM pg_replication_slots WHERE database = current_database()") == []
    lake.sql(create.format("id, x"))


def cut_off(db: Database, lake: tidegate.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ingests a snapshot of `a` and `b`, and dies when `a` has it and `b` has not."""
    commit, calls = settle._commit, []

    def dying(*args: Any) -> None:
        calls.append(1)
        if len(calls) == 3:  # the errors, a, and not b
            raise TidegateError("the process died")
        commit(*args)

    with monkeypatch.context() as patched:
        patched.setattr(settle, "_commit", dying)
        with pytest.raises(TidegateError, match="the process died"):
            lake.ingest("s", once=True, spark=False, progress=lambda _: None).wait(60)


@pytest.mark.parametrize("more", ["", "WITH (APPEND ONLY)"])
def test_a_snapshot_cut_off_between_two_commits(
    db: Database, lake: tidegate.Database, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    """One table has the snapshot, the other must be given what it held at that place of the log, later."""
    for table in ("a", "b"):
        db.run(
            f"CREATE TABLE {table} (id int8, v text)",
            f"ALTER TABLE {table} REPLICA IDENTITY FULL",
            f"INSERT INTO {table} SELECT i, 'first' FROM generate_series(1, 100) i",
        )
    db.run("CREATE PUBLICATION p FOR TABLE a, b")
    lake.sql(f"CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES {more}")
    cut_off(db, lake, monkeypatch)
    assert [lake.sql(f"SELECT count(*) FROM {table}").rows() for table in "ab"] == [[(100,)], [(0,)]]
    db.run("INSERT INTO b VALUES (500, 'x')", "INSERT INTO a VALUES (500, 'x')")
    if not more:
        db.run(
            "DELETE FROM b WHERE id < 30",
            "UPDATE b SET v = 'new' WHERE id < 60",
            "DELETE FROM a WHERE id < 30",
        )
    ingest(lake, "s")
    for table in "ab":
        assert rows(lake, f"SELECT * FROM {table}") == Counter(db.rows(f"SELECT * FROM {table}"))


def test_bad_rows_of_what_is_only_added_can_be_replayed(db: Database, lake: tidegate.Database) -> None:
    """After a fix of the transform."""
    db.run(
        "CREATE TABLE t (id int8, n text)",
        "CREATE PUBLICATION p FOR TABLE t WITH (publish = 'insert')",
        "INSERT INTO t VALUES (1, '1'), (2, 'two')",
    )
    lake.sql("""
        CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR TABLES (
            t TRANSFORM USING (SELECT id, n::int8 AS n FROM t)) WITH (APPEND ONLY)
    """)
    ingest(lake, "s")
    db.run("INSERT INTO t VALUES (3, 'three'), (4, '4')")
    ingest(lake, "s")
    assert rows(lake, "SELECT * FROM t") == Counter([(1, 1), (4, 4)])
    assert len(lake.sql("SELECT * FROM s_errors").rows()) == 2
    fixed = "SELECT id, CASE n WHEN 'two' THEN 2 WHEN 'three' THEN 3 ELSE n::int8 END AS n FROM t"
    lake.sql(f"ALTER SOURCE s SET TRANSFORM USING ({fixed}) FOR t")
    lake.sql("ALTER SOURCE s REPLAY ERRORS")
    assert rows(lake, "SELECT * FROM t") == Counter((i, i) for i in range(1, 5))
    assert lake.sql("SELECT * FROM s_errors").rows() == []


def test_postgresql_at_many_times(db: Database, lake: tidegate.Database) -> None:
    """While others insert, update and delete: AS OF moments in between, and at the end, both tables are what they were."""
    tables = ("orders", "items")
    for table in tables:
        db.run(
            f"CREATE TABLE {table} (id int8, note text, amount numeric(12,2), at timestamptz)",
            f"ALTER TABLE {table} REPLICA IDENTITY FULL",
            f"INSERT INTO {table} SELECT i, 'first', i, now() FROM generate_series(1, 500) i",
        )
    db.run("CREATE PUBLICATION p FOR TABLE orders, items")
    lake.sql("CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES")
    luck, moments = random.Random(7), []
    with Sessions(db, 2) as sessions:
        for _ in range(MOMENTS):
            sessions.go()
            if luck.random() < 0.5:
                ingest(lake, "s")  # while they run
            time.sleep(luck.random() * 0.1)
            with psycopg.connect(db.url, autocommit=True) as c:
                c.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
                ingest(lake, "s")
                at = max(lake.status().collections[table].upper for table in tables) - 1
                moments.append((at, {table: Counter(db.rows(f"SELECT * FROM {table}")) for table in tables}))
    assert not sessions.failures
    ingest(lake, "s")
    for table in tables:
        assert rows(lake, f"SELECT * FROM {table}") == Counter(db.rows(f"SELECT * FROM {table}"))
        for at, held in moments:
            assert rows(lake, f"SELECT * FROM {table}", as_of=at) == held[table], (table, at)
