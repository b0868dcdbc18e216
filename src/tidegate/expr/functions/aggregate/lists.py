"""Aggregates that are computed from the list of a group's values: mode, percentiles, JSON objects.

An engine lists the values of each group in the order that is asked for (`array_agg`); the functions here make one value of each
list. So these aggregates mean the same on every engine:

| aggregate | list | function |
|---|---|---|
| `mode() WITHIN GROUP (ORDER BY x)` | x, sorted | the first value that is most frequent |
| `percentile_disc(f) WITHIN GROUP (ORDER BY x)` | x, sorted | the value at position f · n, rounded up |
| `percentile_cont(f) WITHIN GROUP (ORDER BY x)` | x as float8, sorted | between the two values at position f · (n - 1) |
| `jsonb_object_agg(k, v)` | (k, v) | an object; of equal keys the last wins |
| `string_agg(x, separator)` of a separator that varies | (separator, x) | the texts, each but the first after its separator |

Lists hold no NULL where an aggregate ignores them. Every kernel works on the flat run of elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.functions.cast.nested import (
    make_lists,
    rows_of,
    sizes_of,
    spread_rows,
    starts_of,
    valid_rows,
)
from tidegate.expr.model import order
from tidegate.expr.model.function import ARRAY_A, HEAVY, MODERATE, NEVER, scalar
from tidegate.expr.model.outcome import Datum, Errors, Outcome, failing, only_where, to_numpy, with_errors
from tidegate.expr.model.types import BYTEA, FLOAT8, JSONB, TEXT, Type, array, record
from tidegate.expr.primitives.json.canonical import quote_strings, to_canonical

_reduces = partial(scalar, hidden=True, makes_null=True, cost=MODERATE)
PAIRS = array(record(("k", TEXT), ("v", JSONB)))
"""The list of jsonb_object_agg."""
JOINED = array(record(("separator", TEXT), ("value", TEXT)))
"""The list of string_agg."""
JOINED_BYTES = array(record(("separator", BYTEA), ("value", BYTEA)))


def _element(arrays: Type, *_: Type) -> Type:
    assert arrays.element is not None
    return arrays.element


def _array(arrays: Type, *_: Type) -> Type:
    return arrays


def _take(lists: pa.Array, place: np.ndarray, valid: np.ndarray) -> pa.Array:
    """The element of each list at a position from 0; null where not `valid` or the list is empty."""
    sizes = sizes_of(lists)
    there = valid & (sizes > 0)
    where = np.where(there, starts_of(sizes) + place, 0)
    return lists.flatten().take(pa.array(where, pa.int64(), mask=~there))


@_reduces("mode of sorted", (ARRAY_A,), _element)
def mode_of_sorted(lists: pa.Array) -> pa.Array:
    """The most frequent element of each sorted list, the first of several."""
    sizes, values = sizes_of(lists), lists.flatten()
    runs = np.flatnonzero(_run_starts(values, sizes))
    lengths = np.diff(np.append(runs, len(values)))
    of_row = rows_of(sizes)[runs]
    best = np.lexsort((runs, -lengths, of_row))
    rows, at = np.unique(of_row[best], return_index=True)
    place = np.zeros(len(lists), np.int64)
    place[rows] = runs[best][at] - starts_of(sizes)[rows]
    return _take(lists, place, valid_rows(lists))


@scalar("distinct of sorted", (ARRAY_A,), _array, hidden=True, errors=NEVER, cost=MODERATE)
def distinct_of_sorted(lists: pa.Array) -> pa.Array:
    """Each list without the elements that are equal to the one before; NULL is equal to NULL."""
    sizes, values = sizes_of(lists), lists.flatten()
    first = _run_starts(values, sizes)
    kept = np.bincount(rows_of(sizes)[first], minlength=len(lists)) if len(values) else sizes
    return make_lists(values.filter(pa.array(first)), kept, valid_rows(lists))


@_reduces("min of", (ARRAY_A,), _element)
def min_of(lists: pa.Array) -> pa.Array:
    """The least element of each list."""
    return _take(lists, _best(lists, -1), valid_rows(lists))


@_reduces("max of", (ARRAY_A,), _element)
def max_of(lists: pa.Array) -> pa.Array:
    """The greatest element of each list."""
    return _take(lists, _best(lists, 1), valid_rows(lists))


def _best(lists: pa.Array, wanted: int) -> np.ndarray:
    """The place of the element that is before (-1) or after (1) all others, found in rounds of pairs."""
    sizes, values = sizes_of(lists), lists.flatten()
    starts, best = starts_of(sizes), np.arange(len(values))
    while sizes.max(initial=0) > 1:
        rows = rows_of(sizes)
        within = np.arange(len(rows)) - starts_of(sizes)[rows]
        left = np.flatnonzero(within % 2 == 0)
        pairs = left[within[left] + 1 < sizes[rows[left]]]
        signs = order.sign(values.take(pa.array(best[pairs + 1])), values.take(pa.array(best[pairs])))
        best[pairs] = np.where(signs == wanted, best[pairs + 1], best[pairs])
        best, sizes = best[left], (sizes + 1) // 2
    place = np.zeros(len(lists), np.int64)
    place[sizes > 0] = best - starts[sizes > 0]
    return place


def _run_starts(values: pa.Array, sizes: np.ndarray) -> np.ndarray:
    """Where an element of a flat run differs from the one before in its list."""
    first = np.zeros(len(values), bool)
    if len(values) > 1:
        after, before = values.slice(1), values.slice(0, len(values) - 1)
        first[1:] = order.sign(after, before) != 0
    first[starts_of(sizes)[sizes > 0]] = True
    return first


def _fraction_errors(fractions: np.ndarray, asked: np.ndarray) -> Errors:
    """An error where a fraction is not between 0 and 1."""
    wrong = asked & ~((fractions >= 0) & (fractions <= 1))
    if not wrong.any():
        return None
    texts = [f"percentile value {value:g} is not between 0 and 1" for value in fractions]
    return failing(wrong, pa.array(texts))


@dataclass(frozen=True)
class _SortedLists:
    """Lists in one flat array; several rows may share a list."""

    values: pa.Array
    starts: np.ndarray
    sizes: np.ndarray
    valid: np.ndarray

    @staticmethod
    def of(lists: pa.Array) -> _SortedLists:
        sizes = sizes_of(lists)
        return _SortedLists(lists.flatten(), starts_of(sizes), sizes, valid_rows(lists))

    def at_rows(self, rows: np.ndarray) -> _SortedLists:
        """The lists of these rows; none is copied."""
        return _SortedLists(self.values, self.starts[rows], self.sizes[rows], self.valid[rows])

    def elements(self, place: np.ndarray, valid: np.ndarray) -> pa.Array:
        """The element at a place of each list; NULL where that is not valid, or the list is empty."""
        there = valid & (self.sizes > 0)
        return self.values.take(pa.array(np.where(there, self.starts + place, 0), mask=~there))


def _discrete(lists: _SortedLists, fractions: np.ndarray, valid: np.ndarray) -> pa.Array:
    place = np.maximum(np.ceil(np.nan_to_num(fractions) * lists.sizes).astype(np.int64) - 1, 0)
    return lists.elements(np.clip(place, 0, np.maximum(lists.sizes - 1, 0)), valid)


def _continuous(lists: _SortedLists, fractions: np.ndarray, valid: np.ndarray) -> pa.Array:
    at = np.clip(np.nan_to_num(fractions), 0, 1) * np.maximum(lists.sizes - 1, 0)
    low, high = np.floor(at).astype(np.int64), np.ceil(at).astype(np.int64)
    first, second = lists.elements(low, valid), lists.elements(high, valid)
    a, b = to_numpy(first), to_numpy(second)
    # At a value itself there is no arithmetic: infinity less infinity would be NaN.
    values = np.where(low == high, a, a + (at - low) * (b - a))
    return pa.array(values, mask=~valid_rows(first))


def _percentile(lists: Datum, fraction: Datum, pick: object) -> Outcome:
    lists, fraction = spread_rows(lists, fraction)
    return _picked(_SortedLists.of(lists), fraction, pick)


def _picked(lists: _SortedLists, fraction: pa.Array, pick: object) -> Outcome:
    assert callable(pick)
    fractions, asked = to_numpy(fraction, 0.0), valid_rows(fraction)
    errors = only_where(_fraction_errors(fractions, asked), pa.array(lists.valid))
    return with_errors(pick(lists, fractions, asked & lists.valid), errors)


def _percentiles(lists: Datum, fractions: Datum, pick: object) -> Outcome:
    """A list of percentiles for each row."""
    lists, fractions = spread_rows(lists, fractions)
    sizes, asked = sizes_of(fractions), valid_rows(fractions)
    rows = rows_of(sizes)
    found, errors = _picked(_SortedLists.of(lists).at_rows(rows), fractions.flatten(), pick)
    values = make_lists(found, sizes, asked & valid_rows(lists)) if asked.all() else make_lists(found, sizes)
    values = pc.if_else(pc.and_(fractions.is_valid(), lists.is_valid()), values, pa.scalar(None, values.type))
    if errors is None:
        return Outcome(values)
    wrong = np.flatnonzero(errors.is_valid())
    messages: list[str | None] = [None] * len(lists)
    for at in reversed(wrong):
        messages[rows[at]] = errors[at].as_py()
    return with_errors(values, pa.array(messages, pa.string()))


@_reduces("percentile_disc of sorted", (ARRAY_A, FLOAT8), _element)
def percentile_disc(lists: Datum, fraction: Datum) -> Outcome:
    """The first element of each sorted list whose position is at least the fraction."""
    return _percentile(lists, fraction, _discrete)


@_reduces("percentile_disc of sorted", (ARRAY_A, array(FLOAT8)), _array)
def percentiles_disc(lists: Datum, fractions: Datum) -> Outcome:
    """The element for each of several fractions."""
    return _percentiles(lists, fractions, _discrete)


@_reduces("percentile_cont of sorted", (array(FLOAT8), FLOAT8), FLOAT8, exact=False)
def percentile_cont(lists: Datum, fraction: Datum) -> Outcome:
    """The value at a fraction of each sorted list, between two elements if need be."""
    return _percentile(lists, fraction, _continuous)


@_reduces("percentile_cont of sorted", (array(FLOAT8), array(FLOAT8)), array(FLOAT8), exact=False)
def percentiles_cont(lists: Datum, fractions: Datum) -> Outcome:
    """The value at each of several fractions."""
    return _percentiles(lists, fractions, _continuous)


@scalar("object of pairs", (PAIRS,), JSONB, hidden=True, cost=HEAVY)
def object_of_pairs(lists: pa.Array) -> Outcome:
    """A JSON object of each list of keys and values; of equal keys the last wins."""
    sizes, pairs = sizes_of(lists), lists.flatten()
    keys, values = pc.struct_field(pairs, [0]), pc.struct_field(pairs, [1])
    missing = np.zeros(len(lists), bool)
    missing[rows_of(sizes)[np.flatnonzero(keys.is_null())]] = True
    members = pc.binary_join_element_wise(
        pc.coalesce(quote_strings(keys), pa.scalar('""')), pc.coalesce(values, pa.scalar("null")), ":"
    )
    inner = pc.binary_join(make_lists(members, sizes), ",")
    texts = pc.binary_join_element_wise("{", inner, "}", "")
    objects = to_canonical(pc.if_else(lists.is_valid(), texts, pa.scalar(None, pa.string())))
    return with_errors(objects.values, failing(missing, "field name must not be null") or objects.errors)


@scalar("joined", (JOINED,), TEXT, overloads=[((JOINED_BYTES,), BYTEA)], hidden=True, cost=MODERATE)
def joined(lists: pa.Array) -> pa.Array:
    """The values of each list, each but the first after its own separator."""
    sizes, pairs = sizes_of(lists), lists.flatten()
    separators, values = pc.struct_field(pairs, [0]), pc.struct_field(pairs, [1])
    leads = np.zeros(len(pairs), bool)
    leads[starts_of(sizes)[sizes > 0]] = True
    empty = pa.scalar(b"" if pa.types.is_binary(values.type) else "", values.type)
    before = pc.if_else(pa.array(leads), empty, pc.coalesce(separators, empty))
    texts = pc.binary_join(
        make_lists(pc.binary_join_element_wise(before, pc.coalesce(values, empty), empty), sizes), empty
    )
    return pc.if_else(lists.is_valid(), texts, pa.scalar(None, texts.type))
