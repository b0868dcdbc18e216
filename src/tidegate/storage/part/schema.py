"""Schemas, whose columns have ids, so that a column can be renamed, dropped and added again.

A part is written with one version of the schema and read with another, by column id:

| in the part | in the schema of the reader | what is read |
|---|---|---|
| column 3 | column 3, whatever its present name | the column |
| – | column 5, added later | NULLs, or the default that it was added with |
| column 4 int4 | column 4 int8 | the column, widened |
| column 2 | – (dropped) | nothing |
| column 2 `note` (dropped) | column 6 `note` (added again) | NULLs: it is another column of the same name |
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.errors import BindError, ErrorCode
from tidegate.expr.model import Kind, Type, serialize
from tidegate.storage.stats.altered import AddedColumn, with_added
from tidegate.storage.stats.frame import Frame

HIDDEN_COLUMNS = ("_time", "_diff", "_pos")
"""Columns that every part has in addition to the user's."""


@dataclass(frozen=True)
class SchemaColumn:
    """A column: its permanent id, and its present name."""

    id: int
    name: str
    type: Type
    nullable: bool = True
    missing: pa.Scalar | None = None
    """What it is in rows that were written before it was added: the default as of then; None is NULL."""


@dataclass(frozen=True)
class Schema:
    """One version of a collection's columns."""

    id: int
    columns: tuple[SchemaColumn, ...]
    next_column: int

    @staticmethod
    def of(columns: list[tuple[str, Type, bool]]) -> Schema:
        """The first version: names, types, and whether NULL is allowed."""
        defined = tuple(SchemaColumn(i, *column) for i, column in enumerate(columns))
        _check_names([column.name for column in defined])
        return Schema(0, defined, len(defined))

    def find(self, name: str) -> SchemaColumn:
        """The column with this name."""
        for column in self.columns:
            if column.name == name:
                return column
        known = ", ".join(column.name for column in self.columns)
        raise BindError(
            f'column "{name}" does not exist', code=ErrorCode.UNDEFINED_COLUMN, hint=f"there are: {known}"
        )

    def add(
        self, name: str, type_: Type, *, nullable: bool = True, missing: pa.Scalar | None = None
    ) -> Schema:
        """With one more column, which is `missing` in all existing rows; None is NULL."""
        _check_names([*(column.name for column in self.columns), name])
        added = SchemaColumn(self.next_column, name, type_, nullable, missing)
        return Schema(self.id + 1, (*self.columns, added), self.next_column + 1)

    def drop(self, name: str) -> Schema:
        """Without a column."""
        gone = self.find(name)
        left = tuple(column for column in self.columns if column is not gone)
        if not left:
            raise BindError(f'column "{name}" is the only one', hint="drop the table instead")
        return replace(self, id=self.id + 1, columns=left)

    def rename(self, name: str, new_name: str) -> Schema:
        """With another name for a column, which keeps its id."""
        self.find(name)
        _check_names([new_name if column.name == name else column.name for column in self.columns])
        return self._with(lambda column: replace(column, name=new_name) if column.name == name else column)

    def widen(self, name: str, type_: Type) -> Schema:
        """With another type for a column, which holds every value of the one it has."""

        def widened(column: SchemaColumn) -> SchemaColumn:
            if column.name != name:
                return column
            missing = None if column.missing is None else column.missing.cast(type_.arrow)
            return replace(column, type=type_, missing=missing)

        self.find(name)
        return self._with(widened)

    def not_null(self, ids: Collection[int], *, nullable: bool = False) -> Schema:
        """With these columns NOT NULL, or with `nullable` no longer."""
        if all(column.nullable == nullable for column in self.columns if column.id in ids):
            return self
        return self._with(lambda column: replace(column, nullable=nullable) if column.id in ids else column)

    def _with(self, change: Callable[[SchemaColumn], SchemaColumn]) -> Schema:
        return replace(self, id=self.id + 1, columns=tuple(map(change, self.columns)))

    @cached_property
    def constants(self) -> dict[int, pa.Scalar]:
        """Column id → what it is where a part lacks it, unless that is NULL."""
        return {column.id: column.missing for column in self.columns if column.missing is not None}

    @cached_property
    def added(self) -> tuple[AddedColumn, ...]:
        """These columns, with what statistics say of their constants."""
        types = {column.id: column.type for column in self.columns}
        return tuple(AddedColumn.of(id_, types[id_], value) for id_, value in self.constants.items())

    def differs_from(self, written: Schema) -> bool:
        """Whether parts of that version hold columns as other types, or lack some that are not NULL."""
        types = {column.id: column.type for column in written.columns}
        return any(
            column.missing is not None if column.id not in types else types[column.id] != column.type
            for column in (self.columns if written.id != self.id else ())
        )

    def demands_more_than(self, written: Schema) -> bool:
        """Whether rows of that version may hold NULL where this one allows none."""
        nullable = {column.id: column.nullable for column in written.columns}
        return any(
            not column.nullable and nullable.get(column.id, column.missing is None) for column in self.columns
        )

    def completed(self, frame: Frame, has: Callable[[int], bool]) -> Frame:
        """The statistics of pages of a file, which lacks the columns that `has` denies."""
        every = np.ones(len(frame), bool)
        return with_added(frame, [(column, every) for column in self.added if not has(column.id)])

    def lacking(self, id_: int, type_: Type, rows: int) -> pa.Array:
        """A column that a part lacks: NULL, or the default that it was added with."""
        constant = self.constants.get(id_)
        return (
            pa.nulls(rows, type_.arrow) if constant is None else pa.repeat(constant, rows).cast(type_.arrow)
        )

    @property
    def arrow(self) -> pa.Schema:
        """The columns as Arrow names and types."""
        return pa.schema([pa.field(c.name, c.type.arrow, c.nullable) for c in self.columns])

    def to_json(self) -> dict[str, Any]:
        """The schema as the state stores it."""
        columns = [_column_to_json(column) for column in self.columns]
        return {"id": self.id, "columns": columns, "next_column": self.next_column}

    @staticmethod
    def from_json(given: dict[str, Any]) -> Schema:
        """The schema from what the state stores."""
        columns = tuple(map(_column_from_json, given["columns"]))
        return Schema(given["id"], columns, given["next_column"])


def _column_to_json(column: SchemaColumn) -> dict[str, Any]:
    json = {
        "id": column.id,
        "name": column.name,
        "type": serialize.type_to_json(column.type),
        "nullable": column.nullable,
    }
    if column.missing is not None:
        json["missing"] = serialize.value_to_json(column.missing, column.type)
    return json


def _column_from_json(json: dict[str, Any]) -> SchemaColumn:
    type_ = serialize.type_from_json(json["type"])
    missing = serialize.value_from_json(json["missing"], type_) if "missing" in json else None
    return SchemaColumn(json["id"], json["name"], type_, json["nullable"], missing)


@dataclass(frozen=True)
class StoredSchema:
    """A version of the schema as the log stores it. It is parsed when it is first needed."""

    json: dict[str, Any]

    @cached_property
    def parsed(self) -> Schema:
        """The schema."""
        return Schema.from_json(self.json)


def is_narrow(type_: Type) -> bool:
    """Whether all values of the type have the same small width."""
    return type_.kind not in (Kind.TEXT, Kind.JSONB, Kind.BYTEA, Kind.ARRAY, Kind.RECORD, Kind.UNKNOWN)


def _check_names(names: list[str]) -> None:
    for name in names:
        if name in HIDDEN_COLUMNS:
            raise BindError(
                f'"{name}" cannot be a column\'s name', hint=f"{', '.join(HIDDEN_COLUMNS)} are Tidegate's own"
            )
        if not name or names.count(name) > 1:
            raise BindError(
                f'column "{name}" is there twice' if name else "a column needs a name",
                code=ErrorCode.DUPLICATE_COLUMN if name else None,
            )
