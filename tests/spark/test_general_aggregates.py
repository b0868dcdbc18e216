"""Aggregates and window functions on Spark: the rows that the embedded engine gives, which a PostgreSQL confirms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.differential.general_aggregates import (
    AGGREGATES,
    QUERIES,
    SETUP,
    WINDOWS,
    alike,
    over_groups,
    over_rows,
)
from tests.differential.postgres import ours

AT_ONCE = 12
"""Aggregates of one query: a query takes Spark half a second at least."""


@pytest.fixture(scope="module")
def db(spark: SparkSession) -> Iterator[tidegate.Database]:
    """The tables of the statements."""
    del spark
    with tidegate.open("memory://") as opened:
        for statement in SETUP:
            opened.sql(statement)
        yield opened


def rows(db: tidegate.Database, sql: str, engine: str) -> tuple[list[Any], list[tuple[Any, ...]]]:
    """The types and rows of a query on an engine."""
    result = db.sql(f"{sql} OPTIONS (engine = {engine})")
    columns = [
        ours(t, column.combine_chunks()) for t, column in zip(result.types, result.columns, strict=True)
    ]
    return list(result.types), list(zip(*columns, strict=True))


def check(db: tidegate.Database, sql: str) -> None:
    """Both engines give the same rows."""
    types, mine = rows(db, sql, "spark")
    same_types, other = rows(db, sql, "embedded")
    assert types == same_types
    assert len(mine) == len(other)
    for row, expected in zip(mine, other, strict=True):
        for i, (type_, a, b) in enumerate(zip(types, row, expected, strict=True)):
            assert alike(type_, a, b), f"column {i} of {sql}: {a!r}, embedded {b!r}"


def bundles(items: Sequence[str]) -> list[str]:
    """Items, some of them at once."""
    return [", ".join(items[i : i + AT_ONCE]) for i in range(0, len(items), AT_ONCE)]


@pytest.mark.parametrize("items", bundles(AGGREGATES), ids=lambda items: items[:30])
def test_aggregates_of_groups(db: tidegate.Database, items: str) -> None:
    grouped, whole, nothing, _ = over_groups(items)
    for sql in (grouped, whole, nothing):
        check(db, sql)


@pytest.mark.parametrize("items", bundles(WINDOWS[:-1]), ids=lambda items: items[:30])
def test_window_functions(db: tidegate.Database, items: str) -> None:
    check(db, over_rows(items))


def test_queries_with_aggregates(db: tidegate.Database) -> None:
    for sql in QUERIES:
        check(db, sql)
