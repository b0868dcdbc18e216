"""Every declared overload keeps every claim it makes: trend, errors, nulls, NaN, transfer, slices."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.laws.cases import cases
from tests.laws.exact import all_hold
from tests.laws.instances import Instance, instances

CASES = 12
"""Cases of 256 rows for each law and instance: enough for every lie of test_planted_lies.py, which counts
with this number.
"""


@pytest.mark.parametrize("instance", instances(), ids=str)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=cases(CASES), phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_claims(instance: Instance, seed: int) -> None:
    all_hold(instance, seed)
