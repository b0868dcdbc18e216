"""Leases: what a reader reads stays, and the times it may ask for too, until it says that it is done, or is not heard of.

    with hold(shard, lambda state: as_of) as lease:    an entry of the log: the reader's name, the time, and until when
        … read parts of lease.state …
        lease.keep()                                   while reading: renews the lease when a quarter of it is over

A lease names the state it was made at. `sweep` deletes nothing that this state has, and `since` does not pass its time. When it
runs out, anyone may remove it (`release_expired`), which deletes nothing and moves nothing by itself. A reader that finds its
lease removed gets an error: never wrong rows, as what it reads does not change.

A reader that is forgotten rather than closed gives its lease back when Python collects it. That may happen in the middle of
anything, so nothing is written then: the name is noted, and the next one who makes or expires leases here removes it.

Time is the clock's: machines whose clocks differ by a good part of `lease_ms` (15 minutes) would see leases as ended that are not.
"""

from __future__ import annotations

import secrets
import threading
import weakref
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tidegate.errors import StoreError, TidegateError, TimeError
from tidegate.shard.change import Hold, Release
from tidegate.shard.machine import Machine
from tidegate.shard.state import State
from tidegate.shard.writer import Shard

_noted: weakref.WeakKeyDictionary[Machine, deque[str]] = weakref.WeakKeyDictionary()
"""Leases that are over, still to be removed from the log."""


class LeaseLost(StoreError):  # noqa: N818  # reads as what it is
    """The reader was not heard of for so long that its lease was taken away: what it reads may be deleted."""


class Lease:
    """What a reader holds. Use as a context, or `close` it."""

    def __init__(self, shard: Shard, reader: str, since: int, until: int, state: State) -> None:
        self.shard, self.reader, self.since, self.until = shard, reader, since, until
        self.state = state
        """A state that holds what the lease protects."""
        self.closed = False
        self._lock = threading.Lock()
        self._finalizer = weakref.finalize(self, _noted.setdefault(shard.machine, deque()).append, reader)
        self._finalizer.atexit = False  # leases of a process that ends run out

    def keep(self) -> None:
        """Renews the lease if a quarter of its time is over; a `LeaseLost` if it was taken away."""
        config, clock = self.shard.config, self.shard.clock
        with self._lock:
            if self.closed or clock.now() < self.until - config.lease_ms * 3 // 4:
                return
            until = clock.now() + config.lease_ms

            def think(state: State) -> Hold:
                if self.reader not in state.leases:
                    raise LeaseLost(
                        f"the lease on {state.shard} ran out: nothing was heard of its reader for too long",
                        hint=f"read again; a reader may be silent for {config.lease_ms} ms (lease_ms)",
                    )
                return Hold(self.reader, self.since, until)

            self.shard.machine.change(think)
            self.until = until

    def close(self) -> None:
        """Gives the lease back. If the store fails, it runs out by itself."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            self._finalizer()
        try:
            release_noted(self.shard.machine)
        except StoreError:
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def hold(shard: Shard, pick: Callable[[State], int]) -> Lease:
    """A lease on the newest state and the time that is picked of it."""
    release_noted(shard.machine)
    reader = secrets.token_hex(8)
    until = shard.clock.now() + shard.config.lease_ms

    def think(state: State) -> Hold:
        since = pick(state)
        if since < state.since:
            raise TimeError(
                f"cannot read at time {since}: the collection is kept from {state.since} on",
                hint=f"any time from {state.since} on can be read; the retention option says how long times are kept",
            )
        return Hold(reader, since, until)

    state = shard.machine.change(think)
    return Lease(shard, reader, state.leases[reader].since, until, state)


def release_noted(machine: Machine) -> None:
    """Removes the leases of this process that are over."""
    waiting = _noted.get(machine)
    if not waiting:
        return
    readers = [waiting.popleft() for _ in range(len(waiting))]
    try:
        _release(machine, lambda state: [reader for reader in readers if reader in state.leases])
    except TidegateError:
        waiting.extend(readers)
        raise


def release_expired(shard: Shard) -> State:
    """Removes the leases whose time is over, whoever made them; the state afterwards."""
    release_noted(shard.machine)
    now = shard.clock.now()
    return _release(
        shard.machine, lambda state: [name for name, lease in state.leases.items() if lease.until < now]
    )


def _release(machine: Machine, pick: Callable[[State], list[str]]) -> State:
    def think(state: State) -> Release | None:
        readers = pick(state)
        return Release(tuple(readers)) if readers else None

    return machine.change(think)


class _Heart(threading.Thread):
    """Renews leases in the background for readers that may be silent for long."""

    def __init__(self) -> None:
        super().__init__(name="tidegate leases", daemon=True)
        self.leases: weakref.WeakSet[Lease] = weakref.WeakSet()
        self.interval_s = 60.0
        self.sooner = threading.Event()

    def run(self) -> None:
        while True:
            if self.sooner.wait(self.interval_s):
                self.sooner.clear()
                continue
            for lease in list(self.leases):
                try:
                    lease.keep()
                except TidegateError:
                    continue  # tried again at the next beat; the reader itself gets the error if it is lost


_heart: list[_Heart] = []
_heart_lock = threading.Lock()


def beat(lease: Lease) -> Lease:
    """The same lease, renewed in the background for as long as it is open and referred to."""
    with _heart_lock:
        if not _heart or not _heart[0].is_alive():
            _heart[:] = [_Heart()]
            _heart[0].start()
        _heart[0].leases.add(lease)
        if lease.shard.config.lease_ms / 4000 < _heart[0].interval_s:
            _heart[0].interval_s = lease.shard.config.lease_ms / 4000
            _heart[0].sooner.set()
    return lease
