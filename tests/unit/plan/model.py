"""What a plan means, row by row in plain Python, and random plans to try it on.

The functions are made here and not registered, so that these tests depend on no subject module: one that
never fails, one that fails on some rows with two different messages, and a dear one. Their kernels count the
rows they are given.
"""

import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import settings

from tidegate.expr.evaluate.evaluator import Evaluation
from tidegate.expr.model.build import call, literal
from tidegate.expr.model.function import ANYWHERE, CHEAP, HEAVY, NEVER, Function
from tidegate.expr.model.outcome import Outcome, failing, first_error, with_errors
from tidegate.expr.model.tree import Call, Column, Expr, substitute
from tidegate.expr.model.types import INT8, Type
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.run.safe_plan import PlanOutput, SafePlan

SEEN: dict[str, int] = {}
# Made once: without pandas and dateutil, pyarrow looks for both whenever it converts a Python value.
ZERO, ONE, TWO, SIXTY, NOTHING = (pa.scalar(value, pa.int64()) for value in (0, 1, 2, 60, None))


def _add(a: Any, b: Any) -> pa.Array:
    return pc.add(a, b)


def _inverse(a: Any) -> Outcome:
    SEEN["inverse"] = SEEN.get("inverse", 0) + len(a)
    zero = failing(pc.equal(a, ZERO), "division by zero")
    negative = failing(pc.less(a, ZERO), "cannot be negative")
    safe = pc.if_else(pc.greater(a, ZERO), a, ONE)
    return with_errors(pc.divide(SIXTY, safe), first_error(zero, negative))


def _dear(a: Any) -> pa.Array:
    SEEN["dear"] = SEEN.get("dear", 0) + len(a)
    return pc.if_else(pc.equal(a, TWO), NOTHING, pc.multiply(a, TWO))


ADD = Function("add", (INT8, INT8), INT8, _add, errors=NEVER, cost=CHEAP, stable=True)
INVERSE = Function("inverse", (INT8,), INT8, _inverse, errors=ANYWHERE, cost=CHEAP, stable=True)
DEAR = Function("dear", (INT8,), INT8, _dear, errors=NEVER, makes_null=True, cost=HEAVY)


def add(a: Expr, b: Expr) -> Expr:
    return Call(ADD, (a, b), INT8)


def inverse(a: Expr) -> Expr:
    return Call(INVERSE, (a,), INT8)


def dear(a: Expr) -> Expr:
    return Call(DEAR, (a,), INT8)


def col(index: int) -> Column:
    return Column(index, INT8)


@cache
def number(value: int) -> Expr:
    return literal(value, INT8)


ARITY = 3
Row = tuple[Any, ...]
Fate = tuple[dict[int, Row], dict[int, str]]
"""By the number of the row: what leaves for it, and why it failed."""


def arrays(rows: Sequence[Row], types: Sequence[Type] = (INT8,) * ARITY) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], type_.arrow) for i, type_ in enumerate(types)]


def reference(mfp: MapFilterProject, rows: Sequence[Row], now: int | None = None) -> Fate:
    """The three sentences of mfp.py's docstring, row by row, without any of the plan's own machinery."""
    values: list[Expr] = [Column(i, type_) for i, type_ in enumerate(mfp.inputs)]
    for expression in mfp.expressions:
        values.append(substitute(expression, values))
    batch = Evaluation(arrays(rows, mfp.inputs), len(rows), now)
    tests = list(map(_listed, batch.of(*(substitute(p, values) for p in mfp.predicates))))
    outputs = list(map(_listed, batch.of(*(values[column] for column in mfp.projection))))
    left: dict[int, Row] = {}
    failed: dict[int, str] = {}
    for i in range(len(rows)):
        answers = [test[i] for test in tests]
        errors = [error for _, error in answers if error is not None]
        verdicts = [value for value, _ in answers]
        if False in verdicts or (not errors and None in verdicts):
            continue
        if not errors:
            errors = [output[i][1] for output in outputs if output[i][1] is not None]
        if errors:
            failed[i] = min(errors)
        else:
            left[i] = tuple(output[i][0] for output in outputs)
    return left, failed


def _listed(outcome: Outcome) -> list[tuple[Any, str | None]]:
    values = outcome.values.to_pylist()
    errors = [None] * len(values) if outcome.errors is None else outcome.errors.to_pylist()
    return list(zip(values, errors, strict=True))


def run(mfp: MapFilterProject, columns: Sequence[pa.Array], rows: int, now: int | None = None) -> Fate:
    """The plan's own evaluation, in the same form."""
    got = SafePlan(mfp).evaluate(columns, rows, now)
    assert all(len(column) == len(got.selection) for column in got.columns)
    assert [column.type for column in got.columns] == [type_.arrow for type_ in mfp.types]
    leaving = zip(*(column.to_pylist() for column in got.columns), strict=True) if got.columns else None
    values = list(leaving) if leaving is not None else [()] * len(got.selection)
    return dict(zip(got.selection.tolist(), values, strict=True)), failed_in(got)


def failed_in(got: PlanOutput) -> dict[int, str]:
    return dict(zip(got.failures.rows.tolist(), got.failures.messages.to_pylist(), strict=True))


def run_both(first: MapFilterProject, second: MapFilterProject, rows: Sequence[Row]) -> Fate:
    """One plan, and then another on what leaves it; a row fails where it first does."""
    return after(SafePlan(first).evaluate(arrays(rows, first.inputs), len(rows)), [], second)


def after(got: PlanOutput, more: list[pa.Array], second: MapFilterProject) -> Fate:
    """What becomes of the rows that have left one plan, with `more` columns, in a second."""
    left, failed = run(second, [*got.columns, *more], len(got.selection))
    numbers = got.selection.tolist()
    return {numbers[i]: row for i, row in left.items()}, failed_in(got) | {
        numbers[i]: m for i, m in failed.items()
    }


# ---------------------------------------------------------------- random plans


class Random(random.Random):
    """Random plans and rows. Hypothesis could shrink them, but takes far longer than a run to make them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.name = seed

    def __repr__(self) -> str:
        return f"Random({self.name})"

    def number(self, columns: Sequence[Expr], depth: int = 3) -> Expr:
        inner = [self.number(columns, depth - 1) for _ in range(3)] if depth and self.random() < 0.6 else None
        if inner is None:
            return self.choice(columns) if self.random() < 0.75 else number(self.randint(-1, 3))
        first, second, _ = inner
        return self.choice(
            [add(first, second), add(first, first), inverse(first), dear(first), call("coalesce", *inner)]
        )

    def condition(self, columns: Sequence[Expr], depth: int = 1) -> Expr:
        if depth and self.random() < 0.3:
            return call(self.choice(["and", "or"]), *(self.condition(columns, 0) for _ in range(2)))
        first, second = self.number(columns, 2), self.number(columns, 2)
        simple = call("is null", first) if self.random() < 0.15 else call(self.choice("<=>"), first, second)
        return call("not", simple) if self.random() < 0.15 else simple

    def plan(self, arity: int = ARITY) -> MapFilterProject:
        """A few steps, each over the columns that leave so far."""
        mfp = MapFilterProject.identity((INT8,) * arity)
        for step in self.choices("mffp", k=self.randint(0, 5)):
            leaving = [col(i) for i in range(len(mfp.projection))]
            if step == "m":
                mfp = mfp.map(self.number(leaving))
            elif step == "f":
                mfp = mfp.filter(self.condition(leaving))
            else:
                mfp = mfp.project(self.choices(range(len(leaving)), k=self.randint(1, 4)))
        return mfp

    def rows(self, most: int = 16) -> list[Row]:
        count = self.randint(0, most)
        return [tuple(self.choices([None, -1, 0, 1, 2, 3, 60], k=ARITY)) for _ in range(count)]


def cases(share: int = 1) -> Iterator[Random]:
    """`share` times as many cases as hypothesis would try: 100, or 5,000 in `make prove`.

    The first 40 find each of these lies: predicates moved in take.py instead of copied, maps that may fail
    moved, NULL rows cut away in safe.py, a tier of predicates forgotten.
    """
    return map(Random, range(settings().max_examples * share))
