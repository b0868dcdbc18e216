"""Rows that are equal made one group, a batch at once.

    groups = Groups.of([country, city])     rows 0..4:  (a, x) (b, y) (a, x) (a, NULL) (b, y)
    groups.number                           0 1 0 2 1: groups are numbered as they first occur
    groups.first                            0 1 3: a row of each group, whose values stand for it
    groups.reduce(np.add, values)           a value for each group

Each column is numbered by itself, and the numbers of several columns make one, as digits do. Equal is what
`storage/part/row_keys.py` says:
NULL is NULL, NaN is NaN, 0 is -0. Of rows that are equal and not identical the first by
`exact_keys` stands for the group, so that it does not depend on the order of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model import order, to_bools, to_numpy
from tidegate.storage.part import exact_keys, has_ambiguous_equality, row_keys


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of some rows, each of which has one row at least."""

    number: np.ndarray
    """Of each row, the number of its group."""
    count: int
    first: np.ndarray
    """Of each group, the row that stands for it."""

    @staticmethod
    def of(columns: Sequence[pa.Array], rows: int) -> Groups:
        """Rows are of one group if they are equal in these columns; without columns there is one group."""
        if not columns:
            some = min(rows, 1)
            return Groups(np.zeros(rows, np.int64), some, np.zeros(some, np.int64))
        number, count = _numbered(columns[0])
        for column in columns[1:]:
            more, different = _numbered(column)
            if count * different > np.iinfo(np.int64).max:
                number, count = _numbered(pa.array(number))
            number, count = number * different + more, count * different
        if len(columns) > 1:
            number, count = _numbered(pa.array(number))
        by = np.arange(rows)
        if has_ambiguous_equality(columns) and count < rows:
            by = pc.sort_indices(exact_keys(columns, rows)).to_numpy().astype(np.int64)
        first = np.zeros(count, np.int64)
        first[number[by[::-1]]] = by[::-1]  # of several rows of a group the last one that is written stays
        return Groups(number, count, first)

    @property
    def alone(self) -> bool:
        """Whether no two rows are equal: every row is a group already, in its order."""
        return self.count == len(self.number)

    @cached_property
    def _together(self) -> tuple[np.ndarray | None, np.ndarray]:
        """The rows of each group one after the other (None: they are), and where each group starts."""
        if self.count == 1:
            return None, np.zeros(1, np.int64)
        # numpy sorts numbers of 16 bits by their digits, in a tenth of the time.
        number = self.number.astype(np.uint16) if self.count <= 1 << 16 else self.number
        sizes = np.bincount(self.number, minlength=self.count)
        return np.argsort(number, kind="stable"), np.cumsum(sizes) - sizes

    def reduce(self, ufunc: Any, values: Any) -> np.ndarray:
        """`ufunc` over the values of each group."""
        if self.alone:
            return np.asarray(values)
        rows, starts = self._together
        result: np.ndarray = ufunc.reduceat(values if rows is None else values[rows], starts)
        return result


def _numbered(column: pa.Array) -> tuple[np.ndarray, int]:
    """A number for each different value, in the order in which they first occur, and how many there are."""
    encoded = _hashable(column).dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def _hashable(column: pa.Array) -> pa.Array:
    """Values that are identical where the given ones are equal, and NULL where these are."""
    type_ = column.type
    if pa.types.is_floating(type_):
        with np.errstate(invalid="ignore"):  # a signalling NaN
            plain = to_numpy(column, 0.0) + 0.0  # -0 + 0 is 0
        bits = np.where(np.isnan(plain), np.nan, plain).view(f"i{plain.itemsize}")
        return pa.array(bits, mask=~to_bools(column.is_valid()) if column.null_count else None)
    if pa.types.is_interval(type_):
        return order.interval_key(column)
    return row_keys([column], len(column)) if pa.types.is_nested(type_) else column
