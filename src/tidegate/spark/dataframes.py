"""A collection or a view as an ordinary DataFrame: what `db.table(name, spark)` returns.

    df = table(lake, "orders", spark)                  what is committed now
    df = table(lake, "orders", spark, as_of=ms)

The snapshot is pinned when the DataFrame is created. Everything derived from it reads the same snapshot, whenever it runs.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from tidegate.context import Context
from tidegate.spark.engine import query
from tidegate.spark.read.relation import pin
from tidegate.storage.catalog import view_of
from tidegate.text import identifier


def table(lake: Context, name: str, spark: SparkSession, as_of: int | None = None) -> DataFrame:
    """Returns a collection or a view at a time; None: what is committed now."""
    if view_of(lake.item(name)) is not None:
        return query.query_frame(lake, spark, f"SELECT * FROM {identifier(name)}", as_of)
    return pin(lake, name, as_of).frame(spark)
