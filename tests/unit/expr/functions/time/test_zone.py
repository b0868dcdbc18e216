"""AT TIME ZONE: PostgreSQL's answers, and bounds that hold and prune."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.expr.functions.time_cases import answer, assert_sound, bounds, column, one_range, sorted_pool
from tidegate.expr.model.build import call, text
from tidegate.expr.model.tree import Column
from tidegate.expr.model.types import TIMESTAMP, TIMESTAMPTZ

CASES = (
    ("timezone", "Europe/Berlin::text", "2024-07-01 10:00+00::timestamptz", "2024-07-01 12:00:00"),
    ("timezone", "europe/berlin::text", "2024-03-31 02:30::timestamp", "2024-03-31 01:30:00+00"),
    ("timezone", "Europe/Berlin::text", "2024-10-27 02:30::timestamp", "2024-10-27 01:30:00+00"),
    ("timezone", "America/New_York::text", "2300-07-01::timestamp", "2300-07-01 04:00:00+00"),
    ("timezone", "+02::text", "2024-07-01 10:00+00::timestamptz", "2024-07-01 08:00:00"),
    ("timezone", "XYZ-3:30::text", "2024-07-01 10:00+00::timestamptz", "2024-07-01 13:30:00"),
    ("timezone", "EST::text", "2024-07-01 10:00::timestamp", "2024-07-01 15:00:00+00"),
    ("timezone", "Nowhere::text", "2024-07-01 10:00::timestamp", 'ERROR: time zone "Nowhere" not recognized'),
    ("timezone", "02:00::interval", "2024-07-01 10:00::timestamp", "2024-07-01 08:00:00+00"),
    (
        "timezone",
        "1 day::interval",
        "2024-07-01 10:00::timestamp",
        'ERROR: interval time zone "1 day" must not include months or days',
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}:{c[1]}")
def test_as_postgresql(case: tuple[str, ...]) -> None:
    name, *args, expected = case
    assert answer(name, *args) == expected


CHANGES = sorted_pool(
    column(
        TIMESTAMP,
        "0001-01-01",
        "1893-03-31 23:59",
        "2024-03-31 00:59:59",
        "2024-03-31 01:00",
        "2024-03-31 02:30",
        "2024-03-31 03:00",
        "2024-10-26 23:59",
        "2024-10-27 00:30",
        "2024-10-27 01:00",
        "2024-10-27 02:30",
        "2024-10-27 03:00",
        "2011-11-06 02:31",
        "2011-11-06 03:01",
        "9999-12-31 23:59",
    )
)
ZONES = ("Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "+02", "UTC", "EST", "Nowhere")


@pytest.mark.parametrize("zone", ZONES)
def test_conversions_are_sound(zone: str) -> None:
    rng = np.random.default_rng(13)
    assert_sound(call("timezone", text(zone), Column(0, TIMESTAMP)), [CHANGES], rng, 1000)
    assert_sound(
        call("timezone", text(zone), Column(0, TIMESTAMPTZ)), [CHANGES.view(TIMESTAMPTZ.arrow)], rng, 1000
    )


def test_bounds_are_exact_between_changes_and_wide_across() -> None:
    shown = call("timezone", text("Europe/Berlin"), Column(0, TIMESTAMPTZ))
    summer = one_range(TIMESTAMPTZ, "2024-07-01 10:00", "2024-07-02")
    assert bounds(shown, summer) == ("2024-07-01 12:00:00", "2024-07-02 02:00:00", False)
    year = one_range(TIMESTAMPTZ, "2024-01-01 10:00", "2024-12-31")
    assert bounds(shown, year) == ("2024-01-01 10:53:28", "2024-12-31 03:00:00", False)


def test_zones_go_on_by_their_rule_to_the_end_of_the_calendar() -> None:
    assert answer("timezone", "Europe/Berlin::text", "9999-07-01 10:00::timestamptz") == "9999-07-01 12:00:00"
    assert answer("timezone", "Europe/Berlin::text", "9999-12-01 10:00::timestamptz") == "9999-12-01 11:00:00"
