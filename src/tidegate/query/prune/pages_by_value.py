"""Pages that hold nothing, told by the values that are on them (`stats/roster.py`).

A condition over one column is asked of each of the column's values: what it says of a value it says of every row that has it. A
page whose values are all refused is dropped. Refused is what is False; and what is NULL, unless another condition may fail: a row
that is NULL by one condition fails if another fails, and that must be told.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from tidegate.errors import LimitError
from tidegate.expr.evaluate import Evaluation
from tidegate.expr.outcome import to_numpy
from tidegate.expr.tree import Expr, permute, support
from tidegate.expr.types import Type
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.optimise import may_fail
from tidegate.shard.part import from_storage
from tidegate.stats.roster import Roster, Rosters


def listed(
    plan: MapFilterProject, rosters: Rosters, ids: Sequence[int], types: Sequence[Type], now: int
) -> np.ndarray | None:
    """Of each page whether it may hold a row that passes; None: the values tell nothing."""
    conditions = plan.conditions
    careful = len(conditions) > 1 and may_fail(*conditions)
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


def _open(condition: Expr, roster: Roster, type_: Type, now: int, *, careful: bool) -> np.ndarray:
    """The values that the condition does not refuse."""
    values = from_storage(roster.values, type_)
    ((said, errors),) = Evaluation([values], len(values), now).of(condition)
    open_ = to_numpy(pc.fill_null(said, careful)).astype(bool)
    return open_ if errors is None else open_ | to_numpy(errors.is_valid()).astype(bool)
