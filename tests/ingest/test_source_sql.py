"""Statements of sources: what comes into the catalog, what is refused and how, and that it goes again without a trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

import tidegate
from tests import servers
from tests.ingest.statements import ingest, json_lines, options, rows
from tidegate.database import Database
from tidegate.ingest.define import serialize as stored
from tidegate.ingest.define.catalog import load_source
from tidegate.ingest.definition import UPSERT_KEY
from tidegate.storage.blob.object_store import open_object_store
from tidegate.storage.shard import shard_options


@pytest.fixture
def db() -> Iterator[Database]:
    with tidegate.open("memory://") as made:
        yield made


@pytest.fixture
def files(tmp_path: Path) -> str:
    return json_lines(tmp_path)


# ---------------------------------------------------------------- what is made


FROM_FILES = (
    "CREATE SOURCE s FROM FILES '{files}' FORMAT JSON INCLUDE FILE, LINE AS n, INGESTION TIMESTAMP AS ts\n"
    "TRANSFORM USING (SELECT (data->>'id')::int8 AS id, n, data->'at' AS at FROM s\n"
    "  WHERE mz_now() <= ts + '30 days' AND data->>'kind' = 'a')\n"
    "CLUSTER BY (id) KEEP STATISTICS (at.x) WITH (MAX ERRORS 5, BATCH FILES 3, RETENTION '1 day')"
)


def test_a_source_from_files(db: Database, files: str) -> None:
    sql = FROM_FILES.format(files=files)
    assert db.sql(f"SELECT 1; {sql};").text() == "CREATE SOURCE"
    assert rows(db, "SHOW SOURCES") == [("s", "files", None, "ready"), ("s_errors", "subsource", "s", None)]
    assert rows(db, "SHOW COLUMNS FROM s") == [
        ("id", True, "int8"),
        ("n", True, "int8"),
        ("at", True, "jsonb"),
    ]
    assert [name for name, _, _ in rows(db, "SHOW COLUMNS FROM s_errors")] == [
        "at",
        "collection",
        "position",
        "message",
        "raw",
    ]
    assert rows(db, "SHOW CREATE SOURCE s") == [("s", sql)]
    assert rows(db, "SHOW TABLES") == []
    found = options(db, "s")
    assert found[shard_options.VALIDITY] == [3, 4]
    assert found[shard_options.HIDDEN] == [3, 4]
    assert found[shard_options.CLUSTER_BY] == [0]
    assert found[shard_options.KEEP_STATISTICS] == [[2, "x"]]
    assert found[shard_options.RETENTION_MS] == 86_400_000


def test_a_loaded_source(db: Database, files: str) -> None:
    db.sql(FROM_FILES.format(files=files))
    source = load_source(db.context, "s")
    assert (source.kind, source.max_errors, source.limit.files) == ("files", 5, 3)
    assert [one.what for one in source.included] == ["file", "line", "ingestion timestamp"]
    assert source.outputs[0].hidden == 2
    assert [str(type_) for type_ in source.outputs[0].plan.types] == [
        "int8",
        "int8",
        "jsonb",
        "mz_timestamp",
        "mz_timestamp",
    ]
    ingest(db, "s")
    assert rows(db, "SELECT id, n FROM s ORDER BY id") == [(i, i + 1) for i in range(0, 10, 2)]


def test_what_is_kept_is_what_was_made(db: Database, files: str) -> None:
    """A source out of the catalog is the one that was bound, and its JSON is plain."""
    db.sql(
        f"CREATE SOURCE s FROM FILES '{files}' FORMAT JSON INCLUDE LINE TRANSFORM USING (SELECT data->'a' AS a FROM s)"
    )
    item = db.context.item("s")
    kept = json.loads(json.dumps(item.definition))  # type: ignore[union-attr]  # it is a source
    source = load_source(db.context, "s")
    assert stored.source_to_json(source) == kept
    assert stored.source_to_json(stored.source_from_json(kept, pytest.fail)) == kept
    kept["version"] = 99
    with pytest.raises(tidegate.TidegateError, match="newer version"):
        stored.source_from_json(kept, pytest.fail)


def test_generators(db: Database) -> None:
    db.sql("CREATE SOURCE o FROM GENERATOR orders (ROWS 50, SEED 7)")
    db.sql(
        "CREATE SOURCE auction FROM GENERATOR auction (ROWS 50) "
        "FOR TABLES (bids TRANSFORM USING (SELECT id FROM bids) AS b, users,)"
    )
    assert [name for name, *_ in rows(db, "SHOW SOURCES")] == [
        "auction",
        "auction_errors",
        "b",
        "o",
        "o_errors",
        "users",
    ]
    assert rows(db, "SHOW COLUMNS FROM b") == [("id", True, "int8")]
    assert [output.table for output in load_source(db.context, "auction").outputs] == ["bids", "users"]
    ingest(db, "o")
    ingest(db, "auction")
    assert rows(db, "SELECT count(*) FROM o") == [(50,)]
    assert rows(db, "SELECT count(*) > 0 FROM b") == [(True,)]
    with pytest.raises(tidegate.BindError, match='"auction" is a source, and has no rows of its own'):
        db.compact("auction")
    with pytest.raises(tidegate.BindError, match='no collection or view "auction"'):
        db.sql("SELECT * FROM auction")
    db.compact("b")
    db.sql("DROP SOURCE auction, o")
    assert rows(db, "SHOW SOURCES") == []


def test_several_collections_of_the_same_records(db: Database, files: str) -> None:
    db.sql(
        f"CREATE SOURCE s FROM FILES '{files}' FORMAT JSON FOR TABLES ("
        "a TRANSFORM USING (SELECT data->>'id' AS id FROM s WHERE data->>'kind' = 'a'),"
        "b TRANSFORM USING (SELECT (data->>'id')::int4 AS n FROM b WHERE data->>'kind' = 'b') AS bs,"
        "everything)"
    )
    ingest(db, "s")
    assert [rows(db, f"SELECT count(*) FROM {name}") for name in ("a", "bs", "everything")] == [
        [(5,)],
        [(5,)],
        [(10,)],
    ]


@pytest.mark.parametrize(
    ("format_", "text", "columns"),
    [
        ("TEXT", "x\ny\n", ["text"]),
        ("BYTES", "x\ny\n", ["data"]),
        ("CSV WITH HEADER", "a,b\n1,2\n3,4\n", ["a", "b"]),
        ("CSV WITH 2 COLUMNS DELIMITED BY ';'", "1;2\n3;4\n", ["column1", "column2"]),
        ("CSV WITH HEADER (b)", "a,b\n1,2\n3,4\n", ["b"]),
    ],
)
def test_formats(db: Database, tmp_path: Path, format_: str, text: str, columns: list[str]) -> None:
    (tmp_path / "f.txt").write_text(text)
    db.sql(f"CREATE SOURCE s FROM FILES '{tmp_path}/*.txt' FORMAT {format_}")
    assert [name for name, _, _ in rows(db, "SHOW COLUMNS FROM s")] == columns
    ingest(db, "s")
    assert rows(db, "SELECT count(*) FROM s") == [(2,)]
    assert rows(db, "SELECT count(*) FROM s_errors") == [(0,)]


SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "o",
        "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": ["null", "string"]}],
    }
)


def test_avro_schemas(db: Database, tmp_path: Path) -> None:
    db.sql("CREATE CONNECTION k TO KAFKA (BROKER 'localhost:1', TIMEOUT MS 100)")
    db.sql(
        f"CREATE SOURCE inline FROM KAFKA CONNECTION k (TOPIC 't') FORMAT AVRO USING SCHEMA '{SCHEMA}' INCLUDE OFFSET"
    )
    assert rows(db, "SHOW COLUMNS FROM inline") == [
        ("id", True, "int8"),
        ("item", True, "text"),
        ("offset", True, "int8"),
    ]
    (tmp_path / "o.avsc").write_text(SCHEMA)
    db.sql(
        f"CREATE SOURCE filed FROM KAFKA CONNECTION k (TOPIC 't') FORMAT AVRO USING SCHEMA FILE '{tmp_path}/o.avsc'"
    )
    assert (
        load_source(db.context, "filed").outputs[0].format
        == load_source(db.context, "inline").outputs[0].format
    )
    with pytest.raises(tidegate.StoreError, match=r"nowhere\.avsc"):
        db.sql(
            "CREATE SOURCE x FROM KAFKA CONNECTION k (TOPIC 't') FORMAT AVRO USING SCHEMA FILE '/nowhere.avsc'"
        )


class _Schemas(BaseHTTPRequestHandler):
    """A schema registry that knows one subject."""

    def do_GET(self) -> None:
        known = self.path == "/subjects/t-value/versions/latest" and self.headers["Authorization"]
        self.send_response(200 if known else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"id": 3, "schema": SCHEMA} if known else {}).encode())

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def test_a_schema_registry(db: Database) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Schemas)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        db.sql("CREATE CONNECTION k TO KAFKA (BROKER 'localhost:1', TIMEOUT MS 100)")
        db.sql(
            f"CREATE CONNECTION csr TO CONFLUENT SCHEMA REGISTRY (URL '{url}', USERNAME 'u', PASSWORD 'hush')"
        )
        using = "FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION csr"
        db.sql(
            f"CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC 't') {using} TRANSFORM USING (SELECT id FROM s)"
        )
        assert rows(db, "SHOW COLUMNS FROM s") == [("id", True, "int8")]
        source = load_source(db.context, "s")
        assert source.outputs[0].format.registry.password == "hush"  # type: ignore[attr-defined]  # Avro's
        assert "hush" not in json.dumps(stored.source_to_json(source))
        with pytest.raises(tidegate.BindError, match='has no schema "other-value"'):
            db.sql(f"CREATE SOURCE x FROM KAFKA CONNECTION k (TOPIC 'other') {using}")
        with pytest.raises(tidegate.BindError, match='source "s" uses "csr"'):
            db.sql("DROP CONNECTION csr")
    finally:
        server.shutdown()
        server.server_close()


def test_an_aws_connection(db: Database, tmp_path: Path) -> None:
    """What a bucket needs is said by a connection, whose secret is a file."""
    try:
        given = servers.s3()
    except servers.Missing as missing:
        pytest.skip(f"not here: {missing}")
    (tmp_path / "secret").write_text(given["secret_access_key"] + "\n")
    open_object_store("s3://lake/", **given).put("in/a.txt", b"x\ny\n")
    db.sql(
        f"CREATE CONNECTION a TO AWS (ENDPOINT '{given['endpoint']}', REGION 'us-east-1', ALLOW HTTP 'true', "
        f"ACCESS KEY ID '{given['access_key_id']}', SECRET ACCESS KEY 'file:{tmp_path}/secret')"
    )
    db.sql("CREATE SOURCE s FROM FILES 's3://lake/in/*.txt' (AWS CONNECTION a) FORMAT TEXT")
    ingest(db, "s")
    assert rows(db, "SELECT text FROM s ORDER BY 1") == [("x",), ("y",)]
    with pytest.raises(tidegate.BindError, match='source "s" uses "a"'):
        db.sql("DROP CONNECTION a")


def test_more_bad_rows_than_allowed(db: Database, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1}\nno\nneither\n')
    db.sql(f"CREATE SOURCE s FROM FILES '{tmp_path}/*.json' FORMAT JSON WITH (MAX ERRORS 1)")
    with pytest.raises(tidegate.TidegateError, match="bad"):
        ingest(db, "s")
    found = db.status().sources["s"]
    assert (found.state, found.errors) == ("stopped", 2)
    assert found.trouble == "2 bad rows are more than MAX ERRORS 1"
    assert found.collections["s"].kept == 1
    assert rows(db, "SHOW SOURCES LIKE 's'") == [("s", "files", None, "stopped")]


def test_envelopes(db: Database) -> None:
    db.sql("CREATE CONNECTION k TO KAFKA (BROKER 'localhost:1', TIMEOUT MS 100)")
    start = "FROM KAFKA CONNECTION k (TOPIC 't')"
    db.sql(
        f"CREATE SOURCE u {start} KEY FORMAT TEXT VALUE FORMAT JSON INCLUDE KEY AS k, TIMESTAMP AS t ENVELOPE UPSERT "
        "TRANSFORM USING (SELECT k, data->>'a' AS a, t FROM u WHERE mz_now() < t + '1 day')"
    )
    found, source = options(db, "u"), load_source(db.context, "u")
    assert (
        found[shard_options.VALIDITY],
        found[UPSERT_KEY],
        found[shard_options.HIDDEN],
        found[shard_options.CLUSTER_BY],
    ) == ([3, 4], 5, [3, 4, 5], [5])
    assert source.outputs[0].hidden == 3
    assert rows(db, "SHOW COLUMNS FROM u") == [
        ("k", True, "text"),
        ("a", True, "text"),
        ("t", True, "timestamptz"),
    ]
    db.sql(
        f"CREATE SOURCE d {start} FORMAT JSON ENVELOPE DEBEZIUM "
        "TRANSFORM BEFORE ENVELOPE USING (SELECT data->'change' AS change FROM d WHERE data->>'table' = 'x') "
        "TRANSFORM USING (SELECT (change->>'id')::int8 AS id FROM d)"
    )
    assert [str(type_) for type_ in load_source(db.context, "d").outputs[0].plan.inputs] == ["jsonb"]
    assert rows(db, "SHOW COLUMNS FROM d") == [("id", True, "int8")]


# ---------------------------------------------------------------- connections


def test_connections(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.sql(
        "CREATE CONNECTION k TO KAFKA (BROKERS ('a:1', 'b:2'), SASL USERNAME = 'me', SASL PASSWORD 'tell nobody')"
    )
    db.sql("CREATE CONNECTION pg TO POSTGRES (HOST 'h', PORT 5433, DATABASE 'd', PASSWORD 'env:PG_WORD')")
    db.sql("CREATE CONNECTION csr TO CONFLUENT SCHEMA REGISTRY (URL 'http://localhost:1')")
    db.sql("CREATE CONNECTION IF NOT EXISTS csr TO CONFLUENT SCHEMA REGISTRY (URL 'x')")
    assert rows(db, "SHOW CONNECTIONS") == [
        ("csr", "confluent schema registry"),
        ("k", "kafka"),
        ("pg", "postgres"),
    ]
    shown = rows(db, "SHOW CREATE CONNECTION k")[0][1]
    assert (
        shown
        == "CREATE CONNECTION k TO KAFKA (BROKERS ('a:1', 'b:2'), SASL USERNAME 'me', SASL PASSWORD '***')"
    )
    assert "PASSWORD 'env:PG_WORD'" in rows(db, "SHOW CREATE CONNECTION pg")[0][1]
    db.sql("CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC 't') FORMAT JSON")
    item = db.context.item("s")
    assert "tell nobody" not in repr((item, load_source(db.context, "s"), db.context.item("k")))
    assert "tell nobody" not in json.dumps(item.definition)  # type: ignore[union-attr]  # it is a source
    connection = load_source(db.context, "s").upstream.connection  # type: ignore[attr-defined]  # Kafka's
    assert connection.get("sasl password") == "tell nobody"
    with pytest.raises(tidegate.BindError, match=r'source "s" uses "k"(.|\n)*CASCADE'):
        db.sql("DROP CONNECTION k")
    from tidegate.ingest.define.connection import load_connection

    with pytest.raises(tidegate.SourceError, match="PG_WORD, which is not set"):
        load_connection(db.context, "pg").get("password")
    monkeypatch.setenv("PG_WORD", "from outside")
    assert load_connection(db.context, "pg").get("password") == "from outside"
    db.sql("DROP CONNECTION k CASCADE")
    assert rows(db, "SHOW SOURCES") == []
    db.sql("DROP CONNECTION pg, csr")
    assert rows(db, "SHOW CONNECTIONS") == []


def test_secrets_of_a_source_are_not_shown(db: Database) -> None:
    from tidegate.ingest.define.connection import redact_source_sql

    sql = (
        "CREATE SOURCE s FROM FILES 's3://b/*.json?secret_access_key=abc&region=x' "
        "(SECRET ACCESS KEY = 'def', REGION 'e') FORMAT JSON"
    )
    shown = redact_source_sql(sql)
    assert "abc" not in shown
    assert "def" not in shown
    assert "REGION 'e'" in shown
    assert "region=x" in shown
    assert redact_source_sql(sql.replace("'def'", "'env:KEY'")).count("env:KEY") == 1


@pytest.mark.parametrize(
    ("sql", "message", "marked"),
    [
        ("CREATE CONNECTION k TO KAFKA (BROKER 'x', COLOUR 'red')", "has no option COLOUR", "COLOUR"),
        ("CREATE CONNECTION k TO POSTGRES (HOST 'x')", "a connection TO POSTGRES needs DATABASE", "k"),
        (
            "CREATE CONNECTION k TO CONFLUENT SCHEMA REGISTRY (URI 'x')",
            "has no option URI(.|\n)*did you mean URL",
            "URI",
        ),
        (
            "CREATE CONNECTION k TO SSH TUNNEL (HOST 'x')",
            "connections to SSH TUNNEL are not supported",
            "SSH",
        ),
        ("CREATE CONNECTION t TO KAFKA (BROKER 'x')", 'table "t" already exists', "t"),
        (
            "CREATE CONNECTION k TO POSTGRES (HOST 'h', DATABASE 'd', PASSWORD SECRET pw)",
            "(.|\n)*PASSWORD 'env:NAME'",
            "PASSWORD",
        ),
        ("CREATE CONNECTION k TO KAFKA (BROKER 'x', BROKER 'y')", "BROKER is given twice", "BROKER"),
    ],
)
def test_refused_connections(db: Database, sql: str, message: str, marked: str) -> None:
    db.sql("CREATE TABLE t (a int4)")
    with pytest.raises(tidegate.BindError, match=message) as error:
        db.sql(sql)
    position = error.value.position
    assert position is not None
    assert position.sql[position.start :].startswith(marked)
