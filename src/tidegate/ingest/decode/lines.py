r"""Files of lines: unpacked, cut into blocks, and each block into its lines without a loop.

    for block in blocks(opened, "day.json.gz"):
        block.lines           a binary array, each line with its line break, in place in the bytes that were read
        block.start           the number of the first of them

A block holds whole lines, so the last line of a file need not end with a line break. `.gz` (also of several
members) and `.zst` (of several frames) are unpacked as they are read; one that ends too early is an error.
A mark of byte order before the first line is dropped.

>>> import io
>>> [block.lines.to_pylist() for block in blocks(io.BytesIO(b"a\nb"), "x.txt")]
[[b'a\n', b'b']]
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import CorruptError

BLOCK = 24 << 20
"""Bytes that are decoded together. A call of DuckDB costs 4 ms before it sees a row, as much as 6,000 lines of JSON."""
_STRETCH = 1 << 18
"""Bytes that are searched for line breaks at a time: what fits into a cache is searched five times as fast."""
MARK = b"\xef\xbb\xbf"
"""Some editors put it before the first line, to say that UTF-8 follows."""


class Block(NamedTuple):
    """Some lines of a file."""

    lines: pa.Array
    start: int


def unpacked(opened: BinaryIO, name: str) -> BinaryIO:
    """The bytes of a file as they were before it was packed, by the end of its name."""
    if name.endswith((".gz", ".gzip")):
        return cast("BinaryIO", gzip.GzipFile(fileobj=opened, mode="rb"))
    if name.endswith((".zst", ".zstd")):
        return cast("BinaryIO", pa.CompressedInputStream(pa.PythonFile(opened, mode="r"), "zstd"))
    return opened


def reading(file: BinaryIO, name: str) -> Callable[[int], bytes]:
    """Reads as many bytes, fewer only at the end; where the file is damaged the error says so."""

    def read(size: int) -> bytes:
        pieces = []
        try:
            while size > 0 and (piece := file.read(size)):
                pieces.append(piece)
                size -= len(piece)
        except (EOFError, OSError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the machine's trouble, not the file's
            raise CorruptError(
                f'the file "{name}" ends too early, or is not what its name says: {error}',
                hint="write files under another name and rename them once they are complete",
            ) from error
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    return read


def blocks(opened: BinaryIO, name: str, size: int | None = None) -> Iterator[Block]:
    """The lines of a file, some MB at a time."""
    read = reading(unpacked(opened, name), name)
    size = size or BLOCK
    start, rest = 0, b""
    while True:
        piece = read(size)
        if start == 0 and not rest and piece.startswith(MARK):
            piece = piece[len(MARK) :] + read(len(MARK))
        data = rest + piece if rest else piece
        ended = len(piece) < size
        end = len(data) if ended else data.rfind(b"\n") + 1
        rest = data[end:]
        if end:
            lines = _cut(data, end)
            yield Block(lines, start)
            start += len(lines)
        if ended:
            return


def _cut(data: bytes, end: int) -> pa.Array:
    """The lines of a block, in place."""
    letters = np.frombuffer(data, np.uint8, end)
    same = np.empty(_STRETCH, bool)
    found = []
    for at in range(0, end, _STRETCH):
        stretch = letters[at : at + _STRETCH]
        found.append(np.flatnonzero(np.equal(stretch, ord("\n"), out=same[: len(stretch)])) + (at + 1))
    ends = np.concatenate(found)
    if not len(ends) or ends[-1] != end:
        ends = np.append(ends, end)
    return cut_at(data, ends)


def cut_at(data: bytes, ends: np.ndarray) -> pa.Array:
    """The pieces of `data` that end there, in place."""
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    return pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def without_breaks(lines: pa.Array, *, returns: bool) -> pa.Array:
    r"""The lines without their `\n`; with `returns` also without a `\r` before it."""
    data = np.frombuffer(lines.buffers()[2], np.uint8)
    ends = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset :][: len(lines) + 1]
    last = data[ends[1:] - 1] == ord("\n")
    cut = last.astype(np.int32)
    if returns:
        before = ends[1:] - 2
        cut += last & (before >= ends[:-1]) & (data[np.maximum(before, 0)] == ord("\r"))
    if last.all() and not returns:
        return pc.binary_slice(lines, 0, -1)
    keep = np.ones(ends[-1] - ends[0], bool)
    for k in (1, 2):
        keep[ends[1:][cut >= k] - k - ends[0]] = False
    offsets = np.concatenate([[0], np.cumsum(np.diff(ends) - cut)]).astype(np.int32)
    kept = data[ends[0] : ends[-1]][keep].tobytes()
    return pa.Array.from_buffers(pa.binary(), len(lines), [None, pa.py_buffer(offsets), pa.py_buffer(kept)])


def blank(lines: pa.Array) -> np.ndarray:
    """Which of the lines hold nothing but white space."""
    starts = pc.is_in(pc.binary_slice(lines, 0, 1), pa.array([b" ", b"\t", b"\r", b"\n", b""]))
    found = np.array(starts.to_numpy(zero_copy_only=False))
    rows = np.flatnonzero(found)
    if len(rows):
        some = lines.take(pa.array(rows))
        found[rows] = pc.match_substring_regex(some, r"^[ \t\r\n]*\z").to_numpy(zero_copy_only=False)
    return found
