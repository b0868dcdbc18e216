"""The leases that this process holds on one shard.

`lease.py` explains leases and acts on these records.
A `Machine` owns one `HeldLeases`, so that all readers of the shard in this process share it.
"""

from __future__ import annotations

import itertools
import os
import secrets
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate import fork

if TYPE_CHECKING:
    from tidegate.storage.shard.leases.keeper import LeaseKeeper


@dataclass(eq=False)
class SharedLease:
    """One lease of this process, and what the readers under it need."""

    reader: str = field(default_factory=lambda: secrets.token_hex(8))
    """The name of the lease in the log."""
    until: int | None = None
    """When the lease ends unless it is renewed; None: it is not in the log yet."""
    exclusive: bool = False
    """It belongs to one reader. Other leases also protect the times that later readers may ask for."""
    lost: bool = False
    """Another process removed it, because it had run out."""
    open_readers: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By ticket: the number of the reader's state, and the earliest time that the reader needs."""
    closed_tickets: deque[int] = field(default_factory=deque)
    """Tickets of readers that are closed. Finalizers append to it at any moment, so it needs no lock."""

    def remove_closed(self) -> None:
        """Removes closed readers from `open_readers`."""
        while self.closed_tickets:
            self.open_readers.pop(self.closed_tickets.popleft(), None)


@dataclass(eq=False)
class HeldLeases:
    """All leases of this process on one shard."""

    lock: threading.RLock = field(default_factory=fork.rlock)
    shared: SharedLease | None = None
    """The lease that new readers join."""
    retired: list[SharedLease] = field(default_factory=list)
    """Leases that still have readers, and that no new reader joins."""
    expired_names: deque[str] = field(default_factory=deque)
    """Names of leases that are no longer needed, and still have to be removed from the log."""
    last_used: int = 0
    """When a reader last joined."""
    retry_at: int | None = None
    """When to try again, after the store refused to write; None: it did not."""
    process: int = field(default_factory=os.getpid)
    keeper: LeaseKeeper | None = None
    """Renews the leases in the background; a forked child starts its thread again."""
    tickets: Iterator[int] = field(default_factory=itertools.count)
    """Numbers of readers."""

    def current(self) -> SharedLease | None:
        """The shared lease, unless it was inherited by a fork: then it is the parent's."""
        if self.process != os.getpid():
            self.shared, self.process = None, os.getpid()
            self.retired.clear()
            self.expired_names.clear()
        if self.shared is not None:
            self.shared.remove_closed()
        return self.shared

    def retire(self, lease: SharedLease) -> None:
        """Lets no further reader join this lease."""
        if self.shared is lease:
            self.shared = None
            self.retired.append(lease)
        self.drop_unused()

    def drop_unused(self) -> None:
        """Moves the names of retired leases without readers to `expired_names`."""
        for lease in self.retired:
            lease.remove_closed()
        self.expired_names.extend(
            lease.reader for lease in self.retired if not lease.open_readers and not lease.lost
        )
        self.retired = [lease for lease in self.retired if lease.open_readers]
