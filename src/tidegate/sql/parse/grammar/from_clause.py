"""The grammar of FROM: tables, queries, table functions, and joins of them.

    FROM orders o, jsonb_array_elements(o.lines) WITH ORDINALITY AS l (line, n) LEFT JOIN products p ON p.id = …

`from_clause` is given the grammar of queries, which calls it in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from tidegate.expr.model import Type
from tidegate.sql.parse.from_clause import (
    Alias,
    Derived,
    From,
    JoinClause,
    TableCall,
    TableFunction,
    TableRef,
)
from tidegate.sql.parse.grammar.expressions import expression
from tidegate.sql.parse.grammar.lookahead import query_follows
from tidegate.sql.parse.grammar.types import type_name
from tidegate.sql.parse.syntax import Ident, Item, Node, Query, Select, Span, Star
from tidegate.sql.parse.token_cursor import TokenCursor, is_name
from tidegate.text import JOINING, RESERVED

ParseQuery: TypeAlias = Callable[[TokenCursor], Query]
NOT_ALIASES = JOINING | {"set", "options"}
"""Words that stand behind a table and are no name of it, unless AS stands before."""
Definitions: TypeAlias = tuple[tuple[Ident, Type], ...]


def starts_as_of(c: TokenCursor) -> bool:
    """Whether `AS OF time` comes next, and not an alias that happens to be called `of`."""
    if not c.sees("as", "of"):
        return False
    after = c.ahead(2)
    return (
        after.kind in ("number", "string", "quoted")
        or (after.kind == "word" and after.text not in RESERVED | JOINING | {"order", "limit"})
        or (after.kind == "word" and after.text in ("cast", "case", "null"))
        or (after.kind == "op" and after.text in ("(", "-"))
    )


def column_names(c: TokenCursor) -> tuple[Ident, ...]:
    """Names of columns in parentheses."""
    c.expect("(")
    names = c.comma_list(lambda: c.name("a column's name"))
    c.expect(")", of="a comma")
    return names


_SIDES: dict[str, Literal["inner", "left", "right", "full", "cross"]] = {
    "inner": "inner", "left": "left", "right": "right", "full": "full", "cross": "cross",
}  # fmt: skip


def from_clause(c: TokenCursor, query: ParseQuery) -> From:
    """What stands behind FROM."""
    left = from_item(c, query)
    while c.sees(","):
        at = c.expect(",")
        left = JoinClause("CROSS JOIN (a comma in FROM)", left, from_item(c, query), None, (), at)
    return left


def from_item(c: TokenCursor, query: ParseQuery) -> From:
    """One entry of FROM: a table, or tables that are joined."""
    left = _table(c, query)
    while _starts_join(c):
        left = _join(c, left, query)
    return left


def _starts_join(c: TokenCursor) -> bool:
    return c.token.kind == "word" and c.token.text in ("join", "natural", *_SIDES)


def _join(c: TokenCursor, left: From, query: ParseQuery) -> JoinClause:
    """One join; `a JOIN b JOIN c ON … ON …` joins a with what b and c give."""
    start = c.token
    natural = c.eat("natural")
    side = c.eat_any("inner", "left", "right", "full", "cross")
    c.eat("outer")
    c.expect("join")
    at = c.since(start.start)
    c.enter()
    right = _table(c, query)
    on: Node | None = None
    using: tuple[Ident, ...] = ()
    using_alias: Ident | None = None
    if not natural and side != "cross":
        while _starts_join(c):
            right = _join(c, right, query)
        if c.eat("using"):
            using = column_names(c)
            if c.sees("as") and not starts_as_of(c):
                c.next()
                using_alias = c.name("an alias")
        else:
            c.expect("on", of="USING")
            on = expression(c)
    c.leave()
    kind = c.sql[at.start : at.end].upper()
    return JoinClause(kind, left, right, on, using, at, _SIDES[side or "inner"], natural, using_alias)


def _table(c: TokenCursor, query: ParseQuery) -> From:
    c.enter()
    found = _table_itself(c, query)
    c.leave()
    return found


def _table_itself(c: TokenCursor, query: ParseQuery) -> From:
    start = c.token
    at = Span(start.start, start.end)
    lateral = c.eat("lateral")
    if c.sees("("):
        if query_follows(c, skip=1):
            c.next()
            inner = query(c)
            c.expect(")")
            return Derived(inner, _alias(c), at, lateral)
        c.next()
        joined = from_item(c, query)
        c.expect(")", of="JOIN")
        alias = _alias(c)
        return joined if alias is None else Derived(_all_of(c, joined, at), alias, at, lateral=True)
    c.eat("only")
    place = c.token.start
    if c.sees("rows", "from", "("):
        c.expect("rows", "from", "(")
        calls = c.comma_list(lambda: TableCall(expression(c), _definitions(c) if c.eat("as") else ()))
        c.expect(")", of="a comma")
        return _table_function(c, calls, place)
    if c.sees("(", skip=1) or (c.sees(".", skip=1) and c.sees("(", skip=3)):
        return _table_function(c, (TableCall(expression(c)),), place)
    name = c.qualified("a table's name")
    at = c.since(place)
    return TableRef(name, _alias(c), at)


def _all_of(c: TokenCursor, joined: From, at: Span) -> Query:
    """`SELECT * FROM …`: a join with a name of its own hides the names of its tables."""
    body = Select((Item(Star((), at), None),), joined, None, (), at)
    return Query(c.sql, at, (), None, body, (), None, None)


def _alias(c: TokenCursor) -> Alias | None:
    if starts_as_of(c):
        return None
    bare = is_name(c.token) and c.token.text not in NOT_ALIASES
    if not c.eat("as") and not bare:
        return None
    name = c.name("an alias")
    return Alias(name, column_names(c) if c.sees("(") else ())


def _table_function(c: TokenCursor, calls: tuple[TableCall, ...], start: int) -> TableFunction:
    """What may stand behind the calls: WITH ORDINALITY, an alias, names or definitions of columns."""
    ordinality = c.eat("with")
    if ordinality:
        c.expect("ordinality")
    at = c.since(start)
    alias: Alias | None = None
    columns: Definitions = ()
    if c.sees("as", "("):
        c.next()
        columns = _definitions(c)
    elif (c.sees("as") and not starts_as_of(c)) or (is_name(c.token) and c.token.text not in NOT_ALIASES):
        defines = (3 if c.sees("as") else 2) + c.i
        if defines < len(c.tokens) and c.tokens[defines - 1].text == "(" and _is_definition(c, defines):
            c.eat("as")
            alias = Alias(c.name("an alias"))
            columns = _definitions(c)
        else:
            alias = _alias(c)
    if columns:
        if len(calls) > 1 or ordinality:
            raise c.fail("one function for a list of column definitions", hint="ROWS FROM (f(…) AS (a int4))")
        calls = (TableCall(calls[0].call, columns),)
    return TableFunction(calls, alias, at, ordinality)


def _is_definition(c: TokenCursor, place: int) -> bool:
    """Whether a column's name at a place among the tokens is followed by a type."""
    return place + 1 < len(c.tokens) and c.tokens[place + 1].text not in (",", ")")


def _definitions(c: TokenCursor) -> Definitions:
    """`(a int4, b text)`: the columns of records."""
    c.expect("(")
    found = c.comma_list(lambda: (c.name("a column's name"), type_name(c)))
    c.expect(")", of="a comma")
    return found
