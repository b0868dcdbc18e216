"""Explanations: verdict and bounds in words, and what stands in the way of pruning."""

import datetime as dt

import pyarrow as pa
import pytest

from docs.reference import document
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.reasons import explain_verdict, pruning_obstacle
from tidegate.expr.domain.specs import NO, YES, Specs
from tidegate.expr.model.types import BOOL, FLOAT8, INT8, JSONB, TEXT, TIMESTAMPTZ, Type
from tidegate.sql.bind.query import bind_expression

COLUMNS: list[tuple[str, Type]] = [
    ("a", INT8), ("name", TEXT), ("created_at", TIMESTAMPTZ), ("payload", JSONB), ("unseen", INT8), ("f", FLOAT8), ("p", BOOL),
]  # fmt: skip


def day(*days: int) -> pa.Array:
    return pa.array([dt.datetime(2024, 1, d, tzinfo=dt.UTC) for d in days], pa.timestamp("us", "UTC"))


SPECS: list[Specs | None] = [
    Specs.ranged(INT8, pa.array([1, 6]), pa.array([4, 6]), null=YES),
    Specs.ranged(TEXT, pa.array(["b", "x"]), pa.array(["m", None])),
    Specs.ranged(TIMESTAMPTZ, day(1, 10), day(5, 20)),
    None,
    None,
    Specs.ranged(FLOAT8, pa.array([0.5]), pa.array([1.5]), nan=YES),
    Specs.boolean(YES, NO),
]
MARCH = 1_709_251_200_000  # 2024-03-01


def why(sql: str, part: int = 0) -> list[str]:
    return explain_verdict(
        bind_expression(sql, COLUMNS), Interpretation(SPECS, now=(MARCH, MARCH + 1_500)), part
    )


@pytest.mark.parametrize(
    ("sql", "line"),
    [
        ("a > 5", "a > 5 is false or NULL: a is 1 .. 4 or NULL"),
        ("name = 'c'", "name = 'c' is true or false: name is 'b' .. 'm'"),
        ("created_at + '30 days' >= mz_now()",
         ("created_at + '30 days' >= mz_now() is false: created_at + '30 days' is 2024-01-31 .. 2024-02-04; "
          "mz_now() is 2024-03-01 .. 2024-03-01 00:00:01.500")),
        ("unseen = 1", "unseen = 1 is true, false or NULL: unseen is unknown or NULL: no statistics of unseen"),
        ("f > 2", "f > 2 is true or false: f is 0.5 .. 1.5 or NaN"),
        ("reverse(name) = 'x'", "reverse(name) = 'x' is true or false: reverse(name) is unknown: reverse has no trend"),
        ("a IN (7, 8)", "a IN (7, 8) is false or NULL: a is 1 .. 4 or NULL"),
        ("a > 5 OR name > 'z'", "a > 5 OR name > 'z' is false or NULL: a is 1 .. 4 or NULL; name is 'b' .. 'm'"),
        ("p", "p is true"),
        ("NOT p", "NOT p is false: p is true"),
        ("a IS NULL", "a IS NULL is true or false: a is 1 .. 4 or NULL"),
    ],
)  # fmt: skip
def test_a_conjunct(sql: str, line: str) -> None:
    assert why(sql) == [line]


def test_errors_are_named() -> None:
    (line,) = why("10 / (a - 2) > 1")
    assert line.startswith("10 / (a - 2) > 1 is ")
    assert line.endswith("may fail: 10 / (a - 2)")
    assert "error" in line


def test_each_conjunct_and_each_part() -> None:
    assert why("a > 5 AND name >= 'b'", 1) == [
        "a > 5 is true or NULL: a is 6 or NULL",
        "name >= 'b' is true: name is >= 'x'",
    ]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("a > 5", None),
        ("created_at + '30 days' >= mz_now()", None),
        ("reverse(name) = 'x'", "reverse has no trend"),
        ("name::int8 = 5", "the cast from text to int8 may fail for any value"),
        ("a > 5 OR reverse(name) = 'x'", "reverse has no trend"),
        ("reverse(name) IS NULL", None),
        ("a = 1 AND reverse(name) = 'x'", None),
        ("a IN (1, 2)", None),
    ],
)
def test_obstacles(sql: str, found: str | None) -> None:
    assert pruning_obstacle(bind_expression(sql, COLUMNS)) == found


def test_missing_statistics_are_an_obstacle() -> None:
    assert pruning_obstacle(bind_expression("unseen = 1", COLUMNS), SPECS) == "no statistics of unseen"
    assert pruning_obstacle(bind_expression("a = 1", COLUMNS), SPECS) is None


def test_the_reference_is_printed_from_the_registry() -> None:
    page = document()
    assert page == document()
    assert "| `coalesce(anyA, …)` → common |" in page
    assert "## Differences from PostgreSQL" in page
    assert "\\|\\|" in page
