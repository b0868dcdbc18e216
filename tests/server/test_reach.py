"""What clients of a server can reach: the lake, and nothing else of the machine that they were not given."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import tidegate
from tidegate.access import ANYWHERE, NOWHERE, Reach
from tidegate.errors import BindError, ReadOnlyError, StoreError
from tidegate.ingest.formats.avro.schema_registry import SchemaRegistry
from tidegate.server.gateway import Gateway

HOSTS = ("h", "db.lan:5432", "*.kafka.lan:9092", "[fd00::7]:9092", "10.0.0.7", "/run/postgresql")


@pytest.fixture
def gateway(tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1}\n')
    (tmp_path / "secret.txt").write_text("hunter2\n")
    with tidegate.open(tmp_path / "lake") as db:
        db.sql("CREATE TABLE t (id int8); INSERT INTO t VALUES (1), (2)")
        made = Gateway(db, write=True, files=(str(tmp_path / "in"), "s3://events/raw"), hosts=HOSTS)
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


def test_clients_make_sources_of_allowed_files_alone(gateway: Gateway, tmp_path: Path) -> None:
    client = gateway.client()
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
def test_connections_of_clients_use_nothing_of_the_server(gateway: Gateway, options: str) -> None:
    with pytest.raises(BindError, match="of the server"):
        gateway.client().sql(f"CREATE CONNECTION k {options}")
    assert gateway.client().sql("SHOW CONNECTIONS").rows() == []


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ("KAFKA (BROKER 'h')", True),
        ("KAFKA (BROKER 'h:22')", True),
        ("KAFKA (BROKERS ('a.kafka.lan:9092', 'B.Kafka.LAN'))", True),
        ("KAFKA (BROKER 'SSL://a.kafka.lan:9092')", True),
        ("KAFKA (BROKER '[fd00::7]:9092,[fd00:0:0::7]')", True),
        ("KAFKA (BROKER '10.0.0.7:1')", True),
        ("KAFKA (BROKER 'a.kafka.lan:22')", False),
        ("KAFKA (BROKER 'kafka.lan')", False),
        ("KAFKA (BROKER 'evilkafka.lan')", False),
        ("KAFKA (BROKER 'h,evil:1')", False),
        ("KAFKA (BROKERS ('h', 'evil:1'))", False),
        ("KAFKA (BROKER 'evil/h')", False),
        ("KAFKA (BROKER 'h@evil')", False),
        ("KAFKA (BROKER '[::1]:9092')", False),
        ("KAFKA (BROKER '[::ffff:10.0.0.7]:1')", False),
        ("KAFKA (BROKER '10.7')", False),
        ("KAFKA (BROKER '0xa000007:1')", False),
        ("POSTGRES (HOST 'db.lan', DATABASE 'd')", True),
        ("POSTGRES (HOST '/run/postgresql', DATABASE 'd')", True),
        ("POSTGRES (HOST 'db.lan', PORT 22, DATABASE 'd')", False),
        ("POSTGRES (HOST 'db.lan,evil', DATABASE 'd')", False),
        ("POSTGRES (HOST 'db.lan,db.lan', PORT '5432,22', DATABASE 'd')", False),
        ("POSTGRES (HOST '/var/run', DATABASE 'd')", False),
        ("POSTGRES (HOST '/run/postgresql/../x', DATABASE 'd')", False),
        ("POSTGRES (HOST '@abstract', DATABASE 'd')", False),
        ("POSTGRES (HOST '', DATABASE 'd')", False),
        ("POSTGRES (HOST 'db.lan', DATABASE 'host=evil dbname=d')", False),
        ("POSTGRES (HOST 'db.lan', DATABASE 'postgresql://evil/d')", False),
        ("CONFLUENT SCHEMA REGISTRY (URL 'http://h:8081')", True),
        ("CONFLUENT SCHEMA REGISTRY (URL 'http://evil:8081')", False),
        ("CONFLUENT SCHEMA REGISTRY (URL 'http://h@evil/')", False),
        ("CONFLUENT SCHEMA REGISTRY (URL 'http://evil\\@h/')", False),
        ("CONFLUENT SCHEMA REGISTRY (URL 'file:///etc/passwd')", False),
        ("AWS (REGION 'eu-west-1')", True),
        ("AWS (ENDPOINT 'https://h')", True),
        ("AWS (ENDPOINT 'http://169.254.169.254')", False),
        ("AWS (REGION 'evil.com/')", False),
    ],
)  # fmt: skip
def test_connections_of_clients_go_to_allowed_hosts_alone(
    gateway: Gateway, options: str, allowed: bool
) -> None:
    statement = f"CREATE CONNECTION k TO {options}"
    if allowed:
        gateway.client().sql(statement)
    else:
        with pytest.raises(BindError):
            gateway.client().sql(statement)
    assert len(gateway.client().sql("SHOW CONNECTIONS").rows()) == allowed
    with pytest.raises(BindError, match=r"does not connect|is no|is a name|of the server"):
        Gateway(gateway.db, write=True).client().sql(
            statement.replace("AWS (REGION 'eu-west-1')", "AWS (ENDPOINT 'https://h')").replace(" k ", " k2 ")
        )


@pytest.mark.parametrize(
    "source",
    [
        "s FROM FILES 's3://events/raw/*.json?endpoint=http://evil:1' FORMAT JSON",
        "s FROM FILES 's3://events/raw/*.json' (ENDPOINT 'http://evil:1') FORMAT JSON",
        "s FROM FILES 's3://events/raw/*.json' (METADATA ENDPOINT 'http://evil:1') FORMAT JSON",
        "s FROM FILES 's3://events/raw/*.json?aws_endpoint_url=http://evil:1' FORMAT JSON",
        "s FROM FILES 's3://events/raw/*.json?web_identity_token_file=/etc/passwd' FORMAT JSON",
        "s FROM KAFKA CONNECTION k (TOPIC 't') FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY 'http://evil:1'",
    ],
)
def test_sources_of_clients_go_to_allowed_hosts_alone(gateway: Gateway, source: str) -> None:
    gateway.client().sql("CREATE CONNECTION k TO KAFKA (BROKER 'h')")
    for statement in (f"CREATE SOURCE {source}", f"EXPLAIN CREATE SOURCE {source}"):
        with pytest.raises(BindError, match=r"does not connect|not for clients"):
            gateway.client().sql(statement)


def test_who_has_the_machine_connects_anywhere(gateway: Gateway) -> None:
    """And clients may use what was made there."""
    gateway.db.sql("CREATE CONNECTION k TO KAFKA (BROKER 'evil:1')")
    assert gateway.client().sql("SHOW CONNECTIONS").rows()[0][0] == "k"


def test_a_registry_does_not_send_us_elsewhere() -> None:
    """A redirect to another host is an answer, not an order: credentials would go along."""
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            here = self.path.startswith("/schemas/ids/1")
            self.send_response(302 if not self.path.startswith("/moved") else 200)
            host = self.headers["Host"] if here else "127.0.0.2:" + self.headers["Host"].rpartition(":")[2]
            self.send_header("Location", f"http://{host}/moved")
            self.end_headers()
            self.wfile.write(b'{"schema": "7"}')

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("0.0.0.0", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        registry = SchemaRegistry(f"http://127.0.0.1:{server.server_port}", "user", "secret")
        try:
            assert registry.schema(1) == 7
            asked.clear()
            with pytest.raises(StoreError, match="answered 302"):
                registry.schema(2)
            assert asked == ["/schemas/ids/2"]
        finally:
            server.shutdown()


def test_who_may_not_write_is_told_so_before_anything_is_done(gateway: Gateway) -> None:
    client = Gateway(gateway.db).client()
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
        with pytest.raises(ReadOnlyError, match="read-only"):
            client.sql(statement)
    assert client.sql("SELECT count(*) FROM t").rows() == [(2,)]


def test_settings_of_a_client_are_its_own(gateway: Gateway) -> None:
    one, other = gateway.client(), gateway.client()
    one.sql("SET fast_path = off")
    assert one.sql("SELECT * FROM t LIMIT 1").path == "local"
    assert other.sql("SELECT * FROM t LIMIT 1").path == "peek"
    assert gateway.db.sql("SELECT * FROM t LIMIT 1").path == "peek"


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
def test_no_function_of_spark_or_duckdb_gets_through(gateway: Gateway, query: str) -> None:
    with pytest.raises((tidegate.SqlError, tidegate.UnsupportedError)):
        gateway.client().sql(query)
