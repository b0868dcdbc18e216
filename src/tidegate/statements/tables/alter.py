"""ALTER TABLE: columns, defaults, types and keys, as one entry of the log; no part is rewritten.

Columns have ids (`storage/part/schema.py`), so a new name costs nothing. A part of an earlier version is read as the table is now:
a column that was added with a default is that default, as of the ALTER; a column of a wider type is widened. What would need every
row to be looked at is either proven by a query first (SET NOT NULL), or refused (narrower types).

The actions of a statement are a fold over a `TableDefinition`: all of them or none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar, assert_never

import pyarrow as pa

from tidegate.context import Context, position_of
from tidegate.errors import BindError, ConflictError, ErrorCode, EvaluationError, Position, TidegateError
from tidegate.query import Result
from tidegate.sql.parse import parse_query, syntax, table_statement
from tidegate.statements.define import DEFAULTS, default
from tidegate.statements.select import select
from tidegate.statements.tables.added_default import constant_of
from tidegate.statements.tables.dependants import check_views
from tidegate.statements.tables.keys import primary_key, with_key
from tidegate.statements.tables.table_definition import COMMENTS, TableDefinition
from tidegate.statements.tables.widening import check_widening
from tidegate.storage import CONTENTION
from tidegate.storage.part import SchemaColumn
from tidegate.storage.shard import State, changes, shard_options
from tidegate.text import identifier

T = TypeVar("T")


def alter_table(context: Context, given: table_statement.AlterTable) -> Result:
    """ALTER TABLE with one action or several."""
    name, position = given.table.text, position_of(given.sql, given.table)
    if given.if_exists and context.catalog.find(name) is None:
        return Result.message(f'"{name}" does not exist, and was left so')
    machine = context.table(name, position).machine
    alteration = _Alteration(context, given)
    for attempt in range(CONTENTION.times):
        state = machine.fetch()
        proven = state.upper
        alteration.prove(TableDefinition(state.schema, state.options))
        try:
            machine.update(partial(alteration.propose, proven=proven))
        except _Moved:
            CONTENTION.wait(attempt)
            continue
        return Result.message("ALTER TABLE")
    raise ConflictError(
        f'others changed "{name}" each of the {CONTENTION.times} times that it was about to be altered',
        hint="nothing was changed; try again",
    )


class _Moved(TidegateError):  # noqa: N818  # reads as what it is; never leaves this module
    """Rows came since it was proven that none is NULL."""


@dataclass(frozen=True)
class _Alteration:
    """The actions of one statement."""

    context: Context
    given: table_statement.AlterTable

    def prove(self, before: TableDefinition) -> None:
        """Raises if rows that are there break what the statement demands of them."""
        after = self.apply(before)
        old = {column.id: column for column in before.schema.columns}
        for column in after.schema.columns:
            if column.nullable:
                continue
            if column.id not in old and column.missing is None:
                self._refuse_rows(column.name, "")
            elif column.id in old and old[column.id].nullable:
                self._refuse_rows(column.name, f" WHERE {identifier(old[column.id].name)} IS NULL")

    def _refuse_rows(self, column: str, where: str) -> None:
        name = self.given.table.text
        query = parse_query(f"SELECT 1 FROM {identifier(name)}{where} LIMIT 1")
        if len(select(self.context, query, None)):
            raise EvaluationError(f'column "{column}" of relation "{name}" contains null values')

    def propose(self, state: State, proven: int) -> changes.Change | None:
        """The entry that makes the change; `_Moved` if rows came since time `proven` that matter."""
        before = TableDefinition(state.schema, state.options)
        after = self.apply(before)
        if state.upper != proven and after.schema.demands_more_than(before.schema):
            raise _Moved("rows came meanwhile")
        gone = dict.fromkeys(before.options.keys() - after.options.keys())
        options = gone | {
            key: value for key, value in after.options.items() if before.options.get(key) != value
        }
        if after.schema.columns == before.schema.columns:
            return changes.Configure(options) if options else None
        # Several actions are one new version.
        schema = replace(after.schema, id=before.schema.id + 1).to_json()
        plain = not options and not after.schema.differs_from(before.schema)
        return changes.Evolve(schema) if plain else changes.Alter(schema, options)

    def apply(self, table: TableDefinition) -> TableDefinition:
        """The table after all actions."""
        for action in self.given.actions:
            table = self._applied(table, action)
        return table

    def _applied(self, table: TableDefinition, action: table_statement.AlterAction) -> TableDefinition:
        match action:
            case table_statement.AddColumn(definition, if_not_exists):
                known = any(column.name == definition.name.text for column in table.schema.columns)
                return table if known and if_not_exists else self._add(table, definition)
            case table_statement.DropColumn(column, if_exists):
                known = any(one.name == column.text for one in table.schema.columns)
                return table if if_exists and not known else self._drop(table, column)
            case table_statement.RenameColumn(column, new_name):
                return self._rename(table, column, new_name)
            case table_statement.SetDefault(column, default_at):
                return self._set_default(table, column, default_at)
            case table_statement.SetType():
                return self._set_type(table, action)
            case table_statement.SetNullable(column, nullable):
                return self._set_nullable(table, column, nullable=nullable)
            case table_statement.AddKey(key):
                return with_key(table, key, self.given.table.text, self.given.sql)
            case table_statement.DropConstraint(constraint, if_exists):
                return self._drop_constraint(table, constraint, if_exists=if_exists)
            case _:
                assert_never(action)

    # ------------------------------------------------------------ columns

    def _add(self, table: TableDefinition, column: table_statement.ColumnDefinition) -> TableDefinition:
        self._check_new_name(table, column.name)
        missing: pa.Scalar | None = None
        text = self._text(column.default_at)
        if text is not None:
            missing = self._at(column.default_at, lambda: constant_of(self.context, text, column.type))
        try:
            schema = table.schema.add(
                column.name.text, column.type, nullable=column.nullable, missing=missing
            )
        except BindError as error:
            error.position = position_of(self.given.sql, column.name)
            raise
        return replace(table, schema=schema).with_entry(DEFAULTS, schema.columns[-1].id, text)

    def _drop(self, table: TableDefinition, ident: syntax.Ident) -> TableDefinition:
        column = self._find(table, ident)
        try:
            after = replace(table, schema=table.schema.drop(column.name))
            self._check_views(after, alike=False)
        except BindError as error:
            error.position = error.position or position_of(self.given.sql, ident)
            raise
        for option in (DEFAULTS, COMMENTS):
            if str(column.id) in after.options.get(option, {}):
                after = after.with_entry(option, column.id, None)
        key = primary_key(table.schema, table.options)
        return after.with_option(shard_options.PRIMARY_KEY, None) if key and column in key.columns else after

    def _rename(self, table: TableDefinition, ident: syntax.Ident, new_name: syntax.Ident) -> TableDefinition:
        column = self._find(table, ident)
        self._check_new_name(table, new_name)
        try:
            after = replace(table, schema=table.schema.rename(column.name, new_name.text))
            self._check_views(after, alike=True)
        except BindError as error:
            error.position = error.position or position_of(self.given.sql, ident)
            raise
        return after

    def _set_default(
        self, table: TableDefinition, ident: syntax.Ident, at: syntax.Span | None
    ) -> TableDefinition:
        column, text = self._find(table, ident), self._text(at)
        if text is not None:
            self._at(at, lambda: default(self.context, text, column.type))
        return table.with_entry(DEFAULTS, column.id, text)

    def _set_type(self, table: TableDefinition, action: table_statement.SetType) -> TableDefinition:
        column, position = self._find(table, action.column), position_of(self.given.sql, action.column)
        if column.type == action.type:
            return table
        try:
            check_widening(column, action.type)
            after = replace(table, schema=table.schema.widen(column.name, action.type))
            self._check_views(after, alike=True)
            text = table.options.get(DEFAULTS, {}).get(str(column.id))
            if text is not None:
                default(self.context, text, action.type)
        except TidegateError as error:
            error.position = position
            raise
        return after

    def _set_nullable(
        self, table: TableDefinition, ident: syntax.Ident, *, nullable: bool
    ) -> TableDefinition:
        column, key = self._find(table, ident), primary_key(table.schema, table.options)
        if nullable and key is not None and any(column.id == one.id for one in key.columns):
            raise BindError(
                f'column "{column.name}" is in a primary key',
                code=ErrorCode.INVALID_TABLE,
                hint=f"DROP CONSTRAINT {identifier(key.name)} first",
                position=position_of(self.given.sql, ident),
            )
        return replace(table, schema=table.schema.not_null([column.id], nullable=nullable))

    def _drop_constraint(
        self, table: TableDefinition, ident: syntax.Ident, *, if_exists: bool
    ) -> TableDefinition:
        key = primary_key(table.schema, table.options)
        if key is not None and key.name == ident.text:
            return table.with_option(shard_options.PRIMARY_KEY, None)
        if if_exists:
            return table
        raise BindError(
            f'constraint "{ident.text}" of relation "{self.given.table.text}" does not exist',
            code=ErrorCode.UNDEFINED_OBJECT,
            position=position_of(self.given.sql, ident),
        )

    # ------------------------------------------------------------ what they share

    def _check_views(self, after: TableDefinition, *, alike: bool) -> None:
        check_views(self.context, self.given.table.text, after.schema, after.options, alike=alike)

    def _find(self, table: TableDefinition, ident: syntax.Ident) -> SchemaColumn:
        try:
            return table.schema.find(ident.text)
        except BindError as error:
            error.position = position_of(self.given.sql, ident)
            raise

    def _check_new_name(self, table: TableDefinition, ident: syntax.Ident) -> None:
        if any(column.name == ident.text for column in table.schema.columns):
            raise BindError(
                f'column "{ident.text}" of relation "{self.given.table.text}" already exists',
                code=ErrorCode.DUPLICATE_COLUMN,
                position=position_of(self.given.sql, ident),
            )

    def _text(self, at: syntax.Span | None) -> str | None:
        return None if at is None else self.given.sql[at.start : at.end]

    def _at(self, at: syntax.Span | None, work: Callable[[], T]) -> T:
        """Does it; an error says where the default stands."""
        try:
            return work()
        except TidegateError as error:
            error.position = None if at is None else Position(self.given.sql, *at)
            raise
