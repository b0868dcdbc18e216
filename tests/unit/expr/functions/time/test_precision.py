"""Casts and constants with digits of seconds and with fields of an interval: PostgreSQL 15's answers."""

from __future__ import annotations

import pytest

from tidegate.errors import BindError, TidegateError
from tidegate.expr.evaluate.evaluator import Evaluation
from tidegate.sql.bind.query import bind_expression
from tidegate.sql.parse import parse_statement

TEXTS = (
    ("INTERVAL '1' HOUR", "01:00:00"),
    ("INTERVAL '1.5' DAY", "1 day"),
    ("INTERVAL '1-2' YEAR TO MONTH", "1 year 2 mons"),
    ("INTERVAL '1 2:03:04.567' DAY TO SECOND(1)", "1 day 02:03:04.6"),
    ("INTERVAL '1 2:03:04.567' DAY TO HOUR", "1 day 02:00:00"),
    ("INTERVAL '1:30' MINUTE TO SECOND", "00:01:30"),
    ("INTERVAL(2) '1.23456 s'", "00:00:01.23"),
    ("'1 day 02:03:04'::interval hour", "1 day 02:00:00"),
    ("('1 day 02:03:04.5'::interval)::interval day", "1 day"),
    ("('-1.5 s'::interval)::interval(0)", "-00:00:02"),
    ("TIMESTAMP(0) '2024-01-01 10:00:00.5'", "2024-01-01 10:00:01"),
    ("TIMESTAMP(3) '1999-01-01 10:00:00.0005'", "1999-01-01 10:00:00"),
    ("'2024-01-01 10:00:00.123456'::timestamptz(3)", "2024-01-01 10:00:00.123+00"),
    ("'2024-01-01 10:00:00.125'::timestamp(2) with time zone", "2024-01-01 10:00:00.13+00"),
    ("CAST('10:00:00.567' AS time(1))", "10:00:00.6"),
    ("'2024-01-01 10:00:00.123456'::timestamp(7)", "2024-01-01 10:00:00.123456"),
    ("date_trunc('hours', timestamp '2024-01-01 10:30')", "2024-01-01 10:00:00"),
    ("extract(decades from date '2024-01-01')", "202"),
    ("extract(millenniums from date '2024-01-01')", "3"),
)


@pytest.mark.parametrize(("sql", "text"), TEXTS)
def test_as_postgresql(sql: str, text: str) -> None:
    values, errors = Evaluation([], 1).of(bind_expression(f"({sql})::text", []))[0]
    assert errors is None
    assert values[0].as_py() == text


def test_a_time_is_not_rounded_beyond_its_day() -> None:
    _, errors = Evaluation([], 1).of(bind_expression("TIME(0) '23:59:59.6'", []))[0]
    assert errors is not None
    assert errors[0].as_py() == "date/time field value out of range: 24:00:00"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT INTERVAL '1' HOUR TO DAY", 'expected MINUTE or SECOND, found "DAY"'),
        ("SELECT 'a'::char(3)", "type char, which is padded with blanks, is not supported"),
        ("CREATE TABLE t (at timestamp(3))", "is not valid"),
    ],
)
def test_what_is_refused(sql: str, message: str) -> None:
    with pytest.raises(TidegateError, match=message):
        parse_statement(sql)


def test_a_bad_text_is_an_error_of_the_statement() -> None:
    with pytest.raises(BindError, match='invalid input syntax for type interval: "x"'):
        bind_expression("INTERVAL 'x' MONTH", [])
