"""The clauses of statements that change rows: RETURNING, SET (a, b) = (…), ON CONFLICT, and MERGE.

    INSERT INTO t VALUES (1, 'a') ON CONFLICT (id) DO UPDATE SET name = excluded.name RETURNING id
    OnConflict(columns=(id,), assignments=Assignments(((name, Name(excluded.name)),)))

`SET (a, b) = (1, 2)` is read as `a = 1, b = 2`; only a subquery that gives several values stays one assignment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from tidegate.sql.parse.from_clause import From
from tidegate.sql.parse.syntax import CommonTable, Ident, Item, Node, Query, Span


class With(NamedTuple):
    """The common tables in front of a statement, and where RECURSIVE stands."""

    tables: tuple[CommonTable, ...]
    recursive: Span | None = None


NO_TABLES = With(())


class RowAssignment(NamedTuple):
    """`(a, b) = (SELECT …)`."""

    targets: tuple[Ident, ...]
    query: Query
    at: Span


@dataclass(frozen=True)
class Assignments:
    """What stands behind SET."""

    single: tuple[tuple[Ident, Node], ...] = ()
    rows: tuple[RowAssignment, ...] = ()


@dataclass(frozen=True)
class OnConflict:
    """ON CONFLICT (columns) DO NOTHING, or DO UPDATE SET …; without columns the declared key is meant."""

    columns: tuple[Ident, ...]
    assignments: Assignments | None
    """None: DO NOTHING."""
    where: Node | None
    at: Span


MatchKind: TypeAlias = Literal["matched", "not matched by target", "not matched by source"]


@dataclass(frozen=True)
class MergeInsert:
    """`INSERT (columns) VALUES (…)`; without values, DEFAULT VALUES."""

    columns: tuple[Ident, ...]
    values: tuple[Node, ...] | None
    at: Span


@dataclass(frozen=True)
class MergeClause:
    """`WHEN MATCHED AND condition THEN action`."""

    kind: MatchKind
    condition: Node | None
    action: Assignments | MergeInsert | Literal["delete", "nothing"]
    at: Span


@dataclass(frozen=True)
class Merge:
    """MERGE INTO t USING source ON condition WHEN …."""

    sql: str
    table: Ident
    alias: Ident | None
    source: From
    on: Node
    clauses: tuple[MergeClause, ...]
    returning: tuple[Item, ...] = ()
    common: With = NO_TABLES
