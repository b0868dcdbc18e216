"""Tidegate on Spark: every DataFrame of a collection prunes, every DataFrame can be written. The only room that imports pyspark.

tidegate.spark.register(spark)      makes format("tidegate") known to a session, as db.attach(spark) does
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Makes `format("tidegate")` known to a session: see `source.py`."""
    # Each task imports this package, and should not import all of it.
    from tidegate.spark import source

    source.register(spark)
