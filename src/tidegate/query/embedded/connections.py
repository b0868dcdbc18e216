"""DuckDB databases of this process, each for one query at a time, kept for the next one.

    with connection(memory, threads) as database:
        database.sql("SELECT 1")

Opening a database takes some 30 ms, so a few are kept. A forked child makes its own (`fork.py`): the threads of its parent's are
not there. Rows that do not fit into the memory limit go to a directory of the database, which is removed with the query; that of a
process that was killed is removed by the next one (`remove_abandoned`).

    tidegate-spill-<place>-<process>-<random>        place: a hash of this machine and of what numbers its processes
"""

from __future__ import annotations

import atexit
import hashlib
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from tidegate import fork
from tidegate.expr.primitives import duckdb_kernels

MAX_IDLE = 4
"""Databases that are kept: more queries at once open and close their own."""


_PREFIX = "tidegate-spill-"


def _place() -> str:
    """A short name of this machine and its process numbers, which a container has of its own."""
    try:
        numbers = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        numbers = 0
    return hashlib.sha256(f"{platform.node()} {numbers}".encode()).hexdigest()[:12]


def remove_abandoned() -> None:
    """Removes the directories of processes that have ended.

    One whose number another process has by now stays until that ends too.
    """
    folder, name = tempfile.gettempdir(), re.compile(rf"{_PREFIX}{_place()}-(\d+)-[0-9a-f]+")
    for entry in os.listdir(folder):
        found = name.fullmatch(entry)
        if found is not None and not _is_alive(int(found[1])):
            shutil.rmtree(os.path.join(folder, entry), ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        return True
    return True


class _Idle:
    """The databases that no query uses, with their directories."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.databases: list[tuple[Any, str]] = []
        self.lock = fork.lock()
        self.swept = False

    def take(self) -> tuple[Any, str]:
        """A database; a new one if none is left."""
        with self.lock:
            if self.process != os.getpid():  # those of the parent are neither used nor closed here
                self.process, self.databases = os.getpid(), []
            if self.databases:
                return self.databases.pop()
            swept, self.swept = self.swept, True
        if not swept:
            remove_abandoned()
        spill = os.path.join(tempfile.gettempdir(), f"{_PREFIX}{_place()}-{os.getpid()}-{uuid4().hex}")
        return duckdb_kernels.engine_connection(spill), spill

    def give(self, database: tuple[Any, str]) -> None:
        """Keeps a database, or closes it."""
        with self.lock:
            if self.process == os.getpid() and len(self.databases) < MAX_IDLE:
                self.databases.append(database)
                return
        database[0].close()

    def close(self) -> None:
        """Closes all."""
        if self.process == os.getpid():
            while self.databases:
                self.databases.pop()[0].close()


_idle = _Idle()
atexit.register(_idle.close)


@contextmanager
def connection(memory: int, threads: int) -> Iterator[Any]:
    """A database for one query, within a memory limit in bytes."""
    database, spill = _idle.take()
    healthy = False
    try:
        database.execute(f"SET memory_limit = '{memory}B'; SET threads = {threads}")
        yield database
        healthy = True
    finally:
        if healthy and not os.path.isdir(spill):
            _idle.give((database, spill))
        else:  # one that has written to disk would look for its files there
            database.close()
            shutil.rmtree(spill, ignore_errors=True)
