"""Parameters: values that stand for `$1` or `:name` in a text, as nodes of its syntax tree.

    Parameters.of([5, "a"])            $1, $2
    Parameters.of({"id": 5})           :id

A value never becomes part of the text: the grammar puts a node in the place of the parameter, with the parameter's place for
errors. Numbers, times and the like have the type of the Python value. A str is a string without a type, as `'…'` is: it takes the
type that its place requires, so it may be given for a date or a uuid.

| Python | SQL |
|---|---|
| None, bool, int, float | NULL, bool, int4 / int8 / numeric by size, float8 |
| Decimal | numeric with its digits |
| str | a string without a type |
| bytes, uuid.UUID | bytea, uuid |
| date, time, datetime | date, time, timestamp; timestamptz if the datetime has a zone |
| timedelta, tidegate.Interval | interval |
| list, tuple | an array |
| dict | jsonb |
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from tidegate.errors import BindError, LimitError, Position, TypeMismatch
from tidegate.expr.model import Type, types
from tidegate.sql.parse.lexer import Token
from tidegate.sql.parse.syntax import Cast, Constant, Items, Node, Span

MAX_VALUES = 65_535
MAX_DEPTH = 32
"""How deep lists of a value may be nested."""


@dataclass(frozen=True)
class TypedText:
    """A value of EXECUTE: its text, from which it is read as its declared type; None is NULL."""

    text: str | None
    type: Type


@dataclass(frozen=True)
class Parameters:
    """The values of one statement, by number or by name."""

    values: Mapping[str, Any]
    named: bool

    @staticmethod
    def of(values: Sequence[Any] | Mapping[str, Any]) -> Parameters:
        """From a list or tuple, whose first value is `$1`, or from a mapping."""
        if isinstance(values, Mapping):
            if not all(isinstance(name, str) for name in values):
                raise TypeMismatch("names of parameters must be texts")
            return Parameters(values, named=True)
        if not isinstance(values, list | tuple):
            kind = type(values).__name__
            raise TypeMismatch(f"parameters must be a list for $1, or a dict for :name, and are a {kind}")
        if len(values) > MAX_VALUES:
            raise LimitError(f"a statement has at most {MAX_VALUES:,} parameters")
        return Parameters({str(i): value for i, value in enumerate(values, 1)}, named=False)

    def tokens(self, sql: str, found: list[Token]) -> list[Token]:
        """Tokens with `:name` as one token, where names are used; inside of brackets a colon divides a slice."""
        if not self.named:
            return found
        result: list[Token] = []
        depth = 0
        for token in found:
            last = result[-1] if result else None
            depth += {"[": 1, "]": -1}.get(token.text, 0) if token.kind == "op" else 0
            joined = last is not None and last.kind == "op" and last.text == ":" and last.end == token.start
            if joined and last is not None and token.kind in ("word", "quoted"):
                name = sql[token.start : token.end] if token.kind == "word" else token.text
                if name in self.values or depth == 0:
                    result[-1] = Token("parameter", name, last.start, token.end)
                    continue
            result.append(token)
        return result

    def node(self, sql: str, token: Token) -> Node:
        """The value of a parameter as a node."""
        name = token.text if self.named else token.text.lstrip("0")
        if name not in self.values:
            shown = f":{name}" if self.named else f"${token.text[:20]}"
            known = ", ".join(f":{n}" for n in self.values) if self.named else f"{len(self.values)} values"
            raise BindError(
                f"there is no value for parameter {shown}",
                hint=f"given are: {known or 'none'}",
                position=Position(sql, token.start, token.end),
            )
        try:
            return _node(self.values[name], Span(token.start, token.end))
        except (TypeMismatch, LimitError) as error:
            error.position = Position(sql, token.start, token.end)
            raise


def _node(value: Any, at: Span, depth: int = 0) -> Node:
    if value is None:
        return Constant("null", "null", at)
    if isinstance(value, TypedText):
        node = Constant("null", "null", at) if value.text is None else Constant("string", value.text, at)
        return Cast((node,), value.type, at)
    if isinstance(value, str):
        if "\0" in value:
            raise TypeMismatch("a text cannot hold a NUL character")
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise TypeMismatch("a text cannot hold half of a surrogate pair")
        return Constant("string", value, at)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        if depth == MAX_DEPTH:
            raise LimitError(f"a value is nested more than {MAX_DEPTH} levels deep")
        return Items("array", tuple(_node(item, at, depth + 1) for item in value), at)
    type_, text = _typed_text(value)
    return Cast((Constant("string", text, at),), type_, at)


def _typed_text(value: Any) -> tuple[Type, str]:
    """The SQL type of a Python value, and the text that reads back as the same value."""
    match value:
        case bool():
            return types.BOOL, "true" if value else "false"
        case int():
            return _integer(value)
        case float():
            return types.FLOAT8, repr(float(value))
        case Decimal():
            return _decimal(value)
        case bytes() | bytearray() | memoryview():
            return types.BYTEA, "\\x" + bytes(value).hex()
        case uuid.UUID():
            return types.UUID, str(value)
        case datetime():
            return (types.TIMESTAMP if value.tzinfo is None else types.TIMESTAMPTZ), value.isoformat(" ")
        case date():
            return types.DATE, value.isoformat()
        case time(tzinfo=None):
            return types.TIME, value.isoformat()
        case timedelta():
            micros = value // timedelta(microseconds=1) - value.days * 86_400_000_000
            return types.INTERVAL, f"{value.days} days {micros} us"
        case (int(months), int(days), int(micros)) if hasattr(value, "microseconds"):
            return types.INTERVAL, f"{months} mons {days} days {micros} us"
        case dict():
            return types.JSONB, _json(value)
        case _ if (
            type(value).__module__ == "numpy" and hasattr(value, "item") and not hasattr(value, "__len__")
        ):
            return _typed_text(value.item())
        case _:
            raise TypeMismatch(f"a {type(value).__name__} cannot be a parameter")


def _integer(value: int) -> tuple[Type, str]:
    if -(2**31) <= value < 2**31:
        return types.INT4, str(value)
    if -(2**63) <= value < 2**63:
        return types.INT8, str(value)
    if abs(value) < 10**types.MAX_PRECISION:
        return types.numeric(len(str(abs(value))), 0), str(value)
    raise LimitError(f"a number has at most {types.MAX_PRECISION} digits")


def _decimal(value: Decimal) -> tuple[Type, str]:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise TypeMismatch(f"a numeric is never {value}")
    scale = max(-exponent, 0)
    whole = max(len(digits) + exponent, 0) if any(digits) else 0
    if whole + scale > types.MAX_PRECISION:
        raise LimitError(f"a number has at most {types.MAX_PRECISION} digits")
    return types.numeric(max(whole + scale, 1), scale), f"{value:f}"


def _json(value: dict[str, Any]) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeMismatch(f"a dict as a parameter must be JSON: {error}") from None
    except RecursionError:
        raise LimitError("a dict as a parameter is nested too deep") from None
