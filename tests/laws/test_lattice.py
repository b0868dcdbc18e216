"""Laws of Specs themselves: what a union admits, what a literal admits, what broken bounds mean, what
verdicts say.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.admits import admits
from tests.laws.boxes import box, triple
from tests.laws.cases import cases
from tests.laws.claims import show_specs
from tests.laws.instances import FOR_ANY
from tests.laws.poison import corpus, mixed
from tidegate.expr.domain.specs import Specs, Verdict
from tidegate.expr.model import order
from tidegate.expr.model.outcome import to_bools
from tidegate.expr.model.types import FLOAT8, INT4, SCALARS, Type

TYPES = list(dict.fromkeys((*SCALARS, *FOR_ANY)))
SEED = st.integers(0, 2**32 - 1)
N = 200


def planted(failed: np.ndarray) -> pa.Array:
    return pa.array(["planted"] * len(failed), pa.string(), mask=~failed)


@pytest.mark.parametrize("type_", TYPES, ids=str)
@given(seed=SEED)
@settings(max_examples=cases(10))
def test_union_admits_what_either_admits(type_: Type, seed: int) -> None:
    """10 cases of 200 pairs of containers; a union that forgot a flag of one side is caught in the first."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(["many", "one", "literal"], 2, p=[0.7, 0.15, 0.15])
    a, b = (box(rng, type_, N, containers=kind) for kind in kinds)
    both, swapped = a.specs.union(b.specs), b.specs.union(a.specs)
    for side in (a, b):
        errors = planted(side.failed)
        assert admits(side.specs, side.rows, errors).all(), "the box does not admit its own rows"
        for union in (both, swapped):
            bad = np.flatnonzero(~admits(union, side.rows, errors))
            assert not len(bad), (
                f"{show_specs(a.specs, bad[0])} ∪ {show_specs(b.specs, bad[0])} lost {side.rows[bad[0]]}"
            )


@pytest.mark.parametrize("type_", TYPES, ids=str)
@given(seed=SEED)
@settings(max_examples=cases(10))
def test_a_literal_admits_exactly_its_value(type_: Type, seed: int) -> None:
    rng = np.random.default_rng(seed)
    others = mixed(type_, rng, N)
    value = others[0]
    specs = Specs.literal(type_, value)
    admitted = admits(specs, others)
    equal = to_bools(order.equal(others, value))
    # NaN's Specs say only that NaN may occur: it lies outside of every range.
    if not (type_.is_float and np.isnan(value.as_py())):
        assert (admitted <= equal).all()
    assert admitted[0]
    assert not admits(specs, pa.nulls(1, type_.arrow)).any()
    assert not admits(specs, pa.nulls(1, type_.arrow), pa.array(["failed"])).any()


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_null_admits_only_null(type_: Type) -> None:
    specs = Specs.literal(type_, pa.scalar(None, type_.arrow))
    assert admits(specs, pa.nulls(3, type_.arrow)).all()
    assert not admits(specs, corpus(type_)).any()


@pytest.mark.parametrize("type_", TYPES, ids=str)
@given(seed=SEED)
@settings(max_examples=cases(5))
def test_broken_bounds_mean_unknown(type_: Type, seed: int) -> None:
    """low > high is someone's mistake. Read as *empty*, it would lose every row of the part."""
    low, middle, high = triple(np.random.default_rng(seed), type_, N)
    wrong = to_bools(order.less(low, high))
    specs = Specs.ranged(type_, high, low)
    assert admits(specs, middle)[wrong].all()
    assert admits(specs, low)[wrong].all()
    assert not specs.empty.any()


def test_nan_bounds_mean_unknown() -> None:
    """(-NaN, +NaN) as bounds looks like "all are NaN", and (NaN, 1) like "none"."""
    nan = pa.array([float("nan"), -float("nan"), 1.0, float("nan")])
    specs = Specs.ranged(FLOAT8, nan, pa.array([1.0, float("nan"), float("nan"), -1.0]))
    for value in (-5.0, 1.0, 7.0):
        admitted = admits(specs, pa.array([value] * 4))
        assert admitted[[0, 1, 3]].tolist() == [value <= 1.0, True, value <= -1.0]
        assert admitted[2] == (value >= 1.0)
    assert admits(specs, pa.array([float("nan")] * 4)).all()


@given(seed=SEED)
@settings(max_examples=cases(20))
def test_verdicts(seed: int) -> None:
    """NONE: nothing can be true or fail. ALL: everything is true. Neither is said of a container that may be
    both.
    """
    flags = {
        name: np.random.default_rng([seed, i]).random(N) < 0.5
        for i, name in enumerate(("true", "false", "null", "error"))
    }
    specs = Specs.boolean(**flags)
    verdict = specs.verdict()
    none, every = verdict == Verdict.NONE, verdict == Verdict.ALL
    assert not (none & (flags["true"] | flags["error"])).any()
    assert not (every & (flags["false"] | flags["null"] | flags["error"])).any()
    assert (every <= flags["true"]).all()
    # As precise as flags allow: whatever is surely one of both is said to be.
    assert (none == ~(flags["true"] | flags["error"])).all()
    assert (every == (flags["true"] & ~flags["false"] & ~flags["null"] & ~flags["error"])).all()


def test_empty_comes_from_counts_alone() -> None:
    """Equal bounds, broken bounds, missing bounds: none of them makes a container empty."""
    bounds = [None, pa.array([1], pa.int32()), pa.array([5], pa.int32()), pa.nulls(1, pa.int32())]
    for low in bounds:
        for high in bounds:
            assert not Specs.ranged(INT4, low, high).empty.any()
