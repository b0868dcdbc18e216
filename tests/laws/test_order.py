"""The one order is an order: total, antisymmetric, transitive, and the same through every function of
`order.py`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.boxes import sorted_by_order
from tests.laws.cases import cases
from tests.laws.instances import FOR_ANY
from tests.laws.poison import corpus, intervals, mixed, with_nulls
from tidegate.expr.model import order
from tidegate.expr.model.outcome import to_bools
from tidegate.expr.model.types import FLOAT4, FLOAT8, SCALARS, TEXT, Type, array, numeric, record

TYPES = list(
    dict.fromkeys(
        (*SCALARS, *FOR_ANY, numeric(38, 0), array(TEXT), record(("a", FLOAT8), ("b", array(TEXT))))
    )
)


def pairs(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    m = len(values)
    return values.take(pa.array(np.repeat(np.arange(m), m))), values.take(pa.array(np.tile(np.arange(m), m)))


@pytest.mark.parametrize("type_", TYPES, ids=str)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=cases(3))
def test_total_order(type_: Type, seed: int) -> None:
    """3 cases: each looks at all pairs and all triples of 60 values, so the corpus is seen whole."""
    values = mixed(type_, np.random.default_rng(seed), 60)
    m, (a, b) = len(values), pairs(values)
    less, equal, less_equal = (
        to_bools(f(a, b)).reshape(m, m) for f in (order.less, order.equal, order.less_equal)
    )
    assert ((less.astype(int) + less.T + equal) == 1).all(), "just one of <, > and = holds"
    assert (less_equal == (less | equal)).all()
    assert (order.sign(a, b).reshape(m, m) == less.T.astype(int) - less).all()
    # Transitivity by matrix product: where some k has a <= k <= b, also a <= b.
    assert not ((less_equal.astype(int) @ less_equal.astype(int) > 0) & ~less_equal).any()
    small, great = order.smaller(a, b), order.greater(a, b)
    assert to_bools(order.less_equal(small, great)).all()
    assert to_bools(order.equal(small, pc.if_else(pa.array(less_equal.ravel()), a, b))).all()


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_slices_scalars_and_nulls(type_: Type) -> None:
    """A slice is compared as its rows are, a scalar as the array it stands for, and NULL gives NULL."""
    rng = np.random.default_rng(5)
    a, b = (with_nulls(rng, mixed(type_, rng, 50), 0.2) for _ in range(2))
    for compare in (order.less, order.equal, order.less_equal):
        whole = compare(a, b)
        assert whole.slice(7, 20).equals(compare(a.slice(7, 20), b.slice(7, 20)))
        assert whole.is_null().equals(pc.or_(a.is_null(), b.is_null()))
        assert compare(a, pa.repeat(b[3], 50)).equals(compare(a, b[3]))
        assert compare(pa.repeat(a[3], 50), b).equals(compare(a[3], b))
        assert len(compare(a.slice(0, 0), b.slice(0, 0))) == 0


@pytest.mark.parametrize("type_", [FLOAT4, FLOAT8], ids=str)
def test_nan_is_greatest_and_zero_has_no_sign(type_: Type) -> None:
    values = corpus(type_)
    nan = pa.scalar(float("nan"), type_.arrow)
    is_nan = pc.is_nan(values)
    assert order.less(values, nan).equals(pc.invert(is_nan))
    assert order.equal(values, nan).equals(is_nan)
    negative = pa.array(np.array([-np.nan, -0.0]).astype(type_.arrow.to_pandas_dtype()))
    assert order.equal(negative, pa.array([np.nan, 0.0], type_.arrow)).to_pylist() == [True, True]


def test_text_is_ordered_by_code_point() -> None:
    """UTF-16 would put U+10000 before U+E000, and a collation would put "a" before "B"."""
    values = sorted_by_order(corpus(TEXT)).to_pylist()
    assert values == sorted(values)


def test_a_month_is_thirty_days_long() -> None:
    month, days = intervals([(1, 0, 0)]), intervals([(0, 30, 0)])
    assert order.equal(month, days).to_pylist() == [True]
    assert order.less(month, intervals([(0, 30, 1)])).to_pylist() == [True]


def test_decimals_of_different_scale() -> None:
    wide, fine = pa.array(["99999999999999999999999999999999999999"]), pa.array(["0.000000000000000001"])
    a, b = wide.cast(pa.decimal128(38, 0)), fine.cast(pa.decimal128(38, 18))
    assert order.less(b, a).to_pylist() == [True]
    assert order.equal(a, b).to_pylist() == [False]
