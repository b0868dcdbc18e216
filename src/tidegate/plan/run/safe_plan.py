"""SafePlan: runs a plan over a batch of rows, giving output columns, passing rows and failed rows.

    got = SafePlan(plan).evaluate([ids, payloads], rows=3, now=ms)
    got.columns           arrays of what leaves, one row for each row that passed
    got.selection         the number of the input row behind each of them
    got.failures          numbers and messages of the rows that failed; these are in none of the columns

Predicates are evaluated cheapest first, in tiers (CHEAP, MODERATE, HEAVY), the dear ones only on rows that
are still open. *Open* is every row that no predicate has called False: a row that is NULL or failed so far
must still be asked, since a later False beats both. The rows that are surely gone are cut away once they are
at least half of the batch, because cutting costs a copy of the columns. Take `#0 > 5 AND (#1 ->> 'n')::int4 =
1`:

| #0 | first tier | JSON asked? | `(#1 ->> 'n')::int4 = 1` | row |
|---|---|---|---|---|
| 3 | false | no | – | gone, even if the cast would fail |
| NULL | null | yes | error | failed |
| 9 | true | yes | true | passes |

Outputs are evaluated only for rows that pass; what the predicates have computed already is taken over, not
computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.evaluate import Evaluation, prerequisites
from tidegate.expr.model import (
    Call,
    Column,
    Cost,
    Expr,
    Kind,
    Literal,
    Outcome,
    outcome,
    subexpressions,
    support,
    to_bools,
    walk,
)
from tidegate.plan.mfp import MapFilterProject

_ANY_WIDTH = (Kind.TEXT, Kind.JSONB, Kind.BYTEA, Kind.ARRAY, Kind.RECORD)


@dataclass(frozen=True, eq=False)
class Failures:
    """The failed rows of a batch, by number and in order, with their messages."""

    rows: np.ndarray
    messages: pa.Array

    def __len__(self) -> int:
        return len(self.rows)


class PlanOutput(NamedTuple):
    """The output of a plan for one batch."""

    columns: list[pa.Array]
    selection: np.ndarray
    failures: Failures


@dataclass(frozen=True)
class SafePlan:
    """Evaluates a plan without `mz_now()`, or with a known value of it."""

    mfp: MapFilterProject

    @cached_property
    def _tiers(self) -> list[list[Expr]]:
        """The conditions by the most expensive function in each; JSON paths share a tier."""
        by_cost: dict[Cost, list[Expr]] = {}
        for condition in subexpressions.sort_conditions(self.mfp.conditions):
            by_cost.setdefault(_dearest(condition), []).append(condition)
        return [by_cost[tier] for tier in sorted(by_cost)]

    @cached_property
    def widens(self) -> bool:
        """Whether it computes values of unbounded width, such as `repeat(s, 1000)`."""
        return any(
            not isinstance(one, Column | Literal) and one.type.kind in _ANY_WIDTH for one in self.mfp.outputs
        )

    @cached_property
    def is_volatile(self) -> bool:
        """Whether equal rows may give different output, as by `random()`."""
        return bool(subexpressions.volatile_calls(*self.mfp.conditions, *self.mfp.outputs))

    def evaluate(
        self,
        columns: Sequence[pa.Array],
        rows: int,
        now: int | None = None,
        check: Callable[[], None] | None = None,
    ) -> PlanOutput:
        """Runs over `columns` of `rows` rows; undemanded columns may be None. `check` may raise to cancel."""
        batch = _Batch(columns, rows, now, check)
        for i, tier in enumerate(self._tiers):
            batch.ask(tier)
            rest = [condition for later in self._tiers[i + 1 :] for condition in later]
            open_ = batch.open()
            if len(open_) <= batch.rows // 2:
                batch = batch.cut(open_, (*rest, *self.mfp.outputs))
            if batch.rows == 0:
                break
        return batch.finish(self.mfp.outputs)


class _Batch:
    """The rows that are still open, and how they stand."""

    def __init__(
        self,
        columns: Sequence[pa.Array],
        rows: int,
        now: int | None,
        check: Callable[[], None] | None,
    ) -> None:
        self.rows = rows
        self.width = len(columns)
        self._evaluation = Evaluation(columns, rows, now, check)
        self._index: np.ndarray | None = None  # numbers in the first batch; None: still all of them
        self._state = Outcome(None)  # the AND so far: true, null, or an error; None: true for all
        self._asked: list[Expr] = []
        # What was computed before the last cut, written over the inputs, and the column that holds it now.
        self._carried: dict[Expr, Expr] = {}

    def ask(self, conditions: Sequence[Expr]) -> None:
        """ANDs more conditions to the state."""
        here = subexpressions.replace_subexpressions(conditions, self._carried)
        outcomes = self._evaluation.of(*here)
        self._asked += here
        from tidegate.expr.functions import and_  # on use: it declares all functions

        self._state = and_(*outcomes) if self._state.values is None else and_(self._state, *outcomes)

    def open(self) -> np.ndarray:
        """The rows that are not False."""
        values = self._state.values
        return _numbers(pc.fill_null(values, True) if values.null_count else values)

    def cut(self, keep: np.ndarray, wanted: Iterable[Expr]) -> _Batch:
        """Only the rows `keep`; of the columns and what is computed already, only what `wanted` asks for."""
        indices = pa.array(keep)
        asked = walk(*self._asked, below=prerequisites)
        known = [node for node in asked if isinstance(node, Call) and self._worth(node)]
        place: dict[Expr, Expr] = {node: Column(self.width + i, node.type) for i, node in enumerate(known)}
        here = subexpressions.replace_subexpressions(wanted, self._carried)
        needed = support(*subexpressions.replace_subexpressions(here, place))
        columns: list[pa.Array | None] = [
            self._evaluation.columns[i].take(indices) if i in needed else None for i in range(self.width)
        ]
        for i, node in enumerate(known):
            column = self._evaluation.of(node)[0].values.take(indices) if self.width + i in needed else None
            columns.append(column)
        new = _Batch(columns, len(keep), self._evaluation.now, self._evaluation.check)
        new._index = keep if self._index is None else self._index[keep]
        values, errors = self._state
        new._state = Outcome(_take(values, indices), _take(errors, indices))
        # Later questions are about the inputs: what a carried column stands for is written over them again.
        back = {column: node for node, column in self._carried.items()}
        new._carried = self._carried | {
            subexpressions.replace_subexpressions([node], back)[0]: column for node, column in place.items()
        }
        return new

    def _worth(self, node: Call) -> bool:
        """Whether a value is taken over and not computed again; errors have no column to be taken over in."""
        dear = _dearest(node) > Cost.CHEAP or node.function.volatile  # random() again would be another number
        return dear and self._evaluation.of(node)[0].errors is None

    def finish(self, outputs: Sequence[Expr]) -> PlanOutput:
        """Evaluates the outputs for the rows that pass."""
        values, errors = self._state
        passing = np.arange(self.rows) if values is None else _numbers(values)
        before = self._failures(errors, np.arange(self.rows))
        batch = self
        if len(passing) <= self.rows // 2:
            batch, passing = self.cut(passing, outputs), np.arange(len(passing))
        outcomes = batch._evaluation.of(*subexpressions.replace_subexpressions(outputs, batch._carried))
        wrong = outcome.first_error(*(output.errors for output in outcomes))
        after = batch._failures(wrong, passing)
        if wrong is not None:
            passing = passing[to_bools(wrong.is_null())[passing]]
        columns = [_pick(outcome.values, passing) for outcome in outcomes]
        return PlanOutput(columns, batch._first(passing), _merged(before, after))

    def _failures(self, errors: outcome.Errors, among: np.ndarray) -> Failures:
        """Those of the rows `among` that have failed."""
        if errors is None:
            return Failures(np.zeros(0, np.int64), pa.array([], pa.string()))
        failed = among[to_bools(errors.is_valid())[among]]
        return Failures(self._first(failed), errors.take(pa.array(failed)))

    def _first(self, rows: np.ndarray) -> np.ndarray:
        """Numbers in the first batch."""
        return rows if self._index is None else self._index[rows]


def _dearest(expr: Expr) -> Cost:
    return max((node.function.cost for node in walk(expr) if isinstance(node, Call)), default=Cost.CHEAP)


def _take(array: pa.Array | None, indices: pa.Array) -> pa.Array | None:
    return None if array is None else array.take(indices)


def _pick(values: pa.Array, rows: np.ndarray) -> pa.Array:
    """The values at these ascending rows; without a copy if the rows are contiguous and most of them."""
    if len(rows) == len(values):
        return values
    if len(rows) > len(values) // 2 and rows[-1] - rows[0] == len(rows) - 1:
        return values.slice(int(rows[0]), len(rows))
    return values.take(pa.array(rows))


def _numbers(mask: pa.Array) -> np.ndarray:
    """The rows where `mask` is true. Unpacking bits into numpy first would take ten times as long."""
    numbers: np.ndarray = pc.indices_nonzero(mask).to_numpy().astype(np.int64)
    return numbers


def _merged(a: Failures, b: Failures) -> Failures:
    if not len(a) or not len(b):
        return b if not len(a) else a
    rows = np.concatenate([a.rows, b.rows])
    order = np.argsort(rows, kind="stable")
    messages = pa.concat_arrays([a.messages, b.messages])
    return Failures(rows[order], messages.take(pa.array(order)))
