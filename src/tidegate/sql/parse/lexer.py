r"""SQL text → tokens, by PostgreSQL's rules and with exact positions.

    tokens("SELECT Id FROM t -- all\n WHERE x >= 1.5")
    word select 0..6, word id 7..9, word from, word t, word where, word x, op >=, number 1.5, end

One regular expression recognises every token, so a list of ten thousand constants costs some 20 ms. Words are
folded to lower case as PostgreSQL folds them (ASCII letters only), quoted names are kept as they stand, and a
string's text is what it means: quotes undoubled, E'\n' decoded, 'a' and 'b' on two lines joined. Whatever
cannot be a token is an error here, with its place: what is handed on needs no second look.

Why not sqlglot's tokenizer: it takes three times as long (80 ms for that list), gives no position for an
unfinished string, splits `.5` in two, joins `GROUP BY` into one, and reads `{%`, `@` and `#` as other
dialects do.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

from tidegate.errors import LimitError, ParseError, Position, UnsupportedError

MAX_TOKENS = 1_000_000
"""Of one text. A program that writes more has lost its way; a million take a second and 200 MB."""

Kind: TypeAlias = Literal["word", "quoted", "string", "number", "op", "parameter", "end"]


class Token(NamedTuple):
    """A piece of the text, from `start` to before `end`; `text` is what it means."""

    kind: Kind
    text: str
    start: int
    end: int


_OPERATORS = """
    ->> -> #>> #> #- @> <@ @? @@ ^@ ?| ?& ? || && !~~* !~~ ~~* ~~ !~* !~ ~* ~ <= >= <> != == << >> :: := =>
    = < > + - * / % ^ & | # @ ! ( ) [ ] , ; . :
"""
_SPELLED = {"!=": "<>", "==": "="}

_LONGEST_FIRST = sorted(_OPERATORS.split(), key=len, reverse=True)
_TOKEN = re.compile(
    r"""
    (?P<mark>   [(),] )
  | (?P<space>  [ \t\r\n\f\v]+ | --[^\n]* )
  | (?P<word>   (?! [eEbBxXnN]' | [uU]&['"] ) [^\W\d][\w$]*+ )
  | (?P<number> (?: \d++ (?: \.(?!\.) \d*+ )? | \.\d++ ) (?: [eE][+-]?\d++ )? )
  | (?P<string> '(?: [^']++ | '' )*+' )
  | (?P<escaped> [eE]'(?: [^'\\]++ | '' | \\. )*+' )
  | (?P<quoted> "(?: [^"]++ | "" )*+" )
  | (?P<comment> /\* )
  | (?P<dollar> \$ (?: [^\W\d]\w* )? \$ )
  | (?P<op> \|\|?/(?!\*) | """
    + "|".join(map(re.escape, _LONGEST_FIRST))
    + ")",
    re.VERBOSE | re.DOTALL,
)
_PARAMETER = re.compile(r"\$([0-9]+)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UPPER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_PREFIXED = {"b": "bit strings", "x": "bit strings", "n": "national strings", "u": "strings with U& escapes"}


def fold(word: str) -> str:
    """An unquoted name as PostgreSQL reads it: ASCII letters in lower case."""
    return word.lower() if word.isascii() else word.translate(_UPPER)


def tokenize(sql: str, *, parameters: bool = False) -> list[Token]:
    """The tokens of a text, the last of kind `end`; with `parameters` also `$1`, as its number.

    The grammar takes no parameters: the caller replaces them by values (`server/postgres/parameters.py`).
    """
    _check_characters(sql)
    found: list[Token] = []
    at, size, match = 0, len(sql), _TOKEN.match
    while at < size:
        hit = match(sql, at)
        if hit is None and parameters and (hit := _PARAMETER.match(sql, at)):
            found.append(Token("parameter", hit[1], at, hit.end()))
            at = hit.end()
            continue
        if hit is None:
            raise _no_token(sql, at)
        kind, end = hit.lastgroup, hit.end()
        if kind == "mark":
            found.append(Token("op", hit[0], at, end))
        elif kind == "word":
            found.append(Token("word", fold(hit[0]), at, end))
        elif kind == "op":
            found.append(Token("op", _SPELLED.get(hit[0], hit[0]), at, end))
        elif kind == "number":
            if end < size and (sql[end].isalnum() or sql[end] == "_"):
                raise ParseError("a number runs into a name", position=Position(sql, at, end + 1))
            found.append(Token("number", hit[0], at, end))
        elif kind == "comment":
            end = _comment_end(sql, at)
        elif kind != "space":
            token = _quoted(sql, kind or "", at, end)
            end = token.end
            _add_string(sql, found, token)
        at = end
        if len(found) > MAX_TOKENS:
            raise LimitError(
                f"the SQL text has more than {MAX_TOKENS:,} words", position=Position(sql, at, at + 1)
            )
    found.append(Token("end", "", size, size))
    return found


def split_statements(sql: str) -> list[str]:
    """The statements of a text, each as a text of its own whose lines are numbered as in the whole."""
    found, start, said = [], 0, False
    for token in tokenize(sql, parameters=True):
        if token.kind == "end" or (token.kind == "op" and token.text == ";"):
            if said:  # a comment behind the last semicolon is no statement
                found.append("\n" * sql.count("\n", 0, start) + sql[start : token.start])
            start, said = token.end, False
        else:
            said = True
    return found


def _quoted(sql: str, kind: str, start: int, end: int) -> Token:
    """The token of a string or a quoted name."""
    if kind == "string":
        return Token("string", sql[start + 1 : end - 1].replace("''", "'"), start, end)
    if kind == "escaped":
        return Token("string", _unescape(sql, start + 2, end - 1), start, end)
    if kind == "quoted":
        if end - start == 2:
            raise ParseError("a quoted name is empty", position=Position(sql, start, end))
        return Token("quoted", sql[start + 1 : end - 1].replace('""', '"'), start, end)
    tag = sql[start:end]
    close = sql.find(tag, end)
    if close < 0:
        raise ParseError(f"a string opened with {tag} is not closed", position=Position(sql, start, end))
    return Token("string", sql[end:close], start, close + len(tag))


def _add_string(sql: str, found: list[Token], token: Token) -> None:
    """Appends a token; a string after a string on a line above continues it, as the standard has it."""
    last = found[-1] if found else None
    if token.kind == "string" and last is not None and last.kind == "string":
        between = sql[last.end : token.start]
        if "\n" in between and not between.strip():
            found[-1] = Token("string", last.text + token.text, last.start, token.end)
            return
    found.append(token)


def _check_characters(sql: str) -> None:
    at = sql.find("\0")
    if at >= 0:
        raise ParseError("SQL text cannot hold a NUL character", position=Position(sql, at, at + 1))
    if not sql.isascii() and (hit := _SURROGATE.search(sql)):
        raise ParseError(
            "SQL text is not valid Unicode: half of a surrogate pair", position=Position(sql, *hit.span())
        )


def _comment_end(sql: str, start: int) -> int:
    """Where a comment ends; comments nest."""
    depth, at = 0, start
    edge = re.compile(r"/\*|\*/")
    while hit := edge.search(sql, at):
        depth += 1 if hit[0] == "/*" else -1
        at = hit.end()
        if depth == 0:
            return at
    raise ParseError("a comment is not closed: */ is missing", position=Position(sql, start, start + 2))


def _no_token(sql: str, at: int) -> ParseError | UnsupportedError:
    """Why nothing fits at `at`."""
    here, after = sql[at], sql[at + 1 : at + 2]
    spot = Position(sql, at, at + 1)
    if here == "'" or (here in "eE" and after == "'"):
        return ParseError("a string is not closed: ' is missing", position=spot)
    if here == '"':
        return ParseError('a quoted name is not closed: " is missing', position=spot)
    if fold(here) in _PREFIXED and after in ("'", "&"):
        hint = "write the characters themselves, or E'\\u00e9'; bytes as '\\x00ff'::bytea"
        return UnsupportedError(
            f"{_PREFIXED[fold(here)]} are not supported", hint=hint, position=Position(sql, at, at + 2)
        )
    if here == "$" and after.isdigit():
        hint = "give the values beside the text: db.sql(text, [1, 'a']) for $1, db.sql(text, {\"id\": 1}) for :id"
        return UnsupportedError("there is no value for $1", hint=hint, position=Position(sql, at, at + 2))
    shown = here if here.isprintable() else f"U+{ord(here):04X}"
    quotes = "strings stand in '…', names in \"…\"" if here in "`‘’“”´" else None
    command = (
        r"commands such as \d work at the prompt of `tidegate sql`, and in psql; \i there runs a file of them"
    )
    return ParseError(
        f"unexpected character {shown}", hint=command if here == "\\" else quotes, position=spot
    )


_SIMPLE = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(
    r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))|''", re.DOTALL
)


def _unescape(sql: str, start: int, end: int) -> str:
    r"""What stands in E'…': \n and the like, \x41 and \101 (bytes of UTF-8), é, doubled quotes."""

    def unescaped(hit: re.Match[str]) -> str:
        unit, point, hexed, octal, other = hit.groups()
        if unit or point:
            code = int(unit or point, 16)
            return chr(code) if 0 < code < 0x110000 else "\udfff"
        if hexed or octal:
            byte = int(hexed, 16) if hexed else int(octal, 8) & 0xFF
            # PEP 383: a byte that is not ASCII stands as a lone surrogate until the whole is decoded.
            return bytes([byte]).decode("utf-8", "surrogateescape") if byte else "\udfff"
        return "'" if other is None else _SIMPLE.get(other, other)

    text = _ESCAPE.sub(unescaped, sql[start:end])
    try:
        joined = text.encode("utf-16", "surrogatepass").decode(
            "utf-16", "surrogatepass"
        )  # joins pairs of halves
        return joined.encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError:
        raise ParseError(
            "an escape does not give valid Unicode", position=Position(sql, start, end)
        ) from None
