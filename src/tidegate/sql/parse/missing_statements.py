"""Statements that other systems have and this one has not: what to write in their place.

VACUUM orders        expected SELECT, …, found "VACUUM"; hint: writers merge small parts by themselves; …
"""

from __future__ import annotations

from tidegate.sql.parse.token_cursor import TokenCursor

_NO_TRANSACTIONS = "every statement is a transaction of its own: there are no transactions to BEGIN"
_NOT_TEMPORARY = "every collection is kept: there are no temporary tables"
_NO_INDEXES = "there are no indexes: CLUSTER BY sorts rows, and the statistics of every column prune parts"
_NO_USERS = "there are no users and permissions: a server is read-only, or has --write"
_NOT_MAINTAINED = "CREATE VIEW gives a query a name; a SOURCE with TRANSFORM USING stores rows as they come"
_NO_SCHEMAS = "a lake is one flat namespace: all collections are in the schema public"
_COMPACTED = (
    "writers merge small parts by themselves; tidegate compact and tidegate sweep do all of it at once"
)
_COLUMNS = "SHOW COLUMNS FROM name lists columns; \\d name in the prompt and in psql"

_INSTEAD: dict[tuple[str, ...], str] = {
    **dict.fromkeys([("begin",), ("commit",), ("rollback",), ("start",), ("abort",)], _NO_TRANSACTIONS),
    **dict.fromkeys([("create", "temp"), ("create", "temporary"), ("create", "unlogged")], _NOT_TEMPORARY),
    **dict.fromkeys(
        [("create", "index"), ("create", "unique"), ("drop", "index"), ("reindex",)], _NO_INDEXES
    ),
    **dict.fromkeys([("grant",), ("revoke",), ("create", "user"), ("create", "role")], _NO_USERS),
    **dict.fromkeys([("create", "materialized"), ("refresh",)], _NOT_MAINTAINED),
    **dict.fromkeys([("create", "schema"), ("create", "database"), ("use",)], _NO_SCHEMAS),
    **dict.fromkeys([("vacuum",), ("optimize",)], _COMPACTED),
    **dict.fromkeys([("describe",), ("desc",)], _COLUMNS),
    ("create", "or", "replace", "table"): "only a view is replaced: DROP TABLE IF EXISTS name comes first",
    ("create", "sequence"): "there are no sequences: let the writer number rows",
    ("analyze",): "every part gets its statistics when it is written; EXPLAIN ANALYZE runs a query",
    ("copy",): "\\copy in the prompt and COPY on the psql port move rows between tables and files",
    ("replace",): "INSERT … ON CONFLICT (columns) DO UPDATE, or MERGE",
}
"""By their first words."""


def instead_of(c: TokenCursor) -> str | None:
    """What to write in place of the statement that comes next; None: nobody knows it."""
    return next((hint for words, hint in _INSTEAD.items() if c.sees(*words)), None)


_BEHIND_QUERY: dict[str, str] = {
    "for": "no reader or writer locks rows: leave it out; UPDATE and DELETE check what others changed meanwhile",
    "tablesample": "WHERE random() < 0.1 picks some of the rows, and LIMIT reads few parts",
}
"""By the word at which a query has ended."""


def behind_query(c: TokenCursor) -> str | None:
    """What to write in place of a clause that comes where a query has ended."""
    return _BEHIND_QUERY.get(c.token.text) if c.token.kind == "word" else None
