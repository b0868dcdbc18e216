"""Where the time comes from.

Time in Tidegate is an int64 of milliseconds since 1970-01-01 UTC. Whatever needs the present (the time of a
batch, `mz_now()`, a lease) asks a `Clock` that it was given, never the machine, so that a test can stand at
any moment and move to another:

    clock = ManualClock(at=1_000)
    clock.now()          # 1000
    clock.advance(500)
    clock.now()          # 1500

A clock may go backwards, as the clocks of machines do. Who needs an order that never does takes it from a
shard's `upper`, not from here.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the present: `clock.now()` in ms since 1970."""

    def now(self) -> int:
        """The present, in milliseconds since 1970-01-01 UTC."""
        ...


class SystemClock:
    """The machine's wall clock: `SystemClock().now()`."""

    def now(self) -> int:
        """The present, in milliseconds since 1970-01-01 UTC, rounded down."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when it is set, in either direction.

    clock = ManualClock(1_767_225_600_000)
    db = tidegate.open("memory://", clock=clock)
    """

    def __init__(self, at: int = 0) -> None:
        self._at = at

    def now(self) -> int:
        """The time it was last set to."""
        return self._at

    def set(self, at: int) -> None:
        """Moves to `at`, which may lie in the past."""
        self._at = at

    def advance(self, milliseconds: int) -> None:
        """Moves on by `milliseconds`; a negative number moves back."""
        self._at += milliseconds

    def __repr__(self) -> str:
        return f"ManualClock(at={self._at})"
