"""The grammar of types: `int8`, `numeric(10, 2)`, `timestamp with time zone`, `int8[]`.

Also of what starts with a type: `DATE '2024-02-29'`, and `INTERVAL '1' DAY`, which is read as `'1
day'::interval`. An interval's text goes on as it stands, so `INTERVAL '1 day 02:03:04'` keeps all of its
parts.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from tidegate.errors import BindError, ErrorCode, LimitError, Position, TidegateError, UnsupportedError
from tidegate.expr.model import Type, types
from tidegate.sql.parse.lexer import Token
from tidegate.sql.parse.syntax import Cast, Constant, Span
from tidegate.sql.parse.token_cursor import TokenCursor

MAX_TYPE_NESTING = 32
"""Arrays of records of arrays …: PostgreSQL allows six dimensions, Parquet readers not many more levels."""

_TAILS: dict[str, list[tuple[str, ...]]] = {
    "double": [("precision",)],
    "character": [("varying",)],
    "timestamp": [("with", "time", "zone"), ("without", "time", "zone")],
    "time": [("without", "time", "zone"), ("with", "time", "zone")],
}


def type_name(c: TokenCursor, depth: int = 0) -> Type:
    """A type."""
    if depth > MAX_TYPE_NESTING:
        raise LimitError(
            f"a type is nested more than {MAX_TYPE_NESTING} levels deep", position=Position(c.sql, *c.span())
        )
    start = c.token.start
    found = _record(c, depth) if c.sees("row", "(") else _scalar(c)
    levels = 0
    while c.sees("[") or c.sees("array"):
        if c.next().text == "[":
            if c.token.kind == "number":
                c.integer("a size")  # PostgreSQL reads it and ignores it, too
            c.expect("]")
        found, levels = types.array(found), levels + 1
        if depth + levels > MAX_TYPE_NESTING:
            raise LimitError(
                "an array type has too many dimensions", position=Position(c.sql, *c.since(start))
            )
    return found


def _record(c: TokenCursor, depth: int) -> Type:
    c.expect("row", "(")
    fields = c.comma_list(lambda: (c.name("a field's name").text, type_name(c, depth + 1)))
    c.expect(")", of="a comma")
    names = [name for name, _ in fields]
    for name in names:
        if names.count(name) > 1:
            raise BindError(
                f'field "{name}" is given twice', position=Position(c.sql, *c.since(c.token.start))
            )
    return types.record(*fields)


def _scalar(c: TokenCursor) -> Type:
    start = c.token
    if start.kind != "word":
        raise c.fail("a type")
    spelled = c.next().text
    numbers = _numbers(c)
    for tail in _TAILS.get(spelled, ()):
        if c.eat(*tail):
            spelled = " ".join((spelled, *tail))
            break
    numbers = numbers or _numbers(c)
    at = Position(c.sql, *c.since(start.start))
    base = types.NAMES.get(spelled)
    if base is None:
        close = get_close_matches(spelled, types.NAMES, n=3)
        hint = (
            f"did you mean {' or '.join(close)}?"
            if close
            else f"known types: {', '.join(sorted(types.NAMES))}"
        )
        raise BindError(
            f'type "{spelled}" does not exist', code=ErrorCode.UNDEFINED_OBJECT, hint=hint, position=at
        )
    try:
        return types.refine(base, *numbers, c.sql[at.start : at.end]) if numbers else base
    except TidegateError as error:
        error.position = at
        raise


def _numbers(c: TokenCursor) -> tuple[int, int | None] | None:
    """What stands in parentheses behind a type's name."""
    if not c.sees("("):
        return None
    c.next()
    first = c.integer("a whole number")
    second = c.integer("a whole number") if c.eat(",") else None
    c.expect(")")
    return first, second


# ---------------------------------------------------------------- constants with their type


def starts_typed_constant(c: TokenCursor) -> bool:
    """Whether a type and then a string come next: `DATE '2024-02-29'`, `numeric(4, 1) '1.5'`."""
    if c.token.kind != "word" or c.token.text not in _STARTS:
        return False
    n = 1
    if c.sees("(", skip=n):
        closing = next((k for k in (n + 2, n + 4) if c.sees(")", skip=k)), None)
        if closing is None or c.ahead(n + 1).kind != "number":
            return False
        n = closing + 1
    for tail in _TAILS.get(c.token.text, ()):
        if c.sees(*tail, skip=n):
            n += len(tail)
            break
    return c.ahead(n).kind == "string"


_STARTS = frozenset(name.split()[0] for name in types.NAMES)


def typed_constant(c: TokenCursor) -> Cast:
    """A type and then a string; for an interval perhaps the unit behind it."""
    start = c.token
    type_ = type_name(c)
    token = c.next()
    at = Span(token.start, token.end)
    text = _with_unit(c, token) if type_ == types.INTERVAL else token.text
    return Cast((Constant("string", text, at),), type_, Span(start.start, start.end))


_UNITS = ("year", "month", "day", "hour", "minute", "second")
_RANGES = {
    ("year", "month"): r"[+-]?\d+-\d+",
    ("day", "minute"): r"[+-]?\d+ +[+-]?\d+:\d+",
    ("day", "second"): r"[+-]?\d+ +[+-]?\d+:\d+:\d+(\.\d+)?",
    ("hour", "minute"): r"[+-]?\d+:\d+",
    ("hour", "second"): r"[+-]?\d+:\d+:\d+(\.\d+)?",
}


def _with_unit(c: TokenCursor, token: Token) -> str:
    """The text of an interval with the unit that stands behind it: `'1' DAY`, `'1-2' YEAR TO MONTH`."""
    unit = c.eat_any(*_UNITS)
    if unit is None:
        return token.text
    last = c.eat_any(*_UNITS) if c.eat("to") else unit
    text = token.text.strip()
    if last == unit and re.fullmatch(r"[+-]?\d+", text):
        return f"{text} {unit}"
    if unit == last == "second" and re.fullmatch(r"[+-]?\d+\.\d+", text):
        return f"{text} second"
    if last is not None and re.fullmatch(_RANGES.get((unit, last), "(?!)"), text):
        return text
    raise UnsupportedError(
        f"'{token.text}' cannot be read with the unit {unit.upper()}"
        + (f" TO {last.upper()}" if last and last != unit else ""),
        hint="write the units in the string: INTERVAL '1 day 02:03:04'",
        position=Position(c.sql, *c.since(token.start)),
    )
