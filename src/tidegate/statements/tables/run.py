"""Which function runs which statement of tables."""

from __future__ import annotations

from typing import assert_never

from tidegate.context import Context
from tidegate.query import CancelToken, Result
from tidegate.sql.parse import table_statement
from tidegate.statements.tables.alter import alter_table
from tidegate.statements.tables.comments import comment_on
from tidegate.statements.tables.create import create_table
from tidegate.statements.tables.create_as import create_table_as
from tidegate.statements.tables.rename import rename
from tidegate.statements.tables.truncate import truncate


def define_table(
    context: Context, given: table_statement.TableStatement, watch: CancelToken | None
) -> Result:
    """Runs a statement that defines or changes tables."""
    match given:
        case table_statement.CreateTable():
            return create_table(context, given)
        case table_statement.CreateTableAs():
            return create_table_as(context, given, watch)
        case table_statement.Truncate():
            return truncate(context, given)
        case table_statement.AlterTable():
            return alter_table(context, given)
        case table_statement.RenameCollection():
            return rename(context, given)
        case table_statement.CommentOn():
            return comment_on(context, given)
        case _:
            assert_never(given)
