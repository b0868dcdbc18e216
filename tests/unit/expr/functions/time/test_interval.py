"""Interval arithmetic and text: PostgreSQL's answers, and bounds that hold and prune."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.expr.functions.time_cases import (
    answer,
    assert_sound,
    bounds,
    column,
    literal,
    one_range,
    sorted_pool,
)
from tidegate.expr.domain.specs import Specs
from tidegate.expr.model.build import call
from tidegate.expr.model.tree import Column
from tidegate.expr.model.types import FLOAT8, INT4, INTERVAL, TIMESTAMPTZ
from tidegate.expr.primitives.time.interval_text import parse_interval

CASES = (
    ("+", "1 mon 2 days::interval", "-3 days 01:00::interval", "1 mon -1 days +01:00:00"),
    ("-", "1 mon::interval", "30 days::interval", "1 mon -30 days"),
    ("-", "1 year -2 days::interval", "-1 years +2 days"),
    ("*", "1 mon 1 day 01:00::interval", "1.5::float8", "1 mon 16 days 13:30:00"),
    ("*", "0.1::float8", "1 year::interval", "1 mon 6 days"),
    ("*", "1 day::interval", "NaN::float8", "ERROR: interval out of range"),
    ("*", "2147483647::float8", "1 mon -30 days::interval", "ERROR: interval out of range"),
    ("/", "1 mon::interval", "7::float8", "4 days 06:51:25.6896"),
    ("/", "1 day::interval", "0::float8", "ERROR: division by zero"),
    ("/", "-1 day::interval", "3::float8", "-08:00:00"),
    ("justify_hours", "50:10::interval", "2 days 02:10:00"),
    ("justify_hours", "1 day -01:00::interval", "23:00:00"),
    ("justify_days", "65 days::interval", "2 mons 5 days"),
    ("justify_days", "-1 mon 40 days::interval", "10 days"),
    ("justify_interval", "1 mon -01:00::interval", "29 days 23:00:00"),
    ("date_trunc", "hour::text", "3 days 25:59:59::interval", "3 days 25:00:00"),
    ("date_trunc", "year::text", "-30 mons 4 days::interval", "-2 years"),
    ("date_trunc", "week::text", "3 days::interval", 'ERROR: unit "week" not supported for type interval'),
    (
        "make_interval",
        "1::int4",
        "2::int4",
        "3::int4",
        "4::int4",
        "5::int4",
        "6::int4",
        "7.5::float8",
        "1 year 2 mons 25 days 05:06:07.5",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}:{c[1]}")
def test_as_postgresql(case: tuple[str, ...]) -> None:
    name, *args, expected = case
    assert answer(name, *args) == expected


def test_absurd_parts_are_carried_and_only_the_length_is_limited() -> None:
    assert answer("+", "292 years::interval", "-1 mon::interval") == "291 years 11 mons"
    assert answer("*", "2562047 hours::interval", "2::float8") == "213503 days 22:00:00"
    assert (
        answer("+", "100000000 days::interval", "100000000 days::interval") == "ERROR: interval out of range"
    )


POOL = sorted_pool(
    column(
        INTERVAL,
        "0",
        "1 us",
        "1 day",
        "-1 day",
        "24:00",
        "1 mon",
        "30 days",
        "-1 mon 31 days",
        "1 year",
        "360 days",
        "100 years",
        "-100 years",
        "100000000 days",
        "-100000000 days",
        "1 mon -30 days",
        "23:59:59.999999",
        "7 days 03:00",
    )
)
DAYS = sorted_pool(
    column(INTERVAL, "0", "1 us", "1 day", "-1 day", "24:00", "30 days", "-7 days", "1 day -24:00", "90 days")
)
FACTORS = pa.array(
    [-1e300, -1e6, -2.5, -1.0, -1e-9, 0.0, 1e-9, 0.1, 1 / 3, 0.5, 1.0, 1.5, 7.0, 30.0, 1e6, 1e300]
)


@pytest.mark.parametrize("name", ["+", "-", "*", "/"])
@pytest.mark.parametrize("pool", [POOL, DAYS], ids=["months", "days"])
def test_arithmetic_is_sound(name: str, pool: pa.Array) -> None:
    other = Column(1, INTERVAL) if name in "+-" else Column(1, FLOAT8)
    expr = call(name, Column(0, INTERVAL), other)
    assert_sound(expr, [pool, pool if name in "+-" else FACTORS], np.random.default_rng(3), 3000)


def test_a_multiple_of_a_day_has_bounds_and_no_months() -> None:
    from tidegate.expr.domain.interpret import Interpretation

    n = Specs.ranged(INT4, pa.array([1], pa.int32()), pa.array([30], pa.int32()))
    expr = call("*", Column(0, INT4), literal("1 day::interval"))
    assert bounds(expr, n) == ("23:59:29", "30 days 00:00:31", False)
    assert Interpretation([n]).of(expr).never_has_months().all()
    moved = call("+", Column(1, TIMESTAMPTZ), expr)
    at = one_range(TIMESTAMPTZ, "2024-01-01", "2024-01-02")
    assert bounds(moved, n, at) == ("2024-01-01 23:59:29+00", "2024-02-01 00:00:31+00", False)


def test_make_interval_of_days_has_no_months() -> None:
    from tidegate.expr.domain.interpret import Interpretation

    zero = literal("0::int4")
    n = Specs.ranged(INT4, pa.array([1], pa.int32()), pa.array([30], pa.int32()))
    specs = Interpretation([n]).of(call("make_interval", zero, zero, zero, Column(0, INT4)))
    assert specs.never_has_months().all()
    assert not specs.error.any()


TEXTS = (
    ("1 year 2 mons 3 days 04:05:06.7", (14, 3, 14706700000)),
    ("P1Y2M3DT4H5M6.7S", (14, 3, 14706700000)),
    ("P0001-02-03T04:05:06", (14, 3, 14706000000)),
    ("-1 days +2 hours", (0, -1, 7200000000)),
    ("1-2 3 4:05:06", (14, 3, 14706000000)),
    ("@ 1.5 weeks", (0, 10, 43200000000)),
    ("1.05 mons", (1, 1, 43200000000)),
    ("0.1 years", (1, 0, 0)),
    ("1 day 2 hours ago", (0, -1, -7200000000)),
    ("1:30.5", (0, 0, 90500000)),
    ("5", (0, 0, 5000000)),
    ("2 decades 1 century", (1440, 0, 0)),
    ("1d 2h 3m 4s 5ms", (0, 1, 7384005000)),
)


@pytest.mark.parametrize(("written", "parts"), TEXTS)
def test_interval_texts(written: str, parts: tuple[int, int, int]) -> None:
    assert parse_interval(written) == parts


@pytest.mark.parametrize(
    "written",
    [
        "",
        "day",
        "1 foo",
        "1 day 2 days",
        "1 2",
        "ago",
        "P",
        "1 ago",
        "1e3 days",
        "tomorrow",
        "1.5 second 42 milliseconds",
    ],
)
def test_texts_that_are_no_intervals(written: str) -> None:
    with pytest.raises(ValueError, match="invalid input syntax for type interval"):
        parse_interval(written)


@pytest.mark.parametrize("written", ["1:60", "1-12", "9999999999 days", "200000000 days"])
def test_intervals_beyond_the_range(written: str) -> None:
    with pytest.raises(ValueError, match="interval field value out of range"):
        parse_interval(written)


def test_a_unit_behind_the_literal() -> None:
    assert parse_interval("1", "DAY") == (0, 1, 0)
    assert parse_interval("1-2", "YEAR TO MONTH") == (14, 0, 0)
    assert parse_interval("1:30", "MINUTE TO SECOND") == (0, 0, 90_000_000)
    assert parse_interval("1 day 02:03:04", "HOUR") == (0, 1, 7_200_000_000)
