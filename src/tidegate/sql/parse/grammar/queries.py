"""The grammar of queries: WITH, SELECT, VALUES, TABLE, UNION and its kin, ORDER BY, LIMIT.

The whole language is read, also what only Spark can do: clauses that are more than map, filter, project and aggregate are
named in `Select.beyond`, by what people call them and where they stand, which is what a refusal must say; what they say is
for `logical.py`. A comma behind the last entry of a select list is accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegate.errors import Position, UnsupportedError
from tidegate.sql.parse.from_clause import TableRef
from tidegate.sql.parse.grammar.calls import ordering, over
from tidegate.sql.parse.grammar.expressions import expression
from tidegate.sql.parse.grammar.from_clause import column_names, from_clause, starts_as_of
from tidegate.sql.parse.grammar.names import own_name
from tidegate.sql.parse.syntax import (
    Body,
    CommonTable,
    Constant,
    Default,
    GroupBy,
    Having,
    Ident,
    Item,
    Items,
    Node,
    Ordering,
    Over,
    Query,
    Select,
    SetOperation,
    Span,
    Star,
    Values,
)
from tidegate.sql.parse.token_cursor import TokenCursor, is_name
from tidegate.text import JOINING


def query(c: TokenCursor) -> Query:
    """A whole query, up to what cannot belong to it."""
    c.enter()
    start = c.token.start
    tables, recursive = with_clause(c) if c.eat("with") else ((), None)
    body = _body(c)
    order_by: tuple[Ordering, ...] = ()
    if c.eat("order", "by"):
        order_by = c.comma_list(lambda: Ordering(*ordering(c, expression)))
    limit, offset, ties = _limits(c)
    c.leave()
    found = Query(c.sql, c.since(start), tables, recursive, body, order_by, limit, offset, ties)
    return _with_clauses(found, body) if isinstance(body, Query) else found


def _with_clauses(outer: Query, inner: Query) -> Query:
    """`(SELECT … ORDER BY a) LIMIT 2` is one query, unless both have the same clause."""
    clauses = ("order_by", "limit", "offset")
    if any(getattr(outer, clause) and getattr(inner, clause) for clause in clauses):
        return outer
    merged = {clause: getattr(outer, clause) or getattr(inner, clause) for clause in (*clauses, "ties")}
    within = replace(inner, **merged)
    body = within if not isinstance(inner.body, Query) else _with_clauses(within, inner.body)
    return replace(outer, body=body, order_by=(), limit=None, offset=None, ties=None)


def with_clause(c: TokenCursor) -> tuple[tuple[CommonTable, ...], Span | None]:
    """The common tables behind WITH, and where RECURSIVE stands."""
    place = c.span()
    recursive = place if c.eat("recursive") else None
    return c.comma_list(lambda: _common_table(c)), recursive


def _common_table(c: TokenCursor) -> CommonTable:
    name = c.name("the name of a common table expression")
    columns = column_names(c) if c.sees("(") else ()
    c.expect("as")
    wanted = True if c.eat("materialized") else (False if c.eat("not", "materialized") else None)
    c.expect("(")
    inner = query(c)
    c.expect(")")
    if c.sees("search") or c.sees("cycle"):
        raise UnsupportedError(
            f"{c.token.text.upper()} of a recursive common table is not supported",
            hint="keep the path of a row as an array: path || id; order by it, or stop where id = ANY (path)",
            position=Position(c.sql, *c.span()),
        )
    return CommonTable(name, columns, inner, wanted)


def _limits(c: TokenCursor) -> tuple[Node | None, Node | None, Span | None]:
    """LIMIT, OFFSET and FETCH FIRST, in any order; and where WITH TIES stands."""
    limit: Node | None = None
    offset: Node | None = None
    ties: Span | None = None
    while True:
        if limit is None and c.eat("limit"):
            all_rows = Constant("null", "null", c.span())
            limit = all_rows if c.eat("all") else expression(c)
        elif offset is None and c.eat("offset"):
            offset = expression(c)
            c.eat_any("row", "rows")
        elif limit is None and c.eat("fetch"):
            if not c.eat_any("first", "next"):
                raise c.fail("FIRST or NEXT")
            limit = Constant("number", "1", c.span()) if c.token.text in ("row", "rows") else expression(c)
            if not c.eat_any("row", "rows"):
                raise c.fail("ROWS")
            place = c.span()
            if c.eat("with", "ties"):
                ties = place
            else:
                c.expect("only", of="WITH TIES")
        else:
            return limit, offset, ties


# ---------------------------------------------------------------- SELECT and set operations


def _body(c: TokenCursor) -> Body:
    """Terms joined by UNION and EXCEPT; INTERSECT binds tighter."""
    left = _intersection(c)
    while c.sees("union") or c.sees("except"):
        left = _combined(c, left, _intersection)
    return left


def _intersection(c: TokenCursor) -> Body:
    left = _term(c)
    while c.sees("intersect"):
        left = _combined(c, left, _term)
    return left


def _combined(c: TokenCursor, left: Body, operand: Callable[[TokenCursor], Body]) -> Body:
    at = c.span()
    name = c.next().text.upper()
    if c.eat("all"):
        name += " ALL"
    else:
        c.eat("distinct")
    return SetOperation(name, left, operand(c), at)


def _term(c: TokenCursor) -> Body:
    at = c.span()
    if c.eat("select"):
        return _select(c, at)
    if c.eat("values"):
        return Values(c.comma_list(lambda: values_row(c)), at)
    if c.eat("table"):
        name_at = c.span()
        name = c.qualified("a table's name")
        return Select((Item(Star((), at), None),), TableRef(name, None, name_at), None, (), at)
    if c.eat("("):
        inner = query(c)
        c.expect(")")
        return inner
    raise c.fail("SELECT")


def values_row(c: TokenCursor) -> tuple[Node, ...]:
    """One row of VALUES."""
    c.expect("(")
    row = c.comma_list(lambda: value_or_default(c))
    c.expect(")", of="a comma")
    return row


def value_or_default(c: TokenCursor) -> Node:
    """An expression, or DEFAULT."""
    at = c.span()
    return Default(at) if c.eat("default") else expression(c)


def _select(c: TokenCursor, at: Span) -> Select:
    beyond: list[tuple[str, Span]] = []
    distinct, distinct_on = _distinct(c, beyond)
    items = () if c.sees("from") else c.comma_list(lambda: select_item(c), trailing=True)
    _into(c)
    source = from_clause(c, query) if c.eat("from") else None
    where = expression(c) if c.eat("where") else None
    group_by = having = None
    place = c.span()
    if c.eat("group", "by"):
        distinct_sets = c.eat_any("all", "distinct") == "distinct"
        group_by = _group_by(c, beyond, place)._replace(distinct=distinct_sets)
    place = c.span()
    if c.eat("having"):
        having = Having(expression(c), place)
    place = c.span()
    windows: tuple[tuple[Ident, Over], ...] = ()
    if c.eat("window"):
        beyond.append(("WINDOW", place))
        windows = c.comma_list(lambda: _window(c))
    found = (tuple(beyond), at, distinct, group_by, having, distinct_on, windows)
    return Select(items, source, where, *found)


def _into(c: TokenCursor) -> None:
    """INTO [TABLE] name, which makes the statement a CREATE TABLE AS."""
    if c.sees("into") and c.into is None:
        c.next()
        c.eat("table")
        c.into, c.into_depth = own_name(c, "a table's name"), c.depth


def _distinct(c: TokenCursor, beyond: list[tuple[str, Span]]) -> tuple[Span | None, tuple[Node, ...]]:
    """Where DISTINCT stands, if it does, and what rows must differ in."""
    place = c.span()
    if not c.eat("distinct"):
        c.eat("all")
        return None, ()
    if not c.eat("on"):
        return place, ()
    beyond.append(("DISTINCT ON", place))
    c.expect("(")
    keys = c.comma_list(lambda: expression(c))
    c.expect(")", of="a comma")
    return place, keys


def _window(c: TokenCursor) -> tuple[Ident, Over]:
    name = c.name("a window's name")
    c.expect("as")
    return name, over(c, expression)


def _group_by(c: TokenCursor, beyond: list[tuple[str, Span]], place: Span) -> GroupBy:
    """The keys and the grouping sets; the sets are None if there is one, of all keys."""
    keys: list[Node] = []
    sets = c.comma_list(lambda: _grouping(c, beyond, keys))
    return GroupBy(tuple(keys), place, () if all(len(one) == 1 for one in sets) else sets)


def _grouping(
    c: TokenCursor, beyond: list[tuple[str, Span]], keys: list[Node]
) -> tuple[tuple[int, ...], ...]:
    """An entry of GROUP BY (`a`, `(a, b)`, `()`, ROLLUP, CUBE, GROUPING SETS) as its grouping sets."""
    place = c.span()
    word = next((word for word in ("rollup", "cube") if c.sees(word, "(")), None)
    if word is None and not c.sees("grouping", "sets", "("):
        return (_keys(c, keys),)
    c.eat(word) if word else c.expect("grouping", "sets")
    beyond.append((word.upper() if word else "GROUPING SETS", place))
    c.expect("(")
    entries = c.comma_list(lambda: _grouping(c, beyond, keys))
    c.expect(")", of="a comma")
    if word is None:
        return tuple(choice for entry in entries for choice in entry)
    single = [entry[0] for entry in entries]
    if word == "rollup":
        chosen = [single[:count] for count in range(len(single), -1, -1)]
    else:
        if len(single) > 12:
            raise c.fail("at most 12 entries in CUBE")
        chosen = [
            [one for i, one in enumerate(single) if not bits >> i & 1] for bits in range(1 << len(single))
        ]
    return tuple(tuple(key for one in some for key in one) for some in chosen)


def _keys(c: TokenCursor, keys: list[Node]) -> tuple[int, ...]:
    """The places among `keys` of one or more, which are added to them: `a`, or `(a, b)`, or none in `()`."""
    if c.eat("(", ")"):
        return ()
    key = expression(c)
    found = key.args if isinstance(key, Items) and key.kind == "row" else (key,)
    keys.extend(found)
    return tuple(range(len(keys) - len(found), len(keys)))


def select_item(c: TokenCursor) -> Item:
    """One entry of a select list."""
    at = c.span()
    if c.eat("*"):
        return Item(Star((), at), None)
    value = expression(c)
    if c.sees("as") and not starts_as_of(c):
        c.next()
        return Item(value, c.label("a name"))
    named = is_name(c.token) and c.token.text not in JOINING
    return Item(value, c.name("a name") if named else None)
