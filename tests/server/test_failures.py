"""A fault inside of a server: clients are shown an id, the log has the trace by it, and neither has a row, constant or secret."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

import tidegate

BROKEN = """
import sys
import tidegate.server.postgres.wire.encode as encode, tidegate.server.postgres.session_state as own
import tidegate.server.web.query.page as pages, tidegate.statements.select as query
from tidegate.metrics import Metrics
from tidegate.cli.main import main

def broken(*given, **more):
    s3cret = {"name": "s3cret of a row"}
    return s3cret["s3cret constant"]

query.select = broken            # in the API
Metrics.text = broken
encode.encode_rows = broken             # beside it: in the servers themselves
pages.query_form = broken
begin = own.SessionState.begin
own.SessionState.begin = lambda self, user, given: broken() if user == "bob" else begin(self, user, given)
sys.exit(main(sys.argv[1:]))
"""


@dataclass
class Server:
    """A real `tidegate serve`, in which much is broken."""

    url: str
    port: int
    log: Path

    def get(self, path: str, data: bytes | None = None, **headers: str) -> tuple[int, str, str]:
        """Status, type and body."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            with urllib.request.urlopen(
                urllib.request.Request(self.url + path, data, named), timeout=60
            ) as got:
                return got.status, got.headers["content-type"], got.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["content-type"], error.read().decode()

    def conninfo(self, user: str = "ann") -> str:
        return f"host=127.0.0.1 port={self.port} user={user} dbname=lake"

    def logged(self, id_: str) -> str:
        """The log, once it tells of the id."""
        for _ in range(600):
            found = self.log.read_text("utf-8")
            if id_ in found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"the log has no {id_}: {found}")


def told(process: subprocess.Popen[str], log: Path) -> tuple[str, int]:
    """Where a server says that it listens: the URL of its pages, and its PostgreSQL port."""
    assert process.stdout is not None
    said = ""
    while "Ctrl-C" not in said:
        line = process.stdout.readline()
        assert line, log.read_text("utf-8")
        said += line
    url, port = re.search(r"pages +(\S+)", said), re.search(r"-p (\d+)", said)
    assert url is not None
    assert port is not None
    return url[1], int(port[1])


@contextmanager
def serving(folder: Path, form: str) -> Iterator[Server]:
    with tidegate.open(folder / "lake") as db:
        db.sql("CREATE TABLE t (id int8, name text); INSERT INTO t VALUES (1, 's3cret')")
    log = folder / f"{form}.log"
    command = [
        sys.executable,
        "-c",
        BROKEN,
        "serve",
        "--lake",
        str(folder / "lake"),
        "--port",
        "0",
        "--pg",
        "0",
    ]
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [*command, "--log-format", form],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=dict(os.environ),
        ) as process,
    ):
        try:
            yield Server(*told(process, log), log)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)
    assert "s3cret" not in log.read_text("utf-8")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("failures"), "lines") as found:
        yield found


def id_in(text: str) -> str:
    found = re.search(r"internal error ([0-9a-f]{12}) \(KeyError\)", text)
    assert found is not None, text
    assert "s3cret" not in text
    return found[1]


def test_psycopg_is_shown_an_id(server: Server) -> None:
    with psycopg.connect(server.conninfo(), autocommit=True) as conn:
        for sql in ("SELECT name FROM t WHERE name = 's3cret'", "SHOW TABLES"):
            with pytest.raises(psycopg.errors.InternalError_) as caught:
                conn.execute(sql)
            id_ = id_in(str(caught.value))
            assert id_ in (caught.value.diag.message_hint or "")
            log = server.logged(id_)
            assert re.search(
                rf"error: internal error {id_}: KeyError .*error={id_}.*\n(  \S+, line \d+, in .*\n)+", log
            )
            assert "in broken" in log
        conn.execute("SET stats_filter = off")  # the connection goes on


def test_psql_is_shown_an_id(server: Server) -> None:
    words = ["psql", "-X", server.conninfo(), "-c", "SELECT 's3cret'"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        pytest.skip("psql is not installed")
    assert id_in(done.stderr) in server.logged(id_in(done.stderr))


def test_a_connection_that_fails_at_the_start_is_told(server: Server) -> None:
    with pytest.raises(psycopg.OperationalError, match="internal error") as caught:
        psycopg.connect(server.conninfo("bob"))
    server.logged(id_in(str(caught.value)))


def test_pages_show_an_id(server: Server) -> None:
    status, kind, body = server.get("/query?sql=SELECT+%27s3cret%27", Accept="text/html")
    assert (status, kind.partition(";")[0]) == (500, "text/html")
    server.logged(id_in(body))
    status, _, body = server.get("/metrics")
    assert status == 500
    server.logged(id_in(body))


def test_scripts_are_told_in_plain_text(server: Server) -> None:
    """A page puts what it is told into itself: that must not be the source of another page."""
    status, kind, body = server.get("/metrics", X_Tidegate="1")
    assert (status, kind.partition(";")[0]) == (500, "text/plain")
    assert "<" not in body
    server.logged(id_in(body))
    status, _, body = server.get("/run", b"sql=SELECT+%27s3cret%27", X_Tidegate="1")
    assert status == 200
    assert 'class="trouble"' in body
    server.logged(id_in(body))


def test_the_log_as_json(tmp_path: Path) -> None:
    with serving(tmp_path, "json") as server:
        status, _, body = server.get("/metrics")
        assert status == 500
        lines = [json.loads(line) for line in server.logged(id_in(body)).splitlines()]
    (line,) = [one for one in lines if one.get("error") == id_in(body)]
    assert line["level"] == "error"
    assert line["exception"] == "KeyError"
    assert "__main__, line" in line["message"]
