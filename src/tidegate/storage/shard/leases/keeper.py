"""A background thread that renews the leases of idle readers, and releases unused ones.

    keeper = LeaseKeeper(lease_ms)      one for each open database
    keeper.keep(machine)                from now on its leases are renewed every quarter of `lease_ms`, at least once a minute
    keeper.set_lease_ms(lease_ms)       after the setting changed

The keeper refers to machines weakly, and its thread ends when the keeper is garbage collected.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, field

from tidegate import fork
from tidegate.boundary import internal
from tidegate.storage.shard.leases.lease import renew_leases
from tidegate.storage.shard.machine import Machine

MAX_INTERVAL_S, MIN_INTERVAL_S = 60.0, 0.01
"""Bounds of the interval. With a `lease_ms` of almost nothing the thread would otherwise never sleep."""


@dataclass(eq=False)
class _Work:
    """State of a keeper and its thread, which does not refer to the keeper, so that it can be collected."""

    lease_ms: int
    machines: weakref.WeakSet[Machine] = field(default_factory=weakref.WeakSet)
    lock: threading.Lock = field(default_factory=fork.lock)
    closed: bool = False

    @property
    def interval_s(self) -> float:
        return max(MIN_INTERVAL_S, min(MAX_INTERVAL_S, self.lease_ms / 4000))


class RenewalThread(threading.Thread):
    """The thread of a keeper."""

    def __init__(self, work: _Work) -> None:
        super().__init__(name="tidegate leases", daemon=True)
        self.work, self.wake = work, threading.Event()

    def run(self) -> None:
        """Renews leases at each interval."""
        while not self.work.closed:
            if self.wake.wait(self.work.interval_s):
                self.wake.clear()
                continue
            with self.work.lock:
                machines = list(self.work.machines)
            while machines:  # the thread refers to none of them while it waits
                _renew(machines.pop(), self.work.lease_ms)


def _renew(machine: Machine, lease_ms: int) -> None:
    try:
        try:
            renew_leases(machine, lease_ms)
        finally:
            machine.consensus.close()  # the connection of this thread
    except Exception as error:  # noqa: BLE001  # without this thread nothing would renew the leases of readers
        internal(error)  # the next interval tries again; a reader gets an error of the store itself


class LeaseKeeper:
    """Renews the leases of the shards of one open database. Threads may share it."""

    def __init__(self, lease_ms: int) -> None:
        """Starts no thread yet."""
        self._work = _Work(lease_ms)
        self._thread: RenewalThread | None = None
        self._finalizer = weakref.finalize(self, _close, self._work, [])

    def keep(self, machine: Machine) -> None:
        """Renews the leases of a shard in the background for as long as its machine exists."""
        with self._work.lock:
            machine.leases.keeper = self
            self._work.machines.add(machine)
            if self._thread is None or not self._thread.is_alive():  # it is not alive in a forked child
                self._thread = RenewalThread(self._work)
                self._finalizer.detach()
                self._finalizer = weakref.finalize(self, _close, self._work, [self._thread])
                self._thread.start()

    def set_lease_ms(self, lease_ms: int) -> None:
        """Changes the length of leases, and with it the interval."""
        shorter = lease_ms < self._work.lease_ms
        self._work.lease_ms = lease_ms
        if shorter and self._thread is not None:
            self._thread.wake.set()


def _close(work: _Work, threads: list[RenewalThread]) -> None:
    work.closed = True
    for thread in threads:
        thread.wake.set()
