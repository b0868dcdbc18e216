"""Small batches are joined before they are folded."""

from __future__ import annotations

import itertools
from unittest import mock

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.query.aggregate import streaming as aggregate


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 12))
def test_small_batches_are_joined_in_their_order(sizes: list[int], most: int) -> None:
    """Nothing is lost or moved, and no two neighbours would have fitted; 50 cases meet each length."""
    numbers = iter(range(1000))
    columns = [pa.array([next(numbers) for _ in range(size)], pa.int64()) for size in sizes]
    with mock.patch.object(aggregate, "GATHERED_ROWS", most):
        found = list(aggregate.gathered(([column], len(column)) for column in columns))
    assert [value for (column,), _ in found for value in column.to_pylist()] == list(range(sum(sizes)))
    assert all(len(column) == rows for (column,), rows in found)
    assert all(a[1] + b[1] > most for a, b in itertools.pairwise(found))


def test_batches_of_other_types_are_not_joined() -> None:
    texts = [pa.array(["a"]), pa.array(["b"], pa.string_view()), pa.array(["c"], pa.string_view())]
    found = list(aggregate.gathered(([column], 1) for column in texts))
    assert [column.to_pylist() for (column,), _ in found] == [["a"], ["b", "c"]]
