"""Laws over series of few elements: the claims are about each element, and a million for each of a hundred boxes takes minutes."""

from collections.abc import Iterator

import pytest

from tidegate.expr.functions.nested import series


@pytest.fixture(autouse=True, scope="module")
def short_series() -> Iterator[None]:
    """Series of a row end by the same error as others, only sooner."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(series, "MAX_ELEMENTS", 1_000)
        patch.setattr(series, "MAX_MONTH_STEPS", 48)
        yield
