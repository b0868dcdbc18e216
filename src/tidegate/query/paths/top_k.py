"""`ORDER BY key LIMIT n`: the best rows, and only parts that can hold one of them.

    SELECT * FROM orders ORDER BY at DESC LIMIT 10

Of each part, statistics tell the best key that it may hold (`at` at most …). Parts are read in the order of these bounds. As soon
as n rows are there, the worst of them is a bar:

| | |
|---|---|
| parts whose best key does not pass the bar | are not read, nor are those behind them |
| of other parts | the bar goes along as one more condition, `at >= bar`: pages are left out, and other columns read late |

The first part has no bar yet; it gets one by reading the keys alone. A part in which some row may fail is read in any case, without
a bar: a full read would report the error. Rows whose keys are equal to the bar's may be left out, where they would only take the
place of others with the same key.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.build import call, disjunction
from tidegate.expr.interpret import Interpretation
from tidegate.expr.specs import Specs
from tidegate.expr.transfer import any_of
from tidegate.expr.tree import Expr, Literal, support
from tidegate.expr.types import Kind
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.verdict import asked as decisive
from tidegate.scan import local
from tidegate.scan.ahead import ahead
from tidegate.scan.late import Staged, weight
from tidegate.scan.prune import Asked, Pruned
from tidegate.scan.question import Question
from tidegate.scan.result import Scan
from tidegate.scan.sort import Gathered, OrderBy, Shape
from tidegate.scan.stream import Batch, sliced
from tidegate.shard.change import Part
from tidegate.shard.rowkey import row_keys

MOST = 10_000
"""Rows up to which it is worth it to keep a bar."""
ROUND = 64
"""Parts that are read before the bar is set anew, at most."""
_UNORDERED = (Kind.ARRAY, Kind.RECORD, Kind.JSONB, Kind.BOOL, Kind.UNKNOWN)


def suits(question: Question, found: Pruned) -> bool:
    """Whether a question can be answered so."""
    shape, config = question.shape, question.config
    if not (config.fast_path and config.stats_filter and shape.order) or question.aggregation is not None:
        return False
    few = shape.most is not None and 0 < shape.most <= MOST and shape.limit != 0
    return few and bool(found.left) and not found.retracts and key_of(question).type.kind not in _UNORDERED


def key_of(question: Question) -> Expr:
    """What is sorted by first."""
    return question.plan.outputs[question.shape.order[0].column]


def stream(question: Question, found: Pruned, scan: Scan) -> Iterator[Batch]:
    """The best rows: they are few, and held until all parts that may hold one were read."""
    gathered = Gathered(question.plan.types, question.shape, question.config.max_result_bytes)
    for parts, bar in _Bars(question, found).rounds(gathered, scan):
        plan = question.plan if bar is None else _barred(question, bar)
        staged = Staged(question, scan, plan, local.groups(question, found, plan))
        jobs = [partial(staged.read, part, proven=False) for part in parts]
        for taken in ahead(jobs, local.workers(question, parts), weight):
            question.snapshot.lease.keep()
            gathered.add(*local.counted(taken))
    yield from sliced(gathered.finish())


class _Bars:
    """The parts in the order of the best key that each may hold."""

    def __init__(self, question: Question, found: Pruned) -> None:
        self.question, self.found = question, found
        self.places = np.arange(found.left) if found.kept is None else found.kept
        best, free, fails = _bounds(question)
        self.best, free, fails = best.take(pa.array(self.places)), free[self.places], fails[self.places]
        descending = question.shape.order[0].descending
        at = pc.array_sort_indices(self.best, order="descending" if descending else "ascending").to_numpy()
        at = at[~fails[at]]
        self.failing = np.flatnonzero(fails)
        self.free = int(np.count_nonzero(free & ~fails))
        # What has no bound comes first: it is read in any case.
        self.order = np.concatenate([at[free[at]], at[~free[at]]])

    def rounds(self, gathered: Gathered, scan: Scan) -> Iterator[tuple[list[Part], pa.Array | None]]:
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
            if not self.question.shape.order[0].nulls_first:
                return np.ones(len(some), bool)
            unbounded: np.ndarray = best.is_null().to_numpy(zero_copy_only=False)
            return unbounded
        edge = row_keys([bar], 1)[0]
        order = self.question.shape.order
        if len(order) > 1:
            better = pc.greater_equal(best, edge) if order[0].descending else pc.less_equal(best, edge)
        else:
            better = pc.greater(best, edge) if order[0].descending else pc.less(best, edge)
        passing: np.ndarray = pc.fill_null(better, True).to_numpy(zero_copy_only=False)
        return passing

    def _first(self, part: Part, scan: Scan) -> pa.Array | None:
        """A bar from the keys of the most promising part alone."""
        question, first = self.question, self.question.shape.order[0]
        narrow = question.plan.project([first.column])
        if len(narrow.demand()) == len(question.plan.demand()) or part.rows < local.WORTH:
            return None
        shape = Shape((OrderBy(0, first.descending, first.nulls_first),), question.shape.most)
        keys = Gathered(narrow.types, shape)
        counting = Scan()
        groups = local.groups(question, self.found, narrow)
        for taken in Staged(question, counting, narrow, groups).read(part, proven=False):
            keys.add(*local.counted(taken))
        scan.close(counting.bytes_read)
        return keys.worst()

    def _pick(self, at: np.ndarray) -> list[Part]:
        return self.found.snapshot.pick(np.sort(self.places[at]))


def _bounds(question: Question) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    """Of each part of the snapshot: its best key as bytes that compare, whether it has none, and whether some row may fail."""
    key, first, plan = key_of(question), question.shape.order[0], question.plan
    wanted = decisive(plan) | support(key)
    asked = Asked.of(question.snapshot, plan, question.now)
    best, free, fails = [pa.array([], pa.large_binary())], [np.zeros(0, bool)], [np.zeros(0, bool)]
    for specs, count in asked.stretches(wanted):
        interpretation = Interpretation(specs, (question.now, question.now))
        failing = [
            interpretation.of(e).error for e in (*plan.conditions, *plan.outputs) if support(e) <= wanted
        ]
        found, unknown = _best(interpretation.of(key), first, count)
        best.append(found)
        free.append(unknown)
        fails.append(np.broadcast_to(any_of(failing), count))
    return pa.concat_arrays(best), np.concatenate(free), np.concatenate(fails)


def _best(specs: Specs, first: OrderBy, count: int) -> tuple[pa.Array, np.ndarray]:
    """The best key of each part; NULL, and told so, where nothing bounds it."""
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


def _barred(question: Question, bar: pa.Array) -> MapFilterProject:
    """The plan for rows that are no worse than the bar."""
    key, first = key_of(question), question.shape.order[0]
    if not bar.is_valid()[0].as_py():
        return question.plan
    passing = call(">=" if first.descending else "<=", key, Literal(bar[0], key.type))
    if first.nulls_first:
        passing = disjunction([call("is null", key), passing])
    plan = question.plan
    whole = MapFilterProject.identity(plan.inputs)
    return (
        whole.filter(*plan.conditions, passing)
        .map(*plan.outputs)
        .project(range(plan.arity, plan.arity + len(plan.outputs)))
    )
