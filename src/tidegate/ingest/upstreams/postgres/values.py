r"""Values as PostgreSQL writes them, where they lie in the bytes that came: cut, unescaped and read, a column at a time.

Both ways in which rows come hold texts, one after the other, in one stretch of bytes:

    COPY … TO STDOUT        17 ⇥ 2026-11-16 07:30:15+00 ⇥ \N ⏎                 `copied`
    pgoutput                … 't' 0 0 0 2 '1' '7'  't' 0 0 0 22 '2' '0' … 'n'   `pgoutput.py`

    Tuples(data, ("id", "at", "note"), starts, lengths, count)                  where each value is, -1 bytes for a NULL
    tuples.texts(0)                                                             ['17', …], copied out of `data` once
    read(tuples, 1, TIMESTAMPTZ)                                                values and errors

Only columns that are demanded are cut out. Texts are read by our own casts, so a value means what `'…'::type` means in SQL; the
session's settings (`postgres_connect.py`) see to it that PostgreSQL writes what casts read. Two of them have a shorter way here,
as all values have one shape: timestamptz (every value ends with +00) and uuid (36 letters).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

import tidegate.expr.functions  # noqa: F401  # the casts are declared there
from tidegate.expr import build
from tidegate.expr.evaluate import Evaluation
from tidegate.expr.outcome import Outcome, first_error
from tidegate.expr.spelling import FROM_HEX, from_utf8
from tidegate.expr.tree import Column
from tidegate.expr.types import TEXT, TIMESTAMP, Kind, Type

NULL = -1
PADDING = 16
"""Bytes that must follow the last value in `Tuples.data`: values are looked at by stretches of so many."""
_INLINE = 12
"""Bytes that Arrow keeps in a view itself."""
_KEEP = np.tril(np.full((_INLINE + 1, _INLINE), 255, np.uint8), -1)
_TAB, _NEWLINE, _BACKSLASH = ord("\t"), ord("\n"), ord("\\")
_UNESCAPED = np.arange(256, dtype=np.uint8)
_UNESCAPED[np.frombuffer(b"bfnrtv", np.uint8)] = np.frombuffer(b"\b\f\n\r\t\v", np.uint8)
_UTC = np.frombuffer(b"+00", np.uint8)
_HYPHENS = (8, 13, 18, 23)
_DIGITS = np.delete(np.arange(36), _HYPHENS)


@dataclass(frozen=True, eq=False)
class Tuples:
    """Rows whose values lie in `data`; of each column where they start, and their lengths."""

    data: np.ndarray
    names: tuple[str, ...]
    starts: Sequence[np.ndarray]
    lengths: Sequence[np.ndarray]
    count: int
    escaped: bool = False
    """Whether values are written as COPY does, with backslashes."""

    @property
    def size(self) -> int:
        """Bytes of all values."""
        return int(sum(int(np.maximum(lengths, 0).sum()) for lengths in self.lengths))

    def texts(self, column: int, rows: np.ndarray | None = None) -> pa.Array:
        """The bytes of the values of a column, of some rows."""
        starts, lengths = self.starts[column], self.lengths[column]
        if rows is not None and len(rows) < self.count:
            starts, lengths = starts[rows], lengths[rows]
        found = gathered(self.data, starts, lengths)
        return unescaped(found) if self.escaped else found

    def row(self, number: int) -> dict[str, str | None]:
        """One row, for people."""
        one = np.array([number])
        values = [self.texts(column, one)[0].as_py() for column in range(len(self.names))]
        return {
            name: None if value is None else value.decode("utf-8", "replace")
            for name, value in zip(self.names, values, strict=True)
        }

    def take(self, rows: np.ndarray) -> Tuples:
        """Some rows, in that order."""
        starts, lengths = [s[rows] for s in self.starts], [n[rows] for n in self.lengths]
        return Tuples(self.data, self.names, starts, lengths, len(rows), self.escaped)


def gathered(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> pa.Array:
    """Values that lie anywhere in `data`, one behind the other; NULL where the length is below 0.

    Arrow copies them, given views of them: that is ten times as fast as an index of every byte.
    """
    sizes = np.maximum(lengths, 0)
    views = np.empty((len(starts), 16), np.uint8)
    views[:, :4] = sizes.astype("<i4").view(np.uint8).reshape(-1, 4)
    views[:, 4:] = sliding_window_view(data, _INLINE)[np.where(lengths > 0, starts, 0)]
    views[:, 4:] &= _KEEP[np.minimum(sizes, _INLINE)]
    long = np.flatnonzero(sizes > _INLINE)
    if len(long):
        tail = np.zeros((len(long), 2), "<i4")
        tail[:, 1] = starts[long]
        views[long, 8:] = tail.view(np.uint8)
    there = lengths >= 0
    bits = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    buffers = [bits, pa.py_buffer(views), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary_view(), len(starts), buffers).cast(pa.binary())


def copied(data: bytes, names: tuple[str, ...]) -> Tuples:
    r"""The rows of COPY's text form: every tab and line break ends a value, as those inside of values are escaped."""
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


def unescaped(values: pa.Array) -> pa.Array:
    r"""Values without the backslashes that COPY put in: `\t` is a tab, `\\` a backslash, any other letter itself."""
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)[: offsets[-1]]
    found = np.flatnonzero(data == _BACKSLASH)
    if not len(found):
        return values
    # In a run of backslashes every other one escapes what follows. Values hold whole escapes, so a run may go on in the next.
    begins = np.concatenate([[True], np.diff(found) != 1])
    number = np.arange(len(found))
    within = number - np.maximum.accumulate(np.where(begins, number, 0))
    escapes = found[within % 2 == 0]
    letters = data.copy()
    letters[escapes + 1] = _UNESCAPED[letters[escapes + 1]]
    kept = np.ones(len(data), bool)
    kept[escapes] = False
    cut = (offsets - np.searchsorted(escapes, offsets)).astype(np.int32)
    buffers = [values.buffers()[0], pa.py_buffer(cut), pa.py_buffer(letters[kept])]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def read(tuples: Tuples, column: int, type_: Type, rows: np.ndarray | None = None) -> Outcome:
    """The values of a column, of some rows, and what is wrong with those that cannot be values of ours."""
    if type_.kind in (Kind.TIMESTAMPTZ, Kind.UUID):
        starts, lengths = tuples.starts[column], tuples.lengths[column]
        if rows is not None:
            starts, lengths = starts[rows], lengths[rows]
        if type_.kind is Kind.UUID:
            return Outcome(_uuids(tuples.data, starts, lengths))
        if _all_utc(tuples.data, starts, lengths):
            shorter = np.where(lengths < 0, lengths, lengths - len(_UTC))
            values, errors = cast(gathered(tuples.data, starts, shorter), TIMESTAMP)
            return Outcome(values.cast(pa.int64()).cast(type_.arrow), errors)
    return cast(tuples.texts(column, rows), type_)


def cast(texts: pa.Array, type_: Type) -> Outcome:
    """What `'…'::type` makes of texts."""
    decoded = from_utf8(texts)
    if type_ == TEXT:
        return decoded
    values, errors = Evaluation([decoded.values], len(texts)).of(build.cast(Column(0, TEXT), type_))[0]
    return Outcome(values, first_error(decoded.errors, errors))


def _all_utc(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> bool:
    """Whether every instant is written with the zone of the session, and none is `infinity` or before Christ."""
    there = lengths >= 0
    last = (starts + lengths)[there] - len(_UTC)
    return bool((lengths[there] > len(_UTC)).all() and (sliding_window_view(data, 3)[last] == _UTC).all())


def _uuids(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> pa.Array:
    there = lengths >= 0
    digits = FROM_HEX[np.take(data, np.where(there, starts, 0)[:, None] + _DIGITS, mode="clip")]
    packed = (digits[:, ::2] << 4) | digits[:, 1::2]
    bits = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(
        pa.binary(16), len(starts), [bits, pa.py_buffer(np.ascontiguousarray(packed))]
    )
