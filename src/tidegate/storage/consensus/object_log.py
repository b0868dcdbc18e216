"""Consensus in the blob store itself: a log is a folder of numbered objects, each created once.

    log/<key>/00000000000000000007       entry 7
    floor/<key>/00000000000000000007     entries below 7 were truncated, or are about to be

To create an object that is not there yet is the one conditional write that memory, files, S3, GCS and Azure all have, and it is
enough: whoever creates number 8 has won number 8. No database is needed beside the bucket, and nothing here looks at a clock.

**Truncation leaves holes, and a hole can be filled again.** A writer looks (7 is the newest), its machine sleeps, others write 8 to
200 and truncate below 200; the sleeper wakes up and creates 8, which is not there any more. Two facts tell such a *stray* from
an entry that won:

1. The newest entry is never removed. So as long as nothing is behind an entry, nothing below it can have been removed.
2. A floor is created before anything below it is removed, and the highest floor stays. So an entry that was read first, and is
   not below the floors that are listed afterwards, was never removed before it was read: it is the first of its number.

| call | requests | what is believed |
|---|---|---|
| `compare_and_set` | read `expected`, create, list what is behind | its success, if nothing is behind it or no floor above it |
| `scan`, nothing is new | list what is behind | that there is nothing, as the newest entry would be there |
| `scan` | list what is behind, read it, list the floors | what no floor is above |

Strays are below a floor: readers pass over them, and the next truncation removes them. Floors are created, never changed: one who
truncates late, or a request that arrives twice, cannot lower them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tidegate.errors import StoreError
from tidegate.store.blob import Blob
from tidegate.store.consensus import Numbered, following

_DIGITS = 20
_FLOORS = "floor"


class LogConsensus:
    """Logs as numbered objects of a blob store. It remembers nothing: the store is asked each time."""

    def __init__(self, blob: Blob, folder: str = "log") -> None:
        self.blob, self.folder = blob, folder

    def head(self, key: str) -> Numbered | None:
        """The newest entry."""
        while numbers := self._numbers(key):
            if entries := self.scan(key, numbers[-1], 1):
                return entries[0]
        return None

    def compare_and_set(self, key: str, expected: int | None, data: bytes) -> bool:
        """Adds the entry after `expected`, if that is still the newest; whether it did."""
        # What was never written, or was truncated, cannot be followed: there would be a gap.
        if expected is not None and self.blob.get(self._name(key, expected)) is None:
            return False
        number = following(expected)
        if not self.blob.create(self._name(key, number), data):
            return False
        return not self._numbers(key, number + 1) or self._floor(key) <= number

    def scan(self, key: str, first: int, limit: int = 1_000_000) -> list[Numbered]:
        """Entries from number `first` on, at most `limit`."""
        if limit == 1:  # mostly the newest: then it needs no look at the floors
            entries = self._read(key, [first])
            if entries and self._numbers(key, first) == [first]:
                return entries
        first = first or self._floor(key)
        while numbers := self._numbers(key, first)[:limit]:
            entries = self._read(key, numbers)
            floor = self._floor(key)
            if floor <= first and len(entries) == len(numbers):
                return entries
            first = max(first, floor)  # what is below it may be missing, or stray
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

    def close(self) -> None:
        """There is nothing to give back."""

    def _read(self, key: str, numbers: Iterable[int]) -> list[Numbered]:
        pairs = ((number, self.blob.get(self._name(key, number))) for number in numbers)
        return [Numbered(number, data) for number, data in pairs if data is not None]

    def _floor(self, key: str) -> int:
        """The number below which entries do not count."""
        floors = self._numbers(key, folder=_FLOORS)
        return floors[-1] if floors else 0

    def _name(self, key: str, number: int, folder: str | None = None) -> str:
        return f"{folder or self.folder}/{key}/{number:0{_DIGITS}d}"

    def _numbers(self, key: str, first: int = 0, folder: str | None = None) -> list[int]:
        """The numbers that are there, from `first` on, in order."""
        prefix = f"{folder or self.folder}/{key}/"
        after = self._name(key, first - 1, folder) if first > 0 else ""
        tails = (entry.name[len(prefix) :] for entry in self.blob.list(prefix, after))
        return sorted(int(tail) for tail in tails if re.fullmatch(rf"\d{{{_DIGITS}}}", tail))

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            self.blob.delete(name)
