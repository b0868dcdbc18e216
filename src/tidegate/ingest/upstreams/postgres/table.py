r"""The format of a PostgreSQL table: maps columns to types and takes over parts of a plan.

| PostgreSQL | Tidegate |
|---|---|
| bool, int2, int4, int8, float4, float8, bytea, date, time, timestamp, timestamptz, interval, uuid | the same |
| numeric(p, s); numeric, also with more than 38 digits | numeric(p, s); numeric |
| text, varchar, char, name | text |
| json, jsonb | jsonb |
| oid | int8 |
| domains | the type of the underlying type |
| arrays of these | arrays |
| anything else: enums, inet, ranges, geometry, records | text, as PostgreSQL writes it |

A value that does not fit the type (`infinity`, a year before 1, `NaN` as numeric) makes its row fail, if its column is demanded.

A row that fails is stored as JSON, with the texts that PostgreSQL sent (in a snapshot only those of demanded columns), and
is read from there when errors are replayed:

    {"id": "17", "at": "infinity", "note": null}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from tidegate.errors import SourceError, UnsupportedError
from tidegate.expr.model import Kind, Type, types
from tidegate.ingest.formats.demand import StagedPlan, split_stages
from tidegate.ingest.formats.rows import error_free, error_records, plan_error_records, take_rows
from tidegate.ingest.protocol import Columns, DecodedBatch, RecordError, RecordFormat
from tidegate.ingest.upstreams.postgres.pgoutput import PgRelation
from tidegate.ingest.upstreams.postgres.values import NULL, PADDING, Tuples, read_column
from tidegate.plan import MapFilterProject

_SAME_NAME_TYPES = ("bool", "int2", "int4", "int8", "float4", "float8", "bytea", "date", "time", "timestamp", "timestamptz",
         "interval", "uuid", "jsonb")  # fmt: skip
_OTHER_TYPES = {"json": types.JSONB, "oid": types.INT8, "numeric": types.NUMERIC}


def type_of(name: str, modifier: int, element: str | None = None) -> Type:
    """The type for values of a PostgreSQL type; `name` is that in `pg_type`, of no domain."""
    if element is not None:
        return types.array(type_of(element, modifier))
    if name == "numeric" and modifier >= 4:
        digits, scale = (modifier - 4) >> 16 & 0xFFFF, (((modifier - 4) & 0x7FF) ^ 1024) - 1024
        if digits <= types.MAX_PRECISION and 0 <= scale <= digits:
            return types.numeric(digits, scale)
    if name in _SAME_NAME_TYPES:
        return Type(Kind(name))
    return _OTHER_TYPES.get(name, types.TEXT)


@dataclass(frozen=True)
class PostgresColumn:
    """A column, its type, and the type's oid and modifier in PostgreSQL, to detect changes."""

    name: str
    type: Type
    oid: int
    modifier: int

    def differs(self, oid: int, modifier: int) -> bool:
        """Whether a type differs from the column's; modifiers other than numeric's only limit values."""
        return oid != self.oid or (modifier != self.modifier and self.type.kind is Kind.NUMERIC)


@dataclass(frozen=True)
class PostgresTable(RecordFormat):
    """A published table in its state when the source was created."""

    oid: int
    schema: str
    name: str
    fields: tuple[PostgresColumn, ...]
    condition: str | None = None
    """The WHERE clause of the publication for this table."""

    @cached_property
    def columns(self) -> Columns:
        """The names and types of the columns."""
        return tuple((field.name, field.type) for field in self.fields)

    def take(self, plan: MapFilterProject) -> tuple[PostgresTableDecoder, MapFilterProject]:
        """Takes the demanded columns and the conditions over them out of a plan."""
        staged, left = split_stages(plan, len(self.fields))
        return PostgresTableDecoder(self, staged), left

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    def to_json(self) -> dict[str, Any]:
        """Its form in the catalog, as the format of a collection."""
        return {**self.describe(), "kind": "postgres"}

    def describe(self) -> dict[str, Any]:
        """Its form in the catalog, as a table of its upstream."""
        fields = [[field.name, str(field.type), field.oid, field.modifier] for field in self.fields]
        return {
            "oid": self.oid,
            "schema": self.schema,
            "name": self.name,
            "fields": fields,
            "where": self.condition,
        }


def format_from_json(stored: Mapping[str, Any]) -> PostgresTable:
    """Loads the result of `to_json` or `describe`."""
    fields = (
        PostgresColumn(name, types.parse_type(type_), oid, modifier)
        for name, type_, oid, modifier in stored["fields"]
    )
    return PostgresTable(stored["oid"], stored["schema"], stored["name"], tuple(fields), stored["where"])


@dataclass(frozen=True)
class PostgresTableDecoder:
    """Decodes the demanded columns of a table."""

    table: PostgresTable
    staged: StagedPlan

    @property
    def columns(self) -> Columns:
        """The outputs of the plan's first stage, and the other columns that it demands."""
        return self.staged.columns

    @property
    def demand(self) -> tuple[str, ...]:
        """The names of the columns that are read."""
        return tuple(self.table.fields[i].name for i in sorted({*self.staged.first, *self.staged.later}))

    def check(self, relation: PgRelation) -> None:
        """Raises unless the columns that are read are unchanged; others may be added, dropped and changed."""
        present = {name: (oid, modifier) for name, oid, modifier in relation.columns}
        known = {field.name: field for field in self.table.fields}
        for name in self.demand:
            if name not in present:
                raise table_changed_error(self.table, f'column "{name}" was dropped or renamed')
            if known[name].differs(*present[name]):
                raise table_changed_error(self.table, f'column "{name}" has another type')

    def tuples(self, tuples: Tuples) -> DecodedBatch:
        """Decodes rows that PostgreSQL sent."""
        place = {name: i for i, name in enumerate(tuples.names)}
        reading = _Reading(tuples, [place.get(field.name, -1) for field in self.table.fields], self.table)
        everything = np.arange(tuples.count)
        columns, good = reading.columns(self.staged.first, everything)
        rows = self.staged.before.evaluate(columns, len(good))
        passed = good[rows.selection]
        later, left = reading.columns(self.staged.later, passed)
        survived = (
            np.flatnonzero(np.isin(passed, left)) if len(left) < len(passed) else np.arange(len(passed))
        )
        failures = sorted([*reading.failures, *plan_error_records(rows, good)])
        return DecodedBatch(
            [*(take_rows(column, survived) for column in rows.columns), *later],
            left,
            failures,
            tuples.count,
            lambda number: json.dumps(tuples.row(number), ensure_ascii=False).encode(),
            size=tuples.size,
        )

    def records(self, values: pa.Array) -> DecodedBatch:
        """Decodes stored rows that failed, to replay them."""
        parsed = [_parse_stored_row(value) for value in values.to_pylist()]
        named = [row if isinstance(row, dict) else {} for row in parsed]
        missing = [
            (i, row if isinstance(row, str) else f'the record was kept without column "{absent}"')
            for i, row in enumerate(parsed)
            if (absent := next((name for name in self.demand if name not in named[i]), None)) is not None
        ]
        decoded = self.tuples(_as_tuples(named, tuple(field.name for field in self.table.fields)))
        gone = {number for number, _ in missing}
        fine_rows = np.flatnonzero(~np.isin(decoded.selection, list(gone)))
        failures = [*missing, *(failure for failure in decoded.failures if failure[0] not in gone)]
        return DecodedBatch(
            [take_rows(column, fine_rows) for column in decoded.columns],
            decoded.selection[fine_rows],
            sorted(failures),
            len(values),
            lambda number: values[number].as_py() or b"",
            size=values.nbytes,
        )

    def file(self, opened: BinaryIO, name: str) -> Iterator[DecodedBatch]:  # noqa: ARG002  # the signature of decoders
        """Raises an UnsupportedError: tables are not in files."""
        raise UnsupportedError(f'the file "{name}" is not a table of PostgreSQL')


class _Reading:
    """Reads columns of rows, and collects the rows that fail."""

    def __init__(self, tuples: Tuples, places: Sequence[int], table: PostgresTable) -> None:
        self._tuples, self._places, self._table = tuples, places, table
        self.failures: list[RecordError] = []

    def columns(self, wanted: Sequence[int], rows: np.ndarray) -> tuple[list[pa.Array], np.ndarray]:
        """The values of columns for rows, without the rows that fail, and the remaining rows."""
        good = np.ones(len(rows), bool)
        arrays: list[pa.Array] = []
        wrong: dict[int, str] = {}
        for number in wanted:
            field = self._table.fields[number]
            values, errors = read_column(self._tuples, self._places[number], field.type, rows)
            good &= error_free(errors, len(rows))
            for row, message in error_records(errors, rows):
                wrong.setdefault(row, f'column "{field.name}": {message}')
            arrays.append(values)
        self.failures += wrong.items()
        remaining = np.flatnonzero(good)
        return [take_rows(values, remaining) for values in arrays], rows[remaining]


def _parse_stored_row(value: bytes | None) -> dict[str, Any] | str:
    """Parses a stored row; returns an error message if it is invalid."""
    try:
        row = json.loads(value or b"null")
    except ValueError:
        row = None
    return row if isinstance(row, dict) else "the record is not a row as it is kept among errors"


def _as_tuples(rows: Sequence[Mapping[str, str | None]], names: tuple[str, ...]) -> Tuples:
    """Stored rows in the form in which PostgreSQL sends them; there are few, so loops are fine."""
    texts = [[None if (v := row.get(name)) is None else v.encode() for row in rows] for name in names]
    lengths = [np.array([NULL if v is None else len(v) for v in column], np.int64) for column in texts]
    data = b"".join(v or b"" for column in texts for v in column) + bytes(PADDING)
    sizes = np.maximum(np.concatenate([*lengths, np.zeros(0, np.int64)]), 0)
    starts = (np.cumsum(sizes) - sizes).reshape(len(names), len(rows))
    return Tuples(np.frombuffer(data, np.uint8), names, list(starts), lengths, len(rows))


def table_changed_error(table: PostgresTable, what: str) -> SourceError:
    """The error for a table that has changed since the source was created."""
    return SourceError(
        f"the table {table} has changed since the source was created: {what}",
        again=False,
        hint="DROP SOURCE and create it again, with a transform that reads the columns that are there now",
    )
