"""Abstract interpretation: the Specs of an expression from the Specs of its columns.

    interpretation = Interpretation(columns, now=(as_of, until))
    interpretation.of(filter).verdict()          # NONE, SOME or ALL for each part

No function is known here by name: literals are exact, columns have the Specs of their statistics, `mz_now()` is the range of query
times, and a call follows its declaration (`transfer` if it has one, else its trend and errors, see `transfer.py`). One million
parts are one million entries of a few arrays: there is no loop over parts, and equal subexpressions are interpreted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import pyarrow as pa

from tidegate.expr.domain.specs import Specs
from tidegate.expr.domain.transfer import by_trend
from tidegate.expr.model.tree import Call, Column, Expr, Literal, Now, walk
from tidegate.expr.model.types import MZ_TIMESTAMP
from tidegate.expr.primitives.cancel import check


class Interpretation:
    """The Specs of any number of expressions over the same containers."""

    def __init__(
        self, columns: Sequence[Specs | None], now: tuple[int | None, int | None] = (None, None)
    ) -> None:
        """`columns[i]` describes column i (None: unknown); `now` is the inclusive range of `mz_now()`."""
        self.columns = columns
        self.now = now
        self._specs: dict[Expr, Specs] = {}

    def of(self, expr: Expr) -> Specs:
        """The Specs of `expr` in each container."""
        for node in walk(expr):
            if node not in self._specs:
                check()
                self._specs[node] = self._describe(node)
        return self._specs[expr]

    def _describe(self, node: Expr) -> Specs:
        match node:
            case Column(index, type_):
                specs = self.columns[index] if index < len(self.columns) else None
                return Specs.anything(type_) if specs is None else specs
            case Literal(value, type_):
                return Specs.literal(type_, value)
            case Call(function, args, type_):
                if function.volatile:
                    return Specs.anything(type_)
                described = [self._specs[arg] for arg in args]
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
