"""The printed form: minimal, and SQL that reads back as the same tree."""

import pyarrow as pa
import pytest

from tidegate.expr.model.build import call, cast, literal, null, text
from tidegate.expr.model.printer import MAX_LENGTH, identifier, show, show_value
from tidegate.expr.model.tree import Column, Expr
from tidegate.expr.model.types import (
    BOOL,
    DATE,
    FLOAT8,
    INT4,
    INT8,
    INTERVAL,
    JSONB,
    TEXT,
    TIMESTAMPTZ,
    Type,
    array,
    numeric,
    record,
)  # fmt: skip
from tidegate.sql.bind.query import bind_expression

COLUMNS: list[tuple[str, Type]] = [
    ("a", INT8), ("b", INT4), ("t", TEXT), ("Price", numeric(10, 2)), ("at", TIMESTAMPTZ),
    ("r", record(("x", INT8), ("Y y", TEXT))),
    ("arr", array(INT8)), ("p", BOOL), ("f", FLOAT8), ("j", JSONB), ("d", DATE), ("i", INTERVAL), ("q", BOOL),
]  # fmt: skip

SHOWN = [
    "a = 5",
    "a = b",
    "b = 5000000000",
    "a < -3",
    "a + b * 2 - (a - b)",
    "(a + b) * 2",
    "-a",
    "-(-a)",
    "- a * b".replace("- ", "-"),
    "(a = 5 OR b < -3) AND t IS NULL",
    "a = 5 OR b < -3 AND t IS NULL",
    "NOT (p AND q)",
    "NOT p",
    "NOT a = b",
    "t IS NOT NULL",
    "p IS TRUE",
    "NOT p IS TRUE",
    "(a = b) IS NULL",
    "a IS DISTINCT FROM b",
    "a IS NOT DISTINCT FROM b",
    "a IN (1, 2, 3)",
    "a NOT IN (1, 2, 3)",
    "t IN ('x', 'it''s')",
    "a + 1 IN (1, 2)",
    "at IN ('2024-01-01 00:00:00+00', '2024-01-02 00:00:00+00')",
    "f IN (1.5, 2)",
    '"Price" IN (1, 2.50)',
    "a = ANY(arr)",
    "a < ALL(arr)",
    "a <> ALL('{1,2}')",
    "CASE WHEN a = 1 THEN 'x' WHEN p THEN t END",
    "CASE WHEN a = 1 THEN a ELSE b END",
    "CASE WHEN p THEN 1 ELSE 2.5 END",
    "coalesce(a, 0)",
    "nullif(t, '')",
    'greatest("Price", 3)',
    "least(a, b, 7)",
    "(r).x > 5",
    '(r)."Y y" = \'z\'',
    "arr[1]",
    "arr[a + 1]",
    "arr[1:2]",
    "(arr || 5)[2]",
    "ARRAY[a, b, 3]",
    "ROW(a, 'x')",
    "arr @> '{1,2}'",
    "t || 'x' || 'y'",
    "t || (a + b)::text",
    "t::int8 = a",
    "a::int4::text",
    "(a + b)::text",
    "'abc'::text::int8 = a",
    '"Price" * 1.10 > 5',
    "f > 1.5",
    "f = 'NaN'",
    "at + '30 days' >= mz_now()",
    "at > '2024-01-01 00:00:00+00'",
    "d > '2024-02-29'",
    "i < '1 mon 2 days 03:00:00'",
    "at - at <= '1 day'",
    "date_trunc('day', at) = '2024-01-01 00:00:00+00'",
    "extract(year FROM at) = 2024",
    "at AT TIME ZONE 'UTC' > '2024-01-01 00:00:00'",
    "t LIKE 'a%'",
    "t NOT LIKE 'a%'",
    "t ILIKE 'a!%' ESCAPE '!'",
    "t ~ '^a'",
    "j -> 'a' ->> 'b' = 'c'",
    "(j ->> 'ts')::numeric > 5",
    "(j -> 'a')::int8 = 5",
    "j @> '{\"a\":1}'",
    "substring(t, 2, 3) = lower(t)",
    "p = true",
    "a = NULL",
    "starts_with(t, 'x')",
]  # fmt: skip


def bound(sql: str) -> Expr:
    return bind_expression(sql, COLUMNS, now_ms=0)


@pytest.mark.parametrize("sql", SHOWN)
def test_what_is_written_is_shown_and_read_back(sql: str) -> None:
    expr = bound(sql)
    assert show(expr, [name for name, _ in COLUMNS], whole=True) == sql
    assert bound(sql) == expr


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("a BETWEEN 1 AND 2", "a >= 1 AND a <= 2"),
        ("a = 5::int8", "a = 5::int8"),  # a cast that was asked for is no constant, until it is simplified
        ("(a)::int8 = b::int8", "a = b"),
        ("a = '5'", "a = 5"),
        ("(p AND q) AND a = 1", "p AND q AND a = 1"),
        ("NULL::int8", "NULL::int8"),
        ("5::int8", "5::int8"),
        ("(-5)::int8", "(-5)::int8"),
        ("1.50", "1.50"),
        ("'2024-01-01'::date", "'2024-01-01'::date"),
        ("'x'::text", "'x'"),
        ("coalesce(a, NULL)", "coalesce(a, NULL)"),
        ("at + interval '30 days'", "at + '30 days'"),
        ("f = 1e300", "f = 1e+300"),
    ],
)
def test_the_shortest_form_is_shown(sql: str, shown: str) -> None:
    expr = bound(sql)
    assert show(expr) == shown
    assert bound(show(expr)) == expr


def test_names() -> None:
    expr = call("=", Column(0, INT8, "Id"), Column(3, INT8))
    assert show(expr) == '"Id" = #3'
    assert show(expr, names=False) == "#0 = #3"
    assert show(expr, ["x"]) == "x = #3"
    assert identifier('a"b') == '"a""b"'


def test_long_lists_are_cut_with_a_count() -> None:
    expr = call("in", Column(0, INT8, "a"), literal(list(range(10_000)), array(INT8)))
    assert show(expr).endswith("18, 19, … 9,980 more)")
    assert bound(show(expr, whole=True)) == expr
    array_only = call("any <", Column(0, INT8, "a"), literal(list(range(10_000)), array(INT8)))
    assert show(array_only) == "a < ANY('{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19…'::int8[])"


def test_a_shared_subexpression_does_not_explode() -> None:
    expr: Expr = Column(0, TEXT, "t")
    for _ in range(60):
        expr = call("||", expr, expr)
    assert len(show(expr)) <= MAX_LENGTH


def test_values() -> None:
    assert show_value(pa.scalar("it's"), TEXT) == "'it''s'"
    assert show_value(pa.scalar(None, pa.int64()), INT8) == "NULL"
    assert show_value(pa.scalar(-5), INT8) == "-5"
    assert show_value(pa.scalar(True), BOOL) == "true"
    assert show_value(pa.scalar(float("inf")), FLOAT8) == "'Infinity'"
    assert show(null(TEXT)) == "NULL::text"
    assert show(cast(text("5"), INT8)) == "5::int8"
