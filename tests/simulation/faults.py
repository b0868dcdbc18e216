"""Any store, failing by a seed, in all the ways that stores, networks and client libraries have of not telling the truth.

    blob = FaultyBlob(MemoryBlob(), Faults(seed=7, often=0.1))

| fault | what happens | what is said |
|---|---|---|
| `NOT_DONE` | nothing | `StoreError` |
| `UNKNOWN` | it is done | `IndeterminateError`: the answer is lost |
| `ERROR` | it is done | `StoreError`: a server that fails after its work |
| `LOST` | it is done | "another was faster": a client library asks again, and meets its own first request |
| `TWICE` | it is done, and at once again | what the second one is told |
| `CLAIMED` | nothing | "done": a client library that takes another's object for its own first request |
| `LATE` | nothing yet; it is done ahead of some later call | `IndeterminateError`: the request is still on its way |

`LOST` and `CLAIMED` are of calls that tell who won; `CLAIMED` also of deletions. That a plain `put` was stored when the store says
so is the one thing that is taken on trust: nothing can be kept by a store that loses what it acknowledged.

The same seed gives the same failures, so that a failing simulation can be replayed exactly.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from tidegate.errors import IndeterminateError, StoreError
from tidegate.storage.blob.protocol import Blob, BlobInfo
from tidegate.storage.consensus.protocol import Consensus, NumberedEntry

T = TypeVar("T")


class Fault(Enum):
    """What goes wrong; see the module's docstring."""

    NOT_DONE = "not done, an error"
    UNKNOWN = "done, the answer is lost"
    ERROR = "done, an error"
    LOST = "done, reported as lost to another"
    TWICE = "done twice"
    CLAIMED = "not done, reported as done"
    LATE = "done later, the answer is lost"


CONTESTS = tuple(Fault)
"""Faults of what one wins: compare-and-set, create."""
CHANGES = (Fault.NOT_DONE, Fault.UNKNOWN, Fault.ERROR, Fault.TWICE, Fault.LATE)
DELETIONS = (*CHANGES, Fault.CLAIMED)
READS = (Fault.NOT_DONE,)


@dataclass
class Faults:
    """How often calls fail, and how; one generator for a whole simulation."""

    seed: int
    often: float = 0.1
    kinds: tuple[Fault, ...] = tuple(Fault)
    on: bool = True
    delay: Callable[[], None] | None = None
    """Called ahead of each call, to let others run first."""
    random: random.Random = field(init=False)
    planted: list[Fault] = field(default_factory=list)
    late: list[Callable[[], Any]] = field(default_factory=list)
    """Requests that are still on their way."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def around(self, work: Callable[[], T], possible: Sequence[Fault], done: T, lost: T) -> T:
        """Runs `work`, or fails in one of the `possible` ways; `done` and `lost` are what one is told who won, and who did not."""
        if self.delay is not None:
            self.delay()
        if not self.on:
            return work()
        if self.late and self.random.random() < 0.2:
            self.arrive()
        kinds = [kind for kind in possible if kind in self.kinds]
        # There are many more reads than changes, and a read that fails is only asked again.
        often = self.often / 8 if possible is READS else self.often
        if not kinds or self.random.random() >= often:
            return work()
        kind = self.random.choice(kinds)
        self.planted.append(kind)
        return self._fail(kind, work, done, lost)

    def _fail(self, kind: Fault, work: Callable[[], T], done: T, lost: T) -> T:
        match kind:
            case Fault.NOT_DONE:
                raise StoreError(f"planted: {kind.value}")
            case Fault.CLAIMED:
                return done
            case Fault.LATE:
                self.late.append(work)
                raise IndeterminateError(f"planted: {kind.value}")
            case Fault.TWICE:
                work()
                return work()
        work()
        if kind is Fault.LOST:
            return lost
        raise (IndeterminateError if kind is Fault.UNKNOWN else StoreError)(f"planted: {kind.value}")

    def arrive(self) -> None:
        """One of the requests that are on their way arrives; nobody hears of it."""
        request = self.late.pop(self.random.randrange(len(self.late)))
        with contextlib.suppress(StoreError):
            request()

    def arrive_all(self) -> None:
        """All of them do."""
        while self.late:
            self.arrive()


class FaultyBlob:
    """A blob store that fails by a seed."""

    def __init__(self, inner: Blob, faults: Faults) -> None:
        self.inner, self.faults = inner, faults

    def put(self, name: str, data: bytes) -> None:
        """As the inner store, or a fault."""
        self.faults.around(lambda: self.inner.put(name, data), CHANGES, None, None)

    def create(self, name: str, data: bytes) -> bool:
        """As the inner store, or a fault."""
        return self.faults.around(lambda: self.inner.create(name, data), CONTESTS, done=True, lost=False)

    def get(self, name: str) -> bytes | None:
        """As the inner store, or a fault."""
        return self.faults.around(lambda: self.inner.get(name), READS, None, None)

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """As the inner store, or a fault."""
        return self.faults.around(lambda: self.inner.get_ranges(name, ranges), READS, [], [])

    def read_into(self, name: str, starts: Sequence[int], targets: Sequence[memoryview]) -> None:
        """As the inner store, or a fault."""
        self.faults.around(lambda: self.inner.read_into(name, starts, targets), READS, None, None)

    def delete(self, name: str) -> None:
        """As the inner store, or a fault."""
        self.faults.around(lambda: self.inner.delete(name), DELETIONS, None, None)

    def list(self, prefix: str = "", after: str = "") -> Iterator[BlobInfo]:
        """As the inner store, or a fault."""
        return self.faults.around(lambda: self.inner.list(prefix, after), READS, iter(()), iter(()))

    def sweep_temporary(self, older_than_s: float) -> int:
        """As the inner store."""
        return self.inner.sweep_temporary(older_than_s)


class FaultyConsensus:
    """A consensus that fails by a seed."""

    def __init__(self, inner: Consensus, faults: Faults) -> None:
        self.inner, self.faults = inner, faults

    def head(self, key: str) -> NumberedEntry | None:
        """As the inner store, or a fault."""
        return self.faults.around(lambda: self.inner.head(key), READS, None, None)

    def compare_and_set(self, key: str, expected: int | None, data: bytes) -> bool:
        """As the inner store, or a fault."""
        work = lambda: self.inner.compare_and_set(key, expected, data)  # noqa: E731  # one line, as above
        return self.faults.around(work, CONTESTS, done=True, lost=False)

    def scan(self, key: str, first: int, limit: int = 1_000_000) -> list[NumberedEntry]:
        """As the inner store, or a fault."""
        return self.faults.around(lambda: self.inner.scan(key, first, limit), READS, [], [])

    def truncate(self, key: str, before: int) -> None:
        """As the inner store, or a fault."""
        self.faults.around(lambda: self.inner.truncate(key, before), DELETIONS, None, None)

    def keys(self) -> list[str]:
        """As the inner store, or a fault."""
        return self.faults.around(self.inner.keys, READS, [], [])

    def remove_log(self, key: str) -> None:
        """As the inner store, or a fault."""
        self.faults.around(lambda: self.inner.remove_log(key), DELETIONS, None, None)

    def close(self) -> None:
        """As the inner store."""
        self.inner.close()
