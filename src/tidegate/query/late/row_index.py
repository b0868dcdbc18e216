"""Where the rows with a value are, of small parts that are asked for single values again and again.

    SELECT * FROM accounts WHERE id = 4711

| part | its ids | what is read |
|---|---|---|
| 300,000 rows as they came | 0 to 299,999, in order | the one page whose bounds hold 4711 |
| 2,000 rows of an UPDATE | 12 to 299,870, anywhere | all; from the second time on nothing, as 4711 is not among them |

Bounds tell nothing of such parts, and an updated collection has several of them. So when a column of a small part is asked for the
second time, its values are sorted and kept, with the position of each. Pages without a row of one of the wanted values are not
read: for their rows the condition is FALSE, whatever other conditions say. A column with NULL is not indexed, as there the
condition is NULL, and an error of another condition would count.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from tidegate.expr.model import Call, Column, Expr, Kind, Literal, Type
from tidegate.plan import MapFilterProject
from tidegate.storage.part import PartFile, RowRange
from tidegate.storage.shard import Snapshot
from tidegate.storage.stats import PAGE_ROWS

MAX_ROWS = 1 << 17
"""Rows of a part beyond which none of its columns is indexed."""
MAX_WANTED = 64
"""Values beyond which most parts have some of them."""
_NUMBERS = {
    Kind.INT2: pa.int16(),
    Kind.INT4: pa.int32(),
    Kind.INT8: pa.int64(),
    Kind.DATE: pa.int32(),
    Kind.TIMESTAMP: pa.int64(),
    Kind.TIMESTAMPTZ: pa.int64(),
}
"""Types whose values are equal where these numbers are."""


@dataclass(frozen=True, eq=False)
class RowIndex:
    """The values of a column, sorted, and the position of each; without any for a column with NULL."""

    values: np.ndarray
    positions: np.ndarray
    usable: bool = True

    @property
    def nbytes(self) -> int:
        """Its weight in a cache."""
        return self.values.nbytes + self.positions.nbytes + 256

    @staticmethod
    def of(values: Sequence[pa.Array], type_: Type) -> RowIndex:
        """Of a column in pieces."""
        column = pa.concat_arrays(values)
        if column.null_count:
            return NO_INDEX
        numbers = numbers_of(column, type_)
        order = np.argsort(numbers, kind="stable")
        return RowIndex(numbers[order], order.astype(np.int32))

    def find(self, wanted: np.ndarray) -> np.ndarray:
        """The positions of the rows with one of these values."""
        begins, ends = (np.searchsorted(self.values, wanted, side) for side in ("left", "right"))
        found = [self.positions[begin:end] for begin, end in zip(begins, ends, strict=True) if begin < end]
        return np.concatenate(found) if found else self.positions[:0]


NO_INDEX = RowIndex(np.zeros(0, np.int64), np.zeros(0, np.int32), usable=False)


def numbers_of(column: pa.Array, type_: Type) -> np.ndarray:
    """The values of a column without NULL as numbers."""
    numbers: np.ndarray = column.view(_NUMBERS[type_.kind]).to_numpy().astype(np.int64)
    return numbers


@lru_cache(maxsize=64)
def wanted_values(plan: MapFilterProject) -> tuple[tuple[int, np.ndarray], ...]:
    """The columns that must have one of a few values, each with these: `id = 3`, `id IN (3, 7)`."""
    found = [(condition, _column_and_constant(condition)) for condition in plan.conditions]
    return tuple(
        (pair[0].index, numbers)
        for condition, pair in found
        if pair is not None and (numbers := _constants(condition, *pair)) is not None
    )


def _column_and_constant(condition: Expr) -> tuple[Column, Literal] | None:
    match condition:
        case Call(function, (Column() as column, Literal() as constant)) if function.name in ("=", "in"):
            return column, constant
        case Call(function, (Literal() as constant, Column() as column)) if function.name == "=":
            return column, constant
        case _:
            return None


def _constants(condition: Expr, column: Column, constant: Literal) -> np.ndarray | None:
    """The values of a condition as numbers; None if there are none, or too many."""
    assert isinstance(condition, Call)
    several = condition.function.name == "in"
    type_ = constant.type.element if several else constant.type
    if constant.is_null or type_ != column.type or column.type.kind not in _NUMBERS:
        return None
    values = constant.value.values if several else pa.array([constant.value], constant.type.arrow)
    if values.null_count or not 0 < len(values) <= MAX_WANTED:  # of an element that is NULL nothing is FALSE
        return None
    return numbers_of(values, column.type)


def pages_with_values(snapshot: Snapshot, plan: MapFilterProject, file: PartFile) -> np.ndarray | None:
    """Of each page whether it may hold a row that passes; None: nothing is known."""
    if file.part.rows > MAX_ROWS:
        return None
    for at, wanted in wanted_values(plan):
        column = snapshot.schema.columns[at]
        index = _index(snapshot, file, column.id, column.type)
        if index.usable:
            pages = np.zeros(-(-file.part.rows // PAGE_ROWS), bool)
            pages[index.find(wanted) // PAGE_ROWS] = True
            return pages
    return None


def _index(snapshot: Snapshot, file: PartFile, id_: int, type_: Type) -> RowIndex:
    """The index of a column: from the second time on that it is asked for."""
    indexes, key = snapshot.shard.machine.files.indexes, (file.part.name, id_, type_)
    asked: Hashable = ("asked", *key)
    if indexes.get(asked) is None:
        indexes.put(asked, NO_INDEX)
        return NO_INDEX

    def make() -> RowIndex:
        if not file.has(id_):
            return NO_INDEX
        groups = [RowRange(group, 0, rows) for group, rows in enumerate(file.groups)]
        return RowIndex.of([file.read([id_], [type_], rows)[0] for rows in groups], type_)

    return indexes.get_or_compute(key, make)
