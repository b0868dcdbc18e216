"""What planning found out, kept for the next query that asks the same.

    of_parts(state.parts).get((what, as_of, schema.id, plan), make)      of the parts of a state
    file.known.get((schema.id, plan), make)                              of the pages of a part

A key names all that its value depends on, besides the parts or the file that it is kept with. These never change: a state with
other parts has another `Parts`, and what was kept with the old one goes with it. So nothing is ever out of date. Of each no more is
kept than what was asked for last.

>>> known = Known(most=2)
>>> [known.get(key, lambda: object()) is known.get(key, lambda: object()) for key in "abc"]
[True, True, True]
>>> len(known)
2
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from tidegate import fork
from tidegate.shard.parts import Parts

T = TypeVar("T")
MOST = 32
"""Values that are kept for the parts of a state."""
FEW = 2
"""Of these, the ones that are as long as there are parts."""


class Known:
    """The values that were asked for last. Threads may share it; two that ask for the same at once may both make it."""

    def __init__(self, most: int = MOST) -> None:
        """Nothing yet."""
        self._most = most
        self._made: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = fork.lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of this key, made if it is not there. It must not be changed."""
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                found: T = self._made[key]
                return found
        made = make()
        with self._lock:
            self._made[key] = made
            while len(self._made) > self._most:
                self._made.popitem(last=False)
        return made

    def __len__(self) -> int:
        return len(self._made)


def of_parts(parts: Parts) -> Known:
    """What is kept with the parts of a state."""
    with _lock:
        return _known.setdefault(parts, Known())


def of_each(parts: Parts) -> Known:
    """The same for arrays with an entry for every part, of which there may be a million."""
    with _lock:
        return _long.setdefault(parts, Known(FEW))


_known: weakref.WeakKeyDictionary[Parts, Known] = weakref.WeakKeyDictionary()
_long: weakref.WeakKeyDictionary[Parts, Known] = weakref.WeakKeyDictionary()
_lock = fork.lock()
