"""The file of a part, of which as little is fetched as a reader wants.

    file = PartFile.open(machine, part)                  its tail, fetched once and kept: where each page is, and its checksum
    file.read(ids, types, Rows(0, 0, file.rows))         these columns of these rows, as Arrow arrays
    file.frame                                           the statistics of its pages, if it has any
    file.fetched                                         bytes of it that were read so far; its tail, which is kept, does not count

What is fetched is checked, page by page, against the table in the tail, and the tail against the digest in the state. A part
without such a table (a small one) is fetched whole, and its own digest is compared.

Who decodes: polars, which skips the rows that are not wanted as it decodes, and where all are takes two thirds of pyarrow's time.
pyarrow begins sooner, and so decodes what is little; and texts that are wanted as they are coded in a dictionary. Nested columns
(arrays, records, intervals) are decoded by pyarrow and then filtered.

The state's word on time goes: a part whose `first` and `last` are the same holds that time in all rows, whatever its `_time` says.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate import fork
from tidegate.errors import CorruptError
from tidegate.expr.types import INT8, Kind, Type
from tidegate.shard.change import Part
from tidegate.shard.known import Known
from tidegate.shard.machine import Machine
from tidegate.shard.pages import PageTable, Stored, read_table
from tidegate.shard.part import field_ids, from_storage, one_chunk, page_frame, page_rosters
from tidegate.shard.seal import verify
from tidegate.shard.splice import BYTE_ARRAY, Cut, Rows, Spliced, cuts, splice, splice_whole
from tidegate.stats.frame import Frame
from tidegate.stats.roster import Rosters
from tidegate.store.blob import missing

KEPT = 64 << 20
"""Bytes of tails, and of small files, that are kept for a shard."""
KNOWN = 4
"""Plans for which it is kept what a file's statistics say of its pages: there are many files."""
LARGE = 1 << 20
"""Bytes of pages, as they are stored, above which polars decodes them even if all rows are wanted."""


class _Kept:
    """The tail of a part's file, and what is made of it, each when it is first asked for."""

    def __init__(self, part: Part, tail: bytes) -> None:
        self.part, self.tail = part, tail
        self.known = Known(KNOWN)

    @cached_property
    def table(self) -> PageTable | None:
        return read_table(self.part.name, self.tail) if self.part.tail else None

    @cached_property
    def frame(self) -> Frame | None:
        return page_frame(self.metadata)

    @cached_property
    def rosters(self) -> Rosters:
        return page_rosters(self.metadata)

    @cached_property
    def metadata(self) -> Any:
        try:
            return pq.read_metadata(pa.BufferReader(self.tail))
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self.part, error) from None

    @cached_property
    def names(self) -> dict[int, str]:
        """Column id → name in the file."""
        return field_ids(self.metadata.schema.to_arrow_schema())

    def whole(self, coded: Sequence[str] = ()) -> Any:
        """A reader of a file that is kept whole. Each time another: threads may not share one, only what it reads.

        Columns of `coded` come as dictionary arrays.
        """
        return pq.ParquetFile(pa.BufferReader(self.tail), metadata=self.metadata, read_dictionary=list(coded))


class PartFile:
    """A part's file. Threads may share it: nothing changes but the count of bytes."""

    def __init__(self, machine: Machine, part: Part, kept: _Kept) -> None:
        """Use `open`."""
        self.machine, self.part, self.kept = machine, part, kept
        self.fetched = 0 if part.tail else part.size

    @staticmethod
    def open(machine: Machine, part: Part) -> PartFile:
        """The file for one reader, who has fetched nothing yet; what is kept of it is shared."""
        cache = _caches.setdefault(machine, _Cache())
        kept = cache.get(part.name)
        if kept is None:
            kept = cache.put(_Kept(part, _tail(machine, part)))
        return PartFile(machine, part, kept)

    def again(self, part: Part) -> PartFile:
        """The same file for another reader."""
        return PartFile(self.machine, part, self.kept)

    @property
    def table(self) -> PageTable | None:
        """Where its pages are; None: it is a small file, and fetched whole."""
        return self.kept.table

    @property
    def frame(self) -> Frame | None:
        """The statistics of pages of 8,192 rows, over all row groups."""
        return self.kept.frame

    @property
    def rosters(self) -> Rosters:
        """Which values are on which of these pages."""
        return self.kept.rosters

    @property
    def known(self) -> Known:
        """What was found out about its pages."""
        return self.kept.known

    @property
    def groups(self) -> Sequence[int]:
        """Rows of each row group."""
        if self.table is not None:
            return self.table.groups
        metadata = self.kept.metadata
        return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    def has(self, id_: int) -> bool:
        """Whether the file has the column."""
        return id_ in (self.kept.names if self.table is None else self.table.by_id)

    def weight(self, id_: int) -> int:
        """Bytes of a column in the file."""
        if self.table is None or id_ not in self.table.by_id:
            return 0
        return sum(chunk.size for group in self.table.by_id[id_].chunks for chunk in group)

    def row_bytes(self, ids: Sequence[int], group: int, *, decoded: bool = False) -> float:
        """Bytes that a row of the columns takes in a row group of a file with a table, or when its pages are decompressed."""
        assert self.table is not None
        there = [self.table.by_id[id_] for id_ in ids if id_ in self.table.by_id]
        chunks = [chunk for column in there for chunk in column.chunks[group]]
        size = sum(chunk.size * (chunk.inflation if decoded else 1) for chunk in chunks)
        return size / max(1, self.groups[group])

    def by_pages(self, ids: Sequence[int]) -> bool:
        """Whether these columns can be read page by page; others are decoded whole, row group by row group."""
        found = [] if self.table is None else [self.table.by_id.get(id_) for id_ in ids]
        return all(column is None or column.flat for column in found)

    def size_of(self, id_: int, rows: Rows) -> int:
        """Bytes that reading a column for these rows would fetch."""
        if self.table is None or id_ not in self.table.by_id:
            return 0
        column = self.table.by_id[id_]
        if not column.flat:
            return sum(chunk.size for chunk in column.chunks[rows.group])
        return cuts([column], rows)[0].size

    def read(
        self, ids: Sequence[int], types: Sequence[Type], rows: Rows, *, coded: bool = False
    ) -> list[pa.Array]:
        """The columns of these ids for the rows, in these types; those that the part lacks are NULL.

        With `coded`, texts may come as Arrow's dictionary arrays, if they are stored so, or as its views.
        """
        try:
            if self.table is None:
                return self._small(ids, types, rows)
            there = [id_ for id_ in ids if id_ in self.table.by_id]
            wanted = dict(zip(ids, types, strict=True))
            found = self._columns(
                [self.table.by_id[id_] for id_ in there], [wanted[id_] for id_ in there], rows, coded=coded
            )
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self.part, error) from None
        known = dict(zip(there, found, strict=True))
        return [known[id_] if id_ in known else pa.nulls(len(rows), wanted[id_].arrow) for id_ in ids]

    def times(self, rows: Rows) -> np.ndarray:
        """The time of each row."""
        if self.part.first == self.part.last:
            return np.full(len(rows), self.part.first, np.int64)
        # In the file a time may be later than the last: a repair took it back.
        times: np.ndarray = np.minimum(self._hidden("_time", rows), self.part.last)
        return times

    def diffs(self, rows: Rows) -> np.ndarray:
        """The diff of each row."""
        if self.all_once:
            return np.ones(len(rows), np.int64)
        return self._hidden("_diff", rows)

    @property
    def all_once(self) -> bool:
        """Whether every diff is 1: none is negative, and together they are as many as there are rows."""
        return not self.part.retracts and self.part.diffs == self.part.rows

    def _hidden(self, name: str, rows: Rows) -> np.ndarray:
        try:
            if self.table is None:
                column = _pick(self.kept.whole().read_row_group(rows.group, columns=[name]).column(0), rows)
            else:
                (column,) = self._columns([self.table.by_name[name]], [INT8], rows)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self.part, error) from None
        result: np.ndarray = column.to_numpy()
        return result

    def _small(self, ids: Sequence[int], types: Sequence[Type], rows: Rows) -> list[pa.Array]:
        there = self.kept.names
        names = [there[id_] for id_ in ids if id_ in there]
        # A small file may hold a long text for each of a million rows: it is spelled out for the wanted rows alone.
        coded = [there[i] for i, t in zip(ids, types, strict=True) if i in there and t.kind in _TEXTS]
        table = self.kept.whole(coded).read_row_group(rows.group, columns=names, use_threads=False)
        return [
            from_storage(_spelled(_pick(table.column(there[id_]), rows)), type_)
            if id_ in there
            else pa.nulls(len(rows), type_.arrow)
            for id_, type_ in zip(ids, types, strict=True)
        ]

    def _columns(
        self, columns: Sequence[Stored], types: Sequence[Type], rows: Rows, *, coded: bool = False
    ) -> list[pa.Array]:
        """Fetches what is needed of all columns in one go, and decodes it."""
        assert self.table is not None
        by_name = {column.name: type_ for column, type_ in zip(columns, types, strict=True)}
        kept = "_" * (1 + max(map(len, by_name), default=0))
        plans = [cut for cut in cuts([c for c in columns if c.flat], rows) if cut.rows]
        nested = [column for column in columns if not column.flat and len(rows)]
        files = [splice(cut, kept) for cut in plans]
        files += [splice_whole(column, rows.group, self.table.groups[rows.group]) for column in nested]
        self._fetch(files)
        found: dict[str, pa.Array] = {}
        for cut, file in zip(plans, files, strict=False):
            data = file.check(self.part.name)
            codes = _coded(cut) if coded else []
            if cut.mask is not None or (not codes and cut.size > LARGE):
                found.update(_by_polars(data, None if cut.mask is None else kept, views=coded))
            else:
                found.update(_by_arrow(data, codes))
            del data  # else its memory could not be used again
            file.release()
        for column, file in zip(nested, files[len(plans) :], strict=True):
            table = _read(file.check(self.part.name))
            found[column.name] = _pick(table.column(0), rows)
            file.release()
        return [
            _as(found[c.name], type_) if c.name in found else pa.array([], type_.arrow)
            for c, type_ in zip(columns, types, strict=True)
        ]

    def _fetch(self, files: Sequence[Spliced]) -> None:
        """Fills all files in one go."""
        starts = [start for file in files for start in file.starts]
        targets = [target for file in files for target in file.targets]
        self.fetched += sum(map(len, targets))
        name, machine = self.part.name, self.machine
        if targets:
            machine.attempt(lambda: machine.blob.read_into(name, starts, targets))


def _coded(cut: Cut) -> list[str]:
    """The texts that are stored with a dictionary."""
    chunks = {column.name: column.chunks[cut.group][0] for column in cut.columns}
    return [name for name, chunk in chunks.items() if chunk.dictionary and chunk.type == BYTE_ARRAY]


def _by_arrow(data: bytes, coded: list[str]) -> dict[str, pa.Array]:
    """The columns of a spliced file, those of `coded` as dictionary arrays."""
    table = _read(data, coded)
    return {name: _plain_text(table.column(name)) for name in table.column_names}


def _read(data: bytes, coded: Sequence[str] = ()) -> pa.Table:
    return pq.ParquetFile(pa.BufferReader(data), read_dictionary=list(coded)).read(use_threads=False)


def _by_polars(data: bytes, kept: str | None, *, views: bool) -> dict[str, pa.Array]:
    """The columns of a spliced file, of the rows where its bitmap holds if it has one; texts as views, if these will do."""
    if fork.inherited("polars"):
        table = _read(data)
        table = table if kept is None else table.filter(table.column(kept)).drop_columns([kept])
        return {name: _plain_text(table.column(name)) for name in table.column_names}
    import polars as pl

    try:
        lazy = pl.scan_parquet(data, parallel="none" if kept is None else "prefiltered", use_statistics=False)
        frame = (lazy if kept is None else lazy.filter(pl.col(kept)).drop(kept)).collect()
        table = frame.to_arrow(compat_level=pl.CompatLevel.newest())
        plain = one_chunk if views else _plain_text
        return {name: plain(table.column(name)) for name in table.column_names}
    except pl.exceptions.PolarsError as error:
        raise OSError(str(error)) from None


def _as(array: pa.Array, type_: Type) -> pa.Array:
    as_it_is = pa.types.is_dictionary(array.type) or pa.types.is_string_view(array.type)
    return array if as_it_is else from_storage(array, type_)


def _plain_text(column: pa.ChunkedArray) -> pa.Array:
    """One array; texts without the views that polars makes of them."""
    array = one_chunk(column)
    if pa.types.is_string_view(array.type):
        return array.cast(pa.string())
    if pa.types.is_binary_view(array.type):
        return array.cast(pa.binary())
    return array


_TEXTS = (Kind.TEXT, Kind.JSONB, Kind.BYTEA)


def _spelled(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _pick(column: pa.ChunkedArray, rows: Rows) -> pa.Array:
    """These rows of a whole row group's column."""
    inside = column.slice(rows.start, rows.stop - rows.start)
    array = inside.combine_chunks()
    return array if rows.mask is None else array.filter(pa.array(rows.mask))


def is_flat(type_: Type) -> bool:
    """Whether pages of a column of this type can be picked by rows."""
    return type_.kind not in (Kind.ARRAY, Kind.RECORD, Kind.INTERVAL)


def _tail(machine: Machine, part: Part) -> bytes:
    """The tail of a part that has one, else all of it, as it was written."""
    if not part.tail:
        data = machine.attempt(lambda: machine.blob.get(part.name))
        if data is None:
            raise missing(part.name)
        return verify(part.name, data, part.digest)
    ranges = [(part.size - part.tail, part.tail)]
    (tail,) = machine.attempt(lambda: machine.blob.get_ranges(part.name, ranges))
    return verify(part.name, tail, part.tail_digest)


def _unreadable(part: Part, error: Exception) -> CorruptError:
    return CorruptError(f"{part.name} cannot be read as Parquet: {str(error).partition(chr(10))[0]}")


class _Cache:
    """What is kept of files, by name, those used longest ago dropped first. It knows no machine: it ends with its own."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, _Kept] = OrderedDict()
        self._size = 0
        self._lock = fork.lock()

    def get(self, name: str) -> _Kept | None:
        with self._lock:
            if name in self._files:
                self._files.move_to_end(name)
            return self._files.get(name)

    def put(self, kept: _Kept) -> _Kept:
        """The same, or what another thread has put there before."""
        with self._lock:
            there = self._files.setdefault(kept.part.name, kept)
            if there is kept:
                self._size += len(kept.tail)
            while self._size > KEPT:
                self._size -= len(self._files.popitem(last=False)[1].tail)
            return there


_caches: weakref.WeakKeyDictionary[Machine, _Cache] = weakref.WeakKeyDictionary()
