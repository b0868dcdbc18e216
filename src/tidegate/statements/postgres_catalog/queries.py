"""Queries of pg_catalog and information_schema in `db.sql`.

    SELECT table_name FROM information_schema.tables; SELECT count(*) FROM t

    is_about_catalog(context, piece)             True for the first statement
    query_catalog(context, piece, None, None)    its answer

Who asks is the user and database of the session; the names, columns and types are those of now, whatever AS OF says elsewhere.
"""

from __future__ import annotations

import os

from tidegate.context import Context
from tidegate.errors import UnsupportedError
from tidegate.query import CancelToken, Result
from tidegate.sql.bind import session_constant
from tidegate.sql.parse import StatementText
from tidegate.statements.postgres_catalog.catalog import ClientIdentity, PostgresCatalog
from tidegate.statements.postgres_catalog.rewrite import is_catalog
from tidegate.statements.postgres_settings import all_postgres_settings


def is_about_catalog(context: Context, piece: StatementText) -> bool:
    """Whether the catalog answers a statement; a user's collection is never taken for one of its tables."""
    return is_catalog(piece, lambda name: context.catalog.find(name) is not None)


def query_catalog(
    context: Context, piece: StatementText, as_of: int | None, watch: CancelToken | None
) -> Result:
    """The answer of a query of the catalog."""
    if as_of is not None:
        raise UnsupportedError(
            "the catalog has no history: it shows the names and columns of now", hint="leave as_of out"
        )
    if any(token.kind == "parameter" for token in piece.tokens):
        raise UnsupportedError(
            "queries of the catalog take no parameters", hint="write the value in the text"
        )
    user, database = (session_constant(name).value.as_py() for name in ("current_user", "current_database"))
    return PostgresCatalog.of(context).query(
        piece.text,
        context,
        ClientIdentity(user, database, os.getpid()),
        all_postgres_settings(context),
        watch or CancelToken(context.config.statement_timeout_ms),
    )
