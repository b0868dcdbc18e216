"""Statistics of n stretches of rows while they are collected, before bounds are shortened.

`collect.py` fills a `Tally` with a stretch for each page; `merged` makes one of row groups or of the whole
part from it, with the same kernels. A bound is null only where there is nothing to bound: text is cut, and
numbers beyond numeric(38, 18) are given up, when the tally becomes facts of a frame (`columns.py`) or a
part's `ColumnStats` (`stats_of`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model import order, to_bools
from tidegate.storage.stats import shorten as cut
from tidegate.storage.stats.extremes import Bounds, count, extremes, reduced
from tidegate.storage.stats.json import model as lane
from tidegate.storage.stats.json.model import JsonStats
from tidegate.storage.stats.model import MAX_TEXT, ColumnStats, Form, Stored


@dataclass(frozen=True, eq=False)
class JsonTally:
    """JSON values of each stretch: counts by lane, bounds of numbers and strings, and keys of maps."""

    counts: np.ndarray
    """7 × n."""
    known: np.ndarray
    """Where `counts` says all; elsewhere anything may be, or be absent."""
    number: Bounds | None = None
    """numeric(38, 18), unscaled, rounded outwards; null where there are no numbers, or some beyond the range."""
    whole: np.ndarray | None = None
    text: Bounds | None = None
    keys: dict[str, JsonTally] = field(default_factory=dict)
    closed: np.ndarray | None = None
    """Where no map has keys beyond those listed; None: nowhere."""

    def merged(self, starts: np.ndarray) -> JsonTally:
        """The same for stretches made of several of these."""
        number = whole = None
        if self.number is not None and self.whole is not None:
            some = self.counts[lane.NUMBER] > 0
            number = _outer(self.number[0], some, starts, 0), _outer(self.number[1], some, starts, 1)
            whole = count(some & ~self.whole, starts) == 0
        return JsonTally(
            np.stack([reduced(np.add, lane_, starts) for lane_ in self.counts]),
            count(~self.known, starts) == 0,
            number,
            whole,
            None if self.text is None else _both_ends(self.text, starts),
            {name: tally.merged(starts) for name, tally in self.keys.items()},
            None if self.closed is None else count(~self.closed, starts) == 0,
        )

    def row(self, i: int) -> JsonStats:
        """The statistics of stretch i."""
        text_low, text_high = cut_pair(Form.TEXT, *_pair(self.text, i))
        number_low, number_high = _pair(self.number, i)
        closed = bool(self.closed is not None and self.closed[i])
        inside = {name: tally.row(i) for name, tally in self.keys.items()}
        return JsonStats(
            tuple(int(c) for c in self.counts[:, i]) if self.known[i] else None,
            number_low,
            number_high,
            bool(self.whole is not None and self.whole[i]),
            text_low,
            text_high,
            {name: stats for name, stats in inside.items() if not closed or stats.present != 0},
            closed,
        )


@dataclass(frozen=True, eq=False)
class Tally:
    """A column, a field, or the elements of arrays in n stretches."""

    form: Form
    rows: np.ndarray
    nulls: np.ndarray
    bounds: Bounds | None = None
    """In the stored form."""
    nan: np.ndarray | None = None
    months: np.ndarray | None = None
    json: JsonTally | None = None
    fields: tuple[Tally, ...] = ()
    element: Tally | None = None

    def merged(self, starts: np.ndarray) -> Tally:
        """The same for larger stretches: pages `starts[i]` to `starts[i + 1]` become stretch i."""
        return Tally(
            self.form,
            reduced(np.add, self.rows, starts),
            reduced(np.add, self.nulls, starts),
            None if self.bounds is None else _both_ends(self.bounds, starts),
            None if self.nan is None else count(self.nan, starts) > 0,
            None if self.months is None else count(self.months, starts) > 0,
            None if self.json is None else self.json.merged(starts),
            tuple(tally.merged(starts) for tally in self.fields),
            None if self.element is None else self.element.merged(starts),
        )

    def row(self, i: int) -> ColumnStats:
        """The statistics of stretch i, text cut."""
        return ColumnStats(
            self.form,
            int(self.rows[i]),
            int(self.nulls[i]),
            *cut_pair(self.form, *_pair(self.bounds, i)),
            nan=self.nan is None or bool(self.nan[i]),
            months=self.months is None or bool(self.months[i]),
            json=None if self.json is None else self.json.row(i),
            fields=tuple(tally.row(i) for tally in self.fields),
            element=None if self.element is None else self.element.row(i),
        )


def _both_ends(bounds: Bounds, starts: np.ndarray) -> Bounds:
    return extremes(bounds[0], starts)[0], extremes(bounds[1], starts)[1]


def _outer(bound: pa.Array, some: np.ndarray, starts: np.ndarray, side: int) -> pa.Array:
    """The outer bound, null where one of the stretches has values and no bound."""
    outer = extremes(bound, starts)[side]
    open_ = count(some & to_bools(bound.is_null()), starts) > 0
    return pc.if_else(pa.array(open_), pa.scalar(None, bound.type), outer)


def _pair(bounds: Bounds | None, i: int) -> tuple[Any, Any]:
    return (None, None) if bounds is None else (_at(bounds[0], i), _at(bounds[1], i))


def _at(bound: pa.Array, i: int) -> Stored | None:
    """A bound as its stored value."""
    value = bound[i]
    if not value.is_valid:
        return None
    if pa.types.is_interval(bound.type):
        months, days, micros = order.interval_parts(value)
        return int(months), int(days), int(micros)
    if pa.types.is_decimal(bound.type):
        return int(value.as_py())
    stored: Stored = value.as_py()
    return stored


def cut_pair(form: Form, low: Any, high: Any) -> tuple[Any, Any]:
    """Bounds (None: none) no longer than they may be."""
    if form is Form.TEXT:
        return low and cut.low_text(low, MAX_TEXT), high and cut.high_text(high, MAX_TEXT)
    if form is Form.BYTES:
        return low and cut.low_bytes(low, MAX_TEXT), high and cut.high_bytes(high, MAX_TEXT)
    return low, high


def cut_bounds(bounds: Bounds) -> Bounds:
    """The bounds of many stretches, no longer than they may be."""
    text, binary = (check(bounds[0].type) for check in (pa.types.is_string, pa.types.is_binary))
    if not text and not binary:
        return bounds
    if all((pc.max(pc.binary_length(bound)).as_py() or 0) <= MAX_TEXT for bound in bounds):
        return bounds
    form = Form.TEXT if text else Form.BYTES
    pairs = [cut_pair(form, *pair) for pair in zip(*(bound.to_pylist() for bound in bounds), strict=True)]
    low, high = (pa.array([pair[side] for pair in pairs], bounds[0].type) for side in (0, 1))
    return low, high
