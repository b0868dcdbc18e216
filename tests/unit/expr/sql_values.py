"""The value of an SQL expression, for tables of expressions and the values that PostgreSQL 15 gave."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidegate.expr.evaluate.evaluator import Evaluation
from tidegate.expr.model.types import Type
from tidegate.sql.bind.query import bind_expression


def value(sql: str) -> Any:
    """The value of an expression without columns; `("error", message)` if it fails."""
    return values(sql, [], [], 1)[0]


def values(sql: str, columns: list[tuple[str, Type]], arrays: list[pa.Array], rows: int) -> list[Any]:
    """The value of an expression in each row."""
    found, errors = Evaluation(arrays, rows).of(bind_expression(sql, columns, 0))[0]
    messages = [None] * rows if errors is None else errors.to_pylist()
    return [v if m is None else ("error", m) for v, m in zip(found.to_pylist(), messages, strict=True)]
