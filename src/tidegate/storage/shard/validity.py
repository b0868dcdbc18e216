"""Rows that come and go by themselves: the two hidden columns that a temporal transform adds (`plan/temporal.py`).

The option `validity` of a shard names them by column id, `[lower, upper]`. A row is valid at times `lower ≤ t < upper`; NULL is no
bound. Nobody sees these columns, nor those that the option `hidden` names (the key of an upsert): `shown` gives the others.

**Who applies the bounds.** Whoever reads the collection at time t puts two conditions over the hidden columns into its plan,
`lower IS NULL OR lower <= mz_now()` and `upper IS NULL OR mz_now() < upper`, with `mz_now()` = t: they prune parts and pages,
are proven of parts, are shown by EXPLAIN, like any others. t is AS OF, or the wall clock, which may be long after what was
committed last. So expiry needs no writer: a row is gone at its time, to the millisecond, for every reader.

Where rows are added up with what retracts them *before* a plan is asked, those that have ended must be left out first, here:

    part 1   +r, valid to 90                 dropped from the state at 100 without being read (`expire.py`)
    part 2   -r, valid to 90;  +s            its retraction is still there, and would make r be there -1 times
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.build import call, disjunction
from tidegate.expr.outcome import to_numpy
from tidegate.expr.tree import Column, Expr, Now
from tidegate.shard.merge import Block, concat
from tidegate.shard.schema import ColumnDef, Schema
from tidegate.shard.state import VALIDITY

OPTION = VALIDITY
HIDDEN = "hidden"
"""The option that names, by id, the columns that no reader sees; those of `validity` need not be among them."""
FOREVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Validity:
    """The ids of the columns that bound a row's validity."""

    lower: int
    upper: int

    @staticmethod
    def of(options: Mapping[str, Any]) -> Validity | None:
        """What a shard's options say; None: its rows stay."""
        found = options.get(OPTION)
        return None if found is None else Validity(*found)

    def conditions(self, schema: Schema) -> tuple[Expr, Expr]:
        """What holds of a row that is valid at `mz_now()`, over the schema's columns by their places."""
        return _conditions(_column(schema, self.lower), _column(schema, self.upper))

    def expires(self, schema: Schema, columns: Sequence[pa.Array]) -> int | None:
        """From when on none of the rows is valid; None: not known."""
        upper = columns[[column.id for column in schema.columns].index(self.upper)]
        if upper.null_count or not len(upper):
            return None
        last: int = pc.max(upper).as_py()
        return last


@lru_cache(256)
def _conditions(lower: Column, upper: Column) -> tuple[Expr, Expr]:
    """Every statement asks for them, and there are few such columns."""
    begun = disjunction([call("is null", lower), call("<=", lower, Now())])
    lasting = disjunction([call("is null", upper), call("<", Now(), upper)])
    return begun, lasting


def _column(schema: Schema, id_: int) -> Column:
    place, found = next((i, column) for i, column in enumerate(schema.columns) if column.id == id_)
    return Column(place, found.type, found.name)


def hidden(options: Mapping[str, Any]) -> frozenset[int]:
    """The columns, by id, that nobody sees."""
    return frozenset((*options.get(HIDDEN, ()), *options.get(OPTION, ())))


def shown(schema: Schema, options: Mapping[str, Any]) -> tuple[ColumnDef, ...]:
    """The columns that readers see."""
    out = hidden(options)
    return tuple(column for column in schema.columns if column.id not in out) if out else schema.columns


def labels(schema: Schema, options: Mapping[str, Any]) -> list[str | None]:
    """The names of the columns as readers know them; None: hidden."""
    out = hidden(options)
    return [None if column.id in out else column.name for column in schema.columns]


def still_valid(upper: pa.Array, at: int) -> np.ndarray:
    """Which rows have not ended at time `at`."""
    return ends(upper) > at


def ends(upper: pa.Array) -> np.ndarray:
    """When each row ends; `FOREVER` where it does not."""
    return to_numpy(upper, fill=FOREVER)


def lives(block: Block, lower: pa.Array, upper: pa.Array) -> Block:
    """The updates of rows as their validity makes them: each appears at its lower bound, and is retracted at its upper one."""
    starts = np.maximum(block.times, to_numpy(lower, fill=np.iinfo(np.int64).min))
    stops = ends(upper)
    there = np.flatnonzero(starts < stops)
    ending = there[stops[there] != FOREVER]
    on = Block([column.take(pa.array(there)) for column in block.columns], starts[there], block.diffs[there])
    off = Block(
        [column.take(pa.array(ending)) for column in block.columns], stops[ending], -block.diffs[ending]
    )
    return concat([on, off])
