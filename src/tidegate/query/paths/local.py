"""The local path: reads the remaining parts of a snapshot through a plan, in this process.

    answer(request, pruned, scan)      parts that may matter → batches of demanded columns → passing rows → order, limits
    stream(request, pruned, scan)      the same without the last step, for aggregation and sorting

Where rows must meet retractions, only parts that may hold one of them are read together; all others come first, one by one.
It stops as soon as a LIMIT without ORDER BY has its rows. A failing row makes the query fail, with the row's values, unless
other rows satisfy such a LIMIT (`row_failures.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tidegate import fork
from tidegate.expr.model import Column, Expr
from tidegate.plan import MapFilterProject, may_pass
from tidegate.plan.run import SafePlan
from tidegate.query.estimate.rows import Estimates, stage_plan
from tidegate.query.late import steps
from tidegate.query.late.batching import Widths
from tidegate.query.late.row_index import count_lookup
from tidegate.query.late.staged_scan import StagedScan, Taken, weight
from tidegate.query.paths.prefetch import ahead
from tidegate.query.prune.candidates import retraction_candidates
from tidegate.query.prune.long_lists import ListsByPart
from tidegate.query.prune.parts import (
    BITS,
    MAX_CACHED_PARTS,
    PruneResult,
    cached_for_plan,
    treats_equal_alike,
)
from tidegate.query.request import ScanRequest
from tidegate.query.result import Result
from tidegate.query.row_failures import Failing, row_error
from tidegate.query.row_stream import Batch, shaped, size_of
from tidegate.query.scan_metrics import ScanMetrics
from tidegate.query.sort import ResultShape, SortBuffer
from tidegate.storage.part import Block, Part, concat, consolidate, consolidate_rows, repeat_rows

_RowFilter: TypeAlias = Callable[[list[pa.Array], int], np.ndarray]
"""From columns and a number of rows, the places of the rows that are selected."""

SUMMED_AT = 1_000_000
"""Rows that have passed the filter beyond which those of equal value are made one while more are read."""
HELD = 8 << 20
"""Bytes of rows that have passed the filter beyond which these are made one; if half of that is left, they are not held."""
LOOKED_AT = 64
"""Parts that stand for all when it is asked how large they are."""
CORES = os.cpu_count() or 1
PARALLEL = 4 << 20
"""Bytes below which one thread reads all."""


def answer(request: ScanRequest, found: PruneResult, scan: ScanMetrics) -> Iterator[Batch]:
    """The rows of the query, as they are read."""
    rows = _complete(request, found, scan)
    return shaped(rows, request.plan.types, request.shape, request.config.max_result_bytes)


def _complete(request: ScanRequest, found: PruneResult, scan: ScanMetrics) -> Iterator[Batch]:
    """All passing rows. With an unordered LIMIT a failing row counts only if rows are missing."""
    failing = Failing(patient=request.shape.any_rows)
    yield from stream(request, found, scan, failing)
    failing.check()


def stream(
    request: ScanRequest, found: PruneResult, scan: ScanMetrics, failing: Failing | None = None
) -> Iterator[Batch]:
    """The plan's output, in batches. A failing row raises, unless `failing` is patient."""
    failing = failing or Failing()
    if found.retracts and request.config.stats_filter:
        apart, found = _divided(found)
        yield from _staged(request, apart, scan, failing) if apart.left else ()
    if not found.retracts:
        yield from _staged(request, found, scan, failing)
    elif request.plan.predicates and treats_equal_alike(request.plan):
        yield from _met(request, found, scan, failing)
    else:
        yield from _whole(request, found, scan, failing)


def _divided(found: PruneResult) -> tuple[PruneResult, PruneResult]:
    """The parts that no retraction concerns, by their statistics, and those whose rows must meet."""
    meeting = retraction_candidates(found.snapshot)
    places = np.arange(len(meeting)) if found.kept is None else found.kept
    apart = replace(found, kept=places[~meeting[places]], retracts=False, whole=False)
    return apart, replace(found, kept=places[meeting[places]], whole=False) if apart.left else found


def once(mfp: MapFilterProject, names: Sequence[str], shape: ResultShape, now: int) -> Result:
    """A SELECT without FROM: the plan over one row without columns."""
    plan = mfp.at(now).optimise()
    got = SafePlan(plan).evaluate([], 1, now)
    if len(got.failures):
        raise row_error(got.failures, [], [])
    gathered = SortBuffer(plan.types, shape)
    gathered.add(got.columns, len(got.selection))
    return Result(tuple(names), plan.types[: len(names)], tuple(gathered.finish()[: len(names)]))


def _staged(request: ScanRequest, found: PruneResult, scan: ScanMetrics, failing: Failing) -> Iterator[Batch]:
    """Part by part, several at the same time: no row must meet a retraction."""
    return map(counted, take_rows(Undecided(request, found, scan, failing)))


def take_rows(staged: Undecided) -> Iterator[Taken]:
    """What leaves the plan of all parts that are left."""
    request, found = staged.request, staged.found
    jobs = [
        partial(staged.read, place, part, proven)
        for place, (part, proven) in enumerate(zip(found.parts, found.proven(), strict=True))
    ]
    for taken in ahead(jobs, workers(request, found.parts), weight):
        request.snapshot.lease.keep()  # here, and not in the threads: each would open a connection of its own
        yield taken


def locate_rows(request: ScanRequest, found: PruneResult, scan: ScanMetrics) -> Iterator[Taken]:
    """What leaves the plan, with the positions of the rows: for DELETE and UPDATE. A failing row raises."""
    return take_rows(Undecided(request, found, scan, Failing(), locate=True))


class Undecided:
    """Reads each part with the plan less the conditions that the part's statistics prove."""

    def __init__(
        self,
        request: ScanRequest,
        found: PruneResult,
        scan: ScanMetrics,
        failing: Failing,
        *,
        locate: bool = False,
    ) -> None:
        self.request, self.found, self.scan, self.failing, self.locate = request, found, scan, failing, locate
        self._plans: dict[int, StagedScan] = {}
        self._lists = ListsByPart.of(found)
        self._lock = fork.lock()

    def read(self, place: int, part: Part, proven: int) -> Iterator[Taken]:
        """The plan's output for the part at a place; `proven`: conditions that hold for all rows, as bits."""
        with self._lock:
            if proven not in self._plans:
                self._plans[proven] = self._staged(proven)
        staged = self._plans[proven] if self._lists is None else self._with_lists(place, proven)
        hit = False
        for taken in staged.read(part, proven=False):
            hit = True
            yield taken
        count_lookup(self.request.snapshot, staged.plan, part, hit=hit)

    def _staged(self, proven: int) -> StagedScan:
        plan = self.request.plan
        if proven:
            plan = plan.rebuild([condition for _, condition in self._open(proven)], plan.outputs)
        stages = partial(groups, self.request, self.found, plan)
        return StagedScan(self.request, self.scan, plan, stages, failing=self.failing, locate=self.locate)

    def _with_lists(self, place: int, proven: int) -> StagedScan:
        """The scan of one part, with the constants of long lists that are within its bounds."""
        assert self._lists is not None
        wide = self._plans[proven].plan
        conditions = self._lists.conditions(place, self._open(proven))
        return self._plans[proven].with_plan(wide.rebuild(conditions, wide.outputs))

    def _open(self, proven: int) -> list[tuple[int, Expr]]:
        """The conditions that are not proven, with their places."""
        assert self.found.verdicts is not None
        each = enumerate(self.found.verdicts.by_condition)
        return [(i, condition) for i, (condition, _) in each if i >= BITS or not proven >> i & 1]


def counted(taken: Taken) -> Batch:
    """Rows as often as they are there, and how many those are."""
    if taken.diffs is None:
        return taken.columns, taken.rows
    return repeat_rows(Block(taken.columns, taken.diffs, taken.diffs)), int(taken.diffs.sum())


def _met(request: ScanRequest, found: PruneResult, scan: ScanMetrics, failing: Failing) -> Iterator[Batch]:
    """Passing and failing rows, consolidated; `prune/parts.py` says why filtering first is sound.

    They are held until the last part was read. If that is too much, all is read anew, block by block: `_whole`.
    """
    demanded, names, narrow = _narrow(request)
    whole = SafePlan(narrow.mfp.project(()))

    def where(columns: list[pa.Array], rows: int) -> np.ndarray:
        # Stages keep what is not surely False. A NULL must go: statistics may have dropped the part of its retraction.
        got = whole.evaluate(columns, rows, request.now)
        return np.union1d(got.selection, got.failures.rows).astype(np.int64)

    trial = ScanMetrics()
    passing = _passing(request, found, trial, demanded, where)
    if passing is None:
        scan.add("begin anew", bytes=trial.bytes_read, rows_in=trial.rows_read)
        yield from _whole(request, found, scan, failing, where)
        return
    scan.absorb(trial)
    there = consolidate_rows(passing, names)
    rows = int(there.diffs.sum())
    yield from _evaluated(request, narrow, demanded, repeat_rows(there), rows, Widths(), failing)


def _passing(
    request: ScanRequest, found: PruneResult, scan: ScanMetrics, demanded: Sequence[int], where: _RowFilter
) -> Block | None:
    """The rows that are wanted, with their diffs; None: they take more than `HELD` bytes."""
    plan = request.plan
    kept = [Column(i, plan.inputs[i]) for i in demanded]
    may = plan.rebuild([may_pass(c) for c in plan.conditions], kept)
    staged = StagedScan(request, scan, may, groups(request, found))
    nothing = np.zeros(0, np.int64)
    passing = [Block([pa.array([], plan.inputs[i].arrow) for i in demanded], nothing, nothing)]
    waiting, size = 0, 0
    jobs = [partial(staged.read, part, proven=False) for part in found.parts]
    for taken in ahead(jobs, workers(request, found.parts), weight):
        request.snapshot.lease.keep()
        diffs = np.ones(taken.rows, np.int64) if taken.diffs is None else taken.diffs
        block = Block(taken.columns, diffs, diffs).take(where(taken.columns, taken.rows))
        passing.append(block)
        waiting, size = waiting + len(block), size + size_of(block.columns)
        if waiting > SUMMED_AT or size > HELD:
            passing = [consolidate(concat(passing), by_time=False)]
            waiting, size = 0, size_of(passing[0].columns)
            if size > HELD // 2:
                return None
    return concat(passing)


def _whole(
    request: ScanRequest,
    found: PruneResult,
    scan: ScanMetrics,
    failing: Failing,
    where: _RowFilter | None = None,
) -> Iterator[Batch]:
    """Rows that have met what retracts them, and then the plan."""
    demanded, names, narrow = _narrow(request)
    scan.count(found.parts)
    widths = Widths()
    for batch in request.snapshot.batches(names, found.parts, where):
        yield from _evaluated(request, narrow, demanded, batch.columns, batch.num_rows, widths, failing)


def _narrow(request: ScanRequest) -> tuple[list[int], list[str], SafePlan]:
    """The columns that the plan reads, their names, and the plan over these alone."""
    plan, columns = request.plan, request.snapshot.schema.columns
    demanded = sorted(plan.demand())
    types = [columns[i].type for i in demanded]
    narrow = SafePlan(plan.permute({column: i for i, column in enumerate(demanded)}, types))
    return demanded, [columns[i].name for i in demanded], narrow


def _evaluated(
    request: ScanRequest,
    plan: SafePlan,
    demanded: Sequence[int],
    columns: list[pa.Array],
    rows: int,
    widths: Widths,
    failing: Failing,
) -> Iterator[Batch]:
    """What leaves a plan of rows with the demanded columns."""
    for some in widths.slices("", plan, rows):
        request.cancel.check()
        given = [column.slice(some.start, some.stop - some.start) for column in columns]
        got = plan.evaluate(given, some.stop - some.start, request.now, request.cancel.check)
        if len(got.failures):
            labels = [request.snapshot.labels[i] for i in demanded]
            failing.meet(partial(row_error, got.failures, labels, given))
        widths.see_made("", got.columns, some.stop - some.start)
        yield got.columns, len(got.selection)


def groups(
    request: ScanRequest, found: PruneResult, plan: MapFilterProject | None = None
) -> list[tuple[int, ...]]:
    """The columns of each read stage (`plan/conditions.py`), for the request's plan or another."""
    plan = request.plan if plan is None else plan
    if not request.config.late_materialization or not plan.predicates or not found.left:
        return []
    if len(plan.demand()) < 2 or max(part.rows for part in found.first(LOOKED_AT)) < steps.MIN_STAGED_ROWS:
        return []

    def make() -> list[tuple[int, ...]]:
        estimates = Estimates.of(request.snapshot, found.kept, request.now)
        return [stage.columns for stage in stage_plan(plan, estimates, weights(request, found, plan)).stages]

    if found.left > MAX_CACHED_PARTS:
        return make()
    kept = None if found.kept is None else found.kept.tobytes()
    return cached_for_plan(request.snapshot, plan, request.now, ("groups", kept), make)


def weights(
    request: ScanRequest, found: PruneResult, plan: MapFilterProject | None = None
) -> dict[int, float] | None:
    """The bytes of each column that the plan reads, in one of the larger parts; None: unknown."""
    largest = max(found.first(LOOKED_AT), key=lambda part: part.size)
    file = request.snapshot.open_file(largest)
    if file.table is None:
        return None
    columns = request.snapshot.schema.columns
    demand = (request.plan if plan is None else plan).demand()
    return {i: float(file.weight(columns[i].id)) for i in demand}


def workers(request: ScanRequest, parts: Sequence[Part]) -> int:
    """How many parts are read at the same time: threads cost more than small parts do."""
    threads = request.config.read_threads or CORES
    few = sum(part.size for part in parts[:LOOKED_AT]) < PARALLEL
    return 1 if few else min(threads, len(parts))
