"""Answers `count(*)`, `count(x)`, `min(x)` and `max(x)` from the state and its statistics.

    known = answer_from_metadata(request, pruned)      None: nothing can be answered
    known.states                                       the aggregate of the answered parts, for each aggregate
    known.contested                                    for each min and max the answered parts of which one may still win
    known.rest                                         the parts that must still be read
    known.of_part(0, place)                            the value taken for one part: `audit.py` checks it

A part is answered if every row that it holds at the time of the query passes the filter (verdict ALL) and none of its rows comes
later than `as_of`. (The filter says that none has expired.) Parts of verdict NONE add nothing. For an answered part,

| aggregate | is | where |
|---|---|---|
| `count(*)` | the sum of its diffs | always |
| `count(x)` | the same; or 0; or less by its NULLs | x is never NULL; always NULL; every diff is 1 |
| `min(x)`, `max(x)` | a bound of x | the bound is a value that occurs |

Bounds are values that occur for integers, times, numerics and booleans; for floats unless the bound is 0 (which may be -0) or, for
max, there may be NaN; for text only if both bounds are equal, since long bounds are shortened. A part whose bound is not exact is
read only if it can win. For min(name) with shortened text:

    part 1   'ada…' .. 'ann'        may win: is contested
    part 2   'bea…' .. 'zoe'        cannot: some name of part 1 is 'ann' at most

Deleted rows are subtracted from counts; a part with such rows has no bound that surely occurs, but its rows are still within its
bounds. Contested parts are read in the order of their bounds, until none can win (`aggregate/extremes.py`).

With retractions that are rows, a part's bounds may belong to rows that are gone, so min and max are not answered at all; counts are
answered only if every part is, since rows that are read must be consolidated with their retractions. Adding up diffs needs no
consolidation: `prune/parts.py` makes sure that the filter gives a row and its retraction the same verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model import Column, Type, order, to_bools
from tidegate.plan import Aggregate
from tidegate.query.paths import top_k
from tidegate.query.prune.parts import PruneResult
from tidegate.query.prune.schema_versions import schema_versions_without
from tidegate.query.request import ScanRequest
from tidegate.storage.part import SchemaColumn
from tidegate.storage.shard import Snapshot
from tidegate.storage.stats import Form, Frame, form_of

OCCUR = (Form.INTEGER, Form.DECIMAL, Form.BOOL)
"""Forms whose bounds are values that occur."""


@dataclass(frozen=True, eq=False)
class MetadataAnswer:
    """What is known without reading."""

    states: list[np.ndarray | pa.Array]
    """For each aggregate a column of one row: a count, or a value that is NULL where there is none."""
    contested: list[np.ndarray]
    """For each aggregate the places of parts that may hold its value although no bound is; empty for counts."""
    rest: PruneResult
    places: np.ndarray
    """The parts that were told, among those that have begun and not ended."""
    parts: _Parts
    pairs: list[tuple[Aggregate, SchemaColumn | None]]

    @property
    def is_complete(self) -> bool:
        """Whether nothing must be read."""
        return not self.rest.left and not any(map(len, self.contested))

    def of_part(self, i: int, place: int) -> tuple[pa.Array, pa.Array]:
        """The value from metadata for this part (NULL if it had to be read), and its bound for min/max."""
        one, column = self.pairs[i]
        told = np.arange(len(self.parts)) == place
        said = pa.array(self.parts.state(one, column, told))
        if one.kind == "count" or column is None:
            return said, pa.nulls(1)
        known = self.parts.bounds_of(column)
        return said, (known.low if one.kind == "min" else known.high).slice(place, 1)


def answer_from_metadata(request: ScanRequest, found: PruneResult) -> MetadataAnswer | None:
    """Aggregates of the parts whose statistics suffice; None if there are none."""
    columns = _columns(request)
    if columns is None or (request.plan.predicates and found.verdicts is None):
        return None
    aggregation = request.aggregation
    assert aggregation is not None
    ranged = any(one.kind != "count" for one in aggregation.aggregates)
    if found.retracts and ranged:
        return None
    parts = _Parts(request.snapshot)
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
            told = told & ~parts.ambiguous(one, column, told)
    rest = np.flatnonzero(kept & ~told)
    if found.retracts and len(rest):
        return None
    states = [parts.state(one, column, told) for one, column in pairs]
    contested = [parts.contested(one, column, told) for one, column in pairs]
    left = replace(found, kept=rest, whole=len(rest) == size)
    return MetadataAnswer(states, contested, left, np.flatnonzero(told), parts, pairs)


def _columns(request: ScanRequest) -> list[SchemaColumn | None] | None:
    """The argument column of each aggregate, None for count(*); None if one cannot come from statistics."""
    config, aggregation = request.config, request.aggregation
    if aggregation is None or aggregation.keys or not (config.fast_path and config.stats_filter):
        return None
    found: list[SchemaColumn | None] = []
    for one in aggregation.aggregates:
        value = None if one.column is None else request.plan.outputs[one.column]
        if one.kind == "sum" or one.distinct or not (value is None or isinstance(value, Column)):
            return None
        found.append(None if value is None else request.snapshot.schema.columns[value.index])
    return found


@dataclass(frozen=True, eq=False)
class _ColumnBounds:
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
        deleted = snapshot.deleted()
        self.ones = (self.diffs == self.rows) & ~retracts.astype(bool)
        self.deleted = np.zeros(len(self.rows), np.int64) if deleted is None else deleted[0]
        self.untouched = self.deleted == 0
        if deleted is not None:
            self.ones &= self.untouched
            self.diffs = self.diffs - deleted[1]
        self.whole = table.column("last").to_numpy() <= snapshot.as_of
        self._known: dict[int, _ColumnBounds] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def bounds_of(self, column: SchemaColumn) -> _ColumnBounds:
        """What statistics know of a column."""
        if column.id not in self._known:
            self._known[column.id] = self._read(column)
        return self._known[column.id]

    def _read(self, column: SchemaColumn) -> _ColumnBounds:
        frames = [*self.snapshot.frames()]
        nulls = [pc.fill_null(frame.nulls(column.id), -1).to_numpy() for frame in frames]
        bounds = [_bounds(frame, column) for frame in frames]
        nans = [_nan(frame, column) for frame in frames]
        nothing = pa.nulls(0, column.type.arrow)
        low, high = (pa.concat_arrays([nothing, *(pair[side] for pair in bounds)]) for side in (0, 1))
        counted = np.concatenate([np.zeros(0, np.int64), *nulls])
        absent = np.isin(self.written, schema_versions_without(self.snapshot)[column.id])
        return _ColumnBounds(
            np.where(absent, self.rows, counted), low, high, np.concatenate([np.zeros(0, bool), *nans])
        )

    def countable(self, column: SchemaColumn) -> np.ndarray:
        """Where it is known how often the column is not NULL."""
        nulls = self.bounds_of(column).nulls
        known: np.ndarray = (nulls == 0) | (nulls == self.rows) | (self.ones & (nulls >= 0))
        return known

    def open(self, one: Aggregate, column: SchemaColumn, told: np.ndarray) -> np.ndarray:
        """The answered parts that may hold the least (greatest) value although no bound is exact."""
        known = self.bounds_of(column)
        side = _side(one)
        near = _comparable(known.low if side == "low" else known.high)
        far = _comparable(known.high if side == "low" else known.low)
        occurs = self._occurs(column, side)
        # Whatever is left of a part is within its bounds, as long as something is; but NaN is above them.
        some_left = (known.nulls >= 0) & (self.rows - self.deleted > known.nulls)
        sure = told & (self.untouched | (some_left & ~known.nan if side == "low" else some_left))
        best = _best(side, far.filter(pa.array(sure)), near.filter(pa.array(told & occurs)))
        beaten = np.zeros(len(self), bool)
        if best.is_valid:
            compare = pc.greater if side == "low" else pc.less
            beaten = to_bools(compare(near, best))
        if side == "high":
            beaten &= ~known.nan  # NaN is greater than any bound
        result: np.ndarray = ~occurs & ~beaten & (known.nulls != self.rows)
        return result

    def contested(self, one: Aggregate, column: SchemaColumn | None, told: np.ndarray) -> np.ndarray:
        """The places of the answered parts that are open."""
        if one.kind == "count" or column is None:
            return np.zeros(0, np.int64)
        places: np.ndarray = np.flatnonzero(told & self.open(one, column, told))
        return places

    def ambiguous(self, one: Aggregate, column: SchemaColumn, told: np.ndarray) -> np.ndarray:
        """The open parts that must be read as a whole, as sorting may find any of several equal values.

        These are intervals, and the zeros of floats.
        """
        open_: np.ndarray = told & self.open(one, column, told)
        if top_k.is_sortable(column.type) and column.type.identity_is_equality:
            return np.zeros(len(self), bool)
        if column.type.is_float:
            known = self.bounds_of(column)
            bound = known.low if one.kind == "min" else known.high
            zeros = to_bools(pc.fill_null(pc.equal(bound, pa.scalar(0.0, bound.type)), False))
            return open_ if (open_ & zeros).any() else np.zeros(len(self), bool)
        return open_

    def _occurs(self, column: SchemaColumn, side: Literal["low", "high"]) -> np.ndarray:
        """Where the bound is a value that occurs, and no other is equal to it."""
        known = self.bounds_of(column)
        bound = known.low if side == "low" else known.high
        there: np.ndarray = to_bools(bound.is_valid()) & self.untouched
        if form_of(column.type) in OCCUR:
            return there
        if column.type.is_float:
            sure: np.ndarray = there & to_bools(pc.not_equal(bound, pa.scalar(0.0, bound.type)))
            return sure & ~known.nan if side == "high" else sure
        if not column.type.identity_is_equality:
            return np.zeros(len(self), bool)
        same: np.ndarray = there & to_bools(pc.equal(_comparable(known.low), _comparable(known.high)))
        return same

    def state(self, one: Aggregate, column: SchemaColumn | None, told: np.ndarray) -> np.ndarray | pa.Array:
        """The aggregate of the answered parts."""
        if one.kind == "count":
            diffs = self.diffs if column is None else self._filled(column)
            return np.array([diffs[told].sum()], np.int64)
        assert column is not None
        known, side = self.bounds_of(column), _side(one)
        there = told & self._occurs(column, side)
        return _winner(known.low if side == "low" else known.high, there, side, one.type)

    def _filled(self, column: SchemaColumn) -> np.ndarray:
        """How often a column is not NULL, where it is countable."""
        nulls = self.bounds_of(column).nulls
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


def _bounds(frame: Frame, column: SchemaColumn) -> tuple[pa.Array, pa.Array]:
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


def _nan(frame: Frame, column: SchemaColumn) -> np.ndarray:
    """Where NaN may occur."""
    if not column.type.is_float:
        return np.zeros(len(frame), bool)
    said = frame.fact("nan", (column.id,))
    return np.ones(len(frame), bool) if said is None else to_bools(pc.fill_null(said, True))
