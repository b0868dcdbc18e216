"""Comparisons: `= <> < <= > >=`, IS DISTINCT FROM, and IN.

All use the order of `model/order.py`. Over containers two ranges are compared by their ends: `a < b` can be true where the
least a is below the greatest b, and can be false where the greatest a is not below the least b. NaN counts as the greatest
value. What the bounds do not decide may be true or false.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain.specs import NO, Specs, fit
from tidegate.expr.duckdb_sql import forms as duckdb_form
from tidegate.expr.model import order
from tidegate.expr.model.function import ANY_A, NEVER, scalar
from tidegate.expr.model.outcome import Datum, length, spread, to_bools
from tidegate.expr.model.types import BOOL, Type
from tidegate.expr.spark_sql.forms import comparison_form


def _ends(a: Specs) -> tuple[pa.Array, pa.Array]:
    """The bounds with NaN as the greatest value, as a comparison orders it."""
    low, high = a.bounds()
    if a.nan is None or not a.nan.any():
        return low, high
    n = max(len(high), len(a.nan))
    high = spread(high[0], n) if len(high) == 1 else high
    return low, pc.if_else(pa.array(np.broadcast_to(a.nan, n)), pa.scalar(float("nan"), high.type), high)


def _may(compare: Callable[[Datum, Datum], pa.Array], a: pa.Array, b: pa.Array) -> np.ndarray:
    """Where the comparison of two bounds holds, or one of them is unknown."""
    result = compare(*fit(a, b))
    return to_bools(pc.fill_null(result, True) if result.null_count else result)


def _strict_condition(a: Specs, b: Specs, true: np.ndarray, false: np.ndarray) -> Specs:
    """A condition that has no value where either side has none."""
    has_rows = ~(a.empty | b.empty)
    return Specs.boolean(true & has_rows, false & has_rows, a.null | b.null, a.error | b.error)


def less_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """`a < b` over containers, by the bounds."""
    (low_a, high_a), (low_b, high_b) = _ends(a), _ends(b)
    return _strict_condition(a, b, _may(order.less, low_a, high_b), _may(order.less_equal, low_b, high_a))


def less_equal_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """`a <= b` over containers, by the bounds."""
    (low_a, high_a), (low_b, high_b) = _ends(a), _ends(b)
    return _strict_condition(a, b, _may(order.less_equal, low_a, high_b), _may(order.less, low_b, high_a))


def greater_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """`a > b` over containers, as `b < a`."""
    return less_transfer(out, b, a)


def greater_equal_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """`a >= b` over containers, as `b <= a`."""
    return less_equal_transfer(out, b, a)


def equal_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """`a = b` over containers: may be true where the ranges meet, false unless both are one same value."""
    (low_a, high_a), (low_b, high_b) = _ends(a), _ends(b)
    meet = _may(order.less_equal, low_a, high_b) & _may(order.less_equal, low_b, high_a)
    same = ~_may(order.less, low_a, high_b) & ~_may(order.less, low_b, high_a)
    return _strict_condition(a, b, meet, ~same)


def not_equal_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """`a <> b` over containers, as NOT `a = b`."""
    same = equal_transfer(out, a, b)
    assert same.true is not None
    assert same.false is not None
    return Specs.boolean(same.false, same.true, same.null, same.error)


_compares = partial(scalar, params=(ANY_A, ANY_A), result=BOOL, errors=NEVER, stable=True)


@_compares(
    "=",
    transfer=equal_transfer,
    spark=comparison_form("({0} = {1})"),
    duckdb=duckdb_form.comparison("({0} = {1})"),
)
def equal(a: Datum, b: Datum) -> pa.Array:
    """Whether both values are equal; NaN equals itself."""
    return order.equal(a, b)


@_compares(
    "<>",
    transfer=not_equal_transfer,
    spark=comparison_form("({0} <> {1})"),
    duckdb=duckdb_form.comparison("({0} <> {1})"),
)
def not_equal(a: Datum, b: Datum) -> pa.Array:
    """Whether the values differ."""
    return pc.invert(order.equal(a, b))


@_compares(
    "<",
    transfer=less_transfer,
    spark=comparison_form("({0} < {1})", ordered=True),
    duckdb=duckdb_form.comparison("({0} < {1})"),
)
def less(a: Datum, b: Datum) -> pa.Array:
    """Whether the first value is less; NaN is greatest, text is compared by code point."""
    return order.less(a, b)


@_compares(
    "<=",
    transfer=less_equal_transfer,
    spark=comparison_form("({0} <= {1})", ordered=True),
    duckdb=duckdb_form.comparison("({0} <= {1})"),
)
def less_equal(a: Datum, b: Datum) -> pa.Array:
    """Whether the first value is less or equal."""
    return order.less_equal(a, b)


@_compares(
    ">",
    transfer=greater_transfer,
    spark=comparison_form("({0} > {1})", ordered=True),
    duckdb=duckdb_form.comparison("({0} > {1})"),
)
def greater(a: Datum, b: Datum) -> pa.Array:
    """Whether the first value is greater; NaN is greatest."""
    return order.less(b, a)


@_compares(
    ">=",
    transfer=greater_equal_transfer,
    spark=comparison_form("({0} >= {1})", ordered=True),
    duckdb=duckdb_form.comparison("({0} >= {1})"),
)
def greater_equal(a: Datum, b: Datum) -> pa.Array:
    """Whether the first value is greater or equal."""
    return order.less_equal(b, a)


def distinct_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """IS DISTINCT FROM over containers: never NULL; NULLs are equal to each other."""
    same = equal_transfer(out, a, b)
    assert same.true is not None
    assert same.false is not None
    either_null = (a.null & ~b.empty) | (b.null & ~a.empty)
    return Specs.boolean(same.false | either_null, same.true | (a.null & b.null), NO, a.error | b.error)


@_compares(
    "is distinct from", lenient=True, transfer=distinct_transfer, spark=comparison_form("(NOT {0} <=> {1})")
)
def is_distinct_from(a: Datum, b: Datum) -> pa.Array:
    """Whether the values differ; NULL equals NULL."""
    n = length(a, b)
    a, b = spread(a, n), spread(b, n)
    same = pc.fill_null(order.equal(a, b), False)
    return pc.invert(pc.or_(same, pc.and_(a.is_null(), b.is_null())))
