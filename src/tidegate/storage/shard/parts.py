"""The parts of a shard as an immutable set: adding one costs the same at a thousand and a million.

A million parts are never a million Python objects. They are stored in **segments**: immutable Arrow tables with a row for each
part, each an object in the blob store. Only the newest parts, appended since the last rollup, are `fresh` Python values. Removing a
part marks its row as dead. A rollup merges segments by tiers of size (`rollup.py`), so there are few, and each part is rewritten a
logarithmic number of times.

    Parts
      segments   0: 884,736 rows   1: 98,304   2: 4,096   3: 128        in the blob store, shared by all states
      fresh      17 parts                                              in the log

Part ids rise, also within a segment, so a part is found by binary search. Rows that were deleted are recorded beside the parts
(`storage/part/deletions.py`); they go with their part.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.cache import LruCache
from tidegate.errors import CorruptError
from tidegate.storage.part.deletions import NEVER, Deletions, PartRows
from tidegate.storage.part.part import Part
from tidegate.storage.part.parts_table import (
    PARTS_SCHEMA,
    no_bytes,
    parts_from_table,
    parts_to_table,
    with_object,
)
from tidegate.storage.stats.frame import Frame, Packed

MAX_CACHED_COLUMN_BYTES = 8 << 20
"""Bytes of a column that is always cached: the names of some 200,000 parts."""
MAX_CACHED_PLANS = 32
"""Results of planning that are cached for the parts of a state."""
MAX_CACHED_ARRAYS = 4
"""Cached arrays with an entry for each part, of which there may be a million."""
MAX_CACHED_VIEWS = 16
"""Tables of a few columns of a few thousand parts that are cached."""
BLOCK = 64
"""Fresh parts whose statistics are decoded and cached together."""


def frame_of(table: pa.Table) -> Frame:
    """The statistics of parts in a table, decoded one by one: for parts that are in no stored segment."""
    return Frame.of_parts(table.column("rows").to_numpy(), table.column("stats").to_pylist())


@lru_cache(64)
def _block(parts: tuple[tuple[int, bytes], ...]) -> Frame:
    return Frame.of_parts(np.array([rows for rows, _ in parts]), [stats for _, stats in parts])


@dataclass(frozen=True, eq=False)
class Segment:
    """Thousands of parts: an immutable table, and which of its rows are dead.

    The name is that of its object, or empty while it is only in memory.
    """

    name: str
    given: pa.Table | Packed
    """The rows: as a table, or packed as they were stored. Columns that are read are cached."""
    dead: np.ndarray | None = None
    known: Frame | None = None
    """The statistics of all rows, dead ones included; None: they are in the rows, part by part, as `stats`."""
    _read: dict[str, pa.Array] = field(default_factory=dict, repr=False)

    @cached_property
    def ids(self) -> np.ndarray:
        """The ids of all rows, dead ones included, rising."""
        return np.asarray(self.table(["id"]).column("id").to_numpy())

    @property
    def alive(self) -> int:
        """How many parts live."""
        return len(self.ids) - (0 if self.dead is None else int(self.dead.sum()))

    @cached_property
    def inline_bytes(self) -> int:
        """Bytes of living parts whose files are in it."""
        if isinstance(self.given, Packed) and "data" not in self.given.names:
            return 0
        return int(pc.sum(pc.binary_length(self.living(["data"]).column(0)), min_count=0).as_py())

    @property
    def has_dead_files(self) -> bool:
        """Whether it may hold files of parts that are dead."""
        return self.dead is not None and isinstance(self.given, Packed) and "data" in self.given.names

    def table(self, columns: Sequence[str] = tuple(PARTS_SCHEMA.names)) -> pa.Table:
        """These columns of all rows."""
        if isinstance(self.given, pa.Table):
            return self.given.select(columns)
        return pa.table({name: self._column(name) for name in columns})

    def take(self, rows: np.ndarray) -> pa.Table:
        """All columns of a few rows; dead rows count as rows."""
        at = pa.array(rows)
        if isinstance(self.given, pa.Table):
            return self.given.take(at)
        columns = {name: self._column(name, keep=False).take(at) for name in self.given.names}
        if "data" not in columns:
            columns["data"] = no_bytes(len(rows))
        return pa.table({name: columns[name] for name in PARTS_SCHEMA.names}, schema=PARTS_SCHEMA)

    def _column(self, name: str, *, keep: bool = True) -> pa.Array:
        """A column, cached for the next call.

        Names and digests of a million parts are too large to cache.
        """
        assert isinstance(self.given, Packed)
        found = self._read.get(name)
        if found is None and name == "data" and name not in self.given.names:
            return no_bytes(len(self.ids))
        if found is None:
            found = self.given.required(name)
            if found.nbytes <= MAX_CACHED_COLUMN_BYTES or (keep and not pa.types.is_string(found.type)):
                self._read[name] = found
        return found

    def living(self, columns: Sequence[str] = tuple(PARTS_SCHEMA.names)) -> pa.Table:
        """The rows of the parts that are not dead."""
        table = self.table(columns)
        return table if self.dead is None else table.filter(pa.array(~self.dead))

    def pick(self, places: np.ndarray) -> pa.Table:
        """All columns of a few of the rows of `living`."""
        return self.take(places if self.dead is None else np.flatnonzero(~self.dead)[places])

    def frame(self) -> Frame:
        """The statistics of the parts that are not dead, in the order of `living`."""
        return self.whole_frame if self.dead is None else self.whole_frame.filter(~self.dead)

    @cached_property
    def whole_frame(self) -> Frame:
        """The statistics of all rows, dead ones included."""
        return frame_of(self.table(["rows", "stats"])) if self.known is None else self.known

    def positions(self, ids: np.ndarray) -> np.ndarray:
        """The positions of those ids that are in this segment and not dead."""
        if not len(ids) or not len(self.ids):
            return np.zeros(0, np.int64)
        at = np.searchsorted(self.ids, ids)
        inside = at < len(self.ids)
        at = np.asarray(at[inside][self.ids[at[inside]] == ids[inside]])
        return at if self.dead is None else at[~self.dead[at]]

    def without(self, ids: np.ndarray) -> tuple[Segment, np.ndarray]:
        """The segment without the parts with these ids, and the positions that were removed."""
        at = self.positions(ids)
        if not len(at):
            return self, at
        dead = np.zeros(len(self.ids), bool) if self.dead is None else self.dead.copy()
        dead[at] = True
        return replace(self, dead=dead), at


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of one state. A value: `add` and `remove` return another, which shares the rest."""

    segments: tuple[Segment, ...] = ()
    fresh: tuple[Part, ...] = ()
    count: int = 0
    rows: int = 0
    size: int = 0
    deletions: Deletions = field(default_factory=Deletions)

    @cached_property
    def plans(self) -> LruCache[Hashable, Any]:
        """Caches results of planning over these parts; a new state has new `Parts`, so nothing goes stale."""
        return LruCache(MAX_CACHED_PLANS)

    @cached_property
    def arrays(self) -> LruCache[Hashable, Any]:
        """The same for arrays with an entry for each part."""
        return LruCache(MAX_CACHED_ARRAYS)

    @cached_property
    def views(self) -> LruCache[Hashable, pa.Table]:
        """The same for tables of some of the parts, if there are few parts."""
        return LruCache(MAX_CACHED_VIEWS)

    def add(self, parts: Iterable[Part]) -> Parts:
        """With these parts; their ids must be above all others."""
        new = tuple(parts)
        return replace(
            self,
            fresh=self.fresh + new,
            count=self.count + len(new),
            rows=self.rows + sum(part.rows for part in new),
            size=self.size + sum(part.size for part in new),
        )

    def delete(self, records: pa.Table) -> Parts:
        """With these rows of its parts deleted.

        A missing part is an error, more rows than it has, and in inline bitmaps a row that it lacks or that is deleted already.
        """
        places = records.column("part").to_numpy()
        ids = np.unique(places)
        rows = self._row_counts(ids)
        if (rows < 0).any():
            raise LookupError(f"parts {ids[rows < 0][:5].tolist()} are not there")
        total = self.deletions.totals(ids, NEVER)[0]
        np.add.at(total, np.searchsorted(ids, places), records.column("rows").to_numpy())
        if (total > rows).any():
            raise LookupError(f"parts {ids[total > rows][:5].tolist()} have fewer rows than are deleted")
        known = PartRows(ids, rows, lambda i: self.get(int(ids[i])).name)
        return replace(self, deletions=self.deletions.add_checked(records, known))

    def holds(self, ids: np.ndarray) -> bool:
        """Whether all of these parts are there; their ids must rise."""
        return bool((self._row_counts(ids) >= 0).all())

    def _row_counts(self, ids: np.ndarray) -> np.ndarray:
        """The rows of each of these parts, whose ids rise; -1 if it is not there."""
        rows = np.full(len(ids), -1, np.int64)
        for segment in self.segments:
            at = segment.positions(ids)
            if len(at):
                counts = segment.table(["rows"]).column("rows").to_numpy()
                rows[np.searchsorted(ids, segment.ids[at])] = counts[at]
        fresh = {part.id: part.rows for part in self.fresh}
        for i in np.flatnonzero(rows < 0) if fresh else ():
            rows[i] = fresh.get(int(ids[i]), -1)
        return rows

    def find(self, ids: np.ndarray) -> list[Part]:
        """The parts with these ids, found by binary search: no scan over all parts."""
        wanted = set(ids.tolist())
        found = [part for part in self.fresh if part.id in wanted]
        for segment in self.segments:
            at = segment.positions(ids)
            found += parts_from_table(segment.take(at)) if len(at) else []
        return found

    def get(self, id_: int) -> Part:
        """The part with this id, which must be there."""
        (part,) = self.find(np.array([id_]))
        return part

    def remove(self, ids: Iterable[int]) -> tuple[Parts, list[Part]]:
        """Without these parts, and the parts that were removed.

        A missing part is an error: another writer removed it.
        """
        wanted = set(ids)
        gone = [part for part in self.fresh if part.id in wanted]
        fresh = tuple(part for part in self.fresh if part.id not in wanted)
        rest = np.array(sorted(wanted - {part.id for part in gone}), np.int64)
        segments = []
        for segment in self.segments:
            smaller, at = segment.without(rest)
            gone += parts_from_table(segment.take(at)) if len(at) else []
            segments.append(smaller)
        if len(gone) != len(wanted):
            missing = sorted(wanted - {part.id for part in gone})
            raise LookupError(f"parts {missing[:5]} are not there")
        left = replace(
            self,
            segments=tuple(segment for segment in segments if segment.alive),
            fresh=fresh,
            deletions=self.deletions.without(np.array(sorted(wanted), np.int64)),
            count=self.count - len(gone),
            rows=self.rows - sum(part.rows for part in gone),
            size=self.size - sum(part.size for part in gone),
        )
        return left, gone

    def with_fresh_as_segment(self) -> Parts:
        """The same parts, with the fresh ones as a segment that is not stored yet (its name is empty)."""
        if not self.fresh:
            return self
        return replace(self, segments=(*self.segments, Segment("", self._fresh_table)), fresh=())

    def tables(self, columns: Sequence[str] = tuple(PARTS_SCHEMA.names)) -> Iterator[pa.Table]:
        """The living parts as tables, segment by segment, the fresh ones last.

        Ask for few columns: they stay in memory.
        """
        for segment in self.segments:
            yield segment.living(columns)
        if self.fresh:
            yield self._fresh_table.select(columns)

    def stored(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The same without inline parts: those that have an object in the blob store."""
        for segment in self.segments:
            yield (
                with_object(segment.living([*columns, "data"]))
                if segment.inline_bytes
                else segment.living(columns)
            )
        if self.fresh:
            yield with_object(self._fresh_table.select([*columns, "data"]))

    @cached_property
    def inline_bytes(self) -> int:
        """Bytes of all inline parts."""
        fresh = sum(len(part.data) for part in self.fresh)
        return fresh + sum(segment.inline_bytes for segment in self.segments)

    def inline(self) -> list[Part]:
        """The inline parts as values: there are few."""
        found = [part for part in self.fresh if part.data]
        for segment in self.segments:
            if segment.inline_bytes:
                has_data = pc.greater(pc.binary_length(segment.living(["data"]).column(0)), 0)
                found += parts_from_table(segment.pick(np.flatnonzero(has_data.to_numpy())))
        return found

    def pick(self, places: Sequence[np.ndarray]) -> pa.Table:
        """All columns of a few parts, given by their places in each of `tables`."""
        found = [PARTS_SCHEMA.empty_table()]
        for i, some in enumerate(places):
            if len(some):
                fresh = i == len(self.segments)
                found.append(self._fresh_table.take(pa.array(some)) if fresh else self.segments[i].pick(some))
        return pa.concat_tables(found)

    def frames(self) -> Iterator[Frame]:
        """The statistics of the living parts: a frame for each of `tables`, in the same order."""
        for segment in self.segments:
            yield segment.frame()
        if self.fresh:
            yield self._fresh_frame

    @cached_property
    def _fresh_table(self) -> pa.Table:
        return parts_to_table(self.fresh)

    @cached_property
    def _fresh_frame(self) -> Frame:
        """The statistics of fresh parts by blocks; full blocks were decoded before, when there were fewer."""
        return Frame.concat(self._fresh_blocks)

    @cached_property
    def _fresh_blocks(self) -> list[Frame]:
        blocks = [self.fresh[i : i + BLOCK] for i in range(0, len(self.fresh), BLOCK)]
        return [_block(tuple((part.rows, part.stats) for part in block)) for block in blocks]

    def decoded_frames(self) -> Iterator[Frame]:
        """The frames that were decoded part by part, in which statistics may be unreadable."""
        yield from (segment.whole_frame for segment in self.segments if segment.known is None)
        yield from self._fresh_blocks if self.fresh else ()

    def all(self) -> list[Part]:
        """Every living part as a value. For tests and small shards."""
        return [part for table in self.tables() for part in parts_from_table(table)]

    def check(self, name: str) -> None:
        """Raises if the counts do not agree with the parts, which means that the state is damaged."""
        count = sum(segment.alive for segment in self.segments) + len(self.fresh)
        if count != self.count:
            raise CorruptError(f"{name} says {self.count} parts, but holds {count}")
