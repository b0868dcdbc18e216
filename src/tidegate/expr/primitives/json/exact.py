"""JSON in Python, exactly, one document at a time: the slow path that defines what canonical JSON is.

Documents that the vectorised paths (`canonical.py`, `functions/json_path.py`) cannot vouch for come here, and
so do constants. Numbers are `Decimal`, so none loses a digit; keys are sorted by the length of their UTF-8
and then by its bytes, as PostgreSQL stores them; of equal keys the last one wins; a number is spelled in
plain digits without needless zeros, so that equal values have equal bytes:

>>> canonical_text(' {"bb": 1.50, "a": 1e3, "a": -0} ')
'{"a":0,"bb":1.5}'

What is wrong with a document is said in PostgreSQL's words:

>>> canonical_text('[1,]')  # doctest: +IGNORE_EXCEPTION_DETAIL
Traceback (most recent call last):
...
tidegate.expr.exact_json.BadJson: invalid input syntax for type json

Nesting deeper than `max_nesting` is such an error too, found before anything recurses into the document.
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
"""Zeros that an exponent may stand for: 1e130000 is eight bytes, and 130 kB when it is spelled out."""


class BadJson(ValueError):  # noqa: N818  # it is the row that has the error
    """A document that is not JSON as we keep it; the message is the row's error."""


def quote(text: str) -> str:
    """A string as JSON, escaping only what must be: quotes, backslashes and control characters."""
    return _quote(text)


_quote: Callable[[str], str] = json.encoder.encode_basestring


@lru_cache(4096)  # the keys of a batch are few
def key_order(key: str) -> tuple[int, bytes]:
    """What keys are sorted by: shorter ones first, then by bytes."""
    raw = key.encode()
    return len(raw), raw


def spell(number: Decimal) -> str:
    """A number in plain digits: no exponent, no zeros that say nothing, no minus before zero."""
    if not number:
        return "0"
    plain = str(number)
    if "E" in plain:
        exponent = number.as_tuple().exponent
        if not isinstance(exponent, int) or exponent > MAX_ZEROS or number.adjusted() < -MAX_ZEROS:
            raise BadJson(OVERFLOW)
        plain = format(number, "f")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def decode(text: str) -> Json:
    """The document, numbers exact; raises BadJson with the row's message."""
    if depth_above(text, MAX_NESTING):
        raise BadJson(TOO_DEEP)
    try:
        found: Json = _DECODER.decode(text)
    except BadJson:
        raise
    except ArithmeticError:
        raise BadJson(OVERFLOW) from None  # an exponent that not even Decimal can hold
    except ValueError:
        raise BadJson(INVALID) from None
    except RecursionError:
        raise BadJson(TOO_DEEP) from None
    return found


def encode(value: Json) -> str:
    """The canonical text of a decoded document; its maps may be in any order."""
    kind = type(value)
    if kind is str:
        return _quote(value)  # type: ignore[arg-type]  # told by its kind, faster than isinstance
    if kind is Decimal:
        return spell(value)  # type: ignore[arg-type]  # likewise
    if isinstance(value, dict):
        keys = value if len(value) < 2 else sorted(value, key=key_order)
        return "{" + ",".join([f"{_quote(key)}:{encode(value[key])}" for key in keys]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([encode(item) for item in value]) + "]"
    return "null" if value is None else "true" if value else "false"


def canonical_text(text: str) -> str:
    """The canonical spelling of a document; raises BadJson with the row's message."""
    try:
        canonical = encode(decode(text))
        canonical.encode()
    except UnicodeEncodeError:
        # Python reads half of a surrogate pair as a character; there is no UTF-8 for it.
        raise BadJson(INVALID) from None
    except RecursionError:
        raise BadJson(TOO_DEEP) from None
    if _ZERO_BYTE.search(canonical):
        raise BadJson(NO_ZERO_BYTE)
    return canonical


def depth_above(text: str, limit: int) -> bool:
    """Whether lists and maps are nested more than `limit` levels, told without recursion."""
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
    """What jsonb_typeof says of a decoded value."""
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


# Strings are matched whole, so that brackets inside them do not count.
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
# An escaped zero byte: the backslash before the u is not itself escaped.
_ZERO_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def _no_constant(_: str) -> NoReturn:
    """NaN and Infinity, which Python would take."""
    raise BadJson(INVALID)


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal, parse_constant=_no_constant)
