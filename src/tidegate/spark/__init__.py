"""Spark: collections as DataFrames, DataFrames written to collections, queries and ingestion.

    tidegate.spark.register(spark)                           makes format("tidegate") known to a session, as db.attach(spark) does
    from tidegate.spark.session import session               finds or starts a session

`Database` calls the other functions of this page. This is the only room that imports pyspark; nothing imports this room before a
user asks for Spark.

| sub-room, module | |
|---|---|
| `session/` | finds or starts a Spark session and a Java runtime |
| `translate/` | expressions: Spark's Catalyst trees to ours, ours to Spark SQL or to a UDF |
| `read/` | a snapshot as a DataFrame: Spark reads the Parquet parts that our FileIndex lists, or our tasks scan them |
| `engine/` | queries of any shape: scans are pruned by us, the remaining operators run as Spark SQL |
| `write/` | `df.write` and `df.writeStream` |
| `tasks/` | ingestion and maintenance as Spark jobs; errors of tasks |
| `dataframes.py` | `db.table`: a collection or a view as a DataFrame |
| `temp_views.py` | `db.attach`: every collection as a temporary view |
| `data_source.py`, `target.py` | the data source `format("tidegate")` and its options |
| `connect_server.py` | Spark Connect: clients read collections through this process |
| `jvm.py`, `types.py`, `arrow.py` | Spark's classes behind py4j; our types and Arrow arrays as Spark's |

A query on Spark goes `db.sql` → `statements/general.py` (binds, pins snapshots, prunes) → `engine/query.py` →
`plan/sql/writer.py` (Spark SQL) → `engine/run.py`. A filter on a DataFrame of `db.table` goes Spark's planner →
`read/file_index.py` → `translate/filters.py` → `read/snapshot_index.py`, which returns the parts to read.

Functions import what they need when they are called: Spark imports this package in every Python process that it starts for a
stream or a task, and these need only a small share of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.context import Context
    from tidegate.query import CancelToken, Result
    from tidegate.query.relational import PinnedQuery
    from tidegate.spark.tasks.ingest import SparkIngestCrew
    from tidegate.spark.tasks.maintain import SparkCrew
    from tidegate.spark.temp_views import AttachedViews
    from tidegate.storage import Location
    from tidegate.storage.shard import Shard

__all__ = [
    "attach",
    "compaction_session",
    "ingest_crew",
    "maintenance_crew",
    "plan",
    "register",
    "select",
    "table",
]


def register(spark: SparkSession) -> None:
    """Makes `format("tidegate")` known to a session, for this thread."""
    from tidegate.spark import data_source

    data_source.register(spark)


def table(lake: Context, name: str, spark: SparkSession | None, as_of: int | None = None) -> DataFrame:
    """Returns a collection or a view as a DataFrame that reads one snapshot: at `as_of`, else the newest."""
    from tidegate.spark import dataframes
    from tidegate.spark.session import session

    return dataframes.table(lake, name, spark or session(), as_of)


def attach(lake: Context, spark: SparkSession | None) -> AttachedViews:
    """Creates a temporary view for each collection and view, and registers `format("tidegate")`."""
    from tidegate.spark import temp_views
    from tidegate.spark.session import session

    return temp_views.attach(lake, spark or session())


def select(lake: Context, pinned: PinnedQuery, watch: CancelToken) -> Result:
    """Runs a query of any shape on Spark."""
    from tidegate.spark.engine import query

    return query.select(lake, pinned, watch)


def plan(lake: Context, pinned: PinnedQuery, watch: CancelToken) -> str:
    """Returns Spark's plan of a query, as text."""
    from tidegate.spark.engine import query

    return query.plan(lake, pinned, watch)


def ingest_crew(spark: SparkSession | None, place: Location) -> SparkIngestCrew:
    """Returns workers that read a source as tasks of a session; None: the active one, or a new one."""
    from tidegate.spark.session import session
    from tidegate.spark.tasks.ingest import SparkIngestCrew

    return SparkIngestCrew(spark or session("local[*,4]"), place)


def maintenance_crew(spark: SparkSession, place: Location, what: str) -> SparkCrew:
    """Returns the workers that do maintenance as jobs of a session; `what` is what Spark's UI shows."""
    from tidegate.spark.tasks.maintain import SparkCrew

    return SparkCrew(spark, place, what)


def compaction_session(shard: Shard, place: Location, *, full: bool) -> SparkSession | None:
    """Returns the active session if a compaction is large enough for it; None: run it in this process."""
    from tidegate.spark.tasks.maintain import compaction_session

    return compaction_session(shard, place, full=full)
