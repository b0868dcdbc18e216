"""The scans of a query: what pruning leaves of each, and which of three readers is cheapest.

| reader | when | what it is |
|---|---|---|
| local | less than 1 MiB is left after pruning, or the store is in memory | read here, handed to Spark as a table |
| index | Spark can express the whole plan, and many of the rows survive | Spark's own reader over our parts (`relation.py`) |
| late | our evaluator must run, or few rows survive | our scan in Spark's tasks (`late_scan.py`) |

Retractions that are too large for one task are always read by `index`, where Spark consolidates them.

What pruning leaves of a scan is known before (`query/relational/scans.py`): `parts_read` and `bytes_read` are those of the
remaining parts.
"""

from __future__ import annotations

import uuid
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidegate.context import Context
from tidegate.query.relational import RelationalScan
from tidegate.spark.arrow import arrow_schema, batch, spark_schema
from tidegate.spark.read import late_scan
from tidegate.spark.read.relation import SnapshotRelation
from tidegate.spark.read.snapshot_index import SnapshotIndex
from tidegate.spark.translate.evaluator_udf import sql_of
from tidegate.spark.translate.to_spark_sql import spark_sql
from tidegate.spark.types import quoted

Reader = Literal["local", "index", "late"]
FORCED_READER: ContextVar[Reader | None] = ContextVar("reader", default=None)
"""For tests: every scan uses this reader if it can."""
MAX_LOCAL_BYTES = 1 << 20
"""Parts of fewer bytes are read in this process: a task takes longer to start."""
MIN_INDEX_SELECTIVITY = 0.2
"""The share of rows that must survive for Spark's reader to be the better one."""


@dataclass(eq=False)
class SparkScan:
    """One scan of a query, read by Spark."""

    lake: Context
    own: RelationalScan
    view: str = field(default_factory=lambda: f"tg_{uuid.uuid4().hex}")

    @cached_property
    def reader(self) -> Reader:
        """The cheapest reader; see the table at the top. Asked once scans have reduced each other."""
        planned = self.own.planned
        in_memory = self.lake.root.place.kind == "memory"
        fits = late_scan.fits_tasks(self.own.snapshot, planned.pruned)
        forced = FORCED_READER.get()
        if forced is not None and not in_memory:
            return "index" if forced == "late" and not fits else forced
        if in_memory or planned.bytes < MAX_LOCAL_BYTES or not planned.pruned.left:
            return "local"
        if not fits:
            return "index"
        return "index" if self._is_spark_sql and planned.selectivity >= MIN_INDEX_SELECTIVITY else "late"

    @property
    def _is_spark_sql(self) -> bool:
        """Whether Spark can express the whole plan."""
        plan = self.own.planned.plan
        names = [quoted(column.name) for column in self.own.snapshot.schema.columns]
        return all(spark_sql(expr, names) is not None for expr in (*plan.conditions, *plan.outputs))

    def frame(self, spark: SparkSession, *, lasting: bool) -> DataFrame:
        """Returns the rows as a DataFrame with the query's names; if `lasting`, it holds the snapshot."""
        own = self.own
        if self.reader == "local":
            df = spark.createDataFrame(self._local_rows())
            df = df.toDF(*own.names) if own.names else df
        elif self.reader == "index":
            df = self._indexed(spark)
        else:
            df = late_scan.scan_frame(
                spark,
                self.lake,
                own.snapshot,
                own.planned.plan,
                own.names,
                own.now,
                pruned=own.planned.pruned,
                in_driver=False,
            )
            df = late_scan.hold_snapshot(df, own.snapshot) if lasting else df
        self._record_cost()
        if self.reader != "index":  # which audits by itself
            own.audit()
        return df

    def _local_rows(self) -> pa.Table:
        """Returns the rows in the types that Spark takes."""
        types, table = [column.type for column in self.own.columns], self.own.table()
        if not types:
            return table
        wanted = arrow_schema(spark_schema(self.own.names, types))
        if not table.num_rows:  # with a chunk: pyspark cannot convert nested columns that have none
            return wanted.empty_table()
        return pa.Table.from_batches(
            [batch(rows.columns, types, wanted) for rows in table.to_batches()], wanted
        )

    def _indexed(self, spark: SparkSession) -> DataFrame:
        own = self.own
        rows = SnapshotRelation(SnapshotIndex(self.lake, own.scan.source, own.snapshot, own.now)).stored(
            spark
        )
        names = [quoted(column.name) for column in own.snapshot.schema.columns]
        for condition in own.planned.plan.conditions:
            rows = rows.where(sql_of(spark, condition, names, own.now))
        outputs = [
            f"{sql_of(spark, output, names, own.now)} AS {name}"
            for output, name in zip(own.planned.plan.outputs, own.names, strict=True)
        ]
        return rows.selectExpr(*(outputs or ["1 AS one"]))

    def _record_cost(self) -> None:
        """Records how many parts, bytes and rows are read."""
        self.own.count_total()
        if self.reader == "local":
            return
        pruned, cost = self.own.planned.pruned, self.own.cost
        rows = self.own.snapshot.table(["rows"]).column("rows").to_numpy()
        cost.parts_read, cost.bytes_read = pruned.left, self.own.planned.bytes
        cost.rows_read = int((rows if pruned.kept is None else rows[pruned.kept]).sum())
