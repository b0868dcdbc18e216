"""Containment of JSON: `@>` and `<@`.

A map contains a map if it holds each of its keys with a value that contains that key's; a list contains a
list if each element of that is contained in one of its own; a scalar contains what is equal to it. As an
exception of PostgreSQL's, at the top a list also contains a scalar that is one of its elements:

| | @> | |
|---|---|---|
| `{"a": 1, "b": [1, 2]}` | `{"b": [2]}` | true |
| `[1, 2]` | `2` | true |
| `{"a": [1]}` | `{"a": 1}` | false |

A constant on the right is walked once, each of its parts being tested for all rows at once. Where both sides
differ from row to row (and for `<@` with a constant map) the rows are compared one by one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import exact_json, json_specs
from tidegate.expr.cancel import checked
from tidegate.expr.duck import duck
from tidegate.expr.exact_json import Json
from tidegate.expr.function import HEAVY, NEVER, scalar
from tidegate.expr.json_path import Key, Wanted, extract, few, first_letters, not_sure
from tidegate.expr.outcome import Datum, length, spread
from tidegate.expr.specs import Specs, to_bools
from tidegate.expr.types import BOOL, JSONB, Type


def _contains_transfer(out: Type, json: Specs, needle: Specs) -> Specs:
    """`@>` over containers: the lanes must admit a constant."""
    value = json_specs.constant(needle)
    if value is not None:
        return json_specs.contains(json, exact_json.decode(value.as_py()))
    some = ~(json.empty | needle.empty)
    return Specs.boolean(some, some, json.null | needle.null, json.error | needle.error)


def _contained_transfer(out: Type, needle: Specs, json: Specs) -> Specs:
    """`a <@ b` is `b @> a`."""
    return _contains_transfer(out, json, needle)


@scalar("@>", (JSONB, JSONB), BOOL, errors=NEVER, transfer=_contains_transfer, cost=HEAVY, stable=True)
def contains(json: Datum, needle: Datum) -> pa.Array:
    """Whether the first JSON value contains the second."""
    n = length(json, needle)
    documents = spread(json, n)
    if isinstance(needle, pa.Scalar):
        if not needle.is_valid:
            return pa.nulls(n, pa.bool_())
        wanted = exact_json.decode(needle.as_py())
        found = _all_contain(documents, wanted)
        if not isinstance(wanted, dict | list):
            found |= _lists_with(documents, wanted)
        return pc.if_else(documents.is_valid(), pa.array(found), pa.scalar(None, pa.bool_()))
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
    """Which of the documents contain `needle`, without the exception at the top; false where null."""
    result: np.ndarray
    if isinstance(needle, dict):
        result = first_letters(documents) == ord("{")
        values = (
            extract(documents, [Wanted((Key(name),), as_text=False) for name in needle]) if needle else []
        )
        for held, wanted in zip(values, needle.values(), strict=True):
            result &= _all_contain(held, wanted)
        return result
    if isinstance(needle, list):
        result = first_letters(documents) == ord("[")
        rows = np.flatnonzero(result)
        if needle and len(rows):
            result[rows] = _hold_all(*elements_of(documents.take(pa.array(rows))), len(rows), needle)
        return result
    return to_bools(pc.equal(documents, exact_json.encode(needle)))


def _hold_all(elements: pa.Array, owner: np.ndarray, n: int, needle: list[Json]) -> np.ndarray:
    """Which of n lists, given by their elements, hold all that the needle has; scalars are looked up all at once."""
    plain = {exact_json.encode(item) for item in needle if not isinstance(item, dict | list)}
    result: np.ndarray = np.ones(n, bool)
    if plain:
        code = pc.index_in(elements, value_set=pa.array(sorted(plain), pa.string()))
        known = to_bools(code.is_valid())
        pairs = owner[known] * len(plain) + code.drop_null().to_numpy().astype(np.int64)
        result = np.bincount(np.unique(pairs) // len(plain), minlength=n) == len(plain)
    nested = {exact_json.encode(item): item for item in needle if isinstance(item, dict | list)}
    for wanted in checked(nested.values(), every=1):
        result = result & (np.bincount(owner[_all_contain(elements, wanted)], minlength=n) > 0)
    return result


def _lists_with(documents: pa.Array, wanted: Json) -> np.ndarray:
    """Which of the documents are lists with an element that contains `wanted`."""
    rows = np.flatnonzero(first_letters(documents) == ord("["))
    result = np.zeros(len(documents), bool)
    if len(rows):
        elements, owner = elements_of(documents.take(pa.array(rows)))
        result[rows[owner[_all_contain(elements, wanted)]]] = True
    return result


def elements_of(lists: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """The elements of JSON lists as JSON, all in one array, and which list each belongs to."""
    if few(lists):
        items = [[exact_json.encode(item) for item in _items(one)] for one in lists]
        flat = pa.array([item for one in items for item in one], pa.string())
        return flat, np.repeat(np.arange(len(lists)), np.array([len(one) for one in items], np.int64))
    found = duck("json_extract(j, '$[*]')", pa.list_(pa.string()), j=lists)
    elements, sizes = found.flatten(), pc.list_value_length(found).to_numpy(zero_copy_only=False)
    owner = np.repeat(np.arange(len(lists)), sizes)
    exact = not_sure(lists, np.arange(len(lists)))
    if not len(exact):
        return elements, owner
    kept = ~np.isin(owner, exact)
    again = [[exact_json.encode(item) for item in _items(lists[int(row)])] for row in exact]
    flat = pa.array([item for items in again for item in items], pa.string())
    added = np.repeat(exact, [len(items) for items in again])
    order = np.argsort(np.concatenate([owner[kept], added]), kind="stable")
    return (
        pa.concat_arrays([elements.filter(pa.array(kept)), flat]).take(pa.array(order)),
        np.concatenate([owner[kept], added])[order],
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
