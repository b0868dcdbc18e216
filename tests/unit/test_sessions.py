"""Sessions of one open database: settings of their own, none of everybody's, and a life of their own."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tidegate.config import Config, SettingScope, spelled
from tidegate.server.gateway import Gateway
from tidegate.storage.shard.leases.keeper import MIN_INTERVAL_S, RenewalThread

DATABASE = [name for name, scope in Config.scopes().items() if scope is SettingScope.DATABASE]
VALUES = {"statement_timeout_ms": "60000", "max_result_bytes": "1000000", "engine": "embedded"}
OTHER = {bool: "off", int: "1", float: "1"}


@pytest.fixture
def db() -> Iterator[tidegate.Database]:
    with tidegate.open("memory://") as found:
        found.sql("CREATE TABLE t (a int8); CREATE TABLE u (a int8)")
        found.append("t", {"a": [1, 2, 3]})
        yield found


def fresh(path: Path) -> tidegate.Database:
    """A lake that is opened anew, so that no shard of it is open."""
    with tidegate.open(path) as first:
        first.sql("CREATE TABLE t (a int8)")
        first.append("t", {"a": [1, 2, 3]})
    return tidegate.open(path)


def shard_config(db: tidegate.Database, name: str = "t") -> Config:
    """The settings that the open shard works with."""
    return db.context.collection(name).config


def has_statistics(db: tidegate.Database, name: str = "t") -> list[bool]:
    """Of each part, whether statistics were collected."""
    state = db.context.collection(name).machine.fetch()
    return [
        bool(stats) for table in state.parts.tables(["stats"]) for stats in table.column("stats").to_pylist()
    ]


# ---------------------------------------------------------------- what concerns everybody


def test_a_read_only_client_cannot_change_what_concerns_everybody(tmp_path: Path) -> None:
    with fresh(tmp_path / "lake") as db:
        gateway = Gateway(db, write=False)
        client = gateway.client()
        for statement in ("SET lease_ms = 1", "SET sweep_grace_ms = 0"):
            with pytest.raises(tidegate.BindError, match="is a setting of the database") as caught:
                client.sql(statement)
            assert "db.set" in str(caught.value)
            assert caught.value.position is not None
        assert client.sql("SELECT count(*) FROM t").rows() == [(3,)]
        assert shard_config(db) == Config()
        gateway.close()


@pytest.mark.parametrize("name", DATABASE)
def test_every_setting_of_the_database_is_refused_elsewhere(db: tidegate.Database, name: str) -> None:
    value = OTHER[type(getattr(Config(), name))]
    with db.session() as session:
        before = session.sql(f"SHOW {name}").text()
        for attempt in (f"SET {name} = {value}", f"SELECT a FROM u OPTIONS ({name} = {value})"):
            with pytest.raises(tidegate.BindError, match=f"{name} is a setting of the database"):
                session.sql(attempt)
        with pytest.raises(tidegate.BindError, match=f"{name} is a setting of the database"):
            db.sql(f"SELECT a FROM u OPTIONS ({name} = {value})")
        session.sql(f"RESET {name}")  # it is the database's already
        assert session.sql(f"SHOW {name}").text() == before
    assert shard_config(db, "u") == Config()


def test_options_of_one_query_do_not_reach_writers(tmp_path: Path) -> None:
    with fresh(tmp_path / "lake") as db:
        with pytest.raises(tidegate.BindError, match="is a setting of the database"):
            db.sql("SELECT a FROM t OPTIONS (stats_collection = off)")
        db.sql("SELECT a FROM t OPTIONS (stats_filter = off, late_materialization = off)")
        db.sql("INSERT INTO t VALUES (4)")
        assert has_statistics(db) == [True, True]
        assert shard_config(db) == Config()


def test_the_database_sets_for_all(db: tidegate.Database) -> None:
    """Who opened it changes a setting of the database for everybody at once, open shards and sessions included."""
    with db.session() as session:
        session.sql("SELECT a FROM t")
        db.set("stats_collection", False)
        db.set("lease_ms", 5_000)
        assert session.sql("SHOW stats_collection").text() == "off"
        assert session.sql("SHOW lease_ms").text() == "5000"
        session.sql("INSERT INTO t VALUES (4)")
        assert has_statistics(db) == [True, False]
        assert shard_config(db).lease_ms == 5_000
        db.set("stats_collection", None)
        session.sql("INSERT INTO t VALUES (5)")
        assert has_statistics(db) == [True, False, True]


def test_the_heart_follows_the_databases_lease(db: tidegate.Database) -> None:
    """A lease that became shorter is renewed in time, and one of no length does not keep a core busy."""
    gc.collect()  # shards of other tests, which have leases of their own
    db.sql("SELECT a FROM t")
    for lease_ms, wait_s in ((400, 0.1), (0, MIN_INTERVAL_S), (200_000, 50.0)):
        db.set("lease_ms", lease_ms)
        threads = [thread for thread in threading.enumerate() if isinstance(thread, RenewalThread)]
        machine = db.context.collection("t").machine
        assert [t.work.interval_s for t in threads if machine in t.work.machines] == [wait_s]


# ---------------------------------------------------------------- what is a client's own


def test_every_other_setting_is_the_sessions_own(db: tidegate.Database) -> None:
    own = [field.name for field in fields(Config) if field.name not in DATABASE]
    assert {"stats_filter", "statement_timeout_ms", "as_of_timeout_ms", "audit"} <= set(own)
    with db.session() as one, db.session() as other:
        for name in own:
            value = VALUES.get(name) or OTHER[type(getattr(Config(), name))]
            one.sql(f"SET {name} = {value}")
            assert one.sql(f"SHOW {name}").text() == spelled(getattr(one.context.config, name)) != ""
            assert getattr(one.context.config, name) != getattr(Config(), name) or name == "read_threads"
            for untouched in (other, db):
                assert untouched.context.config == Config()
        one.sql("SELECT a FROM t; INSERT INTO t VALUES (4)")
        assert shard_config(db) == Config()
        for name in own:
            one.sql(f"RESET {name}")
        assert one.context.config == Config()


def test_reset_goes_back_to_the_databases_value(db: tidegate.Database) -> None:
    db.set("statement_timeout_ms", 7_000)
    with db.session() as session:
        session.set("statement_timeout_ms", 1_000)
        assert session.sql("SHOW statement_timeout_ms").text() == "1000"
        session.set("statement_timeout_ms", None)
        assert session.sql("SHOW statement_timeout_ms").text() == "7000"
        db.set("statement_timeout_ms", 8_000)
        assert session.sql("SHOW statement_timeout_ms").text() == "8000"


def test_a_session_stays_within_the_databases_limits(
    db: tidegate.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes memory and threads of the process may be lowered, and not raised."""
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    db.set("max_result_bytes", 1_000_000)
    db.set("read_threads", 2)
    with db.session() as session:
        for name, low, high in (("max_result_bytes", 10_000, 1_000_001), ("read_threads", 1, 3)):
            session.set(name, low)
            assert session.sql(f"SHOW {name}").text() == str(low)
            for attempt in (f"SET {name} = {high}", f"SELECT a FROM t OPTIONS ({name} = {high})"):
                with pytest.raises(tidegate.BindError, match=f"{name} cannot be more than"):
                    session.sql(attempt)
        with pytest.raises(tidegate.BindError, match="max_result_bytes cannot be more than"):
            session.set("max_result_bytes", 0)  # no limit
        session.set("max_result_bytes", 1_000_000)
        db.set("max_result_bytes", 20_000)  # the limit counts from now on, whatever was set before
        assert session.context.config.max_result_bytes == 20_000
        with pytest.raises(tidegate.BindError, match="read_threads cannot be more than 2"):
            session.set("read_threads", 0)  # as many as there are cores


def test_as_of_waits_as_long_as_the_session_says(tmp_path: Path) -> None:
    with fresh(tmp_path / "lake") as db, db.session() as session:
        session.set("as_of_timeout_ms", 1)
        ahead = db.status().collections["t"].upper + 100_000
        with pytest.raises(tidegate.TimeError, match="waited for 1 ms"):
            session.sql("SELECT a FROM t", as_of=ahead)
        with pytest.raises(tidegate.TimeError, match="waited for 2 ms"):
            db.sql("SELECT a FROM t OPTIONS (as_of_timeout_ms = 2)", as_of=ahead)


# ---------------------------------------------------------------- its life


def test_closing_a_session_harms_nobody(db: tidegate.Database) -> None:
    db.sql("CREATE SOURCE g FROM GENERATOR orders (ROWS 1000000, RATE 10)")
    running = db.ingest("g", spark=False)
    try:
        machine = db.context.collection("t").machine
        other = db.session()
        with db.session() as session:
            assert session.sql("SELECT count(*) FROM t").rows() == [(3,)]
        assert db.context.collection("t").machine is machine
        assert other.sql("SELECT count(*) FROM t").rows() == [(3,)]
        assert running.error is None
        assert db.context.ingestions["g"] is running
        assert not running.stopping.is_set()
    finally:
        running.stop()


def test_a_closed_session_says_so(db: tidegate.Database) -> None:
    session = db.session()
    session.close()
    session.close()
    with pytest.raises(tidegate.StoreError, match="session was closed"):
        session.sql("SELECT 1")
    assert "closed" in repr(session)
    assert db.sql("SELECT count(*) FROM t").rows() == [(3,)]


def test_sessions_end_with_the_database(tmp_path: Path) -> None:
    db = fresh(tmp_path / "lake")
    session = db.session()
    db.close()
    with pytest.raises(tidegate.StoreError, match="was closed"):
        session.sql("SELECT count(*) FROM t")
    session.close()


def test_a_session_keeps_the_database_open(tmp_path: Path) -> None:
    """Python may collect the database that nobody refers to any more but its session."""
    with fresh(tmp_path / "lake").session() as session:
        assert session.sql("SELECT count(*) FROM t").rows() == [(3,)]
        with session.session() as inner:
            assert inner.sql("SELECT count(*) FROM t").rows() == [(3,)]


def test_a_session_that_is_closed_in_the_middle_of_a_statement_stays_closed(db: tidegate.Database) -> None:
    session = db.session()
    done = threading.Event()

    def work() -> None:
        with suppress(tidegate.StoreError):
            while not done.is_set():
                session.set("audit", 0.2)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as pool:
            for _ in range(2):
                pool.submit(work)
            session.close()
            time.sleep(0.05)
            done.set()
    finally:
        sys.setswitchinterval(interval)
    with pytest.raises(tidegate.StoreError, match="closed"):
        session.sql("SELECT 1")


def test_a_session_of_a_session_has_no_wider_reach(db: tidegate.Database) -> None:
    inner = db.session(tidegate.Reach(("/nowhere",))).session()
    with pytest.raises(tidegate.BindError, match="does not read files there"):
        inner.sql("CREATE SOURCE f FROM FILES '/etc/*.json' FORMAT JSON")


@pytest.mark.parametrize("reach", ["/nowhere", 5])
def test_what_is_no_reach_is_refused(db: tidegate.Database, reach: Any) -> None:
    with pytest.raises(tidegate.TypeMismatch):
        db.session(reach)
    with pytest.raises(tidegate.TypeMismatch):
        db.session(tidegate.Reach("/nowhere"))  # type: ignore[arg-type]  # its letters are no folders


def test_a_source_without_connections_says_so(db: tidegate.Database) -> None:
    db.sql("CREATE CONNECTION k TO KAFKA (BROKER 'b:9092')")
    with pytest.raises(tidegate.BindError, match="FROM GENERATOR takes no CONNECTION"):
        db.sql("CREATE SOURCE s FROM GENERATOR CONNECTION k (ROWS 5)")
