"""Blob: a flat space of named, immutable byte objects. The protocol, and the memory one.

Parts, rollups and frame segments are blobs. Each is written once under a name that nobody else uses, so that nothing here needs
to be changed in place:

| call | promise |
|---|---|
| `put` | all or nothing, durable when it returns; putting the same bytes again is harmless |
| `create` | likewise, but only if there is nothing by that name: of many racers exactly one is told True |
| `get`, `get_ranges`, `read_into` | the bytes that were put; None (an error, for ranges) if there is nothing by that name |
| `delete` | gone when it returns; deleting what is not there is fine |
| `list` | every object with that prefix, from a name on if one is given, with its size and the time it was written |

A name is made of letters, digits and `-_.=/`. A failure raises `StoreError`; when it may or may not have happened, its subclass
`IndeterminateError`. Readers see a `put` as soon as it returned (every store we use is consistent in that sense).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from tidegate import fork
from tidegate.clock import Clock, SystemClock
from tidegate.errors import CorruptError, StoreError

_NAME = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9_.=-]*(/[A-Za-z0-9_=-][A-Za-z0-9_.=-]*)*")


class Entry(NamedTuple):
    """An object as `list` sees it."""

    name: str
    size: int
    written: int
    """When it was written, in ms since 1970, by the store's clock."""


class Blob(Protocol):
    """A store of named, immutable byte objects."""

    def put(self, name: str, data: bytes) -> None:
        """Stores `data` durably, all of it or none."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Stores `data` if there is nothing by that name; whether it did."""
        ...

    def get(self, name: str) -> bytes | None:
        """The bytes by that name, or None."""
        ...

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each `(start, length)`, in one round trip where the store can."""
        ...

    def read_into(self, name: str, starts: Sequence[int], targets: Sequence[memoryview]) -> None:
        """Fills each target with the bytes from its start on: like `get_ranges`, without a copy where the store can."""
        ...

    def delete(self, name: str) -> None:
        """Removes what is by that name, if there is anything."""
        ...

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        """Every object whose name begins with `prefix` and is greater than `after`, by name."""
        ...


def checked(name: str) -> str:
    """`name`, if it is one that every store can hold; no name climbs out of the store's root."""
    if not _NAME.fullmatch(name) or len(name) > 512:
        raise StoreError(f"{name!r} is not a name for an object", hint="letters, digits and -_.=/ only")
    return name


class Missing(StoreError):  # noqa: N818  # reads as what it is
    """An object that should be there is not."""


def missing(name: str) -> Missing:
    """The error for an object that should be there."""
    return Missing(
        f"object {name} is missing", hint="it was deleted from outside, or the store is not the one it was"
    )


def fill(name: str, pieces: Sequence[bytes | memoryview], targets: Sequence[memoryview]) -> None:
    """Copies each piece to its target, which it must fill."""
    for piece, target in zip(pieces, targets, strict=True):
        if len(piece) != len(target):
            raise short(name)
        target[:] = piece


def short(name: str) -> StoreError:
    """The error for an object that ends before it should."""
    return CorruptError(f"object {name} is shorter than it was", hint="restore the object from a copy")


class MemoryBlob:
    """Blobs in a dictionary: for tests, and for databases that need not outlive the process."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._lock = fork.lock()

    def put(self, name: str, data: bytes) -> None:
        """Stores `data`."""
        with self._lock:
            self._objects[checked(name)] = (bytes(data), self._clock.now())

    def create(self, name: str, data: bytes) -> bool:
        """Stores `data` if there is nothing by that name; whether it did."""
        with self._lock:
            if checked(name) in self._objects:
                return False
            self._objects[name] = (bytes(data), self._clock.now())
            return True

    def get(self, name: str) -> bytes | None:
        """The bytes by that name, or None."""
        found = self._objects.get(checked(name))
        return None if found is None else found[0]

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each `(start, length)`."""
        data = self.get(name)
        if data is None:
            raise missing(name)
        return [data[start : start + length] for start, length in ranges]

    def read_into(self, name: str, starts: Sequence[int], targets: Sequence[memoryview]) -> None:
        """Fills each target with the bytes from its start on."""
        ranges = [(start, len(target)) for start, target in zip(starts, targets, strict=True)]
        fill(name, self.get_ranges(name, ranges), targets)

    def delete(self, name: str) -> None:
        """Removes what is by that name."""
        with self._lock:
            self._objects.pop(checked(name), None)

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        """Every object whose name begins with `prefix` and is greater than `after`, by name."""
        with self._lock:
            found = [
                Entry(name, len(data), at)
                for name, (data, at) in self._objects.items()
                if name.startswith(prefix) and name > after
            ]
        yield from sorted(found)
