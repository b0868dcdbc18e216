"""The one retry loop: how often something that fails is tried again, and how long to wait in between.

    RetryPolicy().call(lambda: blob.get(name), StoreError, unless=(ReadOnlyError, Missing))

>>> attempts = iter([OSError("reset"), OSError("reset"), 7])
>>> def answer():
...     result = next(attempts)
...     if isinstance(result, OSError):
...         raise result
...     return result
>>> RetryPolicy(times=3, first_s=0).call(answer, OSError)
7
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class RetryPolicy:
    """The number of attempts, and the pauses between them, which double from `first_s` to `longest_s`."""

    times: int = 8
    first_s: float = 0.01
    longest_s: float = 2.0
    steadiness: float = 0.5
    """The share of a pause that is not random. Randomness keeps rivals from meeting again at each attempt."""

    def wait(self, attempt: int) -> None:
        """Sleeps after a failed attempt; the first attempt is 0."""
        longest = min(self.first_s * 2 ** min(attempt, 60), self.longest_s)
        time.sleep(random.uniform(self.steadiness, 1.0) * longest)

    def call(
        self,
        work: Callable[[], T],
        retry_on: type[Exception],
        *,
        unless: tuple[type[Exception], ...] = (),
    ) -> T:
        """The result of `work`, which can be done twice without harm. Errors in `unless` are raised at once."""
        for attempt in range(self.times - 1):
            try:
                return work()
            except unless:
                raise
            except retry_on:
                self.wait(attempt)
        return work()


CONTENTION = RetryPolicy(times=100, first_s=0.002, longest_s=0.25, steadiness=0.0)
"""For writers that compete for one collection: one of them always wins, so that all of them finish."""
