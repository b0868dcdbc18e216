"""The error of a row that failed, with its values."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.errors import EvaluationError
from tidegate.plan.safe import Failures


def failed(failures: Failures, names: Sequence[str | None], columns: Sequence[pa.Array]) -> EvaluationError:
    """The error of the first row that failed, with its values; those of columns without a name are nobody's business."""
    row = int(failures.rows[0])
    named = zip(names, columns, strict=True)
    values = {name: _value(column, row) for name, column in named if name is not None}
    return EvaluationError(failures.messages[0].as_py(), row=values)


def _value(column: pa.Array, row: int) -> object:
    try:
        return column[row].as_py()
    except (ValueError, OverflowError):
        return "?"  # a value that Python has no type for
