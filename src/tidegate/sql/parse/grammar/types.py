"""The grammar of types: `int8`, `numeric(10, 2)`, `timestamp with time zone`, `int8[]`.

Also of what starts with a type: `DATE '2024-02-29'`, and `INTERVAL '1' DAY`. In casts and constants a time type may have a
modifier (`timestamp(3)`, `interval day to second`); a column may not, as times are stored in microseconds.
"""

from __future__ import annotations

from difflib import get_close_matches

from tidegate.errors import BindError, ErrorCode, LimitError, Position, TidegateError
from tidegate.expr.model import Type, types
from tidegate.sql.parse.modifiers import MAX_DIGITS, TypeModifier
from tidegate.sql.parse.syntax import Cast, Node, Span
from tidegate.sql.parse.token_cursor import TokenCursor

MAX_TYPE_NESTING = 32
"""Arrays of records of arrays …: PostgreSQL allows six dimensions, Parquet readers not many more levels."""

_TAILS: dict[str, list[tuple[str, ...]]] = {
    "double": [("precision",)],
    "character": [("varying",)],
    "timestamp": [("with", "time", "zone"), ("without", "time", "zone")],
    "time": [("without", "time", "zone"), ("with", "time", "zone")],
}


def cast_to(c: TokenCursor, value: Node, at: Span) -> Cast:
    """The cast of a value to the type that comes next, which may have a modifier."""
    type_, modifier = _modified_type(c)
    if modifier is None:
        return Cast((value,), type_name(c) if type_ is None else type_, at)
    if c.sees("["):
        raise c.fail("no array, as the type has a modifier")
    assert type_ is not None
    return Cast((value,), type_, at, modifier)


def _modified_type(c: TokenCursor) -> tuple[Type | None, TypeModifier | None]:
    """A time type and its modifier; nothing is taken if what comes next is no such type."""
    start, name = c.i, c.token.text
    if c.token.kind != "word" or name not in _WITH_DIGITS:
        return None, None
    c.next()
    digits = c.integer("a whole number") if c.eat("(") else None
    if digits is not None:
        c.expect(")")
    for tail in _TAILS.get(name, ()):
        if c.eat(*tail):
            name = " ".join((name, *tail))
            break
    fields, seconds = interval_fields(c) if name == "interval" else (None, None)
    digits = seconds if digits is None else digits
    if (digits is None and fields is None) or name not in types.NAMES or c.sees("["):
        c.i = start
        return None, None
    # As PostgreSQL does, with a warning: more digits than there are is as many as there are.
    return types.NAMES[name], TypeModifier(fields, None if digits is None else min(digits, MAX_DIGITS))


def interval_fields(c: TokenCursor) -> tuple[str | None, int | None]:
    """The fields behind an interval, `DAY TO SECOND(3)`: their words, and the digits of seconds."""
    first = c.eat_any(*_FIELDS)
    if first is None:
        return None, None
    last = first
    if c.eat("to"):
        found = c.eat_any(*_FIELDS_BEHIND[first])
        if found is None:
            raise c.fail(
                " or ".join(map(str.upper, _FIELDS_BEHIND[first])) or f"nothing behind {first.upper()}"
            )
        last = found
    digits = None
    if last == "second" and c.eat("("):
        digits = c.integer("a whole number")
        c.expect(")")
    return (first if last == first else f"{first} TO {last}").upper(), digits


_WITH_DIGITS = frozenset(("timestamp", "timestamptz", "time", "interval"))
_FIELDS = ("year", "month", "day", "hour", "minute", "second")
_FIELDS_BEHIND = {
    "year": ("month",), "month": (), "day": ("hour", "minute", "second"), "hour": ("minute", "second"), "minute": ("second",),
    "second": (),
}  # fmt: skip


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
    if base is None and spelled in _PADDED:
        hint = f"use {'varchar(n)' if numbers is None else f'varchar({numbers[0]})'} or text"
        raise BindError(
            f"type {spelled}, which is padded with blanks, is not supported", hint=hint, position=at
        )
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


_PADDED = frozenset(("char", "character", "bpchar", "nchar"))
_STARTS = frozenset(name.split()[0] for name in types.NAMES)


def typed_constant(c: TokenCursor) -> Cast:
    """A type and then a string; for an interval perhaps the fields behind it."""
    start = c.token
    at = Span(start.start, start.end)
    type_, modifier = _modified_type(c)
    type_ = type_name(c) if type_ is None else type_
    value = c.constant(c.next())
    if type_ == types.INTERVAL and modifier is None:
        fields, digits = interval_fields(c)
        modifier = None if fields is None else TypeModifier(fields, digits)
    return Cast((value,), type_, at, modifier)
