"""The grammar of statements, by recursive descent over tokens: text in, frozen dataclasses out.

    statements("CREATE TABLE t (id int8); SELECT * FROM t")     [CreateTable(…), Query(…)]

Each function here reads what follows a statement's first words, which are looked up in one table. Every
refusal says what was expected and points at what was found. A text that nests too deep is a LimitError,
noticed by our own count or by the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from tidegate.errors import ParseError, Position
from tidegate.sql.parse import syntax
from tidegate.sql.parse.grammar.explain_options import explain_options
from tidegate.sql.parse.grammar.expressions import expression
from tidegate.sql.parse.grammar.lookahead import QUERY_STARTS
from tidegate.sql.parse.grammar.modifications import delete, insert, merge, update, with_common_tables
from tidegate.sql.parse.grammar.names import no_duplicates as _no_duplicates
from tidegate.sql.parse.grammar.names import own_name as _own_name
from tidegate.sql.parse.grammar.prepared import deallocate, execute, prepare
from tidegate.sql.parse.grammar.queries import query
from tidegate.sql.parse.grammar.sources import create_connection, create_source, using, value
from tidegate.sql.parse.grammar.tables import (
    alter_table,
    alter_view,
    comment_on,
    create_table,
    truncate,
)
from tidegate.sql.parse.missing_statements import behind_query, instead_of
from tidegate.sql.parse.parameters import Parameters
from tidegate.sql.parse.statement import (
    AlterSource,
    CreateView,
    DropStatement,
    Explain,
    SelectStatement,
    Set,
    Show,
    Statement,
)
from tidegate.sql.parse.syntax import Ident, Node
from tidegate.sql.parse.table_statement import CreateTableAs
from tidegate.sql.parse.token_cursor import TokenCursor


def parse_statements(sql: str, parameters: Parameters | None = None) -> list[Statement]:
    """All statements of a text, which stand apart by semicolons; `parameters` are for `$1` or `:name`."""
    c = TokenCursor(sql, parameters)
    found: list[Statement] = []
    try:
        while True:
            while c.eat(";"):
                pass
            if c.at_end():
                return found
            found.append(_statement(c))
            if c.into is not None:
                raise ParseError("SELECT … INTO is not allowed here", position=Position(sql, *c.into.at))
            if not c.at_end() and not c.sees(";"):
                raise c.fail("; or the end of the statement", hint=behind_query(c))
    except RecursionError:
        raise c.too_deep() from None


def parse_statement(sql: str) -> Statement:
    """The one statement of a text."""
    found = parse_statements(sql)
    if len(found) != 1:
        raise ParseError(f"expected one statement, found {len(found)}", position=Position(sql, 0, 0))
    return found[0]


def parse_query(sql: str) -> syntax.Query:
    """The query that a text is: of a view, of a transform, of a test."""
    found = parse_statement(sql)
    if not isinstance(found, SelectStatement) or found.as_of is not None:
        raise ParseError("expected a SELECT", position=Position(sql, 0, len(sql)))
    return found.query


def parse_expression(sql: str) -> Node:
    """The expression that a text is."""
    c = TokenCursor(sql)
    try:
        found = expression(c)
    except RecursionError:
        raise c.too_deep() from None
    if not c.at_end():
        raise c.fail("an operator or the end")
    return found


def _statement(c: TokenCursor) -> Statement:
    changing = with_common_tables(c)
    if changing is not None:
        return changing
    if c.token.kind in ("word", "op") and c.token.text in (*QUERY_STARTS, "("):
        return _query(c)
    for words, read in _STATEMENTS.items():
        if c.eat(*words):
            return read(c)
    after, hint = _after_first_word(c.token.text), instead_of(c)
    if after and c.token.kind == "word":
        c.next()
        raise c.fail(after, hint=hint)
    raise c.fail(
        "SELECT, INSERT, UPDATE, DELETE, MERGE, TRUNCATE, CREATE, ALTER, DROP, COMMENT, PREPARE, EXECUTE, EXPLAIN, SHOW or SET",
        hint=hint,
    )


def _after_first_word(word: str) -> str:
    """The words that may follow CREATE, DROP, ALTER and the like."""
    known = [
        words[1 : 3 if words[1] == "or" else 2]
        for words in _STATEMENTS
        if words[0] == word and len(words) > 1
    ]
    return ", ".join(dict.fromkeys(" ".join(one).upper() for one in known))


def _query(c: TokenCursor) -> SelectStatement | CreateTableAs:
    depth, found = c.depth, _select(c)
    if c.into is None or c.into_depth != depth + 1:
        return found
    into, c.into = c.into, None
    return CreateTableAs(c.sql, into, (), found)


def _select(c: TokenCursor) -> SelectStatement:
    found = query(c)
    as_of: Node | None = None
    if c.eat("as", "of"):
        as_of = expression(c)
    options: tuple[Set, ...] = ()
    if c.eat("options"):
        c.expect("(")
        options = tuple(c.comma_list(lambda: _set(c)))
        c.expect(")", of="a comma")
    return SelectStatement(found, as_of, options)


def _explain(c: TokenCursor) -> Explain:
    c.enter()  # EXPLAIN EXPLAIN EXPLAIN … is refused further down, but must not exhaust the stack on its way
    given = explain_options(c)
    analyze = c.eat("analyze") or given.analyze
    pushdown = c.eat("filter", "pushdown")
    if pushdown or c.eat("plan"):
        c.eat("for")
    if c.sees("explain"):
        raise c.fail("a statement to explain")
    inner = _statement(c)
    c.leave()
    return Explain(inner, pushdown, analyze, given.as_json)


# ---------------------------------------------------------------- tables and views


def _create_view(c: TokenCursor, or_replace: bool = False) -> CreateView:
    if_not_exists = c.eat("if", "not", "exists")
    name = _own_name(c, "the view's name")
    columns: tuple[Ident, ...] = ()
    if c.eat("("):
        columns = c.comma_list(lambda: c.name("a column's name"))
        c.expect(")", of="a comma")
        _no_duplicates(c, columns)
    c.expect("as")
    return CreateView(name, columns, query(c), or_replace, if_not_exists)


def _dropping(
    kind: Literal["table", "view", "source", "connection"],
) -> Callable[[TokenCursor], DropStatement]:
    def drop(c: TokenCursor) -> DropStatement:
        if_exists = c.eat("if", "exists")
        names = c.comma_list(lambda: _own_name(c, f"the {kind}'s name"))
        cascade = c.eat_any("cascade", "restrict") == "cascade"
        return DropStatement(c.sql, kind, names, if_exists, cascade)

    return drop


def _alter_source(c: TokenCursor) -> AlterSource:
    if_exists = c.eat("if", "exists")
    name = _own_name(c, "the source's name")
    if c.eat("pause"):
        return AlterSource(c.sql, name, "pause", if_exists)
    if c.eat("resume"):
        return AlterSource(c.sql, name, "resume", if_exists)
    if c.eat("replay", "errors"):
        return AlterSource(c.sql, name, "replay", if_exists)
    if c.eat("set", "transform"):
        query = using(c)
        table = _own_name(c, "the collection's name") if c.eat("for") else None
        return AlterSource(c.sql, name, "transform", if_exists, query, table)
    raise c.fail("PAUSE, RESUME, REPLAY ERRORS or SET TRANSFORM USING (query)")


# ---------------------------------------------------------------- SHOW and SET


def _show(c: TokenCursor) -> Show:
    if c.eat("columns"):
        if not c.eat_any("from", "in"):
            raise c.fail("FROM")
        return Show("columns", _own_name(c, "a collection's name"))
    if c.eat("create"):
        kind = c.eat_any("table", "view", "source", "connection")
        if kind is None:
            raise c.fail("TABLE, VIEW, SOURCE or CONNECTION")
        return Show(f"create {kind}", _own_name(c, f"the {kind}'s name"))
    if c.eat("time", "zone"):
        return Show("timezone")
    what = c.eat_any("all", "tables", "views", "sources", "connections") or c.name("what to show").text
    return Show(what, None, c.string("a pattern in quotes") if c.eat("like") else None)


def _set(c: TokenCursor) -> Set:
    local = c.eat_any("session", "local") == "local"
    if c.sees("time", "zone"):
        name = Ident("timezone", c.expect("time", "zone"))
    else:
        name = c.name("a setting's name")
        if not c.eat_any("=", "to"):
            raise c.fail("= or TO")
    if c.eat("default"):
        return Set(c.sql, name, None, local)
    given = c.comma_list(lambda: value(c)) if name.text == "search_path" else value(c)
    return Set(c.sql, name, given, local)


def _reset(c: TokenCursor) -> Set:
    if c.sees("time", "zone"):
        return Set(c.sql, Ident("timezone", c.expect("time", "zone")), None)
    return Set(c.sql, c.name("a setting's name"), None)


_STATEMENTS: dict[tuple[str, ...], Callable[[TokenCursor], Statement]] = {
    ("explain",): _explain,
    ("create", "table"): lambda c: create_table(c, _select),
    ("create", "view"): _create_view,
    ("create", "or", "replace", "view"): lambda c: _create_view(c, or_replace=True),
    ("create", "connection"): create_connection,
    ("create", "source"): create_source,
    ("drop", "table"): _dropping("table"),
    ("drop", "view"): _dropping("view"),
    ("drop", "source"): _dropping("source"),
    ("drop", "connection"): _dropping("connection"),
    ("alter", "table"): alter_table,
    ("alter", "view"): alter_view,
    ("alter", "source"): _alter_source,
    ("truncate",): truncate,
    ("comment", "on"): comment_on,
    ("prepare",): lambda c: prepare(c, _statement),
    ("execute",): execute,
    ("deallocate",): deallocate,
    ("insert", "into"): insert,
    ("delete", "from"): delete,
    ("update",): update,
    ("merge", "into"): merge,
    ("show",): _show,
    ("set",): _set,
    ("reset",): _reset,
}
"""By their first words."""
