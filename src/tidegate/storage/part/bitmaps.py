"""Bitmaps of positions: the deleted rows of one part, as they are stored, and how they are checked.

    packed = pack_positions(np.array([3, 5]))          a serialized roaring bitmap: a few bytes, also for long runs
    read_bitmap(packed, 2, 100, damaged)               which must have two positions below 100

| what is wrong with a bitmap | found |
|---|---|
| a byte of it has changed | when the entry, the rollup or the object that holds it is read: all of them are sealed |
| it has a position that the part lacks, or not as many as its record says | when it is added, if inline; else by every reader |
| it has a position that is deleted already | when added or written, if both are inline or in one object; else by a reader |

An object is not read when its records are added, because a state changes without I/O: what is wrong in it stays unknown until the
first reader. A reader does not open a part of which all rows are deleted by the counts of its records. If these were written apart,
it compares their bitmaps, as two that delete a row twice would hide another row; so does maintenance before it drops the part
(`Deletions.check_whole`). Each error names the part and the object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tidegate.errors import CorruptError
from tidegate.storage.part.checksum import seal, unseal


def pack_positions(positions: np.ndarray) -> bytes:
    """Positions as a serialized bitmap."""
    bitmap = BitMap(np.ascontiguousarray(positions, np.uint32))
    bitmap.run_optimize()
    packed: bytes = bitmap.serialize()
    return packed


def unpack_positions(packed: bytes) -> np.ndarray:
    """The positions of a serialized bitmap, rising."""
    if not packed:
        return np.zeros(0, np.int64)
    return np.asarray(BitMap.deserialize(packed).to_array()).astype(np.int64)


def deletion_mask(packed: bytes, rows: int) -> np.ndarray:
    """Which of a part's rows are deleted."""
    mask = np.zeros(rows, bool)
    mask[unpack_positions(packed)] = True
    return mask


def read_bitmap(packed: bytes, count: int, rows: int, damaged: Callable[[str], CorruptError]) -> BitMap:
    """A bitmap that must have so many positions, all of them below `rows`.

    `damaged` makes an error from what is wrong.
    """
    try:
        bitmap = BitMap.deserialize(packed)
    except ValueError:
        raise damaged("cannot be read") from None
    if len(bitmap) != count:
        raise damaged(f"deletes {len(bitmap)} rows, and its record says {count}")
    if count and bitmap.max() >= rows:
        raise damaged(f"deletes row {bitmap.max()} of a part with {rows} rows")
    return bitmap


def damaged_bitmap(part: str, objects: Sequence[str], mistake: str) -> CorruptError:
    """The error for a bitmap of a part, in these objects or else in the log."""
    place = ", ".join(objects) or "the log"
    return CorruptError(
        f"the bitmap of deleted rows of {part}, in {place}, {mistake}",
        hint="nothing was changed, and no row returned; restore it from a backup, and please report this",
    )


def check_disjoint(records: pa.Table) -> None:
    """Raises if two records of one part delete the same row; their bitmaps must be inline."""
    unions: dict[int, BitMap] = {}
    for part, packed in zip(*(records.column(name).to_pylist() for name in ("part", "bitmap")), strict=True):
        bitmap = BitMap.deserialize(packed)
        known = unions.get(part)
        if known is not None and known.intersect(bitmap):
            raise CorruptError(
                f"row {(known & bitmap).min()} of part {part} would be deleted twice",
                hint="nothing was changed; please report this",
            )
        unions[part] = bitmap if known is None else known | bitmap


def bitmaps_to_object(records: pa.Table) -> bytes:
    """The bitmaps of records as a sealed object."""
    sink = pa.BufferOutputStream()
    table = records.select(["bitmap"])
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return seal(sink.getvalue().to_pybytes())


def bitmaps_of_object(name: str, data: bytes) -> pa.Array:
    """The bitmaps of such an object."""
    try:
        table = pa.ipc.open_file(pa.BufferReader(unseal(name, data))).read_all()
        return table.column("bitmap").combine_chunks()
    except (pa.ArrowException, OSError):
        raise CorruptError(f"{name} does not hold deletions") from None
