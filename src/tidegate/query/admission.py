"""Whose turn it is: a bounded number of peeks at the same time, and those who wait are served in the order in which they came.

    with turns.take(question.config.peeks_at_once, question.watch):
        …

Fast-path reads run in the process that serves everyone else. One client with a thousand of them must not keep others waiting
for long, nor fill the memory; whoever waits can still be cancelled.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.scan.watch import Watch

_POLL_S = 0.02


class Turns:
    """A queue with several counters. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._waiting: deque[object] = deque()
        self._running = 0

    @property
    def running(self) -> int:
        """How many have their turn."""
        return self._running

    @property
    def waiting(self) -> int:
        """How many wait for it."""
        return len(self._waiting)

    @contextmanager
    def take(self, most: int, watch: Watch) -> Iterator[None]:
        """Waits for a turn, with `most` at the same time, and gives it back at the end."""
        ticket = object()
        with self._lock:
            self._waiting.append(ticket)
            try:
                while self._waiting[0] is not ticket or self._running >= max(1, most):
                    watch.check()
                    self._lock.wait(_POLL_S)
            except BaseException:
                self._waiting.remove(ticket)
                self._lock.notify_all()
                raise
            self._waiting.popleft()
            self._running += 1
            self._lock.notify_all()
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                self._lock.notify_all()
