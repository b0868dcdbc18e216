r"""Files of lines: decompresses them, cuts them into blocks, and each block into lines without a loop.

    for block in blocks(opened, "day.json.gz"):
        block.lines           a binary array of lines with their line breaks, a view of the bytes that were read
        block.start           the number of the first line

A block holds whole lines; the last line of a file need not end with a line break. `.gz` (also with several members) and
`.zst` (also with several frames) are decompressed while they are read; one that ends too early is an error. A line that is
longer than `current_limits().record` is skipped, and its beginning is yielded as a separate block. A byte order mark before
the first line is dropped.

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
from tidegate.ingest.formats.limits import current_limits

BLOCK = 24 << 20
"""Bytes that are decoded together. A DuckDB call costs 4 ms before the first row, as much as 6,000 lines of JSON."""
MAX_LINES = 1 << 20
"""The maximum number of lines that are decoded together; a block could hold too many empty lines."""
_MAX_SHOWN_BYTES = 1 << 16
"""The bytes of an oversized record that are stored, so that people can identify it."""
_STRETCH = 1 << 18
"""Bytes that are searched at a time: data that fits into the CPU cache is searched five times as fast."""
MARK = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8, which some editors write before the first line."""


class LineBlock(NamedTuple):
    """Consecutive lines of a file."""

    lines: pa.Array
    start: int
    refused: str | None = None
    """Why the only line of this block, which holds its beginning, is not decoded."""


def decompress(opened: BinaryIO, name: str) -> BinaryIO:
    """Opens a decompressing reader according to the suffix of the file's name."""
    if name.endswith((".gz", ".gzip")):
        return cast("BinaryIO", gzip.GzipFile(fileobj=opened, mode="rb"))
    if name.endswith((".zst", ".zstd")):
        return cast("BinaryIO", pa.CompressedInputStream(pa.PythonFile(opened, mode="r"), "zstd"))
    return opened


def filling(file: BinaryIO, name: str) -> Callable[[np.ndarray], int]:
    """Returns a function that fills a buffer, completely except at the end of the file."""

    def fill(buffer: np.ndarray) -> int:
        view, done = buffer.data, 0
        try:
            while done < len(view) and (more := file.readinto(view[done:])):  # type: ignore[attr-defined]  # all have it
                done += more
        except (EOFError, OSError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # an error of the machine, not of the file
            raise CorruptError(
                f'the file "{name}" ends too early, or is not what its name says: {error}',
                hint="write files under another name and rename them once they are complete",
            ) from error
        return done

    return fill


def pieces(opened: BinaryIO, name: str) -> Iterator[tuple[np.ndarray, bool, Callable[[int | None], None]]]:
    """Yields pieces of a file of a few MB, whether each is the last, and a function to set its cut.

    The bytes after the cut begin the next piece. The file is read into a buffer behind them: joining bytes would copy every block
    once more. A cut at None is after the next line break, wherever that is.
    """
    fill = filling(decompress(opened, name), name)
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
        carried: list[Any] = [data, skips]

        def cut(end: int | None, data: np.ndarray = data, carried: list[Any] = carried) -> None:
            carried[:] = data[len(data) if end is None else end :].copy(), end is None

        if not skips:
            yield data, last, cut
        rest, skips = carried
        if last:
            return


def blocks(opened: BinaryIO, name: str) -> Iterator[LineBlock]:
    """Yields the lines of a file, a few MB at a time."""
    start = 0
    for data, last, cut in pieces(opened, name):
        end = len(data) if last else _behind_last(data)
        endless = len(data) - end > current_limits().record
        cut(None if endless else end)
        for window, ends in _windows(data[:end]):
            for block in runs(window, ends):
                yield block._replace(start=start)
                start += len(block.lines)
        if endless:
            yield LineBlock(truncated_record(data[end:]), start, current_limits().too_long())
            start += 1


def _behind_last(data: np.ndarray) -> int:
    """Returns where the last line with a line break ends."""
    for stop in range(len(data), 0, -_STRETCH):
        begin = max(stop - _STRETCH, 0)
        breaks = positions(data[begin:stop], "\n")
        if len(breaks):
            return begin + int(breaks[-1]) + 1
    return 0


def _windows(data: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields whole lines and their ends: all at once, or in windows if there are very many."""
    size = len(data) if _count_breaks(data) <= 4 * MAX_LINES else 2 * MAX_LINES
    begin = 0
    for at in range(0, len(data), max(size, 1)):
        stop = min(at + size, len(data))
        ends = positions(data[at:stop], "\n") + 1 + (at - begin)
        if stop == len(data) and (not len(ends) or ends[-1] != stop - begin):
            ends = np.append(ends, stop - begin)
        if len(ends):
            yield data[begin : begin + int(ends[-1])], ends
            begin += int(ends[-1])


def _count_breaks(letters: np.ndarray) -> int:
    """Counts line breaks."""
    same = np.empty(_STRETCH, bool)
    stretches = (letters[at : at + _STRETCH] for at in range(0, len(letters), _STRETCH))
    return sum(int(np.equal(stretch, ord("\n"), out=same[: len(stretch)]).sum()) for stretch in stretches)


def runs(data: np.ndarray, ends: np.ndarray) -> Iterator[LineBlock]:
    """Yields the records that end at `ends`, as many as can be decoded together; oversized ones alone."""
    max_bytes, begin = current_limits().record, 0
    oversized = np.flatnonzero(np.diff(ends, prepend=0) > max_bytes).tolist()
    for place in (*oversized, len(ends)):
        for first in range(begin, place, MAX_LINES):
            run_ends = ends[first : min(first + MAX_LINES, place)]
            at = int(ends[first - 1]) if first else 0
            yield LineBlock(cut_at(data[at : int(run_ends[-1])], run_ends - at), first)
        if place < len(ends):
            at = int(ends[place - 1]) if place else 0
            yield LineBlock(truncated_record(data[at : int(ends[place])]), place, current_limits().too_long())
        begin = place + 1


def truncated_record(record: np.ndarray) -> pa.Array:
    """The beginning of a record that is not decoded."""
    return pa.array([record[:_MAX_SHOWN_BYTES].tobytes()], pa.binary())


def positions(letters: np.ndarray, letter: str) -> np.ndarray:
    """The positions of an ASCII character."""
    same = np.empty(_STRETCH, bool)
    matches = [np.zeros(0, np.int64)]
    for at in range(0, len(letters), _STRETCH):
        stretch = letters[at : at + _STRETCH]
        matches.append(np.flatnonzero(np.equal(stretch, ord(letter), out=same[: len(stretch)])) + at)
    return np.concatenate(matches)


def contains(letters: np.ndarray, letter: str) -> bool:
    """Whether an ASCII character occurs; twice as fast as finding its positions."""
    same = np.empty(_STRETCH, bool)
    stretches = (letters[at : at + _STRETCH] for at in range(0, len(letters), _STRETCH))
    return any(np.equal(stretch, ord(letter), out=same[: len(stretch)]).any() for stretch in stretches)


def cut_at(data: np.ndarray, ends: np.ndarray) -> pa.Array:
    """Cuts `data` at `ends`, without a copy."""
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
    text = data[ends[0] : ends[-1]][keep].tobytes()
    return pa.Array.from_buffers(pa.binary(), len(lines), [None, pa.py_buffer(offsets), pa.py_buffer(text)])


def blank(lines: pa.Array) -> np.ndarray:
    """Which lines hold only white space."""
    starts = pc.is_in(pc.binary_slice(lines, 0, 1), pa.array([b" ", b"\t", b"\r", b"\n", b""]))
    is_blank = np.array(starts.to_numpy(zero_copy_only=False))
    rows = np.flatnonzero(is_blank)
    if len(rows):
        candidates = lines.take(pa.array(rows))
        matches = pc.match_substring_regex(candidates, r"^[ \t\r\n]*\z")
        is_blank[rows] = matches.to_numpy(zero_copy_only=False)
    return is_blank
