"""Reads all updates of a part, batch by batch, whatever version of the schema it was written with.

The whole part is fetched and its digest checked before a row of it is used. If many parts are merged at once that would take too
much memory: `ranged` verifies the part in pieces first, and then fetches what each batch needs.

**The state overrides the times in the file.** A part whose `first` and `last` are the same holds that time in all its rows,
whatever `_time` in the file says: an append that lost its race gets a later time without being written again. Only parts that
compaction made from several times need the column.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import CorruptError
from tidegate.storage.blob.retrying import RetryingBlob
from tidegate.storage.part.checksum import verify, verify_pieces
from tidegate.storage.part.encode import field_ids, from_storage
from tidegate.storage.part.merge import Block
from tidegate.storage.part.part import Part
from tidegate.storage.part.schema import HIDDEN_COLUMNS, Schema
from tidegate.text import first_line

PIECE = 8 << 20
"""Bytes of a part that are verified at once."""


def blocks(
    objects: RetryingBlob,
    part: Part,
    schema: Schema,
    wanted: Sequence[int],
    rows: int,
    *,
    ranged: bool = False,
) -> Iterator[Block]:
    """The updates of the part with the wanted columns; those it lacks are NULL, or as they were added."""
    source = (
        _ranged(objects, part) if ranged and part.size > PIECE else pa.BufferReader(whole_file(objects, part))
    )
    types = {column.id: column.type for column in schema.columns}
    try:
        file = pq.ParquetFile(source, page_checksum_verification=True)
        there = field_ids(file.schema_arrow)
        names = [there[id_] for id_ in wanted if id_ in there]
        hidden = ["_diff"] if part.first == part.last else ["_time", "_diff"]
        for batch in file.iter_batches(batch_size=rows, columns=[*names, *hidden]):
            columns = [
                from_storage(batch.column(there[id_]), types[id_])
                if id_ in there
                else schema.lacking(id_, types[id_], len(batch))
                for id_ in wanted
            ]
            yield Block(columns, _times(part, batch), batch.column("_diff").to_numpy())
    except (pa.ArrowException, OSError) as error:
        raise CorruptError(f"{part.name} cannot be read as Parquet: {first_line(error)}") from None


assert HIDDEN_COLUMNS[:2] == ("_time", "_diff")


def _times(part: Part, batch: pa.RecordBatch) -> np.ndarray:
    if part.first == part.last:
        return np.full(len(batch), part.first, np.int64)
    # A time in the file may be later than the last: a repair moved it back.
    times: np.ndarray = np.minimum(batch.column("_time").to_numpy(), part.last)
    return times


def whole_file(objects: RetryingBlob, part: Part) -> bytes:
    """The whole file of a part, as it was written; that of an inline part is in the part itself."""
    return part.data or verify(part.name, objects.get(part.name), part.digest)


def _ranged(objects: RetryingBlob, part: Part) -> Any:
    def fetch(start: int, length: int) -> bytes:
        return objects.get_ranges(part.name, [(start, length)])[0]

    starts = range(0, part.size, PIECE)
    verify_pieces(part.name, (fetch(at, min(PIECE, part.size - at)) for at in starts), part.digest)
    return pa.PythonFile(_Ranges(fetch, part.size), mode="r")


class _Ranges(io.RawIOBase):
    """A file that fetches only what is read."""

    def __init__(self, fetch: Callable[[int, int], bytes], size: int) -> None:
        self._fetch, self._size, self._at = fetch, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        rest = self._size - self._at
        data = self._fetch(self._at, rest if size is None or size < 0 else min(size, rest))
        self._at += len(data)
        return data
