"""Whether the query that this thread works for is over: what a kernel that can take long asks now and then.

    with cancellable(watch.check):      whoever runs a statement, or a piece of it in another thread
        …
    check()                             a kernel, between pieces of work: raises when the statement is to end

A kernel is a pure function of its arguments, and the clock is none of them: so the check is a context variable. Where
nobody set one, `check` does nothing.

>>> list(checked("ab"))
['a', 'b']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

_current: ContextVar[Callable[[], None] | None] = ContextVar("tidegate_cancel_check", default=None)


def check() -> None:
    """Raises if the statement is cancelled, or takes longer than it may."""
    found = _current.get()
    if found is not None:
        found()


def checked(items: Iterable[T], every: int = 256) -> Iterator[T]:
    """The same items, with a check before the first and after each `every`: for loops over rows or letters."""
    found = _current.get()
    if found is None:
        yield from items
        return
    for i, item in enumerate(items):
        if i % every == 0:
            found()
        yield item


@contextmanager
def cancellable(ask: Callable[[], None] | None) -> Iterator[None]:
    """What `check` calls in here; None leaves it as it is."""
    if ask is None:
        yield
        return
    token = _current.set(ask)
    try:
        yield
    finally:
        _current.reset(token)
