"""The local path: a snapshot's parts, one after the other, through a plan, in this process.

    run(snapshot, plan, now, shape, config)    parts that may matter → batches of demanded columns → what passes → order, limits

It stops as soon as a LIMIT without ORDER BY has its rows. A row that fails makes the query fail, with the row's values; if a
LIMIT is reached before the row is, it is never seen, as in any database.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tidegate.config import Config
from tidegate.errors import EvaluationError
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.safe import Failures, SafePlan
from tidegate.scan.prune import Pruned, prune
from tidegate.scan.result import Result, Scan
from tidegate.scan.sort import Gathered, Shape
from tidegate.shard.reader import Snapshot


def run(
    snapshot: Snapshot,
    mfp: MapFilterProject,
    names: Sequence[str],
    shape: Shape,
    now: int,
    config: Config,
) -> Result:
    """The rows of the query: `mfp` is over all columns of the snapshot, its first `len(names)` outputs are the result."""
    plan = mfp.at(now).optimise()
    found = prune(snapshot, plan, now, use=config.stats_filter)
    scan = Scan(parts_total=found.total, bytes_total=found.size)
    gathered = Gathered(plan.types, shape)
    demanded = sorted(plan.demand())
    columns = [snapshot.schema.columns[i].name for i in demanded]
    types = [snapshot.schema.columns[i].type for i in demanded]
    narrow = SafePlan(plan.permute({column: i for i, column in enumerate(demanded)}, types))
    if shape.limit != 0:
        for batch in _batches(snapshot, found, columns, scan):
            got = narrow.evaluate(batch.columns, batch.num_rows, now)
            if len(got.failures):
                raise failed(got.failures, columns, batch.columns)
            gathered.add(got.columns, len(got.selection))
            if gathered.enough():
                break
    return Result(
        tuple(names),
        plan.types[: len(names)],
        tuple(gathered.finish()[: len(names)]),
        path="local" if scan.parts_read else "metadata",
        scan=scan,
    )


def once(mfp: MapFilterProject, names: Sequence[str], shape: Shape, now: int) -> Result:
    """A SELECT without FROM: the plan over one row without columns."""
    plan = mfp.at(now).optimise()
    got = SafePlan(plan).evaluate([], 1, now)
    if len(got.failures):
        raise failed(got.failures, [], [])
    gathered = Gathered(plan.types, shape)
    gathered.add(got.columns, len(got.selection))
    return Result(tuple(names), plan.types[: len(names)], tuple(gathered.finish()[: len(names)]))


def _batches(snapshot: Snapshot, found: Pruned, columns: list[str], scan: Scan) -> Iterator[pa.RecordBatch]:
    """The rows of the parts that are left, counted as they are read."""
    groups = [found.parts] if found.retracts else [[part] for part in found.parts]
    for group in groups:
        scan.parts_read += len(group)
        scan.bytes_read += sum(part.size for part in group)
        scan.rows_read += sum(part.rows for part in group)
        yield from snapshot.batches(columns, group)


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
