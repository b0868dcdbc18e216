"""Expressions that Spark has no words for, evaluated by our own evaluator inside of its queries.

    udf_sql(spark, expr, ["`payload`", "o.`total`"])        "tg_expr_7(`payload`, o.`total`)"

The text can stand wherever a Spark SQL expression can. Behind it is an Arrow UDF, which needs no pandas: batches of the columns
that the expression reads go to a Python worker, `expr/evaluate.py` runs there, and what it gives comes back. That costs a copy each
way (research/spark.md §2: three to four times a scan), so `sql_of` asks `expression.py` for a text of Spark's own first.

The whole expression is one call: inside of it CASE is lazy, and AND knows errors, as everywhere in Tidegate. A row that fails makes
the query fail; `failure.told` gives the driver the error with the row's values.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from tidegate.expr.evaluate import evaluate
from tidegate.expr.tree import Column, Expr, permute, support, walk
from tidegate.expr.types import Type
from tidegate.plan.safe import Failures
from tidegate.scan.failed import failed
from tidegate.spark.arrow import from_spark, to_spark
from tidegate.spark.columns import spark_type
from tidegate.spark.expression import spark_sql

_numbers = itertools.count()


def udf_sql(spark: SparkSession, expr: Expr, columns: Sequence[str], now: int | None = None) -> str:
    """A call, in Spark SQL, that gives what `expr` is; `columns[i]` is the text of its column i, `now` what `mz_now()` is."""
    read = sorted(support(expr))
    inner = permute(expr, {column: i for i, column in enumerate(read)})
    known = {node.index: node for node in walk(inner) if isinstance(node, Column)}
    evaluator = Evaluator(
        inner,
        [known[i].type for i in range(len(read))],
        [known[i].name or columns[at].strip("`") for i, at in enumerate(read)],
        now,
    )
    name = f"tg_expr_{next(_numbers)}"

    def run(*given: pa.Array) -> pa.Array:
        return evaluator(*given)

    told: Any = arrow_udf  # its stubs know no function that says by its hints what it takes
    spark.udf.register(name, told(run, spark_type(expr.type)))
    # A call without arguments would not know how many rows there are.
    return f"{name}({', '.join(columns[at] for at in read) or 'true'})"


class Evaluator:
    """An expression as a function of Arrow arrays of Spark's. It can be sent to tasks."""

    def __init__(self, expr: Expr, types: Sequence[Type], names: Sequence[str], now: int | None) -> None:
        self.expr, self.types, self.names, self.now = expr, list(types), list(names), now

    def __call__(self, *given: pa.Array) -> pa.Array:
        """What the expression is for each row; an `EvaluationError` if one fails."""
        arrays = [from_spark(array, type_) for array, type_ in zip(given, self.types, strict=False)]
        values, errors = evaluate(self.expr, arrays, len(given[0]), self.now)
        if errors is not None and errors.null_count < len(errors):
            rows = pc.indices_nonzero(errors.is_valid())
            first = Failures(rows.to_numpy(), errors.take(rows))
            raise failed(first, self.names, arrays)
        return to_spark(values, self.expr.type)

    def __reduce__(self) -> tuple[Any, ...]:
        return _sent, (pickle.dumps((self.expr, self.types, self.names, self.now)),)


def _sent(data: bytes) -> Evaluator:
    return Evaluator(*pickle.loads(data))  # noqa: S301  # made by __reduce__


def sql_of(spark: SparkSession, expr: Expr, columns: Sequence[str], now: int | None = None) -> str:
    """Spark SQL of `expr`: in Spark's own words if it has them, else a call of our evaluator."""
    return spark_sql(expr, columns) or udf_sql(spark, expr, columns, now)
