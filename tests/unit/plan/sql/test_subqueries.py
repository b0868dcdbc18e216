"""Subqueries as SQL: which EXISTS becomes an IN."""

from __future__ import annotations

import pytest

from tests.unit.sql.test_general import split
from tidegate.plan import logical
from tidegate.plan.sql import SqlWriter
from tidegate.query.embedded.dialect import DuckdbDialect


def written(sql: str) -> str:
    query = split(sql)
    views = {id(rel): "view" for rel in logical.walk(query.rel) if isinstance(rel, logical.Scan)}
    dialect = DuckdbDialect(lambda expr, columns: "tg()", lambda: "true")
    return SqlWriter(query, views, dialect).whole()


@pytest.mark.parametrize(
    ("condition", "is_membership"),
    [
        ("EXISTS (SELECT 1 FROM c WHERE c.id = o.c)", True),
        ("NOT NOT EXISTS (SELECT 1 FROM c WHERE c.id = o.c)", True),
        ("EXISTS (SELECT name FROM c WHERE c.id = o.c AND country = 'de')", True),
        ("EXISTS (SELECT 1 FROM c JOIN s ON c.id = s.c WHERE c.name = s.name AND c.id = o.c)", False),
        # NOT IN would be NULL where the subquery has a NULL
        ("NOT EXISTS (SELECT 1 FROM c WHERE c.id = o.c)", False),
        ("EXISTS (SELECT 1 FROM c WHERE c.id = o.c AND c.id < o.id)", False),
        ("EXISTS (SELECT 1 FROM c WHERE c.id < o.c)", False),
        ("EXISTS (SELECT 1 FROM c WHERE c.id = o.c + 1)", False),
        ("EXISTS (SELECT 1 FROM s WHERE s.c = o.c)", False),  # int4 and int8
        (
            "(EXISTS (SELECT 1 FROM c WHERE c.id = o.c)) = (o.id > 1)",
            False,
        ),  # a value, which is false and not NULL
        ("(EXISTS (SELECT 1 FROM c WHERE c.id = o.c) OR o.id > 1)", False),
    ],
)
def test_exists_with_one_equality_is_in(condition: str, is_membership: bool) -> None:
    sql = written(f"SELECT price FROM o WHERE {condition}")
    assert (" IN (SELECT" in sql, "EXISTS" in sql) == (is_membership, not is_membership), sql
