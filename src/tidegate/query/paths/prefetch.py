"""Several parts read at the same time, their rows handed out in the order of the parts.

    for taken in ahead([lambda: staged.read(a), lambda: staged.read(b), …], workers=2):
        …

Each job is run by a thread, which stops when what it has made ahead of its turn is not taken: `AHEAD` pieces, and of all jobs
together `ROOM` bytes, where it is known how large a piece is. So memory is bounded, whether there are two cores or sixty, and a
consumer that leaves stops all of them. The libraries that fetch, decode and compute let go of Python's lock while they work.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, Full, Queue
from typing import Generic, TypeVar

T = TypeVar("T")
AHEAD = 2
"""What a job may have made before it is taken."""
ROOM = 16 << 20
"""Bytes that all jobs may have made ahead; whose turn it is may have made one piece in any case."""
_POLL_S = 0.05
JOIN_S = 10.0
"""How long whoever stops waits for its threads: a kernel that is in the middle of something long ends by itself."""


class _Room:
    """Bytes that were made and not taken."""

    def __init__(self) -> None:
        self._free, self._used = threading.Condition(), 0

    def take(self, size: int, goes_on: Callable[[], bool], first: Callable[[], bool]) -> bool:
        """Waits for room; False: nobody wants it any more."""
        with self._free:
            while self._used and self._used + size > ROOM and not first():
                if not goes_on():
                    return False
                self._free.wait(_POLL_S)
            self._used += size
            return True

    def give(self, size: int) -> None:
        """It was taken."""
        with self._free:
            self._used -= size
            self._free.notify_all()


class _Job(Generic[T]):
    """One job in its thread, and what it has made."""

    def __init__(
        self,
        work: Callable[[], Iterable[T]],
        stop: threading.Event,
        room: _Room,
        weigh: Callable[[T], int] | None,
    ) -> None:
        self._work, self._stop, self._room, self._weigh = work, stop, room, weigh
        self._made: Queue[tuple[T, int] | BaseException | None] = Queue(AHEAD)
        self.first = False
        """Whether it is its turn."""
        self._thread = threading.Thread(target=self._run, name="tidegate read", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for one in self._work():
                size = 0 if self._weigh is None else self._weigh(one)
                if not self._room.take(size, lambda: not self._stop.is_set(), lambda: self.first):
                    return
                if not self._put((one, size)):
                    return
                del one
            self._put(None)
        except BaseException as error:  # noqa: BLE001  # whatever it is, the one who asked gets it
            self._put(error)

    def _put(self, made: tuple[T, int] | BaseException | None) -> bool:
        while not self._stop.is_set():
            try:
                self._made.put(made, timeout=_POLL_S)
            except Full:
                continue
            return True
        return False

    def results(self) -> Iterator[T]:
        """What it makes, as it makes it; what it raises is raised here."""
        self.first = True
        while True:
            try:
                made = self._made.get(timeout=_POLL_S)
            except Empty:
                continue
            if made is None:
                return
            if isinstance(made, BaseException):
                raise made
            self._room.give(made[1])
            yield made[0]
            del made

    def join(self) -> None:
        """Waits until the thread has ended, but not for ever."""
        self._thread.join(JOIN_S)


def ahead(
    jobs: Iterable[Callable[[], Iterable[T]]], workers: int, weigh: Callable[[T], int] | None = None
) -> Iterator[T]:
    """The results of all jobs, in order; up to `workers` jobs run at once. `weigh`: bytes of a result."""
    if workers <= 1:
        for job in jobs:
            yield from job()
        return
    stop, room, owner = threading.Event(), _Room(), threading.get_ident()
    waiting = iter(jobs)
    running: deque[_Job[T]] = deque()
    try:
        for _, work in zip(range(workers), waiting, strict=False):
            running.append(_Job(work, stop, room, weigh))
        while running:
            yield from running[0].results()
            running.popleft()
            following = next(waiting, None)
            if following is not None:
                running.append(_Job(following, stop, room, weigh))
    finally:
        stop.set()
        # In another thread it is Python that collects this, in the middle of anything: whoever waited there could hold a lock that
        # the jobs wait for, or be one of them.
        for one in running if threading.get_ident() == owner else ():
            one.join()
