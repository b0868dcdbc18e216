"""Logs in the blob store itself: a log is a folder of numbered objects, each created once.

    log/<key>/00000000000000000007       entry 7
    floor/<key>/00000000000000000007     entries below 7 were truncated, or are about to be

Creating an object that does not exist yet is the one conditional write that memory, files, S3, GCS and Azure all have, and it is
enough: the writer that creates number 8 has won number 8. No database is needed beside the bucket, and no clock is used.

**Truncation leaves holes, and a hole can be filled again.** A writer reads that 7 is the newest, and pauses. Others write 8 to
200 and truncate below 200. The writer continues and creates 8, which does not exist any more. Two facts distinguish such a
*stray* from an entry that won:

1. The newest entry is never removed. So as long as no entry follows an entry, no entry below it can have been removed.
2. A floor is created before any entry below it is removed, and the highest floor stays. So an entry that was read first, and is not
   below the floors that are listed afterwards, was never removed before it was read: it is the first with its number.

| call | requests | what counts |
|---|---|---|
| `compare_and_set` | read `expected`, create, list what follows | its success, if no entry follows it or no floor is above it |
| `scan`, nothing is new | list what follows | that there is nothing, because the newest entry would be listed |
| `scan` | list what follows, read it, list the floors | entries that no floor is above |

Strays are below a floor: readers skip them, and the next truncation removes them. Floors are created and never changed, so a late
truncation, or a request that arrives twice, cannot lower them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tidegate.errors import StoreError
from tidegate.storage.blob.protocol import Blob
from tidegate.storage.consensus.protocol import NumberedEntry, next_number

_DIGITS = 20
_FLOORS = "floor"


class LogConsensus:
    """Logs as numbered objects of a blob store. It caches nothing: each call reads the store."""

    def __init__(self, blob: Blob, folder: str = "log") -> None:
        self.blob, self.folder = blob, folder

    def head(self, key: str) -> NumberedEntry | None:
        """The newest entry."""
        while numbers := self._numbers(key):
            if entries := self.scan(key, numbers[-1], 1):
                return entries[0]
        return None

    def compare_and_set(self, key: str, expected: int | None, data: bytes) -> bool:
        """Adds the entry after `expected` if that is still the newest; returns whether it did."""
        # An entry that was never written, or was truncated, cannot be followed: there would be a gap.
        if expected is not None and self.blob.get(self._name(key, expected)) is None:
            return False
        number = next_number(expected)
        if not self.blob.create(self._name(key, number), data):
            return False
        return not self._numbers(key, number + 1) or self._floor(key) <= number

    def scan(self, key: str, first: int, limit: int = 1_000_000) -> list[NumberedEntry]:
        """Entries from number `first` on, at most `limit`."""
        if limit == 1:  # mostly the newest: then the floors need not be read
            entries = self._read(key, [first])
            if entries and self._numbers(key, first) == [first]:
                return entries
        first = first or self._floor(key)
        while numbers := self._numbers(key, first)[:limit]:
            entries = self._read(key, numbers)
            floor = self._floor(key)
            if floor <= first and len(entries) == len(numbers):
                return entries
            first = max(first, floor)  # entries below it may be missing or stray
        return []

    def truncate(self, key: str, before: int) -> None:
        """Removes entries below number `before`, but never the newest."""
        numbers = self._numbers(key)
        if not numbers or numbers[0] >= min(before, numbers[-1]):
            return
        before = min(before, numbers[-1])
        self.blob.create(self._name(key, before, _FLOORS), b"")
        floors = self._numbers(key, folder=_FLOORS)
        if not floors or floors[-1] < before:
            raise StoreError(
                f"{key}: the store did not keep what it said it had written; nothing was truncated"
            )
        self._delete(self._name(key, number) for number in numbers if number < before)
        self._delete(self._name(key, floor, _FLOORS) for floor in floors[:-1])

    def keys(self) -> list[str]:
        """Every key with entries, sorted."""
        names = (entry.name for entry in self.blob.list(f"{self.folder}/"))
        return sorted({name[len(self.folder) + 1 :].rpartition("/")[0] for name in names})

    def remove_log(self, key: str) -> None:
        """Removes all entries of a key that nobody else uses."""
        for folder in (self.folder, _FLOORS):
            self._delete([entry.name for entry in self.blob.list(f"{folder}/{key}/")])

    def close(self) -> None:
        """Does nothing: there is no connection."""

    def _read(self, key: str, numbers: Iterable[int]) -> list[NumberedEntry]:
        pairs = ((number, self.blob.get(self._name(key, number))) for number in numbers)
        return [NumberedEntry(number, data) for number, data in pairs if data is not None]

    def _floor(self, key: str) -> int:
        """The number below which entries do not count."""
        floors = self._numbers(key, folder=_FLOORS)
        return floors[-1] if floors else 0

    def _name(self, key: str, number: int, folder: str | None = None) -> str:
        return f"{folder or self.folder}/{key}/{number:0{_DIGITS}d}"

    def _numbers(self, key: str, first: int = 0, folder: str | None = None) -> list[int]:
        """The numbers of the entries that exist, from `first` on, in order."""
        prefix = f"{folder or self.folder}/{key}/"
        after = self._name(key, first - 1, folder) if first > 0 else ""
        tails = (entry.name[len(prefix) :] for entry in self.blob.list(prefix, after))
        return sorted(int(tail) for tail in tails if re.fullmatch(rf"\d{{{_DIGITS}}}", tail))

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            self.blob.delete(name)
