"""Verdicts of a plan over whole parts, from their statistics: drop, take whole, or read.

    found = compute_verdicts(plan, columns, now=(as_of, until - 1), parts=n)
    found.verdict        NONE, SOME or ALL for each part, by the predicates together
    found.may_fail       parts in which some output may fail for some row
    found.by_condition   each predicate with its own verdicts, for EXPLAIN

NONE promises that no row of the part leaves the plan and none fails; ALL that every row passes the filter.
The predicates are combined as rows combine them (False beats an error), so one that is surely False drops a
part that another may fail in.

Outputs are evaluated only for rows that pass. So an output that may fail does not keep a part that no row
passes, but it does forbid to answer from metadata: `count(*)` over `SELECT 1 / a` must fail if the query
does. `answerable` says where neither is in the way. A temporal conjunct is an ordinary comparison here,
`mz_now()` being the range of times that is asked about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.expr.domain import Interpretation, Specs, Verdict, any_of
from tidegate.expr.model import Call, Expr, build, subexpressions, support
from tidegate.plan.mfp import MapFilterProject


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Of n parts, arrays of length n."""

    verdict: np.ndarray
    may_fail: np.ndarray
    by_condition: tuple[tuple[Expr, np.ndarray], ...]
    filter_may_fail: np.ndarray
    """Parts in which the filter as a whole may fail for some row."""

    @property
    def keep(self) -> np.ndarray:
        """The parts that must be read, or answered for."""
        kept: np.ndarray = self.verdict != Verdict.NONE
        return kept

    @property
    def answerable(self) -> np.ndarray:
        """The parts all of whose rows leave, each with success: counts and samples need no filter."""
        whole: np.ndarray = (self.verdict == Verdict.ALL) & ~self.may_fail
        return whole


def compute_verdicts(
    mfp: MapFilterProject,
    columns: Sequence[Specs | None],
    now: tuple[int | None, int | None] = (None, None),
    parts: int = 1,
) -> Verdicts:
    """Interprets the plan over the Specs of its inputs, `now` being the inclusive range of `mz_now()`."""
    conditions = subexpressions.sort_conditions(mfp.conditions)
    if parts == 0:  # what is one value for all parts has no size that fits none
        return Verdicts(
            np.zeros(0, np.int8),
            np.zeros(0, bool),
            tuple((c, np.zeros(0, np.int8)) for c in conditions),
            np.zeros(0, bool),
        )
    interpretation = Interpretation(columns, now)
    each = tuple((c, np.broadcast_to(interpretation.of(c).verdict(), parts)) for c in conditions)
    whole = interpretation.of(build.conjunction(conditions))
    verdict = np.broadcast_to(whole.verdict(), parts)
    errors = any_of([interpretation.of(output).error for output in _fallible(mfp)])
    return Verdicts(verdict, np.broadcast_to(errors, parts), each, np.broadcast_to(whole.error, parts))


def deciding_columns(mfp: MapFilterProject) -> frozenset[int]:
    """The columns whose Specs decide: those of conditions, and of outputs that can fail at all."""
    return support(*mfp.conditions, *_fallible(mfp))


def _fallible(mfp: MapFilterProject) -> list[Expr]:
    return [output for output in mfp.outputs if isinstance(output, Call) and subexpressions.may_fail(output)]
