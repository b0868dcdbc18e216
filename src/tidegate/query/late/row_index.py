"""Where the rows with a value are, of small parts that are asked for single values again and again.

    SELECT * FROM accounts WHERE id = 4711

| part | its ids | what is read |
|---|---|---|
| 300,000 rows as they came | 0 to 299,999, in order | the one page whose bounds hold 4711 |
| 2,000 rows of an UPDATE | 12 to 299,870, anywhere | all; from the second time on nothing, as 4711 is not among them |

Bounds tell nothing of such parts, and an updated collection has several of them. So when a column of a small part is asked for the
second time, its values are sorted and kept, with the position of each. Pages without a row of one of the wanted values are not
read: for their rows the condition is FALSE, whatever other conditions say. Nor are those where all such rows are deleted. A column
with NULL is not indexed, as there the condition is NULL, and an error of another condition would count.

Bounds of pages can leave one of several pages, and yet most look-ups find nothing there: an UPDATE of every tenth row writes their
ids in order. So look-ups are counted, and a part gets an index too if most of them have found no row in it:

| part | bounds leave | an index |
|---|---|---|
| 10,000 rows as they came | the page of 4711 | no: it is there |
| 10,000 rows, every tenth id | the page of 4705 to 4715 | after two look-ups that have found nothing |
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from tidegate.expr.model import Call, Column, Expr, Kind, Literal, Type
from tidegate.plan import MapFilterProject
from tidegate.storage.part import Part, PartFile, RowRange
from tidegate.storage.shard import Snapshot
from tidegate.storage.stats import PAGE_ROWS

MAX_ROWS = 1 << 17
"""Rows of a part beyond which none of its columns is indexed."""
MAX_SPARSE_ROWS = 1 << 16
"""The same, where bounds leave few pages: an index spares one page or two."""
MIN_MISSES = 2
"""Look-ups that have found nothing in such a part before it gets an index."""
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


@dataclass
class LookupCounts:
    """How many look-ups have read a part, and found a row or none.

    Threads may share it: a lost count does no harm.
    """

    hits: int = 0
    misses: int = 0
    nbytes: int = 256
    """Its weight in a cache."""

    @property
    def mostly_miss(self) -> bool:
        """Whether an index would spare most of them."""
        return self.misses >= MIN_MISSES and self.misses > self.hits


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


def pages_with_values(
    snapshot: Snapshot, plan: MapFilterProject, file: PartFile, *, sparse: bool = False
) -> np.ndarray | None:
    """Of each page whether it may hold a row that passes; None: nothing is known.

    `sparse`: bounds leave few pages, so it depends on what look-ups have found.
    """
    if file.part.rows > (MAX_SPARSE_ROWS if sparse else MAX_ROWS):
        return None
    for at, wanted in wanted_values(plan):
        column = snapshot.schema.columns[at]
        if sparse and not _counts(snapshot, file.part, column.id).mostly_miss:
            continue
        index = _index(snapshot, file, column.id, column.type, asked=sparse)
        if index.usable:
            found = index.find(wanted)
            if file.deleted is not None and len(found):
                found = np.setdiff1d(found, file.deleted)
            pages = np.zeros(-(-file.part.rows // PAGE_ROWS), bool)
            pages[found // PAGE_ROWS] = True
            return pages
    return None


def count_lookup(snapshot: Snapshot, plan: MapFilterProject, part: Part, *, hit: bool) -> None:
    """Remembers whether a plan that wants single values has found a row of a part."""
    if part.rows > MAX_SPARSE_ROWS:
        return
    for at, _ in wanted_values(plan):
        counts = _counts(snapshot, part, snapshot.schema.columns[at].id)
        counts.hits, counts.misses = counts.hits + hit, counts.misses + (not hit)


def _counts(snapshot: Snapshot, part: Part, id_: int) -> LookupCounts:
    counts: LookupCounts = snapshot.shard.machine.files.indexes.get_or_compute(
        ("look-ups", part.name, id_), LookupCounts
    )
    return counts


def _index(snapshot: Snapshot, file: PartFile, id_: int, type_: Type, *, asked: bool) -> RowIndex:
    """The index of a column: from the second time on that it is asked for, unless it was `asked` before."""
    indexes, key = snapshot.shard.machine.files.indexes, (file.part.name, id_, type_)
    before: Hashable = ("asked", *key)
    if not asked and indexes.get(before) is None:
        indexes.put(before, NO_INDEX)
        return NO_INDEX

    def make() -> RowIndex:
        if not file.has(id_):
            return NO_INDEX
        groups = [RowRange(group, 0, rows) for group, rows in enumerate(file.groups)]
        return RowIndex.of([file.read([id_], [type_], rows)[0] for rows in groups], type_)

    return indexes.get_or_compute(key, make)
