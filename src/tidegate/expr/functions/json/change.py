"""Changing JSON at a path: jsonb_set, jsonb_insert, `#-`; and jsonb_pretty, jsonb_object.

    jsonb_set('{"a": {"b": 1}}', '{a,b}', '2')             {"a": {"b": 2}}
    jsonb_insert('{"a": [0, 1]}', '{a,1}', '"new"')         {"a": [0, "new", 1]}
    '{"a": {"b": 1, "c": 2}}'::jsonb #- '{a,b}'             {"a": {"c": 2}}

Documents are decoded and encoded one by one (`primitives/json/change.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from tidegate.expr.model.function import HEAVY, NEVER, scalar
from tidegate.expr.model.outcome import Datum, Outcome
from tidegate.expr.model.types import BOOL, JSONB, TEXT, array
from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json.change import PathChange, encode_checked, indented, set_path
from tidegate.expr.primitives.row_loop import RowFailure, each_row

TEXTS = array(TEXT)
_changes = partial(scalar, result=JSONB, cost=HEAVY, stable=True)


def _changed(json: str, path: Sequence[str | None], value: str | None, change: PathChange) -> str:
    new = None if value is None else exact_json.decode(value)
    return encode_checked(set_path(exact_json.decode(json), path, new, change))


def _set(json: str, path: Sequence[str | None], value: str, create: bool = True) -> str:
    return _changed(json, path, value, PathChange.CREATE if create else PathChange.REPLACE)


@_changes("jsonb_set", (JSONB, TEXTS, JSONB))
def jsonb_set(json: Datum, path: Datum, value: Datum) -> Outcome:
    """JSON with the value at a path replaced, or created where only the last step is missing."""
    return each_row(_set, pa.string(), json, path, value)


@_changes("jsonb_set", (JSONB, TEXTS, JSONB, BOOL))
def jsonb_set_if(json: Datum, path: Datum, value: Datum, create: Datum) -> Outcome:
    """JSON with the value at a path replaced; created where it is missing if the last argument is true."""
    return each_row(_set, pa.string(), json, path, value, create)


def _insert(json: str, path: Sequence[str | None], value: str, after: bool = False) -> str:
    return _changed(json, path, value, PathChange.INSERT_AFTER if after else PathChange.INSERT_BEFORE)


@_changes("jsonb_insert", (JSONB, TEXTS, JSONB))
def jsonb_insert(json: Datum, path: Datum, value: Datum) -> Outcome:
    """JSON with a value inserted before an element of an array, or as a new key of an object."""
    return each_row(_insert, pa.string(), json, path, value)


@_changes("jsonb_insert", (JSONB, TEXTS, JSONB, BOOL))
def jsonb_insert_after(json: Datum, path: Datum, value: Datum, after: Datum) -> Outcome:
    """JSON with a value inserted before, or with true after, an element of an array."""
    return each_row(_insert, pa.string(), json, path, value, after)


@_changes("#-", (JSONB, TEXTS))
def delete_path(json: Datum, path: Datum) -> Outcome:
    """JSON without what is at a path."""
    return each_row(lambda j, p: _changed(j, p, None, PathChange.DELETE), pa.string(), json, path)


def _set_lax(
    json: str | None,
    path: Sequence[str | None] | None,
    value: str | None,
    create: bool | None = True,
    treatment: str | None = "use_json_null",
) -> str | None:
    if json is None or path is None or create is None:
        return None
    if value is not None and treatment is not None:
        return _set(json, path, value, create)
    match treatment:
        case "use_json_null":
            return _set(json, path, "null", create)
        case "delete_key":
            return _changed(json, path, None, PathChange.DELETE)
        case "return_target":
            return json
        case "raise_exception":
            raise RowFailure("JSON value must not be null")
        case _:
            raise RowFailure(
                'null_value_treatment must be "delete_key", "return_target", "use_json_null", or "raise_exception"'
            )


@_changes("jsonb_set_lax", (JSONB, TEXTS, JSONB), lenient=True)
@_changes("jsonb_set_lax", (JSONB, TEXTS, JSONB, BOOL), lenient=True)
@_changes("jsonb_set_lax", (JSONB, TEXTS, JSONB, BOOL, TEXT), lenient=True)
def jsonb_set_lax(*args: Datum) -> Outcome:
    """As jsonb_set; a NULL value is JSON null, or what the last argument says, as `delete_key`."""
    return each_row(_set_lax, pa.string(), *args, strict=False)


@scalar("jsonb_pretty", (JSONB,), TEXT, errors=NEVER, cost=HEAVY, stable=True)
def jsonb_pretty(json: Datum) -> Outcome:
    """The text of JSON with a line for each element, indented by four spaces a level."""
    return each_row(lambda text: indented(exact_json.decode(text)), pa.string(), json)


def _object(keys: Sequence[str | None], values: Sequence[str | None]) -> str:
    if len(keys) != len(values):
        raise RowFailure("mismatched array dimensions")
    if any(key is None for key in keys):
        raise RowFailure("null value not allowed for object key")
    return exact_json.encode(dict(zip(keys, values, strict=True)))  # type: ignore[arg-type]  # no key is None


def _object_of_pairs(pairs: Sequence[str | None]) -> str:
    if len(pairs) % 2:
        raise RowFailure("array must have even number of elements")
    return _object(pairs[::2], pairs[1::2])


@_changes("jsonb_object", (TEXTS,))
def jsonb_object_of_pairs(pairs: Datum) -> Outcome:
    """An object of texts from an array of keys and values in turn."""
    return each_row(_object_of_pairs, pa.string(), pairs)


@_changes("jsonb_object", (TEXTS, TEXTS))
def jsonb_object(keys: Datum, values: Datum) -> Outcome:
    """An object of texts from an array of keys and an array of values."""
    return each_row(_object, pa.string(), keys, values)
