r"""A table of PostgreSQL as a format: its columns in our types, and of a plan the columns and conditions it takes.

| PostgreSQL | here |
|---|---|
| bool, int2, int4, int8, float4, float8, bytea, date, time, timestamp, timestamptz, interval, uuid | the same |
| numeric(p, s); numeric, and what has more than 38 digits | numeric(p, s); numeric |
| text, varchar, char, name | text |
| json, jsonb | jsonb |
| oid | int8 |
| domains | what they are over |
| arrays of these | arrays |
| anything else: enums, inet, ranges, geometry, records | text, as PostgreSQL writes it |

A value that ours cannot hold (`infinity`, a year before 1, `NaN` as numeric) makes its row a bad row, if its column is demanded.

A row that fails is kept as JSON, with the texts that PostgreSQL sent (of a snapshot: those of the columns that were demanded), and
is read back from there when errors are replayed:

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
from tidegate.expr import types
from tidegate.expr.types import MAX_PRECISION, TEXT, Kind, Type
from tidegate.ingest.decode.demand import Staged, stages
from tidegate.ingest.decode.rows import bad, bad_rows, fine, picked
from tidegate.ingest.pgoutput import Relation
from tidegate.ingest.postgres_values import NULL, PADDING, Tuples, read
from tidegate.ingest.source import Bad, Columns, Decoded
from tidegate.plan.mfp import MapFilterProject

_SAME = ("bool", "int2", "int4", "int8", "float4", "float8", "bytea", "date", "time", "timestamp", "timestamptz",
         "interval", "uuid", "jsonb")  # fmt: skip
_OTHERS = {"json": types.JSONB, "oid": types.INT8, "numeric": types.NUMERIC}


def type_of(name: str, modifier: int, element: str | None = None) -> Type:
    """The type that values of a PostgreSQL type have here; `name` is that of `pg_type`, without domains."""
    if element is not None:
        return types.array(type_of(element, modifier))
    if name == "numeric" and modifier >= 4:
        digits, scale = (modifier - 4) >> 16 & 0xFFFF, (((modifier - 4) & 0x7FF) ^ 1024) - 1024
        if digits <= MAX_PRECISION and 0 <= scale <= digits:
            return types.numeric(digits, scale)
    if name in _SAME:
        return Type(Kind(name))
    return _OTHERS.get(name, TEXT)


@dataclass(frozen=True)
class TableColumn:
    """A column, its type here, and what says whether it is still the same."""

    name: str
    type: Type
    oid: int
    modifier: int

    def differs(self, oid: int, modifier: int) -> bool:
        """Whether values of a type are not written as ours; of most types the modifier only limits them."""
        return oid != self.oid or (modifier != self.modifier and self.type.kind is Kind.NUMERIC)


@dataclass(frozen=True)
class Table:
    """A published table, as it was when the source was created."""

    oid: int
    schema: str
    name: str
    fields: tuple[TableColumn, ...]
    condition: str | None = None
    """The publication's WHERE of this table."""

    @cached_property
    def columns(self) -> Columns:
        """Names and types."""
        return tuple((field.name, field.type) for field in self.fields)

    @property
    def splittable(self) -> bool:
        """It is no file."""
        return False

    def take(self, plan: MapFilterProject) -> tuple[TableDecode, MapFilterProject]:
        """Takes the columns that are demanded, and the conditions over them."""
        staged, left = stages(plan, len(self.fields))
        return TableDecode(self, staged), left

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    def to_json(self) -> dict[str, Any]:
        """For the catalog."""
        fields = [[field.name, str(field.type), field.oid, field.modifier] for field in self.fields]
        return {
            "oid": self.oid,
            "schema": self.schema,
            "name": self.name,
            "fields": fields,
            "where": self.condition,
        }


def format_from_json(kept: Mapping[str, Any]) -> Table:
    """What `to_json` gave."""
    fields = (
        TableColumn(name, types.parse_type(type_), oid, modifier)
        for name, type_, oid, modifier in kept["fields"]
    )
    return Table(kept["oid"], kept["schema"], kept["name"], tuple(fields), kept["where"])


@dataclass(frozen=True)
class TableDecode:
    """A table of which some columns are wanted."""

    table: Table
    staged: Staged

    @property
    def columns(self) -> Columns:
        """What the plan makes of the columns of its conditions, and others that it demands."""
        return self.staged.columns

    @property
    def demand(self) -> tuple[str, ...]:
        """The names of the columns that are read."""
        return tuple(self.table.fields[i].name for i in sorted({*self.staged.first, *self.staged.later}))

    def check(self, relation: Relation) -> None:
        """Checks that the columns that are read are still what they were; others may come, go and change."""
        found = {name: (oid, modifier) for name, oid, modifier in relation.columns}
        known = {field.name: field for field in self.table.fields}
        for name in self.demand:
            if name not in found:
                raise drifted(self.table, f'column "{name}" was dropped or renamed')
            if known[name].differs(*found[name]):
                raise drifted(self.table, f'column "{name}" has another type')

    def tuples(self, tuples: Tuples) -> Decoded:
        """Rows as PostgreSQL sent them."""
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
        failures = sorted([*reading.failures, *bad_rows(rows, good)])
        return Decoded(
            [*(picked(column, survived) for column in rows.columns), *later],
            left,
            failures,
            tuples.count,
            lambda number: json.dumps(tuples.row(number), ensure_ascii=False).encode(),
            size=tuples.size,
        )

    def records(self, values: pa.Array) -> Decoded:
        """Rows that failed, as they were kept: replayed."""
        kept = [_kept(value) for value in values.to_pylist()]
        named = [row if isinstance(row, dict) else {} for row in kept]
        missing = [
            (i, row if isinstance(row, str) else f'the record was kept without column "{absent}"')
            for i, row in enumerate(kept)
            if (absent := next((name for name in self.demand if name not in named[i]), None)) is not None
        ]
        decoded = self.tuples(_laid_out(named, tuple(field.name for field in self.table.fields)))
        gone = {number for number, _ in missing}
        fine_rows = np.flatnonzero(~np.isin(decoded.selection, list(gone)))
        failures = [*missing, *(one for one in decoded.failures if one[0] not in gone)]
        return Decoded(
            [picked(column, fine_rows) for column in decoded.columns],
            decoded.selection[fine_rows],
            sorted(failures),
            len(values),
            lambda number: values[number].as_py() or b"",
            size=values.nbytes,
        )

    def file(self, opened: BinaryIO, name: str) -> Iterator[Decoded]:  # noqa: ARG002  # as formats have it
        """There are none."""
        raise UnsupportedError(f'the file "{name}" is not a table of PostgreSQL')


class _Reading:
    """Columns of the rows that are right so far."""

    def __init__(self, tuples: Tuples, places: Sequence[int], table: Table) -> None:
        self._tuples, self._places, self._table = tuples, places, table
        self.failures: list[Bad] = []

    def columns(self, wanted: Sequence[int], rows: np.ndarray) -> tuple[list[pa.Array], np.ndarray]:
        """The values of these columns of rows, without those rows where one of them cannot be read."""
        good = np.ones(len(rows), bool)
        found: list[pa.Array] = []
        wrong: dict[int, str] = {}
        for number in wanted:
            field = self._table.fields[number]
            values, errors = read(self._tuples, self._places[number], field.type, rows)
            good &= fine(errors, len(rows))
            for row, message in bad(errors, rows):
                wrong.setdefault(row, f'column "{field.name}": {message}')
            found.append(values)
        self.failures += wrong.items()
        kept = np.flatnonzero(good)
        return [picked(values, kept) for values in found], rows[kept]


def _kept(value: bytes | None) -> dict[str, Any] | str:
    """A row that was kept, or what is wrong with it."""
    try:
        found = json.loads(value or b"null")
    except ValueError:
        found = None
    return found if isinstance(found, dict) else "the record is not a row as it is kept among errors"


def _laid_out(rows: Sequence[Mapping[str, str | None]], names: tuple[str, ...]) -> Tuples:
    """Rows as if they had been sent; loops over rows that failed alone."""
    texts = [[None if (v := row.get(name)) is None else v.encode() for row in rows] for name in names]
    lengths = [np.array([NULL if v is None else len(v) for v in column], np.int64) for column in texts]
    data = b"".join(v or b"" for column in texts for v in column) + bytes(PADDING)
    sizes = np.maximum(np.concatenate([*lengths, np.zeros(0, np.int64)]), 0)
    starts = (np.cumsum(sizes) - sizes).reshape(len(names), len(rows))
    return Tuples(np.frombuffer(data, np.uint8), names, list(starts), lengths, len(rows))


def drifted(table: Table, what: str) -> SourceError:
    """The table is no longer what the source was created for."""
    return SourceError(
        f"the table {table} has changed since the source was created: {what}",
        again=False,
        hint="DROP SOURCE and create it again, with a transform that reads the columns that are there now",
    )
