"""The grammar of PREPARE, EXECUTE and DEALLOCATE."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.expr.model import Type
from tidegate.sql.parse.grammar.expressions import expression
from tidegate.sql.parse.grammar.types import type_name
from tidegate.sql.parse.statement import Statement
from tidegate.sql.parse.syntax import Node
from tidegate.sql.parse.table_statement import Deallocate, Execute, Prepare
from tidegate.sql.parse.token_cursor import TokenCursor


def prepare(c: TokenCursor, inner: Callable[[TokenCursor], Statement]) -> Prepare:
    """PREPARE name [(types)] AS statement; `inner` reads it, and its parameters have no values yet."""
    name = c.name("the statement's name")
    types: tuple[Type | None, ...] = ()
    if c.eat("("):
        types = c.comma_list(lambda: None if c.eat("unknown") else type_name(c))
        c.expect(")", of="a comma")
    c.expect("as")
    start = c.token.start
    if not (c.token.kind == "op" or c.token.text in _PREPARED):
        raise c.fail("SELECT, VALUES, INSERT, UPDATE, DELETE or MERGE")
    before, c.placeholders = c.placeholders, True
    parsed = inner(c)
    c.placeholders = before
    at = c.since(start)
    return Prepare(name, types, parsed, c.sql[at.start : at.end])


_PREPARED = ("select", "with", "values", "table", "insert", "update", "delete", "merge")


def execute(c: TokenCursor) -> Execute:
    """EXECUTE name [(expressions)]."""
    name = c.name("the statement's name")
    arguments: tuple[Node, ...] = ()
    if c.eat("("):
        arguments = c.comma_list(lambda: expression(c))
        c.expect(")", of="a comma")
    return Execute(c.sql, name, arguments)


def deallocate(c: TokenCursor) -> Deallocate:
    """DEALLOCATE [PREPARE] name or ALL."""
    c.eat("prepare")
    return Deallocate(c.sql, None if c.eat("all") else c.name("the statement's name"))
