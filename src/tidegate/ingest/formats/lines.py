r"""Files of lines: unpacked, cut into blocks, and each block into its lines without a loop.

    for block in blocks(opened, "day.json.gz"):
        block.lines           a binary array, each line with its line break, in place in the bytes that were read
        block.start           the number of the first of them

A block holds whole lines, so the last line of a file need not end with a line break. `.gz` (also of several
members) and `.zst` (of several frames) are unpacked as they are read; one that ends too early is an error.
A line that is longer than `limits().record` is passed over, and its beginning stands in a block of its own.
A mark of byte order before the first line is dropped.

>>> import io
>>> [block.lines.to_pylist() for block in blocks(io.BytesIO(b"a\nb"), "x.txt")]
[[b'a\n', b'b']]
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import CorruptError
from tidegate.ingest.limits import limits

BLOCK = 24 << 20
"""Bytes that are decoded together. A call of DuckDB costs 4 ms before it sees a row, as much as 6,000 lines of JSON."""
MANY = 1 << 20
"""Lines that are decoded together at most: of empty ones there would be too many."""
_KEPT = 1 << 16
"""Bytes of a record that is too long, for people to see which it is."""
_STRETCH = 1 << 18
"""Bytes that are searched at a time: what fits into a cache is searched five times as fast."""
MARK = b"\xef\xbb\xbf"
"""Some editors put it before the first line, to say that UTF-8 follows."""


class Block(NamedTuple):
    """Some lines of a file."""

    lines: pa.Array
    start: int
    refused: str | None = None
    """Why its one line, of which this is the beginning, is not decoded."""


def unpacked(opened: BinaryIO, name: str) -> BinaryIO:
    """The bytes of a file as they were before it was packed, by the end of its name."""
    if name.endswith((".gz", ".gzip")):
        return cast("BinaryIO", gzip.GzipFile(fileobj=opened, mode="rb"))
    if name.endswith((".zst", ".zstd")):
        return cast("BinaryIO", pa.CompressedInputStream(pa.PythonFile(opened, mode="r"), "zstd"))
    return opened


def filling(file: BinaryIO, name: str) -> Callable[[np.ndarray], int]:
    """Fills a buffer, less of it only at the end of the file; where the file is damaged the error says so."""

    def fill(buffer: np.ndarray) -> int:
        view, done = buffer.data, 0
        try:
            while done < len(view) and (more := file.readinto(view[done:])):  # type: ignore[attr-defined]  # all have it
                done += more
        except (EOFError, OSError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the machine's trouble, not the file's
            raise CorruptError(
                f'the file "{name}" ends too early, or is not what its name says: {error}',
                hint="write files under another name and rename them once they are complete",
            ) from error
        return done

    return fill


def pieces(opened: BinaryIO, name: str) -> Iterator[tuple[np.ndarray, bool, Callable[[int | None], None]]]:
    """The bytes of a file, some MB at a time, whether these are the last, and how to say where they were cut.

    What is behind the cut begins the next piece. It is read into place: joining bytes would copy every block once more. A cut at
    None is behind the next line break, wherever that is.
    """
    fill = filling(unpacked(opened, name), name)
    rest, begun, skips = np.zeros(0, np.uint8), False, False
    while True:
        buffer = np.empty(len(rest) + BLOCK, np.uint8)
        buffer[: len(rest)] = rest
        filled = len(rest) + fill(buffer[len(rest) :])
        last = filled < len(buffer)
        data = buffer[:filled]
        if not begun and data[: len(MARK)].tobytes() == MARK:
            data = data[len(MARK) :]
        if skips:
            ends = positions(data, "\n")
            skips = not len(ends)
            data = data[int(ends[0]) + 1 if len(ends) else len(data) :]
        begun = True
        kept: list[Any] = [data, skips]

        def cut(end: int | None, data: np.ndarray = data, kept: list[Any] = kept) -> None:
            kept[:] = data[len(data) if end is None else end :].copy(), end is None

        if not skips:
            yield data, last, cut
        rest, skips = kept
        if last:
            return


def blocks(opened: BinaryIO, name: str) -> Iterator[Block]:
    """The lines of a file, some MB at a time."""
    start = 0
    for data, last, cut in pieces(opened, name):
        end = len(data) if last else _behind_last(data)
        endless = len(data) - end > limits().record
        cut(None if endless else end)
        for some, ends in _windows(data[:end]):
            for block in runs(some, ends):
                yield block._replace(start=start)
                start += len(block.lines)
        if endless:
            yield Block(beginning(data[end:]), start, limits().too_long())
            start += 1


def _behind_last(data: np.ndarray) -> int:
    """Where the last line that has a break ends."""
    for stop in range(len(data), 0, -_STRETCH):
        begin = max(stop - _STRETCH, 0)
        found = positions(data[begin:stop], "\n")
        if len(found):
            return begin + int(found[-1]) + 1
    return 0


def _windows(data: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Whole lines and where they end: all at once, unless there are so many that the numbers alone were large."""
    size = len(data) if _count(data) <= 4 * MANY else 2 * MANY
    begin = 0
    for at in range(0, len(data), max(size, 1)):
        stop = min(at + size, len(data))
        ends = positions(data[at:stop], "\n") + 1 + (at - begin)
        if stop == len(data) and (not len(ends) or ends[-1] != stop - begin):
            ends = np.append(ends, stop - begin)
        if len(ends):
            yield data[begin : begin + int(ends[-1])], ends
            begin += int(ends[-1])


def _count(letters: np.ndarray) -> int:
    """How many line breaks there are."""
    same = np.empty(_STRETCH, bool)
    stretches = (letters[at : at + _STRETCH] for at in range(0, len(letters), _STRETCH))
    return sum(int(np.equal(one, ord("\n"), out=same[: len(one)]).sum()) for one in stretches)


def runs(data: np.ndarray, ends: np.ndarray) -> Iterator[Block]:
    """Records that end there, as many at once as can be decoded together; those that are too long alone."""
    most, begin = limits().record, 0
    long = np.flatnonzero(np.diff(ends, prepend=0) > most).tolist()
    for place in (*long, len(ends)):
        for first in range(begin, place, MANY):
            some = ends[first : min(first + MANY, place)]
            at = int(ends[first - 1]) if first else 0
            yield Block(cut_at(data[at : int(some[-1])], some - at), first)
        if place < len(ends):
            at = int(ends[place - 1]) if place else 0
            yield Block(beginning(data[at : int(ends[place])]), place, limits().too_long())
        begin = place + 1


def beginning(record: np.ndarray) -> pa.Array:
    """What is kept of a record that is not decoded."""
    return pa.array([record[:_KEPT].tobytes()], pa.binary())


def positions(letters: np.ndarray, letter: str) -> np.ndarray:
    """Where an ASCII letter is."""
    same = np.empty(_STRETCH, bool)
    found = [np.zeros(0, np.int64)]
    for at in range(0, len(letters), _STRETCH):
        stretch = letters[at : at + _STRETCH]
        found.append(np.flatnonzero(np.equal(stretch, ord(letter), out=same[: len(stretch)])) + at)
    return np.concatenate(found)


def holds(letters: np.ndarray, letter: str) -> bool:
    """Whether an ASCII letter is there at all: twice as fast as finding out where."""
    same = np.empty(_STRETCH, bool)
    stretches = (letters[at : at + _STRETCH] for at in range(0, len(letters), _STRETCH))
    return any(np.equal(some, ord(letter), out=same[: len(some)]).any() for some in stretches)


def cut_at(data: np.ndarray, ends: np.ndarray) -> pa.Array:
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
