"""FORMAT CSV: text columns, numbered or named by a header; only demanded ones are decoded.

    FORMAT CSV WITH 3 COLUMNS                       column1, column2, column3
    FORMAT CSV WITH HEADER (id, kind) DELIMITED BY ';'
    FORMAT CSV WITH HEADER                          names from the first file: `CsvFormat.named_by`

A field is text, never NULL: `a,,b` contains an empty text. In a file with a header, columns are found by name, in any order;
a missing column is an error of the file. A record with more or fewer fields than the header (or than the number of columns)
fails, and so does one that is not UTF-8 in any field. Empty lines are not records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import CorruptError
from tidegate.expr.model import types
from tidegate.expr.primitives import byte_encoding
from tidegate.ingest.formats import lines as files
from tidegate.ingest.formats.csv.text import CsvRecordError, Pick, ends, parse, split, wrong_count
from tidegate.ingest.formats.demand import StagedPlan, split_stages
from tidegate.ingest.formats.limits import current_limits
from tidegate.ingest.formats.rows import (
    error_free,
    error_records,
    line_of,
    plan_error_records,
    refused_record,
    take_rows,
)
from tidegate.ingest.protocol import Columns, DecodedBatch, RecordError, RecordFormat
from tidegate.plan import MapFilterProject


@dataclass(frozen=True)
class CsvFormat(RecordFormat):
    """Records of delimited fields."""

    names: tuple[str, ...]
    header: bool = False
    """Whether files start with a record that names the columns."""
    delimiter: str = ","

    @staticmethod
    def numbered(count: int, delimiter: str = ",") -> CsvFormat:
        """Creates the format for WITH n COLUMNS."""
        return CsvFormat(tuple(f"column{i + 1}" for i in range(count)), delimiter=delimiter)

    @staticmethod
    def named_by(opened: BinaryIO, name: str, delimiter: str = ",") -> CsvFormat:
        """Creates the format for WITH HEADER, with the names in the header of a sample file."""
        for records, _, refused in _blocks(opened, name, delimiter):
            if refused is not None:
                raise CorruptError(f'the header of the file "{name}" cannot be read: {refused}')
            return CsvFormat(_header(records[0].as_py(), name, delimiter), header=True, delimiter=delimiter)
        raise CorruptError(
            f'the file "{name}" is empty, so it has no header', hint="name the columns: WITH HEADER (a, b)"
        )

    @property
    def columns(self) -> Columns:
        """The columns, all of type text."""
        return tuple((name, types.TEXT) for name in self.names)

    def to_json(self) -> dict[str, Any]:
        """The JSON form in the catalog."""
        return {
            "kind": "csv",
            "names": list(self.names),
            "header": self.header,
            "delimiter": self.delimiter,
        }

    def take(self, plan: MapFilterProject) -> tuple[CsvDecoder, MapFilterProject]:
        """Takes over the columns that the plan reads, and the conditions on them."""
        staged, left = split_stages(plan, len(self.names))
        return CsvDecoder(self, staged), left


@dataclass(frozen=True)
class CsvDecoder:
    """Decodes the columns of CSV records that a plan reads."""

    format: CsvFormat
    staged: StagedPlan

    @property
    def columns(self) -> Columns:
        """The outputs of the first stage, and the columns of the second."""
        return self.staged.columns

    def records(self, values: pa.Array) -> DecodedBatch:
        """Decodes values, one record each, without a header."""
        width = len(self.format.names)
        present = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        texts = _without_final_break(take_rows(values, present))
        several = _hold_several_records(texts, self.format.delimiter)
        void = _are_empty(texts) & (width > 1)  # an empty line of a file is not a record, but a value is
        failures = [(int(i), "the value is not one record") for i in present[several]]
        failures += [(int(i), wrong_count(1, width)) for i in present[void]]
        single = ~several & ~void
        lines = pc.binary_join_element_wise(texts.filter(pa.array(single)), pa.scalar(b"\n"), pa.scalar(b""))
        return self._decode(values, self._parse(lines, present[single], range(width), width), failures)

    def file(self, opened: BinaryIO, name: str) -> Iterator[DecodedBatch]:
        """Decodes the records of a file, after its header."""
        places: Sequence[int] = range(len(self.format.names))
        width, first = len(places), self.format.header
        for records, numbers, refused in _blocks(opened, name, self.format.delimiter):
            begin = 0
            if refused is not None:
                if first:
                    raise CorruptError(f'the header of the file "{name}" cannot be read: {refused}')
                yield refused_record(self.columns, records, int(numbers[0]), refused)
                continue
            if first:
                header = _header(records[0].as_py(), name, self.format.delimiter)
                places, width, first, begin = self._places(header, name), len(header), False, 1
            rows = np.flatnonzero(~_are_empty(records))
            rows = rows[rows >= begin]
            whole = len(rows) == len(records) - begin  # the usual case, which needs no copy
            lines = records.slice(begin) if whole else take_rows(records, rows)
            parsed = self._parse(lines, rows, places, width)
            yield replace(self._decode(records, parsed, []), start=int(numbers[0]), numbers=numbers)

    def _places(self, header: Sequence[str], name: str) -> tuple[int, ...]:
        """The positions of the columns in this file."""
        for wanted in self.format.names:
            if header.count(wanted) != 1:
                count = "no column" if wanted not in header else "several columns"
                raise CorruptError(
                    f'the file "{name}" has {count} "{wanted}" in its header',
                    hint=f"its columns are {', '.join(header)}",
                )
        return tuple(header.index(wanted) for wanted in self.format.names)

    def _parse(self, records: pa.Array, numbers: np.ndarray, places: Sequence[int], width: int) -> _Parsed:
        """Parses records; returns the valid ones with their numbers, and the errors of the others."""
        errors = byte_encoding.from_utf8(records).errors
        good = np.flatnonzero(error_free(errors, len(records)))
        wanted = [places[column] for column in (*self.staged.first, *self.staged.later)]
        fields = parse(take_rows(records, good), self.format.delimiter, width, wanted)
        failures = [
            *error_records(errors, numbers),
            *((int(numbers[good[i]]), why) for i, why in fields.failures),
        ]
        return _Parsed(
            lambda column, rows: fields.column(places[column], rows), numbers[good[fields.rows]], failures
        )

    def _decode(self, values: pa.Array, parsed: _Parsed, failures: list[RecordError]) -> DecodedBatch:
        if values.null_count:
            parsed = _with_nulls(parsed, values)
        numbers = parsed.numbers
        rows = self.staged.before.evaluate(
            [parsed.column(column, None) for column in self.staged.first], len(numbers)
        )
        passed = rows.selection if len(rows.selection) < len(numbers) else None
        return DecodedBatch(
            [*rows.columns, *(parsed.column(column, passed) for column in self.staged.later)],
            numbers[rows.selection],
            sorted([*parsed.failures, *failures, *plan_error_records(rows, numbers)]),
            len(values),
            line_of(values),
            size=values.nbytes,
        )


class _Parsed(NamedTuple):
    """Valid records, and the errors of others."""

    column: Pick
    """Returns a column by its position among the source's columns."""
    numbers: np.ndarray
    """The record number of each row."""
    failures: list[RecordError]


def _with_nulls(parsed: _Parsed, values: pa.Array) -> _Parsed:
    """Adds a row of NULLs for each missing value."""
    nulls = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
    both = np.concatenate([parsed.numbers, nulls])
    order = np.argsort(both, kind="stable")

    def column(place: int, rows: np.ndarray | None) -> pa.Array:
        padded = pa.concat_arrays([parsed.column(place, None), pa.nulls(len(nulls), pa.string())])
        return padded.take(pa.array(order if rows is None else order[rows]))

    return _Parsed(column, both[order], parsed.failures)


def _without_final_break(values: pa.Array) -> pa.Array:
    """Values without a line break, or a part of one, at their end."""
    if not pc.any(pc.is_in(pc.binary_slice(values, -1), pa.array([b"\n", b"\r"])), min_count=0).as_py():
        return values
    return pc.replace_substring_regex(values, r"\r?\n\z|\r\z", "")


def _hold_several_records(values: pa.Array, delimiter: str) -> np.ndarray:
    """Which values hold several records, cut as in a file, apart from a final line break."""
    several = np.array(pc.match_substring(values, "\n").to_numpy(zero_copy_only=False), bool)
    for row in np.flatnonzero(several):
        letters = np.frombuffer(values[int(row)].as_py(), np.uint8)
        several[row] = len(ends(letters, delimiter, last=True)) > 1
    return several


def _are_empty(records: pa.Array) -> np.ndarray:
    short = pc.less(pc.binary_length(records), 3)
    empty: np.ndarray = pc.fill_null(short, False).to_numpy(zero_copy_only=False).copy()
    rows = np.flatnonzero(empty)
    breaks = pa.array([b"", b"\n", b"\r\n"], pa.binary())
    empty[rows] = pc.is_in(records.take(pa.array(rows)), breaks).to_numpy(zero_copy_only=False)
    return empty


def _header(record: bytes, name: str, delimiter: str) -> tuple[str, ...]:
    try:
        return tuple(split(record.decode(), delimiter))
    except (CsvRecordError, UnicodeDecodeError) as error:
        raise CorruptError(f'the header of the file "{name}" cannot be read: {error}') from None


def _blocks(opened: BinaryIO, name: str, delimiter: str) -> Iterator[tuple[pa.Array, np.ndarray, str | None]]:
    """Yields whole records of a file and their lines; or the start of an oversized one, and the reason.

    A record without an end is treated as a line with one quote too many, and only this line fails; if it is a single line, reading
    continues after the next line break.
    """
    line = 0
    for letters, last, set_cut in files.pieces(opened, name):
        cut = ends(letters, delimiter, last=last)
        quoted = files.contains(letters, '"')
        breaks = files.positions(letters, "\n") if quoted or not len(cut) else cut
        if not len(cut) and len(letters) > current_limits().record and len(breaks):
            cut = ends(letters[: int(breaks[-1]) + 1], delimiter, last=True)
        endless = not len(cut) and len(letters) > current_limits().record
        set_cut(None if endless else int(cut[-1]) if len(cut) else 0)
        for records, first, refused in files.runs(letters, cut):
            begins = (
                cut[first - 1 : first + len(records) - 1] if first else np.append(0, cut[: len(records) - 1])
            )
            lines = np.searchsorted(breaks, begins) if quoted else first + np.arange(len(records))
            yield records, line + lines, refused
        line += int(np.searchsorted(breaks, cut[-1])) if quoted and len(cut) else len(cut)
        if endless:
            yield files.truncated_record(letters), np.array([line]), current_limits().too_long()
            line += 1
