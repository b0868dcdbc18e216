r"""Reads the files of a split: whole files, a range of a large file, or many small files joined.

**Small files of lines** are joined: 1,000 files of 10 lines are decoded as one file of 10,000, because each decoding costs some
milliseconds before the first record. The first line of each file is noted, so every record knows its file and its line in that
file. A last line without a line break gets one, and a byte order mark is dropped, as when a file is read separately. Files for
which joining would change the result (a damaged compressed file, one that ends with `\r`) are read separately.

**Ranges** `(start, end]` of a large file cover it without overlap: a line belongs to the range in which it begins.

    a b c \n d e f g \n h        (0, 5] is "abc\ndefg\n", (5, 10] is "h"

**Damage.** Complete blocks before the damage are read, and one failed record names the file. A file that changes while it is read
is not damaged: reading raises a SourceError, and the batch is planned again.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa

from tidegate.errors import CorruptError, UnsupportedError
from tidegate.expr.model import types
from tidegate.ingest.formats.lines import MARK, decompress
from tidegate.ingest.protocol import (
    DecodedBatch,
    Decoder,
    IncludedColumn,
    ReadRequest,
    RecordChunk,
    UpstreamPosition,
)
from tidegate.ingest.upstreams.files.location import FileLocation, ListedFile, OpenFile

SMALL_FILE_BYTES = 1 << 20
"""The size in bytes up to which a file is joined with others."""
_JOINED_BYTES = 16 << 20
"""Bytes of joined files that are decoded together."""
_SEARCH_BYTES = 64 << 10
"""Bytes that are read at a time to find the end of a line."""
Chunks = Iterator[tuple[int, RecordChunk]]


@dataclass(frozen=True)
class _Origin:
    """Maps decoded lines to the files they come from, which follow each other."""

    files: Sequence[ListedFile]
    starts: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    """The first line of each file."""
    before: int | None = 0
    """The number of lines of the file before the decoded ones; None if they were not counted."""
    byte: int = 0
    """The offset in the file at which the decoded bytes begin."""

    def chunk(self, decoded: DecodedBatch, included: Sequence[IncludedColumn]) -> RecordChunk:
        """A chunk of a decoded batch, with included columns and positions."""
        lines = decoded.lines(np.arange(decoded.count)) if included else np.zeros(0, np.int64)
        which = self._which(lines)
        columns = [self._column(column.what, lines, which) for column in included]
        return RecordChunk(decoded, columns, lambda record: self._position(decoded, record))

    def _which(self, lines: np.ndarray) -> np.ndarray:
        # If several files begin at the same line, all but the last are empty.
        return np.searchsorted(self.starts, lines, side="right") - 1

    def _column(self, what: str, lines: np.ndarray, which: np.ndarray) -> pa.Array:
        match what:
            case "file":
                return pa.array([file.path for file in self.files], types.TEXT.arrow).take(pa.array(which))
            case "timestamp":
                written = np.array([file.written for file in self.files], np.int64)[which]
                return pa.array(written).cast(types.TIMESTAMPTZ.arrow)
            case _:
                return pa.array(lines - self.starts[which] + 1 + (self.before or 0), types.INT8.arrow)

    def _position(self, decoded: DecodedBatch, record: int) -> UpstreamPosition:
        lines = decoded.lines(np.array([record]))
        which = self._which(lines)
        file, line = self.files[int(which[0])], int((lines - self.starts[which])[0]) + 1
        if self.before is None:
            return {"file": file.path, "byte": self.byte, "line": line}
        return {"file": file.path, "line": line + self.before}


def read_files(
    place: FileLocation,
    files: Sequence[ListedFile],
    wanted: Sequence[ReadRequest],
    included: Sequence[IncludedColumn],
    *,
    lines: bool,
) -> Chunks:
    """Reads all records of files, in order; `lines` says whether the format is line-based."""
    for small, group in groupby(files, lambda file: file.size <= SMALL_FILE_BYTES):
        run = list(group)
        if not small:
            for file in run:
                yield from _read_large(place, file, wanted, included)
        elif lines:
            yield from _read_joined(place, run, wanted, included)
        else:
            for file, data in zip(run, place.fetch(run), strict=True):
                yield from _read_separately(file, data, wanted, included)


def _read_large(
    place: FileLocation, file: ListedFile, wanted: Sequence[ReadRequest], included: Sequence[IncludedColumn]
) -> Chunks:
    origin = _Origin([file])
    for number, request in enumerate(wanted):
        with place.open(file) as opened:
            chunks = _decode_file(request.decode, cast("BinaryIO", opened), file, included, origin)
            yield from ((number, chunk) for chunk in chunks)
            opened.raw.check()


def _read_separately(
    file: ListedFile, data: bytes, wanted: Sequence[ReadRequest], included: Sequence[IncludedColumn]
) -> Chunks:
    origin = _Origin([file])
    for number, request in enumerate(wanted):
        for chunk in _decode_file(request.decode, io.BytesIO(data), file, included, origin):
            yield number, chunk


def _decode_file(
    decode: Decoder, opened: BinaryIO, file: ListedFile, included: Sequence[IncludedColumn], origin: _Origin
) -> Iterator[RecordChunk]:
    """Decodes a file; if it is damaged, the last chunk has one failed record that says so."""
    try:
        for decoded in decode.file(opened, file.path):
            yield origin.chunk(decoded, included)
    except (CorruptError, UnsupportedError) as error:
        yield _damaged_chunk(decode, file, error.message, included)


def _damaged_chunk(
    decode: Decoder, file: ListedFile, message: str, included: Sequence[IncludedColumn]
) -> RecordChunk:
    nothing = [pa.array([], type_.arrow) for _, type_ in decode.columns]
    decoded = DecodedBatch(nothing, np.zeros(0, np.int64), [(0, message)], 1, lambda _: b"")
    chunk = _Origin([file]).chunk(decoded, included)
    columns = [
        pa.nulls(1, types.INT8.arrow) if include.what == "line" else column
        for include, column in zip(included, chunk.included, strict=True)
    ]
    return RecordChunk(decoded, columns, lambda _: {"file": file.path})


# ---------------------------------------------------------------- small files


def _read_joined(
    place: FileLocation,
    files: Sequence[ListedFile],
    wanted: Sequence[ReadRequest],
    included: Sequence[IncludedColumn],
) -> Chunks:
    pending: list[tuple[ListedFile, bytes]] = []
    size = 0
    for file, raw in zip(files, place.fetch(files), strict=True):
        data = _complete_lines(file, raw)
        if data is None or size + len(data) > _JOINED_BYTES:
            yield from _decode_joined(pending, wanted, included)
            pending, size = [], 0
        if data is None:
            yield from _read_separately(file, raw, wanted, included)
        else:
            pending.append((file, data))
            size += len(data)
    yield from _decode_joined(pending, wanted, included)


def _complete_lines(file: ListedFile, raw: bytes) -> bytes | None:
    """A file's lines, each with a line break; None if the file has to be read separately."""
    data = raw
    if is_compressed(file.path):
        opened = decompress(io.BytesIO(raw), file.path)
        try:
            data = b"".join(_read_up_to(opened, _JOINED_BYTES + 1))
        except (EOFError, OSError, zlib.error):
            return None
        if len(data) > _JOINED_BYTES:
            return None
    data = data.removeprefix(MARK)
    if not data or data.endswith(b"\n"):
        return data
    return None if data.endswith(b"\r") else data + b"\n"


def _read_up_to(opened: BinaryIO, most: int) -> Iterator[bytes]:
    while most > 0 and (data := opened.read(most)):
        yield data
        most -= len(data)


def is_compressed(name: str) -> bool:
    """Whether a file is compressed, and so can only be read from its beginning."""
    return name.endswith((".gz", ".gzip", ".zst", ".zstd"))


def _decode_joined(
    files: Sequence[tuple[ListedFile, bytes]],
    wanted: Sequence[ReadRequest],
    included: Sequence[IncludedColumn],
) -> Chunks:
    if not files:
        return
    counts = [data.count(b"\n") for _, data in files]
    origin = _Origin([file for file, _ in files], np.cumsum([0, *counts[:-1]]))
    # Decoding drops one mark; a second one belongs to the first line.
    data = MARK + b"".join(data for _, data in files)
    for number, request in enumerate(wanted):
        for decoded in request.decode.file(io.BytesIO(data), "lines"):
            yield number, origin.chunk(decoded, included)


# ---------------------------------------------------------------- ranges of large files


def read_range(
    place: FileLocation,
    file: ListedFile,
    between: tuple[int, int],
    wanted: Sequence[ReadRequest],
    included: Sequence[IncludedColumn],
) -> Chunks:
    """Reads the lines of a file that begin in a half-open range of bytes."""
    for number, request in enumerate(wanted):
        with place.open(file) as opened:
            begin, end = (_line_from(opened, at) for at in between)
            counted = not begin or any(column.what == "line" for column in included)
            origin = _Origin(
                [file], before=_count_line_breaks(opened, begin) if counted else None, byte=begin
            )
            lines = cast("BinaryIO", io.BufferedReader(_FileRange(opened, begin, end)))
            for chunk in _decode_file(request.decode, lines, file, included, origin) if begin < end else ():
                yield number, chunk
            opened.raw.check()


def _line_from(opened: OpenFile, at: int) -> int:
    """The offset of the first line that begins at or after an offset."""
    if at == 0:
        return 0
    for start, data in _read_pieces(opened, at - 1, opened.raw.file.size, _SEARCH_BYTES):
        newline = data.find(b"\n")
        if newline >= 0:
            return start + newline + 1
    return opened.raw.file.size


def _count_line_breaks(opened: OpenFile, end: int) -> int:
    return sum(data.count(b"\n") for _, data in _read_pieces(opened, 0, end, _JOINED_BYTES))


def _read_pieces(opened: OpenFile, start: int, end: int, size: int) -> Iterator[tuple[int, bytes]]:
    opened.seek(start)
    while start < end:
        data = opened.read(min(size, end - start))
        yield start, data
        start += len(data)


class _FileRange(io.RawIOBase):
    """A range of a file, with a byte order mark in front: decoding lines drops exactly one mark."""

    def __init__(self, opened: OpenFile, begin: int, end: int) -> None:
        self._opened, self._left = opened, end - begin
        self._head = MARK if begin else b""
        opened.seek(begin)

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads into a buffer and returns the number of bytes."""
        view = memoryview(buffer).cast("B")
        if self._head:
            taken, self._head = self._head[: len(view)], self._head[len(view) :]
            view[: len(taken)] = taken
            return len(taken)
        done = self._opened.readinto(view[: self._left])
        self._left -= done
        return done
