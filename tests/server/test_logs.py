"""Ids that servers give to clients are those of the log: a header of pages, and the errors of psql."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import tidegate
from tests.server import pg_server, web_site
from tests.unit.test_logs import Lines
from tidegate import logs


@pytest.fixture
def lines() -> Iterator[Lines]:
    found, before = Lines(), logs.LOG.level
    handler = logging.StreamHandler(found.stream)
    handler.setFormatter(logs.Json())
    logs.LOG.addHandler(handler)
    logs.LOG.setLevel(logging.INFO)
    yield found
    logs.LOG.removeHandler(handler)
    logs.LOG.setLevel(before)


def test_a_request_and_the_statement_that_it_ran_have_one_id(lines: Lines) -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (s text)")
        with web_site.serving(db) as site:
            box = site.get("/query?sql=SELECT+%27plugh%27").text.split('name="box" value="')[1].split('"')[0]
            answer = site.post("/run", {"sql": "SELECT 'xyzzy' FROM t", "box": box})
            health = site.get("/health")
    request = answer.headers["X-Request-Id"]
    assert len(request) == 12
    assert health.headers["X-Request-Id"] != request
    (statement,) = [line for line in lines.of("statement") if line.get("request") == request]
    assert (statement["kind"], statement["outcome"]) == ("select", "ok")
    (record,) = [line for line in lines.of("request") if line["request"] == request]
    assert (record["method"], record["path"], record["status"]) == ("POST", "/run", 200)
    assert "/health" not in [line["path"] for line in lines.of("request")]
    assert "xyzzy" not in lines.text
    assert "plugh" not in lines.text


@pytest.mark.usefixtures("commits_make_files")
def test_a_damaged_file_is_named_with_its_statement(lines: Lines, tmp_path: Path) -> None:
    with tidegate.open(tmp_path) as db:
        db.sql("CREATE TABLE t (id int8); INSERT INTO t VALUES (1), (2)")
        (part,) = (path for path in (tmp_path / "part").rglob("*") if path.is_file())
        part.write_bytes(part.read_bytes()[:-9] + b"damaged!!")
        with (
            pg_server.serving(db) as server,
            psycopg.connect(server.conninfo(), autocommit=True) as client,
            pytest.raises(psycopg.errors.DataCorrupted) as failed,
        ):
            client.execute("SELECT id FROM t WHERE id > 1")
    (line,) = [line for line in lines.of("statement") if line["outcome"] == "CorruptError"]
    detail = failed.value.diag.message_detail or ""
    assert f"The server's log has it as statement {line['statement_id']}." in detail


def test_an_error_of_psql_names_the_statement_in_the_log(lines: Lines) -> None:
    with tidegate.open("memory://") as db:
        db.sql("CREATE TABLE t (id int8)")
        with pg_server.serving(db) as server, psycopg.connect(server.conninfo(), autocommit=True) as client:
            with pytest.raises(psycopg.errors.DivisionByZero) as user_error:
                client.execute("SELECT 1 / 0")
            client.execute("SET statement_timeout = 1")
            with pytest.raises(psycopg.errors.QueryCanceled) as cancelled:
                client.execute(
                    "SELECT count(*) FROM generate_series(1, 30000000) AS g (i) WHERE md5(i::text) ~ '(a|b)+c'"
                )
    failed = {line["outcome"]: line for line in lines.of("statement") if line["outcome"] != "ok"}
    assert user_error.value.diag.source_function == f"statement {failed['EvaluationError']['statement_id']}"
    assert user_error.value.diag.message_detail is None or "log" not in user_error.value.diag.message_detail
    assert cancelled.value.diag.source_function == f"statement {failed['cancelled']['statement_id']}"
    assert cancelled.value.diag.message_detail is None
    connected, disconnected = lines.of("server.postgres")
    assert connected["user"] == "ann"
    assert connected["session"] == disconnected["session"] == failed["cancelled"]["session"]
    assert json.dumps(connected)
