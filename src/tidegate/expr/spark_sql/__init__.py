"""The Spark SQL text of an expression, where Spark computes exactly the same.

A function declares its Spark form (`spark=`) as a template or a builder from `forms`; a function without one runs in our
evaluator instead. `literals` writes constants, `time_forms` holds the forms of dates and intervals. Nothing here imports pyspark.
The sub-room rests on `expr.model` and `expr.primitives`.
"""

from tidegate.expr.spark_sql.forms import ERROR_PREFIX
from tidegate.expr.spark_sql.literals import literal_sql

__all__ = ["ERROR_PREFIX", "literal_sql"]
