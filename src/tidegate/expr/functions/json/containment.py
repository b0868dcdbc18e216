"""Containment of JSON: `@>` and `<@`.

An object contains an object if it has each of its keys, with a value that contains that key's value. An array
contains an array if each element of the latter is contained in one of its own. A scalar contains equal scalars.
As in PostgreSQL, an array at the top level also contains a scalar that is one of its elements:

| | @> | |
|---|---|---|
| `{"a": 1, "b": [1, 2]}` | `{"b": [2]}` | true |
| `[1, 2]` | `2` | true |
| `{"a": [1]}` | `{"a": 1}` | false |

A constant on the right is traversed once, and each of its parts is tested for all rows at once. If both sides
differ from row to row (and for `<@` with a constant object) rows are compared one by one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain import json_transfer as json_specs
from tidegate.expr.domain.claims import constant
from tidegate.expr.domain.specs import Specs
from tidegate.expr.model.function import HEAVY, NEVER, scalar
from tidegate.expr.model.outcome import Datum, length, spread, to_bools
from tidegate.expr.model.types import BOOL, JSONB, Type
from tidegate.expr.primitives.cancel import checked
from tidegate.expr.primitives.duckdb_kernels import duckdb_eval
from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json.exact import Json
from tidegate.expr.primitives.json.path import (
    KeyStep,
    PathRequest,
    extract,
    first_bytes,
    is_small_batch,
    rows_read_inexactly,
)


def _contains_transfer(out: Type, json: Specs, needle: Specs) -> Specs:
    """`@>` over containers: true only where the JSON statistics admit a constant."""
    value = constant(needle)
    if value is not None:
        return json_specs.contains(json, exact_json.decode(value.as_py()))
    has_rows = ~(json.empty | needle.empty)
    return Specs.boolean(has_rows, has_rows, json.null | needle.null, json.error | needle.error)


def _contained_transfer(out: Type, needle: Specs, json: Specs) -> Specs:
    """`a <@ b` over containers, as `b @> a`."""
    return _contains_transfer(out, json, needle)


@scalar("@>", (JSONB, JSONB), BOOL, errors=NEVER, transfer=_contains_transfer, cost=HEAVY, stable=True)
def contains(json: Datum, needle: Datum) -> pa.Array:
    """Whether the first JSON value contains the second."""
    n = length(json, needle)
    documents = spread(json, n)
    if isinstance(needle, pa.Scalar):
        if not needle.is_valid:
            return pa.nulls(n, pa.bool_())
        document = exact_json.decode(needle.as_py())
        matches = _all_contain(documents, document)
        if not isinstance(document, dict | list):
            matches |= _lists_with(documents, document)
        return pc.if_else(documents.is_valid(), pa.array(matches), pa.scalar(None, pa.bool_()))
    return pa.array(
        [_both(a, b) for a, b in checked(zip(documents.to_pylist(), needle.to_pylist(), strict=True))],
        pa.bool_(),
    )


@scalar("<@", (JSONB, JSONB), BOOL, errors=NEVER, transfer=_contained_transfer, cost=HEAVY, stable=True)
def contained(needle: Datum, json: Datum) -> pa.Array:
    """Whether the second JSON value contains the first."""
    n = length(json, needle)
    return contains(spread(json, n) if isinstance(json, pa.Scalar) else json, needle)


def _all_contain(documents: pa.Array, needle: Json) -> np.ndarray:
    """Which documents contain `needle`, without the exception at the top level; false where null."""
    result: np.ndarray
    if isinstance(needle, dict):
        result = first_bytes(documents) == ord("{")
        values = (
            extract(documents, [PathRequest((KeyStep(name),), as_text=False) for name in needle])
            if needle
            else []
        )
        for inner, part in zip(values, needle.values(), strict=True):
            result &= _all_contain(inner, part)
        return result
    if isinstance(needle, list):
        result = first_bytes(documents) == ord("[")
        rows = np.flatnonzero(result)
        if needle and len(rows):
            result[rows] = _hold_all(*elements_of(documents.take(pa.array(rows))), len(rows), needle)
        return result
    return to_bools(pc.equal(documents, exact_json.encode(needle)))


def _hold_all(elements: pa.Array, owner: np.ndarray, n: int, needle: list[Json]) -> np.ndarray:
    """Which of n lists, passed as their elements, contain all elements of the needle."""
    plain = {exact_json.encode(item) for item in needle if not isinstance(item, dict | list)}
    result: np.ndarray = np.ones(n, bool)
    if plain:
        code = pc.index_in(elements, value_set=pa.array(sorted(plain), pa.string()))
        known = to_bools(code.is_valid())
        pairs = owner[known] * len(plain) + code.drop_null().to_numpy().astype(np.int64)
        result = np.bincount(np.unique(pairs) // len(plain), minlength=n) == len(plain)
    nested = {exact_json.encode(item): item for item in needle if isinstance(item, dict | list)}
    for item_ in checked(nested.values(), every=1):
        result = result & (np.bincount(owner[_all_contain(elements, item_)], minlength=n) > 0)
    return result


def _lists_with(documents: pa.Array, needle: Json) -> np.ndarray:
    """Which documents are lists with an element that contains `wanted`."""
    rows = np.flatnonzero(first_bytes(documents) == ord("["))
    result = np.zeros(len(documents), bool)
    if len(rows):
        elements, owner = elements_of(documents.take(pa.array(rows)))
        result[rows[owner[_all_contain(elements, needle)]]] = True
    return result


def elements_of(lists: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """The elements of JSON lists in one array, and the list that each belongs to."""
    if is_small_batch(lists):
        items = [[exact_json.encode(item) for item in _items(items_)] for items_ in lists]
        flat = pa.array([item for items_ in items for item in items_], pa.string())
        return flat, np.repeat(np.arange(len(lists)), np.array([len(items_) for items_ in items], np.int64))
    extracted = duckdb_eval("json_extract(j, '$[*]')", pa.list_(pa.string()), j=lists)
    elements, sizes = extracted.flatten(), pc.list_value_length(extracted).to_numpy(zero_copy_only=False)
    owner = np.repeat(np.arange(len(lists)), sizes)
    exact = rows_read_inexactly(lists, np.arange(len(lists)))
    if not len(exact):
        return elements, owner
    exactly_read = ~np.isin(owner, exact)
    again = [[exact_json.encode(item) for item in _items(lists[int(row)])] for row in exact]
    flat = pa.array([item for items in again for item in items], pa.string())
    added = np.repeat(exact, [len(items) for items in again])
    order = np.argsort(np.concatenate([owner[exactly_read], added]), kind="stable")
    return (
        pa.concat_arrays([elements.filter(pa.array(exactly_read)), flat]).take(pa.array(order)),
        np.concatenate([owner[exactly_read], added])[order],
    )


def _items(text: pa.Scalar) -> list[Json]:
    value = exact_json.decode(text.as_py())
    return value if isinstance(value, list) else []


def _both(json: str | None, needle: str | None) -> bool | None:
    if json is None or needle is None:
        return None
    a, b = exact_json.decode(json), exact_json.decode(needle)
    if isinstance(a, list) and not isinstance(b, dict | list):
        return any(_one_contains(item, b) for item in a)
    return _one_contains(a, b)


def _one_contains(a: Json, b: Json) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return all(name in a and _one_contains(a[name], value) for name, value in b.items())
    if isinstance(a, list) and isinstance(b, list):
        plain = {(exact_json.type_name(mine), mine) for mine in a if not isinstance(mine, dict | list)}
        nested = [mine for mine in a if isinstance(mine, dict | list)]
        return all(
            any(_one_contains(mine, item) for mine in nested)
            if isinstance(item, dict | list)
            else (exact_json.type_name(item), item) in plain
            for item in checked(b)
        )
    return exact_json.type_name(a) == exact_json.type_name(b) and a == b and not isinstance(a, dict | list)
