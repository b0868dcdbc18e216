"""FORMAT PARQUET: one column per column of the file; only columns that the plan reads are decoded.

    SELECT id FROM s WHERE at >= '2026-01-01' AND kind = 'pay'

1. Row groups whose statistics prove that no row passes (and none fails) are not read: the interpreter that prunes parts
   (`plan/verdicts.py`) evaluates the plan over the footer's bounds.
2. In the others `at` and `kind` are read, a number of rows at a time, and the filter is evaluated.
3. `id` is returned for the rows that pass.

The footer's bounds are used for integers, booleans, dates, timestamps and text, whose order in Parquet is the SQL order; not for
floats (NaN and -0) or nested values. A row group without bounds is read.

Columns are found by name in each file, in any order; a column that a file lacks is NULL, and other columns are ignored. A column
that cannot be convert_values to the source's type is an error that names the file. A text that is not UTF-8 makes its row fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import CorruptError, UnsupportedError
from tidegate.expr.model import Type, outcome, serialize, types
from tidegate.expr.primitives import byte_encoding, exact_json
from tidegate.ingest.formats.avro.types import plain_json
from tidegate.ingest.formats.demand import StagedPlan, split_stages
from tidegate.ingest.formats.limits import current_limits
from tidegate.ingest.formats.parquet.pages import (
    ColumnStream,
    check_pages,
    count_fitting_rows,
    reopen_with_dictionaries,
    row_bytes,
    rows_at_once,
)
from tidegate.ingest.formats.parquet.types import convert_values, specs_of, type_of
from tidegate.ingest.formats.rows import error_free, error_records, plan_error_records, take_rows
from tidegate.ingest.protocol import Columns, DecodedBatch, RecordFormat
from tidegate.plan import MapFilterProject, compute_verdicts


@dataclass(frozen=True)
class ParquetFormat(RecordFormat):
    """Parquet files, which contain their schema."""

    fields: Columns

    @staticmethod
    def of_file(opened: BinaryIO, name: str) -> ParquetFormat:
        """Creates the format with the columns of a file."""
        schema = _open_file(opened, name).schema_arrow
        return ParquetFormat(tuple((field.name, type_of(field.type, field.name)) for field in schema))

    @property
    def columns(self) -> Columns:
        """The columns of the first file."""
        return self.fields

    def to_json(self) -> dict[str, Any]:
        """The JSON form in the catalog."""
        columns = [[name, serialize.type_to_json(type_)] for name, type_ in self.fields]
        return {"kind": "parquet", "columns": columns}

    def take(self, plan: MapFilterProject) -> tuple[ParquetDecoder, MapFilterProject]:
        """Takes over the columns that the plan reads, and the conditions on them."""
        staged, left = split_stages(plan, len(self.columns))
        return ParquetDecoder(self, staged), left


@dataclass(frozen=True)
class ParquetDecoder:
    """Decodes the columns and row groups of files that a plan reads."""

    format: ParquetFormat
    staged: StagedPlan

    @property
    def columns(self) -> Columns:
        """The outputs of the first stage, and the columns of the second."""
        return self.staged.columns

    def records(self, values: pa.Array) -> DecodedBatch:
        """Raises: FORMAT PARQUET is only for files."""
        del values
        raise UnsupportedError(
            "FORMAT PARQUET is for files", hint="read records with AVRO, JSON, CSV, TEXT or BYTES"
        )

    def file(self, opened: BinaryIO, name: str) -> Iterator[DecodedBatch]:
        """Decodes the rows of a file, a part of a row group at a time."""
        plain = _open_file(opened, name)
        names = [self.format.columns[i][0] for i in (*self.staged.first, *self.staged.later)]
        keep, file = self.row_groups(plain), reopen_with_dictionaries(opened, plain, names)
        start = 0
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if keep[group]:
                check_pages(opened, file, group, names, name)
                yield from self._group(file, group, start, name, _Raw(opened, plain, group))
            elif count:
                size = file.metadata.row_group(group).total_byte_size
                nothing = [pa.array([], type_.arrow) for _, type_ in self.columns]
                yield DecodedBatch(nothing, np.zeros(0, np.int64), [], count, lambda _: b"", start, size=size)
            start += count

    def row_groups(self, file: pq.ParquetFile) -> np.ndarray:
        """Which row groups must be read, since one of their rows may pass or fail."""
        plan, groups = self.staged.before.mfp, file.num_row_groups
        if not plan.predicates or not groups:
            return np.ones(groups, bool)
        specs = []
        for i in self.staged.first:
            name, type_ = self.format.columns[i]
            place = _place(file, name)
            statistics = [
                None if place is None else file.metadata.row_group(group).column(place).statistics
                for group in range(groups)
            ]
            specs.append(
                specs_of(statistics, None if place is None else file.schema_arrow.field(name).type, type_)
            )
        # Statistics do not show texts that are not UTF-8: in a skipped row group they are not reported.
        return compute_verdicts(plan, specs, parts=groups).keep

    def _group(
        self, file: pq.ParquetFile, group: int, start: int, name: str, raw: _Raw
    ) -> Iterator[DecodedBatch]:
        count = file.metadata.row_group(group).num_rows
        first, later = (_Reading(self.format, file, group, side, name) for side in self._sides)
        at = 0
        share = file.metadata.row_group(group).total_byte_size / max(count, 1)
        while at < count:
            rows = min(first.rows, later.rows, count - at)
            decoded = self._rows(first, later, at, rows)
            yield replace(
                decoded, raw=raw.of(at, decoded.count), start=start + at, size=int(share * decoded.count)
            )
            at += decoded.count

    @property
    def _sides(self) -> tuple[Sequence[int], Sequence[int]]:
        return self.staged.first, self.staged.later

    def _rows(self, first: _Reading, later: _Reading, at: int, rows: int) -> DecodedBatch:
        """Decodes rows from `at` on: at most `rows`, and as many as fit into memory."""
        columns, errors, rows = first.read(at, rows)
        good = np.flatnonzero(error_free(errors, rows))
        first_rows = self.staged.before.evaluate([take_rows(column, good) for column in columns], len(good))
        passed = good[first_rows.selection]
        failures = [*error_records(errors, np.arange(rows)), *plan_error_records(first_rows, good)]
        rest: list[pa.Array] = []
        valid = np.arange(len(passed))
        if self.staged.later and len(passed):
            whole, wrong, rows = later.read(at, rows)
            fits = passed < rows
            valid = np.flatnonzero(fits & error_free(wrong, rows)[np.minimum(passed, rows - 1)])
            rest = [take_rows(column, passed[valid]) for column in whole]
            shown = set(passed[fits].tolist())
            failures = [failure for failure in failures if failure[0] < rows]
            failures += [failure for failure in error_records(wrong, np.arange(rows)) if failure[0] in shown]
        elif self.staged.later:
            rest = [pa.array([], self.format.columns[i][1].arrow) for i in self.staged.later]
        arrays = [*(take_rows(column, valid) for column in first_rows.columns), *rest]
        return DecodedBatch(arrays, passed[valid], sorted(failures), rows, lambda _: b"")


class _Reading:
    """Reads some columns of a row group in the source's types."""

    def __init__(
        self, format_: ParquetFormat, file: pq.ParquetFile, group: int, indexes: Sequence[int], name: str
    ) -> None:
        self.columns, self.name = [format_.columns[i] for i in indexes], name
        have = set(file.schema_arrow.names)
        self.names = [column for column, _ in self.columns if column in have]
        self.rows = rows_at_once(file, self.names)
        self._make: Callable[[], ColumnStream] = partial(ColumnStream, file, group, self.names)

    @cached_property
    def _stream(self) -> ColumnStream:
        return self._make()

    def read(self, at: int, count: int) -> tuple[list[pa.Array], outcome.Errors, int]:
        """Reads the columns of at most `count` rows from `at` on, their errors, and how many rows fit."""
        if not self.names:
            return [pa.nulls(count, type_.arrow) for _, type_ in self.columns], None, count
        try:
            table = self._stream.at(at, count)
            sizes = row_bytes(table)
            long = sizes > current_limits().record
            count = min(count, count_fitting_rows(np.where(long, 0, sizes)))
            table, long = table.slice(0, count), long[:count]
            if long.any():  # these are never decoded
                table = table.take(pa.array(np.arange(count), mask=long))
            outcomes = [
                _column(table.column(column) if column in table.column_names else None, type_, count)
                for column, type_ in self.columns
            ]
        except (pa.ArrowException, OSError) as error:
            raise CorruptError(f'the file "{self.name}" cannot be read: {error}') from error
        errors = (
            outcome.failing(pa.array(long), pa.scalar(current_limits().too_long())) if long.any() else None
        )
        return (
            [values for values, _ in outcomes],
            outcome.first_error(errors, *(wrong for _, wrong in outcomes)),
            count,
        )


def _column(values: pa.ChunkedArray | None, type_: Type, count: int) -> tuple[pa.Array, outcome.Errors]:
    if values is None:
        return pa.nulls(count, type_.arrow), None
    whole = convert_values(_decode_dictionary(values), type_)
    if type_ == types.TEXT:
        return byte_encoding.from_utf8(whole.cast(pa.binary()))
    whole.validate(full=type_.is_nested)
    return whole, None


def _decode_dictionary(values: pa.ChunkedArray) -> pa.Array:
    """Combines chunks into one array, with values instead of dictionary indexes."""
    chunks = [
        chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk for chunk in values.chunks
    ]
    if not chunks:
        return pa.chunked_array([], values.type).combine_chunks()
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


def _open_file(opened: BinaryIO, name: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(opened)
    except (pa.ArrowException, OSError) as error:
        raise CorruptError(
            f'the file "{name}" is no Parquet file, or is damaged: {error}',
            hint="write files under another name and rename them once they are complete",
        ) from error


def _place(file: pq.ParquetFile, name: str) -> int | None:
    """The leaf index of a column that is not nested."""
    for place in range(file.metadata.num_columns):
        if file.metadata.schema.column(place).path == name:
            return place
    return None


class _Raw:
    """Returns failed rows as JSON. They are requested in order, so each is read once."""

    def __init__(self, opened: BinaryIO, file: pq.ParquetFile, group: int) -> None:
        self._opened, self._file, self._group = opened, file, group

    @cached_property
    def _stream(self) -> ColumnStream:
        names = self._file.schema_arrow.names
        check_pages(self._opened, self._file, self._group, names, "")
        return ColumnStream(reopen_with_dictionaries(self._opened, self._file, names), self._group, names)

    def of(self, at: int, count: int) -> Callable[[int], bytes]:
        """Returns a function that gives the JSON of a row, counted from row `at`."""

        def raw(record: int) -> bytes:
            try:
                table = self._stream.at(at, count).slice(record, 1)
            except (CorruptError, pa.ArrowException, OSError):  # in a column that the plan does not read
                return b""
            if int(row_bytes(table)[0]) > current_limits().record:
                return b""
            (row,) = table.to_pylist()
            return exact_json.encode(plain_json(row)).encode("utf-8", "backslashreplace")

        return raw
