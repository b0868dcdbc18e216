"""Changes decoded JSON at a path: replace, insert, delete; and writes it with indentation.

    set_path({"a": [0, 1]}, ["a", "1"], 5, PathChange.CREATE)      {"a": [0, 5]}

A path is a list of texts: keys of objects, and positions in arrays, from the end if they are negative. What is not there is created
only as the last step of a path.

>>> set_path({"a": [0, 1]}, ["a", "-5"], 7, PathChange.CREATE)
{'a': [7, 0, 1]}
>>> set_path({"a": [0, 1]}, ["a", "0"], None, PathChange.DELETE)
{'a': [1]}
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import Any

from tidegate.config import MAX_NESTING
from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json.exact import Json
from tidegate.expr.primitives.row_loop import RowFailure

_INTEGER = re.compile(r"[ \t\n\r\f\v]*[+-]?[0-9]+\Z")


class PathChange(Enum):
    """What is done at the end of a path."""

    REPLACE = "replace"
    CREATE = "create"
    INSERT_BEFORE = "insert before"
    INSERT_AFTER = "insert after"
    DELETE = "delete"


_ADDING = (PathChange.CREATE, PathChange.INSERT_BEFORE, PathChange.INSERT_AFTER)


def set_path(document: Json, path: Sequence[str | None], value: Json, change: PathChange) -> Json:
    """`document` changed at `path`; raises RowFailure where PostgreSQL fails."""
    if not isinstance(document, dict | list):
        verb = "delete" if change is PathChange.DELETE else "set"
        raise RowFailure(f"cannot {verb} path in scalar")
    return _changed(document, path, 0, value, change) if path else document


def _changed(document: Json, path: Sequence[str | None], level: int, value: Json, change: PathChange) -> Json:
    step = path[level]
    if step is None:
        raise RowFailure(f"path element at position {level + 1} is null")
    if isinstance(document, dict):
        return _changed_map(document, step, path, level, value, change)
    if isinstance(document, list):
        return _changed_list(document, _position(step, level), path, level, value, change)
    return document


def _changed_map(
    document: dict[str, Any],
    key: str,
    path: Sequence[str | None],
    level: int,
    value: Json,
    change: PathChange,
) -> Json:
    is_last = level == len(path) - 1
    if key not in document:
        return document | {key: value} if is_last and change in _ADDING else document
    if not is_last:
        return document | {key: _changed(document[key], path, level + 1, value, change)}
    match change:
        case PathChange.DELETE:
            return {name: inner for name, inner in document.items() if name != key}
        case PathChange.INSERT_BEFORE | PathChange.INSERT_AFTER:
            raise RowFailure("cannot replace existing key")
        case _:
            return document | {key: value}


def _changed_list(
    document: list[Any], at: int, path: Sequence[str | None], level: int, value: Json, change: PathChange
) -> Json:
    is_last, size = level == len(path) - 1, len(document)
    place = at + size if at < 0 else at
    if not 0 <= place < size:
        if not is_last or change not in _ADDING:
            return document
        return [value, *document] if place < 0 else [*document, value]
    if not is_last:
        middle = [_changed(document[place], path, level + 1, value, change)]
    else:
        middle = {
            PathChange.DELETE: [],
            PathChange.INSERT_BEFORE: [value, document[place]],
            PathChange.INSERT_AFTER: [document[place], value],
        }.get(change, [value])
    return [*document[:place], *middle, *document[place + 1 :]]


def _position(step: str, level: int) -> int:
    if not _INTEGER.match(step) or not -(2**31) <= int(step) < 2**31:
        raise RowFailure(f'path element at position {level + 1} is not an integer: "{step}"')
    return int(step)


def encode_checked(document: Json) -> str:
    """The canonical text of a new document; raises RowFailure if it is nested too deeply."""
    text = exact_json.encode(document)
    if exact_json.depth_above(text, MAX_NESTING):
        raise RowFailure(exact_json.TOO_DEEP)
    return text


def indented(document: Json, depth: int = 0) -> str:
    """JSON with a line for each element and four spaces for each level."""
    if isinstance(document, dict):
        keys = sorted(document, key=exact_json.key_order)
        lines = [f"{exact_json.quote(key)}: {indented(document[key], depth + 1)}" for key in keys]
    elif isinstance(document, list):
        lines = [indented(item, depth + 1) for item in document]
    else:
        return exact_json.encode(document)
    opening, closing = "{}" if isinstance(document, dict) else "[]"
    inner, outer = "\n" + " " * 4 * (depth + 1), "\n" + " " * 4 * depth
    return opening + ",".join(inner + line for line in lines) + outer + closing
