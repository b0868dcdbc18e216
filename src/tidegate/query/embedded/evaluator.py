"""Expressions that DuckDB cannot express, evaluated by our own evaluator inside DuckDB's queries.

    calls = EvaluatorCalls(connection, now)
    calls.sql(expr, ["c0", "c1"])        "tg_1(c0, c1)"
    calls.failure                        the error of a row that failed, with the row's values
    calls.remove()                       forgets the functions, when the query is over

Behind the text is a function of DuckDB that takes Arrow arrays, some two thousand rows at a time. The whole expression is one
call: inside it CASE is lazy and AND follows our rules for errors.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from inspect import Parameter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import LimitError, TidegateError
from tidegate.expr.duckdb_sql import duckdb_type, from_duckdb, to_duckdb
from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import Column, Expr, permute, subexpressions, support, walk
from tidegate.plan.run import Failures
from tidegate.query.relational import replace_now
from tidegate.query.row_failures import row_error


class EvaluatorCalls:
    """The functions of one query in its DuckDB connection."""

    def __init__(self, connection: Any, now: int) -> None:
        self.connection, self.now = connection, now
        self.failure: BaseException | None = None
        """The first error of an expression."""
        self._names: list[str] = []

    def sql(self, expr: Expr, columns: Sequence[str]) -> str:
        """Registers a function for `expr` and returns a call; `columns[i]` is the text of column i."""
        read = sorted(support(expr))
        inner = replace_now(permute(expr, {column: i for i, column in enumerate(read)}), self.now)
        by_index = {node.index: node for node in walk(inner) if isinstance(node, Column)}
        inputs = [by_index[i] for i in range(len(read))]
        name = f"tg_{id(self):x}_{len(self._names)}"
        # A function without arguments would not know the number of rows.
        params = [duckdb_type(column.type) for column in inputs] or ["BOOLEAN"]
        self.connection.create_function(
            name, self._function(inner, inputs), params, duckdb_type(expr.type),
            type="arrow", null_handling="special", side_effects=bool(subexpressions.volatile_calls(inner)),
        )  # fmt: skip
        self._names.append(name)
        return f"{name}({', '.join(columns[at] for at in read) or 'true'})"

    def _function(self, expr: Expr, inputs: Sequence[Column]) -> Any:
        def run(*columns: Any) -> pa.Array:
            try:
                arrays = [
                    from_duckdb(_array(array), column.type)
                    for array, column in zip(columns, inputs, strict=False)
                ]
                values, errors = evaluate(expr, arrays, len(columns[0]), self.now)
                if errors is not None and errors.null_count < len(errors):
                    rows = pc.indices_nonzero(errors.is_valid())
                    names = [column.name or f"c{i}" for i, column in enumerate(inputs)]
                    raise row_error(Failures(rows.to_numpy(), errors.take(rows)), names, arrays)
                return to_duckdb(_array(values), expr.type)
            except (TidegateError, pa.ArrowException) as error:
                self.failure = self.failure or error
                raise

        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # DuckDB counts the parameters
            [Parameter(f"c{i}", Parameter.POSITIONAL_ONLY) for i in range(max(len(inputs), 1))]
        )
        return run

    def row_limit(self, limit: int) -> str:
        """Registers a condition that is true for `limit` rows and fails for the next, and returns a call."""
        count = 0

        def count_rows(rows: Any) -> pa.Array:
            nonlocal count
            count += len(rows)
            if count > limit:
                self.failure = self.failure or LimitError(
                    f"WITH RECURSIVE gave more than {limit:,} rows",
                    hint="add a condition that ends it; SET recursion_rows to a larger number if it does end",
                )
                raise self.failure
            return pa.repeat(pa.scalar(True), len(rows))

        name = f"tg_{id(self):x}_{len(self._names)}"
        self.connection.create_function(
            name, count_rows, ["BOOLEAN"], "BOOLEAN", type="arrow", null_handling="special", side_effects=True
        )
        self._names.append(name)
        return f"{name}(true)"

    def remove(self) -> None:
        """Forgets the functions."""
        for name in self._names:
            self.connection.remove_function(name)
        self._names.clear()


def _array(values: Any) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
