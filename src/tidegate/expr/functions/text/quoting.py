r"""Text: format, and quoting for SQL.

    format('Hello %s, %1$s', 'World')          'Hello World, World'
    format('INSERT INTO %I VALUES (%L)', 'Foo bar', E'O\'Reilly')
    format('|%-10s|%5s|', 'foo', 'bar')         '|foo       |  bar|'

A placeholder is `%[position$][-][width]type`: type s is the value as text, I a quoted name, L a quoted string or NULL; a width of
`*` is the next argument.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model.function import AS_TEXT, MODERATE, NEVER, scalar
from tidegate.expr.model.outcome import Datum, Outcome
from tidegate.expr.model.types import BOOL, TEXT, array
from tidegate.expr.primitives.row_loop import RowFailure, each_row
from tidegate.expr.primitives.sql_text import parse_name, quote_name, quote_string

_MAX_WIDTH = 1 << 20
"""Characters that a placeholder may be padded to."""


@scalar("quote_ident", (TEXT,), TEXT, errors=NEVER, stable=True)
def quote_ident(a: Datum) -> Outcome:
    """The text as a name in SQL: in quotes unless it is a plain word and no keyword."""
    return each_row(quote_name, pa.string(), a)


@scalar("quote_literal", (TEXT,), TEXT, errors=NEVER, stable=True)
@scalar("quote_literal", (AS_TEXT,), TEXT, errors=NEVER, stable=True)
def quote_literal(a: Datum) -> pa.Array:
    """The text as an SQL string literal."""
    doubled = pc.replace_substring(pc.replace_substring(a, "'", "''"), "\\", "\\\\")
    opening = pc.if_else(pc.match_substring(a, "\\"), "E'", "'")
    return pc.binary_join_element_wise(opening, doubled, "'", "")


@scalar("quote_nullable", (TEXT,), TEXT, lenient=True, errors=NEVER, stable=True)
@scalar("quote_nullable", (AS_TEXT,), TEXT, lenient=True, errors=NEVER, stable=True)
def quote_nullable(a: Datum) -> pa.Array:
    """The text as an SQL string literal, or the word NULL."""
    return pc.fill_null(quote_literal(a), "NULL")


@scalar("parse_ident", (TEXT,), array(TEXT), stable=True, cost=MODERATE)
def parse_ident(a: Datum) -> Outcome:
    """The parts of a qualified name in SQL; those without quotes in lower case."""
    return each_row(lambda text: parse_name(text, strict=True), array(TEXT).arrow, a)


@scalar("parse_ident", (TEXT, BOOL), array(TEXT), stable=True, cost=MODERATE)
def parse_ident_strict(a: Datum, strict: Datum) -> Outcome:
    """The parts of a qualified name in SQL; with false, what follows the name is ignored."""
    return each_row(lambda text, s: parse_name(text, strict=s), array(TEXT).arrow, a, strict)


# ---------------------------------------------------------------- format


class _Template:
    """Walks the text of a template and fills in arguments."""

    def __init__(self, text: str, args: Sequence[str | None]) -> None:
        self.text, self.args = text, args
        self.at = self.arg = 0
        self.out: list[str] = []

    def fill(self) -> str:
        """The text with all placeholders filled in."""
        while (percent := self.text.find("%", self.at)) >= 0:
            self.out.append(self.text[self.at : percent])
            self.at = percent + 1
            if self._letter() == "%":
                self.out.append("%")
                self.at += 1
            else:
                self._placeholder()
        return "".join([*self.out, self.text[self.at :]])

    def _letter(self) -> str:
        if self.at >= len(self.text):
            raise RowFailure("unterminated format() type specifier")
        return self.text[self.at]

    def _number(self) -> int | None:
        """The number that stands here, if one does."""
        start = self.at
        while self._letter() in "0123456789":
            self.at += 1
        if start == self.at:
            return None
        if self.at - start > 10 or int(self.text[start : self.at]) >= 2**31:
            raise RowFailure("number is out of range")
        return int(self.text[start : self.at])

    def _placeholder(self) -> None:
        number, position, width, left = self._number(), None, 0, False
        if number is not None and self._letter() == "$":
            position = self._place(number)
            self.at += 1
            number = None
        if number is None:
            while self._letter() == "-":
                left = True
                self.at += 1
            width = self._star() if self._letter() == "*" else self._number() or 0
        else:
            width = number
        kind = self._letter()
        if kind not in "sIL":
            raise RowFailure(f'unrecognized format() type specifier "{kind}"')
        value = self._argument(position)
        self.at += 1
        self._write(_converted(kind, value), abs(width), left=left or width < 0)

    def _star(self) -> int:
        """A width that is an argument: `*` or `*2$`."""
        self.at += 1
        number = self._number()
        if number is not None:
            if self._letter() != "$":
                raise RowFailure('width argument position must be ended by "$"')
            self.at += 1
            number = self._place(number)
        value = self._argument(number)
        if value is None:
            return 0
        try:
            return int(value)
        except ValueError:
            raise RowFailure(f'invalid input syntax for type integer: "{value}"') from None

    def _place(self, number: int) -> int:
        if number == 0:
            raise RowFailure("format specifies argument 0, but arguments are numbered from 1")
        return number

    def _argument(self, position: int | None) -> str | None:
        self.arg = self.arg + 1 if position is None else position
        if self.arg > len(self.args):
            raise RowFailure("too few arguments for format()")
        return self.args[self.arg - 1]

    def _write(self, text: str, width: int, *, left: bool) -> None:
        if width > _MAX_WIDTH:
            raise RowFailure("requested length too large")
        self.out.append(text.ljust(width) if left else text.rjust(width))


def _converted(kind: str, value: str | None) -> str:
    if kind == "s":
        return value or ""
    if kind == "L":
        return "NULL" if value is None else quote_string(value)
    if value is None:
        raise RowFailure("null values cannot be formatted as an SQL identifier")
    return quote_name(value)


@scalar("format", (TEXT, AS_TEXT), TEXT, variadic=True, lenient=True, cost=MODERATE, stable=True)
@scalar("format", (TEXT,), TEXT, lenient=True, cost=MODERATE, stable=True)
def format_text(template: Datum, *args: Datum) -> Outcome:
    """The template with %s (text), %I (a quoted name) and %L (a quoted string) filled in."""

    def fill(text: str | None, *values: str | None) -> str | None:
        return None if text is None else _Template(text, values).fill()

    return each_row(fill, pa.string(), template, *args, strict=False)
