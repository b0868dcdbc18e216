"""Distribution of an expression's values in each part: the share below, equal to, or NULL.

    subjects = Subjects(frame, columns, absent, interpretation)
    subjects.below(price, 5)      two arrays: the share of prices that are less than 5, and that are not greater
    subjects.equal(price, 5)      the share that are 5, of those that are not NULL
    subjects.nulls(price)         the share that are NULL

A histogram has 16 buckets of as many rows each, and a column an estimate of its distinct values
(`storage/stats/histogram.py`). From
both: a value that is k of the 15 places between buckets is about k/16 of the rows; any other is taken to be as frequent as the
rest.

| of 1,000 rows | distinct | places that are 0 | `x = 0` |
|---|---|---|---|
| 900 are 0, the others differ | 101 | 14 | 14/16 |
| 0 .. 9 evenly | 10 | 1 or 2 | 1/10: the histogram agrees |
| all differ | 1000 | 0 | 1/1000 |
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain import Interpretation
from tidegate.expr.model import Call, Column, Expr, Kind, Literal, support, to_bools, walk
from tidegate.storage.part import SchemaColumn
from tidegate.storage.stats import BUCKETS, Frame, Histograms, max_distinct

EQUAL, NULLS = 0.01, 0.05
"""Where nothing was counted; the reasons stand in `selectivity.py`."""
MAX_SAMPLED_VALUES = 8
"""Constants of a long IN that are looked up; the others are taken to be like them."""
MAX_REPEATING_VALUES = 2 * BUCKETS
"""Distinct values up to which each is seen in the histogram as one that repeats."""
_MOVES = ("+", "-", "cast")


class Subjects:
    """The expressions of a filter that are compared with constants, over the parts of a frame."""

    def __init__(
        self,
        frame: Frame,
        columns: Sequence[SchemaColumn],
        absent: Mapping[int, np.ndarray],
        interpretation: Interpretation,
    ) -> None:
        """`absent`: by the id of a column, the parts whose rows lack it."""
        self.frame, self.columns, self.absent = frame, columns, absent
        self.interpretation = interpretation
        self._nulls: dict[Expr, np.ndarray] = {}
        self._places: dict[Expr, Histograms] = {}
        self._counts: dict[Expr, np.ndarray] = {}
        self._equal: dict[tuple[Expr, pa.Scalar], tuple[np.ndarray, np.ndarray]] = {}

    def nulls(self, expr: Expr) -> np.ndarray:
        """About which share of an expression is NULL."""
        if expr not in self._nulls:
            specs = self.interpretation.of(expr)
            share = np.where(specs.empty, 1.0, np.where(specs.null, self._null_share(expr), 0.0))
            self._nulls[expr] = np.clip(share, 0, 1)
        return self._nulls[expr]

    def below(self, subject: Expr, value: pa.Scalar) -> tuple[np.ndarray, np.ndarray]:
        """The shares that are less than a value, and that are not greater."""
        found = self._placing(subject).below(value)
        equal, edges = self._equals(subject, value)
        # A value that fills buckets is counted by them as below itself.
        fills = (edges >= 2) | ((edges >= 1) & (self._distinct(subject) <= MAX_REPEATING_VALUES))
        less = np.where(fills, found - equal, found)
        return np.clip(less, 0, 1), np.clip(less + equal, 0, 1)

    def equal(self, subject: Expr, value: pa.Scalar) -> np.ndarray:
        """The share that equals a value: the average share, more if the histogram shows it to be frequent."""
        return self._equals(subject, value)[0]

    def _equals(self, subject: Expr, value: pa.Scalar) -> tuple[np.ndarray, np.ndarray]:
        """That share, and how many places between buckets are this value."""
        known = self._equal.get((subject, value))
        if known is not None:
            return known
        places, even, distinct = self._placing(subject), self.even(subject), self._distinct(subject)
        edges = places.edges_at(value)
        agrees = (even >= (edges - 1) / BUCKETS) & (even <= (edges + 1) / BUCKETS)
        seen = np.where(agrees, even, np.maximum(edges, 0.5) / BUCKETS)
        # Where the sample has hardly a value twice none can be frequent, whatever their places, cut to two bytes, look like.
        room = np.clip(1 - distinct / max_distinct(self.frame.rows), 0, 1)
        share = np.where(np.isfinite(distinct), np.minimum(seen, np.maximum(room, even)), even)
        made = np.where(places.within(value), share, 0.0), edges
        self._equal[subject, value] = made
        return made

    def in_list(self, subject: Expr, values: pa.Array) -> np.ndarray:
        """The share that equals one of the values, which are distinct."""
        if not len(values):
            return np.zeros(1)
        at = np.unique(
            np.linspace(0, len(values) - 1, min(len(values), MAX_SAMPLED_VALUES)).round().astype(np.int64)
        )
        some = [self.equal(subject, values[i]) for i in at.tolist()]
        share: np.ndarray = np.minimum(1.0, np.sum(some, axis=0) * (len(values) / len(some)))
        return share

    # ---------------------------------------------------------------- what is known of a subject

    def _placing(self, subject: Expr) -> Histograms:
        if subject not in self._places:
            column = self._moved(subject)
            id_ = None if column is None else self.columns[column].id
            self._places[subject] = self.frame.places(id_, self.interpretation.of(subject))
        return self._places[subject]

    def _moved(self, expr: Expr) -> int | None:
        """The column that an expression only moves or casts, so that its values lie as the column's do."""
        while isinstance(expr, Call) and expr.function.name in _MOVES and expr.args:
            kinds = expr.type.kind, expr.args[0].type.kind
            if support(*expr.args[1:]) or Kind.TEXT in kinds or Kind.JSONB in kinds:
                return None
            expr = expr.args[0]
        return expr.index if isinstance(expr, Column) else None

    def _distinct(self, subject: Expr) -> np.ndarray:
        """How many values differ; infinite where that is not known."""
        if subject not in self._counts:
            column = self._moved(subject)
            found = pa.nulls(1) if column is None else self.frame.distinct(self.columns[column].id)
            counts = pc.fill_null(found.cast(pa.float64()), math.inf).to_numpy(zero_copy_only=False)
            self._counts[subject] = np.maximum(counts, 1.0)
        return self._counts[subject]

    def even(self, subject: Expr) -> np.ndarray:
        """The share of each value if all are as frequent."""
        distinct = self._distinct(subject)
        return np.where(np.isfinite(distinct), 1 / distinct, EQUAL)

    def _null_share(self, expr: Expr) -> np.ndarray:
        """Of a column or a JSON path as they were counted; else NULL where any column is."""
        found = self._counted(expr)
        if found is not None:
            return found
        columns = [node for node in walk(expr) if isinstance(node, Column)]
        return 1 - product(1 - self.nulls(column) for column in columns if column != expr)

    def _counted(self, expr: Expr) -> np.ndarray | None:
        """The share of NULL where it was counted: of a column, or of a key in JSON behind any casts."""
        keys: list[str] = []
        while isinstance(expr, Call) and expr.function.name in ("cast", "->", "->>"):
            if expr.function.name != "cast":
                key = expr.args[1]
                if not (isinstance(key, Literal) and key.type.kind is Kind.TEXT) or key.is_null:
                    return None
                keys.append(key.value.as_py())
            expr = expr.args[0]
        if not isinstance(expr, Column):
            return None
        id_ = self.columns[expr.index].id
        nulls = self.frame.fact("nulls", (id_, *reversed(keys)))
        if nulls is None:
            return np.full(1, NULLS)
        share = nulls.cast(pa.float64()).to_numpy(zero_copy_only=False) / np.maximum(self.frame.rows, 1)
        share = np.where(to_bools(nulls.is_valid()), share, NULLS)
        return np.where(self.absent[id_], 1.0, share) if id_ in self.absent else share


def product(shares: Iterable[np.ndarray]) -> np.ndarray:
    """Shares of independent conditions that hold together."""
    return reduce(np.multiply, shares, np.ones(1))
