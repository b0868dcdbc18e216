"""Reads the rows of a row group in chunks, in memory that does not depend on the decompressed size.

    stream = ColumnStream(file, group, ["kind", "note"])
    stream.at(1000, 500)            the columns of rows 1000 to 1499; only moves forward
    row_bytes(table)                the size of the texts of each row, before they are decoded from their dictionary

A row group of a few kB may hold a million rows of a text of 10 kB, which is stored once, in a dictionary. So texts stay in their
dictionary until the number of rows that fit into memory is known. A page is decompressed as a whole: `check_pages` first checks the
sizes in the page headers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.errors import CorruptError
from tidegate.ingest.formats.limits import current_limits
from tidegate.storage.part import thrift

ROWS = 131_072
"""The number of rows that are decoded together."""
NESTED_ROWS = 4096
"""The same if there are lists or records, whose sizes are not known in advance."""
BYTES = 64 << 20
"""The bytes of text that are decoded together."""
_LONG_TEXT_BYTES = 1024
"""The length of a text above which `ROWS` texts may not fit into memory."""
_SMALL_COLUMN_BYTES = 4 << 20
"""The pages of columns up to this size are always checked: data that expands a thousandfold is small."""


def reopen_with_dictionaries(opened: BinaryIO, found: pq.ParquetFile, names: Sequence[str]) -> pq.ParquetFile:
    """Reopens a file to read columns of long texts as dictionaries; for short texts this is slower."""
    schema, metadata = found.schema_arrow, found.metadata
    plain = {
        field.name
        for field in schema
        if field.name in names and (pa.types.is_string(field.type) or pa.types.is_binary(field.type))
    }
    coded = {
        chunk.path_in_schema
        for group in range(metadata.num_row_groups)
        for chunk in (metadata.row_group(group).column(i) for i in range(metadata.num_columns))
        if chunk.path_in_schema in plain and chunk.has_dictionary_page and _may_have_long_text(opened, chunk)
    }
    return found if not coded else pq.ParquetFile(opened, metadata=metadata, read_dictionary=sorted(coded))


def _may_have_long_text(opened: BinaryIO, chunk: Any) -> bool:
    """Whether a dictionary contains, or may contain, a long text."""
    begin, end = chunk.dictionary_page_offset, chunk.data_page_offset
    if not begin or not 0 < end - begin <= current_limits().block:
        return True
    opened.seek(begin)
    data = opened.read(end - begin)
    try:
        header, at = thrift.read_struct(data, 0)
        if header[2] <= _LONG_TEXT_BYTES:
            return False
        if header[2] > current_limits().block:
            return True
        page = data[at : at + header[3]]
        if chunk.compression != "UNCOMPRESSED":
            codec = pa.Codec(chunk.compression.lower())
            page = codec.decompress(page, decompressed_size=header[2], asbytes=True)
        return _page_has_long_text(page)
    except (IndexError, KeyError, ValueError, TypeError, OSError, pa.ArrowException):
        return True


def _page_has_long_text(page: bytes) -> bool:
    """Whether a dictionary page has a long text; each text follows its length in four bytes."""
    at = 0
    while at + 4 <= len(page):
        size = int.from_bytes(page[at : at + 4], "little")
        if size > _LONG_TEXT_BYTES:
            return True
        at += 4 + size
    return False


def check_pages(opened: BinaryIO, file: pq.ParquetFile, group: int, names: Sequence[str], name: str) -> None:
    """Raises if a page of these columns is too large after decompression."""
    row_group = file.metadata.row_group(group)
    for place in range(row_group.num_columns):
        chunk = row_group.column(place)
        if chunk.path_in_schema.partition(".")[0] not in names:
            continue
        if (
            chunk.total_compressed_size <= _SMALL_COLUMN_BYTES
            or chunk.total_uncompressed_size > current_limits().block
        ):
            largest = max(_page_sizes(opened, chunk), default=0)
            if largest > current_limits().block:
                page = current_limits().too_large(
                    f"a page of column {chunk.path_in_schema} unpacks to {largest:,} bytes, which"
                )
                raise CorruptError(f'the file "{name}" is not read any further: {page}')


def _page_sizes(opened: BinaryIO, chunk: Any) -> Iterator[int]:
    """Yields the decompressed size of each page, from its header."""
    begin = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        begin = min(begin, chunk.dictionary_page_offset)
    opened.seek(begin)
    data, at = opened.read(chunk.total_compressed_size), 0
    try:
        while at < len(data):
            header, at = thrift.read_struct(data, at)
            yield header[2]
            at += max(header[3], 0)
    except (IndexError, KeyError, ValueError):
        return  # damaged: reading the page reports it


class ColumnStream:
    """Reads some columns of a row group, forward only."""

    def __init__(self, file: pq.ParquetFile, group: int, names: Sequence[str]) -> None:
        self._rows = NESTED_ROWS if _has_nested(file, names) else ROWS
        self._batches = file.iter_batches(
            self._rows, row_groups=[group], columns=list(names), use_threads=False
        )
        self._held: pa.Table | None = None
        self._start = 0

    def at(self, start: int, count: int) -> pa.Table:
        """Returns `count` rows from `start` on."""
        while self._held is None or self._start + len(self._held) < start + count:
            batch = pa.Table.from_batches([next(self._batches)])
            if self._held is not None:
                begin = max(start - self._start, 0)
                rest = self._held.slice(begin)
                self._start += min(begin, len(self._held))
                batch = pa.concat_tables([rest, batch]) if len(rest) else batch
            self._held = batch
        return self._held.slice(start - self._start, count)


def rows_at_once(file: pq.ParquetFile, names: Sequence[str]) -> int:
    """The number of rows to read together."""
    return NESTED_ROWS if _has_nested(file, names) else ROWS


def _has_nested(file: pq.ParquetFile, names: Sequence[str]) -> bool:
    schema = file.schema_arrow
    return any(name in schema.names and pa.types.is_nested(schema.field(name).type) for name in names)


def row_bytes(table: pa.Table) -> np.ndarray:
    """The size of the texts of each row, without decoding them from their dictionaries."""
    total = np.zeros(len(table), np.int64)
    for column in table.columns:
        parts = [_lengths(chunk) for chunk in column.chunks]
        if parts and parts[0] is not None:
            total += np.concatenate([part for part in parts if part is not None])
    return total


def _lengths(values: pa.Array) -> np.ndarray | None:
    if pa.types.is_dictionary(values.type):
        sizes = pc.binary_length(values.dictionary).take(values.indices)
    elif pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        sizes = pc.binary_length(values)
    else:
        return None
    lengths: np.ndarray = pc.fill_null(sizes, 0).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)


def count_fitting_rows(sizes: np.ndarray) -> int:
    """How many rows, from the first on, can be decoded together; at least one."""
    return max(1, int(np.searchsorted(np.cumsum(sizes), BYTES, side="right")))
