"""Aggregates and window functions on the embedded engine against a real PostgreSQL: equal rows, and errors where it has them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

import tidegate
from tests.differential.general_aggregates import (
    AGGREGATES,
    ERRORS,
    QUERIES,
    SETUP,
    WINDOWS,
    check,
    over_groups,
    over_rows,
)
from tests.differential.postgres import Postgres

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def db(postgres: Postgres) -> Iterator[tidegate.Database]:
    """The same tables here and in PostgreSQL."""
    postgres.connection.execute("CREATE SCHEMA aggregates; SET search_path = aggregates")
    with tidegate.open("memory://") as opened:
        for statement in SETUP:
            opened.sql(statement)
            postgres.connection.execute(statement)
        opened.set("engine", "embedded")
        yield opened
    postgres.connection.execute("DROP SCHEMA aggregates CASCADE; SET search_path = public")


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_aggregates_of_groups(db: tidegate.Database, postgres: Postgres, aggregate: str) -> None:
    for sql in over_groups(aggregate):
        check(db, postgres, sql)


@pytest.mark.parametrize("function", WINDOWS)
def test_window_functions(db: tidegate.Database, postgres: Postgres, function: str) -> None:
    check(db, postgres, over_rows(function))


@pytest.mark.parametrize("sql", QUERIES)
def test_queries_with_aggregates(db: tidegate.Database, postgres: Postgres, sql: str) -> None:
    check(db, postgres, sql)


@pytest.mark.parametrize("sql", ERRORS)
def test_errors_of_aggregates(db: tidegate.Database, postgres: Postgres, sql: str) -> None:
    with pytest.raises(psycopg.Error):
        postgres.connection.execute(sql)
    with pytest.raises(tidegate.TidegateError) as caught:
        db.sql(sql).rows()
    assert not isinstance(caught.value, tidegate.InternalError)
