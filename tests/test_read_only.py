"""A lake that may only be read: by another user (a real process without the right to write), by a role, by a bucket's policy."""

from __future__ import annotations

import http.server
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

import tidegate
from tests import servers
from tidegate.storage.blob.object_store import ObjectBlob

READER = """
import json, os, sys
import tidegate
# Everything is imported while it may be: the interpreter itself may lie where only root can read.
with tidegate.open("memory://") as db:
    db.sql("CREATE TABLE t (id int8); INSERT INTO t VALUES (1); SELECT id FROM t WHERE id > 0 ORDER BY id").rows()
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
db = tidegate.open(sys.argv[1])
for line in sys.stdin:
    try:
        answer = db.sql(line).rows()
    except tidegate.TidegateError as error:
        answer = [type(error).__name__, error.hint]
    print(json.dumps(answer), flush=True)
db.close()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that others can get to, unlike pytest's."""
    made = Path(tempfile.mkdtemp(prefix="tidegate-test-"))
    made.chmod(0o755)
    yield made
    for path in [made, *made.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(made)


@contextmanager
def another_user(url: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that may read the folder and not write to it. Root may always: it becomes somebody else."""
    if os.geteuid() != 0:
        for path in [folder, *folder.rglob("*")]:
            path.chmod(path.stat().st_mode & ~0o222)
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", READER, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        _, _ = process.communicate(timeout=60)
        assert process.returncode == 0


def ask(process: subprocess.Popen[str], sql: str) -> object:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(sql + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


@pytest.mark.parametrize("metadata", ["", "?metadata=log"])
def test_a_user_who_may_not_write_can_read(folder: Path, metadata: str) -> None:
    url = f"{folder}/lake{metadata}"
    with tidegate.open(url) as db:
        db.sql("CREATE TABLE t (id int8); INSERT INTO t VALUES (1), (2)")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    with another_user(url, folder) as reader:
        for _ in range(3):
            assert ask(reader, "SELECT id FROM t ORDER BY id") == [[1], [2]]
        assert ask(reader, "SELECT id FROM t WHERE id > 1") == [[2]]
        refused = ask(reader, "INSERT INTO t VALUES (3)")
        assert isinstance(refused, list)
        assert refused[0] == "ReadOnlyError"
        assert ask(reader, "SELECT id FROM t") == [[1], [2]]
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users at once")
@pytest.mark.parametrize("metadata", ["", "?metadata=log"])
def test_a_user_who_may_not_write_sees_what_others_write(folder: Path, metadata: str) -> None:
    url = f"{folder}/lake{metadata}"
    with tidegate.open(url) as db:
        db.sql("CREATE TABLE t (id int8); INSERT INTO t VALUES (0)")
    with another_user(url, folder) as reader:
        assert ask(reader, "SELECT id FROM t") == [[0]]
        for i in range(1, 4):
            with tidegate.open(url) as db:  # opened and closed: SQLite's log comes and goes
                db.sql(f"INSERT INTO t VALUES ({i})")
                assert ask(reader, "SELECT id FROM t ORDER BY id") == [[j] for j in range(i + 1)]
                db.compact("t", full=True)
                assert ask(reader, "SELECT id FROM t ORDER BY id") == [[j] for j in range(i + 1)]
            assert ask(reader, "SELECT id FROM t ORDER BY id") == [[j] for j in range(i + 1)]


def test_a_place_that_is_empty_and_may_not_be_written_says_so(folder: Path) -> None:
    folder.chmod(0o555)
    command = [sys.executable, "-c", READER, f"{folder}/none"]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    assert "ReadOnlyError" in done.stderr
    assert "this user may not write there" in done.stderr


def test_a_role_that_may_only_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    try:
        server = servers.postgres()
    except servers.Missing as missing:
        pytest.skip(f"{missing} is not installed")
    with tidegate.open(f"{tmp_path}/lake?metadata={server}") as db:
        db.sql("CREATE TABLE t (id int8); INSERT INTO t VALUES (1)")
    narrow = f"{server}&options={quote('-c default_transaction_read_only=on')}"
    with (
        caplog.at_level(logging.INFO, "tidegate"),
        tidegate.open(f"{tmp_path}/lake?metadata={narrow}") as db,
    ):
        assert db.sql("SELECT id FROM t").rows() == [(1,)]
        with pytest.raises(tidegate.ReadOnlyError, match="read-only transaction"):
            db.sql("INSERT INTO t VALUES (2)")
        assert db.sql("SELECT id FROM t").rows() == [(1,)]
    assert "is read without a lease" in caplog.text
    assert "1" not in {word for record in caplog.records for word in record.getMessage().split()}


class _Denies(http.server.BaseHTTPRequestHandler):
    """S3 as far as it says no."""

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name it has there
        """Nothing on the terminal."""


def test_a_bucket_that_may_only_be_read() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Denies) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        blob = ObjectBlob.open(
            "s3://lake/",
            endpoint=f"http://127.0.0.1:{server.server_port}",
            access_key_id="a",
            secret_access_key="b",
            region="us-east-1",
        )
        with pytest.raises(tidegate.ReadOnlyError):
            blob.put("part/x", b"1")
        with pytest.raises(tidegate.ReadOnlyError):
            blob.create("log/x", b"1")
        server.shutdown()
