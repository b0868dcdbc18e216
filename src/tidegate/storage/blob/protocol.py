"""The protocol of blob stores, which hold named, immutable byte objects; and the store in memory.

Parts, rollups and segments are blobs. Each is written once, under a name that no one else uses, so no object is ever changed in
place:

| call | promise |
|---|---|
| `put` | all or nothing, durable when it returns; putting the same bytes again is harmless |
| `create` | the same, but only if no object has that name: of several concurrent callers exactly one gets True |
| `get`, `get_ranges`, `read_into` | the bytes that were put; None (for ranges an error) if no object has that name |
| `delete` | the object is gone when it returns; it need not exist |
| `list` | every object with that prefix, after a given name, with its size and the time it was written |
| `sweep_temporary` | removes what writers that were killed left behind |

A name consists of letters, digits and `-_.=/`. A failure raises `StoreError`, or its subclass `IndeterminateError` if the call
may have taken effect. Readers see a `put` as soon as it has returned; all stores that we use are consistent in that sense.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from tidegate import fork
from tidegate.clock import Clock, SystemClock
from tidegate.errors import CorruptError, MissingObject, StoreError

_NAME = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9_.=-]*(/[A-Za-z0-9_=-][A-Za-z0-9_.=-]*)*")


class BlobInfo(NamedTuple):
    """One object in a listing."""

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
        """Stores `data` if no object has that name; returns whether it did."""
        ...

    def get(self, name: str) -> bytes | None:
        """The bytes of the object with that name, or None."""
        ...

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each `(start, length)`, in one round trip where the store can."""
        ...

    def read_into(self, name: str, starts: Sequence[int], targets: Sequence[memoryview]) -> None:
        """Fills each target with the bytes that begin at its start, without a copy where the store can."""
        ...

    def delete(self, name: str) -> None:
        """Deletes the object with that name if it exists."""
        ...

    def list(self, prefix: str = "", after: str = "") -> Iterator[BlobInfo]:
        """Every object whose name begins with `prefix` and is greater than `after`, by name."""
        ...

    def sweep_temporary(self, older_than_s: float) -> int:
        """Removes temporary files of killed writers that are older than this, and returns how many."""
        ...


def check_name(name: str) -> str:
    """Returns `name` if every store can hold it; no such name leads out of the root of the store."""
    if not _NAME.fullmatch(name) or len(name) > 512:
        raise StoreError(f"{name!r} is not a name for an object", hint="letters, digits and -_.=/ only")
    return name


def missing_object(name: str) -> MissingObject:
    """The error for an object that should exist."""
    return MissingObject(
        f"object {name} is missing", hint="it was deleted from outside, or the store is not the one it was"
    )


def fill_targets(name: str, pieces: Sequence[bytes | memoryview], targets: Sequence[memoryview]) -> None:
    """Copies each piece to its target, which must have the same length."""
    for piece, target in zip(pieces, targets, strict=True):
        if len(piece) != len(target):
            raise truncated_object(name)
        target[:] = piece


def truncated_object(name: str) -> StoreError:
    """The error for an object that is shorter than expected."""
    return CorruptError(f"object {name} is shorter than it was", hint="restore the object from a copy")


class MemoryBlob:
    """Objects in a dictionary: for tests, and for databases that end with the process."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._lock = fork.lock()

    def put(self, name: str, data: bytes) -> None:
        """Stores `data`."""
        with self._lock:
            self._objects[check_name(name)] = (bytes(data), self._clock.now())

    def create(self, name: str, data: bytes) -> bool:
        """Stores `data` if no object has that name; returns whether it did."""
        with self._lock:
            if check_name(name) in self._objects:
                return False
            self._objects[name] = (bytes(data), self._clock.now())
            return True

    def get(self, name: str) -> bytes | None:
        """The bytes of the object with that name, or None."""
        stored = self._objects.get(check_name(name))
        return None if stored is None else stored[0]

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each `(start, length)`."""
        data = self.get(name)
        if data is None:
            raise missing_object(name)
        return [data[start : start + length] for start, length in ranges]

    def read_into(self, name: str, starts: Sequence[int], targets: Sequence[memoryview]) -> None:
        """Fills each target with the bytes that begin at its start."""
        ranges = [(start, len(target)) for start, target in zip(starts, targets, strict=True)]
        fill_targets(name, self.get_ranges(name, ranges), targets)

    def delete(self, name: str) -> None:
        """Deletes the object with that name."""
        with self._lock:
            self._objects.pop(check_name(name), None)

    def list(self, prefix: str = "", after: str = "") -> Iterator[BlobInfo]:
        """Every object whose name begins with `prefix` and is greater than `after`, by name."""
        with self._lock:
            infos = [
                BlobInfo(name, len(data), at)
                for name, (data, at) in self._objects.items()
                if name.startswith(prefix) and name > after
            ]
        yield from sorted(infos)

    def sweep_temporary(self, older_than_s: float) -> int:  # noqa: ARG002  # there is nothing to sweep
        """Memory has no temporary files."""
        return 0
