"""A collection or a view as an ordinary DataFrame: what `db.table(name, spark)` returns.

    df = table(lake, "orders", spark)                  what is committed now
    df = table(lake, "orders", spark, as_of=ms)

The snapshot is pinned when the DataFrame is created. Everything derived from it reads the same snapshot, whenever it runs.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidegate.context import Context
from tidegate.query.display import NULL, PREVIEW, Cells, table_html
from tidegate.spark.engine import query
from tidegate.spark.read.relation import pin
from tidegate.storage.catalog import view_of
from tidegate.text import identifier


def table(lake: Context, name: str, spark: SparkSession, as_of: int | None = None) -> DataFrame:
    """Returns a collection or a view at a time; None: what is committed now."""
    if view_of(lake.item(name)) is not None:
        return query.query_frame(lake, spark, f"SELECT * FROM {identifier(name)}", as_of)
    return with_preview(pin(lake, name, as_of).frame(spark), name)


def with_preview(frame: DataFrame, name: str) -> DataFrame:
    """The same DataFrame, which notebooks show by its first rows; what is derived from it is not."""

    def shown() -> str:
        columns = frame.limit(PREVIEW).toArrow()
        rows = [[str(value) if value is not None else NULL for value in row] for row in _rows(columns)]
        numbers = tuple(pa.types.is_integer(t) or pa.types.is_floating(t) for t in columns.schema.types)
        note = f"(the first rows of {name}, as Spark reads it)"
        return table_html(Cells(tuple(columns.column_names), numbers, rows), note)

    frame._repr_html_ = shown  # type: ignore[method-assign]  # of this one alone
    return frame


def _rows(table: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
