"""Estimates of passing rows and of column sizes, from the statistics of the kept parts.

    estimates = Estimates.of(snapshot, kept, now)            kept: places in `snapshot.table`, as `prune` found them
    estimates.selectivity(conditions)                        about which share of their rows passes all
    estimates.rows(conditions)                               about how many rows
    estimates.column_bytes({0, 4})                           about how many bytes a row of each column takes in the file
    choice(plan, estimates)                                  the order in which the filter's columns are read: `plan/conditions.py`

The share is guessed for each part (`selectivity.py`) and averaged by the rows that are not deleted. One part more changes an
average of a thousand by next to nothing, so at most `SAMPLED` are asked, at even distances *of rows*: a part of a million rows
among a thousand of ten is met as often as its rows deserve. So an estimate costs about the same for a thousand parts and for a
million.

Statistics hold no sizes of columns. For those that are asked for, `column_bytes` makes do with what there is:

| what | bytes a value |
|---|---|
| fixed width | as many as it has |
| text, bytea | the mean length of its bounds |
| either, where values repeat | no more than its number in a dictionary, and its part of the dictionary |
| JSON, arrays, records | `WIDE` |
| NULL | none |

What the parts hold beyond that, by their real sizes, belongs to the columns of unknown width. A reader that has seen the
footers knows better, and gives `stage_plan` its own figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow.compute as pc

from tidegate.expr.model import Expr, Kind, types
from tidegate.plan import MapFilterProject, StagePlan, choose_stages
from tidegate.query.estimate.selectivity import Guess
from tidegate.query.prune.schema_versions import schema_versions_without
from tidegate.storage.part import SchemaColumn
from tidegate.storage.shard import Snapshot
from tidegate.storage.stats import Frame, max_distinct

SAMPLED = 1024
"""Parts that are asked. Even if each part passed whole or not at all, the mean of as many were off by 0.016 (1 / (2 · √1024))."""
WIDE, LENGTH = 200.0, 30.0
"""Bytes of a nested value or a document, and of a text without bounds."""
REPEATING = 0.5
"""Of the most distinct values that a sample can tell of: with more there is no dictionary to speak of."""
COMPRESSED = 0.25
"""What compression leaves of text at least, as a share: nothing narrower is concluded from the size of a part."""

_WIDTHS = {Kind.BOOL: 1 / 8, Kind.INT2: 2.0, Kind.INT4: 4.0, Kind.FLOAT4: 4.0, Kind.DATE: 4.0}
_WIDTHS |= dict.fromkeys((Kind.NUMERIC, Kind.INTERVAL, Kind.UUID), 16.0)
_WIDTHS |= dict.fromkeys(
    (Kind.INT8, Kind.FLOAT8, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.MZ_TIMESTAMP), 8.0
)


@dataclass(frozen=True, eq=False)
class Estimates:
    """Of the parts that a query reads. `frame` holds those of them that are asked."""

    frame: Frame
    columns: tuple[SchemaColumn, ...]
    weights: np.ndarray
    """How many rows each part of the frame stands for."""
    absent: Mapping[int, np.ndarray]
    """By the id of a column, the parts of the frame whose rows lack it."""
    total: int
    """Rows of all parts that are kept, without those that are deleted."""
    stored: int
    """The same with them."""
    size: int
    """Their bytes."""
    now: int

    @staticmethod
    def of(snapshot: Snapshot, kept: np.ndarray | None, now: int) -> Estimates:
        """Of the parts at these places of the snapshot; None: of all."""
        table = snapshot.table(["rows", "size", "schema"])
        rows, sizes, written = (table.column(name).to_numpy() for name in table.column_names)
        if kept is not None:
            rows, sizes, written = rows[kept], sizes[kept], written[kept]
        deleted = snapshot.deleted()
        left = rows if deleted is None else rows - (deleted[0] if kept is None else deleted[0][kept])
        places, weights = _sample(left)
        asked = places if kept is None else kept[places]
        absent = _absent(snapshot, written[places])
        return Estimates(
            _frame(snapshot, asked),
            snapshot.schema.columns,
            weights,
            absent,
            int(left.sum()),
            int(rows.sum()),
            int(sizes.sum()),
            now,
        )

    @cached_property
    def _guess(self) -> Guess:
        return Guess(self.frame, self.columns, self.absent, self.now)

    def selectivity(self, conditions: Iterable[Expr]) -> float:
        """The estimated share of rows that passes all conditions (over the collection's columns)."""
        if self.total == 0:
            return 1.0
        return float(np.average(self._guess.all(conditions), weights=self.weights))

    def rows(self, conditions: Iterable[Expr] = ()) -> float:
        """About how many rows pass."""
        return self.total * self.selectivity(conditions)

    def column_bytes(self, columns: Iterable[int]) -> dict[int, float]:
        """The estimated bytes of a row of each column in the file, by statistics or else by type."""
        wanted = sorted(columns)
        made = {i: _width(column) for i, column in enumerate(self.columns)} | {
            i: self._bytes(i) for i in wanted
        }
        open_ = [i for i, column in enumerate(self.columns) if column.type.kind not in _WIDTHS]
        guessed = sum(made[i] for i in open_)
        if guessed > 0 and self.stored > 0:
            beyond = self.size / self.stored - (sum(made.values()) - guessed)
            scale = max(beyond / guessed, COMPRESSED)
            made |= {i: made[i] * scale for i in open_}
        return {i: made[i] for i in wanted}

    def _bytes(self, i: int) -> float:
        """By type, bounds and the number of distinct values."""
        column, rows = self.columns[i], max(1.0, float(self.frame.rows.mean())) if len(self.frame) else 1.0
        nulls = pc.mean(self.frame.nulls(column.id)).as_py() or 0.0
        present = max(0.0, 1 - nulls / rows)
        width = self._length(column) if column.type.kind in (Kind.TEXT, Kind.BYTEA) else _width(column)
        distinct = pc.mean(self.frame.distinct(column.id)).as_py()
        if not distinct or distinct > REPEATING * max_distinct(np.array([rows]))[0]:
            return width * present
        return min(width, math.log2(distinct + 1) / 8 + width * float(distinct) / rows) * present

    def _length(self, column: SchemaColumn) -> float:
        """The mean length of the bounds of a text."""
        bounds = [self.frame.fact(side, (column.id,)) for side in ("low", "high")]
        lengths = [pc.mean(pc.binary_length(bound)).as_py() for bound in bounds if bound is not None]
        known = [length for length in lengths if length is not None]
        return float(np.mean(known)) if known else LENGTH


def _width(column: SchemaColumn) -> float:
    """By the type alone. Parquet keeps a numeric of up to 18 digits as an integer."""
    kind = column.type.kind
    if kind is Kind.NUMERIC:
        digits = column.type.precision or types.MAX_PRECISION
        return 4.0 if digits <= 9 else 8.0 if digits <= 18 else 16.0
    return _WIDTHS.get(kind, LENGTH if kind in (Kind.TEXT, Kind.BYTEA) else WIDE)


def stage_plan(
    plan: MapFilterProject, estimates: Estimates, weight: Mapping[int, float] | None = None
) -> StagePlan:
    """The read stages of a plan; `weight`: the bytes of each demanded column, where known."""
    demand = plan.demand()
    known = estimates.column_bytes(demand) if weight is None else weight
    return choose_stages(plan.conditions, known, demand, estimates.selectivity)


def _sample(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places of the parts that are asked, rising, and for how many rows each stands."""
    if len(rows) <= SAMPLED:
        return np.arange(len(rows)), rows
    ends = np.cumsum(rows)
    at = (np.arange(SAMPLED) + 0.5) * (ends[-1] / SAMPLED)
    places, times = np.unique(np.searchsorted(ends, at, side="right"), return_counts=True)
    return places, times * (ends[-1] / SAMPLED)


def _frame(snapshot: Snapshot, places: np.ndarray) -> Frame:
    """The statistics of these parts; `places` must rise."""
    found, begin = [], 0
    for frame in snapshot.frames():
        first, last = np.searchsorted(places, [begin, begin + len(frame)])
        if last > first:
            mask = np.zeros(len(frame), bool)
            mask[places[first:last] - begin] = True
            found.append(frame.filter(mask))
        begin += len(frame)
    return Frame.concat(found)


def _absent(snapshot: Snapshot, written: np.ndarray) -> dict[int, np.ndarray]:
    """By column, the parts that were written with a version of the schema that lacks it."""
    if (written == snapshot.schema.id).all():
        return {}
    return {id_: np.isin(written, those) for id_, those in schema_versions_without(snapshot).items() if those}
