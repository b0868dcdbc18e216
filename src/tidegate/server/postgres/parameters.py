"""Substitutes values for `$1`, `$2`, … in a statement.

    substitute(piece, ("int8",), ("5",))            "… WHERE id = CAST('5' AS int8)", and a map of positions

Tidegate's grammar has no parameters, so a value becomes a literal in the text. The lexer finds the parameters, so none is found in
a string, a name or a comment. The literal is a string with doubled quotes, which the lexer reads back unchanged, in a CAST to the
type that the client declared. Without a declared type it is an untyped string, which takes the type that its place requires, as
`'5'` does in PostgreSQL.

A text with a thousand `$1` and a value of a megabyte would be a gigabyte, so the size is computed first.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tidegate.expr.model import types
from tidegate.server.postgres.wire.sqlstate import PostgresError
from tidegate.sql.parse import StatementText, Token
from tidegate.statements.postgres_catalog import postgres_types

MAX_TEXT = 64 << 20
MAX_PARAMETER = 65_535
"""The protocol counts parameters in two bytes."""


def parameter_count(piece: StatementText) -> int:
    """Returns the number of the highest parameter in a statement."""
    if names_parameters(piece):
        return 0
    highest = 0
    before: Token | None = None
    for token in piece.tokens:
        if token.kind == "parameter":
            number = int(token.text[:6])
            if not 1 <= number <= MAX_PARAMETER:
                raise PostgresError(
                    "42P02",
                    f"parameter ${token.text[:20]} does not exist",
                    position=_client_position(piece, token),
                )
            highest = max(highest, number)
        # SQL joins two strings on two lines to one, so a value must not stand beside a string.
        beside_string = before is not None and {token.kind, before.kind} == {"parameter", "string"}
        if beside_string or (before is not None and token.kind == before.kind == "parameter"):
            raise PostgresError(
                "42601", "an operator is missing beside a parameter", position=_client_position(piece, token)
            )
        before = token
    return highest


def names_parameters(piece: StatementText) -> bool:
    """Whether the parameters of a statement are those of another one, which it prepares."""
    return piece.words(1) == ("prepare",)


def _client_position(piece: StatementText, token: Token) -> int:
    return piece.start + token.start + 1


@dataclass(frozen=True)
class SubstitutedText:
    """A text with values substituted, and a map from its positions to the client's."""

    text: str
    ends: tuple[int, ...] = ()
    """Where each literal ends in this text."""
    origins: tuple[int, ...] = ()
    """Where its parameter ends in the client's text."""
    starts: tuple[int, ...] = ()
    """Where each literal starts in this text."""
    parameters: tuple[int, ...] = ()
    """Where its parameter starts in the client's text."""

    def origin(self, at: int) -> int:
        """Returns the position in the client's text."""
        i = bisect.bisect_right(self.starts, at) - 1
        if i < 0:
            return at
        return self.parameters[i] if at < self.ends[i] else self.origins[i] + at - self.ends[i]


def substitute(
    piece: StatementText, types: Sequence[str | None], values: Sequence[str | None]
) -> SubstitutedText:
    """Substitutes a value for each parameter, given as text; None is NULL."""
    literals = [_literal(type_, value) for type_, value in zip(types, values, strict=True)]
    parameters = [token for token in piece.tokens if token.kind == "parameter"]
    # AS OF CAST(…) would be read as an alias called `to_postgres_error`: these stand in parentheses.
    times = {
        token.start
        for before, token in pairwise(piece.tokens)
        if before.kind == "word" and before.text == "of"
    }
    if not parameters or names_parameters(piece):
        return SubstitutedText(piece.text)
    size = len(piece.text) + sum(len(literals[int(token.text) - 1]) + 4 for token in parameters)
    if size > MAX_TEXT:
        raise PostgresError("54000", f"the statement with its values has more than {MAX_TEXT:,} characters")
    out: list[str] = []
    at, length = 0, 0
    starts, ends = [], []
    for token in parameters:
        literal = f" {literals[int(token.text) - 1]} "
        literal = f"({literal})" if token.start in times else literal
        out += (piece.text[at : token.start], literal)
        starts.append(length + token.start - at)
        length = starts[-1] + len(literal)
        ends.append(length)
        at = token.end
    out.append(piece.text[at:])
    origins, places = tuple(token.end for token in parameters), tuple(token.start for token in parameters)
    return SubstitutedText("".join(out), tuple(ends), origins, tuple(starts), places)


_DECIMAL = re.compile(r"([+-]?)([0-9]+)(?:\.([0-9]*))?")


def _literal(type_: str | None, value: str | None) -> str:
    if value is not None and "\0" in value:
        raise PostgresError("22021", "a text cannot contain a NUL character")
    if type_ == "numeric" and value is not None and (match := _DECIMAL.fullmatch(value)):
        # A literal keeps its digits; a cast to plain numeric would give it 18 digits after the point.
        digits, scale = len(match[2].lstrip("0")) + len(match[3] or ""), len(match[3] or "")
        if digits <= types.MAX_PRECISION:
            return f"CAST('{value}' AS numeric({max(digits, scale, 1)},{scale}))"
    literal = "NULL" if value is None else "'" + value.replace("'", "''") + "'"
    return literal if type_ is None else f"CAST({literal} AS {type_})"


def declared_types(piece: StatementText, oids: Sequence[int]) -> tuple[int, ...]:
    """Fills in parameter types that the client left open and the text itself casts: `$1::int8`."""
    types, tokens = list(oids), piece.tokens
    for i, token in enumerate(tokens[:-2]):
        if token.kind == "parameter" and types[int(token.text) - 1] == 0:
            following = tokens[i + 1].text if tokens[i + 1].kind in ("op", "word") else ""
            if following == "::" or (following == "as" and i and tokens[i - 1].text == "("):
                types[int(token.text) - 1] = _type_at(tokens, i + 2)
    return tuple(types)


def _type_at(tokens: Sequence[Token], at: int) -> int:
    """Returns the OID of the type whose name is at `at`; 0: it is not a one-word type."""
    at += 2 if tokens[at].text == "pg_catalog" else 0
    name = tokens[at].text if at < len(tokens) else ""
    known = types.NAMES.get(name)
    following = [token.text for token in tokens[at + 1 : at + 8]]
    if name == "char" and tokens[at].kind == "word":
        name = "bpchar"  # char without quotes is character(1); "char" is a type of the catalog
    if name in postgres_types.CAST_ONLY_OIDS:
        number = postgres_types.CAST_ONLY_OIDS[name]
        return postgres_types.array_oid(number) if following[:1] == ["["] else number
    if known is None or name == "double":
        return 0
    if following[:1] == ["("]:
        following = following[following.index(")") + 1 :] if ")" in following else []
    if following[:1] == ["with"]:  # timestamp with time zone
        return 0
    return postgres_types.oid(types.array(known) if following[:1] == ["["] else known)
