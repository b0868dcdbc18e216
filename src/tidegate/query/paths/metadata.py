"""Aggregates told from the state and its statistics, without reading: `count(*)`, `count(column)`, `min(column)`, `max(column)`.

    told = tell(question, found)      None: nothing can be told
    told.states                       what the parts that are told add up to, for each aggregate
    told.rest                         the parts that must be read all the same
    told.of(0, place)                 what was told of one part: `recheck.py` puts it to the test

A part is told if every row that it holds at the time of the query passes the filter (verdict ALL), and that is all its rows: none
comes later than `as_of`. (That none has ended is part of the filter.) Parts of verdict NONE add nothing. Of a part that is told,

| aggregate | is | where |
|---|---|---|
| `count(*)` | the sum of its diffs | always |
| `count(x)` | the same; or 0; or less by its NULLs | x is never NULL; always NULL; every diff is 1 |
| `min(x)`, `max(x)` | a bound of x | the bound is a value that occurs |

A bound is a value that occurs for integers, times, numerics and booleans; for floats unless it is 0 (which may be -0) or, for max,
there may be NaN; for text only if both bounds are the same, since long ones are cut and trimmed. A part whose bound is none is read
only if it can win. Take min(name), text being cut:

    part 1   'ada…' .. 'ann'        may win: is read
    part 2   'bea…' .. 'zoe'        cannot: some name of part 1 is 'ann' at most

Where rows are retracted, a part's bounds may be of rows that are gone, so min and max are not told at all; and counts only if every
part is told, as a row must meet its retraction where parts are read. Adding up diffs needs no such meeting: `prune.py` sees to it
that the filter says the same of a row and of its retraction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import order
from tidegate.expr.specs import to_bools
from tidegate.expr.tree import Column
from tidegate.expr.types import Type
from tidegate.plan.aggregate import Aggregate
from tidegate.scan.prune import Pruned, lacking
from tidegate.scan.question import Question
from tidegate.shard.reader import Snapshot
from tidegate.shard.schema import ColumnDef
from tidegate.stats.column import Form, form_of
from tidegate.stats.frame import Frame

OCCUR = (Form.INTEGER, Form.DECIMAL, Form.BOOL)
"""Forms whose bounds are values that occur."""


@dataclass(frozen=True, eq=False)
class Told:
    """What is known without reading."""

    states: list[np.ndarray | pa.Array]
    """For each aggregate a column of one row: a count, or a value that is NULL where there is none."""
    rest: Pruned
    places: np.ndarray
    """The parts that were told, among those that have begun and not ended."""
    parts: _Parts
    pairs: list[tuple[Aggregate, ColumnDef | None]]

    def of(self, i: int, place: int) -> tuple[pa.Array, pa.Array]:
        """What was told of a part for an aggregate, NULL if nothing was, and then the bound that it cannot win with."""
        one, column = self.pairs[i]
        told = np.arange(len(self.parts)) == place
        said = pa.array(self.parts.state(one, column, told))
        if one.kind == "count" or column is None:
            return said, pa.nulls(1)
        known = self.parts.known(column)
        return said, (known.low if one.kind == "min" else known.high).slice(place, 1)


def tell(question: Question, found: Pruned) -> Told | None:
    """What can be told of the aggregates of a question; None if nothing can."""
    columns = _columns(question)
    if columns is None or (question.plan.predicates and found.verdicts is None):
        return None
    aggregation = question.aggregation
    assert aggregation is not None
    ranged = any(one.kind != "count" for one in aggregation.aggregates)
    if found.retracts and ranged:
        return None
    parts = _Parts(question.snapshot)
    size = len(parts)
    every = np.ones(size, bool)
    kept = every if found.verdicts is None else found.verdicts.keep
    told = parts.whole & (every if found.verdicts is None else found.verdicts.answerable)
    pairs = list(zip(aggregation.aggregates, columns, strict=True))
    for one, column in pairs:
        if one.kind == "count" and column is not None:
            told = told & parts.countable(column)
    for one, column in pairs:
        if one.kind != "count" and column is not None:
            told = told & ~parts.open(one, column, told)
    rest = np.flatnonzero(kept & ~told)
    if found.retracts and len(rest):
        return None
    states = [parts.state(one, column, told) for one, column in pairs]
    left = replace(found, kept=rest, whole=len(rest) == size)
    return Told(states, left, np.flatnonzero(told), parts, pairs)


def _columns(question: Question) -> list[ColumnDef | None] | None:
    """The column that each aggregate is of, None for count(*); None if one of them cannot be told."""
    config, aggregation = question.config, question.aggregation
    if aggregation is None or aggregation.keys or not (config.fast_path and config.stats_filter):
        return None
    found: list[ColumnDef | None] = []
    for one in aggregation.aggregates:
        value = None if one.column is None else question.plan.outputs[one.column]
        if one.kind == "sum" or one.distinct or not (value is None or isinstance(value, Column)):
            return None
        found.append(None if value is None else question.snapshot.schema.columns[value.index])
    return found


@dataclass(frozen=True, eq=False)
class _Known:
    """What statistics know of a column in each part."""

    nulls: np.ndarray
    """How many rows are NULL; -1 where that is not known."""
    low: pa.Array
    high: pa.Array
    """Null where there is no bound."""
    nan: np.ndarray
    """Where NaN may occur."""


class _Parts:
    """The parts that have begun at the time of a snapshot and not ended, all of them as columns."""

    def __init__(self, snapshot: Snapshot) -> None:
        table = snapshot.table(["rows", "diffs", "retracts", "last", "schema"])
        self.snapshot = snapshot
        self.rows, self.diffs, self.written = (
            table.column(n).to_numpy() for n in ("rows", "diffs", "schema")
        )
        retracts = table.column("retracts").to_numpy()
        self.ones = (self.diffs == self.rows) & ~retracts.astype(bool)
        self.whole = table.column("last").to_numpy() <= snapshot.as_of
        self._known: dict[int, _Known] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def known(self, column: ColumnDef) -> _Known:
        """What statistics know of a column."""
        if column.id not in self._known:
            self._known[column.id] = self._read(column)
        return self._known[column.id]

    def _read(self, column: ColumnDef) -> _Known:
        frames = [*self.snapshot.frames()]
        nulls = [pc.fill_null(frame.nulls(column.id), -1).to_numpy() for frame in frames]
        bounds = [_bounds(frame, column) for frame in frames]
        nans = [_nan(frame, column) for frame in frames]
        nothing = pa.nulls(0, column.type.arrow)
        low, high = (pa.concat_arrays([nothing, *(pair[side] for pair in bounds)]) for side in (0, 1))
        counted = np.concatenate([np.zeros(0, np.int64), *nulls])
        absent = np.isin(self.written, lacking(self.snapshot)[column.id])
        return _Known(
            np.where(absent, self.rows, counted), low, high, np.concatenate([np.zeros(0, bool), *nans])
        )

    def countable(self, column: ColumnDef) -> np.ndarray:
        """Where it is known how often the column is not NULL."""
        nulls = self.known(column).nulls
        known: np.ndarray = (nulls == 0) | (nulls == self.rows) | (self.ones & (nulls >= 0))
        return known

    def open(self, one: Aggregate, column: ColumnDef, told: np.ndarray) -> np.ndarray:
        """Of the parts that would be told, those that may hold the least (greatest) value without telling it."""
        known = self.known(column)
        side = _side(one)
        near = _comparable(known.low if side == "low" else known.high)
        far = _comparable(known.high if side == "low" else known.low)
        occurs = self._occurs(column, side)
        best = _best(side, far.filter(pa.array(told)), near.filter(pa.array(told & occurs)))
        beaten = np.zeros(len(self), bool)
        if best.is_valid:
            compare = pc.greater if side == "low" else pc.less
            beaten = to_bools(compare(near, best))
        if side == "high":
            beaten &= ~known.nan  # NaN is greater than any bound
        result: np.ndarray = ~occurs & ~beaten & (known.nulls != self.rows)
        return result

    def _occurs(self, column: ColumnDef, side: Literal["low", "high"]) -> np.ndarray:
        """Where the bound is a value that occurs, and no other is equal to it."""
        known = self.known(column)
        bound = known.low if side == "low" else known.high
        there = to_bools(bound.is_valid())
        if form_of(column.type) in OCCUR:
            return there
        if column.type.is_float:
            sure: np.ndarray = there & to_bools(pc.not_equal(bound, pa.scalar(0.0, bound.type)))
            return sure & ~known.nan if side == "high" else sure
        if not column.type.identity_is_equality:
            return np.zeros(len(self), bool)
        same: np.ndarray = there & to_bools(pc.equal(_comparable(known.low), _comparable(known.high)))
        return same

    def state(self, one: Aggregate, column: ColumnDef | None, told: np.ndarray) -> np.ndarray | pa.Array:
        """What the parts that are told add up to."""
        if one.kind == "count":
            diffs = self.diffs if column is None else self._filled(column)
            return np.array([diffs[told].sum()], np.int64)
        assert column is not None
        known, side = self.known(column), _side(one)
        there = told & self._occurs(column, side)
        return _winner(known.low if side == "low" else known.high, there, side, one.type)

    def _filled(self, column: ColumnDef) -> np.ndarray:
        """How often a column is not NULL, where it is countable."""
        nulls = self.known(column).nulls
        filled: np.ndarray = np.where(nulls == 0, self.diffs, self.rows - nulls)
        return filled


def _side(one: Aggregate) -> Literal["low", "high"]:
    return "low" if one.kind == "min" else "high"


def _best(side: Literal["low", "high"], *bounds: pa.Array) -> pa.Scalar:
    """The least of values that are no less than the least there is; or the other way round."""
    ends = [pc.min_max(bound)["min" if side == "low" else "max"] for bound in bounds]
    known = pa.array([end.as_py() for end in ends], bounds[0].type)
    return pc.min_max(known)["min" if side == "low" else "max"]


def _winner(bound: pa.Array, there: np.ndarray, side: Literal["low", "high"], type_: Type) -> pa.Array:
    """The least (greatest) of the bounds, NULL if there is none."""
    places = np.flatnonzero(there)
    if not len(places):
        return pa.nulls(1, type_.arrow)
    given = bound.take(pa.array(places))
    plain = _comparable(given)
    best = pc.min_max(plain)["min" if side == "low" else "max"]
    return given.slice(pc.index(plain, best).as_py(), 1)


def _comparable(bound: pa.Array) -> pa.Array:
    """Bounds as values that Arrow compares as we do; none of them is NaN."""
    if pa.types.is_interval(bound.type):
        return order.interval_key(bound) if len(bound) else pa.nulls(0, pa.int64())
    if pa.types.is_fixed_size_binary(bound.type):
        return bound.cast(pa.binary())
    if pa.types.is_boolean(bound.type):
        return bound.cast(pa.uint8())
    return pa.nulls(len(bound), pa.int8()) if pa.types.is_nested(bound.type) else bound


def _bounds(frame: Frame, column: ColumnDef) -> tuple[pa.Array, pa.Array]:
    """Both bounds of a column, null where one is not known."""
    low, high = frame.specs([(column.id, column.type)])[0].bounds()
    found = []
    for bound, fact in ((low, "low"), (high, "high")):
        said = frame.fact(fact, (column.id,))
        if said is None or len(bound) != len(frame):
            found.append(pa.nulls(len(frame), column.type.arrow))
            continue
        # Without statistics a boolean is false to true, which is a bound, but not one that occurs.
        there = said.is_valid()
        if pa.types.is_boolean(bound.type):
            there = pc.and_kleene(there, pc.equal(said, bound))
        found.append(pc.if_else(pc.fill_null(there, False), bound, pa.scalar(None, bound.type)))
    return found[0], found[1]


def _nan(frame: Frame, column: ColumnDef) -> np.ndarray:
    """Where NaN may occur."""
    if not column.type.is_float:
        return np.zeros(len(frame), bool)
    said = frame.fact("nan", (column.id,))
    return np.ones(len(frame), bool) if said is None else to_bools(pc.fill_null(said, True))
