"""A test that hangs is ended and named, what it started is gone, and what tests share goes on (`tests/limits.py`).

Each case is a pytest of its own, in a process that ignores SIGINT as those that `nohup` or a script's background starts do.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

TESTS = """
import os, signal, subprocess, sys, threading, time
from pathlib import Path
import pytest
from tests.limits import share

HERE = Path(__file__).parent
FOREVER = [sys.executable, "-c", "import time; time.sleep(600)"]
NESTED = [sys.executable, "-c", f"import subprocess; subprocess.run({FOREVER!r})"]

def start(name, command=FOREVER, **more):
    child = subprocess.Popen(command, **more)
    (HERE / name).write_text(str(child.pid))
    return child

@pytest.fixture(scope="module")
def server():
    with start("server") as process:
        yield process
        process.kill()

def test_waits_for_its_child(server):
    with start("child", NESTED, start_new_session=True) as child:
        child.wait()

def test_shares_a_server_that_it_starts():
    share(start("told").pid)
    time.sleep(600)

def test_the_servers_are_still_there(server):
    assert server.poll() is None
    told = int((HERE / "told").read_text())
    os.kill(told, 0)
    assert Path(f"/proc/{told}/stat").read_text().split()[2] != "Z"
    os.kill(told, signal.SIGKILL)

@pytest.fixture
def slow_to_stop():
    process = start("slow")
    yield
    process.wait()

def test_hangs_while_it_is_torn_down(slow_to_stop):
    pass

@pytest.mark.timeout(600)
def test_has_a_limit_of_its_own():
    time.sleep(1.5)
"""

DEAF = """
import subprocess, sys, time
from pathlib import Path

def test_before(): pass

def test_does_not_answer():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (Path(__file__).parent / "child").write_text(str(child.pid))
    while True:
        try:
            time.sleep(600)
        except BaseException:
            pass

def test_after(): pass
"""

LOCKED = """
import ctypes, signal

def test_before(): pass

def test_holds_the_lock_of_the_interpreter():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    ctypes.PyDLL(None).sleep(600)

def test_after(): pass
"""


def _pytest(folder: Path, text: str, *more: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\ntimeout = 1\n")
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    env |= {"PYTHONPATH": str(ROOT), "TIDEGATE_TEST_GRACE": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "tests.limits", "-p", "no:cacheprovider", *more, folder]
    ignoring = ["bash", "-c", 'trap "" INT; exec "$@"', "bash", *map(str, command)]
    return subprocess.run(
        ignoring, check=False, cwd=folder, env=env, capture_output=True, text=True, timeout=120
    )


def _runs(pid_file: Path) -> bool:
    """Whether a process goes on: one that is dead stays listed until somebody waits for it."""
    try:
        return Path(f"/proc/{pid_file.read_text()}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_test_that_hangs_is_ended_and_named(tmp_path: Path) -> None:
    done = _pytest(tmp_path, TESTS, "-p", "no:xdist", "-p", "no:hypothesispytest", "-rA")
    for name in ("waits_for_its_child", "shares_a_server_that_it_starts", "hangs_while_it_is_torn_down"):
        assert f"test_it.py::test_{name} took longer than 1 s" in done.stdout, done.stdout
    assert "2 failed, 3 passed, 1 error" in done.stdout, done.stdout
    child = (tmp_path / "child").read_text()
    assert f"killed {child} (" in done.stdout
    assert not any(_runs(tmp_path / name) for name in ("child", "server", "told", "slow"))


@pytest.mark.parametrize("xdist", [True, False])
def test_a_test_that_does_not_answer_ends_its_process(tmp_path: Path, xdist: bool) -> None:
    done = _pytest(tmp_path, DEAF, *(["-n", "1"] if xdist else ["-p", "no:xdist"]))
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert "test_it.py::test_does_not_answer took longer than 1 s and does not answer" in said, said
    assert not _runs(tmp_path / "child")
    if xdist:
        assert "1 failed, 2 passed" in done.stdout, said


def test_a_test_that_holds_the_lock_of_the_interpreter_ends_its_process(tmp_path: Path) -> None:
    done = _pytest(tmp_path, LOCKED, "-n", "1")
    assert "1 failed, 2 passed" in done.stdout, done.stdout
    assert "crashed while running 'test_it.py::test_holds_the_lock" in done.stdout, done.stdout
    assert "in test_holds_the_lock_of_the_interpreter" in done.stderr, done.stderr


def test_interrupts_are_ignored_by_what_these_tests_start() -> None:
    """What `nohup` and scripts do to a child: without it the tests above would try less than they say."""
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    command = ["bash", "-c", 'trap "" INT; exec "$@"', "bash", sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"
