"""Texts of statements: cut at semicolons, and `$1` in them filled with values.

    cut("SELECT 1; SELECT 'a;b'")                   [Piece("SELECT 1", 0), Piece(" SELECT 'a;b'", 9)]
    fill(piece, ("int8",), ("5",))                  "… WHERE id = CAST('5' AS int8)", and which place is which

Our grammar has no parameters: a value is put in its place as a literal. It is found by the lexer, so never in a string, a name or a
comment; it is written as a string whose quotes are doubled, which our lexer reads as itself whatever it holds; and it stands in
a CAST to the type that the client declared. A value of which no type is declared is a plain string, which takes the type that
the operator wants, as `'5'` does in PostgreSQL.

A text of a thousand `$1` and a value of a megabyte would be a gigabyte, so the size is computed first.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tidegate.expr.types import MAX_PRECISION, NAMES, array
from tidegate.serve.pg.sqlstate import Trouble
from tidegate.serve.pg.types import NUMBERS, array_of, oid
from tidegate.sql.lex import Token, tokens

MAX_TEXT = 64 << 20
MAX_PARAMETER = 65_535
"""The protocol counts them with two bytes."""


@dataclass(frozen=True)
class Piece:
    """One statement: its text, where it begins in what the client sent, and its tokens, placed in the piece's text."""

    text: str
    start: int
    tokens: tuple[Token, ...]

    def words(self, count: int = 4) -> tuple[str, ...]:
        """Its first words, in lower case, without quoted ones."""
        return tuple(one.text if one.kind in ("word", "op") else "" for one in self.tokens[:count])


def cut(text: str) -> list[Piece]:
    """The statements of a text."""
    found: list[Piece] = []
    start, held = 0, list[Token]()
    for token in tokens(text, parameters=True):
        if token.kind != "end" and not (token.kind == "op" and token.text == ";"):
            held.append(token)
            continue
        if held:
            if start:
                held = [one._replace(start=one.start - start, end=one.end - start) for one in held]
            found.append(Piece(text[start : token.start], start, tuple(held)))
        start, held = token.end, []
    return found


def count(piece: Piece) -> int:
    """The highest parameter of a statement."""
    highest = 0
    before: Token | None = None
    for token in piece.tokens:
        if token.kind == "parameter":
            number = int(token.text[:6])
            if not 1 <= number <= MAX_PARAMETER:
                raise Trouble(
                    "42P02", f"there is no parameter ${token.text[:20]}", position=_at(piece, token)
                )
            highest = max(highest, number)
        # Two strings on two lines are one; so a value must not come to stand beside a string.
        near = before is not None and {token.kind, before.kind} == {"parameter", "string"}
        if near or (before is not None and token.kind == before.kind == "parameter"):
            raise Trouble("42601", "an operator is missing beside a parameter", position=_at(piece, token))
        before = token
    return highest


def _at(piece: Piece, token: Token) -> int:
    return piece.start + token.start + 1


@dataclass(frozen=True)
class Filled:
    """A text with values in it, and where the client's text has what stands at each place of it."""

    text: str
    ends: tuple[int, ...] = ()
    """Where each filled hole ends in this text."""
    origins: tuple[int, ...] = ()
    """Where it ends in the client's."""
    starts: tuple[int, ...] = ()
    """Where it begins in this text."""
    holes: tuple[int, ...] = ()
    """Where it begins in the client's."""

    def origin(self, at: int) -> int:
        """The place in the client's text."""
        i = bisect.bisect_right(self.starts, at) - 1
        if i < 0:
            return at
        return self.holes[i] if at < self.ends[i] else self.origins[i] + at - self.ends[i]


def fill(piece: Piece, types: Sequence[str | None], values: Sequence[str | None]) -> Filled:
    """The statement with a value for each parameter, given as text; None is NULL."""
    written = [_literal(type_, value) for type_, value in zip(types, values, strict=True)]
    holes = [token for token in piece.tokens if token.kind == "parameter"]
    # AS OF CAST(…) would be read as an alias called `of`: these stand in parentheses.
    times = {token.start for of, token in pairwise(piece.tokens) if of.kind == "word" and of.text == "of"}
    if not holes:
        return Filled(piece.text)
    size = len(piece.text) + sum(len(written[int(token.text) - 1]) + 4 for token in holes)
    if size > MAX_TEXT:
        raise Trouble("54000", f"the statement with its values has more than {MAX_TEXT:,} characters")
    out: list[str] = []
    at, length = 0, 0
    starts, ends = [], []
    for token in holes:
        literal = f" {written[int(token.text) - 1]} "
        literal = f"({literal})" if token.start in times else literal
        out += (piece.text[at : token.start], literal)
        starts.append(length + token.start - at)
        length = starts[-1] + len(literal)
        ends.append(length)
        at = token.end
    out.append(piece.text[at:])
    origins, places = tuple(token.end for token in holes), tuple(token.start for token in holes)
    return Filled("".join(out), tuple(ends), origins, tuple(starts), places)


_DECIMAL = re.compile(r"([+-]?)([0-9]+)(?:\.([0-9]*))?")


def _literal(type_: str | None, value: str | None) -> str:
    if value is not None and "\0" in value:
        raise Trouble("22021", "a text cannot hold a NUL character")
    if type_ == "numeric" and value is not None and (found := _DECIMAL.fullmatch(value)):
        # A literal keeps the digits that it has. A cast to numeric would make 18 of them stand behind the point.
        digits, behind = len(found[2].lstrip("0")) + len(found[3] or ""), len(found[3] or "")
        if digits <= MAX_PRECISION:
            return f"CAST('{value}' AS numeric({max(digits, behind, 1)},{behind}))"
    written = "NULL" if value is None else "'" + value.replace("'", "''") + "'"
    return written if type_ is None else f"CAST({written} AS {type_})"


def declared(piece: Piece, oids: Sequence[int]) -> tuple[int, ...]:
    """The types of parameters, with those that the client left open as far as the text itself says them: `$1::int8`."""
    found, given = list(oids), piece.tokens
    for i, token in enumerate(given[:-2]):
        if token.kind == "parameter" and found[int(token.text) - 1] == 0:
            sign = given[i + 1].text if given[i + 1].kind in ("op", "word") else ""
            if sign == "::" or (sign == "as" and i and given[i - 1].text == "("):
                found[int(token.text) - 1] = _type_at(given, i + 2)
    return tuple(found)


def _type_at(given: Sequence[Token], at: int) -> int:
    """The number of the type that is spelled there; 0: none that is one word."""
    at += 2 if given[at].text == "pg_catalog" else 0
    name = given[at].text if at < len(given) else ""
    known = NAMES.get(name)
    following = [one.text for one in given[at + 1 : at + 8]]
    if name in NUMBERS:
        return array_of(NUMBERS[name]) if following[:1] == ["["] else NUMBERS[name]
    if known is None or name == "double":
        return 0
    if following[:1] == ["("]:
        following = following[following.index(")") + 1 :] if ")" in following else []
    if following[:1] == ["with"]:  # timestamp with time zone
        return 0
    return oid(array(known) if following[:1] == ["["] else known)
