"""`ORDER BY key LIMIT n`: the best rows, and only parts that can hold one of them.

    SELECT * FROM orders ORDER BY at DESC LIMIT 10

Of each part, statistics tell the best key that it may hold (`at` at most …). Parts are read in the order of these bounds. As soon
as n rows are there, the worst of them is a bar:

| | |
|---|---|
| parts whose best key does not pass the bar | are not read, nor are those behind them |
| of other parts | the bar goes along as one more condition, `at >= bar`: pages are left out, and other columns read late |

The first part has no bar yet; it gets one by reading the keys alone, and of these only the pages with the best bounds if they hold
n rows. A part in which some row may fail is read in any case, without a bar: a full read would report the error. Rows whose keys
are equal to the bar's may be left out, where they would only take the place of others with the same key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain import Interpretation, Specs, any_of
from tidegate.expr.model import Expr, Kind, Literal, Type, build, subexpressions, support
from tidegate.plan import MapFilterProject
from tidegate.plan import deciding_columns as decisive
from tidegate.query.late import steps
from tidegate.query.late.pages import page_specs
from tidegate.query.late.staged_scan import StagedScan, weight
from tidegate.query.paths import local
from tidegate.query.paths.prefetch import ahead
from tidegate.query.prune.parts import PruneResult, PruningPredicate
from tidegate.query.request import ScanRequest
from tidegate.query.row_stream import Batch, sliced
from tidegate.query.scan_metrics import ScanMetrics
from tidegate.query.sort import OrderBy, ResultShape, SortBuffer
from tidegate.storage.part import Part, row_keys

MAX_TOP_K = 10_000
"""Rows up to which it is worth it to keep a bar."""
ROUND = 64
"""Parts that are read before the bar is set anew, at most."""
PAGES_PER_BOUND = 2
"""Pages for each row of the bound: with fewer, all keys are read at once."""
_UNORDERED = (Kind.ARRAY, Kind.RECORD, Kind.JSONB, Kind.BOOL, Kind.UNKNOWN)


def suits(request: ScanRequest, found: PruneResult) -> bool:
    """Whether a question can be answered so."""
    shape, config = request.shape, request.config
    if not (config.fast_path and config.stats_filter and shape.order) or request.aggregation is not None:
        return False
    if subexpressions.volatile_calls(*request.plan.conditions, *request.plan.outputs):
        return False  # keys and rows are read one after the other, and would be ordered by different random numbers
    few = shape.max_rows is not None and 0 < shape.max_rows <= MAX_TOP_K and shape.limit != 0
    return few and bool(found.left) and not found.retracts and is_sortable(key_of(request).type)


def is_sortable(type_: Type) -> bool:
    """Whether the bounds of values of this type tell which part has the best one."""
    return type_.kind not in _UNORDERED


def key_of(request: ScanRequest) -> Expr:
    """What is sorted by first."""
    return request.plan.outputs[request.shape.order[0].column]


def stream(request: ScanRequest, found: PruneResult, scan: ScanMetrics) -> Iterator[Batch]:
    """The best rows: they are few, and held until all parts that may hold one were read."""
    gathered = SortBuffer(request.plan.types, request.shape, request.config.max_result_bytes)
    for parts, bar in _Bars(request, found).rounds(gathered, scan):
        plan = request.plan if bar is None else _barred(request, bar)
        staged = StagedScan(request, scan, plan, local.groups(request, found, plan))
        jobs = [partial(staged.read, part, proven=False) for part in parts]
        for taken in ahead(jobs, local.workers(request, parts), weight):
            request.snapshot.lease.keep()
            gathered.add(*local.counted(taken))
    yield from sliced(gathered.finish())


class _Bars:
    """The parts in the order of the best key that each may hold."""

    def __init__(self, request: ScanRequest, found: PruneResult) -> None:
        self.request, self.found = request, found
        self.places = np.arange(found.left) if found.kept is None else found.kept
        best, free, fails = _bounds(request)
        self.best, free, fails = best.take(pa.array(self.places)), free[self.places], fails[self.places]
        descending = request.shape.order[0].descending
        at = pc.array_sort_indices(self.best, order="descending" if descending else "ascending").to_numpy()
        at = at[~fails[at]]
        self.failing = np.flatnonzero(fails)
        self.free = int(np.count_nonzero(free & ~fails))
        # What has no bound comes first: it is read in any case.
        self.order = np.concatenate([at[free[at]], at[~free[at]]])

    def rounds(self, gathered: SortBuffer, scan: ScanMetrics) -> Iterator[tuple[list[Part], pa.Array | None]]:
        """Parts to be read next, and the bar they have to pass."""
        if len(self.failing):
            yield self._pick(self.failing), None
        begin, size = 0, 1
        while begin < len(self.order):
            bar = gathered.worst()
            end = min(begin + size, len(self.order))
            some = self.order[begin:end]
            if bar is not None:
                some = some[self._passing(some, bar)]
                if not len(some) and begin >= self.free:
                    return
            elif begin == 0:
                bar = self._first(
                    self._pick(some)[0], scan
                )  # of rows that are still to be read: all of them may pass
            if len(some):
                yield self._pick(some), bar
            begin, size = end, min(2 * size, ROUND)

    def _passing(self, some: np.ndarray, bar: pa.Array) -> np.ndarray:
        """Which of these parts may hold a row that is better than the bar."""
        best = self.best.take(pa.array(some))
        if not bar.is_valid()[0].as_py():
            # The bar is NULL. Sorted last, every value is better. Sorted first, only another NULL may be, by the next key;
            # and whatever may hold one has no bound.
            if not self.request.shape.order[0].nulls_first:
                return np.ones(len(some), bool)
            unbounded: np.ndarray = best.is_null().to_numpy(zero_copy_only=False)
            return unbounded
        edge = row_keys([bar], 1)[0]
        order = self.request.shape.order
        if len(order) > 1:
            better = pc.greater_equal(best, edge) if order[0].descending else pc.less_equal(best, edge)
        else:
            better = pc.greater(best, edge) if order[0].descending else pc.less(best, edge)
        passing: np.ndarray = pc.fill_null(better, True).to_numpy(zero_copy_only=False)
        return passing

    def _first(self, part: Part, scan: ScanMetrics) -> pa.Array | None:
        """A bar from the keys of the most promising part alone."""
        request, first = self.request, self.request.shape.order[0]
        narrow = request.plan.project([first.column])
        shape = ResultShape((OrderBy(0, first.descending, first.nulls_first),), request.shape.max_rows)
        keys = replace(request, plan=narrow, shape=shape)
        bound = self._page_bound(keys, part)
        found = None if bound is None else self._worst_key(keys, _barred(keys, bound), part, scan)
        if found is not None:
            return found
        if len(narrow.demand()) == len(request.plan.demand()) or part.rows < steps.MIN_STAGED_ROWS:
            return None
        return self._worst_key(keys, narrow, part, scan)

    def _page_bound(self, request: ScanRequest, part: Part) -> pa.Array | None:
        """A key that enough rows of a part probably reach, by the statistics of its pages; None: no such key.

        Each page has a row at its bound, if that is exact and the row is not deleted: half of them are expected to.
        """
        wanted, file = (
            2 * (request.shape.max_rows or 0),
            request.snapshot.open_file(part),
        )
        if file.frame is None or len(file.frame) < PAGES_PER_BOUND * wanted:
            return None
        key, first = key_of(request), request.shape.order[0]
        specs = Interpretation(page_specs(request, file, support(key)), (request.now, request.now)).of(key)
        bound = specs.high if first.descending else specs.low
        if bound is None or len(bound) != len(file.frame) or bound.null_count:
            return None
        keys = row_keys([bound], len(bound))
        at = pc.array_sort_indices(keys, order="descending" if first.descending else "ascending")
        return bound.slice(at[wanted - 1].as_py(), 1)

    def _worst_key(
        self, request: ScanRequest, plan: MapFilterProject, part: Part, scan: ScanMetrics
    ) -> pa.Array | None:
        """The worst of the best keys that a plan yields of a part; None: there are too few."""
        keys, counting = SortBuffer(plan.types, request.shape), ScanMetrics()
        groups = local.groups(request, self.found, plan)
        for taken in StagedScan(request, counting, plan, groups).read(part, proven=False):
            keys.add(*local.counted(taken))
        scan.close(counting.bytes_read)
        return keys.worst()

    def _pick(self, at: np.ndarray) -> list[Part]:
        return self.found.snapshot.pick(np.sort(self.places[at]))


def _bounds(request: ScanRequest) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    """For each part: its best key as comparable bytes, whether it is unbounded, whether rows may fail."""
    key, first, plan = key_of(request), request.shape.order[0], request.plan
    wanted = decisive(plan) | support(key)
    asked = PruningPredicate.of(request.snapshot, plan, request.now)
    best, free, fails = [pa.array([], pa.large_binary())], [np.zeros(0, bool)], [np.zeros(0, bool)]
    for specs, count in asked.stretches(wanted):
        interpretation = Interpretation(specs, (request.now, request.now))
        failing = [
            interpretation.of(e).error for e in (*plan.conditions, *plan.outputs) if support(e) <= wanted
        ]
        found, unknown = _best(interpretation.of(key), first, count)
        best.append(found)
        free.append(unknown)
        fails.append(np.broadcast_to(any_of(failing), count))
    return pa.concat_arrays(best), np.concatenate(free), np.concatenate(fails)


def _best(specs: Specs, first: OrderBy, count: int) -> tuple[pa.Array, np.ndarray]:
    """The best key of each part, NULL where it is unbounded, and where that is."""
    bound = specs.high if first.descending else specs.low
    if bound is None:
        return pa.nulls(count, pa.large_binary()), np.ones(count, bool)
    spread = pa.array(np.arange(count) if len(bound) == count else np.zeros(count, np.int64))
    bound = bound.take(spread)
    free = bound.is_null().to_numpy(zero_copy_only=False).copy()
    if first.nulls_first:
        free |= specs.null
    if first.descending and specs.nan is not None:
        free |= specs.nan  # NaN is the greatest, and no bound speaks of it
    keys = row_keys([bound], count)
    return pc.if_else(pa.array(free), pa.scalar(None, keys.type), keys), free


def _barred(request: ScanRequest, bar: pa.Array) -> MapFilterProject:
    """The plan for rows that are no worse than the bar."""
    key, first = key_of(request), request.shape.order[0]
    if not bar.is_valid()[0].as_py():
        return request.plan
    passing = build.call(">=" if first.descending else "<=", key, Literal(bar[0], key.type))
    if first.nulls_first:
        passing = build.disjunction([build.call("is null", key), passing])
    plan = request.plan
    whole = MapFilterProject.identity(plan.inputs)
    return (
        whole.filter(*plan.conditions, passing)
        .map(*plan.outputs)
        .project(range(plan.arity, plan.arity + len(plan.outputs)))
    )
