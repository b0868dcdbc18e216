"""Records of deleted rows as tables: one for each part and time, with a bitmap of positions.

    deletion_records({7: (positions, diffs)}, time)      records of rows that are deleted at one time
    records_to_json(records)                             as an entry of the log stores them
    in_object(records, name)                             with their bitmaps in an object of their own

What the columns mean stands in `deletions.py`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from tidegate.storage.part.bitmaps import pack_positions

DELETIONS_SCHEMA = pa.schema(
    [
        ("part", pa.int64()),
        ("time", pa.int64()),
        ("rows", pa.int64()),
        ("diffs", pa.int64()),
        ("bitmap", pa.binary()),
        ("blob", pa.string()),
        ("place", pa.int32()),
    ]
)
_Numbers: TypeAlias = Sequence[int] | np.ndarray


def _records(
    parts: _Numbers, times: _Numbers, rows: _Numbers, diffs: _Numbers, bitmaps: Sequence[bytes]
) -> pa.Table:
    """Records with their bitmaps inline."""
    count = len(bitmaps)
    numbers = (pa.array(values, pa.int64()) for values in (parts, times, rows, diffs))
    rest = (pa.array(bitmaps, pa.binary()), pa.nulls(count, pa.string()), pa.nulls(count, pa.int32()))
    return pa.Table.from_arrays([*numbers, *rest], schema=DELETIONS_SCHEMA)


def deletion_records(located: Mapping[int, tuple[np.ndarray, np.ndarray]], time: int) -> pa.Table:
    """Records of rows that are deleted at one time: for each part their positions, and their diffs."""
    parts = sorted(located)
    rows = [len(located[part][0]) for part in parts]
    diffs = [int(located[part][1].sum()) for part in parts]
    return _records(
        parts, [time] * len(parts), rows, diffs, [pack_positions(located[part][0]) for part in parts]
    )


def deletions_by_part(
    parts: np.ndarray, times: np.ndarray, positions: np.ndarray, diffs: np.ndarray
) -> pa.Table:
    """Records of rows of several parts, each deleted at its own time."""
    order = np.lexsort((positions, parts, times))
    parts, times, positions, diffs = parts[order], times[order], positions[order], diffs[order]
    starts = np.flatnonzero(
        np.concatenate([[True], (np.diff(parts) != 0) | (np.diff(times) != 0)])[: len(parts)]
    )
    if not len(starts):
        return DELETIONS_SCHEMA.empty_table()
    stops = [*starts[1:].tolist(), len(parts)]
    bitmaps = [pack_positions(positions[a:b]) for a, b in zip(starts.tolist(), stops, strict=True)]
    rows = np.diff([*starts, len(parts)])
    return _records(parts[starts], times[starts], rows, np.add.reduceat(diffs, starts), bitmaps)


def merge_records(tables: Sequence[pa.Table]) -> pa.Table:
    """Records of one time, at most one for each part, by rising id; their bitmaps must be inline."""
    several = sorted_records(tables)
    parts = several.column("part").to_numpy()
    starts = np.flatnonzero(np.concatenate([[True], parts[1:] != parts[:-1]])[: len(parts)])
    if len(starts) == len(parts):
        return several
    packed = several.column("bitmap").to_pylist()
    ends = [*starts[1:].tolist(), len(parts)]
    merged = several.take(pa.array(starts))
    for name in ("rows", "diffs"):
        sums = np.add.reduceat(several.column(name).to_numpy(), starts)
        merged = with_column(merged, name, pa.array(sums, pa.int64()))
    bitmaps = [
        BitMap.union(*map(BitMap.deserialize, packed[begin:end])).serialize()
        for begin, end in zip(starts.tolist(), ends, strict=True)
    ]
    return with_column(merged, "bitmap", pa.array(bitmaps, pa.binary()))


def records_of_all_rows(
    parts: Sequence[int], rows: Sequence[int], diffs: Sequence[int], deleted: Sequence[bytes]
) -> pa.Table:
    """Records that delete all rows of parts, at time 0, except those that are `deleted` before.

    `diffs` is the sum of the diffs of these rows.
    """
    bitmaps = []
    for count, packed in zip(rows, deleted, strict=True):
        bitmap = BitMap()
        bitmap.add_range(0, count)
        bitmaps.append(bitmap - BitMap.deserialize(packed) if packed else bitmap)
        bitmaps[-1].run_optimize()
    packed_bitmaps = [bitmap.serialize() for bitmap in bitmaps]
    return _records(parts, [0] * len(bitmaps), list(map(len, bitmaps)), diffs, packed_bitmaps)


def sum_of_diffs(records: pa.Table) -> int:
    """The sum of the diffs of the rows that records delete."""
    return int(pc.sum(records.column("diffs"), min_count=0).as_py())


def with_column(records: pa.Table, name: str, values: pa.Array) -> pa.Table:
    """The records with another column of this name."""
    return records.set_column(DELETIONS_SCHEMA.get_field_index(name), DELETIONS_SCHEMA.field(name), values)


def records_to_json(records: pa.Table) -> dict[str, list[Any]]:
    """Records as an entry of the log stores them: a list for each column."""
    columns: dict[str, list[Any]] = records.to_pydict()
    columns["bitmap"] = [None if b is None else base64.b85encode(b).decode() for b in columns["bitmap"]]
    return columns


def records_from_json(stored: Mapping[str, list[Any]]) -> pa.Table:
    """Records from an entry of the log."""
    bitmaps = [None if text is None else base64.b85decode(text) for text in stored["bitmap"]]
    return pa.table({**stored, "bitmap": bitmaps}, schema=DELETIONS_SCHEMA)


def in_object(records: pa.Table, name: str) -> pa.Table:
    """The records, with their bitmaps in the object `name`, in this order."""
    count = records.num_rows
    moved = with_column(records, "bitmap", pa.nulls(count, pa.binary()))
    moved = with_column(moved, "blob", pa.array([name] * count, pa.string()))
    return with_column(moved, "place", pa.array(np.arange(count), pa.int32()))


def sorted_records(tables: Sequence[pa.Table]) -> pa.Table:
    """All records of some tables, by part and then by time."""
    table = pa.concat_tables([DELETIONS_SCHEMA.empty_table(), *tables]).combine_chunks()
    return table.take(pc.sort_indices(table, [("part", "ascending"), ("time", "ascending")]))


@dataclass(frozen=True, eq=False)
class StoredDeletions:
    """Deletions that are about to be committed."""

    records: pa.Table
    objects: Mapping[str, int]
    """The objects that hold their bitmaps, each with the number of the state before it was written."""

    @property
    def rows(self) -> int:
        """How many rows they delete."""
        return int(pc.sum(self.records.column("rows"), min_count=0).as_py())

    def at(self, time: int) -> pa.Table:
        """The records, at this time."""
        return with_column(self.records, "time", pa.array(np.full(self.records.num_rows, time), pa.int64()))
