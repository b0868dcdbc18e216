r"""CSV as RFC 4180 has it: where records end, and the fields of many records at once.

A field that starts with a quote goes to the next quote that stands alone (`""` is a quote in it), and may hold
delimiters and line breaks; behind it the field must end. Anywhere else a quote is a letter like any other.

    5" pipe,"a ""b"", c"        two fields:   5" pipe   and   a "b", c
    "a"b,c                      no record: text follows a closing quote

| a block of records | how it is cut into fields |
|---|---|
| no quotes, and every record has as many fields as it should | `_Grid`: where delimiters and breaks are, found in one pass |
| quotes stand only where they must (`ordinary`), or some counts are wrong | by Arrow, which then sees what we see |
| others, and those with a carriage return that ends no line | one by one |

A grid knows where every field is, and copies those of a column when it is asked for, of the records that it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from tidegate.expr.outcome import raw_bytes
from tidegate.ingest.decode.lines import holds, positions
from tidegate.ingest.source import Bad

UNCLOSED = "a quoted field is not closed"
BEHIND_QUOTE = "text follows a closing quote"
_STRETCH = 1 << 16
"""Bytes that are searched at a time."""


class BadRecord(ValueError):  # noqa: N818  # it is the record that has the error
    """A record that is no CSV; the message is the record's error."""


Pick: TypeAlias = Callable[[int, np.ndarray | None], pa.Array]


class Fields(NamedTuple):
    """The records that are well formed, and what is wrong with the others."""

    column: Pick
    """A column that was asked for, by its place in the record: of all of `rows`, or of some, by their places there."""
    rows: np.ndarray
    failures: list[Bad]


def split(record: str, delimiter: str) -> list[str]:
    """The fields of one record, with or without its line break."""
    text = record.removesuffix("\n").removesuffix("\r") if record.endswith("\n") else record
    fields: list[str] = []
    at = 0
    while True:
        if text.startswith('"', at):
            end = text.find('"', at + 1)
            while end >= 0 and text.startswith('"', end + 1):
                end = text.find('"', end + 2)
            if end < 0:
                raise BadRecord(UNCLOSED)
            fields.append(text[at + 1 : end].replace('""', '"'))
            at = end + 1
            if at < len(text) and text[at] != delimiter:
                raise BadRecord(BEHIND_QUOTE)
        else:
            end = text.find(delimiter, at)
            end = len(text) if end < 0 else end
            fields.append(text[at:end])
            at = end
        if at >= len(text):
            return fields
        at += 1


# ---------------------------------------------------------------- where records end


def ends(letters: np.ndarray, delimiter: str, *, last: bool) -> np.ndarray:
    """Where the records of a block end; bytes behind the last of them begin one that the block does not hold whole.

    With `last` there is nothing behind the block. Then a quote that is never closed makes its line a record, which
    fails, and what follows goes on: one wrong quote does not swallow a file.
    """
    breaks = positions(letters, "\n")
    if holds(letters, '"'):
        quotes = positions(letters, '"')
        if not ordinary(letters, quotes, delimiter) or (last and len(quotes) % 2):
            return _walked(letters.tobytes(), delimiter, last=last)
        breaks = breaks[np.searchsorted(quotes, breaks) % 2 == 0]
    found = breaks + 1
    if last and len(letters) and (not len(found) or found[-1] != len(letters)):
        found = np.append(found, len(letters))
    return found


def ordinary(letters: np.ndarray, quotes: np.ndarray, delimiter: str) -> bool:
    """Whether every quote opens a field, closes one, or is one of two that stand for a quote in it."""
    around = np.zeros(256, bool)
    around[[ord(delimiter), ord("\n"), ord('"')]] = True
    opening, closing = quotes[::2], quotes[1::2]
    before = letters[np.maximum(opening - 1, 0)]
    fits = around[before] | (opening == 0)
    # A quote before an opening one must be a closing one, and it is: they alternate.
    around[ord("\r")] = True
    behind = letters[np.minimum(closing + 1, len(letters) - 1)]
    fits_behind = around[behind] | (closing == len(letters) - 1)
    doubled = (before == ord('"')) & (opening > 0)
    return bool(fits.all() and fits_behind.all() and _pairs(quotes, opening[doubled]))


def _pairs(quotes: np.ndarray, opening: np.ndarray) -> bool:
    """Whether the quote right before each of these is the closing one before it."""
    at = np.searchsorted(quotes, opening)
    return bool((quotes[at - 1] == opening - 1).all())


def _walked(data: bytes, delimiter: str, *, last: bool) -> np.ndarray:
    """Line by line: a record goes on while a quote in it is open."""
    lines = data.splitlines(keepends=True) if b"\r" not in data else _lines(data)
    found: list[int] = []
    at = begin = position = 0
    while at < len(lines):
        begin, record = position, b""
        upto = at
        while upto < len(lines):
            record += lines[upto]
            upto += 1
            if not _open(record, delimiter):
                break
        else:
            if not last:
                break
            upto, record = at + 1, lines[at]
        position = begin + len(record)
        at = upto
        if not last and at == len(lines) and not record.endswith(b"\n"):
            break
        found.append(position)
    return np.array(found, np.int64)


def _lines(data: bytes) -> list[bytes]:
    """Lines that end with a line feed, and with nothing else."""
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _open(record: bytes, delimiter: str) -> bool:
    try:
        split(record.decode("latin-1"), delimiter)
    except BadRecord as bad:
        return str(bad) == UNCLOSED
    return False


# ---------------------------------------------------------------- their fields


def parse(records: pa.Array, delimiter: str, width: int, columns: Sequence[int]) -> Fields:
    """Some of the `width` columns of records that are valid UTF-8 and not empty."""
    if not len(records):
        return Fields(lambda *_: pa.array([], pa.string()), np.zeros(0, np.int64), [])
    data = raw_bytes(records)
    if _broken_well(data, records):
        quotes = positions(data, '"') if holds(data, '"') else np.zeros(0, np.int64)
        grid = None if len(quotes) else _Grid.of(data, records, delimiter, width)
        if grid is not None:
            return Fields(grid.column, np.arange(len(records)), [])
        if len(quotes) % 2 == 0 and (not len(quotes) or ordinary(data, quotes, delimiter)):
            found = _by_arrow(records, data, delimiter, width, columns, quoted=bool(len(quotes)))
            if found is not None:
                return found
    return _one_by_one(records, delimiter, width, columns)


def _one_by_one(records: pa.Array, delimiter: str, width: int, columns: Sequence[int]) -> Fields:
    rows: list[int] = []
    values: list[list[str]] = []
    failures: list[Bad] = []
    for i, record in enumerate(records.to_pylist()):
        try:
            fields = split(record.decode(), delimiter)
            if len(fields) != width:
                raise BadRecord(wrong_count(len(fields), width))
        except BadRecord as bad:
            failures.append((i, str(bad)))
        else:
            rows.append(i)
            values.append(fields)
    arrays = {column: pa.array([fields[column] for fields in values], pa.string()) for column in columns}
    return Fields(_of(arrays), np.array(rows, np.int64), failures)


def _of(arrays: dict[int, pa.Array]) -> Pick:
    """Columns that are there already."""
    return lambda column, rows: arrays[column] if rows is None else arrays[column].take(pa.array(rows))


def wrong_count(found: int, width: int) -> str:
    """What is said of a record with too many or too few fields."""
    return f"the record has {found} field{'' if found == 1 else 's'} instead of {width}"


def _broken_well(data: np.ndarray, records: pa.Array) -> bool:
    """Whether each record but the last ends with a line break, and carriage returns are parts of such."""
    if holds(data, "\r"):
        returns = positions(data, "\r")
        if not (data[np.minimum(returns + 1, len(data) - 1)] == ord("\n")).all():
            return False
    behind = np.cumsum(pc.binary_length(records).to_numpy())
    return bool((data[behind[:-1] - 1] == ord("\n")).all())


class _Grid:
    """Records without quotes, each of `width` fields: where the fields are."""

    def __init__(self, fields: pa.Array, width: int, *, returns: bool) -> None:
        self._fields, self._width, self._returns = fields, width, returns

    @staticmethod
    def of(data: np.ndarray, records: pa.Array, delimiter: str, width: int) -> _Grid | None:
        """None if some record has another number of fields."""
        if data[-1] != ord("\n"):
            data = np.append(data, np.uint8(ord("\n")))
        found = separators(data, delimiter)
        if len(found) != width * len(records) or not (data[found[width - 1 :: width]] == ord("\n")).all():
            return None
        offsets = np.zeros(len(found) + 1, np.int32)
        np.add(found, 1, out=offsets[1:], casting="unsafe")
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
        fields = pa.Array.from_buffers(pa.binary(), len(found), buffers)
        return _Grid(fields, width, returns=holds(data, "\r"))

    def column(self, column: int, rows: np.ndarray | None) -> pa.Array:
        """The texts of a column: each field is taken with what ends it, which is then cut off."""
        count = len(self._fields) // self._width
        at = np.arange(count) if rows is None else rows
        found = pc.binary_slice(self._fields.take(pa.array(at * self._width + column)), 0, -1)
        if self._returns and column == self._width - 1:
            found = pc.if_else(pc.ends_with(found, b"\r"), pc.binary_slice(found, 0, -1), found)
        return found.view(pa.string())


def separators(data: np.ndarray, delimiter: str) -> np.ndarray:
    """Where delimiters and line breaks are."""
    one, other = np.empty(_STRETCH, bool), np.empty(_STRETCH, bool)
    found = []
    for at in range(0, len(data), _STRETCH):
        some = data[at : at + _STRETCH]
        same = np.equal(some, ord(delimiter), out=one[: len(some)])
        np.logical_or(same, np.equal(some, ord("\n"), out=other[: len(some)]), out=same)
        found.append(np.flatnonzero(same) + at)
    return np.concatenate(found)


def _by_arrow(
    records: pa.Array, data: np.ndarray, delimiter: str, width: int, columns: Sequence[int], *, quoted: bool
) -> Fields | None:
    """None if Arrow counts other records than we do."""
    names = [str(i) for i in range(width)]
    wanted = [names[column] for column in columns] or names[:1]
    wrong: list[tuple[int, int]] = []

    def handle(row: csv.InvalidRow) -> str:
        wrong.append((row.number, row.actual_columns))
        return "skip"

    try:
        table = csv.read_csv(
            pa.BufferReader(pa.py_buffer(data)),
            csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
            csv.ParseOptions(
                delimiter=delimiter,
                quote_char='"' if quoted else False,
                newlines_in_values=quoted,
                ignore_empty_lines=False,
                invalid_row_handler=handle,
            ),
            csv.ConvertOptions(
                check_utf8=False,
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, pa.string()),
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    if len(table) + len(wrong) != len(records):
        return None
    good = np.ones(len(records), bool)
    good[[number - 1 for number, _ in wrong]] = False
    if good.sum() != len(table):
        return None
    arrays = {column: table.column(names[column]).combine_chunks() for column in columns}
    failures = sorted((number - 1, wrong_count(count, width)) for number, count in wrong)
    return Fields(_of(arrays), np.flatnonzero(good), failures)
