"""Reading tokens from left to right: the tool that all grammars here share.

    c = Cursor("DROP TABLE t")
    if c.eat("drop", "table"): name = c.name("the table's name")

`eat` takes words if they come next and says whether it did, `expect` insists; every refusal names what was
expected and what was found, and points at it:

    expected FROM or the end, found "FORM"
    line 1, column 10:
        SELECT a FORM t
                 ^^^^

Nesting is counted (`enter`, `leave`), so a text of ten thousand parentheses is refused by us, with its place,
and never by the interpreter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from tidegate.config import MAX_NESTING
from tidegate.errors import LimitError, ParseError, Position
from tidegate.sql.parse.lexer import Token, tokenize
from tidegate.sql.parse.parameters import Parameters
from tidegate.sql.parse.syntax import Constant, Ident, Node, Span
from tidegate.text import RESERVED

T = TypeVar("T")


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set to look others up in."""
    return frozenset(text.split())


_ENDS = frozenset((")", ";", "from", "where", "order", "limit", "union", "group"))
"""What may follow a list that a needless comma ends."""


class TokenCursor:
    """A place in a list of tokens."""

    def __init__(self, sql: str, parameters: Parameters | None = None) -> None:
        self.sql = sql
        self.parameters = parameters
        numbered = _prepares(sql) if parameters is None else not parameters.named
        self.tokens = tokenize(sql, parameters=numbered)
        if parameters is not None:
            self.tokens = parameters.tokens(sql, self.tokens)
        self.i = 0
        self.depth = 0
        self.placeholders = False
        """Whether parameters without values may stand here, as in PREPARE."""
        self.into: Ident | None = None
        """The table of SELECT … INTO."""
        self.into_depth = 0

    @property
    def token(self) -> Token:
        """What comes next."""
        return self.tokens[self.i]

    def ahead(self, n: int) -> Token:
        """What comes `n` tokens after the next."""
        return self.tokens[min(self.i + n, len(self.tokens) - 1)]

    def next(self) -> Token:
        """Takes the next token."""
        token = self.tokens[self.i]
        if token.kind != "end":
            self.i += 1
        return token

    def sees(self, *texts: str, skip: int = 0) -> bool:
        """Whether these words or signs come next, after `skip` tokens."""
        for n, text in enumerate(texts, skip):
            token = self.ahead(n)
            if token.text != text or token.kind not in ("word", "op"):
                return False
        return True

    def eat(self, *texts: str) -> bool:
        """Takes these words or signs if they come next."""
        if not self.sees(*texts):
            return False
        self.i += len(texts)
        return True

    def eat_any(self, *texts: str) -> str | None:
        """Takes one of these words or signs if it comes next."""
        token = self.token
        if token.text in texts and token.kind in ("word", "op"):
            self.i += 1
            return token.text
        return None

    def expect(self, *texts: str, of: str | None = None) -> Span:
        """Takes these words or signs, or refuses; `of` says what else would have done."""
        first = self.token
        for text in texts:
            if not self.eat(text):
                raise self.fail(f"{of} or {_shown(text)}" if of else _shown(text))
        return Span(first.start, self.tokens[self.i - 1].end)

    def fail(self, expected: str, token: Token | None = None, hint: str | None = None) -> ParseError:
        """The refusal of what comes next."""
        token = token or self.token
        found = "the end of the text" if token.kind == "end" else f'"{self.sql[token.start : token.end]}"'
        place = Position(self.sql, token.start, token.end)
        return ParseError(f"expected {expected}, found {found}", hint=hint, position=place)

    def name(self, what: str) -> Ident:
        """A name: quoted, or a word that is not reserved."""
        token = self.token
        if not is_name(token):
            hint = f'"{token.text}" is a reserved word: quote it' if token.kind == "word" else None
            raise self.fail(what, hint=hint)
        self.i += 1
        return Ident(token.text, Span(token.start, token.end))

    def label(self, what: str) -> Ident:
        """A name where no reserved word could be meant otherwise: after AS and after a dot."""
        token = self.token
        if token.kind not in ("word", "quoted"):
            raise self.fail(what)
        self.i += 1
        return Ident(token.text, Span(token.start, token.end))

    def qualified(self, what: str) -> tuple[Ident, ...]:
        """A name with what stands before it: `public.orders`."""
        parts = [self.name(what)]
        while self.eat("."):
            parts.append(self.label(what))
        return tuple(parts)

    def constant(self, token: Token) -> Node:
        """A string, a number, or the value of a parameter."""
        if token.kind == "parameter":
            if self.parameters is not None:
                return self.parameters.node(self.sql, token)
            if not self.placeholders:
                raise self.fail("a value", token, hint="parameters are in statements that are prepared")
            return Constant("null", "null", Span(token.start, token.end))
        return Constant(
            "string" if token.kind == "string" else "number", token.text, Span(token.start, token.end)
        )

    def string(self, what: str) -> str:
        """A string."""
        if self.token.kind != "string":
            raise self.fail(what)
        return self.next().text

    def integer(self, what: str) -> int:
        """A whole number that is not negative."""
        token = self.token
        if token.kind != "number" or not token.text.isdigit() or len(token.text) > 18:
            raise self.fail(what)
        return int(self.next().text)

    def comma_list(self, one: Callable[[], T], trailing: bool = False) -> tuple[T, ...]:
        """One or more, with commas between; a comma behind the last where `trailing` says so."""
        found = [one()]
        while self.eat(","):
            if trailing and (self.at_end() or self._ends_list()):
                break
            found.append(one())
        return tuple(found)

    def _ends_list(self) -> bool:
        return self.token.kind in ("word", "op") and self.token.text in _ENDS

    def at_end(self) -> bool:
        """Whether nothing is left."""
        return self.token.kind == "end"

    def span(self) -> Span:
        """The place of the next token."""
        return Span(self.token.start, self.token.end)

    def since(self, start: int) -> Span:
        """From `start` to the end of the token that was taken last."""
        return Span(start, max(start, self.tokens[self.i - 1].end if self.i else start))

    def enter(self) -> None:
        """One level deeper; an error beyond `MAX_NESTING`, after which the cursor is of no use."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise self.too_deep()

    def leave(self) -> None:
        """One level back."""
        self.depth -= 1

    def too_deep(self) -> LimitError:
        """The error for a text that nests too deep here."""
        return LimitError(
            "the statement is nested too deep",
            hint=f"{MAX_NESTING} levels at most, fewer for subqueries; chains of AND and OR are no nesting",
            position=Position(self.sql, self.token.start, self.token.end),
        )


_PREPARE = re.compile(r"\bprepare\b", re.IGNORECASE)


def _prepares(sql: str) -> bool:
    """Whether a text may hold a PREPARE, in which parameters have no values yet."""
    return "$" in sql and _PREPARE.search(sql) is not None


def is_name(token: Token) -> bool:
    """Whether a token can be a name as it stands."""
    return token.kind == "quoted" or (token.kind == "word" and token.text not in RESERVED)


def _shown(text: str) -> str:
    return text.upper() if text[0].isalpha() else f'"{text}"'
