"""The protocol of consensus stores: for each key a log, whose next number goes to exactly one writer.

The state of a shard is such a log. A writer that knows the newest entry proposes the next one. Of all concurrent writers one gets
True; the others read its entry and decide again. This compare-and-set is all the coordination that Tidegate needs.

| call | promise |
|---|---|
| `head` | the newest entry, or None |
| `compare_and_set(key, expected, data)` | adds entry `expected + 1` if `expected` is the newest (None: none yet) |
| `scan(key, first, limit)` | entries from number `first` on, in order |
| `truncate(key, before)` | removes the entries below `before`; the newest is never removed |
| `keys` | every key that has entries |
| `remove_log` | removes all entries of a key that nobody else uses |

A time-out of a compare-and-set is *indeterminate*: it may have happened. It raises `IndeterminateError`; the entry itself must
contain what its writer needs to recognise it later (`storage/shard/machine.py` puts a token into every entry).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tidegate import fork


class NumberedEntry(NamedTuple):
    """An entry of a log."""

    number: int
    data: bytes


class Consensus(Protocol):
    """Logs that grow by compare-and-set."""

    def head(self, key: str) -> NumberedEntry | None:
        """The newest entry."""
        ...

    def compare_and_set(self, key: str, expected: int | None, data: bytes) -> bool:
        """Adds the entry after `expected` if that is still the newest; returns whether it did."""
        ...

    def scan(self, key: str, first: int, limit: int = 1_000_000) -> list[NumberedEntry]:
        """Entries from number `first` on, at most `limit`."""
        ...

    def truncate(self, key: str, before: int) -> None:
        """Removes entries below number `before`, but never the newest."""
        ...

    def keys(self) -> list[str]:
        """Every key with entries, sorted."""
        ...

    def remove_log(self, key: str) -> None:
        """Removes all entries of a key, which nobody else may use: that of a probe."""
        ...

    def close(self) -> None:
        """Closes the connection of this thread, if there is one; the store can be used again afterwards."""
        ...


def next_number(expected: int | None) -> int:
    """The number of the entry after `expected`."""
    return 0 if expected is None else expected + 1


class MemoryConsensus:
    """Logs in a dictionary, for tests and for databases in memory."""

    def __init__(self) -> None:
        self._logs: dict[str, dict[int, bytes]] = {}
        self._lock = fork.lock()

    def head(self, key: str) -> NumberedEntry | None:
        """The newest entry."""
        with self._lock:
            log = self._logs.get(key)
            return NumberedEntry(max(log), log[max(log)]) if log else None

    def compare_and_set(self, key: str, expected: int | None, data: bytes) -> bool:
        """Adds the entry after `expected` if that is still the newest; returns whether it did."""
        with self._lock:
            log = self._logs.get(key)
            newest = max(log) if log else None
            if newest != expected:
                return False
            self._logs.setdefault(key, {})[next_number(expected)] = bytes(data)
            return True

    def scan(self, key: str, first: int, limit: int = 1_000_000) -> list[NumberedEntry]:
        """Entries from number `first` on, at most `limit`."""
        with self._lock:
            log = self._logs.get(key, {})
            return [NumberedEntry(number, log[number]) for number in sorted(log) if number >= first][:limit]

    def truncate(self, key: str, before: int) -> None:
        """Removes entries below number `before`, but never the newest."""
        with self._lock:
            log = self._logs.get(key, {})
            for number in [n for n in log if n < min(before, max(log))]:
                del log[number]

    def keys(self) -> list[str]:
        """Every key with entries, sorted."""
        with self._lock:
            return sorted(key for key, log in self._logs.items() if log)

    def remove_log(self, key: str) -> None:
        """Removes all entries of a key that nobody else uses."""
        with self._lock:
            self._logs.pop(key, None)

    def close(self) -> None:
        """Does nothing: there is no connection."""
