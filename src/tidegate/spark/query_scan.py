"""The scans of a query, each a view of Spark's: which reader is the cheapest for it.

| reader | when | what it is |
|---|---|---|
| local | less than 1 MiB is left after pruning, or the store is in memory | read here, handed to Spark as a table |
| index | Spark can say the whole plan, and much of what is read survives | Spark's own reader over our parts (`relation.py`) |
| late | our evaluator must run, or few rows survive | our scan in Spark's tasks (`scan.py`) |

Retractions that are too many for one task are always read by the index, which lets Spark add them up.

Every scan is pruned here, by its own conditions, before anything is read: `parts_read` and `bytes_read` of the result are those of
the parts that are left.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidegate.errors import LimitError
from tidegate.expr.tree import Expr
from tidegate.plan.mfp import MapFilterProject
from tidegate.scan import local
from tidegate.scan.audit import audited
from tidegate.scan.estimate import Estimates
from tidegate.scan.prune import Pruned, prune
from tidegate.scan.question import Question
from tidegate.scan.result import Scan as Cost
from tidegate.scan.sort import Shape
from tidegate.scan.watch import Watch
from tidegate.session.lake import Lake
from tidegate.shard.reader import Snapshot
from tidegate.spark import scan as late
from tidegate.spark.arrow import arrow_schema, batch, spark_schema
from tidegate.spark.columns import quoted
from tidegate.spark.evaluate import sql_of
from tidegate.spark.expression import spark_sql
from tidegate.spark.pinned import Pinned
from tidegate.spark.relation import Relation
from tidegate.sql.split import Scan

Reader = Literal["local", "index", "late"]
FORCED: ContextVar[Reader | None] = ContextVar("reader", default=None)
"""For tests: every scan by this reader, where it can."""
LITTLE = 1 << 20
"""Bytes of parts that are read here: a task takes longer to start."""
MANY = 0.2
"""The share of rows that must survive for Spark's reader to be the better one."""


@dataclass(eq=False)
class Reading:
    """One scan over one snapshot."""

    lake: Lake
    scan: Scan
    snapshot: Snapshot
    now: int
    watch: Watch
    more: tuple[Expr, ...] = ()
    """Conditions over the collection's columns that come from other scans (`query_reduce.py`)."""
    view: str = field(default_factory=lambda: f"tg_{uuid.uuid4().hex}")
    table: pa.Table | None = None
    cost: Cost = field(default_factory=Cost)
    because: list[str] = field(default_factory=list)
    """What else there is to say of it."""

    @cached_property
    def plan(self) -> MapFilterProject:
        """What is done with the rows."""
        plan = self.scan.plan()
        whole = MapFilterProject.identity(plan.inputs).filter(*self.more).then(plan)
        return whole.at(self.now).optimise()

    @cached_property
    def found(self) -> Pruned:
        """What is left of the parts."""
        return prune(self.snapshot, self.plan, self.now, use=self.lake.config.stats_filter)

    @cached_property
    def bytes(self) -> int:
        """Of the parts that are left."""
        sizes = self.snapshot.table(["size"]).column("size").to_numpy()
        return int((sizes if self.found.kept is None else sizes[self.found.kept]).sum())

    def narrow(self, *conditions: Expr) -> None:
        """Asks for more: over the collection's columns by their places."""
        self.more = (*self.more, *conditions)
        for name in ("plan", "found", "bytes", "reader"):
            self.__dict__.pop(name, None)

    @cached_property
    def reader(self) -> Reader:
        """How it is read."""
        memory = self.lake.root.place.kind == "memory"
        suits = late.suits(self.snapshot, self.found)
        forced = FORCED.get()
        if forced is not None and not memory:
            return "index" if forced == "late" and not suits else forced
        if memory or self.bytes < LITTLE or not self.found.left:
            return "local"
        if not suits:
            return "index"
        return "index" if self._spoken and self._survives >= MANY else "late"

    @property
    def _spoken(self) -> bool:
        names = [quoted(column.name) for column in self.snapshot.schema.columns]
        exprs = (*self.plan.conditions, *self.plan.outputs)
        return all(spark_sql(expr, names) is not None for expr in exprs)

    @property
    def _survives(self) -> float:
        """The share of the rows of what is left that passes, as statistics have it."""
        if not self.plan.conditions:
            return 1.0
        estimates = Estimates.of(self.snapshot, self.found.kept, self.now)
        return estimates.rows(self.plan.conditions) / max(estimates.rows(()), 1.0)

    @property
    def names(self) -> list[str]:
        """Of the columns that leave it, in Spark."""
        return [f"c{column.index}" for column in self.scan.leaving()]

    # ---------------------------------------------------------------- reading

    def read_here(self) -> pa.Table:
        """The rows, in this process; kept for when they are asked for again."""
        if self.table is None:
            self.table = self._read()
        return self.table

    def _question(self) -> Question:
        names, config = tuple(self.names), self.lake.config
        return Question(self.snapshot, self.plan, names, Shape(), self.now, config, self.watch)

    def _read(self) -> pa.Table:
        plan, limit, question = self.plan, self.lake.config.max_result_bytes, self._question()
        wanted = arrow_schema(spark_schema([f"c{i}" for i in range(len(plan.types))], plan.types))
        batches, size, rows = [], 0, 0
        for columns, count in local.stream(question, self.found, self.cost):
            rows += count
            batches.append(batch(columns, plan.types, wanted) if columns else None)
            size += batches[-1].nbytes if batches[-1] is not None else 0
            if size > limit:
                raise LimitError(
                    f"what is read of {self.scan.source} is larger than max_result_bytes, {limit:,}",
                    hint="SET max_result_bytes to a larger value, or ask for less",
                )
        if not plan.types:
            return pa.table({"one": pa.repeat(pa.scalar(1, pa.int32()), rows)})
        return pa.Table.from_batches([one for one in batches if one is not None], wanted)

    def frame(self, spark: SparkSession, *, lasting: bool) -> DataFrame:
        """The rows as a DataFrame with the names that the query uses; if `lasting`, it keeps the snapshot."""
        if self.reader == "local":
            made = spark.createDataFrame(self.read_here())
            made = made.toDF(*self.names) if self.names else made
        elif self.reader == "index":
            made = self._indexed(spark)
        else:
            made = late.frame(
                spark, self.lake, self.snapshot, self.plan, self.names, self.now, found=self.found, here=False
            )
            made = late.keep(made, self.snapshot) if lasting else made
        self._weigh()
        if self.reader != "index":  # which audits by itself
            audited(self._question(), self.found, self.cost)
        return made

    def _indexed(self, spark: SparkSession) -> DataFrame:
        whole = Relation(Pinned(self.lake, self.scan.source, self.snapshot, self.now)).stored(spark)
        names = [quoted(column.name) for column in self.snapshot.schema.columns]
        for condition in self.plan.conditions:
            whole = whole.where(sql_of(spark, condition, names, self.now))
        shown = [
            f"{sql_of(spark, output, names, self.now)} AS {name}"
            for output, name in zip(self.plan.outputs, self.names, strict=True)
        ]
        return whole.selectExpr(*(shown or ["1 AS one"]))

    def _weigh(self) -> None:
        """Notes what is read, of what there is."""
        found, cost = self.found, self.cost
        cost.parts_total, cost.bytes_total = found.total, found.size
        sizes = self.snapshot.table(["size"]).column("size").to_numpy()
        cost.parts_pruned = len(sizes) - found.left
        cost.bytes_pruned = int(sizes.sum()) - self.bytes
        if self.reader != "local":
            rows = self.snapshot.table(["rows"]).column("rows").to_numpy()
            cost.parts_read, cost.bytes_read = found.left, self.bytes
            cost.rows_read = int((rows if found.kept is None else rows[found.kept]).sum())


def added(costs: Sequence[Cost]) -> Cost:
    """What several scans cost together."""
    total = Cost()
    for name in (
        "parts_total", "parts_read", "bytes_total", "bytes_read", "rows_read", "parts_pruned", "bytes_pruned",
        "pages_skipped", "bytes_skipped", "parts_audited", "bytes_audited",
    ):  # fmt: skip
        setattr(total, name, int(np.sum([getattr(cost, name) for cost in costs], dtype=np.int64)))
    return total
