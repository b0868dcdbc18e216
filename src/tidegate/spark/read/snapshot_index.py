"""Which parts of a snapshot a Spark query must read, by the statistics of all parts.

    index = SnapshotIndex(lake, "orders", snapshot(shard), now)
    index.select(positions, conditions, consolidates=False)      of these parts, those that may hold a row that passes

The snapshot owns the lease, which ends when nothing in Python refers to it any more. File indexes refer to it (`file_index.py`),
py4j refers to them until the JVM has collected their proxies, and Spark's plans refer to the proxies: so the lease lives as long as
any DataFrame, cached table or running query over the snapshot. `storage/shard/leases/keeper.py` renews it meanwhile.

One query asks several times: once for each branch of the relation, and for EXPLAIN. The verdicts of recent filters are cached.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.cache import LruCache
from tidegate.context import Context
from tidegate.errors import AuditError
from tidegate.expr.domain import Verdict
from tidegate.expr.model import Expr
from tidegate.plan import MapFilterProject, Verdicts
from tidegate.query import ResultShape, ScanMetrics, ScanRequest, audit_parts
from tidegate.query.prune import PruneResult, PruningPredicate, treats_equal_alike
from tidegate.spark.read.deleted_rows import deletion_indexes
from tidegate.storage.shard import Snapshot

MAX_CACHED_FILTERS = 16
"""Filters whose verdicts are cached."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class PartSelection:
    """The parts that a query must read."""

    positions: np.ndarray
    """In the table of the snapshot."""
    total: int
    """The number of parts before the selection."""
    plan: MapFilterProject | None = None
    verdicts: Verdicts | None = None
    """For all parts of the snapshot; None if statistics were not used."""


class SnapshotIndex:
    """A snapshot that any number of file indexes and threads read."""

    def __init__(self, lake: Context, name: str, snapshot: Snapshot, now: int) -> None:
        """`now` is the reader's time: rows may have ended since the last commit."""
        self.lake, self.name, self.snapshot, self.now = lake, name, snapshot, now
        self._verdicts = LruCache[tuple[Expr, ...], tuple[MapFilterProject, Verdicts]](MAX_CACHED_FILTERS)

    @property
    def total(self) -> int:
        """The number of parts of the collection, including those that begin later or have ended."""
        return self.snapshot.state.parts.count

    @cached_property
    def sizes(self) -> np.ndarray:
        """The bytes of each part."""
        sizes: np.ndarray = self.snapshot.table(["size"]).column("size").to_numpy()
        return sizes

    def uris(self, positions: np.ndarray, root: str) -> pa.Array:
        """Returns the URIs of the files of these parts, below `uri_of` or `scan_uri` of the database."""
        names = self.snapshot.table(["name"]).column("name").take(pa.array(positions)).combine_chunks()
        names = names.chunk(0) if isinstance(names, pa.ChunkedArray) else names
        return pc.binary_join_element_wise(root, names, "/")

    def deletion_indexes(self, positions: np.ndarray) -> pa.Array:
        """Returns the deleted rows of these parts, as Spark looks them up (`deleted_rows.py`)."""
        rows = self.snapshot.table(["rows"]).column("rows").to_numpy()[positions]
        return deletion_indexes(self.snapshot.deleted_bitmaps(positions), rows)

    def select(
        self, positions: np.ndarray, conditions: Sequence[Expr], *, consolidates: bool
    ) -> PartSelection:
        """Returns, of the parts at these positions, those that may hold a row that passes all conditions.

        `consolidates`: their rows are added up with their retractions. Then a condition must not distinguish rows that are
        equal, such as 0.0 and -0.0: it could drop the part of one and not that of the other (`query/prune/parts.py`).
        """
        if not conditions or not self.lake.config.stats_filter:
            return PartSelection(positions, len(positions))
        try:
            plan, verdicts = self._verdicts.get_or_compute(
                tuple(conditions), lambda: self._compute(conditions), exclusive=True
            )
        except Exception:  # noqa: BLE001  # statistics are hints: if anything is wrong with them, the parts are read
            _LOG.exception("parts are read unpruned", extra={"tidegate": {"event": "prune_failed"}})
            self.lake.metrics.add("prune_failures")
            return PartSelection(positions, len(positions))
        if consolidates and not treats_equal_alike(plan):
            return PartSelection(positions, len(positions))
        return PartSelection(positions[verdicts.keep[positions]], len(positions), plan, verdicts)

    def _compute(self, conditions: Sequence[Expr]) -> tuple[MapFilterProject, Verdicts]:
        types = [column.type for column in self.snapshot.schema.columns]
        plan = MapFilterProject.identity(types).filter(*conditions).optimise()
        return plan, PruningPredicate.of(self.snapshot, plan, self.now).verdicts()

    def record(self, positions: np.ndarray, selection: PartSelection) -> None:
        """Adds what a query reads and prunes to the metrics, and audits some of the pruned parts."""
        considered, read = int(self.sizes[positions].sum()), int(self.sizes[selection.positions].sum())
        scan = ScanMetrics(
            parts_total=selection.total,
            parts_read=len(selection.positions),
            bytes_total=considered,
            bytes_read=read,
        )
        self._audit(positions, selection, scan)
        pruned = selection.total - len(selection.positions)
        for what, parts, size in (
            ("considered", selection.total, considered), ("pruned", pruned, considered - read),
            ("read", len(selection.positions), read),
            ("audited", scan.parts_audited, scan.bytes_audited),
        ):  # fmt: skip
            self.lake.metrics.add("parts", parts, what=what)
            self.lake.metrics.add("bytes", size, what=what)

    def _audit(self, positions: np.ndarray, selection: PartSelection, scan: ScanMetrics) -> None:
        """Reads some of the pruned parts before Spark gets an answer; they must yield nothing."""
        if selection.verdicts is None or selection.plan is None or len(selection.positions) == len(positions):
            return
        verdicts = np.full(len(selection.verdicts.verdict), Verdict.SOME, np.int8)
        verdicts[positions] = selection.verdicts.verdict[positions]
        pruned = PruneResult(
            self.total,
            self.snapshot.state.parts.size,
            self.snapshot,
            retracts=False,
            verdicts=replace(selection.verdicts, verdict=verdicts),
            kept=selection.positions,
        )
        question = ScanRequest(self.snapshot, selection.plan, (), ResultShape(), self.now, self.lake.config)
        try:
            audit_parts(question, pruned, scan)
        except AuditError:
            self.lake.metrics.add("audit_failures")
            raise
