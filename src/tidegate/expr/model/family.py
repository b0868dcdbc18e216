"""Families of calls: calls that one pass over their common root evaluates together.

payload ->> 'a' = 'x' AND payload -> 'b' ->> 'c' = 'y'        both paths are read of payload, which is parsed once
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tidegate.expr.model.outcome import Outcome
from tidegate.expr.model.tree import Call, Expr


class Family(Protocol):
    """Calls that are evaluated together, such as all JSON paths into one column."""

    def root(self, call: Call) -> Expr | None:
        """The expression that `call` reads in the end; None if it cannot be shared."""
        ...

    def evaluate(self, root: Any, calls: Sequence[Call]) -> list[Outcome]:
        """The outcomes of `calls`, from the values of their common root."""
        ...
