"""Consensus in the blob store itself: a log is a folder of numbered objects, each created once.

    log/<key>/00000000000000000007       entry 7

To create an object that is not there yet is the one conditional write that memory, files, S3, GCS and Azure all have, and it is
enough: whoever creates number 8 has won number 8. No database is needed beside the bucket. Finding the newest entry is a listing,
which `truncate` keeps short; a hint in memory saves most of them.

One trap: a writer looks (7 is the newest), sleeps, others write 8 to 200 and truncate below 200, and the sleeper wakes up and
creates 8, which is not there any more: it would believe that it had won. So entries younger than `GRACE_S` are never
truncated, and a writer whose look and creation lie further apart than half of that does not believe its own success.

The same promise spares readers most listings: for half of that time after one, whatever came behind the newest entry is still
there, and asking for the next number by its name tells whether there is any.
"""

from __future__ import annotations

import re
import time

from tidegate import fork
from tidegate.errors import IndeterminateError
from tidegate.store.blob import Blob
from tidegate.store.consensus import Numbered, following

_DIGITS = 20
GRACE_S = 600.0


class LogConsensus:
    """Logs as numbered objects of a blob store."""

    def __init__(self, blob: Blob, folder: str = "log", grace_s: float = GRACE_S) -> None:
        self.blob, self.folder, self.grace_s = blob, folder, grace_s
        self._newest: dict[str, int] = {}
        self._listed: dict[str, tuple[int, float, float]] = {}
        """Of each key the number behind its newest entry, and when that was listed, by both clocks: either may stand still."""
        self._lock = fork.lock()

    def head(self, key: str) -> Numbered | None:
        """The newest entry."""
        number = self._find_newest(key)
        while number is not None:
            data = self.blob.get(self._name(key, number))
            if data is not None:
                return Numbered(number, data)
            number = self._find_newest(key)  # it was truncated between the listing and the reading
        return None

    def compare_and_set(self, key: str, expected: int | None, data: bytes) -> bool:
        """Adds the entry after `expected`, if that is still the newest; whether it did."""
        # An entry below the newest may be missing because it was truncated: it must not be created again.
        looked = time.monotonic()
        if self._find_newest(key) != expected:
            return False
        won = self.blob.create(self._name(key, following(expected)), data)
        if won and time.monotonic() - looked > max(self.grace_s, GRACE_S) / 2:
            raise IndeterminateError(f"entry {following(expected)} of {key} took too long to write")
        if won:
            self._remember(key, following(expected))
        return won

    def scan(self, key: str, first: int, limit: int = 1_000_000) -> list[Numbered]:
        """Entries from number `first` on, at most `limit`."""
        if self._is_end(key, first):
            return self._behind(key, first, limit)
        looked = time.monotonic(), time.time()
        there = self._numbers(key)
        if there:
            with self._lock:
                self._listed[key] = there[-1] + 1, *looked
        numbers = [number for number in there if number >= first][:limit]
        found = ((number, self.blob.get(self._name(key, number))) for number in numbers)
        return [Numbered(number, data) for number, data in found if data is not None]

    def _is_end(self, key: str, number: int) -> bool:
        """Whether the log ended before this number when it was listed, so short ago that nothing behind can be truncated yet."""
        with self._lock:
            end, monotonic, wall = self._listed.get(key, (-1, 0.0, 0.0))
        ages = time.monotonic() - monotonic, abs(time.time() - wall)
        return end == number and max(ages) < self.grace_s / 2

    def _behind(self, key: str, first: int, limit: int) -> list[Numbered]:
        """Entries from what was the end on, asked for by their names."""
        found: list[Numbered] = []
        while len(found) < limit and (data := self.blob.get(self._name(key, first + len(found)))) is not None:
            found.append(Numbered(first + len(found), data))
        with self._lock:
            end, *when = self._listed[key]
            self._listed[key] = max(end, first + len(found)), when[0], when[1]
        return found

    def truncate(self, key: str, before: int) -> None:
        """Removes entries below number `before`, but never the newest."""
        entries = list(self.blob.list(f"{self.folder}/{key}/"))
        newest = max((entry.written for entry in entries), default=0)
        for entry in sorted(entries)[:-1]:
            number = int(entry.name.rpartition("/")[2])
            # Ages are told by the store's own clock alone: ours may be wrong.
            if number < before and newest - entry.written >= self.grace_s * 1000:
                self.blob.delete(entry.name)

    def keys(self) -> list[str]:
        """Every key with entries, sorted."""
        names = (entry.name for entry in self.blob.list(f"{self.folder}/"))
        return sorted({name[len(self.folder) + 1 :].rpartition("/")[0] for name in names})

    def close(self) -> None:
        """There is nothing to give back."""

    def _name(self, key: str, number: int) -> str:
        return f"{self.folder}/{key}/{number:0{_DIGITS}d}"

    def _numbers(self, key: str) -> list[int]:
        prefix = f"{self.folder}/{key}/"
        tails = (entry.name[len(prefix) :] for entry in self.blob.list(prefix))
        return sorted(int(tail) for tail in tails if re.fullmatch(rf"\d{{{_DIGITS}}}", tail))

    def _find_newest(self, key: str) -> int | None:
        """The newest number: probed upwards from the last one seen, or listed."""
        known = self._newest.get(key)
        if known is not None and self.blob.get(self._name(key, known)) is not None:
            while self.blob.get(self._name(key, known + 1)) is not None:
                known += 1
        else:
            numbers = self._numbers(key)
            known = numbers[-1] if numbers else None
        if known is not None:
            self._remember(key, known)
        return known

    def _remember(self, key: str, number: int) -> None:
        with self._lock:
            self._newest[key] = max(number, self._newest.get(key, 0))
