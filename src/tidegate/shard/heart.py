"""The heart: a thread that tends the leases of this process, for readers that are silent and for when it falls idle.

    shard = beat(shard)      from here on `lease.tend(shard)` is called every quarter of a lease, at least once a minute;
                             again when its `lease_ms` was changed

It refers to shards weakly: who lets go of a database need not tell it.
"""

from __future__ import annotations

import threading
import weakref

from tidegate import fork
from tidegate.boundary import internal
from tidegate.shard.lease import tend
from tidegate.shard.writer import Shard

MOST_S, LEAST_S = 60.0, 0.01
"""Bounds of the interval: below, for a `lease_ms` that is hardly any time this thread would do nothing but wake up."""


class _Heart(threading.Thread):
    """The thread. It ends with the process."""

    def __init__(self) -> None:
        super().__init__(name="tidegate leases", daemon=True)
        self.shards: weakref.WeakSet[Shard] = weakref.WeakSet()
        self.interval_s = MOST_S
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
    try:
        try:
            tend(shard)
        finally:
            shard.machine.consensus.close()  # this thread's connection
    except Exception as error:  # noqa: BLE001  # without this thread nobody would renew the leases of readers
        internal(error)  # tried again at the next beat; a reader gets an error of the store itself


_heart: list[_Heart] = []
_lock = fork.lock()


def beat(shard: Shard) -> Shard:
    """The same shard, its leases tended in the background for as long as it is referred to."""
    with _lock:
        if not _heart or not _heart[0].is_alive():
            _heart[:] = [_Heart()]
            _heart[0].start()
        _heart[0].shards.add(shard)
        shortest = min(one.config.lease_ms for one in _heart[0].shards) / 4000
        before, _heart[0].interval_s = _heart[0].interval_s, max(LEAST_S, min(MOST_S, shortest))
        if _heart[0].interval_s < before:
            _heart[0].sooner.set()
    return shard
