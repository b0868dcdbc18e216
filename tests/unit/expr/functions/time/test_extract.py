"""extract and date_part: PostgreSQL's answers, and bounds that hold and prune."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.expr.functions.time_cases import answer, assert_sound, bounds, column, one_range, sorted_pool
from tidegate.expr.domain.specs import Specs
from tidegate.expr.model.build import call, text
from tidegate.expr.model.tree import Column
from tidegate.expr.model.types import DATE, INTERVAL, TIME, TIMESTAMP

CASES = (
    ("extract", "microseconds::text", "2024-12-30 13:14:15.678901::timestamp", "15678901"),
    ("extract", "milliseconds::text", "2024-12-30 13:14:15.678901::timestamp", "15678.901"),
    ("extract", "second::text", "2024-12-30 13:14:15.678901::timestamp", "15.678901"),
    ("extract", "minute::text", "2024-12-30 13:14:15.678901::timestamp", "14"),
    ("extract", "hour::text", "2024-12-30 13:14:15.678901::timestamp", "13"),
    ("extract", "day::text", "2024-12-30 13:14:15.678901::timestamp", "30"),
    ("extract", "week::text", "2024-12-30 13:14:15.678901::timestamp", "1"),
    ("extract", "month::text", "2024-12-30 13:14:15.678901::timestamp", "12"),
    ("extract", "quarter::text", "2024-12-30 13:14:15.678901::timestamp", "4"),
    ("extract", "year::text", "2024-12-30 13:14:15.678901::timestamp", "2024"),
    ("extract", "decade::text", "2024-12-30 13:14:15.678901::timestamp", "202"),
    ("extract", "century::text", "2024-12-30 13:14:15.678901::timestamp", "21"),
    ("extract", "millennium::text", "2024-12-30 13:14:15.678901::timestamp", "3"),
    ("extract", "isoyear::text", "2024-12-30 13:14:15.678901::timestamp", "2025"),
    ("extract", "dow::text", "2024-12-30 13:14:15.678901::timestamp", "1"),
    ("extract", "isodow::text", "2024-12-30 13:14:15.678901::timestamp", "1"),
    ("extract", "doy::text", "2024-12-30 13:14:15.678901::timestamp", "365"),
    ("extract", "epoch::text", "2024-12-30 13:14:15.678901::timestamp", "1735564455.678901"),
    ("extract", "timezone::text", "2024-12-30::timestamptz", "0"),
    ("extract", "hour::text", "2024-12-30::date", 'ERROR: unit "hour" not supported for type date'),
    ("date_part", "hour::text", "2024-12-30::date", "0"),
    ("extract", "julian::text", "2024-12-30::date", "2460675"),
    ("extract", "epoch::text", "1 year 2 mons 3 days 04:05:06.7::interval", "37015506.700000"),
    ("extract", "hour::text", "-25:30::interval", "-25"),
    ("extract", "quarter::text", "14 mons::interval", "1"),
    ("extract", "minute::text", "10:11:12::time", "11"),
    (
        "extract",
        "day::text",
        "10:11:12::time",
        'ERROR: unit "day" not supported for type time without time zone',
    ),
    ("date_part", "epoch::text", "2024-12-30 13:14:15.5::timestamptz", "1735564455.5"),
    (
        "date_part",
        "nonsense::text",
        "2024-12-30::timestamp",
        'ERROR: unit "nonsense" not recognized for type timestamp without time zone',
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}:{c[1]}")
def test_as_postgresql(case: tuple[str, ...]) -> None:
    name, *args, expected = case
    assert answer(name, *args) == expected


POOL = sorted_pool(
    column(
        TIMESTAMP,
        "0001-01-01",
        "1969-12-31 23:59:59.999999",
        "1970-01-01",
        "2000-12-31 23:59:59.9",
        "2024-02-29 10:00",
        "2024-03-10 08:00",
        "2024-03-10 11:30:15.25",
        "2024-03-10 11:30:59",
        "2024-03-11 01:00",
        "2024-12-29",
        "2024-12-30",
        "2025-01-01",
        "9999-12-31 23:59:59.999999",
    )
)
FIELDS = (
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
    "isoyear",
    "dow",
    "isodow",
    "doy",
    "epoch",
    "julian",
    "nonsense",
)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("name", ["extract", "date_part"])
def test_fields_are_sound(name: str, field: str) -> None:
    rng = np.random.default_rng(11)
    assert_sound(call(name, text(field), Column(0, TIMESTAMP)), [POOL], rng, 800)
    assert_sound(call(name, text(field), Column(0, DATE)), [POOL.cast(pa.date32(), safe=False)], rng)
    spans = sorted_pool(
        column(INTERVAL, "0", "1 day", "24:00", "1 mon", "30 days", "1 year", "-25:30", "100 days 01:00")
    )
    assert_sound(call(name, text(field), Column(0, INTERVAL)), [spans], rng)
    assert_sound(
        call(name, text(field), Column(0, TIME)),
        [sorted_pool(column(TIME, "00:00", "10:11:12.5", "23:59"))],
        rng,
    )


def test_hours_follow_the_order_inside_a_day() -> None:
    hour = call("extract", text("hour"), Column(0, TIMESTAMP))
    assert bounds(hour, one_range(TIMESTAMP, "2024-03-10 08:00", "2024-03-10 11:30")) == ("8", "11", False)
    assert bounds(hour, one_range(TIMESTAMP, "2024-03-10 08:00", "2024-03-11 01:00")) == ("0", "23", False)


def test_a_field_never_leaves_its_range_even_of_unknown_times() -> None:
    month = call("date_part", text("month"), Column(0, TIMESTAMP))
    assert bounds(month, Specs.anything(TIMESTAMP)) == ("1", "12", False)
