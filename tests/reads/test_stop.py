"""A query that is stopped, at any moment, leaves nothing behind: no thread, no open file, no lease, no lock.

`Watch.check` is called between pieces of work. `_At` lets the first n checks pass and cancels at the next one, in whatever thread
that is; n is the first moments at which a query can be stopped, one in its middle, and the last.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tests.reads.test_differential import settings
from tidegate.config import Config
from tidegate.context import CatalogSnapshot
from tidegate.errors import CancelledError
from tidegate.query import Result, answer
from tidegate.query.cancellation import CancelToken, interruptible
from tidegate.sql.parse.grammar import statements as grammar
from tidegate.sql.parse.statement import SelectStatement
from tidegate.statements.select import question_of
from tidegate.storage.shard.snapshot import open_snapshot

ROOT = Path(__file__).parents[2]
PARTS, ROWS = 3, 17_000
QUERIES = (
    "SELECT * FROM t WHERE s LIKE '%99%'",
    "SELECT id, s FROM t WHERE id % 3 = 0 ORDER BY s DESC LIMIT 10",
    "SELECT id FROM t LIMIT 5 OFFSET 40000",
    "SELECT id FROM t WHERE s LIKE '%777%' LIMIT 200",
    "SELECT id % 10, count(*), min(s) FROM t WHERE id > 5 GROUP BY 1",
    "SELECT DISTINCT id % 7 FROM t WHERE s > 'row 2'",
)


class _At(CancelToken):
    """Cancels itself when it is asked for the nth time."""

    def __init__(self, moment: int) -> None:
        super().__init__()
        self.moment, self.asked = moment, 0
        self._count = threading.Lock()

    def check(self) -> None:
        with self._count:
            self.asked += 1
            if self.asked > self.moment:
                self.cancel()
        super().check()


@pytest.fixture(scope="module", autouse=True)
def _only_what_is_new() -> Iterator[None]:
    """Leaves to the garbage collector only what these tests make: `held` calls it hundreds of times."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("lake")
    with tidegate.open(made) as db:
        fill(db)
    return made


def fill(db: tidegate.Database, diff: int = 1) -> None:
    db.sql("CREATE TABLE IF NOT EXISTS t (id int8, s text)")
    for part in range(PARTS):
        ids = np.arange(part * ROWS, part * ROWS + ROWS)
        texts = [f"row {i}" for i in (ids * 7919 % 50_993).tolist()]
        db.append("t", {"id": pa.array(ids), "s": texts}, diff=diff)


def run(db: tidegate.Database, sql: str, watch: CancelToken) -> Result:
    """What db.sql does, with a watch of ours."""
    lake = db.context
    parsed = grammar.parse_statements(sql)[0]
    assert isinstance(parsed, SelectStatement)
    bound = lake.prepared.bound(parsed.query, CatalogSnapshot(lake), lake.clock.now()).single
    assert bound is not None
    with open_snapshot(lake.table("t")) as found:
        return answer(replace(question_of(lake, bound, found, lake.clock.now()), cancel=watch))


def held(db: tidegate.Database) -> tuple[set[int], int, int]:
    """What a query could leave behind: threads, open files of the lake, leases."""
    gc.collect()
    alive = {thread.ident or 0 for thread in threading.enumerate() if thread.name != "tidegate leases"}
    return alive, open_files(db.context.root.place.root), db.status().collections["t"].leases


def open_files(root: str) -> int:
    """Those below a folder: what other tests of this process have left open comes and goes."""
    count = 0
    for one in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it was that of the listing
            count += os.readlink(one).startswith(root)
    return count


def moments(most: int) -> Iterator[int]:
    """The first of them, some between, and the last."""
    yield from sorted({0, 1, most // 2, most - 1} & set(range(most)))


@pytest.mark.parametrize("sql", QUERIES)
@pytest.mark.parametrize("threads", [1, 2])
def test_cancelled_at_any_moment(folder: Path, sql: str, threads: int) -> None:
    with tidegate.open(folder, config=Config(read_threads=threads, batch_rows=8_192, audit=1.0)) as db:
        for name, flags in settings():
            if threads > 1 and not name.startswith("all"):
                continue
            for flag, value in flags.items():
                db.set(flag, value)
            patient = _At(10**9)
            wanted = sorted(run(db, sql, patient).rows())
            before = held(db)
            assert patient.asked > 0, f"{name}: a query that cannot be stopped"
            for moment in moments(patient.asked):
                watch = _At(moment)
                try:
                    got = run(db, sql, watch)
                except CancelledError:
                    got = None
                # A LIMIT may be full while a part that is read ahead, in another thread, is stopped: nobody needs it.
                full = got is not None and threads > 1 and "LIMIT" in sql and len(got) == len(wanted)
                assert got is None or full or watch.asked <= moment, (
                    f"{name}: stopped at {moment} and answered"
                )
                assert held(db) == before, f"{name}: at {moment}"
            if "LIMIT" not in sql or "ORDER" in sql:
                assert sorted(run(db, sql, CancelToken()).rows()) == wanted, name


def test_a_time_out(folder: Path) -> None:
    with tidegate.open(folder, config=Config(batch_rows=1_000)) as db:
        assert len(db.sql("SELECT id FROM t LIMIT 3")) == 3
        before = held(db)
        db.set("statement_timeout_ms", 1)
        for sql in (QUERIES[0], QUERIES[4], "SELECT s FROM t WHERE md5(s) LIKE 'ab%' ORDER BY md5(s)"):
            with pytest.raises(CancelledError, match="longer than 1 ms"):
                db.sql(sql)
        assert held(db) == before
        db.set("statement_timeout_ms", 0)
        assert len(db.sql("SELECT id FROM t")) == PARTS * ROWS


def test_cancelled_from_another_thread(folder: Path) -> None:
    """Many times, at moments that nobody chose."""
    with tidegate.open(folder, config=Config(read_threads=2, batch_rows=1_000)) as db:
        db.sql("SELECT id FROM t LIMIT 1")
        before = held(db)
        stopped = 0
        for turn in range(12):
            watch = CancelToken()
            timer = threading.Timer(0.004 * turn, watch.cancel)
            timer.start()
            try:
                run(db, "SELECT s FROM t WHERE md5(s) LIKE 'ab%'", watch)
            except CancelledError:
                stopped += 1
            timer.cancel()
            timer.join()
        assert stopped > 0
        assert held(db) == before


def test_a_result_that_is_left_behind(folder: Path) -> None:
    """LIMIT leaves parts half read, an error leaves them too; both let go of everything."""
    with tidegate.open(folder, config=Config(read_threads=2, batch_rows=1_000)) as db:
        db.sql("SELECT id FROM t LIMIT 1")
        before = held(db)
        for _ in range(5):
            db.sql("SELECT * FROM t WHERE s LIKE 'row 1%' LIMIT 3")
            with pytest.raises(tidegate.EvaluationError):
                db.sql("SELECT 1 / (id - 30000) FROM t")
        assert held(db) == before


CHILD = """
import signal, sys, threading, tidegate
signal.signal(signal.SIGINT, signal.default_int_handler)  # a child of nohup, or of a script's background, ignores it
db = tidegate.open(sys.argv[1])
db.sql("SELECT id FROM t LIMIT 1")
threads, leases = threading.active_count(), db.status().collections["t"].leases
print("ready", flush=True)
try:
    while True:
        db.sql(sys.argv[2])
except KeyboardInterrupt:
    print("interrupted", threading.active_count() - threads, db.status().collections["t"].leases - leases)
print(len(db.sql("SELECT id FROM t WHERE id < 1000")))
"""


@pytest.fixture
def _plain_interrupt() -> Iterator[None]:
    """Ctrl-C as Python has it: a Spark session that another test left in this process has its own handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_plain_interrupt")
def test_an_interrupt_that_python_drops_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the callback of a weak reference an exception is reported, and forgotten."""
    dropped = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: dropped.append(told.exc_type))

    def press(watch: CancelToken) -> None:
        what = threading.Event()
        reference = weakref.ref(what, lambda _: signal.raise_signal(signal.SIGINT))
        del what
        assert reference() is None
        watch.check()

    with pytest.raises(KeyboardInterrupt), interruptible(watch := CancelToken()):
        press(watch)
    assert dropped == [KeyboardInterrupt]
    with pytest.raises(tidegate.CancelledError), ThreadPoolExecutor(1) as pool:
        pool.submit(watch.check).result()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("sql", [QUERIES[0], QUERIES[1], QUERIES[4]])
def test_interrupted_from_the_keyboard(folder: Path, sql: str) -> None:
    """Ctrl-C ends the query, not the database: it reads on, in that process and in others."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", CHILD, str(folder), sql]
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        said, wrong = child.communicate(timeout=60)
    assert said == "interrupted 0 0\n1000\n", f"{said}\n{wrong}"
    assert child.returncode == 0, wrong
    with tidegate.open(folder) as db:
        assert len(db.sql("SELECT id FROM t")) == PARTS * ROWS


def test_who_waits_for_a_time_can_be_stopped(tmp_path: Path) -> None:
    """A time that is not complete yet is waited for: half a minute, if nobody is heard meanwhile."""
    with tidegate.open(tmp_path / "lake") as db:
        db.sql("CREATE TABLE t (id int8)")
        db.append("t", pa.table({"id": [1]}), at=10)
        for query in ("SELECT * FROM t AS OF 99", "SELECT count(*) FROM t AS OF 99"):
            with pytest.raises(CancelledError, match="took longer than 50 ms"):
                db.sql(query, watch=CancelToken(timeout_ms=50))
            watch = CancelToken()
            threading.Timer(0.05, watch.cancel).start()
            with pytest.raises(CancelledError, match="was cancelled"):
                db.sql(query, watch=watch)
        assert db.status().collections["t"].leases <= 1  # the process's own, which readers share


def test_a_heavy_filter_is_stopped_between_its_functions(tmp_path: Path) -> None:
    """Of one part with many rows and a filter that takes long: the watch is asked before each function of it."""
    deep = "s"
    for _ in range(20):
        deep = f"md5({deep})"
    with tidegate.open(tmp_path / "lake") as db:
        db.sql("CREATE TABLE t (s text)")
        db.append("t", pa.table({"s": [f"row {i}" for i in range(20_000)]}))
        db.sql(
            f"SELECT count(*) FROM t WHERE {deep} = 'x'"
        )  # a second time less is asked: what was bound is kept
        watch = _At(1_000_000)
        db.sql(f"SELECT count(*) FROM t WHERE {deep} = 'x'", watch=watch)
        assert watch.asked > 20
        with pytest.raises(CancelledError):
            db.sql(f"SELECT count(*) FROM t WHERE {deep} = 'x'", watch=_At(watch.asked - 10))
