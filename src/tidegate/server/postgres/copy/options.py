r"""The options of COPY, in both spellings: `(FORMAT csv, HEADER)` and `WITH CSV HEADER`.

    read_options(tokens, writes=True)      CopyOptions(format="csv", delimiter=",", null="", header=True, …)

Defaults are PostgreSQL's: text is separated by tabs with `\N` for NULL; CSV by commas with an empty field for NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate.server.postgres.wire.sqlstate import PostgresError
from tidegate.sql.parse import Token

_ON, _OFF = ("true", "on", "1"), ("false", "off", "0")
_TEXT_RESERVED = "\\.abcdefghijklmnopqrstuvwxyz0123456789"
"""Characters with a meaning after a backslash, which separate no fields in the text format."""


@dataclass(frozen=True)
class CopyOptions:
    """How rows are written and read."""

    format: str = "text"
    """`text`, `csv` or `binary`."""
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    match_header: bool = False
    """Whether the header must have the names of the columns."""
    quote: str = '"'
    escape: str = '"'
    force_quote: tuple[str, ...] | None = ()
    """Columns of which every value is quoted; None: all."""


class _OptionTokens:
    """A cursor over the tokens of the options."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = [token for token in tokens if token.kind != "end"]
        self.at = 0

    def peek(self) -> str:
        """Returns the next word or operator, in lower case; empty at the end or before a text."""
        if self.at >= len(self.tokens) or self.tokens[self.at].kind == "string":
            return ""
        return self.tokens[self.at].text.lower()

    def take(self, *words: str) -> bool:
        """Skips a word if it is next."""
        if self.peek() in words:
            self.at += 1
            return True
        return False

    def at_end(self) -> bool:
        return self.at >= len(self.tokens)

    def value(self) -> str:
        """Returns the next token of any kind."""
        if self.at_end():
            raise PostgresError("42601", "the options of COPY end too early")
        self.at += 1
        return self.tokens[self.at - 1].text

    def names(self) -> tuple[str, ...] | None:
        """Returns `(a, b)` or `a, b` as names; None for `*`."""
        if self.take("*"):
            return None
        brackets = self.take("(")
        found = [self.value()]
        while self.take(","):
            found.append(self.value())
        if brackets and not self.take(")"):
            raise PostgresError("42601", "a list of columns of COPY has no end")
        return tuple(found)


def read_options(tokens: Sequence[Token], *, writes: bool) -> CopyOptions:
    """Reads what follows STDOUT (`writes`) or STDIN."""
    cursor = _OptionTokens(tokens)
    cursor.take("with")
    given: dict[str, object] = {}
    if cursor.take("("):
        while True:
            _parenthesised(cursor, given)
            if not cursor.take(","):
                break
        if not cursor.take(")"):
            raise _unknown(cursor.peek())
    else:
        while not cursor.at_end():
            _old_option(cursor, given)
    if not cursor.at_end():
        raise _unknown(cursor.value())
    return _options(given, writes)


def _parenthesised(cursor: _OptionTokens, given: dict[str, object]) -> None:
    """`NAME value` between parentheses."""
    name = cursor.value().lower()
    if name in given:
        raise PostgresError("42601", f"the option {name.upper()[:60]} is given twice")
    if name in ("force_quote", "force_null", "force_not_null"):
        given[name] = cursor.names()
    elif name in ("header", "freeze") and cursor.peek() in (",", ")"):
        given[name] = "true"
    else:
        given[name] = cursor.value()


def _old_option(cursor: _OptionTokens, given: dict[str, object]) -> None:
    """`CSV HEADER DELIMITER AS ';'`, as before PostgreSQL 9."""
    name = cursor.value().lower()
    match name:
        case "binary" | "csv":
            given["format"] = name
        case "header" | "freeze":
            given[name] = "true"
        case "delimiter" | "null" | "quote" | "escape" | "encoding":
            cursor.take("as")
            given[name] = cursor.value()
        case "force" if cursor.take("quote"):
            given["force_quote"] = cursor.names()
        case _:
            raise _unknown(name)


def _unknown(name: str) -> PostgresError:
    hint = "options: FORMAT, DELIMITER, NULL, HEADER, QUOTE, ESCAPE, FORCE_QUOTE, ENCODING"
    return PostgresError("42601", f'"{name[:60]}" is not an option of COPY', hint=hint)


def _options(given: dict[str, object], writes: bool) -> CopyOptions:
    """Checks the options, and fills in defaults."""
    texts = {name: value for name, value in given.items() if isinstance(value, str)}
    form = texts.get("format", "text").lower()
    if form not in ("text", "csv", "binary"):
        raise PostgresError("22023", f'COPY has no format "{form[:60]}"', hint="text, csv or binary")
    for name in given:
        _check_applies(name, form, writes)
    if texts.get("encoding", "utf8").lower().replace("-", "") not in ("utf8", "unicode"):
        raise PostgresError("0A000", f"COPY cannot write {texts['encoding'][:60]}", hint="all text is UTF-8")
    csv = form == "csv"
    header, quote = texts.get("header", "false").lower(), texts.get("quote", '"')
    if header not in (*_ON, *_OFF, "match") or (header == "match" and writes):
        raise PostgresError("42601", f'HEADER cannot be "{header[:60]}"', hint="HEADER true or false")
    options = CopyOptions(
        form,
        texts.get("delimiter", "," if csv else "\t"),
        texts.get("null", "" if csv else "\\N"),
        header not in _OFF,
        header == "match",
        quote,
        texts.get("escape", quote),
        None if given.get("force_quote", ()) is None else _names(given.get("force_quote", ())),
    )
    _check_characters(options)
    return options


def _names(value: object) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _check_applies(name: str, form: str, writes: bool) -> None:
    """Refuses options that the format or the direction does not have."""
    csv_only = {"quote": "QUOTE", "escape": "ESCAPE", "force_quote": "FORCE_QUOTE"}
    if name not in ("format", "delimiter", "null", "header", "encoding", "freeze", *csv_only):
        raise _unknown(name)
    if name in csv_only and form != "csv":
        raise PostgresError("0A000", f"{csv_only[name]} is an option of CSV only")
    if name == "force_quote" and not writes:
        raise PostgresError("0A000", "FORCE_QUOTE is an option of COPY TO only")
    if form == "binary" and name in ("delimiter", "null", "header"):
        raise PostgresError("42601", f"the binary format has no {name.upper()}")


def _check_characters(options: CopyOptions) -> None:
    """Checks that delimiter, quote and escape are three different characters."""
    delimiter = options.delimiter
    checks: Sequence[tuple[Callable[[], bool], str]] = (
        (lambda: not _single_byte(delimiter), "the delimiter of COPY is one character of one byte"),
        (lambda: delimiter in "\r\n", "the delimiter of COPY cannot be a line break"),
        (lambda: "\n" in options.null or "\r" in options.null, "NULL of COPY cannot contain a line break"),
        (lambda: delimiter in options.null, "the delimiter of COPY cannot be in its NULL"),
        (
            lambda: options.format == "text" and delimiter in _TEXT_RESERVED,
            f'the delimiter of COPY cannot be "{delimiter}"',
        ),
        (
            lambda: not (_single_byte(options.quote) and _single_byte(options.escape)),
            "QUOTE and ESCAPE are one character of one byte",
        ),
        (
            lambda: options.format == "csv" and options.quote in (delimiter, "\r", "\n"),
            "QUOTE differs from the delimiter",
        ),
        (
            lambda: options.format == "csv" and options.null != "" and options.quote in options.null,
            "QUOTE cannot be in NULL",
        ),
    )
    for fails, message in checks:
        if fails():
            raise PostgresError("22023", message)


def _single_byte(text: str) -> bool:
    return len(text) == 1 and text.isascii() and text != "\0"
