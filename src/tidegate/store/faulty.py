"""Any store, failing by a seed: before the work, after it, or not at all, and sometimes slowly.

    blob = FaultyBlob(MemoryBlob(), Faults(seed=7, before=0.1, after=0.1))

*Before* is an honest failure: nothing happened (`StoreError`). *After* is the cruel one: it was done, and is reported as
`IndeterminateError`, as when the answer of a server is lost. The same seed gives the same failures, so that a failing
simulation can be replayed exactly.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tidegate.errors import IndeterminateError, StoreError
from tidegate.store.blob import Blob, Entry
from tidegate.store.consensus import Consensus, Numbered

T = TypeVar("T")


@dataclass
class Faults:
    """How often calls fail; one generator for a whole simulation."""

    seed: int
    before: float = 0.05
    after: float = 0.05
    on: bool = True
    delay: Callable[[], None] | None = None
    """Called ahead of each call, to let others run first."""
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def around(self, work: Callable[[], T], changes: bool) -> T:
        """Runs `work`, or fails before or after it."""
        if self.delay is not None:
            self.delay()
        if not self.on:
            return work()
        dice = self.random.random()
        if dice < self.before:
            raise StoreError("planted failure: not done")
        result = work()
        if changes and dice < self.before + self.after:
            raise IndeterminateError("planted failure: done, but the answer was lost")
        return result


class FaultyBlob:
    """A blob store that fails by a seed."""

    def __init__(self, inner: Blob, faults: Faults) -> None:
        self.inner, self.faults = inner, faults

    def put(self, name: str, data: bytes) -> None:
        """As the inner store, or a failure."""
        self.faults.around(lambda: self.inner.put(name, data), changes=True)

    def create(self, name: str, data: bytes) -> bool:
        """As the inner store, or a failure."""
        return self.faults.around(lambda: self.inner.create(name, data), changes=True)

    def get(self, name: str) -> bytes | None:
        """As the inner store, or a failure."""
        return self.faults.around(lambda: self.inner.get(name), changes=False)

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """As the inner store, or a failure."""
        return self.faults.around(lambda: self.inner.get_ranges(name, ranges), changes=False)

    def read_into(self, name: str, starts: Sequence[int], targets: Sequence[memoryview]) -> None:
        """As the inner store, or a failure."""
        self.faults.around(lambda: self.inner.read_into(name, starts, targets), changes=False)

    def delete(self, name: str) -> None:
        """As the inner store, or a failure."""
        self.faults.around(lambda: self.inner.delete(name), changes=True)

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """As the inner store, or a failure."""
        return self.faults.around(lambda: self.inner.list(prefix), changes=False)


class FaultyConsensus:
    """A consensus that fails by a seed."""

    def __init__(self, inner: Consensus, faults: Faults) -> None:
        self.inner, self.faults = inner, faults

    def head(self, key: str) -> Numbered | None:
        """As the inner store, or a failure."""
        return self.faults.around(lambda: self.inner.head(key), changes=False)

    def compare_and_set(self, key: str, expected: int | None, data: bytes) -> bool:
        """As the inner store, or a failure."""
        return self.faults.around(lambda: self.inner.compare_and_set(key, expected, data), changes=True)

    def scan(self, key: str, first: int, limit: int = 1_000_000) -> list[Numbered]:
        """As the inner store, or a failure."""
        return self.faults.around(lambda: self.inner.scan(key, first, limit), changes=False)

    def truncate(self, key: str, before: int) -> None:
        """As the inner store, or a failure."""
        self.faults.around(lambda: self.inner.truncate(key, before), changes=True)

    def keys(self) -> list[str]:
        """As the inner store, or a failure."""
        return self.faults.around(self.inner.keys, changes=False)

    def close(self) -> None:
        """As the inner store."""
        self.inner.close()
