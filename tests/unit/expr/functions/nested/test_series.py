"""generate_series and unnest as arrays: every expectation is what PostgreSQL's function of that name gives as rows."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.expr.boxes import column, outcomes
from tidegate.expr.functions.nested.series import TOO_LONG, ZERO_STEP
from tidegate.expr.model.build import call, cast, literal, text
from tidegate.expr.model.types import (
    INT4,
    INT8,
    INTERVAL,
    TIMESTAMP,
    TIMESTAMPTZ,
    Type,
    array,
    numeric,
)

moment = datetime.fromisoformat
LOW, HIGH = -(2**63), 2**63 - 1


def series(type_: Type, *rows: tuple[Any, Any, Any]) -> list[Any]:
    """generate_series of each row, of numbers."""
    expr = call("generate_series", *(column(type_, i) for i in range(3)), hidden=True)
    return outcomes(expr, *(pa.array(list(values), type_.arrow) for values in zip(*rows, strict=True)))


def times(type_: Type, *rows: tuple[str, str, str]) -> list[Any]:
    """generate_series of each row, of times."""
    args = (column(type_), column(type_, 1), column(INTERVAL, 2))
    expr = call("generate_series", *args, hidden=True)
    kinds = (type_, type_, INTERVAL)
    columns = [
        pa.array([cast(text(v), kind).value for v in values], kind.arrow)  # type: ignore[attr-defined]  # a constant
        for kind, values in zip(kinds, zip(*rows, strict=True), strict=True)
    ]
    return outcomes(expr, *columns)


def test_integers() -> None:
    assert series(INT4, (1, 10, 4), (3, 1, -1), (1, 0, 1), (5, 5, 9), (1, None, 1), (1, 2, 0)) == [
        [1, 5, 9],
        [3, 2, 1],
        [],
        [5],
        None,
        ZERO_STEP,
    ]


def test_integers_at_the_ends_of_their_range() -> None:
    assert series(INT8, (LOW, HIGH, 2**62), (HIGH, LOW, LOW), (HIGH - 1, HIGH, 1), (LOW, HIGH, 1)) == [
        [LOW, LOW + 2**62, 0, 2**62],
        [HIGH, -1],
        [HIGH - 1, HIGH],
        TOO_LONG,
    ]


def test_numerics() -> None:
    type_ = numeric(20, 2)
    rows = series(
        type_, (Decimal(1), Decimal(2), Decimal("0.50")), (Decimal(0), Decimal(-1), Decimal("-0.75"))
    )
    assert rows == [[Decimal("1.00"), Decimal("1.50"), Decimal("2.00")], [Decimal("0.00"), Decimal("-0.75")]]


def test_a_step_of_months_is_added_to_the_last_value() -> None:
    """From 29 February on, PostgreSQL stays with the 29th."""
    assert times(
        TIMESTAMP,
        ("2024-01-31", "2024-04-30", "1 month"),
        ("2024-01-01", "2024-01-02", "12 hours"),
        ("2024-03-31", "2024-01-01", "-1 month"),
        ("2024-01-01", "2024-01-02", "1 month -30 days"),
    ) == [
        [moment("2024-01-31"), moment("2024-02-29"), moment("2024-03-29"), moment("2024-04-29")],
        [moment("2024-01-01"), moment("2024-01-01 12:00"), moment("2024-01-02")],
        [moment("2024-03-31"), moment("2024-02-29"), moment("2024-01-29")],
        ZERO_STEP,
    ]


def test_times_with_a_zone() -> None:
    assert times(TIMESTAMPTZ, ("2024-01-01+00", "2024-01-03+00", "1 day")) == [
        [datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    ]


@pytest.mark.parametrize(
    ("type_", "start", "step", "values"),
    [
        (INT4, 7, 3, [7, 10, 13]),
        (INT8, LOW, 2**62, [LOW, LOW + 2**62, 0]),
        (numeric(10, 2), Decimal("1.00"), -25, [Decimal("1.00"), Decimal("0.75"), Decimal("0.50")]),
        (TIMESTAMP, moment("2024-01-01"), 3_600_000_000, [moment(f"2024-01-01 {h:02}:00") for h in (0, 1, 2)]),
    ],
)  # fmt: skip
def test_single_numbers_of_a_series(type_: Type, start: Any, step: int, values: list[Any]) -> None:
    expr = call("series value", literal(start, type_), literal(step, INT8), column(INT8), hidden=True)
    assert outcomes(expr, pa.array([0, 1, 2, None], pa.int64())) == [*values, None]


def test_unnest_takes_inner_arrays_apart_too() -> None:
    type_ = array(array(INT4))
    rows = pa.array([[[1, 2], [3]], [], None, [[], [4, None]]], type_.arrow)
    assert outcomes(call("unnest", column(type_), hidden=True), rows) == [[1, 2, 3], [], None, [4, None]]
