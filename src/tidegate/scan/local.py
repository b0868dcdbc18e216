"""The local path: a snapshot's parts, one after the other, through a plan, in this process.

    run(question, prune(question))     parts that may matter → batches of demanded columns → what passes → order, limits
    stream(question, found, scan)      the same without the last step: for whoever adds up, sorts or picks

It stops as soon as a LIMIT without ORDER BY has its rows. A row that fails makes the query fail, with the row's values; if a
LIMIT is reached before the row is, it is never seen, as in any database.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tidegate.errors import EvaluationError
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.safe import Failures, SafePlan
from tidegate.scan.prune import Pruned
from tidegate.scan.question import Question
from tidegate.scan.result import Result, Scan
from tidegate.scan.sort import Gathered, Shape
from tidegate.shard.merge import Block, concat, repeated, settled, summed
from tidegate.shard.reader import Snapshot

SUMMED_AT = 1_000_000
"""Rows that have passed the filter beyond which those of equal value are made one while more are read."""


def run(question: Question, found: Pruned) -> Result:
    """The rows of the query."""
    scan = Scan(parts_total=found.total, bytes_total=found.size)
    gathered = Gathered(question.plan.types, question.shape)
    if question.shape.limit != 0:
        for columns, rows in stream(question, found, scan):
            gathered.add(columns, rows)
            if gathered.enough():
                break
    return Result(
        question.names,
        question.plan.types[: len(question.names)],
        tuple(gathered.finish()[: len(question.names)]),
        path="local" if scan.parts_read else "metadata",
        scan=scan,
    )


def stream(question: Question, found: Pruned, scan: Scan) -> Iterator[tuple[list[pa.Array], int]]:
    """What leaves the plan, in batches: its columns and how many rows. A row that fails makes the query fail."""
    snapshot, plan, now = question.snapshot, question.plan, question.now
    demanded = sorted(plan.demand())
    columns = [snapshot.schema.columns[i].name for i in demanded]
    types = [snapshot.schema.columns[i].type for i in demanded]
    narrow = SafePlan(plan.permute({column: i for i, column in enumerate(demanded)}, types))
    for batch, rows in _batches(snapshot, found, columns, narrow, now, scan):
        question.watch.check()
        got = narrow.evaluate(batch, rows, now)
        if len(got.failures):
            raise failed(got.failures, columns, batch)
        yield got.columns, len(got.selection)


def once(mfp: MapFilterProject, names: Sequence[str], shape: Shape, now: int) -> Result:
    """A SELECT without FROM: the plan over one row without columns."""
    plan = mfp.at(now).optimise()
    got = SafePlan(plan).evaluate([], 1, now)
    if len(got.failures):
        raise failed(got.failures, [], [])
    gathered = Gathered(plan.types, shape)
    gathered.add(got.columns, len(got.selection))
    return Result(tuple(names), plan.types[: len(names)], tuple(gathered.finish()[: len(names)]))


def _batches(
    snapshot: Snapshot, found: Pruned, columns: list[str], narrow: SafePlan, now: int, scan: Scan
) -> Iterator[tuple[list[pa.Array], int]]:
    """The rows of the parts that are left, counted as they are read."""
    if found.retracts and not found.whole:
        yield _met(snapshot, found, columns, narrow, now, scan)
        return
    for group in [found.parts] if found.retracts else [[part] for part in found.parts]:
        scan.count(group)
        for batch in snapshot.batches(columns, group):
            yield batch.columns, batch.num_rows


def _met(
    snapshot: Snapshot, found: Pruned, columns: list[str], narrow: SafePlan, now: int, scan: Scan
) -> tuple[list[pa.Array], int]:
    """The rows that pass the filter or fail in it, each with all its diffs, added up: see `prune.py` for why this is sound.

    They are few, else statistics would not have dropped parts.
    """
    ids = [snapshot.schema.find(name).id for name in columns]
    types = narrow.mfp.inputs
    open_ = SafePlan(narrow.mfp.project(()))
    none = Block([pa.array([], t.arrow) for t in types], np.zeros(0, np.int64), np.zeros(0, np.int64))
    passing, waiting = [none], 0
    for part in found.parts:
        scan.count([part])
        for block in snapshot.visible(part, ids):
            got = open_.evaluate(block.columns, len(block), now)
            rows = np.union1d(got.selection, got.failures.rows).astype(np.int64)
            passing.append(block.take(rows))
            waiting += len(rows)
        if waiting > SUMMED_AT:
            passing, waiting = [summed(concat(passing), by_time=False)], 0
    there = settled(concat(passing), columns)
    return repeated(there), int(there.diffs.sum())


def failed(failures: Failures, names: Sequence[str], columns: Sequence[pa.Array]) -> EvaluationError:
    """The error of the first row that failed, with its values."""
    row = int(failures.rows[0])
    values = {name: _value(column, row) for name, column in zip(names, columns, strict=True)}
    return EvaluationError(failures.messages[0].as_py(), row=values)


def _value(column: pa.Array, row: int) -> object:
    try:
        return column[row].as_py()
    except (ValueError, OverflowError):
        return "?"  # a value that Python has no type for
