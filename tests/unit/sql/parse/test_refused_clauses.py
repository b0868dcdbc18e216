"""Clauses that PostgreSQL has and Tidegate does not are refused by name, with what to write instead."""

import pytest

from tidegate.errors import TidegateError
from tidegate.expr.model.types import BOOL, INT4, JSONB, TEXT, TIMESTAMPTZ
from tidegate.sql.parse.grammar.statements import parse_statement

COLUMNS = [("a", INT4), ("b", INT4), ("s", TEXT), ("c", BOOL), ("j", JSONB), ("t", TIMESTAMPTZ)]


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        (
            "WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SEARCH DEPTH FIRST BY n SET o SELECT n FROM t",
            "SEARCH of a recursive",
            "path",
        ),
        (
            "WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT 2 FROM t) CYCLE n SET c USING p SELECT n FROM t",
            "CYCLE of a recursive",
            "path",
        ),
        (
            "SELECT substring('foobar' SIMILAR '%#\"o_b#\"%' ESCAPE '#')",
            "expected TO",
            "SUBSTRING … SIMILAR is not supported",
        ),
    ],
)
def test_what_postgres_has_beside_is_refused_by_name(sql: str, message: str, hint: str) -> None:
    with pytest.raises(TidegateError, match=message) as caught:
        parse_statement(sql)
    assert hint in str(caught.value.hint)
    assert caught.value.position is not None


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("BEGIN", "no transactions"),
        ("CREATE TEMP TABLE t (a int8)", "no temporary tables"),
        ("CREATE UNIQUE INDEX i ON t (a)", "CLUSTER BY"),
        ("CREATE OR REPLACE TABLE t (a int8)", "DROP TABLE IF EXISTS"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", "TRANSFORM USING"),
        ("CREATE SCHEMA s", "flat namespace"),
        ("VACUUM FULL t", "tidegate compact"),
        ("ANALYZE t", "statistics"),
        ("COPY t TO 'x.csv'", r"\copy"),
        ("DESCRIBE t", r"\d name"),
        ("GRANT SELECT ON t TO me", "--write"),
    ],
)
def test_statements_of_other_systems_have_a_hint(sql: str, hint: str) -> None:
    with pytest.raises(TidegateError, match="expected") as caught:
        parse_statement(sql)
    assert hint in str(caught.value.hint)
    assert "TRUNCATE" in str(caught.value) or "TABLE" in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "hint"),
    [("SELECT a FROM t FOR UPDATE", "locks rows"), ("SELECT a FROM t TABLESAMPLE BERNOULLI (1)", "random()")],
)
def test_clauses_behind_a_query_have_a_hint(sql: str, hint: str) -> None:
    with pytest.raises(TidegateError, match="the end of the statement") as caught:
        parse_statement(sql)
    assert hint in str(caught.value.hint)
