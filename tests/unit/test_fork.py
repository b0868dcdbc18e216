"""A process that forks while threads of it are alive: the child works and ends, the parent goes on.

Each test runs in a process of its own, as a crash in a child of pytest would be one of pytest. The other threads stay
alive over the fork, which is the point: in the child their thread states are thrown away, with all that only they
refer to.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests import servers

pytestmark = pytest.mark.slow

BEFORE = """
import os, signal, subprocess, sys, threading, multiprocessing
import pyarrow as pa
import tidegate

def evaluate(db):
    return db.sql("SELECT p->'c'->0, p->'a'->>'b', md5(p::text) FROM t").rows()

def ended(child):
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)

def alive_threads(work, count=3):
    # Threads that have done the work, and wait.
    over, go = threading.Event(), threading.Barrier(count + 1)
    def run():
        work()
        go.wait()
        over.wait()
    threads = [threading.Thread(target=run, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    go.wait()
    return over, threads

db = tidegate.open(sys.argv[1])
db.sql("CREATE TABLE t (p jsonb)")
db.append("t", pa.table({"p": ['{"a":{"b":"x"},"c":[1,2]}'] * 300}))
wanted = evaluate(db)
over, threads = alive_threads(lambda: evaluate(db))
"""

AFTER = """
assert evaluate(db) == wanted
over.set()
[thread.join(30) for thread in threads]
assert evaluate(db) == wanted
print("parent is well")
"""

CHILDREN = {
    "a child that execs": """
for _ in range(3):
    assert subprocess.run(["true"], preexec_fn=lambda: None).returncode == 0
""",
    "a child that leaves at once": """
for _ in range(3):
    child = os.fork()
    if child == 0:
        os._exit(7)
    assert ended(child) == 7
""",
    "a child that ends as Python does": """
child = os.fork()
if child == 0:
    sys.exit(8)
assert ended(child) == 8
""",
    "a child that evaluates and ends as Python does": """
child = os.fork()
if child == 0:
    assert evaluate(db) == wanted
    db.append("t", pa.table({"p": ["1"]}), at=None)
    sys.exit(9)
assert ended(child) == 9
wanted = evaluate(db)
assert len(wanted) == 301
""",
    "a child that evaluates in threads, and forks again": """
child = os.fork()
if child == 0:
    own, mine = alive_threads(lambda: evaluate(db))
    grandchild = os.fork()
    if grandchild == 0:
        assert evaluate(db) == wanted
        sys.exit(3)
    assert ended(grandchild) == 3
    own.set()
    [thread.join(30) for thread in mine]
    sys.exit(4)
assert ended(child) == 4
""",
    "a worker of multiprocessing": """
context = multiprocessing.get_context("fork")
with context.Pool(2) as pool:
    assert pool.map(len, [wanted] * 4) == [300] * 4
process = context.Process(target=lambda: sys.exit(5 if evaluate(db) == wanted else 6))
process.start()
process.join(60)
assert process.exitcode == 5
""",
    "a child forked while another thread holds every lock": """
from tidegate import fork
locks = fork.locks()
assert len(locks) > 5, locks
held, free = threading.Event(), threading.Event()
def hold():
    for lock in locks:
        lock.acquire()
    held.set()
    free.wait()
    for lock in locks:
        lock.release()
holder = threading.Thread(target=hold, daemon=True)
holder.start()
held.wait()
child = os.fork()
if child == 0:
    assert evaluate(db) == wanted
    assert tidegate.open(sys.argv[1]).sql("SELECT count(*) FROM t").rows() == [(300,)]
    sys.exit(2)
code = ended(child)
free.set()
holder.join()
assert code == 2
""",
}


def run(script: str, *args: str) -> str:
    """The script's output; children of it that hang are ended with it."""
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", script, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        shown, wrong = process.communicate(timeout=60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode == 0, f"{process.returncode}\n{shown}\n{wrong[-4000:]}"
    return shown


@pytest.mark.parametrize("name", CHILDREN)
@pytest.mark.parametrize("place", ["folder", "memory://"])
def test_fork(name: str, place: str, tmp_path: Path) -> None:
    if place == "memory://" and "evaluates and ends" in name:
        pytest.skip("what a child writes to memory only it sees")
    root = str(tmp_path) if place == "folder" else place
    if "while another thread" in name and place == "memory://":
        pytest.skip("a lake in memory is another one in the child")
    assert "parent is well" in run(BEFORE + CHILDREN[name] + AFTER, root)


SESSIONS = """
import os, sys, threading
from tidegate.storage.consensus.sql import PostgresConsensus
log = PostgresConsensus(sys.argv[1], sys.argv[2])
log.compare_and_set("k", None, b"1")
session = lambda: log._run("SELECT pg_backend_pid()")[0][0][0]
seen, go, over = [], threading.Barrier(2), threading.Event()
def other():
    seen.append(session())
    go.wait()
    over.wait()
    seen.append(session())
thread = threading.Thread(target=other)
thread.start()
go.wait()
mine = session()
for close in (False, True):
    child = os.fork()
    if child == 0:
        if close:
            log.close()  # of which the parent must not hear
        assert log.head("k").data == b"1"
        assert session() not in (mine, *seen)
        log.close()
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
assert session() == mine, "the child has ended the parent's session"
over.set()
thread.join()
assert seen[0] == seen[1], "the child has ended the session of another thread"
print("parent is well")
"""


def test_sessions_of_postgres_stay_the_parents(tmp_path: Path) -> None:
    assert "parent is well" in run(SESSIONS, servers.postgres(), f"{tmp_path.name}/")


LIBRARIES = """
import os, sys, threading
import numpy as np, pyarrow as pa
import tidegate
from tidegate.expr.primitives import text_search as find

db = tidegate.open(sys.argv[1])
db.sql("CREATE TABLE t (i int8, s text)")
n = 200_000
rows = {"i": np.arange(n), "s": np.char.mod("a text that has the number %d in it", np.arange(n))}
db.append("t", pa.table({"i": rows["i"], "s": rows["s"].tolist()}))
views = pa.array(rows["s"].tolist()).cast(pa.string_view())

def look():
    found = db.sql("SELECT i, s FROM t WHERE s LIKE '%777%' AND i % 3 = 0").rows()
    numbers, texts = find.rows_containing(views, "777")
    caught = find.capture_group(texts, r"the (n[a-z]+) ([0-9])").to_pylist()
    return found, numbers.tolist(), texts.to_pylist(), caught, find.matches_regex(texts, "777 in|77 i").tolist()

wanted = look()
assert "polars" in sys.modules
db.sql("SELECT count(*) FROM t WHERE i > 5").rows()
child = os.fork()
if child == 0:
    assert look() == wanted
    assert db.sql("SELECT sum(i) FROM t").rows() == [(n * (n - 1) // 2,)]
    assert [t.name for t in threading.enumerate() if t.name == "tidegate leases"]
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert look() == wanted
print("parent is well")
"""


def test_polars_and_the_keeper_of_leases(tmp_path: Path) -> None:
    """The threads of polars, and ours that tends leases, are not in the child: it does without, and has its own."""
    assert "parent is well" in run(LIBRARIES, str(tmp_path))


OBJECTS = """
import os, sys
import obstore.store
from tidegate.errors import StoreError
from tidegate.storage.blob.object_store import ObjectBlob
store = obstore.store.LocalStore(sys.argv[1])
blob = ObjectBlob(store, "x://y", once=store)
blob.put("a", b"1")
child = os.fork()
if child == 0:
    for use in (lambda: blob.get("a"), lambda: blob.put("b", b"2"), lambda: ObjectBlob.open("memory:///")):
        try:
            use()
        except StoreError as error:
            assert "forked child" in error.message and "spawn" in error.hint
        else:
            sys.exit(1)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert blob.get("a") == b"1" and blob.get("b") is None
print("parent is well")
"""


def test_object_stores_are_refused_in_a_child(tmp_path: Path) -> None:
    """Its requests would wait for threads that are not there, for ever."""
    assert "parent is well" in run(OBJECTS, str(tmp_path))
