"""Decodes and encodes JSON exactly, one document at a time; defines canonical JSON.

This is the slow path for constants and for documents that the vectorised paths (`canonical.py`, `path.py`) cannot read exactly.
Numbers are `Decimal`, so none loses a digit; keys are sorted by the length of their UTF-8 and then by its bytes, as PostgreSQL
stores them; of equal keys the last one wins; numbers are written in plain digits without needless zeros, so that equal values have
equal bytes:

>>> canonical_text(' {"bb": 1.50, "a": 1e3, "a": -0} ')
'{"a":0,"bb":1.5}'

Errors have PostgreSQL's messages:

>>> canonical_text('[1,]')  # doctest: +IGNORE_EXCEPTION_DETAIL
Traceback (most recent call last):
...
tidegate.expr.primitives.json.exact.InvalidJson: invalid input syntax for type json

Nesting deeper than `MAX_NESTING` is an error too, detected before any recursion into the document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, NoReturn, TypeAlias

from tidegate.config import MAX_NESTING

Json: TypeAlias = "dict[str, Any] | list[Any] | str | Decimal | bool | None"
"""A decoded document."""

INVALID = "invalid input syntax for type json"
TOO_DEEP = "JSON is nested too deeply"
NO_ZERO_BYTE = "unsupported Unicode escape sequence"
OVERFLOW = "value overflows numeric format"
MAX_ZEROS = 1000
"""The most zeros that an exponent may expand to: 1e130000 is eight bytes, and 130 kB when written out."""


class InvalidJson(ValueError):  # noqa: N818  # its message becomes the error of a row
    """A document that is not valid JSON; the message is the row's error."""


def quote(text: str) -> str:
    """A string as JSON; only quotes, backslashes and control characters are escaped."""
    return _quote(text)


_quote: Callable[[str], str] = json.encoder.encode_basestring


@lru_cache(4096)  # a batch has few distinct keys
def key_order(key: str) -> tuple[int, bytes]:
    """The sort key of keys: shorter ones first, then by bytes."""
    raw = key.encode()
    return len(raw), raw


def number_text(number: Decimal) -> str:
    """A number in plain digits: no exponent, no trailing zeros, no negative zero."""
    if not number:
        return "0"
    plain = str(number)
    if "E" in plain:
        exponent = number.as_tuple().exponent
        if not isinstance(exponent, int) or exponent > MAX_ZEROS or number.adjusted() < -MAX_ZEROS:
            raise InvalidJson(OVERFLOW)
        plain = format(number, "f")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def decode(text: str) -> Json:
    """The decoded document with exact numbers; raises InvalidJson with the row's message."""
    if depth_above(text, MAX_NESTING):
        raise InvalidJson(TOO_DEEP)
    try:
        document: Json = _DECODER.decode(text)
    except InvalidJson:
        raise
    except ArithmeticError:
        raise InvalidJson(OVERFLOW) from None  # an exponent that even Decimal cannot hold
    except ValueError:
        raise InvalidJson(INVALID) from None
    except RecursionError:
        raise InvalidJson(TOO_DEEP) from None
    return document


def encode(value: Json) -> str:
    """The canonical text of a decoded document; its maps may be in any order."""
    kind = type(value)
    if kind is str:
        return _quote(value)  # type: ignore[arg-type]  # known by its class, which is faster than isinstance
    if kind is Decimal:
        return number_text(value)  # type: ignore[arg-type]  # likewise
    if isinstance(value, dict):
        keys = value if len(value) < 2 else sorted(value, key=key_order)
        return "{" + ",".join([f"{_quote(key)}:{encode(value[key])}" for key in keys]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([encode(item) for item in value]) + "]"
    return "null" if value is None else "true" if value else "false"


def canonical_text(text: str) -> str:
    """The canonical spelling of a document; raises InvalidJson with the row's message."""
    try:
        canonical = encode(decode(text))
        canonical.encode()
    except UnicodeEncodeError:
        # Python reads half of a surrogate pair as a character, which has no UTF-8.
        raise InvalidJson(INVALID) from None
    except RecursionError:
        raise InvalidJson(TOO_DEEP) from None
    if _ZERO_BYTE.search(canonical):
        raise InvalidJson(NO_ZERO_BYTE)
    return canonical


def depth_above(text: str, limit: int) -> bool:
    """Whether lists and maps are nested more than `limit` levels; does not recurse."""
    if text.count("[") + text.count("{") <= limit:
        return False
    depth = deepest = 0
    for token in _BRACKETS.finditer(text):
        match token[0]:
            case "[" | "{":
                depth += 1
                deepest = max(deepest, depth)
            case "]" | "}":
                depth -= 1
            case _:
                pass
    return deepest > limit


def type_name(value: Json) -> str:
    """The name that jsonb_typeof returns for a decoded value."""
    match value:
        case str():
            return "string"
        case dict():
            return "object"
        case list():
            return "array"
        case None:
            return "null"
        case bool():
            return "boolean"
        case _:
            return "number"


# Strings match as a whole, so that brackets inside them do not count.
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
# An escaped zero byte: the backslash before the u is not itself escaped.
_ZERO_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def _no_constant(_: str) -> NoReturn:
    """Rejects NaN and Infinity, which Python would accept."""
    raise InvalidJson(INVALID)


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal, parse_constant=_no_constant)
