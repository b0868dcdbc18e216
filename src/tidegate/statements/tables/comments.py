"""COMMENT ON TABLE, VIEW and COLUMN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegate.context import CatalogSnapshot, Context, position_of
from tidegate.errors import BindError, ErrorCode
from tidegate.query import Result
from tidegate.sql.parse import table_statement
from tidegate.statements.select import names_of
from tidegate.statements.tables.table_definition import COMMENTS, TABLE_COMMENT, TableDefinition
from tidegate.storage.catalog import ViewItem, kind_of
from tidegate.storage.part import Schema
from tidegate.storage.shard import State, changes, visible_columns


def comment_on(context: Context, given: table_statement.CommentOn) -> Result:
    """Sets a comment, or removes it."""
    position = position_of(given.sql, given.name)
    item = context.item(given.name.text, position)
    if given.kind != "column" and kind_of(item) != given.kind:
        raise BindError(
            f'"{given.name.text}" is not a {given.kind}',
            code=ErrorCode.WRONG_OBJECT,
            hint=f"it is a {kind_of(item)}",
            position=position,
        )
    if isinstance(item, ViewItem):
        _comment_on_view(context, given, item)
        return Result.message("COMMENT")

    def propose(state: State) -> changes.Configure:
        id_ = TABLE_COMMENT if given.column is None else str(_column(given, state.schema, state.options))
        table = TableDefinition(state.schema, state.options).with_entry(COMMENTS, id_, given.text)
        return changes.Configure({COMMENTS: table.options.get(COMMENTS)})

    context.collection(given.name.text, position).machine.update(propose)
    return Result.message("COMMENT")


def _comment_on_view(context: Context, given: table_statement.CommentOn, item: ViewItem) -> None:
    column = "" if given.column is None else given.column.text
    if given.column is not None:
        own = names_of(item.sql, CatalogSnapshot(context), context.clock.now())
        if column not in (*item.columns, *own[len(item.columns) :]):
            raise _no_column(given)
    comments = {**item.comments, column: given.text}
    left = {name: text for name, text in comments.items() if text is not None}
    context.catalog.change(given.name.text, item, replace(item, comments=left))


def _column(given: table_statement.CommentOn, schema: Schema, options: Mapping[str, Any]) -> int:
    assert given.column is not None
    for column in visible_columns(schema, options):
        if column.name == given.column.text:
            return column.id
    raise _no_column(given)


def _no_column(given: table_statement.CommentOn) -> BindError:
    assert given.column is not None
    return BindError(
        f'column "{given.column.text}" of relation "{given.name.text}" does not exist',
        code=ErrorCode.UNDEFINED_COLUMN,
        position=position_of(given.sql, given.column),
    )
