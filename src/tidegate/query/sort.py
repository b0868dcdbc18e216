"""ORDER BY, LIMIT and OFFSET over a plan's output, in the order of `expr/model/order.py`.

    Shape(order=(OrderBy(2, descending=True, nulls_first=True),), limit=10, offset=0)

Each key becomes integers: the value itself if it is one, else its rank among all values, from bytes that compare as values do
(`storage/part/row_keys.py`); turned around for DESC, with NULLs at either end. Sorting is then sorting integers, and stable. With a
limit, what is gathered is cut to the best `limit + offset` rows whenever it has grown to several times that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import LimitError
from tidegate.expr.model import Type, to_numpy
from tidegate.storage.part import one_chunk, row_keys

SLACK = 65_536
"""Rows beyond the limit that are gathered before they are cut."""


class OrderBy(NamedTuple):
    """Sort by column `column` of what leaves the plan."""

    column: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class ResultShape:
    """What is done with all rows together."""

    order: tuple[OrderBy, ...] = ()
    limit: int | None = None
    offset: int = 0

    @property
    def max_rows(self) -> int | None:
        """How many rows are needed at most."""
        return None if self.limit is None else self.limit + self.offset

    @property
    def any_rows(self) -> bool:
        """Whether any rows will do, if they are as many as are wanted: there is a limit and no order."""
        return self.limit is not None and not self.order


@dataclass
class SortBuffer:
    """Rows as they come, cut down as soon as it is known which are not needed."""

    types: tuple[Type, ...]
    shape: ResultShape
    max_bytes: int = 0
    """Bytes that may be gathered; 0: any number."""
    batches: list[list[pa.Array]] = field(default_factory=list)
    rows: int = 0
    size: int = 0

    def add(self, columns: list[pa.Array], rows: int) -> None:
        """Some more rows."""
        if not rows:
            return
        self.batches.append(columns)
        self.rows += rows
        self.size += sum(column.nbytes for column in columns)
        most = self.shape.max_rows
        if self.shape.order and most is not None and self.rows > 4 * most + SLACK:
            self._keep(_sorted(self._columns(), self.shape.order, most))
        if self.max_bytes and self.size > self.max_bytes:
            raise LimitError(
                f"the result has more than {self.max_bytes:,} bytes",
                hint="ask for fewer rows or columns, or SET max_result_bytes to more",
            )

    def enough(self) -> bool:
        """Whether no further row is needed."""
        return self.shape.any_rows and self.rows >= (self.shape.max_rows or 0)

    def finish(self) -> list[pa.ChunkedArray]:
        """The rows in their order, within their limits."""
        shape = self.shape
        if shape.order and self.rows:
            self._keep(_sorted(self._columns(), shape.order, shape.max_rows))
        stop = self.rows if shape.max_rows is None else min(self.rows, shape.max_rows)
        start = min(shape.offset, stop)
        return [column.slice(start, stop - start) for column in self._columns()]

    def _columns(self) -> list[pa.ChunkedArray]:
        return [
            pa.chunked_array([batch[i] for batch in self.batches], type_.arrow)
            for i, type_ in enumerate(self.types)
        ]

    def _keep(self, rows: np.ndarray) -> None:
        at = pa.array(rows)
        self.batches = [[one_chunk(column).take(at) for column in self._columns()]]
        self.rows = len(rows)
        self.size = sum(column.nbytes for column in self.batches[0])

    def worst(self) -> pa.Array | None:
        """The first sort key of the last row that is in so far; None while there is room for more."""
        most = self.shape.max_rows
        if most is None or self.rows < most:
            return None
        self._keep(_sorted(self._columns(), self.shape.order, most))
        return self.batches[0][self.shape.order[0].column].slice(most - 1)


def _sorted(
    columns: Sequence[pa.ChunkedArray], order: Sequence[OrderBy], most: int | None = None
) -> np.ndarray:
    """The numbers of the rows in their order; with `most`, of the first so many."""
    first = _sort_keys(one_chunk(columns[order[0].column]), order[0])
    rows = np.arange(len(first[0]))
    if most is not None and 0 < most < len(rows):
        # Rows that are worse by the first key alone are out: most rows, and no other key is computed for them.
        rows = np.flatnonzero(first[0] <= np.partition(first[0], most - 1)[most - 1])
    keys = [key[rows] for key in first]
    for one in order[1:]:
        keys += _sort_keys(one_chunk(columns[one.column]).take(pa.array(rows)), one)
    return rows[np.lexsort(keys[::-1])][:most]


def _sort_keys(column: pa.Array, key: OrderBy) -> list[np.ndarray]:
    """Integers that sort as the key wants, the most significant first."""
    type_ = column.type
    if not (pa.types.is_integer(type_) or pa.types.is_date32(type_) or pa.types.is_timestamp(type_)):
        return [_ranks(column, key)]
    plain = pa.int32() if pa.types.is_date32(type_) else pa.int64()
    integers = column.view(plain) if pa.types.is_temporal(type_) else column.cast(plain)
    values = to_numpy(integers, fill=0).astype(np.int64)
    values = ~values if key.descending else values  # reverses the order, and cannot overflow
    if not column.null_count:
        return [values]
    null = column.is_null().to_numpy(zero_copy_only=False)
    return [np.where(null, -1 if key.nulls_first else 1, 0), values]


def _ranks(column: pa.Array, key: OrderBy) -> np.ndarray:
    keys = row_keys([column], len(column))
    by = pc.sort_indices(keys).to_numpy()
    changed = pc.not_equal(keys.take(pa.array(by[1:])), keys.take(pa.array(by[:-1])))
    ranks = np.empty(len(column), np.int64)
    ranks[by] = np.concatenate([[0], np.cumsum(changed.to_numpy(zero_copy_only=False))])
    ranks = -ranks if key.descending else ranks
    if column.null_count:
        end = len(column) + 1
        ranks[column.is_null().to_numpy(zero_copy_only=False)] = -end if key.nulls_first else end
    return ranks
