"""Methods of Tidegate's dataclasses are compiled at their first call: a command needs few.

    defer_methods()        before the modules of Tidegate are imported

`dataclasses` writes the text of each `__init__`, `__eq__`, `__hash__`, `__repr__` and `__setattr__`, and compiles it as the class
is made: for 300 classes that was 0.13 s, a third of `tidegate sql "SELECT 1"`, and most of these methods are never called. Here
each is a function that compiles the text at its first call and takes its own place in the class.

It replaces `dataclasses._create_fn` of Python 3.11 and 3.12. Later versions have no such function, compile all methods of a class
at once, and are left as they are. Classes of other libraries are compiled as always.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

Create = Callable[..., Any]


def defer_methods() -> bool:
    """From here on methods are compiled at their first call; whether this Python can do so."""
    create: Create | None = getattr(dataclasses, "_create_fn", None)
    if create is None:
        return False
    dataclasses._create_fn = deferring(create)  # type: ignore[attr-defined]  # no part of its public interface
    return True


def deferring(create: Create) -> Create:
    """The function that makes methods from texts, put off for modules of Tidegate."""

    def deferred(name: str, args: list[str], body: list[str], **scope: Any) -> Any:
        module = (scope.get("globals") or {}).get("__name__", "")
        if not module.startswith("tidegate."):
            return create(name, args, body, **scope)
        compiled: Any = None

        def method(self: Any, /, *given: Any, **named: Any) -> Any:
            nonlocal compiled
            if compiled is None:
                compiled = create(name, args, body, **scope)
                compiled.__qualname__ = method.__qualname__
                for owner in type(self).__mro__:
                    if owner.__dict__.get(name) is method:
                        setattr(owner, name, compiled)
            return compiled(self, *given, **named)

        method.__name__ = name
        return method

    return deferred
