"""The one cache class of Tidegate: least recently used entries go first, by count or by weight.

A cache is an attribute of the object that its values were computed from, so it ends with that object and no entry goes stale. A key
names everything else that the value depends on.

>>> cache = LruCache[str, str](2)
>>> [cache.get_or_compute(key, key.upper) for key in "abca"]
['A', 'B', 'C', 'A']
>>> cache.get("b"), cache.get("c"), len(cache)
(None, 'C', 2)

With a weight, such as the bytes of a value, entries go until the sum fits:

>>> cache = LruCache[str, str](max_weight=5, weigh=len)
>>> [cache.put(text, text) for text in ("abc", "de", "f")]
['abc', 'de', 'f']
>>> cache.get("abc"), len(cache)
(None, 2)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from tidegate import fork

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")


class LruCache(Generic[K, V]):
    """A thread-safe cache, usable in a forked child. It pickles as an empty cache with the same limits."""

    def __init__(
        self,
        max_entries: int | None = None,
        *,
        max_weight: int | None = None,
        weigh: Callable[[Any], int] | None = None,
    ) -> None:
        """Creates an empty cache; `weigh` gives the weight of a value, which must not change."""
        self.max_entries, self.max_weight, self._weigh = max_entries, max_weight, weigh
        self._entries: OrderedDict[K, Any] = OrderedDict()
        self._weight = 0
        self._lock = fork.lock()

    def get(self, key: K) -> V | None:
        """The cached value, or None."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            cached: V = self._entries[key]
            return cached

    def put(self, key: K, value: V) -> V:
        """Caches the value unless the key has one, and returns the one that is cached."""
        with self._lock:
            return self._put(key, value)

    def get_or_compute(self, key: K, compute: Callable[[], T], *, exclusive: bool = False) -> T:
        """The cached value, computed if there is none. Callers share it and must not change it.

        Two threads that miss at once both compute, and get the value of the first. With `exclusive` the second waits, as does
        everybody else who uses the cache; `compute` must then not use it.
        """
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                cached: T = self._entries[key]
                return cached
            if exclusive:
                return self._put(key, compute())
        value = compute()
        with self._lock:
            return self._put(key, value)

    def clear(self) -> None:
        """Drops all entries."""
        with self._lock:
            self._entries.clear()
            self._weight = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __reduce__(self) -> tuple[Any, ...]:
        return _empty, (self.max_entries, self.max_weight, self._weigh)

    def _put(self, key: K, value: T) -> T:
        if key not in self._entries:
            self._entries[key] = value
            self._weight += 0 if self._weigh is None else self._weigh(value)
        self._entries.move_to_end(key)
        cached: T = self._entries[key]
        while self._is_full():
            _, dropped = self._entries.popitem(last=False)
            self._weight -= 0 if self._weigh is None else self._weigh(dropped)
        return cached

    def _is_full(self) -> bool:
        too_many = self.max_entries is not None and len(self._entries) > self.max_entries
        return too_many or (self.max_weight is not None and self._weight > self.max_weight)


def _empty(
    max_entries: int | None, max_weight: int | None, weigh: Callable[[Any], int] | None
) -> LruCache[Any, Any]:
    return LruCache(max_entries, max_weight=max_weight, weigh=weigh)
