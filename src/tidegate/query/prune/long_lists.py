"""Long lists of constants, each part with those within its bounds: `key IN (100,000 values)`.

    lists = ListsByPart.of(pruned)            None if no condition has such a list
    lists.conditions(3, conditions)           the conditions for the part at place 3 of those that are read

| part | key | of `key IN (2, 5, 7, 31, 35, 90)` are left |
|---|---|---|
| 1 | 1 to 10 | 2, 5, 7 |
| 2 | 30 to 40 | 31, 35 |

A row of a part can only be equal to a constant within the part's bounds, so the rows that pass stay the same. Building a hash table
of all constants for each part, and comparing all of them with the bounds of its pages, would cost more than reading its column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal as OneOf

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model import Call, Column, Expr, Kind, Literal, outcome, to_bools
from tidegate.query.prune.parts import PruneResult, PruningPredicate

MIN_VALUES = 1024
"""Constants from which on each part gets a list of its own."""
_ORDERED = frozenset(
    {Kind.INT2, Kind.INT4, Kind.INT8, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TEXT, Kind.BYTEA}
)
"""Types that Arrow sorts and searches in our order."""


@dataclass(frozen=True, eq=False)
class _LongList:
    """A condition `column IN (constants)`, and which of the constants each part gets."""

    condition: Call
    values: pa.Array
    """The constants, sorted, without NULL."""
    null: bool
    """Whether NULL is among them: then a row that equals none of them is unknown, and not false."""
    begins: np.ndarray
    ends: np.ndarray

    def narrow(self, place: int) -> Expr:
        """The condition for the part at this place."""
        begin, end = int(self.begins[place]), int(self.ends[place])
        if end - begin == len(self.values):
            return self.condition
        values = self.values.slice(begin, max(end - begin, 1))  # of an empty list NULL is no element either
        if self.null:
            values = pa.concat_arrays([values, pa.nulls(1, values.type)])
        column, constants = self.condition.args
        assert isinstance(constants, Literal)
        offsets = pa.array([0, len(values)], pa.int32())
        array = pa.ListArray.from_arrays(offsets, values).cast(constants.type.arrow)
        return Call(self.condition.function, (column, Literal(array[0], constants.type)), self.condition.type)


@dataclass(frozen=True, eq=False)
class ListsByPart:
    """The long lists of a plan's conditions, for each part that is read."""

    lists: dict[int, _LongList]
    """By the place of the condition in `Verdicts.by_condition`."""

    @staticmethod
    def of(found: PruneResult) -> ListsByPart | None:
        """Those of a plan whose parts are pruned; None if it has no long list, or statistics are not used."""
        if found.verdicts is None or found.kept is None or found.predicate is None or not len(found.kept):
            return None
        lists = {
            i: _long_list(condition, found.predicate, found.kept)
            for i, (condition, _) in enumerate(found.verdicts.by_condition)
            if isinstance(condition, Call) and _is_long_list(condition)
        }
        return ListsByPart(lists) if lists else None

    def conditions(self, place: int, conditions: Sequence[tuple[int, Expr]]) -> list[Expr]:
        """Conditions, given with their places, for the part at this place of those that are read."""
        return [self.lists[i].narrow(place) if i in self.lists else condition for i, condition in conditions]


def _is_long_list(condition: Call) -> bool:
    if condition.function.name != "in" or len(condition.args) != 2:
        return False
    column, constants = condition.args
    return (
        isinstance(column, Column)
        and isinstance(constants, Literal)
        and not constants.is_null
        and column.type.kind in _ORDERED
        and constants.type.element == column.type
        and len(constants.value.values) >= MIN_VALUES
    )


def _long_list(condition: Call, predicate: PruningPredicate, kept: np.ndarray) -> _LongList:
    column, constants = condition.args
    assert isinstance(column, Column)
    assert isinstance(constants, Literal)
    given = constants.value.values
    values = given.drop_null().unique()
    values = values.take(pc.array_sort_indices(values))
    begins, ends = [], []
    for specs, count in predicate.stretches(frozenset({column.index})):
        known = specs[column.index]
        assert known is not None
        low, high = (_repeated(bound, count) for bound in known.bounds())
        begins.append(_places(values, low, "left", 0))
        ends.append(_places(values, high, "right", len(values)))
    return _LongList(
        condition, values, given.null_count > 0, np.concatenate(begins)[kept], np.concatenate(ends)[kept]
    )


def _repeated(bound: pa.Array, count: int) -> pa.Array:
    return bound if len(bound) == count else pa.repeat(bound[0], count)


def _places(values: pa.Array, bounds: pa.Array, side: OneOf["left", "right"], unbounded: int) -> np.ndarray:
    """Where each bound would be inserted into the sorted values; `unbounded` where there is none."""
    unknown = to_bools(bounds.is_null())
    given, wanted = _comparable(values), _comparable(bounds.filter(pa.array(~unknown)))
    places = np.full(len(bounds), unbounded, np.int64)
    places[~unknown] = np.searchsorted(given, wanted, side)
    return places


def _comparable(values: pa.Array) -> np.ndarray:
    """Values in numpy, in the same order: numbers, or Python's texts and bytes."""
    if not (pa.types.is_string(values.type) or pa.types.is_binary(values.type)):
        values = outcome.integers(values).cast(pa.int64())
    return np.asarray(values.to_numpy(zero_copy_only=False))
