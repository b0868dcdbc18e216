"""The elements, keys and members of JSON as arrays: what jsonb_array_elements and its kin take apart.

| table function | array |
|---|---|
| `jsonb_array_elements('[1, "a"]')` | `{1, "a"}` of jsonb |
| `jsonb_array_elements_text('[1, "a", null]')` | `{1,a,NULL}` of text |
| `jsonb_object_keys('{"a": 1, "b": 2}')` | `{a,b}` |
| `jsonb_each('{"a": 1}')` | `{(a,1)}`, records of a text and a jsonb |
| `jsonb_each_text('{"a": 1}')` | `{(a,1)}`, records of two texts |
| `jsonb_to_recordset('[{"a": 1}]')` | `{{"a": 1}}` of jsonb, all of them objects |
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from tidegate.expr.functions.cast.nested import make_lists, make_records, valid_rows
from tidegate.expr.functions.json.containment import elements_of
from tidegate.expr.model.function import HEAVY, scalar
from tidegate.expr.model.outcome import Errors, Outcome, failing, first_error, with_errors
from tidegate.expr.model.types import JSONB, TEXT, Type, array, record
from tidegate.expr.primitives.cancel import checked
from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json.path import first_bytes, to_text

_MAP, _LIST = ord("{"), ord("[")
_lists = partial(scalar, params=(JSONB,), hidden=True, cost=HEAVY)


def _elements(documents: pa.Array, errors: Errors) -> tuple[pa.Array, np.ndarray, Outcome]:
    """The elements of the arrays, the row of each, and the arrays of them with errors for the others."""
    rows = np.flatnonzero(first_bytes(documents) == _LIST)
    flat, owner = pa.nulls(0, pa.string()), np.zeros(0, np.int64)
    if len(rows):
        flat, of = elements_of(documents.take(pa.array(rows)))
        owner = rows[of]
    sizes = np.bincount(owner, minlength=len(documents)).astype(np.int64)
    return flat, owner, with_errors(make_lists(flat, sizes, valid_rows(documents)), errors)


def _not_arrays(documents: pa.Array, objects: str, scalars: str) -> Errors:
    letters, valid = first_bytes(documents), valid_rows(documents)
    return first_error(
        failing(valid & (letters == _MAP), objects),
        failing(valid & (letters != _MAP) & (letters != _LIST), scalars),
    )


@_lists("jsonb_array_elements", result=array(JSONB))
def array_elements(json: pa.Array) -> Outcome:
    """The elements of a JSON array."""
    errors = _not_arrays(
        json, "cannot extract elements from an object", "cannot extract elements from a scalar"
    )
    return _elements(json, errors)[2]


@_lists("jsonb_array_elements_text", result=array(TEXT))
def array_elements_text(json: pa.Array) -> Outcome:
    """The elements of a JSON array as text: a string without its quotes, null as NULL."""
    values, errors = array_elements(json)
    return Outcome(_of_texts(values), errors)


def _of_texts(lists: pa.Array) -> pa.Array:
    """Arrays of JSON as arrays of its text."""
    return pa.ListArray.from_arrays(
        lists.offsets, to_text(lists.values), mask=lists.is_null() if lists.null_count else None
    )


@_lists("jsonb records", result=array(JSONB))
def objects(json: pa.Array) -> Outcome:
    """The elements of a JSON array, which must be objects."""
    errors = _not_arrays(
        json, "cannot call jsonb_to_recordset on an object", "cannot call jsonb_to_recordset on a scalar"
    )
    flat, owner, (values, wrong) = _elements(json, errors)
    other = np.isin(np.arange(len(json)), owner[first_bytes(flat) != _MAP])
    failed = failing(other, "argument of jsonb_to_recordset must be an array of objects")
    return with_errors(values, first_error(wrong, failed))


@_lists("jsonb record", result=array(JSONB))
def object_alone(json: pa.Array) -> Outcome:
    """An array of one JSON object."""
    valid = valid_rows(json)
    lists = make_lists(json.filter(pa.array(valid)), valid.astype(np.int64), valid)
    other = valid & (first_bytes(json) != _MAP)
    return with_errors(lists, failing(other, "cannot call jsonb_to_record on a non-object"))


# ---------------------------------------------------------------- members of objects


def _members(documents: pa.Array, what: str) -> tuple[list[str], list[str], np.ndarray, Errors]:
    """The keys and values of all objects, how many each has, and errors for what is none.

    Documents are read one by one, as in the casts of JSON: a key may have any escape.
    """
    letters, valid = first_bytes(documents), valid_rows(documents)
    sizes = np.zeros(len(documents), np.int64)
    keys: list[str] = []
    values: list[str] = []
    for row in checked(np.flatnonzero(valid & (letters == _MAP)).tolist()):
        document = exact_json.decode(documents[row].as_py())
        assert isinstance(document, dict)
        sizes[row] = len(document)
        keys += document
        values += map(exact_json.encode, document.values())
    wrong = first_error(
        failing(valid & (letters == _LIST), f"cannot call {what} on an array"),
        failing(valid & (letters != _MAP) & (letters != _LIST), f"cannot call {what} on a scalar"),
    )
    return keys, values, sizes, wrong


@_lists("jsonb_object_keys", result=array(TEXT))
def object_keys(json: pa.Array) -> Outcome:
    """The keys of a JSON object."""
    keys, _, sizes, wrong = _members(json, "jsonb_object_keys")
    return with_errors(make_lists(pa.array(keys, pa.string()), sizes, valid_rows(json)), wrong)


def _pairs(json: pa.Array, out: Type, what: str) -> Outcome:
    keys, values, sizes, wrong = _members(json, what)
    element = out.element
    assert element is not None
    texts = pa.array(values, pa.string())
    second = to_text(texts) if element.fields[1][1] == TEXT else texts
    flat = make_records([pa.array(keys, pa.string()), second], element)
    return with_errors(make_lists(flat, sizes, valid_rows(json)), wrong)


@_lists("jsonb_each", result=array(record(("key", TEXT), ("value", JSONB))))
def each(json: pa.Array, out: Type) -> Outcome:
    """The keys and values of a JSON object."""
    return _pairs(json, out, "jsonb_each")


@_lists("jsonb_each_text", result=array(record(("key", TEXT), ("value", TEXT))))
def each_text(json: pa.Array, out: Type) -> Outcome:
    """The keys and values of a JSON object, the values as text."""
    return _pairs(json, out, "jsonb_each_text")
