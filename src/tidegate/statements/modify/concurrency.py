"""What others change while a DELETE or UPDATE runs: nothing is lost, and nothing is done twice.

The append commits only if the table's `upper` is still the one that was read: so what was read is what is there. If others were
faster, what they changed is read, and put through the filter:

| meanwhile, somebody | `UPDATE t SET n = n + 1 WHERE id > 5` |
|---|---|
| inserts (3, 0) | nothing passes: ours are still the rows to be changed, and are appended behind it |
| inserts (8, 0), or updates (6, 1) too | what passes concerns us: the rows are found again |
| adds a column | all is bound and read again |
| compacts a part with one of our rows | its rows have other positions now: they are found again |

All is read again, too, where following is not exact: if the filter reads floats or intervals (`query/prune/parts.py` says why), or
`mz_now()`, or rows end by themselves. Between two attempts a random while passes. One of those who compete always wins, so together
they come to an end. A statement that lost `retry.CONTENTION.times` times is a `ConflictError`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidegate.context import position_of
from tidegate.errors import ConflictError, TidegateError, TimeError
from tidegate.expr.model import support
from tidegate.plan.run import SafePlan
from tidegate.query import CancelToken, ScanRequest
from tidegate.statements.modify.change import ChangedTable, Modification, checked_size
from tidegate.storage import CONTENTION
from tidegate.storage.part import Block, concat
from tidegate.storage.shard import State, open_changes


class Moved(TidegateError):  # noqa: N818  # reads as what it is; never leaves this room
    """The table is not as it was read."""

    def __init__(self, upper: int) -> None:
        super().__init__("the table was changed meanwhile")
        self.upper = upper


class Attempts:
    """How often it was tried; the time between two attempts."""

    def __init__(self, given: Modification, watch: CancelToken) -> None:
        self.given, self.watch, self.lost = given, watch, 0

    def again(self) -> None:
        """Somebody was faster: waits a random while, or gives up."""
        self.lost += 1
        self.watch.check()
        if self.lost >= CONTENTION.times:
            raise ConflictError(
                f'concurrent changes of "{self.given.table.text}" made all {CONTENTION.times} attempts of this statement fail',
                hint="nothing was changed; try again, or with fewer concurrent writers",
                position=position_of(self.given.sql, self.given.table),
            )
        CONTENTION.wait(self.lost)


def check_unchanged(upper: int, schema: int, repaired: int, state: State) -> None:
    """Raises if the table is not the one that was read."""
    if (state.upper, state.schema.id, state.repaired) != (upper, schema, repaired):
        raise Moved(state.upper)


def changes_since(question: ScanRequest, table: ChangedTable, lower: int, upper: int) -> Block | None:
    """The rows others changed that pass or fail the filter; None if following is not exact."""
    snapshot, plan, schema = question.snapshot, question.plan, table.schema
    exact = all(plan.inputs[i].identity_is_equality for i in support(*plan.conditions))
    followed = exact and table.follows and snapshot.validity is None
    if not followed or lower == upper:  # the latter if only the columns are others
        return None
    filtering = SafePlan(plan.project(()))
    pieces = [
        Block([pa.array([], t.arrow) for t in plan.inputs], np.zeros(0, np.int64), np.zeros(0, np.int64))
    ]
    size = 0
    try:
        with open_changes(table.shard, lower, upper, repaired=snapshot.state.repaired) as changes:
            if changes.schema.id != schema.id:
                return None
            for block in changes.rows([column.id for column in schema.columns]):
                question.cancel.check()
                got = filtering.evaluate(block.columns, len(block), question.now)
                pieces.append(block.take(np.union1d(got.selection, got.failures.rows).astype(np.int64)))
                size += checked_size(question, pieces[-1].columns, size)
    except TimeError:
        return None  # these times can no longer be told apart
    return concat(pieces)
