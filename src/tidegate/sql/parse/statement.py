"""Statements: what a user can ask for, one frozen dataclass each.

    DELETE FROM t WHERE id = 5
    Delete(table="t", alias=None, where=…)

Those of tables and of prepared statements are in `table_statement.py`.

They say what was written, and nothing of what it means: no name has been looked up, no default chosen.
Queries and expressions inside are syntax trees with their places (`syntax.py`), and die at binding; what must
last (a transform, a view) lasts as the user's own text, `query.text`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tidegate.sql.parse import syntax
from tidegate.sql.parse.from_clause import From
from tidegate.sql.parse.modification import NO_TABLES, Assignments, OnConflict, RowAssignment, With
from tidegate.sql.parse.modification import Merge as Merge  # noqa: PLC0414  # a statement like those below
from tidegate.sql.parse.syntax import Ident, Item, Node, Span
from tidegate.sql.parse.table_statement import PreparedCommand, TableStatement

Value: TypeAlias = "str | int | float | bool | tuple[Value, ...]"


@dataclass(frozen=True)
class Option:
    """`NAME value` in parentheses, as in `(BROKER 'host:9092', START OFFSET 10)`; the name in lower case."""

    name: str
    value: Value
    at: Span
    bare: bool = False
    """Whether it was written without a value, as a flag is: `(SPLIT)`; its value is TRUE then."""


@dataclass(frozen=True)
class SelectStatement:
    """A SELECT, perhaps AS OF a time, perhaps with OPTIONS (setting = value, …) of its own."""

    query: syntax.Query
    as_of: Node | None = None
    options: tuple[Set, ...] = ()


@dataclass(frozen=True)
class Explain:
    """EXPLAIN [ANALYZE] [FILTER PUSHDOWN] statement, or EXPLAIN (ANALYZE, FORMAT JSON) statement."""

    statement: Statement
    filter_pushdown: bool = False
    analyze: bool = False
    as_json: bool = False


@dataclass(frozen=True)
class CreateView:
    """CREATE VIEW."""

    name: Ident
    columns: tuple[Ident, ...]
    query: syntax.Query
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropStatement:
    """DROP TABLE, VIEW, SOURCE or CONNECTION."""

    sql: str
    kind: Literal["table", "view", "source", "connection"]
    names: tuple[Ident, ...]
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class Insert:
    """INSERT INTO t [(columns)] query; None for DEFAULT VALUES."""

    sql: str
    table: Ident
    columns: tuple[Ident, ...]
    query: syntax.Query | None
    alias: Ident | None = None
    conflict: OnConflict | None = None
    returning: tuple[Item, ...] = ()


@dataclass(frozen=True)
class Delete:
    """DELETE FROM t [USING …] [WHERE …]."""

    sql: str
    table: Ident
    alias: Ident | None
    where: Node | None
    source: From | None = None
    returning: tuple[Item, ...] = ()
    common: With = NO_TABLES


@dataclass(frozen=True)
class Update:
    """UPDATE t SET column = value, … [FROM …] [WHERE …]."""

    sql: str
    table: Ident
    alias: Ident | None
    assignments: tuple[tuple[Ident, Node], ...]
    where: Node | None
    rows: tuple[RowAssignment, ...] = ()
    source: From | None = None
    returning: tuple[Item, ...] = ()
    common: With = NO_TABLES

    @property
    def changes(self) -> Assignments:
        """All that stands behind SET."""
        return Assignments(self.assignments, self.rows)


@dataclass(frozen=True)
class Show:
    """SHOW TABLES, SHOW COLUMNS FROM t, SHOW setting: what, in lower case, and the name."""

    what: str
    name: Ident | None = None
    like: str | None = None


@dataclass(frozen=True)
class Set:
    """SET name = value; None is RESET, and SET … TO DEFAULT."""

    sql: str
    name: Ident
    value: Value | None
    local: bool = False
    """Whether it is SET LOCAL, which ends with the transaction."""


# ---------------------------------------------------------------- sources


@dataclass(frozen=True)
class CreateConnection:
    """CREATE CONNECTION k TO KAFKA (…)."""

    sql: str
    name: Ident
    kind: str
    kind_at: Span
    options: tuple[Option, ...]
    if_not_exists: bool = False


FormatKind: TypeAlias = Literal["bytes", "text", "json", "csv", "avro", "parquet"]


@dataclass(frozen=True)
class Format:
    """FORMAT …: the kind and its options (`header`, `columns`, `delimiter`, `schema`, `registry`)."""

    kind: FormatKind
    options: tuple[Option, ...]
    at: Span


@dataclass(frozen=True)
class Include:
    """INCLUDE what [AS name]: `key`, `offset`, `ingestion timestamp`, …; HEADER has an argument."""

    what: str
    alias: Ident | None
    argument: str | None
    at: Span


@dataclass(frozen=True)
class SubsourceClause:
    """One entry of FOR TABLES: the upstream table, how it is transformed, and what it is called here."""

    table: tuple[Ident, ...]
    alias: Ident | None
    transform: syntax.Query | None


@dataclass(frozen=True)
class CreateSource:
    """CREATE SOURCE: where from, how it is decoded, what is done to it on the way."""

    sql: str
    name: Ident
    kind: str
    """The kind of the upstream in lower case: `kafka`, `files`, …"""
    kind_at: Span
    connection: Ident | None
    target: str | None = None
    """What follows the kind: the pattern of FILES, the name of a GENERATOR."""
    options: tuple[Option, ...] = ()
    key_format: Format | None = None
    format: Format | None = None
    include: tuple[Include, ...] = ()
    envelope: Literal["none", "upsert", "debezium"] | None = None
    transform: syntax.Query | None = None
    tables: tuple[SubsourceClause, ...] = ()
    all_tables: bool = False
    cluster_by: tuple[Ident, ...] = ()
    keep_statistics: tuple[tuple[Ident, ...], ...] = ()
    with_options: tuple[Option, ...] = ()
    if_not_exists: bool = False
    before: syntax.Query | None = None
    """TRANSFORM BEFORE ENVELOPE."""
    at: Span | None = None
    """All of the statement."""

    @property
    def text(self) -> str:
        """The statement as it was written."""
        return self.sql if self.at is None else self.sql[self.at.start : self.at.end]


@dataclass(frozen=True)
class AlterSource:
    """ALTER SOURCE s PAUSE | RESUME | REPLAY ERRORS | SET TRANSFORM USING (query) [FOR a subsource]."""

    sql: str
    name: Ident
    action: Literal["pause", "resume", "replay", "transform"]
    if_exists: bool = False
    transform: syntax.Query | None = None
    table: Ident | None = None
    """Of which of its collections, if there are several."""


Statement: TypeAlias = (
    SelectStatement | Explain | TableStatement | CreateView | DropStatement | Insert | Delete | Update | Merge |
    PreparedCommand | Show | Set | CreateConnection | CreateSource | AlterSource
)  # fmt: skip
