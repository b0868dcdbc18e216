"""Failing rows: their errors with the row's values, and when they make a query fail.

| query | fails |
|---|---|
| without LIMIT, with ORDER BY, or of groups | if any row fails that its filter does not surely drop |
| LIMIT n OFFSET m, without ORDER BY | if one fails and fewer than n + m others pass: any rows will do, those that fail last |
| LIMIT 0 | never: no row is asked for |

So whether a query fails depends on its rows alone: not on the order in which parts are read, nor on `fast_path`, `stats_filter`,
`late_materialization` or `audit`. Over rows 1, 2, 0 of d, `SELECT 10 / d FROM t LIMIT 2` is 10 and 5, and LIMIT 3 fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.errors import EvaluationError
from tidegate.plan.run import Failures


def row_error(
    failures: Failures, names: Sequence[str | None], columns: Sequence[pa.Array]
) -> EvaluationError:
    """The error of the first failed row, with the values of its named columns."""
    row = int(failures.rows[0])
    named = zip(names, columns, strict=True)
    values = {name: _value(column, row) for name, column in named if name is not None}
    return EvaluationError(failures.messages[0].as_py(), row=values)


@dataclass
class Failing:
    """How failing rows end a query: at once, or if `patient` only when other rows do not suffice."""

    patient: bool = False
    error: EvaluationError | None = None

    def meet(self, error: Callable[[], EvaluationError]) -> None:
        """A row has failed. Threads may meet several at the same time: any of them is an error of the query."""
        if not self.patient:
            raise error()
        if self.error is None:
            self.error = error()

    def check(self) -> None:
        """All rows were read and are not enough: if one has failed, so does the query."""
        if self.error is not None:
            raise self.error


def _value(column: pa.Array, row: int) -> object:
    try:
        return column[row].as_py()
    except (ValueError, OverflowError):
        return "?"  # a value that Python has no type for
