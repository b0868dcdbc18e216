"""String literals beside values: the kind of what they stand beside, with digits and a length of their own."""

from decimal import Decimal
from typing import Any

import pytest

import tidegate
from tidegate.expr.model.build import call, case, literal, text
from tidegate.expr.model.literal_types import literal_type
from tidegate.expr.model.tree import Column, Expr
from tidegate.expr.model.types import (
    BOOL,
    DATE,
    FLOAT8,
    NUMERIC,
    TEXT,
    Kind,
    Type,
    array,
    numeric,
    record,
)  # fmt: skip

WORD, PRICE = Type(Kind.TEXT, length=4), numeric(10, 2)
A, N = Column(0, WORD, "a"), Column(1, PRICE, "n")


@pytest.mark.parametrize(
    ("written", "beside", "expected"),
    [
        ("abcdef", WORD, TEXT),
        ("1.555", PRICE, numeric(4, 3)),
        (" -12e2 ", PRICE, numeric(4, 0)),
        (".5", PRICE, numeric(1, 1)),
        ("0", PRICE, numeric(1, 0)),
        ("1e-38", PRICE, numeric(38, 38)),
        ("1e-39", PRICE, NUMERIC),
        ("NaN", PRICE, NUMERIC),
        ("2024-01-01", DATE, DATE),
        ("1.5", FLOAT8, FLOAT8),
        ("{abc}", array(WORD), array(TEXT)),
        ("{1.51}", array(PRICE), array(NUMERIC)),
        ("(1.51)", record(("x", PRICE)), record(("x", NUMERIC))),
    ],
)
def test_literal_types(written: str, beside: Type, expected: Type) -> None:
    assert literal_type(written, beside) == expected


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (call("coalesce", N, text("1.23456")), numeric(13, 5)),
        (call("coalesce", A, text("abcdef")), TEXT),
        (call("coalesce", N, literal(None, PRICE)), PRICE),
        (case([(literal(True, BOOL), N)], None), PRICE),
        (case([(literal(True, BOOL), N)], text("1.23456")), numeric(13, 5)),
        (case([(literal(True, BOOL), A)], text("abcdef")), TEXT),
    ],
)
def test_results_hold_the_literal(expr: Expr, expected: Type) -> None:
    assert expr.type == expected


@pytest.fixture(scope="module")
def db() -> Any:
    with tidegate.open("memory://") as opened:
        opened.sql(
            "CREATE TABLE v (a varchar(4), n numeric(10,2), words varchar(2)[], prices numeric(4,1)[])"
        )
        opened.sql("INSERT INTO v VALUES ('abcd', 1.56, '{ab}', '{1.5}')")
        yield opened


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a = 'abcdef'", False),
        ("a IN ('abcdef', 'x')", False),
        ("a > 'abcdef'", False),
        ("a BETWEEN 'abcda' AND 'abcdz'", False),
        ("nullif(a, 'abcdef')", "abcd"),
        ("least(a, 'abcc55')", "abcc55"),
        ("n = '1.5555'", False),
        ("n IN ('1.555', '1.565')", False),
        ("n IN ('1.555', '1.56')", True),
        ("greatest(n, '1.56001')", Decimal("1.56001")),
        ("words = '{abc}'", False),
        ("'abc' = ANY (words)", False),
        ("prices = '{1.51}'", False),
        ("'1.51' = ANY (prices)", False),
    ],
)
def test_comparisons_see_the_whole_literal(db: tidegate.Database, expression: str, expected: Any) -> None:
    """The filter and the expression agree, so that pruning does too."""
    assert db.sql(f"SELECT {expression} FROM v").rows() == [(expected,)]
    if isinstance(expected, bool):
        assert len(db.sql(f"SELECT 1 FROM v WHERE {expression}").rows()) == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT n FROM v UNION SELECT '1.23456'",
        "SELECT n FROM (VALUES (1.56), ('1.23456')) w (n)",
        "SELECT CASE WHEN n > 2 THEN n ELSE '1.23456' END AS n FROM v UNION ALL SELECT n FROM v",
    ],
)
def test_columns_hold_the_literal(db: tidegate.Database, query: str) -> None:
    assert sorted(db.sql(query).rows()) == [(Decimal("1.23456"),), (Decimal("1.56"),)]


def test_a_parameter_is_compared_as_a_whole(db: tidegate.Database) -> None:
    assert db.sql("SELECT count(*) FROM v WHERE a = $1", ["abcdef"]).rows() == [(0,)]
