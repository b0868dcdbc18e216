"""Evaluates a Python function row by row, for work that no vectorised kernel does.

    each_row(lambda number, pattern: …, pa.string(), numbers, patterns)

Equal arguments are computed once per batch, so a column of few distinct values costs little. A row whose function raises
`RowFailure` gets that message as its error.

>>> each_row(lambda a, b: a * b, pa.string(), pa.array(["x", None]), pa.scalar(3)).values.to_pylist()
['xxx', None]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tidegate.expr.model.outcome import Datum, Outcome, length, spread
from tidegate.expr.primitives.cancel import checked


class RowFailure(ValueError):  # noqa: N818  # its message becomes the error of a row
    """A row that has no value; the message is the row's error."""


def each_row(
    compute: Callable[..., Any], type_: pa.DataType, *args: Datum, strict: bool = True, batch: int = 256
) -> Outcome:
    """`compute` of the Python values of each row; with `strict`, NULL where any argument is NULL."""
    n = length(*args)
    columns = [spread(arg, n).to_pylist() for arg in args]
    known: dict[str, tuple[Any, str | None]] = {}
    values: list[Any] = []
    errors: list[str | None] = []
    for row in checked(zip(*columns, strict=True), every=batch):
        key = repr(row)  # 1, 1.0 and True are equal, and their texts are not
        if key not in known:
            known[key] = (None, None) if strict and None in row else _attempt(compute, row)
        value, error = known[key]
        values.append(value)
        errors.append(error)
    failed = any(error is not None for error in errors)
    return Outcome(pa.array(values, type_), pa.array(errors, pa.string()) if failed else None)


def _attempt(compute: Callable[..., Any], row: tuple[Any, ...]) -> tuple[Any, str | None]:
    try:
        return compute(*row), None
    except RowFailure as failure:
        return None, str(failure)
