"""Which parts may hold a row that another part retracts, told from statistics.

    meeting(snapshot)      a flag for each part: its rows must be added up with those of others

A retraction carries its whole row. A part whose values of some column lie apart from those of every part that retracts holds no row
that is equal to a retracted one, so its rows are there as they are:

| part | day | retracts | must meet |
|---|---|---|---|
| 1 | Mon | | no: no retraction is of a Monday |
| 2 | Tue | | yes |
| 3 | Tue, Wed | yes | yes |

Columns are looked at one after the other until every part is cleared or none is left. A column's values are bounds and whether NULL
occurs: two NULLs are equal here. Bounds are compared as ranks among all bounds, so that every type is numbers; a part meets one of
the retracting ranges if, of the ranges that begin at or before its end, one ends at or after its beginning.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.specs import Specs
from tidegate.expr.types import Kind, Type
from tidegate.scan.prune import lacking
from tidegate.shard.reader import Snapshot

_RANKED = frozenset(
    {
        Kind.INT2, Kind.INT4, Kind.INT8, Kind.NUMERIC, Kind.TEXT, Kind.BYTEA, Kind.UUID,
        Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.MZ_TIMESTAMP,
    }
)  # fmt: skip
"""Types of which values that are equal have equal bounds in the order that Arrow sorts by: no floats, intervals or JSON."""


def meeting(snapshot: Snapshot) -> np.ndarray:
    """Of the parts of `snapshot.table`, those whose rows may be, or be met by, retractions."""
    table = snapshot.table(["retracts", "schema"])
    retracts = table.column("retracts").to_numpy()
    found = np.ones(table.num_rows, bool)
    if not retracts.any():
        return ~found
    written = table.column("schema").to_numpy()
    versions = lacking(snapshot)
    for column in snapshot.schema.columns:
        if _ranked(column.type) and not retracts[found].all():
            absent = np.isin(written, versions[column.id])
            found &= retracts | _meets(snapshot, column.id, column.type, absent, retracts)
    return found


def _ranked(type_: Type) -> bool:
    return type_.kind in _RANKED


def _meets(snapshot: Snapshot, id_: int, type_: Type, absent: np.ndarray, retracts: np.ndarray) -> np.ndarray:
    """Which parts may share a value of this column with a part that retracts."""
    null, empty, low, high = _values(snapshot, id_, type_, absent)
    ranges = retracts & ~empty
    starts, ends = low[ranges], high[ranges]
    by_start = np.argsort(starts, kind="stable")
    furthest = np.maximum.accumulate(ends[by_start]) if len(by_start) else ends
    before = np.searchsorted(starts[by_start], high, side="right")
    shared = np.zeros(len(null), bool)
    some = before > 0
    shared[some] = furthest[before[some] - 1] >= low[some]
    met: np.ndarray = (shared & ~empty) | (null & bool((null & retracts).any()))
    return met


def _values(
    snapshot: Snapshot, id_: int, type_: Type, absent: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of each part whether the column may be NULL, whether it has no value, and its bounds as ranks."""
    nulls, empties, lows, highs = [], [], [pa.array([], type_.arrow)], [pa.array([], type_.arrow)]
    at = 0
    for frame in snapshot.frames():
        (specs,) = frame.specs([(id_, type_)], {id_: absent[at : at + len(frame)]})
        at += len(frame)
        nulls.append(np.broadcast_to(specs.null, len(frame)))
        empties.append(np.broadcast_to(specs.empty, len(frame)))
        for side, bound in zip((lows, highs), _bounds(specs, len(frame)), strict=True):
            side.append(bound)
    low, high = pa.concat_arrays(lows), pa.concat_arrays(highs)
    ranks = pc.rank(pa.concat_arrays([low, high]), tiebreaker="dense").to_numpy().astype(np.int64)
    least, greatest = ranks[: len(low)], ranks[len(low) :]
    least = np.where(low.is_null().to_numpy(zero_copy_only=False), 0, least)
    greatest = np.where(high.is_null().to_numpy(zero_copy_only=False), len(ranks) + 1, greatest)
    return np.concatenate(nulls), np.concatenate(empties), least, greatest


def _bounds(specs: Specs, parts: int) -> tuple[pa.Array, pa.Array]:
    low, high = specs.bounds()
    return _spread(low, parts), _spread(high, parts)


def _spread(bound: pa.Array, parts: int) -> pa.Array:
    return bound if len(bound) == parts else pa.repeat(bound[0], parts)
