"""Fast path for a plan over one dictionary-encoded column: evaluates each distinct value once.

    browser = DictionaryArray(indices [0, 1, 0, 0, 2 …], dictionary ['Firefox', 'Chrome', 'Safari'])
    browser LIKE '%fox'      asked of three texts, and the answer looked up for a million rows

Functions give the same for the same value, errors included, so this is what evaluating row by row gives.

>>> import pyarrow as pa
>>> from tidegate.expr.model.build import call
>>> from tidegate.expr.model.tree import Column, Literal
>>> from tidegate.expr.model.types import TEXT
>>> from tidegate.plan.mfp import MapFilterProject
>>> plan = SafePlan(MapFilterProject.identity((TEXT,)).filter(call("=", Column(0, TEXT), Literal(pa.scalar("b"), TEXT))))
>>> evaluate_coded(plan, pa.array(["a", "b", None, "b"]).dictionary_encode(), TEXT).selection.tolist()
[1, 3]
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidegate.expr.model import Type, to_numpy
from tidegate.plan.run.safe_plan import Failures, PlanOutput, SafePlan


def evaluate_dictionary(
    plan: SafePlan, column: pa.DictionaryArray, type_: Type, now: int | None = None
) -> PlanOutput:
    """What `plan.evaluate` gives for the column's values."""
    values = column.dictionary.cast(type_.arrow)
    codes = column.indices
    if codes.null_count:
        values = pa.concat_arrays([values, pa.nulls(1, type_.arrow)])
    code = to_numpy(codes, fill=len(values) - 1)
    got = plan.evaluate([values], len(values), now)
    passes, place = np.zeros(len(values), bool), np.zeros(len(values), np.int64)
    passes[got.selection], place[got.selection] = True, np.arange(len(got.selection))
    rows = np.flatnonzero(passes[code])
    at = pa.array(place[code[rows]])
    return PlanOutput(
        [output.take(at) for output in got.columns], rows, _failures(got.failures, code, len(values))
    )


def _failures(failures: Failures, code: np.ndarray, count: int) -> Failures:
    """The failures of values as those of rows."""
    if not len(failures):
        return failures
    fails, place = np.zeros(count, bool), np.zeros(count, np.int64)
    fails[failures.rows], place[failures.rows] = True, np.arange(len(failures))
    rows = np.flatnonzero(fails[code])
    return Failures(rows, failures.messages.take(pa.array(place[code[rows]])))
