"""FORMAT PARQUET: a column for each of the file's; demanded ones are read alone.

    SELECT id FROM s WHERE at >= '2026-01-01' AND kind = 'pay'

1. Row groups whose statistics prove that no row passes (and none fails) are not read: the footer's bounds are put to
   the same interpreter that prunes parts (`plan/verdict.py`).
2. Of the others `at` and `kind` are read, and the filter asked; 3. of what passes, `id`.

Footers' bounds are taken for integers, booleans, dates, timestamps and text, whose order there is ours. Not for floats
(NaN and -0) nor for what is nested. A footer that has no bounds says nothing, and its row group is read.

Columns are found by name in each file, in any order; a file may lack one (it is NULL there), and may have others. One
that does not become the source's type is an error that names the file. A text that is no UTF-8 makes its row fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import CorruptError, UnsupportedError
from tidegate.expr.exact_json import encode
from tidegate.expr.outcome import Errors, first_error
from tidegate.expr.spelling import from_utf8
from tidegate.expr.types import TEXT, Type
from tidegate.ingest.decode.avro_types import plain_json
from tidegate.ingest.decode.demand import Staged, stages
from tidegate.ingest.decode.parquet_types import converted, specs_of, type_of
from tidegate.ingest.decode.rows import bad, bad_rows, fine, picked
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
        """The rows of a file, a row group at a time."""
        file = _opened(opened, name)
        keep = self.kept(file)
        start = 0
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            size = file.metadata.row_group(group).total_byte_size
            if keep[group]:
                yield self._group(file, group, start, name)
            elif count:
                nothing = [pa.array([], type_.arrow) for _, type_ in self.columns]
                yield Decoded(nothing, np.zeros(0, np.int64), [], count, _raw(file, group), start, size=size)
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

    def _group(self, file: pq.ParquetFile, group: int, start: int, name: str) -> Decoded:
        first, errors = self._read(file, group, self.staged.first, name)
        count = file.metadata.row_group(group).num_rows
        good = np.flatnonzero(fine(errors, count))
        rows = self.staged.before.evaluate([picked(column, good) for column in first], len(good))
        passed = good[rows.selection]
        failures = [*bad(errors, np.arange(count)), *bad_rows(rows, good)]
        later: list[pa.Array] = []
        kept = np.arange(len(passed))
        if self.staged.later and len(passed):
            whole, wrong = self._read(file, group, self.staged.later, name)
            kept = np.flatnonzero(fine(wrong, count)[passed])
            later = [picked(column, passed[kept]) for column in whole]
            shown = set(passed.tolist())
            failures += [one for one in bad(wrong, np.arange(count)) if one[0] in shown]
        elif self.staged.later:
            later = [pa.array([], self.format.columns[i][1].arrow) for i in self.staged.later]
        return Decoded(
            [*(picked(column, kept) for column in rows.columns), *later],
            passed[kept],
            sorted(failures),
            count,
            _raw(file, group),
            start,
            size=file.metadata.row_group(group).total_byte_size,
        )

    def _read(
        self, file: pq.ParquetFile, group: int, wanted: Sequence[int], name: str
    ) -> tuple[list[pa.Array], Errors]:
        """Some columns of a row group, and the rows in which a text is none."""
        names = [self.format.columns[i][0] for i in wanted]
        have = set(file.schema_arrow.names)
        count = file.metadata.row_group(group).num_rows
        try:
            table = file.read_row_group(group, [one for one in names if one in have], use_threads=False)
            found = [
                _column(table.column(one) if one in have else None, self.format.columns[i][1], count)
                for one, i in zip(names, wanted, strict=True)
            ]
        except (pa.ArrowException, OSError) as error:
            raise CorruptError(f'the file "{name}" cannot be read: {error}') from error
        return [values for values, _ in found], first_error(*(errors for _, errors in found))


def _column(values: pa.ChunkedArray | None, type_: Type, count: int) -> tuple[pa.Array, Errors]:
    if values is None:
        return pa.nulls(count, type_.arrow), None
    whole = converted(values.combine_chunks(), type_)
    if type_ == TEXT:
        return from_utf8(whole.cast(pa.binary()))
    whole.validate(full=type_.is_nested)
    return whole, None


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


def _raw(file: pq.ParquetFile, group: int) -> Callable[[int], bytes]:
    """A row has no bytes of its own: it is given as JSON."""

    def raw(record: int) -> bytes:
        (row,) = file.read_row_group(group).slice(record, 1).to_pylist()
        return encode(plain_json(row)).encode("utf-8", "backslashreplace")

    return raw
