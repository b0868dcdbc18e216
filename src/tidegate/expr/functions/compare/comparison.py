"""Comparisons: `= <> < <= > >=`, IS DISTINCT FROM, and IN.

All follow the one order of `order.py`. Over containers two ranges are compared by their ends: `a < b` can be true where the
least a is below the greatest b, and can be false where the greatest a is not below the least b. NaN counts as the greatest
value. What the bounds do not tell stays open both ways.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr import order
from tidegate.expr.function import ANY_A, NEVER, scalar
from tidegate.expr.outcome import Datum, length, spread
from tidegate.expr.spark_form import compared
from tidegate.expr.specs import NO, Specs, fit, to_bools
from tidegate.expr.types import BOOL, Type


def _ends(a: Specs) -> tuple[pa.Array, pa.Array]:
    """Bounds in which NaN is the greatest value: what a comparison sees of a range that may hold NaN."""
    low, high = a.bounds()
    if a.nan is None or not a.nan.any():
        return low, high
    n = max(len(high), len(a.nan))
    high = spread(high[0], n) if len(high) == 1 else high
    return low, pc.if_else(pa.array(np.broadcast_to(a.nan, n)), pa.scalar(float("nan"), high.type), high)


def _may(compare: Callable[[Datum, Datum], pa.Array], a: pa.Array, b: pa.Array) -> np.ndarray:
    """Where the comparison of two ends holds, or one of them is unknown."""
    result = compare(*fit(a, b))
    return to_bools(pc.fill_null(result, True) if result.null_count else result)


def _compared(a: Specs, b: Specs, true: np.ndarray, false: np.ndarray) -> Specs:
    """A strict condition: nothing where either side has no values."""
    some = ~(a.empty | b.empty)
    return Specs.boolean(true & some, false & some, a.null | b.null, a.error | b.error)


def less_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """a < b over containers, by the ends."""
    (low_a, high_a), (low_b, high_b) = _ends(a), _ends(b)
    return _compared(a, b, _may(order.less, low_a, high_b), _may(order.less_equal, low_b, high_a))


def less_equal_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """a <= b over containers, by the ends."""
    (low_a, high_a), (low_b, high_b) = _ends(a), _ends(b)
    return _compared(a, b, _may(order.less_equal, low_a, high_b), _may(order.less, low_b, high_a))


def greater_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """a > b is b < a."""
    return less_transfer(out, b, a)


def greater_equal_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """a >= b is b <= a."""
    return less_equal_transfer(out, b, a)


def equal_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """a = b over containers: can be true where the ranges meet, and false unless both are one and the same value."""
    (low_a, high_a), (low_b, high_b) = _ends(a), _ends(b)
    meet = _may(order.less_equal, low_a, high_b) & _may(order.less_equal, low_b, high_a)
    same = ~_may(order.less, low_a, high_b) & ~_may(order.less, low_b, high_a)
    return _compared(a, b, meet, ~same)


def not_equal_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """a <> b is NOT a = b."""
    same = equal_transfer(out, a, b)
    assert same.true is not None
    assert same.false is not None
    return Specs.boolean(same.false, same.true, same.null, same.error)


@scalar(
    "=",
    (ANY_A, ANY_A),
    BOOL,
    errors=NEVER,
    transfer=equal_transfer,
    stable=True,
    spark=compared("({0} = {1})"),
)
def equal(a: Datum, b: Datum) -> pa.Array:
    """Whether both are equal; NaN is equal to itself."""
    return order.equal(a, b)


@scalar(
    "<>",
    (ANY_A, ANY_A),
    BOOL,
    errors=NEVER,
    transfer=not_equal_transfer,
    stable=True,
    spark=compared("({0} <> {1})"),
)
def not_equal(a: Datum, b: Datum) -> pa.Array:
    """Whether they differ."""
    return pc.invert(order.equal(a, b))


@scalar(
    "<",
    (ANY_A, ANY_A),
    BOOL,
    errors=NEVER,
    transfer=less_transfer,
    stable=True,
    spark=compared("({0} < {1})", ordered=True),
)
def less(a: Datum, b: Datum) -> pa.Array:
    """Whether the first is less; NaN is greatest, text is compared by code point."""
    return order.less(a, b)


@scalar(
    "<=",
    (ANY_A, ANY_A),
    BOOL,
    errors=NEVER,
    transfer=less_equal_transfer,
    stable=True,
    spark=compared("({0} <= {1})", ordered=True),
)
def less_equal(a: Datum, b: Datum) -> pa.Array:
    """Whether the first is less or equal."""
    return order.less_equal(a, b)


@scalar(
    ">",
    (ANY_A, ANY_A),
    BOOL,
    errors=NEVER,
    transfer=greater_transfer,
    stable=True,
    spark=compared("({0} > {1})", ordered=True),
)
def greater(a: Datum, b: Datum) -> pa.Array:
    """Whether the first is greater; NaN is greatest."""
    return order.less(b, a)


@scalar(
    ">=",
    (ANY_A, ANY_A),
    BOOL,
    errors=NEVER,
    transfer=greater_equal_transfer,
    stable=True,
    spark=compared("({0} >= {1})", ordered=True),
)
def greater_equal(a: Datum, b: Datum) -> pa.Array:
    """Whether the first is greater or equal."""
    return order.less_equal(b, a)


def distinct_transfer(out: Type, a: Specs, b: Specs) -> Specs:
    """IS DISTINCT FROM over containers: never null; nulls are equal to each other."""
    same = equal_transfer(out, a, b)
    assert same.true is not None
    assert same.false is not None
    one_null = (a.null & ~b.empty) | (b.null & ~a.empty)
    return Specs.boolean(same.false | one_null, same.true | (a.null & b.null), NO, a.error | b.error)


@scalar(
    "is distinct from",
    (ANY_A, ANY_A),
    BOOL,
    lenient=True,
    errors=NEVER,
    transfer=distinct_transfer,
    stable=True,
    spark=compared("(NOT {0} <=> {1})"),
)
def is_distinct_from(a: Datum, b: Datum) -> pa.Array:
    """Whether they differ, NULL being equal to NULL."""
    n = length(a, b)
    a, b = spread(a, n), spread(b, n)
    same = pc.fill_null(order.equal(a, b), False)
    return pc.invert(pc.or_(same, pc.and_(a.is_null(), b.is_null())))
