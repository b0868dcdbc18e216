"""The scans of a query: what pruning leaves of each, and which of three readers is cheapest.

| reader | when | what it is |
|---|---|---|
| local | less than 1 MiB is left after pruning, or the store is in memory | read here, handed to Spark as a table |
| index | Spark can express the whole plan, and many of the rows survive | Spark's own reader over our parts (`relation.py`) |
| late | our evaluator must run, or few rows survive | our scan in Spark's tasks (`late_scan.py`) |

Retractions that are too large for one task are always read by `index`, where Spark consolidates them.

Every scan is pruned here, by its own conditions, before anything is read: `parts_read` and `bytes_read` of the result are those of
the remaining parts.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidegate.context import Context
from tidegate.errors import LimitError
from tidegate.expr.model import Expr
from tidegate.plan import MapFilterProject, logical
from tidegate.query import CancelToken, ResultShape, ScanMetrics, ScanRequest, audit_parts
from tidegate.query.estimate import Estimates
from tidegate.query.paths import local
from tidegate.query.prune import PruneResult, prune
from tidegate.spark.arrow import arrow_schema, batch, spark_schema
from tidegate.spark.read import late_scan
from tidegate.spark.read.relation import SnapshotRelation
from tidegate.spark.read.snapshot_index import SnapshotIndex
from tidegate.spark.translate.evaluator_udf import sql_of
from tidegate.spark.translate.to_spark_sql import spark_sql
from tidegate.spark.types import quoted
from tidegate.storage.shard import Snapshot

Reader = Literal["local", "index", "late"]
FORCED_READER: ContextVar[Reader | None] = ContextVar("reader", default=None)
"""For tests: every scan uses this reader if it can."""
MAX_LOCAL_BYTES = 1 << 20
"""Parts of fewer bytes are read in this process: a task takes longer to start."""
MIN_INDEX_SELECTIVITY = 0.2
"""The share of rows that must survive for Spark's reader to be the better one."""


@dataclass(frozen=True, eq=False)
class ScanPlan:
    """A scan with conditions from other scans: its plan, and what pruning leaves."""

    lake: Context
    scan: logical.Scan
    snapshot: Snapshot
    now: int
    conditions: tuple[Expr, ...] = ()
    """Over the collection's columns, from other scans (`semi_join.py`)."""

    @cached_property
    def plan(self) -> MapFilterProject:
        """The whole plan of the scan."""
        plan = self.scan.plan()
        whole = MapFilterProject.identity(plan.inputs).filter(*self.conditions).then(plan)
        return whole.at(self.now).optimise()

    @cached_property
    def pruned(self) -> PruneResult:
        """The parts that are left."""
        return prune(self.snapshot, self.plan, self.now, use=self.lake.config.stats_filter)

    @cached_property
    def bytes(self) -> int:
        """The bytes of the parts that are left."""
        sizes = self.snapshot.table(["size"]).column("size").to_numpy()
        return int((sizes if self.pruned.kept is None else sizes[self.pruned.kept]).sum())

    @cached_property
    def reader(self) -> Reader:
        """The cheapest reader; see the table at the top."""
        in_memory = self.lake.root.place.kind == "memory"
        fits = late_scan.fits_tasks(self.snapshot, self.pruned)
        forced = FORCED_READER.get()
        if forced is not None and not in_memory:
            return "index" if forced == "late" and not fits else forced
        if in_memory or self.bytes < MAX_LOCAL_BYTES or not self.pruned.left:
            return "local"
        if not fits:
            return "index"
        return "index" if self._is_spark_sql and self._selectivity >= MIN_INDEX_SELECTIVITY else "late"

    @property
    def _is_spark_sql(self) -> bool:
        """Whether Spark can express the whole plan."""
        names = [quoted(column.name) for column in self.snapshot.schema.columns]
        exprs = (*self.plan.conditions, *self.plan.outputs)
        return all(spark_sql(expr, names) is not None for expr in exprs)

    @property
    def _selectivity(self) -> float:
        """The estimated share of the remaining rows that pass."""
        if not self.plan.conditions:
            return 1.0
        estimates = Estimates.of(self.snapshot, self.pruned.kept, self.now)
        return estimates.rows(self.plan.conditions) / max(estimates.rows(()), 1.0)


@dataclass(eq=False)
class QueryScan:
    """One scan of a query over one snapshot."""

    lake: Context
    scan: logical.Scan
    snapshot: Snapshot
    now: int
    watch: CancelToken
    view: str = field(default_factory=lambda: f"tg_{uuid.uuid4().hex}")
    table: pa.Table | None = None
    cost: ScanMetrics = field(default_factory=ScanMetrics)
    notes: list[str] = field(default_factory=list)
    """Further lines for EXPLAIN."""

    def __post_init__(self) -> None:
        self.planned = ScanPlan(self.lake, self.scan, self.snapshot, self.now)

    def narrow(self, *conditions: Expr) -> None:
        """Adds conditions over the collection's columns, by their positions."""
        self.planned = replace(self.planned, conditions=(*self.planned.conditions, *conditions))

    @property
    def names(self) -> list[str]:
        """The names of its output columns in Spark."""
        return [f"c{column.index}" for column in self.scan.leaving()]

    # ---------------------------------------------------------------- reading

    def read_here(self) -> pa.Table:
        """Reads the rows in this process, once."""
        if self.table is None:
            self.table = self._read()
        return self.table

    def _question(self) -> ScanRequest:
        names, config = tuple(self.names), self.lake.config
        return ScanRequest(
            self.snapshot, self.planned.plan, names, ResultShape(), self.now, config, self.watch
        )

    def _read(self) -> pa.Table:
        plan, limit, question = self.planned.plan, self.lake.config.max_result_bytes, self._question()
        wanted = arrow_schema(spark_schema([f"c{i}" for i in range(len(plan.types))], plan.types))
        batches, size, rows = [], 0, 0
        for columns, count in local.stream(question, self.planned.pruned, self.cost):
            rows += count
            batches.append(batch(columns, plan.types, wanted) if columns else None)
            size += batches[-1].nbytes if batches[-1] is not None else 0
            if size > limit:
                raise LimitError(
                    f"the rows read from {self.scan.source} are larger than max_result_bytes, {limit:,}",
                    hint="SET max_result_bytes to a larger value, or read less",
                )
        if not plan.types:
            return pa.table({"one": pa.repeat(pa.scalar(1, pa.int32()), rows)})
        return pa.Table.from_batches([rows for rows in batches if rows is not None], wanted)

    def frame(self, spark: SparkSession, *, lasting: bool) -> DataFrame:
        """Returns the rows as a DataFrame with the query's names; if `lasting`, it holds the snapshot."""
        planned = self.planned
        if planned.reader == "local":
            df = spark.createDataFrame(self.read_here())
            df = df.toDF(*self.names) if self.names else df
        elif planned.reader == "index":
            df = self._indexed(spark)
        else:
            df = late_scan.scan_frame(
                spark,
                self.lake,
                self.snapshot,
                planned.plan,
                self.names,
                self.now,
                pruned=planned.pruned,
                in_driver=False,
            )
            df = late_scan.hold_snapshot(df, self.snapshot) if lasting else df
        self._record_cost()
        if planned.reader != "index":  # the index audits by itself
            audit_parts(self._question(), planned.pruned, self.cost)
        return df

    def _indexed(self, spark: SparkSession) -> DataFrame:
        rows = SnapshotRelation(SnapshotIndex(self.lake, self.scan.source, self.snapshot, self.now)).stored(
            spark
        )
        names = [quoted(column.name) for column in self.snapshot.schema.columns]
        for condition in self.planned.plan.conditions:
            rows = rows.where(sql_of(spark, condition, names, self.now))
        outputs = [
            f"{sql_of(spark, output, names, self.now)} AS {name}"
            for output, name in zip(self.planned.plan.outputs, self.names, strict=True)
        ]
        return rows.selectExpr(*(outputs or ["1 AS one"]))

    def _record_cost(self) -> None:
        """Records how many parts, bytes and rows are read."""
        pruned, size, cost = self.planned.pruned, self.planned.bytes, self.cost
        cost.parts_total, cost.bytes_total = pruned.total, pruned.size
        sizes = self.snapshot.table(["size"]).column("size").to_numpy()
        cost.parts_pruned = len(sizes) - pruned.left
        cost.bytes_pruned = int(sizes.sum()) - size
        if self.planned.reader != "local":
            rows = self.snapshot.table(["rows"]).column("rows").to_numpy()
            cost.parts_read, cost.bytes_read = pruned.left, size
            cost.rows_read = int((rows if pruned.kept is None else rows[pruned.kept]).sum())


def total_cost(costs: Sequence[ScanMetrics]) -> ScanMetrics:
    """Returns the sum of the costs of several scans."""
    total = ScanMetrics()
    for name in (
        "parts_total", "parts_read", "bytes_total", "bytes_read", "rows_read", "parts_pruned", "bytes_pruned",
        "pages_skipped", "bytes_skipped", "parts_audited", "bytes_audited",
    ):  # fmt: skip
        setattr(total, name, int(np.sum([getattr(cost, name) for cost in costs], dtype=np.int64)))
    return total
