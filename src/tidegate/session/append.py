"""db.append: what comes from outside, made into what a shard takes.

Anything that speaks Arrow's C stream (a pandas or polars frame, a reader, a DuckDB relation) is a table too.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tidegate.errors import TypeMismatch
from tidegate.session.lake import Lake
from tidegate.shard.batch import Rows


def append(lake: Lake, name: str, rows: Any, at: int | None, diff: Any, token: str | None) -> int:
    """Appends rows to a table; the time they were given."""
    return lake.table(name).append(_rows(rows), at=milliseconds(at, "at"), diff=diff, token=token).at


def milliseconds(given: Any, what: str) -> int | None:
    """A time as Python gives it, or None."""
    try:
        return None if given is None else operator.index(given)
    except TypeError:
        raise TypeMismatch(
            f"{what} must be an integer, milliseconds since 1970, and is {type(given).__name__}"
        ) from None


def _rows(given: Any) -> Rows:
    if isinstance(given, pa.Table | pa.RecordBatch | Mapping):
        return given
    if hasattr(given, "__arrow_c_stream__"):
        return pa.table(given)
    if isinstance(given, list | tuple) and all(isinstance(column, pa.Array) for column in given):
        return list(given)
    raise TypeMismatch(
        f"rows must be an Arrow table, and are {type(given).__name__}",
        hint="or a mapping of column names to arrays or lists, or any data frame that gives Arrow",
    )
