"""ALTER TABLE and ALTER VIEW … RENAME TO: one entry of the catalog; rows stay where they are."""

from __future__ import annotations

from tidegate.context import Context, position_of
from tidegate.errors import BindError, ErrorCode
from tidegate.query import Result
from tidegate.sql.parse import table_statement
from tidegate.statements.tables.dependants import check_no_readers
from tidegate.storage.catalog import TableItem, ViewItem, kind_of


def rename(context: Context, given: table_statement.RenameCollection) -> Result:
    """Gives a table or view another name, unless something reads it by the old one."""
    name, position = given.name.text, position_of(given.sql, given.name)
    done = Result.message(f"ALTER {given.kind.upper()}")
    if given.if_exists and context.catalog.find(name) is None:
        return Result.message(f'"{name}" does not exist, and was left so')
    item = context.item(name, position)
    if not isinstance(item, TableItem | ViewItem) or (
        given.kind == "view" and not isinstance(item, ViewItem)
    ):
        hint = (
            "a source keeps its name: CREATE VIEW gives it another beside it"
            if given.kind == "table"
            else None
        )
        raise BindError(
            f'"{name}" is a {kind_of(item)}, not a {given.kind}',
            code=ErrorCode.WRONG_OBJECT,
            hint=hint,
            position=position,
        )
    try:
        context.catalog.rename(
            name, given.new_name.text, item, lambda: check_no_readers(context, name, position)
        )
    except BindError as error:
        if error.code is ErrorCode.DUPLICATE_TABLE:
            error.position, error.hint = position_of(given.sql, given.new_name), None
        raise
    return done
