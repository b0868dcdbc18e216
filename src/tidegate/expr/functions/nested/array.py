"""Arrays: `ARRAY[…]`, subscripts and slices, sizes, searching and joining.

Every kernel works on the flat run of elements and the sizes of the rows (helpers: `cast/nested.py`): a subscript is one `take`
from that run. `tags[2]` over three rows:

| row | tags | size | start in the run | position taken |
|---|---|---|---|---|
| 0 | {a,b,c} | 3 | 0 | 0 + 2 - 1 = 1: b |
| 1 | {d} | 1 | 3 | beyond the size: NULL |
| 2 | NULL | 0 | 4 | beyond the size: NULL |

Subscripts count from 1. An array of arrays has arrays as elements: `a[1]` of an `int8[][]` is an `int8[]`, and inner sizes
may differ. Over containers arrays keep one description of all their elements, so `tags[1] = 'x'` prunes by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.specs import NO, YES, Specs
from tidegate.expr.domain.transfer import all_of, any_of
from tidegate.expr.functions.boolean.conditional import mask_specs, rescale_specs
from tidegate.expr.functions.cast.nested import (
    make_lists,
    rows_of,
    sizes_of,
    spread_rows,
    starts_of,
    valid_rows,
)
from tidegate.expr.functions.compare.membership import comparison_key, element_specs
from tidegate.expr.model import order
from tidegate.expr.model.function import ANY_A, ARRAY_A, NEVER, scalar
from tidegate.expr.model.outcome import Datum, length, spread, to_bools, to_numpy
from tidegate.expr.model.types import BOOL, INT4, INT8, Type, array
from tidegate.expr.primitives.decimal import to_common_scale
from tidegate.expr.spark_sql.forms import array_form, element_form


def _element(arrays: Type, *_: Type) -> Type:
    assert arrays.element is not None
    return arrays.element


def _same_array(arrays: Type, *_: Type) -> Type:
    return arrays


def _second(_: Type, arrays: Type) -> Type:
    return arrays


def _array_of(*types: Type) -> Type:
    from tidegate.expr.model.build import common_type

    return array(common_type(types) or types[0])


def _array_specs(out: Type, element: Specs, null: np.ndarray, args: Sequence[Specs]) -> Specs:
    """Arrays whose elements alone are known."""
    assert out.element is not None
    return Specs.ranged(
        out,
        None,
        None,
        null=null,
        error=any_of([a.error for a in args]),
        element=rescale_specs(element, out.element),
    )


# ---------------------------------------------------------------- making and taking apart


def array_transfer(out: Type, *args: Specs) -> Specs:
    """ARRAY[…] over containers: an element is one of the arguments."""
    assert out.element is not None
    return _array_specs(out, reduce(Specs.union, [rescale_specs(a, out.element) for a in args]), NO, args)


@scalar(
    "array", (ANY_A,), _array_of, variadic=True, lenient=True, errors=NEVER, transfer=array_transfer, stable=True,
    spark=array_form,
)  # fmt: skip
def make_array(*args: Datum, out: Type) -> pa.Array:
    """An array of the arguments, `ARRAY[a, b]`."""
    assert out.element is not None
    n = length(*args)
    columns = pa.concat_arrays([to_common_scale(spread(arg, n), out.element.arrow) for arg in args])
    by_row = np.arange(len(args) * n).reshape(len(args), n).T.ravel()
    return make_lists(columns.take(pa.array(by_row)), np.full(n, len(args)))


def subscript_transfer(out: Type, arrays: Specs, index: Specs) -> Specs:
    """`a[i]` over containers: an element, or NULL, since the array may be too short."""
    element = mask_specs(element_specs(arrays), ~(arrays.empty | index.empty))
    return element.may_be_null().may_fail(arrays.error | index.error)


@scalar(
    "subscript", (ARRAY_A, INT8), _element, errors=NEVER, makes_null=True, transfer=subscript_transfer, stable=True,
    spark=element_form,
)  # fmt: skip
def subscript(arrays: Datum, index: Datum) -> pa.Array:
    """The element at a position from 1, `a[i]`; NULL if there is none."""
    arrays, index = spread_rows(arrays, index)
    sizes, at = sizes_of(arrays), to_numpy(index)
    missing = (at < 1) | (at > sizes)
    where = starts_of(sizes) + np.where(missing, 1, at) - 1
    return arrays.flatten().take(pa.array(where, mask=missing))


def slice_transfer(out: Type, arrays: Specs, *ends: Specs) -> Specs:
    """`a[i:j]` over containers: some of the elements."""
    return _array_specs(
        out, element_specs(arrays), any_of([a.null for a in (arrays, *ends)]), (arrays, *ends)
    )


def _sliced(arrays: pa.Array, first: np.ndarray, last: np.ndarray, valid: np.ndarray) -> pa.Array:
    sizes = sizes_of(arrays)
    first, last = (
        np.clip(first, 1, sizes + 1),
        np.clip(last, 0, sizes),
    )  # clipped first, since -2**63 - 1 would wrap
    count = np.where(valid, np.maximum(last - first + 1, 0), 0)
    row = rows_of(count)
    within = np.arange(len(row)) - starts_of(count)[row]
    return make_lists(
        arrays.flatten().take(pa.array((starts_of(sizes) + first - 1)[row] + within)), count, valid
    )


_slices = partial(scalar, result=_same_array, errors=NEVER, transfer=slice_transfer, stable=True)


@_slices("slice", (ARRAY_A, INT8, INT8))
def slice_(arrays: Datum, first: Datum, last: Datum) -> pa.Array:
    """The elements from one position to another, `a[i:j]`, as far as they exist."""
    arrays, first, last = spread_rows(arrays, first, last)
    valid = valid_rows(arrays) & valid_rows(first) & valid_rows(last)
    return _sliced(arrays, to_numpy(first), to_numpy(last), valid)


@_slices("slice from", (ARRAY_A, INT8))
def slice_from(arrays: Datum, first: Datum) -> pa.Array:
    """The elements from a position on, `a[i:]`."""
    arrays, first = spread_rows(arrays, first)
    return _sliced(arrays, to_numpy(first), sizes_of(arrays), valid_rows(arrays) & valid_rows(first))


@_slices("slice to", (ARRAY_A, INT8))
def slice_to(arrays: Datum, last: Datum) -> pa.Array:
    """The elements up to a position, `a[:j]`."""
    arrays, last = spread_rows(arrays, last)
    return _sliced(
        arrays, np.ones(len(arrays), np.int64), to_numpy(last), valid_rows(arrays) & valid_rows(last)
    )


# ---------------------------------------------------------------- sizes


def dimension_sizes(arrays: pa.Array) -> list[np.ndarray]:
    """The size of each row in every dimension; inner sizes are those of the first inner array."""
    result = [sizes_of(arrays)]
    while pa.types.is_list(arrays.type.value_type):
        arrays = subscript(arrays, pa.scalar(1, pa.int64()))
        result.append(sizes_of(arrays))
    return result


_sizes = partial(scalar, params=(ARRAY_A, INT8), result=INT4, errors=NEVER, makes_null=True, stable=True)


@_sizes("array_length", aliases=("array_upper",))
def array_length(arrays: Datum, dimension: Datum) -> pa.Array:
    """The number of elements of an array in a dimension; NULL if there are none."""
    arrays, dimension = spread_rows(arrays, dimension)
    number, result = to_numpy(dimension), np.zeros(len(arrays), np.int64)
    for i, sizes in enumerate(dimension_sizes(arrays)):
        result = np.where(number == i + 1, sizes, result)
    return pa.array(result, pa.int32(), mask=(result == 0) | ~valid_rows(dimension))


@_sizes("array_lower")
def array_lower(arrays: Datum, dimension: Datum) -> pa.Array:
    """The position of the first element in a dimension: 1, or NULL if there are none."""
    return pc.min_element_wise(array_length(arrays, dimension), pa.scalar(1, pa.int32()), skip_nulls=False)


@scalar("cardinality", (ARRAY_A,), INT4, errors=NEVER, stable=True)
def cardinality(arrays: pa.Array) -> pa.Array:
    """The number of elements of an array, including those of inner arrays."""
    return pa.array(_leaves(arrays), pa.int32(), mask=~valid_rows(arrays))


def _leaves(arrays: pa.Array) -> np.ndarray:
    sizes, flat = sizes_of(arrays), arrays.flatten()
    if not pa.types.is_list(flat.type):
        return sizes
    total, ends = np.concatenate([[0], np.cumsum(_leaves(flat))]), np.cumsum(sizes)
    return np.asarray(total[ends] - total[ends - sizes], np.int64)


# ---------------------------------------------------------------- searching


def position_transfer(out: Type, arrays: Specs, *others: Specs) -> Specs:
    """array_position over containers: a number from 1 on, or NULL."""
    return Specs.ranged(
        out,
        pa.array([1], pa.int32()),
        None,
        null=YES,
        error=any_of([a.error for a in (arrays, *others)]),
        empty=arrays.empty,
    )


@scalar(
    "array_position",
    (ARRAY_A, ANY_A),
    INT4,
    lenient=True,
    errors=NEVER,
    transfer=position_transfer,
    stable=True,
)
def array_position(arrays: Datum, value: Datum) -> pa.Array:
    """The position of the first element equal to the value (NULL equals NULL); NULL if there is none."""
    arrays, value = spread_rows(arrays, value)
    sizes = sizes_of(arrays)
    row, flat = rows_of(sizes), arrays.flatten()
    hits = np.flatnonzero(equal_in_row(value, flat, row))
    rows, first = np.unique(row[hits], return_index=True)
    result = np.zeros(len(arrays), np.int64)
    result[rows] = hits[first] - starts_of(sizes)[rows] + 1
    return pa.array(result, pa.int32(), mask=result == 0)


def equal_in_row(values: pa.Array, flat: pa.Array, row: np.ndarray) -> np.ndarray:
    """Which elements equal the value of their row, NULL being equal to NULL."""
    if values.type == flat.type and not pa.types.is_primitive(flat.type):
        codes = _codes(pa.concat_arrays([values, flat]))
        same: np.ndarray = codes[: len(values)][row] == codes[len(values) :]
        return same
    repeated = values.take(pa.array(row))
    equal = pc.fill_null(order.equal(repeated, flat), False)
    return to_bools(pc.or_(equal, pc.and_(repeated.is_null(), flat.is_null())))


def _codes(values: pa.Array) -> np.ndarray:
    """Numbers that are equal where values are; -1 for null. Inside arrays and records nulls are equal."""
    if pa.types.is_struct(values.type):
        columns = [_codes(pc.struct_field(values, [i])) for i in range(values.type.num_fields)]
        codes = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    elif pa.types.is_list(values.type):
        # Arrays in arrays in a containment test: rare enough for one dictionary entry at a time.
        sizes, inner = sizes_of(values), _codes(values.flatten())
        seen: dict[bytes, int] = {}
        cuts = np.split(inner, np.cumsum(sizes)[:-1]) if len(sizes) else []
        codes = np.array([seen.setdefault(cut.tobytes(), len(seen)) for cut in cuts], np.int64)
    else:
        indices = pc.dictionary_encode(comparison_key(values)).indices
        return np.asarray(pc.fill_null(indices, -1).to_numpy(zero_copy_only=False), np.int64)
    return np.where(valid_rows(values), codes, -1)


def _elements_in(a: pa.Array, b: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """For each element of b, whether a's array of the same row has it, and its row. NULL never matches."""
    flat = pa.concat_arrays([a.flatten(), b.flatten()])
    codes = _codes(flat)
    row_a, row_b = rows_of(sizes_of(a)), rows_of(sizes_of(b))
    keys = np.concatenate([row_a, row_b]) * (len(flat) + 1) + codes
    return np.isin(keys[len(row_a) :], keys[: len(row_a)]) & (codes[len(row_a) :] >= 0), row_b


_compares = partial(scalar, params=(ARRAY_A, ARRAY_A), result=BOOL, errors=NEVER, stable=True)


def _both_valid(a: pa.Array, b: pa.Array, answer: np.ndarray) -> pa.Array:
    return pa.array(answer, mask=~(valid_rows(a) & valid_rows(b)))


@_compares("@>")
def contains(a: Datum, b: Datum) -> pa.Array:
    """Whether the first array has every element of the second."""
    a, b = spread_rows(a, b)
    present, row = _elements_in(a, b)
    answer = np.ones(len(a), bool)
    answer[row[~present]] = False
    return _both_valid(a, b, answer)


@_compares("<@")
def contained(a: Datum, b: Datum) -> pa.Array:
    """Whether the second array has every element of the first."""
    return contains(b, a)


@_compares("&&")
def overlaps(a: Datum, b: Datum) -> pa.Array:
    """Whether two arrays have an element in common."""
    a, b = spread_rows(a, b)
    present, row = _elements_in(a, b)
    answer = np.zeros(len(a), bool)
    answer[row[present]] = True
    return _both_valid(a, b, answer)


# ---------------------------------------------------------------- joining


def joined_transfer(out: Type, *args: Specs) -> Specs:
    """Concatenated arrays over containers: an element comes from either side."""
    assert out.element is not None
    sides = [element_specs(a) if a.type.same_kind(out) else a for a in args]
    # Only two arrays give NULL, and only if both are NULL: a NULL element is an element.
    arrays = all(a.type.same_kind(out) for a in args)
    null = all_of([a.null for a in args]) if arrays else NO
    return _array_specs(out, reduce(Specs.union, [rescale_specs(s, out.element) for s in sides]), null, args)


def _join_rows(a: pa.Array, b: pa.Array, valid: np.ndarray | None = None) -> pa.Array:
    """Row by row the elements of a, then those of b."""
    target = a.type.value_type
    size_a, size_b = sizes_of(a), sizes_of(b)
    sizes = size_a + size_b
    flat = pa.concat_arrays([a.flatten(), to_common_scale(b.flatten(), target)])
    row = rows_of(sizes)
    within = np.arange(len(row)) - starts_of(sizes)[row]
    from_b = within >= size_a[row]
    at_b = size_a.sum() + starts_of(size_b)[row] + within - size_a[row]
    return make_lists(
        flat.take(pa.array(np.where(from_b, at_b, starts_of(size_a)[row] + within))), sizes, valid
    )


def _singles(values: pa.Array, type_: pa.DataType) -> pa.Array:
    return make_lists(to_common_scale(values, type_.value_type), np.ones(len(values), np.int64))


# As an operator, these are tried in this order: `||` reads a string literal beside an array as an array, as PostgreSQL does.
_joins = partial(scalar, aliases=("||",), lenient=True, errors=NEVER, transfer=joined_transfer, stable=True)


@_joins("array_cat", (ARRAY_A, ARRAY_A), _same_array)
def array_cat(a: Datum, b: Datum) -> pa.Array:
    """Two arrays concatenated; NULL counts as empty, unless both are NULL."""
    a, b = spread_rows(a, b)
    return _join_rows(a, b, valid_rows(a) | valid_rows(b))


@_joins("array_append", (ARRAY_A, ANY_A), _same_array)
def array_append(arrays: Datum, value: Datum) -> pa.Array:
    """An array with a value appended."""
    arrays, value = spread_rows(arrays, value)
    return _join_rows(arrays, _singles(value, arrays.type))


@_joins("array_prepend", (ANY_A, ARRAY_A), _second)
def array_prepend(value: Datum, arrays: Datum) -> pa.Array:
    """An array with a value prepended."""
    value, arrays = spread_rows(value, arrays)
    return _join_rows(_singles(value, arrays.type), arrays)
