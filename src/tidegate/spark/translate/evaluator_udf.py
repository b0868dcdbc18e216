"""Expressions that Spark cannot express, evaluated by our own evaluator inside Spark queries.

    udf_sql(spark, expr, ["`payload`", "o.`total`"])        "tg_expr_5f0c…(`payload`, o.`total`)"

The text can stand wherever a Spark SQL expression can. Behind it is an Arrow UDF, which needs no pandas: batches of the columns
that the expression reads go to a Python worker, `expr/evaluate/evaluator.py` runs there, and its values return. That costs a copy
in each direction (research/spark.md §2: three to four times a scan), so `sql_of` prefers Spark SQL (`to_spark_sql.py`).

The whole expression is one call: inside it CASE is lazy and AND follows our rules for errors. A row that fails makes the query
fail; `task_errors.py` gives the driver the error with the row's values.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import Column, Expr, Type, permute, subexpressions, support, walk
from tidegate.plan.run import Failures
from tidegate.query import row_error
from tidegate.spark.arrow import from_spark, to_spark
from tidegate.spark.task_errors import errors_to_driver
from tidegate.spark.translate.to_spark_sql import spark_sql
from tidegate.spark.types import spark_type


def udf_sql(spark: SparkSession, expr: Expr, columns: Sequence[str], now: int | None = None) -> str:
    """Registers a UDF for `expr` and returns a call; `columns[i]` is the text of column i."""
    read = sorted(support(expr))
    inner = permute(expr, {column: i for i, column in enumerate(read)})
    by_index = {node.index: node for node in walk(inner) if isinstance(node, Column)}
    evaluator = Evaluator(
        inner,
        [by_index[i].type for i in range(len(read))],
        [by_index[i].name or columns[at].strip("`") for i, at in enumerate(read)],
        now,
    )
    name = f"tg_expr_{uuid4().hex}"

    def run(*arrays: pa.Array) -> pa.Array:
        return evaluator(*arrays)

    untyped: Any = arrow_udf  # its stubs lack functions whose annotations give the kind of UDF
    udf = untyped(run, spark_type(expr.type))
    spark.udf.register(name, udf.asNondeterministic() if subexpressions.volatile_calls(inner) else udf)
    # A UDF without arguments would not know the number of rows.
    return f"{name}({', '.join(columns[at] for at in read) or 'true'})"


class Evaluator:
    """An expression as a function of Spark's Arrow arrays, which can be sent to tasks."""

    def __init__(self, expr: Expr, types: Sequence[Type], names: Sequence[str], now: int | None) -> None:
        self.expr, self.types, self.names, self.now = expr, list(types), list(names), now

    @errors_to_driver()
    def __call__(self, *columns: pa.Array) -> pa.Array:
        """Evaluates the expression for each row; raises an `EvaluationError` if a row fails."""
        arrays = [from_spark(array, type_) for array, type_ in zip(columns, self.types, strict=False)]
        values, errors = evaluate(self.expr, arrays, len(columns[0]), self.now)
        if errors is not None and errors.null_count < len(errors):
            rows = pc.indices_nonzero(errors.is_valid())
            first = Failures(rows.to_numpy(), errors.take(rows))
            raise row_error(first, self.names, arrays)
        return to_spark(values, self.expr.type)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (pickle.dumps((self.expr, self.types, self.names, self.now)),)


def _unpickle(data: bytes) -> Evaluator:
    return Evaluator(*pickle.loads(data))  # noqa: S301  # made by __reduce__


def sql_of(spark: SparkSession, expr: Expr, columns: Sequence[str], now: int | None = None) -> str:
    """Returns `expr` as Spark SQL if Spark can express it exactly, else as a call of our evaluator."""
    return spark_sql(expr, columns) or udf_sql(spark, expr, columns, now)
