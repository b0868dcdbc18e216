"""Assembles some pages of some columns into a Parquet file of its own, in memory.

No Parquet reader for Python can be directed to single pages. So the wanted pages are fetched and put one after the other,
unchanged, with a footer that describes only them; any Parquet library then decodes just those.

    part                                          rows 8,192 to 16,383 of url and price
    ┌──────┬──────┬──────┐                        ┌──────────────┐
    │ url₀ │ url₁ │ url₂ │                        │ PAR1  mask   │   a column of bools: our bitmap, as Parquet stores it
    ├──────┼──────┼──────┤      →                 │ url₁  price₁ │
    │price₀│price₁│price₂│                        │ footer  PAR1 │
    └──────┴──────┴──────┘                        └──────────────┘

The bitmap of the wanted rows is added as one more column, and the reader (polars, which decodes that column first) skips the values
of all other rows while it decodes. No other column has its name.

Columns whose pages end at different rows (a page of long texts has fewer) go into separate files.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from isal.isal_zlib import crc32

from tidegate.errors import CorruptError
from tidegate.storage.part.page_table import ColumnChunk, StoredColumn
from tidegate.storage.part.thrift import BINARY, I32, I64, LIST, STRUCT, items, number, struct, text
from tidegate.storage.stats.collect import PAGE_ROWS

_BOOLEAN, _PLAIN, _RLE, _UNCOMPRESSED = 0, 0, 3, 0
BYTE_ARRAY = 6
"""Parquet's number for texts and bytes."""


@dataclass(frozen=True, eq=False)
class RowRange:
    """Rows of a row group: from `start` to before `stop`, and of these the ones where the mask holds."""

    group: int
    start: int
    stop: int
    mask: np.ndarray | None = None

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        return self.stop - self.start if self.mask is None else int(np.count_nonzero(self.mask))

    def narrow(self, keep: np.ndarray) -> RowRange:
        """The rows at the rising places `keep`; leading and trailing pages without such rows are left out."""
        if len(keep) == len(self):
            return self
        at = keep if self.mask is None else np.flatnonzero(self.mask)[keep]
        start, stop = self.start, self.stop
        if len(at):
            start = max(start, (self.start + int(at[0])) // PAGE_ROWS * PAGE_ROWS)
            stop = min(stop, -(-(self.start + int(at[-1]) + 1) // PAGE_ROWS) * PAGE_ROWS)
        mask = np.zeros(stop - start, bool)
        mask[at - (start - self.start)] = True
        return RowRange(self.group, start, stop, mask)

    def without(self, deleted: np.ndarray) -> RowRange:
        """The rows that are not among these, which are rising positions in the row group."""
        first, last = np.searchsorted(deleted, (self.start, self.stop))
        if first == last:
            return self
        keep = np.ones(self.stop - self.start, bool)
        keep[deleted[first:last] - self.start] = False
        return RowRange(self.group, self.start, self.stop, keep if self.mask is None else keep & self.mask)

    def places(self) -> np.ndarray:
        """The positions of the rows in the row group."""
        return self.start + (
            np.arange(self.stop - self.start) if self.mask is None else np.flatnonzero(self.mask)
        )


def rows_at(groups: Sequence[int], positions: np.ndarray) -> Iterator[RowRange]:
    """The rows at rising positions of a file, for each row group that has some of them."""
    begin = 0
    for group, rows in enumerate(groups):
        first, last = np.searchsorted(positions, (begin, begin + rows))
        if first < last:
            yield RowRange(group, 0, rows).narrow(positions[first:last] - begin)
        begin += rows


@dataclass(frozen=True, eq=False)
class PageSelection:
    """The pages of one set of columns that hold some of the rows."""

    columns: tuple[StoredColumn, ...]
    group: int
    pages: np.ndarray
    """Numbers of the data pages."""
    rows: int
    mask: np.ndarray | None
    """Which rows of these pages are wanted; None: all."""

    @property
    def size(self) -> int:
        """Bytes of these pages."""
        return sum(size for column in self.columns for _, size in self.ranges(column.chunks[self.group][0]))

    def ranges(self, chunk: ColumnChunk) -> list[tuple[int, int]]:
        """Where the pages are: neighbours as one range.

        The dictionary joins the first of them if it is its neighbour.
        """
        _, first, after = self._coded if chunk.dictionary else self._plain
        begins, ends = chunk.offsets[first], chunk.offsets[after]
        return list(zip(begins.tolist(), (ends - begins).tolist(), strict=True))

    def checksums(self, chunk: ColumnChunk) -> tuple[list[int], list[int]]:
        """The sizes and checksums of the pages, in their order."""
        at = (self._coded if chunk.dictionary else self._plain)[0]
        return chunk.sizes[at].tolist(), chunk.checksums[at].tolist()

    @cached_property
    def _plain(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The places of the pages in a chunk; of each run its first page, and the page after its last."""
        return _runs(self.pages)

    @cached_property
    def _coded(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same in a chunk whose first page is the dictionary."""
        return _runs(np.concatenate([[0], self.pages + 1]))


def _runs(at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if not len(at):
        return at, at, at
    breaks = np.flatnonzero(np.diff(at) != 1) + 1
    first, last = np.concatenate([[0], breaks]), np.concatenate([breaks - 1, [len(at) - 1]])
    return at, at[first], at[last] + 1


def select_pages(columns: Iterable[StoredColumn], rows: RowRange) -> list[PageSelection]:
    """The pages to read of flat columns, in sets whose pages end at the same rows."""
    sets: dict[bytes, list[StoredColumn]] = {}
    for column in columns:
        sets.setdefault(column.chunks[rows.group][0].cut, []).append(column)
    return [_cut(tuple(alike), rows) for alike in sets.values()]


def _cut(columns: tuple[StoredColumn, ...], rows: RowRange) -> PageSelection:
    starts = columns[0].chunks[rows.group][0].starts
    first = int(np.searchsorted(starts, rows.start, side="right")) - 1
    last = int(np.searchsorted(starts, rows.stop, side="left"))
    begins, ends = starts[first:last], starts[first + 1 : last + 1]
    touched = np.ones(len(begins), bool)
    if rows.mask is not None and len(begins):
        touched = np.logical_or.reduceat(rows.mask, np.maximum(begins, rows.start) - rows.start)
    pages = first + np.flatnonzero(touched)
    count = int((ends - begins)[touched].sum())
    if count == len(rows):
        return PageSelection(columns, rows.group, pages, count, None)
    begin, end = (int(begins[0]), int(ends[-1])) if len(begins) else (0, 0)
    if rows.mask is not None and (rows.start, rows.stop, count) == (begin, end, end - begin):
        return PageSelection(columns, rows.group, pages, count, rows.mask)
    whole = np.zeros(end - begin, bool)
    offset = rows.start - begin if len(begins) else 0
    whole[offset : offset + rows.stop - rows.start] = True if rows.mask is None else rows.mask
    return PageSelection(columns, rows.group, pages, count, whole[np.repeat(touched, ends - begins)])


@dataclass(frozen=True, eq=False)
class PartialFile:
    """A file with footer and bitmap, and room for the pages."""

    file: io.BytesIO
    starts: tuple[int, ...]
    """Where in the part's file the bytes for each target begin."""
    targets: tuple[memoryview, ...]
    checks: tuple[tuple[str, tuple[memoryview, ...], list[int], list[int]], ...]
    """Of each column its targets, and the sizes and checksums of the pages in them."""

    def check(self, name: str) -> bytes:
        """The file, if the fetched pages are what was written."""
        self.verify(name)
        return self.file.getvalue()

    def verify(self, name: str) -> None:
        """Raises unless the fetched pages are what was written."""
        for column, views, sizes, checksums in self.checks:
            check(name, column, views, sizes, checksums)
        for view in self.targets:
            view.release()

    def release(self) -> None:
        """Lets the memory of a decoded file be used again."""
        _spare.give(self.file)


def splice(cut: PageSelection, mask_name: str) -> PartialFile:
    """The file of a selection of pages."""
    head, elements, chunks = [b"PAR1"], [], []
    if cut.mask is not None:
        page, chunk, element = _mask(cut, mask_name, 4)
        head.append(page)
        elements.append(element)
        chunks.append(chunk)
    at = sum(map(len, head))
    columns = []
    for column in cut.columns:
        stored = column.chunks[cut.group][0]
        ranges = cut.ranges(stored)
        size = sum(length for _, length in ranges)
        chunks.append(_chunk(stored, cut.rows, at, size))
        elements.append(column.elements)
        columns.append((column.name, ranges, *cut.checksums(stored)))
        at += size
    return _room(b"".join(head), columns, _footer(elements, len(elements), chunks, cut.rows))


def splice_whole(column: StoredColumn, group: int, rows: int) -> PartialFile:
    """The file of one column, nested or not, with all its leaves."""
    at, chunks, columns = 4, [], []
    for stored in column.chunks[group]:
        chunks.append(_chunk(stored, stored.values, at, stored.size))
        columns.append(
            (column.name, [(stored.start, stored.size)], stored.sizes.tolist(), stored.checksums.tolist())
        )
        at += stored.size
    return _room(b"PAR1", columns, _footer([column.elements], column.count, chunks, rows))


def _room(
    head: bytes, columns: Sequence[tuple[str, list[tuple[int, int]], list[int], list[int]]], footer: bytes
) -> PartialFile:
    """A file of `head`, room for the ranges of all columns, and `footer` at its end."""
    size = len(head) + sum(length for _, ranges, _, _ in columns for _, length in ranges) + len(footer)
    file = _spare.take(size)
    file.seek(0)
    file.write(head)
    file.seek(-len(footer), io.SEEK_END)
    file.write(footer)
    view, at = file.getbuffer(), len(head)
    starts, targets, checks = [], [], []
    for name, ranges, sizes, checksums in columns:
        own = []
        for start, length in ranges:
            starts.append(start)
            own.append(view[at : at + length])
            at += length
        targets += own
        checks.append((name, tuple(own), sizes, checksums))
    view.release()
    return PartialFile(file, tuple(starts), tuple(targets), tuple(checks))


class _Spare(threading.local):
    """Used buffers of one thread: fresh memory costs as much as filling it."""

    def __init__(self) -> None:
        self.files: list[io.BytesIO] = []

    def take(self, size: int) -> io.BytesIO:
        """A buffer of at least `size` bytes, with any content."""
        for i, file in enumerate(self.files):
            if file.getbuffer().nbytes >= size:
                return self.files.pop(i)
        file = io.BytesIO()
        file.seek(max(SMALLEST, 1 << (size - 1).bit_length()) - 1)
        file.write(b"\0")
        return file

    def give(self, file: io.BytesIO) -> None:
        """Takes a buffer back.

        If its bytes are still referred to, they stay: Python copies them on the next write.
        """
        self.files.append(file)
        self.files.sort(key=lambda file: file.getbuffer().nbytes)
        while sum(file.getbuffer().nbytes for file in self.files) > SPARE:
            self.files.pop()


_spare = _Spare()
SMALLEST, SPARE = 1 << 16, 128 << 20
"""Bytes of the smallest buffer, and of all buffers of a thread."""


def check(
    name: str,
    column: str,
    pieces: Iterable[bytes | memoryview],
    sizes: Sequence[int],
    checksums: Sequence[int],
) -> None:
    """Raises unless the pages in these pieces are what was written."""
    pages = iter(zip(sizes, checksums, strict=True))
    for piece in pieces:
        view, at = memoryview(piece), 0
        while at < len(view):
            size, checksum = next(pages)
            if crc32(view[at : at + size]) != checksum:
                raise CorruptError(
                    f'{name} is damaged: a page of column "{column}" is not what was written',
                    hint="restore the object from a copy; nothing of it was used",
                )
            at += size
    if next(pages, None) is not None:
        raise CorruptError(f'{name} is damaged: pages of column "{column}" are missing')


def _mask(cut: PageSelection, name: str, at: int) -> tuple[bytes, bytes, bytes]:
    """The bitmap as a page, its chunk and its element: Parquet and numpy use the same order of bits."""
    assert cut.mask is not None
    body = np.packbits(cut.mask, bitorder="little").tobytes()
    values = struct(
        (1, I32, number(cut.rows)), (2, I32, number(_PLAIN)), (3, I32, number(_RLE)), (4, I32, number(_RLE))
    )
    head = struct(
        (1, I32, number(0)),
        (2, I32, number(len(body))),
        (3, I32, number(len(body))),
        (5, STRUCT, values),
    )
    page = head + body
    meta = struct(
        (1, I32, number(_BOOLEAN)),
        (2, LIST, items(I32, [number(_PLAIN)])),
        (3, LIST, items(BINARY, [text(name.encode())])),
        (4, I32, number(_UNCOMPRESSED)),
        (5, I64, number(cut.rows)),
        (6, I64, number(len(page))),
        (7, I64, number(len(page))),
        (9, I64, number(at)),
    )
    element = struct((1, I32, number(_BOOLEAN)), (3, I32, number(0)), (4, BINARY, text(name.encode())))
    return page, struct((2, I64, number(0)), (3, STRUCT, meta)), element


def _chunk(stored: ColumnChunk, values: int, at: int, size: int) -> bytes:
    dictionary = stored.dictionary_size
    fields = [
        (5, I64, number(values)),
        (6, I64, number(int(size * stored.inflation))),
        (7, I64, number(size)),
        (9, I64, number(at + dictionary)),
    ]
    if dictionary:
        fields.append((11, I64, number(at)))
    return b"".join([_META, stored.head, struct(*fields, after=4), b"\0"])


_META = struct((2, I64, number(0)), (3, STRUCT, b""))[:-1]
"""A chunk up to where its metadata begins; a zero ends it."""


def _footer(elements: Sequence[bytes], count: int, chunks: Sequence[bytes], rows: int) -> bytes:
    root = struct((3, I32, number(0)), (4, BINARY, text(b"schema")), (5, I32, number(len(elements))))
    group = struct((1, LIST, items(STRUCT, chunks)), (2, I64, number(0)), (3, I64, number(rows)))
    footer = struct(
        (1, I32, number(2)),
        (2, LIST, items(STRUCT, [root, *elements], 1 + count)),
        (3, I64, number(rows)),
        (4, LIST, items(STRUCT, [group])),
    )
    return b"".join([footer, len(footer).to_bytes(4, "little"), b"PAR1"])
