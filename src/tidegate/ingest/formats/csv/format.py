"""FORMAT CSV: columns of text, `column1` to `columnn` or as the header names them. Demanded ones are decoded alone.

    FORMAT CSV WITH 3 COLUMNS                       column1, column2, column3
    FORMAT CSV WITH HEADER (id, kind) DELIMITED BY ';'
    FORMAT CSV WITH HEADER                          names from the first file: `Csv.named_by`

A field is text, never NULL: `a,,b` has an empty text. In a file with a header, columns are found by their names
in it, in any order; one that is missing is an error of the file. A record with more or fewer fields than the
header (or than there are columns) fails, and so does one that is no UTF-8, in whichever field. Empty lines are
no records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import CorruptError
from tidegate.expr.spelling import from_utf8
from tidegate.expr.types import TEXT
from tidegate.ingest.decode import lines as files
from tidegate.ingest.decode.csv_text import BadRecord, Pick, ends, parse, split, wrong_count
from tidegate.ingest.decode.demand import Staged, stages
from tidegate.ingest.decode.rows import bad, bad_rows, fine, line_of, picked, refusal
from tidegate.ingest.limits import limits
from tidegate.ingest.source import Bad, Columns, Decoded
from tidegate.plan.mfp import MapFilterProject


@dataclass(frozen=True)
class Csv:
    """Records of delimited fields."""

    names: tuple[str, ...]
    header: bool = False
    """Whether files start with a record that names the columns."""
    delimiter: str = ","

    @staticmethod
    def numbered(count: int, delimiter: str = ",") -> Csv:
        """WITH n COLUMNS."""
        return Csv(tuple(f"column{i + 1}" for i in range(count)), delimiter=delimiter)

    @staticmethod
    def named_by(opened: BinaryIO, name: str, delimiter: str = ",") -> Csv:
        """WITH HEADER, of which a first file tells the names."""
        for records, _, refused in _blocks(opened, name, delimiter):
            if refused is not None:
                raise CorruptError(f'the header of the file "{name}" cannot be read: {refused}')
            return Csv(_header(records[0].as_py(), name, delimiter), header=True, delimiter=delimiter)
        raise CorruptError(
            f'the file "{name}" is empty, so it has no header', hint="name the columns: WITH HEADER (a, b)"
        )

    @property
    def columns(self) -> Columns:
        """Text, each."""
        return tuple((name, TEXT) for name in self.names)

    @property
    def splittable(self) -> bool:
        """A line break may stand in a field, so records begin where all before them have been read."""
        return False

    def take(self, plan: MapFilterProject) -> tuple[CsvDecode, MapFilterProject]:
        """Takes the columns that are demanded, and the conditions over them."""
        staged, left = stages(plan, len(self.names))
        return CsvDecode(self, staged), left


@dataclass(frozen=True)
class CsvDecode:
    """CSV of which some columns are wanted."""

    format: Csv
    staged: Staged

    @property
    def columns(self) -> Columns:
        """What the plan makes of the columns of its conditions, and others that it demands."""
        return self.staged.columns

    def records(self, values: pa.Array) -> Decoded:
        """Each value a record, without a header."""
        width = len(self.format.names)
        there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        some = _unbroken(picked(values, there))
        several = _several(some, self.format.delimiter)
        void = _empty(some) & (width > 1)  # a file's empty line is no record, but a value is one
        others = [(int(i), "the value is not one record") for i in there[several]]
        others += [(int(i), wrong_count(1, width)) for i in there[void]]
        one = ~several & ~void
        lines = pc.binary_join_element_wise(some.filter(pa.array(one)), pa.scalar(b"\n"), pa.scalar(b""))
        return self._decoded(values, self._parsed(lines, there[one], range(width), width), others)

    def file(self, opened: BinaryIO, name: str) -> Iterator[Decoded]:
        """The records of a file, behind its header."""
        places: Sequence[int] = range(len(self.format.names))
        width, first = len(places), self.format.header
        for records, numbers, refused in _blocks(opened, name, self.format.delimiter):
            begin = 0
            if refused is not None:
                if first:
                    raise CorruptError(f'the header of the file "{name}" cannot be read: {refused}')
                yield refusal(self.columns, records, int(numbers[0]), refused)
                continue
            if first:
                found = _header(records[0].as_py(), name, self.format.delimiter)
                places, width, first, begin = self._places(found, name), len(found), False, 1
            kept = np.flatnonzero(~_empty(records))
            kept = kept[kept >= begin]
            whole = len(kept) == len(records) - begin  # the usual case, of which nothing need be copied
            some = records.slice(begin) if whole else picked(records, kept)
            parsed = self._parsed(some, kept, places, width)
            yield replace(self._decoded(records, parsed, []), start=int(numbers[0]), numbers=numbers)

    def _places(self, header: Sequence[str], name: str) -> tuple[int, ...]:
        """Where the columns are in this file."""
        for wanted in self.format.names:
            if header.count(wanted) != 1:
                many = "no column" if wanted not in header else "several columns"
                raise CorruptError(
                    f'the file "{name}" has {many} "{wanted}" in its header',
                    hint=f"its columns are {', '.join(header)}",
                )
        return tuple(header.index(wanted) for wanted in self.format.names)

    def _parsed(self, records: pa.Array, numbers: np.ndarray, places: Sequence[int], width: int) -> _Parsed:
        """The records that are right, their numbers, and the others."""
        errors = from_utf8(records).errors
        good = np.flatnonzero(fine(errors, len(records)))
        wanted = [places[column] for column in (*self.staged.first, *self.staged.later)]
        fields = parse(picked(records, good), self.format.delimiter, width, wanted)
        failures = [*bad(errors, numbers), *((int(numbers[good[i]]), why) for i, why in fields.failures)]
        return _Parsed(
            lambda column, rows: fields.column(places[column], rows), numbers[good[fields.rows]], failures
        )

    def _decoded(self, values: pa.Array, parsed: _Parsed, others: list[Bad]) -> Decoded:
        if values.null_count:
            parsed = _with_nulls(parsed, values)
        numbers = parsed.numbers
        rows = self.staged.before.evaluate(
            [parsed.column(column, None) for column in self.staged.first], len(numbers)
        )
        passed = rows.selection if len(rows.selection) < len(numbers) else None
        return Decoded(
            [*rows.columns, *(parsed.column(column, passed) for column in self.staged.later)],
            numbers[rows.selection],
            sorted([*parsed.failures, *others, *bad_rows(rows, numbers)]),
            len(values),
            line_of(values),
            size=values.nbytes,
        )


class _Parsed(NamedTuple):
    """Records that are right."""

    column: Pick
    """By its place among the source's columns."""
    numbers: np.ndarray
    """Which records these are."""
    failures: list[Bad]


def _with_nulls(parsed: _Parsed, values: pa.Array) -> _Parsed:
    """Rows of NULL where there was no value."""
    nulls = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
    both = np.concatenate([parsed.numbers, nulls])
    order = np.argsort(both, kind="stable")

    def column(place: int, rows: np.ndarray | None) -> pa.Array:
        padded = pa.concat_arrays([parsed.column(place, None), pa.nulls(len(nulls), pa.string())])
        return padded.take(pa.array(order if rows is None else order[rows]))

    return _Parsed(column, both[order], parsed.failures)


def _unbroken(values: pa.Array) -> pa.Array:
    """Values without a line break at their end, or what is left of one."""
    if not pc.any(pc.is_in(pc.binary_slice(values, -1), pa.array([b"\n", b"\r"])), min_count=0).as_py():
        return values
    return pc.replace_substring_regex(values, r"\r?\n\z|\r\z", "")


def _several(values: pa.Array, delimiter: str) -> np.ndarray:
    """Values that are several records, a line break at the end aside: they are cut as a file would be."""
    found = np.array(pc.match_substring(values, "\n").to_numpy(zero_copy_only=False), bool)
    for row in np.flatnonzero(found):
        letters = np.frombuffer(values[int(row)].as_py(), np.uint8)
        found[row] = len(ends(letters, delimiter, last=True)) > 1
    return found


def _empty(records: pa.Array) -> np.ndarray:
    short = pc.less(pc.binary_length(records), 3)
    found: np.ndarray = pc.fill_null(short, False).to_numpy(zero_copy_only=False).copy()
    rows = np.flatnonzero(found)
    breaks = pa.array([b"", b"\n", b"\r\n"], pa.binary())
    found[rows] = pc.is_in(records.take(pa.array(rows)), breaks).to_numpy(zero_copy_only=False)
    return found


def _header(record: bytes, name: str, delimiter: str) -> tuple[str, ...]:
    try:
        return tuple(split(record.decode(), delimiter))
    except (BadRecord, UnicodeDecodeError) as error:
        raise CorruptError(f'the header of the file "{name}" cannot be read: {error}') from None


def _blocks(opened: BinaryIO, name: str, delimiter: str) -> Iterator[tuple[pa.Array, np.ndarray, str | None]]:
    """Whole records of a file, and of each its line; or the beginning of one that is too long, and why it is refused.

    A record without an end is taken to be a line with a quote too many, which then fails alone; if it is one line, what follows
    the next line break is read.
    """
    line = 0
    for letters, last, forget in files.pieces(opened, name):
        cut = ends(letters, delimiter, last=last)
        quoted = files.holds(letters, '"')
        breaks = files.positions(letters, "\n") if quoted or not len(cut) else cut
        if not len(cut) and len(letters) > limits().record and len(breaks):
            cut = ends(letters[: int(breaks[-1]) + 1], delimiter, last=True)
        endless = not len(cut) and len(letters) > limits().record
        forget(None if endless else int(cut[-1]) if len(cut) else 0)
        for records, first, refused in files.runs(letters, cut):
            begins = (
                cut[first - 1 : first + len(records) - 1] if first else np.append(0, cut[: len(records) - 1])
            )
            lines = np.searchsorted(breaks, begins) if quoted else first + np.arange(len(records))
            yield records, line + lines, refused
        line += int(np.searchsorted(breaks, cut[-1])) if quoted and len(cut) else len(cut)
        if endless:
            yield files.beginning(letters), np.array([line]), limits().too_long()
            line += 1
