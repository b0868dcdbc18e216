"""The syntax tree of a jsonpath.

$.a[*] ? (@.b > 1)      PathFilter(Elements(Key(PathRoot(), "a")), Comparison(">", Key(Current(), "b"), PathConstant(1)))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidegate.expr.primitives.json.exact import Json


@dataclass(frozen=True)
class PathRoot:
    """`$`: the document."""


@dataclass(frozen=True)
class Current:
    """`@`: the item that a filter is asked about."""


@dataclass(frozen=True)
class Last:
    """`last`: the position of the last element."""


@dataclass(frozen=True)
class Variable:
    """`$name`."""

    name: str


@dataclass(frozen=True)
class PathConstant:
    """A string, number, true, false or null."""

    value: Json


@dataclass(frozen=True)
class Key:
    """`.key`; None for `.*`."""

    base: Path
    name: str | None


@dataclass(frozen=True)
class Elements:
    """`[*]`."""

    base: Path


@dataclass(frozen=True)
class Descendants:
    """`.**` and `.**{2 to last}`: what lies so many levels below; None: `last`, where leaves are."""

    base: Path
    first: int | None
    final: int | None


@dataclass(frozen=True)
class Subscripts:
    """`[1, 3 to last]`: positions, and ranges of them."""

    base: Path
    ranges: tuple[tuple[Path, Path | None], ...]


@dataclass(frozen=True)
class Method:
    """`.size()` and the like."""

    base: Path
    name: str


@dataclass(frozen=True)
class PathFilter:
    """`? (condition)`."""

    base: Path
    condition: Condition


@dataclass(frozen=True)
class Arithmetic:
    """`a + b`; without `left` a sign."""

    operator: str
    left: Path | None
    right: Path


@dataclass(frozen=True)
class Comparison:
    """`a == b` and its kin, and `a starts with b`."""

    operator: str
    left: Path
    right: Path


@dataclass(frozen=True)
class LikeRegex:
    """`a like_regex "pattern" flag "i"`."""

    left: Path
    pattern: str
    options: str


@dataclass(frozen=True)
class Exists:
    """`exists (path)`."""

    path: Path


@dataclass(frozen=True)
class Logic:
    """`a && b`, `a || b`, `!a`, `(a) is unknown`."""

    operator: str
    args: tuple[Condition, ...]


Condition: TypeAlias = Comparison | LikeRegex | Exists | Logic
Path: TypeAlias = (
    PathRoot
    | Current
    | Last
    | Variable
    | PathConstant
    | Key
    | Elements
    | Descendants
    | Subscripts
    | Method
    | PathFilter
    | Arithmetic
    | Condition
)


@dataclass(frozen=True)
class JsonPath:
    """A whole path."""

    path: Path
    strict: bool
