"""Estimates the size of a file's records, for batches that are limited by rows.

| file | estimated from |
|---|---|
| Parquet | its footer |
| Avro | its first block |
| anything else | the lines in its first MiB, decompressed |

A file that allows no estimate, or is damaged, counts as one with records of 100 bytes: reading it reports the damage later.
"""

from __future__ import annotations

import zlib
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.ingest.formats.avro import container as avro_container
from tidegate.ingest.formats.lines import decompress
from tidegate.ingest.upstreams.files.location import FileLocation, ListedFile, OpenFile

_SAMPLE_BYTES = 1 << 20
_DEFAULT_RECORD_BYTES = 100.0


def record_size(place: FileLocation, file: ListedFile) -> float:
    """The approximate number of stored bytes per record of a file."""
    with place.open(file) as opened:
        start = opened.read(4)
        opened.seek(0)
        try:
            match start:
                case b"PAR1":
                    return file.size / max(1, int(pq.ParquetFile(opened).metadata.num_rows))
                case b"Obj\x01":
                    return _avro_record_size(opened)
                case _:
                    return _line_size(opened, file)
        except (OSError, EOFError, ValueError, zlib.error, pa.ArrowException, ImportError):
            return _DEFAULT_RECORD_BYTES


def _avro_record_size(opened: OpenFile) -> float:
    _, blocks = avro_container.open_container(cast("BinaryIO", opened))
    block = next(blocks, None)
    return _DEFAULT_RECORD_BYTES if block is None else len(block.data) / max(1, block.count)


def _line_size(opened: OpenFile, file: ListedFile) -> float:
    """Stored bytes per line in the part that was read: decompression reads in larger pieces."""
    data = decompress(cast("BinaryIO", opened), file.path).read(_SAMPLE_BYTES)
    return min(opened.tell(), file.size) / max(1, data.count(b"\n"))
