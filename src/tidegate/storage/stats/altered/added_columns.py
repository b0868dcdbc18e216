"""A frame in which a column that was added with a default is that default, where its parts lack it.

The facts of a constant are those of one row that holds it, collected as for any part: whatever its type, text bounds that are
cut and JSON lanes included. Ratios of counts are right; the counts of nested values are those of one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.expr.model import Type
from tidegate.storage.stats import encode as codec
from tidegate.storage.stats.collect import ColumnValues, collect
from tidegate.storage.stats.columns import parse_fact_name
from tidegate.storage.stats.frame import Frame


@dataclass(frozen=True, eq=False)
class AddedColumn:
    """A column that was added with a default, and the facts of a row that holds it."""

    id: int
    facts: Frame

    @staticmethod
    def of(id_: int, type_: Type, value: pa.Scalar) -> AddedColumn:
        """The column with this default."""
        values = pa.repeat(value, 1)
        collected = collect([ColumnValues(id_, "added", type_, values)], 1)
        return AddedColumn(id_, Frame.of_parts(np.ones(1, np.int64), [codec.encode(collected.part())]))


def with_added(frame: Frame, added: Sequence[tuple[AddedColumn, np.ndarray]]) -> Frame:
    """The frame with added columns, each where its flags say that it is lacking."""
    there = [(column, lacking) for column, lacking in added if lacking.any()]
    return Frame(frame.rows, _Completed(frame, tuple(there))) if there else frame


@dataclass(frozen=True, eq=False)
class _Completed:
    """The facts of a frame, completed by those of added columns."""

    frame: Frame
    added: tuple[tuple[AddedColumn, np.ndarray], ...]

    @property
    def names(self) -> Iterable[str]:
        """Those of the frame and of the constants."""
        more = (name for column, _ in self.added for name in column.facts.names)
        return dict.fromkeys((*self.frame.names, *more))

    def read(self, name: str) -> pa.Array | None:
        """The fact: of a constant where the column is lacking."""
        found, (kind, (id_, *_)) = self.frame.named(name), parse_fact_name(name)
        for column, lacking in self.added:
            fact = column.facts.named(name) if column.id == id_ else None
            if fact is not None:
                # Counts are stored in as few bytes as they need.
                if found is not None and kind in ("nulls", "rows", "distinct"):
                    found = found.cast(fact.type)
                return _filled(found, fact, lacking)
        return found


def _filled(found: pa.Array | None, fact: pa.Array, lacking: np.ndarray) -> pa.Array:
    """What is found, and the only value of `fact` where the column is lacking."""
    if found is None or found.type != fact.type:
        found = pa.nulls(len(lacking), fact.type)
    places = np.where(lacking, len(found), np.arange(len(found)))
    return pa.concat_arrays([found, fact]).take(pa.array(places))
