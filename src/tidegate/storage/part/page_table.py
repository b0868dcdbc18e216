"""The table of pages of a part: where each page is in the file, and its checksum.

Parquet's own page index says where pages are, but no reader for Python exposes it. So when a part is written, its footer is parsed
once (`thrift.py`), and the table is put in a block of its own between the last page and the footer, where other readers never look:

    PAR1 │ pages of all columns │ Parquet's page index │ our table of pages, its length, TGP1 │ footer, its length, PAR1
                                                       └──────────────── the tail ────────────────────────────────┘

The state has the length and digest of the tail (`Part.tail`, `Part.tail_digest`), so one read fetches it, and from there on every
byte is covered: the digest covers the table, and the table's checksum each page with its header. Small files have no table: they
are read whole, and checked by their own digest.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.errors import CorruptError
from tidegate.storage.part import thrift

MAGIC = b"TGP1"
MIN_TABLE_BYTES = 1 << 16
"""Smaller files are read whole: a table of their pages would cost more than it saves."""


@dataclass(frozen=True, eq=False)
class ColumnChunk:
    """A leaf of a column in one row group.

    The dictionary page, if there is one, is the first of `sizes` and has no rows.
    """

    path: tuple[str, ...]
    type: int
    encodings: tuple[int, ...]
    codec: int
    values: int
    inflation: float
    """Bytes after decompression for each byte before."""
    start: int
    dictionary: bool
    sizes: np.ndarray
    rows: np.ndarray
    checksums: np.ndarray

    @cached_property
    def offsets(self) -> np.ndarray:
        """Where each page begins in the file, and where the last ends."""
        return self.start + np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)])

    @cached_property
    def starts(self) -> np.ndarray:
        """The first row of each data page, and the number of rows."""
        return np.concatenate([[0], np.cumsum(self.rows[int(self.dictionary) :], dtype=np.int64)])

    @cached_property
    def cut(self) -> bytes:
        """Where its pages begin and end: equal for chunks whose pages hold the same rows."""
        return self.starts.tobytes()

    @cached_property
    def size(self) -> int:
        """Bytes in the file."""
        return int(self.offsets[-1]) - self.start

    @cached_property
    def dictionary_size(self) -> int:
        """Bytes of the dictionary page, 0 if there is none."""
        return int(self.sizes[0]) if self.dictionary else 0

    @cached_property
    def head(self) -> bytes:
        """The fields of a footer that do not depend on the pages: type, encodings, path and codec."""
        encodings = [thrift.number(encoding) for encoding in self.encodings]
        path = [thrift.text(step.encode()) for step in self.path]
        fields = (
            (1, thrift.I32, thrift.number(self.type)),
            (2, thrift.LIST, thrift.items(thrift.I32, encodings)),
            (3, thrift.LIST, thrift.items(thrift.BINARY, path)),
            (4, thrift.I32, thrift.number(self.codec)),
        )
        return thrift.struct(*fields)[:-1]


@dataclass(frozen=True, eq=False)
class StoredColumn:
    """A column of the file: its elements in the footer, and its chunks by row group and leaf."""

    name: str
    id: int | None
    """As in the schema; None for `_time`, `_diff`, `_pos`."""
    elements: bytes
    count: int
    chunks: tuple[tuple[ColumnChunk, ...], ...]

    @property
    def flat(self) -> bool:
        """Whether each row has one value, so that pages can be selected by rows."""
        return self.count == 1


@dataclass(frozen=True, eq=False)
class PageTable:
    """All columns of a part's file."""

    groups: tuple[int, ...]
    """Rows of each row group."""
    columns: tuple[StoredColumn, ...]

    @cached_property
    def by_id(self) -> dict[int, StoredColumn]:
        """The user's columns."""
        return {column.id: column for column in self.columns if column.id is not None}

    @cached_property
    def by_name(self) -> dict[str, StoredColumn]:
        """All columns."""
        return {column.name: column for column in self.columns}


def with_table(data: pa.Buffer | bytes) -> bytes:
    """A Parquet file with the table of its pages; a small file is returned unchanged."""
    view = memoryview(data)
    if len(view) < MIN_TABLE_BYTES:
        return bytes(view)
    end = len(view) - 8 - int.from_bytes(view[-8:-4], "little")
    block = _encode(view, bytes(view[end:-8]))
    return b"".join([view[:end], block, len(block).to_bytes(4, "little"), MAGIC, view[end:]])


def tail_size(data: bytes) -> int:
    """The bytes of the tail of a file that `with_table` made; 0 if it has no table."""
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    if len(data) < MIN_TABLE_BYTES or data[end - 4 : end] != MAGIC:
        return 0
    return len(data) - (end - 8 - int.from_bytes(data[end - 8 : end - 4], "little"))


def read_table(name: str, tail: bytes) -> PageTable:
    """The table in the tail of a part's file."""
    size = len(tail) - 8 - int.from_bytes(tail[-8:-4], "little") - 8
    try:
        return _decode(tail[:size])
    except (ValueError, KeyError, IndexError, pa.ArrowException) as error:
        raise CorruptError(f"the table of pages of {name} cannot be read: {error}") from None


def _encode(file: memoryview, footer: bytes) -> bytes:
    elements, groups = _footer(footer)
    columns: list[dict[str, Any]] = []
    pages: list[np.ndarray] = []
    leaf = 0
    for name, id_, raw, count, leaves in _columns(elements):
        chunks = []
        for group in groups:
            row: list[dict[str, Any]] = []
            for at in range(leaf, leaf + leaves):
                description, table = _chunk(file, group, at)
                row.append(description)
                pages.append(table)
            chunks.append(row)
        leaf += leaves
        columns.append(
            {
                "name": name,
                "id": id_,
                "elements": base64.b64encode(raw).decode(),
                "count": count,
                "chunks": chunks,
            }
        )
    head = json.dumps({"groups": [group[3] for group in groups], "columns": columns}).encode()
    body = np.concatenate(pages, axis=1).astype("<u4").tobytes()
    plain = len(head).to_bytes(4, "little") + head + body
    packed: bytes = pa.Codec("zstd").compress(plain, asbytes=True)
    return len(plain).to_bytes(8, "little") + packed


def _footer(footer: bytes) -> tuple[list[tuple[dict[int, Any], bytes]], list[dict[int, Any]]]:
    """The elements of the schema, each with its bytes, and the row groups."""
    elements: list[tuple[dict[int, Any], bytes]] = []
    at, field = 0, 0
    while True:
        field, kind, at = thrift.read_field(footer, at, field)
        if field == 2:
            count, _, at = thrift.read_list(footer, at)
            for _ in range(count):
                element, end = thrift.read_struct(footer, at)
                elements.append((element, footer[at:end]))
                at = end
        elif field == 4 or not kind:
            break
        else:
            _, at = thrift.read_value(footer, at, kind)
    count, _, at = thrift.read_list(footer, at)
    groups = []
    for _ in range(count):
        group, at = thrift.read_struct(footer, at)
        groups.append(group)
    return elements, groups


def _columns(elements: list[tuple[dict[int, Any], bytes]]) -> list[tuple[str, int | None, bytes, int, int]]:
    """Top-level columns: name, id, the bytes of their elements, how many elements, and how many leaves."""
    found = []
    at = 1
    while at < len(elements):
        begin, open_, leaves = at, 1, 0
        while open_:
            children = elements[at][0].get(5, 0)
            leaves += not children
            open_ += children - 1
            at += 1
        first = elements[begin][0]
        id_ = None if first.get(9) is None else first[9] - 1
        raw = b"".join(data for _, data in elements[begin:at])
        found.append((first[4].decode(), id_, raw, at - begin, leaves))
    return found


def _chunk(file: memoryview, group: dict[int, Any], leaf: int) -> tuple[dict[str, Any], np.ndarray]:
    """One leaf in one row group: its description, and the sizes, rows and checksums of its pages."""
    column = group[1][leaf]
    meta = column[3]
    index, _ = thrift.read_struct(bytes(file[column[4] : column[4] + column[5]]), 0)
    offsets = [page[1] for page in index[1]]
    sizes = [page[2] for page in index[1]]
    starts = [page.get(3, 0) for page in index[1]]
    rows = np.diff([*starts, group[3]]).tolist()
    dictionary = meta.get(11)
    if dictionary is not None:
        offsets, sizes, rows = [dictionary, *offsets], [offsets[0] - dictionary, *sizes], [0, *rows]
    ends = [offset + size for offset, size in zip(offsets, sizes, strict=True)]
    if ends[:-1] != offsets[1:]:
        raise AssertionError("pages of a chunk stand one behind the other")
    sums = [zlib.crc32(file[begin:end]) for begin, end in zip(offsets, ends, strict=True)]
    head = {
        "path": [step.decode() for step in meta[3]],
        "type": meta[1],
        "encodings": meta[2],
        "codec": meta[4],
        "values": meta[5],
        "inflation": meta[6] / max(1, meta[7]),
        "start": offsets[0],
        "dictionary": dictionary is not None,
        "pages": len(sizes),
    }
    return head, np.array([sizes, rows, sums], np.int64)


def _decode(block: bytes) -> PageTable:
    plain = pa.Codec("zstd").decompress(block[8:], int.from_bytes(block[:8], "little"), asbytes=True)
    size = 4 + int.from_bytes(plain[:4], "little")
    head = json.loads(plain[4:size])
    pages = np.frombuffer(plain, "<u4", offset=size).reshape(3, -1)
    at = 0

    def chunk(given: dict[str, Any]) -> ColumnChunk:
        nonlocal at
        begin, at = at, at + given["pages"]
        return ColumnChunk(
            tuple(given["path"]),
            given["type"],
            tuple(given["encodings"]),
            given["codec"],
            given["values"],
            given["inflation"],
            given["start"],
            given["dictionary"],
            *pages[:, begin:at],
        )

    columns = tuple(
        StoredColumn(
            given["name"],
            given["id"],
            base64.b64decode(given["elements"]),
            given["count"],
            tuple(tuple(map(chunk, row)) for row in given["chunks"]),
        )
        for given in head["columns"]
    )
    return PageTable(tuple(head["groups"]), columns)
