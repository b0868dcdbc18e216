"""A snapshot as Spark's plans hold it: which of its parts a query must read, by the statistics of all of them.

    pinned = Pinned(lake, "orders", snapshot(shard), now)
    pinned.kept(places, conditions, meets=False)      of these parts, those that may hold a row that passes

The lease is the snapshot's, and ends when nothing in Python refers to it any more. Indexes refer to it (`index.py`), py4j refers
to the indexes as long as the JVM has not collected their proxies, and Spark's plans refer to those: so the lease lives as long as
any DataFrame, cached table or running query that was made of it. The heart (`shard/heart.py`) renews it meanwhile.

One query asks several times: each branch of the relation, and EXPLAIN. What was found is kept for the last few filters.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate import fork
from tidegate.expr.specs import Verdict
from tidegate.expr.tree import Expr
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.verdict import Verdicts
from tidegate.scan.audit import audited
from tidegate.scan.lie import AuditError
from tidegate.scan.prune import Asked, Pruned, exact
from tidegate.scan.question import Question
from tidegate.scan.result import Scan
from tidegate.scan.sort import Shape
from tidegate.session.lake import Lake
from tidegate.shard.reader import Snapshot

REMEMBERED = 16
"""Filters whose verdicts are kept."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Kept:
    """Of some parts, those that must be read."""

    places: np.ndarray
    total: int
    """How many parts there were."""
    plan: MapFilterProject | None = None
    verdicts: Verdicts | None = None
    """Of all parts of the snapshot; None where statistics were not asked."""


class Pinned:
    """A snapshot that is read by any number of indexes and threads."""

    def __init__(self, lake: Lake, name: str, snapshot: Snapshot, now: int) -> None:
        """`now` is the time of whoever reads it: rows may end by then that had not when something was last committed."""
        self.lake, self.name, self.snapshot, self.now = lake, name, snapshot, now
        self._asked: OrderedDict[tuple[Expr, ...], tuple[MapFilterProject, Verdicts]] = OrderedDict()
        self._lock = fork.lock()

    @property
    def total(self) -> int:
        """Parts of the collection, those too that begin later or have ended."""
        return self.snapshot.state.parts.count

    @cached_property
    def sizes(self) -> np.ndarray:
        """The bytes of each part."""
        found: np.ndarray = self.snapshot.table(["size"]).column("size").to_numpy()
        return found

    def uris(self, places: np.ndarray, root: str) -> pa.Array:
        """Where the files of these parts are, below `uri_of` or `scan_uri` of the database."""
        names = self.snapshot.table(["name"]).column("name").take(pa.array(places)).combine_chunks()
        names = names.chunk(0) if isinstance(names, pa.ChunkedArray) else names
        return pc.binary_join_element_wise(root, names, "/")

    def kept(self, places: np.ndarray, conditions: Sequence[Expr], *, meets: bool) -> Kept:
        """Of the parts at these places, which rise, those that may hold a row that passes all conditions.

        `meets`: their rows are added up with what retracts them. Then a condition must not tell apart rows that are equal, as
        it could drop the part of the one and not of the other (`scan/prune.py`): 0.0 and -0.0.
        """
        if not conditions or not self.lake.config.stats_filter:
            return Kept(places, len(places))
        try:
            plan, found = self._verdicts(tuple(conditions))
        except Exception:  # noqa: BLE001  # statistics are hints: whatever is wrong with them, the parts are read
            _LOG.exception("parts are read unpruned", extra={"tidegate": {"event": "prune_failed"}})
            self.lake.metrics.add("prune_failures")
            return Kept(places, len(places))
        if meets and not exact(plan):
            return Kept(places, len(places))
        return Kept(places[found.keep[places]], len(places), plan, found)

    def _verdicts(self, conditions: tuple[Expr, ...]) -> tuple[MapFilterProject, Verdicts]:
        with self._lock:
            if conditions not in self._asked:
                types = [column.type for column in self.snapshot.schema.columns]
                plan = MapFilterProject.identity(types).filter(*conditions).optimise()
                verdicts = Asked.of(self.snapshot, plan, self.now).verdicts()
                self._asked[conditions] = plan, verdicts
            self._asked.move_to_end(conditions)
            if len(self._asked) > REMEMBERED:
                self._asked.popitem(last=False)
            return self._asked[conditions]

    def count(self, places: np.ndarray, kept: Kept) -> None:
        """Notes in the metrics what a query reads and what it does not, and audits some of the latter."""
        whole, left = int(self.sizes[places].sum()), int(self.sizes[kept.places].sum())
        scan = Scan(parts_total=kept.total, parts_read=len(kept.places), bytes_total=whole, bytes_read=left)
        self._audit(places, kept, scan)
        pruned = kept.total - len(kept.places)
        for what, parts, size in (
            ("considered", kept.total, whole), ("pruned", pruned, whole - left), ("read", len(kept.places), left),
            ("audited", scan.parts_audited, scan.bytes_audited),
        ):  # fmt: skip
            self.lake.metrics.add("parts", parts, what=what)
            self.lake.metrics.add("bytes", size, what=what)

    def _audit(self, places: np.ndarray, kept: Kept, scan: Scan) -> None:
        """Reads some of the parts left out, here and now: Spark is told nothing before they have yielded nothing."""
        if kept.verdicts is None or kept.plan is None or len(kept.places) == len(places):
            return
        here = np.full(len(kept.verdicts.verdict), Verdict.SOME, np.int8)
        here[places] = kept.verdicts.verdict[places]
        found = Pruned(
            self.total,
            self.snapshot.state.parts.size,
            self.snapshot,
            retracts=False,
            verdicts=replace(kept.verdicts, verdict=here),
            kept=kept.places,
        )
        question = Question(self.snapshot, kept.plan, (), Shape(), self.now, self.lake.config)
        try:
            audited(question, found, scan)
        except AuditError:
            self.lake.metrics.add("audit_failures")
            raise
