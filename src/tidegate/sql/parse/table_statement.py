"""Statements that define and change tables, and prepared statements: one frozen dataclass each.

    ALTER TABLE t ADD COLUMN n int8 DEFAULT 0, RENAME COLUMN a TO b
    AlterTable(name="t", actions=(AddColumn(ColumnDefinition("n", INT8, …)), RenameColumn("a", "b")))

As in `statement.py` they say what was written, and nothing of what it means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from tidegate.expr.model import Type
from tidegate.sql.parse.syntax import Ident, Node, Span

if TYPE_CHECKING:
    from tidegate.sql.parse.statement import Option, SelectStatement, Statement


@dataclass(frozen=True)
class ColumnDefinition:
    """A column of CREATE TABLE or ADD COLUMN."""

    name: Ident
    type: Type
    nullable: bool = True
    default: Node | None = None
    default_at: Span | None = None
    """Where all of the default stands: its text lasts, as that of a view does."""


@dataclass(frozen=True)
class KeyDefinition:
    """[CONSTRAINT name] PRIMARY KEY (columns) NOT ENFORCED."""

    columns: tuple[Ident, ...]
    name: Ident | None = None


@dataclass(frozen=True)
class LikeClause:
    """LIKE table [INCLUDING …] among the columns of CREATE TABLE, behind `place` of them."""

    table: Ident
    including: frozenset[str]
    place: int


@dataclass(frozen=True)
class TableOptions:
    """What may follow the columns of CREATE TABLE; `keep_statistics` are paths such as (payload, ts)."""

    cluster_by: tuple[Ident, ...] = ()
    keep_statistics: tuple[tuple[Ident, ...], ...] = ()
    options: tuple[Option, ...] = ()


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE t (columns)."""

    sql: str
    name: Ident
    columns: tuple[ColumnDefinition, ...]
    clauses: TableOptions = TableOptions()
    if_not_exists: bool = False
    key: KeyDefinition | None = None
    likes: tuple[LikeClause, ...] = ()


@dataclass(frozen=True)
class CreateTableAs:
    """CREATE TABLE t AS query, and SELECT … INTO t."""

    sql: str
    name: Ident
    columns: tuple[Ident, ...]
    query: SelectStatement
    clauses: TableOptions = TableOptions()
    with_data: bool = True
    if_not_exists: bool = False


@dataclass(frozen=True)
class Truncate:
    """TRUNCATE of one table or several."""

    sql: str
    tables: tuple[Ident, ...]


# ---------------------------------------------------------------- ALTER TABLE


@dataclass(frozen=True)
class AddColumn:
    """ADD COLUMN."""

    column: ColumnDefinition
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropColumn:
    """DROP COLUMN."""

    column: Ident
    if_exists: bool = False


@dataclass(frozen=True)
class RenameColumn:
    """RENAME COLUMN a TO b."""

    column: Ident
    new_name: Ident


@dataclass(frozen=True)
class SetDefault:
    """ALTER COLUMN c SET DEFAULT expression; without one, DROP DEFAULT."""

    column: Ident
    default_at: Span | None


@dataclass(frozen=True)
class SetType:
    """ALTER COLUMN c TYPE type."""

    column: Ident
    type: Type


@dataclass(frozen=True)
class SetNullable:
    """ALTER COLUMN c DROP NOT NULL or SET NOT NULL."""

    column: Ident
    nullable: bool


@dataclass(frozen=True)
class AddKey:
    """ADD PRIMARY KEY (columns) NOT ENFORCED."""

    key: KeyDefinition


@dataclass(frozen=True)
class DropConstraint:
    """DROP CONSTRAINT name."""

    constraint: Ident
    if_exists: bool = False


AlterAction: TypeAlias = (
    AddColumn | DropColumn | RenameColumn | SetDefault | SetType | SetNullable | AddKey | DropConstraint
)


@dataclass(frozen=True)
class AlterTable:
    """ALTER TABLE t action, …: all of them or none."""

    sql: str
    table: Ident
    actions: tuple[AlterAction, ...]
    if_exists: bool = False


@dataclass(frozen=True)
class RenameCollection:
    """ALTER TABLE or VIEW name RENAME TO new_name."""

    sql: str
    kind: Literal["table", "view"]
    name: Ident
    new_name: Ident
    if_exists: bool = False


@dataclass(frozen=True)
class CommentOn:
    """COMMENT ON TABLE, VIEW or COLUMN name IS text; None removes it."""

    sql: str
    kind: Literal["table", "view", "column"]
    name: Ident
    column: Ident | None
    text: str | None


# ---------------------------------------------------------------- prepared statements


@dataclass(frozen=True)
class Prepare:
    """PREPARE name (types) AS statement, which is parsed with NULL for each parameter."""

    name: Ident
    types: tuple[Type | None, ...]
    inner: Statement
    text: str


@dataclass(frozen=True)
class Execute:
    """EXECUTE name (expressions)."""

    sql: str
    name: Ident
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Deallocate:
    """DEALLOCATE name; None is ALL."""

    sql: str
    name: Ident | None


TableStatement: TypeAlias = CreateTable | CreateTableAs | Truncate | AlterTable | RenameCollection | CommentOn
PreparedCommand: TypeAlias = Prepare | Execute | Deallocate
