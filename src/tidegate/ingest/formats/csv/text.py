r"""CSV as in RFC 4180: finds the ends of records, and the fields of many records at once.

A field that starts with a quote extends to the next single quote (`""` is a quote in the text), and may contain delimiters
and line breaks; the field must end after the closing quote. Anywhere else a quote is an ordinary character.

    5" pipe,"a ""b"", c"        two fields:   5" pipe   and   a "b", c
    "a"b,c                      not a record: text follows a closing quote

| a block of records | how it is cut into fields |
|---|---|
| no quotes, and every record has the right number of fields | `_Grid`: finds delimiters and line breaks in one pass |
| quotes only around fields (`ordinary`), or some counts are wrong | by Arrow, which agrees with RFC 4180 here |
| others, and those with a carriage return that is not part of a line break | one by one |

A grid holds the position of every field, and copies the fields of a column only for the records that a caller requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from tidegate.expr.model import outcome
from tidegate.ingest.formats.lines import contains, positions
from tidegate.ingest.protocol import RecordError

UNCLOSED = "a quoted field is not closed"
BEHIND_QUOTE = "text follows a closing quote"
_STRETCH = 1 << 16
"""Bytes that are searched at a time."""


class CsvRecordError(ValueError):
    """A record is not valid CSV; the message becomes the record's error."""


Pick: TypeAlias = Callable[[int, np.ndarray | None], pa.Array]


class Fields(NamedTuple):
    """The fields of valid records, and the errors of the others."""

    column: Pick
    """Returns a requested column, by its position in the record, for all of `rows` or for some, by their positions in `rows`."""
    rows: np.ndarray
    failures: list[RecordError]


def split(record: str, delimiter: str) -> list[str]:
    """Splits one record, with or without its line break, into fields."""
    text = record.removesuffix("\n").removesuffix("\r") if record.endswith("\n") else record
    fields: list[str] = []
    at = 0
    while True:
        if text.startswith('"', at):
            end = text.find('"', at + 1)
            while end >= 0 and text.startswith('"', end + 1):
                end = text.find('"', end + 2)
            if end < 0:
                raise CsvRecordError(UNCLOSED)
            fields.append(text[at + 1 : end].replace('""', '"'))
            at = end + 1
            if at < len(text) and text[at] != delimiter:
                raise CsvRecordError(BEHIND_QUOTE)
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
    """Finds where the records of a block end; bytes after the last end begin an incomplete record.

    `last` means that nothing follows the block. Then a line with a quote that is never closed is a record, which fails, and
    parsing continues on the next line: one wrong quote does not consume the rest of a file.
    """
    breaks = positions(letters, "\n")
    if contains(letters, '"'):
        quotes = positions(letters, '"')
        if not ordinary(letters, quotes, delimiter) or (last and len(quotes) % 2):
            return _ends_by_line(letters.tobytes(), delimiter, last=last)
        breaks = breaks[np.searchsorted(quotes, breaks) % 2 == 0]
    behind = breaks + 1
    if last and len(letters) and (not len(behind) or behind[-1] != len(letters)):
        behind = np.append(behind, len(letters))
    return behind


def ordinary(letters: np.ndarray, quotes: np.ndarray, delimiter: str) -> bool:
    """Whether every quote opens a field, closes one, or is one of a pair that represents a quote."""
    around = np.zeros(256, bool)
    around[[ord(delimiter), ord("\n"), ord('"')]] = True
    opening, closing = quotes[::2], quotes[1::2]
    before = letters[np.maximum(opening - 1, 0)]
    fits = around[before] | (opening == 0)
    # A quote before an opening one must be a closing one; this holds, since they alternate.
    around[ord("\r")] = True
    behind = letters[np.minimum(closing + 1, len(letters) - 1)]
    fits_behind = around[behind] | (closing == len(letters) - 1)
    doubled = (before == ord('"')) & (opening > 0)
    return bool(fits.all() and fits_behind.all() and _pairs(quotes, opening[doubled]))


def _pairs(quotes: np.ndarray, opening: np.ndarray) -> bool:
    """Whether the quote right before each of these is the closing one before it."""
    at = np.searchsorted(quotes, opening)
    return bool((quotes[at - 1] == opening - 1).all())


def _ends_by_line(data: bytes, delimiter: str, *, last: bool) -> np.ndarray:
    """Finds the ends of records line by line: a record continues while a quote is open."""
    lines = data.splitlines(keepends=True) if b"\r" not in data else _lines(data)
    record_ends: list[int] = []
    at = begin = position = 0
    while at < len(lines):
        begin, record = position, b""
        upto = at
        while upto < len(lines):
            record += lines[upto]
            upto += 1
            if not _has_open_quote(record, delimiter):
                break
        else:
            if not last:
                break
            upto, record = at + 1, lines[at]
        position = begin + len(record)
        at = upto
        if not last and at == len(lines) and not record.endswith(b"\n"):
            break
        record_ends.append(position)
    return np.array(record_ends, np.int64)


def _lines(data: bytes) -> list[bytes]:
    """Splits at line feeds only."""
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _has_open_quote(record: bytes, delimiter: str) -> bool:
    try:
        split(record.decode("latin-1"), delimiter)
    except CsvRecordError as bad:
        return str(bad) == UNCLOSED
    return False


# ---------------------------------------------------------------- fields


def parse(records: pa.Array, delimiter: str, width: int, columns: Sequence[int]) -> Fields:
    """Parses some of the `width` columns of records that are valid UTF-8 and not empty."""
    if not len(records):
        return Fields(lambda *_: pa.array([], pa.string()), np.zeros(0, np.int64), [])
    data = outcome.raw_bytes(records)
    if _has_regular_breaks(data, records):
        quotes = positions(data, '"') if contains(data, '"') else np.zeros(0, np.int64)
        grid = None if len(quotes) else _Grid.of(data, records, delimiter, width)
        if grid is not None:
            return Fields(grid.column, np.arange(len(records)), [])
        if len(quotes) % 2 == 0 and (not len(quotes) or ordinary(data, quotes, delimiter)):
            fields = _parse_by_arrow(records, data, delimiter, width, columns, quoted=bool(len(quotes)))
            if fields is not None:
                return fields
    return _parse_one_by_one(records, delimiter, width, columns)


def _parse_one_by_one(records: pa.Array, delimiter: str, width: int, columns: Sequence[int]) -> Fields:
    rows: list[int] = []
    values: list[list[str]] = []
    failures: list[RecordError] = []
    for i, record in enumerate(records.to_pylist()):
        try:
            fields = split(record.decode(), delimiter)
            if len(fields) != width:
                raise CsvRecordError(wrong_count(len(fields), width))
        except CsvRecordError as bad:
            failures.append((i, str(bad)))
        else:
            rows.append(i)
            values.append(fields)
    arrays = {column: pa.array([fields[column] for fields in values], pa.string()) for column in columns}
    return Fields(_pick_from(arrays), np.array(rows, np.int64), failures)


def _pick_from(arrays: dict[int, pa.Array]) -> Pick:
    """Returns a function that picks from parsed columns."""
    return lambda column, rows: arrays[column] if rows is None else arrays[column].take(pa.array(rows))


def wrong_count(count: int, width: int) -> str:
    """The message for a record with too many or too few fields."""
    return f"the record has {count} field{'' if count == 1 else 's'} instead of {width}"


def _has_regular_breaks(data: np.ndarray, records: pa.Array) -> bool:
    """Whether each record but the last ends with a line break, and each carriage return is part of one."""
    if contains(data, "\r"):
        returns = positions(data, "\r")
        if not (data[np.minimum(returns + 1, len(data) - 1)] == ord("\n")).all():
            return False
    behind = np.cumsum(pc.binary_length(records).to_numpy())
    return bool((data[behind[:-1] - 1] == ord("\n")).all())


class _Grid:
    """The positions of the fields of records without quotes, each with `width` fields."""

    def __init__(self, fields: pa.Array, width: int, *, returns: bool) -> None:
        self._fields, self._width, self._returns = fields, width, returns

    @staticmethod
    def of(data: np.ndarray, records: pa.Array, delimiter: str, width: int) -> _Grid | None:
        """Finds the fields; None if a record has another number of fields."""
        if data[-1] != ord("\n"):
            data = np.append(data, np.uint8(ord("\n")))
        marks = separators(data, delimiter)
        if len(marks) != width * len(records) or not (data[marks[width - 1 :: width]] == ord("\n")).all():
            return None
        offsets = np.zeros(len(marks) + 1, np.int32)
        np.add(marks, 1, out=offsets[1:], casting="unsafe")
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
        fields = pa.Array.from_buffers(pa.binary(), len(marks), buffers)
        return _Grid(fields, width, returns=contains(data, "\r"))

    def column(self, column: int, rows: np.ndarray | None) -> pa.Array:
        """The texts of a column: takes each field with its separator, which is then cut off."""
        count = len(self._fields) // self._width
        at = np.arange(count) if rows is None else rows
        texts = pc.binary_slice(self._fields.take(pa.array(at * self._width + column)), 0, -1)
        if self._returns and column == self._width - 1:
            texts = pc.if_else(pc.ends_with(texts, b"\r"), pc.binary_slice(texts, 0, -1), texts)
        return texts.view(pa.string())


def separators(data: np.ndarray, delimiter: str) -> np.ndarray:
    """The positions of delimiters and line breaks."""
    delimiters, breaks = np.empty(_STRETCH, bool), np.empty(_STRETCH, bool)
    marks = []
    for at in range(0, len(data), _STRETCH):
        stretch = data[at : at + _STRETCH]
        same = np.equal(stretch, ord(delimiter), out=delimiters[: len(stretch)])
        np.logical_or(same, np.equal(stretch, ord("\n"), out=breaks[: len(stretch)]), out=same)
        marks.append(np.flatnonzero(same) + at)
    return np.concatenate(marks)


def _parse_by_arrow(
    records: pa.Array, data: np.ndarray, delimiter: str, width: int, columns: Sequence[int], *, quoted: bool
) -> Fields | None:
    """Parses with Arrow; None if Arrow finds a different number of records."""
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
    return Fields(_pick_from(arrays), np.flatnonzero(good), failures)
