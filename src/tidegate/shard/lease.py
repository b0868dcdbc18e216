"""Leases: what a reader reads stays, and the times it may ask for too, until it says that it is done, or is not heard of.

    with share(shard, lambda state: as_of) as lease:   mostly nothing is written: this process has a lease that protects it
        … read parts of lease.state …
        lease.keep()                                   while reading: renews the lease when a quarter of it is over

A lease in the log names a reader, a state `number`, a time `since`, and until when it counts. While it is there, `sweep` deletes
nothing that left the state after entry `number`, and the collection's `since` does not pass its own.

**Readers share one lease** (for each process and shard). It was made at entry S. Why it protects a snapshot of a later state n:

1. A part of state n can only leave at an entry m > n ≥ S. Sweep deletes what left up to the oldest lease's number, and m > S.
2. `since` cannot pass the lease's, and a snapshot is only taken under it at a time that is not before that.
3. The lease is in state n, which is the newest: it is read for each snapshot. Only a `Release` after n takes the lease away: our
   own, which is written when no reader is open, or another's, when it has run out. Each snapshot begins with three quarters left.

| moment | entries |
|---|---|
| the first read; a read when a quarter of the lease is over; a read at a time before the lease's | one: made, or renewed |
| any other read, and its end | none |
| this process compacts or sweeps, closes the database, or read nothing for a quarter of a lease (`heart.py`) | one, to let go |

Whenever it is renewed it moves up: its number to that of the oldest state that a reader has open here, its time to what these
readers need, and else to where retention would move `since` now. So a lease holds back others by about a quarter of its time.

A write of which nobody knows whether it happened may still arrive, and move the lease up. So no reader is added to such a lease:
the next one makes another, and those that are under it are safe either way, as they were asked.

**Without a lease.** Where the store refuses the entry because it may only be read, snapshots have none: what they read stays for
`sweep_grace_ms` after a compaction. A part that vanishes all the same is an error that names it (`Lease.vanished`).

When a lease runs out, anyone may remove it (`release_expired`), which deletes nothing and moves nothing by itself. A reader that
finds its lease removed gets an error: never wrong rows, as what it reads does not change. A reader that is forgotten rather than
closed is noted when Python collects it, which may be in the middle of anything; whoever comes next here counts it as closed.

`hold` makes a lease of one's own, given back at the end: two entries. Compaction does so.

Time is the clock's: machines whose clocks differ by a good part of `lease_ms` (15 minutes) would see leases as ended that are not.
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from tidegate import fork
from tidegate.errors import ReadOnlyError, StoreError, TidegateError, TimeError
from tidegate.shard.change import Hold, Release
from tidegate.shard.machine import Machine
from tidegate.shard.state import Conflict, State, retained
from tidegate.shard.writer import Shard

logger = logging.getLogger(__name__)
_tickets = itertools.count()


class LeaseLost(StoreError):  # noqa: N818  # reads as what it is
    """The reader was not heard of for so long that its lease was taken away: what it reads may be deleted."""


@dataclass(eq=False)
class _Grip:
    """A lease as this process holds it, and what the readers under it need."""

    reader: str = field(default_factory=lambda: secrets.token_hex(8))
    until: int | None = None
    """None: no entry was made yet."""
    own: bool = False
    """Of one reader alone, who says what it needs; else times that others may ask for are kept as well."""
    lost: bool = False
    open: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By ticket: the number of the reader's state, and the earliest time that it asks for."""
    over: deque[int] = field(default_factory=deque)
    """Tickets of readers that are done; finalizers add to it, so nothing here may need a lock."""

    def settle(self) -> None:
        """Takes those that are done off the list."""
        while self.over:
            self.open.pop(self.over.popleft(), None)


@dataclass(eq=False)
class _Held:
    """What this process holds of one shard."""

    lock: threading.RLock = field(default_factory=fork.rlock)
    shared: _Grip | None = None
    """The lease that new readers come under."""
    left: list[_Grip] = field(default_factory=list)
    """Leases that none comes under any more, with readers that are."""
    noted: deque[str] = field(default_factory=deque)
    """Names that are over, still to be removed from the log."""
    used: int = 0
    """When a reader last came."""
    refused: int | None = None
    """The store may only be read; when to try again."""
    process: int = field(default_factory=os.getpid)

    def current(self) -> _Grip | None:
        """The shared lease, if it is this process's: what came by a fork is its parent's."""
        if self.process != os.getpid():
            self.shared, self.process = None, os.getpid()
            self.left.clear()
            self.noted.clear()
        if self.shared is not None:
            self.shared.settle()
        return self.shared

    def abandon(self, grip: _Grip) -> None:
        """No reader comes under this lease from here on."""
        if self.shared is grip:
            self.shared = None
            self.left.append(grip)
        self.tidy()

    def tidy(self) -> None:
        """Notes the leases that nobody is under any more."""
        for grip in self.left:
            grip.settle()
        self.noted.extend(grip.reader for grip in self.left if not grip.open and not grip.lost)
        self.left = [grip for grip in self.left if grip.open]


_held: weakref.WeakKeyDictionary[Machine, _Held] = weakref.WeakKeyDictionary()
_held_lock = fork.lock()


def _of(machine: Machine) -> _Held:
    with _held_lock:
        return _held.setdefault(machine, _Held())


class Lease:
    """What a reader holds. Use as a context, or `close` it."""

    def __init__(self, shard: Shard, grip: _Grip | None, since: int, state: State) -> None:
        self.shard, self.since = shard, since
        self.state = state
        """A state that holds what the lease protects."""
        self.closed = False
        self._grip, self._held = grip, _of(shard.machine)
        self._finalizer: weakref.finalize[..., Lease] | None = None
        if grip is None:
            return
        ticket = next(_tickets)
        grip.open[ticket] = state.number, since
        if grip.own:
            self._finalizer = weakref.finalize(self, self._held.noted.append, grip.reader)
        else:
            self._finalizer = weakref.finalize(self, grip.over.append, ticket)
        self._finalizer.atexit = False  # leases of a process that ends run out

    @property
    def reader(self) -> str:
        """The name in the log; empty if there is no lease."""
        return "" if self._grip is None else self._grip.reader

    @property
    def until(self) -> int:
        """When the lease ends unless it is renewed; 0 if there is none."""
        return 0 if self._grip is None else self._grip.until or 0

    def keep(self) -> None:
        """Renews the lease if a quarter of its time is over; a `LeaseLost` if it was taken away."""
        grip = self._grip
        if self.closed or grip is None or (not grip.lost and not _due(self.shard, grip)):
            return
        with self._held.lock:
            if grip.lost:
                raise _lost(self.shard)
            now = self.shard.clock.now()
            if not _due(self.shard, grip) or now < (self._held.refused or now):
                return
            grip.settle()
            try:
                _write(self.shard, self._held, grip)
            except ReadOnlyError:
                _refused(self.shard, self._held)

    def vanished(self, error: StoreError) -> StoreError:
        """The error for an object that is missing, to a reader who may have had no lease on it."""
        if self._grip is not None and not self._grip.lost and self.shard.clock.now() < self.until:
            return error
        why = "was read without a lease, and" if self._grip is None else "was read for longer than its lease:"
        return StoreError(
            error.message,
            hint=f"{self.state.shard} {why} compaction and sweep replaced the part meanwhile; read again",
        )

    def close(self) -> None:
        """The reader is done. If it was alone under the lease, others use it or let go of it later."""
        if self.closed:
            return
        self.closed = True
        if self._finalizer is not None:
            self._finalizer()
        if self._grip is not None and self._grip.own:
            with suppress(StoreError):  # it runs out by itself
                release_noted(self.shard.machine)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def share(shard: Shard, pick: Callable[[State], int]) -> Lease:
    """The newest state and the time that is picked of it, under the lease that all readers of this process share."""
    held = _of(shard.machine)
    with held.lock:
        state = shard.machine.fetch()
        since, now = _picked(state, pick), shard.clock.now()
        held.used = now
        if held.process != os.getpid():
            _tend_here(shard)
        grip = held.current()
        if grip is not None and grip.reader not in state.leases:
            grip.lost = True
            held.abandon(grip)
            grip = None
        if grip is not None and not _due(shard, grip) and state.leases[grip.reader].since <= since:
            return Lease(shard, grip, since, state)
        if held.refused is not None and now < held.refused:
            return Lease(shard, None, since, state)
        held.shared = grip = grip or _Grip()
        try:
            state, since = _write(shard, held, grip, pick)
        except ReadOnlyError:
            held.shared = None if grip.until is None else grip
            _refused(shard, held)
            return Lease(shard, None, since, state)
        held.refused = None
        return Lease(shard, grip, since, state)


def _tend_here(shard: Shard) -> None:
    """A forked child has none of its parent's threads: its leases are tended by one of its own."""
    from tidegate.shard.heart import beat

    beat(shard)


def hold(shard: Shard, pick: Callable[[State], int]) -> Lease:
    """A lease of one's own on the newest state and the time that is picked of it."""
    release_noted(shard.machine)
    held, grip = _of(shard.machine), _Grip(own=True)
    state, since = _write(shard, held, grip, pick)
    return Lease(shard, grip, since, state)


def _write(
    shard: Shard, held: _Held, grip: _Grip, pick: Callable[[State], int] | None = None
) -> tuple[State, int]:
    """Makes or renews a lease, for those under it and one more; the state, and the time that this one picked."""
    until = shard.clock.now() + shard.config.lease_ms
    picked = 0

    def think(state: State) -> Hold:
        nonlocal picked
        if grip.until is not None and grip.reader not in state.leases:
            grip.lost = True
            raise _lost(shard)
        needs = list(grip.open.values())
        if not grip.own:
            needs.append((state.number + 1, retained(state, shard.clock.now())))
        if pick is not None:
            picked = _picked(state, pick)
            needs.append((state.number + 1, picked))
        return Hold(grip.reader, min(since for _, since in needs), until, min(number for number, _ in needs))

    try:
        state = shard.machine.change(think)
    except ReadOnlyError:
        raise  # surely nothing was written
    except BaseException:
        held.abandon(grip)
        raise
    grip.until = until
    return state, picked


def _picked(state: State, pick: Callable[[State], int]) -> int:
    if state.dropped:
        raise Conflict("the collection was dropped")
    since = pick(state)
    if since < state.since:
        raise TimeError(
            f"cannot read at time {since}: the collection is kept from {state.since} on",
            hint=f"any time from {state.since} on can be read; the retention option says how long times are kept",
        )
    return since


def _due(shard: Shard, grip: _Grip) -> bool:
    """Whether a quarter of the lease is over."""
    return grip.until is None or shard.clock.now() >= grip.until - shard.config.lease_ms * 3 // 4


def _lost(shard: Shard) -> LeaseLost:
    return LeaseLost(
        f"the lease on {shard.machine.known().shard} ran out: nothing was heard of its reader for too long",
        hint=f"read again; a reader may be silent for {shard.config.lease_ms} ms (lease_ms)",
    )


def _refused(shard: Shard, held: _Held) -> None:
    """The store may only be read: says so once, and does not try again for a while."""
    if held.refused is None:
        logger.info("%s is read without a lease: the store is read-only for this process", shard.machine.key)
    held.refused = shard.clock.now() + shard.config.lease_ms // 4


def step_back(shard: Shard) -> None:
    """Ahead of compaction and sweep, and at the end: lets go of the shared lease, or moves it up to what readers here need."""
    held = _of(shard.machine)
    with held.lock:
        grip = held.current()
        if grip is not None and not grip.open:
            held.abandon(grip)
        elif grip is not None:
            known = shard.machine.fetch().leases.get(grip.reader)
            needed = min(number for number, _ in grip.open.values())
            if known is not None and (known.number < needed or known.since < _reach(shard, grip)):
                _write(shard, held, grip)
        held.tidy()
    release_noted(shard.machine)


def _reach(shard: Shard, grip: _Grip) -> int:
    """The time up to which a lease could move; there must be a reader under it."""
    return min(
        retained(shard.machine.known(), shard.clock.now()), *(since for _, since in grip.open.values())
    )


def release_noted(machine: Machine) -> None:
    """Removes the leases of this process that are over."""
    waiting = _of(machine).noted
    if not waiting:
        return
    readers = [waiting.popleft() for _ in range(len(waiting))]
    try:
        _release(machine, lambda state: [reader for reader in readers if reader in state.leases])
    except TidegateError:
        waiting.extend(readers)
        raise


def release_expired(shard: Shard) -> State:
    """Removes the leases whose time is over, whoever made them, and lets go of our own; the state afterwards."""
    step_back(shard)
    now = shard.clock.now()
    return _release(
        shard.machine, lambda state: [name for name, lease in state.leases.items() if lease.until < now]
    )


def _release(machine: Machine, pick: Callable[[State], list[str]]) -> State:
    def think(state: State) -> Release | None:
        readers = pick(state)
        return Release(tuple(readers)) if readers else None

    return machine.change(think)


def tend(shard: Shard) -> None:
    """What the heart does at each beat: renews leases that readers are under, and lets go of one that nobody came to lately."""
    held = _of(shard.machine)
    with held.lock:
        grip = held.current()
        idle = shard.clock.now() - held.used >= shard.config.lease_ms // 4
        if grip is not None and not grip.open and idle:
            held.abandon(grip)
        held.tidy()
        for one in [*held.left, *([held.shared] if held.shared else [])]:
            if not one.lost and _due(shard, one):
                _write(shard, held, one)
    release_noted(shard.machine)
