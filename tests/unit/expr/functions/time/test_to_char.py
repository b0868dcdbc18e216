"""to_char: PostgreSQL's answers."""

from __future__ import annotations

import pytest

from tests.unit.expr.functions.time_cases import answer

CASES = (
    (
        "to_char",
        "2024-01-05 13:04:05.678901::timestamp",
        'YYYY-MM-DD"T"HH24:MI:SS.MS::text',
        "2024-01-05T13:04:05.678",
    ),
    (
        "to_char",
        "2024-01-05 13:04:05.678901::timestamp",
        "FMDay, FMDDth FMMonth YYYY::text",
        "Friday, 5th January 2024",
    ),
    ("to_char", "2024-01-05 13:04:05.678901::timestamp", "Day|Month|RM::text", "Friday   |January  |I   "),
    ("to_char", "2024-01-05 13:04:05.678901::timestamp", "HH12:MI AM p.m.::text", "01:04 PM p.m."),
    (
        "to_char",
        "2024-01-05 13:04:05.678901::timestamp",
        "IYYY-IW-ID DDD Q J::text",
        "2024-01-5 005 1 2460315",
    ),
    ("to_char", "2024-01-05 13:04:05.678901::timestamp", "Y,YYY YY US SSSS::text", "2,024 24 678901 47045"),
    ("to_char", "2024-01-05 13:04:05.678901::timestamp", "yyyymmdd TZ::text", "20240105 "),
    ("to_char", "2024-01-05::timestamptz", "TZ OF::text", "UTC +00"),
    ("to_char", "50:10:05::interval", "HH24:MI:SS::text", "50:10:05"),
    ("to_char", "1 day::interval", "Day::text", "ERROR: invalid format specification for an interval value"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}:{c[1]}")
def test_as_postgresql(case: tuple[str, ...]) -> None:
    name, *args, expected = case
    assert answer(name, *args) == expected
