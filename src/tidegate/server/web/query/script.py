"""The statements of a text, each with its place: what a run of several statements goes through.

    split_script("SELECT 1; SELECT x")      [ScriptStatement("SELECT 1", …), ScriptStatement("          SELECT x", …)]

`sql` of a statement has the text before it as blanks, with its line breaks, so that lines, columns and offsets of an error in
the statement are those of the whole text. `analyzed` turns a query into the EXPLAIN ANALYZE of it, and remembers how far
positions moved.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tidegate.errors import LimitError, Position, TidegateError
from tidegate.sql.parse import Token, parse_statements, statement, tokenize

MAX_STATEMENTS = 100
ANALYZE = "EXPLAIN (ANALYZE, FORMAT JSON) "


@dataclass(frozen=True)
class ScriptStatement:
    """One statement of a text."""

    sql: str
    """The statement, behind blanks in the place of what comes before it."""
    start: int
    """Where it begins, in characters."""
    script: str
    """The whole text."""
    moved: int = 0
    """By how many characters positions in `sql` are behind those in the text."""

    @property
    def text(self) -> str:
        """The statement alone."""
        return self.sql[self.start :]

    def restore_position(self, error: TidegateError) -> None:
        """Says of an error in `sql` where it is in the whole text."""
        if error.position is not None and error.position.sql == self.sql:
            start, end = (
                max(at - self.moved, self.start) for at in (error.position.start, error.position.end)
            )
            error.position = Position(self.script, start, end)


def split_script(sql: str) -> list[ScriptStatement]:
    """Returns the statements of a text; a text without any is one statement, whose error says so."""
    pieces: list[ScriptStatement] = []
    start: int | None = None
    for token in tokenize(sql, parameters=True):
        if token.kind == "end" or (token.kind == "op" and token.text == ";"):
            if start is not None:
                pieces.append(
                    ScriptStatement(_blank(sql[:start]) + sql[start : token.start].rstrip(), start, sql)
                )
            start = None
        elif start is None:
            start = token.start
        if len(pieces) > MAX_STATEMENTS:
            raise LimitError(
                f"one run has at most {MAX_STATEMENTS} statements", hint="select some of them, and run these"
            )
    return pieces or [ScriptStatement(sql, 0, sql)]


def analyzed(given: ScriptStatement, *, wanted: bool) -> ScriptStatement | None:
    """Returns EXPLAIN ANALYZE of a statement as a document; None: its own result is shown.

    That is so unless the statement is EXPLAIN ANALYZE itself, or a query whose analysis is `wanted`.
    """
    parsed = parse_statements(given.sql)
    if len(parsed) != 1:
        return None
    match parsed[0]:
        case statement.Explain(filter_pushdown=False, analyze=True, as_json=False):
            inner = _explained(given)
        case statement.SelectStatement() if wanted:
            inner = given.start
        case _:
            return None
    rest = given.sql[inner:]
    moved = given.start + len(ANALYZE) - inner
    return replace(given, sql=given.sql[: given.start] + ANALYZE + rest, moved=moved)


def _explained(given: ScriptStatement) -> int:
    """Returns where the statement begins that an EXPLAIN explains."""
    tokens = tokenize(given.sql)[1:]
    if (
        tokens[0].text == "("
        and tokens[1].kind == "word"
        and tokens[1].text not in ("select", "with", "values")
    ):
        tokens = _after_parenthesis(tokens)
    while tokens[0].text in ("analyze", "plan", "for"):
        tokens = tokens[1:]
    return tokens[0].start


def _after_parenthesis(tokens: list[Token]) -> list[Token]:
    """Returns the tokens after the first closing parenthesis: options of EXPLAIN hold none."""
    return tokens[next(i for i, token in enumerate(tokens) if token.text == ")") + 1 :]


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
