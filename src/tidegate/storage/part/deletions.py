"""Deleted rows: for each part, bitmaps of positions, and the time from which these rows are deleted.

    records = deletion_records({7: (positions, diffs)}, time=5_000)     rows of part 7, deleted at 5,000
    deletions = Deletions().add(records)
    deletions.totals(ids, as_of)                                        how many rows of each part are deleted by then
    deletions.bitmaps(PartRows.of(parts), as_of, fetch)                 which ones, for a reader

A retraction whose row is known is such a record instead of a row with a negative diff. A reader skips deleted rows by their
position and compares no values: a collection that was updated reads like one that only grew.

| column | |
|---|---|
| `part` | the id of the part |
| `time` | from this time on the rows are deleted; before it, AS OF still shows them |
| `rows`, `diffs` | how many positions there are, and the sum of the diffs of these rows |
| `bitmap` | the positions, as a serialized roaring bitmap; NULL if it is in an object of its own |
| `blob`, `place` | that object, and the number of the bitmap in it: large deletions are not stored in the log |

A position is deleted once: two records of a part have no position in common (`bitmaps.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from tidegate.cache import LruCache
from tidegate.errors import CorruptError
from tidegate.storage.part.bitmaps import bitmaps_of_object, damaged_bitmap, read_bitmap
from tidegate.storage.part.deletion_records import sorted_records, with_column
from tidegate.storage.part.encode import one_chunk
from tidegate.storage.part.part import Part

MAX_INLINE_BYTES = 64 << 10
"""Bytes of bitmaps that an entry of the log holds itself; more are an object of their own."""
MAX_CACHED_BYTES = 64 << 20
"""Bytes of bitmaps of objects that are cached for a shard."""
MAX_UNIONS = 1024
"""Parts whose deleted positions are kept together, to check those that are added next."""
MIN_KEPT_RECORDS = 8
"""Records of a part from which their joined bitmap is kept for the next reader."""
MAX_TABLES = 64
"""Tables that are kept as they were added before they are joined."""
NEVER = np.iinfo(np.int64).max
"""The deletion time of a row that is not deleted."""

Fetch: TypeAlias = Callable[[str], bytes]
"""Reads an object."""


@dataclass(frozen=True, eq=False)
class PartRows:
    """Parts whose deleted rows are read: by these, bitmaps are found and checked."""

    ids: np.ndarray
    rows: np.ndarray
    """How many rows each of them has."""
    names: Callable[[int], object]
    """The name of each, for errors."""

    @staticmethod
    def of(parts: Sequence[Part]) -> PartRows:
        """Of parts as values."""
        ids, rows = (np.array([getattr(part, name) for part in parts], np.int64) for name in ("id", "rows"))
        return PartRows(ids, rows, lambda i: parts[i].name)

    @staticmethod
    def of_table(table: pa.Table) -> PartRows:
        """Of a table with the columns `id`, `rows` and `name`."""
        ids, rows = (table.column(name).to_numpy() for name in ("id", "rows"))
        return PartRows(ids, rows, table.column("name").__getitem__)


def _new_cache() -> LruCache[str, pa.Array]:
    return LruCache(max_weight=MAX_CACHED_BYTES, weigh=attrgetter("nbytes"))


@dataclass(frozen=True, eq=False)
class Deletions:
    """The deleted rows of the parts of one state. A value: changes return another, which shares the rest."""

    tables: tuple[pa.Table, ...] = ()
    loaded: LruCache[str, pa.Array] = field(default_factory=_new_cache, repr=False)
    """The bitmaps of objects that were read: shared by all values that are derived from one."""
    unions: Mapping[int, BitMap] = field(default_factory=dict, repr=False)
    """Of parts to which records were added lately, the positions of all inline bitmaps; never changed in place."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Deletions, ((self.records,),) if self else ()

    def __bool__(self) -> bool:
        return any(table.num_rows for table in self.tables)

    def add(self, records: pa.Table) -> Deletions:
        """With these records, which are not checked."""
        if not records.num_rows:
            return self
        before = self.tables if len(self.tables) < MAX_TABLES else (self.records,)
        return replace(self, tables=(*before, records), unions={})

    def add_checked(self, records: pa.Table, parts: PartRows) -> Deletions:
        """With these records; errors are those of `bitmaps.py`. The ids of `parts` must rise."""
        unions: dict[int, BitMap] = {}
        ids, counts, bitmaps = (records.column(name).to_pylist() for name in ("part", "rows", "bitmap"))
        places = np.searchsorted(parts.ids, ids).tolist()
        rows = parts.rows.tolist()
        earlier = np.isin(ids, self.parts).tolist() if self else [False] * len(ids)
        for part, count, packed, i, again in zip(ids, counts, bitmaps, places, earlier, strict=True):
            if packed is None:
                continue
            bitmap = read_bitmap(packed, count, rows[i], partial(_damaged, parts, i, ()))
            known = unions.get(part, self.unions.get(part))
            if known is None and again:
                known = self._inline_union(part)
            if known is not None and known.intersect(bitmap):
                raise _damaged(parts, i, (), f"deletes row {(known & bitmap).min()} once more")
            unions[part] = bitmap if known is None else known | bitmap
        recent = {**{part: known for part, known in self.unions.items() if part not in unions}, **unions}
        kept = islice(recent.items(), max(0, len(recent) - MAX_UNIONS), None)
        return replace(self.add(records), unions=dict(kept))

    def _inline_union(self, part: int) -> BitMap:
        """The positions of a part in inline bitmaps."""
        begin, end = self._places(part)
        inline = self.records.column("bitmap").slice(begin, end - begin).drop_null().to_pylist()
        return BitMap.union(*map(BitMap.deserialize, inline)) if inline else BitMap()

    def _places(self, part: int) -> tuple[int, int]:
        """Where the records of a part begin and end."""
        if not self:
            return 0, 0
        begin, end = np.searchsorted(self.parts, (part, part + 1)).tolist()
        return begin, end

    @property
    def rows(self) -> int:
        """How many rows are deleted, at any time."""
        return sum(pc.sum(table.column("rows"), min_count=0).as_py() for table in self.tables)

    @cached_property
    def records(self) -> pa.Table:
        """All records, by part and then by time."""
        return sorted_records(self.tables)

    @cached_property
    def parts(self) -> np.ndarray:
        """The part of each record, rising."""
        return np.asarray(self.records.column("part").to_numpy())

    @cached_property
    def times(self) -> np.ndarray:
        """The time of each record."""
        return np.asarray(self.records.column("time").to_numpy())

    @cached_property
    def objects(self) -> frozenset[str]:
        """The names of the objects that hold bitmaps."""
        return frozenset(self.records.column("blob").drop_null().unique().to_pylist())

    def only(self, ids: np.ndarray) -> Deletions:
        """Those of the parts with these ids."""
        return self._filter(np.isin(self.parts, ids)) if self else self

    def without(self, ids: np.ndarray) -> Deletions:
        """Those of all other parts."""
        return self._filter(~np.isin(self.parts, ids)) if self else self

    def between(self, begin: int, end: int) -> Deletions:
        """Those of the times `begin ≤ time < end`."""
        return self._filter((self.times >= begin) & (self.times < end)) if self else self

    def _filter(self, keep: np.ndarray) -> Deletions:
        if keep.all():
            return self
        return self._with((self.records.filter(pa.array(keep)),) if keep.any() else ())

    def _with(self, tables: tuple[pa.Table, ...]) -> Deletions:
        return replace(self, tables=tables, unions={})

    def renumber(self, before: np.ndarray, after: np.ndarray) -> Deletions:
        """With other ids for the parts `before`, which must rise; parts that are not among them are left out."""
        inside = self.only(before)
        if not inside:
            return inside
        ids = after[np.searchsorted(before, inside.parts)]
        return self._with((with_column(inside.records, "part", pa.array(ids, pa.int64())),))

    def moved_back(self, last: int) -> Deletions:
        """With times after `last` moved to it."""
        if not self:
            return self
        times = np.minimum(self.times, last)
        return self._with((with_column(self.records, "time", pa.array(times, pa.int64())),))

    def totals(self, ids: np.ndarray, as_of: int) -> tuple[np.ndarray, np.ndarray]:
        """How many rows of each of these parts are deleted at a time, and the sum of their diffs."""
        totals = np.zeros(len(ids), np.int64), np.zeros(len(ids), np.int64)
        past = np.flatnonzero(self.times <= as_of) if self else np.zeros(0, np.int64)
        if not len(past) or not len(ids):
            return totals
        order = np.argsort(ids, kind="stable")
        at = np.minimum(np.searchsorted(ids, self.parts[past], sorter=order), len(ids) - 1)
        there = ids[order[at]] == self.parts[past]
        for total, name in zip(totals, ("rows", "diffs"), strict=True):
            np.add.at(total, order[at[there]], self.records.column(name).to_numpy()[past[there]])
        return totals

    def bitmaps(self, parts: PartRows, as_of: int, fetch: Fetch) -> list[bytes]:
        """The rows of each of these parts that are deleted at a time, as a serialized bitmap; empty: none."""
        if not self:
            return [b""] * len(parts.ids)
        begins, ends = (np.searchsorted(self.parts, parts.ids, side).tolist() for side in ("left", "right"))
        packed = []
        for i, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            known = begin + int(np.searchsorted(self.times[begin:end], as_of, side="right"))
            records = range(begin, known)
            ready = self._union_of(int(parts.ids[i]), records) if known == end else None
            if ready is not None:
                packed.append(ready)
            elif len(records) < MIN_KEPT_RECORDS:
                packed.append(self._joined(records, parts, i, fetch))
            else:
                packed.append(
                    self._joins.get_or_compute(records, partial(self._joined, records, parts, i, fetch))
                )
        return packed

    def check_whole(self, parts: PartRows, as_of: int, fetch: Fetch) -> None:
        """Raises if one of these parts is wholly deleted by the counts of its records, and not by rows.

        Only bitmaps that were written apart, at least one of them as an object, can have a row in common: what is inline is
        checked when it is added, and one object when it is written. So nothing is read for other parts.
        """
        doubtful = np.flatnonzero(np.isin(parts.ids, self._written_apart)) if self.objects else ()
        for i in map(int, doubtful):
            self.bitmaps(
                PartRows(parts.ids[[i]], parts.rows[[i]], [parts.names(i)].__getitem__), as_of, fetch
            )

    @cached_property
    def _written_apart(self) -> np.ndarray:
        """The parts with bitmaps in several objects, or in an object and inline."""
        places = self.records.column("blob").combine_chunks().dictionary_encode().indices
        sources = pc.fill_null(places, -1).to_numpy().astype(np.int64)
        parts, _ = np.unique(np.stack([self.parts, sources]), axis=1)
        ids, counts = np.unique(parts, return_counts=True)
        return ids[counts > 1]

    def _union_of(self, part: int, records: range) -> bytes | None:
        """The bitmap of all records of a part, if it is known from adding them."""
        if part not in self.unions or self._inline.slice(records.start, len(records)).null_count:
            return None
        packed: bytes = self.unions[part].serialize()
        return packed

    @cached_property
    def _joins(self) -> LruCache[range, bytes]:
        """The bitmaps of parts with many records: joining a thousand takes some milliseconds."""
        return LruCache(max_weight=MAX_CACHED_BYTES, weigh=len)

    def _joined(self, records: Sequence[int], parts: PartRows, i: int, fetch: Fetch) -> bytes:
        """The bitmap of all of these records, which are of part `i`; empty: there are none."""
        bitmaps = [self._bitmap(at, parts, i, fetch) for at in records]
        if len(bitmaps) < 2:
            return bitmaps[0][0] if bitmaps else b""
        union = BitMap.union(*(bitmap for _, bitmap in bitmaps))
        if len(union) != sum(len(bitmap) for _, bitmap in bitmaps):
            raise _damaged(parts, i, self._objects_of(records), "deletes rows more than once")
        joined: bytes = union.serialize()
        return joined

    @cached_property
    def record_counts(self) -> tuple[np.ndarray, np.ndarray]:
        """The parts that have records, rising, and how many each has."""
        ids, counts = np.unique(self.parts, return_counts=True)
        return ids, counts

    def located(self, fetch: Fetch, find: Callable[[int], Part]) -> Iterator[tuple[Part, int, np.ndarray]]:
        """Every record as part, time and positions; `find` returns a part by its id."""
        for at in range(len(self.parts)):
            part = find(int(self.parts[at]))
            yield part, int(self.times[at]), self._positions(at, PartRows.of([part]), fetch)

    def end_times(self, part: Part, fetch: Fetch) -> np.ndarray:
        """When each row of a part is deleted; `NEVER` for those that are not."""
        ends, parts = np.full(part.rows, NEVER), PartRows.of([part])
        records = range(*self._places(part.id))
        for at in records:
            positions = self._positions(at, parts, fetch)
            if (ends[positions] != NEVER).any():
                raise _damaged(parts, 0, self._objects_of(records), "deletes rows more than once")
            ends[positions] = self.times[at]
        return ends

    def _positions(self, at: int, part: PartRows, fetch: Fetch) -> np.ndarray:
        return np.asarray(self._bitmap(at, part, 0, fetch)[1].to_array()).astype(np.int64)

    def _bitmap(self, at: int, parts: PartRows, i: int, fetch: Fetch) -> tuple[bytes, BitMap]:
        """The bitmap of a record of part `i`, serialized and checked."""
        damaged = partial(self._damaged, at, parts, i)
        packed: bytes | None = self._inline[at].as_py()
        if packed is None:
            name = self.records.column("blob")[at].as_py()
            bitmaps = self.loaded.get_or_compute(name, lambda: bitmaps_of_object(name, fetch(name)))
            place = self.records.column("place")[at].as_py()
            packed = bitmaps[place].as_py() if 0 <= place < len(bitmaps) else None
            if packed is None:
                raise damaged(f"is not there at place {place}")
        return packed, read_bitmap(packed, int(self._counts[at]), int(parts.rows[i]), damaged)

    def _damaged(self, at: int, parts: PartRows, i: int, mistake: str) -> CorruptError:
        return _damaged(parts, i, self._objects_of((at,)), mistake)

    @cached_property
    def _inline(self) -> pa.Array:
        return one_chunk(self.records.column("bitmap"))

    @cached_property
    def _counts(self) -> np.ndarray:
        return np.asarray(self.records.column("rows").to_numpy())

    def _objects_of(self, records: Sequence[int]) -> list[str]:
        """The objects that hold the bitmaps of these records."""
        names = self.records.column("blob").take(pa.array(records, pa.int64()))
        return sorted(set(names.drop_null().to_pylist()))


def _damaged(parts: PartRows, i: int, objects: Sequence[str], mistake: str) -> CorruptError:
    return damaged_bitmap(str(parts.names(i)), objects, mistake)
