"""How large the records of a file are, about: a batch that is limited by rows must stop before it has read them.

| file | tells it by |
|---|---|
| Parquet | its footer |
| Avro | its first block |
| anything else | lines of its first MiB, unpacked |

A file that tells nothing, or is damaged, counts as records of 100 bytes: whoever reads it will see.
"""

from __future__ import annotations

import zlib
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.ingest.decode import avro_container
from tidegate.ingest.decode.lines import unpacked
from tidegate.ingest.files_place import File, Opened, Place

_HEAD = 1 << 20
_UNKNOWN = 100.0


def record_size(place: Place, file: File) -> float:
    """Bytes of the file, as it is stored, for each of its records, about."""
    with place.open(file) as opened:
        start = opened.read(4)
        opened.seek(0)
        try:
            match start:
                case b"PAR1":
                    return file.size / max(1, int(pq.ParquetFile(opened).metadata.num_rows))
                case b"Obj\x01":
                    return _avro(opened)
                case _:
                    return _lines(opened, file)
        except (OSError, EOFError, ValueError, zlib.error, pa.ArrowException, ImportError):
            return _UNKNOWN


def _avro(opened: Opened) -> float:
    _, blocks = avro_container.opened(cast("BinaryIO", opened))
    block = next(blocks, None)
    return _UNKNOWN if block is None else len(block.data) / max(1, block.count)


def _lines(opened: Opened, file: File) -> float:
    """What has been read of the file by then, for each line in it: packed ones are read in larger pieces."""
    data = unpacked(cast("BinaryIO", opened), file.path).read(_HEAD)
    return min(opened.tell(), file.size) / max(1, data.count(b"\n"))
