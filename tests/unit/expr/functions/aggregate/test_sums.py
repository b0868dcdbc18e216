"""Aggregates of sums: exact variances of long numbers, and sums of intervals."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from tidegate.expr.functions.aggregate import sums
from tidegate.expr.model.function import REGISTRY
from tidegate.expr.model.types import INT8, NUMERIC, numeric

LONG = [Decimal("12345678901234567890.123456789012345678"), Decimal("-0.000000000000000001"), Decimal(7)]


def groups_of(values: list[Decimal], groups: int) -> list[list[int]]:
    column = pa.array(values, pa.decimal128(38, 18))
    return [
        [int(v) for v in sums.digit_group(column, pa.scalar(i, pa.int32())).to_pylist()]
        for i in range(groups)
    ]


def test_the_groups_of_digits_are_the_number() -> None:
    found = groups_of(LONG, 3)
    for value, parts in zip(LONG, zip(*found, strict=True), strict=True):
        assert sum(part * 10 ** (13 * i) for i, part in enumerate(parts)) == int(
            value.scaleb(18, Context(prec=60))
        )
        assert all(abs(part) < 10**13 for part in parts)


def deviation(name: str, values: list[Decimal | int], scale: int = 18) -> Any:
    """The function over the sums that an engine would add up."""
    whole = [int(Decimal(v).scaleb(scale)) for v in values]
    parts = [[(abs(v) // 10 ** (13 * i) % 10**13) * (-1 if v < 0 else 1) for i in range(3)] for v in whole]
    products = [sum(p[i] * p[k - i] for p in parts for i in range(3) if 0 <= k - i < 3) for k in range(5)]
    args = [
        pa.array([len(values)], pa.int64()),
        pa.array([Decimal(sum(whole)).scaleb(-scale)], pa.decimal128(38, scale)),
        *(pa.array([Decimal(p)], pa.decimal128(38, 0)) for p in products),
    ]
    (function,) = REGISTRY.overloads(f"{name} of sums")
    outcome = function.run(args, NUMERIC, [INT8, numeric(38, scale), *[numeric(38, 0)] * 5])
    return outcome.values[0].as_py() if outcome.errors is None else outcome.errors[0].as_py()


def test_variances_of_long_numbers_are_exact() -> None:
    values = [Decimal("100000.000000000000000001"), Decimal("100000.000000000000000003"), Decimal("100001.5")]
    exact = [Fraction(v) for v in values]
    mean = sum(exact) / 3
    variance = sum((v - mean) ** 2 for v in exact) / 2
    assert deviation("var_samp", list(values)) == round(
        Decimal(variance.numerator) / variance.denominator, 18
    )


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("var_pop", [1], "0"), ("var_samp", [1], None), ("stddev_samp", [1], None), ("var_samp", [1, 2], "0.5"),
        ("stddev_samp", [1, 2], "0.707106781186547524"), ("stddev_pop", [1, 2, 3, 4], "1.118033988749894848"),
        ("var_pop", [], None),
    ],
)  # fmt: skip
def test_deviations(name: str, values: list[Decimal | int], expected: str | None) -> None:
    assert deviation(name, values, 2) == (None if expected is None else Decimal(expected))


def test_a_variance_that_does_not_fit_is_an_error() -> None:
    assert deviation("var_pop", [0, 10**12], 0) == "numeric field overflow"
    assert deviation("stddev_pop", [0, 10**12], 0) == Decimal(5 * 10**11)


def test_parts_of_intervals_and_their_sums() -> None:
    months, days, micros = 14, -3, 5_000_001
    column = pa.array([(months, days, micros * 1000), None], pa.month_day_nano_interval())
    parts = [sums.interval_part(column, pa.scalar(i, pa.int32())) for i in range(3)]
    assert [part.to_pylist() for part in parts] == [[14, None], [-3, None], [5_000_001, None]]
    totals = [
        pa.array([Decimal(v), Decimal(2**31), None], pa.decimal128(38, 0)) for v in (months, days, micros)
    ]
    found = sums.interval_of_sums(*totals)
    assert found.values.to_pylist() == [pa.MonthDayNano((14, -3, 5_000_001_000)), None, None]
    assert found.errors.to_pylist() == [None, "interval out of range", None]
