r"""Changing JSON: `||`, `-` and jsonb_strip_nulls.

`||` merges two objects, the right one winning; otherwise it concatenates both sides as arrays (anything else
counts as an array of itself). `-` removes keys from objects, equal strings from arrays, or one element by index.

| | |
|---|---|
| `{"a": 1, "b": 2} \|\| {"b": 3}` | `{"a": 1, "b": 3}` |
| `[1] \|\| 2` | `[1, 2]` |
| `{"a": 1, "b": 2} - 'a'` | `{"b": 2}` |
| `["a", "b", "a"] - 'a'` | `["b"]` |
| `[1, 2, 3] - -1` | `[1, 2]` |

Canonical text allows most of this without parsing: the elements of an array are the text between its brackets.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.functions.json.containment import elements_of
from tidegate.expr.model.function import HEAVY, NEVER, scalar
from tidegate.expr.model.outcome import (
    Datum,
    Outcome,
    failing,
    first_error,
    length,
    spread,
    to_bools,
    with_errors,
)
from tidegate.expr.model.types import INT4, JSONB, TEXT, array
from tidegate.expr.primitives.duckdb_kernels import duckdb_eval
from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json.canonical import quote_strings, replace_rows, to_canonical, within_depth
from tidegate.expr.primitives.json.path import first_bytes, rows_read_inexactly

_MAP, _LIST = ord("{"), ord("[")
_STRING = r'"(?:[^"\\]|\\.)*"'
_edits = partial(scalar, result=JSONB, cost=HEAVY, stable=True)


@_edits("||", (JSONB, JSONB))
def concat(a: Datum, b: Datum) -> Outcome:
    """Two objects merged, the right one winning; anything else is concatenated as arrays."""
    n = length(a, b)
    a, b = spread(a, n), spread(b, n)
    first, second = first_bytes(a), first_bytes(b)
    maps = np.flatnonzero((first == _MAP) & (second == _MAP))
    left, right = _inside(a, first == _LIST), _inside(b, second == _LIST)
    both = pc.and_(pc.not_equal(left, ""), pc.not_equal(right, ""))
    comma = pc.if_else(both, ",", "")
    lists = within_depth(pc.binary_join_element_wise("[", left, comma, right, "]", ""))
    if not len(maps):
        return lists
    merged = _merge_maps(a.take(pa.array(maps)), b.take(pa.array(maps)))
    return Outcome(replace_rows(lists.values, maps, merged), lists.errors)


def _inside(documents: pa.Array, mask: np.ndarray) -> pa.Array:
    """The text between the brackets where `mask` holds, otherwise all of it."""
    return pc.if_else(pa.array(mask), pc.utf8_slice_codeunits(documents, 1, -1), documents)


def _merge_maps(a: pa.Array, b: pa.Array) -> pa.Array:
    """Objects written one after the other and made canonical, so that the last of equal keys wins."""
    everywhere = np.ones(len(a), bool)
    left, right = _inside(a, everywhere), _inside(b, everywhere)
    comma = pc.if_else(pc.and_(pc.not_equal(left, ""), pc.not_equal(right, "")), ",", "")
    return to_canonical(pc.binary_join_element_wise("{", left, comma, right, "}", "")).values


@_edits("-", (JSONB, TEXT))
def delete_key(json: Datum, key: Datum) -> Outcome:
    """An object without a key, or an array without the strings equal to it."""
    n = length(json, key)
    keys = spread(key, n)
    one_each = pa.ListArray.from_arrays(pa.array(np.arange(n + 1), pa.int32()), keys)
    values, errors = delete_keys(json, one_each)
    return Outcome(pc.if_else(keys.is_valid(), values, pa.scalar(None, pa.string())), errors)


@_edits("-", (JSONB, array(TEXT)))
def delete_keys(json: Datum, keys: Datum) -> Outcome:
    """An object without several keys, or an array without the strings equal to one of them."""
    n = length(json, keys)
    documents, lists = spread(json, n), spread(keys, n)
    flat = lists.flatten()
    owner = np.repeat(
        np.arange(n), pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    )
    valid_key = to_bools(flat.is_valid())
    names, owner = quote_strings(flat.filter(pa.array(valid_key))), owner[valid_key]
    letters = first_bytes(documents)
    result = _without_keys(documents, letters == _MAP, names, owner)
    rows = np.flatnonzero(letters == _LIST)
    if len(rows):
        elements, of = elements_of(documents.take(pa.array(rows)))
        gone = to_bools(pc.is_in(_tag_with_row(rows[of], elements), value_set=_tag_with_row(owner, names)))
        result = replace_rows(
            result, rows, _json_lists(elements.filter(pa.array(~gone)), of[~gone], len(rows))
        )
    valid = to_bools(documents.is_valid())
    wrong = valid & (letters != _MAP) & (letters != _LIST)
    result = pc.if_else(lists.is_valid(), result, pa.scalar(None, pa.string()))
    return with_errors(result, failing(wrong, "cannot delete from scalar"))


def _tag_with_row(owner: np.ndarray, texts: pa.Array) -> pa.Array:
    """Texts that are equal only if they also belong to the same row."""
    return pc.binary_join_element_wise(pa.array(owner).cast(pa.string()), texts, ":")


def _without_keys(documents: pa.Array, maps: np.ndarray, names: pa.Array, owner: np.ndarray) -> pa.Array:
    """Objects without the named keys, by a merge patch that sets them to null; other rows unchanged."""
    rows = np.flatnonzero(maps & np.isin(np.arange(len(documents)), owner))
    if not len(rows):
        return documents
    nulls = pc.binary_join_element_wise(names, "null", ":")
    patches = pc.binary_join_element_wise(
        "{", pc.binary_join(_group_by_owner(nulls, owner, len(documents)), ","), "}", ""
    )
    objects = documents.take(pa.array(rows))
    patched = duckdb_eval(
        "json_merge_patch(j, p)::VARCHAR", pa.string(), j=objects, p=patches.take(pa.array(rows))
    )
    unsure = rows_read_inexactly(objects, np.arange(len(objects)))
    if len(unsure):
        reread = []
        for row in unsure:
            drop = {
                exact_json.decode(name) for name in names.filter(pa.array(owner == rows[row])).to_pylist()
            }
            document = exact_json.decode(objects[int(row)].as_py())
            assert isinstance(document, dict)
            reread.append(exact_json.encode({k: v for k, v in document.items() if k not in drop}))
        patched = replace_rows(patched, unsure, pa.array(reread, pa.string()))
    return replace_rows(documents, rows, patched)


def _group_by_owner(values: pa.Array, owner: np.ndarray, n: int) -> pa.Array:
    """Values as one list per owner; they are sorted by owner."""
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=n))])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def _json_lists(elements: pa.Array, owner: np.ndarray, n: int) -> pa.Array:
    """JSON lists of the elements of each owner."""
    return pc.binary_join_element_wise("[", pc.binary_join(_group_by_owner(elements, owner, n), ","), "]", "")


@_edits("-", (JSONB, INT4))
def delete_index(json: Datum, index: Datum) -> Outcome:
    """An array without the element at an index (negative: from the end)."""
    n = length(json, index)
    documents, places = spread(json, n), spread(index, n)
    letters = first_bytes(documents)
    rows = np.flatnonzero((letters == _LIST) & to_bools(places.is_valid()))
    result = documents
    if len(rows):
        elements, of = elements_of(documents.take(pa.array(rows)))
        sizes = np.bincount(of, minlength=len(rows))
        within = np.arange(len(of)) - (np.cumsum(sizes) - sizes)[of]
        at = places.take(pa.array(rows)).to_numpy(zero_copy_only=False).astype(np.int64)
        stays = within != np.where(at < 0, at + sizes, at)[of]
        result = replace_rows(
            documents, rows, _json_lists(elements.filter(pa.array(stays)), of[stays], len(rows))
        )
    valid = to_bools(documents.is_valid())
    maps = failing(letters == _MAP, "cannot delete from object using integer index")
    scalars = failing(valid & (letters != _MAP) & (letters != _LIST), "cannot delete from scalar")
    result = pc.if_else(places.is_valid(), result, pa.scalar(None, pa.string()))
    return with_errors(result, first_error(maps, scalars))


@_edits("jsonb_strip_nulls", (JSONB,), errors=NEVER)
def strip_nulls(json: Datum) -> pa.Array:
    """JSON without object keys whose value is null, at any depth; array elements stay.

    Strings are matched as a whole, so `":null` inside a string is never mistaken for a key's value. Removing the last
    key of an object leaves a comma before the brace, which a second pass removes.
    """
    rows = np.flatnonzero(to_bools(pc.match_substring(json, ":null")))
    if not len(rows):
        return json
    stripped = pc.replace_substring_regex(json.take(pa.array(rows)), rf"{_STRING}:null,?|({_STRING})", r"\1")
    stripped = pc.replace_substring_regex(stripped, rf"({_STRING})|,(\}})", r"\1\2")
    return replace_rows(json, rows, stripped)
