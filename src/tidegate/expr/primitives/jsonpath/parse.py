r"""Parses jsonpath texts by recursive descent.

>>> parse_jsonpath("strict $.a").strict, parse_jsonpath("$.a[0]").path
(True, Subscripts(base=Key(base=PathRoot(), name='a'), ranges=((PathConstant(value=Decimal('0')), None),)))
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from tidegate.expr.primitives.jsonpath import syntax
from tidegate.expr.primitives.regex import compile_regex
from tidegate.expr.primitives.row_loop import RowFailure

MAX_LENGTH = 10_000
MAX_NESTING = 100
METHODS = frozenset(("type", "size", "double", "abs", "floor", "ceiling"))
_COMPARISONS = frozenset(("==", "!=", "<>", "<", "<=", ">", ">="))
_CONSTANTS = {"true": True, "false": False, "null": None}
_TOKEN = re.compile(
    r"""
    (?P<space>   \s+ | /\*.*?\*/ )
  | (?P<number>  (?: (?:0|[1-9]\d*) (?:\.\d*)? | \.\d+ ) (?:[eE][+-]?\d+)? (?![\w$]) )
  | (?P<string>  "(?: [^"\\] | \\. )*" )
  | (?P<variable> \$ (?: "(?: [^"\\] | \\. )*" | [^\W\d][\w$]* ) )
  | (?P<op>      == | != | <> | <= | >= | && | \|\| | \*\* | [$@.*\[\](),?<>!+\-/%{}] )
  | (?P<word>    [^\W\d](?:[\w$])* )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class _Token(NamedTuple):
    kind: str
    text: str


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise RowFailure(f'syntax error at or near "{text[at : at + 20]}" of jsonpath input')
        if match.lastgroup != "space":
            found.append(_Token(match.lastgroup, match[0]))
        at = match.end()
    return [*found, _Token("end", "")]


def _unquoted(text: str) -> str:
    """The contents of a string in double quotes."""

    def letter(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        if code is None:
            return _LETTERS.get(match[4], match[4])
        if not 0 < int(code, 16) <= 0x10FFFF:
            raise RowFailure("invalid Unicode escape in a jsonpath")
        return chr(int(code, 16))

    units = _ESCAPE.sub(letter, text[1:-1])
    try:
        return units.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise RowFailure("invalid Unicode surrogate pair in a jsonpath") from None


@lru_cache(256)  # a query has few paths
def parse_jsonpath(text: str) -> syntax.JsonPath:
    """The parsed path; raises RowFailure for what is no jsonpath, or not supported."""
    if len(text) > MAX_LENGTH:
        raise RowFailure(f"a jsonpath has at most {MAX_LENGTH} letters")
    parser = _Parser(_tokens(text))
    if parser.token.kind == "end":
        raise RowFailure(f'invalid input syntax for type jsonpath: "{text}"')
    strict = parser.eat("strict")
    if not strict:
        parser.eat("lax")
    path = parser.value()
    if parser.token.kind != "end":
        raise parser.fail()
    return syntax.JsonPath(path, strict)


class _Parser:
    """Reads tokens from left to right."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens, self.i, self.depth = tokens, 0, 0
        self.subscripts = self.filters = 0

    @property
    def token(self) -> _Token:
        """The token that is read next."""
        return self.tokens[self.i]

    def fail(self) -> RowFailure:
        """The error at the current token."""
        place = "end" if self.token.kind == "end" else f'or near "{self.token.text}"'
        return RowFailure(f"syntax error at {place} of jsonpath input")

    def sees(self, text: str) -> bool:
        """Whether a word or operator comes next."""
        kind, found = self.token
        return kind in ("op", "word") and (found == text or (kind == "word" and found.lower() == text))

    def eat(self, text: str) -> bool:
        """Passes a word or operator if it comes next; whether it did."""
        comes = self.sees(text)
        self.i += comes
        return comes

    def expect(self, text: str) -> None:
        """Passes a word or operator that must come next."""
        if not self.eat(text):
            raise self.fail()

    # ------------------------------------------------------------ conditions and values

    def value(self) -> syntax.Path:
        """A path or a condition."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise RowFailure("a jsonpath is nested too deeply")
        left = self._and()
        while self.eat("||"):
            left = syntax.Logic("||", (self._condition(left), self._condition(self._and())))
        self.depth -= 1
        return left

    def _condition(self, path: syntax.Path) -> syntax.Condition:
        if not isinstance(path, syntax.Condition):
            raise self.fail()
        return path

    def _and(self) -> syntax.Path:
        left = self._comparison()
        while self.eat("&&"):
            left = syntax.Logic("&&", (self._condition(left), self._condition(self._comparison())))
        return left

    def _comparison(self) -> syntax.Path:
        if self.eat("!"):
            return syntax.Logic("!", (self._condition(self._primary()),))
        left = self._sum()
        if self.token.kind == "op" and self.token.text in _COMPARISONS:
            self.i += 1
            operator = self.tokens[self.i - 1].text
            return syntax.Comparison("!=" if operator == "<>" else operator, left, self._sum())
        if self.eat("starts"):
            self.expect("with")
            return syntax.Comparison("starts with", left, self._primary())
        if self.eat("like_regex"):
            return self._like_regex(left)
        return left

    def _like_regex(self, left: syntax.Path) -> syntax.Path:
        pattern = self._string()
        flags = self._string() if self.eat("flag") else ""
        if set(flags) - set("ism"):
            raise RowFailure(f'the flags "{flags}" of like_regex are not supported')
        lines = {(False, False): "p", (True, False): "s", (False, True): "n", (True, True): "w"}
        options = ("i" if "i" in flags else "") + lines["s" in flags, "m" in flags]
        regex = compile_regex(pattern, options)
        if regex.error:
            raise RowFailure(regex.error)
        return syntax.LikeRegex(left, pattern, options)

    def _string(self) -> str:
        if self.token.kind != "string":
            raise self.fail()
        self.i += 1
        return _unquoted(self.tokens[self.i - 1].text)

    def _sum(self) -> syntax.Path:
        left = self._product()
        while self.sees("+") or self.sees("-"):
            self.i += 1
            left = syntax.Arithmetic(self.tokens[self.i - 1].text, left, self._product())
        return left

    def _product(self) -> syntax.Path:
        left = self._signed()
        while self.sees("*") or self.sees("/") or self.sees("%"):
            self.i += 1
            left = syntax.Arithmetic(self.tokens[self.i - 1].text, left, self._signed())
        return left

    def _signed(self) -> syntax.Path:
        if self.sees("+") or self.sees("-"):
            self.i += 1
            return syntax.Arithmetic(self.tokens[self.i - 1].text, None, self._signed())
        return self._accessors(self._primary())

    # ------------------------------------------------------------ operands

    def _primary(self) -> syntax.Path:
        kind, text = self.token
        self.i += 1
        match kind:
            case "number":
                return syntax.PathConstant(Decimal(text))
            case "string":
                return syntax.PathConstant(_unquoted(text))
            case "variable":
                name = text[1:]
                return syntax.Variable(_unquoted(name) if name.startswith('"') else name)
            case "op" if text == "$":
                return syntax.PathRoot()
            case "op" if text == "@" and self.filters:
                return syntax.Current()
            case "op" if text == "(":
                return self._parentheses()
            case "word" if text in _CONSTANTS:
                return syntax.PathConstant(_CONSTANTS[text])
            case "word" if text.lower() == "exists":
                self.expect("(")
                path = self.value()
                self.expect(")")
                return syntax.Exists(path)
            case "word" if text.lower() == "last" and self.subscripts:
                return syntax.Last()
            case _:
                self.i -= 1
                raise self.fail()

    def _parentheses(self) -> syntax.Path:
        inner = self.value()
        self.expect(")")
        if self.eat("is"):
            self.expect("unknown")
            return syntax.Logic("is unknown", (self._condition(inner),))
        return inner

    def _accessors(self, base: syntax.Path) -> syntax.Path:
        while True:
            if self.eat("."):
                base = self._member(base)
            elif self.eat("["):
                base = self._subscripts(base)
            elif self.eat("?"):
                self.expect("(")
                self.filters += 1
                condition = self._condition(self.value())
                self.filters -= 1
                self.expect(")")
                base = syntax.PathFilter(base, condition)
            else:
                return base

    def _member(self, base: syntax.Path) -> syntax.Path:
        kind, text = self.token
        self.i += 1
        if (kind, text) == ("op", "*"):
            return syntax.Key(base, None)
        if (kind, text) == ("op", "**"):
            return self._descendants(base)
        if kind == "string":
            return syntax.Key(base, _unquoted(text))
        if kind != "word":
            self.i -= 1
            raise self.fail()
        if not self.sees("("):
            return syntax.Key(base, text)
        if text not in METHODS:
            raise RowFailure(f"the method .{text}() of a jsonpath is not supported")
        self.i += 1
        self.expect(")")
        return syntax.Method(base, text)

    def _descendants(self, base: syntax.Path) -> syntax.Path:
        if not self.eat("{"):
            return syntax.Descendants(base, 0, None)
        first = self._level()
        final = self._level() if self.eat("to") else first
        self.expect("}")
        return syntax.Descendants(base, first, final)

    def _level(self) -> int | None:
        if self.eat("last"):
            return None
        kind, text = self.token
        if kind != "number" or not text.isdigit() or int(text) >= 2**31:
            raise self.fail()
        self.i += 1
        return int(text)

    def _subscripts(self, base: syntax.Path) -> syntax.Path:
        if self.eat("*"):
            self.expect("]")
            return syntax.Elements(base)
        self.subscripts += 1
        ranges = []
        while True:
            first = self._sum()
            ranges.append((first, self._sum() if self.eat("to") else None))
            if not self.eat(","):
                break
        self.subscripts -= 1
        self.expect("]")
        return syntax.Subscripts(base, tuple(ranges))
