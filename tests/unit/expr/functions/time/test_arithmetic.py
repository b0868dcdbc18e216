"""Times moved by intervals: PostgreSQL's answers, and bounds that hold and prune."""

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
from tidegate.expr.model.build import call, text
from tidegate.expr.model.tree import Column
from tidegate.expr.model.types import DATE, INTERVAL, TIMESTAMP, TIMESTAMPTZ, Type

CASES = (
    ("+", "2024-01-31 10:00::timestamp", "1 month::interval", "2024-02-29 10:00:00"),
    ("+", "2023-01-31::date", "1 month::interval", "2023-02-28 00:00:00"),
    ("-", "2024-03-31 10:00::timestamptz", "1 month::interval", "2024-02-29 10:00:00+00"),
    ("+", "2024-02-29::timestamp", "1 year::interval", "2025-02-28 00:00:00"),
    ("+", "2024-01-31::timestamp", "1 mon -1 day::interval", "2024-02-28 00:00:00"),
    ("+", "1 day::interval", "2024-02-28 23:00::timestamp", "2024-02-29 23:00:00"),
    ("-", "2024-03-01::date", "1 day 01:00::interval", "2024-02-28 23:00:00"),
    ("+", "2024-02-28::date", "2::int4", "2024-03-01"),
    ("-", "2024-03-01::date", "1::int4", "2024-02-29"),
    ("+", "2::int4", "2024-02-28::date", "2024-03-01"),
    ("-", "2024-03-01::date", "2023-03-01::date", "366"),
    ("-", "2024-03-01 10:00::timestamp", "2024-02-28 12:30::timestamp", "1 day 21:30:00"),
    ("-", "2024-02-28 12:30::timestamptz", "2024-03-01 10:00::timestamptz", "-1 days -21:30:00"),
    ("+", "2024-03-01::date", "10:30::time", "2024-03-01 10:30:00"),
    ("+", "10:30::time", "2024-03-01::date", "2024-03-01 10:30:00"),
    ("-", "10:30::time", "11:45::time", "-01:15:00"),
    ("+", "23:00::time", "2 hours::interval", "01:00:00"),
    ("-", "01:00::time", "3 days 02:00::interval", "23:00:00"),
    ("+", "2 hours::interval", "23:30::time", "01:30:00"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}:{c[1]}")
def test_as_postgresql(case: tuple[str, ...]) -> None:
    name, *args, expected = case
    assert answer(name, *args) == expected


AT, STEP = Column(0, TIMESTAMPTZ), Column(1, INTERVAL)
MONTH_ENDS = sorted_pool(
    column(
        TIMESTAMPTZ,
        *(
            f"{year}-{month:02}-{day} {clock}"
            for year in (2023, 2024)
            for month in (1, 2, 3, 4, 5, 12)
            for day in (1, 27, 28, 29, 30, 31)
            for clock in ("00:00", "01:00", "23:59:59.999999")
            if day <= (31, 28 + (year == 2024), 31, 30, 31, 31)[(1, 2, 3, 4, 5, 12).index(month)]
        ),
        "0001-01-01",
        "0001-01-31 23:00",
        "0001-03-01",
        "9999-10-30 23:00",
        "9999-10-31",
        "9999-11-30",
        "9999-12-31 23:59",
    )
)
STEPS = (
    "1 month",
    "-1 month",
    "1 year",
    "13 mons",
    "1 mon -1 day",
    "1 mon 31 days 02:00",
    "-1 mon -30 days",
    "30 days",
    "-30 days 01:00",
    "-2000 years",
    "0",
)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("sign", ["+", "-"])
@pytest.mark.parametrize("type_", [TIMESTAMPTZ, DATE])
def test_a_known_interval_moves_ranges_soundly(step: str, sign: str, type_: Type) -> None:
    pool = (
        MONTH_ENDS
        if type_ == TIMESTAMPTZ
        else MONTH_ENDS.cast(pa.timestamp("us")).cast(pa.date32(), safe=False)
    )
    expr = call(sign, Column(0, type_), literal(f"{step}::interval"))
    assert_sound(expr, [pool], np.random.default_rng(len(step)))


@pytest.mark.parametrize("sign", ["+", "-"])
def test_ranges_of_intervals_move_ranges_soundly(sign: str) -> None:
    steps = sorted_pool(column(INTERVAL, *STEPS, "31 days", "29 days 23:00", "-1 day", "3000000 days"))
    assert_sound(call(sign, AT, STEP), [MONTH_ENDS, steps], np.random.default_rng(1), 2000)


def test_days_are_added_to_both_ends() -> None:
    described = bounds(
        call("+", AT, text("30 days")), one_range(TIMESTAMPTZ, "2024-01-01", "2024-01-05 10:00")
    )
    assert described == ("2024-01-31 00:00:00+00", "2024-02-04 10:00:00+00", False)


def test_months_are_added_to_both_ends() -> None:
    """The low end is exact, the high one has been cut back from the 31st, so others may land later there."""
    described = bounds(
        call("+", AT, text("1 month")), one_range(TIMESTAMPTZ, "2024-01-10 08:00", "2024-01-31 01:00")
    )
    assert described == ("2024-02-10 08:00:00+00", "2024-02-29 23:59:59.999999+00", False)


def test_a_low_end_gives_way_where_later_days_may_join_it() -> None:
    described = bounds(
        call("+", AT, text("1 month")), one_range(TIMESTAMPTZ, "2023-01-28 08:00", "2023-02-05")
    )
    assert described == ("2023-02-28 00:00:00+00", "2023-03-05 00:00:00+00", False)


def test_ends_that_succeed_do_not_tell_about_months() -> None:
    """Both ends land on 9999-12-31, one between in 10000: 9999-10-30 23:00 + 1 month 31 days 2 hours."""
    step = literal("1 mon 31 days 02:00::interval")
    assert bounds(call("+", AT, step), one_range(TIMESTAMPTZ, "9999-10-30", "9999-10-31"))[2]


def test_the_distance_has_bounds_and_no_months() -> None:
    from tidegate.expr.domain.interpret import Interpretation

    a, b = (
        one_range(TIMESTAMP, "2024-01-01", "2024-01-03"),
        one_range(TIMESTAMP, "2023-12-31", "2024-01-01 12:00"),
    )
    expr = call("-", Column(0, TIMESTAMP), Column(1, TIMESTAMP))
    assert bounds(expr, a, b) == ("-12:00:00", "3 days", False)
    assert Interpretation([a, b]).of(expr).never_has_months().all()


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("+", ("9999-12-31::timestamp", "1 day::interval")),
        ("-", ("0001-01-01::date", "1::int4")),
        ("+", ("9999-12-31::date", "1::int4")),
        ("-", ("0001-01-01::timestamptz", "00:00:00.000001::interval")),
        ("+", ("2024-01-01::timestamp", "100000000 days::interval")),
    ],
)
def test_leaving_the_calendar_is_an_error(name: str, args: tuple[str, ...]) -> None:
    kind = "date" if "int4" in args[1] else "timestamp"
    assert answer(name, *args) == f"ERROR: {kind} out of range"


def test_passing_outside_on_the_way_is_none() -> None:
    assert answer("+", "9999-12-15::timestamp", "1 mon -40 days::interval") == "9999-12-06 00:00:00"


def test_an_unknown_literal_is_an_interval_beside_a_date_and_a_time_where_two_are_subtracted() -> None:
    assert call("+", Column(0, DATE), text("1 day")).type == TIMESTAMP
    assert call("-", Column(0, TIMESTAMP), text("2024-01-01")).type == INTERVAL
