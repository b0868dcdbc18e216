"""Arrays: `ARRAY[…]`, subscripts and slices, sizes, searching and joining.

Every kernel works on the flat run of elements with sizes around it (`cast_nested.py` has the parts): a subscript is one `take` from
that run, and `tags[2]` over three rows goes

| row | tags | size | start in the run | position taken |
|---|---|---|---|---|
| 0 | {a,b,c} | 3 | 0 | 0 + 2 - 1 = 1: b |
| 1 | {d} | 1 | 3 | beyond the size: NULL |
| 2 | NULL | 0 | 4 | beyond the size: NULL |

Subscripts count from 1. An array of arrays is just that: `a[1]` of an `int8[][]` is an `int8[]`, and its rows may differ in
size. Over containers arrays keep one description of all their elements, so `tags[1] = 'x'` prunes by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import order
from tidegate.expr.function import ANY_A, ARRAY_A, NEVER, Param, scalar
from tidegate.expr.functions.cast_nested import (
    make_lists,
    rows_of,
    sizes_of,
    spread_rows,
    starts_of,
    valid_rows,
)
from tidegate.expr.functions.conditional import masked, rescaled, rescaled_specs
from tidegate.expr.functions.membership import comparison_key, elements
from tidegate.expr.outcome import Datum, length, spread, to_numpy
from tidegate.expr.spark_form import element_at, made_array
from tidegate.expr.specs import NO, YES, Specs, to_bools
from tidegate.expr.transfer import all_of, any_of
from tidegate.expr.types import BOOL, INT4, INT8, Type, array


def _element(arrays: Type, *_: Type) -> Type:
    assert arrays.element is not None
    return arrays.element


def _same_array(arrays: Type, *_: Type) -> Type:
    return arrays


def _second(_: Type, arrays: Type) -> Type:
    return arrays


def _array_of(*types: Type) -> Type:
    from tidegate.expr.build import common_type

    return array(common_type(types) or types[0])


def _holding(out: Type, element: Specs, null: np.ndarray, args: Sequence[Specs]) -> Specs:
    """Arrays of which only the elements are known."""
    assert out.element is not None
    return Specs.ranged(
        out,
        None,
        None,
        null=null,
        error=any_of([a.error for a in args]),
        element=rescaled_specs(element, out.element),
    )


# ---------------------------------------------------------------- making and taking apart


def array_transfer(out: Type, *args: Specs) -> Specs:
    """ARRAY[…] over containers: an element is one of the arguments."""
    assert out.element is not None
    return _holding(out, reduce(Specs.union, [rescaled_specs(a, out.element) for a in args]), NO, args)


@scalar(
    "array",
    (ANY_A,),
    _array_of,
    variadic=True,
    lenient=True,
    errors=NEVER,
    transfer=array_transfer,
    stable=True,
    spark=made_array,
)
def make_array(*args: Datum, out: Type) -> pa.Array:
    """An array of the arguments, `ARRAY[a, b]`."""
    assert out.element is not None
    n = length(*args)
    columns = pa.concat_arrays([rescaled(spread(arg, n), out.element.arrow) for arg in args])
    by_row = np.arange(len(args) * n).reshape(len(args), n).T.ravel()
    return make_lists(columns.take(pa.array(by_row)), np.full(n, len(args)))


def subscript_transfer(out: Type, arrays: Specs, index: Specs) -> Specs:
    """a[i] over containers: an element, or NULL, as the array may be too short."""
    some = masked(elements(arrays), ~(arrays.empty | index.empty))
    return some.may_be_null().may_fail(arrays.error | index.error)


@scalar(
    "subscript",
    (ARRAY_A, INT8),
    _element,
    errors=NEVER,
    makes_null=True,
    transfer=subscript_transfer,
    stable=True,
    spark=element_at,
)
def subscript(arrays: Datum, index: Datum) -> pa.Array:
    """An element by its number from 1, `a[i]`; NULL if there is none."""
    arrays, index = spread_rows(arrays, index)
    sizes, at = sizes_of(arrays), to_numpy(index)
    missing = (at < 1) | (at > sizes)
    where = starts_of(sizes) + np.where(missing, 1, at) - 1
    return arrays.flatten().take(pa.array(where, mask=missing))


def slice_transfer(out: Type, arrays: Specs, *ends: Specs) -> Specs:
    """a[i:j] over containers: some of the elements."""
    return _holding(out, elements(arrays), any_of([a.null for a in (arrays, *ends)]), (arrays, *ends))


def _sliced(arrays: pa.Array, first: np.ndarray, last: np.ndarray, valid: np.ndarray) -> pa.Array:
    sizes = sizes_of(arrays)
    first, last = (
        np.clip(first, 1, sizes + 1),
        np.clip(last, 0, sizes),
    )  # first of all, as -2**63 - 1 would wrap
    count = np.where(valid, np.maximum(last - first + 1, 0), 0)
    row = rows_of(count)
    within = np.arange(len(row)) - starts_of(count)[row]
    return make_lists(
        arrays.flatten().take(pa.array((starts_of(sizes) + first - 1)[row] + within)), count, valid
    )


@scalar("slice", (ARRAY_A, INT8, INT8), _same_array, errors=NEVER, transfer=slice_transfer, stable=True)
def slice_(arrays: Datum, first: Datum, last: Datum) -> pa.Array:
    """The elements from one number to another, `a[i:j]`, as far as there are any."""
    arrays, first, last = spread_rows(arrays, first, last)
    valid = valid_rows(arrays) & valid_rows(first) & valid_rows(last)
    return _sliced(arrays, to_numpy(first), to_numpy(last), valid)


@scalar("slice from", (ARRAY_A, INT8), _same_array, errors=NEVER, transfer=slice_transfer, stable=True)
def slice_from(arrays: Datum, first: Datum) -> pa.Array:
    """The elements from a number on, `a[i:]`."""
    arrays, first = spread_rows(arrays, first)
    return _sliced(arrays, to_numpy(first), sizes_of(arrays), valid_rows(arrays) & valid_rows(first))


@scalar("slice to", (ARRAY_A, INT8), _same_array, errors=NEVER, transfer=slice_transfer, stable=True)
def slice_to(arrays: Datum, last: Datum) -> pa.Array:
    """The elements up to a number, `a[:j]`."""
    arrays, last = spread_rows(arrays, last)
    return _sliced(
        arrays, np.ones(len(arrays), np.int64), to_numpy(last), valid_rows(arrays) & valid_rows(last)
    )


# ---------------------------------------------------------------- sizes


def _lengths(arrays: pa.Array) -> list[np.ndarray]:
    """The size of each row in every dimension; an inner one is that of the first inner array, 0 if there is none."""
    result = [sizes_of(arrays)]
    while pa.types.is_list(arrays.type.value_type):
        arrays = subscript(arrays, pa.scalar(1, pa.int64()))
        result.append(sizes_of(arrays))
    return result


for _name in ("array_length", "array_upper"):

    @scalar(_name, (ARRAY_A, INT8), INT4, errors=NEVER, makes_null=True, stable=True)
    def array_length(arrays: Datum, dimension: Datum) -> pa.Array:
        """How many elements an array has in a dimension; NULL if it has none."""
        arrays, dimension = spread_rows(arrays, dimension)
        wanted, result = to_numpy(dimension), np.zeros(len(arrays), np.int64)
        for i, sizes in enumerate(_lengths(arrays)):
            result = np.where(wanted == i + 1, sizes, result)
        return pa.array(result, pa.int32(), mask=(result == 0) | ~valid_rows(dimension))


@scalar("array_lower", (ARRAY_A, INT8), INT4, errors=NEVER, makes_null=True, stable=True)
def array_lower(arrays: Datum, dimension: Datum) -> pa.Array:
    """The number of the first element in a dimension: 1, or NULL if it has none."""
    return pc.min_element_wise(array_length(arrays, dimension), pa.scalar(1, pa.int32()), skip_nulls=False)


@scalar("cardinality", (ARRAY_A,), INT4, errors=NEVER, stable=True)
def cardinality(arrays: pa.Array) -> pa.Array:
    """How many elements an array has, those of inner arrays counted one by one."""
    return pa.array(_leaves(arrays), pa.int32(), mask=~valid_rows(arrays))


def _leaves(arrays: pa.Array) -> np.ndarray:
    sizes, flat = sizes_of(arrays), arrays.flatten()
    if not pa.types.is_list(flat.type):
        return sizes
    total, ends = np.concatenate([[0], np.cumsum(_leaves(flat))]), np.cumsum(sizes)
    return np.asarray(total[ends] - total[ends - sizes], np.int64)


# ---------------------------------------------------------------- searching


def position_transfer(out: Type, arrays: Specs, *others: Specs) -> Specs:
    """array_position over containers: some number from 1 on, or NULL."""
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
def array_position(arrays: Datum, wanted: Datum) -> pa.Array:
    """The number of the first element that is the value, NULL being found too; NULL if there is none."""
    arrays, wanted = spread_rows(arrays, wanted)
    sizes = sizes_of(arrays)
    row, flat = rows_of(sizes), arrays.flatten()
    hits = np.flatnonzero(_same_as(wanted, flat, row))
    rows, first = np.unique(row[hits], return_index=True)
    result = np.zeros(len(arrays), np.int64)
    result[rows] = hits[first] - starts_of(sizes)[rows] + 1
    return pa.array(result, pa.int32(), mask=result == 0)


def _same_as(wanted: pa.Array, flat: pa.Array, row: np.ndarray) -> np.ndarray:
    """Which elements are what is wanted in their row, NULL being NULL; what can be long is not copied for each of them."""
    if wanted.type == flat.type and not pa.types.is_primitive(flat.type):
        codes = _codes(pa.concat_arrays([wanted, flat]))
        same: np.ndarray = codes[: len(wanted)][row] == codes[len(wanted) :]
        return same
    repeated = wanted.take(pa.array(row))
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
        found = pc.dictionary_encode(comparison_key(values)).indices
        return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), np.int64)
    return np.where(valid_rows(values), codes, -1)


def _found(a: pa.Array, b: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """For each element of b whether a's array of the same row has it, and its row. NULL is never found."""
    flat = pa.concat_arrays([a.flatten(), b.flatten()])
    codes = _codes(flat)
    row_a, row_b = rows_of(sizes_of(a)), rows_of(sizes_of(b))
    keys = np.concatenate([row_a, row_b]) * (len(flat) + 1) + codes
    return np.isin(keys[len(row_a) :], keys[: len(row_a)]) & (codes[len(row_a) :] >= 0), row_b


def _both_valid(a: pa.Array, b: pa.Array, answer: np.ndarray) -> pa.Array:
    return pa.array(answer, mask=~(valid_rows(a) & valid_rows(b)))


@scalar("@>", (ARRAY_A, ARRAY_A), BOOL, errors=NEVER, stable=True)
def contains(a: Datum, b: Datum) -> pa.Array:
    """Whether an array has every element of another."""
    a, b = spread_rows(a, b)
    found, row = _found(a, b)
    answer = np.ones(len(a), bool)
    answer[row[~found]] = False
    return _both_valid(a, b, answer)


@scalar("<@", (ARRAY_A, ARRAY_A), BOOL, errors=NEVER, stable=True)
def contained(a: Datum, b: Datum) -> pa.Array:
    """Whether every element of an array is in another."""
    return contains(b, a)


@scalar("&&", (ARRAY_A, ARRAY_A), BOOL, errors=NEVER, stable=True)
def overlaps(a: Datum, b: Datum) -> pa.Array:
    """Whether two arrays have an element in common."""
    a, b = spread_rows(a, b)
    found, row = _found(a, b)
    answer = np.zeros(len(a), bool)
    answer[row[found]] = True
    return _both_valid(a, b, answer)


# ---------------------------------------------------------------- joining


def joined_transfer(out: Type, *args: Specs) -> Specs:
    """Joined arrays over containers: an element is one of either side."""
    assert out.element is not None
    sides = [elements(a) if a.type.same_kind(out) else a for a in args]
    # Only a join of arrays is NULL, and only if both are: an element that is NULL is an element.
    arrays = all(a.type.same_kind(out) for a in args)
    null = all_of([a.null for a in args]) if arrays else NO
    return _holding(out, reduce(Specs.union, [rescaled_specs(s, out.element) for s in sides]), null, args)


def _joined(a: pa.Array, b: pa.Array, valid: np.ndarray | None = None) -> pa.Array:
    """Row by row the elements of a, then those of b."""
    target = a.type.value_type
    size_a, size_b = sizes_of(a), sizes_of(b)
    sizes = size_a + size_b
    flat = pa.concat_arrays([a.flatten(), rescaled(b.flatten(), target)])
    row = rows_of(sizes)
    within = np.arange(len(row)) - starts_of(sizes)[row]
    from_b = within >= size_a[row]
    at_b = size_a.sum() + starts_of(size_b)[row] + within - size_a[row]
    return make_lists(
        flat.take(pa.array(np.where(from_b, at_b, starts_of(size_a)[row] + within))), sizes, valid
    )


def _singles(values: pa.Array, type_: pa.DataType) -> pa.Array:
    return make_lists(rescaled(values, type_.value_type), np.ones(len(values), np.int64))


def array_cat(a: Datum, b: Datum) -> pa.Array:
    """Two arrays joined; NULL counts as empty, unless both are."""
    a, b = spread_rows(a, b)
    return _joined(a, b, valid_rows(a) | valid_rows(b))


def array_append(arrays: Datum, value: Datum) -> pa.Array:
    """An array with a value added at its end."""
    arrays, value = spread_rows(arrays, value)
    return _joined(arrays, _singles(value, arrays.type))


def array_prepend(value: Datum, arrays: Datum) -> pa.Array:
    """An array with a value added at its start."""
    value, arrays = spread_rows(value, arrays)
    return _joined(_singles(value, arrays.type), arrays)


# `||` takes a string literal beside an array for an array, as PostgreSQL does, since that overload comes first.
_JOINS: tuple[tuple[str, tuple[Param, ...], Callable[..., pa.Array], Callable[..., Type]], ...] = (
    ("array_cat", (ARRAY_A, ARRAY_A), array_cat, _same_array),
    ("array_append", (ARRAY_A, ANY_A), array_append, _same_array),
    ("array_prepend", (ANY_A, ARRAY_A), array_prepend, _second),
)
for _name, _params, _kernel, _result in _JOINS:
    for _spelling in (_name, "||"):
        scalar(
            _spelling, _params, _result, lenient=True, errors=NEVER, transfer=joined_transfer, stable=True
        )(_kernel)
