"""to_char and to_number of numbers: values as PostgreSQL 15 gave them."""

from decimal import Decimal

import pyarrow as pa
import pytest

from tests.unit.expr.sql_values import value, values
from tidegate.expr.model.types import NUMERIC, TEXT


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("to_char(1234.5, '9,999.99')", " 1,234.50"),
        ("to_char(-1234.5, '9,999.99')", "-1,234.50"),
        ("to_char(0.1, '99.99')", "   .10"),
        ("to_char(12, 'FM9999.99')", "12."),
        ("to_char(12.5, 'FM9990.00')", "12.50"),
        ("to_char(7, '0000')", " 0007"),
        ("to_char(-485, '999PR')", "<485>"),
        ("to_char(485, '999PR')", " 485 "),
        ("to_char(-485, '999S')", "485-"),
        ("to_char(485, 'S999')", "+485"),
        ("to_char(-485, '999MI')", "485-"),
        ("to_char(485, 'PL999')", "+ 485"),
        ("to_char(485, '999th')", " 485th"),
        ("to_char(482, '999TH')", " 482ND"),
        ("to_char(485, 'RN')", "        CDLXXXV"),
        ("to_char(485, 'FMrn')", "cdlxxxv"),
        ("to_char(12, '99V999')", " 12000"),
        ("to_char(0.00012, '9.99EEEE')", " 1.20e-04"),
        ("to_char(1234, '99')", " ##"),
        ('to_char(485.8, \'"Pre:"999" Post:" .999\')', "Pre: 485 Post: .800"),
        ("to_char(125.8::float4, '999D9')", " 125.8"),
        ("to_char('NaN'::float8, '99.9')", " ##.#"),
        ("to_char(1, '')", ""),
        ("to_char(1, '9.9.9')", ("error", "multiple decimal points")),
        ("to_char(1, 'S9MI')", ("error", 'cannot use "S" and "MI" together')),
        ("to_char(2147483647, '9V9')", ("error", "integer out of range")),
        ("to_number('12,454.8-', '99G999D9S')", Decimal("-12454.8")),
        ("to_number('$1,234.50', 'L9,999.99')", Decimal("1234.5")),
        ("to_number('<12>', '99PR')", Decimal(-12)),
        ("to_number('12', '99V9')", Decimal("1.2")),
        ("to_number('1', '')", None),
        ("to_number('abc', '999')", ("error", 'invalid input syntax for type numeric: " "')),
        ("to_number('1', 'RN')", ("error", '"RN" not supported for input')),
    ],
)
def test_values(sql: str, expected: object) -> None:
    assert value(sql) == expected


def test_patterns_and_numbers_may_differ_from_row_to_row() -> None:
    columns = [("n", NUMERIC), ("p", TEXT)]
    numbers = pa.array([Decimal(1), None, Decimal("-2.5"), Decimal(1)], NUMERIC.arrow)
    patterns = pa.array(["9", "9", "9.9S", "RN RN RN9EEEE"])
    assert values("to_char(n, p)", columns, [numbers, patterns], 4) == [
        " 1", None, "2.5-", ("error", '"EEEE" is incompatible with other formats'),
    ]  # fmt: skip
