"""What clients of a server can reach: the lake, and nothing else of the machine that they were not given."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidegate
from tidegate.errors import BindError, ReadOnlyError
from tidegate.serve.desk import Desk
from tidegate.session.reach import ANYWHERE, NOWHERE, Reach


@pytest.fixture
def desk(tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1}\n')
    (tmp_path / "secret.txt").write_text("hunter2\n")
    with tidegate.open(tmp_path / "lake") as db:
        db.sql("CREATE TABLE t (id int8); INSERT INTO t VALUES (1), (2)")
        made = Desk(db, write=True, files=(str(tmp_path / "in"),))
        yield made
        made.close()


@pytest.mark.parametrize(
    ("pattern", "allowed"),
    [
        ("/data/in/a.json", True),
        ("/data/in/*.json", True),
        ("/data/in/2026/*/x.json", True),
        ("file:///data/in/a.json", True),
        ("s3://events/raw/*.json", True),
        ("/data/in", True),
        ("/data/inner/a.json", False),
        ("/data/*.json", False),
        ("/data/i*/a.json", False),
        ("/data/in/../secret", False),
        ("/data/in/*/../../secret", False),
        ("file:///data/in/%2e%2e/secret", False),
        ("/etc/passwd", False),
        ("/*", False),
        ("s3://events/rawer/x", False),
        ("s3://events/raw/../other/x", False),
        ("s3://other/raw/x", False),
        ("gs://events/raw/x", False),
        ("relative.json", False),
        ("", False),
    ],
)
def test_a_pattern_must_lie_below_what_is_allowed(pattern: str, allowed: bool) -> None:
    reach = Reach(("/data/in", "s3://events/raw"))
    if allowed:
        reach.file(pattern)
    else:
        with pytest.raises(BindError, match="does not read files there"):
            reach.file(pattern)
    ANYWHERE.file(pattern)
    with pytest.raises(BindError):
        NOWHERE.file(pattern)


def test_a_link_out_of_an_allowed_folder_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    with pytest.raises(BindError):
        Reach((str(tmp_path / "in"),)).file(str(tmp_path / "in" / "link" / "*.json"))


def test_clients_make_sources_of_allowed_files_alone(desk: Desk, tmp_path: Path) -> None:
    client = desk.client()
    client.sql(f"CREATE SOURCE s FROM FILES '{tmp_path}/in/*.json' FORMAT JSON")
    for statement in (
        f"CREATE SOURCE s2 FROM FILES '{tmp_path}/*.txt' FORMAT TEXT",
        "CREATE SOURCE s2 FROM FILES '/etc/passwd' FORMAT TEXT",
        f"CREATE SOURCE s2 FROM FILES '{tmp_path}/in/*.avro' FORMAT AVRO USING SCHEMA FILE '/etc/passwd'",
        f"EXPLAIN CREATE SOURCE s2 FROM FILES '{tmp_path}/*.txt' FORMAT TEXT",
    ):
        with pytest.raises(BindError, match="does not read files there"):
            client.sql(statement)
    assert client.sql("SHOW SOURCES").rows()[0][0] == "s"


@pytest.mark.parametrize(
    "options",
    [
        "TO POSTGRES (HOST 'h', DATABASE 'd', USER 'u', PASSWORD 'env:HOME')",
        "TO POSTGRES (HOST 'h', DATABASE 'd', USER 'u', PASSWORD 'file:/etc/shadow')",
        "TO POSTGRES (HOST 'h', DATABASE 'd', USER 'u', SSL KEY '/etc/ssl/private/key.pem')",
        "TO KAFKA (BROKER 'h:1', SETTINGS ('plugin.library.paths=x.so'))",
        "TO KAFKA (BROKER 'h:1', SASL USERNAME 'u', SASL PASSWORD 'env:HOME')",
    ],
)
def test_connections_of_clients_use_nothing_of_the_server(desk: Desk, options: str) -> None:
    with pytest.raises(BindError, match="of the server"):
        desk.client().sql(f"CREATE CONNECTION k {options}")
    assert desk.client().sql("SHOW CONNECTIONS").rows() == []


def test_who_may_not_write_is_told_so_before_anything_is_done(desk: Desk) -> None:
    client = Desk(desk.db).client()
    assert client.sql("SELECT count(*) FROM t").rows() == [(2,)]
    assert client.sql("SHOW TABLES").rows()
    assert "peek" in client.sql("EXPLAIN SELECT * FROM t LIMIT 1").text()
    for statement in (
        "INSERT INTO t VALUES (3)",
        "DELETE FROM t",
        "UPDATE t SET id = 0",
        "DROP TABLE t",
        "CREATE TABLE u (id int8)",
        "CREATE VIEW v AS SELECT 1",
        "ALTER TABLE t ADD COLUMN x int8",
        "SELECT 1; DELETE FROM t",
    ):
        with pytest.raises(ReadOnlyError, match="only reads"):
            client.sql(statement)
    assert client.sql("SELECT count(*) FROM t").rows() == [(2,)]


def test_settings_of_a_client_are_its_own(desk: Desk) -> None:
    one, other = desk.client(), desk.client()
    one.sql("SET fast_path = off")
    assert one.sql("SELECT * FROM t LIMIT 1").path == "local"
    assert other.sql("SELECT * FROM t LIMIT 1").path == "peek"
    assert desk.db.sql("SELECT * FROM t LIMIT 1").path == "peek"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT java_method('java.lang.System', 'getenv', 'HOME'), count(*) OVER () FROM t",
        "SELECT reflect('java.lang.System', 'getenv', 'HOME')",
        'SELECT * FROM "text"."/etc/passwd"',
        "SELECT * FROM t a JOIN read_csv('/etc/passwd') b ON true",
        "SELECT read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT getenv('HOME')",
        "SELECT input_file_name(), row_number() OVER () FROM t",
    ],
)
def test_no_function_of_spark_or_duckdb_gets_through(desk: Desk, query: str) -> None:
    with pytest.raises((tidegate.SqlError, tidegate.UnsupportedError)):
        desk.client().sql(query)
