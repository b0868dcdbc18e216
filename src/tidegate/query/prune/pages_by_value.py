"""Prunes pages by the values they contain (`storage/stats/page_values.py`).

A condition over one column is evaluated once for each of the column's distinct values; the answer holds for every row with that
value. A page whose values are all rejected is pruned. A value is rejected if the condition is FALSE for it, or NULL when no other
condition can raise. If another condition can raise, NULL rows must be kept so that its error is reported.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from tidegate.errors import LimitError
from tidegate.expr.evaluate import Evaluation
from tidegate.expr.model import Expr, Type, permute, subexpressions, support, to_numpy
from tidegate.plan import MapFilterProject
from tidegate.storage.part import from_storage
from tidegate.storage.stats import PageValues, ValuePages


def prune_by_values(
    plan: MapFilterProject, rosters: PageValues, ids: Sequence[int], types: Sequence[Type], now: int
) -> np.ndarray | None:
    """Of each page whether it may hold a row that passes; None: the values tell nothing."""
    conditions = plan.conditions
    careful = len(conditions) > 1 and subexpressions.may_fail(*conditions)
    keep: np.ndarray | None = None
    for condition in conditions:
        columns = support(condition)
        if len(columns) != 1:
            continue
        (at,) = columns
        found = rosters.of(ids[at])
        if found is None:
            continue
        try:
            pages = found.on(_open(permute(condition, {at: 0}), found, types[at], now, careful=careful))
        except LimitError:  # other conditions may spare the rows for which it would make so much
            continue
        keep = pages if keep is None else keep & pages
    return keep


def _open(condition: Expr, roster: ValuePages, type_: Type, now: int, *, careful: bool) -> np.ndarray:
    """The values that the condition does not refuse."""
    values = from_storage(roster.values, type_)
    ((said, errors),) = Evaluation([values], len(values), now).of(condition)
    open_ = to_numpy(pc.fill_null(said, careful)).astype(bool)
    return open_ if errors is None else open_ | to_numpy(errors.is_valid()).astype(bool)
