r"""Reading files in a task: each as a whole, a stretch of a large one, or many small ones as if they were one.

**Small files of lines** are joined: 1,000 files of 10 lines are decoded as one file of 10,000, as decoding anything costs some
milliseconds before it sees a record. Of each it is known at which line it begins, so every record knows its file and its line in
it. A last line without its break gets one, and a mark of byte order is dropped, as would be if the file were read alone. What would
not be the same (a packed file that is damaged, one that ends with `\r`) is read alone.

**Stretches** `(start, end]` of a large file tile it: a line belongs to the stretch in which it begins.

    a b c \n d e f g \n h        (0, 5] is "abc\ndefg\n", (5, 10] is "h"

**Damage.** Whole blocks before it are read, and one failed record names the file. A file that changes while it is read
is no damage: a SourceError, and the batch is planned anew.
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
from tidegate.expr.types import INT8, TEXT, TIMESTAMPTZ
from tidegate.ingest.decode.lines import MARK, unpacked
from tidegate.ingest.files_place import File, Opened, Place
from tidegate.ingest.source import Chunk, Decode, Decoded, Included, Position, Wanted

SMALL = 1 << 20
"""Bytes up to which a file is joined with others."""
_JOINED = 16 << 20
"""Bytes that are decoded together."""
_LOOK = 64 << 10
"""Bytes that are searched for the end of a line."""
Chunks = Iterator[tuple[int, Chunk]]


@dataclass(frozen=True)
class _Origin:
    """Where the lines of what is decoded come from: files one after the other."""

    files: Sequence[File]
    starts: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    """Of each file, its first line."""
    before: int | None = 0
    """Lines of the file before those that are decoded; None if nobody counted them."""
    byte: int = 0
    """Where what is decoded begins in its file."""

    def chunk(self, decoded: Decoded, included: Sequence[Included]) -> Chunk:
        """A batch of records with their place."""
        lines = decoded.lines(np.arange(decoded.count)) if included else np.zeros(0, np.int64)
        which = self._which(lines)
        columns = [self._column(one.what, lines, which) for one in included]
        return Chunk(decoded, columns, lambda record: self._position(decoded, record))

    def _which(self, lines: np.ndarray) -> np.ndarray:
        # Of files that begin at the same line all but the last are empty.
        return np.searchsorted(self.starts, lines, side="right") - 1

    def _column(self, what: str, lines: np.ndarray, which: np.ndarray) -> pa.Array:
        match what:
            case "file":
                return pa.array([file.path for file in self.files], TEXT.arrow).take(pa.array(which))
            case "timestamp":
                written = np.array([file.written for file in self.files], np.int64)[which]
                return pa.array(written).cast(TIMESTAMPTZ.arrow)
            case _:
                return pa.array(lines - self.starts[which] + 1 + (self.before or 0), INT8.arrow)

    def _position(self, decoded: Decoded, record: int) -> Position:
        lines = decoded.lines(np.array([record]))
        which = self._which(lines)
        file, line = self.files[int(which[0])], int((lines - self.starts[which])[0]) + 1
        if self.before is None:
            return {"file": file.path, "byte": self.byte, "line": line}
        return {"file": file.path, "line": line + self.before}


def whole(
    place: Place,
    files: Sequence[File],
    wanted: Sequence[Wanted],
    included: Sequence[Included],
    *,
    lines: bool,
) -> Chunks:
    """All records of some files, in order; `lines`: whether these are formats of lines."""
    for small, some in groupby(files, lambda file: file.size <= SMALL):
        run = list(some)
        if not small:
            for file in run:
                yield from _large(place, file, wanted, included)
        elif lines:
            yield from _joined(place, run, wanted, included)
        else:
            for file, data in zip(run, place.fetch(run), strict=True):
                yield from _alone(file, data, wanted, included)


def _large(place: Place, file: File, wanted: Sequence[Wanted], included: Sequence[Included]) -> Chunks:
    origin = _Origin([file])
    for number, one in enumerate(wanted):
        with place.open(file) as opened:
            found = _decoded(one.decode, cast("BinaryIO", opened), file, included, origin)
            yield from ((number, chunk) for chunk in found)
            opened.raw.check()


def _alone(file: File, data: bytes, wanted: Sequence[Wanted], included: Sequence[Included]) -> Chunks:
    origin = _Origin([file])
    for number, one in enumerate(wanted):
        for chunk in _decoded(one.decode, io.BytesIO(data), file, included, origin):
            yield number, chunk


def _decoded(
    decode: Decode, opened: BinaryIO, file: File, included: Sequence[Included], origin: _Origin
) -> Iterator[Chunk]:
    """What a file gives; where it is damaged, last a record that says so."""
    try:
        for decoded in decode.file(opened, file.path):
            yield origin.chunk(decoded, included)
    except (CorruptError, UnsupportedError) as error:
        yield _damaged(decode, file, error.message, included)


def _damaged(decode: Decode, file: File, message: str, included: Sequence[Included]) -> Chunk:
    nothing = [pa.array([], type_.arrow) for _, type_ in decode.columns]
    decoded = Decoded(nothing, np.zeros(0, np.int64), [(0, message)], 1, lambda _: b"")
    chunk = _Origin([file]).chunk(decoded, included)
    columns = [
        pa.nulls(1, INT8.arrow) if one.what == "line" else column
        for one, column in zip(included, chunk.included, strict=True)
    ]
    return Chunk(decoded, columns, lambda _: {"file": file.path})


# ---------------------------------------------------------------- many small ones


def _joined(
    place: Place, files: Sequence[File], wanted: Sequence[Wanted], included: Sequence[Included]
) -> Chunks:
    some: list[tuple[File, bytes]] = []
    size = 0
    for file, raw in zip(files, place.fetch(files), strict=True):
        data = _lines(file, raw)
        if data is None or size + len(data) > _JOINED:
            yield from _together(some, wanted, included)
            some, size = [], 0
        if data is None:
            yield from _alone(file, raw, wanted, included)
        else:
            some.append((file, data))
            size += len(data)
    yield from _together(some, wanted, included)


def _lines(file: File, raw: bytes) -> bytes | None:
    """The bytes as lines that each have a break; None if the file had better be read alone."""
    data = raw
    if packed(file.path):
        opened = unpacked(io.BytesIO(raw), file.path)
        try:
            data = b"".join(_upto(opened, _JOINED + 1))
        except (EOFError, OSError, zlib.error):
            return None
        if len(data) > _JOINED:
            return None
    data = data.removeprefix(MARK)
    if not data or data.endswith(b"\n"):
        return data
    return None if data.endswith(b"\r") else data + b"\n"


def _upto(opened: BinaryIO, most: int) -> Iterator[bytes]:
    while most > 0 and (data := opened.read(most)):
        yield data
        most -= len(data)


def packed(name: str) -> bool:
    """Whether a file must be unpacked from its beginning."""
    return name.endswith((".gz", ".gzip", ".zst", ".zstd"))


def _together(
    some: Sequence[tuple[File, bytes]], wanted: Sequence[Wanted], included: Sequence[Included]
) -> Chunks:
    if not some:
        return
    counts = [data.count(b"\n") for _, data in some]
    origin = _Origin([file for file, _ in some], np.cumsum([0, *counts[:-1]]))
    data = MARK + b"".join(data for _, data in some)  # a second mark is part of the first line
    for number, one in enumerate(wanted):
        for decoded in one.decode.file(io.BytesIO(data), "lines"):
            yield number, origin.chunk(decoded, included)


# ---------------------------------------------------------------- stretches


def stretch(
    place: Place,
    file: File,
    between: tuple[int, int],
    wanted: Sequence[Wanted],
    included: Sequence[Included],
) -> Chunks:
    """The lines of a file that begin between two bytes, the second not with it."""
    for number, one in enumerate(wanted):
        with place.open(file) as opened:
            begin, end = (_line_from(opened, at) for at in between)
            counted = not begin or any(column.what == "line" for column in included)
            origin = _Origin([file], before=_breaks(opened, begin) if counted else None, byte=begin)
            lines = cast("BinaryIO", io.BufferedReader(_Stretch(opened, begin, end)))
            for chunk in _decoded(one.decode, lines, file, included, origin) if begin < end else ():
                yield number, chunk
            opened.raw.check()


def _line_from(opened: Opened, at: int) -> int:
    """Where the first line begins that begins there or later."""
    if at == 0:
        return 0
    for start, data in _pieces(opened, at - 1, opened.raw.file.size, _LOOK):
        found = data.find(b"\n")
        if found >= 0:
            return start + found + 1
    return opened.raw.file.size


def _breaks(opened: Opened, end: int) -> int:
    return sum(data.count(b"\n") for _, data in _pieces(opened, 0, end, _JOINED))


def _pieces(opened: Opened, start: int, end: int, size: int) -> Iterator[tuple[int, bytes]]:
    opened.seek(start)
    while start < end:
        data = opened.read(min(size, end - start))
        yield start, data
        start += len(data)


class _Stretch(io.RawIOBase):
    """Some bytes of a file. A mark is put before them: what decodes lines drops one, and only one."""

    def __init__(self, opened: Opened, begin: int, end: int) -> None:
        self._opened, self._left = opened, end - begin
        self._head = MARK if begin else b""
        opened.seek(begin)

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills a buffer."""
        view = memoryview(buffer).cast("B")
        if self._head:
            taken, self._head = self._head[: len(view)], self._head[len(view) :]
            view[: len(taken)] = taken
            return len(taken)
        done = self._opened.readinto(view[: self._left])
        self._left -= done
        return done
