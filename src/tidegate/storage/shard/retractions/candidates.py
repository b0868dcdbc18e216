"""Which parts and pages may hold given rows, by their statistics.

    wanted = WantedRows(schema, block)
    wanted.may_be_in(frame, absent)      a flag for each part, or page, of the frame

| wanted | part | id | day | |
|---|---|---|---|---|
| (5, Mon), (9, Tue) | 1 | 1 to 4 | Mon | no: neither 5 nor 9 |
| | 2 | 4 to 6 | Mon | yes |
| | 3 | 7 to 8 | Tue | no |

Columns are examined one by one, without a loop over parts: a part is left out if one of its columns can hold none of the wanted
values. Floats, intervals, JSON and nested columns exclude nothing. Two NULLs are equal here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain import Specs
from tidegate.expr.model import Kind, Type, outcome
from tidegate.storage.part.merge import Block
from tidegate.storage.part.row_keys import row_keys
from tidegate.storage.part.schema import Schema
from tidegate.storage.shard.state import State
from tidegate.storage.shard.statistics import frames_of
from tidegate.storage.stats.frame import Frame

_INTEGERS = frozenset(
    {
        Kind.INT2,
        Kind.INT4,
        Kind.INT8,
        Kind.DATE,
        Kind.TIME,
        Kind.TIMESTAMP,
        Kind.TIMESTAMPTZ,
        Kind.MZ_TIMESTAMP,
    }
)
_BY_KEYS = frozenset({Kind.NUMERIC, Kind.TEXT, Kind.BYTEA, Kind.UUID})
PAGE_COLUMNS = 2
"""Columns by which pages are left out: each costs a millisecond, which is about what reading some pages costs."""
_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class _WantedValues:
    """The values of one column of the wanted rows."""

    id: int
    type: Type
    values: pa.Array
    """Distinct, without NULL."""
    null: bool
    """Whether NULL is among them."""

    def may_be_in(self, specs: Specs, count: int) -> np.ndarray:
        """Of so many containers, those whose column may hold one of the values."""
        low, high = (_repeated(bound, count) for bound in specs.bounds())
        least, greatest, values = self._numbers(low, high)
        first = np.searchsorted(values, least, side="left")
        inside = first < np.searchsorted(values, greatest, side="right")
        flags: np.ndarray = (inside & ~specs.empty) | (specs.null & self.null)
        return flags

    def _numbers(self, low: pa.Array, high: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The bounds and the sorted values as numbers in their order; a missing bound is beyond all of them."""
        if self.type.kind in _INTEGERS:
            lows, highs, values = (
                outcome.integers(array).cast(pa.int64()) for array in (low, high, self.values)
            )
            return (
                pc.fill_null(lows, _LEAST).to_numpy(zero_copy_only=False),
                pc.fill_null(highs, _GREATEST).to_numpy(zero_copy_only=False),
                np.sort(values.to_numpy(zero_copy_only=False)),
            )
        keys = pa.concat_arrays([row_keys([array], len(array)) for array in (low, high, self.values)])
        ranks = pc.rank(keys, tiebreaker="dense").to_numpy().astype(np.int64)
        lows, highs, values = np.split(ranks, (len(low), len(low) + len(high)))
        lows = np.where(low.is_null().to_numpy(zero_copy_only=False), _LEAST, lows)
        highs = np.where(high.is_null().to_numpy(zero_copy_only=False), _GREATEST, highs)
        return lows, highs, np.sort(values)


def _repeated(bound: pa.Array, count: int) -> pa.Array:
    return bound if len(bound) == count else pa.repeat(bound[0], count)


class WantedRows:
    """Rows that are looked for: for each column with comparable statistics, the values that they have."""

    def __init__(self, schema: Schema, rows: Block) -> None:
        """`rows` has all columns of the schema."""
        self.last = int(rows.times.max(initial=_LEAST))
        self._columns = [
            _WantedValues(column.id, column.type, values.drop_null().unique(), values.null_count > 0)
            for column, values in zip(schema.columns, rows.columns, strict=True)
            if column.type.kind in _INTEGERS | _BY_KEYS
        ]
        self._columns.sort(key=lambda column: -len(column.values))

    def may_be_in(
        self, frame: Frame, absent: Mapping[int, np.ndarray] | None = None, *, columns: int | None = None
    ) -> np.ndarray:
        """The containers of a frame that may hold one of the rows; `absent`: by column, those that lack it.

        With `columns`, by at most so many columns, those that tell rows apart best.
        """
        flags = np.ones(len(frame), bool)
        for column in self._columns[:columns]:
            if not flags.any():
                break
            (specs,) = frame.specs([(column.id, column.type)], absent)
            flags &= column.may_be_in(specs, len(frame))
        return flags

    def candidate_parts(self, state: State, *, use: bool = True) -> np.ndarray:
        """The ids of the parts that may hold one of the rows; `use`: statistics are used."""
        ids = [np.zeros(0, np.int64)]
        versions = _versions_without(state)
        deletions = state.parts.deletions
        for table, frame in zip(
            state.parts.tables(["id", "rows", "first", "schema"]), frames_of(state), strict=True
        ):
            found = table.column("id").to_numpy()
            flags = table.column("first").to_numpy() <= self.last
            if deletions:
                flags &= deletions.totals(found, _GREATEST)[0] < table.column("rows").to_numpy()
            if use:
                written = table.column("schema").to_numpy()
                absent = {id_: np.isin(written, lacking) for id_, lacking in versions.items()}
                flags &= self.may_be_in(frame, absent)
            ids.append(found[flags])
        return np.sort(np.concatenate(ids))


def _versions_without(state: State) -> dict[int, Sequence[int]]:
    """For each column that was added later without a default, the versions of the schema that lack it."""
    lacking = {
        column.id: [s.json["id"] for s in state.schemas if column.id not in {c.id for c in s.parsed.columns}]
        for column in state.schema.columns
        if column.missing is None
    }
    return {id_: versions for id_, versions in lacking.items() if versions}
