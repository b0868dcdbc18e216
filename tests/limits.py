"""Every test has a time limit, and what a test started ends with it.

The limit is `timeout` in pyproject.toml (seconds, for set-up, call and tear-down together), `@pytest.mark.timeout(…)` for one
test, `PYTEST_TIMEOUT` or `--timeout` for a run. pytest-timeout reads them; what happens at the limit is decided here:

    limit            SIGALRM: the processes that the test started are killed, and the test fails with its name and theirs. Killing
                     comes first, as `with Popen(…)` waits for its child while the failure passes through.
    limit + GRACE    the main thread has not answered (it is in C code that never returns, or waits again): a thread prints all
                     stacks, kills all processes of this one and exits. xdist names the test and starts another worker.
    limit + 2 GRACE  no thread runs either (something holds the interpreter's lock): faulthandler prints all stacks and exits.

Servers that several tests share are not the test's: those that ran before it, those that a fixture of a wider scope started, the
JVM of a Spark session, and those that `share` was told of; nor is anything that these start.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_timeout

GRACE = float(os.environ.get("TIDEGATE_TEST_GRACE", "60"))
"""Seconds for which a test that has failed by its limit may still clean up."""
LONGER = 4
"""How many limits a test that is known to be long has."""

_shared: dict[int, bool] = {}
"""Processes that outlive a test, by id; True: other processes use them too, so they outlive this one."""
_stderr = [2]
"""Where pytest itself writes: while a test runs, pytest captures what is written to the descriptor 2."""


def pytest_configure() -> None:
    """Before anything is captured."""
    _stderr.append(os.dup(2))


def share(pid: int, *, with_others: bool = False) -> None:
    """Tells that a process serves more than the test that runs now; `with_others`: also other test processes."""
    _shared[pid] = with_others


def _parents() -> dict[int, int]:
    """The parent of every process of the machine."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            stat = (entry / "stat").read_text()
            found[int(entry.name)] = int(stat[stat.rindex(")") + 2 :].split()[1])
    return found


def children(apart_from: set[int]) -> list[int]:
    """The descendants of this process, without some and all that descends from them."""
    below: dict[int, list[int]] = {}
    for pid, parent in _parents().items():
        below.setdefault(parent, []).append(pid)
    found, open_ = [], [os.getpid()]
    while open_:
        fresh = [pid for pid in below.get(open_.pop(), ()) if pid not in apart_from]
        found += fresh
        open_ += fresh
    return found


def _jvm() -> Iterator[int]:
    """The JVM of this process' Spark session, which all tests of the process share."""
    context = getattr(sys.modules.get("pyspark.core.context"), "SparkContext", None)
    server = getattr(getattr(context, "_gateway", None), "proc", None)
    if server is not None:
        yield server.pid


def _kill(pids: list[int]) -> list[str]:
    """Ends processes at once; what they were."""
    names = []
    for pid in pids:
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            os.kill(pid, signal.SIGKILL)
            names.append(f"{pid} ({words[:100].strip()})")
    return names


class Limit:
    """The limit of one test."""

    def __init__(self, item: pytest.Item, settings: Any) -> None:
        self.item, self.settings = item, settings
        self.before = set(children(set(_shared)))
        self._last = threading.Timer(settings.timeout + GRACE, self._exit)
        self._last.daemon = True

    def start(self) -> None:
        """From now on the time runs."""
        signal.signal(signal.SIGALRM, self._fail)
        signal.setitimer(signal.ITIMER_REAL, self.settings.timeout)
        self._last.start()
        faulthandler.dump_traceback_later(self.settings.timeout + 2 * GRACE, exit=True, file=_stderr[-1])

    def answered(self) -> None:
        """The call is over: the test cannot fail by its limit any more, but may still hang while it is torn down."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def stop(self) -> None:
        """The test is over."""
        self.answered()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        self._last.cancel()
        faulthandler.cancel_dump_traceback_later()

    def _fail(self, number: int, frame: object) -> None:
        __tracebackhide__ = True
        if pytest_timeout.is_debugging():
            return
        killed = _kill(children(self.before | set(_shared) | set(_jvm())))
        pytest_timeout.dump_stacks(self.item.config.get_terminal_writer())
        also = f"; killed {', '.join(killed)}" if killed else ""
        pytest.fail(f"{self.item.nodeid} took longer than {self.settings.timeout:g} s{also}")

    def _exit(self) -> None:
        if pytest_timeout.is_debugging():
            return
        others = {pid for pid, with_others in _shared.items() if with_others}
        _kill([*children(others), *(set(_shared) - others)])
        about = f"{self.item.nodeid} took longer than {self.settings.timeout:g} s and does not answer"
        os.write(_stderr[-1], f"\n{about}\n".encode())
        faulthandler.dump_traceback(_stderr[-1])
        os._exit(1)


_running: dict[str, Limit] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """Takes the place of pytest-timeout's own timers."""
    if threading.current_thread() is not threading.main_thread():
        return None
    _running[item.nodeid] = Limit(item, settings)
    _running[item.nodeid].start()
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> bool | None:
    """Called when a test has failed, too; its tear-down is still to come."""
    limit = _running.get(item.nodeid)
    if limit is not None:
        limit.answered()
    return True if limit is not None else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Around all phases of a test."""
    try:
        return (yield)
    finally:
        limit = _running.pop(item.nodeid, None)
        if limit is not None:
            limit.stop()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
    """What a fixture of a wider scope starts is no test's own."""
    if fixturedef.scope == "function":
        return (yield)
    before = set(children(set(_shared)))
    result = yield
    for pid in children(before | set(_shared)):
        share(pid)
    return result


def give_more_time(item: pytest.Item) -> None:
    """Lengthens the limit of a test that is known to be long."""
    limit = item.config._env_timeout  # type: ignore[attr-defined]  # pytest-timeout keeps the run's limit there
    if limit and item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(LONGER * limit))
