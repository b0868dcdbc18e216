"""Which parts may hold a row that another part retracts, by their statistics.

    retraction_candidates(snapshot)      a flag for each part: its rows must be added up with those of others

A retraction carries its whole row. If the values of some column of a part lie apart from those of every part that retracts, the
part holds no retracted row, and its rows are valid as they are:

| part | day | retracts | candidate |
|---|---|---|---|
| 1 | Mon | | no: no retraction is of a Monday |
| 2 | Tue | | yes |
| 3 | Tue, Wed | yes | yes |

Columns are examined one after the other until every part is cleared or no column is left. A column has bounds, and a flag for NULL:
two NULLs are equal here. Bounds are compared as ranks among all bounds, so that every type becomes numbers. A part overlaps a
retracting range if, of the ranges that begin at or before its end, one ends at or after its beginning.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain import Specs
from tidegate.expr.model import Kind, Type
from tidegate.query.prune.schema_versions import schema_versions_without
from tidegate.storage.shard import Snapshot

_RANKED = frozenset(
    {
        Kind.INT2, Kind.INT4, Kind.INT8, Kind.NUMERIC, Kind.TEXT, Kind.BYTEA, Kind.UUID,
        Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.MZ_TIMESTAMP,
    }
)  # fmt: skip
"""Types whose equal values have equal bounds in Arrow's order: no floats, intervals or JSON."""


def retraction_candidates(snapshot: Snapshot) -> np.ndarray:
    """A flag for each part of `snapshot.table`: its rows may be retractions, or may be retracted."""
    key = "candidates", snapshot.as_of, snapshot.schema.id
    return snapshot.state.parts.arrays.get_or_compute(key, lambda: _find_candidates(snapshot))


def _find_candidates(snapshot: Snapshot) -> np.ndarray:
    table = snapshot.table(["retracts", "schema"])
    retracts = table.column("retracts").to_numpy()
    candidates = np.ones(table.num_rows, bool)
    if not retracts.any():
        return ~candidates
    written = table.column("schema").to_numpy()
    versions = schema_versions_without(snapshot)
    for column in snapshot.schema.columns:
        if _ranked(column.type) and not retracts[candidates].all():
            absent = np.isin(written, versions[column.id])
            candidates &= retracts | _overlaps(snapshot, column.id, column.type, absent, retracts)
    return candidates


def _ranked(type_: Type) -> bool:
    return type_.kind in _RANKED


def _overlaps(
    snapshot: Snapshot, id_: int, type_: Type, absent: np.ndarray, retracts: np.ndarray
) -> np.ndarray:
    """Which parts may share a value of this column with a part that retracts."""
    null, empty, low, high = _values(snapshot, id_, type_, absent)
    ranges = retracts & ~empty
    starts, ends = low[ranges], high[ranges]
    by_start = np.argsort(starts, kind="stable")
    furthest = np.maximum.accumulate(ends[by_start]) if len(by_start) else ends
    before = np.searchsorted(starts[by_start], high, side="right")
    shared = np.zeros(len(null), bool)
    has_range = before > 0
    shared[has_range] = furthest[before[has_range] - 1] >= low[has_range]
    overlaps: np.ndarray = (shared & ~empty) | (null & bool((null & retracts).any()))
    return overlaps


def _values(
    snapshot: Snapshot, id_: int, type_: Type, absent: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """For each part: may the column be NULL, has it no value, and its bounds as ranks."""
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
    return _broadcast(low, parts), _broadcast(high, parts)


def _broadcast(bound: pa.Array, parts: int) -> pa.Array:
    return bound if len(bound) == parts else pa.repeat(bound[0], parts)
