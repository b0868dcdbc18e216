"""Abstract interpretation: an expression and the Specs of its columns give the Specs of its result, for all parts at once.

    interpretation = Interpretation(columns, now=(as_of, until))
    interpretation.of(filter).verdict()          # NONE, SOME or ALL for each part

Nothing here knows any function: literals are exact, columns are what statistics say, `mz_now()` is the range of times asked
about, and a call asks its declaration (`transfer` if it has one, else its trend and errors, see `transfer.py`). One million
parts are one million entries of a few arrays; there is no loop over parts, and equal subexpressions are interpreted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import numpy as np
import pyarrow as pa

from tidegate.expr.cancel import check
from tidegate.expr.specs import Specs
from tidegate.expr.transfer import by_trend
from tidegate.expr.tree import Call, Column, Expr, Literal, Now, walk
from tidegate.expr.types import MZ_TIMESTAMP


class Interpretation:
    """The Specs of any number of expressions over the same containers."""

    def __init__(
        self, columns: Sequence[Specs | None], now: tuple[int | None, int | None] = (None, None)
    ) -> None:
        """`columns[i]` describes column i (None: nothing is known); `now` is the inclusive range of `mz_now()`."""
        self.columns = columns
        self.now = now
        self._known: dict[Expr, Specs] = {}

    def of(self, expr: Expr) -> Specs:
        """What `expr` may be in each container."""
        for node in walk(expr):
            if node not in self._known:
                check()
                self._known[node] = self._describe(node)
        return self._known[expr]

    def _describe(self, node: Expr) -> Specs:
        match node:
            case Column(index, type_):
                specs = self.columns[index] if index < len(self.columns) else None
                return Specs.anything(type_) if specs is None else specs
            case Literal(value, type_):
                return Specs.literal(type_, value)
            case Call(function, args, type_):
                described = [self._known[arg] for arg in args]
                if function.transfer is not None:
                    return function.transfer(type_, *described)
                if function.lenient:
                    return Specs.unknown(type_)
                return by_trend(function, described, type_)
            case Now():
                low, high = (pa.array([end], MZ_TIMESTAMP.arrow) for end in self.now)
                return Specs.ranged(MZ_TIMESTAMP, low, high)
            case _:
                assert_never(node)


def verdicts(
    expr: Expr, columns: Sequence[Specs | None], now: tuple[int | None, int | None], n: int
) -> np.ndarray:
    """A `Verdict` for each of n containers."""
    verdict = Interpretation(columns, now).of(expr).verdict()
    return np.broadcast_to(verdict, n) if len(verdict) != n else verdict
