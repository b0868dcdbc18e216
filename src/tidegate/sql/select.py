"""The grammar of queries: WITH, SELECT, VALUES, TABLE, UNION and its kin, ORDER BY, LIMIT.

The whole language is read, also what only Spark can do; but of clauses that are more than map, filter, project and
aggregate, only what people call them and where they stand is kept (`Select.beyond`), which is what a refusal
must say. Whoever runs such a query has its text. A comma behind the last entry of a select list is accepted.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.config import MAX_NESTING
from tidegate.sql.cursor import JOINING, RESERVED, Cursor, is_name
from tidegate.sql.scalar import expression
from tidegate.sql.special import ordering, skip_parentheses
from tidegate.sql.syntax import (
    Alias,
    Body,
    CommonTable,
    Constant,
    Default,
    Derived,
    From,
    GroupBy,
    Having,
    Ident,
    Item,
    Items,
    Join,
    Node,
    Ordering,
    Query,
    Select,
    SetOperation,
    Span,
    Star,
    Table,
    TableFunction,
    Values,
)

STARTS = ("select", "with", "values", "table", "(")
"""What a query may start with."""


def query(c: Cursor) -> Query:
    """A whole query, up to what cannot belong to it."""
    c.enter()
    start = c.token.start
    tables: tuple[CommonTable, ...] = ()
    recursive: Span | None = None
    if c.eat("with"):
        place = c.span()
        recursive = place if c.eat("recursive") else None
        tables = c.listed(lambda: _common_table(c))
    body = _body(c)
    order_by: tuple[Ordering, ...] = ()
    if c.eat("order", "by"):
        order_by = c.listed(lambda: Ordering(*ordering(c, expression)))
    limit, offset = _limits(c)
    c.leave()
    return Query(c.sql, c.since(start), tables, recursive, body, order_by, limit, offset)


def _common_table(c: Cursor) -> CommonTable:
    name = c.name("the name of a common table expression")
    columns = _column_names(c) if c.sees("(") else ()
    c.expect("as")
    if not c.eat("materialized"):
        c.eat("not", "materialized")
    c.expect("(")
    inner = query(c)
    c.expect(")")
    return CommonTable(name, columns, inner)


def _column_names(c: Cursor) -> tuple[Ident, ...]:
    c.expect("(")
    names = c.listed(lambda: c.name("a column's name"))
    c.expect(")", of="a comma")
    return names


def _limits(c: Cursor) -> tuple[Node | None, Node | None]:
    """LIMIT, OFFSET and FETCH FIRST, in any order."""
    limit: Node | None = None
    offset: Node | None = None
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
            c.expect("only")
        else:
            return limit, offset


# ---------------------------------------------------------------- SELECT and set operations


def _body(c: Cursor) -> Body:
    """Terms joined by UNION and EXCEPT; INTERSECT binds tighter."""
    left = _intersection(c)
    while c.sees("union") or c.sees("except"):
        left = _combined(c, left, _intersection)
    return left


def _intersection(c: Cursor) -> Body:
    left = _term(c)
    while c.sees("intersect"):
        left = _combined(c, left, _term)
    return left


def _combined(c: Cursor, left: Body, operand: Callable[[Cursor], Body]) -> Body:
    at = c.span()
    name = c.next().text.upper()
    if c.eat("all"):
        name += " ALL"
    else:
        c.eat("distinct")
    return SetOperation(name, left, operand(c), at)


def _term(c: Cursor) -> Body:
    at = c.span()
    if c.eat("select"):
        return _select(c, at)
    if c.eat("values"):
        return Values(c.listed(lambda: _row(c)), at)
    if c.eat("table"):
        name_at = c.span()
        name = c.qualified("a table's name")
        return Select((Item(Star((), at), None),), Table(name, None, name_at), None, (), at)
    if c.eat("("):
        inner = query(c)
        c.expect(")")
        return inner
    raise c.fail("SELECT")


def _row(c: Cursor) -> tuple[Node, ...]:
    c.expect("(")
    row = c.listed(lambda: _value(c))
    c.expect(")", of="a comma")
    return row


def _value(c: Cursor) -> Node:
    at = c.span()
    return Default(at) if c.eat("default") else expression(c)


def _select(c: Cursor, at: Span) -> Select:
    beyond: list[tuple[str, Span]] = []
    distinct = _distinct(c, beyond)
    items = c.listed(lambda: _item(c), trailing=True)
    source = _from(c) if c.eat("from") else None
    where = expression(c) if c.eat("where") else None
    group_by = having = None
    place = c.span()
    if c.eat("group", "by"):
        c.eat_any("all", "distinct")
        keys = c.listed(lambda: _grouping(c, beyond))
        group_by = GroupBy(tuple(key for some in keys for key in some), place)
    place = c.span()
    if c.eat("having"):
        having = Having(expression(c), place)
    place = c.span()
    if c.eat("window"):
        beyond.append(("WINDOW", place))
        c.listed(lambda: _window(c))
    return Select(items, source, where, tuple(beyond), at, distinct, group_by, having)


def _distinct(c: Cursor, beyond: list[tuple[str, Span]]) -> Span | None:
    """Where DISTINCT stands, if it does."""
    place = c.span()
    if not c.eat("distinct"):
        c.eat("all")
        return None
    if c.eat("on"):
        skip_parentheses(c)
        beyond.append(("DISTINCT ON", place))
    return place


def _window(c: Cursor) -> None:
    c.name("a window's name")
    c.expect("as")
    skip_parentheses(c)


def _grouping(c: Cursor, beyond: list[tuple[str, Span]]) -> tuple[Node, ...]:
    """The keys of an entry of GROUP BY: `a`, or `(a, b)`, or none in `()`."""
    place = c.span()
    many = next((word for word in ("rollup", "cube") if c.sees(word, "(")), None)
    if c.eat("grouping", "sets") or many:
        beyond.append((many.upper() if many else "GROUPING SETS", place))
        c.eat(many or "")
        skip_parentheses(c)
        return ()
    if c.eat("(", ")"):
        return ()
    key = expression(c)
    return key.args if isinstance(key, Items) and key.kind == "row" else (key,)


def _item(c: Cursor) -> Item:
    at = c.span()
    if c.eat("*"):
        return Item(Star((), at), None)
    value = expression(c)
    if c.sees("as") and not starts_as_of(c):
        c.next()
        return Item(value, c.label("a name"))
    named = is_name(c.token) and c.token.text not in JOINING
    return Item(value, c.name("a name") if named else None)


def starts_as_of(c: Cursor) -> bool:
    """Whether `AS OF time` comes next, and not an alias that happens to be called `of`."""
    if not c.sees("as", "of"):
        return False
    after = c.ahead(2)
    return (
        after.kind in ("number", "string", "quoted")
        or (after.kind == "word" and after.text not in RESERVED | JOINING | {"order", "limit"})
        or (after.kind == "op" and after.text in ("(", "-"))
    )


# ---------------------------------------------------------------- FROM


def _from(c: Cursor) -> From:
    left = _joined(c)
    while c.sees(","):
        at = c.expect(",")
        left = Join("CROSS JOIN (a comma in FROM)", left, _joined(c), None, (), at)
    return left


def _joined(c: Cursor) -> From:
    left = _table(c)
    while True:
        start = c.token
        if c.token.kind != "word" or c.token.text not in (
            "join",
            "inner",
            "left",
            "right",
            "full",
            "cross",
            "natural",
        ):
            return left
        natural = c.eat("natural")
        side = c.eat_any("inner", "left", "right", "full", "cross")
        c.eat("outer")
        c.expect("join")
        at = c.since(start.start)
        right = _table(c)
        on: Node | None = None
        using: tuple[Ident, ...] = ()
        if c.eat("using"):
            using = _column_names(c)
        elif not natural and side != "cross":
            c.expect("on", of="USING")
            on = expression(c)
        left = Join(c.sql[at.start : at.end].upper(), left, right, on, using, at)


def _table(c: Cursor) -> From:
    c.enter()
    found = _table_itself(c)
    c.leave()
    return found


def _table_itself(c: Cursor) -> From:
    start = c.token
    at = Span(start.start, start.end)
    lateral = c.eat("lateral")
    if c.sees("("):
        if _is_query(c):
            c.next()
            inner = query(c)
            c.expect(")")
            return Derived(inner, _alias(c), at, lateral)
        c.next()
        joined = _from(c)
        c.expect(")", of="JOIN")
        return joined
    c.eat("only")
    place = c.token.start
    if c.sees("(", skip=1):
        call = expression(c)
        if c.eat("with"):
            c.expect("ordinality")
        return TableFunction(call, _alias(c), c.since(place))
    name = c.qualified("a table's name")
    at = c.since(place)
    return Table(name, _alias(c), at)


def _is_query(c: Cursor) -> bool:
    """Whether the parenthesis that comes next holds a query, and not a join."""
    n = 0
    while c.sees("(", skip=n):
        n += 1
        if n > MAX_NESTING:  # else ten thousand parentheses are looked through ten thousand times
            raise c.too_deep()
    token = c.ahead(n)
    return token.kind == "word" and token.text in STARTS


def _alias(c: Cursor) -> Alias | None:
    if starts_as_of(c):
        return None
    bare = is_name(c.token) and c.token.text not in JOINING | {"set", "options"}
    if not c.eat("as") and not bare:
        return None
    name = c.name("an alias")
    return Alias(name, _column_names(c) if c.sees("(") else ())
