"""PostgreSQL's order of jsonb by its rules, two documents at a time: the oracle for sort keys, and documents to try it on.

compare('9', '10')      # -1
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json.exact import Json

TYPES = ("null", "string", "number", "boolean", "array", "object")
"""The types of JSON values, from the least."""

TEXTS = (
    "",
    "a",
    "b",
    "aa",
    "ab",
    "A",
    "é",
    "z",
    "\n",
    "\x1f",
    '"',
    "\\",
    "/",
    "~",
    "\uffff",
    "😀",
    "10",
    "9",
    "null",
)
KEYS = ("a", "b", "aa", "", "é", "zz", "n", "\n", "😀")
NUMBERS = (
    "0", "1", "-1", "2", "9", "10", "11", "-9", "-10", "99", "100", "1000", "0.1", "0.01", "0.11", "0.5", "-0.5", "-0.05",
    "1.5", "1.05", "-1.5", "-1.55", "123456789012345678901234567890", "123456789012345678901234567891",
    "-123456789012345678901234567890.5", "0.000000000000000000001", "-0.000000000000000000001", "1e20", "1e100", "-1e100",
    "1e-100", "9007199254740993", "9007199254740992", "0.30000000000000004", "1.50", "10.0",
)  # fmt: skip


def documents(rng: np.random.Generator, count: int, depth: int = 3) -> list[str]:
    """Canonical documents in which equal values, equal prefixes and every type meet often."""
    return [exact_json.canonical_text(_written(rng, depth)) for _ in range(count)]


def _written(rng: np.random.Generator, depth: int) -> str:
    kind = int(rng.integers(0, 9 if depth else 6))
    if kind == 0:
        return str(rng.choice(["null", "true", "false"]))
    if kind in (1, 2):
        return exact_json.quote(str(rng.choice(TEXTS)))
    if kind in (3, 4):
        return str(rng.choice(NUMBERS))
    if kind == 5:
        return str(Decimal(int(rng.integers(-2000, 2000))).scaleb(-int(rng.integers(0, 4))))
    items = [_written(rng, depth - 1) for _ in range(int(rng.integers(0, 4)))]
    if kind in (6, 7):
        return f"[{','.join(items)}]"
    return "{" + ",".join(f"{exact_json.quote(str(rng.choice(KEYS)))}:{item}" for item in items) + "}"


def compare(a: str, b: str) -> int:
    """-1, 0 or 1 as the first document is less, equal or greater."""
    x, y = exact_json.decode(a), exact_json.decode(b)
    if (x == []) != (y == []) and not isinstance(x, dict) and not isinstance(y, dict):
        return -1 if x == [] else 1  # a scalar is stored as an array of one element, which is more than none
    return _compare(x, y)


def _compare(a: Json, b: Json) -> int:
    kinds = [TYPES.index(exact_json.type_name(value)) for value in (a, b)]
    if kinds[0] != kinds[1]:
        return _sign(*kinds)
    match a, b:
        case list(), list():
            return _sign(len(a), len(b)) or _first(a, b)
        case dict(), dict():
            left, right = _pairs(a), _pairs(b)
            return _sign(len(a), len(b)) or _first(left, right)
        case str(), str():
            return _sign(a.encode(), b.encode())
        case _:
            return _sign(a, b) if a is not None else 0


def _pairs(value: dict[str, Any]) -> list[Any]:
    """Keys and values in turn, in stored order: shorter keys first, then by bytes."""
    names = sorted(value, key=lambda name: (len(name.encode()), name.encode()))
    return [part for name in names for part in (name, value[name])]


def _first(a: Sequence[Any], b: Sequence[Any]) -> int:
    """The sign of the first pair that differs."""
    return next((sign for x, y in zip(a, b, strict=True) if (sign := _compare(x, y))), 0)


def _sign(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)
