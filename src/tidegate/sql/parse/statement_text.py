"""The statements of a text with their tokens, before any grammar has read them.

    statement_texts("SELECT 1; SELECT 'a;b'")      [StatementText("SELECT 1", 0, …), StatementText(" SELECT 'a;b'", 9, …)]

Who must decide by the words of a statement how it is run uses these: the PostgreSQL port and queries of pg_catalog.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.sql.parse.lexer import Token, tokenize


@dataclass(frozen=True)
class StatementText:
    """One statement: its text, its start in the client's text, and its tokens relative to its own text."""

    text: str
    start: int
    tokens: tuple[Token, ...]

    def words(self, count: int = 4) -> tuple[str, ...]:
        """Returns its first words in lower case; a quoted name is an empty word."""
        return tuple(token.text if token.kind in ("word", "op") else "" for token in self.tokens[:count])


def statement_texts(text: str) -> list[StatementText]:
    """Splits a text at semicolons. Parameters (`$1`) are tokens."""
    pieces: list[StatementText] = []
    start, current = 0, list[Token]()
    for token in tokenize(text, parameters=True):
        if token.kind != "end" and not (token.kind == "op" and token.text == ";"):
            current.append(token)
            continue
        if current:
            if start:
                current = [t._replace(start=t.start - start, end=t.end - start) for t in current]
            pieces.append(StatementText(text[start : token.start], start, tuple(current)))
        start, current = token.end, []
    return pieces
