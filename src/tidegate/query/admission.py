"""PeekSlots: bounds the number of concurrent fast-path reads; waiting reads are served in order.

    with request.peek_slots.acquire(request.config.peeks_at_once, request.cancel):
        …

Fast-path reads run in the process that serves everyone else. One client with a thousand of them must neither keep others waiting
for long nor fill the memory; a waiting read can still be cancelled.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.query.cancellation import CancelToken

_POLL_S = 0.02


class PeekSlots:
    """A fair semaphore whose size is given with each acquisition. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._waiting: deque[object] = deque()
        self._running = 0

    @property
    def running(self) -> int:
        """How many slots are in use."""
        return self._running

    @property
    def waiting(self) -> int:
        """How many reads wait for a slot."""
        return len(self._waiting)

    @contextmanager
    def acquire(self, most: int, cancel: CancelToken) -> Iterator[None]:
        """Waits for one of `most` slots, and releases it at the end."""
        ticket = object()
        with self._lock:
            self._waiting.append(ticket)
            try:
                while self._waiting[0] is not ticket or self._running >= max(1, most):
                    cancel.check()
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
