r"""Reads the data of COPY … FROM STDIN in the text and CSV formats, piece by piece as it arrives.

    reader = CsvReader(options, ("id", "name"))
    reader.feed(b"1,ham\n2,eg")       [RawRows(first_line=1, columns=[["1"], ["ham"]])]
    reader.feed(b"gs\n")              [RawRows(first_line=2, columns=[["2"], ["eggs"]])]

Each piece is cut behind the last record that is complete. In CSV a line break may be in quotes: it ends a record where the
number of quotes before it is even. With an escape character other than the quote, line ends cannot be recognised early, and all
data is read at the end.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv as arrow_csv

from tidegate.server.postgres.copy.options import CopyOptions
from tidegate.server.postgres.wire.sqlstate import PostgresError

_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_LETTERS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


@dataclass(frozen=True)
class RawRows:
    """Rows as texts, a column each; `lines` gives the line on which each row begins, from 1."""

    columns: list[pa.Array]
    lines: Sequence[int]


class LineReader:
    """Cuts data into records, and counts lines."""

    def __init__(self, options: CopyOptions, names: Sequence[str]) -> None:
        self.options, self.names = options, tuple(names)
        self._rest = b""
        self._line = 1
        self._header = options.header
        self._ended = False

    def feed(self, data: bytes) -> Iterator[RawRows]:
        """Yields the rows that are complete."""
        if self._ended:
            return
        self._rest += data
        if not self._is_worth_a_read():
            return
        end = self._end_of_records(self._rest)
        if end:
            complete, self._rest = self._rest[:end], self._rest[end:]
            yield from self._read(complete)

    def finish(self) -> Iterator[RawRows]:
        """Yields the rows that are left, the last of which may lack its line break."""
        if self._rest and not self._ended:
            complete, self._rest = self._rest, b""
            yield from self._read(complete)

    def _is_worth_a_read(self) -> bool:
        """Whether enough data has arrived: clients send a message per line."""
        return len(self._rest) >= 1 << 18

    def _end_of_records(self, data: bytes) -> int:
        return data.rfind(b"\n") + 1

    def _read(self, data: bytes) -> Iterator[RawRows]:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = self._line + data.count(b"\n", 0, error.start)
            raise PostgresError(
                "22021", "the data of COPY is not valid UTF-8", context=f"line {line}"
            ) from None
        if "\0" in text:
            line = self._line + text.count("\n", 0, text.index("\0"))
            raise PostgresError("22021", "a text cannot contain a NUL character", context=f"line {line}")
        if self._header and text:
            text = self._skip_header(text)
        if text:
            rows = self._rows(text)
            if rows.lines:
                yield rows

    def _skip_header(self, text: str) -> str:
        self._header = False
        line, _, rest = text.partition("\n")
        self._line += 1
        if self.options.match_header:
            given = self._fields(line.removesuffix("\r"))
            if given != list(self.names):
                raise PostgresError(
                    "22P04",
                    f"the header names {', '.join(given)[:200]}, and the columns are {', '.join(self.names)}",
                    context="line 1",
                )
        return rest

    def _fields(self, line: str) -> list[str]:
        return next(csv.reader([line], delimiter=self.options.delimiter, quotechar=self.options.quote), [])

    def _rows(self, text: str) -> RawRows:
        raise NotImplementedError

    def _wrong_count(self, fields: int, line: int) -> PostgresError:
        count = len(self.names)
        message = f"the line has {fields} values, and there are {count} columns"
        return PostgresError("22P04", message, context=f"line {line}")


class TextReader(LineReader):
    r"""The text format: one record a line, with backslash escapes; `\.` alone on a line ends the data."""

    def _fields(self, line: str) -> list[str]:
        return line.split(self.options.delimiter)

    def _rows(self, text: str) -> RawRows:
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        values: list[list[str | None]] = [[] for _ in self.names]
        numbers: list[int] = []
        for line in lines:
            line = line.removesuffix("\r")
            if line == "\\.":
                self._ended = True
                break
            fields = self._split(line)
            if len(fields) != len(self.names):
                raise self._wrong_count(len(fields), self._line)
            for column, field in zip(values, fields, strict=True):
                column.append(field)
            numbers.append(self._line)
            self._line += 1
        return RawRows([pa.array(column, pa.string()) for column in values], numbers)

    def _split(self, line: str) -> list[str | None]:
        delimiter, null = self.options.delimiter, self.options.null
        if "\\" not in line:
            return [None if field == null else field for field in line.split(delimiter)]
        fields = re.split(rf"(?<!\\)((?:\\\\)*){re.escape(delimiter)}", line)
        whole = [
            field + (fields[i + 1] if i + 1 < len(fields) else "")
            for i, field in enumerate(fields)
            if i % 2 == 0
        ]
        return [None if field == null else self._unescaped(field) for field in whole]

    def _unescaped(self, field: str) -> str:
        r"""Replaces escapes, some of which are bytes of a character: `\xc3\xa9` is é."""
        if "\\" not in field:
            return field
        try:
            text = _ESCAPE.sub(_byte, field.encode()).decode()
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise PostgresError(
                "22021", "an escape in the data of COPY is not valid UTF-8", context=f"line {self._line}"
            )
        return text


def _byte(match: re.Match[bytes]) -> bytes:
    octal, hexadecimal, letter = match.groups()
    if octal or hexadecimal:
        return bytes([(int(octal, 8) if octal else int(hexadecimal, 16)) & 0xFF])
    return _LETTERS.get(letter, letter)


class CsvReader(LineReader):
    """The CSV format."""

    def _is_worth_a_read(self) -> bool:
        return self.options.quote == self.options.escape and super()._is_worth_a_read()

    def _end_of_records(self, data: bytes) -> int:
        quote, end = self.options.quote.encode(), data.rfind(b"\n") + 1
        odd = data.count(quote, 0, end) % 2 == 1
        while end and odd:  # this line break is in quotes
            before = data.rfind(b"\n", 0, end - 1) + 1
            odd ^= data.count(quote, before, end) % 2 == 1
            end = before
        return end

    def _skip_header(self, text: str) -> str:
        end = self._end_of_records(text.encode()[: 1 << 16])
        if end == 0:
            return super()._skip_header(text)
        first = next(iter(self._records(text)), [])
        header = self._lines_of(text, 1)[1] - 1
        lines = text.split("\n")
        self._header = False
        if self.options.match_header and first != list(self.names):
            return super()._skip_header("\n".join(lines))
        self._line += header
        return "\n".join(lines[header:])

    def _records(self, text: str) -> Iterator[list[str]]:
        options = self.options
        same = options.escape == options.quote
        return csv.reader(
            io.StringIO(text, newline=""),
            delimiter=options.delimiter,
            quotechar=options.quote,
            doublequote=same,
            escapechar=None if same else options.escape,
        )

    def _lines_of(self, text: str, count: int) -> list[int]:
        """Returns the first lines of the first `count` records, relative to 1, and the line behind them."""
        reader = self._records(text)
        ends = (reader.line_num for _ in zip(range(count), reader, strict=False))  # type: ignore[attr-defined]  # csv.reader counts lines
        return [1, *(end + 1 for end in ends)]

    def _rows(self, text: str) -> RawRows:
        options = self.options
        same = options.escape == options.quote
        wrong: list[tuple[int, int]] = []

        def note(row: arrow_csv.InvalidRow) -> str:
            wrong.append((row.number or 0, row.actual_columns))
            return "skip"

        try:
            table = arrow_csv.read_csv(
                io.BytesIO(text.encode()),
                arrow_csv.ReadOptions(use_threads=False, column_names=self.names, block_size=1 << 30),
                arrow_csv.ParseOptions(
                    delimiter=options.delimiter,
                    quote_char=options.quote,
                    double_quote=same,
                    escape_char=False if same else options.escape,
                    newlines_in_values=True,
                    ignore_empty_lines=False,
                    invalid_row_handler=note,
                ),
                arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(self.names, pa.string()),
                    null_values=[options.null],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid:
            raise PostgresError(
                "22P04", "the data of COPY is not CSV", context=f"line {self._line} or later"
            ) from None
        if wrong:
            row, fields = min(wrong)
            raise self._wrong_count(fields, self._line + self._lines_of(text, row)[-2] - 1)
        return RawRows(
            [column.combine_chunks() for column in table.columns], self._line_numbers(text, table.num_rows)
        )

    def _line_numbers(self, text: str, rows: int) -> Sequence[int]:
        first = self._line
        breaks = text.count("\n")
        self._line += breaks
        if breaks <= rows:
            return range(first, first + rows)
        return [first + line - 1 for line in self._lines_of(text, rows)[:-1]]
