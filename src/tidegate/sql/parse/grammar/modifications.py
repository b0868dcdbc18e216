"""The grammar of statements that change rows: INSERT, UPDATE, DELETE, MERGE; also behind WITH.

    MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.n)

The words that lead to each rule are in the table of `statements.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from tidegate.errors import ParseError, Position
from tidegate.sql.parse.from_clause import From
from tidegate.sql.parse.grammar.expressions import expression
from tidegate.sql.parse.grammar.from_clause import column_names, from_clause, from_item
from tidegate.sql.parse.grammar.lookahead import QUERY_STARTS, query_follows
from tidegate.sql.parse.grammar.names import no_duplicates, own_name
from tidegate.sql.parse.grammar.queries import query, select_item, value_or_default, values_row, with_clause
from tidegate.sql.parse.modification import (
    Assignments,
    MatchKind,
    Merge,
    MergeClause,
    MergeInsert,
    OnConflict,
    RowAssignment,
    With,
)
from tidegate.sql.parse.statement import Delete, Insert, Update
from tidegate.sql.parse.syntax import Ident, Item, Node, Query
from tidegate.sql.parse.token_cursor import TokenCursor, is_name

Modification: TypeAlias = Insert | Update | Delete | Merge
_VERBS = ("insert", "update", "delete", "merge")


def with_common_tables(c: TokenCursor) -> Modification | None:
    """WITH and a statement that changes rows; None, with nothing read, if something else is next."""
    if not c.sees("with") or not _verb_follows(c):
        return None
    start = c.token.start
    c.expect("with")
    common = With(*with_clause(c))
    if c.eat("insert", "into"):
        found = insert(c)
        if found.query is None:
            return found
        at = c.since(start)
        around = Query(c.sql, at, common.tables, common.recursive, found.query, (), None, None)
        return replace(found, query=around)
    if c.eat("update"):
        return replace(update(c), common=common)
    if c.eat("delete", "from"):
        return replace(delete(c), common=common)
    c.expect("merge", "into")
    return replace(merge(c), common=common)


def _verb_follows(c: TokenCursor) -> bool:
    """Whether one of these stands behind WITH: the verb follows a parenthesis of the outermost level."""
    depth = 0
    for i in range(c.i, len(c.tokens)):
        token = c.tokens[i]
        if token.kind == "op":
            depth += (token.text == "(") - (token.text == ")")
        elif not depth and token.kind == "word" and c.tokens[i - 1].text == ")":
            if token.text in _VERBS:
                return True
            if token.text in QUERY_STARTS or token.text == ";":
                return False
    return False


def insert(c: TokenCursor) -> Insert:
    """INSERT, behind INTO."""
    table = own_name(c, "the table's name")
    alias = c.name("an alias") if c.eat("as") else None
    columns: tuple[Ident, ...] = ()
    if c.sees("(") and is_name(c.ahead(1)):
        columns = _columns(c)
    if c.eat("default", "values"):
        return Insert(c.sql, table, columns, None, alias, _conflict(c), _returning(c))
    if c.token.text not in (*QUERY_STARTS, "("):
        raise c.fail("VALUES, SELECT or a list of columns")
    return Insert(c.sql, table, columns, query(c), alias, _conflict(c), _returning(c))


def delete(c: TokenCursor) -> Delete:
    """DELETE, behind FROM."""
    c.eat("only")
    table = own_name(c, "the table's name")
    alias = _row_alias(c)
    source = from_clause(c, query) if c.eat("using") else None
    where = expression(c) if c.eat("where") else None
    return Delete(c.sql, table, alias, where, source, _returning(c))


def update(c: TokenCursor) -> Update:
    """UPDATE, behind that word."""
    c.eat("only")
    table = own_name(c, "the table's name")
    alias = _row_alias(c)
    changes = _assignments(c)
    source = from_clause(c, query) if c.eat("from") else None
    where = expression(c) if c.eat("where") else None
    return Update(c.sql, table, alias, changes.single, where, changes.rows, source, _returning(c))


def merge(c: TokenCursor) -> Merge:
    """MERGE, behind INTO."""
    c.eat("only")
    table = own_name(c, "the table's name")
    alias = _row_alias(c)
    c.expect("using")
    source: From = from_item(c, query)
    c.expect("on")
    on = expression(c)
    clauses = [_when(c)]
    while c.sees("when"):
        clauses.append(_when(c))
    _check_reachable(c, clauses)
    return Merge(c.sql, table, alias, source, on, tuple(clauses), _returning(c))


def _row_alias(c: TokenCursor) -> Ident | None:
    if c.eat("as") or (is_name(c.token) and c.token.text not in ("set", "using")):
        return c.name("an alias")
    return None


def _columns(c: TokenCursor) -> tuple[Ident, ...]:
    columns = column_names(c)
    no_duplicates(c, columns)
    return columns


def _returning(c: TokenCursor) -> tuple[Item, ...]:
    return c.comma_list(lambda: select_item(c)) if c.eat("returning") else ()


# ---------------------------------------------------------------- SET


def _assignments(c: TokenCursor) -> Assignments:
    c.expect("set")
    single: list[tuple[Ident, Node]] = []
    rows: list[RowAssignment] = []
    c.comma_list(lambda: _assignment(c, single, rows))
    targets = tuple(name for name, _ in single) + tuple(name for row in rows for name in row.targets)
    no_duplicates(c, tuple(sorted(targets, key=lambda name: name.at.start)), code=None)
    return Assignments(tuple(single), tuple(rows))


def _assignment(c: TokenCursor, single: list[tuple[Ident, Node]], rows: list[RowAssignment]) -> None:
    if not c.sees("("):
        name = c.name("a column's name")
        c.expect("=")
        single.append((name, value_or_default(c)))
        return
    targets = column_names(c)
    c.expect("=")
    at = c.span()
    if query_follows(c, skip=1):
        c.expect("(")
        rows.append(RowAssignment(targets, query(c), at))
        c.expect(")")
        return
    values = _row_values(c)
    if len(values) != len(targets):
        raise ParseError(
            "number of columns does not match number of values", position=Position(c.sql, *targets[0].at)
        )
    single.extend(zip(targets, values, strict=True))


def _row_values(c: TokenCursor) -> tuple[Node, ...]:
    """`ROW(1, DEFAULT)`, `(1, DEFAULT)`."""
    c.eat("row")
    if c.sees("("):
        return values_row(c)
    message = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression"
    raise ParseError(message, position=Position(c.sql, *c.span()))


# ---------------------------------------------------------------- ON CONFLICT and MERGE


def _conflict(c: TokenCursor) -> OnConflict | None:
    at = c.span()
    if not c.eat("on", "conflict"):
        return None
    if c.sees("on", "constraint"):
        raise c.fail("columns", hint="write the columns of the key: ON CONFLICT (columns)")
    columns = _columns(c) if c.sees("(") else ()
    c.expect("do")
    if c.eat("nothing"):
        return OnConflict(columns, None, None, at)
    c.expect("update", of="NOTHING")
    if not columns:
        raise ParseError(
            "ON CONFLICT DO UPDATE requires inference specification or constraint name",
            hint="For example, ON CONFLICT (column_name).",
            position=Position(c.sql, *at),
        )
    changes = _assignments(c)
    return OnConflict(columns, changes, expression(c) if c.eat("where") else None, at)


def _when(c: TokenCursor) -> MergeClause:
    at = c.expect("when")
    kind: MatchKind = "matched"
    if c.eat("not", "matched"):
        kind = "not matched by target"
        if c.eat("by", "source"):
            kind = "not matched by source"
        else:
            c.eat("by", "target")
    else:
        c.expect("matched", of="NOT MATCHED")
    condition = expression(c) if c.eat("and") else None
    c.expect("then", of="AND")
    if c.eat("do", "nothing"):
        return MergeClause(kind, condition, "nothing", at)
    if kind == "not matched by target":
        c.expect("insert", of="DO NOTHING")
        return MergeClause(kind, condition, _merge_insert(c), at)
    if c.eat("delete"):
        return MergeClause(kind, condition, "delete", at)
    c.expect("update", of="DELETE, DO NOTHING")
    return MergeClause(kind, condition, _assignments(c), at)


def _merge_insert(c: TokenCursor) -> MergeInsert:
    at = c.span()
    columns = _columns(c) if c.sees("(") else ()
    if c.eat("default", "values"):
        return MergeInsert(columns, None, at)
    c.expect("values", of="DEFAULT VALUES")
    return MergeInsert(columns, values_row(c), at)


def _check_reachable(c: TokenCursor, clauses: list[MergeClause]) -> None:
    """A clause behind one of its kind that has no condition could never act."""
    final: set[str] = set()
    for clause in clauses:
        if clause.kind in final:
            raise ParseError(
                "unreachable WHEN clause specified after unconditional WHEN clause",
                position=Position(c.sql, *clause.at),
            )
        if clause.condition is None:
            final.add(clause.kind)
