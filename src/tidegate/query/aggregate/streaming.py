"""The rows that leave a plan, aggregated as they come: GROUP BY, DISTINCT, and aggregates alone.

    stream(request, found, scan)      rows of the parts that are left → groups → the plan above them → order, limits

Each batch is folded by itself (`groups.py`, `reducers.py`), and what comes of it is a row for each group it has: the keys, and a
state for each aggregate. These wait until there are twice as many as there were groups before, and are then folded with each
other; so memory is that of the groups, and every group is folded again a logarithmic number of times:

    batch 1   (a, 3) (b, 1)    waiting
    batch 2   (a, 2) (c, 5)    waiting          fold   (a, 5) (b, 1) (c, 5)

What statistics prove about parts (`metadata.py`) is one more such row, and those parts are not read. `count(DISTINCT x)` gathers
groups of the keys and x in the same way; in the end x is counted in them. Groups that take more than `max_result_bytes` are a
LimitError.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.config import Config
from tidegate.errors import EvaluationError, LimitError
from tidegate.expr.model import Type
from tidegate.plan import Aggregate, Aggregation, MapFilterProject
from tidegate.plan.run import SafePlan
from tidegate.query.aggregate.extremes import read_extremes
from tidegate.query.aggregate.groups import Groups
from tidegate.query.aggregate.reducers import Reducer, State, bytes_of, joined, nothing, reducer_of
from tidegate.query.cancellation import CancelToken
from tidegate.query.late.batching import Widths
from tidegate.query.paths import local
from tidegate.query.paths.metadata import MetadataAnswer
from tidegate.query.prune.parts import PruneResult
from tidegate.query.request import ScanRequest
from tidegate.query.result import Result
from tidegate.query.row_failures import row_error
from tidegate.query.row_stream import Batch, shaped, size_of
from tidegate.query.scan_metrics import ScanMetrics
from tidegate.query.sort import ResultShape, SortBuffer
from tidegate.storage.part import row_keys

GATHERED_ROWS = 16_384
"""Rows of small batches that are folded as one."""
GATHERED_BYTES = 8 << 20
"""The same in bytes."""
MIN_MERGE_ROWS = 262_144
"""Rows that wait before they are folded, however few groups there are."""


def stream(
    request: ScanRequest, pruned: PruneResult, scan: ScanMetrics, known: MetadataAnswer | None
) -> Iterator[Batch]:
    """The rows of the query: the groups are held in memory, the output of the plan above is streamed.

    `known`: aggregates that statistics answer already; the parts in its `rest` are read, and of those that are contested as many as
    may hold the least or greatest value.
    """
    aggregation, shape, most = request.aggregation, request.shape, request.config.max_result_bytes
    assert aggregation is not None
    if shape.limit == 0:
        return
    groups = GroupTable(request.plan.types, aggregation, most)
    if known is not None:
        pruned = known.rest
        groups.add_state([[state] for state in known.states])
        if any(map(len, known.contested)):
            groups.add_state(read_extremes(request, known, scan))
    found = local.stream(request, pruned, scan) if pruned.left else iter(())
    for columns, rows in found if _may_end_early(aggregation, shape) else gathered(found):
        began = time.perf_counter()
        groups.add(columns, rows)
        scan.add("aggregate", rows_in=rows, seconds=time.perf_counter() - began)
        if _enough(groups, aggregation, shape):
            break
    output = finish(groups, aggregation, most, request.cancel, request.now)
    yield from shaped(output, aggregation.above.types, shape, 0)


def once(
    mfp: MapFilterProject, aggregation: Aggregation, names: Sequence[str], shape: ResultShape, now: int
) -> Result:
    """A SELECT without FROM: one row without columns is aggregated."""
    plan, aggregation = mfp.at(now).optimise(), aggregation.at(now)
    got = SafePlan(plan).evaluate([], 1, now)
    if len(got.failures):
        raise row_error(got.failures, [], [])
    most = Config().max_result_bytes  # one row makes one group
    groups = GroupTable(plan.types, aggregation, most)
    groups.add(got.columns, len(got.selection))
    gathered = SortBuffer(aggregation.above.types, shape)
    for columns, rows in finish(groups, aggregation, most, CancelToken(), now):
        gathered.add(columns, rows)
    return Result(names, aggregation.above.types[: len(names)], gathered.finish()[: len(names)])


def _enough(groups: GroupTable, aggregation: Aggregation, shape: ResultShape) -> bool:
    """Whether there are as many groups as a LIMIT wants, and none can change: DISTINCT without ORDER BY."""
    return _may_end_early(aggregation, shape) and groups.main.reached(shape.max_rows or 0)


def _may_end_early(aggregation: Aggregation, shape: ResultShape) -> bool:
    if shape.max_rows is None or shape.order or aggregation.aggregates or aggregation.above.predicates:
        return False
    return aggregation.distinct is None


def gathered(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same rows in the same order, small batches joined: small parts are not folded one by one."""
    waiting, rows, size = list[Batch](), 0, 0
    for batch in batches:
        here, types = size_of(batch[0]), [column.type for column in batch[0]]
        full = rows + batch[1] > GATHERED_ROWS or size + here > GATHERED_BYTES
        if waiting and (full or types != [column.type for column in waiting[-1][0]]):
            yield _one_batch(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows, size = rows + batch[1], size + here
    if waiting:
        yield _one_batch(waiting)


def _one_batch(batches: Sequence[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays(pieces) for pieces in zip(*(columns for columns, _ in batches), strict=True)]
    return columns, sum(rows for _, rows in batches)


def finish(
    groups: GroupTable, aggregation: Aggregation, most: int, watch: CancelToken, now: int
) -> Iterator[Batch]:
    """Runs the plan above over the groups: what leaves it."""
    leaving = _above(groups.finish(), aggregation, watch, now)
    if aggregation.distinct is None:
        yield from leaving
        return
    kept = GroupMerge([], most)
    for columns, rows in leaving:
        kept.add(GroupBatch(columns, [], rows))
    last = kept.finish()
    if last is not None:
        yield last.keys, last.rows


def _above(
    columns: list[pa.Array], aggregation: Aggregation, watch: CancelToken, now: int
) -> Iterator[Batch]:
    """What leaves the plan above, some groups after the other; the last column only counts them."""
    plan, total, widths = SafePlan(aggregation.above), len(columns[-1]), Widths()
    for start in range(0, total, MIN_MERGE_ROWS):
        many = [column.slice(start, MIN_MERGE_ROWS) for column in columns[:-1]]
        for at in widths.slices("", plan, min(MIN_MERGE_ROWS, total - start)):
            watch.check()
            some = [column.slice(at.start, at.stop - at.start) for column in many]
            got = plan.evaluate(some, at.stop - at.start, now)
            if len(got.failures):
                raise row_error(got.failures, aggregation.labels, some)
            widths.see_made("", got.columns, at.stop - at.start)
            yield got.columns, len(got.selection)


# ---------------------------------------------------------------- folding


@dataclass(frozen=True, eq=False)
class GroupBatch:
    """Some groups: their keys, and a state for each aggregate."""

    keys: list[pa.Array]
    states: list[State]
    rows: int

    @property
    def size(self) -> int:
        """Bytes."""
        return bytes_of(self.keys) + sum(map(bytes_of, self.states))


@dataclass(eq=False)
class GroupMerge:
    """Groups that become fewer as equal ones meet."""

    reducers: Sequence[Reducer]
    most: int
    """Bytes that they may take."""
    waiting: list[GroupBatch] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    enough: int = MIN_MERGE_ROWS

    def add(self, given: GroupBatch) -> None:
        """Some more rows, or groups."""
        if not given.rows:
            return
        folded = self._folded(given)
        self.waiting.append(folded)
        self.rows += folded.rows
        self.size += folded.size
        if self.rows > self.enough or self.size > 1.5 * self.most:
            self._merge()

    def reached(self, count: int) -> bool:
        """Whether there are so many groups."""
        if self.rows >= count:
            self._merge()
        return self.rows >= count

    def finish(self) -> GroupBatch | None:
        """All groups; None if there is none."""
        self._merge()
        return self.waiting[0] if self.waiting else None

    def _merge(self) -> None:
        if len(self.waiting) > 1:
            try:
                whole = self._folded(self._joined())
            except pa.ArrowInvalid:  # Arrow keeps at most 2 GiB of text in one array
                raise self._too_many() from None
            self.waiting, self.rows, self.size = [whole], whole.rows, whole.size
        self.enough = 2 * self.rows + MIN_MERGE_ROWS
        if self.size > self.most:
            raise self._too_many()

    def _joined(self) -> GroupBatch:
        keys = [pa.concat_arrays(pieces) for pieces in zip(*(one.keys for one in self.waiting), strict=True)]
        states = [joined(pieces) for pieces in zip(*(one.states for one in self.waiting), strict=True)]
        return GroupBatch(keys, states, self.rows)

    def _too_many(self) -> LimitError:
        return LimitError(
            f"{self.rows} groups take more than {self.most} bytes",
            hint="SET max_result_bytes to more, or filter before grouping",
        )

    def _folded(self, given: GroupBatch) -> GroupBatch:
        groups = Groups.of(given.keys, given.rows)
        if groups.alone:
            return given
        first = pa.array(groups.first)
        states = [
            reducer.combine(state, groups) for reducer, state in zip(self.reducers, given.states, strict=True)
        ]
        return GroupBatch([key.take(first) for key in given.keys], states, groups.count)


class GroupTable:
    """The groups of a query, and what each aggregate is of them."""

    def __init__(self, types: Sequence[Type], aggregation: Aggregation, most: int) -> None:
        """`types`: of what leaves the plan below."""
        self.aggregation, self.types = aggregation, types
        self.plain = [i for i, one in enumerate(aggregation.aggregates) if not one.distinct]
        self.reducers = [reducer_of(one, self._argument_type(one)) for one in aggregation.aggregates]
        self.main = GroupMerge([self.reducers[i] for i in self.plain], most)
        columns = {one.column for one in aggregation.aggregates if one.distinct}
        self.sets = {column: GroupMerge([], most) for column in columns if column is not None}
        if not aggregation.grouped:
            chosen = [aggregation.aggregates[i] for i in self.plain]
            self.add_state(
                [nothing(r, self._argument_type(a)) for r, a in zip(self.main.reducers, chosen, strict=True)]
            )

    def _argument_type(self, aggregate: Aggregate) -> Type | None:
        return None if aggregate.column is None else self.types[aggregate.column]

    def add_state(self, states: list[State]) -> None:
        """What is known of the one group that there is without keys."""
        self.main.add(GroupBatch([], states, 1))

    def add(self, columns: list[pa.Array], rows: int) -> None:
        """Some rows."""
        keys = columns[: self.aggregation.keys]
        chosen = [self.aggregation.aggregates[i].column for i in self.plain]
        states = [
            reducer.lift(pa.nulls(rows) if column is None else columns[column])
            for reducer, column in zip(self.main.reducers, chosen, strict=True)
        ]
        self.main.add(GroupBatch(keys, states, rows))
        for column, folding in self.sets.items():
            folding.add(GroupBatch([*keys, columns[column]], [], rows))

    def finish(self) -> list[pa.Array]:
        """A column for each key and each aggregate, and one more that tells how many groups there are."""
        main = self.main.finish()
        if main is None:
            keys = [type_.arrow for type_ in self.types[: self.aggregation.keys]]
            types = [*keys, *(one.type.arrow for one in self.aggregation.aggregates), pa.null()]
            return [pa.nulls(0, type_) for type_ in types]
        states = dict(zip(self.plain, main.states, strict=True))
        for column in self.sets:
            states |= self._counted(column, main)
        values = [self._value(i, states[i], main) for i in range(len(self.reducers))]
        return [*main.keys, *values, pa.nulls(main.rows)]

    def _counted(self, column: int, main: GroupBatch) -> dict[int, State]:
        """The states of the aggregates over the different values of a column, in the order of the groups."""
        wanted = [
            i for i, one in enumerate(self.aggregation.aggregates) if one.distinct and one.column == column
        ]
        found = self.sets[column].finish()
        reducers = [self.reducers[i] for i in wanted]
        if found is None:
            return {i: nothing(self.reducers[i], self.types[column]) for i in wanted}
        values = found.keys[-1]
        lifted = [reducer.lift(values) for reducer in reducers]
        folding = GroupMerge(reducers, self.main.most)
        folding.add(GroupBatch(found.keys[:-1], lifted, found.rows))
        folded = folding.finish()
        assert folded is not None
        if not main.keys:
            return dict(zip(wanted, folded.states, strict=True))
        at = pc.index_in(row_keys(main.keys, main.rows), value_set=row_keys(folded.keys, folded.rows))
        rows = at.to_numpy()
        states = [
            [part[rows] if isinstance(part, np.ndarray) else part.take(at) for part in s]
            for s in folded.states
        ]
        return dict(zip(wanted, states, strict=True))

    def _value(self, i: int, state: State, main: GroupBatch) -> pa.Array:
        values, errors = self.reducers[i].finish(state)
        if errors is None:
            return values
        row = int(pc.indices_nonzero(errors.is_valid())[0].as_py())
        shown = zip(self.aggregation.labels, main.keys, strict=False)
        raise EvaluationError(errors[row].as_py(), row={name: key[row].as_py() for name, key in shown})
