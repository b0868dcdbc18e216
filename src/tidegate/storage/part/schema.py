"""Schemas: columns that are known by a number, so that they can be renamed, dropped and added again without confusion.

A part is written with one version of the schema and read with another, by column id:

| in the part | in the schema asked for | what is read |
|---|---|---|
| column 3 | column 3, whatever its name is by now | the column |
| – | column 5, added later | NULLs |
| column 2 | – (dropped) | nothing |
| column 2 `note` (dropped) | column 6 `note` (added again) | NULLs: it is another column of the same name |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tidegate.errors import BindError
from tidegate.expr.stored import type_from_json, type_to_json
from tidegate.expr.types import Type

HIDDEN = ("_time", "_diff", "_pos")
"""Columns that every part has beside the user's."""


@dataclass(frozen=True)
class ColumnDef:
    """A column: its number for ever, its name for now."""

    id: int
    name: str
    type: Type
    nullable: bool = True


@dataclass(frozen=True)
class Schema:
    """One version of a collection's columns."""

    id: int
    columns: tuple[ColumnDef, ...]
    next_column: int

    @staticmethod
    def of(columns: list[tuple[str, Type, bool]]) -> Schema:
        """The first version: names, types, and whether NULL is allowed."""
        made = tuple(ColumnDef(i, *column) for i, column in enumerate(columns))
        _check_names([column.name for column in made])
        return Schema(0, made, len(made))

    def find(self, name: str) -> ColumnDef:
        """The column by that name."""
        for column in self.columns:
            if column.name == name:
                return column
        known = ", ".join(column.name for column in self.columns)
        raise BindError(f'column "{name}" does not exist', hint=f"there are: {known}")

    def add(self, name: str, type_: Type) -> Schema:
        """With one more column, which is NULL in all rows so far."""
        _check_names([*(column.name for column in self.columns), name])
        added = ColumnDef(self.next_column, name, type_)
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
        """As the state keeps it."""
        columns = [
            {"id": c.id, "name": c.name, "type": type_to_json(c.type), "nullable": c.nullable}
            for c in self.columns
        ]
        return {"id": self.id, "columns": columns, "next_column": self.next_column}

    @staticmethod
    def from_json(given: dict[str, Any]) -> Schema:
        """From what the state keeps."""
        columns = tuple(
            ColumnDef(c["id"], c["name"], type_from_json(c["type"]), c["nullable"]) for c in given["columns"]
        )
        return Schema(given["id"], columns, given["next_column"])


def _check_names(names: list[str]) -> None:
    for name in names:
        if name in HIDDEN:
            raise BindError(
                f'"{name}" cannot be a column\'s name', hint=f"{', '.join(HIDDEN)} are Tidegate's own"
            )
        if not name or names.count(name) > 1:
            raise BindError(f'column "{name}" is there twice' if name else "a column needs a name")
