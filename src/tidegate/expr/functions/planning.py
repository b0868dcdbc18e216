"""Functions that only the planner creates.

`may pass(p)` is the condition by which a source may filter when it takes the predicate p of a larger filter: true
unless p is false. A row for which p is NULL or fails must stay, because another predicate q of the same AND decides:
if p is NULL, an error of q makes the row fail; if p fails, q = false drops the row. So p is *copied* down as
`may pass(p)` and evaluated again above, where the whole AND is known.

| p | q | p AND q | row after `may pass(p)` |
|---|---|---|---|
| false | anything | false | dropped |
| null | error | error | stays, fails above |
| error | false | false | stays, dropped above |
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.specs import Specs
from tidegate.expr.model.function import NEVER, scalar
from tidegate.expr.model.outcome import Outcome
from tidegate.expr.model.types import BOOL, Type


def may_pass_transfer(out: Type, a: Specs) -> Specs:
    """`may pass` over containers: false only where the condition may be false."""
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
