"""FORMAT PARQUET: a column for each of the file's; demanded ones are read alone.

    SELECT id FROM s WHERE at >= '2026-01-01' AND kind = 'pay'

1. Row groups whose statistics prove that no row passes (and none fails) are not read: the footer's bounds are put to
   the same interpreter that prunes parts (`plan/verdict.py`).
2. Of the others `at` and `kind` are read, some rows at a time, and the filter asked; 3. of what passes, `id`.

Footers' bounds are taken for integers, booleans, dates, timestamps and text, whose order there is ours. Not for floats
(NaN and -0) nor for what is nested. A footer that has no bounds says nothing, and its row group is read.

Columns are found by name in each file, in any order; a file may lack one (it is NULL there), and may have others. One
that does not become the source's type is an error that names the file. A text that is no UTF-8 makes its row fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import CorruptError, UnsupportedError
from tidegate.expr.exact_json import encode
from tidegate.expr.outcome import Errors, failing, first_error
from tidegate.expr.spelling import from_utf8
from tidegate.expr.types import TEXT, Type
from tidegate.ingest.decode.avro_types import plain_json
from tidegate.ingest.decode.demand import Staged, stages
from tidegate.ingest.decode.parquet_pages import (
    Stream,
    check_pages,
    fitting,
    opened_as_dictionaries,
    row_bytes,
    rows_at_once,
)
from tidegate.ingest.decode.parquet_types import converted, specs_of, type_of
from tidegate.ingest.decode.rows import bad, bad_rows, fine, picked
from tidegate.ingest.limits import limits
from tidegate.ingest.source import Columns, Decoded
from tidegate.plan.mfp import MapFilterProject
from tidegate.plan.verdict import verdicts


@dataclass(frozen=True)
class Parquet:
    """Files that bring their columns."""

    columns: Columns

    @staticmethod
    def of_file(opened: BinaryIO, name: str) -> Parquet:
        """With the columns of a file."""
        schema = _opened(opened, name).schema_arrow
        return Parquet(tuple((field.name, type_of(field.type, field.name)) for field in schema))

    @property
    def splittable(self) -> bool:
        """A file is read by its footer."""
        return False

    def take(self, plan: MapFilterProject) -> tuple[ParquetDecode, MapFilterProject]:
        """Takes the demanded columns, and the conditions over them."""
        staged, left = stages(plan, len(self.columns))
        return ParquetDecode(self, staged), left


@dataclass(frozen=True)
class ParquetDecode:
    """Files of which some columns are wanted, of some row groups."""

    format: Parquet
    staged: Staged

    @property
    def columns(self) -> Columns:
        """What the plan makes of the columns of its conditions, and others that it demands."""
        return self.staged.columns

    def records(self, values: pa.Array) -> Decoded:
        """Values are no Parquet files."""
        del values
        raise UnsupportedError(
            "FORMAT PARQUET is for files", hint="read records with AVRO, JSON, CSV, TEXT or BYTES"
        )

    def file(self, opened: BinaryIO, name: str) -> Iterator[Decoded]:
        """The rows of a file, some of a row group at a time."""
        plain = _opened(opened, name)
        names = [self.format.columns[i][0] for i in (*self.staged.first, *self.staged.later)]
        keep, file = self.kept(plain), opened_as_dictionaries(opened, plain, names)
        start = 0
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if keep[group]:
                check_pages(opened, file, group, names, name)
                yield from self._group(file, group, start, name, _Raw(opened, plain, group))
            elif count:
                size = file.metadata.row_group(group).total_byte_size
                nothing = [pa.array([], type_.arrow) for _, type_ in self.columns]
                yield Decoded(nothing, np.zeros(0, np.int64), [], count, lambda _: b"", start, size=size)
            start += count

    def kept(self, file: pq.ParquetFile) -> np.ndarray:
        """The row groups that must be read, for a row of them may pass or fail."""
        plan, groups = self.staged.before.mfp, file.num_row_groups
        if not plan.predicates or not groups:
            return np.ones(groups, bool)
        specs = []
        for i in self.staged.first:
            name, type_ = self.format.columns[i]
            place = _place(file, name)
            found = [
                None if place is None else file.metadata.row_group(group).column(place).statistics
                for group in range(groups)
            ]
            specs.append(
                specs_of(found, None if place is None else file.schema_arrow.field(name).type, type_)
            )
        # A text that is no UTF-8 is an error that no statistics tell of: it is then not looked for.
        return verdicts(plan, specs, parts=groups).keep

    def _group(self, file: pq.ParquetFile, group: int, start: int, name: str, raw: _Raw) -> Iterator[Decoded]:
        count = file.metadata.row_group(group).num_rows
        first, later = (_Reading(self.format, file, group, side, name) for side in self._sides)
        at = 0
        share = file.metadata.row_group(group).total_byte_size / max(count, 1)
        while at < count:
            rows = min(first.rows, later.rows, count - at)
            decoded = self._some(first, later, at, rows)
            yield replace(
                decoded, raw=raw.of(at, decoded.count), start=start + at, size=int(share * decoded.count)
            )
            at += decoded.count

    @property
    def _sides(self) -> tuple[Sequence[int], Sequence[int]]:
        return self.staged.first, self.staged.later

    def _some(self, first: _Reading, later: _Reading, at: int, rows: int) -> Decoded:
        """Rows from there on: as many of these as fit into memory."""
        columns, errors, rows = first.read(at, rows)
        good = np.flatnonzero(fine(errors, rows))
        found = self.staged.before.evaluate([picked(column, good) for column in columns], len(good))
        passed = good[found.selection]
        failures = [*bad(errors, np.arange(rows)), *bad_rows(found, good)]
        rest: list[pa.Array] = []
        kept = np.arange(len(passed))
        if self.staged.later and len(passed):
            whole, wrong, rows = later.read(at, rows)
            fits = passed < rows
            kept = np.flatnonzero(fits & fine(wrong, rows)[np.minimum(passed, rows - 1)])
            rest = [picked(column, passed[kept]) for column in whole]
            shown = set(passed[fits].tolist())
            failures = [one for one in failures if one[0] < rows]
            failures += [one for one in bad(wrong, np.arange(rows)) if one[0] in shown]
        elif self.staged.later:
            rest = [pa.array([], self.format.columns[i][1].arrow) for i in self.staged.later]
        made = [*(picked(column, kept) for column in found.columns), *rest]
        return Decoded(made, passed[kept], sorted(failures), rows, lambda _: b"")


class _Reading:
    """Some columns of a row group, as the source has them."""

    def __init__(
        self, format_: Parquet, file: pq.ParquetFile, group: int, wanted: Sequence[int], name: str
    ) -> None:
        self.wanted, self.name = [format_.columns[i] for i in wanted], name
        have = set(file.schema_arrow.names)
        self.names = [one for one, _ in self.wanted if one in have]
        self.rows = rows_at_once(file, self.names)
        self._make: Callable[[], Stream] = partial(Stream, file, group, self.names)

    @cached_property
    def _stream(self) -> Stream:
        return self._make()

    def read(self, at: int, count: int) -> tuple[list[pa.Array], Errors, int]:
        """Columns of rows from there on, the rows that fail, and how many rows these are: as many as fit."""
        if not self.names:
            return [pa.nulls(count, type_.arrow) for _, type_ in self.wanted], None, count
        try:
            table = self._stream.at(at, count)
            sizes = row_bytes(table)
            long = sizes > limits().record
            count = min(count, fitting(np.where(long, 0, sizes)))
            table, long = table.slice(0, count), long[:count]
            if long.any():  # not taken out at all
                table = table.take(pa.array(np.arange(count), mask=long))
            found = [
                _column(table.column(one) if one in table.column_names else None, type_, count)
                for one, type_ in self.wanted
            ]
        except (pa.ArrowException, OSError) as error:
            raise CorruptError(f'the file "{self.name}" cannot be read: {error}') from error
        errors = failing(pa.array(long), pa.scalar(limits().too_long())) if long.any() else None
        return [values for values, _ in found], first_error(errors, *(wrong for _, wrong in found)), count


def _column(values: pa.ChunkedArray | None, type_: Type, count: int) -> tuple[pa.Array, Errors]:
    if values is None:
        return pa.nulls(count, type_.arrow), None
    whole = converted(_taken_out(values), type_)
    if type_ == TEXT:
        return from_utf8(whole.cast(pa.binary()))
    whole.validate(full=type_.is_nested)
    return whole, None


def _taken_out(values: pa.ChunkedArray) -> pa.Array:
    """One array, of texts and not of numbers of a dictionary."""
    chunks = [
        chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk for chunk in values.chunks
    ]
    if not chunks:
        return pa.chunked_array([], values.type).combine_chunks()
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


def _opened(opened: BinaryIO, name: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(opened)
    except (pa.ArrowException, OSError) as error:
        raise CorruptError(
            f'the file "{name}" is no Parquet file, or is damaged: {error}',
            hint="write files under another name and rename them once they are complete",
        ) from error


def _place(file: pq.ParquetFile, name: str) -> int | None:
    """The leaf of a column that is not nested."""
    for place in range(file.metadata.num_columns):
        if file.metadata.schema.column(place).path == name:
            return place
    return None


class _Raw:
    """A row has no bytes of its own: it is given as JSON. Rows are asked for in order, so each is read once."""

    def __init__(self, opened: BinaryIO, file: pq.ParquetFile, group: int) -> None:
        self._opened, self._file, self._group = opened, file, group

    @cached_property
    def _stream(self) -> Stream:
        names = self._file.schema_arrow.names
        check_pages(self._opened, self._file, self._group, names, "")
        return Stream(opened_as_dictionaries(self._opened, self._file, names), self._group, names)

    def of(self, at: int, count: int) -> Callable[[int], bytes]:
        """Of the rows from there on."""

        def raw(record: int) -> bytes:
            try:
                table = self._stream.at(at, count).slice(record, 1)
            except (CorruptError, pa.ArrowException, OSError):  # a column that nobody asked for
                return b""
            if int(row_bytes(table)[0]) > limits().record:
                return b""
            (row,) = table.to_pylist()
            return encode(plain_json(row)).encode("utf-8", "backslashreplace")

        return raw
