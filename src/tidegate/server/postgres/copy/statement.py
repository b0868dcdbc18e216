"""What a COPY statement says: a table or a query, a direction, and options.

    parse_copy(piece)      CopyStatement(query="SELECT * FROM orders" as a StatementText, options, table="orders", writes=True)

COPY of a table out is COPY of `SELECT * FROM` it, so that both are planned, pruned and streamed alike. The text of a query
keeps its place in the client's text, and so do the positions of its errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.server.postgres.copy.options import CopyOptions, read_options
from tidegate.server.postgres.wire.sqlstate import PostgresError
from tidegate.sql.parse import StatementText, Token, tokenize
from tidegate.text import identifier

_HINT = "COPY t TO STDOUT, COPY (SELECT …) TO STDOUT (FORMAT csv), COPY t FROM STDIN"


@dataclass(frozen=True)
class CopyStatement:
    """A parsed COPY."""

    piece: StatementText
    """The query whose rows are written, or the COPY itself if it reads."""
    options: CopyOptions
    writes: bool
    """Whether rows go out (TO STDOUT)."""
    table: str = ""
    columns: tuple[str, ...] = ()
    """The columns between parentheses; none: all."""
    at: int = 0
    """Where the table is named in the client's text, from 1."""


def parse_copy(piece: StatementText) -> CopyStatement:
    """Parses a statement that begins with COPY."""
    tokens = piece.tokens
    at = 2 if _text(tokens, 1) == "binary" and _text(tokens, 2) not in ("to", "from", "(", ".") else 1
    old_binary = at == 2
    if _text(tokens, at) == "(":
        end = _closing(piece, at)
        start, stop = tokens[at].end, tokens[end].start
        inner = tuple(tokens[at + 1 : end])
        _check_query(piece, inner)
        query = _without_row_range(StatementText(" " * start + piece.text[start:stop], piece.start, inner))
        options = _direction(piece, tokens[end + 1 :], writes=True, binary=old_binary)
        return CopyStatement(query, options[1], writes=True)
    name_at = at
    if _text(tokens, at + 1) == ".":
        if tokens[at].text not in ("public", "pg_catalog"):
            raise PostgresError("3F000", f'schema "{tokens[at].text[:60]}" does not exist')
        at += 2
    if at >= len(tokens) or tokens[at].kind not in ("word", "quoted"):
        raise _malformed(piece, at)
    table, position = tokens[at].text, piece.start + tokens[name_at].start + 1
    columns, at = _columns(piece, at + 1)
    writes, options_ = _direction(piece, tokens[at:], writes=None, binary=old_binary)
    if not writes:
        return CopyStatement(piece, options_, False, table, columns, position)
    chosen = ", ".join(identifier(column) for column in columns) or "*"
    text = f"SELECT {chosen} FROM {identifier(table)}"
    found = tuple(token for token in tokenize(text) if token.kind != "end")
    return CopyStatement(StatementText(text, 0, found), options_, True, table, columns, position)


def _text(tokens: Sequence[Token], i: int) -> str:
    return tokens[i].text if i < len(tokens) and tokens[i].kind in ("word", "op") else ""


def _malformed(piece: StatementText, i: int) -> PostgresError:
    tokens = piece.tokens
    start = tokens[i].start if i < len(tokens) else len(piece.text)
    return PostgresError(
        "42601", "expected a table or a query to copy", hint=_HINT, position=piece.start + start + 1
    )


def _closing(piece: StatementText, at: int) -> int:
    """Returns the index of the parenthesis that closes the one at `at`."""
    depth = 0
    for i in range(at, len(piece.tokens)):
        depth += {"(": 1, ")": -1}.get(_text(piece.tokens, i), 0)
        if depth == 0:
            return i
    raise _malformed(piece, len(piece.tokens))


def _check_query(piece: StatementText, inner: Sequence[Token]) -> None:
    if _text(inner, 0) not in ("select", "with", "values", "table", "("):
        raise PostgresError(
            "0A000",
            "COPY (…) copies the rows of a query",
            hint=_HINT,
            position=piece.start + (inner[0].start if inner else 0) + 1,
        )


_ALL_ROWS = ("ctid", "between", "(0,0)", "::", "tid", "and", "(4294967295,0)", "::", "tid")


def _without_row_range(query: StatementText) -> StatementText:
    """Writes `true` in place of the range of `ctid` by which DuckDB reads all rows.

    It is `ctid BETWEEN '(0,0)'::tid AND '(4294967295,0)'::tid`.

    It reads other ranges of tables with pages only, and the catalog says that ours have none.
    """
    tokens = query.tokens
    for i in range(len(tokens) - len(_ALL_ROWS) + 1):
        if tuple(token.text for token in tokens[i : i + len(_ALL_ROWS)]) == _ALL_ROWS:
            start, end = tokens[i].start, tokens[i + len(_ALL_ROWS) - 1].end
            text = query.text[:start] + "true".ljust(end - start) + query.text[end:]
            true = Token("word", "true", start, start + 4)
            rest = (*tokens[:i], true, *tokens[i + len(_ALL_ROWS) :])
            return StatementText(text, query.start, rest)
    return query


def _columns(piece: StatementText, at: int) -> tuple[tuple[str, ...], int]:
    """Returns the names between parentheses at `at`, and the index behind them."""
    if _text(piece.tokens, at) != "(":
        return (), at
    end = _closing(piece, at)
    return tuple(token.text for token in piece.tokens[at + 1 : end] if token.text != ","), end + 1


def _direction(
    piece: StatementText, rest: Sequence[Token], *, writes: bool | None, binary: bool
) -> tuple[bool, CopyOptions]:
    """Reads `TO STDOUT options` or `FROM STDIN options`."""
    words = (_text(rest, 0), _text(rest, 1))
    start = rest[0].start if rest else len(piece.text)
    if words not in (("to", "stdout"), ("from", "stdin")) or (writes and words[0] == "from"):
        if words[0] in ("to", "from") and len(rest) > 1:
            raise PostgresError(
                "0A000",
                "COPY reads and writes no files of the server",
                hint=r"COPY … TO STDOUT, COPY … FROM STDIN; \copy in psql copies files of the client",
                position=piece.start + rest[1].start + 1,
            )
        raise PostgresError(
            "42601", "expected TO STDOUT or FROM STDIN", hint=_HINT, position=piece.start + start + 1
        )
    to_client = words[0] == "to"
    tokens = [Token("word", "binary", 0, 0), *rest[2:]] if binary else rest[2:]
    return to_client, read_options(tokens, writes=to_client)
