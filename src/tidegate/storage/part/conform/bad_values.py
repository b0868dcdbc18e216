"""Errors about values that do not fit a column: row, column, type and what to do.

db.append("t", {"id": [1, "x"]})

column "id" is int8, and row 1 of the batch (counted from 0) has 'x' of the type str
hint: convert the texts first, or read them by SQL: INSERT … VALUES ('…')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import VALUE, EvaluationError, TypeMismatch, shorten
from tidegate.expr.model import Kind, Type, outcome
from tidegate.storage.part.schema import SchemaColumn


def other_value(given: Any, column: SchemaColumn) -> TypeMismatch:
    """Names the first Python value that is not of the column's type."""
    message = f'column "{column.name}" is {column.type}, and '
    for row, value in enumerate(given if isinstance(given, Sequence) else ()):
        try:
            pa.array([value], column.type.arrow)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            shown = shorten(repr(value), VALUE)
            return TypeMismatch(
                f"{message}{place(row)} has {shown} of the type {type(value).__name__}",
                hint=_remedy(value, column.type),
            )
    return TypeMismatch(
        f"{message}got {type(given).__name__}", hint="pass an Arrow array or a list of values"
    )


def place(row: int) -> str:
    """How a row of a batch is called."""
    return f"row {row} of the batch (counted from 0)"


def _remedy(value: Any, type_: Type) -> str:
    """What to do with a Python value that does not fit a type."""
    match value, type_.kind:
        case _, Kind.JSONB:
            return "jsonb takes JSON text: json.dumps(value)"
        case str(), Kind.TIMESTAMPTZ | Kind.TIMESTAMP:
            return "datetime.fromisoformat(value) reads ISO 8601" + (
                "; it must name a time zone" if type_.kind is Kind.TIMESTAMPTZ else ""
            )
        case str(), Kind.DATE | Kind.TIME:
            return f"datetime.{type_.kind.value}.fromisoformat(value) reads ISO 8601"
        case str(), _:
            return "convert the texts first, or read them by SQL: INSERT … VALUES ('…')"
        case int(), _:
            return f"it is too large for {type_}; declare the column numeric or text, or correct the value"
        case _:
            return f"{type_} is stored as Arrow {type_.arrow}: pass values that Arrow converts to it"


def bad_value(
    message: str, column: SchemaColumn, array: pa.Array, bad: pa.Array, hint: str | None = None
) -> EvaluationError:
    """An error that names the first bad value and its row."""
    row = int(np.flatnonzero(pc.fill_null(bad, False).to_numpy(zero_copy_only=False))[0])
    value: object
    try:
        value = array[row].as_py()
    except (ValueError, OverflowError):
        value = str(outcome.integers(array)[row])  # Python has no such date
    where = f'it is in {place(row)}, column "{column.name}", {column.type}'
    return EvaluationError(
        message,
        row={column.name: value},
        hint=f"{where}; {hint or 'correct the value, or leave the row out'}",
    )
