"""Prunes the parts of a snapshot by their statistics.

    found = prune(snapshot, plan, now=ms, use=config.stats_filter)
    found.parts         those that may hold a row that leaves the plan, or fails
    found.why(i)        for EXPLAIN: what the i-th part's statistics say of each condition

With `use` off every part is read, and nothing else changes: NONE promises that no row of the part leaves the plan and none fails.

Where parts retract rows, statistics may drop a row's part and not that of its retraction: an insert of (1, 'a') alone in its part,
its retraction beside one of (9, 'z'), and `id > 5`. That is sound if rows are filtered before they meet (`local.py`): a retraction
carries its whole row, so the filter that drops the one drops the other. But equal must then mean identical: 0.0 retracts -0.0,
and `f::text = '-0'` passes one of them. Where conditions read floats or intervals, such a snapshot is read whole.

Only parts that retract, or may hold a retracted row by their statistics, concern each other (`candidates.py`): if none
of them is left, rows need not meet anything.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import pyarrow.compute as pc

from tidegate.expr.domain import Interpretation, Specs, Verdict, explain_verdict
from tidegate.expr.model import support
from tidegate.plan import MapFilterProject, Verdicts, compute_verdicts
from tidegate.plan import deciding_columns as decisive
from tidegate.query.prune.candidates import retraction_candidates
from tidegate.query.prune.schema_versions import schema_versions_without
from tidegate.query.scan_metrics import ScanMetrics
from tidegate.storage.part import Part
from tidegate.storage.shard import Snapshot
from tidegate.storage.stats import Frame

T = TypeVar("T")
MAX_CACHED_PARTS = 4096
"""Cache verdicts only for tables of at most this many parts."""
BITS = 62
"""Conditions that `proven` tracks, one bit each; further ones are always evaluated."""


@dataclass(frozen=True, eq=False)
class PruneResult:
    """The parts that a plan must read."""

    total: int
    size: int
    """Parts of the collection, and their bytes: those that begin later or have ended are left out as well."""
    snapshot: Snapshot
    retracts: bool
    """Whether rows of these parts must be consolidated with their retractions."""
    whole: bool = True
    """Whether no part was pruned that has begun and not ended."""
    verdicts: Verdicts | None = None
    """Of every part that has begun and not ended; None where statistics were not asked."""
    kept: np.ndarray | None = None
    """The places of the parts that must be read, among those that have begun and not ended; None: all of these."""
    predicate: PruningPredicate | None = None
    partial: bool = False
    """Whether other parts may hold rows as well: statistics were asked of some parts, which perhaps suffice."""

    @property
    def left(self) -> int:
        """How many parts must be read."""
        return self.snapshot.table(["retracts"]).num_rows if self.kept is None else len(self.kept)

    @cached_property
    def parts(self) -> list[Part]:
        """The parts that must be read, as values; built lazily, since there may be a million."""
        return self.snapshot.parts() if self.kept is None else self.snapshot.pick(self.kept)

    def first(self, count: int) -> list[Part]:
        """The first parts that must be read, without building values of all."""
        if "parts" in self.__dict__:
            return self.parts[:count]
        return self.snapshot.pick(
            np.arange(min(count, self.left)) if self.kept is None else self.kept[:count]
        )

    def proven(self) -> list[int]:
        """For each kept part, the proven conditions as bits, in the order of `verdicts.by_condition`."""
        if self.verdicts is None or self.kept is None:
            return [0] * self.left
        bits = np.zeros(len(self.kept), np.int64)
        for i, (_, verdict) in enumerate(self.verdicts.by_condition[:BITS]):
            bits |= (verdict[self.kept] == Verdict.ALL).astype(np.int64) << i
        found: list[int] = bits.tolist()
        return found

    def passing(self) -> np.ndarray:
        """Of each kept part, whether every row passes the filter."""
        if self.verdicts is None or self.kept is None:
            return np.zeros(self.left, bool)
        every: np.ndarray = self.verdicts.verdict[self.kept] == Verdict.ALL
        return every

    def why(self, kept: int) -> tuple[str, list[str]]:
        """Of the kept part at this place: its verdict, and a line for each condition."""
        assert self.verdicts is not None
        assert self.kept is not None
        assert self.predicate is not None
        part = int(self.kept[kept])
        specs, at = self.predicate.of_part(part)
        interpretation = Interpretation(specs, (self.predicate.now, self.predicate.now))
        lines = [
            line
            for condition, _ in self.verdicts.by_condition
            for line in explain_verdict(condition, interpretation, at)
        ]
        return Verdict(self.verdicts.verdict[part]).name.lower(), lines


def prune(snapshot: Snapshot, mfp: MapFilterProject, now: int, *, use: bool) -> PruneResult:
    """Prunes the parts of a snapshot; `mfp` is over all its columns. `use`: whether to use statistics."""
    table = snapshot.table(["retracts", "schema"])
    total, size = snapshot.state.parts.count, snapshot.state.parts.size
    retracts = pc.any(table.column("retracts"), min_count=0).as_py()
    if not use or not mfp.predicates or (retracts and not treats_equal_alike(mfp)):
        return PruneResult(total, size, snapshot, retracts=retracts)

    def interpret() -> tuple[PruningPredicate, Verdicts]:
        predicate = PruningPredicate(snapshot, mfp, table.column("schema").to_numpy(), now)
        return predicate, predicate.verdicts()

    cacheable = table.num_rows <= MAX_CACHED_PARTS
    predicate, verdicts = (
        cached_for_plan(snapshot, mfp, now, "verdicts", interpret) if cacheable else interpret()
    )
    kept = np.flatnonzero(verdicts.keep)
    return PruneResult(
        total,
        size,
        snapshot,
        retracts=bool(retracts and retraction_candidates(snapshot)[kept].any()),
        whole=len(kept) == table.num_rows,
        verdicts=verdicts,
        kept=kept,
        predicate=predicate,
    )


def count_pruned(snapshot: Snapshot, pruned: PruneResult, scan: ScanMetrics) -> None:
    """Counts the parts and bytes that statistics ruled out, and those whose rows all pass."""
    if pruned.verdicts is None:
        return
    sizes = snapshot.table(["size"]).column("size").to_numpy()[: len(pruned.verdicts.verdict)]
    none, whole = (pruned.verdicts.verdict == verdict for verdict in (Verdict.NONE, Verdict.ALL))
    scan.parts_pruned, scan.bytes_pruned = int(np.count_nonzero(none)), int(sizes[none].sum())
    scan.parts_proven, scan.bytes_proven = int(np.count_nonzero(whole)), int(sizes[whole].sum())


def cached_for_plan(
    snapshot: Snapshot, mfp: MapFilterProject, now: int, what: Hashable, make: Callable[[], T]
) -> T:
    """A value cached for the same plan over the same parts, computed by `make` at first use."""
    when = now if mfp.is_temporal else None  # other plans do not depend on it
    key = (what, snapshot.as_of, snapshot.schema.id, mfp, when)
    return snapshot.state.parts.plans.get_or_compute(key, make)


class PruningPredicate:
    """Evaluates a plan over the statistics of a snapshot, one frame of parts after the other."""

    def __init__(self, snapshot: Snapshot, mfp: MapFilterProject, written: np.ndarray, now: int) -> None:
        """`written`: the version of the schema that each part was written with."""
        self.mfp, self.now, self.written = mfp, now, written
        self.columns = snapshot.schema.columns
        self.frames = [*snapshot.frames()] or [Frame(np.zeros(0, np.int64), {})]
        self.begins = np.cumsum([0, *(len(frame) for frame in self.frames)])
        self.lacking = schema_versions_without(snapshot)

    @staticmethod
    def of(snapshot: Snapshot, mfp: MapFilterProject, now: int) -> PruningPredicate:
        """The plan put to the parts of a snapshot."""
        return PruningPredicate(snapshot, mfp, snapshot.table(["schema"]).column("schema").to_numpy(), now)

    def verdicts(self, begin: int = 0, end: int | None = None) -> Verdicts:
        """The verdicts of all parts, or of those from position `begin` to before `end`."""
        found = [
            compute_verdicts(self.mfp, specs, (self.now, self.now), count)
            for specs, count in self.stretches(decisive(self.mfp), begin, end)
        ]
        conditions = [condition for condition, _ in found[0].by_condition]
        each = [np.concatenate([one.by_condition[i][1] for one in found]) for i in range(len(conditions))]
        return Verdicts(
            np.concatenate([one.verdict for one in found]),
            np.concatenate([one.may_fail for one in found]),
            tuple(zip(conditions, each, strict=True)),
            np.concatenate([one.filter_may_fail for one in found]),
        )

    def stretches(
        self, wanted: frozenset[int], begin: int = 0, end: int | None = None
    ) -> Iterator[tuple[tuple[Specs | None, ...], int]]:
        """The Specs of the wanted columns, one frame of parts at a time (at least one), with its size."""
        end = int(self.begins[-1]) if end is None else end
        for i, frame in enumerate(self.frames):
            first, last = int(self.begins[i]), int(self.begins[i + 1])
            if max(first, begin) < min(last, end) or (i == 0 and begin >= end):
                some = frame.slice(max(begin - first, 0), min(end, last) - first)
                yield self._specs(some, max(first, begin), wanted), len(some)

    def _specs(self, frame: Frame, begin: int, wanted: frozenset[int]) -> tuple[Specs | None, ...]:
        """What each column may be in some parts; None for those that are not wanted."""
        written = self.written[begin : begin + len(frame)]
        absent = {id_: np.isin(written, those) for id_, those in self.lacking.items() if those}
        order = sorted(wanted)
        asked = [(self.columns[at].id, self.columns[at].type) for at in order]
        specs = dict(zip(order, frame.specs(asked, absent), strict=True))
        return tuple(specs.get(at) for at in range(len(self.columns)))

    def of_part(self, part: int) -> tuple[tuple[Specs | None, ...], int]:
        """The same for the stretch that a part is in, and its place there."""
        i = int(np.searchsorted(self.begins, part, side="right")) - 1
        begin = int(self.begins[i])
        return self._specs(self.frames[i], begin, decisive(self.mfp)), part - begin


def treats_equal_alike(mfp: MapFilterProject) -> bool:
    """Whether all conditions give the same answer for equal rows."""
    return all(mfp.inputs[i].identity_is_equality for i in support(*mfp.conditions))
