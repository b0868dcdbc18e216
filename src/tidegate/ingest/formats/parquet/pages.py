"""Rows of a row group, some at a time, in memory that does not depend on how much a file unpacks to.

    stream = Stream(file, group, ["kind", "note"])
    stream.at(1000, 500)            columns of the rows 1000 to 1499; only forwards
    row_bytes(table)                what the texts of each would take, before they are taken out of their dictionary

A row group of a few kB may hold a million rows of a text of 10 kB: a dictionary has it once. So texts that have a dictionary stay
in it until somebody has counted how many rows fit into memory. A page is unpacked as a whole: `check_pages` looks at what the
headers say of their sizes before anything is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.errors import CorruptError
from tidegate.ingest.limits import limits
from tidegate.shard.thrift import read_struct

ROWS = 131_072
"""Rows that are decoded together."""
NESTED_ROWS = 4096
"""The same where there are lists or records, whose sizes nothing tells beforehand."""
BYTES = 64 << 20
"""And bytes of text."""
_LONG = 1024
"""Bytes of a text of which `ROWS` are not too much."""
_LITTLE = 4 << 20
"""Bytes of a column up to which its pages are always looked at: what unpacks to a thousand times as much is small."""


def opened_as_dictionaries(opened: BinaryIO, found: pq.ParquetFile, names: Sequence[str]) -> pq.ParquetFile:
    """The same file, of whose columns those stay in their dictionaries that hold long texts; of short ones it would be slower."""
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
        if chunk.path_in_schema in plain and chunk.has_dictionary_page and _has_long(opened, chunk)
    }
    return found if not coded else pq.ParquetFile(opened, metadata=metadata, read_dictionary=sorted(coded))


def _has_long(opened: BinaryIO, chunk: Any) -> bool:
    """Whether a text of a dictionary is long, or nobody can tell."""
    begin, end = chunk.dictionary_page_offset, chunk.data_page_offset
    if not begin or not 0 < end - begin <= limits().block:
        return True
    opened.seek(begin)
    data = opened.read(end - begin)
    try:
        header, at = read_struct(data, 0)
        if header[2] <= _LONG:
            return False
        if header[2] > limits().block:
            return True
        page = data[at : at + header[3]]
        if chunk.compression != "UNCOMPRESSED":
            codec = pa.Codec(chunk.compression.lower())
            page = codec.decompress(page, decompressed_size=header[2], asbytes=True)
        return _any_long(page)
    except (IndexError, KeyError, ValueError, TypeError, OSError, pa.ArrowException):
        return True


def _any_long(page: bytes) -> bool:
    """Texts of a dictionary: of each its length, in four bytes, before it."""
    at = 0
    while at + 4 <= len(page):
        size = int.from_bytes(page[at : at + 4], "little")
        if size > _LONG:
            return True
        at += 4 + size
    return False


def check_pages(opened: BinaryIO, file: pq.ParquetFile, group: int, names: Sequence[str], name: str) -> None:
    """Raises if a page of these columns is too large when it is unpacked."""
    row_group = file.metadata.row_group(group)
    for place in range(row_group.num_columns):
        chunk = row_group.column(place)
        if chunk.path_in_schema.partition(".")[0] not in names:
            continue
        if chunk.total_compressed_size <= _LITTLE or chunk.total_uncompressed_size > limits().block:
            largest = max(_page_sizes(opened, chunk), default=0)
            if largest > limits().block:
                page = limits().too_large(
                    f"a page of column {chunk.path_in_schema} unpacks to {largest:,} bytes, which"
                )
                raise CorruptError(f'the file "{name}" is not read any further: {page}')


def _page_sizes(opened: BinaryIO, chunk: Any) -> Iterator[int]:
    """What the header of each page says that it unpacks to."""
    begin = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        begin = min(begin, chunk.dictionary_page_offset)
    opened.seek(begin)
    data, at = opened.read(chunk.total_compressed_size), 0
    try:
        while at < len(data):
            header, at = read_struct(data, at)
            yield header[2]
            at += max(header[3], 0)
    except (IndexError, KeyError, ValueError):
        return  # damaged: whoever reads it says so


class Stream:
    """Some columns of a row group."""

    def __init__(self, file: pq.ParquetFile, group: int, names: Sequence[str]) -> None:
        self._rows = NESTED_ROWS if _nested(file, names) else ROWS
        self._batches = file.iter_batches(
            self._rows, row_groups=[group], columns=list(names), use_threads=False
        )
        self._held: pa.Table | None = None
        self._start = 0

    def at(self, start: int, count: int) -> pa.Table:
        """The rows from there on."""
        while self._held is None or self._start + len(self._held) < start + count:
            batch = pa.Table.from_batches([next(self._batches)])
            if self._held is not None:
                begin = max(start - self._start, 0)
                kept = self._held.slice(begin)
                self._start += min(begin, len(self._held))
                batch = pa.concat_tables([kept, batch]) if len(kept) else batch
            self._held = batch
        return self._held.slice(start - self._start, count)


def rows_at_once(file: pq.ParquetFile, names: Sequence[str]) -> int:
    """How many rows are read together."""
    return NESTED_ROWS if _nested(file, names) else ROWS


def _nested(file: pq.ParquetFile, names: Sequence[str]) -> bool:
    schema = file.schema_arrow
    return any(name in schema.names and pa.types.is_nested(schema.field(name).type) for name in names)


def row_bytes(table: pa.Table) -> np.ndarray:
    """The bytes of the texts of each row, without taking them out of their dictionaries."""
    total = np.zeros(len(table), np.int64)
    for column in table.columns:
        parts = [_lengths(chunk) for chunk in column.chunks]
        if parts and parts[0] is not None:
            total += np.concatenate([part for part in parts if part is not None])
    return total


def _lengths(values: pa.Array) -> np.ndarray | None:
    if pa.types.is_dictionary(values.type):
        found = pc.binary_length(values.dictionary).take(values.indices)
    elif pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        found = pc.binary_length(values)
    else:
        return None
    lengths: np.ndarray = pc.fill_null(found, 0).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)


def fitting(sizes: np.ndarray) -> int:
    """How many rows, from the first on, can be taken out together; one at least."""
    return max(1, int(np.searchsorted(np.cumsum(sizes), BYTES, side="right")))
