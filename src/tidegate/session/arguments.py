"""Arguments of the API as Python gives them, made into what statements take; a TypeMismatch says what is expected.

text(5, "the name of a collection")       TypeMismatch: the name of a collection must be a text, and is int
"""

from __future__ import annotations

import operator
from typing import Any, TypeVar

from tidegate.errors import TypeMismatch

T = TypeVar("T")


def text(given: Any, what: str) -> str:
    """A text."""
    if not isinstance(given, str):
        raise TypeMismatch(f"{what} must be a text, and is {type(given).__name__}")
    return given


def whole_number(given: Any, what: str, meaning: str = "") -> int:
    """A whole number, and what it means."""
    try:
        return operator.index(given)
    except TypeError:
        raise TypeMismatch(f"{what} must be an integer{meaning}, and is {type(given).__name__}") from None


def instance(given: Any, kind: type[T], what: str) -> T:
    """Something of a class."""
    if not isinstance(given, kind):
        raise TypeMismatch(f"{what} must be a {kind.__name__}, and is {type(given).__name__}")
    return given


def milliseconds(given: Any, what: str) -> int | None:
    """A time, or None."""
    return None if given is None else whole_number(given, what, ", milliseconds since 1970")
