"""Reads the file of a part, and fetches as little of it as possible.

    file = machine.files.open(part, schema)              fetches its tail once: where each page is, and its checksum
    file.read(ids, types, RowRange(0, 0, file.rows))     these columns of these rows, as Arrow arrays
    file.frame                                           the statistics of its pages, if it has any
    file.fetched                                         bytes that this reader fetched; the cached tail does not count

Fetched pages are checked against the table in the tail, the tail against the digest in the state. Small parts have no such table:
they are fetched whole, and checked by their own digest.

Polars decodes most pages: it skips rows that are not wanted while it decodes, and takes two thirds of pyarrow's time if all are.
pyarrow has less overhead, and decodes small selections, texts in their dictionary encoding, and nested columns, which are filtered.

The state overrides the times in the file: a part whose `first` and `last` are the same holds that time in all rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate import fork
from tidegate.cache import LruCache
from tidegate.errors import CorruptError
from tidegate.expr.model import Kind, Type, types
from tidegate.storage.blob.retrying import RetryingBlob
from tidegate.storage.part.bitmaps import unpack_positions
from tidegate.storage.part.checksum import verify
from tidegate.storage.part.encode import (
    decode_dictionary,
    field_ids,
    from_storage,
    one_chunk,
    page_frame,
    page_rosters,
    parquet_file,
    parquet_metadata,
    plain_text,
)
from tidegate.storage.part.page_reader import (
    BYTE_ARRAY,
    PageSelection,
    PartialFile,
    RowRange,
    select_pages,
    splice,
    splice_whole,
)
from tidegate.storage.part.page_table import PageTable, StoredColumn, read_table
from tidegate.storage.part.part import Part
from tidegate.storage.part.schema import Schema
from tidegate.storage.part.updates import whole_file
from tidegate.storage.stats.counters import StatsCounters
from tidegate.storage.stats.frame import Frame
from tidegate.storage.stats.page_values import PageValues
from tidegate.text import first_line

MAX_CACHED_BYTES = 64 << 20
"""Bytes of tails, and of small files, that are cached for a shard; and of what readers make to find rows by values."""
MAX_CACHED_PLANS = 4
"""Plans whose verdicts on the pages of a file are cached: there are many files."""
MIN_POLARS_BYTES = 1 << 20
"""Stored bytes of pages from which polars decodes them even if all rows are wanted."""
MIN_DENSE_SHARE = 0.75
"""The share of rows from which all are decoded, and those that are not wanted dropped: deletions leave most rows."""


class _Footer:
    """The tail of a part's file, and what is parsed from it, each when it is first needed."""

    def __init__(self, part: Part, tail: bytes, counters: StatsCounters) -> None:
        self.part, self.tail, self.counters = part, tail, counters
        self.size = len(tail)
        self.plans = LruCache[Hashable, Any](MAX_CACHED_PLANS)

    @cached_property
    def table(self) -> PageTable | None:
        return read_table(self.part.name, self.tail) if self.part.tail else None

    @cached_property
    def frame(self) -> Frame | None:
        return page_frame(self.metadata, self.counters)

    @cached_property
    def rosters(self) -> PageValues:
        return page_rosters(self.metadata, self.counters)

    @cached_property
    def metadata(self) -> Any:
        try:
            return parquet_metadata(self.tail)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self.part, error) from None

    @cached_property
    def names(self) -> dict[int, str]:
        """Column id → name in the file."""
        return field_ids(self.metadata.schema.to_arrow_schema())

    def whole(self, coded: Sequence[str] = ()) -> Any:
        """A reader of a file that is cached whole, with the columns of `coded` as dictionary arrays.

        Each call returns another, because threads may not share a reader, only the bytes that it reads.
        """
        return parquet_file(self.tail, metadata=self.metadata, read_dictionary=list(coded))


class PartFiles:
    """Opens the files of a shard's parts. Caches their tails, and small files whole."""

    def __init__(self, objects: RetryingBlob, counters: StatsCounters) -> None:
        self._objects, self.counters = objects, counters
        self._footers = LruCache[str, _Footer](max_weight=MAX_CACHED_BYTES, weigh=attrgetter("size"))
        self.indexes = LruCache[Hashable, Any](max_weight=MAX_CACHED_BYTES, weigh=attrgetter("nbytes"))

    def open(self, part: Part, schema: Schema) -> PartFile:
        """The file for one reader of this version of the schema; `fetched` counts what this reader fetches."""
        footer = self._footers.get_or_compute(
            part.name, lambda: _Footer(part, _tail(self._objects, part), self.counters)
        )
        return PartFile(self._objects, part, footer, schema)


class PartFile:
    """The file of a part. Threads may share it: nothing changes but the count of bytes."""

    def __init__(self, objects: RetryingBlob, part: Part, footer: _Footer, schema: Schema) -> None:
        """Use `PartFiles.open`."""
        self.objects, self.part, self.footer, self.schema = objects, part, footer, schema
        self.fetched = 0 if part.tail else part.size

    @property
    def table(self) -> PageTable | None:
        """Where its pages are; None: it is a small file, and fetched whole."""
        return self.footer.table

    @cached_property
    def frame(self) -> Frame | None:
        """The statistics of pages of 8,192 rows, over all row groups."""
        return None if self.footer.frame is None else self.schema.completed(self.footer.frame, self.has)

    @property
    def rosters(self) -> PageValues:
        """Which values are on which of these pages."""
        return self.footer.rosters

    @property
    def plans(self) -> LruCache[Hashable, Any]:
        """Caches what planning finds out about its pages."""
        return self.footer.plans

    @property
    def groups(self) -> Sequence[int]:
        """Rows of each row group."""
        if self.table is not None:
            return self.table.groups
        metadata = self.footer.metadata
        return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    @cached_property
    def deleted(self) -> np.ndarray | None:
        """The positions of the rows that are deleted for this reader, rising; None: no row is."""
        return unpack_positions(self.part.deleted) if self.part.deleted else None

    def group_start(self, group: int) -> int:
        """The position of the first row of a row group."""
        return sum(self.groups[:group])

    def has(self, id_: int) -> bool:
        """Whether the file has the column."""
        return id_ in (self.footer.names if self.table is None else self.table.by_id)

    def weight(self, id_: int) -> int:
        """Bytes of a column in the file."""
        if self.table is None or id_ not in self.table.by_id:
            return 0
        return sum(chunk.size for group in self.table.by_id[id_].chunks for chunk in group)

    def row_bytes(self, ids: Sequence[int], group: int, *, decoded: bool = False) -> float:
        """Bytes of a row of the columns, in a row group of a file with a table.

        With `decoded`, after decompression.
        """
        assert self.table is not None
        there = [self.table.by_id[id_] for id_ in ids if id_ in self.table.by_id]
        chunks = [chunk for column in there for chunk in column.chunks[group]]
        size = sum(chunk.size * (chunk.inflation if decoded else 1) for chunk in chunks)
        return size / max(1, self.groups[group])

    def by_pages(self, ids: Sequence[int]) -> bool:
        """Whether these columns can be read by pages; others are decoded whole, row group by row group."""
        found = [] if self.table is None else [self.table.by_id.get(id_) for id_ in ids]
        return all(column is None or column.flat for column in found)

    def size_of(self, id_: int, rows: RowRange) -> int:
        """Bytes that reading a column for these rows would fetch."""
        if self.table is None or id_ not in self.table.by_id:
            return 0
        column = self.table.by_id[id_]
        if not column.flat:
            return sum(chunk.size for chunk in column.chunks[rows.group])
        return select_pages([column], rows)[0].size

    def read(
        self, ids: Sequence[int], types: Sequence[Type], rows: RowRange, *, coded: bool = False
    ) -> list[pa.Array]:
        """The columns with these ids for the rows, in these types.

        Those that the part lacks are NULL, or as they were added.

        With `coded`, texts may be dictionary arrays if they are stored so, or string views.
        """
        try:
            if self.table is None:
                return self._read_small(ids, types, rows)
            there = [id_ for id_ in ids if id_ in self.table.by_id]
            wanted = dict(zip(ids, types, strict=True))
            found = self._columns(
                [self.table.by_id[id_] for id_ in there], [wanted[id_] for id_ in there], rows, coded=coded
            )
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self.part, error) from None
        known = dict(zip(there, found, strict=True))
        return [
            known[id_] if id_ in known else self.schema.lacking(id_, wanted[id_], len(rows)) for id_ in ids
        ]

    def times(self, rows: RowRange) -> np.ndarray:
        """The time of each row."""
        if self.part.first == self.part.last:
            return np.full(len(rows), self.part.first, np.int64)
        # A time in the file may be later than the last: a repair moved it back.
        times: np.ndarray = np.minimum(self._hidden("_time", rows), self.part.last)
        return times

    def diffs(self, rows: RowRange) -> np.ndarray:
        """The diff of each row."""
        if self.all_once:
            return np.ones(len(rows), np.int64)
        return self._hidden("_diff", rows)

    @property
    def all_once(self) -> bool:
        """Whether every diff is 1: none is negative, and their sum is the number of rows."""
        return not self.part.retracts and self.part.diffs == self.part.rows

    def _hidden(self, name: str, rows: RowRange) -> np.ndarray:
        try:
            if self.table is None:
                table = self.footer.whole().read_row_group(rows.group, columns=[name])
                column = _pick(table.column(0), rows)
            else:
                (column,) = self._columns([self.table.by_name[name]], [types.INT8], rows)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self.part, error) from None
        result: np.ndarray = column.to_numpy()
        return result

    def _read_small(self, ids: Sequence[int], types: Sequence[Type], rows: RowRange) -> list[pa.Array]:
        there = self.footer.names
        names = [there[id_] for id_ in ids if id_ in there]
        # A small file may hold a long text for each of a million rows: only the wanted rows are decoded from the dictionary.
        coded = [there[i] for i, t in zip(ids, types, strict=True) if i in there and t.kind in _TEXTS]
        table = self.footer.whole(coded).read_row_group(rows.group, columns=names, use_threads=False)
        return [
            from_storage(decode_dictionary(_pick(table.column(there[id_]), rows)), type_)
            if id_ in there
            else self.schema.lacking(id_, type_, len(rows))
            for id_, type_ in zip(ids, types, strict=True)
        ]

    def _columns(
        self, columns: Sequence[StoredColumn], types: Sequence[Type], rows: RowRange, *, coded: bool = False
    ) -> list[pa.Array]:
        """Fetches what is needed of all columns in one call, and decodes it."""
        assert self.table is not None
        by_name = {column.name: type_ for column, type_ in zip(columns, types, strict=True)}
        kept = "_" * (1 + max(map(len, by_name), default=0))
        chosen = [pages for pages in select_pages([c for c in columns if c.flat], rows) if pages.rows]
        plans = [replace(pages, mask=None) if _is_dense(pages) else pages for pages in chosen]
        nested = [column for column in columns if not column.flat and len(rows)]
        files = [splice(pages, kept) for pages in plans]
        files += [splice_whole(column, rows.group, self.table.groups[rows.group]) for column in nested]
        self._fetch(files)
        found: dict[str, pa.Array] = {}
        for wanted, pages, file in zip(chosen, plans, files, strict=False):
            data = file.check(self.part.name)
            codes = _coded(pages) if coded else []
            dense = wanted.mask if pages.mask is None else None
            if pages.mask is not None or (not codes and pages.size > MIN_POLARS_BYTES):
                found |= _by_polars(data, None if pages.mask is None else kept, dense, views=coded)
            else:
                found |= _by_arrow(data, codes, dense)
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

    def verify(self, ids: Iterable[int]) -> None:
        """Fetches whole columns and raises unless they are what was written: for a reader that cannot check."""
        if (table := self.table) is None:  # a small file: what is cached of it is not what others will read
            _tail(self.objects, self.part)
        for column in (table.by_id[id_] for id_ in ids if self.has(id_)) if table else ():
            files = [splice_whole(column, group, rows) for group, rows in enumerate(self.groups)]
            self._fetch(files)
            for file in files:
                file.verify(self.part.name)
                file.release()

    def _fetch(self, files: Sequence[PartialFile]) -> None:
        """Fills all files in one call."""
        targets = [target for file in files for target in file.targets]
        self.fetched += sum(map(len, targets))
        if targets:
            self.objects.read_into(self.part.name, [at for file in files for at in file.starts], targets)


def _is_dense(pages: PageSelection) -> bool:
    """Whether so many rows are wanted that decoding all, and dropping some, is cheaper than skipping."""
    if pages.mask is None:
        return False
    return bool(np.count_nonzero(pages.mask) >= MIN_DENSE_SHARE * len(pages.mask))


def _coded(pages: PageSelection) -> list[str]:
    """The texts that are stored with a dictionary."""
    chunks = {column.name: column.chunks[pages.group][0] for column in pages.columns}
    return [name for name, chunk in chunks.items() if chunk.dictionary and chunk.type == BYTE_ARRAY]


def _by_arrow(data: bytes, coded: list[str], keep: np.ndarray | None) -> dict[str, pa.Array]:
    """The columns of an assembled file, those of `coded` as dictionary arrays; only the rows of `keep`."""
    table = _read(data, coded) if keep is None else _read(data, coded).filter(pa.array(keep))
    return {name: plain_text(table.column(name)) for name in table.column_names}


def _read(data: bytes, coded: Sequence[str] = ()) -> pa.Table:
    return parquet_file(data, read_dictionary=list(coded)).read(use_threads=False)


def _by_polars(data: bytes, kept: str | None, keep: np.ndarray | None, *, views: bool) -> dict[str, pa.Array]:
    """The columns of an assembled file: rows where its column `kept` holds, or those of `keep`, or all.

    Rows outside of `kept` are skipped while they are decoded, those outside of `keep` are dropped afterwards. With `views`, texts
    may be string views.
    """
    if fork.inherited("polars"):
        table = _read(data)
        table = table if kept is None else table.filter(table.column(kept)).drop_columns([kept])
        table = table if keep is None else table.filter(pa.array(keep))
        return {name: plain_text(table.column(name)) for name in table.column_names}
    import polars as pl

    try:
        lazy = pl.scan_parquet(data, parallel="none" if kept is None else "prefiltered", use_statistics=False)
        frame = (lazy if kept is None else lazy.filter(pl.col(kept)).drop(kept)).collect()
        frame = frame if keep is None else frame.filter(pl.Series(keep))
        table = frame.to_arrow(compat_level=pl.CompatLevel.newest())
        plain = one_chunk if views else plain_text
        return {name: plain(table.column(name)) for name in table.column_names}
    except pl.exceptions.PolarsError as error:
        raise OSError(str(error)) from None


def _as(array: pa.Array, type_: Type) -> pa.Array:
    as_it_is = pa.types.is_dictionary(array.type) or pa.types.is_string_view(array.type)
    return array if as_it_is else from_storage(array, type_)


_TEXTS = (Kind.TEXT, Kind.JSONB, Kind.BYTEA)


def _pick(column: pa.ChunkedArray, rows: RowRange) -> pa.Array:
    """These rows of a column of a whole row group; to filter the table would take twice the time."""
    inside = one_chunk(column).slice(rows.start, rows.stop - rows.start)
    return inside if rows.mask is None else inside.filter(pa.array(rows.mask))


def _tail(objects: RetryingBlob, part: Part) -> bytes:
    """The tail of a part that has one, else the whole file."""
    if not part.tail:
        return whole_file(objects, part)
    (tail,) = objects.get_ranges(part.name, [(part.size - part.tail, part.tail)])
    return verify(part.name, tail, part.tail_digest)


def _unreadable(part: Part, error: Exception) -> CorruptError:
    return CorruptError(f"{part.name} cannot be read as Parquet: {first_line(error)}")
