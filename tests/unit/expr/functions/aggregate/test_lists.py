"""Aggregates of lists: mode, percentiles, objects and joined texts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tidegate.expr.functions.aggregate import lists
from tidegate.expr.model.function import REGISTRY
from tidegate.expr.model.outcome import Outcome
from tidegate.expr.model.types import FLOAT8, INT4, INT8, INTERVAL, TEXT, Type, array

NAN, INF = float("nan"), float("inf")


def run(name: str, first: Type, *args: Any) -> tuple[list[Any], list[str | None]]:
    """What a function gives, and its messages; the first argument is a column of lists."""
    arrays = [pa.array(args[0], array(first).arrow), *args[1:]]
    types = [array(first), *([FLOAT8] if len(args) > 1 else [])]
    function = next(f for f in REGISTRY.overloads(name) if len(f.params) == len(arrays))
    outcome = function.run(arrays, function.result_type(types), types)
    messages = [None] * len(arrays[0]) if outcome.errors is None else outcome.errors.to_pylist()
    return outcome.values.to_pylist(), messages


@pytest.mark.parametrize(
    ("type_", "values", "expected"),
    [
        (INT4, [[1, 1, 2], [1, 2, 2], [1, 2], [], None, [7]], [1, 2, 1, None, None, 7]),
        (TEXT, [["a", "b", "b"], ["x"]], ["b", "x"]),
        (FLOAT8, [[-INF, 0.0, -0.0, NAN], [NAN, NAN]], [0.0, NAN]),
    ],
)
def test_mode_is_the_first_of_the_most_frequent(type_: Type, values: list[Any], expected: list[Any]) -> None:
    found, _ = run("mode of sorted", type_, values)
    assert repr(found) == repr(expected)


def test_intervals_of_equal_length_are_one_value() -> None:
    month, days, short = (1, 0, 0), (0, 30, 0), (0, 1, 0)
    found, _ = run("mode of sorted", INTERVAL, [[short, month, days]])
    assert found == [pa.MonthDayNano(month)]


def test_sorted_lists_without_what_is_equal() -> None:
    found, _ = run("distinct of sorted", INT4, [[1, 1, 2, None, None], [], None, [2], [2, 2]])
    assert found == [[1, 2, None], [], None, [2], [2]]
    found, _ = run("distinct of sorted", INTERVAL, [[(0, 30, 0), (1, 0, 0), (1, 0, 1000)]])
    assert found == [[pa.MonthDayNano((0, 30, 0)), pa.MonthDayNano((1, 0, 1000))]]


def test_extremes_follow_the_order_of_arrays() -> None:
    rows = [[[2], [1, 5], [1, None], [1]], [[None], [NAN], [INF]], [], None, [[]]]
    found, _ = run("min of", array(FLOAT8), rows)
    assert found == [[1.0], [INF], None, None, []]
    found, _ = run("max of", array(FLOAT8), rows)
    assert found == [[2.0], [None], None, None, []]


def test_percentiles_of_values_that_exist() -> None:
    values = [[1, 2, 3, 4]] * 5
    fractions = pa.array([0.0, 0.25, 0.26, 1.0, None])
    assert run("percentile_disc of sorted", INT8, values, fractions) == ([1, 1, 2, 4, None], [None] * 5)


def test_percentiles_between_values() -> None:
    values = [[1.0, 2.0, 4.0], [1.0, INF], [INF], [INF, INF], [], None]
    found, _ = run("percentile_cont of sorted", FLOAT8, values, pa.scalar(0.75))
    # As in PostgreSQL, infinity + 0.75 * (infinity - infinity) is NaN.
    assert repr(found) == repr([3.0, INF, INF, NAN, None, None])


def test_a_fraction_outside_of_0_and_1_is_an_error() -> None:
    _, messages = run("percentile_cont of sorted", FLOAT8, [[1.0]] * 3, pa.array([1.5, NAN, 1.0]))
    assert messages == [
        "percentile value 1.5 is not between 0 and 1", "percentile value nan is not between 0 and 1", None,
    ]  # fmt: skip


def test_several_percentiles_at_once() -> None:
    values = pa.array([[1, 2, 3], [5], None], array(INT4).arrow)
    fractions = pa.array([[0.0, None, 1.0], None, [0.5]], array(FLOAT8).arrow)
    found = lists.percentiles_disc(values, fractions)
    assert found == Outcome(pa.array([[1, None, 3], None, None], array(INT4).arrow))
    wrong = lists.percentiles_disc(values, pa.array([[0.5], [0.5, 7.0], [9.0]], array(FLOAT8).arrow))
    assert wrong.errors.to_pylist() == [None, "percentile value 7 is not between 0 and 1", None]


def test_the_last_of_equal_keys_wins() -> None:
    pairs = [[("a", "1"), ("b", None), ("a", '"x"')], [], None]
    values = pa.array(
        [None if p is None else [{"k": k, "v": v} for k, v in p] for p in pairs], lists.PAIRS.arrow
    )
    assert lists.object_of_pairs(values).values.to_pylist() == ['{"a":"x","b":null}', "{}", None]


def test_a_key_that_is_null_is_an_error() -> None:
    values = pa.array([[{"k": None, "v": "1"}], [{"k": "a", "v": "1"}]], lists.PAIRS.arrow)
    assert lists.object_of_pairs(values).errors.to_pylist() == ["field name must not be null", None]


def test_each_text_but_the_first_has_its_separator() -> None:
    parts = [[(",", "a"), ("-", "b"), (None, "c")], [(",", "")], None]
    values = pa.array(
        [None if p is None else [{"separator": s, "value": v} for s, v in p] for p in parts],
        lists.JOINED.arrow,
    )
    assert lists.joined(values).to_pylist() == ["a-bc", "", None]
