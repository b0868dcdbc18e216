"""date_trunc, date_bin, age, make_*: PostgreSQL's answers, and bounds that hold and prune."""

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
from tidegate.expr.model.build import call, text
from tidegate.expr.model.tree import Column
from tidegate.expr.model.types import INT4, TEXT, TIMESTAMP, TIMESTAMPTZ

CASES = (
    (
        "date_trunc",
        "microseconds::text",
        "2024-05-17 13:14:15.678901::timestamp",
        "2024-05-17 13:14:15.678901",
    ),
    ("date_trunc", "milliseconds::text", "2024-05-17 13:14:15.678901::timestamp", "2024-05-17 13:14:15.678"),
    ("date_trunc", "second::text", "2024-05-17 13:14:15.678901::timestamp", "2024-05-17 13:14:15"),
    ("date_trunc", "minute::text", "2024-05-17 13:14:15.678901::timestamp", "2024-05-17 13:14:00"),
    ("date_trunc", "hour::text", "2024-05-17 13:14:15.678901::timestamp", "2024-05-17 13:00:00"),
    ("date_trunc", "day::text", "2024-05-17 13:14:15.678901::timestamp", "2024-05-17 00:00:00"),
    ("date_trunc", "week::text", "2024-05-17 13:14:15.678901::timestamp", "2024-05-13 00:00:00"),
    ("date_trunc", "month::text", "2024-05-17 13:14:15.678901::timestamp", "2024-05-01 00:00:00"),
    ("date_trunc", "quarter::text", "2024-05-17 13:14:15.678901::timestamp", "2024-04-01 00:00:00"),
    ("date_trunc", "year::text", "2024-05-17 13:14:15.678901::timestamp", "2024-01-01 00:00:00"),
    ("date_trunc", "decade::text", "2024-05-17 13:14:15.678901::timestamp", "2020-01-01 00:00:00"),
    ("date_trunc", "century::text", "2024-05-17 13:14:15.678901::timestamp", "2001-01-01 00:00:00"),
    ("date_trunc", "millennium::text", "2024-05-17 13:14:15.678901::timestamp", "2001-01-01 00:00:00"),
    ("date_trunc", "Months::text", "2024-05-17 13:14:15.678901::timestamp", "2024-05-01 00:00:00"),
    (
        "date_trunc",
        "fortnight::text",
        "2024-05-17::timestamp",
        'ERROR: unit "fortnight" not recognized for type timestamp without time zone',
    ),
    (
        "date_trunc",
        "dow::text",
        "2024-05-17::timestamptz",
        'ERROR: unit "dow" not recognized for type timestamp with time zone',
    ),
    ("date_trunc", "month::text", "2024-05-17::date", "2024-05-01 00:00:00+00"),
    (
        "date_trunc",
        "day::text",
        "2024-03-31 22:30+00::timestamptz",
        "Europe/Berlin::text",
        "2024-03-31 22:00:00+00",
    ),
    (
        "date_trunc",
        "hour::text",
        "2024-10-27 01:30+00::timestamptz",
        "Europe/Berlin::text",
        "2024-10-27 01:00:00+00",
    ),
    (
        "date_bin",
        "15 min::interval",
        "2024-05-17 13:14:15::timestamp",
        "2001-01-01::timestamp",
        "2024-05-17 13:00:00",
    ),
    (
        "date_bin",
        "1 day::interval",
        "2024-05-17 13:14:15::timestamptz",
        "2024-05-18 06:00::timestamptz",
        "2024-05-17 06:00:00+00",
    ),
    (
        "date_bin",
        "1 mon::interval",
        "2024-05-17::timestamp",
        "2001-01-01::timestamp",
        "ERROR: timestamps cannot be binned into intervals containing months or years",
    ),
    (
        "date_bin",
        "-1 day::interval",
        "2024-05-17::timestamp",
        "2001-01-01::timestamp",
        "ERROR: stride must be greater than zero",
    ),
    ("age", "2024-03-31::timestamp", "2024-02-29 12:00::timestamp", "1 mon 1 day 12:00:00"),
    ("age", "2024-02-29::timestamp", "2025-01-31 06:00::timestamp", "-11 mons -2 days -06:00:00"),
    ("make_date", "2024::int4", "2::int4", "29::int4", "2024-02-29"),
    ("make_date", "2023::int4", "2::int4", "29::int4", "ERROR: date field value out of range: 2023-02-29"),
    ("make_time", "23::int4", "59::int4", "59.5::float8", "23:59:59.5"),
    ("make_time", "25::int4", "0::int4", "0::float8", "ERROR: time field value out of range: 25:00:00"),
    (
        "make_timestamp",
        "2024::int4",
        "2::int4",
        "29::int4",
        "1::int4",
        "2::int4",
        "3.25::float8",
        "2024-02-29 01:02:03.25",
    ),
    (
        "make_timestamptz",
        "2024::int4",
        "7::int4",
        "1::int4",
        "12::int4",
        "0::int4",
        "0::float8",
        "Europe/Berlin::text",
        "2024-07-01 10:00:00+00",
    ),
    *(
        ("make_timestamptz", *(f"{n}::int4" for n in (2024, 7, 1, 12, 0)), "0::float8", f"{zone}::text", at)
        for zone, at in (
            ("+2", "2024-07-01 10:00:00+00"),  # east of Greenwich, as in the text of a timestamp
            ("-02:30", "2024-07-01 14:30:00+00"),
            ("2", 'ERROR: time zone "2" not recognized'),
        )
    ),
    *(
        ("to_timestamp", f"2024-05-06 07:08:09.{digits}::text", f"YYYY-MM-DD HH24:MI:SS.{form}::text", at)
        for digits, form, at in (
            ("98765", "FF2", "2024-05-06 07:08:09.99+00"),
            ("999", "FF1", "2024-05-06 07:08:10+00"),
            ("1", "FF6", "2024-05-06 07:08:09.1+00"),
            ("1234", "MS", 'ERROR: date/time field value out of range: "2024-05-06 07:08:09.1234"'),
        )
    ),
    *(
        ("to_date", f"{text}::text", f"{pattern}::text", expected)
        for text, pattern, expected in (
            ("2024-XX-05", "YYYY-MM-DD", 'ERROR: invalid value "2024-XX-05" for format "YYYY-MM-DD"'),
            ("202405XX", "YYYYMMDD", 'ERROR: invalid value "202405XX" for format "YYYYMMDD"'),
            ("20240517", "YYYY-MM-DD", 'ERROR: date/time field value out of range: "20240517"'),
            ("2024 05 17", "YYYYxMMxDD", "2024-05-17"),
            ("2024-05-17", 'YYYY"y"MM"m"DD', "2024-05-17"),
            ("2024year05", 'YYYY"year"MM', "2024-05-01"),
            ("2024   05", "YYYY x MM", "2024-05-01"),
            ("2024-", "YYYY-MM-DD", "2024-01-01"),
            ("202405", "YYYYMMDD", "2024-05-01"),
            ("17May2024 and more", "DDMonYYYY", "2024-05-17"),
        )
    ),
    ("to_timestamp", "1704067200.123456::float8", "2024-01-01 00:00:00.123456+00"),
    ("to_timestamp", "NaN::float8", "ERROR: timestamp cannot be NaN"),
    ("to_timestamp", "05 Jan 2024 10:11 PM::text", "DD Mon YYYY HH12:MI AM::text", "2024-01-05 22:11:00+00"),
    ("to_date", "20240229::text", "YYYYMMDD::text", "2024-02-29"),
    (
        "to_date",
        "2023-02-29::text",
        "YYYY-MM-DD::text",
        'ERROR: date/time field value out of range: "2023-02-29"',
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}:{c[1]}")
def test_as_postgresql(case: tuple[str, ...]) -> None:
    name, *args, expected = case
    assert answer(name, *args) == expected


POOL = sorted_pool(
    column(
        TIMESTAMPTZ,
        "0001-01-01",
        "0009-12-31 23:59:59.999999",
        "0010-01-01",
        "1999-12-31 23:59:59",
        "2000-12-31 12:00",
        "2001-01-01",
        "2024-02-29",
        "2024-03-31 22:30",
        "2024-05-17 13:14:15.678901",
        "2024-10-27 00:30",
        "2024-10-27 01:30",
        "2024-12-30",
        "9999-12-31 23:59:59.999999",
    )
)
UNITS = (
    "microseconds",
    "milliseconds",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
    "decade",
    "century",
    "millennium",
    "fortnight",
)
AT = Column(0, TIMESTAMPTZ)


@pytest.mark.parametrize("unit", UNITS)
def test_date_trunc_is_sound(unit: str) -> None:
    rng = np.random.default_rng(7)
    assert_sound(call("date_trunc", text(unit), AT), [POOL], rng)
    assert_sound(call("date_trunc", text(unit), AT, text("America/New_York")), [POOL], rng)


@pytest.mark.parametrize("stride", ["15 minutes", "1 day", "10000 days", "1 mon", "-1 day", "100000000 days"])
def test_date_bin_is_sound(stride: str) -> None:
    expr = call("date_bin", literal(f"{stride}::interval"), AT, literal("2001-01-01::timestamptz"))
    assert_sound(expr, [POOL], np.random.default_rng(8))


def test_age_and_make_are_sound() -> None:
    rng = np.random.default_rng(9)
    assert_sound(call("age", AT, Column(1, TIMESTAMPTZ)), [POOL, POOL], rng, 3000)
    numbers = [
        pa.array(values, pa.int32())
        for values in ((0, 1, 2020, 2021, 2024, 9999, 10000), range(14), range(33))
    ]
    assert_sound(call("make_date", *(Column(i, INT4) for i in range(3))), numbers, rng, 5000)


def test_a_month_is_exact_inside_it() -> None:
    described = bounds(
        call("date_trunc", text("month"), AT), one_range(TIMESTAMPTZ, "2024-03-10", "2024-03-20")
    )
    assert described == ("2024-03-01 00:00:00+00", "2024-03-01 00:00:00+00", False)


def test_the_first_decade_begins_before_the_calendar() -> None:
    assert answer("date_trunc", "decade::text", "0005-01-01::timestamp") == "ERROR: timestamp out of range"
    assert bounds(call("date_trunc", text("decade"), AT), one_range(TIMESTAMPTZ, "0005-01-01", "0020-01-01"))[
        2
    ]


def test_a_unit_may_differ_from_row_to_row() -> None:
    from tidegate.expr.evaluate.evaluator import evaluate

    expr = call("date_trunc", Column(0, TEXT), Column(1, TIMESTAMP))
    at = column(TIMESTAMP, *["2024-05-17 13:14:15"] * 4)
    values, errors = evaluate(expr, [pa.array(["day", "eon", None, "year"]), at])
    assert [v and str(v) for v in values.to_pylist()] == [
        "2024-05-17 00:00:00",
        None,
        None,
        "2024-01-01 00:00:00",
    ]
    assert errors is not None
    assert errors.to_pylist()[1] == 'unit "eon" not recognized for type timestamp without time zone'


def test_days_up_to_28_never_fail() -> None:
    year, month = (
        Specs.ranged(INT4, pa.array([low], pa.int32()), pa.array([high], pa.int32()))
        for low, high in ((2020, 2024), (1, 12))
    )
    day = Specs.ranged(INT4, pa.array([1], pa.int32()), pa.array([28], pa.int32()))
    described = bounds(call("make_date", *(Column(i, INT4) for i in range(3))), year, month, day)
    assert described == ("2020-01-01", "2024-12-28", False)
