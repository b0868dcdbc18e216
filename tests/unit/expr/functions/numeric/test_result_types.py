"""Which digits numeric results keep, with the values at hand: PostgreSQL's texts, and failures instead of a false 0."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from tidegate.errors import ErrorCode, row_error_code
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.specs import Specs
from tidegate.expr.evaluate.evaluator import Evaluation, evaluate
from tidegate.expr.functions.numeric.result_types import product_type
from tidegate.expr.model.build import call, literal
from tidegate.expr.model.tree import Column
from tidegate.expr.model.types import INT4, NUMERIC, numeric
from tidegate.expr.primitives.decimal import NUMERIC_UNDERFLOW
from tidegate.sql.bind.query import bind_expression

TEXTS = (
    ("round(2.345, 2)", "2.35"),
    ("round(2, 2)", "2.00"),
    ("round(1234.5, -2)", "1200"),
    ("round(99.99, 1)", "100.0"),
    ("trunc(2.345, 1)", "2.3"),
    ("round(12345678901234567890.12345678, 3)", "12345678901234567890.123"),
    ("extract(second from timestamp '2024-01-01 10:00:01.5')", "1.500000"),
    ("extract(milliseconds from timestamp '2024-01-01 10:00:01')", "1000.000"),
    ("extract(epoch from interval '1 day 1.5 sec')", "86401.500000"),
    ("extract(epoch from date '2024-01-01')", "1704067200"),
    ("extract(years from date '2024-01-01')", "2024"),
    ("2.50::numeric", "2.50"),
    ("'-2.50'::numeric", "-2.50"),
    ("'1e-30'::numeric", "0.000000000000000000000000000001"),
    ("1e-10::numeric * 1e-10::numeric", "0.00000000000000000001"),
    ("12345678901234567890.5 * 0.123", "1518518504851851850.5315"),
    ("1.0 / 3", "0.33333333333333333333"),
    ("100 / 7.0", "14.2857142857142857"),
    ("1e-15 / 7", "0.00000000000000014285714285714286"),
)


@pytest.mark.parametrize(("sql", "text"), TEXTS)
def test_texts_are_postgresqls(sql: str, text: str) -> None:
    values, errors = Evaluation([], 1).of(bind_expression(f"({sql})::text", []))[0]
    assert errors is None
    assert values[0].as_py() == text


def test_a_result_that_is_not_zero_is_never_cut_to_zero() -> None:
    tiny = pa.array([Decimal("1e-10"), Decimal("1e-8"), Decimal(0), Decimal("1e-10")], NUMERIC.arrow)
    other = pa.array([Decimal("1e-10"), Decimal("1e-8"), Decimal("1e-10"), Decimal(0)], NUMERIC.arrow)
    product = call("*", Column(0, NUMERIC), Column(1, NUMERIC))
    values, errors = evaluate(product, [tiny, other])
    assert values.to_pylist() == [None, Decimal("1e-16"), 0, 0]
    assert errors.to_pylist() == [NUMERIC_UNDERFLOW, None, None, None]
    quotient = call("/", Column(0, NUMERIC), Column(1, NUMERIC))
    values, errors = evaluate(quotient, [tiny, pa.array([Decimal(10) ** 12] * 4, NUMERIC.arrow)])
    assert errors.to_pylist() == [NUMERIC_UNDERFLOW, NUMERIC_UNDERFLOW, None, NUMERIC_UNDERFLOW]
    assert row_error_code(NUMERIC_UNDERFLOW) is ErrorCode.NUMBER_OVERFLOW


def test_products_up_to_20_digits_after_the_point_are_exact() -> None:
    assert product_type(numeric(38, 2), numeric(38, 2)) == numeric(38, 4)
    assert product_type(numeric(20, 10), numeric(20, 10)) == numeric(38, 20)
    assert product_type(NUMERIC, NUMERIC) == NUMERIC
    cents = pa.array([Decimal("1.11")], pa.decimal128(38, 2))
    product = call("*", Column(0, numeric(38, 2)), Column(0, numeric(38, 2)))
    assert evaluate(product, [cents]).values.to_pylist() == [Decimal("1.2321")]


def test_a_quotient_by_a_constant_uses_the_room_that_it_leaves() -> None:
    hundredth = call("/", Column(0, NUMERIC), literal(100, INT4))
    assert hundredth.type == numeric(38, 20)
    least = pa.array([Decimal("1e-18")], NUMERIC.arrow)
    assert evaluate(hundredth, [least]).values.to_pylist() == [Decimal("1e-20")]


def may_fail(name: str, *ranges: tuple[str, str]) -> bool:
    specs = [
        Specs.ranged(NUMERIC, *(pa.array([Decimal(end)]).cast(NUMERIC.arrow) for end in ends))
        for ends in ranges
    ]
    return bool(Interpretation(specs).of(call(name, Column(0, NUMERIC), Column(1, NUMERIC))).error.any())


def test_parts_are_pruned_unless_a_result_can_be_cut_to_zero() -> None:
    assert not may_fail("*", ("0", "100"), ("1", "10"))
    assert not may_fail("*", ("0.5", "100"), ("0.001", "10"))
    assert may_fail("*", ("0", "100"), ("0", "10"))
    assert not may_fail("/", ("0.5", "100"), ("1", "10"))
    assert may_fail("/", ("0", "100"), ("1", "10"))
