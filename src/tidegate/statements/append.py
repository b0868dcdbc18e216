"""db.append: what comes from outside, made into what a shard takes.

Anything that speaks Arrow's C stream (a pandas or polars frame, a reader, a DuckDB relation) is a table too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tidegate.boundary import milliseconds, text
from tidegate.context import Context
from tidegate.errors import TypeMismatch
from tidegate.logs import ids
from tidegate.storage.maintain import maintain_in_steps
from tidegate.storage.part import TableLike


def append(context: Context, name: str, rows: Any, at: int | None, diff: Any, token: str | None) -> int:
    """Appends rows to a table; the time they were given."""
    token = None if token is None else text(token, "token")
    with ids(session=context.session_id):
        shard = context.table(name)
        done = shard.append(_rows(rows), at=milliseconds(at, "at"), diff=diff, token=token)
        maintain_in_steps(shard)
        return done.at


def _rows(given: Any) -> TableLike:
    if isinstance(given, pa.Table | pa.RecordBatch | Mapping):
        return given
    if hasattr(given, "__arrow_c_stream__"):
        return pa.table(given)
    if isinstance(given, list | tuple) and all(isinstance(column, pa.Array) for column in given):
        return list(given)
    if isinstance(given, list | tuple) and given and all(isinstance(row, Mapping) for row in given):
        hint = "pyarrow.Table.from_pylist(rows) makes a table of a list of dicts"
    else:
        hint = "or a mapping of column names to arrays or lists, or any data frame that gives Arrow"
    raise TypeMismatch(f"rows must be an Arrow table, and are {type(given).__name__}", hint=hint)
