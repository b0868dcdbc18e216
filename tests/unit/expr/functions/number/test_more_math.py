"""lcm, factorial, hyperbolic functions, degrees and buckets: values as PostgreSQL 15 gave them."""

from decimal import Decimal

import pytest

from tests.unit.expr.sql_values import value


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("lcm(1071, 462)", 23562),
        ("lcm(0, 5)", 0),
        ("lcm(2147483647, 2147483646)", ("error", "integer out of range")),
        ("factorial(20)", Decimal(2432902008176640000)),
        ("factorial(-1)", ("error", "factorial of a negative number is undefined")),
        ("min_scale(8.4100)", 2),
        ("min_scale(100)", 0),
        ("sind(30)", 0.5),
        ("sind(-90)", -1.0),
        ("cosd(60)", 0.5),
        ("cosd(180)", -1.0),
        ("acosh(0.5)", ("error", "input is out of range")),
        ("sinh(0)", 0.0),
        ("tanh(1e9)", 1.0),
        ("|/ 25.0", 5.0),
        ("1 + ||/ 8", 3.0),
        ("width_bucket(5.35, 0.024, 10.06, 5)", 3),
        ("width_bucket(5.35::float8, 10.06, 0.024, 5)", 3),
        ("width_bucket(10.06, 0.024, 10.06, 5)", 6),
        ("width_bucket(1, 1, 1, 5)", ("error", "lower bound cannot equal upper bound")),
        ("width_bucket(1, 1, 2, 0)", ("error", "count must be greater than zero")),
    ],
)
def test_values(sql: str, expected: object) -> None:
    assert value(sql) == expected
