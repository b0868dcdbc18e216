r"""Changing JSON: `||`, `-` and jsonb_strip_nulls.

Two maps are merged, the right one winning; in all other cases both sides are taken as lists (what is none, as
a list of itself) and put one after the other. `-` takes keys out of maps, equal strings out of lists, or one
element by its index.

| | |
|---|---|
| `{"a": 1, "b": 2} \|\| {"b": 3}` | `{"a": 1, "b": 3}` |
| `[1] \|\| 2` | `[1, 2]` |
| `{"a": 1, "b": 2} - 'a'` | `{"b": 2}` |
| `["a", "b", "a"] - 'a'` | `["b"]` |
| `[1, 2, 3] - -1` | `[1, 2]` |

Canonical text allows most of this without parsing: the inside of a list is the text between its brackets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import exact_json
from tidegate.expr.canonical import canonical, quoted, replace_rows, within_depth
from tidegate.expr.duck import duck
from tidegate.expr.function import HEAVY, NEVER, scalar
from tidegate.expr.functions.json_contain import elements_of
from tidegate.expr.json_path import first_letters, not_sure
from tidegate.expr.outcome import Datum, Outcome, failing, first_error, length, spread, with_errors
from tidegate.expr.specs import to_bools
from tidegate.expr.types import INT4, JSONB, TEXT, array

_MAP, _LIST = ord("{"), ord("[")
_STRING = r'"(?:[^"\\]|\\.)*"'
_CLAIMS: dict[str, Any] = {"cost": HEAVY, "stable": True}


@scalar("||", (JSONB, JSONB), JSONB, **_CLAIMS)
def concat(a: Datum, b: Datum) -> Outcome:
    """Two maps merged, the right one winning; anything else as lists, one after the other."""
    n = length(a, b)
    a, b = spread(a, n), spread(b, n)
    first, second = first_letters(a), first_letters(b)
    maps = np.flatnonzero((first == _MAP) & (second == _MAP))
    left, right = _inside(a, first == _LIST), _inside(b, second == _LIST)
    both = pc.and_(pc.not_equal(left, ""), pc.not_equal(right, ""))
    comma = pc.if_else(both, ",", "")
    lists = within_depth(pc.binary_join_element_wise("[", left, comma, right, "]", ""))
    if not len(maps):
        return lists
    merged = _merged(a.take(pa.array(maps)), b.take(pa.array(maps)))
    return Outcome(replace_rows(lists.values, maps, merged), lists.errors)


def _inside(documents: pa.Array, mask: np.ndarray) -> pa.Array:
    """What is between the brackets where `mask` holds, else all of it."""
    return pc.if_else(pa.array(mask), pc.utf8_slice_codeunits(documents, 1, -1), documents)


def _merged(a: pa.Array, b: pa.Array) -> pa.Array:
    """Maps merged: written one after the other and made canonical, where the last of equal keys wins."""
    everywhere = np.ones(len(a), bool)
    left, right = _inside(a, everywhere), _inside(b, everywhere)
    comma = pc.if_else(pc.and_(pc.not_equal(left, ""), pc.not_equal(right, "")), ",", "")
    return canonical(pc.binary_join_element_wise("{", left, comma, right, "}", "")).values


@scalar("-", (JSONB, TEXT), JSONB, **_CLAIMS)
def delete_key(json: Datum, key: Datum) -> Outcome:
    """A map without a key, or a list without the strings that are equal to it."""
    n = length(json, key)
    keys = spread(key, n)
    one_each = pa.ListArray.from_arrays(pa.array(np.arange(n + 1), pa.int32()), keys)
    values, errors = delete_keys(json, one_each)
    return Outcome(pc.if_else(keys.is_valid(), values, pa.scalar(None, pa.string())), errors)


@scalar("-", (JSONB, array(TEXT)), JSONB, **_CLAIMS)
def delete_keys(json: Datum, keys: Datum) -> Outcome:
    """A map without some keys, or a list without the strings that are equal to one of them."""
    n = length(json, keys)
    documents, lists = spread(json, n), spread(keys, n)
    flat = lists.flatten()
    owner = np.repeat(
        np.arange(n), pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    )
    given = to_bools(flat.is_valid())
    names, owner = quoted(flat.filter(pa.array(given))), owner[given]
    letters = first_letters(documents)
    result = _without_keys(documents, letters == _MAP, names, owner)
    rows = np.flatnonzero(letters == _LIST)
    if len(rows):
        elements, of = elements_of(documents.take(pa.array(rows)))
        gone = to_bools(pc.is_in(_tagged(rows[of], elements), value_set=_tagged(owner, names)))
        result = replace_rows(result, rows, _lists(elements.filter(pa.array(~gone)), of[~gone], len(rows)))
    valid = to_bools(documents.is_valid())
    wrong = valid & (letters != _MAP) & (letters != _LIST)
    result = pc.if_else(lists.is_valid(), result, pa.scalar(None, pa.string()))
    return with_errors(result, failing(wrong, "cannot delete from scalar"))


def _tagged(owner: np.ndarray, texts: pa.Array) -> pa.Array:
    """Texts that are equal only if they belong to the same row too."""
    return pc.binary_join_element_wise(pa.array(owner).cast(pa.string()), texts, ":")


def _without_keys(documents: pa.Array, maps: np.ndarray, names: pa.Array, owner: np.ndarray) -> pa.Array:
    """Maps without the named keys, by a merge patch that sets them to null; other rows as they are."""
    rows = np.flatnonzero(maps & np.isin(np.arange(len(documents)), owner))
    if not len(rows):
        return documents
    nulls = pc.binary_join_element_wise(names, "null", ":")
    patches = pc.binary_join_element_wise(
        "{", pc.binary_join(_grouped(nulls, owner, len(documents)), ","), "}", ""
    )
    some = documents.take(pa.array(rows))
    done = duck("json_merge_patch(j, p)::VARCHAR", pa.string(), j=some, p=patches.take(pa.array(rows)))
    unsure = not_sure(some, np.arange(len(some)))
    if len(unsure):
        again = []
        for row in unsure:
            drop = {
                exact_json.decode(name) for name in names.filter(pa.array(owner == rows[row])).to_pylist()
            }
            document = exact_json.decode(some[int(row)].as_py())
            assert isinstance(document, dict)
            again.append(exact_json.encode({k: v for k, v in document.items() if k not in drop}))
        done = replace_rows(done, unsure, pa.array(again, pa.string()))
    return replace_rows(documents, rows, done)


def _grouped(values: pa.Array, owner: np.ndarray, n: int) -> pa.Array:
    """Values as one list for each owner; they come in the order of their owners."""
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=n))])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def _lists(elements: pa.Array, owner: np.ndarray, n: int) -> pa.Array:
    """JSON lists of the elements of each owner."""
    return pc.binary_join_element_wise("[", pc.binary_join(_grouped(elements, owner, n), ","), "]", "")


@scalar("-", (JSONB, INT4), JSONB, **_CLAIMS)
def delete_index(json: Datum, index: Datum) -> Outcome:
    """A list without the element at an index, counted from the end if negative."""
    n = length(json, index)
    documents, places = spread(json, n), spread(index, n)
    letters = first_letters(documents)
    rows = np.flatnonzero((letters == _LIST) & to_bools(places.is_valid()))
    result = documents
    if len(rows):
        elements, of = elements_of(documents.take(pa.array(rows)))
        sizes = np.bincount(of, minlength=len(rows))
        within = np.arange(len(of)) - (np.cumsum(sizes) - sizes)[of]
        at = places.take(pa.array(rows)).to_numpy(zero_copy_only=False).astype(np.int64)
        kept = within != np.where(at < 0, at + sizes, at)[of]
        result = replace_rows(documents, rows, _lists(elements.filter(pa.array(kept)), of[kept], len(rows)))
    valid = to_bools(documents.is_valid())
    maps = failing(letters == _MAP, "cannot delete from object using integer index")
    scalars = failing(valid & (letters != _MAP) & (letters != _LIST), "cannot delete from scalar")
    result = pc.if_else(places.is_valid(), result, pa.scalar(None, pa.string()))
    return with_errors(result, first_error(maps, scalars))


@scalar("jsonb_strip_nulls", (JSONB,), JSONB, errors=NEVER, **_CLAIMS)
def strip_nulls(json: Datum) -> pa.Array:
    """JSON without the keys, at any depth, whose value is null; elements of lists stay.

    Strings are matched whole, so `":null` inside of one is never taken for a key's value. Taking out the last
    key of a map leaves a comma before the brace, which a second pass drops.
    """
    rows = np.flatnonzero(to_bools(pc.match_substring(json, ":null")))
    if not len(rows):
        return json
    some = pc.replace_substring_regex(json.take(pa.array(rows)), rf"{_STRING}:null,?|({_STRING})", r"\1")
    some = pc.replace_substring_regex(some, rf"({_STRING})|,(\}})", r"\1\2")
    return replace_rows(json, rows, some)
