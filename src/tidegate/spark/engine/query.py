"""Queries of any shape: bound and pruned by us, run by Spark.

    select(lake, pinned, watch)            a Result with path 'spark'
    plan(lake, pinned, watch)              how each scan is read, and Spark's plan
    query_frame(lake, spark, sql, as_of)   a DataFrame, for `db.table` of a view

What happens to `SELECT c.name, sum(o.price) FROM orders o JOIN customers c ON o.customer = c.id WHERE c.country = 'de' GROUP BY 1`:

1. `sql/bind` binds it, and `sql/lower` pushes `c.country = 'de'` into the scan of customers.
2. Both collections are pinned, at `as_of` or at what is committed, until the query ends.
3. Each scan is pruned. Little of customers is left: it is read here. Its ids become a range, and a list if they are few, which
   prunes orders too (`query/relational/semi_join.py`).
4. `scans.py` chooses how orders is read; each scan becomes a view of a Spark session that belongs to this query.
5. `plan/sql/writer.py` writes the rest as Spark SQL; `run.py` runs it and returns Arrow in our types, on demand.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidegate.context import Context
from tidegate.expr.model import Expr
from tidegate.plan import logical
from tidegate.plan.sql import SqlWriter
from tidegate.query import Batch, CancelToken, Result, RowStream, ScanMetrics, Stage
from tidegate.query.relational import PinnedQuery, replace_now, total_cost
from tidegate.spark.arrow import arrow_schema, batch, spark_schema
from tidegate.spark.engine.aggregate_sql import SparkDialect
from tidegate.spark.engine.run import cancel_with, run
from tidegate.spark.engine.scans import SparkScan
from tidegate.spark.engine.window_rewrite import rewrite_windows
from tidegate.spark.read import late_scan
from tidegate.spark.session import session, sibling_session, use_session, user_session
from tidegate.spark.translate.evaluator_udf import udf_sql
from tidegate.spark.translate.to_spark_sql import SETTINGS
from tidegate.statements import pin_select, relational_query
from tidegate.text import identifier

MAX_COLLECTED_BYTES = 64 << 20
"""Bytes of rows that are collected at once; a larger result is read partition by partition."""


def select(lake: Context, pinned: PinnedQuery, watch: CancelToken) -> Result:
    """Runs a query."""
    query = SparkQuery(lake, pinned)
    began, limit = time.perf_counter(), pinned.config.max_result_bytes
    with query_session(session()) as spark, _views(spark) as views:
        with cancel_with(spark, watch):
            df = query.frame(spark, views, lasting=False)
        planned = time.perf_counter()
        rows = run(
            df, pinned.query.types, watch, min(MAX_COLLECTED_BYTES, limit) if limit else MAX_COLLECTED_BYTES
        )
    cost = total_cost([scan.cost for scan in pinned.scans])
    cost.stages.append(Stage("plan", seconds=planned - began))
    stream = RowStream(_count_rows(rows.batches(watch), cost, planned), watch)
    stream.fill(MAX_COLLECTED_BYTES if rows.collected is not None else 0)
    return Result(pinned.query.names, pinned.query.types, stream, path="spark", scan=cost, max_bytes=limit)


def _count_rows(rows: Iterator[Batch], cost: ScanMetrics, began: float) -> Iterator[Batch]:
    for columns, count in rows:
        cost.rows_returned += count
        yield columns, count
    spent = time.perf_counter() - began
    cost.stages.append(Stage("spark", cost.rows_read, cost.rows_returned, cost.bytes_read, spent))


@contextmanager
def _views(spark: SparkSession) -> Iterator[list[str]]:
    """Yields a list for the names of views; these are dropped at the end."""
    views: list[str] = []
    try:
        yield views
    finally:
        for view in views:
            spark.catalog.dropTempView(view)


def query_frame(lake: Context, spark: SparkSession, sql: str, as_of: int | None) -> DataFrame:
    """Returns a query as a DataFrame of the user's session, which keeps its snapshots pinned."""
    pinned = relational_query(lake, pin_select(lake, sql, as_of), CancelToken())
    query = SparkQuery(lake, pinned)
    with query_session(spark) as own, cancel_with(own, CancelToken()):
        df = query.frame(own, [], lasting=True)
    if any(scan.reader == "late" for scan in query.scans):
        with use_session(spark):  # the DataFrame runs in this session, in which Spark looks up its sources
            late_scan.register(spark)
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    plan = df._jdf.queryExecution().analyzed()
    dataset = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return DataFrame(dataset, spark).toDF(*pinned.query.names)


def plan(lake: Context, pinned: PinnedQuery, watch: CancelToken) -> str:
    """Returns how each scan is read, and Spark's plan."""
    query = SparkQuery(lake, pinned)
    with query_session(session()) as spark, cancel_with(spark, watch), _views(spark) as views:
        df = query.frame(spark, views, lasting=False)
        jvm: Any = spark.sparkContext._jvm
        text = str(jvm.PythonSQLUtils.explainString(df._jdf.queryExecution(), "formatted")).strip()
    readers = [f"  {identifier(scan.own.scan.source)}: reader: {scan.reader}" for scan in query.scans]
    return "\n".join([*readers, text])


@contextmanager
def query_session(spark: SparkSession) -> Iterator[SparkSession]:
    """Yields a session beside the user's, which stays active, with the settings that our SQL needs."""
    own = sibling_session(spark)
    for name, value in SETTINGS.items():
        own.conf.set(name, value)
    own.conf.set("spark.sql.shuffle.partitions", str(spark.conf.get("spark.sql.shuffle.partitions")))
    before: Any = user_session() or spark
    try:
        yield own
    finally:  # pyspark's createDataFrame makes its own session the active one
        SparkSession._activeSession = before
        jvm: Any = own._jvm
        jvm.SparkSession.setActiveSession(before._jsparkSession)


# ---------------------------------------------------------------- as a DataFrame


class SparkQuery:
    """A pinned query, and how Spark reads each of its scans."""

    def __init__(self, lake: Context, pinned: PinnedQuery) -> None:
        self.pinned = pinned
        self.scans = tuple(SparkScan(lake, scan) for scan in pinned.scans)

    def frame(self, spark: SparkSession, views: list[str], *, lasting: bool) -> DataFrame:
        """Returns the query as a DataFrame; adds the names of the views that it needs to `views`."""
        pinned = self.pinned
        _ = pinned.reduced
        view_of: dict[int, str] = {}
        for scan in self.scans:
            scan.frame(spark, lasting=lasting).createOrReplaceTempView(scan.view)
            view_of[id(scan.own.scan)] = scan.view
            views.append(scan.view)
        for i, rel in enumerate(pinned.constant_rows()):
            view = f"tg_values_{i}"
            self._values(rel, spark).createOrReplaceTempView(view)
            view_of[id(rel)] = view
            views.append(view)

        def evaluated(expr: Expr, columns: Sequence[str]) -> str:
            return udf_sql(spark, replace_now(expr, pinned.now), columns, pinned.now)

        query = rewrite_windows(pinned.query)
        return spark.sql(SqlWriter(query, view_of, SparkDialect(evaluated)).whole())

    def _values(self, rel: logical.ConstantRows, spark: SparkSession) -> DataFrame:
        """Returns VALUES as a DataFrame."""
        types = [column.type for column in rel.columns]
        schema = spark_schema([f"c{column.index}" for column in rel.columns], types)
        wanted, arrays = arrow_schema(schema), self.pinned.evaluated_rows(rel)
        return spark.createDataFrame(pa.Table.from_batches([batch(arrays, types, wanted)], wanted), schema)
