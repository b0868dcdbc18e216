"""OVERLAPS: values as PostgreSQL 15 gave them."""

import pytest

from tests.unit.expr.sql_values import value
from tidegate.errors import BindError

MARCH = "(date '2024-03-01', date '2024-03-31')"


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ("(date '2024-03-31', date '2024-04-30')", False),
        ("(date '2024-03-30', date '2024-04-30')", True),
        ("(date '2024-04-30', date '2024-03-30')", True),
        ("(date '2024-02-01', interval '29 days')", False),
        ("(date '2024-02-01', interval '30 days')", True),
        ("(date '2024-03-05', date '2024-03-05')", True),
        ("(date '2024-03-05', NULL)", True),
        ("(date '2024-02-05', NULL)", None),
        ("(NULL, date '2024-04-05')", None),
    ],
)
def test_values(span: str, expected: bool | None) -> None:
    assert value(f"{MARCH} OVERLAPS {span}") is expected
    assert value(f"{span} OVERLAPS {MARCH}") is expected


def test_it_takes_two_spans() -> None:
    with pytest.raises(BindError, match="OVERLAPS takes"):
        value("1 OVERLAPS (1, 2)")
