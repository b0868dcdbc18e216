"""CancelToken: ends a query when it is cancelled, interrupted, or exceeds its time-out.

watch = CancelToken(timeout_ms=5_000)      users call the class `tidegate.Watch`
watch.check()            between pieces of work: raises when it is over
watch.cancel()           from any thread
with listening(watch):   a Ctrl-C in here ends it too, even one that Python drops; kernels in here ask it
(`expr/primitives/cancel.py`)

Python raises KeyboardInterrupt wherever the main thread happens to be. In a callback of a weak reference or a finaliser that is
reported and dropped, and Ctrl-C has no effect. So the token remembers it, and the next check raises it again.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tidegate.boundary import whole_number
from tidegate.errors import CancelledError, TypeMismatch
from tidegate.expr.primitives import cancellable


class CancelToken:
    """Cancels one query. Threads may share it.

    watch = tidegate.Watch(timeout_ms=500)
    db.sql("SELECT …", watch=watch)          another thread may call watch.cancel()
    """

    def __init__(self, timeout_ms: int = 0) -> None:
        """`timeout_ms`: 0 for none."""
        self.timeout_ms = whole_number(timeout_ms, "timeout_ms", ", milliseconds or 0 for none")
        if self.timeout_ms < 0:
            raise TypeMismatch(f"timeout_ms must be 0 or more, and is {timeout_ms}")
        self._end: float | None = None
        self.restart()
        self._cancelled = threading.Event()
        self.interrupted = False
        """Ctrl-C was pressed."""

    def cancel(self) -> None:
        """Ends the query at its next check."""
        self._cancelled.set()

    def pause(self) -> None:
        """Stops the time-out: the client has the rows that it asked for."""
        self._end = None

    def restart(self) -> None:
        """Starts the time-out anew: the client asks for more rows."""
        self._end = time.monotonic() + self.timeout_ms / 1000 if self.timeout_ms else None

    def check(self) -> None:
        """Raises if the query is cancelled or timed out."""
        if self.interrupted and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        if self._cancelled.is_set() or self.interrupted:
            raise CancelledError("the query was cancelled")
        end = self._end
        if end is not None and time.monotonic() >= end:
            raise CancelledError(
                f"the query took longer than {self.timeout_ms} ms",
                hint="SET statement_timeout_ms to a larger value, or to 0 for none",
            )


@contextmanager
def interruptible(watch: CancelToken) -> Iterator[None]:
    """Makes Ctrl-C cancel a query of the main thread, unless the user has set a handler."""
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        with cancellable(watch.check):
            yield
        return

    def heard(number: int, frame: FrameType | None) -> None:
        watch.interrupted = True
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, heard)
    try:
        with cancellable(watch.check):
            yield
        if watch.interrupted:
            raise KeyboardInterrupt
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
