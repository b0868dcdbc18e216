"""Primary keys: declared, shown to clients, and not enforced.

    primary_key(schema, options)      PrimaryKey("orders_pkey", (SchemaColumn(0, "id", …),))

The columns of a key are NOT NULL, which is enforced. That no two rows are equal in them is the writer's word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidegate.context import position_of
from tidegate.errors import BindError, ErrorCode
from tidegate.sql.parse import table_statement
from tidegate.statements.tables.table_definition import TableDefinition
from tidegate.storage.part import Schema, SchemaColumn
from tidegate.storage.shard import shard_options


@dataclass(frozen=True)
class PrimaryKey:
    """The key of a table."""

    name: str
    columns: tuple[SchemaColumn, ...]


def primary_key(schema: Schema, options: Mapping[str, Any]) -> PrimaryKey | None:
    """The key that is declared; None: there is none."""
    stored = options.get(shard_options.PRIMARY_KEY)
    if stored is None:
        return None
    by_id = {column.id: column for column in schema.columns}
    return PrimaryKey(stored["name"], tuple(by_id[id_] for id_ in stored["columns"]))


def with_key(
    table: TableDefinition, key: table_statement.KeyDefinition, name: str, sql: str
) -> TableDefinition:
    """A table with this key; its columns are NOT NULL from then on."""
    if shard_options.PRIMARY_KEY in table.options:
        raise BindError(
            f'multiple primary keys for table "{name}" are not allowed',
            code=ErrorCode.INVALID_TABLE,
            position=position_of(sql, key.columns[0]),
        )
    by_name = {column.name: column for column in table.schema.columns}
    for ident in key.columns:
        if ident.text not in by_name:
            raise BindError(
                f'column "{ident.text}" named in key does not exist',
                code=ErrorCode.UNDEFINED_COLUMN,
                position=position_of(sql, ident),
            )
    ids = [by_name[ident.text].id for ident in key.columns]
    stored = {"name": f"{name}_pkey" if key.name is None else key.name.text, "columns": ids}
    return replace(table, schema=table.schema.not_null(ids)).with_option(shard_options.PRIMARY_KEY, stored)
