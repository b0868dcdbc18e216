"""The scans of a query: each with its plan, its snapshot and what pruning leaves of it.

    scan = RelationalScan(config, scan_node, snapshot, now, cancel)
    scan.planned.pruned, scan.planned.bytes      the parts that are left, and their size
    scan.narrow(condition)                       a condition that another scan implies (`semi_join.py`)
    scan.table()                                 all rows, in our Arrow types, read once
    scan.batches()                               the rows as they are read, in bounded memory

Every scan is pruned here, by its own conditions, before anything is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from tidegate.config import Config
from tidegate.errors import LimitError
from tidegate.expr.model import Column, Expr
from tidegate.plan import MapFilterProject, logical
from tidegate.query.audit import audit_parts
from tidegate.query.cancellation import CancelToken
from tidegate.query.estimate import Estimates
from tidegate.query.paths import local
from tidegate.query.prune import PruneResult, prune
from tidegate.query.relational.located import located_rows, numbered_rows
from tidegate.query.request import ScanRequest
from tidegate.query.row_stream import Batch
from tidegate.query.scan_metrics import ScanMetrics
from tidegate.query.sort import ResultShape
from tidegate.storage.shard import Snapshot


@dataclass(frozen=True, eq=False)
class ScanPlan:
    """A scan with conditions from other scans: its plan, and what pruning leaves."""

    config: Config
    scan: logical.Scan
    snapshot: Snapshot
    now: int
    conditions: tuple[Expr, ...] = ()
    """Over the collection's columns, from other scans (`semi_join.py`)."""

    @cached_property
    def own_plan(self) -> MapFilterProject:
        """The plan of the scan alone, without conditions from other scans."""
        return self.scan.plan().at(self.now).optimise()

    @cached_property
    def plan(self) -> MapFilterProject:
        """The whole plan of the scan."""
        plan = self.scan.plan()
        whole = MapFilterProject.identity(plan.inputs).filter(*self.conditions).then(plan)
        return whole.at(self.now).optimise()

    @cached_property
    def pruned(self) -> PruneResult:
        """The parts that are left."""
        return prune(self.snapshot, self.plan, self.now, use=self.config.stats_filter)

    @cached_property
    def bytes(self) -> int:
        """The bytes of the parts that are left."""
        sizes = self.snapshot.table(["size"]).column("size").to_numpy()
        return int((sizes if self.pruned.kept is None else sizes[self.pruned.kept]).sum())

    @property
    def selectivity(self) -> float:
        """The estimated share of the remaining rows that pass."""
        if not self.plan.conditions:
            return 1.0
        estimates = Estimates.of(self.snapshot, self.pruned.kept, self.now)
        return estimates.rows(self.plan.conditions) / max(estimates.rows(()), 1.0)

    @property
    def rows(self) -> float:
        """The estimated number of rows that pass."""
        return Estimates.of(self.snapshot, self.pruned.kept, self.now).rows(self.plan.conditions)


@dataclass(eq=False)
class RelationalScan:
    """One scan of a query over one snapshot."""

    config: Config
    scan: logical.Scan
    snapshot: Snapshot
    now: int
    cancel: CancelToken
    cost: ScanMetrics = field(default_factory=ScanMetrics)
    notes: list[str] = field(default_factory=list)
    """Further lines for EXPLAIN."""
    by_value: bool = False
    """Of a table that is changed: its rows have no positions (`located.py`)."""
    _table: pa.Table | None = None

    def __post_init__(self) -> None:
        self.planned = ScanPlan(self.config, self.scan, self.snapshot, self.now)

    def narrow(self, *conditions: Expr) -> None:
        """Adds conditions over the collection's columns, by their positions."""
        self.planned = replace(self.planned, conditions=(*self.planned.conditions, *conditions))

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its output columns."""
        return self.scan.leaving()

    @property
    def names(self) -> list[str]:
        """The names of its output columns in the engine that reads them."""
        return [f"c{column.index}" for column in self.columns]

    @property
    def is_read(self) -> bool:
        """Whether its rows were read already."""
        return self._table is not None

    def request(self) -> ScanRequest:
        """The scan as a request of one collection."""
        names = tuple(f"c{column.index}" for column in self.scan.values())
        return ScanRequest(
            self.snapshot, self.planned.plan, names, ResultShape(), self.now, self.config, self.cancel
        )

    def batches(self, parts: PruneResult | None = None) -> Iterator[Batch]:
        """The rows, as they are read; of some of the remaining parts, if given."""
        if self._table is not None:
            for batch in self._table.to_batches():
                yield batch.columns, batch.num_rows
            return
        read = local.stream if not self.scan.address else numbered_rows if self.by_value else located_rows
        yield from read(self.request(), parts or self.planned.pruned, self.cost)

    def audit(self) -> None:
        """Reads some of the pruned parts, which must yield nothing."""
        audit_parts(self.request(), self.planned.pruned, self.cost)

    def table(self) -> pa.Table:
        """All rows, read once; a scan without columns has a column of numbers, for their count."""
        if self._table is None:
            self._table = self._read()
        return self._table

    def _read(self) -> pa.Table:
        limit, size, rows = self.config.max_result_bytes, 0, 0
        schema = pa.schema(
            [pa.field(name, column.type.arrow) for name, column in zip(self.names, self.columns, strict=True)]
        )
        batches = []
        for columns, count in self.batches():
            rows += count
            if columns:
                batches.append(pa.RecordBatch.from_arrays(plain_arrays(columns, self.columns), schema=schema))
                size += batches[-1].nbytes
            if size > limit:
                raise LimitError(
                    f"the rows read from {self.scan.source} are larger than max_result_bytes, {limit:,}",
                    hint="SET max_result_bytes to a larger value, or read less",
                )
        if not self.columns:
            return pa.table({"one": pa.repeat(pa.scalar(1, pa.int32()), rows)})
        return pa.Table.from_batches(batches, schema)

    def count_total(self) -> None:
        """Records how many parts and bytes there are, and how many are pruned."""
        pruned, cost = self.planned.pruned, self.cost
        sizes = self.snapshot.table(["size"]).column("size").to_numpy()
        cost.parts_total, cost.bytes_total = pruned.total, pruned.size
        cost.parts_pruned = len(sizes) - pruned.left
        cost.bytes_pruned = int(sizes.sum()) - self.planned.bytes


def plain_arrays(columns: Sequence[pa.Array], types: Sequence[Column]) -> list[pa.Array]:
    """Columns as arrays of exactly the types' Arrow types."""
    arrays = [
        column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns
    ]
    return [
        array if array.type == column.type.arrow else array.cast(column.type.arrow)
        for array, column in zip(arrays, types, strict=True)
    ]


def total_cost(costs: Sequence[ScanMetrics]) -> ScanMetrics:
    """The sum of the costs of several scans."""
    total = ScanMetrics()
    for name in (
        "parts_total", "parts_read", "bytes_total", "bytes_read", "rows_read", "parts_pruned", "bytes_pruned",
        "pages_skipped", "bytes_skipped", "parts_audited", "bytes_audited",
    ):  # fmt: skip
        setattr(total, name, int(np.sum([getattr(cost, name) for cost in costs], dtype=np.int64)))
    return total
