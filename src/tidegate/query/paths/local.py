"""The local path: a snapshot's parts, one after the other, through a plan, in this process.

    answer(question, found, scan)      parts that may matter → batches of demanded columns → what passes → order, limits
    stream(question, found, scan)      the same without the last step: for whoever adds up, sorts or picks

It stops as soon as a LIMIT without ORDER BY has its rows. A row that fails makes the query fail, with the row's values, unless
such a LIMIT is met by others (`failed.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from tidegate import fork
from tidegate.expr.tree import Column
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.optimise import rebuild
from tidegate.plan.safe import SafePlan
from tidegate.plan.take import may_pass
from tidegate.scan.ahead import ahead
from tidegate.scan.batching import Widths
from tidegate.scan.estimate import Estimates, choice
from tidegate.scan.failed import Failing, failed
from tidegate.scan.late import Staged, Taken, weight
from tidegate.scan.prune import REMEMBERED, Pruned, exact, known
from tidegate.scan.question import Question
from tidegate.scan.result import Result, Scan
from tidegate.scan.sort import Gathered, Shape
from tidegate.scan.stream import Batch, shaped, size_of
from tidegate.shard.change import Part
from tidegate.shard.file import PartFile
from tidegate.shard.merge import Block, concat, repeated, settled, summed
from tidegate.shard.reader import Where

SUMMED_AT = 1_000_000
"""Rows that have passed the filter beyond which those of equal value are made one while more are read."""
HELD = 8 << 20
"""Bytes of rows that have passed the filter beyond which these are made one; if half of that is left, they are not held."""
WORTH = 16_384
"""Rows of a part below which it is read in one go: its columns are a page or two each, whatever the filter says."""
LOOKED_AT = 64
"""Parts that stand for all when it is asked how large they are."""
CORES = os.cpu_count() or 1
PARALLEL = 4 << 20
"""Bytes below which one thread reads all."""


def answer(question: Question, found: Pruned, scan: Scan) -> Iterator[Batch]:
    """The rows of the query, as they are read."""
    rows = _complete(question, found, scan)
    return shaped(rows, question.plan.types, question.shape, question.config.max_result_bytes)


def _complete(question: Question, found: Pruned, scan: Scan) -> Iterator[Batch]:
    """All rows that pass. Where any rows will do, one that fails makes the query fail only if all were asked for."""
    failing = Failing(patient=question.shape.any_rows)
    yield from stream(question, found, scan, failing)
    failing.check()


def stream(question: Question, found: Pruned, scan: Scan, failing: Failing | None = None) -> Iterator[Batch]:
    """What leaves the plan, in batches: its columns and how many rows. A row that fails raises, unless `failing` is patient."""
    failing = failing or Failing()
    if not found.retracts:
        yield from _staged(question, found, scan, failing)
    elif question.plan.predicates and exact(question.plan):
        yield from _met(question, found, scan, failing)
    else:
        yield from _whole(question, found, scan, failing)


def once(mfp: MapFilterProject, names: Sequence[str], shape: Shape, now: int) -> Result:
    """A SELECT without FROM: the plan over one row without columns."""
    plan = mfp.at(now).optimise()
    got = SafePlan(plan).evaluate([], 1, now)
    if len(got.failures):
        raise failed(got.failures, [], [])
    gathered = Gathered(plan.types, shape)
    gathered.add(got.columns, len(got.selection))
    return Result(tuple(names), plan.types[: len(names)], tuple(gathered.finish()[: len(names)]))


def _staged(question: Question, found: Pruned, scan: Scan, failing: Failing) -> Iterator[Batch]:
    """Part by part, several at the same time: nothing was ever retracted."""
    staged = Undecided(question, found, scan, failing)
    jobs = [
        partial(staged.read, part, proven) for part, proven in zip(found.parts, found.proven(), strict=True)
    ]
    for taken in ahead(jobs, workers(question, found.parts), weight):
        question.snapshot.lease.keep()  # here, and not in the threads: each would open a connection of its own
        yield counted(taken)


class Undecided:
    """The question's plan for each part without the conditions that its statistics prove: nothing is read to ask these again."""

    def __init__(self, question: Question, found: Pruned, scan: Scan, failing: Failing) -> None:
        self.question, self.found, self.scan, self.failing = question, found, scan, failing
        self._plans: dict[int, Staged] = {}
        self._lock = fork.lock()

    def read(self, part: Part, proven: int) -> Iterator[Taken]:
        """What leaves the plan of a part's rows; `proven`: the conditions that hold for all of them, as `Pruned.proven` says."""
        with self._lock:
            if proven not in self._plans:
                self._plans[proven] = self._staged(proven)
        return self._plans[proven].read(part, proven=False)

    def _staged(self, proven: int) -> Staged:
        plan = self.question.plan
        if proven:
            assert self.found.verdicts is not None
            open_ = [c for i, (c, _) in enumerate(self.found.verdicts.by_condition) if not proven >> i & 1]
            plan = rebuild(plan, open_, plan.outputs)
        stages = partial(groups, self.question, self.found, plan)
        return Staged(self.question, self.scan, plan, stages, failing=self.failing)


def counted(taken: Taken) -> Batch:
    """Rows as often as they are there, and how many those are."""
    if taken.diffs is None:
        return taken.columns, taken.rows
    return repeated(Block(taken.columns, taken.diffs, taken.diffs)), int(taken.diffs.sum())


def _met(question: Question, found: Pruned, scan: Scan, failing: Failing) -> Iterator[Batch]:
    """Rows that pass the filter or fail in it, each with all its diffs, added up: see `prune.py` for why this is sound.

    They are held until the last part was read. If that is too much, all is read anew, block by block: `_whole`.
    """
    demanded, names, narrow = _narrow(question)
    whole = SafePlan(narrow.mfp.project(()))

    def where(columns: list[pa.Array], rows: int) -> np.ndarray:
        # Stages keep what is not surely False. A NULL must go: statistics may have dropped the part of its retraction.
        got = whole.evaluate(columns, rows, question.now)
        return np.union1d(got.selection, got.failures.rows).astype(np.int64)

    trial = Scan()
    passing = _passing(question, found, trial, demanded, where)
    if passing is None:
        scan.add("begin anew", bytes=trial.bytes_read, rows_in=trial.rows_read)
        yield from _whole(question, found, scan, failing, where)
        return
    scan.absorb(trial)
    there = settled(passing, names)
    rows = int(there.diffs.sum())
    yield from _evaluated(question, narrow, demanded, repeated(there), rows, Widths(), failing)


def _passing(
    question: Question, found: Pruned, scan: Scan, demanded: Sequence[int], where: Where
) -> Block | None:
    """The rows that are wanted, with their diffs; None: they take more than `HELD` bytes."""
    plan = question.plan
    kept = [Column(i, plan.inputs[i]) for i in demanded]
    may = rebuild(plan, [may_pass(c) for c in plan.conditions], kept)
    staged = Staged(question, scan, may, groups(question, found))
    nothing = np.zeros(0, np.int64)
    passing = [Block([pa.array([], plan.inputs[i].arrow) for i in demanded], nothing, nothing)]
    waiting, size = 0, 0
    jobs = [partial(staged.read, part, proven=False) for part in found.parts]
    for taken in ahead(jobs, workers(question, found.parts), weight):
        question.snapshot.lease.keep()
        diffs = np.ones(taken.rows, np.int64) if taken.diffs is None else taken.diffs
        block = Block(taken.columns, diffs, diffs).take(where(taken.columns, taken.rows))
        passing.append(block)
        waiting, size = waiting + len(block), size + size_of(block.columns)
        if waiting > SUMMED_AT or size > HELD:
            passing = [summed(concat(passing), by_time=False)]
            waiting, size = 0, size_of(passing[0].columns)
            if size > HELD // 2:
                return None
    return concat(passing)


def _whole(
    question: Question, found: Pruned, scan: Scan, failing: Failing, where: Where | None = None
) -> Iterator[Batch]:
    """Rows that have met what retracts them, and then the plan."""
    demanded, names, narrow = _narrow(question)
    scan.count(found.parts)
    widths = Widths()
    for batch in question.snapshot.batches(names, found.parts, where):
        yield from _evaluated(question, narrow, demanded, batch.columns, batch.num_rows, widths, failing)


def _narrow(question: Question) -> tuple[list[int], list[str], SafePlan]:
    """The columns that the plan reads, their names, and the plan over these alone."""
    plan, columns = question.plan, question.snapshot.schema.columns
    demanded = sorted(plan.demand())
    types = [columns[i].type for i in demanded]
    narrow = SafePlan(plan.permute({column: i for i, column in enumerate(demanded)}, types))
    return demanded, [columns[i].name for i in demanded], narrow


def _evaluated(
    question: Question,
    plan: SafePlan,
    demanded: Sequence[int],
    columns: list[pa.Array],
    rows: int,
    widths: Widths,
    failing: Failing,
) -> Iterator[Batch]:
    """What leaves a plan of rows with the demanded columns."""
    for some in widths.slices("", plan, rows):
        question.watch.check()
        given = [column.slice(some.start, some.stop - some.start) for column in columns]
        got = plan.evaluate(given, some.stop - some.start, question.now, question.watch.check)
        if len(got.failures):
            labels = [question.snapshot.labels[i] for i in demanded]
            failing.meet(partial(failed, got.failures, labels, given))
        widths.see_made("", got.columns, some.stop - some.start)
        yield got.columns, len(got.selection)


def groups(question: Question, found: Pruned, plan: MapFilterProject | None = None) -> list[tuple[int, ...]]:
    """The columns that are read first, then, and so on: the stages of `plan/conditions.py`, for the question's plan or another."""
    plan = question.plan if plan is None else plan
    if not question.config.late_materialization or not plan.predicates or not found.left:
        return []
    if len(plan.demand()) < 2 or max(part.rows for part in found.first(LOOKED_AT)) < WORTH:
        return []

    def make() -> list[tuple[int, ...]]:
        estimates = Estimates.of(question.snapshot, found.kept, question.now)
        return [stage.columns for stage in choice(plan, estimates, weights(question, found, plan)).stages]

    if found.left > REMEMBERED:
        return make()
    kept = None if found.kept is None else found.kept.tobytes()
    return known(question.snapshot, plan, question.now, ("groups", kept), make)


def weights(
    question: Question, found: Pruned, plan: MapFilterProject | None = None
) -> dict[int, float] | None:
    """The bytes of each column that the plan reads, as they are in one of the larger parts; None: it does not tell."""
    largest = max(found.first(LOOKED_AT), key=lambda part: part.size)
    file = PartFile.open(question.snapshot.shard.machine, largest)
    if file.table is None:
        return None
    columns = question.snapshot.schema.columns
    demand = (question.plan if plan is None else plan).demand()
    return {i: float(file.weight(columns[i].id)) for i in demand}


def workers(question: Question, parts: Sequence[Part]) -> int:
    """How many parts are read at the same time: threads cost more than small parts do."""
    threads = question.config.read_threads or CORES
    few = sum(part.size for part in parts[:LOOKED_AT]) < PARALLEL
    return 1 if few else min(threads, len(parts))
