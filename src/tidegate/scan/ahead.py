"""Several parts read at the same time, their rows handed out in the order of the parts.

    for taken in ahead([lambda: staged.read(a), lambda: staged.read(b), …], workers=2):
        …

Each job is run by a thread, which stops when what it has made ahead of its turn is not taken: so memory is bounded, and a consumer
that leaves stops all of them. The libraries that fetch, decode and compute let go of Python's lock while they work.
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
_POLL_S = 0.05


class _Job(Generic[T]):
    """One job in its thread, and what it has made."""

    def __init__(self, work: Callable[[], Iterable[T]], stop: threading.Event) -> None:
        self._work, self._stop = work, stop
        self._made: Queue[tuple[T] | BaseException | None] = Queue(AHEAD)
        self._thread = threading.Thread(target=self._run, name="tidegate read", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for one in self._work():
                if not self._put((one,)):
                    return
            self._put(None)
        except BaseException as error:  # noqa: BLE001  # whatever it is, the one who asked gets it
            self._put(error)

    def _put(self, made: tuple[T] | BaseException | None) -> bool:
        while not self._stop.is_set():
            try:
                self._made.put(made, timeout=_POLL_S)
            except Full:
                continue
            return True
        return False

    def results(self) -> Iterator[T]:
        """What it makes, as it makes it; what it raises is raised here."""
        while True:
            try:
                made = self._made.get(timeout=_POLL_S)
            except Empty:
                continue
            if made is None:
                return
            if isinstance(made, BaseException):
                raise made
            yield made[0]

    def join(self) -> None:
        """Waits until the thread has ended."""
        self._thread.join()


def ahead(jobs: Iterable[Callable[[], Iterable[T]]], workers: int) -> Iterator[T]:
    """All that the jobs make, in their order; up to `workers` of them run at the same time."""
    if workers <= 1:
        for job in jobs:
            yield from job()
        return
    stop = threading.Event()
    waiting = iter(jobs)
    running: deque[_Job[T]] = deque()
    try:
        for _, work in zip(range(workers), waiting, strict=False):
            running.append(_Job(work, stop))
        while running:
            yield from running[0].results()
            running.popleft()
            following = next(waiting, None)
            if following is not None:
                running.append(_Job(following, stop))
    finally:
        stop.set()
        for one in running:
            one.join()
