"""The grammar of statements that define tables: CREATE TABLE, ALTER TABLE, TRUNCATE, COMMENT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from tidegate.errors import ErrorCode, ParseError, Position, UnsupportedError
from tidegate.sql.parse.grammar.constraints import at_constraint, column_key, table_key
from tidegate.sql.parse.grammar.expressions import expression
from tidegate.sql.parse.grammar.names import column_list, no_duplicates, own_name
from tidegate.sql.parse.grammar.sources import cluster_by, keep_statistics, options
from tidegate.sql.parse.grammar.types import type_name
from tidegate.sql.parse.statement import SelectStatement
from tidegate.sql.parse.syntax import Ident
from tidegate.sql.parse.table_statement import (
    AddColumn,
    AddKey,
    AlterAction,
    AlterTable,
    ColumnDefinition,
    CommentOn,
    CreateTable,
    CreateTableAs,
    DropColumn,
    DropConstraint,
    KeyDefinition,
    LikeClause,
    RenameCollection,
    RenameColumn,
    SetDefault,
    SetNullable,
    SetType,
    TableOptions,
    Truncate,
)
from tidegate.sql.parse.token_cursor import TokenCursor

ReadSelect: TypeAlias = Callable[[TokenCursor], SelectStatement]

LIKE_OPTIONS = frozenset(
    [
        "comments",
        "compression",
        "constraints",
        "defaults",
        "generated",
        "identity",
        "indexes",
        "statistics",
        "storage",
    ]
)


def create_table(c: TokenCursor, select: ReadSelect) -> CreateTable | CreateTableAs:
    """CREATE TABLE; `select` reads the query behind AS."""
    if_not_exists = c.eat("if", "not", "exists")
    name = own_name(c, "the table's name")
    names: tuple[Ident, ...] = ()
    made: CreateTable | None = None
    if c.sees("("):
        start = c.i
        names = column_list(c) if _at_names(c) else ()
        if not names or c.token.text not in _BEFORE_QUERY:
            c.i, names = start, ()
            made = _elements(c, name)
    clauses = _clauses(c)
    if made is not None:
        return replace(made, clauses=clauses, if_not_exists=if_not_exists)
    c.expect("as", of=None if names or clauses != TableOptions() else '"("')
    found = select(c)
    with_data = True
    if c.eat("with"):
        with_data = not c.eat("no")
        c.expect("data")
    return CreateTableAs(c.sql, name, names, found, clauses, with_data, if_not_exists)


_BEFORE_QUERY = ("as", "cluster", "keep", "with")


def _at_names(c: TokenCursor) -> bool:
    """Whether names without types follow: those of CREATE TABLE t (a, b) AS query."""
    return c.ahead(1).kind in ("word", "quoted") and c.ahead(2).text in (",", ")") and c.ahead(2).kind == "op"


def _elements(c: TokenCursor, name: Ident) -> CreateTable:
    """The columns, keys and LIKE clauses in parentheses."""
    columns: list[ColumnDefinition] = []
    keys: list[KeyDefinition] = []
    likes: list[LikeClause] = []

    def element() -> None:
        at = c.span()
        before = len(keys)
        if c.sees("like"):
            likes.append(_like(c, len(columns)))
        elif at_constraint(c):
            keys.append(table_key(c))
        else:
            columns.append(column_definition(c, keys))
        if len(keys) > max(before, 1):
            raise ParseError(
                f'multiple primary keys for table "{name.text}" are not allowed',
                code=ErrorCode.INVALID_TABLE,
                position=Position(c.sql, *at),
            )

    c.expect("(")
    c.comma_list(element, trailing=True)
    c.expect(")", of="a comma")
    if not columns and not likes:
        raise ParseError("a table needs a column", position=Position(c.sql, *name.at))
    no_duplicates(c, tuple(column.name for column in columns))
    key = keys[0] if keys else None
    return CreateTable(c.sql, name, tuple(columns), key=key, likes=tuple(likes))


def _like(c: TokenCursor, place: int) -> LikeClause:
    c.expect("like")
    table = own_name(c, "a table's name")
    including: frozenset[str] = frozenset()
    while (verb := c.eat_any("including", "excluding")) is not None:
        what = c.eat_any("all", *sorted(LIKE_OPTIONS))
        if what is None:
            raise c.fail("ALL, COMMENTS, DEFAULTS, INDEXES, STATISTICS or STORAGE")
        which = LIKE_OPTIONS if what == "all" else frozenset((what,))
        including = including | which if verb == "including" else including - which
    return LikeClause(table, including, place)


def _clauses(c: TokenCursor) -> TableOptions:
    """CLUSTER BY, KEEP STATISTICS and WITH, in any order."""
    found: dict[str, Any] = {}
    while True:
        at = c.span()
        if c.sees("cluster"):
            more = cluster_by(c)
        elif c.sees("keep"):
            more = keep_statistics(c)
        elif c.eat("with"):
            more = {"options": options(c)}
        else:
            return TableOptions(**found)
        if more.keys() & found.keys():
            raise ParseError("this clause is given twice", position=Position(c.sql, *at))
        found |= more


def column_definition(c: TokenCursor, keys: list[KeyDefinition]) -> ColumnDefinition:
    """A column; a key that is declared with it is added to `keys`."""
    name = c.name("a column's name")
    type_ = type_name(c)
    nullable, default, at = True, None, None
    while True:
        if c.eat("not", "null"):
            nullable = False
        elif c.eat("null"):
            nullable = True
        elif c.eat("default"):
            start = c.token.start
            default = expression(c, 6)
            at = c.since(start)
        elif at_constraint(c):
            keys.append(column_key(c, name))
        else:
            return ColumnDefinition(name, type_, nullable, default, at)


# ---------------------------------------------------------------- ALTER TABLE


def alter_table(c: TokenCursor) -> AlterTable | RenameCollection:
    """ALTER TABLE, with one action or several."""
    if_exists = c.eat("if", "exists")
    table = own_name(c, "the table's name")
    if c.eat("rename", "to"):
        return RenameCollection(c.sql, "table", table, c.name("the new name"), if_exists)
    return AlterTable(c.sql, table, c.comma_list(lambda: _action(c)), if_exists)


def alter_view(c: TokenCursor) -> RenameCollection:
    """ALTER VIEW name RENAME TO."""
    if_exists = c.eat("if", "exists")
    view = own_name(c, "the view's name")
    c.expect("rename", "to")
    return RenameCollection(c.sql, "view", view, c.name("the new name"), if_exists)


def _action(c: TokenCursor) -> AlterAction:
    if c.eat("add"):
        return _add(c)
    if c.eat("drop"):
        if c.eat("constraint"):
            if_there = c.eat("if", "exists")
            found: AlterAction = DropConstraint(c.name("the constraint's name"), if_there)
        else:
            c.eat("column")
            if_there = c.eat("if", "exists")
            found = DropColumn(c.name("a column's name"), if_there)
        c.eat_any("restrict")
        return found
    if c.eat("rename"):
        c.eat("column")
        column = c.name("a column's name")
        c.expect("to")
        return RenameColumn(column, c.name("the new name"))
    if c.eat("alter"):
        c.eat("column")
        return _alter_column(c, c.name("a column's name"))
    raise c.fail("ADD COLUMN, DROP COLUMN, RENAME or ALTER COLUMN")


def _add(c: TokenCursor) -> AlterAction:
    if at_constraint(c):
        return AddKey(table_key(c))
    c.eat("column")
    if_not_exists = c.eat("if", "not", "exists")
    keys: list[KeyDefinition] = []
    start = c.token.start
    column = column_definition(c, keys)
    if keys:
        raise UnsupportedError(
            "a key is not added together with its column",
            hint=f"add the column, then ADD PRIMARY KEY ({column.name.text}) NOT ENFORCED",
            position=Position(c.sql, *c.since(start)),
        )
    return AddColumn(column, if_not_exists)


def _alter_column(c: TokenCursor, column: Ident) -> AlterAction:
    if c.eat("set", "default"):
        start = c.token.start
        expression(c)
        return SetDefault(column, c.since(start))
    if c.eat("drop", "default"):
        return SetDefault(column, None)
    if c.eat("set", "not", "null"):
        return SetNullable(column, nullable=False)
    if c.eat("drop", "not", "null"):
        return SetNullable(column, nullable=True)
    if not c.eat("type"):
        c.expect("set", "data", "type", of="SET DEFAULT, DROP DEFAULT, SET NOT NULL, DROP NOT NULL, TYPE")
    type_ = type_name(c)
    if c.sees("using"):
        raise UnsupportedError(
            "ALTER COLUMN … TYPE … USING is not supported: it would rewrite all rows",
            hint="add a column, UPDATE it, and drop the old one",
            position=Position(c.sql, *c.span()),
        )
    return SetType(column, type_)


# ---------------------------------------------------------------- TRUNCATE and COMMENT


def truncate(c: TokenCursor) -> Truncate:
    """TRUNCATE [TABLE] [ONLY] t [*], … [RESTART | CONTINUE IDENTITY] [CASCADE | RESTRICT]."""
    c.eat("table")

    def table() -> Ident:
        c.eat("only")
        name = own_name(c, "a table's name")
        c.eat("*")
        return name

    tables = c.comma_list(table)
    if c.eat_any("restart", "continue"):
        c.expect("identity")
    c.eat_any("cascade", "restrict")
    return Truncate(c.sql, tables)


def comment_on(c: TokenCursor) -> CommentOn:
    """COMMENT ON TABLE | VIEW | COLUMN name IS 'text' or NULL."""
    kinds: dict[str, Literal["table", "view", "column"]] = {
        "table": "table",
        "view": "view",
        "column": "column",
    }
    kind = kinds.get(c.eat_any(*kinds) or "")
    if kind is None:
        raise c.fail("TABLE, VIEW or COLUMN")
    column: Ident | None = None
    if kind == "column":
        start = c.token.start
        *owner, column = c.qualified("a column's name")
        if len(owner) not in (1, 2) or (len(owner) == 2 and owner[0].text != "public"):
            raise ParseError("column name must be qualified", position=Position(c.sql, *c.since(start)))
        name = owner[-1]
    else:
        name = own_name(c, f"the {kind}'s name")
    c.expect("is")
    text = None if c.eat("null") else c.string("a text in quotes, or NULL")
    return CommentOn(c.sql, kind, name, column, text or None)
