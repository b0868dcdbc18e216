"""A standalone Spark cluster on this machine, of the pip-installed Spark alone: a master and two workers, which can be killed.

    with Cluster(folder) as cluster:
        driver = cluster.driver("tests.spark.on_cluster", "write", …)      a process whose session is on the cluster
        cluster.lose(1)                                                    kill -9: the second worker and its executor are gone
        cluster.add()                                                      another worker in its place

Spark's own scripts to start a cluster are not in the wheel, but `spark-class` is. Each worker has an address of its own (127.0.0.1,
127.0.0.2, …), as two machines would. All processes ask the kernel to be ended with the one that started them, so that nothing is
left if a test is killed.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pyspark
import pytest

from tidegate.spark.session import java_home

ROOT = Path(__file__).parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
PATIENCE_S = 180
"""A JVM that starts on a busy machine."""
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Cluster:
    """A master and two workers with a core each."""

    def __init__(self, folder: Path, memory: str = "1g") -> None:
        self.folder, self.memory = folder, memory
        self.workers: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True, exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"spark://127.0.0.1:{port}"
        self.log = folder / "master.log"
        place = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        self.master = self._start("master.Master", place, "127.0.0.1", self.log)
        try:
            self._said("I have been elected leader", 1)
            self.add()
            self.add()
            self._said("Registering worker", 2)
        except BaseException:
            self.close()
            raise

    def add(self) -> None:
        """One more worker."""
        number = len(self.workers)
        host, work = f"127.0.0.{number + 1}", self.folder / f"work{number}"
        given = ["--host", host, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "2g"]
        given += ["--work-dir", str(work), self.url]
        self.workers.append(self._start("worker.Worker", given, host, self.folder / f"worker{number}.log"))

    def await_executor(self) -> None:
        """Waits until the newest worker's executor has started, and can be killed too."""
        work = self.folder / f"work{len(self.workers) - 1}"
        end = time.monotonic() + PATIENCE_S
        while not any(
            "Starting executor ID" in log.read_text(errors="replace") for log in work.glob("*/*/stderr")
        ):
            if time.monotonic() > end:
                raise AssertionError(f"no executor came up in {work}")
            time.sleep(0.1)

    def lose(self, number: int) -> None:
        """Kills a worker and its executor with -9, at once, as a machine that loses its power."""
        os.killpg(self.workers[number].pid, signal.SIGKILL)
        self.workers[number].wait()

    def driver(self, module: str, *arguments: str) -> subprocess.Popen[str]:
        """A Python process that is given the cluster's URL and these arguments."""
        with (self.folder / "driver.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", module, self.url, *arguments],
                cwd=ROOT,
                env=self._environment("127.0.0.1"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  # one system call, and no lock is taken
            )

    def _start(self, what: str, given: list[str], host: str, log: Path) -> subprocess.Popen[bytes]:
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *given]
        with log.open("ab") as out:
            return subprocess.Popen(
                command,
                env=self._environment(host),
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  # one system call, and no lock is taken
            )

    def _environment(self, host: str) -> dict[str, str]:
        home = java_home()
        return {
            **os.environ,
            **({} if home is None else {"JAVA_HOME": home}),
            "PYTHONPATH": os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)]),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_DIRS": str(self.folder / "scratch"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "PYSPARK_PYTHON": sys.executable,
        }

    def _said(self, words: str, times: int) -> None:
        end = time.monotonic() + PATIENCE_S
        while self.log.read_text(errors="replace").count(words) < times:
            if self.master.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"no {words!r} from the master:\n{self.log.read_text(errors='replace')}")
            time.sleep(0.1)

    def close(self) -> None:
        """Ends every process."""
        for process in [*self.workers, self.master]:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run_step(
    cluster: Cluster,
    driver: subprocess.Popen[str],
    lines: Iterator[str],
    name: str,
    killed: int | None = None,
) -> dict[str, Any]:
    """What a step of a driver (`on_cluster.py`) found; `killed`: a worker that is, in the middle of it, and another comes."""
    assert driver.stdin is not None
    driver.stdin.write("go\n")
    driver.stdin.flush()
    if killed is not None:
        assert until(lines, ("middle", "done"), cluster) == f"middle {name}\n", "it was over too soon"
        cluster.lose(killed)
        cluster.add()
    found: dict[str, Any] = json.loads(until(lines, f"done {name} ", cluster).removeprefix(f"done {name} "))
    return found


def until(lines: Iterator[str], word: str | tuple[str, ...], cluster: Cluster) -> str:
    """The next line that begins so."""
    for line in lines:
        if line.startswith(word):
            return line
    log = (cluster.folder / "driver.log").read_text(errors="replace")
    return pytest.fail(f"the driver ended before it said {word}:\n{log[-4000:]}")
