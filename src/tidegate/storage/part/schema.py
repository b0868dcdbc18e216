"""Schemas, whose columns have ids, so that a column can be renamed, dropped and added again.

A part is written with one version of the schema and read with another, by column id:

| in the part | in the schema of the reader | what is read |
|---|---|---|
| column 3 | column 3, whatever its present name | the column |
| – | column 5, added later | NULLs |
| column 2 | – (dropped) | nothing |
| column 2 `note` (dropped) | column 6 `note` (added again) | NULLs: it is another column of the same name |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from tidegate.errors import BindError, ErrorCode
from tidegate.expr.model import Kind, Type, serialize

HIDDEN_COLUMNS = ("_time", "_diff", "_pos")
"""Columns that every part has in addition to the user's."""


@dataclass(frozen=True)
class SchemaColumn:
    """A column: its permanent id, and its present name."""

    id: int
    name: str
    type: Type
    nullable: bool = True


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

    def add(self, name: str, type_: Type) -> Schema:
        """With one more column, which is NULL in all existing rows."""
        _check_names([*(column.name for column in self.columns), name])
        added = SchemaColumn(self.next_column, name, type_)
        return Schema(self.id + 1, (*self.columns, added), self.next_column + 1)

    def drop(self, name: str) -> Schema:
        """Without a column."""
        gone = self.find(name)
        left = tuple(column for column in self.columns if column is not gone)
        if not left:
            raise BindError(f'column "{name}" is the only one', hint="drop the table instead")
        return replace(self, id=self.id + 1, columns=left)

    @property
    def arrow(self) -> pa.Schema:
        """The columns as Arrow names and types."""
        return pa.schema([pa.field(c.name, c.type.arrow, c.nullable) for c in self.columns])

    def to_json(self) -> dict[str, Any]:
        """The schema as the state stores it."""
        columns = [
            {"id": c.id, "name": c.name, "type": serialize.type_to_json(c.type), "nullable": c.nullable}
            for c in self.columns
        ]
        return {"id": self.id, "columns": columns, "next_column": self.next_column}

    @staticmethod
    def from_json(given: dict[str, Any]) -> Schema:
        """The schema from what the state stores."""
        columns = tuple(
            SchemaColumn(c["id"], c["name"], serialize.type_from_json(c["type"]), c["nullable"])
            for c in given["columns"]
        )
        return Schema(given["id"], columns, given["next_column"])


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
            raise BindError(f'column "{name}" is there twice' if name else "a column needs a name")
