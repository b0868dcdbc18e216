"""The range of sort keys of JSON in each container: what decides `payload -> 'n' > '9'` over parts.

A key begins with a byte for the JSON type (`primitives/json/sort_key.py`), so the values of each type are one stretch of keys, and
the lanes of a `JsonDomain` give the bounds of each stretch:

| in a part | keys | `> '9'` |
|---|---|---|
| numbers 1 .. 8 | 1 .. 8 | false |
| numbers 1 .. 8, strings | the least string .. 8 | false: strings are less than numbers |
| numbers 1 .. 8, true | 1 .. true | may be true |
| numbers of unknown bounds | all numbers | may be true |

The bounds of all types together are those of the lowest and the highest stretch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.json_domain import JsonRange
from tidegate.expr.domain.json_transfer import domain_of
from tidegate.expr.domain.specs import Specs
from tidegate.expr.model.types import BYTEA
from tidegate.expr.primitives.json import sort_key


def sort_key_range(json: Specs) -> Specs:
    """The sort keys of jsonb."""
    domain = domain_of(json)
    stretches = [
        _stretch(domain.list, sort_key.EMPTY_ARRAY, sort_key.AFTER_ARRAYS),
        _stretch(domain.null, sort_key.NULL, sort_key.NULL),
        _bounded(domain.text, sort_key.STRING, sort_key.AFTER_STRINGS, sort_key.string_keys),
        _bounded(domain.number, sort_key.NUMBER, sort_key.AFTER_NUMBERS, sort_key.decimal_keys),
        _stretch(domain.false, sort_key.FALSE, sort_key.FALSE),
        _stretch(domain.true, sort_key.TRUE, sort_key.TRUE),
        _stretch(domain.map, sort_key.OBJECT, sort_key.AFTER_OBJECTS),
    ]
    keys = reduce(JsonRange.union, stretches, JsonRange())
    low, high = keys.low, keys.high
    if json.low is not None and json.exact.any() and len(json.exact) == len(json.low):
        known = sort_key.sort_keys(pc.if_else(pa.array(json.exact), json.low, pa.scalar(None, json.low.type)))
        low, high = (known if end is None else _instead(known, end) for end in (low, high))
    empty = json.empty | ~keys.present
    return Specs.ranged(BYTEA, low, high, null=json.null, error=json.error, empty=empty)


def _stretch(present: np.ndarray, low: bytes, high: bytes) -> JsonRange:
    return JsonRange(present, pa.array([low], pa.binary()), pa.array([high], pa.binary()))


def _bounded(
    values: JsonRange, low: bytes, high: bytes, to_keys: Callable[[pa.Array], pa.Array]
) -> JsonRange:
    """The keys of the values of one type, all of them where a bound is not known."""
    ends = []
    for bound, limit in ((values.low, low), (values.high, high)):
        everything = pa.scalar(limit, pa.binary())
        known = pa.nulls(1, pa.binary()) if bound is None else to_keys(bound)
        ends.append(pc.fill_null(known, everything))
    return JsonRange(values.present, *ends)


def _instead(known: pa.Array, bound: pa.Array) -> pa.Array:
    """The key of the only value where there is one, else the bound."""
    n = max(len(known), len(bound))
    rows = (pa.array(np.arange(n) if len(a) == n else np.zeros(n, np.int64)) for a in (known, bound))
    return pc.coalesce(known.take(next(rows)), bound.take(next(rows)))
