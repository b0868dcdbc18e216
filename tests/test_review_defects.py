"""The defects S1, S2, S3, S6 and S8 that the review of the old tree (commit 8500262) found: each has tests that failed there.

S1 and S2 came from one mutable object that was copied for each client: its open shards had the settings of whoever touched them
first. S3: a session could not be closed. S6: an error while reading sent a query to Spark. S8: names that are keywords were
written without quotes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidegate
from tidegate.server.gateway import Gateway

KEYWORDS = 'CREATE TABLE words (id int8, "order" timestamptz, "from" text, "Group" int8)'


def write_lake(path: Path) -> None:
    """A lake with one table, which no process has open."""
    with tidegate.open(path) as db:
        db.sql("CREATE TABLE t (a int8)")
        db.append("t", {"a": [1, 2, 3]})


@pytest.fixture
def db(tmp_path: Path) -> Iterator[tidegate.Database]:
    """A database of which no shard is open yet."""
    write_lake(tmp_path / "lake")
    with tidegate.open(tmp_path / "lake") as opened:
        yield opened


def statistics(db: tidegate.Database) -> list[bool]:
    """Whether each part of t has statistics."""
    tables = db.context.collection("t").machine.fetch().parts.tables(["stats"])
    return [bool(stats) for table in tables for stats in table.column("stats").to_pylist()]


# ---------------------------------------------------------------- S1


def test_s1_a_reading_client_does_not_set_leases_for_everybody(db: tidegate.Database) -> None:
    client = Gateway(db, write=False).client()
    for setting in ("lease_ms = 1", "sweep_grace_ms = 0"):
        with pytest.raises(tidegate.SettingError):
            client.sql(f"SET {setting}")
    assert client.sql("SELECT count(*) FROM t").rows() == [(3,)]
    config = db.context.collection("t").config
    assert (config.lease_ms, config.sweep_grace_ms) == (900_000, 3_600_000)


def test_s1_with_a_second_client_at_work_and_after_an_update(db: tidegate.Database) -> None:
    first, second = db.session(), db.session()
    first.sql("SET stats_filter = off; SET audit = 1")
    assert first.sql("SELECT count(*) FROM t").rows() == [(3,)]
    second.sql("UPDATE t SET a = a + 1 WHERE a = 3")
    assert second.sql("SHOW stats_filter").rows() == [("on",)]
    assert first.sql("SHOW stats_filter").rows() == [("off",)]
    assert db.context.collection("t").config == tidegate.Config()
    assert sorted(second.sql("SELECT a FROM t").rows()) == [(1,), (2,), (4,)]


# ---------------------------------------------------------------- S2


def test_s2_options_of_the_first_query_do_not_reach_writers(db: tidegate.Database) -> None:
    with pytest.raises(tidegate.SettingError):
        db.sql("SELECT count(*) FROM t OPTIONS (stats_collection = off)")
    assert db.sql("SELECT count(*) FROM t OPTIONS (stats_filter = off)").rows() == [(3,)]
    db.sql("INSERT INTO t VALUES (4)")
    assert all(statistics(db))


def test_s2_with_a_second_client_at_work_and_after_an_update(db: tidegate.Database) -> None:
    first, second = db.session(), db.session()
    with pytest.raises(tidegate.SettingError):
        first.sql("SELECT a FROM t OPTIONS (stats_collection = off)")
    first.sql("SELECT a FROM t OPTIONS (stats_filter = off, late_materialization = off)").rows()
    second.sql("UPDATE t SET a = 10 WHERE a = 1")
    second.sql("INSERT INTO t VALUES (11)")
    assert all(statistics(db))
    assert first.sql("SHOW stats_filter").rows() == [("on",)], "for this query alone"
    found = second.sql("SELECT a FROM t WHERE a > 9")
    assert sorted(found.rows()) == [(10,), (11,)]
    assert found.scan.parts_read < found.scan.parts_total, "the new parts are pruned by their statistics"


def test_s2_the_database_turns_statistics_off_for_all_and_says_so(db: tidegate.Database) -> None:
    assert db.session().sql("SELECT count(*) FROM t").rows() == [(3,)]
    db.set("stats_collection", False)
    session = db.session()
    assert session.sql("SHOW stats_collection").rows() == [("off",)]
    session.sql("INSERT INTO t VALUES (4)")
    assert statistics(db) == [True, False]


# ---------------------------------------------------------------- S3


def test_s3_a_session_is_closed_alone(db: tidegate.Database) -> None:
    other = db.session()
    with db.session() as session:
        assert isinstance(session, tidegate.Session)
        assert not isinstance(session, tidegate.Database)
        assert session.sql("SELECT count(*) FROM t").rows() == [(3,)]
    with pytest.raises(tidegate.StoreError, match="this session was closed"):
        session.sql("SELECT 1")
    other.sql("UPDATE t SET a = 7 WHERE a = 3")
    assert db.sql("SELECT a FROM t WHERE a = 7").rows() == [(7,)]


def test_s3_closing_a_session_stops_no_ingestion(db: tidegate.Database) -> None:
    db.sql("CREATE SOURCE g FROM GENERATOR counter (ROWS 10)")
    running = db.ingest("g", spark=False, progress=lambda _: None)
    session = db.session()
    session.sql("SELECT count(*) FROM t").rows()
    session.close()
    session.close()
    assert running.running
    running.stop()


# ---------------------------------------------------------------- S6


def test_s6_a_plan_error_while_reading_is_not_taken_for_a_query_of_another_shape(
    db: tidegate.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.statements import select

    def fail(*_: object) -> None:
        raise tidegate.PlanError("raised while reading")

    monkeypatch.setattr(select, "answer", fail)
    with pytest.raises(tidegate.PlanError, match="raised while reading"):
        db.sql("SELECT a FROM t")


# ---------------------------------------------------------------- S8


def test_s8_definitions_with_keywords_as_names_can_be_restored(db: tidegate.Database) -> None:
    db.sql(KEYWORDS)
    db.sql("""INSERT INTO words VALUES (1, '2026-01-01', 'x', 2)""")
    db.sql("""UPDATE words SET "order" = '2026-01-02', "from" = 'y' WHERE "Group" = 2""")
    ((_, created),) = db.sql("SHOW CREATE TABLE words").rows()
    with tidegate.open("memory://") as other:
        other.sql(created)
        assert other.sql("SHOW CREATE TABLE words").rows() == [("words", created)]
        assert [name for name, *_ in other.sql("SHOW COLUMNS FROM words").rows()] == [
            "id",
            "order",
            "from",
            "Group",
        ]


def test_s8_the_map_of_a_table_with_keywords_as_names(db: tidegate.Database) -> None:
    db.sql(KEYWORDS)
    session = db.session()
    session.append(
        "words", {"id": [1], "order": [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)], "from": ["x"], "Group": [1]}
    )
    db.sql("UPDATE words SET id = 2")
    found = session.maps.collection("words")
    assert {'"order"', '"Group"', "id"} <= set(found.choices)
    for axis in found.choices:
        assert len(session.maps.collection("words", axis)) >= 1
    preview = session.maps.query("""SELECT "from" FROM words WHERE "order" > '2025-01-01' AND "Group" = 1""")
    assert '"order"' in preview.readings[0].conjuncts[0].text
