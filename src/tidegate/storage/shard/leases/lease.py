"""Leases: while a reader is open, the files that it reads and the times that it may ask for are kept.

    with share_lease(shard, lambda state: as_of) as lease:   mostly writes nothing: a lease of this process protects the reader
        … read parts of lease.state …
        lease.keep()                                         while reading: renews the lease when a quarter of its time has passed

A lease in the log names a reader, the `number` of a state, a time `since`, and when it ends. While it is there, `sweep` deletes
nothing that left the state after entry `number`, and the `since` of the collection does not pass that of the lease.

**Readers share one lease** for each process and shard. Suppose it was made at entry S. It protects a snapshot of a later state n,
for these reasons:

1. A part of state n can leave only at an entry m > n ≥ S. Sweep deletes what left up to the number of the oldest lease, and m > S.
2. The `since` of the collection cannot pass that of the lease, and a snapshot joins it only at a time that is not before it.
3. The lease is in state n, which is the newest, because the newest state is read for each snapshot. Only a `Release` after n
   removes the lease: our own, which is written when no reader is open, or another process's, when the lease has run out. At least
   three quarters of the time are left when a snapshot begins.

| moment | entries |
|---|---|
| the first read; a read after a quarter of the time; a read at a time before that of the lease | one: it is made or renewed |
| any other read, and its end | none |
| this process compacts, sweeps, closes the database, or reads nothing for a quarter of the time (`keeper.py`) | one |

A renewal moves the lease up: its number to that of the oldest state that a reader has open here, its time to the earliest that they
need, or else to where retention would move `since` now. So a lease holds back others by about a quarter of its time.

**Unknown outcomes.** If it is unknown whether a renewal was written, it may still arrive later and move the lease up. That lease is
therefore retired: the next reader makes a new one. Readers under it are safe in both cases, because the renewal's minimum included
them.

**Without a lease.** If the store refuses the entry because this process may only read, snapshots have no lease: what they read is
kept for `sweep_grace_ms` after a compaction. A part that disappears nevertheless is an error that names it (`Lease.vanished`).

When a lease runs out, any process may remove it (`release_expired_leases`), which by itself deletes and moves nothing. A reader
whose lease was removed gets an error, and never wrong rows, since the files that it reads never change. A reader that is garbage
collected without being closed is recorded by its finalizer, which may run in the middle of anything; the next call here counts it
as closed.

`hold_lease` makes a lease for one reader, which is released at its end: two entries. Compaction uses it.

Times are those of the clock. If the clocks of two machines differ by a good part of `lease_ms` (15 minutes), one of them considers
leases ended that are not.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from tidegate.errors import LeaseLost, ReadOnlyError, StoreError, TidegateError, TimeError
from tidegate.storage.shard.changes import Hold, Release
from tidegate.storage.shard.leases.held import HeldLeases, SharedLease
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.state import Conflict, State, retained_since

logger = logging.getLogger(__name__)


class Lease:
    """The share of one reader in a lease. Use it in `with`, or `close` it."""

    def __init__(self, shard: Shard, lease: SharedLease | None, since: int, state: State) -> None:
        """Use `share_lease` or `hold_lease`; `lease` is None if the store may only be read."""
        self._machine, self._lease_ms = shard.machine, shard.config.lease_ms
        self.since = since
        self.state = state
        """A state whose parts the lease protects."""
        self.closed = False
        self._lease, self._held = lease, shard.machine.leases
        self._finalizer: weakref.finalize[..., Lease] | None = None
        if lease is None:
            return
        ticket = next(self._held.tickets)
        lease.open_readers[ticket] = state.number, since
        if lease.exclusive:
            self._finalizer = weakref.finalize(self, self._held.expired_names.append, lease.reader)
        else:
            self._finalizer = weakref.finalize(self, lease.closed_tickets.append, ticket)
        self._finalizer.atexit = False  # the leases of a process that ends run out

    @property
    def reader(self) -> str:
        """The name of the lease in the log; empty if there is none."""
        return "" if self._lease is None else self._lease.reader

    @property
    def until(self) -> int:
        """When the lease ends unless it is renewed; 0 if there is none."""
        return 0 if self._lease is None else self._lease.until or 0

    def keep(self) -> None:
        """Renews the lease if a quarter of its time has passed; a `LeaseLost` error if it was removed."""
        lease = self._lease
        if self.closed or lease is None or (not lease.lost and not self._is_due(lease)):
            return
        with self._held.lock:
            if lease.lost:
                raise _lease_lost(self._machine, self._lease_ms)
            now = self._machine.clock.now()
            if not self._is_due(lease) or now < (self._held.retry_at or now):
                return
            lease.remove_closed()
            try:
                _write(self._machine, self._lease_ms, lease)
            except ReadOnlyError:
                _postpone(self._machine, self._lease_ms)

    def vanished(self, error: StoreError) -> StoreError:
        """The error for a missing object, for a reader that may have had no lease on it."""
        if self._lease is not None and not self._lease.lost and self._machine.clock.now() < self.until:
            return error
        why = "was read without a lease" if self._lease is None else "was read for longer than its lease"
        return StoreError(
            error.message,
            hint=f"{self.state.shard} {why}, and compaction and sweep replaced the part meanwhile; read again",
        )

    def close(self) -> None:
        """Ends the reader. A shared lease stays for other readers, and is released when it is idle."""
        if self.closed:
            return
        self.closed = True
        if self._finalizer is not None:
            self._finalizer()
        if self._lease is not None and self._lease.exclusive:
            with suppress(StoreError):  # it runs out by itself
                release_ended_leases(self._machine)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _is_due(self, lease: SharedLease) -> bool:
        return _is_due(self._machine, self._lease_ms, lease)


def share_lease(shard: Shard, pick: Callable[[State], int]) -> Lease:
    """Protects the newest state, and the time that `pick` returns for it, by the shared lease."""
    machine, lease_ms = shard.machine, shard.config.lease_ms
    held = machine.leases
    with held.lock:
        state = machine.fetch()
        since, now = _pick_time(state, pick), machine.clock.now()
        held.last_used = now
        if held.process != os.getpid() and held.keeper is not None:
            held.keeper.keep(machine)  # a forked child has none of its parent's threads
        lease = held.current()
        if lease is not None and lease.reader not in state.leases:
            lease.lost = True
            held.retire(lease)
            lease = None
        if (
            lease is not None
            and not _is_due(machine, lease_ms, lease)
            and state.leases[lease.reader].since <= since
        ):
            return Lease(shard, lease, since, state)
        if held.retry_at is not None and now < held.retry_at:
            return Lease(shard, None, since, state)
        held.shared = lease = lease or SharedLease()
        try:
            state, since = _write(machine, lease_ms, lease, pick)
        except ReadOnlyError:
            held.shared = None if lease.until is None else lease
            _postpone(machine, lease_ms)
            return Lease(shard, None, since, state)
        held.retry_at = None
        return Lease(shard, lease, since, state)


def hold_lease(shard: Shard, pick: Callable[[State], int]) -> Lease:
    """Protects the newest state, and the time that `pick` returns for it, by a lease of its own."""
    release_ended_leases(shard.machine)
    lease = SharedLease(exclusive=True)
    state, since = _write(shard.machine, shard.config.lease_ms, lease, pick)
    return Lease(shard, lease, since, state)


def _write(
    machine: Machine, lease_ms: int, lease: SharedLease, pick: Callable[[State], int] | None = None
) -> tuple[State, int]:
    """Makes or renews a lease, for its readers and one that picks a time now; the state, and that time."""
    until = machine.clock.now() + lease_ms
    picked = 0

    def propose(state: State) -> Hold:
        nonlocal picked
        if lease.until is not None and lease.reader not in state.leases:
            lease.lost = True
            raise _lease_lost(machine, lease_ms)
        needs = list(lease.open_readers.values())
        if not lease.exclusive:
            needs.append((state.number + 1, retained_since(state, machine.clock.now())))
        if pick is not None:
            picked = _pick_time(state, pick)
            needs.append((state.number + 1, picked))
        return Hold(lease.reader, min(since for _, since in needs), until, min(number for number, _ in needs))

    try:
        state = machine.update(propose)
    except ReadOnlyError:
        raise  # surely nothing was written
    except BaseException:
        machine.leases.retire(lease)
        raise
    lease.until = until
    return state, picked


def _pick_time(state: State, pick: Callable[[State], int]) -> int:
    if state.dropped:
        raise Conflict("the collection was dropped")
    since = pick(state)
    if since < state.since:
        raise TimeError(
            f"cannot read at time {since}: the collection is kept from {state.since} on",
            hint=f"any time from {state.since} on can be read; the retention option says how long times are kept",
        )
    return since


def _is_due(machine: Machine, lease_ms: int, lease: SharedLease) -> bool:
    """Whether a quarter of the lease's time has passed."""
    return lease.until is None or machine.clock.now() >= lease.until - lease_ms * 3 // 4


def _lease_lost(machine: Machine, lease_ms: int) -> LeaseLost:
    return LeaseLost(
        f"the lease on {machine.cached_state().shard} ran out: its reader did not renew it in time",
        hint=f"read again; a reader may pause for {lease_ms} ms (lease_ms)",
    )


def _postpone(machine: Machine, lease_ms: int) -> None:
    """After the store refused to write: logs it once, and does not try again for a quarter of a lease."""
    held = machine.leases
    if held.retry_at is None:
        logger.info("%s is read without a lease: the store is read-only for this process", machine.key)
    held.retry_at = machine.clock.now() + lease_ms // 4


def release_shared_lease(shard: Shard) -> None:
    """Releases the shared lease, or moves it up to what open readers need."""
    machine = shard.machine
    held = machine.leases
    with held.lock:
        lease = held.current()
        if lease is not None and not lease.open_readers:
            held.retire(lease)
        elif lease is not None:
            record = machine.fetch().leases.get(lease.reader)
            needed = min(number for number, _ in lease.open_readers.values())
            if record is not None and (
                record.number < needed or record.since < _reachable_since(machine, lease)
            ):
                _write(machine, shard.config.lease_ms, lease)
        held.drop_unused()
    release_ended_leases(machine)


def _reachable_since(machine: Machine, lease: SharedLease) -> int:
    """The latest time that a lease with readers could move to."""
    since = retained_since(machine.cached_state(), machine.clock.now())
    return min(since, *(since for _, since in lease.open_readers.values()))


def release_ended_leases(machine: Machine) -> None:
    """Removes the leases of this process that are no longer needed from the log."""
    waiting = machine.leases.expired_names
    if not waiting:
        return
    readers = [waiting.popleft() for _ in range(len(waiting))]
    try:
        _release(machine, lambda state: [reader for reader in readers if reader in state.leases])
    except TidegateError:
        waiting.extend(readers)
        raise


def release_expired_leases(shard: Shard) -> State:
    """Releases our own lease and removes all that have run out; returns the state afterwards."""
    release_shared_lease(shard)
    now = shard.clock.now()
    return _release(
        shard.machine, lambda state: [name for name, lease in state.leases.items() if lease.until < now]
    )


def _release(machine: Machine, pick: Callable[[State], list[str]]) -> State:
    def propose(state: State) -> Release | None:
        readers = pick(state)
        return Release(tuple(readers)) if readers else None

    return machine.update(propose)


def renew_leases(machine: Machine, lease_ms: int) -> None:
    """Renews leases that have readers, and releases the shared one if no reader joined lately."""
    held: HeldLeases = machine.leases
    with held.lock:
        lease = held.current()
        idle = machine.clock.now() - held.last_used >= lease_ms // 4
        if lease is not None and not lease.open_readers and idle:
            held.retire(lease)
        held.drop_unused()
        for held_lease in [*held.retired, *([held.shared] if held.shared else [])]:
            if not held_lease.lost and _is_due(machine, lease_ms, held_lease):
                _write(machine, lease_ms, held_lease)
    release_ended_leases(machine)
