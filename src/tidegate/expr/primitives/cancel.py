"""The check by which long-running kernels notice that their statement is cancelled or out of time.

    with cancellable(token.check):      runs a statement, or a piece of it in another thread
        …
    check()                             in a kernel, between pieces of work: raises if the statement must end

A kernel is a pure function of its arguments, so the check is a context variable and not an argument. Without `cancellable`,
`check` does nothing.

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
    """Raises if the statement is cancelled or exceeds its time limit."""
    ask = _current.get()
    if ask is not None:
        ask()


def checked(items: Iterable[T], every: int = 256) -> Iterator[T]:
    """Yields `items` with a check before every `every`-th one, for loops over rows or characters."""
    ask = _current.get()
    if ask is None:
        yield from items
        return
    for i, item in enumerate(items):
        if i % every == 0:
            ask()
        yield item


@contextmanager
def cancellable(ask: Callable[[], None] | None) -> Iterator[None]:
    """Makes `check` call `ask` inside the block; None changes nothing."""
    if ask is None:
        yield
        return
    token = _current.set(ask)
    try:
        yield
    finally:
        _current.reset(token)
