"""Functions that only the planner makes.

`may pass(p)` is what a source may filter by when it takes the predicate p of a larger filter: true unless p
is surely False. A row for which p is NULL or fails must stay, because another predicate of the same AND
decides what becomes of it: with p NULL, an error of q makes the row fail; with p an error, q False makes it
go. So p is *copied* down as `may pass(p)` and asked again above, where the whole AND is known.

| p | q | p AND q | row after `may pass(p)` |
|---|---|---|---|
| false | anything | false | gone |
| null | error | error | stays, fails above |
| error | false | false | stays, goes above |
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.function import NEVER, scalar
from tidegate.expr.outcome import Outcome
from tidegate.expr.specs import Specs
from tidegate.expr.types import BOOL, Type


def may_pass_transfer(out: Type, a: Specs) -> Specs:
    """May pass over containers: false only where the condition may be false."""
    assert a.true is not None
    assert a.false is not None
    return Specs.boolean(np.logical_or.reduce(np.broadcast_arrays(a.true, a.null, a.error)), a.false)


@scalar(
    "may pass", (BOOL,), BOOL, lenient=True, sees_errors=True, hidden=True, errors=NEVER, stable=True,
    transfer=may_pass_transfer,
)  # fmt: skip
def may_pass(a: Outcome) -> pa.Array:
    """False if the condition is False; True if it is true, NULL or an error."""
    return pc.fill_null(a.values, True)
