"""`tidegate serve` as a program: both doors, its secrets, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

import tidegate
from tidegate.cli.main import main
from tidegate.errors import StoreError, UnsupportedError
from tidegate.server.serve import ServerOptions, is_loopback


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    where = tmp_path / "lake"
    with tidegate.open(where) as db:
        db.sql("CREATE TABLE t (id int8); INSERT INTO t VALUES (1), (2), (3)")
    return where


@contextmanager
def serving(lake: Path, *options: str, **environment: str) -> Iterator[tuple[str, int]]:
    """A server in a process of its own: the URL of its pages, and its PostgreSQL port."""
    command = [sys.executable, "-m", "tidegate.cli", "serve", "--lake", str(lake), "--port", "0"]
    with subprocess.Popen(
        [*command, "--pg", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        told = ""
        while "Ctrl-C" not in told:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            told += line
        url, port = re.search(r"pages +(\S+)", told), re.search(r"-p (\d+)", told)
        assert url is not None
        assert port is not None
        try:
            yield url[1], int(port[1])
        finally:
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=30)
        assert process.returncode == 0, said
        assert "Traceback" not in said


def get(url: str, token: str | None = None, context: ssl.SSLContext | None = None) -> str:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, headers={"Accept": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=30, context=context) as answer:
        return str(answer.read().decode())


def test_both_doors_of_one_lake(lake: Path) -> None:
    with serving(lake) as (url, port):
        assert json.loads(get(f"{url}/health"))["status"] == "ok"
        with psycopg.connect(host="127.0.0.1", port=port, user="u", dbname="lake", autocommit=True) as pg:
            assert pg.execute("SELECT sum(id) FROM t").fetchone() == (6,)
            with pytest.raises(psycopg.Error, match="read-only"):
                pg.execute("DELETE FROM t")
        assert 'tidegate_queries_total{outcome="ok",path=' in get(f"{url}/metrics")


def test_secrets_tls_and_writing(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("open sesame\n")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
        f"-addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {cert}",
        shell=True,
        check=True,
        capture_output=True,
    )
    options = [
        "--write",
        "--token-file",
        str(tmp_path / "token"),
        "--tls-cert",
        str(cert),
        "--tls-key",
        str(key),
    ]
    with serving(lake, *options, TIDEGATE_PASSWORD="swordfish") as (url, port):
        trusting = ssl.create_default_context(cafile=str(cert))
        assert url.startswith("https://")
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(f"{url}/metrics", context=trusting)
        assert refused.value.code in (401, 403)
        refused.value.close()
        assert "tidegate_" in get(f"{url}/metrics", "open sesame", trusting)
        known = f"host=127.0.0.1 port={port} user=u dbname=lake sslmode=verify-ca sslrootcert={cert}"
        with psycopg.connect(f"{known} password=swordfish", autocommit=True) as pg:
            pg.execute("INSERT INTO t VALUES (4)")
            assert pg.execute("SELECT count(*) FROM t").fetchone() == (4,)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(f"{known} password=guess")


def test_a_server_for_the_network_needs_secrets() -> None:
    ServerOptions(host="::1", pg=0)
    ServerOptions(host="0.0.0.0", token="t", pg=0, password="p")
    with pytest.raises(UnsupportedError, match="no token"):
        ServerOptions(host="0.0.0.0")
    with pytest.raises(UnsupportedError, match="no password"):
        ServerOptions(host="0.0.0.0", token="t", pg=0)
    assert "t" not in repr(ServerOptions(token="ttt")).partition("token")[2].partition(",")[0]
    assert [is_loopback(host) for host in ("localhost", "127.9.9.9", "::1", "10.0.0.1", "example.org")] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_what_cannot_be_used_is_said(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "cert.pem").write_text("not a certificate")
    serve = ["serve", "--lake", str(lake), "--port", "0"]
    for options, why in (
        (["--token-file", str(tmp_path / "empty")], "is empty"),
        (["--token-file", str(tmp_path / "absent")], "absent: No such file or directory\n"),
        (["--token-file", "/usr/bin/env"], "not a text in UTF-8"),
        (["--tls-cert", str(tmp_path / "absent")], "cannot be used: No such file or directory\n"),
        (["--tls-cert", str(tmp_path / "cert.pem")], "cannot be used"),
        (["--host", "0.0.0.0"], "no token"),
        (["--host", "203.0.113.1", "--token-file", __file__], "cannot listen"),
    ):
        assert main([*serve, *options]) == 1
        assert why in capsys.readouterr().err
    assert main([*serve, "--no-web"]) == 2
    assert "there is nothing to serve" in capsys.readouterr().err


def test_the_certificate_is_read_before_anything_listens(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("not a certificate")
    with pytest.raises(StoreError, match="cannot be used"):
        ServerOptions(tls_cert=tmp_path / "cert.pem").tls()
