"""The heart: a thread that tends the leases of this process, for readers that are silent and for when it falls idle.

    shard = beat(shard)      from here on `lease.tend(shard)` is called every quarter of a lease, at least once a minute

It refers to shards weakly: who lets go of a database need not tell it.
"""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress

from tidegate import fork
from tidegate.errors import TidegateError
from tidegate.shard.lease import tend
from tidegate.shard.writer import Shard


class _Heart(threading.Thread):
    """The thread. It ends with the process."""

    def __init__(self) -> None:
        super().__init__(name="tidegate leases", daemon=True)
        self.shards: weakref.WeakSet[Shard] = weakref.WeakSet()
        self.interval_s = 60.0
        self.sooner = threading.Event()

    def run(self) -> None:
        while True:
            if self.sooner.wait(self.interval_s):
                self.sooner.clear()
                continue
            with _lock:
                shards = list(self.shards)
            while shards:  # none is referred to from here while we wait
                _tended(shards.pop())


def _tended(shard: Shard) -> None:
    with suppress(TidegateError):  # tried again at the next beat; a reader gets the error itself
        tend(shard)
    shard.machine.consensus.close()  # this thread's connection


_heart: list[_Heart] = []
_lock = fork.lock()


def beat(shard: Shard) -> Shard:
    """The same shard, its leases tended in the background for as long as it is referred to."""
    with _lock:
        if not _heart or not _heart[0].is_alive():
            _heart[:] = [_Heart()]
            _heart[0].start()
        _heart[0].shards.add(shard)
        if shard.config.lease_ms / 4000 < _heart[0].interval_s:
            _heart[0].interval_s = shard.config.lease_ms / 4000
            _heart[0].sooner.set()
    return shard
