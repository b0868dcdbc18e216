"""SQL/JSON paths: jsonb_path_exists, _match, _query, _query_array and _query_first, and `@?`, `@@`.

    jsonb_path_exists('{"a": [1, 2]}', '$.a[*] ? (@ > 1)')              true
    jsonb_path_query_array('{"a": [1, 2]}', '$.a[*] ? (@ > $x)', '{"x": 1}')   [2]
    FROM jsonb_path_query('{"a": [1, 2]}', '$.a[*]')                    two rows: the elements of the array that it gives here

A path is a text here, parsed once for all rows that share it; `primitives/jsonpath` lists what is supported of its language. With
the last argument true, and as an operator, errors give NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from tidegate.expr.model.function import HEAVY, scalar
from tidegate.expr.model.outcome import Datum, Outcome
from tidegate.expr.model.types import BOOL, JSONB, TEXT, Type, array
from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json.change import encode_checked
from tidegate.expr.primitives.jsonpath.execute import JsonPathRun, PathFailure
from tidegate.expr.primitives.jsonpath.parse import parse_jsonpath
from tidegate.expr.primitives.row_loop import RowFailure, each_row

_paths = partial(scalar, makes_null=True, cost=HEAVY, stable=True)


def _run(json: str, path: str, variables: str | None) -> JsonPathRun:
    parsed, document = parse_jsonpath(path), exact_json.decode(json)
    if variables is None:
        return JsonPathRun(parsed, document)
    known = exact_json.decode(variables)
    if not isinstance(known, dict):
        raise RowFailure('"vars" argument is not an object')
    return JsonPathRun(parsed, document, known)


def _silenced(compute: Callable[[JsonPathRun], Any], run: JsonPathRun, silent: bool) -> Any:
    try:
        return compute(run)
    except PathFailure:
        if not silent:
            raise
        return None


def _exists(json: str, path: str, variables: str | None = "{}", silent: bool = False) -> bool | None:
    def find(run: JsonPathRun) -> bool:
        if not run.lax:
            return bool(list(run.items()))
        return next((True for _ in run.items()), False)

    found: bool | None = _silenced(find, _run(json, path, variables), silent)
    return found


def _match(json: str, path: str, variables: str | None = "{}", silent: bool = False) -> bool | None:
    def decide(run: JsonPathRun) -> bool | None:
        found = list(run.items())
        if len(found) != 1 or not (found[0] is None or isinstance(found[0], bool)):
            raise PathFailure("single boolean result is expected")
        return found[0]

    answer: bool | None = _silenced(decide, _run(json, path, variables), silent)
    return answer


def _items_of(json: str, path: str, variables: str, silent: bool) -> list[Any]:
    """What a path finds; if it fails silently, what it has found until then."""
    items: list[Any] = []
    _silenced(lambda run: items.extend(run.items()), _run(json, path, variables), silent)
    return items


def _query_array(json: str, path: str, variables: str = "{}", silent: bool = False) -> str:
    return encode_checked(_items_of(json, path, variables, silent))


def _query_first(json: str, path: str, variables: str = "{}", silent: bool = False) -> str | None:
    items = _items_of(json, path, variables, silent)
    return exact_json.encode(items[0]) if items else None


def _query(json: str, path: str, variables: str = "{}", silent: bool = False) -> list[str]:
    return [exact_json.encode(item) for item in _items_of(json, path, variables, silent)]


def _declare(name: str, compute: Callable[..., Any], result: Type, doc: str, *, hidden: bool = False) -> None:
    """Declares a function of a document and a path, perhaps of variables, perhaps silent."""

    def kernel(*args: Datum) -> Outcome:
        return each_row(compute, result.arrow, *args)

    for params in ((JSONB, TEXT), (JSONB, TEXT, JSONB), (JSONB, TEXT, JSONB, BOOL)):
        _paths(name, params, result, doc=doc, hidden=hidden)(kernel)


_declare("jsonb_path_exists", _exists, BOOL, "Whether a jsonpath finds anything in JSON.")
_declare("jsonb_path_match", _match, BOOL, "The answer of a jsonpath that is a condition.")
_declare("jsonb_path_query_array", _query_array, JSONB, "What a jsonpath finds in JSON, as an array.")
_declare(
    "jsonb_path_query_first", _query_first, JSONB, "The first that a jsonpath finds in JSON; NULL if nothing."
)
_declare("jsonb_path_query", _query, array(JSONB), "What a jsonpath finds in JSON, a row each.", hidden=True)


@_paths("@?", (JSONB, TEXT), BOOL)
def path_exists(json: Datum, path: Datum) -> Outcome:
    """Whether a jsonpath finds anything in JSON; NULL if it fails."""
    return each_row(lambda j, p: _exists(j, p, None, silent=True), pa.bool_(), json, path)


@_paths("@@", (JSONB, TEXT), BOOL)
def path_match(json: Datum, path: Datum) -> Outcome:
    """The answer of a jsonpath that is a condition; NULL if it fails."""
    return each_row(lambda j, p: _match(j, p, None, silent=True), pa.bool_(), json, path)
