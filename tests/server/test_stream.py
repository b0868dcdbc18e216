"""Large results through every door: the command line, the psql port, the web; in bounded memory, and honest about what fails."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
import pyarrow.parquet as pq
import pytest

import tests.large as large
import tidegate
from tests.server import pg_server, web_site
from tests.server.pg_server import wait
from tests.server.pg_wire import Wire, cancel
from tests.unit.query.test_row_stream import readers

BIG = "SELECT id, repeat(body, 12) AS b FROM {}"
BOUND = 256 << 20
ROWS = 32 * 1_000_000 // large.ROW // 4 * 4
FAILS = f"SELECT repeat(body, 3) AS b, 1 / (id - {ROWS - 1}) AS x FROM t"
"""Fails at its last row."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """t: only appended to; u: also updated and deleted from. About 32 MB each; what is asked is 12 times that."""
    path = tmp_path_factory.mktemp("lake") / "lake"
    with tidegate.open(path) as db:
        assert large.grow(db, "t", 32, 4) == ROWS
        large.grow(db, "u", 32, 4)
        db.sql("DELETE FROM u WHERE id % 50 = 0")
    return path


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(large.SOURCE)}


def command(lake: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "tidegate.cli", "sql", "--lake", str(lake), *arguments]


@pytest.fixture(scope="module")
def base(lake: Path) -> int:
    """What the command line takes for little."""
    return large.measured(command(lake, "SELECT id, body FROM t LIMIT 10"))[1]


# ---------------------------------------------------------------- the command line


def test_files_are_written_in_bounded_memory(lake: Path, base: int, tmp_path: Path) -> None:
    for form, table in (("csv", "t"), ("json", "u"), ("parquet", "t")):
        out = tmp_path / f"out.{form}"
        code, peak = large.measured(command(lake, BIG.format(table), "--format", form, "-o", str(out)))
        assert (code, peak - base < BOUND) == (0, True), (form, peak - base)
        if form == "parquet":
            file = pq.ParquetFile(out)
            assert file.metadata.num_rows == ROWS
            assert file.metadata.num_row_groups > 5
        else:
            assert out.stat().st_size > 1.3 * BOUND
            with out.open() as lines:
                first = next(lines) if form == "json" else [next(lines), next(lines)][1]
                count = 1 + sum(1 for _ in lines)
            assert count == (ROWS if table == "t" else ROWS - len(range(0, ROWS, 50)))
            assert len(first) > 12 * large.WIDTH
        assert [one.name for one in tmp_path.iterdir()] == [out.name], "nothing else is left"
        out.unlink()


def test_a_pipe_that_is_read_slowly(lake: Path, base: int) -> None:
    process = subprocess.Popen(
        command(lake, BIG.format("t"), "--format", "csv"), stdout=subprocess.PIPE, env=environment()
    )
    assert process.stdout is not None
    process.stdout.read(1 << 20)
    time.sleep(2)
    waiting = int(re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())[0]) * 1024
    assert waiting - base < BOUND
    process.stdout.close()  # like `head`
    assert process.wait(30) == 0


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_file_that_fails_is_not_there(lake: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / "out"
    out.write_text("as it was")
    done = subprocess.run(
        command(lake, FAILS, "--format", form, "-o", str(out)), capture_output=True, text=True, env=environment(), check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "division by zero" in done.stderr
    assert out.read_text() == "as it was"
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


def test_what_is_no_file_is_written_to_directly(lake: Path, tmp_path: Path) -> None:
    written = subprocess.check_output(
        command(lake, "SELECT 1 AS a", "--format", "csv", "-o", "/dev/stdout"), text=True, env=environment()
    )
    assert written == "a\n1\n"
    link = tmp_path / "link"
    (tmp_path / "there").write_text("old")
    (tmp_path / "there").chmod(0o640)
    link.symlink_to(tmp_path / "there")
    subprocess.run(
        command(lake, "SELECT 1 AS a", "--format", "csv", "-o", str(link)), env=environment(), check=True
    )
    assert link.is_symlink()
    assert (link.read_text(), link.stat().st_mode & 0o777) == ("a\n1\n", 0o640)
    words = command(lake, "SELECT 1 AS a", "-o", str(tmp_path / "no" / "x"))
    nowhere = subprocess.run(words, capture_output=True, text=True, env=environment(), check=False)
    assert nowhere.returncode == 1
    assert "cannot write" in nowhere.stderr


# ---------------------------------------------------------------- the servers


@dataclass
class Server:
    """`tidegate serve` in a process of its own."""

    process: subprocess.Popen[str]
    web: int
    pg: int

    def begin(self) -> int:
        """The memory that it has; from here on its highest mark is counted."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return self._status("VmRSS")

    def peak(self) -> int:
        return self._status("VmHWM")

    def _status(self, name: str) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(rf"{name}:\s+(\d+)", status)[0]) * 1024

    @contextmanager
    def bounded(self) -> Iterator[None]:
        base = self.begin()
        yield
        assert self.peak() - base < BOUND

    def connect(self, **more: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(host="127.0.0.1", port=self.pg, user="u", dbname="lake", **more)


@pytest.fixture(scope="module")
def server(lake: Path) -> Iterator[Server]:
    words = [
        sys.executable,
        "-m",
        "tidegate.cli",
        "serve",
        "--lake",
        str(lake),
        "--port",
        "0",
        "--pg",
        "0",
    ]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment()
    ) as process:
        assert process.stdout is not None
        told = ""
        while "Ctrl-C" not in told:
            told += process.stdout.readline()
        ports = [int(found) for found in re.findall(r"(?:pages\s+\S+:|-p )(\d+)", told)]
        found = Server(process, *ports)
        with found.connect() as pg:
            pg.execute("SELECT id, body FROM t LIMIT 10").fetchall()
        yield found
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def test_psql_and_a_slow_client(server: Server) -> None:
    with server.bounded(), Wire(server.pg) as wire:
        wire.ask(BIG.format("t"))
        time.sleep(1.5)
        count = 0
        while True:
            kind, body = wire.read()
            count += kind == "D"
            if kind == "C":
                assert body == f"SELECT {ROWS}\0".encode()
                break
        assert count == ROWS
        assert wire.read()[0] == "Z"


def test_portals_are_suspended_in_the_middle(server: Server) -> None:
    with server.bounded(), Wire(server.pg) as wire:
        wire.ask("BEGIN").until("Z")
        wire.parse(BIG.format("u")).bind("p").describe("P", "p").execute("p", 1000).sync()
        kinds = [kind for kind, _ in wire.until("Z")]
        assert kinds == ["1", "2", "T", *["D"] * 1000, "s", "Z"]
        count = 1000
        for limit in (1, 70_000, 0):
            found = wire.execute("p", limit).sync().until("Z")
            kinds = [kind for kind, _ in found]
            count += kinds.count("D")
            assert kinds[-2] == ("C" if limit == 0 else "s")
        assert count == ROWS - len(range(0, ROWS, 50))
        assert wire.execute("p", 0).sync().until("Z")[0] == ("C", b"SELECT 0\0")
        wire.ask("COMMIT").until("Z")


def test_a_cursor_of_psycopg(server: Server) -> None:
    with server.bounded(), server.connect() as pg:
        with pg.cursor("c") as cursor:
            cursor.itersize = 5_000
            cursor.execute(BIG.format("t"))
            assert sum(1 for _ in cursor) == ROWS
        with pg.cursor("d") as cursor:
            cursor.execute(BIG.format("u"))
            assert len(cursor.fetchmany(10)) == 10
        with pg.cursor() as plain:
            plain.execute("DECLARE e CURSOR FOR " + BIG.format("t"))
            plain.execute("MOVE 90000 FROM e")
            plain.execute("FETCH 5 FROM e")
            assert len(plain.fetchall()) == 5
            plain.execute("CLOSE e")


def test_an_error_in_the_middle_is_told(server: Server) -> None:
    with Wire(server.pg) as wire:
        found = wire.ask(FAILS).until("Z")
        kinds = [kind for kind, _ in found]
        assert kinds[0] == "T"
        assert kinds.count("D") > 10_000
        assert kinds[-2:] == ["E", "Z"]
        assert "C" not in kinds
        assert b"division by zero" in dict(found)["E"]
        assert wire.ask("SELECT 1").until("Z")[1][0] == "D", "the connection goes on"


# ---------------------------------------------------------------- what is given back


@pytest.fixture
def db(lake: Path) -> Iterator[tidegate.Database]:
    with tidegate.open(lake) as opened:
        yield opened


def _begun(db: tidegate.Database) -> None:
    wait(lambda: readers(db, "t") > 0)


def _settled(db: tidegate.Database) -> None:
    """Waits until nobody reads any more."""
    wait(lambda: readers(db, "t") == 0)
    wait(lambda: not [one for one in threading.enumerate() if one.name == "tidegate read"])


def test_time_out_and_cancel_of_a_client_that_takes_nothing(db: tidegate.Database) -> None:
    with pg_server.serving(db) as at, Wire(at.port) as wire:
        wire.ask("SET statement_timeout = '1500ms'").until("Z")
        wire.ask(BIG.format("t"))
        _begun(db)
        _settled(db)
        assert b"57014" in dict(wire.until("Z"))["E"]
        wire.ask("SET statement_timeout = 0").until("Z")
        wire.ask(BIG.format("t"))
        _begun(db)
        time.sleep(0.3)
        assert readers(db, "t") == 1, "it waits for its client"
        cancel(at.port, wire.pid, wire.secret)
        _settled(db)
        assert b"57014" in dict(wire.until("Z"))["E"]


def test_a_portal_that_waits_is_not_out_of_time(db: tidegate.Database) -> None:
    with pg_server.serving(db) as at, Wire(at.port) as wire:
        wire.ask("SET statement_timeout = '3s'").until("Z")
        wire.ask("BEGIN").until("Z")
        wire.parse(BIG.format("t")).bind("p").execute("p", 10).sync().until("Z")
        time.sleep(3.2)
        assert [kind for kind, _ in wire.execute("p", 50_000).sync().until("Z")][-2] == "s"
        assert readers(db, "t") == 1
        wire.ask("ROLLBACK").until("Z")
        _settled(db)


def test_a_client_that_goes_ends_its_query(db: tidegate.Database) -> None:
    with pg_server.serving(db) as at:
        for portal in (False, True):
            with Wire(at.port) as wire:
                if portal:
                    wire.ask("BEGIN").until("Z")
                    wire.parse(BIG.format("t")).bind("p").execute("p", 10).sync().until("Z")
                else:
                    wire.ask(BIG.format("t"))
                _begun(db)
            _settled(db)
        with psycopg.connect(at.conninfo()) as pg, pg.cursor("d") as cursor:
            cursor.execute(BIG.format("t"))
            assert len(cursor.fetchmany(10)) == 10
            _begun(db)
        _settled(db)
    with web_site.serving(db) as site:
        asking, answer = _download(site.port, BIG.format("t"), "csv")
        answer.read(1 << 20)
        _begun(db)
        asking.close()
        _settled(db)
        assert "More than" in site.post("/run", {"sql": BIG.format("t"), "box": "b"}).text
        _settled(db)


# ---------------------------------------------------------------- the web


def _download(port: int, sql: str, form: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    asking = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    fields = {"Content-Type": "application/x-www-form-urlencoded"}
    asking.request("POST", f"/download?format={form}", urlencode({"sql": sql, "box": "b"}), fields)
    return asking, asking.getresponse()


def test_downloads_in_bounded_memory(server: Server, tmp_path: Path) -> None:
    for form, table in (("csv", "t"), ("parquet", "u")):
        with server.bounded():
            asking, answer = _download(server.web, BIG.format(table), form)
            assert (answer.status, answer.getheader("Transfer-Encoding")) == (200, "chunked")
            assert answer.getheader("Content-Disposition") == f'attachment; filename="result.{form}"'
            time.sleep(1)
            out = tmp_path / f"out.{form}"
            with out.open("wb") as file:
                while data := answer.read(1 << 20):
                    file.write(data)
            asking.close()
        if form == "parquet":
            assert pq.ParquetFile(out).metadata.num_rows == ROWS - len(range(0, ROWS, 50))
        else:
            assert out.stat().st_size > 1.3 * BOUND
        out.unlink()


def test_a_download_that_fails_is_cut_or_refused(server: Server) -> None:
    asking, answer = _download(server.web, FAILS, "csv")
    assert answer.status == 200
    with pytest.raises(http.client.IncompleteRead):
        answer.read()
    asking.close()
    for sql, form, said in (
        ("SELECT nope FROM t", "csv", "does not exist"),
        ("SELECT 1", "xls", "unknown format"),
        ("SET audit = 0", "csv", "no rows"),
        ("DELETE FROM t", "csv", "only the rows of a query"),
    ):
        asking, answer = _download(server.web, sql, form)
        assert answer.status == 400, sql
        assert said in answer.read().decode()
        asking.close()


def test_a_page_shows_the_first_rows_of_any_result(server: Server) -> None:
    asking = http.client.HTTPConnection("127.0.0.1", server.web, timeout=60)
    fields = {"Content-Type": "application/x-www-form-urlencoded", "X-Tidegate": "1"}
    with server.bounded():
        asking.request("POST", "/run", urlencode({"sql": BIG.format("t"), "box": "b"}), fields)
        text = asking.getresponse().read().decode()
        asking.close()
    assert re.search(r"More than [\d,]+ rows", text)
    assert "download all of them as CSV, JSON or Parquet" in text
