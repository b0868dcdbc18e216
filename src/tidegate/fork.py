"""What a forked child must not touch: connections and locks of its parent's threads.

Anyone may fork at any time: `os.fork`, `multiprocessing`, `subprocess` with a `preexec_fn` (which is how PySpark starts
its JVM), our code or that of who embeds us. Only the forking thread lives on in the child. Python throws the other
threads' states away there, before any hook runs, and with them all objects that only these threads refer to:

| object | what its destruction does in the child |
|---|---|
| DuckDB's connection, librdkafka's client | joins threads that are not there: a crash, or it never ends |
| SQLite's connection | may write to the parent's file: not even closing is safe, says its manual |
| a socket to PostgreSQL | `close` says good-bye on the parent's session |

So such objects are never destroyed in a child: they stay where they are, until the child ends or execs.

    connections = PerThread(lambda: duckdb.connect(":memory:"))
    connections.get()                  this thread's; a child makes its own

A lock that another thread holds at the fork is never released in the child: locks from here are free there.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_POOLS = ("polars", "obstore")
"""Libraries whose threads do not survive a fork, and which wait for them for ever."""


class _Process:
    """What this process knows of forks."""

    def __init__(self) -> None:
        self.held: dict[int, object] = {}
        """Referred to from here, so that the end of a thread's state alone destroys nothing; by id."""
        self.watched: dict[int, weakref.ref[object]] = {}
        self.locks: weakref.WeakSet[threading.Lock] = weakref.WeakSet()
        self.inherited: frozenset[str] = frozenset()

    def begin_child(self) -> None:
        """Runs first in a forked child: nothing of the parent is ever destroyed, and every lock is free."""
        found = [*self.held.values(), *(reference() for reference in self.watched.values())]
        for value in found:
            if value is not None:
                _immortalise(value)
        self.held, self.watched = {}, {}
        for lock in list(self.locks):
            lock._at_fork_reinit()  # type: ignore[attr-defined]  # as threading and logging do with theirs
        self.inherited = self.inherited | {name for name in _POOLS if name in sys.modules}


def _immortalise(value: object) -> None:
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


_process = _Process()
os.register_at_fork(after_in_child=_process.begin_child)


class _Slot(Generic[T]):
    """One thread's object. It is let go when the thread ends, but not when a fork throws the thread away."""

    def __init__(self, value: T) -> None:
        self.value, self.process = value, os.getpid()
        _process.held[id(value)] = value

    def __del__(self, getpid: Callable[[], int] = os.getpid, process: _Process = _process) -> None:
        if self.process == getpid():
            process.held.pop(id(self.value), None)


class PerThread(Generic[T]):
    """One object per thread, created at first use and destroyed with the thread or with this."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._local = threading.local()

    def get(self) -> T:
        """This thread's; in a forked child a new one."""
        found = self.existing()
        if found is None:
            found = self._make()
            self._local.slot = _Slot(found)
        return found

    def existing(self) -> T | None:
        """This thread's, if it has one of this process."""
        slot: _Slot[T] | None = getattr(self._local, "slot", None)
        return None if slot is None or slot.process != os.getpid() else slot.value

    def drop(self) -> T | None:
        """Forgets this thread's, and gives it back to be closed; None if it is another process's."""
        found = self.existing()
        self._local.slot = None
        return found


def undying(value: T) -> T:
    """The same object, which no forked child ever destroys."""
    key = id(value)
    _process.watched[key] = weakref.ref(value, lambda _: _process.watched.pop(key, None))
    return value


def lock() -> threading.Lock:
    """A lock that is free in a forked child even if a thread of the parent held it."""
    made = threading.Lock()
    _process.locks.add(made)
    return made


def rlock() -> threading.RLock:
    """The same, for a lock that its holder may take again."""
    made = threading.RLock()
    _process.locks.add(made)  # type: ignore[arg-type]  # a lock of another kind
    return made


def locks() -> list[threading.Lock]:
    """Every such lock that there is."""
    return list(_process.locks)


def inherited(library: str) -> bool:
    """Whether this is a forked child of a process with a library whose threads the child lacks."""
    return library in _process.inherited
