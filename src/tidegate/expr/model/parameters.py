"""Parameters of functions that take more than one type.

@scalar("coalesce", (ANY_A,), …, variadic=True)      all arguments are brought to one type, A
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AnyType:
    """A parameter that takes any type; parameters with equal letters take one and the same type."""

    letter: str = "any"

    def __str__(self) -> str:
        return f"any{self.letter}" if self.letter != "any" else "any"


@dataclass(frozen=True)
class ArrayOf:
    """A parameter that takes an array whose element is the type of that letter."""

    letter: str

    def __str__(self) -> str:
        return f"any{self.letter}[]"


@dataclass(frozen=True)
class AsText:
    """A parameter that takes any type and receives it cast to text, as in `||` and concat."""

    def __str__(self) -> str:
        return "any"


@dataclass(frozen=True)
class AnyRecord:
    """A parameter that takes a record."""

    def __str__(self) -> str:
        return "record"
