"""`x IN (…)`, `x = ANY(array)`, and the other comparisons with ANY and ALL elements of an array.

`x IN (1, 5, 9)` is one call, `in(x, '{1,5,9}')`. Rows are looked up in a hash table of the constants; over containers the
constants are sorted once, and for every container the first one that is not below `low` is found by binary search: the
condition can be true where that one exists and is not above `high`.

| container | low .. high | first constant >= low | can be true |
|---|---|---|---|
| 0 | 2 .. 4 | 5 | no: 5 > 4 |
| 1 | 4 .. 7 | 5 | yes |
| 2 | 5 .. 5 | 5 | yes, and cannot be false |
| 3 | 10 .. 20 | none | no |

As everywhere in SQL, a NULL among the elements turns False into NULL, since it might have been the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.claims import constant
from tidegate.expr.domain.specs import NO, YES, Specs, fit, is_bounded
from tidegate.expr.duckdb_sql import forms as duckdb_form
from tidegate.expr.functions.compare import comparison as compare
from tidegate.expr.model import order
from tidegate.expr.model.function import ANY_A, ARRAY_A, NEVER, scalar
from tidegate.expr.model.outcome import Datum, integers, length, spread, to_bools, to_numpy
from tidegate.expr.model.types import BOOL, Kind, Type
from tidegate.expr.primitives.cancel import check
from tidegate.expr.spark_sql.forms import in_form

PAIRS = 1 << 20
"""Pairs of a row and an element that are compared at once."""

Comparison = Callable[[Datum, Datum], pa.Array]
ComparisonTransfer = Callable[[Type, Specs, Specs], Specs]


def comparison_key(values: Datum) -> Datum:
    """Values that Arrow compares in our order: one zero, one NaN, intervals by length."""
    if pa.types.is_interval(values.type):
        return order.interval_key(values)
    if pa.types.is_floating(values.type):
        values = pc.add(values, pa.scalar(0.0, values.type))  # -0.0 + 0.0 is 0.0
        return pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values)
    return values


# ---------------------------------------------------------------- rows


def _three_valued(true: np.ndarray, null: np.ndarray) -> pa.Array:
    return pa.array(true, mask=null & ~true)


def _any(op: Comparison, x: pa.Array, arrays: pa.Array) -> pa.Array:
    """`x op ANY(array)` row by row: all pairs are compared at once and grouped by row."""
    sizes = pc.fill_null(pc.list_value_length(arrays), 0).to_numpy(zero_copy_only=False)
    row = np.repeat(np.arange(len(arrays)), sizes)
    answers = op(x.take(pa.array(row)), arrays.flatten())
    true, null = np.zeros(len(arrays), bool), to_bools(arrays.is_null())
    true[row[to_bools(answers)]] = True
    if answers.null_count:
        null[row[to_bools(answers.is_null())]] = True
    return _three_valued(true, null)


def _slices(sizes: np.ndarray) -> Iterator[slice]:
    """Slices of rows with about `PAIRS` elements each."""
    ends = np.searchsorted(np.cumsum(sizes), np.arange(PAIRS, sizes.sum() + PAIRS, PAIRS)) + 1
    start = 0
    for end in (*np.unique(np.minimum(ends, len(sizes))).tolist(), len(sizes)):
        if end > start:
            yield slice(start, end)
        start = end


LONG_TEXTS = 1 << 24
"""Bytes of texts, counted once per comparison, above which texts are compared by rank."""


def _repeated_bytes(x: pa.Array, sizes: np.ndarray) -> int:
    if not (pa.types.is_string(x.type) or pa.types.is_binary(x.type)):
        return 0
    lengths = pc.fill_null(pc.binary_length(x), 0).to_numpy(zero_copy_only=False)
    return int((lengths.astype(np.float64) * sizes).sum())


def _shorten_lists(x: pa.Array, arrays: Datum) -> pa.Array:
    """Lists cut to one element more than the longest they are compared with; the rest decides nothing."""
    flat = arrays.values if isinstance(arrays, pa.Scalar) else arrays.flatten()
    longest = pc.max(pc.list_value_length(flat)).as_py() or 0
    if (pc.max(pc.list_value_length(x)).as_py() or 0) <= longest + 1:
        return x
    return pc.list_slice(x, 0, longest + 1, return_fixed_size_list=False).cast(x.type)


def _rank_texts(x: pa.Array, arrays: Datum, sizes: np.ndarray) -> tuple[pa.Array, Datum]:
    """Ranks in place of texts, so that a long text is compared once and not with every element."""
    flat = arrays.values if isinstance(arrays, pa.Scalar) else arrays.flatten()
    both = pa.concat_arrays([x, flat.cast(x.type)]).dictionary_encode()
    ranks = np.empty(len(both.dictionary), np.int64)
    ranks[pc.array_sort_indices(both.dictionary).to_numpy()] = np.arange(len(ranks))
    null = to_bools(both.indices.is_null())
    codes = (
        pa.array(ranks[both.indices.fill_null(0).to_numpy()], mask=null)
        if len(ranks)
        else pa.nulls(len(both), pa.int64())
    )
    inside = codes[len(x) :]
    if isinstance(arrays, pa.Scalar):
        return codes[: len(x)], pa.ListArray.from_arrays(pa.array([0, len(inside)], pa.int32()), inside)[0]
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    return codes[: len(x)], pa.ListArray.from_arrays(offsets, inside, mask=arrays.is_null())


def some_element(op: Comparison, x: Datum, arrays: Datum) -> pa.Array:
    """`x op ANY(array)`, in pieces that fit into memory."""
    n = length(x, arrays)
    if isinstance(arrays, pa.Scalar):
        if not arrays.is_valid:
            return pa.nulls(n, pa.bool_())
        sizes = np.full(n, len(arrays.values))
    else:
        sizes = pc.fill_null(pc.list_value_length(arrays), 0).to_numpy(zero_copy_only=False)
    x = spread(x, n)
    if pa.types.is_list(x.type):
        x = _shorten_lists(x, arrays)
    if _repeated_bytes(x, sizes) > LONG_TEXTS:
        x, arrays = _rank_texts(x, arrays, sizes)
    parts = []
    for piece in _slices(sizes):
        check()
        elements = arrays if isinstance(arrays, pa.Scalar) else arrays[piece]
        parts.append(_any(op, x[piece], spread(elements, piece.stop - piece.start)))
    return pa.concat_arrays(parts) if parts else pa.nulls(0, pa.bool_())


def _in_constants(x: pa.Array, values: pa.Array) -> pa.Array:
    """`x IN (constants)` by a hash table."""
    if not len(values):
        return pa.repeat(pa.scalar(False), len(x))
    has_null = values.null_count > 0
    if pa.types.is_decimal(x.type):
        x, values = order.align(x, values)
    is_member = pc.is_in(comparison_key(x), value_set=comparison_key(values.drop_null()), skip_nulls=True)
    null = pc.invert(is_member) if has_null else x.is_null()
    return pc.if_else(null, pa.scalar(None, pa.bool_()), is_member)


# ---------------------------------------------------------------- containers


def element_specs(arrays: Specs) -> Specs:
    """What an element of the arrays may be, NULL included; the exact range if the array is constant."""
    assert arrays.type.element is not None
    type_ = arrays.type.element
    if arrays.element is not None:
        return arrays.element
    constants = constant_elements(arrays)
    if constants is None:
        return Specs.anything(type_, empty=NO)
    null, values = np.array([constants.null_count > 0]), constants.drop_null()
    if type_.kind is Kind.BOOL:
        true, false = (
            np.array([bool(pc.any(pc.equal(values, flag), min_count=0).as_py())]) for flag in (True, False)
        )
        return Specs.boolean(true, false, null)
    if not len(values):
        return Specs.anything(type_, null=null, empty=YES)
    if type_.is_nested or type_.kind is Kind.JSONB:
        return Specs.anything(type_, null=null)
    return _range_of(type_, values, null)


def _range_of(type_: Type, values: pa.Array, null: np.ndarray) -> Specs:
    nan = months = None
    if type_.is_float:
        is_nan = pc.is_nan(values)
        nan, values = np.array([pc.any(is_nan).as_py()]), values.filter(pc.invert(is_nan))
        if not len(values):
            return Specs.ranged(type_, None, None, null=null, nan=nan)
    if type_.kind is Kind.INTERVAL:
        months = np.array([bool(order.interval_parts(values)[0].any())])
    ranks = pc.array_sort_indices(comparison_key(values))
    low, high = values.take(ranks[:1]), values.take(ranks[-1:])
    return Specs.ranged(type_, low, high, null=null, nan=nan, months=months)


def constant_elements(arrays: Specs) -> pa.Array | None:
    """The elements if the array is the same constant in all containers."""
    value = constant(arrays)
    return None if value is None else value.values


def _search(values: pa.Array, targets: pa.Array) -> np.ndarray:
    """For each `wanted`, the position of the first of the sorted `values` not below it; 0 for null."""
    if pa.types.is_decimal(values.type) or not hasattr(
        pc, "search_sorted"
    ):  # pyarrow 26 has it, not for decimals
        return _bisect(values, targets)
    if pa.types.is_fixed_size_binary(values.type):
        values, targets = values.cast(pa.binary()), targets.cast(pa.binary())
    positions = pc.search_sorted(values, targets, side="left")
    return np.asarray(pc.fill_null(positions, 0).to_numpy(zero_copy_only=False), np.int64)


def _bisect(values: pa.Array, targets: pa.Array) -> np.ndarray:
    """Binary search of all values at once, in our order: log2(m) comparisons of whole arrays."""
    low, high = np.zeros(len(targets), np.int64), np.full(len(targets), len(values))
    for _ in range(len(values).bit_length()):
        middle = (low + high) // 2
        below = to_bools(order.less(values.take(pa.array(np.minimum(middle, len(values) - 1))), targets))
        below &= low < high
        low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
    return low


def _among_constants(x: Specs, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Where x can be one of the values, and where it can be another (values: not null, NaN or empty)."""
    low, high = x.bounds()
    if pa.types.is_decimal(low.type):
        low, values = order.align(low, values)
    values, low, high = (comparison_key(bound) for bound in (values, low, high))
    if not pc.all(
        pc.less(values[:-1], values[1:]), min_count=0
    ).as_py():  # long lists come sorted, for each part
        values = values.unique()
        values = values.take(pc.array_sort_indices(values))
    if pa.types.is_integer(integers(low).type):
        dense = x.type.is_integer or x.type.kind is Kind.DATE
        return _among_integers(integers(values), integers(low), integers(high), dense)
    at = _search(values, low)
    first = values.take(pa.array(np.where(at < len(values), at, 0)))
    exists = at < len(values)
    true = exists & to_bools(pc.fill_null(order.less_equal(*fit(first, high)), True))
    listed = true & to_bools(order.equal(*fit(first, low)))
    return true, ~(listed & to_bools(order.equal(*fit(low, high))))


def _among_integers(
    values: pa.Array, low: pa.Array, high: pa.Array, dense: bool
) -> tuple[np.ndarray, np.ndarray]:
    """`_among_constants` for types that are integers inside.

    `dense` types have constants that can fill a range, as 1, 2, 3 fill 1 .. 3. Since constants are distinct and sorted, they
    do if as many as the range has, counted from the first, end at `high`.
    """
    limit = np.iinfo(np.int64)
    sorted_ = values.cast(pa.int64()).to_numpy()
    least = to_numpy(low.cast(pa.int64()), limit.min)
    greatest = to_numpy(high.cast(pa.int64()), limit.max)
    at = np.searchsorted(sorted_, least)
    first = sorted_[np.minimum(at, len(sorted_) - 1)]
    true = (at < len(sorted_)) & (first <= greatest)
    # Distances as unsigned numbers, since that of two int64 may wrap; bounds are in order.
    width = greatest.view(np.uint64) - least.view(np.uint64)
    decidable = true & (width < (len(sorted_) if dense else 1)) & is_bounded(low) & is_bounded(high)
    other = np.ones(len(true), bool)
    narrow = np.flatnonzero(decidable)
    if len(narrow):
        here, size = (np.broadcast_to(part, len(true))[narrow] for part in (at, width))
        last = here + size.astype(np.int64)
        ends = sorted_[np.minimum(last, len(sorted_) - 1)]
        starts, stops = (np.broadcast_to(part, len(true))[narrow] for part in (least, greatest))
        full = (last < len(sorted_)) & (sorted_[here] == starts) & (ends == stops)
        other[narrow[full]] = False
    return true, other


def in_transfer(out: Type, x: Specs, arrays: Specs) -> Specs:
    """`x IN (constants)` over containers by binary search; other arrays by the range of their elements."""
    constants = constant_elements(arrays)
    if constants is None or x.type.is_nested or x.type.kind is Kind.BOOL or not len(constants.drop_null()):
        return any_transfer(compare.equal_transfer)(out, x, arrays)
    values, may_nan, lists_nan = constants.drop_null(), NO if x.nan is None else x.nan, False
    if x.type.is_float:
        nans = pc.is_nan(values)
        lists_nan, values = bool(pc.any(nans).as_py()), values.filter(pc.invert(nans))
    true, other = _among_constants(x, values) if len(values) else (NO, YES)
    true, other = (true | may_nan, other) if lists_nan else (true, other | may_nan)
    true, other = true & ~x.empty, other & ~x.empty
    has_null = np.array([constants.null_count > 0])
    null = x.null | arrays.null | (other & has_null)
    return Specs.boolean(true, other & ~has_null, null, x.error | arrays.error)


def any_transfer(op: ComparisonTransfer) -> ComparisonTransfer:
    """The transfer of `x op ANY(array)`, from the range of the elements."""

    def transfer(out: Type, x: Specs, arrays: Specs) -> Specs:
        element = op(out, x, element_specs(arrays))
        assert element.true is not None
        assert element.false is not None
        constants = constant_elements(arrays)
        size = None if constants is None else len(constants)
        error = x.error | arrays.error
        has_rows = ~arrays.empty
        if size == 0:  # even NULL op ANY('{}') is false
            return Specs.boolean(NO, ~x.empty | x.null, arrays.null, error)
        # An array of unknown size may be empty, or hold a true and a false one: both answers stay open unless a single
        # element shows that the answer cannot be true, or that every element would give true.
        true, false = (
            element.true & has_rows,
            (element.false | YES if size is None else element.false) & has_rows,
        )
        null = x.null | arrays.null | element.null
        return Specs.boolean(true, false, null, error)

    return transfer


def all_transfer(negated: ComparisonTransfer) -> ComparisonTransfer:
    """The transfer of `x op ALL(array)`, as NOT x negated-op ANY(array)."""

    def transfer(out: Type, x: Specs, arrays: Specs) -> Specs:
        any_negated = any_transfer(negated)(out, x, arrays)
        assert any_negated.true is not None
        assert any_negated.false is not None
        return Specs.boolean(any_negated.false, any_negated.true, any_negated.null, any_negated.error)

    return transfer


def not_in_transfer(out: Type, x: Specs, arrays: Specs) -> Specs:
    """`x <> ALL(array)` over containers, as NOT x IN (array)."""
    member = in_transfer(out, x, arrays)
    assert member.true is not None
    assert member.false is not None
    return Specs.boolean(member.false, member.true, member.null, member.error)


# ---------------------------------------------------------------- declarations


_tests = partial(scalar, params=(ANY_A, ARRAY_A), result=BOOL, lenient=True, errors=NEVER, stable=True)


@_tests("in", aliases=("any =",), transfer=in_transfer, spark=in_form, duckdb=duckdb_form.membership)
def is_in(x: Datum, arrays: Datum) -> pa.Array:
    """Whether the value is one of the elements; NULL if it is not and an element is NULL."""
    nested = pa.types.is_nested(x.type)
    if isinstance(arrays, pa.Scalar) and isinstance(x, pa.Array) and arrays.is_valid and not nested:
        return _in_constants(x, arrays.values)
    return some_element(order.equal, x, arrays)


@_tests("all <>", transfer=not_in_transfer)
def not_in(x: Datum, arrays: Datum) -> pa.Array:
    """Whether the value is none of the elements; NULL if it is none and an element is NULL."""
    return pc.invert(is_in(x, arrays))


def _greater(a: Datum, b: Datum) -> pa.Array:
    return order.less(b, a)


def _greater_equal(a: Datum, b: Datum) -> pa.Array:
    return order.less_equal(b, a)


def _not_equal(a: Datum, b: Datum) -> pa.Array:
    return pc.invert(order.equal(a, b))


_ANY: dict[str, tuple[Comparison, ComparisonTransfer, str]] = {
    "<>": (_not_equal, compare.not_equal_transfer, "="),
    "<": (order.less, compare.less_transfer, ">="),
    "<=": (order.less_equal, compare.less_equal_transfer, ">"),
    ">": (_greater, compare.greater_transfer, "<="),
    ">=": (_greater_equal, compare.greater_equal_transfer, "<"),
}


def _declare(name: str, op: Comparison, transfer: ComparisonTransfer, negated: str) -> None:
    @_tests(
        f"any {name}",
        transfer=any_transfer(transfer),
        doc=f"Whether `x {name} element` holds for some element of an array.",
    )
    def any_element(x: Datum, arrays: Datum) -> pa.Array:
        return some_element(op, x, arrays)

    @_tests(
        f"all {negated}",
        transfer=all_transfer(transfer),
        doc=f"Whether `x {negated} element` holds for every element of an array.",
    )
    def all_elements(x: Datum, arrays: Datum) -> pa.Array:
        return pc.invert(some_element(op, x, arrays))


for _name, (_op, _transfer, _negated) in _ANY.items():
    _declare(_name, _op, _transfer, _negated)
