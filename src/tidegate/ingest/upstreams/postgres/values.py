r"""Parses values in PostgreSQL's text format: extracts them from received bytes, column by column.

Both sources of rows contain texts, one after the other, in one array of bytes:

    COPY … TO STDOUT        17 ⇥ 2026-11-16 07:30:15+00 ⇥ \N ⏎                 `parse_copy`
    pgoutput                … 't' 0 0 0 2 '1' '7'  't' 0 0 0 22 '2' '0' … 'n'   `pgoutput.py`

    Tuples(data, ("id", "at", "note"), starts, lengths, count)                  the offset and length of each value; length -1: NULL
    tuples.texts(0)                                                             ['17', …], copied from `data` once
    read_column(tuples, 1, TIMESTAMPTZ)                                         values and errors

Only demanded columns are extracted. Texts are parsed by the casts of SQL, so a value means what `'…'::type` means; the session's
settings (`connect.py`) make PostgreSQL write a format that casts accept. Two types have a faster path, as all their values have one
shape: timestamptz (every value ends with +00) and uuid (36 characters).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

from tidegate.expr.evaluate import Evaluation
from tidegate.expr.model import Column, Kind, Outcome, Type, build, outcome, types
from tidegate.expr.primitives import byte_encoding

NULL = -1
PADDING = 16
"""Bytes that must follow the last value in `Tuples.data`: values are read in windows of up to this size."""
_INLINE_BYTES = 12
"""The number of bytes that Arrow stores inside a view."""
_INLINE_MASKS = np.tril(np.full((_INLINE_BYTES + 1, _INLINE_BYTES), 255, np.uint8), -1)
_TAB, _NEWLINE, _BACKSLASH = ord("\t"), ord("\n"), ord("\\")
_UNESCAPED = np.arange(256, dtype=np.uint8)
_UNESCAPED[np.frombuffer(b"bfnrtv", np.uint8)] = np.frombuffer(b"\b\f\n\r\t\v", np.uint8)
_UTC = np.frombuffer(b"+00", np.uint8)
_HYPHENS = (8, 13, 18, 23)
_DIGITS = np.delete(np.arange(36), _HYPHENS)


@dataclass(frozen=True, eq=False)
class Tuples:
    """Rows with values in `data`: for each column, the offsets and lengths of the values."""

    data: np.ndarray
    names: tuple[str, ...]
    starts: Sequence[np.ndarray]
    lengths: Sequence[np.ndarray]
    count: int
    escaped: bool = False
    """Whether values contain the backslash escapes of COPY."""

    @property
    def size(self) -> int:
        """The total number of bytes of the values."""
        return int(sum(int(np.maximum(lengths, 0).sum()) for lengths in self.lengths))

    def texts(self, column: int, rows: np.ndarray | None = None) -> pa.Array:
        """The values of a column as bytes, for all or some rows."""
        starts, lengths = self.starts[column], self.lengths[column]
        if rows is not None and len(rows) < self.count:
            starts, lengths = starts[rows], lengths[rows]
        values = gather(self.data, starts, lengths)
        return unescape(values) if self.escaped else values

    def row(self, number: int) -> dict[str, str | None]:
        """One row as texts by column name, for error reports."""
        rows = np.array([number])
        values = [self.texts(column, rows)[0].as_py() for column in range(len(self.names))]
        return {
            name: None if value is None else value.decode("utf-8", "replace")
            for name, value in zip(self.names, values, strict=True)
        }

    def take(self, rows: np.ndarray) -> Tuples:
        """The given rows, in that order."""
        starts, lengths = [s[rows] for s in self.starts], [n[rows] for n in self.lengths]
        return Tuples(self.data, self.names, starts, lengths, len(rows), self.escaped)


def gather(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> pa.Array:
    """Copies values from anywhere in `data` into one array; NULL where the length is negative.

    Arrow copies them from an array of views, which is ten times as fast as indexing every byte.
    """
    sizes = np.maximum(lengths, 0)
    views = np.empty((len(starts), 16), np.uint8)
    views[:, :4] = sizes.astype("<i4").view(np.uint8).reshape(-1, 4)
    views[:, 4:] = sliding_window_view(data, _INLINE_BYTES)[np.where(lengths > 0, starts, 0)]
    views[:, 4:] &= _INLINE_MASKS[np.minimum(sizes, _INLINE_BYTES)]
    long = np.flatnonzero(sizes > _INLINE_BYTES)
    if len(long):
        tail = np.zeros((len(long), 2), "<i4")
        tail[:, 1] = starts[long]
        views[long, 8:] = tail.view(np.uint8)
    there = lengths >= 0
    bits = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    buffers = [bits, pa.py_buffer(views), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary_view(), len(starts), buffers).cast(pa.binary())


def parse_copy(data: bytes, names: tuple[str, ...]) -> Tuples:
    r"""Parses rows of COPY's text format: every tab and line break ends a value."""
    letters = np.frombuffer(data + bytes(PADDING), np.uint8)
    ends = np.flatnonzero((letters == _TAB) | (letters == _NEWLINE))
    width = max(1, len(names))
    count = len(ends) // width
    starts = np.concatenate([[0], ends[:-1] + 1]) if count else ends
    lengths = ends - starts
    absent = (lengths == 2) & (letters[starts] == _BACKSLASH) & (letters[starts + 1] == ord("N"))
    lengths[absent] = NULL
    shape = (count, width)
    escaped = b"\\" in data
    columns = range(len(names))
    by_row, size_by_row = starts.reshape(shape), lengths.reshape(shape)
    return Tuples(
        letters, names, [by_row[:, c] for c in columns], [size_by_row[:, c] for c in columns], count, escaped
    )


def unescape(values: pa.Array) -> pa.Array:
    r"""Removes the escapes of COPY: `\t` is a tab, `\\` a backslash; other characters stay."""
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)[: offsets[-1]]
    backslashes = np.flatnonzero(data == _BACKSLASH)
    if not len(backslashes):
        return values
    # In a run of backslashes every other one is an escape. Values contain complete escapes, so a run may cross values.
    begins = np.concatenate([[True], np.diff(backslashes) != 1])
    number = np.arange(len(backslashes))
    within = number - np.maximum.accumulate(np.where(begins, number, 0))
    escapes = backslashes[within % 2 == 0]
    letters = data.copy()
    letters[escapes + 1] = _UNESCAPED[letters[escapes + 1]]
    retained = np.ones(len(data), bool)
    retained[escapes] = False
    cut = (offsets - np.searchsorted(escapes, offsets)).astype(np.int32)
    buffers = [values.buffers()[0], pa.py_buffer(cut), pa.py_buffer(letters[retained])]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def read_column(tuples: Tuples, column: int, type_: Type, rows: np.ndarray | None = None) -> Outcome:
    """The values of a column, for all or some rows, and the errors of those that cannot be parsed."""
    if type_.kind in (Kind.TIMESTAMPTZ, Kind.UUID):
        starts, lengths = tuples.starts[column], tuples.lengths[column]
        if rows is not None:
            starts, lengths = starts[rows], lengths[rows]
        if type_.kind is Kind.UUID:
            return Outcome(_uuids(tuples.data, starts, lengths))
        if _all_utc(tuples.data, starts, lengths):
            shorter = np.where(lengths < 0, lengths, lengths - len(_UTC))
            values, errors = cast(gather(tuples.data, starts, shorter), types.TIMESTAMP)
            return Outcome(values.cast(pa.int64()).cast(type_.arrow), errors)
    return cast(tuples.texts(column, rows), type_)


def cast(texts: pa.Array, type_: Type) -> Outcome:
    """Casts texts to a type, like `'…'::type` in SQL."""
    decoded = byte_encoding.from_utf8(texts)
    if type_ == types.TEXT:
        return decoded
    values, errors = Evaluation([decoded.values], len(texts)).of(build.cast(Column(0, types.TEXT), type_))[0]
    return Outcome(values, outcome.first_error(decoded.errors, errors))


def _all_utc(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> bool:
    """Whether every timestamp ends with the session's zone, so that none is `infinity` or BC."""
    there = lengths >= 0
    last = (starts + lengths)[there] - len(_UTC)
    return bool((lengths[there] > len(_UTC)).all() and (sliding_window_view(data, 3)[last] == _UTC).all())


def _uuids(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> pa.Array:
    there = lengths >= 0
    digits = byte_encoding.FROM_HEX[np.take(data, np.where(there, starts, 0)[:, None] + _DIGITS, mode="clip")]
    packed = (digits[:, ::2] << 4) | digits[:, 1::2]
    bits = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(
        pa.binary(16), len(starts), [bits, pa.py_buffer(np.ascontiguousarray(packed))]
    )
