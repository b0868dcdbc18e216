"""Rows with a limited life, bounded by two hidden columns.

A temporal transform adds the columns (`plan/temporal.py`).
The option `validity` of a shard names them by column id, `[lower, upper]`. A row is valid at times `lower ≤ t < upper`; NULL is no
bound. Readers do not see these columns, nor those that the option `hidden` names (the key of an upsert): `visible_columns` returns
the others.

**Who applies the bounds.** A reader of the collection at time t adds two conditions over the hidden columns to its plan,
`lower IS NULL OR lower <= mz_now()` and `upper IS NULL OR mz_now() < upper`, with `mz_now()` = t. Like any other condition they
prune parts and pages, are proven for parts, and appear in EXPLAIN. t is AS OF, or the wall clock, which may be long after the last
commit. So expiry needs no writer: a row disappears at its time, to the millisecond, for every reader.

If rows are consolidated with their retractions *before* a plan runs, rows that have ended must be left out first, here:

    part 1   +r, valid to 90                 dropped from the state at 100 without being read (`expire.py`)
    part 2   -r, valid to 90;  +s            its retraction still exists, and would make r exist -1 times
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model import Column, Expr, Now, build, to_numpy
from tidegate.storage.part.merge import Block, concat
from tidegate.storage.part.schema import Schema, SchemaColumn
from tidegate.storage.shard import shard_options

FOREVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Validity:
    """The ids of the columns that bound the life of a row."""

    lower: int
    upper: int

    @staticmethod
    def of(options: Mapping[str, Any]) -> Validity | None:
        """The validity that the options of a shard define; None: its rows stay."""
        found = options.get(shard_options.VALIDITY)
        return None if found is None else Validity(*found)

    def conditions(self, schema: Schema) -> tuple[Expr, Expr]:
        """The conditions of a row that is valid at `mz_now()`, over the columns of the schema by position."""
        return _conditions(_column(schema, self.lower), _column(schema, self.upper))

    def expires(self, schema: Schema, columns: Sequence[pa.Array]) -> int | None:
        """The time from which none of the rows is valid; None: unknown."""
        upper = columns[[column.id for column in schema.columns].index(self.upper)]
        if upper.null_count or not len(upper):
            return None
        last: int = pc.max(upper).as_py()
        return last


@lru_cache(256)
def _conditions(lower: Column, upper: Column) -> tuple[Expr, Expr]:
    """Cached, because every statement needs them, and there are few such columns."""
    begun = build.disjunction([build.call("is null", lower), build.call("<=", lower, Now())])
    lasting = build.disjunction([build.call("is null", upper), build.call("<", Now(), upper)])
    return begun, lasting


def _column(schema: Schema, id_: int) -> Column:
    place, found = next((i, column) for i, column in enumerate(schema.columns) if column.id == id_)
    return Column(place, found.type, found.name)


def hidden_columns(options: Mapping[str, Any]) -> frozenset[int]:
    """The ids of the columns that readers do not see."""
    return frozenset((*options.get(shard_options.HIDDEN, ()), *options.get(shard_options.VALIDITY, ())))


def visible_columns(schema: Schema, options: Mapping[str, Any]) -> tuple[SchemaColumn, ...]:
    """The columns that readers see."""
    out = hidden_columns(options)
    return tuple(column for column in schema.columns if column.id not in out) if out else schema.columns


def visible_names(schema: Schema, options: Mapping[str, Any]) -> list[str | None]:
    """The names of the columns for readers; None: hidden."""
    out = hidden_columns(options)
    return [None if column.id in out else column.name for column in schema.columns]


def still_valid(upper: pa.Array, at: int) -> np.ndarray:
    """Which rows have not ended at time `at`."""
    return end_times(upper) > at


def end_times(upper: pa.Array) -> np.ndarray:
    """When each row ends; `FOREVER` if it does not."""
    return to_numpy(upper, fill=FOREVER)


def with_validity_changes(block: Block, lower: pa.Array, upper: pa.Array) -> Block:
    """The updates of rows as their validity implies them.

    Each row appears at its lower bound, and is retracted at its upper one.
    """
    starts = np.maximum(block.times, to_numpy(lower, fill=np.iinfo(np.int64).min))
    stops = end_times(upper)
    there = np.flatnonzero(starts < stops)
    ending = there[stops[there] != FOREVER]
    on = Block([column.take(pa.array(there)) for column in block.columns], starts[there], block.diffs[there])
    off = Block(
        [column.take(pa.array(ending)) for column in block.columns], stops[ending], -block.diffs[ending]
    )
    return concat([on, off])
