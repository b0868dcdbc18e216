"""The rows that leave a plan, aggregated as they come: GROUP BY, DISTINCT, and aggregates alone.

    stream(question, found, scan)      rows of the parts that are left → groups → the plan above them → order, limits

Each batch is folded by itself (`groups.py`, `reduce.py`), and what comes of it is a row for each group it has: the keys, and a
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
from tidegate.expr.types import Type
from tidegate.plan.aggregate import Aggregate, Aggregation
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.safe import SafePlan
from tidegate.scan import local, metadata
from tidegate.scan.batching import Widths
from tidegate.scan.failed import failed
from tidegate.scan.groups import Groups
from tidegate.scan.prune import Pruned
from tidegate.scan.question import Question
from tidegate.scan.recheck import rechecked
from tidegate.scan.reduce import Reducer, State, bytes_of, joined, nothing, reducer_of
from tidegate.scan.result import Result, Scan
from tidegate.scan.sort import Gathered, Shape
from tidegate.scan.stream import Batch, shaped
from tidegate.scan.watch import Watch
from tidegate.shard.rowkey import row_keys

FEW = 262_144
"""Rows that wait before they are folded, however few groups there are."""


def stream(question: Question, found: Pruned, scan: Scan) -> Iterator[Batch]:
    """The rows of the query: the groups are held, and what the plan above makes of them comes as it is asked for."""
    aggregation, shape, most = question.aggregation, question.shape, question.config.max_result_bytes
    assert aggregation is not None
    if shape.limit == 0:
        return
    groups = Aggregating(question.plan.types, aggregation, most)
    with scan.stage("metadata"):
        told = metadata.tell(question, found)
    if told is not None:
        found = told.rest
        groups.add_state([[state] for state in told.states])
    for columns, rows in local.stream(question, found, scan) if found.left else ():
        began = time.perf_counter()
        groups.add(columns, rows)
        scan.add("aggregate", rows_in=rows, seconds=time.perf_counter() - began)
        if _enough(groups, aggregation, shape):
            break
    if told is not None:
        rechecked(question, told, scan)
    leaving = finish(groups, aggregation, most, question.watch, question.now)
    yield from shaped(leaving, aggregation.above.types, shape, 0)


def once(
    mfp: MapFilterProject, aggregation: Aggregation, names: Sequence[str], shape: Shape, now: int
) -> Result:
    """A SELECT without FROM: one row without columns is aggregated."""
    plan, aggregation = mfp.at(now).optimise(), aggregation.at(now)
    got = SafePlan(plan).evaluate([], 1, now)
    if len(got.failures):
        raise failed(got.failures, [], [])
    most = Config().max_result_bytes  # one row makes one group
    groups = Aggregating(plan.types, aggregation, most)
    groups.add(got.columns, len(got.selection))
    gathered = Gathered(aggregation.above.types, shape)
    for columns, rows in finish(groups, aggregation, most, Watch(), now):
        gathered.add(columns, rows)
    return Result(names, aggregation.above.types[: len(names)], gathered.finish()[: len(names)])


def _enough(groups: Aggregating, aggregation: Aggregation, shape: Shape) -> bool:
    """Whether there are as many groups as a LIMIT wants, and none can change: DISTINCT without ORDER BY."""
    if shape.most is None or shape.order or aggregation.aggregates or aggregation.above.predicates:
        return False
    return aggregation.distinct is None and groups.main.reached(shape.most)


def finish(
    groups: Aggregating, aggregation: Aggregation, most: int, watch: Watch, now: int
) -> Iterator[Batch]:
    """Runs the plan above over the groups: what leaves it."""
    leaving = _above(groups.finish(), aggregation, watch, now)
    if aggregation.distinct is None:
        yield from leaving
        return
    kept = Folding([], most)
    for columns, rows in leaving:
        kept.add(Folded(columns, [], rows))
    last = kept.finish()
    if last is not None:
        yield last.keys, last.rows


def _above(columns: list[pa.Array], aggregation: Aggregation, watch: Watch, now: int) -> Iterator[Batch]:
    """What leaves the plan above, some groups after the other; the last column only counts them."""
    plan, total, widths = SafePlan(aggregation.above), len(columns[-1]), Widths()
    for start in range(0, total, FEW):
        many = [column.slice(start, FEW) for column in columns[:-1]]
        for at in widths.slices("", plan, min(FEW, total - start)):
            watch.check()
            some = [column.slice(at.start, at.stop - at.start) for column in many]
            got = plan.evaluate(some, at.stop - at.start, now)
            if len(got.failures):
                raise failed(got.failures, aggregation.labels, some)
            widths.see_made("", got.columns, at.stop - at.start)
            yield got.columns, len(got.selection)


# ---------------------------------------------------------------- folding


@dataclass(frozen=True, eq=False)
class Folded:
    """Some groups: their keys, and a state for each aggregate."""

    keys: list[pa.Array]
    states: list[State]
    rows: int

    @property
    def size(self) -> int:
        """Bytes."""
        return bytes_of(self.keys) + sum(map(bytes_of, self.states))


@dataclass(eq=False)
class Folding:
    """Groups that become fewer as equal ones meet."""

    reducers: Sequence[Reducer]
    most: int
    """Bytes that they may take."""
    waiting: list[Folded] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    enough: int = FEW

    def add(self, given: Folded) -> None:
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

    def finish(self) -> Folded | None:
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
        self.enough = 2 * self.rows + FEW
        if self.size > self.most:
            raise self._too_many()

    def _joined(self) -> Folded:
        keys = [pa.concat_arrays(pieces) for pieces in zip(*(one.keys for one in self.waiting), strict=True)]
        states = [joined(pieces) for pieces in zip(*(one.states for one in self.waiting), strict=True)]
        return Folded(keys, states, self.rows)

    def _too_many(self) -> LimitError:
        return LimitError(
            f"{self.rows} groups take more than {self.most} bytes",
            hint="SET max_result_bytes to more, or filter before grouping",
        )

    def _folded(self, given: Folded) -> Folded:
        groups = Groups.of(given.keys, given.rows)
        if groups.alone:
            return given
        first = pa.array(groups.first)
        states = [
            reducer.combine(state, groups) for reducer, state in zip(self.reducers, given.states, strict=True)
        ]
        return Folded([key.take(first) for key in given.keys], states, groups.count)


class Aggregating:
    """The groups of a query, and what each aggregate is of them."""

    def __init__(self, types: Sequence[Type], aggregation: Aggregation, most: int) -> None:
        """`types`: of what leaves the plan below."""
        self.aggregation, self.types = aggregation, types
        self.plain = [i for i, one in enumerate(aggregation.aggregates) if not one.distinct]
        self.reducers = [reducer_of(one, self._given(one)) for one in aggregation.aggregates]
        self.main = Folding([self.reducers[i] for i in self.plain], most)
        columns = {one.column for one in aggregation.aggregates if one.distinct}
        self.sets = {column: Folding([], most) for column in columns if column is not None}
        if not aggregation.grouped:
            chosen = [aggregation.aggregates[i] for i in self.plain]
            self.add_state(
                [nothing(r, self._given(a)) for r, a in zip(self.main.reducers, chosen, strict=True)]
            )

    def _given(self, aggregate: Aggregate) -> Type | None:
        return None if aggregate.column is None else self.types[aggregate.column]

    def add_state(self, states: list[State]) -> None:
        """What is known of the one group that there is without keys."""
        self.main.add(Folded([], states, 1))

    def add(self, columns: list[pa.Array], rows: int) -> None:
        """Some rows."""
        keys = columns[: self.aggregation.keys]
        chosen = [self.aggregation.aggregates[i].column for i in self.plain]
        states = [
            reducer.lift(pa.nulls(rows) if column is None else columns[column])
            for reducer, column in zip(self.main.reducers, chosen, strict=True)
        ]
        self.main.add(Folded(keys, states, rows))
        for column, folding in self.sets.items():
            folding.add(Folded([*keys, columns[column]], [], rows))

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

    def _counted(self, column: int, main: Folded) -> dict[int, State]:
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
        folding = Folding(reducers, self.main.most)
        folding.add(Folded(found.keys[:-1], lifted, found.rows))
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

    def _value(self, i: int, state: State, main: Folded) -> pa.Array:
        values, errors = self.reducers[i].finish(state)
        if errors is None:
            return values
        row = int(pc.indices_nonzero(errors.is_valid())[0].as_py())
        shown = zip(self.aggregation.labels, main.keys, strict=False)
        raise EvaluationError(errors[row].as_py(), row={name: key[row].as_py() for name, key in shown})
