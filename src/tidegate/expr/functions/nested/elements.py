"""Arrays: removing, replacing and counting elements, dimensions, and thresholds.

    array_remove('{1,2,3,2}', 2)         {1,3}
    array_replace('{1,2,5}', 5, 3)       {1,2,3}
    array_positions('{A,B,A}', 'A')      {1,3}
    trim_array('{1,2,3,4}', 2)           {1,2}
    width_bucket(7, '{1,5,10}')          2

NULL equals NULL here, as in array_position.
"""

from __future__ import annotations

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
from tidegate.expr.functions.nested.array import dimension_sizes, equal_in_row
from tidegate.expr.model import order
from tidegate.expr.model.function import ANY_A, ARRAY_A, NEVER, scalar
from tidegate.expr.model.outcome import Datum, Outcome, failing, to_bools, to_numpy, with_errors
from tidegate.expr.model.types import INT4, TEXT, Type, array
from tidegate.expr.primitives.decimal import to_common_scale


def _same_array(arrays: Type, *_: Type) -> Type:
    return arrays


_edits = partial(scalar, result=_same_array, lenient=True, errors=NEVER, stable=True)


@_edits("array_remove", (ARRAY_A, ANY_A))
def array_remove(arrays: Datum, value: Datum) -> pa.Array:
    """An array without the elements equal to a value."""
    arrays, value = spread_rows(arrays, value)
    row, flat = rows_of(sizes_of(arrays)), arrays.flatten()
    stays = ~equal_in_row(value, flat, row)
    sizes = np.bincount(row[stays], minlength=len(arrays))
    return make_lists(flat.filter(pa.array(stays)), sizes, valid_rows(arrays))


@_edits("array_replace", (ARRAY_A, ANY_A, ANY_A))
def array_replace(arrays: Datum, old: Datum, new: Datum) -> pa.Array:
    """An array with the elements equal to one value replaced by another."""
    arrays, old, new = spread_rows(arrays, old, new)
    sizes = sizes_of(arrays)
    row, flat = rows_of(sizes), arrays.flatten()
    hits = np.flatnonzero(equal_in_row(old, flat, row))
    source = np.arange(len(flat))
    source[hits] = len(flat) + row[hits]
    both = pa.concat_arrays([flat, to_common_scale(new, flat.type)])
    return make_lists(both.take(pa.array(source)), sizes, valid_rows(arrays))


@scalar("array_positions", (ARRAY_A, ANY_A), array(INT4), lenient=True, errors=NEVER, stable=True)
def array_positions(arrays: Datum, value: Datum) -> pa.Array:
    """The positions of all elements equal to a value; NULL for a NULL array."""
    arrays, value = spread_rows(arrays, value)
    sizes = sizes_of(arrays)
    row, flat = rows_of(sizes), arrays.flatten()
    hits = np.flatnonzero(equal_in_row(value, flat, row))
    places = pa.array(hits - starts_of(sizes)[row[hits]] + 1, pa.int32())
    return make_lists(places, np.bincount(row[hits], minlength=len(arrays)), valid_rows(arrays))


@scalar("trim_array", (ARRAY_A, INT4), _same_array, stable=True)
def trim_array(arrays: Datum, count: Datum) -> Outcome:
    """An array without its last elements; fails if it has fewer."""
    arrays, count = spread_rows(arrays, count)
    valid = valid_rows(arrays) & valid_rows(count)
    sizes, fewer = sizes_of(arrays), to_numpy(count).astype(np.int64)
    wrong = valid & ((fewer < 0) | (fewer > sizes))
    message = pc.binary_join_element_wise(
        "number of elements to trim must be between 0 and ", pa.array(sizes).cast(pa.string()), ""
    )
    stay = np.where(valid & ~wrong, sizes - np.where(wrong, 0, fewer), 0)
    row = rows_of(sizes)
    keep = np.arange(len(row)) - starts_of(sizes)[row] < stay[row]
    values = make_lists(arrays.flatten().filter(pa.array(keep)), stay, valid)
    return with_errors(values, failing(wrong, message))


_measures = partial(scalar, params=(ARRAY_A,), errors=NEVER, makes_null=True, stable=True)


@_measures("array_ndims", result=INT4)
def array_ndims(arrays: pa.Array) -> pa.Array:
    """The number of dimensions of an array; NULL if it is empty."""
    sizes = dimension_sizes(arrays)
    return pa.array(np.full(len(arrays), len(sizes)), pa.int32(), mask=sizes[0] == 0)


@_measures("array_dims", result=TEXT)
def array_dims(arrays: pa.Array) -> pa.Array:
    """The bounds of an array in each dimension as text, `[1:2][1:3]`; NULL if it is empty."""
    sizes = dimension_sizes(arrays)
    parts = [pc.binary_join_element_wise("[1:", pa.array(size).cast(pa.string()), "]", "") for size in sizes]
    return pc.if_else(
        pa.array(sizes[0] > 0), pc.binary_join_element_wise(*parts, ""), pa.scalar(None, pa.string())
    )


@scalar("width_bucket", (ANY_A, ARRAY_A), INT4, stable=True)
def width_bucket_of_thresholds(value: Datum, thresholds: Datum) -> Outcome:
    """How many of the rising thresholds are not greater than a value."""
    value, thresholds = spread_rows(value, thresholds)
    sizes, flat = sizes_of(thresholds), thresholds.flatten()
    holes = np.zeros(len(value), bool)
    holes[rows_of(sizes)[~valid_rows(flat)]] = True
    low, high = np.zeros(len(value), np.int64), np.where(valid_rows(value), sizes, 0)
    while len(rows := np.flatnonzero(low < high)):  # a binary search of all rows at once
        middle = (low[rows] + high[rows]) // 2
        found = flat.take(pa.array(starts_of(sizes)[rows] + middle))
        reached = to_bools(order.less_equal(found, value.take(pa.array(rows))))
        low[rows] = np.where(reached, middle + 1, low[rows])
        high[rows] = np.where(reached, high[rows], middle)
    values = pa.array(low, pa.int32(), mask=~(valid_rows(value) & valid_rows(thresholds)))
    return with_errors(values, failing(holes, "thresholds array must not contain NULLs"))
